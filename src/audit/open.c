/* SPDX-License-Identifier: Apache-2.0 */
#include "audit/audit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "audit/log.h"
#include "base/fault.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/lister.h"

#include "base/banned.h"

/*
 * Continuing a log. The head says what was acknowledged: that record must be there, byte for byte,
 * or records were lost and the log is refused. Behind it stands at most what a crash left: whole
 * records that nobody was told of (kept) and one broken line (cut off, and told in a "recovered"
 * record). The head is made, durably, before the log: a log without one lost it, and is refused; a crash
 * between the two leaves a head of nothing and no log, which is where this begins once more.
 */

static int fail_log(reposbx_error *err, const char *reason)
{
    return rsbx_fail(err, REPOSBX_EIO, "audit: %s", reason);
}

/* Opens the log; a missing one is made, unless the head knows of records. */
static int open_log(struct rsbx_audit *audit, bool *made, uint64_t known, reposbx_error *err)
{
    const int flags = O_RDWR | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
    struct stat facts;

    audit->log_fd = openat(audit->dir_fd, RSBX_AUDIT_LOG, flags);
    *made = false;
    if (audit->log_fd < 0 && errno == ENOENT && known == 0) {
        audit->log_fd = openat(audit->dir_fd, RSBX_AUDIT_LOG, flags | O_CREAT | O_EXCL, 0600);
        *made = true;
    }
    if (audit->log_fd < 0)
        return rsbx_fail_errno(err, REPOSBX_EIO, "audit: cannot open %s", RSBX_AUDIT_LOG);
    if (fstat(audit->log_fd, &facts) != 0)
        return rsbx_fail_errno(err, REPOSBX_EIO, "audit: cannot stat %s", RSBX_AUDIT_LOG);
    if (!S_ISREG(facts.st_mode))
        return fail_log(err, "events.jsonl is not a regular file");
    return REPOSBX_OK;
}

/* Takes one good line into the audit's head, or says why it is not the next record. */
static int take_line(struct rsbx_audit *audit, const char *line, size_t length, uint64_t start,
                     reposbx_error *err)
{
    RSBX_AUTO(rsbx_record) struct rsbx_record record = { .data = NULL };
    struct rsbx_head *head = &audit->head;
    int rc = rsbx_record_parse(&record, line, length, err);

    if (rc != 0)
        return rc;
    if (record.seq != head->records || strcmp(record.prev, head->sha256) != 0)
        return rsbx_fail(err, REPOSBX_EMALFORMED, "the chain is broken at record %llu",
                         (unsigned long long)head->records);
    head->records++;
    head->start = start;
    head->end = start + length + 1;
    head->full = head->full || strcmp(record.event, RSBX_AUDIT_FULL_EVENT) == 0;
    rsbx_sha256_hex(head->sha256, line, length);
    audit->closed = strcmp(record.event, RSBX_AUDIT_CLOSED_EVENT) == 0;
    return REPOSBX_OK;
}

/* The record that the head names stands where it says. */
static int check_head(struct rsbx_audit *audit, const struct rsbx_head *wanted, reposbx_error *err)
{
    RSBX_AUTO(rsbx_lines) struct rsbx_lines lines = { .fd = -1 };
    RSBX_AUTO(rsbx_record) struct rsbx_record record = { .data = NULL };
    char sha256[RSBX_SHA256_HEX_BYTES];
    enum rsbx_line_kind kind;
    const char *line;
    size_t length;
    int rc;

    if (wanted->records == 0)
        return REPOSBX_OK;
    rsbx_lines_init(&lines, audit->log_fd, wanted->start);
    rc = rsbx_lines_next(&kind, &line, &length, &lines, err);
    if (rc != 0)
        return rc;
    if (kind != RSBX_LINE_WHOLE || lines.offset != wanted->end)
        return fail_log(err, "the log is shorter than what was acknowledged, or was changed");
    rsbx_sha256_hex(sha256, line, length);
    if (strcmp(sha256, wanted->sha256) != 0 ||
        rsbx_record_parse(&record, line, length, NULL) != 0 || record.seq + 1 != wanted->records)
        return fail_log(err, "the last acknowledged record was changed");
    audit->head = *wanted;
    audit->closed = strcmp(record.event, RSBX_AUDIT_CLOSED_EVENT) == 0;
    return REPOSBX_OK;
}

/* Reads what follows the audit's head; *cut is how many bytes at the end are no record. */
static int read_tail(uint64_t *cut, struct rsbx_audit *audit, reposbx_error *err)
{
    RSBX_AUTO(rsbx_lines) struct rsbx_lines lines = { .fd = -1 };
    struct stat facts;

    if (fstat(audit->log_fd, &facts) != 0)
        return rsbx_fail_errno(err, REPOSBX_EIO, "audit: cannot stat %s", RSBX_AUDIT_LOG);
    rsbx_lines_init(&lines, audit->log_fd, audit->head.end);
    for (;;) {
        uint64_t start = lines.offset;
        enum rsbx_line_kind kind;
        const char *line;
        size_t length;
        int rc = rsbx_lines_next(&kind, &line, &length, &lines, err);

        if (rc != 0)
            return rc;
        if (kind == RSBX_LINE_END)
            return REPOSBX_OK;
        if (audit->closed)
            return fail_log(err, "something stands behind the final record");
        if (kind == RSBX_LINE_LONG)
            return fail_log(err, "a line is longer than any record");
        if (kind == RSBX_LINE_WHOLE) {
            rc = take_line(audit, line, length, start, err);
            if (rc == 0)
                continue;
            if (rc != REPOSBX_EMALFORMED)
                return rc;
            if (lines.offset != (uint64_t)facts.st_size) {
                rsbx_context(err, "audit: record %llu", (unsigned long long)audit->head.records);
                if (err != NULL)
                    err->code = REPOSBX_EIO;
                return REPOSBX_EIO;
            }
        }
        *cut = (uint64_t)facts.st_size - audit->head.end;
        return REPOSBX_OK;
    }
}

