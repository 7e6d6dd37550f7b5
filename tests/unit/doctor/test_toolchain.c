/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "doctor/internal.h"

#include "base/banned.h"

static int status_with(enum rsbx_wasm_mode wasm, const char *missing, bool installed)
{
    static const reposbx_doctor_options options = REPOSBX_DOCTOR_OPTIONS_INIT;
    reposbx_doctor_check checks[RSBX_DOCTOR_MAX_ROWS];
    reposbx_doctor_report report = { .checks = checks };
    struct reposbx_policy policy = { .wasm = wasm };
    struct rsbx_doctor doctor = { .options = &options, .report = &report, .policy = &policy };

    rsbx_doctor_toolchain(&doctor, missing, installed);
    assert_int_equal(report.count, 1);
    assert_string_equal(checks[0].name, "wasm_toolchain");
    if (missing != NULL)
        assert_non_null(strstr(checks[0].detail, missing));
    assert_int_equal(checks[0].hint[0] != '\0', checks[0].status == REPOSBX_DOCTOR_FAIL);
    return checks[0].status;
}

/* Who needs modules and has none needs what makes them. */
static void it_is_missed_where_it_is_needed(void **state)
{
    (void)state;
    assert_int_equal(status_with(RSBX_WASM_REQUIRE, NULL, false), REPOSBX_DOCTOR_PASS);
    assert_int_equal(status_with(RSBX_WASM_REQUIRE, "wasm2c", false), REPOSBX_DOCTOR_FAIL);
    assert_int_equal(status_with(RSBX_WASM_REQUIRE, "cc", false), REPOSBX_DOCTOR_FAIL);
    assert_int_equal(status_with(RSBX_WASM_REQUIRE, "cc", true), REPOSBX_DOCTOR_SKIP);
    assert_int_equal(status_with(RSBX_WASM_NEVER, "cc", false), REPOSBX_DOCTOR_SKIP);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(it_is_missed_where_it_is_needed) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
