/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "fake/session.h"

#include "base/banned.h"

/* Each row of the doctor on an engine that is at fault in just this: that row fails, says what is wrong
 * and what to do, and no other that was judged does. */

#define ABLE_TO(limits)                                                                            \
    "{\"SecurityOptions\":[" FAKE_SECCOMP "],\"CgroupVersion\":\"2\",\"CgroupDriver\":"            \
    "\"systemd\",\"Driver\":\"overlay2\"" limits "}"
#define LIMITS_BUT(memory, swap, cpu, pids)                                                        \
    ABLE_TO(",\"MemoryLimit\":" memory ",\"SwapLimit\":" swap ",\"CpuCfsQuota\":" cpu              \
            ",\"PidsLimit\":" pids)
#define OTHER_ID "sha256:3333333333333333333333333333333333333333333333333333333333333333"
#define ROOTLESS ",\"name=rootless\""

struct fault {
    struct fake_habits habits;
    const char *changes; /* of the policy */
    const char *image;   /* NULL: none is given; nothing is run */
    const char *row, *says;
};

static void write_policy(char out[160], const struct fake_place *here, const char *changes)
{
    reposbx_policy *policy = place_policy(FAKE_IMAGE_ID, changes);
    char *text = NULL;

    assert_int_equal(reposbx_policy_json(&text, policy, 1, NULL), 0);
    (void)snprintf(out, 160, "%s/doctor.json", here->place.root);
    assert_int_equal(place_write(here->place.root, "doctor.json", text, strlen(text), 0600), 0);
    free(text);
    reposbx_policy_free(policy);
}

static void ask(reposbx_doctor_report *report, const struct fake_place *here, const char *changes,
                const char *image)
{
    reposbx_doctor_options options = REPOSBX_DOCTOR_OPTIONS_INIT;
    reposbx_error err = REPOSBX_ERROR_INIT;
    char policy[160];

    write_policy(policy, here, changes);
    options.engine = fake_docker_address(here->fake);
    options.state_dir = here->place.state;
    options.policy = policy;
    options.image = image;
    if (reposbx_doctor(report, &options, &err) != 0)
        fail_msg("%s", err.message);
}

static const reposbx_doctor_check *row_of(const reposbx_doctor_report *report, const char *name)
{
    for (size_t i = 0; i < report->count; i++) {
        if (strcmp(report->checks[i].name, name) == 0)
            return &report->checks[i];
    }
    fail_msg("there is no row %s", name);
    return NULL;
}

static void is_found(struct fake_place *here, const struct fault *fault)
{
    reposbx_doctor_report report = { .checks = NULL };
    const reposbx_doctor_check *row;

    fake_docker_behave(here->fake, &fault->habits);
    ask(&report, here, fault->changes, fault->image);
    row = row_of(&report, fault->row);
    if (row->status != REPOSBX_DOCTOR_FAIL || strstr(row->detail, fault->says) == NULL)
        fail_msg("row %s, wanted \"%s\": %s, \"%s\"", fault->row, fault->says,
                 reposbx_doctor_status_word(row->status), row->detail);
    for (size_t i = 0; i < report.count; i++) {
        if (&report.checks[i] != row && report.checks[i].status == REPOSBX_DOCTOR_FAIL)
            fail_msg("with %s also %s failed: %s", fault->row, report.checks[i].name,
                     report.checks[i].detail);
    }
    assert_int_equal(report.failed, 1);
    assert_int_equal(fake_docker_left(here->fake), 0);
    reposbx_doctor_report_dispose(&report);
}
#define ALL_ARE_FOUND(here, list)                                                                  \
    for (size_t i = 0; i < sizeof(list) / sizeof *(list); i++)                                     \
    is_found((here), &(list)[i])

static void faults_of_the_engine(void **state)
{
    static const struct fault faults[] = {
        { { .version = FAKE_VERSION_OF("Podman Engine") }, NULL, NULL, "engine_genuine", "Podman" },
        { { .version = "{\"Version\":\"19.03.0\",\"ApiVersion\":\"1.40\",\"MinAPIVersion\":"
                       "\"1.12\",\"Os\":\"linux\",\"Arch\":\"amd64\"}" },
          NULL, NULL, "engine_answers", "no common API version" },
        { { .info = "{}" }, NULL, NULL, "engine_facts", "" },
        { { .info = FAKE_INFO_OF(FAKE_SECCOMP, "2", "systemd") },
          "{\"require_rootless_runtime\":true}", NULL, "rootless", "demands a rootless engine" },
        { { .info = FAKE_INFO_OF(FAKE_SECCOMP ROOTLESS, "1", "systemd") }, NULL, NULL,
          "cgroup_version", "cgroup version 2" },
        { { .info = FAKE_INFO_OF(FAKE_SECCOMP ROOTLESS, "2", "cgroupfs") }, NULL, NULL,
          "cgroup_manager", "systemd" },
        { { .info = FAKE_INFO_OF("\"name=userns\"", "2", "systemd") }, NULL, NULL, "seccomp",
          "no seccomp" },
        { { .info = LIMITS_BUT("false", "true", "true", "true") }, NULL, NULL, "memory_limit",
          "cannot limit memory" },
        { { .info = LIMITS_BUT("true", "false", "true", "true") }, NULL, NULL, "swap_limit",
          "cannot limit swap" },
        { { .info = LIMITS_BUT("true", "true", "false", "true") }, NULL, NULL, "cpu_limit",
          "cannot limit processors" },
        { { .info = LIMITS_BUT("true", "true", "true", "false") }, NULL, NULL, "process_limit",
          "cannot limit processes" },
    };

    ALL_ARE_FOUND(*state, faults);
}

