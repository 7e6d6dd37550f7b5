/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "source/source.h"

#include "base/banned.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

static void expect(const char *const *excludes, size_t count, const char *list)
{
    char want[512] = "{\"exclude_subtrees\":[";
    size_t used = strlen(want);
    char *text = NULL;
    reposbx_error err = REPOSBX_ERROR_INIT;
    static const char rest[] = "],\"repository_filter_policy\":4,"
                               "\"schema\":\"codenib.repository-source-selection.v1\"}";

    memcpy(want + used, list, strlen(list));
    used += strlen(list);
    memcpy(want + used, rest, sizeof rest);
    assert_int_equal(rsbx_selection_json(&text, excludes, count, &err), 0);
    assert_string_equal(text, want);
    free(text);
}

static void test_canonical_text(void **state)
{
    const char *const two[] = { "docs", "src/gen" };
    const char *const odd[] = { "a\"b", "t\tn\n\x01\x7f", "\xC3\xA9", "\xF0\x9F\x98\x80" };
    const char *const bytes[] = { "x\xFFy" };

    (void)state;
    expect(NULL, 0, "");
    expect(two, COUNT(two), "\"docs\",\"src/gen\"");
    expect(odd, COUNT(odd), "\"a\\\"b\",\"t\\tn\\n\\u0001\x7f\",\"\\u00e9\",\"\\ud83d\\ude00\"");
    expect(bytes, COUNT(bytes), "\"x\\udcffy\"");
}

static void refused(const char *const *excludes, size_t count)
{
    char *text = NULL;
    reposbx_error err = REPOSBX_ERROR_INIT;

    assert_int_equal(rsbx_selection_json(&text, excludes, count, &err), REPOSBX_EPOLICY);
    assert_null(text);
    assert_true(err.message[0] != '\0');
}

static void test_refused(void **state)
{
    const char *const single[] = { "", "/a", "a/", "./a", "..", "a/../b", "a//b", "a/./b", "a\\b" };
    const char *const order[] = { "b", "a" };
    const char *const twice[] = { "a", "a" };
    const char *const below[] = { "a", "a-b", "a/c" };

    (void)state;
    for (size_t i = 0; i < COUNT(single); i++)
        refused(&single[i], 1);
    refused(order, COUNT(order));
    refused(twice, COUNT(twice));
    refused(below, COUNT(below));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_canonical_text),
        cmocka_unit_test(test_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
