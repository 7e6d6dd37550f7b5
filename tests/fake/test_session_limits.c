/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "fake/session.h"

#include "base/banned.h"

/* Numbers at their edges, and the budgets of a session, through the public API. */

static const char *const argv_true[] = { "true" };

static reposbx_exec_request plain_request(void)
{
    reposbx_exec_request request = REPOSBX_EXEC_REQUEST_INIT;

    request.argv = argv_true;
    request.argc = 1;
    return request;
}

static void is_refused(reposbx_session *session, const reposbx_exec_request *request,
                       const char *field)
{
    reposbx_exec_result result = { 0 };
    reposbx_error err = REPOSBX_ERROR_INIT;
    int rc = reposbx_session_exec(&result, session, request, &err);

    if (rc != REPOSBX_EPOLICY || strncmp(err.message, field, strlen(field)) != 0 ||
        err.message[strlen(field)] != ':')
        fail_msg("expected %s, got %s: %s", field, reposbx_code_word(rc), err.message);
    assert_null(result.command_id);
}

static void limits_of_a_request_are_refused_by_name(void **state)
{
    struct fake_place *here = *state;
    reposbx_session *session = fake_place_session(here, NULL);
    const double numbers[] = { (double)NAN, (double)INFINITY, -(double)INFINITY, -1.0, -1e-300,
                               1e-9, 1e300, 300.0001 };
    const uint64_t counts[] = { 1, UINT64_MAX, UINT64_MAX / 2, 1ULL << 63, 2147483649ULL };
    reposbx_exec_result result = { 0 };
    reposbx_exec_request request;

    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        request = plain_request();
        request.timeout_seconds = numbers[i];
        is_refused(session, &request, "timeout_seconds");
        request = plain_request();
        request.cpus = numbers[i];
        is_refused(session, &request, "cpus");
    }
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        request = plain_request();
        request.memory_bytes = counts[i];
        is_refused(session, &request, "memory_bytes");
        request = plain_request();
        request.pids = counts[i];
        is_refused(session, &request, "pids");
    }
    request = plain_request();
    request.pids = 257; /* the policy has 256 */
    is_refused(session, &request, "pids");
    request = plain_request();
    request.cpus = 2.0000001;
    is_refused(session, &request, "cpus");
    assert_int_equal(fake_docker_asked(here->fake, RSBX_OP_EXEC), 0);
    assert_int_equal(fake_place_records(session, "command_started"), 0);
    /* 0 is the policy's own, and the policy's own numbers are no raise. */
    request = plain_request();
    request.timeout_seconds = 300.0;
    request.cpus = 2.0;
    request.memory_bytes = 2147483648ULL;
    request.pids = 256;
    assert_int_equal(reposbx_session_exec(&result, session, &request, NULL), 0);
    assert_int_equal(result.observed_pids, 256);
    reposbx_exec_result_dispose(&result);
    assert_int_equal(reposbx_session_close(session, REPOSBX_KEEP_AUDIT, NULL), 0);
    reposbx_session_free(session);
}

static void lowered_limits_reach_the_guest(void **state)
{
    struct fake_place *here = *state;
    reposbx_session *session = fake_place_session(here, NULL);
    reposbx_exec_request request = plain_request();
    reposbx_exec_result result = { 0 };
    reposbx_error err = REPOSBX_ERROR_INIT;

    request.cpus = 0.5;
    request.memory_bytes = 64U * 1024U * 1024U;
    request.pids = 17;
    if (reposbx_session_exec(&result, session, &request, &err) != 0)
        fail_msg("%s", err.message);
    assert_int_equal(result.observed_memory_bytes, 64U * 1024U * 1024U);
    assert_int_equal(result.observed_pids, 17);
    assert_true(fabs(result.observed_cpus - 0.5) < 0.002);
    reposbx_exec_result_dispose(&result);
    assert_int_equal(reposbx_session_close(session, REPOSBX_KEEP_AUDIT, NULL), 0);
    reposbx_session_free(session);
}

