/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/fingerprint.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "guest/sha256.h"

#include "base/banned.h"

struct file {
    const char *path, *content;
};

static void to_hex(char out[65], struct rsbx_guest_sha256 *hash)
{
    uint8_t digest[32];

    rsbx_guest_sha256_final(hash, digest);
    for (size_t i = 0; i < 32; i++) {
        snprintf(out + 2U * i, 3, "%02x", digest[i]);
    }
}

/* The files are given in the order of the walk. */
static void check(const char *selection, const struct file *files, size_t count,
                  const char *const *excludes, size_t exclude_count, uint64_t entries,
                  const char *expected)
{
    struct rsbx_guest_sha256 selection_hash, state;
    struct rsbx_fp_hash hash = {rsbx_guest_sha256_update, &state};
    uint64_t seen = 0;
    char hex[65];

    rsbx_guest_sha256_init(&selection_hash);
    rsbx_guest_sha256_update(&selection_hash, selection, strlen(selection));
    to_hex(hex, &selection_hash);
    rsbx_guest_sha256_init(&state);
    rsbx_fp_begin(&hash, hex);
    for (size_t i = 0; i < count; i++) {
        size_t length = strlen(files[i].path), size = strlen(files[i].content);

        if (rsbx_fp_skipped(files[i].path, length, excludes, exclude_count)) {
            continue;
        }
        rsbx_fp_file(&hash, files[i].path, length, size);
        rsbx_guest_sha256_update(&state, files[i].content, size);
        seen++;
    }
    rsbx_fp_end(&hash, seen);
    to_hex(hex, &state);
    assert_true(seen == entries);
    assert_string_equal(hex, expected);
}

#define NO_EXCLUSION                                                                               \
    "{\"exclude_subtrees\":[],\"repository_filter_policy\":4,"                                     \
    "\"schema\":\"codenib.repository-source-selection.v1\"}"

static void test_vectors(void **state)
{
    static const struct file one[] = {{"hello.txt", "before\n"}};
    static const struct file five[] = {{"A.txt", "A"}, {"a.txt", "a"}, {"b.txt", "b"},
                                       {"a/z.txt", "z"}, {"a/b/c.txt", ""}};
    static const struct file excluded[] = {
        {"docs/a.md", "# a\n"}, {"docs/api/b.md", "b"}, {"docsx/c.md", "c"},
        {"src/x.c", "int x;\n"}};
    static const char *const docs[] = {"docs"};

    (void)state;
    check(NO_EXCLUSION, one, 1, NULL, 0, 1,
          "94da878170fb163782bdce9fe094b49473942e29f0313f064f870c3ef1210f46");
    check(NO_EXCLUSION, five, 5, NULL, 0, 5,
          "b235864ac28a9340b90fdf2061ac7ccae099a874bb0b678b5e58a63d686037b4");
    check("{\"exclude_subtrees\":[\"docs\"],\"repository_filter_policy\":4,"
          "\"schema\":\"codenib.repository-source-selection.v1\"}",
          excluded, 4, docs, 1, 2,
          "7341c894f1da3e82842d7df60e20f4da3a978e9085314b32dc5d37376fc05dff");
}

static bool ignored(const char *name)
{
    return rsbx_fp_ignored(name, strlen(name));
}

static void test_ignored(void **state)
{
    static const char *const yes[] = {
        ".codenib_cache", ".env", ".git", ".hg", ".mypy_cache", ".next", ".pytest_cache",
        ".ruff_cache", ".svn", ".tox", ".venv", "__pycache__", "build", "dist", "env", "htmlcov",
        "node_modules", "site", "target", "third_party", "vendor", "venv", ".codenib",
        ".codenibble"};
    static const char *const no[] = {"", ".", "Build", "builds", "buil", ".GIT", ".gitignore",
                                     ".codeni", "x.codenib"};

    (void)state;
    for (size_t i = 0; i < sizeof(yes) / sizeof(yes[0]); i++) {
        assert_true(ignored(yes[i]));
    }
    for (size_t i = 0; i < sizeof(no) / sizeof(no[0]); i++) {
        assert_false(ignored(no[i]));
    }
    assert_true(rsbx_fp_skipped("a/build/c", 9, NULL, 0));
    assert_true(rsbx_fp_skipped("build", 5, NULL, 0));
    assert_false(rsbx_fp_skipped("a/buildx/c", 10, NULL, 0));
}

static int compare(const char *a, const char *b)
{
    int forward = rsbx_fp_compare(a, strlen(a), b, strlen(b));

    assert_int_equal(rsbx_fp_compare(b, strlen(b), a, strlen(a)), -forward);
    return forward;
}

static void test_order(void **state)
{
    (void)state;
    assert_int_equal(compare("a", "a"), 0);
    assert_int_equal(compare("", "a"), -1);
    assert_int_equal(compare("A", "a"), -1);
    assert_int_equal(compare("a", "a.b"), -1);
    /* A stray byte is U+DCxx: above U+D7FF, below U+E000 and everything of four bytes. */
    assert_int_equal(compare("\xed\x9f\xbf", "\xff"), -1);
    assert_int_equal(compare("\xff", "\xee\x80\x80"), -1);
    assert_int_equal(compare("\xff", "\xf0\x90\x80\x80"), -1);
    assert_int_equal(compare("\x80", "\xff"), -1);
    /* Surrogates, overlong forms and cut sequences are stray bytes as well. */
    assert_int_equal(compare("\xed\xa0\x80", "\xee\x80\x80"), -1);
    assert_int_equal(compare("\xc0\x80", "\x7f"), 1);
    assert_int_equal(compare("\xe2\x82", "\xe2\x82\xac"), 1);
    assert_int_equal(compare("\xf4\x90\x80\x80", "\xf4\x8f\xbf\xbf"), -1);
}

/* The rest digest has a layout of its own; spelled out once. */
static void test_rest(void **state)
{
    static const uint8_t layout[] = {0, 0, 0x81, 0xa4, 0, 0, 0, 1, 'x', 0, 0, 0, 0, 0, 0, 1, 2};
    struct rsbx_guest_sha256 one, two;
    struct rsbx_fp_hash hash = {rsbx_guest_sha256_update, &one};
    char left[65], right[65];

    (void)state;
    rsbx_guest_sha256_init(&one);
    rsbx_guest_sha256_init(&two);
    rsbx_fp_rest(&hash, 0100644U, "x", 1, 258);
    rsbx_guest_sha256_update(&two, layout, sizeof(layout));
    to_hex(left, &one);
    to_hex(right, &two);
    assert_string_equal(left, right);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_vectors),
        cmocka_unit_test(test_ignored),
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_rest),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
