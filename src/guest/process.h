/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RSBX_GUEST_PROCESS_H
#define RSBX_GUEST_PROCESS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* What became of the children: the command and everything that was ever below it. */
struct rsbx_children {
    pid_t main;       /* 0: no command was started */
    bool main_ended;
    int main_status;  /* as of waitpid, once main_ended */
    bool more;        /* the last round was cut short */
    uint64_t killed;  /* others that rsbx_process_end_all had to kill */
};

/* Signals as PID 1 wants them: no handler at all, SIGPIPE ignored, SIGCHLD blocked. */
void rsbx_process_start(void);
/* In a child: every signal at its default, none blocked. */
void rsbx_process_default_signals(void);
/* Reaps who has ended, without waiting: a round of a few hundred at most. */
void rsbx_process_reap(struct rsbx_children *children);
/* Kills and reaps until nobody but the guest is left. */
void rsbx_process_end_all(struct rsbx_children *children);

#endif
