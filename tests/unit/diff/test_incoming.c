/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <git2.h>

#include "applied.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "diff/incoming.h"
#include "diff/internal.h"

#include "base/banned.h"

/* Patches as nobody should send them. That honest ones apply is shown on a corpus (test_corpus.c). */

#define ANY "1111111"

/* The base of every test here. */
static const struct {
    const char *path, *content;
    uint32_t mode;
} tree[] = {
    { "a.txt", "one\ntwo\nthree\n", 0100644 }, { "dir/b.txt", "b\n", 0100644 },
    { "empty", "", 0100644 },                  { "link", "dir", 0120000 },
    { "tool", "x\n", 0100755 },
};

#define FILES (sizeof tree / sizeof tree[0])

static struct rsbx_diff *make_base(const struct rsbx_incoming *incoming)
{
    struct corpus_file files[FILES];
    const struct corpus_tree base = { .files = files, .count = FILES };

    for (size_t i = 0; i < FILES; i++)
        files[i] = (struct corpus_file){ .path = (char *)(uintptr_t)tree[i].path,
                                         .path_length = strlen(tree[i].path),
                                         .mode = tree[i].mode,
                                         .bytes = (char *)(uintptr_t)tree[i].content,
                                         .length = strlen(tree[i].content) };
    return base_with_contents(&base, incoming);
}

/* Reads and applies; the answer of either, and REPOSBX_OK with outcome->applies false. */
static int attempt_bytes(struct rsbx_incoming_outcome *outcome, const char *patch, size_t length,
                         bool symlinks, reposbx_error *err)
{
    const struct rsbx_incoming_rules rules = { .symlinks = symlinks };
    const struct rsbx_diff_options options = { .max_bytes = 1U << 20 };
    struct rsbx_incoming *incoming = NULL;
    struct rsbx_diff *diff;
    int rc;

    memset(outcome, 0, sizeof *outcome);
    rc = rsbx_incoming_read(&incoming, patch, length, &rules, err);
    if (rc != 0) {
        assert_null(incoming);
        return rc;
    }
    diff = make_base(incoming);
    rc = rsbx_incoming_apply(outcome, incoming, diff, &options, err);
    rsbx_diff_free(diff);
    rsbx_incoming_free(incoming);
    return rc;
}

static void assert_refused(const char *patch, int code, const char *word)
{
    struct rsbx_incoming_outcome outcome;
    reposbx_error err = REPOSBX_ERROR_INIT;
    int rc = attempt_bytes(&outcome, patch, strlen(patch), true, &err);

    if (rc != code || strstr(err.message, word) == NULL)
        fail_msg("wanted \"%s\" (%d); answer %d \"%s\" %s to\n%s", word, code, rc, err.message,
                 outcome.reason, patch);
}

static void assert_no_fit(const char *patch, const char *word)
{
    struct rsbx_incoming_outcome outcome;
    reposbx_error err = REPOSBX_ERROR_INIT;
    int rc = attempt_bytes(&outcome, patch, strlen(patch), true, &err);

    if (rc != 0 || outcome.applies || strstr(outcome.reason, word) == NULL)
        fail_msg("wanted \"%s\"; answer %d, applies %d \"%s\" %s to\n%s", word, rc, outcome.applies,
                 outcome.reason, err.message, patch);
    rsbx_incoming_outcome_dispose(&outcome);
}

static void assert_fits(const char *patch)
{
    struct rsbx_incoming_outcome outcome;
    reposbx_error err = REPOSBX_ERROR_INIT;
    int rc = attempt_bytes(&outcome, patch, strlen(patch), true, &err);

    if (rc != 0 || !outcome.applies)
        fail_msg("answer %d \"%s\" %s to\n%s", rc, outcome.reason, err.message, patch);
    rsbx_incoming_outcome_dispose(&outcome);
}

#define NEW(name, mode, line)                                                                      \
    "diff --git a/" name " b/" name "\nnew file mode " mode "\n--- /dev/null\n+++ b/" name         \
    "\n@@ -0,0 +1 @@\n+" line "\n"
