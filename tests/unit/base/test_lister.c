/* SPDX-License-Identifier: Apache-2.0 */
/* The names in a folder: all of them, or an error. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/fd.h"
#include "base/lister.h"

struct fixture {
    char path[64];
    int fd;
};

static int setup(void **state)
{
    struct fixture *fixture = calloc(1, sizeof *fixture);

    assert_non_null(fixture);
    (void)snprintf(fixture->path, sizeof fixture->path, "/tmp/lister.XXXXXX");
    assert_non_null(mkdtemp(fixture->path));
    fixture->fd = open(fixture->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(fixture->fd >= 0);
    *state = fixture;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *fixture = *state;
    int rc = rsbx_remove_tree_at(AT_FDCWD, fixture->path, NULL);

    (void)close(fixture->fd);
    free(fixture);
    return rc;
}

static void nothing_in_an_empty_folder(void **state)
{
    const struct fixture *fixture = *state;
    RSBX_AUTO(rsbx_lister) struct rsbx_lister lister = { NULL, NULL };
    const char *name = "untouched";

    assert_int_equal(rsbx_lister_open(&lister, fixture->fd, "it", NULL), 0);
    assert_int_equal(rsbx_lister_next(&name, &lister, NULL), 0);
    assert_string_equal(name, "untouched");
}

/* Twice, since the caller's descriptor does not move. */
static void every_name_once(void **state)
{
    static const char *const names[] = { "...", "..a", ".b", "c d", "\xff" };
    const struct fixture *fixture = *state;

    for (size_t i = 0; i < 5; i++)
        assert_int_equal(mkdirat(fixture->fd, names[i], 0700), 0);
    for (int round = 0; round < 2; round++) {
        RSBX_AUTO(rsbx_lister) struct rsbx_lister lister = { NULL, NULL };
        unsigned int seen = 0;
        const char *name;

        assert_int_equal(rsbx_lister_open(&lister, fixture->fd, "it", NULL), 0);
        for (size_t count = 0; count < 5; count++) {
            size_t i = 0;

            assert_int_equal(rsbx_lister_next(&name, &lister, NULL), 1);
            while (i < 5 && strcmp(names[i], name) != 0)
                i++;
            assert_true(i < 5);
            seen |= 1U << i;
        }
        assert_int_equal(seen, 0x1f);
        assert_int_equal(rsbx_lister_next(&name, &lister, NULL), 0);
    }
}

static void what_is_no_folder_is_refused(void **state)
{
    const struct fixture *fixture = *state;
    RSBX_AUTO(rsbx_fd) int fd = openat(fixture->fd, "file", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    struct rsbx_lister lister = { NULL, "untouched" };
    reposbx_error err = REPOSBX_ERROR_INIT;

    assert_int_equal(rsbx_lister_open(&lister, fd, "the things", &err), REPOSBX_EIO);
    assert_non_null(strstr(err.message, "cannot list the things"));
    assert_null(lister.stream);
    assert_string_equal(lister.what, "untouched");
    assert_int_equal(rsbx_lister_open(&lister, -1, "the things", &err), REPOSBX_EIO);
}

/* A listing that breaks off is no shorter listing. */
static void a_failure_is_not_the_end(void **state)
{
    const struct fixture *fixture = *state;
    RSBX_AUTO(rsbx_lister) struct rsbx_lister lister = { NULL, NULL };
    reposbx_error err = REPOSBX_ERROR_INIT;
    const char *name;

    assert_int_equal(mkdirat(fixture->fd, "a", 0700), 0);
    assert_int_equal(rsbx_lister_open(&lister, fixture->fd, "the things", NULL), 0);
    (void)close(dirfd(lister.stream));
    assert_int_equal(rsbx_lister_next(&name, &lister, &err), REPOSBX_EIO);
    assert_non_null(strstr(err.message, "cannot list the things"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(nothing_in_an_empty_folder, setup, teardown),
        cmocka_unit_test_setup_teardown(every_name_once, setup, teardown),
        cmocka_unit_test_setup_teardown(what_is_no_folder_is_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(a_failure_is_not_the_end, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
