/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/fd.h"
#include "diff/ignore.h"
#include "gitrun.h"

#include "base/banned.h"

/* ---- what the manual page of gitignore says, by hand ---- */

struct row {
    const char *text;    /* of .gitignore in the root */
    const char *path;
    const char *ignored; /* the part that is; "" when the path counts */
};

static const struct row rows[] = {
    { "", "a", "" },
    { "a\n", "a", "a" },
    { "a", "b/a", "b/a" },
    { "a\n", "a/b/c", "a" },
    { "/a\n", "b/a", "" },
    { "b/a\n", "b/a", "b/a" },
    { "b/a\n", "c/b/a", "" },
    { "a/\n", "a", "" },
    { "a/\n", "a/b", "a" },
    { "a/\n", "c/a/b", "c/a" },
    { "# a\n#a\n", "#a", "" },
    { "\\#a\n", "#a", "#a" },
    { "\\!a\n", "!a", "!a" },
    { "!a\n", "!a", "" },
    { "*.o\n!keep.o\n", "x.o", "x.o" },
    { "*.o\n!keep.o\n", "d/keep.o", "" },
    { "!keep.o\n*.o\n", "keep.o", "keep.o" },
    { "d/\n!d/keep\n", "d/keep", "d" },
    { "d/*\n!d/keep\n", "d/keep", "" },
    { "d/*\n!d/keep\n", "d/x/y", "d/x" },
    { "a \n", "a", "a" },
    { "a\\ \n", "a ", "a " },
    { "a\\  \n", "a ", "a " },
    { "a\t\n", "a", "" },
    { "a\r\n", "a", "a" },
    { "\xef\xbb\xbf"
      "a\n",
      "a", "a" },
    { "\n\n \n/\n!\n", "a", "" },
    { "a*c\n", "abbbc", "abbbc" },
    { "x/*\n", "x/y/z", "x/y" },
    { "x/*/z\n", "x/y/y/z", "" },
    { "**/z\n", "x/y/z", "x/y/z" },
    { "**/z\n", "z", "z" },
    { "x/**\n", "x/y/z", "x/y" },
    { "x/**\n", "x", "" },
    { "x/**/z\n", "x/z", "x/z" },
    { "x/**/z\n", "x/a/b/z", "x/a/b/z" },
    { "x/**/z\n", "x/az", "" },
    { "x**z/w\n", "xyz/w", "xyz/w" },
    { "x**z/w\n", "x/z/w", "" },
    { "?\n", "a", "a" },
    { "?\n", "ab", "" },
    { "x?y\n", "x/y", "" },
    { "[a-c]\n", "b", "b" },
    { "[!a-c]\n", "b", "" },
    { "[^a-c]\n", "d", "d" },
    { "[]-]\n", "]", "]" },
    { "[]-]\n", "-", "-" },
    { "[[:digit:]]x\n", "7x", "7x" },
    { "[[:nonsense:]]\n", "n", "" },
    { "[a\n", "[a", "" },
    { "\\[a\n", "[a", "[a" },
    { "a\\\n", "a\\", "" },
    { "a\\\\\n", "a\\", "a\\" },
    { "A\n", "a", "" },
    { "\xc3\xa9\n", "\xc3\xa9", "\xc3\xa9" },
    { "\xff*\n", "\xff\xfe", "\xff\xfe" },
};

static void rules_of_the_manual(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct rsbx_ignore *ignore = NULL;
        size_t ignored = 999;

        assert_int_equal(rsbx_ignore_new(&ignore, NULL), 0);
        assert_int_equal(
            rsbx_ignore_add(ignore, "", 0, rows[i].text, strlen(rows[i].text), NULL), 0);
        assert_int_equal(
            rsbx_ignore_find(&ignored, ignore, rows[i].path, strlen(rows[i].path), NULL), 0);
        if (ignored != strlen(rows[i].ignored) ||
            memcmp(rows[i].path, rows[i].ignored, ignored) != 0)
            fail_msg("row %zu: %zu bytes of %s are ignored", i, ignored, rows[i].path);
        rsbx_ignore_free(ignore);
    }
}

static size_t find(struct rsbx_ignore *ignore, const char *path)
{
    size_t ignored = 999;

    assert_int_equal(rsbx_ignore_find(&ignored, ignore, path, strlen(path), NULL), 0);
    return ignored;
}

static void the_nearest_file_wins(void **state)
{
    struct rsbx_ignore *ignore = NULL;

    (void)state;
    assert_int_equal(rsbx_ignore_new(&ignore, NULL), 0);
    assert_int_equal(find(ignore, "a"), 0);
    assert_int_equal(rsbx_ignore_add(ignore, "d/e", 3, "!x\n/y\n", 6, NULL), 0);
    assert_int_equal(rsbx_ignore_add(ignore, "", 0, "x\nout/\n", 7, NULL), 0);
    assert_int_equal(rsbx_ignore_add(ignore, "out", 3, "!*\n", 3, NULL), 0);
    assert_int_equal(rsbx_ignore_add(ignore, "d", 1, "z\n", 2, NULL), 0);
    assert_int_equal(find(ignore, "d/e/x"), 0);
    assert_int_equal(find(ignore, "d/x"), 3);
    assert_int_equal(find(ignore, "d/e/y"), 5);
    assert_int_equal(find(ignore, "d/e/f/y"), 0);
    assert_int_equal(find(ignore, "d/e/f/z/deep"), 7);
    assert_int_equal(find(ignore, "d/e/f/zz/deep"), 0);
    assert_int_equal(find(ignore, "z"), 0);
    /* What is below an ignored folder stays ignored, whatever stands in there. */
    assert_int_equal(find(ignore, "out/a"), 3);
    assert_int_equal(find(ignore, "out/b"), 3);
    rsbx_ignore_free(ignore);
}

