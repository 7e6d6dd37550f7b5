/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "real/group.h"

#include "base/banned.h"

/* The budgets of a session on a real engine: its lease and its audit folder. */

static int try_true(reposbx_session *session, reposbx_error *err)
{
    const char *argv[] = { "true" };
    reposbx_exec_request request = REPOSBX_EXEC_REQUEST_INIT;
    reposbx_exec_result result;
    int rc;

    (void)memset(&result, 0, sizeof result);
    request.argv = argv;
    request.argc = 1;
    rc = reposbx_session_exec(&result, session, &request, err);
    if (rc == 0)
        reposbx_exec_result_dispose(&result);
    return rc;
}

static void state_is(const char *id, const char *wanted)
{
    reposbx_metadata metadata;
    reposbx_error err = REPOSBX_ERROR_INIT;

    if (reposbx_session_metadata(&metadata, place.provider, id, &err) != 0)
        fail_msg("%s", err.message);
    assert_string_equal(metadata.state, wanted);
    assert_string_equal(metadata.sandbox_id, id);
    assert_string_equal(metadata.source_tree, place.tree);
    assert_string_equal(metadata.image_id, place_image());
    assert_int_equal(metadata.network, REPOSBX_NETWORK_NONE);
    assert_int_equal(metadata.capabilities.network_isolation, 1);
    reposbx_metadata_dispose(&metadata);
}

static void test_lease(void **state)
{
    const struct timespec moment = { .tv_sec = 1, .tv_nsec = 100000000 };
    reposbx_session *session = place_session(&place, "{\"session\":{\"lease_seconds\":1}}", NULL);
    reposbx_diff_result diff;
    reposbx_reap_report report = { NULL, 0, 0 };
    char id[REPOSBX_SESSION_ID_BYTES];

    (void)state;
    (void)memset(&diff, 0, sizeof diff);
    (void)snprintf(id, sizeof id, "%s", reposbx_session_id(session));
    (void)nanosleep(&moment, NULL);
    assert_int_equal(try_true(session, NULL), REPOSBX_ECLOSED);
    assert_int_equal(reposbx_session_write(session, "x", "1", 1, 0, NULL), REPOSBX_ECLOSED);
    assert_int_equal(reposbx_session_diff(&diff, session, NULL, NULL), REPOSBX_ECLOSED);
    state_is(id, "expired");
    assert_true(place_left(id + strlen("sbx-")) > 0);
    place_free(session);
    assert_int_equal(reposbx_reap(&report, place.provider, 1, NULL), 0);
    assert_true(report.count > 0);
    for (size_t i = 0; i < report.count; i++)
        assert_string_equal(report.items[i].action, "would_remove");
    reposbx_reap_report_dispose(&report);
    assert_true(place_left(id + strlen("sbx-")) > 0);
    assert_int_equal(reposbx_reap(&report, place.provider, 0, NULL), 0);
    assert_true(report.count > 0);
    assert_int_equal(report.failed, 0);
    reposbx_reap_report_dispose(&report);
    assert_int_equal(place_left(id + strlen("sbx-")), 0);
    state_is(id, "closed");
}

static void test_audit_bytes(void **state)
{
    reposbx_session *session = place_session(
        &place,
        "{\"session\":{\"audit_bytes\":262144},\"limits\":{\"audit_log_bytes\":100000}}", NULL);
    reposbx_audit_report report;
    reposbx_error err = REPOSBX_ERROR_INIT;
    char audit[256];
    int rc;

    (void)state;
    (void)memset(&report, 0, sizeof report);
    (void)snprintf(audit, sizeof audit, "%s", reposbx_session_audit_dir(session));
    free(place_text(session, "head -c 60000 /dev/zero"));
    free(place_text(session, "head -c 40000 /dev/zero"));
    rc = try_true(session, &err);
    if (rc != REPOSBX_ELIMIT)
        fail_msg("%s: %s", reposbx_code_word(rc), err.message);
    assert_non_null(strstr(err.hint, "session.audit_bytes"));
    place_close(session, false);
    assert_int_equal(reposbx_audit_verify(&report, audit, NULL), 0);
    assert_int_equal(report.verdict, REPOSBX_AUDIT_WHOLE);
    assert_int_equal(report.streams_checked, 4);
}

/* Packs the folder "many"; a refusal must leave no file. */
static int try_bundle(size_t *members, reposbx_session *session, const char *name, reposbx_error *err)
{
    static const char *const paths[] = { "many" };
    reposbx_artifact_options options = REPOSBX_ARTIFACT_OPTIONS_INIT;
    reposbx_artifact_bundle bundle;
    char output[128];
    int rc;

    (void)memset(&bundle, 0, sizeof bundle);
    (void)snprintf(output, sizeof output, "%s/%s", place.root, name);
    options.paths = paths;
    options.path_count = 1;
    options.output = output;
    rc = reposbx_session_artifacts(&bundle, session, &options, err);
    if (rc == 0) {
        *members = bundle.member_count;
        reposbx_artifact_bundle_dispose(&bundle);
    } else {
        assert_int_equal(access(output, F_OK), -1);
    }
    return rc;
}

static void expect_bundle(reposbx_session *session, const char *name, int wanted, size_t wanted_members)
{
    reposbx_error err = REPOSBX_ERROR_INIT;
    size_t members = 0;
    int rc = try_bundle(&members, session, name, &err);

    if (rc != wanted)
        fail_msg("%s: %s: %s", name, reposbx_code_word(rc), err.message);
    assert_int_equal(members, wanted_members);
}

#define MAKE_MANY(count)                                                                           \
    "mkdir many; i=0; while [ $i -lt " count " ]; do : > many/$i; i=$((i+1)); done"

static void test_members(void **state)
{
    reposbx_session *session = place_session(&place, NULL, NULL);

    (void)state;
    free(place_text(session, MAKE_MANY("1001")));
    expect_bundle(session, "many.zip", REPOSBX_ELIMIT, 0);
    free(place_text(session, "rm many/0"));
    expect_bundle(session, "many.zip", 0, 1000);
    place_close(session, true);
}

/* The policy's word decides, in both directions; a bundle whose record would not fit is not made, and the
 * session goes on. */
static void test_members_of_the_policy(void **state)
{
    reposbx_session *session = place_session(
        &place,
        "{\"session\":{\"audit_bytes\":327680},"
        "\"limits\":{\"artifact_members\":1200,\"output_bytes\":1000,\"audit_log_bytes\":1000}}", NULL);
    reposbx_error err = REPOSBX_ERROR_INIT;
    size_t members = 0;

    (void)state;
    free(place_text(session, MAKE_MANY("1201")));
    expect_bundle(session, "p.zip", REPOSBX_ELIMIT, 0);
    free(place_text(session, "rm many/0"));
    expect_bundle(session, "p.zip", 0, 1200);
    assert_int_equal(try_bundle(&members, session, "q.zip", &err), REPOSBX_ELIMIT);
    if (strstr(err.message, "record") == NULL)
        fail_msg("%s", err.message);
    free(place_text(session, "ls many | tail -n +3 | sed 's,^,many/,' | xargs rm"));
    expect_bundle(session, "q.zip", 0, 2);
    place_close(session, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lease),
        cmocka_unit_test(test_audit_bytes),
        cmocka_unit_test(test_members),
        cmocka_unit_test(test_members_of_the_policy),
    };
    int gate = place_gate();

    if (gate != 0)
        return gate;
    return cmocka_run_group_tests_name("budgets on a real engine", tests, group_setup, group_teardown);
}
