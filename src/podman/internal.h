/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RSBX_PODMAN_INTERNAL_H
#define RSBX_PODMAN_INTERNAL_H

#include <sys/types.h>

#include "podman/podman.h"

/* What is kept of a podman process's stderr: an error is a line or two. */
#define RSBX_PODMAN_STDERR_BYTES 16384U

struct rsbx_podman {
    char *program;
    char **flags;       /* NULL-ended */
    char **environment; /* NULL-ended */
};

/* One running process. */
struct rsbx_podman_process {
    pid_t pid;     /* 0 once reaped */
    int pid_fd;    /* readable when it has ended */
    int stream_fd; /* its stdin and stdout; ours does not block */
    int stderr_fd; /* a memory file of fixed size: writing to it never blocks and never grows */
};
#define RSBX_PODMAN_PROCESS_INIT { 0, -1, -1, -1 }

/* `tmpdir` NULL: podman's own. */
int rsbx_podman_start(struct rsbx_podman_process *out, const struct rsbx_podman *podman,
                      const char *const *argv, const char *tmpdir, reposbx_error *err);
void rsbx_podman_kill(const struct rsbx_podman_process *process);
/* Waits without a bound: for processes that have ended or were killed. Returns the wait status, -1
 * when it cannot be known. */
int rsbx_podman_reap(struct rsbx_podman_process *process);
/* Kills and reaps what still runs, closes everything. */
void rsbx_podman_process_autop(struct rsbx_podman_process *process);
/* Appends its stderr so far. */
int rsbx_podman_stderr(struct rsbx_buf *out, const struct rsbx_podman_process *process,
                       reposbx_error *err);

#endif
