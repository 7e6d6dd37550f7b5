/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "fake/session.h"

#include "base/banned.h"

/* Engines that misbehave in the middle of a session: what they ignore, do not answer, do twice or
 * leave lying, and guests that are not what was asked for. */

static void behave(struct fake_place *here, struct fake_habits habits)
{
    fake_docker_behave(here->fake, &habits);
}
#define BEHAVE(here, ...) behave((here), (struct fake_habits){ __VA_ARGS__ })

static void runs_a_command(reposbx_session *session)
{
    reposbx_exec_result result = { 0 };
    reposbx_error err = REPOSBX_ERROR_INIT;

    if (fake_place_exec(&result, session, &err) != 0)
        fail_msg("exec: %s", err.message);
    assert_int_equal(result.status, REPOSBX_EXITED);
    assert_int_equal(result.exit_code, 0);
    assert_string_equal(result.stdout_preview, "hello\n");
    reposbx_exec_result_dispose(&result);
}

static void closes(struct fake_place *here, reposbx_session *session)
{
    reposbx_error err = REPOSBX_ERROR_INIT;
    int rc = reposbx_session_close(session, REPOSBX_KEEP_AUDIT, &err);

    reposbx_session_free(session);
    if (rc != 0)
        fail_msg("close: %s", err.message);
    assert_int_equal(fake_docker_left(here->fake), 0);
}

static int create(struct fake_place *here, reposbx_error *err)
{
    reposbx_session *session = NULL;
    int rc = fake_place_create(&session, here, FAKE_IMAGE_ID, NULL, err);

    if (rc == 0) {
        reposbx_session_free(session);
        fail_msg("a session was made");
    }
    assert_null(session);
    assert_int_equal(err->code, rc);
    return rc;
}

static void an_honest_engine_serves(void **state)
{
    struct fake_place *here = *state;
    reposbx_session *session = fake_place_session(here, NULL);

    runs_a_command(session);
    runs_a_command(session);
    assert_int_equal(fake_docker_asked(here->fake, RSBX_OP_EXEC), 2);
    assert_int_equal(fake_place_records(session, "command_started"), 2);
    assert_int_equal(fake_place_records(session, "command_finished"), 2);
    closes(here, session);
}

static void the_struct_says_what_the_document_says(void **state)
{
    struct fake_place *here = *state;
    reposbx_session *session = fake_place_session(here, NULL);
    reposbx_metadata metadata;
    reposbx_error err = REPOSBX_ERROR_INIT;
    const char *id = reposbx_session_id(session);

    if (reposbx_session_metadata(&metadata, here->place.provider, id, &err) != 0)
        fail_msg("%s", err.message);
    assert_string_equal(metadata.sandbox_id, id);
    assert_string_equal(metadata.task_id, "test-1");
    assert_string_equal(metadata.provider, "docker");
    assert_string_equal(metadata.isolation, "container");
    assert_string_equal(metadata.image, FAKE_IMAGE_ID);
    assert_string_equal(metadata.image_id, FAKE_IMAGE_ID);
    assert_string_equal(metadata.platform, "linux/amd64");
    assert_string_equal(metadata.source_revision, here->place.revision);
    assert_string_equal(metadata.source_tree, here->place.tree);
    assert_int_equal(strncmp(metadata.source_fingerprint, "sha256-v2:", 10), 0);
    assert_int_equal(metadata.source_file_count, 15);
    assert_true(metadata.source_bytes > 100);
    assert_string_equal(metadata.workspace, "overlay");
    assert_non_null(metadata.workspace_reason);
    assert_int_equal(metadata.network, REPOSBX_NETWORK_NONE);
    assert_int_equal(metadata.rootless_runtime, 1);
    assert_string_equal(reposbx_policy_name(metadata.policy), "issue-bot");
    assert_int_equal(reposbx_policy_limits(metadata.policy)->pids, 256);
    assert_string_equal(metadata.capabilities.provider, "docker");
    assert_string_equal(metadata.capabilities.isolation, "container");
    assert_int_equal(metadata.capabilities.non_root_user, 1);
    assert_int_equal(metadata.capabilities.network_isolation, 1);
    assert_int_equal(metadata.capabilities.read_only_rootfs, 1);
    assert_int_equal(metadata.capabilities.resource_limits, 1);
    assert_int_equal(metadata.capabilities.process_tree_cleanup, 1);
    assert_int_equal(metadata.capabilities.disk_quota, 0);
    assert_int_equal(metadata.capabilities.rootless_runtime, 1);
    assert_int_equal(strlen(metadata.created_at), strlen("2026-01-31T12:00:00.000Z"));
    assert_string_equal(metadata.state, "ready");
    assert_null(metadata.state_reason);
    reposbx_metadata_dispose(&metadata);
    assert_null(metadata.sandbox_id);
    reposbx_metadata_dispose(&metadata);
    assert_int_equal(reposbx_session_metadata(&metadata, here->place.provider,
                                              "sbx-00000000000000000000000000000000", &err),
                     REPOSBX_ENOTFOUND);
    assert_int_equal(reposbx_session_metadata(NULL, here->place.provider, id, NULL),
                     REPOSBX_EINVALID);
    closes(here, session);
}

