/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/text.h"
#include "wasm/internal.h"

#include "base/banned.h"

/* Words of a failed program that go into an error. */
#define WORDS_BYTES 400U
/* What a program may write into one file. */
#define FILE_BYTES (2ULL * 1024ULL * 1024ULL * 1024ULL)

static const char *const folders[] = { "/usr/bin", "/usr/local/bin", "/bin" };

const char *rsbx_wasm_tool_find(char *out, size_t size, const char *name)
{
    for (size_t i = 0; i < sizeof folders / sizeof folders[0]; i++) {
        int length = snprintf(out, size, "%s/%s", folders[i], name);

        if (length > 0 && (size_t)length < size && access(out, X_OK) == 0)
            return out;
    }
    return NULL;
}

static int limit(int resource, uint64_t value)
{
    struct rlimit both = { .rlim_cur = value, .rlim_max = value };

    return setrlimit((__rlimit_resource_t)resource, &both);
}

/* Between fork and exec: only calls that are safe there. */
static _Noreturn void become(int dir_fd, char *const *argv, const char *log, pid_t parent)
{
    static char path[] = "PATH=/usr/bin:/usr/local/bin:/bin", locale[] = "LC_ALL=C", temp[] = "TMPDIR=.";
    static char *const environment[] = { path, locale, temp, NULL };
    sigset_t none;
    int null_fd, log_fd;

    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(98);
    for (int number = 1; number < 32; number++)
        (void)signal(number, SIG_DFL);
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    if (fchdir(dir_fd) != 0)
        _exit(97);
    null_fd = open("/dev/null", O_RDONLY);
    log_fd = open(log, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (null_fd < 0 || log_fd < 0 || dup2(null_fd, 0) < 0 || dup2(log_fd, 1) < 0 ||
        dup2(log_fd, 2) < 0 || syscall(SYS_close_range, 3U, ~0U, 0U) != 0)
        _exit(97);
    if (setpgid(0, 0) != 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        limit(RLIMIT_CORE, 0) != 0 || limit(RLIMIT_AS, RSBX_WASM_TOOL_MEMORY_BYTES) != 0 ||
        limit(RLIMIT_CPU, RSBX_WASM_TOOL_CPU_SECONDS) != 0 || limit(RLIMIT_FSIZE, FILE_BYTES) != 0)
        _exit(97);
    (void)execve(argv[0], argv, environment);
    _exit(96);
}

#define MOST_ARGUMENTS 64U

int rsbx_wasm_tool_start(struct rsbx_wasm_tool *out, int dir_fd, const char *const *argv,
                         const char *log, reposbx_error *err)
{
    pid_t parent = getpid();
    char *own[MOST_ARGUMENTS + 1];
    size_t count = 0;
    pid_t pid;

    while (argv[count] != NULL && count < MOST_ARGUMENTS) {
        own[count] = (char *)(uintptr_t)argv[count];
        count++;
    }
    if (argv[count] != NULL)
        return rsbx_fail(err, REPOSBX_EINTERNAL, "too many arguments for %s", argv[0]);
    own[count] = NULL;
    pid = fork();
    if (pid < 0)
        return rsbx_fail_errno(err, REPOSBX_EINTERNAL, "cannot fork");
    if (pid == 0)
        become(dir_fd, own, log, parent);
    (void)setpgid(pid, pid); /* whoever comes first; the group must stand when it is killed */
    out->pid = pid;
    out->deadline = rsbx_deadline_in_ms(RSBX_WASM_TOOL_MS);
    return REPOSBX_OK;
}

void rsbx_wasm_tool_stop(struct rsbx_wasm_tool *tool)
{
    if (tool->pid <= 0)
        return;
    (void)kill(-tool->pid, SIGKILL);
    (void)kill(tool->pid, SIGKILL);
    while (waitpid(tool->pid, NULL, 0) < 0 && errno == EINTR)
        continue;
    tool->pid = 0;
}

/* The first line that speaks of an error, else the first words. */
static int failed(int dir_fd, const char *log, const char *what, const char *how, reposbx_error *err)
{
    RSBX_AUTO(rsbx_fd) int fd = openat(dir_fd, log, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    char bytes[16384];
    char words[WORDS_BYTES];
    ssize_t length = fd >= 0 ? rsbx_read_full(fd, bytes, sizeof bytes - 1) : 0;
    const char *start = bytes;
    const char *found;
    size_t shown;

    bytes[length > 0 ? length : 0] = '\0';
    found = strstr(bytes, "error");
    while (found != NULL && found > bytes && found[-1] != '\n')
        found--;
    if (found != NULL)
        start = found;
    shown = strcspn(start, "\n");
    rsbx_text_printable(words, sizeof words, start, shown);
    return rsbx_fail(err, REPOSBX_EPROTOCOL, "%s %s%s%s", what, how, words[0] != '\0' ? ": " : "",
                     words);
}

int rsbx_wasm_tool_poll(struct rsbx_wasm_tool *tool, int dir_fd, const char *log,
                        const char *what, reposbx_error *err)
{
    char how[64];
    int status = 0;
    pid_t ended = waitpid(tool->pid, &status, WNOHANG);

    if (ended == 0 || (ended < 0 && errno == EINTR)) {
        if (!rsbx_deadline_passed(tool->deadline))
            return 1;
        rsbx_wasm_tool_stop(tool);
        return failed(dir_fd, log, what, "took too long and was stopped", err);
    }
    tool->pid = 0;
    if (ended < 0)
        return rsbx_fail_errno(err, REPOSBX_EINTERNAL, "cannot wait for %s", what);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return REPOSBX_OK;
    if (WIFSIGNALED(status))
        (void)snprintf(how, sizeof how, "was ended by signal %d", WTERMSIG(status));
    else
        (void)snprintf(how, sizeof how, "failed with status %d", WEXITSTATUS(status));
    return failed(dir_fd, log, what, how, err);
}

int rsbx_wasm_tool_run(int dir_fd, const char *const *argv, const char *log, const char *what,
                       reposbx_error *err)
{
    struct rsbx_wasm_tool tool = { .pid = 0 };
    int rc = rsbx_wasm_tool_start(&tool, dir_fd, argv, log, err);

    if (rc != 0)
        return rc;
    while ((rc = rsbx_wasm_tool_poll(&tool, dir_fd, log, what, err)) == 1) {
        struct timespec pause = { .tv_sec = 0, .tv_nsec = 2000000 };

        (void)nanosleep(&pause, NULL);
    }
    return rc;
}

int rsbx_wasm_tool_line(char **out, int dir_fd, const char *const *argv, const char *what,
                        reposbx_error *err)
{
    RSBX_AUTO(rsbx_fd) int fd = -1;
    char bytes[512];
    char line[256];
    ssize_t length;
    int rc = rsbx_wasm_tool_run(dir_fd, argv, "version.log", what, err);

    if (rc != 0)
        return rc;
    fd = openat(dir_fd, "version.log", O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    length = fd >= 0 ? rsbx_read_full(fd, bytes, sizeof bytes - 1) : -1;
    if (length < 0)
        return rsbx_fail_errno(err, REPOSBX_EIO, "cannot read what %s said", what);
    bytes[length] = '\0';
    rsbx_text_printable(line, sizeof line, bytes, strcspn(bytes, "\n"));
    *out = strdup(line);
    return *out != NULL ? REPOSBX_OK : rsbx_fail_memory(err);
}
