/* SPDX-License-Identifier: Apache-2.0 */
/* Waiting for a lock: until it is free, until the deadline, until the caller has had enough. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/fd.h"

struct fixture {
    int mine;
    int theirs; /* another open file of the same name: flock() sees another holder */
};

static int setup(void **state)
{
    struct fixture *fixture = calloc(1, sizeof *fixture);
    char name[] = "/tmp/lock.XXXXXX";

    assert_non_null(fixture);
    fixture->mine = mkostemp(name, O_CLOEXEC);
    fixture->theirs = open(name, O_RDWR | O_CLOEXEC);
    assert_true(fixture->mine >= 0 && fixture->theirs >= 0);
    assert_int_equal(unlink(name), 0);
    *state = fixture;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *fixture = *state;

    (void)close(fixture->mine);
    (void)close(fixture->theirs);
    free(fixture);
    return 0;
}

static void a_free_one_at_once_even_when_late(void **state)
{
    const struct fixture *fixture = *state;

    assert_int_equal(rsbx_wait_lock(fixture->mine, LOCK_EX, rsbx_deadline_in_ms(0)), 1);
    assert_int_equal(flock(fixture->theirs, LOCK_SH | LOCK_NB), -1);
    assert_int_equal(errno, EWOULDBLOCK);
}

static void shared_beside_shared(void **state)
{
    const struct fixture *fixture = *state;

    assert_int_equal(flock(fixture->theirs, LOCK_SH | LOCK_NB), 0);
    assert_int_equal(rsbx_wait_lock(fixture->mine, LOCK_SH, rsbx_deadline_in_ms(0)), 1);
}

static void until_the_deadline(void **state)
{
    const struct fixture *fixture = *state;
    struct rsbx_deadline deadline = rsbx_deadline_in_ms(50);

    assert_int_equal(flock(fixture->theirs, LOCK_SH | LOCK_NB), 0);
    assert_int_equal(rsbx_wait_lock(fixture->mine, LOCK_EX, deadline), 0);
    assert_true(rsbx_deadline_passed(deadline));
}

static void until_the_caller_has_had_enough(void **state)
{
    const struct fixture *fixture = *state;
    struct rsbx_deadline deadline = rsbx_deadline_in_ms(3600000);
    int both[2];

    assert_int_equal(flock(fixture->theirs, LOCK_EX | LOCK_NB), 0);
    assert_int_equal(pipe(both), 0);
    assert_int_equal(write(both[1], "x", 1), 1);
    assert_int_equal(rsbx_wait_lock(fixture->mine, LOCK_EX, rsbx_deadline_or(deadline, &both[0])), 0);
    assert_false(rsbx_deadline_passed(deadline));
    (void)close(both[0]);
    (void)close(both[1]);
}

/* The holder dies without a word. */
static void until_its_holder_is_gone(void **state)
{
    struct fixture *fixture = *state;
    const struct timespec while_held = { .tv_nsec = 30000000L };
    pid_t child;
    int status = 0;

    assert_int_equal(flock(fixture->theirs, LOCK_EX | LOCK_NB), 0);
    assert_int_equal(flock(fixture->mine, LOCK_EX | LOCK_NB), -1);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        (void)nanosleep(&while_held, NULL);
        _exit(0);
    }
    (void)close(fixture->theirs); /* the child's copy holds it */
    fixture->theirs = -1;
    assert_int_equal(rsbx_wait_lock(fixture->mine, LOCK_EX, rsbx_deadline_in_ms(3600000)), 1);
    assert_int_equal(waitpid(child, &status, 0), child);
}

static void no_descriptor_is_an_error(void **state)
{
    (void)state;
    assert_int_equal(rsbx_wait_lock(-1, LOCK_EX, rsbx_deadline_in_ms(3600000)), -1);
    assert_int_equal(errno, EBADF);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_free_one_at_once_even_when_late, setup, teardown),
        cmocka_unit_test_setup_teardown(shared_beside_shared, setup, teardown),
        cmocka_unit_test_setup_teardown(until_the_deadline, setup, teardown),
        cmocka_unit_test_setup_teardown(until_the_caller_has_had_enough, setup, teardown),
        cmocka_unit_test_setup_teardown(until_its_holder_is_gone, setup, teardown),
        cmocka_unit_test(no_descriptor_is_an_error),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
