/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What sessions share: a second one on the same revision copies nothing, what is shared stays until
 * the last one leaves, and neither a crash nor a foreign hand leaves it standing or lets it pass
 * unfilled.
 */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include <jansson.h>

#include "fake/session.h"
#include "guest/protocol.h"

#include "base/banned.h"

#define BEHAVE(here, ...)                                                                          \
    do {                                                                                           \
        const struct fake_habits habits_ = { __VA_ARGS__ };                                        \
        fake_docker_behave((here)->fake, &habits_);                                                \
    } while (0)

/* A shell command in the state folder. */
static void in_state(const struct fake_place *here, const char *script)
{
    const char *argv[] = { "sh", "-c", script, NULL };

    assert_int_equal(place_run(NULL, NULL, here->place.state, argv), 0);
}

static void close_it(reposbx_session *session)
{
    reposbx_error err = REPOSBX_ERROR_INIT;

    if (reposbx_session_close(session, REPOSBX_DROP_AUDIT, &err) != 0)
        fail_msg("close: %s", err.message);
    reposbx_session_free(session);
}

static char *fingerprint(reposbx_metadata *metadata, struct fake_place *here,
                         const reposbx_session *session)
{
    assert_int_equal(
        reposbx_session_metadata(metadata, here->place.provider, reposbx_session_id(session), NULL),
        0);
    return (char *)(uintptr_t)metadata->source_fingerprint;
}

static void sees_more_processes(struct rsbx_hello *hello)
{
    hello->pids++;
}

static void a_second_session_copies_nothing(void **state)
{
    struct fake_place *here = *state;
    reposbx_session *first = fake_place_session(here, NULL);
    reposbx_metadata one, two;
    reposbx_exec_result result = { 0 };
    reposbx_session *second;

    assert_int_equal(fake_docker_asked(here->fake, RSBX_OP_FILL), 1);
    assert_int_equal(fake_docker_asked(here->fake, RSBX_OP_SEAL), 1);
    fake_docker_forget(here->fake);
    second = fake_place_session(here, NULL);
    assert_int_equal(fake_docker_asked(here->fake, RSBX_OP_FILL), 0);
    assert_int_equal(fake_docker_asked(here->fake, RSBX_OP_SEAL), 0);
    assert_int_equal(fake_docker_count(here->fake, "POST /volumes/create"), 2);
    /* It is the same snapshot to everybody. */
    assert_string_equal(fingerprint(&one, here, first), fingerprint(&two, here, second));
    assert_string_equal(one.source_tree, two.source_tree);
    assert_int_equal(one.source_file_count, two.source_file_count);
    assert_int_equal(one.source_bytes, two.source_bytes);
    reposbx_metadata_dispose(&one);
    reposbx_metadata_dispose(&two);
    /* It serves on after the one that filled it is gone. */
    close_it(first);
    assert_int_equal(fake_place_folders(here, "shared"), 2);
    assert_int_equal(fake_place_exec(&result, second, NULL), 0);
    reposbx_exec_result_dispose(&result);
    close_it(second);
    assert_int_equal(fake_place_folders(here, "shared"), 0);
    assert_int_equal(fake_docker_left(here->fake), 0);
}

static void another_snapshot_is_not_shared(void **state)
{
    struct fake_place *here = *state;
    reposbx_session *first = fake_place_session(here, NULL);
    /* Links would be kept: what is told of the snapshot may differ. */
    reposbx_session *second = fake_place_session(here, "{\"source\": {\"symlinks\": \"keep\"}}");

    assert_int_equal(fake_docker_asked(here->fake, RSBX_OP_FILL), 2);
    assert_int_equal(fake_place_folders(here, "shared"), 3);
    close_it(first);
    close_it(second);
    assert_int_equal(fake_docker_left(here->fake), 0);
}

static int keep_pids(void *payload, const char *line, size_t length)
{
    json_t *record = json_loadb(line, length, 0, NULL);
    const json_t *data = json_object_get(record, "data");

    if (strcmp(json_string_value(json_object_get(record, "event")), "sandbox_created") == 0)
        *(json_int_t *)payload =
            json_integer_value(json_object_get(json_object_get(data, "observed"), "pids"));
    json_decref(record);
    return 0;
}

/* The limit of processes that the record of a creation says was seen. */
static json_int_t pids_seen(const reposbx_session *session)
{
    json_int_t pids = -1;
    uint64_t offset = 0;

    assert_int_equal(reposbx_audit_read(reposbx_session_audit_dir(session), &offset, keep_pids,
                                        &pids, NULL),
                     0);
    return pids;
}

/* What no container has proved yet is proved by one, and a guest that sees other limits ends the
 * create like that of a first session. */
static void another_confinement_is_proved_first(void **state)
{
    static const char lower[] = "{\"limits\": {\"pids\": 32}}";
    struct fake_place *here = *state;
    reposbx_session *first = fake_place_session(here, NULL);
    reposbx_session *second = NULL;
    reposbx_session *third;
    reposbx_error err = REPOSBX_ERROR_INIT;

    BEHAVE(here, .hello = sees_more_processes, .guest_of = "-seal");
    assert_int_equal(fake_place_create(&second, here, FAKE_IMAGE_ID, lower, &err), REPOSBX_EPOLICY);
    BEHAVE(here, .linger_ms = 0);
    fake_docker_forget(here->fake);
    second = fake_place_session(here, lower);
    assert_int_equal(fake_docker_asked(here->fake, RSBX_OP_FILL), 0);
    assert_int_equal(fake_docker_asked(here->fake, RSBX_OP_SEAL), 1);
    third = fake_place_session(here, lower);
    assert_int_equal(fake_docker_asked(here->fake, RSBX_OP_SEAL), 1);
    assert_int_equal(pids_seen(first), 256);
    assert_int_equal(pids_seen(second), 32);
    assert_int_equal(pids_seen(third), 32); /* seen by the second's container */
    close_it(first);
    close_it(second);
    close_it(third);
    assert_int_equal(fake_docker_left(here->fake), 0);
}

