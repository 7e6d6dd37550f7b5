/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/audit/audit_fixture.h"

#include "base/banned.h"

static struct rsbx_capture *capture;

static int setup(void **state)
{
    return audit_setup(state) == 0 && audit_reopen(AUDIT_LIMIT, NULL) == 0 ? 0 : -1;
}

static int teardown(void **state)
{
    rsbx_capture_free(capture);
    capture = NULL;
    return audit_teardown(state);
}

static void pieces_are_counted_and_hashed(void **state)
{
    uint64_t bytes = 0;
    char sha256[65], wanted[65];
    struct stat facts;
    size_t length;
    char *text;

    (void)state;
    assert_int_equal(rsbx_capture_open(&capture, audit_log, "cmd-000001.stdout", NULL), 0);
    assert_int_equal(rsbx_capture_write(capture, "abc", 3, NULL), 0);
    assert_int_equal(rsbx_capture_write(capture, "", 0, NULL), 0);
    assert_int_equal(rsbx_capture_write(capture, "\0\xff\n", 3, NULL), 0);
    assert_int_equal(rsbx_capture_seal(&bytes, sha256, capture, NULL), 0);
    rsbx_sha256_hex(wanted, "abc\0\xff\n", 6);
    assert_int_equal(bytes, 6);
    assert_string_equal(sha256, wanted);
    text = audit_load("streams/cmd-000001.stdout", &length);
    assert_int_equal(length, 6);
    assert_memory_equal(text, "abc\0\xff\n", 6);
    free(text);
    assert_int_equal(fstatat(audit_fd, "streams/cmd-000001.stdout", &facts, 0), 0);
    assert_int_equal(facts.st_mode & 07777, 0600);
    assert_int_equal(fstatat(audit_fd, "streams", &facts, 0), 0);
    assert_int_equal(facts.st_mode & 07777, 0700);

    assert_int_equal(rsbx_capture_write(capture, "x", 1, NULL), REPOSBX_EIO);
    assert_int_equal(rsbx_capture_seal(&bytes, sha256, capture, NULL), 0);
    assert_string_equal(sha256, wanted);
}

static void names_are_plain_and_new(void **state)
{
    static const char *const bad[] = { "",     ".",  "..",  ".x",  "a/b",
                                       "../x", "/x", "a b", "a\n", "\xff" };
    struct rsbx_capture *second = NULL;

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_int_equal(rsbx_capture_open(&capture, audit_log, bad[i], NULL), REPOSBX_EINVALID);
    assert_int_equal(rsbx_capture_open(&capture, audit_log, "a", NULL), 0);
    assert_int_equal(rsbx_capture_open(&second, audit_log, "a", NULL), REPOSBX_EEXISTS);
    assert_int_equal(symlinkat("target", audit_fd, "streams/b"), 0);
    assert_int_equal(rsbx_capture_open(&second, audit_log, "b", NULL), REPOSBX_EEXISTS);
    assert_null(second);
}

static void the_folder_is_no_link(void **state)
{
    (void)state;
    assert_int_equal(mkdirat(audit_fd, "elsewhere", 0700), 0);
    assert_int_equal(symlinkat("elsewhere", audit_fd, "streams"), 0);
    assert_int_equal(rsbx_capture_open(&capture, audit_log, "a", NULL), REPOSBX_EIO);
}

static void a_changed_stream_is_not_sealed(void **state)
{
    uint64_t bytes = 77;
    char sha256[65] = "untouched";

    (void)state;
    assert_int_equal(rsbx_capture_open(&capture, audit_log, "a", NULL), 0);
    assert_int_equal(rsbx_capture_write(capture, "abc", 3, NULL), 0);
    audit_store("streams/a", "ab", 2);
    assert_int_equal(rsbx_capture_seal(&bytes, sha256, capture, NULL), REPOSBX_EIO);
    assert_int_equal(rsbx_capture_seal(&bytes, sha256, capture, NULL), REPOSBX_EIO);
    assert_int_equal(bytes, 77);
    assert_string_equal(sha256, "untouched");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(pieces_are_counted_and_hashed),
        TEST(names_are_plain_and_new),
        TEST(the_folder_is_no_link),
        TEST(a_changed_stream_is_not_sealed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
