/* SPDX-License-Identifier: Apache-2.0 */
/* What may be asked for, and what the interpreter is given. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "run/internal.h"

#define IMAGE "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static reposbx_policy *policy;

static int setup(void **state)
{
    static const char text[] =
        "{\"version\":1,\"images\":[\"" IMAGE "\"],\"run\":{\"python\":\"" IMAGE "\",\"bash\":\"" IMAGE
        "\"},\"limits\":{\"memory_bytes\":536870912,\"pids\":64,\"stdin_bytes\":1000}}";

    (void)state;
    return reposbx_policy_parse(&policy, text, strlen(text), NULL);
}

static int teardown(void **state)
{
    (void)state;
    reposbx_policy_free(policy);
    return 0;
}

static void expect_refused(const reposbx_exec_spec *spec, const char *field)
{
    struct rsbx_run_order order;
    reposbx_error err = REPOSBX_ERROR_INIT;
    int rc = rsbx_run_check(&order, spec, policy, &err);

    if (rc == 0)
        rc = rsbx_run_check_image(&order, policy, &err);
    assert_int_equal(rc, REPOSBX_EPOLICY);
    if (strncmp(err.message, field, strlen(field)) != 0)
        fail_msg("\"%s\" does not begin with %s", err.message, field);
}

static void refusals_name_their_field(void **state)
{
    static const char *const token[] = { "API_TOKEN=x" };
    static const char code[1001] = "";
    reposbx_exec_spec spec = REPOSBX_EXEC_SPEC_INIT;

    (void)state;
    spec.language = "perl";
    expect_refused(&spec, "language:");
    spec = (reposbx_exec_spec)REPOSBX_EXEC_SPEC_INIT;
    spec.timeout_seconds = 120.001;
    expect_refused(&spec, "timeout_seconds:");
    spec.timeout_seconds = -1;
    expect_refused(&spec, "timeout_seconds:");
    spec = (reposbx_exec_spec)REPOSBX_EXEC_SPEC_INIT;
    spec.memory_bytes = 536870913;
    expect_refused(&spec, "memory_bytes:");
    spec = (reposbx_exec_spec)REPOSBX_EXEC_SPEC_INIT;
    spec.pids = 65;
    expect_refused(&spec, "pids:");
    spec = (reposbx_exec_spec)REPOSBX_EXEC_SPEC_INIT;
    spec.cpus = 2.5;
    expect_refused(&spec, "cpus:");
    spec = (reposbx_exec_spec)REPOSBX_EXEC_SPEC_INIT;
    spec.env = token;
    spec.env_count = 1;
    expect_refused(&spec, "env:");
    spec = (reposbx_exec_spec)REPOSBX_EXEC_SPEC_INIT;
    spec.code = code;
    spec.code_length = sizeof code;
    expect_refused(&spec, "code:");
    spec = (reposbx_exec_spec)REPOSBX_EXEC_SPEC_INIT;
    spec.language = "node";
    expect_refused(&spec, "image");
}

static void inputs_are_for_python_and_have_plain_names(void **state)
{
    static const char *const bad[] = { "a/b", "../a", ".", "..", ".hidden", "", "-x", "a b", "a\nb",
                                       "\xc3\xa4", "a'b", "a\\b" };
    reposbx_run_input inputs[2] = { { "a.txt", "x", 1 }, { "b", "y", 1 } };
    reposbx_exec_spec spec = REPOSBX_EXEC_SPEC_INIT;
    struct rsbx_run_order order;

    (void)state;
    spec.inputs = inputs;
    spec.input_count = 2;
    assert_int_equal(rsbx_run_check(&order, &spec, policy, NULL), 0);
    spec.language = "bash";
    expect_refused(&spec, "inputs:");
    spec.language = "python";
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        inputs[1].name = bad[i];
        expect_refused(&spec, "inputs:");
    }
    inputs[1].name = "a.txt"; /* twice */
    expect_refused(&spec, "inputs:");
}

