/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/limits.h"
#include "podman/internal.h"

#include "base/banned.h"

/* Moves a descriptor above 2, so that it is in nobody's way there. */
static int above_stdio(int fd)
{
    int moved = fcntl(fd, F_DUPFD_CLOEXEC, 3);

    (void)close(fd);
    return moved;
}

/* One socket pair for both directions: poll() needs a single descriptor then. */
static int make_stream(int *ours, int *theirs, reposbx_error *err)
{
    RSBX_AUTO(rsbx_fd) int near_fd = -1;
    RSBX_AUTO(rsbx_fd) int far_fd = -1;
    int both[2];

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, both) != 0)
        return rsbx_fail_errno(err, REPOSBX_EINTERNAL, "cannot make a socket pair");
    near_fd = both[0];
    far_fd = above_stdio(both[1]);
    if (far_fd < 0 || fcntl(near_fd, F_SETFL, O_NONBLOCK) != 0)
        return rsbx_fail_errno(err, REPOSBX_EINTERNAL, "cannot make a socket pair");
    *ours = rsbx_fd_steal(&near_fd);
    *theirs = rsbx_fd_steal(&far_fd);
    return REPOSBX_OK;
}

static int make_stderr(int *out, reposbx_error *err)
{
    RSBX_AUTO(rsbx_fd) int fd = memfd_create("podman-stderr", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    if (fd >= 0)
        fd = above_stdio(rsbx_fd_steal(&fd));
    if (fd < 0 || ftruncate(fd, RSBX_PODMAN_STDERR_BYTES) != 0 ||
        fcntl(fd, F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SHRINK) != 0)
        return rsbx_fail_errno(err, REPOSBX_EINTERNAL, "cannot make a memory file");
    *out = rsbx_fd_steal(&fd);
    return REPOSBX_OK;
}

/* program, global flags, argv, NULL; the strings are borrowed, the array is the caller's. */
static int whole_argv(char ***out, const struct rsbx_podman *podman, const char *const *argv,
                      reposbx_error *err)
{
    size_t flags = 0;
    size_t count = 0;
    const char **whole;

    while (podman->flags[flags] != NULL)
        flags++;
    while (argv[count] != NULL)
        count++;
    if (count > RSBX_MAX_ARGV_COUNT)
        return rsbx_fail(err, REPOSBX_EINVALID, "too many arguments for podman");
    whole = calloc(flags + count + 2, sizeof *whole);
    if (whole == NULL)
        return rsbx_fail_memory(err);
    whole[0] = podman->program;
    memcpy(whole + 1, podman->flags, flags * sizeof *whole);
    memcpy(whole + 1 + flags, argv, count * sizeof *whole);
    *out = (char **)(uintptr_t)whole;
    return REPOSBX_OK;
}

/* The environment with a TMPDIR of the caller's; free() it, not what it points to. */
static char **own_environment(char *const *environment, char *tmpdir)
{
    size_t count = 0;
    char **own;

    while (environment[count] != NULL)
        count++;
    own = calloc(count + 2, sizeof *own);
    if (own != NULL) {
        memcpy(own, environment, count * sizeof *own);
        own[count] = tmpdir;
    }
    return own;
}

/* 0 or an errno value. */
static int spawn(pid_t *out, const struct rsbx_podman *podman, char **argv, char **environment,
                 int stream_fd, int stderr_fd)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none;
    sigset_t all;
    int rc = posix_spawn_file_actions_init(&actions);

    if (rc != 0)
        return rc;
    rc = posix_spawnattr_init(&attributes);
    if (rc != 0) {
        (void)posix_spawn_file_actions_destroy(&actions);
        return rc;
    }
    (void)sigemptyset(&none);
    (void)sigfillset(&all);
    rc = posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK |
                                                   POSIX_SPAWN_SETSIGDEF);
    if (rc == 0)
        rc = posix_spawnattr_setsigmask(&attributes, &none);
    if (rc == 0)
        rc = posix_spawnattr_setsigdefault(&attributes, &all);
    if (rc == 0)
        rc = posix_spawn_file_actions_adddup2(&actions, stream_fd, 0);
    if (rc == 0)
        rc = posix_spawn_file_actions_adddup2(&actions, stream_fd, 1);
    if (rc == 0)
        rc = posix_spawn_file_actions_adddup2(&actions, stderr_fd, 2);
    if (rc == 0)
        rc = posix_spawn_file_actions_addclosefrom_np(&actions, 3);
    if (rc == 0)
        rc = posix_spawn_file_actions_addchdir_np(&actions, "/");
    if (rc == 0)
        rc = posix_spawn(out, podman->program, &actions, &attributes, argv, environment);
    (void)posix_spawnattr_destroy(&attributes);
    (void)posix_spawn_file_actions_destroy(&actions);
    return rc;
}

