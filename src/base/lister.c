/* SPDX-License-Identifier: Apache-2.0 */
#include "base/lister.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "base/banned.h"

int rsbx_lister_open(struct rsbx_lister *out, int dir_fd, const char *what, reposbx_error *err)
{
    RSBX_AUTO(rsbx_fd) int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *stream = fd >= 0 ? fdopendir(fd) : NULL;

    if (stream == NULL)
        return rsbx_fail_errno(err, REPOSBX_EIO, "cannot list %s", what);
    (void)rsbx_fd_steal(&fd); /* the stream's now */
    *out = (struct rsbx_lister){ .stream = stream, .what = what };
    return REPOSBX_OK;
}

int rsbx_lister_next(const char **name, struct rsbx_lister *lister, reposbx_error *err)
{
    for (;;) {
        const struct dirent *entry;

        errno = 0; /* the only sign of a failure */
        entry = readdir(lister->stream);
        if (entry == NULL)
            return errno == 0 ? 0 : rsbx_fail_errno(err, REPOSBX_EIO, "cannot list %s", lister->what);
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        *name = entry->d_name;
        return 1;
    }
}
