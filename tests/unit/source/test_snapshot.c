/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/source/fixture.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/banned.h"

#define FP_HELLO "sha256-v2:94da878170fb163782bdce9fe094b49473942e29f0313f064f870c3ef1210f46"
#define FP_ORDER "sha256-v2:b235864ac28a9340b90fdf2061ac7ccae099a874bb0b678b5e58a63d686037b4"
#define FP_EXCLUDE "sha256-v2:7341c894f1da3e82842d7df60e20f4da3a978e9085314b32dc5d37376fc05dff"

static struct fx_result result;

static void read_ok(const struct rsbx_source_options *options)
{
    fx_read(&result, options);
    if (result.rc != 0)
        fail_msg("%s (%s)", result.err.message, result.err.hint);
}

/* Reads by the commit, packed and loose, then as a plain folder (its .git moved away): the same
 * fingerprint and tree each time. */
static void read_all_ways(struct fx *fx, const char *want, uint64_t entries,
                          const char *const *excludes, size_t exclude_count)
{
    char commit[41], tree[128], away[128];
    struct rsbx_source_options options;

    fx_commit_all(commit, fx);
    FX_GIT(tree, fx, "rev-parse", "HEAD^{tree}");
    for (int way = 0; way < 3; way++) {
        options = fx_options(fx, way < 2 ? commit : NULL);
        options.symlinks = RSBX_SYMLINKS_KEEP;
        options.excludes = excludes;
        options.exclude_count = exclude_count;
        read_ok(&options);
        if (want != NULL)
            assert_string_equal(result.fingerprint, want);
        assert_int_equal(result.fingerprint_entries, entries);
        assert_string_equal(result.facts.tree, tree);
        assert_int_equal(result.facts.expected_files, result.files);
        assert_int_equal(result.facts.expected_bytes, result.bytes);
        assert_string_equal(result.facts.commit, way < 2 ? commit : "");
        if (way == 0)
            FX_GIT(NULL, fx, "gc", "-q");
        (void)snprintf(away, sizeof away, "%s/away", fx->top);
        if (way == 1)
            assert_int_equal(rename(fx_path(fx, ".git"), away), 0);
    }
}

static void test_vector_one_file(void **state)
{
    struct fx *fx = *state;

    fx_text(fx, "hello.txt", "before\n");
    read_all_ways(fx, FP_HELLO, 1, NULL, 0);
    assert_string_equal(result.paths, "100644 hello.txt\n");
    assert_memory_equal(result.content, "before\n", 7);
}

static void test_vector_order(void **state)
{
    struct fx *fx = *state;

    fx_text(fx, "b.txt", "b");
    fx_text(fx, "a/z.txt", "z");
    fx_text(fx, "a.txt", "a");
    fx_text(fx, "a/b/c.txt", "");
    fx_text(fx, "A.txt", "A");
    read_all_ways(fx, FP_ORDER, 5, NULL, 0);
    assert_string_equal(result.paths,
                        "100644 A.txt\n100644 a.txt\n100644 b.txt\n100644 a/z.txt\n"
                        "100644 a/b/c.txt\n");
}

static void test_vector_exclude(void **state)
{
    struct fx *fx = *state;
    const char *const excludes[] = { "docs" };

    fx_text(fx, "src/x.c", "int x;\n");
    fx_text(fx, "docs/a.md", "# a\n");
    fx_text(fx, "docs/api/b.md", "b");
    fx_text(fx, "docsx/c.md", "c");
    read_all_ways(fx, FP_EXCLUDE, 2, excludes, 1);
}

/* A byte that is not UTF-8 sorts as U+DC80 and up: behind U+D7FF, before U+E000 and U+1F600. */
static void test_order_of_bytes(void **state)
{
    struct fx *fx = *state;

    fx_text(fx, "\xED\x9F\xBF", "1");
    fx_text(fx, "\xFE", "2");
    fx_text(fx, "\xEE\x80\x80", "3");
    fx_text(fx, "\xF0\x9F\x98\x80", "4");
    fx_text(fx, "a\x80/x", "6");
    fx_text(fx, "a\xEE\x80\x80/x", "7");
    fx_text(fx, "tab\there\nnew\"q\x1b", "0");
    read_all_ways(fx, NULL, 7, NULL, 0);
    assert_memory_equal(result.content, "0123467", 7);
}

/* The rest digest sees modes and what the fingerprint skips; the fingerprint does not. */
static void test_rest_digest(void **state)
{
    struct fx *fx = *state;
    char commit[41];
    struct fx_result first;
    struct rsbx_source_options options;

    fx_text(fx, "a", "a");
    fx_text(fx, "build/out", "x");
    fx_commit_all(commit, fx);
    options = fx_options(fx, commit);
    read_ok(&options);
    first = result;
    assert_int_equal(first.files, 2);
    assert_int_equal(first.fingerprint_entries, 1);
    fx_text(fx, "build/out", "y");
    fx_commit_all(commit, fx);
    read_ok(&options);
    assert_string_equal(result.fingerprint, first.fingerprint);
    assert_string_not_equal(result.rest, first.rest);
    fx_text(fx, "build/out", "x");
    assert_int_equal(chmod(fx_path(fx, "a"), 0755), 0);
    fx_commit_all(commit, fx);
    read_ok(&options);
    assert_string_equal(result.fingerprint, first.fingerprint);
    assert_string_not_equal(result.rest, first.rest);
    assert_string_equal(result.paths, "100755 a\n100644 build/out\n");
}

