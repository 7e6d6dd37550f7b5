/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPOSBX_AUDIT_H
#define REPOSBX_AUDIT_H

#include <stddef.h>
#include <stdint.h>

#include <reposbx/error.h>

/* Reading audit logs. A log is a folder with events.jsonl: one ASCII line a record, each with the
 * hash of the line before it. */

#ifdef __cplusplus
extern "C" {
#endif

enum reposbx_audit_verdict {
    REPOSBX_AUDIT_WHOLE = 0,    /* every record in place, closed by its final record */
    REPOSBX_AUDIT_OPEN = 1,     /* every record in place, no final record yet */
    REPOSBX_AUDIT_TORN = 2,     /* the last line is cut: a crash while it was written */
    REPOSBX_AUDIT_TAMPERED = 3  /* a record is changed, missing, moved or added, or head.json is not there */
};

typedef struct reposbx_audit_report {
    int verdict;                /* enum reposbx_audit_verdict */
    uint64_t records;           /* good records from the start */
    uint64_t bad_line;          /* line of the first bad record, from 1; 0 when there is none */
    char head[65];              /* hash of the last good record, hex; 64 zeros when there is none */
    char reason[256];           /* of the first bad record */
    uint64_t streams_checked;   /* captured stream files whose size and hash were compared */
} reposbx_audit_report;

/* Verifies the log in `folder` (a session's audit folder). Also compares the captured streams
 * beside it with the hashes in their records. A verdict is an answer, not an error: fails only when
 * the folder cannot be read (REPOSBX_ENOTFOUND, REPOSBX_EIO). */
int reposbx_audit_verify(reposbx_audit_report *out, const char *folder, reposbx_error *err);

/* One line of the log without its newline. Not 0 stops and is returned. */
typedef int (*reposbx_audit_line)(void *payload, const char *line, size_t length);

/* Hands out every whole line from byte *offset on and moves *offset behind the last one. */
int reposbx_audit_read(const char *folder, uint64_t *offset, reposbx_audit_line line, void *payload,
                       reposbx_error *err);

#ifdef __cplusplus
}
#endif
#endif
