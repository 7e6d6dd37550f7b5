/* SPDX-License-Identifier: Apache-2.0 */
#include "audit/audit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "audit/log.h"
#include "base/fd.h"
#include "base/text.h"

#include "base/banned.h"

struct rsbx_capture {
    int fd, folder_fd;
    struct rsbx_sha256 *hash;
    uint64_t bytes;
    char sha256[RSBX_SHA256_HEX_BYTES];
    bool sealed, broken;
};

typedef struct rsbx_capture *rsbx_capture_ptr;
RSBX_CLEANUP(rsbx_capture, rsbx_capture_ptr, rsbx_capture_free);

void rsbx_capture_free(struct rsbx_capture *capture)
{
    if (capture == NULL)
        return;
    rsbx_fd_autop(&capture->fd);
    rsbx_fd_autop(&capture->folder_fd);
    rsbx_sha256_free(capture->hash);
    free(capture);
}

static bool name_good(const char *name)
{
    static const char letters[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    size_t length = strnlen(name, 201);

    return length > 0 && length <= 200 && name[0] != '.' && strspn(name, letters) == length;
}

static int open_folder(int *out, int dir_fd, reposbx_error *err)
{
    bool made = mkdirat(dir_fd, RSBX_AUDIT_STREAMS, 0700) == 0;
    int fd;
    int rc;

    if (!made && errno != EEXIST)
        return rsbx_fail_errno(err, REPOSBX_EIO, "audit: cannot make the folder of streams");
    if (made) {
        rc = rsbx_sync_fd(dir_fd, "the audit folder", err);
        if (rc != 0)
            return rc;
    }
    fd = openat(dir_fd, RSBX_AUDIT_STREAMS, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return rsbx_fail_errno(err, REPOSBX_EIO, "audit: cannot open the folder of streams");
    *out = fd;
    return REPOSBX_OK;
}

int rsbx_capture_open(struct rsbx_capture **out, struct rsbx_audit *audit, const char *name,
                      reposbx_error *err)
{
    RSBX_AUTO(rsbx_capture) struct rsbx_capture *capture = NULL;
    int rc;

    if (!name_good(name))
        return rsbx_fail(err, REPOSBX_EINVALID, "audit: no name for a stream: %s", name);
    capture = calloc(1, sizeof *capture);
    if (capture == NULL)
        return rsbx_fail_memory(err);
    capture->fd = -1;
    capture->folder_fd = -1;
    rc = rsbx_sha256_new(&capture->hash, err);
    if (rc == 0)
        rc = open_folder(&capture->folder_fd, audit->dir_fd, err);
    if (rc != 0)
        return rc;
    capture->fd = openat(capture->folder_fd, name,
                         O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (capture->fd < 0)
        return rsbx_fail_errno(err, errno == EEXIST ? REPOSBX_EEXISTS : REPOSBX_EIO,
                               "audit: cannot make the stream %s", name);
    *out = rsbx_capture_steal(&capture);
    return REPOSBX_OK;
}

int rsbx_capture_write(struct rsbx_capture *capture, const void *bytes, size_t length,
                       reposbx_error *err)
{
    if (capture->broken || capture->sealed)
        return rsbx_fail(err, REPOSBX_EIO, "audit: the stream takes no more bytes");
    if (rsbx_write_all(capture->fd, bytes, length) != 0) {
        (void)rsbx_fail_errno(err, REPOSBX_EIO, "audit: cannot write a captured stream");
        /* Back to the last piece that is counted: what was captured can still be sealed. */
        if (ftruncate(capture->fd, (off_t)capture->bytes) != 0)
            capture->broken = true;
        return REPOSBX_EIO;
    }
    rsbx_sha256_update(capture->hash, bytes, length);
    capture->bytes += length;
    return REPOSBX_OK;
}

int rsbx_capture_seal(uint64_t *bytes, char sha256[65], struct rsbx_capture *capture,
                      reposbx_error *err)
{
    uint8_t digest[RSBX_SHA256_BYTES];
    struct stat facts;
    int rc;

    if (capture->broken)
        return rsbx_fail(err, REPOSBX_EIO, "audit: an earlier failure left the stream in doubt");
    if (!capture->sealed) {
        capture->broken = true;
        if (fstat(capture->fd, &facts) != 0)
            return rsbx_fail_errno(err, REPOSBX_EIO, "audit: cannot stat a captured stream");
        if ((uint64_t)facts.st_size != capture->bytes)
            return rsbx_fail(err, REPOSBX_EIO, "audit: a captured stream was changed");
        rc = rsbx_sync_fd(capture->fd, "a captured stream", err);
        if (rc == 0)
            rc = rsbx_sync_fd(capture->folder_fd, "the folder of streams", err);
        if (rc != 0)
            return rc;
        rsbx_sha256_finish(capture->hash, digest);
        rsbx_hex(capture->sha256, digest, sizeof digest);
        capture->sealed = true;
        capture->broken = false;
    }
    *bytes = capture->bytes;
    memcpy(sha256, capture->sha256, sizeof capture->sha256);
    return REPOSBX_OK;
}
