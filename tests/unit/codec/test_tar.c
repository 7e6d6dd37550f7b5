/* SPDX-License-Identifier: Apache-2.0 */
#include "codec/tar.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/banned.h"

#define MIB (1024U * 1024U)

static const struct rsbx_tar_member members[] = {
    { "bin/", 0755, 65532, 65532, NULL, 0 },
    { "bin/guest", 0555, 0, 0, "some bytes\0more", 15 },
    { "empty", 0600, 1, 2, "", 0 },
};

static void write_members(struct rsbx_buf *out)
{
    reposbx_error err = REPOSBX_ERROR_INIT;

    if (rsbx_tar_write(out, members, sizeof members / sizeof members[0], &err) != 0)
        fail_msg("%s", err.message);
}

static void plain_ustar_with_fixed_bytes(void **state)
{
    struct rsbx_buf first = RSBX_BUF_INIT(MIB);
    struct rsbx_buf second = RSBX_BUF_INIT(MIB);
    const char *file;

    (void)state;
    write_members(&first);
    assert_int_equal(setenv("TZ", "Asia/Tokyo", 1), 0);
    write_members(&second);
    assert_int_equal(unsetenv("TZ"), 0);
    /* Three headers, one block of content, two of end: no pax header anywhere. */
    assert_int_equal(first.length, 6 * 512);
    assert_int_equal(second.length, first.length);
    assert_memory_equal(first.data, second.data, first.length);
    assert_string_equal(first.data, "bin/");
    assert_int_equal(first.data[156], '5');
    file = first.data + 512;
    assert_string_equal(file, "bin/guest");
    assert_memory_equal(file + 100, "000555 ", 7);       /* mode */
    assert_memory_equal(file + 124, "00000000017 ", 12); /* size, octal */
    assert_memory_equal(file + 136, "00000000000 ", 12); /* time */
    assert_memory_equal(file + 257,
                        "ustar\0"
                        "00",
                        8);
    assert_int_equal(file[265], '\0'); /* no owner's name */
    assert_memory_equal(file + 512, "some bytes\0more", 16);
    rsbx_buf_dispose(&first);
    rsbx_buf_dispose(&second);
}

static void large_owner_needs_pax(void **state)
{
    const struct rsbx_tar_member big[] = { { "f", 0644, 3000000000U, 3000000001U, "x", 1 } };
    struct rsbx_buf tar = RSBX_BUF_INIT(MIB);
    struct rsbx_buf file = RSBX_BUF_INIT(MIB);

    (void)state;
    assert_int_equal(rsbx_tar_write(&tar, big, 1, NULL), 0);
    assert_int_equal(tar.data[156], 'x');
    assert_non_null(memmem(tar.data, tar.length, "uid=3000000000\n", 15));
    assert_non_null(memmem(tar.data, tar.length, "gid=3000000001\n", 15));
    assert_int_equal(rsbx_tar_read_file(&file, "f", tar.data, tar.length, NULL), 0);
    assert_int_equal(file.length, 1);
    rsbx_buf_dispose(&tar);
    rsbx_buf_dispose(&file);
}

static void reads_the_file_back(void **state)
{
    struct rsbx_buf tar = RSBX_BUF_INIT(MIB);
    struct rsbx_buf file = RSBX_BUF_INIT(MIB);
    reposbx_error err = REPOSBX_ERROR_INIT;

    (void)state;
    write_members(&tar);
    assert_int_equal(rsbx_buf_text(&file, "before:", NULL), 0);
    assert_int_equal(rsbx_tar_read_file(&file, "guest", tar.data, tar.length, &err), 0);
    assert_int_equal(file.length, 22);
    assert_memory_equal(file.data, "before:some bytes\0more", 23);
    /* Only the first regular file counts. */
    assert_int_equal(rsbx_tar_read_file(&file, "empty", tar.data, tar.length, &err),
                     REPOSBX_EPROTOCOL);
    assert_string_equal(err.message, "the tar archive holds \"bin/guest\", not \"empty\"");
    assert_int_equal(rsbx_tar_read_file(&file, "bin", tar.data, tar.length, NULL),
                     REPOSBX_EPROTOCOL);
    assert_int_equal(file.length, 22);
    rsbx_buf_dispose(&tar);
    rsbx_buf_dispose(&file);
}

