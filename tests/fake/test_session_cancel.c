/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "fake/session.h"

#include "base/banned.h"

/* A cancel while the engine or the guest does not answer: the call ends long before its deadline, and
 * nothing of what it made is left. */

#define ENGINE_CALL_SECONDS 60
#define BEHAVE(here, ...)                                                                          \
    fake_docker_behave((here)->fake, &(const struct fake_habits){ __VA_ARGS__ })

/* Cancels once the engine has been asked for this. */
struct cancel {
    struct fake_docker *fake;
    const char *request;
    int read_fd, write_fd;
    time_t began;
    pthread_t thread;
};

static void *cancel_soon(void *payload)
{
    struct cancel *cancel = payload;

    while (fake_docker_count(cancel->fake, cancel->request) == 0)
        (void)usleep(1000);
    if (write(cancel->write_fd, "", 1) != 1)
        abort();
    return NULL;
}

static time_t now(void)
{
    struct timespec time;

    assert_int_equal(clock_gettime(CLOCK_MONOTONIC, &time), 0);
    return time.tv_sec;
}

static void cancel_on(struct cancel *cancel, struct fake_place *here, const char *request)
{
    int both[2];

    assert_int_equal(pipe2(both, O_CLOEXEC), 0);
    *cancel = (struct cancel){ .fake = here->fake, .request = request, .read_fd = both[0],
                               .write_fd = both[1], .began = now() };
    fake_docker_forget(here->fake);
    assert_int_equal(pthread_create(&cancel->thread, NULL, cancel_soon, cancel), 0);
}

static void cancelled_in_time(struct cancel *cancel)
{
    assert_int_equal(pthread_join(cancel->thread, NULL), 0);
    assert_true(now() - cancel->began < ENGINE_CALL_SECONDS / 2);
    (void)close(cancel->read_fd);
    (void)close(cancel->write_fd);
}

static void create(struct fake_place *here, const char *request)
{
    reposbx_policy *policy = place_policy(FAKE_IMAGE_ID, NULL);
    reposbx_session *session = NULL;
    reposbx_spec spec = REPOSBX_SPEC_INIT;
    reposbx_error err = REPOSBX_ERROR_INIT;
    struct cancel cancel;

    cancel_on(&cancel, here, request);
    spec.repo = here->place.repo;
    spec.revision = here->place.revision;
    spec.image = FAKE_IMAGE_ID;
    spec.policy = policy;
    if (reposbx_session_create_until(&session, here->place.provider, &spec, cancel.read_fd, &err) !=
        REPOSBX_ECANCELLED)
        fail_msg("%s: %d %s", request, err.code, err.message);
    assert_null(session);
    assert_null(strstr(err.message, "is left"));
    cancelled_in_time(&cancel);
    reposbx_policy_free(policy);
    assert_int_equal(fake_docker_left(here->fake), 0);
    assert_int_equal(fake_place_folders(here, "sessions"), 0);
}

static void a_create_that_nothing_answers(void **state)
{
    struct fake_place *here = *state;

    BEHAVE(here, .volume_create = FAKE_DONE_AND_HANGS);
    create(here, "POST /volumes/create");
    BEHAVE(here, .container_create = FAKE_HANGS);
    create(here, "POST /containers/create");
    BEHAVE(here, .container_create = FAKE_DONE_AND_HANGS);
    create(here, "POST /containers/create");
    BEHAVE(here, .container_start = FAKE_DONE_AND_HANGS);
    create(here, "POST /containers/sbx-");
    BEHAVE(here, .guest = FAKE_GUEST_SILENT);
    create(here, "POST /containers/sbx-");
}

static void a_command_whose_container_does_not_come(void **state)
{
    static const char *const argv[] = { "true" };
    struct fake_place *here = *state;
    reposbx_session *session;
    reposbx_exec_request request = REPOSBX_EXEC_REQUEST_INIT;
    reposbx_exec_result result = { 0 };
    reposbx_error err = REPOSBX_ERROR_INIT;
    struct cancel cancel;

    /* The one that waits is of no use, so that the command needs another. */
    BEHAVE(here, .guest = FAKE_GUEST_GONE, .guest_of = "-exec");
    session = fake_place_session(here, NULL);
    BEHAVE(here, .guest = FAKE_GUEST_GONE, .guest_of = "-exec",
           .container_create = FAKE_DONE_AND_HANGS);
    cancel_on(&cancel, here, "POST /containers/create");
    request.argv = argv;
    request.argc = 1;
    request.cancel_fd = cancel.read_fd;
    assert_int_equal(reposbx_session_exec(&result, session, &request, &err), REPOSBX_ECANCELLED);
    cancelled_in_time(&cancel);
    BEHAVE(here, .linger_ms = 0);
    request.cancel_fd = -1;
    if (reposbx_session_exec(&result, session, &request, &err) != 0)
        fail_msg("%s", err.message);
    reposbx_exec_result_dispose(&result);
    assert_int_equal(reposbx_session_close(session, REPOSBX_KEEP_AUDIT, NULL), 0);
    reposbx_session_free(session);
    assert_int_equal(fake_docker_left(here->fake), 0);
}

int main(void)
{
#define CASE(test) cmocka_unit_test_setup_teardown(test, fake_place_setup, fake_place_teardown)
    const struct CMUnitTest tests[] = {
        CASE(a_create_that_nothing_answers),
        CASE(a_command_whose_container_does_not_come),
    };

    return cmocka_run_group_tests_name("cancels", tests, NULL, NULL);
}
