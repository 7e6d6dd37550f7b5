/* SPDX-License-Identifier: Apache-2.0 */
/* A container that differs from what was asked for, in any one field, gets no request. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "session/internal.h"

static struct rsbx_slot_want command_want(void)
{
    return (struct rsbx_slot_want){ .purpose = "exec",
                                    .workspace = 2,
                                    .read_only_root = true,
                                    .limits = { .cpus = 1.5,
                                                .memory_bytes = 20000000, /* not whole pages */
                                                .pids = 64,
                                                .tmpfs_bytes = 1048576 } };
}

static struct rsbx_hello good_hello(void)
{
    return (struct rsbx_hello){ .pid = 1,
                                .uid = 65532,
                                .gid = 65532,
                                .no_new_privs = 1,
                                .seccomp_mode = 2,
                                .cgroup_version = 2,
                                .memory_bytes = 19996672,
                                .memory_swap_bytes = 19996672,
                                .pids = 64,
                                .cpu_quota_us = 150000,
                                .cpu_period_us = 100000,
                                .nofile_soft = 1024,
                                .nofile_hard = 1024,
                                .root_read_only = 1,
                                .tmp_bytes = 1048576,
                                .run_bytes = 1048576,
                                .tmp_flags = 7,
                                .run_flags = 7,
                                .workspace = 2,
                                .guest_read_only = 1 };
}

static int check(const struct rsbx_hello *hello)
{
    const struct rsbx_slot_want want = command_want();
    reposbx_error err = REPOSBX_ERROR_INIT;
    int rc = rsbx_hello_check(hello, &want, &err);

    assert_true(rc == 0 || strstr(err.message, "inside the container") != NULL);
    return rc;
}

static void what_was_asked_for_passes(void **state)
{
    const struct rsbx_hello hello = good_hello();

    (void)state;
    assert_int_equal(check(&hello), 0);
}

/* Sets one field to each of these values; all of them must be refused. */
static void refuses(size_t offset, const uint64_t *values, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct rsbx_hello hello = good_hello();

        memcpy((char *)&hello + offset, &values[i], sizeof values[i]);
        if (check(&hello) != REPOSBX_EPOLICY)
            fail_msg("offset %zu accepts %llu", offset, (unsigned long long)values[i]);
    }
}

#define REFUSES(field, ...)                                                                        \
    do {                                                                                           \
        const uint64_t values[] = { __VA_ARGS__ };                                                 \
        refuses(offsetof(struct rsbx_hello, field), values, sizeof values / sizeof values[0]);     \
    } while (0)

static void every_field_is_compared(void **state)
{
    (void)state;
    REFUSES(pid, 2, 0, RSBX_UNKNOWN);
    REFUSES(uid, 0, 65533, RSBX_UNKNOWN);
    REFUSES(gid, 0, 65533, RSBX_UNKNOWN);
    REFUSES(group_count, 1, RSBX_UNKNOWN);
    REFUSES(cap_effective, 1, 1ULL << 40, RSBX_UNKNOWN);
    REFUSES(cap_permitted, 4, RSBX_UNKNOWN);
    REFUSES(cap_bounding, 4, 0x00000000a80425fbULL, RSBX_UNKNOWN);
    REFUSES(cap_inheritable, 4, RSBX_UNKNOWN);
    REFUSES(cap_ambient, 4, RSBX_UNKNOWN);
    REFUSES(no_new_privs, 0, RSBX_UNKNOWN);
    REFUSES(seccomp_mode, 0, 1, RSBX_UNKNOWN);
    REFUSES(memory_bytes, 20000000, 19992576, RSBX_UNLIMITED, RSBX_UNKNOWN);
    REFUSES(memory_swap_bytes, 2 * 19996672ULL, RSBX_UNLIMITED, RSBX_UNKNOWN);
    REFUSES(pids, 65, 63, RSBX_UNLIMITED, RSBX_UNKNOWN);
    REFUSES(cpu_quota_us, 160000, 140000, RSBX_UNLIMITED, RSBX_UNKNOWN);
    REFUSES(cpu_period_us, 0, 50000, RSBX_UNKNOWN);
    REFUSES(nofile_soft, 1048576, RSBX_UNKNOWN);
    REFUSES(nofile_hard, 1048576, RSBX_UNLIMITED, RSBX_UNKNOWN);
    REFUSES(core_soft, 1, RSBX_UNLIMITED);
    REFUSES(core_hard, 1, RSBX_UNLIMITED);
    REFUSES(root_read_only, 0, RSBX_UNKNOWN);
    REFUSES(tmp_bytes, 0, 1048575, 2097152, RSBX_UNKNOWN);
    REFUSES(run_bytes, 0, 2097152);
    REFUSES(tmp_flags, 0, 3, 5, 6);
    REFUSES(run_flags, 0, 3);
    REFUSES(interfaces, 1, RSBX_UNKNOWN);
    REFUSES(baseline, 1, 2);
    REFUSES(workspace, 0, 1);
    REFUSES(upper, 1, 2, RSBX_UNKNOWN);
    REFUSES(guest_read_only, 0, RSBX_UNKNOWN);
    REFUSES(dumpable, 1, 2);
}

static void the_reader_has_one_capability_and_no_other(void **state)
{
    struct rsbx_slot_want want = command_want();
    struct rsbx_hello hello = good_hello();

    (void)state;
    want.as_reader = true;
    want.baseline = want.workspace = 1;
    hello.uid = hello.gid = 0;
    hello.baseline = hello.workspace = 1;
    hello.cap_effective = hello.cap_permitted = hello.cap_bounding = 4;
    assert_int_equal(rsbx_hello_check(&hello, &want, NULL), 0);
    hello.cap_effective = 4 | 2; /* CAP_DAC_OVERRIDE */
    assert_int_equal(rsbx_hello_check(&hello, &want, NULL), REPOSBX_EPOLICY);
    hello.cap_effective = 4;
    hello.workspace = 2;
    assert_int_equal(rsbx_hello_check(&hello, &want, NULL), REPOSBX_EPOLICY);
}

static void the_policy_may_allow_network_and_a_writable_root(void **state)
{
    struct rsbx_slot_want want = command_want();
    struct rsbx_hello hello = good_hello();

    (void)state;
    want.network = true;
    want.read_only_root = false;
    hello.interfaces = 1;
    hello.root_read_only = 0;
    assert_int_equal(rsbx_hello_check(&hello, &want, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_asked_for_passes),
        cmocka_unit_test(every_field_is_compared),
        cmocka_unit_test(the_reader_has_one_capability_and_no_other),
        cmocka_unit_test(the_policy_may_allow_network_and_a_writable_root),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
