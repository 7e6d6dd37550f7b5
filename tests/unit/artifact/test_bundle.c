/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <locale.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "artifact/bundle.h"
#include "artifact/internal.h"
#include "base/fd.h"
#include "fixture.h"

#include "base/banned.h"

static const struct rsbx_bundle_limits limits = { 100, 1U << 24 };

static int add(struct rsbx_bundle *bundle, const char *name, const char *words)
{
    return rsbx_bundle_add(bundle, name, strlen(name), 0644, words, strlen(words), NULL);
}

/* Compressible, incompressible, empty, executable, non-ASCII: all that the rules tell apart. */
static const char *const sample_names[] = { "a/text", "z", "empty", "run", "caf\xc3\xa9", "B" };

static void add_sample(struct rsbx_bundle *bundle, size_t which)
{
    char bytes[20000];
    uint32_t state = 12345;
    size_t length = which == 2 ? 0 : which == 5 ? 1 : sizeof bytes;

    for (size_t i = 0; i < sizeof bytes; i++) {
        state = state * 1664525U + 1013904223U;
        bytes[i] = which == 1 ? (char)(state >> 24) : "some text "[i % 10];
    }
    assert_int_equal(rsbx_bundle_add(bundle, sample_names[which], strlen(sample_names[which]),
                                     which == 3 ? 0755 : 0644, bytes, length, NULL),
                     0);
}

static void make_sample(struct rsbx_bundle_result *out, bool backwards)
{
    struct rsbx_bundle *bundle = new_bundle(&limits);
    reposbx_error err = REPOSBX_ERROR_INIT;

    for (size_t i = 0; i < 6; i++)
        add_sample(bundle, backwards ? 5 - i : i);
    if (rsbx_bundle_finish(out, bundle, path, &err) != 0)
        fail_msg("%s", err.message);
    rsbx_bundle_free(bundle);
}