#define NEW_LINK(name, target)                                                                     \
    NEW(name, "120000", target) "\\ No newline at end of file\n"

static void names_stay_inside(void **state)
{
    static const char *const names[] = {
        "../out", "dir/../../out", "/etc/passwd", "dir//x", ".git/hooks/post-checkout", "dir/.git",
        ".GIT/config", "git~1/config", ".git ./x", "dir/./x", ".git\\x",
    };

    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char patch[512];

        (void)snprintf(patch, sizeof patch,
                       "diff --git a/%s b/%s\nnew file mode 100644\n--- /dev/null\n+++ b/%s\n"
                       "@@ -0,0 +1 @@\n+x\n", names[i], names[i], names[i]);
        assert_refused(patch, REPOSBX_EMALFORMED, "cannot stand in a tree");
        (void)snprintf(patch, sizeof patch,
                       "diff --git a/a.txt b/%s\nsimilarity index 100%%\nrename from a.txt\n"
                       "rename to %s\n", names[i], names[i]);
        assert_refused(patch, REPOSBX_EMALFORMED, "cannot stand in a tree");
        (void)snprintf(patch, sizeof patch,
                       "diff --git a/%s b/new\nsimilarity index 100%%\ncopy from %s\n"
                       "copy to new\n", names[i], names[i]);
        assert_refused(patch, REPOSBX_EMALFORMED, "cannot stand in a tree");
    }
    assert_refused("diff --git \"a/\\056git/x\" \"b/\\056git/x\"\nnew file mode 100644\n",
                   REPOSBX_EMALFORMED, "cannot stand in a tree");
    assert_refused("diff --git a/a.txt b/dir/b.txt\n--- a/a.txt\n+++ b/dir/b.txt\n@@ -1 +1 @@\n-b\n+c\n",
                   REPOSBX_EMALFORMED, "does not name one file twice");
    assert_refused("diff --git a/a.txt b/a.txt\n--- a/tool\n+++ b/a.txt\n@@ -1 +1 @@\n-b\n+c\n",
                   REPOSBX_EMALFORMED, "not those of its first line");
}

static void long_names_are_refused(void **state)
{
    RSBX_AUTO(rsbx_buf) struct rsbx_buf patch = RSBX_BUF_INIT(1U << 20);
    struct rsbx_incoming_outcome outcome;
    reposbx_error err = REPOSBX_ERROR_INIT;
    char *name = malloc(65538);

    (void)state;
    assert_non_null(name);
    memset(name, 'n', 65537);
    name[65537] = '\0';
    assert_int_equal(rsbx_buf_format(&patch, NULL, "diff --git a/%s b/%s\nnew file mode 100644\n",
                                     name, name), 0);
    assert_int_equal(attempt_bytes(&outcome, patch.data, patch.length, true, &err),
                     REPOSBX_EMALFORMED);
    rsbx_buf_clear(&patch);
    assert_int_equal(rsbx_buf_format(&patch, NULL, "diff --git a/a.txt b/%s\nsimilarity index 100%%\n"
                                     "rename from a.txt\nrename to %s\n", name, name), 0);
    assert_int_equal(attempt_bytes(&outcome, patch.data, patch.length, true, &err),
                     REPOSBX_EMALFORMED);
    rsbx_buf_clear(&patch);
    assert_int_equal(rsbx_buf_format(&patch, NULL, "diff --git \"a/%s\" \"b/%s\"\n"
                                     "new file mode 100644\n", name, name), 0);
    assert_int_equal(attempt_bytes(&outcome, patch.data, patch.length, true, &err),
                     REPOSBX_EMALFORMED);
    name[256] = '\0';
    rsbx_buf_clear(&patch);
    assert_int_equal(rsbx_buf_format(&patch, NULL, "diff --git a/%s b/%s\nnew file mode 100644\n",
                                     name, name), 0);
    assert_int_equal(attempt_bytes(&outcome, patch.data, patch.length, true, &err),
                     REPOSBX_EMALFORMED);
    free(name);
}

