/* SPDX-License-Identifier: Apache-2.0 */
#include "audit/record.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/text.h"

#include "base/banned.h"

/* One text for one head, always of the same size, so that it can be overwritten in place. */
static void format_head(char out[RSBX_HEAD_BYTES], const struct rsbx_head *head)
{
    int length;

    memset(out, ' ', RSBX_HEAD_BYTES);
    length = snprintf(out, RSBX_HEAD_BYTES,
                      "{\"records\":%llu,\"start\":%llu,\"end\":%llu,\"full\":%s,"
                      "\"sha256\":\"%s\"}",
                      (unsigned long long)head->records, (unsigned long long)head->start,
                      (unsigned long long)head->end, head->full ? "true" : "false", head->sha256);
    out[length] = ' '; /* the longest has some 190 bytes */
    out[RSBX_HEAD_BYTES - 1] = '\n';
}

int rsbx_head_create(int dir_fd, const struct rsbx_head *head, reposbx_error *err)
{
    char text[RSBX_HEAD_BYTES];

    format_head(text, head);
    return rsbx_replace_file_at(dir_fd, RSBX_AUDIT_HEAD, text, sizeof text, err);
}

int rsbx_head_open(int *out_fd, int dir_fd, reposbx_error *err)
{
    RSBX_AUTO(rsbx_fd) int fd =
        openat(dir_fd, RSBX_AUDIT_HEAD, O_WRONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    struct stat facts;

    if (fd < 0)
        return rsbx_fail_errno(err, REPOSBX_EIO, "cannot open %s", RSBX_AUDIT_HEAD);
    if (fstat(fd, &facts) != 0 || !S_ISREG(facts.st_mode))
        return rsbx_fail(err, REPOSBX_EIO, "%s is not a regular file", RSBX_AUDIT_HEAD);
    *out_fd = rsbx_fd_steal(&fd);
    return REPOSBX_OK;
}

int rsbx_head_write(int fd, const struct rsbx_head *head, reposbx_error *err)
{
    char text[RSBX_HEAD_BYTES];
    ssize_t written;

    format_head(text, head);
    do {
        written = pwrite(fd, text, sizeof text, 0);
    } while (written < 0 && errno == EINTR);
    if (written < 0)
        return rsbx_fail_errno(err, REPOSBX_EIO, "cannot write %s", RSBX_AUDIT_HEAD);
    if (written != (ssize_t)sizeof text)
        return rsbx_fail(err, REPOSBX_EIO, "cannot write all of %s", RSBX_AUDIT_HEAD);
    return REPOSBX_OK;
}

static int damaged(reposbx_error *err)
{
    return rsbx_fail(err, REPOSBX_EMALFORMED, "%s is damaged", RSBX_AUDIT_HEAD);
}

int rsbx_head_read(struct rsbx_head *out, int dir_fd, reposbx_error *err)
{
    RSBX_AUTO(rsbx_buf) struct rsbx_buf text = RSBX_BUF_INIT(RSBX_HEAD_BYTES);
    RSBX_AUTO(rsbx_json) rsbx_json_ptr object = NULL;
    struct rsbx_head head = { .records = 0 };
    char again[RSBX_HEAD_BYTES];
    const char *sha256;
    int rc = rsbx_read_file_at(&text, dir_fd, RSBX_AUDIT_HEAD, err);

    if (rc == REPOSBX_ELIMIT)
        return damaged(err);
    if (rc != 0)
        return rc;
    if (text.length != RSBX_HEAD_BYTES ||
        rsbx_json_parse(&object, text.data, text.length, RSBX_AUDIT_HEAD, NULL) != 0 ||
        rsbx_json_get_u64(&head.records, object, "records", "", NULL) != 0 ||
        rsbx_json_get_u64(&head.start, object, "start", "", NULL) != 0 ||
        rsbx_json_get_u64(&head.end, object, "end", "", NULL) != 0 ||
        rsbx_json_get_bool(&head.full, object, "full", "", NULL) != 0 ||
        rsbx_json_get_text(&sha256, object, "sha256", "", NULL) != 0 || !rsbx_is_hex(sha256, 64))
        return damaged(err);
    memcpy(head.sha256, sha256, sizeof head.sha256);
    format_head(again, &head);
    if (memcmp(again, text.data, RSBX_HEAD_BYTES) != 0)
        return damaged(err);
    *out = head;
    return REPOSBX_OK;
}
