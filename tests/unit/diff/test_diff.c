/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/text.h"
#include "diff/diff.h"

#include "base/banned.h"

/* Ids of blobs as `git hash-object` gives them. */
#define ID_EMPTY "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"
#define ID_BEFORE "90be1f3056c4f471f977a28497b8d4b392c55a02" /* "before\n" */
#define TREE_EMPTY "4b825dc642cb6eb9a060e54bf8d69288fbee4904"

static const struct rsbx_diff_options plenty = { .max_bytes = 1U << 26 };

static struct rsbx_diff *new_diff(void)
{
    struct rsbx_diff *diff = NULL;

    assert_int_equal(rsbx_diff_new(&diff, NULL), 0);
    return diff;
}

static int base(struct rsbx_diff *diff, const char *path, uint32_t mode, const char *hex)
{
    uint8_t oid[20];

    assert_true(rsbx_unhex(oid, 20, hex));
    return rsbx_diff_base(diff, path, strlen(path), mode, oid, NULL);
}

static struct rsbx_diff_content content(const char *bytes, size_t length)
{
    struct rsbx_diff_content made = { malloc(length + 1), length };

    assert_non_null(made.bytes);
    memcpy(made.bytes, bytes, length);
    return made;
}

/* A change between texts; NULL is absent. */
static int change(struct rsbx_diff *diff, const char *path, uint32_t old_mode, const char *before,
                  uint32_t new_mode, const char *after)
{
    struct rsbx_diff_change one = { .path = path, .path_length = strlen(path) };
    int rc;

    if (before != NULL) {
        one.old_mode = old_mode;
        one.old_content = content(before, strlen(before));
    }
    if (after != NULL) {
        one.new_mode = new_mode;
        one.new_content = content(after, strlen(after));
    }
    rc = rsbx_diff_change(diff, &one, NULL);
    if (rc != 0) { /* not taken over */
        free(one.old_content.bytes);
        free(one.new_content.bytes);
    }
    return rc;
}

static int run(struct rsbx_diff_result *out, struct rsbx_diff *diff,
               const struct rsbx_diff_options *options, reposbx_error *err)
{
    int rc = rsbx_diff_run(out, diff, options, err);

    rsbx_diff_free(diff);
    return rc;
}

static void assert_fails(struct rsbx_diff *diff, const struct rsbx_diff_options *options,
                         int expected, const char *word)
{
    struct rsbx_diff_result result;
    reposbx_error err = REPOSBX_ERROR_INIT;
    int rc = run(&result, diff, options, &err);

    if (rc != expected || strstr(err.message, word) == NULL)
        fail_msg("%s: answer %d: %s", word, rc, err.message);
}

static void one_line_changes(void **state)
{
    static const char expected[] =
        "diff --git a/hello.txt b/hello.txt\n"
        "index 90be1f3056c4f471f977a28497b8d4b392c55a02.."
        "294186e497a23bf3fbfde12aacc7f720f668fe9a 100644\n"
        "--- a/hello.txt\n+++ b/hello.txt\n@@ -1 +1 @@\n-before\n+after\n";
    struct rsbx_diff *diff = new_diff();
    struct rsbx_diff_result result;

    (void)state;
    assert_int_equal(base(diff, "hello.txt", 0100644, ID_BEFORE), 0);
    assert_int_equal(change(diff, "hello.txt", 0100644, "before\n", 0100644, "after\n"), 0);
    assert_int_equal(run(&result, diff, &plenty, NULL), 0);
    assert_string_equal(result.patch, expected);
    assert_int_equal(result.patch_length, sizeof expected - 1);
    assert_int_equal(result.file_count, 1);
    assert_int_equal(result.files[0].status, RSBX_DIFF_MODIFIED);
    assert_int_equal(result.files[0].insertions, 1);
    assert_int_equal(result.files[0].deletions, 1);
    assert_string_equal(result.files[0].old_oid, ID_BEFORE);
    assert_false(result.files[0].binary);
    rsbx_diff_result_dispose(&result);
}

