/* SPDX-License-Identifier: Apache-2.0 */
/* The state folder, the lock and the journal, without any engine. */
#include <fcntl.h>
#include <poll.h>
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
 * on, for a holder that has read the journal before and for one that has not. */
static void torn_journals(struct fixture *fixture, bool followed)
{
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
        if (followed)
            assert_int_equal(rsbx_journal_follow(session, NULL), 0);
        assert_int_equal(rsbx_journal_make(session, RSBX_OBJECT_SLOT, ID "-9", NULL), 0);
        assert_int_equal(rsbx_journal_read(&journal, session->dir_fd, NULL), 0);
        assert_int_equal(journal.left_count,
                         1 + (lines >= 1 ? 1 : 0) + (lines == 3 ? 1 : 0));
        assert_string_equal(journal.left[journal.left_count - 1].name, ID "-9");
        rsbx_journal_dispose(&journal);
        rsbx_session_free(session);
    }
}

static void a_torn_journal_is_a_prefix(void **state)
{
    torn_journals(*state, false);
    torn_journals(*state, true);
}

static off_t journal_length(const struct rsbx_session *session)
{
    struct stat facts;

    assert_int_equal(fstatat(session->dir_fd, "journal", &facts, 0), 0);
    return facts.st_size;
}

/* A session that serves for years: the journal stays short and goes on saying the same. */
static void a_long_journal_is_shortened(void **state)
{
    struct fixture *fixture = *state;
    struct rsbx_session *session = fixture->session;
    const struct rsbx_journal *journal = &session->journal;
    RSBX_AUTO(rsbx_fd) int keepers_fd = -1;
    struct rsbx_journal again;
    char name[64];
    size_t made = 0;

    assert_int_equal(rsbx_journal_make(session, RSBX_OBJECT_STORE, ID "-a", NULL), 0);
    assert_int_equal(rsbx_journal_follow(session, NULL), 0);
    assert_int_equal(rsbx_journal_shorten(session, NULL), 0); /* nothing to do yet */
    while (journal_length(session) < 70000) {
        (void)snprintf(name, sizeof name, ID "-%06zu-exec", ++made);
        assert_int_equal(rsbx_journal_plan(session, RSBX_OBJECT_SLOT, name, NULL), 0);
        assert_int_equal(rsbx_journal_stage(session, name, RSBX_STAGE_READY, NULL), 0);
        assert_int_equal(rsbx_journal_command(session, NULL), 0);
        assert_int_equal(rsbx_journal_follow(session, NULL), 0);
        assert_int_equal(session->slots_made, made);
        assert_int_equal(journal->left_count, 2);
        assert_string_equal(journal->left[1].name, name);
        assert_int_equal(rsbx_journal_gone(session, RSBX_OBJECT_SLOT, name, NULL), 0);
    }
    assert_int_equal(rsbx_journal_plan(session, RSBX_OBJECT_SLOT, ID "-t", NULL), 0);
    assert_int_equal(rsbx_journal_stage(session, ID "-t", RSBX_STAGE_TAKEN, NULL), 0);
    assert_int_equal(rsbx_journal_plan(session, RSBX_OBJECT_SLOT, ID "-m", NULL), 0);
    assert_int_equal(rsbx_journal_follow(session, NULL), 0);

    /* not while a keeper may write to it */
    assert_int_equal(rsbx_keepers_wait(&keepers_fd, session, 0, NULL), 0);
    assert_int_equal(rsbx_journal_shorten(session, NULL), 0);
    assert_true(journal_length(session) >= 70000);
    (void)close(keepers_fd);
    keepers_fd = -1;

    assert_int_equal(rsbx_journal_fault(session, "something lingers", NULL), 0);
    assert_int_equal(rsbx_journal_shorten(session, NULL), 0);
    assert_true(journal_length(session) < 500);
    assert_int_equal(rsbx_journal_read(&again, session->dir_fd, NULL), 0);
    assert_int_equal(again.slots_made, made + 2);
    assert_int_equal(again.commands_made, made);
    assert_string_equal(again.fault, "something lingers");
    assert_int_equal(again.left_count, 3);
    assert_int_equal(again.left[0].kind, RSBX_OBJECT_STORE);
    assert_string_equal(again.left[1].name, ID "-t");
    assert_int_equal(again.left[1].stage, RSBX_STAGE_TAKEN);
    assert_int_equal(again.left[2].stage, RSBX_STAGE_MADE);
    rsbx_journal_dispose(&again);

    /* and it goes on */
    assert_int_equal(rsbx_journal_gone(session, RSBX_OBJECT_SLOT, ID "-t", NULL), 0);
    assert_int_equal(rsbx_journal_plan(session, RSBX_OBJECT_SLOT, ID "-n", NULL), 0);
    assert_int_equal(rsbx_journal_follow(session, NULL), 0);
    assert_int_equal(session->slots_made, made + 3);
    assert_int_equal(session->commands_made, made);
    assert_int_equal(journal->left_count, 3);
    assert_string_equal(journal->left[2].name, ID "-n");
}

