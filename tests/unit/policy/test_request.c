/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/limits.h"
#include "policy/policy.h"

#include "base/banned.h"

static reposbx_error err;

#define HEX40 "0123456789abcdef0123456789abcdef01234567"

static void revisions(void **state)
{
    static const char *const bad[] = { "",        "HEAD",       "main",       "0123456",
                                       HEX40 "8", HEX40 "\n",   " " HEX40,    "-" HEX40,
                                       "0123456789ABCDEF0123456789ABCDEF01234567",
                                       "0123456789abcdef0123456789abcdef0123456g",
                                       "0123456789abcdef0123456789abcdef0123456",
                                       HEX40 "^{commit}" };

    (void)state;
    assert_int_equal(rsbx_check_revision(HEX40, &err), 0);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(rsbx_check_revision(bad[i], &err), REPOSBX_EMALFORMED);
        assert_non_null(strstr(err.message, "revision"));
    }
    assert_int_equal(rsbx_check_revision(NULL, &err), REPOSBX_EMALFORMED);
}

static void task_ids(void **state)
{
    static const char *const good[] = { "a", "0", "A-b_c.9", "issue-42" };
    static const char *const bad[] = { "",    "-a",  ".a",       "_a", "a b",
                                       "a/b", "a\n", "\xc3\xa9", "a:b" };
    char text[130];

    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++)
        assert_int_equal(rsbx_check_task_id(good[i], &err), 0);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_int_equal(rsbx_check_task_id(bad[i], &err), REPOSBX_EPOLICY);
    memset(text, 'a', sizeof text);
    text[129] = '\0';
    assert_int_equal(rsbx_check_task_id(text, &err), REPOSBX_EPOLICY);
    text[128] = '\0';
    assert_int_equal(rsbx_check_task_id(text, &err), 0);
    assert_int_equal(rsbx_check_task_id(NULL, &err), REPOSBX_EPOLICY);
}

static void platforms(void **state)
{
    static const char *const good[] = { "linux/amd64", "linux/arm64/v8", "linux/arm/v7" };
    static const char *const bad[] = { "", "linux", "linux/", "/amd64", "linux//v8",
                                       "linux/amd64/",
                                       "linux/amd64/v1/x", "Linux/amd64", "linux/amd 64",
                                       "linux/amd64\n", "linux/../x", ".linux/amd64",
                                       "linux/a234567890123456789012345678901234" };

    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++)
        assert_int_equal(rsbx_check_platform(good[i], &err), 0);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(rsbx_check_platform(bad[i], &err), REPOSBX_EPOLICY);
        assert_non_null(strstr(err.message, "platform"));
    }
    assert_int_equal(rsbx_check_platform(NULL, &err), REPOSBX_EPOLICY);
}

static void argument_lists(void **state)
{
    const char *one[] = { "sh" }, *empty[] = { "" }, *later[] = { "a", "", "\xff\n" };
    const char *hole[] = { "a", NULL };
    static const char *many[RSBX_MAX_ARGV_COUNT + 1];
    static char large[RSBX_MAX_ARG_BYTES + 2];
    const char *heavy[9], *single[1] = { large };

    (void)state;
    assert_int_equal(rsbx_check_argv(one, 1, &err), 0);
    assert_int_equal(rsbx_check_argv(later, 3, &err), 0);
    assert_int_equal(rsbx_check_argv(one, 0, &err), REPOSBX_EPOLICY);
    assert_int_equal(rsbx_check_argv(NULL, 0, &err), REPOSBX_EPOLICY);
    assert_int_equal(rsbx_check_argv(empty, 1, &err), REPOSBX_EPOLICY);
    assert_int_equal(rsbx_check_argv(hole, 2, &err), REPOSBX_EINVALID);
    for (size_t i = 0; i <= RSBX_MAX_ARGV_COUNT; i++)
        many[i] = "x";
    assert_int_equal(rsbx_check_argv(many, RSBX_MAX_ARGV_COUNT, &err), 0);
    assert_int_equal(rsbx_check_argv(many, RSBX_MAX_ARGV_COUNT + 1, &err), REPOSBX_EPOLICY);
    memset(large, 'x', sizeof large - 1);
    assert_int_equal(rsbx_check_argv(single, 1, &err), REPOSBX_EPOLICY);
    large[RSBX_MAX_ARG_BYTES] = '\0';
    for (size_t i = 0; i < 9; i++)
        heavy[i] = large;
    assert_int_equal(rsbx_check_argv(heavy, 8, &err), 0);
    assert_int_equal(rsbx_check_argv(heavy, 9, &err), REPOSBX_EPOLICY);
    assert_non_null(strstr(err.message, "argv"));
}