static void faults_of_the_image(void **state)
{
    static const struct fault faults[] = {
        { { .image = NULL }, "{\"images\":[]}", FAKE_IMAGE_ID, "image_listed", "not on the list" },
        { { .image = "" }, NULL, FAKE_IMAGE_ID, "image_present", "not on this engine" },
        { { .image = FAKE_IMAGE_OF(OTHER_ID, FAKE_IMAGE_DIGEST, "amd64", "") }, NULL, FAKE_IMAGE_ID,
          "image_pin", "the engine gave " OTHER_ID },
        { { .image = FAKE_IMAGE_OF(FAKE_IMAGE_ID, FAKE_IMAGE_DIGEST, "arm64", "") }, NULL,
          FAKE_IMAGE_ID, "image_platform", "not linux/amd64" },
        { { .image = FAKE_IMAGE_OF(FAKE_IMAGE_ID, FAKE_IMAGE_DIGEST, "amd64",
                                   "\"Volumes\":{\"/data\":{}}") },
          NULL, FAKE_IMAGE_ID, "image_volumes", "VOLUME" },
        { { .image = FAKE_IMAGE_OF(FAKE_IMAGE_ID, FAKE_IMAGE_DIGEST, "amd64",
                                   "\"Env\":[\"NPM_TOKEN=abc\"]") },
          NULL, FAKE_IMAGE_ID, "image_environment", "NPM_TOKEN" },
    };

    ALL_ARE_FOUND(*state, faults);
}

static void not_so_many(struct rsbx_hello *hello)
{
    hello->pids = RSBX_UNLIMITED;
}

static void engines_that_do_not_keep_their_word(void **state)
{
    static const struct fault faults[] = {
        { { .hello = not_so_many }, NULL, FAKE_IMAGE_ID, "session", "processes is without limit" },
        { { .create_warning = "no swap limit" }, NULL, FAKE_IMAGE_ID, "session", "no swap limit" },
    };

    ALL_ARE_FOUND(*state, faults);
}

/* The fake guest ends every command at once with 0: no trial has its way, and everything that it says
 * of its containers is right. */
static void trials_that_go_wrong(void **state)
{
    static const char *const wrong[] = { "exit_code", "timeout", "output_limit", "memory_kill",
                                         "survivors" };
    static const struct fake_habits honest = { .linger_ms = 0 };
    struct fake_place *here = *state;
    reposbx_doctor_report report = { .checks = NULL };
    char doctor[160];

    fake_docker_behave(here->fake, &honest);
    ask(&report, here, NULL, FAKE_IMAGE_ID);
    assert_int_equal(row_of(&report, "session")->status, REPOSBX_DOCTOR_PASS);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        const reposbx_doctor_check *row = row_of(&report, wrong[i]);

        if (row->status != REPOSBX_DOCTOR_FAIL || row->hint[0] == '\0')
            fail_msg("%s: %s", row->name, row->detail);
    }
    /* Nor does it write the file that it is given. */
    assert_int_equal(row_of(&report, "workspace")->status, REPOSBX_DOCTOR_FAIL);
    assert_string_not_equal(row_of(&report, "workspace")->detail, "");
    assert_int_equal(row_of(&report, "inside_memory")->status, REPOSBX_DOCTOR_PASS);
    assert_int_equal(row_of(&report, "inside_mounts")->status, REPOSBX_DOCTOR_PASS);
    assert_int_equal(row_of(&report, "nothing_left")->status, REPOSBX_DOCTOR_PASS);
    assert_int_equal(fake_docker_left(here->fake), 0);
    (void)snprintf(doctor, sizeof doctor, "%s/doctor", here->place.state);
    assert_int_equal(access(doctor, F_OK), -1);
    reposbx_doctor_report_dispose(&report);
}

