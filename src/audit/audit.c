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
#include "base/limits.h"

#include "base/banned.h"

void rsbx_audit_free(struct rsbx_audit *audit)
{
    if (audit == NULL)
        return;
    rsbx_fd_autop(&audit->log_fd);
    rsbx_fd_autop(&audit->head_fd);
    free(audit);
}

uint64_t rsbx_audit_count(const struct rsbx_audit *audit)
{
    return audit->head.records;
}

const char *rsbx_audit_head(const struct rsbx_audit *audit)
{
    return audit->head.sha256;
}

/* ---- room ---- */

/* What is left of the limit, the reserve counted in or not. */
static uint64_t room(const struct rsbx_audit *audit, enum rsbx_audit_weight weight)
{
    uint64_t used = audit->head.end + audit->streams_bytes;
    uint64_t kept = weight == RSBX_AUDIT_FINAL ? 0 : RSBX_AUDIT_RESERVE_BYTES;

    if (audit->limit_bytes < kept || audit->limit_bytes - kept < used)
        return 0;
    return audit->limit_bytes - kept - used;
}

uint64_t rsbx_audit_left(const struct rsbx_audit *audit)
{
    if (audit->broken || audit->closed || audit->head.full)
        return 0;
    return room(audit, RSBX_AUDIT_ORDINARY);
}

static int fail_full(const struct rsbx_audit *audit, reposbx_error *err)
{
    return rsbx_fail(err, REPOSBX_ELIMIT, "audit: the log's %llu bytes are used up",
                     (unsigned long long)audit->limit_bytes);
}

static int fail_broken(reposbx_error *err)
{
    return rsbx_fail(err, REPOSBX_EIO,
                     "audit: an earlier failure left the log in doubt; nothing more is written");
}

int rsbx_audit_charge(struct rsbx_audit *audit, uint64_t bytes, reposbx_error *err)
{
    if (audit->broken)
        return fail_broken(err);
    if (bytes > rsbx_audit_left(audit))
        return fail_full(audit, err);
    audit->streams_bytes += bytes;
    return REPOSBX_OK;
}

/* ---- one line ---- */

/* Whether dir_fd/name is the file that is open as fd, whose facts are given out. */
static int same_file(struct stat *out, int dir_fd, const char *name, int fd, reposbx_error *err)
{
    struct stat open_file, named_file;

    if (fstat(fd, &open_file) != 0)
        return rsbx_fail_errno(err, REPOSBX_EIO, "audit: cannot stat %s", name);
    if (fstatat(dir_fd, name, &named_file, AT_SYMLINK_NOFOLLOW) != 0)
        return rsbx_fail_errno(err, REPOSBX_EIO, "audit: %s is gone", name);
    if (named_file.st_dev != open_file.st_dev || named_file.st_ino != open_file.st_ino)
        return rsbx_fail(err, REPOSBX_EIO, "audit: %s was replaced by another file", name);
    *out = open_file;
    return REPOSBX_OK;
}

static int same_files(const struct rsbx_audit *audit, reposbx_error *err)
{
    struct stat facts;
    int rc = same_file(&facts, audit->dir_fd, RSBX_AUDIT_HEAD, audit->head_fd, err);

    if (rc == 0)
        rc = same_file(&facts, audit->dir_fd, RSBX_AUDIT_LOG, audit->log_fd, err);
    if (rc == 0 && (uint64_t)facts.st_size != audit->head.end)
        rc = rsbx_fail(err, REPOSBX_EIO, "audit: the log has %llu bytes, not the %llu written",
                       (unsigned long long)facts.st_size, (unsigned long long)audit->head.end);
    return rc;
}

/* The line in one write where the kernel takes it whole. What a failed write left is cut off again,
 * so that the log stays a list of whole lines even then. */
static int write_line(const struct rsbx_audit *audit, const struct rsbx_buf *line,
                      reposbx_error *err)
{
    size_t done = 0;

    while (done < line->length) {
        ssize_t written = write(audit->log_fd, line->data + done, line->length - done);

        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0) {
            if (written == 0)
                errno = EIO;
            (void)rsbx_fail_errno(err, REPOSBX_EIO, "audit: cannot write a record");
            if (ftruncate(audit->log_fd, (off_t)audit->head.end) == 0)
                (void)fdatasync(audit->log_fd);
            return REPOSBX_EIO;
        }
        done += (size_t)written;
    }
    return REPOSBX_OK;
}

