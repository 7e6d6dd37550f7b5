/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "policy/policy.h"

#include "base/banned.h"

static reposbx_error err;

static int check(bool require_rootless, const struct rsbx_host_facts *facts)
{
    reposbx_policy *policy = NULL;
    int rc;

    assert_int_equal(reposbx_policy_load(&policy, require_rootless ? "issue-bot" : "trusted-dev",
                                         &err),
                     0);
    err = (reposbx_error)REPOSBX_ERROR_INIT;
    rc = rsbx_check_host(policy, facts, &err);
    reposbx_policy_free(policy);
    if (rc != 0) {
        assert_int_equal(rc, REPOSBX_EPOLICY);
        assert_int_equal(strncmp(err.message, "host: ", 6), 0);
        assert_string_not_equal(err.hint, "");
    }
    return rc;
}

static const struct rsbx_host_facts rootless = {
    .provider = "docker", .rootless = true,     .seccomp = true,    .cgroup_version = 2,
    .systemd_cgroups = true, .memory_limit = true, .swap_limit = true, .cpu_limit = true,
    .pids_limit = true,
};

static void a_rootless_engine_must_be_complete(void **state)
{
    struct rsbx_host_facts facts = rootless;

    (void)state;
    assert_int_equal(check(true, &facts), 0);
    assert_int_equal(check(false, &facts), 0);
    for (int demanded = 0; demanded < 2; demanded++) {
        facts = rootless;
        facts.cgroup_version = 1;
        assert_int_equal(check(demanded, &facts), REPOSBX_EPOLICY);
        facts = rootless;
        facts.systemd_cgroups = false;
        assert_int_equal(check(demanded, &facts), REPOSBX_EPOLICY);
    }
}

static void a_rootful_engine_needs_the_policys_word(void **state)
{
    struct rsbx_host_facts facts = rootless;

    (void)state;
    facts.rootless = false;
    assert_int_equal(check(true, &facts), REPOSBX_EPOLICY);
    assert_int_equal(check(false, &facts), 0);
    facts.systemd_cgroups = false;
    assert_int_equal(check(false, &facts), 0);
    facts.cgroup_version = 1;
    assert_int_equal(check(false, &facts), 0);
    facts.cgroup_version = 0;
    assert_int_equal(check(false, &facts), REPOSBX_EPOLICY);
    facts.cgroup_version = 3;
    assert_int_equal(check(false, &facts), REPOSBX_EPOLICY);
}

static void seccomp_and_limits_are_always_demanded(void **state)
{
    static const size_t flags[] = {
        offsetof(struct rsbx_host_facts, seccomp),
        offsetof(struct rsbx_host_facts, memory_limit),
        offsetof(struct rsbx_host_facts, swap_limit),
        offsetof(struct rsbx_host_facts, cpu_limit),
        offsetof(struct rsbx_host_facts, pids_limit),
    };

    (void)state;
    for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++) {
        for (int rootful = 0; rootful < 2; rootful++) {
            struct rsbx_host_facts facts = rootless;

            facts.rootless = !rootful;
            *(bool *)((char *)&facts + flags[i]) = false;
            assert_int_equal(check(!rootful, &facts), REPOSBX_EPOLICY);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rootless_engine_must_be_complete),
        cmocka_unit_test(a_rootful_engine_needs_the_policys_word),
        cmocka_unit_test(seccomp_and_limits_are_always_demanded),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
