/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "doctor/internal.h"

#include "base/banned.h"

/* What a container sees is told one by one: a value that is wrong makes its row fail, and only it. */

static const struct rsbx_hello_want want = {
    .uid = 65532, .gid = 65532, .workspace = 2, .guest_mounted = true, .read_only_root = true,
    .cpus = 1.5, .memory_bytes = 1U << 28, .pids = 64, .tmp_bytes = 1U << 26, .run_bytes = 1U << 20,
    .nofile = 1024,
};

static struct rsbx_hello good(void)
{
    return (struct rsbx_hello){
        .pid = 1, .uid = 65532, .gid = 65532, .no_new_privs = 1, .seccomp_mode = 2,
        .cgroup_version = 2, .memory_bytes = 1U << 28, .memory_swap_bytes = 1U << 28, .pids = 64,
        .cpu_quota_us = 150000, .cpu_period_us = 100000, .nofile_soft = 1024, .nofile_hard = 1024,
        .root_read_only = 1, .tmp_bytes = 1U << 26, .run_bytes = 1U << 20, .tmp_flags = 7,
        .run_flags = 7, .workspace = 2, .guest_read_only = 1,
    };
}

static void judge(reposbx_doctor_report *report, const struct rsbx_hello *hello)
{
    static const reposbx_doctor_options options = REPOSBX_DOCTOR_OPTIONS_INIT;
    struct rsbx_doctor doctor = { .options = &options, .report = report };

    *report = (reposbx_doctor_report){ .checks = calloc(RSBX_DOCTOR_MAX_ROWS + 1,
                                                        sizeof(reposbx_doctor_check)) };
    assert_non_null(report->checks);
    rsbx_doctor_inside(&doctor, hello, &want);
}

static void only_this_fails(const struct rsbx_hello *hello, const char *name)
{
    reposbx_doctor_report report;

    judge(&report, hello);
    assert_int_equal(report.count, 13);
    for (size_t i = 0; i < report.count; i++) {
        bool wrong = strcmp(report.checks[i].name, name) == 0;

        if (report.checks[i].status != (wrong ? REPOSBX_DOCTOR_FAIL : REPOSBX_DOCTOR_PASS) ||
            (report.checks[i].hint[0] != '\0') != wrong)
            fail_msg("with a wrong %s, %s: %s", name, report.checks[i].name,
                     report.checks[i].detail);
    }
    assert_int_equal(report.failed, name[0] != '\0');
    reposbx_doctor_report_dispose(&report);
}

static void all_is_well(void **state)
{
    const struct rsbx_hello hello = good();

    (void)state;
    only_this_fails(&hello, "");
}

#define WRONG(name, field, value)                                                                  \
    do {                                                                                           \
        struct rsbx_hello hello = good();                                                          \
                                                                                                   \
        hello.field = (value);                                                                     \
        only_this_fails(&hello, name);                                                             \
    } while (0)

static void each_value_has_its_row(void **state)
{
    (void)state;
    WRONG("inside_memory", memory_bytes, RSBX_UNLIMITED);
    WRONG("inside_memory", memory_swap_bytes, RSBX_UNKNOWN);
    WRONG("inside_processes", pids, 65);
    WRONG("inside_processors", cpu_quota_us, RSBX_UNLIMITED);
    WRONG("inside_processors", cpu_quota_us, 200000);
    WRONG("inside_processors", cpu_period_us, 0);
    WRONG("inside_user", uid, 0);
    WRONG("inside_user", gid, 0);
    WRONG("inside_user", group_count, 1);
    WRONG("inside_capabilities", cap_effective, 1);
    WRONG("inside_capabilities", cap_permitted, 1);
    WRONG("inside_capabilities", cap_bounding, 1);
    WRONG("inside_capabilities", cap_inheritable, 1);
    WRONG("inside_capabilities", cap_ambient, 1);
    WRONG("inside_no_new_privileges", no_new_privs, 0);
    WRONG("inside_no_new_privileges", dumpable, 1);
    WRONG("inside_seccomp", seccomp_mode, 0);
    WRONG("inside_root", root_read_only, 0);
    WRONG("inside_network", interfaces, 1);
    WRONG("inside_tmpfs", tmp_bytes, 0);
    WRONG("inside_tmpfs", run_bytes, 0);
    WRONG("inside_tmpfs", tmp_flags, 3);
    WRONG("inside_tmpfs", run_flags, 6);
    WRONG("inside_open_files", nofile_soft, 1025);
    WRONG("inside_open_files", nofile_hard, 1025);
    WRONG("inside_core_files", core_soft, 1);
    WRONG("inside_core_files", core_hard, RSBX_UNLIMITED);
    WRONG("inside_mounts", workspace, 1);
    WRONG("inside_mounts", baseline, 2);
    WRONG("inside_mounts", upper, 1);
    WRONG("inside_mounts", guest_read_only, 0);
}

static void text_and_document_agree(void **state)
{
    struct rsbx_hello hello = good();
    reposbx_doctor_report report;
    char *text = NULL;

    (void)state;
    hello.seccomp_mode = 0;
    judge(&report, &hello);
    assert_int_equal(reposbx_doctor_report_json(&text, &report, NULL), 0);
    assert_non_null(strstr(text, "{\"ok\":false,\"checks\":[{\"name\":\"inside_memory\",\"status\":"
                                 "\"pass\",\"detail\":\"268435456 bytes, swap included\",\"hint\":null}"));
    assert_non_null(strstr(text, "\"name\":\"inside_seccomp\",\"status\":\"fail\""));
    free(text);
    reposbx_doctor_report_dispose(&report);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_is_well),
        cmocka_unit_test(each_value_has_its_row),
        cmocka_unit_test(text_and_document_agree),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
