/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/sha256.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/banned.h"

static void hash_hex(char out[65], const void *bytes, size_t length, size_t step)
{
    struct rsbx_guest_sha256 hash;
    uint8_t digest[32];

    rsbx_guest_sha256_init(&hash);
    for (size_t at = 0; at < length; at += step) {
        rsbx_guest_sha256_update(&hash, (const uint8_t *)bytes + at,
                                 length - at < step ? length - at : step);
    }
    rsbx_guest_sha256_final(&hash, digest);
    for (size_t i = 0; i < 32; i++) {
        snprintf(out + 2U * i, 3, "%02x", digest[i]);
    }
}

/* Published examples of FIPS 180: one block, two blocks, nothing, a million bytes. */
static void check_vectors(int portable)
{
    static const char two[] = "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
    static char million[1000000];
    char hex[65];

    rsbx_guest_sha256_portable(portable);
    hash_hex(hex, "", 0, 1);
    assert_string_equal(hex, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    hash_hex(hex, "abc", 3, 3);
    assert_string_equal(hex, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    hash_hex(hex, two, sizeof(two) - 1U, 100);
    assert_string_equal(hex, "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    memset(million, 'a', sizeof(million));
    for (size_t step = 1; step < 200; step += 66) {
        hash_hex(hex, million, sizeof(million), step);
        assert_string_equal(hex,
                            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
    }
}

static void test_fastest(void **state)
{
    (void)state;
    check_vectors(0);
}

static void test_portable(void **state)
{
    (void)state;
    check_vectors(1);
}

static void test_same_at_every_length(void **state)
{
    uint8_t bytes[300];
    char fast[65], portable[65];

    (void)state;
    for (size_t i = 0; i < sizeof(bytes); i++) {
        bytes[i] = (uint8_t)(i * 37U);
    }
    for (size_t length = 0; length < sizeof(bytes); length++) {
        rsbx_guest_sha256_portable(0);
        hash_hex(fast, bytes, length, length + 1U);
        rsbx_guest_sha256_portable(1);
        hash_hex(portable, bytes, length, 7);
        assert_string_equal(fast, portable);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fastest),
        cmocka_unit_test(test_portable),
        cmocka_unit_test(test_same_at_every_length),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
