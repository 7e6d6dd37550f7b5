/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RSBX_BASE_CHILD_H
#define RSBX_BASE_CHILD_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/clock.h"
#include "base/error.h"

/*
 * A confined child of our own: work on bytes that we do not trust (a Git repository, a huge text)
 * happens in a forked process with hard limits, and only a pipe leads back. The child has no
 * descriptors but /dev/null on 0–2 (stderr kept when `keep_stderr`), the pipe, and `keep_fd`; it
 * cannot make core files, gains no privileges, is killed when the parent dies and when the wall
 * clock says so.
 *
 *     struct rsbx_child child;
 *     rc = rsbx_child_start(&child, &limits, work, payload, err);
 *     … read child.pipe_fd …
 *     rc = rsbx_child_finish(&child, deadline, err);        always, also after an error
 */
struct rsbx_child_limits {
    uint64_t memory_bytes;   /* RLIMIT_AS */
    uint64_t cpu_seconds;    /* RLIMIT_CPU */
    uint64_t file_bytes;     /* RLIMIT_FSIZE; 0: it may write no file */
    int keep_fd;             /* one descriptor that stays open, or -1 */
    bool keep_stderr;
};

struct rsbx_child {
    pid_t pid;
    int pipe_fd; /* read end of what the child writes */
};

/* The child's main: writes its answer to pipe_fd and returns the exit status (0–99). */
typedef int (*rsbx_child_work)(int pipe_fd, void *payload);

/* Calls a library's start, which can open no file meanwhile; its answer. In the child only. libgit2, where it
 * brings TLS, reads all certificates of the host when it starts: tens of milliseconds for nothing. */
int rsbx_child_library(int (*start)(void));

int rsbx_child_start(struct rsbx_child *out, const struct rsbx_child_limits *limits,
                     rsbx_child_work work, void *payload, reposbx_error *err);

/* Waits until the deadline, kills after it, reaps always, closes the pipe. 0 when the child ended
 * with status 0; otherwise REPOSBX_EPROTOCOL with the way it ended in words (its status goes to
 * *status when that is not NULL; -1 for a signal). */
int rsbx_child_finish(struct rsbx_child *child, struct rsbx_deadline deadline, int *status,
                      reposbx_error *err);

#endif
