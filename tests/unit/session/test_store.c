/* SPDX-License-Identifier: Apache-2.0 */
/* The state folder, the lock and the journal, without any engine. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/fd.h"
#include "session/internal.h"

#define ID "sbx-0123456789abcdef0123456789abcdef"

struct fixture {
    char dir[64];
    struct rsbx_state *state;
    struct rsbx_session *session;
};

static int setup(void **state)
{
    struct fixture *fixture = calloc(1, sizeof *fixture);

    if (fixture == NULL)
        return -1;
    (void)snprintf(fixture->dir, sizeof fixture->dir, "/tmp/reposbx-store-XXXXXX");
    if (mkdtemp(fixture->dir) == NULL ||
        rsbx_state_open(&fixture->state, "unix:///nowhere.sock", fixture->dir, NULL) != 0 ||
        rsbx_session_folder(&fixture->session, fixture->state, ID, true, NULL) != 0)
        return -1;
    *state = fixture;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *fixture = *state;
    int rc;

    rsbx_session_free(fixture->session);
    rsbx_state_free(fixture->state);
    rc = rsbx_remove_tree_at(AT_FDCWD, fixture->dir, NULL);
    free(fixture);
    return rc;
}

static void the_lock_has_one_holder(void **state)
{
    struct fixture *fixture = *state;
    struct rsbx_session *second = NULL;
    reposbx_error err = REPOSBX_ERROR_INIT;

    assert_int_equal(rsbx_session_take_lock(fixture->session, &err), 0);
    assert_int_equal(rsbx_session_folder(&second, fixture->state, ID, false, &err), 0);
    assert_int_equal(rsbx_session_take_lock(second, &err), REPOSBX_EBUSY);
    rsbx_session_free(fixture->session);
    fixture->session = NULL;
    assert_int_equal(rsbx_session_take_lock(second, &err), 0);
    rsbx_session_free(second);
}

static void ids_are_checked_before_they_become_paths(void **state)
{
    struct fixture *fixture = *state;
    struct rsbx_session *session = NULL;
    static const char *const bad[] = {
        "",
        ".",
        "..",
        "sbx-",
        "../sessions/" ID,
        "sbx-0123456789ABCDEF0123456789ABCDEF",
        ID "0",
        ID "/",
        "sbx-ffffffffffffffffffffffffffffffff",
    };

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_int_equal(rsbx_session_folder(&session, fixture->state, bad[i], false, NULL),
                         REPOSBX_ENOTFOUND);
}

static void the_journal_names_what_is_left(void **state)
{
    struct fixture *fixture = *state;
    struct rsbx_session *session = fixture->session;
    struct rsbx_journal journal;

    assert_int_equal(rsbx_journal_read(&journal, session->dir_fd, NULL), 0);
    assert_int_equal(journal.left_count, 0);
    assert_int_equal(rsbx_journal_make(session, RSBX_OBJECT_STORE, ID "-a", NULL), 0);
    assert_int_equal(rsbx_journal_make(session, RSBX_OBJECT_SLOT, ID "-1", NULL), 0);
    assert_int_equal(rsbx_journal_make(session, RSBX_OBJECT_SLOT, ID "-2", NULL), 0);
    assert_int_equal(rsbx_journal_command(session, NULL), 0);
    assert_int_equal(rsbx_journal_stage(session, ID "-2", RSBX_STAGE_READY, NULL), 0);
    assert_int_equal(rsbx_journal_gone(session, RSBX_OBJECT_SLOT, ID "-1", NULL), 0);
    assert_int_equal(rsbx_journal_read(&journal, session->dir_fd, NULL), 0);
    assert_int_equal(journal.left_count, 2);
    assert_int_equal(journal.left[0].kind, RSBX_OBJECT_STORE);
    assert_string_equal(journal.left[0].name, ID "-a");
    assert_int_equal(journal.left[1].kind, RSBX_OBJECT_SLOT);
    assert_string_equal(journal.left[1].name, ID "-2");
    assert_int_equal(journal.left[1].stage, RSBX_STAGE_READY);
    assert_null(journal.fault);
    assert_int_equal(journal.slots_made, 2);
    assert_int_equal(journal.commands_made, 1);
    rsbx_journal_dispose(&journal);
}

static void a_fault_of_the_background_is_remembered(void **state)
{
    struct fixture *fixture = *state;
    struct rsbx_session *session = fixture->session;
    struct rsbx_journal journal;

    assert_int_equal(rsbx_journal_fault(session, "container x could not be removed", NULL), 0);
    assert_int_equal(rsbx_journal_fault(session, "another", NULL), 0);
    assert_int_equal(rsbx_journal_read(&journal, session->dir_fd, NULL), 0);
    assert_string_equal(journal.fault, "container x could not be removed");
    rsbx_journal_dispose(&journal);
}

/* Cut at every byte: what is read is always a prefix of what was acknowledged, and appending goes
 * on. */
