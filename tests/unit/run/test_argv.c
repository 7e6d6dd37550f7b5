/* SPDX-License-Identifier: Apache-2.0 */
/* The isolation of one container, read off its argv: against golden files, and against the list of
 * what has to be and must not be there. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/fd.h"
#include "run/internal.h"

#define IMAGE "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define NAME "reposbx-run-00112233445566778899aabbccddeeff"

static rsbx_policy_ptr policy_of(const char *more)
{
    reposbx_policy *policy = NULL;
    reposbx_error err = REPOSBX_ERROR_INIT;
    char text[1024];

    (void)snprintf(text, sizeof text,
                   "{\"version\":1,\"images\":[\"" IMAGE "\"],\"run\":{\"python\":\"" IMAGE
                   "\",\"bash\":\"" IMAGE "\"},\"limits\":{\"tmpfs_bytes\":67108864}%s}",
                   more);
    if (reposbx_policy_parse(&policy, text, strlen(text), &err) != 0)
        fail_msg("%s", err.message);
    return policy;
}

/* One argument a line. */
static void join(struct rsbx_buf *out, char **argv)
{
    for (size_t i = 0; argv[i] != NULL; i++)
        assert_int_equal(rsbx_buf_format(out, NULL, "%s\n", argv[i]), 0);
}

static void assert_golden(char **argv, const char *file)
{
    RSBX_AUTO(rsbx_buf) struct rsbx_buf is = RSBX_BUF_INIT(65536);
    RSBX_AUTO(rsbx_buf) struct rsbx_buf wanted = RSBX_BUF_INIT(65536);
    char path[1024];

    join(&is, argv);
    (void)snprintf(path, sizeof path, "%s/%s", RSBX_GOLDEN, file);
    assert_int_equal(rsbx_read_file_at(&wanted, AT_FDCWD, path, NULL), 0);
    /* Behind the file's own first line. */
    assert_non_null(strchr(wanted.data, '\n'));
    assert_string_equal(is.data, strchr(wanted.data, '\n') + 1);
}

static bool has(char **argv, const char *argument)
{
    for (size_t i = 0; argv[i] != NULL; i++) {
        if (strcmp(argv[i], argument) == 0)
            return true;
    }
    return false;
}

static char **run_argv(const reposbx_exec_spec *spec, const reposbx_policy *policy)
{
    char **argv = NULL;
    reposbx_error err = REPOSBX_ERROR_INIT;

    if (rsbx_run_spec_argv(&argv, spec, policy, NAME, NULL, &err) != 0)
        fail_msg("%s", err.message);
    return argv;
}

static void a_run_is_the_golden_one(void **state)
{
    RSBX_AUTO(rsbx_policy) rsbx_policy_ptr policy = policy_of("");
    reposbx_exec_spec spec = REPOSBX_EXEC_SPEC_INIT;
    char **argv;

    (void)state;
    spec.code = "print(1)";
    spec.code_length = 8;
    argv = run_argv(&spec, policy);
    assert_golden(argv, "run.argv");
    rsbx_run_argv_free(argv);
}

static void what_a_spec_and_a_policy_say_is_in_it(void **state)
{
    RSBX_AUTO(rsbx_policy) rsbx_policy_ptr policy =
        policy_of(",\"network\":\"bridge\",\"read_only_rootfs\":false,"
                  "\"seccomp_profile\":\"/etc/profile.json\"");
    reposbx_exec_spec spec = REPOSBX_EXEC_SPEC_INIT;
    char **argv;

    (void)state;
    spec.language = "bash";
    spec.memory_bytes = 64U * 1024U * 1024U;
    spec.cpus = 0.5;
    spec.pids = 16;
    argv = run_argv(&spec, policy);
    assert_golden(argv, "run-widened.argv");
    rsbx_run_argv_free(argv);
}