static void limits_of_a_policy_are_refused_by_name(void **state)
{
    static const char *const fields[] = { "cpus", "memory_bytes", "pids",
                                          "command_timeout_seconds", "output_bytes",
                                          "audit_log_bytes", "stdin_bytes", "tmpfs_bytes",
                                          "artifact_bytes", "artifact_members" };
    static const char *const values[] = { "0", "-1", "true", "\"1\"", "null", "1e999", "NaN",
                                          "Infinity", "[]" };

    (void)state;
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        for (size_t j = 0; j < sizeof values / sizeof values[0]; j++) {
            /* What JSON cannot say is a mistake of its syntax, which has a place and no field. */
            bool syntax = strcmp(values[j], "NaN") == 0 || strcmp(values[j], "Infinity") == 0 ||
                          strcmp(values[j], "1e999") == 0;
            reposbx_policy *policy = NULL;
            reposbx_error err = REPOSBX_ERROR_INIT;
            char text[256];
            int length = snprintf(text, sizeof text,
                                  "{\"version\":1,\"name\":\"t\",\"images\":[],\"limits\":{"
                                  "\"%s\":%s}}",
                                  fields[i], values[j]);

            assert_int_equal(reposbx_policy_parse(&policy, text, (size_t)length, &err),
                             REPOSBX_EMALFORMED);
            assert_null(policy);
            if (strstr(err.message, syntax ? "line 1" : fields[i]) == NULL)
                fail_msg("%s: %s", text, err.message);
        }
    }
}

static void a_preview_over_the_capture_is_refused(void **state)
{
    static const char text[] = "{\"version\":1,\"name\":\"t\",\"images\":[],\"limits\":{"
                               "\"output_bytes\":1001,\"audit_log_bytes\":1000}}";
    reposbx_policy *policy = NULL;
    reposbx_error err = REPOSBX_ERROR_INIT;

    (void)state;
    assert_int_equal(reposbx_policy_parse(&policy, text, sizeof text - 1, &err),
                     REPOSBX_EMALFORMED);
    assert_null(policy);
    assert_non_null(strstr(err.message, "limits.output_bytes"));
    assert_non_null(strstr(err.message, "limits.audit_log_bytes"));
}

static void sizes_of_requests_are_refused_by_name(void **state)
{
    static const char *const paths[] = { "text.txt" };
    struct fake_place *here = *state;
    reposbx_session *session = fake_place_session(here, NULL);
    reposbx_artifact_options options = REPOSBX_ARTIFACT_OPTIONS_INIT;
    reposbx_artifact_bundle bundle = { .path = NULL };
    reposbx_exec_request request = plain_request();
    reposbx_error err = REPOSBX_ERROR_INIT;
    char *bytes = calloc(1048577, 1), *read = NULL;
    char output[128];
    size_t length = 0;

    assert_non_null(bytes);
    (void)snprintf(output, sizeof output, "%s/no.zip", here->place.root);
    options.output = output;
    assert_true(reposbx_session_artifacts(&bundle, session, &options, &err) < 0);
    assert_non_null(strstr(err.message, "paths"));
    options.paths = paths;
    options.path_count = 1;
    options.max_bytes = 67108865; /* the policy has 64 MiB */
    assert_int_equal(reposbx_session_artifacts(&bundle, session, &options, &err),
                     REPOSBX_EPOLICY);
    assert_non_null(strstr(err.message, "max_bytes"));
    assert_int_equal(reposbx_session_read(&read, &length, session, "text.txt", 0, &err),
                     REPOSBX_EPOLICY);
    assert_non_null(strstr(err.message, "max_bytes"));
    assert_int_equal(reposbx_session_write(session, "x", bytes, 1048577, 0, &err),
                     REPOSBX_EPOLICY);
    assert_non_null(strstr(err.hint, "stdin_bytes"));
    request.stdin_bytes = bytes;
    request.stdin_length = 1048577;
    is_refused(session, &request, "stdin");
    free(bytes);
    assert_int_equal(fake_docker_asked(here->fake, RSBX_OP_EXEC), 0);
    assert_int_equal(fake_docker_asked(here->fake, RSBX_OP_READ), 0);
    assert_int_equal(fake_docker_asked(here->fake, RSBX_OP_WRITE), 0);
    assert_int_equal(fake_docker_asked(here->fake, RSBX_OP_COLLECT), 0);
    assert_int_equal(reposbx_session_close(session, REPOSBX_KEEP_AUDIT, NULL), 0);
    reposbx_session_free(session);
}

