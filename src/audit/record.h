/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RSBX_AUDIT_RECORD_H
#define RSBX_AUDIT_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/clock.h"
#include "codec/json.h"
#include "codec/sha256.h"

/* What the files of this room share: the line, the reader of lines, the head. Private to this
 * room. */

#define RSBX_AUDIT_LOG "events.jsonl"
#define RSBX_AUDIT_HEAD "head.json"
#define RSBX_AUDIT_STREAMS "streams"
#define RSBX_AUDIT_CLOSED_EVENT "sandbox_closed"
#define RSBX_AUDIT_FULL_EVENT "audit_full"
#define RSBX_AUDIT_ZEROS "0000000000000000000000000000000000000000000000000000000000000000"

/* ---- the line ---- */

#define RSBX_EVENT_BYTES 64U /* with NUL */

struct rsbx_record {
    uint64_t seq;
    char time[RSBX_TIME_BYTES];
    uint64_t monotonic_ns;
    char boot_id[RSBX_BOOT_ID_BYTES];
    char event[RSBX_EVENT_BYTES];
    json_t *data; /* an object */
    char prev[RSBX_SHA256_HEX_BYTES];
};

void rsbx_record_autop(struct rsbx_record *record);

/* [a-z][a-z0-9_]*, below RSBX_EVENT_BYTES. */
bool rsbx_event_good(const char *event);

/* Appends the line without a newline to out, whose limit bounds it (REPOSBX_ELIMIT). What could not
 * be read back as the same value (nesting too deep) is REPOSBX_EINVALID. */
int rsbx_record_write(struct rsbx_buf *out, const struct rsbx_record *record, reposbx_error *err);

/* Reads a line; the record owns its data. Not one of ours, or changed since it was written:
 * REPOSBX_EMALFORMED. */
int rsbx_record_parse(struct rsbx_record *out, const char *line, size_t length,
                      reposbx_error *err);

/* ---- lines of a file ---- */

enum rsbx_line_kind {
    RSBX_LINE_END,   /* nothing follows */
    RSBX_LINE_WHOLE, /* with its newline */
    RSBX_LINE_TORN,  /* bytes without a newline at the end of the file */
    RSBX_LINE_LONG   /* over RSBX_MAX_RECORD_BYTES: reading stops here */
};

struct rsbx_lines {
    int fd; /* borrowed */
    uint64_t offset;   /* of the next line in the file */
    uint64_t read_at;
    struct rsbx_buf buf;
    size_t start, scanned;
};

/* From byte `offset` of the file on. */
void rsbx_lines_init(struct rsbx_lines *lines, int fd, uint64_t offset);
void rsbx_lines_autop(struct rsbx_lines *lines);
/* The next line, valid until the next call. `offset` then stands behind it. */
int rsbx_lines_next(enum rsbx_line_kind *kind, const char **line, size_t *length,
                    struct rsbx_lines *lines, reposbx_error *err);

/* ---- the head ---- */

/*
 * FOLDER/head.json says how far the log was acknowledged. It is overwritten in place, within one
 * disk sector, after the record is durable, and not synced itself: it may be behind the log, never
 * ahead of it. So a log that ends before it has lost records, which a chain alone cannot show, and
 * bytes behind it may be what a crash left of a record that nobody was told of.
 */
struct rsbx_head {
    uint64_t records;
    uint64_t start, end; /* the last record, `end` behind its newline; 0 when there is none */
    bool full;           /* "audit_full" is in the log */
    char sha256[RSBX_SHA256_HEX_BYTES]; /* of the last line */
};

#define RSBX_HEAD_BYTES 256U

/* Makes the first head, durably. */
int rsbx_head_create(int dir_fd, const struct rsbx_head *head, reposbx_error *err);
int rsbx_head_open(int *out_fd, int dir_fd, reposbx_error *err);
int rsbx_head_write(int fd, const struct rsbx_head *head, reposbx_error *err);
/* REPOSBX_ENOTFOUND when there is none, REPOSBX_EMALFORMED when it is damaged. */
int rsbx_head_read(struct rsbx_head *out, int dir_fd, reposbx_error *err);

#endif