static void symlinks_lead_nowhere(void **state)
{
    struct rsbx_incoming_outcome outcome;
    reposbx_error err = REPOSBX_ERROR_INIT;
    static const char good[] = NEW_LINK("dir/up", "../a.txt");

    (void)state;
    assert_int_equal(attempt_bytes(&outcome, good, sizeof good - 1, true, &err), 0);
    assert_true(outcome.applies);
    rsbx_incoming_outcome_dispose(&outcome);
    assert_int_equal(attempt_bytes(&outcome, good, sizeof good - 1, false, &err), REPOSBX_EPOLICY);
    assert_non_null(strstr(err.message, "source.symlinks"));
    assert_refused(NEW_LINK("s", "/etc"), REPOSBX_EPOLICY, "leads out of the tree");
    assert_refused(NEW_LINK("s", ".."), REPOSBX_EPOLICY, "leads out of the tree");
    assert_refused(NEW_LINK("dir/s", "x/../../../y"), REPOSBX_EPOLICY, "leads out of the tree");
    assert_refused("diff --git a/s b/s\nnew file mode 120000\nindex 0000000..e69de29\n",
                   REPOSBX_EMALFORMED, "no symlink can have this target");
    /* What Git reads is no symlink, whatever way it becomes one. */
    assert_refused(NEW_LINK("dir/.gitmodules", "b.txt"), REPOSBX_EPOLICY, "must not be a symlink");
    assert_refused(NEW_LINK(".gitATTRIBUTES", "a.txt"), REPOSBX_EPOLICY, "must not be a symlink");
    assert_refused("diff --git a/link b/.gitmodules\nsimilarity index 100%\nrename from link\n"
                   "rename to .gitmodules\n", REPOSBX_EPOLICY, "must not be a symlink");
    /* A symlink and a file through it: in one patch, and through one that is there. */
    assert_refused(NEW_LINK("s", "dir") NEW("s/x", "100644", "x"), REPOSBX_EMALFORMED,
                   "which is no folder");
    assert_refused(NEW("link/x", "100644", "x"), REPOSBX_EPOLICY, "behind the symlink link");
    /* Not even when it goes at the same time: it is behind it while it is there. */
    assert_refused("diff --git a/link b/link\ndeleted file mode 120000\n--- a/link\n+++ /dev/null\n"
                   "@@ -1 +0,0 @@\n-dir\n\\ No newline at end of file\n" NEW("link/x", "100644", "x"),
                   REPOSBX_EPOLICY, "behind the symlink link");
}

static void modes_are_gits(void **state)
{
    (void)state;
    assert_refused(NEW("n", "100777", "x"), REPOSBX_EMALFORMED, "the mode is none of");
    assert_refused(NEW("n", "040000", "x"), REPOSBX_EMALFORMED, "the mode is none of");
    assert_refused(NEW("n", "104755", "x"), REPOSBX_EMALFORMED, "the mode is none of");
    assert_refused(NEW("n", "160000", "Subproject commit"), REPOSBX_EPOLICY, "submodule");
    assert_refused("diff --git a/a.txt b/a.txt\nold mode 100644\nnew mode 100644\n",
                   REPOSBX_EMALFORMED, "cannot be");
    assert_refused("diff --git a/a.txt b/a.txt\nold mode 100644\nnew mode 120000\n",
                   REPOSBX_EMALFORMED, "cannot be");
    assert_no_fit("diff --git a/tool b/tool\nold mode 100644\nnew mode 100755\n", "another mode");
    assert_no_fit("diff --git a/tool b/tool\nindex 587be6b..975fbec 100644\n--- a/tool\n"
                  "+++ b/tool\n@@ -1 +1 @@\n-x\n+y\n", "another mode");
}