/* A pattern that takes a backtracking matcher for ever, and one that uses up the budget. */
static void hostile_patterns_are_bounded(void **state)
{
    RSBX_AUTO(rsbx_buf) struct rsbx_buf text = RSBX_BUF_INIT(1U << 20);
    struct rsbx_ignore *ignore = NULL;
    reposbx_error err = REPOSBX_ERROR_INIT;
    char path[4001];
    size_t ignored = 999;
    uint64_t began = rsbx_now_ns();
    int rc = 0;

    (void)state;
    memset(path, 'a', sizeof path - 1);
    path[sizeof path - 1] = '\0';
    for (int i = 0; i < 1000; i++)
        assert_int_equal(rsbx_buf_text(&text, "*a", NULL), 0);
    assert_int_equal(rsbx_buf_text(&text, "*b*\n", NULL), 0);
    assert_int_equal(rsbx_ignore_new(&ignore, NULL), 0);
    assert_int_equal(rsbx_ignore_add(ignore, "", 0, text.data, text.length, NULL), 0);
    assert_int_equal(find(ignore, path), 0);
    for (int i = 0; i < 1000 && rc == 0; i++)
        rc = rsbx_ignore_find(&ignored, ignore, path, sizeof path - 1, &err);
    assert_int_equal(rc, REPOSBX_ELIMIT);
    assert_int_equal(err.code, REPOSBX_ELIMIT);
    assert_true(rsbx_now_ns() - began < 60ULL * 1000000000ULL);
    rsbx_ignore_free(ignore);
    /* Longer than any path can be. */
    rsbx_buf_clear(&text);
    for (int i = 0; i < 100000; i++)
        assert_int_equal(rsbx_buf_text(&text, "a*", NULL), 0);
    assert_int_equal(rsbx_ignore_new(&ignore, NULL), 0);
    assert_int_equal(rsbx_ignore_add(ignore, "", 0, text.data, text.length, NULL), 0);
    assert_int_equal(find(ignore, path), 0);
    rsbx_ignore_free(ignore);
}

/* ---- the same answers as git's, on patterns from a seed ---- */

#define CASES 1500U
#define PATTERNS 6U
#define PATHS 24U

static uint64_t seed = 20240229;

static size_t draw(size_t below)
{
    seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
    return (size_t)((seed >> 33) % below);
}

static void piece(struct rsbx_buf *out, const char *const *pieces, size_t count, size_t most)
{
    for (size_t i = draw(most) + 1; i > 0; i--)
        assert_int_equal(rsbx_buf_text(out, pieces[draw(count)], NULL), 0);
}

static void random_pattern(struct rsbx_buf *out)
{
    static const char *const pieces[] = {
        "a",  "b",   "ab",   "c",     "x",     ".c",   "*",      "*",     "**",        "/",
        "/",  "?",   "[ab]", "[!a]",  "[^b]",  "[a-c]", "[]a]",  "[a-]",  "[[:alpha:]]", "[[:space:]x]",
        "\\", "\\*", "\\a",  "!",     "#",     " ",    "[",      "]",     "-",         "[b",
        "**/", "/**", "/**/", "a/",   "/b",    "[\\]]", "[[:punct:]]", "[[:]", "[a-\\c]", "\xc3\xa9",
        "***", "\t", "[!-~]", "[[:upper:][:digit:]]",  "\\ ",    "\\\\",
    };
    size_t start = out->length;

    if (draw(6) == 0)
        assert_int_equal(rsbx_buf_text(out, "!", NULL), 0);
    piece(out, pieces, sizeof pieces / sizeof pieces[0], 5);
    if (draw(5) == 0)
        assert_int_equal(rsbx_buf_text(out, "/", NULL), 0);
    assert_true(out->length > start);
    assert_int_equal(rsbx_buf_text(out, draw(10) == 0 ? "\r\n" : "\n", NULL), 0);
}

/* Never "a" alone: that is a folder on disk, and git looks. */
static void random_path(struct rsbx_buf *out)
{
    size_t whole = out->length;

    static const char *const pieces[] = { "a", "b", "ab", "c", "x", "a", "b", ".c", " ", "*", "[",
                                          "]", "\\", "!", "#", "-", "7", "\xc3\xa9", "A", "\t" };

    for (size_t depth = draw(4) + 1; depth > 0; depth--) {
        size_t start = out->length;

        do {
            out->length = start;
            piece(out, pieces, sizeof pieces / sizeof pieces[0], 3);
        } while (out->data[start] == '.' && out->length == start + 1);
        if (depth > 1)
            assert_int_equal(rsbx_buf_text(out, "/", NULL), 0);
    }
    if (strcmp(out->data + whole, "a") == 0)
        assert_int_equal(rsbx_buf_text(out, "b", NULL), 0);
}

