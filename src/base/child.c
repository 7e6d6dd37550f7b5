/* SPDX-License-Identifier: Apache-2.0 */
#include "base/child.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"

#include "base/banned.h"

static int limit(int resource, uint64_t value)
{
    struct rlimit both = { .rlim_cur = value, .rlim_max = value };

    return setrlimit((__rlimit_resource_t)resource, &both);
}

/* Moves `fd` to `place` and everything above `last` away. */
static void keep_only(int pipe_fd, int keep_fd, bool keep_stderr)
{
    int null_fd = open("/dev/null", O_RDWR);

    if (null_fd < 0 || dup2(null_fd, 0) < 0 || dup2(null_fd, 1) < 0 ||
        (!keep_stderr && dup2(null_fd, 2) < 0))
        _exit(97);
    for (int fd = 3; fd < 1024; fd++) {
        if (fd != pipe_fd && fd != keep_fd)
            (void)close(fd);
    }
    if (syscall(SYS_close_range, 1024U, ~0U, 0U) != 0) {
        struct rlimit files;

        if (getrlimit(RLIMIT_NOFILE, &files) != 0)
            _exit(97);
        for (int fd = 1024; (rlim_t)fd < files.rlim_cur && fd < 1048576; fd++) {
            if (fd != pipe_fd && fd != keep_fd)
                (void)close(fd);
        }
    }
}

static _Noreturn void child_main(int pipe_fd, const struct rsbx_child_limits *limits, pid_t parent,
                                 rsbx_child_work work, void *payload)
{
    sigset_t none;
    int keep_fd = limits->keep_fd;

    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(98);
    for (int signal_number = 1; signal_number < 32; signal_number++)
        (void)signal(signal_number, SIG_DFL);
    (void)signal(SIGPIPE, SIG_IGN);
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    /* Both low, so that closing everything from 1024 up cannot hit them. */
    if (pipe_fd >= 1024 || keep_fd >= 1024)
        _exit(97);
    keep_only(pipe_fd, keep_fd, limits->keep_stderr);
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || limit(RLIMIT_CORE, 0) != 0 ||
        limit(RLIMIT_AS, limits->memory_bytes) != 0 ||
        limit(RLIMIT_CPU, limits->cpu_seconds) != 0 ||
        limit(RLIMIT_FSIZE, limits->file_bytes) != 0)
        _exit(97);
    _exit(work(pipe_fd, payload));
}

int rsbx_child_start(struct rsbx_child *out, const struct rsbx_child_limits *limits,
                     rsbx_child_work work, void *payload, reposbx_error *err)
{
    RSBX_AUTO(rsbx_fd) int read_fd = -1;
    RSBX_AUTO(rsbx_fd) int write_fd = -1;
    int both[2];
    pid_t parent = getpid();
    pid_t pid;

    if (pipe2(both, O_CLOEXEC) != 0)
        return rsbx_fail_errno(err, REPOSBX_EINTERNAL, "cannot make a pipe");
    read_fd = both[0];
    write_fd = both[1];
    pid = fork();
    if (pid < 0)
        return rsbx_fail_errno(err, REPOSBX_EINTERNAL, "cannot fork");
    if (pid == 0)
        child_main(write_fd, limits, parent, work, payload);
    out->pid = pid;
    out->pipe_fd = rsbx_fd_steal(&read_fd);
    return REPOSBX_OK;
}

int rsbx_child_finish(struct rsbx_child *child, struct rsbx_deadline deadline, int *status,
                      reposbx_error *err)
{
    int raw = 0;
    bool killed = false;
    pid_t reaped;

    if (child->pid <= 0)
        return REPOSBX_OK;
    (void)close(child->pipe_fd); /* a child that still writes gets EPIPE */
    child->pipe_fd = -1;
    for (;;) {
        struct timespec pause = { .tv_sec = 0, .tv_nsec = 200000 };

        reaped = waitpid(child->pid, &raw, WNOHANG);
        if (reaped == child->pid)
            break;
        if (reaped < 0 && errno != EINTR) {
            child->pid = 0;
            return rsbx_fail_errno(err, REPOSBX_EINTERNAL, "cannot wait for the child");
        }
        if (!killed && rsbx_deadline_passed(deadline)) {
            (void)kill(child->pid, SIGKILL);
            killed = true;
        }
        (void)nanosleep(&pause, NULL);
    }
    child->pid = 0;
    if (status != NULL)
        *status = WIFEXITED(raw) ? WEXITSTATUS(raw) : -1;
    if (killed)
        return rsbx_fail(err, REPOSBX_EPROTOCOL, "took too long and was stopped");
    if (WIFSIGNALED(raw))
        return rsbx_fail(err, REPOSBX_EPROTOCOL, "ended by signal %d%s", WTERMSIG(raw),
                         WTERMSIG(raw) == SIGXCPU ? " (processor time used up)" : "");
    if (WEXITSTATUS(raw) != 0)
        return rsbx_fail(err, REPOSBX_EPROTOCOL, "ended with status %d", WEXITSTATUS(raw));
    return REPOSBX_OK;
}
