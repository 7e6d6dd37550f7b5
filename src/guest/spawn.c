/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "guest/beneath.h"
#include "guest/process.h"

#define HOME_FOLDER "/tmp/home"
/* Where a name without a slash is looked for when the request has no PATH. */
#define DEFAULT_PATH "/bin:/usr/bin"
/* A container is limited to some thousands of descriptors.
 * Without close_range no more than these are tried. */
#define MAX_CLOSED 65536U

struct child_ends {
    int stdin_fd, stdout_fd, stderr_fd, error_fd, cwd_fd;
};

static void close_from(unsigned first)
{
    struct rlimit limit;
    unsigned end = MAX_CLOSED;

#ifdef SYS_close_range
    if (syscall(SYS_close_range, first, ~0U, 0) == 0) {
        return;
    }
#endif
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < end) {
        end = (unsigned)limit.rlim_cur;
    }
    for (unsigned fd = first; fd < end; fd++) {
        close((int)fd);
    }
}

/* The command is the first to go when memory runs out. Our own /proc files belong to root while the
 * process is not dumpable; execve makes it dumpable anyway, and nobody else is there yet. */
static void prefer_as_victim(void)
{
    int fd;

    prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
    fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    if (fd >= 0) {
        if (write(fd, "1000", 4) != 4) {
            /* Raising one's own score is always allowed; without /proc there is none. */
        }
        close(fd);
    }
}

static const char *find_value(char **envp, const char *name)
{
    size_t length = strlen(name);

    for (; *envp != NULL; envp++) {
        if (strncmp(*envp, name, length) == 0 && (*envp)[length] == '=') {
            return *envp + length + 1;
        }
    }
    return NULL;
}

/* Returns the errno of an execve that did not happen. */
static int search_and_exec(char **argv, char **envp)
{
    const char *path = find_value(envp, "PATH");
    size_t name_length = strlen(argv[0]);
    bool denied = false;
    char full[4096];

    if (strchr(argv[0], '/') != NULL) {
        execve(argv[0], argv, envp);
        return errno;
    }
    if (path == NULL) {
        path = DEFAULT_PATH;
    }
    for (;;) {
        size_t length = strcspn(path, ":");

        if (length + name_length + 2U <= sizeof(full)) {
            memcpy(full, path, length);
            if (length > 0) {
                full[length] = '/';
            }
            memcpy(full + length + (length > 0), argv[0], name_length + 1U);
            execve(full, argv, envp);
            if (errno == EACCES) {
                denied = true;
            } else if (errno != ENOENT && errno != ENOTDIR && errno != ENAMETOOLONG &&
                       errno != ELOOP) {
                return errno;
            }
        }
        if (path[length] == '\0') {
            return denied ? EACCES : ENOENT;
        }
        path += length + 1U;
    }
}

static _Noreturn void run_child(const struct rsbx_guest_request *request,
                                const struct child_ends *ends)
{
    char *no_environment[1] = {NULL};
    char **envp = request->envp == NULL ? no_environment : request->envp;
    int error;

    setsid();
    umask(022);
    if (fchdir(ends->cwd_fd) != 0 || dup2(ends->stdin_fd, STDIN_FILENO) < 0 ||
        dup2(ends->stdout_fd, STDOUT_FILENO) < 0 || dup2(ends->stderr_fd, STDERR_FILENO) < 0) {
        _exit(127);
    }
    /* The guest's 0, 1 and 2 are taken, so every descriptor of ours is 3 or more. */
    if (ends->error_fd != 3 && dup3(ends->error_fd, 3, O_CLOEXEC) < 0) {
        _exit(127);
    }
    close_from(4);
    prefer_as_victim();
    rsbx_process_default_signals();
    error = search_and_exec(request->argv, envp);
    if (write(3, &error, sizeof(error)) != (ssize_t)sizeof(error)) {
        _exit(126);
    }
    _exit(127);
}

static void make_pipe(struct rsbx_guest *guest, int *read_fd, int *write_fd)
{
    int ends[2];

    if (pipe2(ends, O_CLOEXEC) != 0) {
        rsbx_guest_fail(guest, errno, "cannot make a pipe", NULL, 0);
    }
    *read_fd = ends[0];
    *write_fd = ends[1];
}

static void set_nonblocking(int fd)
{
    fcntl(fd, F_SETFL, O_NONBLOCK);
}

static int open_cwd(struct rsbx_guest *guest)
{
    const char *cwd = guest->request.cwd == NULL ? "" : guest->request.cwd;
    int root = rsbx_open_root(RSBX_WORKSPACE_FOLDER);
    int fd;

    if (root < 0) {
        rsbx_guest_fail(guest, -root, "cannot open the workspace", NULL, 0);
    }
    fd = rsbx_open_beneath(root, cwd, O_RDONLY | O_DIRECTORY);
    if (fd == -EACCES) {
        /* It may be searchable all the same. */
        fd = rsbx_open_beneath(root, cwd, O_PATH | O_DIRECTORY);
        if (fd >= 0 && faccessat(fd, ".", X_OK, 0) != 0) {
            int error = errno;

            close(fd);
            fd = -error;
        }
    }
    if (fd < 0) {
        cwd = cwd[0] == '\0' ? "." : cwd;
        rsbx_guest_fail(guest, -fd, "cannot open the working folder", cwd, strlen(cwd));
    }
    close(root);
    return fd;
}

void rsbx_spawn(struct rsbx_guest *guest, struct rsbx_spawned *out)
{
    struct rsbx_spawned spawned = {.stdin_fd = -1};
    struct child_ends ends;

    if (mkdir(HOME_FOLDER, 0700) != 0 && errno != EEXIST) {
        rsbx_guest_fail(guest, errno, "cannot make the home folder", NULL, 0);
    }
    ends.cwd_fd = open_cwd(guest);
    if ((guest->request.head.flags & RSBX_REQUEST_STDIN) != 0) {
        make_pipe(guest, &ends.stdin_fd, &spawned.stdin_fd);
        set_nonblocking(spawned.stdin_fd);
    } else {
        ends.stdin_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
        if (ends.stdin_fd < 0) {
            rsbx_guest_fail(guest, errno, "cannot open /dev/null", NULL, 0);
        }
    }
    make_pipe(guest, &spawned.stdout_fd, &ends.stdout_fd);
    make_pipe(guest, &spawned.stderr_fd, &ends.stderr_fd);
    make_pipe(guest, &spawned.error_fd, &ends.error_fd);
    set_nonblocking(spawned.stdout_fd);
    set_nonblocking(spawned.stderr_fd);
    set_nonblocking(spawned.error_fd);
    spawned.pid = fork();
    if (spawned.pid == 0) {
        run_child(&guest->request, &ends);
    }
    if (spawned.pid < 0) {
        rsbx_guest_fail(guest, errno, "cannot fork", NULL, 0);
    }
    close(ends.cwd_fd);
    close(ends.stdin_fd);
    close(ends.stdout_fd);
    close(ends.stderr_fd);
    close(ends.error_fd);
    *out = spawned;
}

int rsbx_spawn_error(const struct rsbx_spawned *spawned)
{
    int error = 0;

    return read(spawned->error_fd, &error, sizeof(error)) == (ssize_t)sizeof(error) ? error : 0;
}
