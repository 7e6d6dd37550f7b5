/* SPDX-License-Identifier: Apache-2.0 */
/* The list of what lives, and the sweep behind the dead. The engine is a script of the test's that
 * notes what it is asked and has no container at all. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/fd.h"
#include "run/internal.h"

static char folder[64];
static char address[160];
static struct rsbx_run_place place;
static char told[4][RSBX_RUN_NAME_BYTES];
static size_t told_count;

static int setup(void **state)
{
    static const char script[] = "#!/bin/sh\n"
                                 "echo \"$*\" >> \"${0%/*}/log\"\n"
                                 "exit 1\n";
    char path[128];
    int fd;

    (void)state;
    (void)snprintf(folder, sizeof folder, "/tmp/run-live-test.XXXXXX");
    assert_non_null(mkdtemp(folder));
    (void)snprintf(path, sizeof path, "%s/podman", folder);
    fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0700);
    assert_int_equal(rsbx_write_all(fd, script, sizeof script - 1), 0);
    (void)close(fd);
    (void)snprintf(address, sizeof address, "podman:%s", path);
    place.run_fd = -1;
    told_count = 0;
    return rsbx_run_place_open(&place, folder, NULL);
}

static int teardown(void **state)
{
    (void)state;
    rsbx_run_place_close(&place);
    return rsbx_remove_tree_at(AT_FDCWD, folder, NULL);
}

static void tell(void *payload, const char *name)
{
    (void)payload;
    assert_true(told_count < 4);
    (void)snprintf(told[told_count++], sizeof told[0], "%s", name);
}

static size_t sweep(bool dry_run)
{
    told_count = 0;
    assert_int_equal(rsbx_live_sweep(&place, dry_run, tell, NULL, NULL), 0);
    return told_count;
}

/* A process that makes two, lets one go, and dies. */
static void die_with_one(void)
{
    pid_t pid = fork();
    int status;

    assert_true(pid >= 0);
    if (pid == 0) {
        struct rsbx_live *live = NULL;
        int rc = rsbx_live_open(&live, &place, address, "runc", NULL);

        if (rc == 0)
            rc = rsbx_live_make(live, "first", NULL);
        if (rc == 0)
            rc = rsbx_live_make(live, "second", NULL);
        if (rc == 0)
            rsbx_live_gone(live, "first");
        _exit(rc == 0 ? 0 : 1);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

static void what_the_dead_left_is_removed_once(void **state)
{
    RSBX_AUTO(rsbx_buf) struct rsbx_buf log = RSBX_BUF_INIT(4096);
    char path[128];

    (void)state;
    die_with_one();
    assert_int_equal(sweep(true), 1);
    assert_string_equal(told[0], "second");
    assert_int_equal(sweep(false), 1);
    assert_string_equal(told[0], "second");
    (void)snprintf(path, sizeof path, "%s/log", folder);
    assert_int_equal(rsbx_read_file_at(&log, AT_FDCWD, path, NULL), 0);
    /* The dry run asked nothing; the other asked the engine of the list, with its runtime. */
    assert_non_null(strstr(log.data, "--runtime=runc "));
    assert_non_null(strstr(log.data, "container exists second\n"));
    assert_int_equal(sweep(false), 0);
}

static void what_the_living_have_is_left_alone(void **state)
{
    struct rsbx_live *live = NULL;

    (void)state;
    assert_int_equal(rsbx_live_open(&live, &place, address, NULL, NULL), 0);
    assert_int_equal(rsbx_live_make(live, "mine", NULL), 0);
    assert_int_equal(sweep(false), 0);
    rsbx_live_close(live); /* with one left: the list stays */
    assert_int_equal(sweep(false), 1);
    assert_string_equal(told[0], "mine");
}

static void an_empty_list_leaves_no_file(void **state)
{
    struct rsbx_live *live = NULL;
    char path[256];

    (void)state;
    assert_int_equal(rsbx_live_open(&live, &place, address, NULL, NULL), 0);
    assert_int_equal(rsbx_live_make(live, "mine", NULL), 0);
    rsbx_live_gone(live, "mine");
    (void)snprintf(path, sizeof path, "%s/run/live/%s", folder, live->file);
    assert_int_equal(access(path, F_OK), 0);
    rsbx_live_close(live);
    assert_int_equal(access(path, F_OK), -1);
}

static void a_torn_line_names_nothing(void **state)
{
    static const char text[] = "engine podman\nmake whole\nmake to";
    char path[256];
    int fd;

    (void)state;
    assert_int_equal(sweep(false), 0); /* makes the folder */
    (void)snprintf(path, sizeof path, "%s/run/live/1-torn", folder);
    fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    assert_int_equal(rsbx_write_all(fd, text, sizeof text - 1), 0);
    (void)close(fd);
    assert_int_equal(sweep(true), 1);
    assert_string_equal(told[0], "whole");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_the_dead_left_is_removed_once, setup, teardown),
        cmocka_unit_test_setup_teardown(what_the_living_have_is_left_alone, setup, teardown),
        cmocka_unit_test_setup_teardown(an_empty_list_leaves_no_file, setup, teardown),
        cmocka_unit_test_setup_teardown(a_torn_line_names_nothing, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
