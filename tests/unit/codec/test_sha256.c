/* SPDX-License-Identifier: Apache-2.0 */
#include "codec/sha256.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_answers),
        cmocka_unit_test(pieces_and_reuse),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