static void members_are_sorted_and_hashed(void **state)
{
    static const char *const order[] = { "B", "a/text", "caf\xc3\xa9", "empty", "run", "z" };
    struct rsbx_bundle_result made, found;
    struct stat file;

    (void)state;
    make_sample(&made, false);
    assert_int_equal(made.member_count, 6);
    for (size_t i = 0; i < 6; i++)
        assert_string_equal(made.members[i].name, order[i]);
    assert_string_equal(made.members[3].sha256,
                        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    assert_int_equal(made.members[1].size, 20000);
    assert_int_equal(stat(path, &file), 0);
    assert_int_equal(file.st_mode & 07777, 0600);
    assert_int_equal(file.st_size, made.size);
    assert_int_equal(file.st_nlink, 1);
    assert_int_equal(files_in(folder), 1);
    assert_int_equal(rsbx_bundle_verify(&found, path, NULL, NULL), 0);
    assert_string_equal(found.sha256, made.sha256);
    assert_int_equal(found.member_count, 6);
    for (size_t i = 0; i < 6; i++)
        assert_string_equal(found.members[i].sha256, made.members[i].sha256);
    rsbx_bundle_result_dispose(&made);
    rsbx_bundle_result_dispose(&found);
}

/* Method, time and attributes of each member, read from the bytes. */
static void headers_are_fixed(void **state)
{
    static const struct {
        uint16_t method;
        uint32_t mode;
    } expected[] = { { 0, 0100644 }, { 8, 0100644 }, { 8, 0100644 }, { 0, 0100644 },
                     { 8, 0100755 }, { 0, 0100644 } }; /* B a caf empty run z */
    struct rsbx_bundle_result made;
    struct rsbx_buf file = RSBX_BUF_INIT(1U << 24);
    size_t at, seen = 0;

    (void)state;
    make_sample(&made, false);
    assert_int_equal(rsbx_read_file_at(&file, AT_FDCWD, path, NULL), 0);
    for (at = 0; at + 46 < file.length; at++) {
        const uint8_t *row = (const uint8_t *)file.data + at;

        if (memcmp(row, "PK\1\2", 4) != 0)
            continue;
        assert_true(seen < 6);
        assert_int_equal(row[10] | row[11] << 8, expected[seen].method);
        assert_int_equal(row[12] | row[13] << 8, 0);
        assert_int_equal(row[14] | row[15] << 8, 0x21);
        assert_int_equal(row[30] | row[31] << 8 | row[32] | row[33] << 8, 0);
        assert_int_equal((uint32_t)row[40] | (uint32_t)row[41] << 8, expected[seen].mode);
        assert_int_equal(row[5], 3);
        seen++;
    }
    assert_int_equal(seen, 6);
    rsbx_buf_dispose(&file);
    rsbx_bundle_result_dispose(&made);
}

static void surroundings_change_nothing(void **state)
{
    static const char *const zones[] = { "UTC", "Asia/Kathmandu", "ABC+12:34", "America/New_York" };
    static const mode_t masks[] = { 0, 022, 077, 0777 };
    char first[65] = "";

    (void)state;
    for (size_t i = 0; i < 4; i++) {
        struct rsbx_bundle_result made;
        struct stat file;

        assert_int_equal(setenv("TZ", zones[i], 1), 0);
        tzset();
        (void)setlocale(LC_ALL, i % 2 == 0 ? "C" : "C.UTF-8");
        (void)umask(masks[i]);
        make_sample(&made, i % 2 == 1);
        if (i == 0)
            memcpy(first, made.sha256, sizeof first);
        assert_string_equal(made.sha256, first);
        assert_int_equal(stat(path, &file), 0);
        assert_int_equal(file.st_mode & 07777, 0600);
        assert_int_equal(unlink(path), 0);
        rsbx_bundle_result_dispose(&made);
    }
    assert_int_equal(unsetenv("TZ"), 0);
    tzset();
}

static void names_are_checked(void **state)
{
    static const struct {
        const char *name;
        size_t length;
    } bad[] = { { "", 0 },        { "..", 2 },     { "../x", 4 },  { "a/../b", 6 }, { "/etc/x", 6 },
                { ".", 1 },       { "./a", 3 },    { "a/", 2 },    { "a//b", 4 },   { "a\0b", 3 },
                { "a\\b", 3 },    { "\xff", 1 },   { "a/./b", 5 }, { "\xed\xa0\x80", 3 },
                { "\xc0\xaf", 2 }, { "\xe2\x82", 2 },  { "C:/x", 4 },  { "z:/", 3 } };
    struct rsbx_bundle *bundle = new_bundle(&limits);
    static char longest[65538];
    reposbx_error err = REPOSBX_ERROR_INIT;

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_int_equal(
            rsbx_bundle_add(bundle, bad[i].name, bad[i].length, 0644, "x", 1, &err),
            REPOSBX_EPOLICY);
    memset(longest, 'x', sizeof longest);
    for (size_t length = 65535; length <= 65537; length++)
        assert_int_equal(rsbx_bundle_add(bundle, longest, length, 0644, "x", 1, &err),
                         REPOSBX_EPOLICY);
    assert_int_equal(rsbx_bundle_add(bundle, longest, 256, 0644, "x", 1, &err), REPOSBX_EPOLICY);
    assert_int_equal(rsbx_bundle_add(bundle, "c:x/y", 5, 0644, "x", 1, &err), 0); /* no drive's root */
    assert_int_equal(rsbx_bundle_add(bundle, longest, 255, 0644, "x", 1, &err), 0);
    assert_int_equal(rsbx_bundle_add(bundle, "m", 1, 04755, "x", 1, &err), REPOSBX_EINVALID);
    rsbx_bundle_free(bundle);
}

static void assert_refused(int expected, const char *const *names, size_t count)
{
    struct rsbx_bundle *bundle = new_bundle(&limits);
    struct rsbx_bundle_result made;

    for (size_t i = 0; i < count; i++)
        assert_int_equal(add(bundle, names[i], "x"), 0);
    assert_int_equal(rsbx_bundle_finish(&made, bundle, path, NULL), expected);
    assert_int_equal(files_in(folder), 0);
    rsbx_bundle_free(bundle);
}

static void duplicates_and_overlaps_are_refused(void **state)
{
    static const char *const twice[] = { "b", "a", "b" };
    static const char *const below[] = { "d", "d-x", "d/e/f" };

    (void)state;
    assert_refused(REPOSBX_EINVALID, twice, 3);
    assert_refused(REPOSBX_EINVALID, below, 3);
    assert_refused(REPOSBX_EINVALID, NULL, 0);
}

static void limits_hold(void **state)
{
    const struct rsbx_bundle_limits small = { 2, 10 };
    struct rsbx_bundle *bundle = new_bundle(&small);
    struct rsbx_bundle_result made;

    (void)state;
    assert_int_equal(add(bundle, "big", "01234567890"), REPOSBX_ELIMIT);
    assert_int_equal(add(bundle, "a", "0123456789"), 0);
    assert_int_equal(add(bundle, "b", "0"), REPOSBX_ELIMIT);
    assert_int_equal(add(bundle, "b", ""), 0);
    assert_int_equal(add(bundle, "c", ""), REPOSBX_ELIMIT);
    assert_int_equal(rsbx_bundle_finish(&made, bundle, path, NULL), 0);
    rsbx_bundle_result_dispose(&made);
    rsbx_bundle_free(bundle);
}

static int finish_small(const char *where)
{
    struct rsbx_bundle *bundle = new_bundle(&limits);
    struct rsbx_bundle_result made;
    int rc;

    assert_int_equal(add(bundle, "a", "a"), 0);
    rc = rsbx_bundle_finish(&made, bundle, where, NULL);
    if (rc == 0)
        rsbx_bundle_result_dispose(&made);
    rsbx_bundle_free(bundle);
    return rc;
}

static void destination_is_never_replaced(void **state)
{
    char other[160];
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

    (void)state;
    assert_true(fd >= 0);
    assert_int_equal(close(fd), 0);
    assert_int_equal(finish_small(path), REPOSBX_EEXISTS);
    (void)snprintf(other, sizeof other, "%s/dangling", folder);
    assert_int_equal(symlink("nowhere", other), 0);
    assert_int_equal(finish_small(other), REPOSBX_EEXISTS);
    (void)snprintf(other, sizeof other, "%s/link", folder);
    assert_int_equal(symlink("out.zip", other), 0);
    assert_int_equal(finish_small(other), REPOSBX_EEXISTS);
    (void)snprintf(other, sizeof other, "%s/none/out.zip", folder);
    assert_int_equal(finish_small(other), REPOSBX_EEXISTS);
    (void)snprintf(other, sizeof other, "%s/out.zip/x.zip", folder);
    assert_int_equal(finish_small(other), REPOSBX_EEXISTS);
    (void)snprintf(other, sizeof other, "%s/", folder);
    assert_int_equal(finish_small(other), REPOSBX_EEXISTS);
    assert_int_equal(files_in(folder), 3);
}

/* The way for file systems without unnamed files. */
static void named_temporary_behaves_the_same(void **state)
{
    struct rsbx_pending pending;

    (void)state;
    assert_int_equal(rsbx_pending_open(&pending, path, true, NULL), 0);
    assert_true(pending.temporary[0] != '\0');
    assert_int_equal(files_in(folder), 1);
    assert_int_equal(finish_small(path), 0); /* someone else was faster */
    assert_int_equal(rsbx_pending_publish(&pending, NULL), REPOSBX_EEXISTS);
    rsbx_pending_dispose(&pending);
    assert_int_equal(files_in(folder), 1);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rsbx_pending_open(&pending, path, true, NULL), 0);
    assert_int_equal(rsbx_pending_publish(&pending, NULL), 0);
    rsbx_pending_dispose(&pending);
    assert_int_equal(files_in(folder), 1);
    assert_int_equal(access(path, F_OK), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        in_folder(members_are_sorted_and_hashed),
        in_folder(headers_are_fixed),
        in_folder(surroundings_change_nothing),
        in_folder(names_are_checked),
        in_folder(duplicates_and_overlaps_are_refused),
        in_folder(limits_hold),
        in_folder(destination_is_never_replaced),
        in_folder(named_temporary_behaves_the_same),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