/* Makes the line durable and then known. Marks the audit broken when it fails. */
static int commit(struct rsbx_audit *audit, struct rsbx_buf *line, const char *event,
                  reposbx_error *err)
{
    struct rsbx_head head = audit->head;
    int rc;

    head.records++;
    head.start = head.end;
    head.end += line->length + 1;
    head.full = head.full || strcmp(event, RSBX_AUDIT_FULL_EVENT) == 0;
    rsbx_sha256_hex(head.sha256, line->data, line->length);
    rc = rsbx_buf_append(line, "\n", 1, err);
    if (rc != 0)
        return rc;
    audit->broken = true;
    rc = same_files(audit, err);
    if (rc != 0)
        return rc;
    RSBX_FAULT("audit.before_write");
    rc = write_line(audit, line, err);
    if (rc != 0)
        return rc;
    RSBX_FAULT("audit.after_write");
    if (fdatasync(audit->log_fd) != 0)
        return rsbx_fail_errno(err, REPOSBX_EIO, "audit: cannot sync the log");
    RSBX_FAULT("audit.after_sync");
    rc = rsbx_head_write(audit->head_fd, &head, err);
    if (rc != 0)
        return rc;
    RSBX_FAULT("audit.after_head");
    audit->broken = false;
    audit->head = head;
    audit->closed = strcmp(event, RSBX_AUDIT_CLOSED_EVENT) == 0;
    return REPOSBX_OK;
}

static int build(struct rsbx_buf *line, const struct rsbx_audit *audit, const char *event,
                 const json_t *data, reposbx_error *err)
{
    /* The record borrows its data; it is only read. */
    struct rsbx_record record = { .seq = audit->head.records,
                                  .monotonic_ns = rsbx_now_ns(),
                                  .data = (json_t *)(uintptr_t)data };

    if (!rsbx_event_good(event))
        return rsbx_fail(err, REPOSBX_EINVALID, "audit: no event name");
    rsbx_time_text(record.time, rsbx_wall_ns());
    memcpy(record.boot_id, audit->boot_id, sizeof record.boot_id);
    memcpy(record.event, event, strlen(event) + 1);
    memcpy(record.prev, audit->head.sha256, sizeof record.prev);
    return rsbx_record_write(line, &record, err);
}

/* The record that says why the log ends. */
static int write_full(struct rsbx_audit *audit, const char *event, size_t bytes,
                      reposbx_error *err)
{
    RSBX_AUTO(rsbx_buf) struct rsbx_buf line = RSBX_BUF_INIT(RSBX_AUDIT_RESERVE_BYTES);
    RSBX_AUTO(rsbx_json) rsbx_json_ptr data =
        json_pack("{s:I, s:I, s:s, s:I}", "limit_bytes", (json_int_t)audit->limit_bytes,
                  "used_bytes", (json_int_t)(audit->head.end + audit->streams_bytes),
                  "refused_event", event, "refused_bytes", (json_int_t)bytes);
    int rc;

    if (data == NULL)
        return rsbx_fail_memory(err);
    rc = build(&line, audit, RSBX_AUDIT_FULL_EVENT, data, err);
    if (rc == 0 && line.length + 1 > room(audit, RSBX_AUDIT_FINAL))
        return REPOSBX_OK; /* not even this: the closing records keep what is left */
    if (rc == 0)
        rc = commit(audit, &line, RSBX_AUDIT_FULL_EVENT, err);
    return rc;
}

int rsbx_audit_append(struct rsbx_audit *audit, const char *event, const json_t *data,
                      enum rsbx_audit_weight weight, reposbx_error *err)
{
    RSBX_AUTO(rsbx_buf) struct rsbx_buf line = RSBX_BUF_INIT(RSBX_MAX_RECORD_BYTES);
    int rc;

    if (audit->broken)
        return fail_broken(err);
    /* Whoever was killed behind its final record may write it again: it is there. */
    if (audit->closed && strcmp(event, RSBX_AUDIT_CLOSED_EVENT) == 0)
        return REPOSBX_OK;
    if (audit->closed)
        return rsbx_fail(err, REPOSBX_ECLOSED, "audit: the log has its final record");
    rc = build(&line, audit, event, data, err);
    if (rc != 0)
        return rc;
    if (line.length + 1 > line.limit)
        return rsbx_fail(err, REPOSBX_ELIMIT, "a record of more than %zu bytes", line.limit);
    if (weight == RSBX_AUDIT_ORDINARY &&
        (audit->head.full || line.length + 1 > room(audit, weight))) {
        rc = audit->head.full ? REPOSBX_OK : write_full(audit, event, line.length + 1, err);
        return rc != 0 ? rc : fail_full(audit, err);
    }
    if (line.length + 1 > room(audit, weight))
        return fail_full(audit, err);
    return commit(audit, &line, event, err);
}
