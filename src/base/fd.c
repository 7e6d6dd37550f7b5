/* SPDX-License-Identifier: Apache-2.0 */
#include "base/fd.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/text.h"

#include "base/banned.h"

int rsbx_write_all(int fd, const void *bytes, size_t length)
{
    const char *p = bytes;

    while (length > 0) {
        ssize_t written = write(fd, p, length);

        if (written < 0) {
            if (errno == EINTR)
                continue;
            return -1;
        }
        p += written;
        length -= (size_t)written;
    }
    return 0;
}

ssize_t rsbx_read_full(int fd, void *bytes, size_t length)
{
    char *p = bytes;
    size_t done = 0;

    while (done < length) {
        ssize_t got = read(fd, p + done, length - done);

        if (got < 0) {
            if (errno == EINTR)
                continue;
            return -1;
        }
        if (got == 0)
            break;
        done += (size_t)got;
    }
    return (ssize_t)done;
}

int rsbx_read_small(char *out, size_t size, const char *path, reposbx_error *err)
{
    RSBX_AUTO(rsbx_fd) int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got;

    if (fd < 0)
        return rsbx_fail_errno(err, errno == ENOENT ? REPOSBX_ENOTFOUND : REPOSBX_EIO,
                               "cannot open %s", path);
    got = rsbx_read_full(fd, out, size - 1);
    if (got < 0)
        return rsbx_fail_errno(err, errno == ESRCH ? REPOSBX_ENOTFOUND : REPOSBX_EIO,
                               "cannot read %s", path);
    out[got] = '\0';
    return REPOSBX_OK;
}

int rsbx_read_file_at(struct rsbx_buf *out, int dir_fd, const char *name, reposbx_error *err)
{
    return rsbx_read_file_from(out, dir_fd, name, 0, err);
}

int rsbx_read_file_from(struct rsbx_buf *out, int dir_fd, const char *name, off_t from,
                        reposbx_error *err)
{
    RSBX_AUTO(rsbx_fd) int fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    struct stat facts;

    if (fd < 0)
        return rsbx_fail_errno(err, errno == ENOENT ? REPOSBX_ENOTFOUND : REPOSBX_EIO,
                               "cannot open %s", name);
    if (fstat(fd, &facts) != 0)
        return rsbx_fail_errno(err, REPOSBX_EIO, "cannot stat %s", name);
    if (!S_ISREG(facts.st_mode))
        return rsbx_fail(err, REPOSBX_EIO, "%s is not a regular file", name);
    if (from > 0 && lseek(fd, from, SEEK_SET) < 0)
        return rsbx_fail_errno(err, REPOSBX_EIO, "cannot read %s", name);
    for (;;) {
        char piece[65536];
        ssize_t got = rsbx_read_full(fd, piece, sizeof piece);
        int rc;

        if (got < 0)
            return rsbx_fail_errno(err, REPOSBX_EIO, "cannot read %s", name);
        if (got == 0)
            return REPOSBX_OK;
        rc = rsbx_buf_append(out, piece, (size_t)got, err);
        if (rc != 0) {
            rsbx_context(err, "%s", name);
            return rc;
        }
    }
}

int rsbx_sync_fd(int fd, const char *what, reposbx_error *err)
{
    if (fsync(fd) != 0)
        return rsbx_fail_errno(err, REPOSBX_EIO, "cannot sync %s", what);
    return REPOSBX_OK;
}