static void limits_are_only_lowered(void **state)
{
    struct rsbx_limit_request request = { .cpus = 0.5,
                                          .timeout_seconds = 1.5,
                                          .memory_bytes = 6291456,
                                          .pids = 2 };
    reposbx_policy *policy = NULL;
    reposbx_limits limits;

    (void)state;
    assert_int_equal(reposbx_policy_default(&policy, NULL), 0);
    assert_int_equal(rsbx_lower_limits(&limits, policy, &request, &err), 0);
    assert_true(limits.cpus == 0.5 && limits.command_timeout_seconds == 1.5);
    assert_int_equal(limits.memory_bytes, 6291456);
    assert_int_equal(limits.pids, 2);
    assert_int_equal(limits.output_bytes, policy->limits.output_bytes);

    request = (struct rsbx_limit_request){ .cpus = 0 };
    assert_int_equal(rsbx_lower_limits(&limits, policy, &request, &err), 0);
    assert_memory_equal(&limits, &policy->limits, sizeof limits);

    request = (struct rsbx_limit_request){ .cpus = 2.0,
                                           .timeout_seconds = 300.0,
                                           .memory_bytes = policy->limits.memory_bytes,
                                           .pids = policy->limits.pids };
    assert_int_equal(rsbx_lower_limits(&limits, policy, &request, &err), 0);
    reposbx_policy_free(policy);
}

static void bad_limits_name_their_field(void **state)
{
    static const struct {
        struct rsbx_limit_request request;
        const char *field;
    } cases[] = {
        { { .cpus = 2.0001 }, "cpus" },
        { { .cpus = -1 }, "cpus" },
        { { .cpus = NAN }, "cpus" },
        { { .cpus = INFINITY }, "cpus" },
        { { .cpus = -INFINITY }, "cpus" },
        { { .cpus = 0.001 }, "cpus" },
        { { .cpus = 5e-324 }, "cpus" },
        { { .timeout_seconds = 300.1 }, "timeout_seconds" },
        { { .timeout_seconds = NAN }, "timeout_seconds" },
        { { .timeout_seconds = -0.1 }, "timeout_seconds" },
        { { .timeout_seconds = 1e-9 }, "timeout_seconds" },
        { { .memory_bytes = 2147483649 }, "memory_bytes" },
        { { .memory_bytes = UINT64_MAX }, "memory_bytes" },
        { { .memory_bytes = 6291455 }, "memory_bytes" },
        { { .pids = 257 }, "pids" },
        { { .pids = 1 }, "pids" },
    };
    reposbx_policy *policy = NULL;
    reposbx_limits limits = { .pids = 12345 };

    (void)state;
    assert_int_equal(reposbx_policy_default(&policy, NULL), 0);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(rsbx_lower_limits(&limits, policy, &cases[i].request, &err),
                         REPOSBX_EPOLICY);
        assert_int_equal(strncmp(err.message, cases[i].field, strlen(cases[i].field)), 0);
        assert_int_equal(limits.pids, 12345);
    }
    reposbx_policy_free(policy);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(revisions),
        cmocka_unit_test(task_ids),
        cmocka_unit_test(platforms),
        cmocka_unit_test(argument_lists),
        cmocka_unit_test(limits_are_only_lowered),
        cmocka_unit_test(bad_limits_name_their_field),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