static void texts_that_are_no_patch(void **state)
{
    static const char nul[] = "diff --git a/n\0x b/n\0x\nnew file mode 100644\n";
    struct rsbx_incoming_outcome outcome;
    reposbx_error err = REPOSBX_ERROR_INIT;

    (void)state;
    assert_refused("", REPOSBX_EMALFORMED, "empty");
    assert_refused("\n", REPOSBX_EMALFORMED, "no \"diff --git\"");
    assert_refused("From: me\n\ndiff --git a/a.txt b/a.txt\n", REPOSBX_EMALFORMED, "line 1");
    assert_refused("--- a.txt\n+++ a.txt\n@@ -1 +1 @@\n-one\n+1\n", REPOSBX_EMALFORMED, "line 1");
    assert_refused(NEW("n", "100644", "x") "-- \n2.39.5\n", REPOSBX_EMALFORMED, "line 7");
    assert_refused("diff --git a/n b/n\nnew file mode 100644", REPOSBX_EMALFORMED, "mode");
    assert_refused("diff --git a/n b/n", REPOSBX_EMALFORMED, "middle of a line");
    assert_refused("diff --git a/a.txt b/a.txt\n", REPOSBX_EMALFORMED, "changes nothing");
    assert_refused("diff --git a/n b/n\nnew file mode 100644\nindex 0000000..1111111\n"
                   "Binary files /dev/null and b/n differ\n", REPOSBX_EMALFORMED, "--binary");
    assert_refused(NEW("n", "100644", "x") NEW("n", "100644", "y"), REPOSBX_EMALFORMED, "twice");
    assert_refused("diff --git a/a.txt b/n\nsimilarity index 100%\nrename from a.txt\nrename to n\n"
                   "diff --git a/a.txt b/m\nsimilarity index 100%\nrename from a.txt\nrename to m\n",
                   REPOSBX_EMALFORMED, "twice");
    assert_int_equal(attempt_bytes(&outcome, nul, sizeof nul - 1, true, &err), REPOSBX_EMALFORMED);
}

#define CHANGE "diff --git a/a.txt b/a.txt\n--- a/a.txt\n+++ b/a.txt\n"

static void hunks_are_exact(void **state)
{
    (void)state;
    assert_refused(CHANGE "@@ -1,3 +1,3 @@\n one\n-two\n+2\n", REPOSBX_EMALFORMED, "cut short");
    assert_refused(CHANGE "@@ -1,2 +1,2 @@\n one\n-two\n+2\n three\n", REPOSBX_EMALFORMED,
                   "no \"diff --git\"");
    assert_refused(CHANGE "@@ -1,2 +1,2 @@\n one\n-two\n-three\n", REPOSBX_EMALFORMED, "as long as");
    assert_refused(CHANGE "@@ -1 +1 @@\n*one\n", REPOSBX_EMALFORMED, "as long as");
    assert_refused(CHANGE "@@ -0,0 +0,0 @@\n", REPOSBX_EMALFORMED, "about nothing");
    assert_refused(CHANGE "@@ -1 +99999999999999999999 @@\n", REPOSBX_EMALFORMED, "head of a hunk");
    assert_refused(CHANGE "@@ -2 +1 @@\n-two\n+2\n", REPOSBX_EMALFORMED, "names another line");
    assert_refused(CHANGE "@@ -2,2 +2,2 @@\n-two\n+2\n three\n@@ -1 +1 @@\n-one\n+1\n", REPOSBX_EMALFORMED,
                   "overlap");
    /* Right but for its place, its context, its end: git apply would search for the first one. */
    assert_no_fit(CHANGE "@@ -1 +1 @@\n-two\n+2\n", "not the old text's");
    assert_no_fit(CHANGE "@@ -1,2 +1,2 @@\n One\n-two\n+2\n", "not the old text's");
    assert_no_fit(CHANGE "@@ -3 +3 @@\n-three\n\\ No newline at end of file\n+3\n", "newline");
    assert_no_fit(CHANGE "@@ -9 +9 @@\n-two\n+2\n", "behind the end");
}