static void a_network_is_told(void **state)
{
    struct fake_place *here = *state;
    reposbx_session *session = fake_place_session(here, "{\"network\":\"bridge\"}");
    reposbx_metadata metadata;

    assert_int_equal(reposbx_session_metadata(&metadata, here->place.provider,
                                              reposbx_session_id(session), NULL),
                     0);
    assert_int_equal(metadata.network, REPOSBX_NETWORK_BRIDGE);
    assert_int_equal(metadata.capabilities.network_isolation, 0);
    reposbx_metadata_dispose(&metadata);
    closes(here, session);
}

/* ---- what the engine ignores ---- */

static void an_ignored_limit_refuses(void **state)
{
    static const char warning[] = "Your kernel does not support swap limit capabilities";
    struct fake_place *here = *state;
    reposbx_error err = REPOSBX_ERROR_INIT;

    BEHAVE(here, .create_warning = warning);
    assert_int_equal(create(here, &err), REPOSBX_EPOLICY);
    assert_non_null(strstr(err.message, warning));
    assert_int_equal(fake_docker_count(here->fake, "POST /containers/create"), 1);
    assert_true(fake_docker_count(here->fake, "DELETE /containers/") >= 1);
    assert_int_equal(fake_docker_asked(here->fake, 0), 0);
    assert_int_equal(fake_docker_left(here->fake), 0);
}

/* ---- what belongs to others ---- */

static void a_foreign_volume_is_left_alone(void **state)
{
    struct fake_place *here = *state;
    reposbx_error err = REPOSBX_ERROR_INIT;

    BEHAVE(here, .foreign_volume = "-workspace");
    assert_int_equal(create(here, &err), REPOSBX_EPOLICY);
    assert_non_null(strstr(err.message, "does not belong to this session"));
    assert_int_equal(fake_docker_count(here->fake, "POST /volumes/create"), 4);
    assert_int_equal(fake_docker_count(here->fake, "POST /containers/create"), 0);
    /* Ours are gone and the other one is still there. */
    assert_int_equal(fake_docker_count(here->fake, "DELETE /volumes/"), 3);
    assert_int_equal(fake_docker_left(here->fake), 1);
}

static void what_cannot_be_removed_is_named(void **state)
{
    struct fake_place *here = *state;
    reposbx_session *session = fake_place_session(here, NULL);
    reposbx_reap_report report = { NULL, 0, 0 };
    reposbx_exec_result result = { 0 };
    reposbx_metadata metadata;
    reposbx_error err = REPOSBX_ERROR_INIT;
    char id[REPOSBX_SESSION_ID_BYTES], name[64];

    (void)snprintf(id, sizeof id, "%s", reposbx_session_id(session));
    (void)snprintf(name, sizeof name, "%s-upper", id);
    BEHAVE(here, .foreign_volume = "-upper");
    assert_int_equal(reposbx_session_close(session, REPOSBX_KEEP_AUDIT, &err), REPOSBX_EPOISONED);
    assert_non_null(strstr(err.message, name));
    assert_non_null(strstr(err.hint, "reap"));
    assert_int_equal(fake_docker_left(here->fake), 1);
    assert_int_equal(fake_place_exec(&result, session, NULL), REPOSBX_EPOISONED);
    reposbx_session_free(session);
    assert_int_equal(reposbx_session_metadata(&metadata, here->place.provider, id, NULL), 0);
    assert_string_equal(metadata.state, "poisoned");
    assert_non_null(strstr(metadata.state_reason, name));
    reposbx_metadata_dispose(&metadata);
    BEHAVE(here, .linger_ms = 0);
    assert_int_equal(reposbx_reap(&report, here->place.provider, 0, NULL), 0);
    assert_int_equal(report.failed, 0);
    assert_true(report.count > 0);
    reposbx_reap_report_dispose(&report);
    assert_int_equal(fake_docker_left(here->fake), 0);
}

