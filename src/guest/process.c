/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/process.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <time.h>

/* Children can end as fast as they are reaped, and the deadline has to be looked at. */
#define MAX_ROUND 256U

static void child_set(sigset_t *set)
{
    sigemptyset(set);
    sigaddset(set, SIGCHLD);
}

void rsbx_process_start(void)
{
    sigset_t set;

    signal(SIGPIPE, SIG_IGN);
    /* Inherited as ignored it would make the kernel reap for us, and statuses would be lost. */
    signal(SIGCHLD, SIG_DFL);
    child_set(&set);
    sigprocmask(SIG_SETMASK, &set, NULL);
}

void rsbx_process_default_signals(void)
{
    struct sigaction action;
    sigset_t none;

    memset(&action, 0, sizeof(action));
    action.sa_handler = SIG_DFL;
    for (int number = 1; number < NSIG; number++) {
        sigaction(number, &action, NULL); /* refused for KILL, STOP and the libc's own */
    }
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

/* A child that asked to be traced by its parent stops at every signal and waits for us. Nobody here
 * traces: it is let go, and what it was sent reaches it. The exception is what the kernel sends a traced
 * program at its execve. */
static void let_go(pid_t pid, int number)
{
    siginfo_t info;

    memset(&info, 0, sizeof(info));
    if (number == SIGTRAP && ptrace(PTRACE_GETSIGINFO, pid, NULL, &info) == 0 &&
        info.si_code == SI_USER) {
        number = 0;
    }
    ptrace(PTRACE_DETACH, pid, NULL, (void *)(intptr_t)number);
}

/* One waitpid; 0: somebody is left but nobody has ended, -1: nobody is left. */
static pid_t reap_one(struct rsbx_children *children, bool killing)
{
    int status = 0;
    pid_t pid;

    do {
        pid = waitpid(-1, &status, WNOHANG | __WALL);
    } while (pid < 0 && errno == EINTR);
    if (pid <= 0) {
        return pid;
    }
    if (WIFSTOPPED(status)) {
        let_go(pid, WSTOPSIG(status));
    } else if (pid == children->main) {
        children->main_ended = true;
        children->main_status = status;
    } else if (killing && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) {
        children->killed++;
    }
    return pid;
}

void rsbx_process_reap(struct rsbx_children *children)
{
    unsigned left = MAX_ROUND;

    while (left > 0 && reap_one(children, false) > 0) {
        left--;
    }
    children->more = left == 0;
}

void rsbx_process_end_all(struct rsbx_children *children)
{
    struct timespec pause = {.tv_nsec = 1000000};
    sigset_t set;

    child_set(&set);
    /* Who has ended by itself needed no killing. */
    rsbx_process_reap(children);
    for (;;) {
        pid_t pid;

        /* One call reaches every process of the namespace, and none can fork past it; repeated for
         * those that were only becoming visible. */
        kill(-1, SIGKILL);
        do {
            pid = reap_one(children, true);
        } while (pid > 0);
        if (pid < 0) {
            return;
        }
        sigtimedwait(&set, NULL, &pause);
        if (pause.tv_nsec < 32000000) {
            pause.tv_nsec *= 2;
        }
    }
}