static char folder[] = "/tmp/rsbx-ignore-XXXXXX";

/* One more .gitignore, on disk for git and in memory for us. */
static void put_file(struct rsbx_ignore *ignore, const char *place)
{
    RSBX_AUTO(rsbx_buf) struct rsbx_buf text = RSBX_BUF_INIT(1U << 16);
    char path[160];

    for (size_t i = draw(PATTERNS) + 1; i > 0; i--)
        random_pattern(&text);
    if (draw(4) == 0)
        text.length--; /* no newline at the end */
    (void)snprintf(path, sizeof path, "%s/%s", folder, place);
    assert_int_equal(mkdir(path, 0700), 0);
    (void)snprintf(path, sizeof path, "%s/%s/.gitignore", folder, place);
    assert_true(gitrun_write_file(path, text.data, text.length));
    assert_int_equal(rsbx_ignore_add(ignore, place, strlen(place), text.data, text.length, NULL),
                     0);
}

static int remove_folder(void **state)
{
    (void)state;
    return rsbx_remove_tree_at(AT_FDCWD, folder, NULL);
}

/* Git's answer is the list of the ignored ones, in the order of the question. */
static void compare(struct rsbx_ignore *ignore, const struct rsbx_buf *paths,
                    const struct rsbx_buf *theirs)
{
    const char *next = theirs->data, *end = theirs->data + theirs->length;
    size_t asked = 0, ignored_paths = 0, wrong = 0;

    for (const char *path = paths->data; path < paths->data + paths->length;
         path += strlen(path) + 1) {
        bool theirs_ignored = next < end && strcmp(next, path) == 0;
        bool ours = find(ignore, path) != 0;

        if (theirs_ignored)
            next += strlen(next) + 1;
        if (ours != theirs_ignored && wrong++ < 10)
            print_error("%s: git %s it\n", path, theirs_ignored ? "ignores" : "does not ignore");
        asked++;
        ignored_paths += theirs_ignored ? 1 : 0;
    }
    print_message("%zu paths under %u sets of patterns, %zu ignored, %zu answers differ from git\n",
                  asked, CASES, ignored_paths, wrong);
    assert_ptr_equal(next, end);
    assert_true(ignored_paths > asked / 10 && ignored_paths < asked - asked / 10);
    assert_int_equal(wrong, 0);
}

static void git_gives_the_same_answers(void **state)
{
    RSBX_AUTO(rsbx_buf) struct rsbx_buf paths = RSBX_BUF_INIT(1U << 24);
    RSBX_AUTO(rsbx_buf) struct rsbx_buf theirs = RSBX_BUF_INIT(1U << 24);
    struct rsbx_ignore *ignore = NULL;
    char question[64];
    const struct gitrun how = { .input = question };
    const char *const init[] = { "git", "init", "-q", folder, NULL };
    const char *const check[] = { "git",     "-C", folder, "check-ignore", "--no-index",
                                  "--stdin", "-z", NULL };

    (void)state;
    (void)snprintf(question, sizeof question, "%s/question", folder);
    assert_int_equal(gitrun(NULL, &(struct gitrun){ .home = NULL }, false, init), 0);
    assert_int_equal(rsbx_ignore_new(&ignore, NULL), 0);
    for (unsigned int i = 0; i < CASES; i++) {
        char place[32];

        (void)snprintf(place, sizeof place, "case%u", i);
        put_file(ignore, place);
        if (draw(2) == 0) {
            (void)snprintf(place, sizeof place, "case%u/a", i);
            put_file(ignore, place);
        }
        for (size_t p = 0; p < PATHS; p++) {
            assert_int_equal(rsbx_buf_format(&paths, NULL, "case%u/", i), 0);
            random_path(&paths);
            assert_int_equal(rsbx_buf_append(&paths, "", 1, NULL), 0);
        }
    }
    assert_true(gitrun_write_file(question, paths.data, paths.length));
    assert_int_equal(gitrun(&theirs, &how, false, check), 0);
    compare(ignore, &paths, &theirs);
    rsbx_ignore_free(ignore);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rules_of_the_manual),
        cmocka_unit_test(the_nearest_file_wins),
        cmocka_unit_test(hostile_patterns_are_bounded),
        cmocka_unit_test_teardown(git_gives_the_same_answers, remove_folder),
    };
    static const char *const version[] = { "git", "version", NULL };

    if (gitrun(NULL, &(struct gitrun){ .home = NULL }, true, version) != 0) {
        (void)fprintf(stderr, "git is not there: nothing to compare with\n");
        return getenv("REPOSBX_TEST_MUST_RUN") != NULL ? 1 : 77;
    }
    if (mkdtemp(folder) == NULL)
        return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
