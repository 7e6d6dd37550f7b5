/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "codec/json.h"

#include "base/banned.h"

static void at(const char *text, const char *path, size_t line, size_t column)
{
    size_t found_line = 0, found_column = 0;

    if (!rsbx_json_locate(&found_line, &found_column, text, strlen(text), path))
        fail_msg("\"%s\" was not found", path);
    assert_int_equal(found_line, line);
    assert_int_equal(found_column, column);
}

static void nowhere(const char *text, const char *path)
{
    size_t line = 77, column = 78;

    assert_false(rsbx_json_locate(&line, &column, text, strlen(text), path));
    assert_int_equal(line, 77);
    assert_int_equal(column, 78);
}

static const char policy[] = "{\n"
                             "  \"limits\": {\n"
                             "    \"cpus\": 2, \"pids\": [ 10, {\"x\" : true}, \"]},\\\"\" ],\n"
                             "    \"after\": null\n"
                             "  },\n"
                             "\t\"images\":[\"a\",\n"
                             "\"b\" , \"c\"],\n"
                             "  \"\\u0061\\ud83d\\ude00\\n\\/\": -1.5e3\n"
                             "}\n";

static void finds_members_and_elements(void **state)
{
    (void)state;
    at(policy, "limits", 2, 3);
    at(policy, "limits.cpus", 3, 5);
    at(policy, "limits.pids", 3, 16);
    at(policy, "limits.pids[0]", 3, 26);
    at(policy, "limits.pids[1]", 3, 30);
    at(policy, "limits.pids[1].x", 3, 31);
    at(policy, "limits.pids[2]", 3, 44);
    at(policy, "limits.after", 4, 5);
    at(policy, "images", 6, 2);
    at(policy, "images[0]", 6, 12);
    at(policy, "images[1]", 7, 1);
    at(policy, "images[2]", 7, 7);
    at(policy, "a\xF0\x9F\x98\x80\n/", 8, 3);
    at("[[1,[2]],3]", "[0][1][0]", 1, 6);
    at("[[1,[2]],3]", "[1]", 1, 10);
}

static void finds_nothing_that_is_not_there(void **state)
{
    static const char *const paths[] = {
        "",
        "limit",
        "limitsx",
        "limits.",
        "limits.cpu",
        "cpus",
        "images[3]",
        "images[]",
        "images[-1]",
        "images[1",
        "images[1]x",
        "images.0",
        "limits[0]",
        "x",
        ".",
        "limits.cpus.x",
        "limits..cpus",
        "images[0][0]",
        "images[99999999999999999999999]",
    };

    (void)state;
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++)
        nowhere(policy, paths[i]);
    nowhere("3", "a");
    nowhere("\"a\"", "a");
    nowhere("{}", "a");
    nowhere("[]", "[0]");
}

static void takes_names_that_look_like_paths(void **state)
{
    static const char text[] = "{\"a\":{\"b\":1},\"a.c\":{\"d\":2},\"e[0]\":3,\"\":{\"\":4}}";

    (void)state;
    at(text, "a.b", 1, 7);
    at(text, "a.c", 1, 14);
    at(text, "a.c.d", 1, 21);
    at(text, "e[0]", 1, 28);
    at(text, ".", 1, 41);
    nowhere(text, "a.d");
}

static void stays_inside_a_broken_text(void **state)
{
    size_t line, column;

    (void)state;
    for (size_t length = 0; length < sizeof policy; length++) {
        /* An exact copy, so that the sanitizer sees a step too far. */
        RSBX_AUTO(rsbx_text) char *text = malloc(length + 1);

        assert_non_null(text);
        memcpy(text, policy, length);
        (void)rsbx_json_locate(&line, &column, text, length, "limits.pids[2]");
        (void)rsbx_json_locate(&line, &column, text, length, "a\xF0\x9F\x98\x80\n/.x");
    }
}

static void deep_values_cost_no_stack(void **state)
{
    static char text[200016] = "{\"a\":";

    (void)state;
    memset(text + 5, '[', 100000);
    memset(text + 100005, ']', 100000);
    memcpy(text + 200005, ",\"b\":1}", 8);
    at(text, "b", 1, 200007);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds_members_and_elements),
        cmocka_unit_test(finds_nothing_that_is_not_there),
        cmocka_unit_test(takes_names_that_look_like_paths),
        cmocka_unit_test(stays_inside_a_broken_text),
        cmocka_unit_test(deep_values_cost_no_stack),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
