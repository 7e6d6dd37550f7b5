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

/* What a child may have open at once: a reader keeps the 256 folders of loose objects and many packs. */
#define FILES 512U

/* A lower limit of the caller's own stays: raising it may not be ours to do. */
static int limit(int resource, uint64_t value)
{
    struct rlimit both;

    if (getrlimit((__rlimit_resource_t)resource, &both) != 0)
        return -1;
    if (both.rlim_max > value)
        both.rlim_max = value;
    both.rlim_cur = both.rlim_max;
    return setrlimit((__rlimit_resource_t)resource, &both);
}

/* Without enough descriptors a child would take for a fault of its input what is none. */
static int check_files(reposbx_error *err)
{
    struct rlimit files;

    if (getrlimit(RLIMIT_NOFILE, &files) != 0)
        return rsbx_fail_errno(err, REPOSBX_EINTERNAL, "cannot read the limit of open files");
    if (files.rlim_max >= FILES)
        return REPOSBX_OK;
    (void)rsbx_fail(err, REPOSBX_EIO, "the limit of open files is %llu, and %u are needed",
                    (unsigned long long)files.rlim_max, FILES);
    rsbx_hint(err, "raise it: ulimit -n");
    return REPOSBX_EIO;
}

/* A soft limit is for the caller's own sake, and may be below what a child needs. */
static int raise_files(void)
{
    struct rlimit files;

    if (getrlimit(RLIMIT_NOFILE, &files) != 0)
        return -1;
    if (files.rlim_cur >= FILES)
        return 0;
    files.rlim_cur = FILES;
    return setrlimit(RLIMIT_NOFILE, &files);
}

/* Closes first … last, all but the two. */
static void close_between(int first, int last, int pipe_fd, int keep_fd)
{
    for (int fd = first; fd <= last; fd++) {
        if (fd != pipe_fd && fd != keep_fd)
            (void)close(fd);
    }
}

static bool close_range_of(int first, unsigned int last)
{
    return (unsigned int)first > last ||
           syscall(SYS_close_range, (unsigned int)first, last, 0U) == 0;
}

/* Three ranges between and beyond the two that stay; one by one on a kernel without the call. */
static void keep_only(int pipe_fd, int keep_fd, bool keep_stderr)
{
    int null_fd = open("/dev/null", O_RDWR);
    int low = keep_fd > 2 && keep_fd < pipe_fd ? keep_fd : pipe_fd;
    int high = keep_fd > pipe_fd ? keep_fd : pipe_fd;
    struct rlimit files;

    if (null_fd < 0 || dup2(null_fd, 0) < 0 || dup2(null_fd, 1) < 0 ||
        (!keep_stderr && dup2(null_fd, 2) < 0))
        _exit(97);
    if (close_range_of(3, (unsigned int)low - 1) &&
        (low == high || close_range_of(low + 1, (unsigned int)high - 1)) &&
        close_range_of(high + 1, ~0U))
        return;
    if (getrlimit(RLIMIT_NOFILE, &files) != 0)
        _exit(97);
    close_between(3, files.rlim_cur < 1048576 ? (int)files.rlim_cur - 1 : 1048575, pipe_fd, keep_fd);
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
    keep_only(pipe_fd, keep_fd, limits->keep_stderr);
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || limit(RLIMIT_CORE, 0) != 0 ||
        limit(RLIMIT_AS, limits->memory_bytes) != 0 ||
        limit(RLIMIT_CPU, limits->cpu_seconds) != 0 ||
        limit(RLIMIT_FSIZE, limits->file_bytes) != 0 || raise_files() != 0)
        _exit(97);
    _exit(work(pipe_fd, payload));
}

int rsbx_child_library(int (*start)(void))
{
    struct rlimit files, none;
    int rc;

    if (getrlimit(RLIMIT_NOFILE, &files) != 0)
        return start();
    none = (struct rlimit){ .rlim_cur = 0, .rlim_max = files.rlim_max };
    (void)setrlimit(RLIMIT_NOFILE, &none);
    rc = start();
    (void)setrlimit(RLIMIT_NOFILE, &files);
    return rc;
}

int rsbx_child_start(struct rsbx_child *out, const struct rsbx_child_limits *limits,
                     rsbx_child_work work, void *payload, reposbx_error *err)
{
    RSBX_AUTO(rsbx_fd) int read_fd = -1;
    RSBX_AUTO(rsbx_fd) int write_fd = -1;
    int both[2];
    pid_t parent = getpid();
    pid_t pid;
    int rc = check_files(err);

    if (rc != 0)
        return rc;
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
                         WTERMSIG(raw) == SIGXCPU || WTERMSIG(raw) == SIGPROF
                             ? " (processor time used up)" : "");
    if (WEXITSTATUS(raw) != 0)
        return rsbx_fail(err, REPOSBX_EPROTOCOL, "ended with status %d", WEXITSTATUS(raw));
    return REPOSBX_OK;
}