static void a_torn_journal_is_a_prefix(void **state)
{
    struct fixture *fixture = *state;
    static const char whole[] = "make store " ID "-a\ncommand\nmake slot " ID "-1\ngone slot " ID
                                "-1\n";

    for (size_t cut = 0; cut < sizeof whole; cut++) {
        struct rsbx_session *session = NULL;
        struct rsbx_journal journal;
        size_t lines = 0;

        for (size_t i = 0; i < cut; i++)
            lines += whole[i] == '\n';
        assert_int_equal(
            rsbx_replace_file_at(fixture->session->dir_fd, "journal", whole, cut, NULL), 0);
        assert_int_equal(rsbx_session_folder(&session, fixture->state, ID, false, NULL), 0);
        assert_int_equal(rsbx_journal_make(session, RSBX_OBJECT_SLOT, ID "-9", NULL), 0);
        assert_int_equal(rsbx_journal_read(&journal, session->dir_fd, NULL), 0);
        assert_int_equal(journal.left_count,
                         1 + (lines >= 1 ? 1 : 0) + (lines == 3 ? 1 : 0));
        assert_string_equal(journal.left[journal.left_count - 1].name, ID "-9");
        rsbx_journal_dispose(&journal);
        rsbx_session_free(session);
    }
}

static void a_folder_that_others_can_write_to_is_refused(void **state)
{
    struct fixture *fixture = *state;
    struct rsbx_state *again = NULL;
    reposbx_error err = REPOSBX_ERROR_INIT;

    assert_int_equal(chmod(fixture->dir, 0770), 0);
    assert_int_equal(rsbx_state_open(&again, NULL, fixture->dir, &err), REPOSBX_EPOLICY);
    assert_int_equal(chmod(fixture->dir, 0702), 0);
    assert_int_equal(rsbx_state_open(&again, NULL, fixture->dir, &err), REPOSBX_EPOLICY);
    assert_int_equal(chmod(fixture->dir, 0700), 0);
    assert_int_equal(rsbx_state_open(&again, NULL, fixture->dir, &err), 0);
    rsbx_state_free(again);
}

struct entries {
    size_t count;
    char last[64];
};

static int count_entry(void *payload, const char *path, size_t length, uint32_t mode,
                       const uint8_t oid[20], uint64_t size, reposbx_error *err)
{
    struct entries *entries = payload;

    (void)err;
    assert_int_equal(mode, 0100755);
    assert_int_equal(oid[19], 7);
    assert_true(size == 1ULL << 33);
    assert_true(length < sizeof entries->last);
    (void)snprintf(entries->last, sizeof entries->last, "%s", path);
    entries->count++;
    return 0;
}

static void the_manifest_comes_back_and_a_cut_one_is_refused(void **state)
{
    struct fixture *fixture = *state;
    const uint8_t oid[20] = { [19] = 7 };
    struct rsbx_manifest_writer *writer = NULL;
    struct entries entries = { 0 };
    struct rsbx_buf bytes = RSBX_BUF_INIT(4096);

    assert_int_equal(rsbx_manifest_begin(&writer, fixture->session, NULL), 0);
    assert_int_equal(
        rsbx_manifest_add(writer, "a\xff/b", 4, 0100755, oid, 1ULL << 33, NULL), 0);
    assert_int_equal(rsbx_manifest_add(writer, "c", 1, 0100755, oid, 1ULL << 33, NULL), 0);
    assert_int_equal(rsbx_manifest_commit(writer, NULL), 0);
    rsbx_manifest_free(writer);
    assert_int_equal(rsbx_manifest_read(fixture->session, count_entry, &entries, NULL), 0);
    assert_int_equal(entries.count, 2);
    assert_string_equal(entries.last, "c");
    assert_int_equal(rsbx_read_file_at(&bytes, fixture->session->dir_fd, "manifest", NULL), 0);
    for (size_t cut = 0; cut < bytes.length; cut++) {
        bool at_edge = cut == 8 || cut == 8 + 36 + 4;

        assert_int_equal(rsbx_replace_file_at(fixture->session->dir_fd, "manifest", bytes.data, cut,
                                              NULL),
                         0);
        assert_int_equal(rsbx_manifest_read(fixture->session, count_entry, &entries, NULL),
                         at_edge ? 0 : REPOSBX_EIO);
    }
    rsbx_buf_dispose(&bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_lock_has_one_holder, setup, teardown),
        cmocka_unit_test_setup_teardown(ids_are_checked_before_they_become_paths, setup, teardown),
        cmocka_unit_test_setup_teardown(the_journal_names_what_is_left, setup, teardown),
        cmocka_unit_test_setup_teardown(a_fault_of_the_background_is_remembered, setup, teardown),
        cmocka_unit_test_setup_teardown(a_torn_journal_is_a_prefix, setup, teardown),
        cmocka_unit_test_setup_teardown(a_folder_that_others_can_write_to_is_refused, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(the_manifest_comes_back_and_a_cut_one_is_refused, setup,
                                        teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