int rsbx_podman_start(struct rsbx_podman_process *out, const struct rsbx_podman *podman,
                      const char *const *argv, const char *tmpdir, reposbx_error *err)
{
    RSBX_AUTO(rsbx_podman_process) struct rsbx_podman_process process = RSBX_PODMAN_PROCESS_INIT;
    RSBX_AUTO(rsbx_memory) void *memory = NULL;
    RSBX_AUTO(rsbx_fd) int far_fd = -1;
    RSBX_AUTO(rsbx_text) char *place = NULL;
    RSBX_AUTO(rsbx_memory) void *own = NULL;
    char **whole = NULL;
    pid_t pid = 0;
    int rc = make_stream(&process.stream_fd, &far_fd, err);

    if (rc == 0 && tmpdir != NULL) {
        if (asprintf(&place, "TMPDIR=%s", tmpdir) < 0)
            place = NULL;
        own = place != NULL ? own_environment(podman->environment, place) : NULL;
        rc = own != NULL ? REPOSBX_OK : rsbx_fail_memory(err);
    }
    if (rc == 0)
        rc = make_stderr(&process.stderr_fd, err);
    if (rc == 0)
        rc = whole_argv(&whole, podman, argv, err);
    memory = whole;
    if (rc != 0)
        return rc;
    rc = spawn(&pid, podman, whole, own != NULL ? own : podman->environment, far_fd,
               process.stderr_fd);
    if (rc != 0) {
        errno = rc;
        return rsbx_fail_errno(err, REPOSBX_EUNAVAILABLE, "cannot run %s", podman->program);
    }
    process.pid = pid;
    process.pid_fd = (int)syscall(SYS_pidfd_open, pid, 0);
    if (process.pid_fd < 0)
        return rsbx_fail_errno(err, REPOSBX_EINTERNAL, "cannot watch a process");
    *out = process;
    process = (struct rsbx_podman_process)RSBX_PODMAN_PROCESS_INIT;
    return REPOSBX_OK;
}

void rsbx_podman_kill(const struct rsbx_podman_process *process)
{
    if (process->pid > 0 && kill(-process->pid, SIGKILL) != 0)
        (void)kill(process->pid, SIGKILL);
}

int rsbx_podman_reap(struct rsbx_podman_process *process)
{
    int status = -1;
    pid_t reaped;

    if (process->pid <= 0)
        return -1;
    do
        reaped = waitpid(process->pid, &status, 0);
    while (reaped < 0 && errno == EINTR);
    process->pid = 0;
    return reaped > 0 ? status : -1;
}

void rsbx_podman_process_autop(struct rsbx_podman_process *process)
{
    int saved_errno = errno;

    if (process->pid > 0) {
        rsbx_podman_kill(process);
        (void)rsbx_podman_reap(process);
    }
    rsbx_fd_autop(&process->pid_fd);
    rsbx_fd_autop(&process->stream_fd);
    rsbx_fd_autop(&process->stderr_fd);
    errno = saved_errno;
}

int rsbx_podman_stderr(struct rsbx_buf *out, const struct rsbx_podman_process *process,
                       reposbx_error *err)
{
    char bytes[RSBX_PODMAN_STDERR_BYTES];
    /* The position is shared with the process: how far it has written. */
    off_t end = lseek(process->stderr_fd, 0, SEEK_CUR);
    ssize_t got;

    if (end < 0 || end > (off_t)sizeof bytes)
        end = (off_t)sizeof bytes;
    got = pread(process->stderr_fd, bytes, (size_t)end, 0);
    return got > 0 ? rsbx_buf_append(out, bytes, (size_t)got, err) : REPOSBX_OK;
}
