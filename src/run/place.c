/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "run/internal.h"

#include "base/banned.h"

/* The state folder itself was checked by whoever opened it; what is below it is ours or refused. */
static int open_own(int *out, int at_fd, const char *name, reposbx_error *err)
{
    RSBX_AUTO(rsbx_fd) int fd = -1;
    struct stat facts;

    if (mkdirat(at_fd, name, 0700) != 0 && errno != EEXIST)
        return rsbx_fail_errno(err, REPOSBX_EIO, "cannot make %s", name);
    fd = openat(at_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &facts) != 0)
        return rsbx_fail_errno(err, REPOSBX_EIO, "cannot open %s", name);
    if (facts.st_uid != geteuid() || (facts.st_mode & 022) != 0)
        return rsbx_fail(err, REPOSBX_EPOLICY, "others can write to the folder %s", name);
    *out = rsbx_fd_steal(&fd);
    return REPOSBX_OK;
}

int rsbx_run_place_open(struct rsbx_run_place *out, const char *state_dir, reposbx_error *err)
{
    RSBX_AUTO(rsbx_fd) int state_fd = open(state_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    RSBX_AUTO(rsbx_text) char *dir = NULL;
    int rc;

    if (state_fd < 0)
        return rsbx_fail_errno(err, REPOSBX_EIO, "cannot open the state folder %s", state_dir);
    if (asprintf(&dir, "%s/run", state_dir) < 0) {
        dir = NULL;
        return rsbx_fail_memory(err);
    }
    rc = open_own(&out->run_fd, state_fd, "run", err);
    if (rc == 0)
        out->dir = rsbx_text_steal(&dir);
    return rc;
}

void rsbx_run_place_close(struct rsbx_run_place *place)
{
    rsbx_fd_autop(&place->run_fd);
    free(place->dir);
    place->dir = NULL;
}

int rsbx_run_folder(int *out, const struct rsbx_run_place *place, const char *name,
                    reposbx_error *err)
{
    return open_own(out, place->run_fd, name, err);
}
