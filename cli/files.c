/* SPDX-License-Identifier: Apache-2.0 */
#include "cli.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cleanup.h"
#include "output.h"

#define FIRST_BYTES 65536U
#define SILENCE_MS 60000

/* False when a file that is a pipe has had nothing for too long, such as one that nobody writes to. Who
 * pipes something into stdin knows when it ends. */
static int await(int fd)
{
    struct pollfd ready = { fd, POLLIN, 0 };

    return fd == STDIN_FILENO || poll(&ready, 1, SILENCE_MS) != 0;
}

/* Reads up to limit + 1 bytes: one more than allowed tells that it was too much. */
static int read_fd(char **bytes, size_t *length, int fd, const char *name, size_t limit,
                   reposbx_error *err)
{
    size_t capacity = FIRST_BYTES, used = 0;
    RSBX_CLI_AUTO(text) char *buffer = rsbx_cli_need(malloc(capacity + 1));

    for (;;) {
        ssize_t got;

        if (used == capacity) {
            capacity *= 2;
            buffer = rsbx_cli_need(realloc(buffer, capacity + 1));
        }
        if (!await(fd))
            return rsbx_cli_set(err, REPOSBX_EIO, "nothing comes from %s", name);
        got = read(fd, buffer + used, capacity - used);
        if (got < 0 && (errno == EINTR || errno == EAGAIN))
            continue;
        if (got < 0)
            return rsbx_cli_set_errno(err, REPOSBX_EIO, "cannot read %s", name);
        if (got == 0)
            break;
        used += (size_t)got;
        if (used > limit)
            return rsbx_cli_set(err, REPOSBX_ELIMIT, "%s holds more than %zu bytes", name, limit);
    }
    buffer[used] = '\0';
    *bytes = buffer;
    buffer = NULL;
    *length = used;
    return 0;
}

int rsbx_cli_read_all(char **bytes, size_t *length, const char *file, size_t limit,
                      reposbx_error *err)
{
    RSBX_CLI_AUTO(fd) int fd = -1;

    if (strcmp(file, "-") == 0)
        return read_fd(bytes, length, STDIN_FILENO, "stdin", limit, err);
    /* Not blocking: a pipe without a writer is waited for below. */
    fd = open(file, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd < 0)
        return rsbx_cli_set_errno(
            err, errno == ENOENT || errno == ENOTDIR ? REPOSBX_ENOTFOUND : REPOSBX_EIO,
            "cannot open %s", file);
    return read_fd(bytes, length, fd, file, limit, err);
}

/* Told before any work is done, and apart from what exists. */
static int check_folder(const char *file, reposbx_error *err)
{
    const char *slash = strrchr(file, '/');
    RSBX_CLI_AUTO(text) char *folder = NULL;
    struct stat status;

    if (slash == NULL || slash == file)
        return 0;
    folder = rsbx_cli_need(strndup(file, (size_t)(slash - file)));
    if (stat(folder, &status) == 0) {
        if (S_ISDIR(status.st_mode))
            return 0;
        errno = ENOTDIR;
    }
    (void)rsbx_cli_set_errno(err, REPOSBX_EEXISTS, "cannot create %s: no folder %s", file, folder);
    rsbx_cli_hint(err, "make the folder first, or choose another one");
    return REPOSBX_EEXISTS;
}

int rsbx_cli_must_be_new(const char *file, reposbx_error *err)
{
    struct stat status;

    if (strcmp(file, "-") == 0) {
        (void)rsbx_cli_set(err, REPOSBX_EINVALID, "-o: '-' is not the name of a file");
        rsbx_cli_hint(err, "stdout is no place for it; ./- would be a file of that name");
        return REPOSBX_EINVALID;
    }
    if (lstat(file, &status) < 0)
        return check_folder(file, err);
    (void)rsbx_cli_set(err, REPOSBX_EEXISTS, "%s exists", file);
    rsbx_cli_hint(err, "choose another name or remove it: nothing is ever overwritten");
    return REPOSBX_EEXISTS;
}

static int write_all(int fd, const char *bytes, size_t length)
{
    while (length > 0) {
        ssize_t put = write(fd, bytes, length);

        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0)
            return -1;
        bytes += put;
        length -= (size_t)put;
    }
    return 0;
}

/* Makes the new name itself durable. File systems that cannot sync a folder say EINVAL. */
static int sync_folder(const char *file)
{
    RSBX_CLI_AUTO(text) char *copy = rsbx_cli_need(strdup(file));
    RSBX_CLI_AUTO(fd) int fd = open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (fd < 0)
        return errno == EACCES ? 0 : -1;
    return fsync(fd) < 0 && errno != EINVAL ? -1 : 0;
}

int rsbx_cli_write_new(const char *file, const void *bytes, size_t length, reposbx_error *err)
{
    const int flags = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW;
    RSBX_CLI_AUTO(fd) int fd = open(file, flags, 0644);

    if (fd < 0 && errno == EEXIST)
        return rsbx_cli_set(err, REPOSBX_EEXISTS, "%s exists", file);
    if (fd < 0)
        return rsbx_cli_set_errno(err, REPOSBX_EEXISTS, "cannot create %s", file);
    if (write_all(fd, bytes, length) < 0 || fsync(fd) < 0 || sync_folder(file) < 0) {
        (void)rsbx_cli_set_errno(err, REPOSBX_EIO, "cannot write %s", file);
        (void)unlink(file);
        return REPOSBX_EIO;
    }
    return 0;
}