/* Somebody else's volume under our name is told once, stays, and keeps nothing from ending. */
static void what_is_not_ours_is_told_once(void **state)
{
    struct fake_place *here = *state;
    reposbx_session *session = fake_place_session(here, NULL);
    reposbx_reap_report report = { NULL, 0, 0 };
    reposbx_metadata metadata;
    char id[REPOSBX_SESSION_ID_BYTES], name[64];
    size_t told = 0;

    (void)snprintf(id, sizeof id, "%s", reposbx_session_id(session));
    (void)snprintf(name, sizeof name, "volume %s-upper", id);
    BEHAVE(here, .foreign_volume = "-upper");
    assert_int_equal(reposbx_session_close(session, REPOSBX_KEEP_AUDIT, NULL), REPOSBX_EPOISONED);
    reposbx_session_free(session);
    assert_int_equal(reposbx_reap(&report, here->place.provider, 0, NULL), 0);
    assert_int_equal(report.failed, 0);
    for (size_t i = 0; i < report.count; i++) {
        if (strcmp(report.items[i].action, "left_alone") != 0)
            continue;
        assert_string_equal(report.items[i].object, name);
        assert_non_null(strstr(report.items[i].detail, "does not belong to this session"));
        told++;
    }
    assert_int_equal(told, 1);
    reposbx_reap_report_dispose(&report);
    assert_int_equal(reposbx_session_metadata(&metadata, here->place.provider, id, NULL), 0);
    assert_string_equal(metadata.state, "closed");
    reposbx_metadata_dispose(&metadata);
    assert_int_equal(reposbx_reap(&report, here->place.provider, 0, NULL), 0);
    assert_int_equal(report.count, 0);
    assert_int_equal(report.failed, 0);
    reposbx_reap_report_dispose(&report);
    assert_int_equal(fake_docker_left(here->fake), 1);
    BEHAVE(here, .linger_ms = 0);
}

static void edit_state(struct fake_place *here, const char *script)
{
    const char *argv[] = { "sh", "-c", script, NULL };

    assert_int_equal(place_run(NULL, NULL, here->place.state, argv), 0);
}

/* What another version wrote may be in use; what is damaged is cleared up, but not the log of what was done. */
static void what_cannot_be_read_keeps_its_log(void **state)
{
    struct fake_place *here = *state;
    reposbx_session *session = fake_place_session(here, NULL);
    reposbx_reap_report report = { NULL, 0, 0 };
    size_t objects;

    reposbx_session_free(session);
    /* Until its keepers have ended, who make and remove containers. */
    edit_state(here, "flock -w 600 sessions/*/keepers true");
    objects = fake_docker_left(here->fake);
    edit_state(here, "cd sessions/* && cp metadata.json ../../whole && "
                     "sed 's/\"policy\":{/&\"later\":1,/' ../../whole > metadata.json");
    assert_int_equal(reposbx_reap(&report, here->place.provider, 0, NULL), 0);
    assert_int_equal(report.count, 1);
    assert_int_equal(report.failed, 1);
    assert_non_null(strstr(report.items[0].detail, "later"));
    reposbx_reap_report_dispose(&report);
    assert_int_equal(fake_docker_left(here->fake), objects);
    /* A state of a version to come, too. */
    edit_state(here, "cd sessions/* && sed 's/\"state\":\"ready\"/\"state\":\"paused\"/' ../../whole > metadata.json "
                     "&& grep -q paused metadata.json");
    assert_int_equal(reposbx_reap(&report, here->place.provider, 0, NULL), 0);
    assert_int_equal(report.count, 1);
    assert_int_equal(report.failed, 1);
    assert_non_null(strstr(report.items[0].detail, "paused"));
    reposbx_reap_report_dispose(&report);
    assert_int_equal(fake_docker_left(here->fake), objects);
    edit_state(here, "cd sessions/* && head -c 20 ../../whole > metadata.json");
    assert_int_equal(reposbx_reap(&report, here->place.provider, 0, NULL), 0);
    assert_true(report.count > 1);
    assert_int_equal(report.failed, 0);
    reposbx_reap_report_dispose(&report);
    assert_int_equal(fake_docker_left(here->fake), 0);
    edit_state(here, "grep -q sandbox_created sessions/*/audit/events.jsonl");
    assert_int_equal(reposbx_reap(&report, here->place.provider, 0, NULL), 0);
    assert_int_equal(report.count, 0);
    reposbx_reap_report_dispose(&report);
    edit_state(here, "rm -r sessions/* whole");
}