/* Links are resolved inside the snapshot: file, folder (skipped), nothing, a circle. */
static void test_links(void **state)
{
    struct fx *fx = *state;
    char commit[41];
    struct rsbx_source_options options;

    fx_text(fx, "d/file", "content");
    fx_symlink(fx, "d/file", "to-file");
    fx_symlink(fx, "../to-file", "d/through");
    fx_symlink(fx, "d", "to-folder");
    fx_symlink(fx, "to-folder/./file", "by-folder");
    fx_symlink(fx, "nothing/at/all", "dangling");
    fx_symlink(fx, "circle", "circle");
    fx_symlink(fx, "d/file/x", "under-file");
    read_all_ways(fx, NULL, 7, NULL, 0);
    assert_int_equal(result.files, 8);
    /* A folder that no snapshot holds is no target: one entry more. */
    assert_int_equal(mkdir(fx_path(fx, "hollow"), 0755), 0);
    fx_symlink(fx, "hollow", "to-hollow");
    options = fx_options(fx, NULL);
    options.symlinks = RSBX_SYMLINKS_KEEP;
    read_ok(&options);
    assert_int_equal(result.files, 9);
    assert_int_equal(result.fingerprint_entries, 8);
    assert_int_equal(rename(fx_path(fx, "../away"), fx_path(fx, ".git")), 0);
    fx_symlink(fx, "../outside", "out");
    fx_commit_all(commit, fx);
    options = fx_options(fx, commit);
    options.symlinks = RSBX_SYMLINKS_KEEP;
    fx_read(&result, &options);
    assert_int_equal(result.rc, REPOSBX_EPOLICY);
    assert_non_null(strstr(result.err.message, "outside"));
}

/* Same target bytes, other target content: another fingerprint. */
static void test_link_content(void **state)
{
    struct fx *fx = *state;
    char commit[41], first[RSBX_FINGERPRINT_BYTES];
    struct rsbx_source_options options;

    fx_text(fx, "build/x", "1");
    fx_symlink(fx, "build/x", "l");
    fx_commit_all(commit, fx);
    options = fx_options(fx, commit);
    options.symlinks = RSBX_SYMLINKS_KEEP;
    read_ok(&options);
    assert_int_equal(result.fingerprint_entries, 1);
    memcpy(first, result.fingerprint, sizeof first);
    fx_text(fx, "build/x", "2");
    fx_commit_all(commit, fx);
    read_ok(&options);
    assert_string_not_equal(result.fingerprint, first);
}

/* Nothing at all, an empty commit, an empty file, one of several pipe buffers. */
static void test_sizes(void **state)
{
    struct fx *fx = *state;
    static uint8_t big[5 * 1024 * 1024 + 3];
    char commit[41];
    struct rsbx_source_options options;

    fx_commit_all(commit, fx);
    options = fx_options(fx, commit);
    read_ok(&options);
    assert_int_equal(result.files, 0);
    assert_string_equal(result.facts.tree, "4b825dc642cb6eb9a060e54bf8d69288fbee4904");
    fx_text(fx, "0", "");
    memset(big, 7, sizeof big);
    fx_write(fx, "big", big, sizeof big);
    read_all_ways(fx, NULL, 2, NULL, 0);
    assert_int_equal(result.bytes, sizeof big);
}

static void test_plain_folder(void **state)
{
    struct fx *fx = *state;
    char plain[128];
    struct rsbx_source_options options = fx_options(fx, NULL);

    /* A .git at the top is a name that no snapshot may hold. */
    fx_read(&result, &options);
    assert_int_equal(result.rc, REPOSBX_EPOLICY);
    assert_non_null(strstr(result.err.message, ".git"));
    fx_text(fx, "p/a", "a");
    assert_int_equal(mkdir(fx_path(fx, "p/empty"), 0755), 0);
    (void)snprintf(plain, sizeof plain, "%s/p", fx->repo);
    options.repo = plain;
    read_ok(&options);
    assert_int_equal(result.files, 1);
    assert_int_equal(result.notes, 1);
    assert_string_equal(result.note, "empty folder empty left out");
    assert_string_equal(result.facts.tree, "b39954843ff6e09ec3aa2b942938c30c6bd1629e");
    fx_symlink(fx, "a", "p/link");
    fx_read(&result, &options);
    assert_int_equal(result.rc, REPOSBX_EPOLICY);
    options.symlinks = RSBX_SYMLINKS_KEEP;
    read_ok(&options);
    assert_int_equal(mkfifo(fx_path(fx, "p/fifo"), 0644), 0);
    fx_read(&result, &options);
    assert_int_equal(result.rc, REPOSBX_EPOLICY);
    assert_non_null(strstr(result.err.message, "fifo"));
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, fx_setup, fx_teardown)
    const struct CMUnitTest tests[] = {
        T(test_vector_one_file), T(test_vector_order), T(test_vector_exclude),
        T(test_order_of_bytes),  T(test_rest_digest),  T(test_links),
        T(test_link_content),    T(test_sizes),        T(test_plain_folder),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
