/* SPDX-License-Identifier: Apache-2.0 */
/* Where a job goes, over everything that decides it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "run/internal.h"

static struct rsbx_run_order order_of(const reposbx_exec_spec *spec)
{
    struct rsbx_run_order order = { .spec = spec };

    assert_int_equal(rsbx_run_language(&order.language, spec->language, NULL), 0);
    return order;
}

static int route(enum rsbx_run_route *out, const char *address, const char *wasm,
                 const reposbx_exec_spec *spec, bool ready)
{
    RSBX_AUTO(rsbx_policy) rsbx_policy_ptr policy = NULL;
    const struct rsbx_run_order order = order_of(spec);
    reposbx_error why = REPOSBX_ERROR_INIT;
    reposbx_error err = REPOSBX_ERROR_INIT;
    char text[64];
    int rc;

    (void)snprintf(text, sizeof text, "{\"version\":1,\"run\":{\"wasm\":\"%s\"}}", wasm);
    assert_int_equal(reposbx_policy_parse(&policy, text, strlen(text), NULL), 0);
    (void)rsbx_fail(&why, REPOSBX_EPROTOCOL, "the module is damaged");
    rc = rsbx_run_route(out, address, &order, policy, ready ? 0 : REPOSBX_EPROTOCOL, &why, &err);
    if (rc == REPOSBX_EUNAVAILABLE)
        assert_non_null(strstr(err.message, "the module is damaged"));
    return rc;
}

static void python_alone_goes_to_wasm_when_it_is_ready(void **state)
{
    reposbx_exec_spec spec = REPOSBX_EXEC_SPEC_INIT;
    enum rsbx_run_route where;

    (void)state;
    assert_int_equal(route(&where, "auto", "prefer", &spec, true), 0);
    assert_int_equal(where, RSBX_ROUTE_WASM);
    assert_int_equal(route(&where, "auto", "prefer", &spec, false), 0);
    assert_int_equal(where, RSBX_ROUTE_CONTAINER);
    assert_int_equal(route(&where, "auto", "never", &spec, true), 0);
    assert_int_equal(where, RSBX_ROUTE_CONTAINER);
    assert_int_equal(route(&where, "podman", "prefer", &spec, true), 0);
    assert_int_equal(where, RSBX_ROUTE_CONTAINER);
}

/* Neither a named engine nor an input that a module cannot have makes a way around it. */
static void what_is_demanded_has_no_way_around_it(void **state)
{
    static const char *const engines[] = { "podman", "docker", "unix:///engine.sock" };
    const reposbx_run_input input = { "a", "x", 1 };
    reposbx_exec_spec spec = REPOSBX_EXEC_SPEC_INIT;
    reposbx_exec_spec bash = REPOSBX_EXEC_SPEC_INIT;
    enum rsbx_run_route where;

    (void)state;
    bash.language = "bash";
    for (size_t i = 0; i < sizeof engines / sizeof engines[0]; i++) {
        assert_int_equal(route(&where, engines[i], "require", &spec, true), REPOSBX_EPOLICY);
        assert_int_equal(route(&where, engines[i], "require", &bash, true), 0);
        assert_int_equal(where, RSBX_ROUTE_CONTAINER);
    }
    spec.inputs = &input;
    spec.input_count = 1;
    assert_int_equal(route(&where, "auto", "require", &spec, true), REPOSBX_EPOLICY);
    assert_int_equal(route(&where, "auto", "require", &bash, true), 0);
}

static void what_is_demanded_and_not_ready_is_an_error(void **state)
{
    reposbx_exec_spec spec = REPOSBX_EXEC_SPEC_INIT;
    enum rsbx_run_route where;

    (void)state;
    assert_int_equal(route(&where, "auto", "require", &spec, false), REPOSBX_EUNAVAILABLE);
    assert_int_equal(route(&where, "wasm", "prefer", &spec, false), REPOSBX_EUNAVAILABLE);
    assert_int_equal(route(&where, "wasm", "never", &spec, true), REPOSBX_EPOLICY);
    assert_int_equal(route(&where, "wasm", "prefer", &spec, true), 0);
    assert_int_equal(where, RSBX_ROUTE_WASM);
}

static void other_jobs_go_to_a_container(void **state)
{
    static const char *const env[] = { "A=1" };
    const reposbx_run_input input = { "a", "x", 1 };
    reposbx_exec_spec specs[3] = { REPOSBX_EXEC_SPEC_INIT, REPOSBX_EXEC_SPEC_INIT,
                                   REPOSBX_EXEC_SPEC_INIT };
    enum rsbx_run_route where;

    (void)state;
    specs[0].language = "bash";
    specs[1].inputs = &input;
    specs[1].input_count = 1;
    specs[2].env = env;
    specs[2].env_count = 1;
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(route(&where, "auto", "prefer", &specs[i], true), 0);
        assert_int_equal(where, RSBX_ROUTE_CONTAINER);
        assert_int_equal(route(&where, "wasm", "prefer", &specs[i], true), REPOSBX_EPOLICY);
    }
}

static bool waits_as_wasm(const char *address, const char *language, const char *policy_text)
{
    RSBX_AUTO(rsbx_policy) rsbx_policy_ptr policy = NULL;
    const struct rsbx_run_language *known = NULL;

    assert_int_equal(reposbx_policy_parse(&policy, policy_text, strlen(policy_text), NULL), 0);
    assert_int_equal(rsbx_run_language(&known, language, NULL), 0);
    return rsbx_run_waits_as_wasm(address, known, policy);
}

static void what_waits_is_what_is_named_or_demanded(void **state)
{
    static const char prefer[] = "{\"version\":1,\"run\":{\"wasm\":\"prefer\"}}";
    static const char require[] = "{\"version\":1,\"run\":{\"wasm\":\"require\"}}";
    static const char bridge[] =
        "{\"version\":1,\"network\":\"bridge\",\"run\":{\"wasm\":\"require\"}}";

    (void)state;
    assert_true(waits_as_wasm("wasm", "python", prefer));
    assert_true(waits_as_wasm("auto", "python", require));
    assert_false(waits_as_wasm("auto", "python", prefer));
    assert_false(waits_as_wasm("auto", "bash", require));
    assert_false(waits_as_wasm("auto", "python", bridge));
    assert_false(waits_as_wasm("podman", "python", require));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(python_alone_goes_to_wasm_when_it_is_ready),
        cmocka_unit_test(what_is_demanded_and_not_ready_is_an_error),
        cmocka_unit_test(what_is_demanded_has_no_way_around_it),
        cmocka_unit_test(other_jobs_go_to_a_container),
        cmocka_unit_test(what_waits_is_what_is_named_or_demanded),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