/* What a keeper could not remove poisons the session until it is closed, and not beyond. */
static void what_is_cleared_up_stays_closed(void **state)
{
    struct fake_place *here = *state;
    reposbx_session *session = fake_place_session(here, NULL);
    const char *argv[] = { "sh", "-c", "for j in sessions/*/journal; do echo fault it hung >> $j; done",
                           NULL };
    reposbx_reap_report report = { NULL, 0, 0 };
    reposbx_metadata metadata;
    char id[REPOSBX_SESSION_ID_BYTES];

    (void)snprintf(id, sizeof id, "%s", reposbx_session_id(session));
    reposbx_session_free(session);
    assert_int_equal(place_run(NULL, NULL, here->place.state, argv), 0);
    assert_int_equal(reposbx_session_open(&session, here->place.provider, id, NULL), 0);
    assert_int_equal(reposbx_session_close(session, REPOSBX_KEEP_AUDIT, NULL), 0);
    reposbx_session_free(session);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(reposbx_reap(&report, here->place.provider, 0, NULL), 0);
        assert_int_equal(report.count, 0);
        reposbx_reap_report_dispose(&report);
        assert_int_equal(reposbx_session_metadata(&metadata, here->place.provider, id, NULL), 0);
        assert_string_equal(metadata.state, "closed");
        reposbx_metadata_dispose(&metadata);
    }
    assert_int_equal(fake_docker_left(here->fake), 0);
}

/* ---- what is not answered ---- */

static void an_unanswered_volume_is_looked_up(void **state)
{
    struct fake_place *here = *state;
    reposbx_error err = REPOSBX_ERROR_INIT;
    reposbx_session *session;

    BEHAVE(here, .volume_create = FAKE_LOST);
    assert_int_equal(create(here, &err), REPOSBX_EUNAVAILABLE);
    assert_int_equal(fake_docker_count(here->fake, "POST /volumes/create"), 1);
    assert_true(fake_docker_count(here->fake, "GET /volumes/") >= 1);
    assert_int_equal(fake_docker_left(here->fake), 0);
    fake_docker_forget(here->fake);
    BEHAVE(here, .volume_create = FAKE_DONE_IN_SILENCE);
    session = fake_place_session(here, NULL);
    assert_int_equal(fake_docker_count(here->fake, "POST /volumes/create"), 4);
    runs_a_command(session);
    closes(here, session);
}

static void an_unanswered_container_is_looked_up(void **state)
{
    static const enum fake_answer answers[] = { FAKE_LOST, FAKE_DONE_IN_SILENCE };
    struct fake_place *here = *state;

    for (size_t i = 0; i < sizeof answers / sizeof answers[0]; i++) {
        reposbx_error err = REPOSBX_ERROR_INIT;

        fake_docker_forget(here->fake);
        BEHAVE(here, .container_create = answers[i]);
        assert_int_equal(create(here, &err), REPOSBX_EUNAVAILABLE);
        assert_int_equal(fake_docker_count(here->fake, "POST /containers/create"), 1);
        assert_true(fake_docker_count(here->fake, "GET /containers/") >= 1);
        assert_int_equal(fake_docker_asked(here->fake, 0), 0);
        assert_int_equal(fake_docker_left(here->fake), 0);
    }
}

static void an_unanswered_start_is_looked_up(void **state)
{
    struct fake_place *here = *state;
    reposbx_error err = REPOSBX_ERROR_INIT;
    reposbx_session *session;

    BEHAVE(here, .container_start = FAKE_LOST);
    assert_int_equal(create(here, &err), REPOSBX_EUNAVAILABLE);
    assert_int_equal(fake_docker_asked(here->fake, 0), 0);
    assert_int_equal(fake_docker_left(here->fake), 0);
    BEHAVE(here, .container_start = FAKE_DONE_IN_SILENCE);
    session = fake_place_session(here, NULL);
    runs_a_command(session);
    closes(here, session);
}

/* ---- what is answered too early ---- */