/* ---- budgets ---- */

static void after_the_lease_only_the_end_is_left(void **state)
{
    const struct timespec moment = { .tv_sec = 1, .tv_nsec = 100000000 };
    struct fake_place *here = *state;
    reposbx_session *session = fake_place_session(here, "{\"session\":{\"lease_seconds\":1}}");
    reposbx_exec_result result = { 0 };
    reposbx_reap_report report = { NULL, 0, 0 };
    reposbx_metadata metadata;
    reposbx_error err = REPOSBX_ERROR_INIT;
    char id[REPOSBX_SESSION_ID_BYTES];

    (void)snprintf(id, sizeof id, "%s", reposbx_session_id(session));
    (void)nanosleep(&moment, NULL);
    assert_int_equal(fake_place_exec(&result, session, &err), REPOSBX_ECLOSED);
    assert_non_null(strstr(err.message, "lease"));
    assert_int_equal(fake_docker_asked(here->fake, RSBX_OP_EXEC), 0);
    assert_int_equal(reposbx_session_metadata(&metadata, here->place.provider, id, NULL), 0);
    assert_string_equal(metadata.state, "expired");
    reposbx_metadata_dispose(&metadata);
    /* Whoever holds it is not disturbed. */
    assert_int_equal(reposbx_reap(&report, here->place.provider, 0, NULL), 0);
    assert_int_equal(report.count, 0);
    reposbx_reap_report_dispose(&report);
    reposbx_session_free(session);
    assert_int_equal(reposbx_reap(&report, here->place.provider, 0, NULL), 0);
    assert_true(report.count > 0);
    assert_int_equal(report.failed, 0);
    reposbx_reap_report_dispose(&report);
    assert_int_equal(fake_docker_left(here->fake), 0);
    assert_int_equal(reposbx_session_metadata(&metadata, here->place.provider, id, NULL), 0);
    assert_string_equal(metadata.state, "closed");
    reposbx_metadata_dispose(&metadata);
}

static void commands_are_counted(void **state)
{
    struct fake_place *here = *state;
    reposbx_session *session = fake_place_session(here, "{\"session\":{\"max_commands\":2}}");
    reposbx_exec_result result = { 0 };
    reposbx_error err = REPOSBX_ERROR_INIT;
    char id[REPOSBX_SESSION_ID_BYTES];

    for (int i = 0; i < 2; i++) {
        assert_int_equal(fake_place_exec(&result, session, NULL), 0);
        reposbx_exec_result_dispose(&result);
    }
    assert_int_equal(fake_place_exec(&result, session, &err), REPOSBX_EPOLICY);
    assert_non_null(strstr(err.message, "max_commands"));
    /* Also by whoever opens it next. */
    (void)snprintf(id, sizeof id, "%s", reposbx_session_id(session));
    reposbx_session_free(session);
    assert_int_equal(reposbx_session_open(&session, here->place.provider, id, NULL), 0);
    assert_int_equal(fake_place_exec(&result, session, NULL), REPOSBX_EPOLICY);
    assert_int_equal(fake_docker_asked(here->fake, RSBX_OP_EXEC), 2);
    assert_int_equal(reposbx_session_close(session, REPOSBX_KEEP_AUDIT, NULL), 0);
    reposbx_session_free(session);
}

