/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "fake/session.h"

#include "base/banned.h"

/* Sessions whose audit cannot be written, and what stands in one that can. */

static void events_path(char *out, size_t size, const reposbx_session *session)
{
    (void)snprintf(out, size, "%s/events.jsonl", reposbx_session_audit_dir(session));
}

static void state_is(struct fake_place *here, const char *id, const char *wanted)
{
    reposbx_metadata metadata;

    assert_int_equal(reposbx_session_metadata(&metadata, here->place.provider, id, NULL), 0);
    assert_string_equal(metadata.state, wanted);
    reposbx_metadata_dispose(&metadata);
}

static void what_cannot_be_announced_does_not_run(void **state)
{
    struct fake_place *here = *state;
    reposbx_session *session = fake_place_session(here, NULL);
    reposbx_exec_result result = { 0 };
    reposbx_error err = REPOSBX_ERROR_INIT;
    char id[REPOSBX_SESSION_ID_BYTES], events[256];

    (void)snprintf(id, sizeof id, "%s", reposbx_session_id(session));
    events_path(events, sizeof events, session);
    assert_int_equal(truncate(events, 10), 0);
    assert_int_equal(fake_place_exec(&result, session, &err), REPOSBX_EIO);
    assert_null(result.command_id);
    assert_int_equal(fake_docker_asked(here->fake, RSBX_OP_EXEC), 0);
    state_is(here, id, "poisoned");
    assert_int_equal(fake_place_exec(&result, session, &err), REPOSBX_EPOISONED);
    assert_int_equal(fake_docker_asked(here->fake, RSBX_OP_EXEC), 0);
    /* Its objects go, closed it stays, and that its end is not on record is said. */
    assert_int_equal(reposbx_session_close(session, REPOSBX_KEEP_AUDIT, &err), REPOSBX_EIO);
    assert_int_equal(fake_docker_left(here->fake), 0);
    reposbx_session_free(session);
    state_is(here, id, "closed");
}

static int cut_the_log(void *payload, int stream, const void *bytes, size_t length)
{
    (void)stream;
    (void)bytes;
    (void)length;
    assert_int_equal(truncate(payload, 10), 0);
    return 0;
}

static void what_cannot_be_concluded_poisons(void **state)
{
    const char *argv[] = { "true" };
    struct fake_place *here = *state;
    reposbx_session *session = fake_place_session(here, NULL);
    reposbx_exec_request request = REPOSBX_EXEC_REQUEST_INIT;
    reposbx_exec_result result = { 0 };
    reposbx_error err = REPOSBX_ERROR_INIT;
    char id[REPOSBX_SESSION_ID_BYTES], events[256];

    (void)snprintf(id, sizeof id, "%s", reposbx_session_id(session));
    events_path(events, sizeof events, session);
    request.argv = argv;
    request.argc = 1;
    request.output = cut_the_log;
    request.output_payload = events;
    assert_int_equal(reposbx_session_exec(&result, session, &request, &err), REPOSBX_EIO);
    assert_null(result.command_id);
    assert_int_equal(fake_docker_asked(here->fake, RSBX_OP_EXEC), 1);
    state_is(here, id, "poisoned");
    assert_int_equal(fake_place_exec(&result, session, &err), REPOSBX_EPOISONED);
    (void)reposbx_session_close(session, REPOSBX_DROP_AUDIT, NULL);
    assert_int_equal(fake_docker_left(here->fake), 0);
    reposbx_session_free(session);
    state_is(here, id, "closed");
}

/* ---- what is in it ---- */

struct wanted {
    const char *const *events;
    size_t count, next;
    json_t *created, *started;
};

static int compare_event(void *payload, const char *line, size_t length)
{
    struct wanted *wanted = payload;
    json_t *record = json_loadb(line, length, 0, NULL);
    const char *event = json_string_value(json_object_get(record, "event"));
    json_t *data = json_object_get(record, "data");

    assert_non_null(event);
    assert_true(wanted->next < wanted->count);
    assert_string_equal(event, wanted->events[wanted->next++]);
    if (strcmp(event, "sandbox_created") == 0)
        wanted->created = json_incref(data);
    if (strcmp(event, "command_started") == 0)
        wanted->started = json_incref(data);
    json_decref(record);
    return 0;
}

static const char *text(const json_t *value)
{
    const char *words = json_string_value(value);

    return words != NULL ? words : "";
}

static void values_of_the_environment_are_nowhere(void **state)
{
    static const char *const events[] = { "sandbox_created", "command_started",
                                          "command_finished", "refused", "sandbox_closed" };
    const json_t *metadata;
    const char *argv[] = { "prog", "an argument" };
    const char *env[] = { "GREETING=a-value-that-stays-inside" };
    const char *bad[] = { "MY_TOKEN=a-value-that-stays-inside" };
    struct fake_place *here = *state;
    reposbx_session *session = fake_place_session(here, NULL);
    reposbx_exec_request request = REPOSBX_EXEC_REQUEST_INIT;
    reposbx_exec_result result = { 0 };
    reposbx_error err = REPOSBX_ERROR_INIT;
    struct wanted wanted = { .events = events, .count = 5 };
    uint64_t offset = 0;

    request.argv = argv;
    request.argc = 2;
    request.env = env;
    request.env_count = 1;
    assert_int_equal(reposbx_session_exec(&result, session, &request, &err), 0);
    reposbx_exec_result_dispose(&result);
    request.env = bad;
    assert_int_equal(reposbx_session_exec(&result, session, &request, &err), REPOSBX_EPOLICY);
    assert_non_null(strstr(err.message, "MY_TOKEN"));
    assert_null(strstr(err.message, "stays-inside"));
    assert_int_equal(reposbx_session_close(session, REPOSBX_KEEP_AUDIT, NULL), 0);
    assert_int_equal(reposbx_audit_read(reposbx_session_audit_dir(session), &offset,
                                        compare_event, &wanted, NULL),
                     0);
    assert_int_equal(wanted.next, wanted.count);
    assert_string_equal(text(json_array_get(json_object_get(wanted.started, "argv"), 1)),
                        "an argument");
    assert_int_equal(json_array_size(json_object_get(wanted.started, "env")), 1);
    assert_string_equal(text(json_array_get(json_object_get(wanted.started, "env"), 0)),
                        "GREETING");
    assert_int_equal(
        json_integer_value(json_object_get(json_object_get(wanted.started, "observed"), "pids")),
        256);
    assert_int_equal(
        json_integer_value(json_object_get(json_object_get(wanted.created, "observed"), "pids")),
        256);
    metadata = json_object_get(wanted.created, "metadata");
    assert_true(json_is_object(json_object_get(metadata, "capabilities")));
    assert_string_equal(text(json_object_get(metadata, "source_tree")), here->place.tree);
    json_decref(wanted.created);
    json_decref(wanted.started);
    reposbx_session_free(session);
    assert_int_equal(RUN(NULL, NULL, "grep", "-rqF", "an argument", here->place.state), 0);
    assert_int_equal(RUN(NULL, NULL, "grep", "-rqF", "stays-inside", here->place.state), 1);
}

int main(void)
{
#define CASE(test) cmocka_unit_test_setup_teardown(test, fake_place_setup, fake_place_teardown)
    const struct CMUnitTest tests[] = {
        CASE(what_cannot_be_announced_does_not_run),
        CASE(what_cannot_be_concluded_poisons),
        CASE(values_of_the_environment_are_nowhere),
    };

    return cmocka_run_group_tests_name("audits of whole sessions", tests, NULL, NULL);
}
