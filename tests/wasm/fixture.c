/* SPDX-License-Identifier: Apache-2.0 */
#include "wasm/fixture.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/fd.h"

#include "base/banned.h"

void place_make(struct place *place)
{
    (void)snprintf(place->dir, sizeof place->dir, "/tmp/reposbx-wasm.XXXXXX");
    assert_non_null(mkdtemp(place->dir));
    (void)snprintf(place->state, sizeof place->state, "%s/state", place->dir);
    assert_int_equal(mkdir(place->state, 0700), 0);
}

void place_remove(struct place *place)
{
    assert_int_equal(rsbx_remove_tree_at(AT_FDCWD, place->dir, NULL), 0);
}

int run_program(const char *dir, const char *const *argv)
{
    int status = 0;
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid == 0) {
        int null_fd = open("/dev/null", O_RDWR);

        if (chdir(dir) != 0 || null_fd < 0 || dup2(null_fd, 1) < 0)
            _exit(126);
        (void)execvp(argv[0], (char *const *)(uintptr_t)argv);
        _exit(127);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

void write_text(const char *path, const void *bytes, size_t length)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

    assert_true(fd >= 0);
    assert_int_equal(rsbx_write_all(fd, bytes, length), 0);
    (void)close(fd);
}

void assemble_file(char path[128], const struct place *place, const char *name, const char *file)
{
    const char *const argv[] = { "wat2wasm", "--enable-all", file, "-o", path, NULL };

    (void)snprintf(path, 128, "%s/%s.wasm", place->dir, name);
    assert_int_equal(run_program(place->dir, argv), 0);
}

void assemble(char path[128], const struct place *place, const char *name, const char *text)
{
    char source[128];

    (void)snprintf(source, sizeof source, "%s/%s.wat", place->dir, name);
    write_text(source, text, strlen(text));
    assemble_file(path, place, name, source);
}

int tools_missing(void)
{
    const char *must = getenv("REPOSBX_TEST_MUST_RUN");

    if (access("/usr/bin/wasm2c", X_OK) == 0 && access("/usr/bin/wat2wasm", X_OK) == 0 &&
        access("/usr/bin/cc", X_OK) == 0)
        return 0;
    (void)fprintf(stderr, "wasm2c, wat2wasm or cc is not installed\n");
    return must != NULL && strcmp(must, "1") == 0 ? 1 : 77;
}