static void a_name_that_lingers_is_waited_for(void **state)
{
    struct fake_place *here = *state;
    reposbx_session *session;

    BEHAVE(here, .linger_ms = 300);
    session = fake_place_session(here, NULL);
    runs_a_command(session);
    closes(here, session); /* looks that containers and volumes are really gone */
}

static void a_conversation_that_breaks_off_is_no_success(void **state)
{
    struct fake_place *here = *state;
    reposbx_session *session = fake_place_session(here, NULL);
    reposbx_exec_result result = { 0 };
    reposbx_error err = REPOSBX_ERROR_INIT;

    BEHAVE(here, .guest = FAKE_GUEST_NO_TRAILER, .guest_of = "-exec");
    if (fake_place_exec(&result, session, &err) != 0)
        fail_msg("exec: %s", err.message);
    assert_int_equal(result.status, REPOSBX_STATUS_UNKNOWN);
    assert_int_equal(result.exit_code, -1);
    assert_string_equal(result.stdout_preview, "hello\n");
    reposbx_exec_result_dispose(&result);
    BEHAVE(here, .linger_ms = 0);
    runs_a_command(session);
    closes(here, session);
}

/* Whoever removed it: what the guest said counts, and nothing that could be asked afterwards. */
static void a_container_that_vanishes_is_no_loss(void **state)
{
    struct fake_place *here = *state;
    reposbx_session *session;
    reposbx_exec_result result = { 0 };
    reposbx_error err = REPOSBX_ERROR_INIT;

    BEHAVE(here, .vanishing = true);
    session = fake_place_session(here, NULL);
    runs_a_command(session);
    BEHAVE(here, .vanishing = true, .guest = FAKE_GUEST_NO_TRAILER, .guest_of = "-exec");
    if (fake_place_exec(&result, session, &err) != 0)
        fail_msg("exec: %s", err.message);
    assert_int_equal(result.status, REPOSBX_STATUS_UNKNOWN);
    assert_int_equal(result.exit_code, -1);
    reposbx_exec_result_dispose(&result);
    BEHAVE(here, .vanishing = true);
    runs_a_command(session);
    closes(here, session);
}

/* ---- guests that are not what was asked for ---- */

static void more_memory(struct rsbx_hello *hello)
{
    hello->memory_bytes *= 2;
}

static void more_swap(struct rsbx_hello *hello)
{
    hello->memory_swap_bytes = RSBX_UNLIMITED;
}

static void more_processes(struct rsbx_hello *hello)
{
    hello->pids = RSBX_UNLIMITED;
}

static void more_processors(struct rsbx_hello *hello)
{
    hello->cpu_quota_us += 1000;
}

static void unseen_memory(struct rsbx_hello *hello)
{
    hello->memory_bytes = RSBX_UNKNOWN;
}

static void as_root(struct rsbx_hello *hello)
{
    hello->uid = 0;
}

static void with_a_capability(struct rsbx_hello *hello)
{
    hello->cap_bounding |= 1U << 21;
}

static void without_seccomp(struct rsbx_hello *hello)
{
    hello->seccomp_mode = 0;
}

static void with_new_privileges(struct rsbx_hello *hello)
{
    hello->no_new_privs = 0;
}

static void on_a_writable_root(struct rsbx_hello *hello)
{
    hello->root_read_only = 0;
}

static void on_a_network(struct rsbx_hello *hello)
{
    hello->interfaces = 1;
}

static void with_the_baseline(struct rsbx_hello *hello)
{
    hello->baseline = 3 - hello->baseline;
}

