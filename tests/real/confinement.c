/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "real/one_session.h"

#include "base/banned.h"

/* What holds a command on a real engine: its limits, its rights, its container. */

static const char changes[] =
    "{\"limits\": {\"memory_bytes\": 134217728, \"pids\": 64, \"cpus\": 1.0,"
    " \"command_timeout_seconds\": 60, \"tmpfs_bytes\": 16777216}}";

static int setup(void **state)
{
    (void)state;
    return session_setup(changes);
}

static void test_limits_lowered(void **state)
{
    const char *argv[] = { "sh", "-c",
                           "cat /sys/fs/cgroup/memory/memory.limit_in_bytes "
                           "/sys/fs/cgroup/memory.max 2>/dev/null; "
                           "cat /sys/fs/cgroup/pids/pids.max /sys/fs/cgroup/pids.max 2>/dev/null; :" };
    reposbx_exec_request request = request_of(argv, 3);
    reposbx_exec_result result;

    (void)state;
    place_exec(&result, session, &request);
    assert_string_equal(result.stdout_preview, "134217728\n64\n");
    assert_int_equal(result.observed_memory_bytes, 134217728);
    assert_int_equal(result.observed_pids, 64);
    assert_float_equal(result.observed_cpus, 1.0, 0.001);
    assert_true(result.peak_memory_bytes < 134217728);
    reposbx_exec_result_dispose(&result);
    request.memory_bytes = 67108864;
    request.pids = 20;
    request.cpus = 0.5;
    request.timeout_seconds = 30;
    place_exec(&result, session, &request);
    assert_string_equal(result.stdout_preview, "67108864\n20\n");
    assert_int_equal(result.observed_memory_bytes, 67108864);
    assert_int_equal(result.observed_pids, 20);
    assert_float_equal(result.observed_cpus, 0.5, 0.001);
    reposbx_exec_result_dispose(&result);
    /* The next one has the policy's own again. */
    request = request_of(argv, 3);
    place_exec(&result, session, &request);
    assert_string_equal(result.stdout_preview, "134217728\n64\n");
    reposbx_exec_result_dispose(&result);
}

static void test_limits_raised(void **state)
{
    const char *argv[] = { "true" };
    const reposbx_exec_request plain = request_of(argv, 1);
    reposbx_exec_request request = plain;
    reposbx_exec_result result;

    (void)state;
    (void)memset(&result, 0, sizeof result);
    request.memory_bytes = 134217729;
    refused(&request, REPOSBX_EPOLICY, "memory");
    request = plain;
    request.pids = 65;
    refused(&request, REPOSBX_EPOLICY, "pids");
    request = plain;
    request.cpus = 1.01;
    refused(&request, REPOSBX_EPOLICY, "cpus");
    request = plain;
    request.timeout_seconds = 60.5;
    refused(&request, REPOSBX_EPOLICY, "timeout");
    for (int i = 0; i < 3; i++) {
        static const double wrong[] = { -1.0, (double)NAN, (double)INFINITY };

        request = plain;
        request.timeout_seconds = wrong[i];
        assert_true(reposbx_session_exec(&result, session, &request, NULL) < 0);
        request = plain;
        request.cpus = wrong[i];
        assert_true(reposbx_session_exec(&result, session, &request, NULL) < 0);
    }
    still_works();
}

/* What the manual promises of every command, seen from inside. */
static void test_confinement(void **state)
{
    static const char script[] =
        "grep -E '^(Uid|Gid|Groups|CapInh|CapPrm|CapEff|CapBnd|CapAmb|NoNewPrivs|Seccomp):' "
        "/proc/self/status | tr -s '\\t ' '  '; ls /sys/class/net; ulimit -n; ulimit -c; "
        "for d in / /etc /usr /bin; do touch $d/x 2>/dev/null && echo \"wrote $d\"; done; "
        "for d in /tmp /run; do awk -v d=$d '$5 == d {print d, $6, $9}' /proc/self/mountinfo; done";
    static const char *const wanted[] = {
        "Uid: 65532 65532 65532 65532\n", "Gid: 65532 65532 65532 65532\n",
        "CapInh: 0000000000000000\n",     "CapPrm: 0000000000000000\n",
        "CapEff: 0000000000000000\n",     "CapBnd: 0000000000000000\n",
        "CapAmb: 0000000000000000\n",     "NoNewPrivs: 1\n",
        "Seccomp: 2\n",                   "\nlo\n1024\n0\n",
        "/tmp rw,nosuid,nodev,noexec",    "/run rw,nosuid,nodev,noexec"
    };
    char *text = place_text(session, script);

    (void)state;
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++)
        if (strstr(text, wanted[i]) == NULL)
            fail_msg("no '%s' in: %s", wanted[i], text);
    assert_null(strstr(text, "wrote "));
    free(text);
    text = place_text(session, "ls -a / /proc/1/fd /proc/1/environ 2>&1; find / -name '*.sock' 2>&1 | "
                               "grep -v denied; :");
    assert_null(strstr(text, "docker.sock"));
    free(text);
}

/* Every command has a container of its own: only the workspace goes on. */
static void test_fresh_every_time(void **state)
{
    char *text;

    (void)state;
    free(place_text(session, "echo 1 > /tmp/trace; echo 1 > /run/trace; echo 1 > kept"));
    text = place_text(session, "ls /tmp/trace /run/trace kept 2>/dev/null; hostname");
    assert_int_equal(strncmp(text, "kept\n", 5), 0);
    free(text);
    free(place_text(session, "rm kept"));
}

#define THREADS 4

static void *one_thread(void *payload)
{
    const char *argv[] = { "sh", "-c", "echo \"$N\"" };
    reposbx_exec_request request = request_of(argv, 3);
    reposbx_exec_result result;
    char variable[16];
    const char *env = variable;
    const int *number = payload;
    bool good;

    (void)memset(&result, 0, sizeof result);
    (void)snprintf(variable, sizeof variable, "N=%d", *number);
    request.env = &env;
    request.env_count = 1;
    if (reposbx_session_exec(&result, session, &request, NULL) != 0)
        return NULL;
    good = result.exit_code == 0 && result.stdout_preview_length == 2 &&
           result.stdout_preview[0] == '0' + *number;
    reposbx_exec_result_dispose(&result);
    return good ? payload : NULL;
}

static void test_threads(void **state)
{
    pthread_t threads[THREADS];
    int numbers[THREADS];
    void *answers[THREADS];

    (void)state;
    for (int i = 0; i < THREADS; i++) {
        numbers[i] = i;
        assert_int_equal(pthread_create(&threads[i], NULL, one_thread, &numbers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(threads[i], &answers[i]), 0);
    for (int i = 0; i < THREADS; i++)
        assert_ptr_equal(answers[i], &numbers[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_limits_lowered),
        cmocka_unit_test(test_limits_raised),
        cmocka_unit_test(test_confinement),
        cmocka_unit_test(test_fresh_every_time),
        cmocka_unit_test(test_threads),
    };
    int gate = place_gate();

    if (gate != 0)
        return gate;
    return cmocka_run_group_tests_name("what holds a command on a real engine", tests, setup, group_teardown);
}