/* The captured streams that lie beside the log already. */
static int sum_streams(uint64_t *out, int dir_fd, reposbx_error *err)
{
    RSBX_AUTO(rsbx_fd) int fd =
        openat(dir_fd, RSBX_AUDIT_STREAMS, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    RSBX_AUTO(rsbx_lister) struct rsbx_lister lister = { NULL, NULL };
    const char *name;
    uint64_t total = 0;
    int rc;

    if (fd < 0 && errno == ENOENT) {
        *out = 0;
        return REPOSBX_OK;
    }
    if (fd < 0)
        return rsbx_fail_errno(err, REPOSBX_EIO, "audit: cannot open the folder of streams");
    rc = rsbx_lister_open(&lister, fd, "the audit's folder of streams", err);
    while (rc == 0 && (rc = rsbx_lister_next(&name, &lister, err)) > 0) {
        struct stat facts;

        rc = 0;
        if (fstatat(fd, name, &facts, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(facts.st_mode))
            total += (uint64_t)facts.st_size;
    }
    if (rc == 0)
        *out = total;
    return rc;
}

static int cut_tail(struct rsbx_audit *audit, uint64_t cut, reposbx_error *err)
{
    RSBX_AUTO(rsbx_json) rsbx_json_ptr data = json_pack("{s:I}", "cut_bytes", (json_int_t)cut);
    int rc;

    if (data == NULL)
        return rsbx_fail_memory(err);
    RSBX_FAULT("audit.before_cut");
    if (ftruncate(audit->log_fd, (off_t)audit->head.end) != 0)
        return rsbx_fail_errno(err, REPOSBX_EIO, "audit: cannot cut a torn line");
    rc = rsbx_sync_fd(audit->log_fd, RSBX_AUDIT_LOG, err);
    if (rc != 0)
        return rc;
    RSBX_FAULT("audit.after_cut");
    rc = rsbx_audit_append(audit, "recovered", data, RSBX_AUDIT_FINAL, err);
    return rc == REPOSBX_ELIMIT ? REPOSBX_OK : rc; /* no room to tell, but the log is whole */
}

/* What the head says; where neither it nor a log is there, the first one. */
static int take_head(struct rsbx_head *known, const struct rsbx_audit *audit, reposbx_error *err)
{
    struct stat facts;
    int rc = rsbx_head_read(known, audit->dir_fd, err);

    if (rc == 0)
        return rc;
    if (rc != REPOSBX_ENOTFOUND)
        return rsbx_fail(err, REPOSBX_EIO, "audit: %s cannot be read or is damaged",
                         RSBX_AUDIT_HEAD);
    if (fstatat(audit->dir_fd, RSBX_AUDIT_LOG, &facts, AT_SYMLINK_NOFOLLOW) == 0)
        return fail_log(err, RSBX_AUDIT_HEAD " is missing beside the log");
    if (errno != ENOENT)
        return rsbx_fail_errno(err, REPOSBX_EIO, "audit: cannot stat %s", RSBX_AUDIT_LOG);
    *known = audit->head;
    return rsbx_head_create(audit->dir_fd, known, err);
}

static int continue_log(struct rsbx_audit *audit, reposbx_error *err)
{
    struct rsbx_head known = { .records = 0 };
    uint64_t cut = 0;
    bool made = false;
    int rc = take_head(&known, audit, err);

    if (rc == 0)
        rc = open_log(audit, &made, known.records, err);
    if (rc == 0)
        rc = check_head(audit, &known, err);
    if (rc == 0)
        rc = read_tail(&cut, audit, err);
    if (rc == 0)
        rc = sum_streams(&audit->streams_bytes, audit->dir_fd, err);
    if (rc == 0 && made)
        rc = rsbx_sync_fd(audit->log_fd, RSBX_AUDIT_LOG, err);
    if (rc == 0 && made)
        rc = rsbx_sync_fd(audit->dir_fd, "the audit folder", err);
    if (rc == 0)
        rc = rsbx_head_open(&audit->head_fd, audit->dir_fd, err);
    if (rc == 0 && cut > 0)
        rc = cut_tail(audit, cut, err);
    return rc;
}

int rsbx_audit_open(struct rsbx_audit **out, int dir_fd, uint64_t limit_bytes, reposbx_error *err)
{
    RSBX_AUTO(rsbx_audit) struct rsbx_audit *audit = calloc(1, sizeof *audit);
    int rc;

    if (audit == NULL)
        return rsbx_fail_memory(err);
    audit->dir_fd = dir_fd;
    audit->log_fd = -1;
    audit->head_fd = -1;
    audit->limit_bytes = limit_bytes;
    memcpy(audit->head.sha256, RSBX_AUDIT_ZEROS, sizeof audit->head.sha256);
    rc = rsbx_boot_id(audit->boot_id, err);
    if (rc == 0)
        rc = continue_log(audit, err);
    if (rc == 0)
        *out = rsbx_audit_steal(&audit);
    return rc;
}