/* git apply takes these with --unidiff-zero only: what is behind the change is not said. */
static void context_is_missed(void **state)
{
    static const char *const refused[] = {
        "@@ -0,0 +1 @@\n+zero\n", "@@ -1,0 +2 @@\n+more\n", "@@ -2,0 +3 @@\n+more\n",
        "@@ -1 +1 @@\n-one\n+1\n", "@@ -2 +2 @@\n-two\n+2\n", "@@ -1 +0,0 @@\n-one\n",
        "@@ -2 +1,0 @@\n-two\n", "@@ -1,2 +1,2 @@\n one\n-two\n+2\n",
        "@@ -1,2 +1,2 @@\n-one\n+1\n two\n@@ -2,0 +3 @@\n+more\n@@ -3 +4 @@\n-three\n+3\n",
    };
    static const char *const taken[] = {
        "@@ -3,0 +4 @@\n+more\n", "@@ -3 +3 @@\n-three\n+3\n", "@@ -3 +2,0 @@\n-three\n",
        "@@ -1,2 +1,2 @@\n-one\n+1\n two\n", "@@ -2,2 +2 @@\n two\n-three\n",
        "@@ -1,3 +1 @@\n-one\n-two\n-three\n+1\n",
    };
    char patch[512];

    (void)state;
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        (void)snprintf(patch, sizeof patch, CHANGE "%s", refused[i]);
        assert_no_fit(patch, "no context behind");
    }
    for (size_t i = 0; i < sizeof taken / sizeof taken[0]; i++) {
        (void)snprintf(patch, sizeof patch, CHANGE "%s", taken[i]);
        assert_fits(patch);
    }
    /* Of one line, where the first is the last. */
    assert_no_fit("diff --git a/tool b/tool\n--- a/tool\n+++ b/tool\n@@ -1,0 +2 @@\n+y\n",
                  "no context behind");
}

/* In whatever words: what they leave as it was is no change that could be told of. */
static void sections_change_something(void **state)
{
    (void)state;
    assert_refused(CHANGE "@@ -1,3 +1,3 @@\n one\n two\n three\n", REPOSBX_EMALFORMED,
                   "line 1 of the patch: a section changes nothing");
    assert_refused(NEW("n", "100644", "x") CHANGE "@@ -2,2 +2,2 @@\n-two\n+two\n three\n", REPOSBX_EMALFORMED,
                   "line 7 of the patch: a section changes nothing");
    assert_refused("diff --git a/tool b/tool\nsimilarity index 100%\nrename from tool\nrename to tool\n",
                   REPOSBX_EMALFORMED, "changes nothing");
    assert_refused("diff --git a/tool b/tool\ndeleted file mode 100755\n--- a/tool\n+++ /dev/null\n"
                   "@@ -1 +0,0 @@\n-x\n" NEW("tool", "100755", "x"), REPOSBX_EMALFORMED,
                   "changes nothing");
}

static void what_is_not_there(void **state)
{
    (void)state;
    assert_no_fit("diff --git a/no b/no\n--- a/no\n+++ b/no\n@@ -1 +1 @@\n-x\n+y\n", "no such file");
    assert_no_fit(NEW("a.txt", "100644", "x"), "there already");
    assert_no_fit(NEW("dir", "100644", "x"), "both a file and a folder");
    assert_no_fit(NEW("a.txt/x", "100644", "x"), "needs a folder");
    assert_no_fit("diff --git a/a.txt b/a.txt\nindex " ANY "..2222222 100644\n--- a/a.txt\n"
                  "+++ b/a.txt\n@@ -2 +2 @@\n-two\n+2\n", "for another content");
    assert_no_fit("diff --git a/a.txt b/a.txt\ndeleted file mode 100644\n", "without its content");
    assert_no_fit("diff --git a/a.txt b/a.txt\ndeleted file mode 100644\n--- a/a.txt\n"
                  "+++ /dev/null\n@@ -3 +2,0 @@\n-three\n", "something is left");
    assert_no_fit("diff --git a/a.txt b/tool\nsimilarity index 100%\nrename from a.txt\n"
                  "rename to tool\n", "there already");
    assert_refused("diff --git a/n b/n\nnew file mode 100644\nindex 0000000.." ANY "\n"
                   "--- /dev/null\n+++ b/n\n@@ -0,0 +1 @@\n+x\n", REPOSBX_EMALFORMED,
                   "another content than its index line");
    assert_refused("diff --git a/a.txt b/a.txt\nindex 0000000.." ANY " 100644\n" "--- a/a.txt\n",
                   REPOSBX_EMALFORMED, "another kind of change");
}

