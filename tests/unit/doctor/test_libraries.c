/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "doctor/internal.h"

#include "base/banned.h"

/* Stands in for the library's own: a program's symbols come before those of what it loads. */
static char loaded[32];

const char *jansson_version_str(void)
{
    return loaded;
}

static int status_with(char detail[REPOSBX_MESSAGE_BYTES], int major, int minor)
{
    static const reposbx_doctor_options options = REPOSBX_DOCTOR_OPTIONS_INIT;
    reposbx_doctor_check checks[RSBX_DOCTOR_MAX_ROWS];
    reposbx_doctor_report report = { .checks = checks };
    struct rsbx_doctor doctor = { .options = &options, .report = &report };

    (void)snprintf(loaded, sizeof loaded, "%d.%d.0", major, minor);
    rsbx_doctor_libraries(&doctor);
    assert_int_equal(report.count, 1);
    assert_string_equal(checks[0].name, "libraries");
    memcpy(detail, checks[0].detail, REPOSBX_MESSAGE_BYTES);
    return checks[0].status;
}

static void older_ones_are_found(void **state)
{
    char detail[REPOSBX_MESSAGE_BYTES];

    (void)state;
    assert_int_equal(status_with(detail, JANSSON_MAJOR_VERSION, JANSSON_MINOR_VERSION),
                     REPOSBX_DOCTOR_PASS);
    assert_int_equal(status_with(detail, JANSSON_MAJOR_VERSION, JANSSON_MINOR_VERSION + 1),
                     REPOSBX_DOCTOR_PASS);
    assert_int_equal(status_with(detail, JANSSON_MAJOR_VERSION, JANSSON_MINOR_VERSION - 1),
                     REPOSBX_DOCTOR_FAIL);
    assert_non_null(strstr(detail, "jansson"));
    assert_int_equal(status_with(detail, JANSSON_MAJOR_VERSION + 1, JANSSON_MINOR_VERSION),
                     REPOSBX_DOCTOR_FAIL);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(older_ones_are_found) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