static void a_warm_container_is_isolated_alike(void **state)
{
    RSBX_AUTO(rsbx_policy) rsbx_policy_ptr policy = policy_of("");
    reposbx_exec_spec spec = REPOSBX_EXEC_SPEC_INIT;
    char **warm = NULL;
    char **run;

    (void)state;
    assert_int_equal(rsbx_run_warm_argv(&warm, policy, NAME, IMAGE, NULL, NULL), 0);
    assert_golden(warm, "warm.argv");
    run = run_argv(&spec, policy);
    for (size_t i = 0; run[i] != NULL; i++)
        assert_true(has(warm, run[i]) || strcmp(run[i], "--label=reposbx.role=run") == 0);
    rsbx_run_argv_free(run);
    rsbx_run_argv_free(warm);
}

static void what_has_to_be_there_is(void **state)
{
    static const char *const wanted[] = {
        "--rm", "--network=none", "--read-only", "--read-only-tmpfs=false", "--cap-drop=ALL",
        "--security-opt=no-new-privileges", "--user=65534:65534", "--memory=268435456",
        "--memory-swap=268435456", "--cpus=1", "--pids-limit=128", "--pull=never",
        "--unsetenv-all", "--http-proxy=false", "--image-volume=ignore", "--ulimit=core=0:0",
        "--tmpfs=/tmp:rw,nosuid,nodev,noexec,mode=1777,size=67108864,notmpcopyup",
    };
    RSBX_AUTO(rsbx_policy) rsbx_policy_ptr policy = policy_of("");
    reposbx_exec_spec spec = REPOSBX_EXEC_SPEC_INIT;
    char **argv = run_argv(&spec, policy);

    (void)state;
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
        if (!has(argv, wanted[i]))
            fail_msg("%s is missing", wanted[i]);
    }
    rsbx_run_argv_free(argv);
}

static void what_opens_the_host_is_not(void **state)
{
    static const char *const never[] = {
        "-v", "--volume", "--mount", "--device", "--privileged", "--pid", "--uts", "--userns", "-e",
        "--env", "--env-file", "--env-host", "--cap-add", "--group-add", "--publish", "-p", "--init",
        "--ipc=host", "--network=host", "--cgroupns=host", "--cidfile", "--secret", "--volumes-from",
        "--rootfs", "--security-opt=seccomp=unconfined", "--security-opt=label=disable",
    };
    RSBX_AUTO(rsbx_policy) rsbx_policy_ptr policy = policy_of("");
    reposbx_exec_spec spec = REPOSBX_EXEC_SPEC_INIT;
    char **argv;

    (void)state;
    spec.code = "import os; print('--privileged')";
    spec.code_length = strlen(spec.code);
    argv = run_argv(&spec, policy);
    for (size_t i = 0; argv[i] != NULL; i++) {
        for (size_t j = 0; j < sizeof never / sizeof never[0]; j++) {
            size_t length = strlen(never[j]);

            if (strncmp(argv[i], never[j], length) == 0 &&
                (argv[i][length] == '\0' || argv[i][length] == '='))
                fail_msg("%s is there", argv[i]);
        }
        assert_null(strstr(argv[i], "import os"));
    }
    rsbx_run_argv_free(argv);
}

static void what_is_refused_has_no_argv(void **state)
{
    RSBX_AUTO(rsbx_policy) rsbx_policy_ptr policy = policy_of("");
    reposbx_exec_spec spec = REPOSBX_EXEC_SPEC_INIT;
    reposbx_error err = REPOSBX_ERROR_INIT;
    char **argv = NULL;

    (void)state;
    spec.language = "node"; /* its own image is not on the list */
    assert_int_equal(rsbx_run_spec_argv(&argv, &spec, policy, NAME, NULL, &err), REPOSBX_EPOLICY);
    assert_non_null(strstr(err.message, "node:22-slim"));
    assert_null(argv);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_run_is_the_golden_one),
        cmocka_unit_test(what_a_spec_and_a_policy_say_is_in_it),
        cmocka_unit_test(a_warm_container_is_isolated_alike),
        cmocka_unit_test(what_has_to_be_there_is),
        cmocka_unit_test(what_opens_the_host_is_not),
        cmocka_unit_test(what_is_refused_has_no_argv),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
