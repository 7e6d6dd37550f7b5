/* SPDX-License-Identifier: Apache-2.0 */
#include "gitrun.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"

#include "base/banned.h"

static void set(const char *name, const char *value)
{
    if (value != NULL && setenv(name, value, 1) != 0)
        _exit(126);
}

/* Where git is: looked up once, since a long PATH costs a failed call for each folder before it. */
static const char *git_program(void)
{
    static char program[4096];
    const char *folder = getenv("PATH");

    if (folder == NULL)
        folder = "/usr/bin:/bin";
    while (program[0] == '\0' && *folder != '\0') {
        size_t length = strcspn(folder, ":");

        (void)snprintf(program, sizeof program, "%.*s/git", (int)length, folder);
        if (access(program, X_OK) != 0)
            program[0] = '\0';
        folder += length + (folder[length] == ':');
    }
    return program;
}

static _Noreturn void become_git(const struct gitrun *how, bool quiet, int out_fd,
                                 const char *const *argv)
{
    const char *program = git_program();
    const char *path = getenv("PATH");
    char *kept = path == NULL ? NULL : strdup(path);
    int input = open(how->input == NULL ? "/dev/null" : how->input, O_RDONLY);
    int null_fd = open("/dev/null", O_WRONLY);

    if (input < 0 || null_fd < 0 || clearenv() != 0 || dup2(input, 0) < 0 ||
        dup2(out_fd, 1) < 0 || (quiet && dup2(null_fd, 2) < 0))
        _exit(126);
    set("PATH", kept == NULL ? "/usr/bin:/bin" : kept);
    set("LC_ALL", "C");
    set("GIT_CONFIG_NOSYSTEM", "1");
    set("HOME", how->home == NULL ? "/nonexistent" : how->home);
    if (how->home == NULL)
        set("GIT_CONFIG_GLOBAL", "/dev/null");
    set("GIT_DIR", how->git_dir);
    set("GIT_WORK_TREE", how->work_tree);
    set("GIT_INDEX_FILE", how->index);
    if (how->work_tree != NULL && chdir(how->work_tree) != 0)
        _exit(126);
    /* execv takes the vector as writable for historical reasons and does not write to it. */
    execv(program, (char *const *)(uintptr_t)argv);
    _exit(127);
}

int gitrun(struct rsbx_buf *out, const struct gitrun *how, bool quiet, const char *const *argv)
{
    int both[2];
    int status = 0;
    pid_t pid;

    if (git_program()[0] == '\0' || pipe2(both, O_CLOEXEC) != 0)
        return -1;
    pid = fork();
    if (pid == 0)
        become_git(how, quiet, both[1], argv);
    (void)close(both[1]);
    for (;;) {
        char bytes[65536];
        ssize_t got = read(both[0], bytes, sizeof bytes);

        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            break;
        if (out != NULL && rsbx_buf_append(out, bytes, (size_t)got, NULL) != 0)
            break;
    }
    (void)close(both[0]);
    if (pid < 0 || waitpid(pid, &status, 0) != pid)
        return -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

bool gitrun_write_file(const char *path, const void *bytes, size_t length)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    bool good = fd >= 0 && (length == 0 || rsbx_write_all(fd, bytes, length) == 0);

    return (fd < 0 || close(fd) == 0) && good;
}