static void a_full_audit_lets_nothing_run(void **state)
{
    struct fake_place *here = *state;
    /* Room for the first records, the reserve and one capture. */
    reposbx_session *session = fake_place_session(
        here, "{\"session\":{\"audit_bytes\":176000},\"limits\":{\"audit_log_bytes\":100000}}");
    reposbx_exec_result result = { 0 };
    reposbx_audit_report report;
    reposbx_error err = REPOSBX_ERROR_INIT;
    size_t ran = 0;
    int rc;

    while ((rc = fake_place_exec(&result, session, &err)) == 0) {
        reposbx_exec_result_dispose(&result);
        assert_true(++ran < 100);
    }
    if (rc != REPOSBX_ELIMIT)
        fail_msg("%s: %s", reposbx_code_word(rc), err.message);
    assert_non_null(strstr(err.hint, "audit_bytes"));
    assert_true(ran >= 1);
    assert_int_equal(fake_docker_asked(here->fake, RSBX_OP_EXEC), ran);
    assert_int_equal(fake_place_records(session, "command_finished"), ran);
    rc = reposbx_session_close(session, REPOSBX_KEEP_AUDIT, &err);
    if (rc != 0)
        fail_msg("close: %s", err.message);
    assert_int_equal(fake_place_records(session, "sandbox_closed"), 1);
    assert_int_equal(
        reposbx_audit_verify(&report, reposbx_session_audit_dir(session), NULL), 0);
    assert_int_equal(report.verdict, REPOSBX_AUDIT_WHOLE);
    reposbx_session_free(session);
    assert_int_equal(fake_docker_left(here->fake), 0);
}

/* Wherever the audit comes to its end: what was started is also finished in it. */
static void a_started_command_is_always_finished(void **state)
{
    struct fake_place *here = *state;
    size_t full = 0;

    for (size_t length = 54000; length < 57000; length += 300) {
        reposbx_session *session = fake_place_session(
            here, "{\"session\":{\"audit_bytes\":131072},\"limits\":{\"output_bytes\":6,"
                  "\"audit_log_bytes\":6}}");
        reposbx_exec_request request = plain_request();
        reposbx_exec_result result = { 0 };
        reposbx_error err = REPOSBX_ERROR_INIT;
        char *word = calloc(length + 1, 1);
        const char *argv[] = { "true", word };
        int rc;

        assert_non_null(word);
        memset(word, 'x', length); /* its record takes most of what there is */
        fake_docker_forget(here->fake);
        request.argv = argv;
        request.argc = 2;
        rc = reposbx_session_exec(&result, session, &request, &err);
        reposbx_exec_result_dispose(&result);
        free(word);
        while (rc == 0) {
            rc = fake_place_exec(&result, session, &err);
            if (rc == 0)
                reposbx_exec_result_dispose(&result);
        }
        assert_true(rc == REPOSBX_ELIMIT);
        full++;
        assert_int_equal(fake_place_records(session, "command_started"),
                         fake_docker_asked(here->fake, RSBX_OP_EXEC));
        assert_int_equal(fake_place_records(session, "command_finished"),
                         fake_docker_asked(here->fake, RSBX_OP_EXEC));
        assert_int_equal(reposbx_session_close(session, REPOSBX_KEEP_AUDIT, NULL), 0);
        assert_int_equal(fake_place_records(session, "sandbox_closed"), 1);
        reposbx_session_free(session);
    }
    assert_int_equal(full, 10);
}

int main(void)
{
#define CASE(test) cmocka_unit_test_setup_teardown(test, fake_place_setup, fake_place_teardown)
    const struct CMUnitTest tests[] = {
        CASE(limits_of_a_request_are_refused_by_name),
        CASE(lowered_limits_reach_the_guest),
        CASE(limits_of_a_policy_are_refused_by_name),
        CASE(a_preview_over_the_capture_is_refused),
        CASE(sizes_of_requests_are_refused_by_name),
        CASE(after_the_lease_only_the_end_is_left),
        CASE(commands_are_counted),
        CASE(a_full_audit_lets_nothing_run),
        CASE(a_started_command_is_always_finished),
    };

    return cmocka_run_group_tests_name("numbers at their edges and budgets", tests, NULL, NULL);
}