static void refuses_an_archive_cut_anywhere(void **state)
{
    struct rsbx_buf tar = RSBX_BUF_INIT(MIB);
    struct rsbx_buf file = RSBX_BUF_INIT(MIB);
    reposbx_error err = REPOSBX_ERROR_INIT;

    (void)state;
    write_members(&tar);
    for (size_t length = 0; length < tar.length; length++) {
        assert_int_equal(rsbx_tar_read_file(&file, "guest", tar.data, length, &err),
                         REPOSBX_EPROTOCOL);
        assert_int_equal(file.length, 0);
    }
    rsbx_buf_dispose(&tar);
    rsbx_buf_dispose(&file);
}

static void refuses_damage(void **state)
{
    struct rsbx_buf tar = RSBX_BUF_INIT(MIB);
    struct rsbx_buf file = RSBX_BUF_INIT(MIB);
    static char junk[4096];

    (void)state;
    write_members(&tar);
    for (size_t i = 0; i < 3 * 512; i += 7) { /* the headers are under a checksum */
        if (i >= 1024 || tar.data[i] == '\0')
            continue;
        tar.data[i] ^= 0x01;
        assert_int_equal(rsbx_tar_read_file(&file, "guest", tar.data, tar.length, NULL),
                         REPOSBX_EPROTOCOL);
        tar.data[i] ^= 0x01;
    }
    assert_int_equal(rsbx_tar_read_file(&file, "guest", tar.data, tar.length, NULL), 0);
    memset(junk, 'x', 1024);
    assert_int_equal(rsbx_tar_read_file(&file, "guest", junk, sizeof junk, NULL),
                     REPOSBX_EPROTOCOL);
    memset(junk, 0, sizeof junk); /* an empty archive */
    assert_int_equal(rsbx_tar_read_file(&file, "guest", junk, 1024, NULL), REPOSBX_EPROTOCOL);
    rsbx_buf_dispose(&tar);
    rsbx_buf_dispose(&file);
}

static void holds_to_limits(void **state)
{
    struct rsbx_buf tar = RSBX_BUF_INIT(6 * 512);
    struct rsbx_buf small = RSBX_BUF_INIT(6 * 512 - 1);
    struct rsbx_buf file = RSBX_BUF_INIT(14);
    reposbx_error err = REPOSBX_ERROR_INIT;

    (void)state;
    write_members(&tar);
    assert_int_equal(rsbx_tar_write(&small, members, 3, &err), REPOSBX_ELIMIT);
    assert_int_equal(small.length, 0);
    assert_int_equal(rsbx_tar_read_file(&file, "guest", tar.data, tar.length, &err),
                     REPOSBX_ELIMIT);
    assert_int_equal(file.length, 0);
    rsbx_buf_dispose(&tar);
    rsbx_buf_dispose(&small);
    rsbx_buf_dispose(&file);
}

static void a_claimed_terabyte_costs_nothing(void **state)
{
    struct rsbx_buf tar = RSBX_BUF_INIT(MIB);
    struct rsbx_buf file = RSBX_BUF_INIT(MIB);
    unsigned int sum = 0;
    char *header;

    (void)state;
    write_members(&tar);
    header = tar.data + 512;
    memcpy(header + 124, "77777777777 ", 12);
    memset(header + 148, ' ', 8);
    for (int i = 0; i < 512; i++)
        sum += (unsigned char)header[i];
    for (int i = 5; i >= 0; i--, sum /= 8)
        header[148 + i] = (char)('0' + sum % 8);
    assert_int_equal(rsbx_tar_read_file(&file, "guest", tar.data, tar.length, NULL),
                     REPOSBX_ELIMIT);
    rsbx_buf_dispose(&tar);
    rsbx_buf_dispose(&file);
}

static void refuses_members_that_are_neither(void **state)
{
    const struct rsbx_tar_member bad[] = {
        { "folder/", 0755, 0, 0, "x", 1 },
        { "file", 0644, 0, 0, NULL, 0 },
        { "", 0644, 0, 0, "", 0 },
    };
    struct rsbx_buf tar = RSBX_BUF_INIT(MIB);

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(rsbx_tar_write(&tar, &bad[i], 1, NULL), REPOSBX_EINVALID);
        assert_int_equal(tar.length, 0);
    }
    assert_int_equal(rsbx_tar_write(&tar, NULL, 0, NULL), 0);
    assert_int_equal(tar.length, 1024);
    rsbx_buf_dispose(&tar);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_ustar_with_fixed_bytes),
        cmocka_unit_test(large_owner_needs_pax),
        cmocka_unit_test(reads_the_file_back),
        cmocka_unit_test(refuses_an_archive_cut_anywhere),
        cmocka_unit_test(refuses_damage),
        cmocka_unit_test(holds_to_limits),
        cmocka_unit_test(a_claimed_terabyte_costs_nothing),
        cmocka_unit_test(refuses_members_that_are_neither),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