static void nothing_changes(void **state)
{
    struct rsbx_diff *diff = new_diff();
    struct rsbx_diff_result result;

    (void)state;
    assert_int_equal(change(diff, "none", 0, NULL, 0, NULL), REPOSBX_EINVALID);
    assert_int_equal(base(diff, "same", 0100644, ID_BEFORE), 0);
    assert_int_equal(change(diff, "same", 0100644, "before\n", 0100644, "before\n"), 0);
    assert_int_equal(run(&result, diff, &plenty, NULL), 0);
    assert_int_equal(result.patch_length, 0);
    assert_string_equal(result.patch, "");
    assert_int_equal(result.file_count, 0);
    assert_string_equal(result.base_tree, result.result_tree);
    rsbx_diff_result_dispose(&result);
    assert_int_equal(run(&result, new_diff(), &plenty, NULL), 0);
    assert_string_equal(result.base_tree, TREE_EMPTY);
    rsbx_diff_result_dispose(&result);
}

static void each_status_has_its_word(void **state)
{
    static const enum rsbx_diff_status expected[] = { RSBX_DIFF_ADDED, RSBX_DIFF_DELETED,
                                                      RSBX_DIFF_MODIFIED, RSBX_DIFF_TYPE_CHANGED,
                                                      RSBX_DIFF_MODE_CHANGED, RSBX_DIFF_MODIFIED };
    struct rsbx_diff *diff = new_diff();
    struct rsbx_diff_result result;

    (void)state;
    for (const char *name = "bcdef"; *name != '\0'; name++)
        assert_int_equal(base(diff, (char[]){ *name, '\0' }, 0100644, ID_BEFORE), 0);
    assert_int_equal(change(diff, "f", 0100644, "before\n", 0100755, "other\n"), 0);
    assert_int_equal(change(diff, "e", 0100644, "before\n", 0100755, "before\n"), 0);
    assert_int_equal(change(diff, "d", 0100644, "before\n", 0120000, "target"), 0);
    assert_int_equal(change(diff, "c", 0100644, "before\n", 0100644, ""), 0);
    assert_int_equal(change(diff, "b", 0100644, "before\n", 0, NULL), 0);
    assert_int_equal(change(diff, "a", 0, NULL, 0100644, ""), 0);
    assert_int_equal(run(&result, diff, &plenty, NULL), 0);
    assert_int_equal(result.file_count, 6);
    for (size_t i = 0; i < 6; i++)
        assert_int_equal(result.files[i].status, expected[i]);
    assert_string_equal(result.files[0].old_oid, "0000000000000000000000000000000000000000");
    assert_string_equal(result.files[0].new_oid, ID_EMPTY);
    assert_int_equal(result.files[3].insertions, 1);
    assert_int_equal(result.files[3].deletions, 1);
    rsbx_diff_result_dispose(&result);
}

static void a_wrong_base_is_noticed(void **state)
{
    const struct rsbx_diff_options other = { .max_bytes = 1000, .base_tree = TREE_EMPTY };
    const struct rsbx_diff_options odd = { .max_bytes = 1000, .base_tree = "HEAD" };
    struct rsbx_diff *diff;

    (void)state;
    diff = new_diff();
    assert_int_equal(base(diff, "a", 0100644, ID_BEFORE), 0);
    assert_fails(diff, &other, REPOSBX_EPROTOCOL, "the base entries make the tree");
    assert_fails(new_diff(), &odd, REPOSBX_EINVALID, "40 hex");
    diff = new_diff();
    assert_int_equal(base(diff, "a", 0100644, ID_BEFORE), 0);
    assert_int_equal(change(diff, "a", 0100644, "Before\n", 0100644, "x"), 0);
    assert_fails(diff, &plenty, REPOSBX_EPROTOCOL, "another old content");
    diff = new_diff();
    assert_int_equal(base(diff, "a", 0100644, ID_BEFORE), 0);
    assert_int_equal(change(diff, "a", 0100755, "before\n", 0100644, "x"), 0);
    assert_fails(diff, &plenty, REPOSBX_EPROTOCOL, "another mode");
    diff = new_diff();
    assert_int_equal(base(diff, "a", 0100644, ID_BEFORE), 0);
    assert_int_equal(change(diff, "a", 0, NULL, 0100644, "x"), 0);
    assert_fails(diff, &plenty, REPOSBX_EPROTOCOL, "another mode");
    diff = new_diff();
    assert_int_equal(change(diff, "a", 0100644, "x", 0, NULL), 0);
    assert_fails(diff, &plenty, REPOSBX_EPROTOCOL, "another mode");
}