static void a_socket_for_everybody(void **state)
{
    struct fake_place *here = *state;
    reposbx_doctor_report report = { .checks = NULL };
    const char *path = fake_docker_address(here->fake) + strlen("unix://");

    assert_int_equal(chmod(path, 0777), 0);
    ask(&report, here, NULL, NULL);
    assert_int_equal(row_of(&report, "engine_socket")->status, REPOSBX_DOCTOR_FAIL);
    assert_non_null(strstr(row_of(&report, "engine_socket")->detail, "everybody"));
    reposbx_doctor_report_dispose(&report);
    assert_int_equal(chmod(path, 0600), 0);
    ask(&report, here, NULL, NULL);
    assert_int_equal(row_of(&report, "engine_socket")->status, REPOSBX_DOCTOR_PASS);
    assert_int_equal(report.failed, 0);
    reposbx_doctor_report_dispose(&report);
}

/* Another user's socket is another user's engine. */
static void a_socket_of_somebody_else(void **state)
{
    struct fake_place *here = *state;
    reposbx_doctor_report report = { .checks = NULL };
    const char *path = fake_docker_address(here->fake) + strlen("unix://");

    if (geteuid() != 0) /* who else can give a file away? */
        skip();
    assert_int_equal(chown(path, 12345, (gid_t)-1), 0);
    ask(&report, here, NULL, NULL);
    assert_int_equal(row_of(&report, "engine_socket")->status, REPOSBX_DOCTOR_FAIL);
    assert_non_null(strstr(row_of(&report, "engine_socket")->detail, "belongs to user 12345"));
    assert_int_equal(row_of(&report, "engine_answers")->status, REPOSBX_DOCTOR_FAIL);
    reposbx_doctor_report_dispose(&report);
    assert_int_equal(chown(path, 0, (gid_t)-1), 0);
}

/* Once a command runs, the engine says that the workspace is somebody else's. */
static void *change_owner(void *payload)
{
    static const struct fake_habits foreign = { .foreign_volume = "-workspace" };
    struct fake_place *here = payload;

    while (fake_docker_asked(here->fake, RSBX_OP_EXEC) == 0)
        (void)usleep(1000);
    fake_docker_behave(here->fake, &foreign);
    return NULL;
}

static void what_cannot_be_removed(void **state)
{
    static const struct fake_habits honest = { .linger_ms = 0 };
    struct fake_place *here = *state;
    reposbx_doctor_report report = { .checks = NULL };
    const reposbx_doctor_check *row;
    pthread_t thread;

    assert_int_equal(pthread_create(&thread, NULL, change_owner, here), 0);
    ask(&report, here, NULL, FAKE_IMAGE_ID);
    assert_int_equal(pthread_join(thread, NULL), 0);
    row = row_of(&report, "nothing_left");
    if (row->status != REPOSBX_DOCTOR_FAIL || strstr(row->detail, "-workspace") == NULL ||
        strstr(row->hint, "reap") == NULL)
        fail_msg("nothing_left: %s, %s", row->detail, row->hint);
    assert_true(fake_docker_left(here->fake) > 0);
    reposbx_doctor_report_dispose(&report);
    /* The next doctor clears up behind this one. */
    fake_docker_behave(here->fake, &honest);
    ask(&report, here, NULL, FAKE_IMAGE_ID);
    assert_int_equal(row_of(&report, "nothing_left")->status, REPOSBX_DOCTOR_PASS);
    assert_int_equal(fake_docker_left(here->fake), 0);
    reposbx_doctor_report_dispose(&report);
}

/* A session whose lease is over is something to reap. */
static void what_the_dead_left(void **state)
{
    const struct timespec pause = { .tv_nsec = 100000000 };
    struct fake_place *here = *state;
    reposbx_session *session = fake_place_session(here, "{\"session\":{\"lease_seconds\":1}}");
    reposbx_doctor_report report = { .checks = NULL };
    int status = REPOSBX_DOCTOR_PASS;

    reposbx_session_free(session);
    for (int i = 0; i < 300 && status == REPOSBX_DOCTOR_PASS; i++) {
        (void)nanosleep(&pause, NULL);
        ask(&report, here, NULL, NULL);
        status = row_of(&report, "leftovers")->status;
        if (status == REPOSBX_DOCTOR_FAIL)
            assert_string_equal(row_of(&report, "leftovers")->hint, "reposbx reap removes it");
        reposbx_doctor_report_dispose(&report);
    }
    assert_int_equal(status, REPOSBX_DOCTOR_FAIL);
}

int main(void)
{
#define CASE(test) cmocka_unit_test_setup_teardown(test, fake_place_setup, fake_place_teardown)
    const struct CMUnitTest tests[] = {
        CASE(faults_of_the_engine),  CASE(faults_of_the_image),
        CASE(engines_that_do_not_keep_their_word), CASE(trials_that_go_wrong),
        CASE(a_socket_for_everybody), CASE(a_socket_of_somebody_else),
        CASE(what_cannot_be_removed), CASE(what_the_dead_left),
    };

    return cmocka_run_group_tests_name("the doctor finds each fault", tests, NULL, NULL);
}