static void inputs_are_bounded_together(void **state)
{
    char *bytes = calloc(1, REPOSBX_RUN_MAX_INPUT_BYTES);
    reposbx_run_input inputs[2] = { { "a", bytes, REPOSBX_RUN_MAX_INPUT_BYTES }, { "b", "", 0 } };
    reposbx_exec_spec spec = REPOSBX_EXEC_SPEC_INIT;
    struct rsbx_run_order order;

    (void)state;
    assert_non_null(bytes);
    spec.inputs = inputs;
    spec.input_count = 2;
    assert_int_equal(rsbx_run_check(&order, &spec, policy, NULL), 0);
    inputs[1].length = 1;
    inputs[1].bytes = "x";
    expect_refused(&spec, "inputs:");
    free(bytes);
}

static void defaults_are_those_of_the_model(void **state)
{
    reposbx_exec_spec spec = REPOSBX_EXEC_SPEC_INIT;
    struct rsbx_run_order order;

    (void)state;
    assert_int_equal(rsbx_run_check(&order, &spec, policy, NULL), 0);
    assert_string_equal(order.language->name, "python");
    assert_string_equal(order.image, IMAGE);
    assert_true(order.usual);
    assert_true(order.limits.cpus == 1.0 && order.limits.command_timeout_seconds == 10.0);
    assert_int_equal(order.limits.memory_bytes, 268435456);
    assert_int_equal(order.limits.pids, 64); /* the policy's is lower than 128 */
    assert_int_equal(order.limits.output_bytes, 65536);
    /* Another timeout is for any container, another limit is not. */
    spec.timeout_seconds = 120;
    assert_int_equal(rsbx_run_check(&order, &spec, policy, NULL), 0);
    assert_true(order.usual);
    assert_true(order.limits.command_timeout_seconds == 120.0);
    spec.memory_bytes = 536870912;
    assert_int_equal(rsbx_run_check(&order, &spec, policy, NULL), 0);
    assert_false(order.usual);
    assert_int_equal(order.limits.memory_bytes, 536870912);
}

static void without_inputs_the_program_is_the_code(void **state)
{
    static const char code[] = "print('\0')\r\n\xff";
    reposbx_exec_spec spec = REPOSBX_EXEC_SPEC_INIT;
    char *program = NULL;
    size_t length = 0;

    (void)state;
    spec.code = code;
    spec.code_length = sizeof code - 1;
    assert_int_equal(rsbx_run_program(&program, &length, &spec, NULL), 0);
    assert_int_equal(length, sizeof code - 1);
    assert_memory_equal(program, code, length);
    free(program);
}

/* Nothing of an input or of the code stands in the program as it is. */
static void with_inputs_everything_foreign_is_base64(void **state)
{
    static const char hostile[] = "'''\"\"\"\\\n]))\nraise SystemExit\n";
    reposbx_run_input input = { "a", hostile, sizeof hostile - 1 };
    reposbx_exec_spec spec = REPOSBX_EXEC_SPEC_INIT;
    char *program = NULL;
    size_t length = 0;

    (void)state;
    spec.code = hostile;
    spec.code_length = sizeof hostile - 1;
    spec.inputs = &input;
    spec.input_count = 1;
    assert_int_equal(rsbx_run_program(&program, &length, &spec, NULL), 0);
    assert_int_equal(strlen(program), length);
    assert_null(strstr(program, "raise SystemExit"));
    assert_non_null(strstr(program, "('a', ['JycnIiIiXApdKSkKcmFpc2UgU3lzdGVtRXhpdAo=',"));
    free(program);
}

static void other_languages_get_no_preamble(void **state)
{
    reposbx_run_input input = { "a", "x", 1 };
    reposbx_exec_spec spec = REPOSBX_EXEC_SPEC_INIT;
    char *program = NULL;
    size_t length = 0;

    (void)state;
    spec.language = "node";
    spec.inputs = &input;
    spec.input_count = 1;
    assert_int_equal(rsbx_run_program(&program, &length, &spec, NULL), REPOSBX_EPOLICY);
    assert_null(program);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refusals_name_their_field),
        cmocka_unit_test(inputs_are_for_python_and_have_plain_names),
        cmocka_unit_test(inputs_are_bounded_together),
        cmocka_unit_test(defaults_are_those_of_the_model),
        cmocka_unit_test(without_inputs_the_program_is_the_code),
        cmocka_unit_test(with_inputs_everything_foreign_is_base64),
        cmocka_unit_test(other_languages_get_no_preamble),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
