/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "fake/session.h"

#include "base/banned.h"

/* Guests that never answer. Apart from the others because a full minute is waited for one. */

static void a_waiting_guest_that_is_silent_is_replaced(void **state)
{
    static const struct fake_habits silent = { .guest = FAKE_GUEST_SILENT,
                                               .guest_of = "-000004-exec" };
    struct fake_place *here = *state;
    reposbx_session *session;
    reposbx_exec_result result = { 0 };
    reposbx_error err = REPOSBX_ERROR_INIT;

    /* The fourth container (after stage, fill and seal) is the one that waits for a command. */
    fake_docker_behave(here->fake, &silent);
    session = fake_place_session(here, NULL);
    if (fake_place_exec(&result, session, &err) != 0)
        fail_msg("%s", err.message);
    assert_int_equal(result.status, REPOSBX_EXITED);
    reposbx_exec_result_dispose(&result);
    assert_int_equal(fake_docker_asked(here->fake, RSBX_OP_EXEC), 1);
    assert_int_equal(reposbx_session_close(session, REPOSBX_KEEP_AUDIT, NULL), 0);
    reposbx_session_free(session);
    assert_int_equal(fake_docker_left(here->fake), 0);
}

static void a_new_guest_that_is_silent_ends_the_create(void **state)
{
    static const struct fake_habits silent = { .guest = FAKE_GUEST_SILENT };
    struct fake_place *here = *state;
    reposbx_session *session = NULL;
    reposbx_error err = REPOSBX_ERROR_INIT;

    fake_docker_behave(here->fake, &silent);
    assert_int_equal(fake_place_create(&session, here, FAKE_IMAGE_ID, NULL, &err),
                     REPOSBX_EUNAVAILABLE);
    assert_non_null(strstr(err.message, "did not answer in time"));
    assert_null(session);
    assert_int_equal(fake_docker_asked(here->fake, 0), 0);
    assert_int_equal(fake_docker_left(here->fake), 0);
}

int main(void)
{
#define CASE(test) cmocka_unit_test_setup_teardown(test, fake_place_setup, fake_place_teardown)
    const struct CMUnitTest tests[] = {
        CASE(a_waiting_guest_that_is_silent_is_replaced),
        CASE(a_new_guest_that_is_silent_ends_the_create),
    };

    return cmocka_run_group_tests_name("guests that never answer", tests, NULL, NULL);
}