static void trees_that_cannot_be_are_refused(void **state)
{
    struct rsbx_diff *diff;

    (void)state;
    diff = new_diff();
    assert_int_equal(base(diff, "a", 0100644, ID_BEFORE), 0);
    assert_int_equal(base(diff, "a", 0100644, ID_EMPTY), 0);
    assert_fails(diff, &plenty, REPOSBX_EINVALID, "twice");
    diff = new_diff();
    assert_int_equal(base(diff, "a", 0100644, ID_BEFORE), 0);
    assert_int_equal(base(diff, "a-b", 0100644, ID_BEFORE), 0);
    assert_int_equal(change(diff, "a/b", 0, NULL, 0100644, "x"), 0);
    assert_fails(diff, &plenty, REPOSBX_EINVALID, "both a file and a folder");
    diff = new_diff();
    assert_int_equal(change(diff, "x", 0, NULL, 0100644, "x"), 0);
    assert_int_equal(change(diff, "x", 0, NULL, 0100644, "y"), 0);
    assert_fails(diff, &plenty, REPOSBX_EINVALID, "changes twice");
}

static void names_and_modes_are_checked(void **state)
{
    static const char *const names[] = { "", "/a", "a/", "a//b", ".", "..", "a/../b", ".git",
                                         "a/.GIT/config", "git~1" };
    struct rsbx_diff *diff = new_diff();

    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        assert_int_equal(base(diff, names[i], 0100644, ID_EMPTY), REPOSBX_EINVALID);
        assert_int_equal(change(diff, names[i], 0, NULL, 0100644, "x"), REPOSBX_EINVALID);
    }
    assert_int_equal(base(diff, "a", 0100664, ID_EMPTY), REPOSBX_EINVALID);
    assert_int_equal(base(diff, "a", 0160000, ID_EMPTY), REPOSBX_EINVALID);
    assert_int_equal(change(diff, "a", 0, NULL, 0104755, "x"), REPOSBX_EINVALID);
    rsbx_diff_free(diff);
}

static struct rsbx_diff *addition(const char *bytes, size_t length)
{
    struct rsbx_diff *diff = new_diff();
    struct rsbx_diff_change one = { .path = "new", .path_length = 3, .new_mode = 0100644,
                                    .new_content = content(bytes, length) };

    assert_int_equal(rsbx_diff_change(diff, &one, NULL), 0);
    assert_null(one.new_content.bytes);
    return diff;
}

/* Exactly the bytes of the patch are allowed; one less is not, and nothing is cut. */
static void the_limit_is_exact(void **state)
{
    struct rsbx_diff_result result;
    struct rsbx_diff_options bound = plenty;

    (void)state;
    assert_int_equal(run(&result, addition("x\ny\n", 4), &plenty, NULL), 0);
    bound.max_bytes = result.patch_length;
    rsbx_diff_result_dispose(&result);
    assert_int_equal(run(&result, addition("x\ny\n", 4), &bound, NULL), 0);
    rsbx_diff_result_dispose(&result);
    bound.max_bytes--;
    assert_fails(addition("x\ny\n", 4), &bound, REPOSBX_ELIMIT, "more than");
    bound.max_bytes = 0;
    assert_fails(addition("x\ny\n", 4), &bound, REPOSBX_ELIMIT, "more than");
    bound.max_bytes = 100; /* a binary one that could not fit by far */
    assert_fails(addition("\0\0\0\0x", 5), &bound, REPOSBX_ELIMIT, "more than");
}

