/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RSBX_GUEST_SPAWN_H
#define RSBX_GUEST_SPAWN_H

#include <sys/types.h>

#include "guest/guest.h"

/* The guest's ends of a command's descriptors; all O_CLOEXEC and O_NONBLOCK, -1 when closed. */
struct rsbx_spawned {
    pid_t pid;
    int stdin_fd;  /* -1 when the command reads /dev/null */
    int stdout_fd, stderr_fd;
    int error_fd;  /* errno as an int when execve failed, end of file when it worked */
};

/* Starts the request's argv; fails the request when not even a child can be made. */
void rsbx_spawn(struct rsbx_guest *guest, struct rsbx_spawned *out);
/* The errno of a failed execve, 0 when it worked; only after the child has ended. */
int rsbx_spawn_error(const struct rsbx_spawned *spawned);

#endif