#define ID "1111111111111111111111111111111111111111"
#define ZEROS "0000000000000000000000000000000000000000"
#define BINARY "diff --git a/n b/n\nnew file mode 100644\nindex " ZEROS ".." ID "\nGIT binary patch\n"

static void binary_blocks_are_whole(void **state)
{
    (void)state;
    assert_refused("diff --git a/n b/n\nnew file mode 100644\nindex 0000000.." ANY
                   "\nGIT binary patch\nliteral 1\nIcmZQz00IC2\n\n", REPOSBX_EMALFORMED,
                   "whole ids");
    assert_refused(BINARY "literal 1\nIcmZQz00IC2\n", REPOSBX_EMALFORMED, "cut short");
    assert_refused(BINARY "literal 1\n", REPOSBX_EMALFORMED, "cut short");
    assert_refused(BINARY "literal 1\nIcmZQ\n\n", REPOSBX_EMALFORMED, "wrong length");
    assert_refused(BINARY "literal 1\nA\"aaaa\n\n", REPOSBX_EMALFORMED, "wrong character");
    assert_refused(BINARY "literal 9\nA00000\n\n", REPOSBX_EMALFORMED, "inflate");
    assert_refused(BINARY "literal 99999999999\nIcmZQz00IC2\n\n", REPOSBX_EMALFORMED, "head of");
    assert_refused(BINARY "delta 1\nA00000\n\n", REPOSBX_EMALFORMED, "inflate");
    assert_refused(BINARY "literal 0\nHcmV?d00001\n\nliteral 1\nIcmZ\n", REPOSBX_EMALFORMED,
                   "cut short");
}

/* Zeros by the megabyte: they pack into little. */
static void content_is_bounded(void **state)
{
    RSBX_AUTO(rsbx_buf) struct rsbx_buf patch = RSBX_BUF_INIT(1U << 24);
    struct rsbx_incoming_outcome outcome;
    reposbx_error err = REPOSBX_ERROR_INIT;

    (void)state;
    assert_int_equal(rsbx_buf_text(&patch, "diff --git a/n b/n\nnew file mode 100644\n"
                                   "--- /dev/null\n+++ b/n\n@@ -0,0 +1,20000 @@\n", NULL), 0);
    for (int i = 0; i < 20000; i++)
        assert_int_equal(rsbx_buf_text(&patch, "+0123456789012345678901234567890123456789012345678"
                                       "901234567890\n", NULL), 0);
    assert_int_equal(attempt_bytes(&outcome, patch.data, patch.length, true, &err),
                     REPOSBX_ELIMIT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_stay_inside),      cmocka_unit_test(long_names_are_refused),
        cmocka_unit_test(symlinks_lead_nowhere),  cmocka_unit_test(modes_are_gits),
        cmocka_unit_test(texts_that_are_no_patch), cmocka_unit_test(hunks_are_exact),
        cmocka_unit_test(context_is_missed),      cmocka_unit_test(sections_change_something),
        cmocka_unit_test(what_is_not_there),      cmocka_unit_test(binary_blocks_are_whole),
        cmocka_unit_test(content_is_bounded),
    };
    int rc;

    (void)git_libgit2_init();
    rc = cmocka_run_group_tests(tests, NULL, NULL);
    (void)git_libgit2_shutdown();
    return rc;
}