/* Two million empty lines against one fewer, and lines that all differ: bounded in time. */
static void huge_texts_end(void **state)
{
    const size_t count = 2000000;
    struct rsbx_diff *diff = new_diff();
    struct rsbx_diff_result result;
    char *lines = malloc(count);
    RSBX_AUTO(rsbx_text) char *numbers = malloc(count * 2);
    reposbx_error err = REPOSBX_ERROR_INIT;
    struct rsbx_diff_change one = { .path = "lines", .path_length = 5, .new_mode = 0100644 };
    size_t used = 0;
    uint64_t before = rsbx_now_ns();
    int rc;

    (void)state;
    assert_non_null(lines);
    assert_non_null(numbers);
    memset(lines, '\n', count);
    one.new_content = (struct rsbx_diff_content){ lines, count };
    assert_int_equal(rsbx_diff_change(diff, &one, NULL), 0);
    for (int i = 0; i < 200000; i++)
        used += (size_t)snprintf(numbers + used, count * 2 - used, "%d line\n", i);
    one = (struct rsbx_diff_change){ .path = "numbers", .path_length = 7, .new_mode = 0100755,
                                     .new_content = content(numbers, used) };
    assert_int_equal(rsbx_diff_change(diff, &one, NULL), 0);
    rc = run(&result, diff, &plenty, &err);
    if (rc != 0)
        fail_msg("%s", err.message);
    assert_int_equal(result.files[0].insertions, count);
    assert_int_equal(result.files[1].insertions, 200000);
    rsbx_diff_result_dispose(&result);
    print_message("2,200,000 added lines: %llu ms\n",
                  (unsigned long long)((rsbx_now_ns() - before) / 1000000));
}

static void time_runs_out(void **state)
{
    const struct rsbx_diff_options hurried = { .max_bytes = 1U << 26, .wall_ms = 1 };
    struct rsbx_diff *diff = new_diff();

    (void)state;
    for (int i = 0; i < 100000; i++) {
        char path[32];

        (void)snprintf(path, sizeof path, "d%d/f%d", i % 1000, i);
        assert_int_equal(base(diff, path, 0100644, ID_EMPTY), 0);
    }
    assert_fails(diff, &hurried, REPOSBX_ELIMIT, "too long");
}

/* Ten changes in a base of 20,000 entries cost milliseconds, not a checkout. */
static void small_changes_in_a_large_base_are_quick(void **state)
{
    struct rsbx_diff *diff = new_diff();
    struct rsbx_diff_result result;
    char tree[41], path[32];
    uint64_t before;

    (void)state;
    for (int i = 20000; i-- > 0;) {
        (void)snprintf(path, sizeof path, "d%d/e%d/f%d", i % 20, i % 400, i);
        assert_int_equal(base(diff, path, 0100644, ID_BEFORE), 0);
    }
    assert_int_equal(rsbx_diff_base_tree(tree, diff, NULL), 0);
    for (int i = 0; i < 10; i++) {
        (void)snprintf(path, sizeof path, "d%d/e%d/f%d", i, i, i);
        assert_int_equal(change(diff, path, 0100644, "before\n", 0100644, "after\n"), 0);
    }
    before = rsbx_now_ns();
    assert_int_equal(run(&result, diff, &plenty, NULL), 0);
    print_message("10 changes in 20,000 entries: %llu us\n",
                  (unsigned long long)((rsbx_now_ns() - before) / 1000));
    assert_true(rsbx_now_ns() - before < 5000000000ULL);
    assert_string_equal(result.base_tree, tree);
    assert_string_not_equal(result.result_tree, tree);
    assert_int_equal(result.file_count, 10);
    rsbx_diff_result_dispose(&result);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_line_changes),
        cmocka_unit_test(nothing_changes),
        cmocka_unit_test(each_status_has_its_word),
        cmocka_unit_test(a_wrong_base_is_noticed),
        cmocka_unit_test(trees_that_cannot_be_are_refused),
        cmocka_unit_test(names_and_modes_are_checked),
        cmocka_unit_test(the_limit_is_exact),
        cmocka_unit_test(huge_texts_end),
        cmocka_unit_test(time_runs_out),
        cmocka_unit_test(small_changes_in_a_large_base_are_quick),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