int rsbx_replace_file_at(int dir_fd, const char *name, const void *bytes, size_t length,
                         reposbx_error *err)
{
    RSBX_AUTO(rsbx_text) char *temporary = NULL;
    RSBX_AUTO(rsbx_fd) int fd = -1;
    unsigned char salt[8];
    char suffix[2 * sizeof salt + 1];
    int rc = rsbx_random(salt, sizeof salt, err);

    if (rc != 0)
        return rc;
    rsbx_hex(suffix, salt, sizeof salt);
    if (asprintf(&temporary, "%s.%s.tmp", name, suffix) < 0) {
        temporary = NULL;
        return rsbx_fail_memory(err);
    }
    fd = openat(dir_fd, temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return rsbx_fail_errno(err, REPOSBX_EIO, "cannot create %s", temporary);
    if (rsbx_write_all(fd, bytes, length) != 0 || fsync(fd) != 0 ||
        renameat(dir_fd, temporary, dir_fd, name) != 0) {
        rc = rsbx_fail_errno(err, REPOSBX_EIO, "cannot write %s", name);
        (void)unlinkat(dir_fd, temporary, 0);
        return rc;
    }
    return rsbx_sync_fd(dir_fd, "the folder", err);
}

/* Removes the content of a folder level by level: whenever a subfolder that is not empty is met,
 * the walk goes down into it by openat and starts again from the top after it is gone. */
static int remove_folder(int dir_fd, const char *name, reposbx_error *err)
{
    for (;;) {
        RSBX_AUTO(rsbx_fd) int at_fd = -1;
        int parent_fd = dir_fd;
        char leaf[256];

        (void)snprintf(leaf, sizeof leaf, "%s", name);
        for (;;) {
            int next_fd =
                openat(parent_fd, leaf, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
            DIR *folder;
            struct dirent *entry;
            char deeper[256] = "";

            if (next_fd < 0)
                return rsbx_fail_errno(err, REPOSBX_EIO, "cannot open %s", leaf);
            folder = fdopendir(dup(next_fd));
            if (folder == NULL) {
                (void)close(next_fd);
                return rsbx_fail_errno(err, REPOSBX_EIO, "cannot list %s", leaf);
            }
            while (deeper[0] == '\0' && (entry = readdir(folder)) != NULL) {
                if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
                    continue;
                if (unlinkat(next_fd, entry->d_name, 0) == 0 || errno == ENOENT)
                    continue;
                if (unlinkat(next_fd, entry->d_name, AT_REMOVEDIR) == 0)
                    continue;
                (void)snprintf(deeper, sizeof deeper, "%s", entry->d_name);
            }
            (void)closedir(folder);
            if (deeper[0] == '\0') {
                (void)close(next_fd);
                if (unlinkat(parent_fd, leaf, AT_REMOVEDIR) != 0)
                    return rsbx_fail_errno(err, REPOSBX_EIO, "cannot remove %s", leaf);
                if (parent_fd == dir_fd)
                    return REPOSBX_OK;
                break;
            }
            if (at_fd >= 0)
                (void)close(at_fd);
            at_fd = next_fd;
            parent_fd = next_fd;
            (void)snprintf(leaf, sizeof leaf, "%s", deeper);
        }
    }
}

int rsbx_remove_tree_at(int dir_fd, const char *name, reposbx_error *err)
{
    if (unlinkat(dir_fd, name, 0) == 0 || errno == ENOENT)
        return REPOSBX_OK;
    if (unlinkat(dir_fd, name, AT_REMOVEDIR) == 0)
        return REPOSBX_OK;
    return remove_folder(dir_fd, name, err);
}

int rsbx_random(void *out, size_t length, reposbx_error *err)
{
    char *p = out;

    while (length > 0) {
        ssize_t got = getrandom(p, length, 0);

        if (got < 0) {
            if (errno == EINTR)
                continue;
            return rsbx_fail_errno(err, REPOSBX_EINTERNAL, "no random bytes");
        }
        p += got;
        length -= (size_t)got;
    }
    return REPOSBX_OK;
}

int rsbx_wait_fd(int fd, short events, struct rsbx_deadline deadline)
{
    for (;;) {
        struct pollfd wait[2] = {
            { .fd = fd, .events = events },
            { .fd = rsbx_deadline_cancel_fd(deadline), .events = POLLIN },
        };
        int ready = poll(wait, 2, rsbx_deadline_left_ms(deadline));

        if (ready > 0)
            return wait[1].revents == 0;
        if (ready < 0 && errno != EINTR)
            return -1;
        if (rsbx_deadline_passed(deadline))
            return 0;
    }
}

#define LOCK_POLL_NS 2000000L

int rsbx_wait_lock(int fd, int operation, struct rsbx_deadline deadline)
{
    while (flock(fd, operation | LOCK_NB) != 0) {
        const struct timespec pause = { .tv_nsec = LOCK_POLL_NS };

        if (errno != EWOULDBLOCK && errno != EINTR)
            return -1;
        if (rsbx_deadline_passed(deadline) || rsbx_deadline_cancelled(deadline))
            return 0;
        (void)nanosleep(&pause, NULL);
    }
    return 1;
}