static const struct deviation {
    enum fake_guest_habit habit;
    void (*hello)(struct rsbx_hello *hello);
    int code;
    const char *says;
} deviations[] = {
    { FAKE_GUEST_HONEST, more_memory, REPOSBX_EPOLICY, "the memory limit" },
    { FAKE_GUEST_HONEST, more_swap, REPOSBX_EPOLICY, "the limit of memory and swap" },
    { FAKE_GUEST_HONEST, more_processes, REPOSBX_EPOLICY, "the limit of processes" },
    { FAKE_GUEST_HONEST, more_processors, REPOSBX_EPOLICY, "the processor quota" },
    { FAKE_GUEST_HONEST, unseen_memory, REPOSBX_EPOLICY, "cannot be observed" },
    { FAKE_GUEST_HONEST, as_root, REPOSBX_EPOLICY, "the user id" },
    { FAKE_GUEST_HONEST, with_a_capability, REPOSBX_EPOLICY, "the bounding capability set" },
    { FAKE_GUEST_HONEST, without_seccomp, REPOSBX_EPOLICY, "the seccomp mode" },
    { FAKE_GUEST_HONEST, with_new_privileges, REPOSBX_EPOLICY, "no-new-privileges" },
    { FAKE_GUEST_HONEST, on_a_writable_root, REPOSBX_EPOLICY, "the read-only root" },
    { FAKE_GUEST_HONEST, on_a_network, REPOSBX_EPOLICY, "network interfaces" },
    { FAKE_GUEST_HONEST, with_the_baseline, REPOSBX_EPOLICY, "the baseline mount" },
    { FAKE_GUEST_GONE, NULL, REPOSBX_EPROTOCOL, "ended without an answer" },
    { FAKE_GUEST_GARBAGE, NULL, REPOSBX_EPROTOCOL, "no message" },
    { FAKE_GUEST_NO_FRAMES, NULL, REPOSBX_EPROTOCOL, "" },
    { FAKE_GUEST_OTHER_NONCE, NULL, REPOSBX_EPROTOCOL, "not for this greeting" },
    { FAKE_GUEST_CUT_HELLO, NULL, REPOSBX_EPROTOCOL, "a hello" },
};
#define DEVIATIONS (sizeof deviations / sizeof deviations[0])

static void is_told(int rc, const struct deviation *deviation, const reposbx_error *err)
{
    if (rc != deviation->code || strstr(err->message, deviation->says) == NULL)
        fail_msg("expected \"%s\", got %s: %s", deviation->says, reposbx_code_word(rc),
                 err->message);
}

static void a_strange_guest_makes_no_session(void **state)
{
    struct fake_place *here = *state;

    for (size_t i = 0; i < DEVIATIONS; i++) {
        reposbx_error err = REPOSBX_ERROR_INIT;

        fake_docker_forget(here->fake);
        BEHAVE(here, .guest = deviations[i].habit, .hello = deviations[i].hello);
        is_told(create(here, &err), &deviations[i], &err);
        assert_int_equal(fake_docker_asked(here->fake, 0), 0);
        assert_int_equal(fake_docker_left(here->fake), 0);
    }
}

static void a_strange_guest_gets_no_command(void **state)
{
    struct fake_place *here = *state;
    reposbx_session *session = fake_place_session(here, NULL);

    for (size_t i = 0; i < DEVIATIONS; i++) {
        reposbx_exec_result result = { 0 };
        reposbx_error err = REPOSBX_ERROR_INIT;

        if (deviations[i].hello == with_the_baseline)
            continue; /* is not mounted there */
        BEHAVE(here, .guest = deviations[i].habit, .hello = deviations[i].hello,
               .guest_of = "-exec");
        is_told(fake_place_exec(&result, session, &err), &deviations[i], &err);
        assert_null(result.command_id);
    }
    assert_int_equal(fake_docker_asked(here->fake, RSBX_OP_EXEC), 0);
    assert_int_equal(fake_place_records(session, "command_started"), 0);
    assert_true(fake_place_records(session, "refused") > 0);
    BEHAVE(here, .linger_ms = 0);
    runs_a_command(session);
    closes(here, session);
}

int main(void)
{
#define CASE(test) cmocka_unit_test_setup_teardown(test, fake_place_setup, fake_place_teardown)
    const struct CMUnitTest tests[] = {
        CASE(an_honest_engine_serves),
        CASE(the_struct_says_what_the_document_says),
        CASE(a_network_is_told),
        CASE(an_ignored_limit_refuses),
        CASE(a_foreign_volume_is_left_alone),
        CASE(what_cannot_be_removed_is_named),
        CASE(what_is_not_ours_is_told_once),
        CASE(what_cannot_be_read_keeps_its_log),
        CASE(what_is_cleared_up_stays_closed),
        CASE(an_unanswered_volume_is_looked_up),
        CASE(an_unanswered_container_is_looked_up),
        CASE(an_unanswered_start_is_looked_up),
        CASE(a_name_that_lingers_is_waited_for),
        CASE(a_conversation_that_breaks_off_is_no_success),
        CASE(a_container_that_vanishes_is_no_loss),
        CASE(a_strange_guest_makes_no_session),
        CASE(a_strange_guest_gets_no_command),
    };

    return cmocka_run_group_tests_name("sessions on engines that misbehave", tests, NULL, NULL);
}