static void a_line_of_the_journal_is_told(void **state)
{
    struct fixture *fixture = *state;
    struct rsbx_session *session = fixture->session;
    RSBX_AUTO(rsbx_fd) int watch = -1;

    assert_int_equal(rsbx_journal_make(session, RSBX_OBJECT_SLOT, ID "-1", NULL), 0);
    watch = rsbx_journal_watch(session);
    assert_true(watch >= 0);
    assert_int_equal(rsbx_wait_fd(watch, POLLIN, rsbx_deadline_in_ms(0)), 0);
    assert_int_equal(rsbx_journal_stage(session, ID "-1", RSBX_STAGE_READY, NULL), 0);
    assert_int_equal(rsbx_wait_fd(watch, POLLIN, rsbx_deadline_in_ms(60000)), 1);
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
    const struct rsbx_manifest_view all = { .entry = count_entry, .payload = &entries };
    struct rsbx_buf bytes = RSBX_BUF_INIT(4096);

    assert_int_equal(rsbx_manifest_begin(&writer, fixture->session, NULL), 0);
    assert_int_equal(
        rsbx_manifest_add(writer, "a\xff/b", 4, 0100755, oid, 1ULL << 33, NULL), 0);
    assert_int_equal(rsbx_manifest_add(writer, "c", 1, 0100755, oid, 1ULL << 33, NULL), 0);
    assert_int_equal(rsbx_manifest_commit(writer, NULL), 0);
    rsbx_manifest_free(writer);
    assert_int_equal(rsbx_manifest_read(fixture->session, &all, NULL), 0);
    assert_int_equal(entries.count, 2);
    assert_string_equal(entries.last, "c");
    assert_int_equal(rsbx_read_file_at(&bytes, fixture->session->dir_fd, "manifest", NULL), 0);
    for (size_t cut = 0; cut < bytes.length; cut++) {
        assert_int_equal(rsbx_replace_file_at(fixture->session->dir_fd, "manifest", bytes.data, cut,
                                              NULL),
                         0);
        assert_int_equal(rsbx_manifest_read(fixture->session, &all, NULL), REPOSBX_EIO);
    }
    rsbx_buf_dispose(&bytes);
}

/* What a reader that wants some folders alone is told, one word each. */
struct seen {
    const char *wanted; /* folders between spaces */
    char words[256];
};

static void say(struct seen *seen, const char *path, size_t length, const char *end)
{
    size_t used = strlen(seen->words);

    (void)snprintf(seen->words + used, sizeof seen->words - used, "%.*s%s ", (int)length, path, end);
}

static int see_entry(void *payload, const char *path, size_t length, uint32_t mode,
                     const uint8_t oid[20], uint64_t size, reposbx_error *err)
{
    (void)mode;
    (void)oid;
    (void)size;
    (void)err;
    say(payload, path, length, "");
    return 0;
}

static bool see_wanted(void *payload, const char *path, size_t length)
{
    const struct seen *seen = payload;
    char word[64];

    (void)snprintf(word, sizeof word, " %.*s ", (int)length, path);
    return strstr(seen->wanted, word) != NULL;
}

static int see_folder(void *payload, const char *path, size_t length, const uint8_t oid[20],
                      reposbx_error *err)
{
    char end[16];

    (void)err;
    (void)snprintf(end, sizeof end, "=%02x%02x", oid[0], oid[1]);
    say(payload, path, length, end);
    return 0;
}

/* All files are 100644 and empty. Ids by git: 2c36… of a, 2a26… of a/b, 8ac4… of f, 92a1… of x, 8417… of
 * x/y; x begins where x/y does. */
static void folders_are_left_out_by_their_id(void **state)
{
    static const uint8_t empty[20] = { 0xe6, 0x9d, 0xe2, 0x9b, 0xb2, 0xd1, 0xd6, 0x43, 0x4b, 0x8b,
                                       0x29, 0xae, 0x77, 0x5a, 0xd8, 0xc2, 0xe4, 0x8c, 0x53, 0x91 };
    static const char *const paths[] = { "z", "a/e", "a/b/d", "f/g", "x/y/q" };
    static const struct {
        const char *wanted, *words;
    } cases[] = {
        { " ", "z a=2c36 f=8ac4 x=92a1 " },
        { " a ", "z a/e a/b=2a26 f=8ac4 x=92a1 " },
        { " a a/b ", "z a/e a/b/d f=8ac4 x=92a1 " },
        { " f x ", "z a=2c36 f/g x/y=8417 " },
        { " a/b ", "z a=2c36 f=8ac4 x=92a1 " }, /* inside of one that is not wanted */
        { " a a/b f x x/y ", "z a/e a/b/d f/g x/y/q " },
    };
    struct fixture *fixture = *state;
    struct rsbx_manifest_writer *writer = NULL;

    assert_int_equal(rsbx_manifest_begin(&writer, fixture->session, NULL), 0);
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++)
        assert_int_equal(rsbx_manifest_add(writer, paths[i], strlen(paths[i]), 0100644, empty, 0,
                                           NULL),
                         0);
    assert_int_equal(rsbx_manifest_commit(writer, NULL), 0);
    rsbx_manifest_free(writer);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct seen seen = { .wanted = cases[i].wanted };
        const struct rsbx_manifest_view view = { see_entry, see_wanted, see_folder, &seen };

        assert_int_equal(rsbx_manifest_read(fixture->session, &view, NULL), 0);
        assert_string_equal(seen.words, cases[i].words);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_lock_has_one_holder, setup, teardown),
        cmocka_unit_test_setup_teardown(ids_are_checked_before_they_become_paths, setup, teardown),
        cmocka_unit_test_setup_teardown(the_journal_names_what_is_left, setup, teardown),
        cmocka_unit_test_setup_teardown(a_fault_of_the_background_is_remembered, setup, teardown),
        cmocka_unit_test_setup_teardown(a_torn_journal_is_a_prefix, setup, teardown),
        cmocka_unit_test_setup_teardown(a_long_journal_is_shortened, setup, teardown),
        cmocka_unit_test_setup_teardown(a_line_of_the_journal_is_told, setup, teardown),
        cmocka_unit_test_setup_teardown(a_folder_that_others_can_write_to_is_refused, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(folders_are_left_out_by_their_id, setup, teardown),
        cmocka_unit_test_setup_teardown(the_manifest_comes_back_and_a_cut_one_is_refused, setup,
                                        teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
