/* SPDX-License-Identifier: Apache-2.0 */
#include "audit/audit.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "audit/record.h"
#include "base/limits.h"

#include "base/banned.h"

#define PIECE_BYTES 65536U

void rsbx_lines_init(struct rsbx_lines *lines, int fd, uint64_t offset)
{
    *lines = (struct rsbx_lines){ .fd = fd,
                                  .offset = offset,
                                  .read_at = offset,
                                  .buf = RSBX_BUF_INIT(RSBX_MAX_RECORD_BYTES + 2 * PIECE_BYTES) };
}

void rsbx_lines_autop(struct rsbx_lines *lines)
{
    rsbx_buf_autop(&lines->buf);
}

/* Reads one piece more behind the bytes that are held; *got is 0 at the end of the file. */
static int refill(ssize_t *got, struct rsbx_lines *lines, reposbx_error *err)
{
    struct rsbx_buf *buf = &lines->buf;
    char *place;

    if (lines->start > 0) {
        memmove(buf->data, buf->data + lines->start, buf->length - lines->start);
        buf->length -= lines->start;
        lines->scanned -= lines->start;
        lines->start = 0;
    }
    place = rsbx_buf_reserve(buf, PIECE_BYTES, err);
    if (place == NULL)
        return REPOSBX_EINTERNAL;
    do {
        *got = pread(lines->fd, place, PIECE_BYTES, (off_t)lines->read_at);
    } while (*got < 0 && errno == EINTR);
    if (*got < 0)
        return rsbx_fail_errno(err, REPOSBX_EIO, "cannot read %s", RSBX_AUDIT_LOG);
    buf->length += (size_t)*got;
    lines->read_at += (uint64_t)*got;
    return REPOSBX_OK;
}

int rsbx_lines_next(enum rsbx_line_kind *kind, const char **line, size_t *length,
                    struct rsbx_lines *lines, reposbx_error *err)
{
    for (;;) {
        const char *data = lines->buf.data;
        const char *newline = NULL;
        size_t held = lines->buf.length - lines->start;
        ssize_t got;
        int rc;

        if (lines->scanned < lines->buf.length)
            newline = memchr(data + lines->scanned, '\n', lines->buf.length - lines->scanned);
        if (newline != NULL)
            held = (size_t)(newline - data) - lines->start;
        if (held > RSBX_MAX_RECORD_BYTES) {
            *kind = RSBX_LINE_LONG;
            return REPOSBX_OK;
        }
        if (newline != NULL) {
            *kind = RSBX_LINE_WHOLE;
            *line = data + lines->start;
            *length = held;
            lines->start += held + 1;
            lines->scanned = lines->start;
            lines->offset += held + 1;
            return REPOSBX_OK;
        }
        lines->scanned = lines->buf.length;
        rc = refill(&got, lines, err);
        if (rc != 0)
            return rc;
        if (got > 0)
            continue;
        *kind = held > 0 ? RSBX_LINE_TORN : RSBX_LINE_END;
        *line = lines->buf.data + lines->start;
        *length = held;
        return REPOSBX_OK;
    }
}

int reposbx_audit_read(const char *folder, uint64_t *offset, reposbx_audit_line line,
                       void *payload, reposbx_error *err)
{
    RSBX_AUTO(rsbx_fd) int dir_fd = -1;
    RSBX_AUTO(rsbx_fd) int fd = -1;
    RSBX_AUTO(rsbx_lines) struct rsbx_lines lines = { .fd = -1 };
    struct stat facts;

    if (folder == NULL || offset == NULL || line == NULL)
        return rsbx_fail(err, REPOSBX_EINVALID, "no folder, offset or receiver given");
    dir_fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir_fd >= 0)
        fd = openat(dir_fd, RSBX_AUDIT_LOG, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0)
        return rsbx_fail_errno(err, errno == ENOENT ? REPOSBX_ENOTFOUND : REPOSBX_EIO,
                               "cannot open the audit log in %s", folder);
    if (fstat(fd, &facts) != 0 || !S_ISREG(facts.st_mode))
        return rsbx_fail(err, REPOSBX_EIO, "the audit log in %s is not a regular file", folder);
    if (*offset > (uint64_t)facts.st_size)
        return rsbx_fail(err, REPOSBX_EIO, "the audit log in %s became shorter", folder);
    rsbx_lines_init(&lines, fd, *offset);
    for (;;) {
        enum rsbx_line_kind kind;
        const char *text;
        size_t length;
        int rc = rsbx_lines_next(&kind, &text, &length, &lines, err);

        if (rc != 0)
            return rc;
        if (kind == RSBX_LINE_LONG)
            return rsbx_fail(err, REPOSBX_EMALFORMED, "a line of the audit log is too long");
        if (kind != RSBX_LINE_WHOLE)
            return REPOSBX_OK;
        rc = line(payload, text, length);
        if (rc != 0)
            return rc;
        *offset = lines.offset;
    }
}
