/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "source/internal.h"

#include "base/banned.h"

struct row {
    const char *pattern;
    const char *path; /* with a final '/' when it is a folder */
    bool matches;
};

static const struct row rows[] = {
    /* no slash: the last component */
    { "foo", "foo", true }, { "foo", "a/foo", true }, { "foo", "foo/a", false },
    { "foo", "foo/", true }, { "*.c", "a/b.c", true }, { "*.c", "b.cc", false },
    { "*", "a/b", true }, { "**", "a/b", true }, { "f*o", "fo", true }, { "f**o", "a/fxo", true },
    { "f?o", "fxo", true }, { "f?o", "fo", false }, { "?", "a", true }, { ".*", "x/.git2", true },
    /* a slash: the whole path */
    { "/foo", "foo", true }, { "/foo", "a/foo", false }, { "a/foo", "a/foo", true },
    { "a/foo", "b/a/foo", false }, { "a/*", "a/b", true }, { "a/*", "a/b/c", false },
    { "a/?", "a/b", true }, { "a?b", "a/b", false }, { "/*", "a", true }, { "/*", "a/b", false },
    /* folders only */
    { "foo/", "foo/", true }, { "foo/", "foo", false }, { "foo/", "x/foo/", true },
    { "/a/b/", "a/b/", true }, { "/a/b/", "a/b", false }, { "a/b/", "c/a/b/", false },
    /* two stars between slashes */
    { "**/foo", "foo", true }, { "**/foo", "a/b/foo", true }, { "**/foo", "afoo", false },
    { "a/**", "a/b", true }, { "a/**", "a/b/c", true }, { "a/**", "a/", false },
    { "a/**", "ab/c", false }, { "a/**/b", "a/b", true }, { "a/**/b", "a/x/b", true },
    { "a/**/b", "a/x/y/b", true }, { "a/**/b", "axb", false }, { "a/**/b", "a/xb", false },
    { "**/a/**/b", "q/a/r/s/b", true }, { "a**/b", "ax/b", true }, { "a**/b", "ax/y/b", false },
    { "a/**b", "a/xb", true }, { "a/**b", "a/x/b", false }, { "**/*.txt", "a/b.txt", true },
    /* sets */
    { "[abc]", "b", true }, { "[abc]", "d", false }, { "[!abc]", "d", true },
    { "[^abc]", "a", false }, { "[a-c]x", "bx", true }, { "[a-c]x", "dx", false },
    { "[]a]", "]", true }, { "[]a]", "a", true }, { "[!]a]", "b", true }, { "[a-]", "-", true },
    { "[\\]]", "]", true }, { "[[:digit:]]", "7", true }, { "[[:digit:]]", "x", false },
    { "[[:alpha:][:digit:]]", "x", true }, { "[[:bogus:]]", "b", false }, { "[a", "a", false },
    { "[a", "[a", false }, { "x[!a]y/z", "x/y/z", false }, { "[[:upper:]]", "A", true },
    { "[\\a-\\c]", "b", true }, { "[[:x]", "[", true }, { "[[:x]", ":", true },
    /* escapes and bytes */
    { "\\*", "*", true }, { "\\*", "a", false }, { "a\\", "a", false }, { "\\!a", "!a", true },
    { "!a", "a", false }, { "?", "\xFF", true }, { "\xC3\xA9", "\xC3\xA9", true },
    { "[\xA9]", "\xA9", true }, { "a\\/b", "a/b", true },
};

static bool matches(const char *pattern, const char *path, uint64_t *steps)
{
    struct rsbx_pattern *compiled = NULL;
    size_t length = strlen(path);
    bool folder = length > 0 && path[length - 1] == '/';
    bool result;

    assert_int_equal(rsbx_pattern_new(&compiled, pattern, strlen(pattern), NULL), 0);
    if (compiled == NULL)
        return false;
    result = rsbx_pattern_match(compiled, path, folder ? length - 1 : length, folder, steps);
    rsbx_pattern_free(compiled);
    return result;
}

static void test_table(void **state)
{
    uint64_t steps = 0;

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (matches(rows[i].pattern, rows[i].path, &steps) != rows[i].matches)
            fail_msg("pattern %s on %s", rows[i].pattern, rows[i].path);
    }
}

/* Patterns that make a backtracking matcher run for ever. */
static void test_linear(void **state)
{
    char pattern[2001];
    char path[2001];
    uint64_t steps = 0;

    (void)state;
    for (size_t i = 0; i + 1 < 2000; i += 2) {
        pattern[i] = '*';
        pattern[i + 1] = 'a';
    }
    memset(path, 'a', 2000);
    memcpy(pattern + 1998, "*b", 2);
    pattern[2000] = '\0';
    path[2000] = '\0';
    assert_false(matches(pattern, path, &steps));
    assert_true(steps <= 2000 * 2002);
    for (size_t i = 0; i + 3 < 2000; i += 3)
        memcpy(pattern + i, "**/", 3);
    pattern[1998] = 'b';
    pattern[1999] = '\0';
    for (size_t i = 1; i < 2000; i += 2)
        path[i] = '/';
    steps = 0;
    assert_false(matches(pattern, path, &steps));
    assert_true(steps <= 2000 * 2002);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_table),
        cmocka_unit_test(test_linear),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
