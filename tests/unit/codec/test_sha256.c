/* SPDX-License-Identifier: Apache-2.0 */
#include "codec/sha256.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/text.h"

#include "base/banned.h"

/* FIPS 180-4 examples. */
static const char empty[] = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
static const char abc[] = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
static const char two_blocks[] = "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1";
static const char two_blocks_text[] = "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";

static void known_answers(void **state)
{
    char hex[RSBX_SHA256_HEX_BYTES];

    (void)state;
    rsbx_sha256_hex(hex, "", 0);
    assert_string_equal(hex, empty);
    rsbx_sha256_hex(hex, "abc", 3);
    assert_string_equal(hex, abc);
    rsbx_sha256_hex(hex, two_blocks_text, strlen(two_blocks_text));
    assert_string_equal(hex, two_blocks);
}

static void pieces_and_reuse(void **state)
{
    struct rsbx_sha256 *hash = NULL;
    uint8_t digest[RSBX_SHA256_BYTES];
    char hex[RSBX_SHA256_HEX_BYTES];

    (void)state;
    assert_int_equal(rsbx_sha256_new(&hash, NULL), 0);
    for (size_t i = 0; i < strlen(two_blocks_text); i++)
        rsbx_sha256_update(hash, two_blocks_text + i, 1);
    rsbx_sha256_finish(hash, digest);
    rsbx_hex(hex, digest, sizeof digest);
    assert_string_equal(hex, two_blocks);
    rsbx_sha256_update(hash, "abc", 3);
    rsbx_sha256_finish(hash, digest);
    rsbx_hex(hex, digest, sizeof digest);
    assert_string_equal(hex, abc);
    rsbx_sha256_finish(hash, digest);
    rsbx_hex(hex, digest, sizeof digest);
    assert_string_equal(hex, empty);
    rsbx_sha256_free(hash);
    rsbx_sha256_free(NULL);
}

/* FIPS 180-4: a million times "a", more than one piece of the reader. */
static void files(void **state)
{
    static const char million[] =
        "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0";
    char block[1000];
    char hex[RSBX_SHA256_HEX_BYTES];
    reposbx_error err = REPOSBX_ERROR_INIT;
    uint64_t length = 7;
    int fd = memfd_create("hashed", MFD_CLOEXEC);

    (void)state;
    assert_true(fd >= 0);
    assert_int_equal(rsbx_sha256_file(hex, &length, fd, 0, "it", &err), 0);
    assert_string_equal(hex, empty);
    assert_int_equal(length, 0);
    memset(block, 'a', sizeof block);
    for (int i = 0; i < 1000; i++)
        assert_int_equal(write(fd, block, sizeof block), sizeof block);
    /* From the first byte on, though the descriptor stands at the end. */
    assert_int_equal(rsbx_sha256_file(hex, &length, fd, 1000000, "it", &err), 0);
    assert_string_equal(hex, million);
    assert_int_equal(length, 1000000);
    assert_int_equal(lseek(fd, 0, SEEK_CUR), 1000000);
    assert_int_equal(rsbx_sha256_file(hex, &length, fd, 999999, "it", &err), 0);
    assert_true(length > 999999);
    assert_int_equal(close(fd), 0);
    assert_int_equal(rsbx_sha256_file(hex, &length, fd, 1, "the thing", &err), REPOSBX_EIO);
    assert_non_null(strstr(err.message, "cannot read the thing"));
}

/* One that has no end for `most` to wait for. */
static void endless_file(void **state)
{
    char hex[RSBX_SHA256_HEX_BYTES];
    uint64_t length = 0;
    int fd = memfd_create("holes", MFD_CLOEXEC);

    (void)state;
    assert_int_equal(ftruncate(fd, (off_t)1 << 50), 0);
    assert_int_equal(rsbx_sha256_file(hex, &length, fd, 100000, "it", NULL), 0);
    assert_in_range(length, 100001, 200000);
    (void)close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_answers),
        cmocka_unit_test(pieces_and_reuse),
        cmocka_unit_test(files),
        cmocka_unit_test(endless_file),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
