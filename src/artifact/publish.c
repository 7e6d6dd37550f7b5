/* SPDX-License-Identifier: Apache-2.0 */
#include "artifact/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/fault.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/text.h"

#include "base/banned.h"

#ifndef RENAME_NOREPLACE
#define RENAME_NOREPLACE 1U
#endif

void rsbx_pending_dispose(struct rsbx_pending *pending)
{
    if (pending->temporary[0] != '\0')
        (void)unlinkat(pending->dir_fd, pending->temporary, 0);
    pending->temporary[0] = '\0';
    rsbx_fd_autop(&pending->fd);
    rsbx_fd_autop(&pending->dir_fd);
}

void rsbx_pending_autop(struct rsbx_pending *pending)
{
    int saved = errno;

    rsbx_pending_dispose(pending);
    errno = saved;
}

/* Splits into folder and last component. */
static int open_folder(struct rsbx_pending *out, const char *path, reposbx_error *err)
{
    char folder[RSBX_MAX_PATH_BYTES + 1];
    const char *slash = strrchr(path, '/');
    const char *name = slash == NULL ? path : slash + 1;
    size_t length = slash == NULL ? 0 : (size_t)(slash - path);

    if (name[0] == '\0' || strcmp(name, ".") == 0 || strcmp(name, "..") == 0 ||
        strlen(name) > RSBX_MAX_NAME_BYTES || length >= sizeof folder)
        return rsbx_fail(err, REPOSBX_EEXISTS, "%s cannot be the name of a new file", path);
    (void)snprintf(out->name, sizeof out->name, "%s", name);
    memcpy(folder, path, length);
    folder[length] = '\0';
    out->dir_fd = open(slash == NULL ? "." : length == 0 ? "/" : folder,
                       O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (out->dir_fd < 0)
        return rsbx_fail_errno(err, REPOSBX_EEXISTS, "cannot open the folder of %s", path);
    return REPOSBX_OK;
}

static int open_named(struct rsbx_pending *out)
{
    uint8_t random[8];
    char hex[17];

    if (rsbx_random(random, sizeof random, NULL) != REPOSBX_OK)
        return -1;
    rsbx_hex(hex, random, sizeof random);
    (void)snprintf(out->temporary, sizeof out->temporary, ".%s.tmp", hex);
    out->fd = openat(out->dir_fd, out->temporary, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (out->fd < 0)
        out->temporary[0] = '\0';
    return out->fd;
}

int rsbx_pending_open(struct rsbx_pending *out, const char *path, bool named, reposbx_error *err)
{
    __attribute__((cleanup(rsbx_pending_autop)))
    struct rsbx_pending pending = { .dir_fd = -1, .fd = -1 };
    struct stat found;
    int rc = open_folder(&pending, path, err);

    if (rc != REPOSBX_OK)
        return rc;
    if (fstatat(pending.dir_fd, pending.name, &found, AT_SYMLINK_NOFOLLOW) == 0)
        return rsbx_fail(err, REPOSBX_EEXISTS, "%s exists", path);
    if (errno != ENOENT)
        return rsbx_fail_errno(err, REPOSBX_EEXISTS, "cannot look at %s", path);
    if (!named)
        pending.fd = openat(pending.dir_fd, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (pending.fd < 0 && open_named(&pending) < 0)
        return rsbx_fail_errno(err, errno == ENOSPC || errno == EDQUOT ? REPOSBX_EIO
                                                                       : REPOSBX_EEXISTS,
                               "cannot create a file beside %s", path);
    if (fchmod(pending.fd, 0600) != 0) /* whatever the umask took away */
        return rsbx_fail_errno(err, REPOSBX_EIO, "cannot set the mode of %s", path);
    *out = pending;
    pending = (struct rsbx_pending){ .dir_fd = -1, .fd = -1 };
    return REPOSBX_OK;
}

static int link_unnamed(const struct rsbx_pending *pending)
{
    char path[32];

    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", pending->fd);
    return linkat(AT_FDCWD, path, pending->dir_fd, pending->name, AT_SYMLINK_FOLLOW);
}

/* A rename that never replaces; where the file system lacks it, a second name and the first one
 * taken away. */
static int move_named(struct rsbx_pending *pending)
{
    if (syscall(SYS_renameat2, pending->dir_fd, pending->temporary, pending->dir_fd, pending->name,
                RENAME_NOREPLACE) == 0) {
        pending->temporary[0] = '\0';
        return 0;
    }
    if (errno != EINVAL && errno != ENOSYS)
        return -1;
    return linkat(pending->dir_fd, pending->temporary, pending->dir_fd, pending->name, 0);
}

int rsbx_pending_publish(struct rsbx_pending *pending, reposbx_error *err)
{
    int rc;

    RSBX_FAULT("bundle_publish");
    if ((pending->temporary[0] == '\0' ? link_unnamed(pending) : move_named(pending)) != 0)
        return rsbx_fail_errno(err, errno == EEXIST ? REPOSBX_EEXISTS : REPOSBX_EIO,
                               "cannot give %s its name", pending->name);
    RSBX_FAULT("bundle_published");
    rc = rsbx_sync_fd(pending->dir_fd, "the folder of the bundle", err);
    if (rc != REPOSBX_OK)
        (void)unlinkat(pending->dir_fd, pending->name, 0);
    return rc;
}
