/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "real/group.h"

#include "base/banned.h"

/*
 * The diff of a session on a real engine: every kind of change, applied by git in a fresh clone, and
 * everything that a patch cannot carry.
 */

static void diff_of(reposbx_diff_result *out, reposbx_session *session)
{
    reposbx_diff_options options = REPOSBX_DIFF_OPTIONS_INIT;
    reposbx_error err = REPOSBX_ERROR_INIT;
    char hash[65];

    (void)memset(out, 0, sizeof *out);
    if (reposbx_session_diff(out, session, &options, &err) != 0)
        fail_msg("diff: %s", err.message);
    assert_string_equal(out->base_tree, place.tree);
    place_sha256(hash, out->patch, out->patch_length);
    assert_string_equal(out->sha256, hash);
}

static const reposbx_diff_file *changed(const reposbx_diff_result *diff, const char *path,
                                        const char *status)
{
    for (size_t i = 0; i < diff->file_count; i++) {
        if (strcmp(diff->files[i].path, path) != 0)
            continue;
        assert_string_equal(diff->files[i].status, status);
        return &diff->files[i];
    }
    fail_msg("%s is not in the diff", path);
    return NULL;
}

static void omitted(const reposbx_diff_result *diff, const char *path, const char *reason)
{
    for (size_t i = 0; i < diff->omitted_count; i++) {
        if (strcmp(diff->omitted[i].path, path) != 0)
            continue;
        assert_string_equal(diff->omitted[i].reason, reason);
        return;
    }
    fail_msg("%s is not named as left out", path);
}

static const char edits[] =
    "printf 'one\\n2\\nthree\\nfour' > text.txt; rm 'with space.txt'; rm -r deep/er/est; "
    "chmod 755 no-newline; chmod 644 tool.sh; printf '\\000\\001changed\\377' > binary.bin; "
    "rm deep/sibling; ln -s er/other deep/sibling; printf 'one\\r\\n2\\rhalf\\r\\nthree\\f\\r\\n' > crlf.txt; "
    "printf 'Latin\\n' > \"$(printf 'caf\\351')\"; printf x > \"$(printf 'new\\377 name')\"; "
    "printf 'a b\\n' > 'a new name'; : > 'new empty'; : > empty2; printf '\\000' > 'new binary'; "
    "printf 'x' > \"$(printf 'q\"\\tn\\nb\\\\')\"; echo grown > empty; mkdir -p fresh/down; "
    "echo f > fresh/down/f; mkdir locked; echo l > locked/in; chmod 000 locked/in locked; "
    "mkfifo pipe; mkdir hollow; mkdir -p nested/.git; echo x > nested/.git/HEAD; "
    "mkdir sub; echo 'gitdir: x' > sub/.git; chmod 4755 crlf.txt; rm bad-interpreter; "
    "mkdir bad-interpreter; echo t > bad-interpreter/t";

static void check_files(const reposbx_diff_result *diff)
{
    const reposbx_diff_file *file = changed(diff, "text.txt", "modified");

    assert_int_equal(file->insertions, 2);
    assert_int_equal(file->deletions, 1);
    assert_int_equal(file->old_mode, 0100644);
    assert_false(file->binary);
    file = changed(diff, "with space.txt", "deleted");
    assert_int_equal(file->new_mode, 0);
    (void)changed(diff, "deep/er/est/file", "deleted");
    file = changed(diff, "no-newline", "mode_changed");
    assert_int_equal(file->new_mode, 0100755);
    assert_string_equal(file->old_oid, file->new_oid);
    (void)changed(diff, "tool.sh", "mode_changed");
    assert_true(changed(diff, "binary.bin", "modified")->binary);
    file = changed(diff, "deep/sibling", "type_changed");
    assert_int_equal(file->new_mode, 0120000);
    /* Set-user-id is never exported. */
    assert_int_equal(changed(diff, "crlf.txt", "modified")->new_mode, 0100755);
    (void)changed(diff, "caf\xe9", "modified");
    assert_int_equal(changed(diff, "new\xff name", "added")->new_mode, 0100644);
    (void)changed(diff, "a new name", "added");
    (void)changed(diff, "new empty", "added");
    assert_true(changed(diff, "new binary", "added")->binary);
    (void)changed(diff, "q\"\tn\nb\\", "added");
    (void)changed(diff, "empty", "modified");
    (void)changed(diff, "fresh/down/f", "added");
    (void)changed(diff, "locked/in", "added");
    (void)changed(diff, "bad-interpreter/t", "added");
    omitted(diff, "pipe", "fifo");
    omitted(diff, "hollow", "empty_folder");
    omitted(diff, "nested/.git", "dotgit");
    omitted(diff, "sub/.git", "dotgit");
}

/* One workspace of this kind through all edits. */
static void diff_on(const char *workspace)
{
    reposbx_session *session = place_session(&place, NULL, workspace);
    reposbx_diff_options options = REPOSBX_DIFF_OPTIONS_INIT;
    reposbx_diff_result diff, again;
    char *json = NULL;

    diff_of(&diff, session);
    assert_int_equal(diff.patch_length, 0);
    assert_int_equal(diff.file_count, 0);
    assert_int_equal(diff.omitted_count, 0);
    assert_string_equal(diff.result_tree, place.tree);
    reposbx_diff_result_dispose(&diff);
    free(place_text(session, edits));
    diff_of(&diff, session);
    applies(&diff);
    check_files(&diff);
    assert_null(strstr(diff.patch, "mode 104755"));
    diff_of(&again, session);
    assert_string_equal(diff.sha256, again.sha256);
    reposbx_diff_result_dispose(&again);
    options.max_bytes = 10;
    (void)memset(&again, 0, sizeof again);
    assert_int_equal(reposbx_session_diff(&again, session, &options, NULL), REPOSBX_ELIMIT);
    assert_null(again.patch);
    assert_int_equal(reposbx_diff_result_json(&json, &diff, "x.patch", NULL), 0);
    assert_non_null(strstr(json, "\"patch_file\""));
    free(json);
    reposbx_diff_result_dispose(&diff);
    place_close(session, true);
}

static void test_default_workspace(void **state)
{
    (void)state;
    diff_on(NULL);
}

static void test_copied_workspace(void **state)
{
    (void)state;
    diff_on("copy");
}

/* Changed and put back is no change; what is left is exactly the change. */
static void test_put_back(void **state)
{
    reposbx_session *session = place_session(&place, NULL, NULL);
    reposbx_diff_result diff;

    (void)state;
    free(place_text(session, "cp text.txt /tmp/t; echo x > text.txt; rm -r deep; mkdir -p deep/er/est; "
                             "cat /tmp/t > text.txt; echo down > deep/er/est/file; "
                             "echo same > deep/er/other; echo same > deep/sibling; touch -t 198001010101 empty"));
    diff_of(&diff, session);
    assert_int_equal(diff.patch_length, 0);
    assert_int_equal(diff.file_count, 0);
    assert_string_equal(diff.result_tree, place.tree);
    reposbx_diff_result_dispose(&diff);
    place_close(session, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_default_workspace),
        cmocka_unit_test(test_copied_workspace),
        cmocka_unit_test(test_put_back),
    };
    int gate = place_gate();

    if (gate != 0)
        return gate;
    return cmocka_run_group_tests_name("diffs on a real engine", tests, group_setup, group_teardown);
}
