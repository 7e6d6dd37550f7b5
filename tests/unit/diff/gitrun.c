/* SPDX-License-Identifier: Apache-2.0 */
#include "gitrun.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"

#include "base/banned.h"

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

/* The environment of one run, in the caller's memory. */
#define MAX_VARIABLES 8U
#define VARIABLE_BYTES 4200U
struct environment {
    char text[MAX_VARIABLES][VARIABLE_BYTES];
    char *list[MAX_VARIABLES + 1];
    size_t count;
};

static void set(struct environment *environment, const char *name, const char *value)
{
    size_t at = environment->count;

    if (value == NULL)
        return;
    (void)snprintf(environment->text[at], VARIABLE_BYTES, "%s=%s", name, value);
    environment->list[at] = environment->text[at];
    environment->list[++environment->count] = NULL;
}

static void fill(struct environment *environment, const struct gitrun *how)
{
    const char *path = getenv("PATH");

    environment->count = 0;
    set(environment, "PATH", path == NULL ? "/usr/bin:/bin" : path);
    set(environment, "LC_ALL", "C");
    set(environment, "GIT_CONFIG_NOSYSTEM", "1");
    set(environment, "HOME", how->home == NULL ? "/nonexistent" : how->home);
    set(environment, "GIT_CONFIG_GLOBAL", how->home == NULL ? "/dev/null" : NULL);
    set(environment, "GIT_DIR", how->git_dir);
    set(environment, "GIT_WORK_TREE", how->work_tree);
    set(environment, "GIT_INDEX_FILE", how->index);
}

/* Spawned and not forked: git is started thousands of times, and a copy of our pages is what that costs
 * most of, above all under a sanitizer. -1 when it cannot be started. */
static pid_t start_git(const struct gitrun *how, bool quiet, int out_fd, const char *const *argv)
{
    struct environment environment;
    posix_spawn_file_actions_t actions;
    pid_t pid = -1;
    int rc = posix_spawn_file_actions_init(&actions);

    if (rc != 0)
        return -1;
    fill(&environment, how);
    rc = posix_spawn_file_actions_addopen(&actions, 0, how->input == NULL ? "/dev/null" : how->input,
                                          O_RDONLY, 0);
    if (rc == 0)
        rc = posix_spawn_file_actions_adddup2(&actions, out_fd, 1);
    if (rc == 0 && quiet)
        rc = posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
    if (rc == 0 && how->work_tree != NULL)
        rc = posix_spawn_file_actions_addchdir_np(&actions, how->work_tree);
    /* posix_spawn takes the vector as writable for historical reasons and does not write to it. */
    if (rc == 0)
        rc = posix_spawn(&pid, git_program(), &actions, NULL, (char *const *)(uintptr_t)argv,
                         environment.list);
    (void)posix_spawn_file_actions_destroy(&actions);
    return rc == 0 ? pid : -1;
}

int gitrun(struct rsbx_buf *out, const struct gitrun *how, bool quiet, const char *const *argv)
{
    int both[2];
    int status = 0;
    pid_t pid;

    if (git_program()[0] == '\0' || pipe2(both, O_CLOEXEC) != 0)
        return -1;
    pid = start_git(how, quiet, both[1], argv);
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