/* A copied workspace needs the baseline read, and that verifies it again. */
static void a_copy_reads_the_baseline_again(void **state)
{
    struct fake_place *here = *state;
    reposbx_session *first = fake_place_session(here, "{\"workspace\": {\"mode\": \"copy\"}}");
    reposbx_session *second = fake_place_session(here, "{\"workspace\": {\"mode\": \"copy\"}}");

    assert_int_equal(fake_docker_asked(here->fake, RSBX_OP_FILL), 1);
    assert_int_equal(fake_docker_asked(here->fake, RSBX_OP_SEAL), 2);
    close_it(first);
    close_it(second);
    assert_int_equal(fake_docker_left(here->fake), 0);
}

static void a_session_that_vanished_holds_nothing(void **state)
{
    struct fake_place *here = *state;
    reposbx_session *session = fake_place_session(here, NULL);
    reposbx_reap_report report = { NULL, 0, 0 };

    /* Somebody removes its folder: nobody can say any more what it had, but for what it shared. */
    reposbx_session_free(session);
    in_state(here, "rm -r sessions/sbx-*");
    assert_int_equal(fake_place_folders(here, "shared"), 2);
    assert_int_equal(reposbx_reap(&report, here->place.provider, 1, NULL), 0);
    assert_int_equal(report.count, 2);
    assert_string_equal(report.items[0].action, "would_remove");
    reposbx_reap_report_dispose(&report);
    assert_int_equal(fake_place_folders(here, "shared"), 2);
    fake_docker_forget(here->fake);
    assert_int_equal(reposbx_reap(&report, here->place.provider, 0, NULL), 0);
    assert_int_equal(fake_docker_count(here->fake, "DELETE /volumes/sbx-"), 2);
    assert_int_equal(report.failed, 0);
    assert_int_equal(report.count, 2);
    reposbx_reap_report_dispose(&report);
    assert_int_equal(fake_place_folders(here, "shared"), 0);
}

/* Somebody removed the volume behind our back: it is filled anew, and never taken empty. */
static void a_store_that_vanished_is_filled_anew(void **state)
{
    struct fake_place *here = *state;
    reposbx_session *first = fake_place_session(here, NULL);
    reposbx_reap_report report = { NULL, 0, 0 };
    reposbx_session *second;

    in_state(here, "cp -a shared kept");
    close_it(first);
    in_state(here, "rm -r shared && mv kept shared");
    second = fake_place_session(here, NULL);
    assert_int_equal(fake_docker_asked(here->fake, RSBX_OP_FILL), 2);
    assert_int_equal(fake_docker_asked(here->fake, RSBX_OP_SEAL), 2);
    /* The mark of the first one was brought back too; its session is closed, so reap takes it. */
    close_it(second);
    assert_int_equal(reposbx_reap(&report, here->place.provider, 0, NULL), 0);
    assert_int_equal(report.failed, 0);
    reposbx_reap_report_dispose(&report);
    assert_int_equal(fake_docker_left(here->fake), 0);
}

/* What is ours by name and somebody else's by its label is not built upon. */
static void a_foreign_baseline_is_refused(void **state)
{
    struct fake_place *here = *state;
    reposbx_session *first = fake_place_session(here, NULL);
    reposbx_session *second = NULL;
    reposbx_error err = REPOSBX_ERROR_INIT;
    char record[4096], path[700], name[128] = "";
    const char *at;
    ssize_t length;
    int fd;

    in_state(here, "cat shared/base2-*/record.json > record");
    (void)snprintf(path, sizeof path, "%s/record", here->place.state);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    length = read(fd, record, sizeof record - 1);
    (void)close(fd);
    assert_true(length > 0);
    record[length] = '\0';
    at = strstr(record, "\"store\":");
    assert_non_null(at);
    assert_int_equal(sscanf(at, "\"store\": \"%127[^\"]", name) == 1 ||
                         sscanf(at, "\"store\":\"%127[^\"]", name) == 1,
                     1);
    BEHAVE(here, .foreign_volume = name);
    assert_int_equal(fake_place_create(&second, here, FAKE_IMAGE_ID, NULL, &err), REPOSBX_EPOLICY);
    assert_non_null(strstr(err.message, name));
    BEHAVE(here, .linger_ms = 0);
    close_it(first);
    assert_int_equal(fake_docker_left(here->fake), 0);
}

static void flags_of_a_close_are_checked(void **state)
{
    struct fake_place *here = *state;
    reposbx_session *session = fake_place_session(here, NULL);

    assert_int_equal(reposbx_session_close(session, 4, NULL), REPOSBX_EINVALID);
    assert_int_equal(reposbx_session_close(session, -1, NULL), REPOSBX_EINVALID);
    assert_int_equal(reposbx_session_close(session, REPOSBX_CLOSE_BEHIND, NULL), 0);
    assert_int_equal(fake_docker_left(here->fake), 0); /* a small one is waited for */
    reposbx_session_free(session);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fake_place_setup, fake_place_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_second_session_copies_nothing),
        TEST(another_snapshot_is_not_shared),
        TEST(another_confinement_is_proved_first),
        TEST(a_copy_reads_the_baseline_again),
        TEST(a_session_that_vanished_holds_nothing),
        TEST(a_store_that_vanished_is_filled_anew),
        TEST(a_foreign_baseline_is_refused),
        TEST(flags_of_a_close_are_checked),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
