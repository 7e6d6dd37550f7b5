/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "wasm/imports.h"
#include "wasm/internal.h"

#include "base/banned.h"

/* (module (import "wasi_snapshot_preview1" "fd_close" (func (param i32) (result i32)))
 *   (memory (export "memory") 1) (func (export "_start"))
 *   (data (i32.const 16) "abc") (data (i32.const 20) "d") (data (i32.const 17) "X")), and a custom
 * section in front of the data. */
static const uint8_t sample[] = {
    0, 'a', 's', 'm', 1, 0, 0, 0,
    1, 9, 2, 0x60, 1, 0x7f, 1, 0x7f, 0x60, 0, 0,
    2, 35, 1, 22, 'w', 'a', 's', 'i', '_', 's', 'n', 'a', 'p', 's', 'h', 'o', 't', '_', 'p', 'r', 'e',
    'v', 'i', 'e', 'w', '1', 8, 'f', 'd', '_', 'c', 'l', 'o', 's', 'e', 0, 0,
    3, 2, 1, 1,
    5, 3, 1, 0, 1,
    7, 19, 2, 6, 'm', 'e', 'm', 'o', 'r', 'y', 2, 0, 6, '_', 's', 't', 'a', 'r', 't', 0, 1,
    10, 4, 1, 2, 0, 0x0b,
    0, 6, 4, 'n', 'o', 't', 'e', 9,
    11, 21, 3, 0, 0x41, 16, 0x0b, 3, 'a', 'b', 'c', 0, 0x41, 20, 0x0b, 1, 'd', 0, 0x41, 17, 0x0b, 1, 'X',
};

#define CUSTOM_BYTES 8U
#define DATA_BYTES 23U

static int parse(struct rsbx_wasm_parsed *out, const void *bytes, size_t length)
{
    return rsbx_wasm_parse(out, bytes, length, NULL);
}

static void data_is_laid_out_in_its_order(void **state)
{
    struct rsbx_wasm_parsed parsed;
    reposbx_error err = REPOSBX_ERROR_INIT;
    size_t kept = sizeof sample - CUSTOM_BYTES - DATA_BYTES;

    (void)state;
    if (rsbx_wasm_parse(&parsed, sample, sizeof sample, &err) != 0)
        fail_msg("%s", err.message);
    assert_true(parsed.imports);
    assert_int_equal(parsed.image_offset, 16);
    assert_int_equal(parsed.image.length, 5);
    assert_memory_equal(parsed.image.data, "aXc\0d", 5); /* the later one on top, zeroes between */
    assert_int_equal(parsed.bare.length, kept);
    assert_memory_equal(parsed.bare.data, sample, kept);
    rsbx_wasm_parsed_dispose(&parsed);
}

/* Every beginning of a module is refused, or is a module. */
static void cut_modules_are_refused(void **state)
{
    (void)state;
    for (size_t length = 0; length < sizeof sample - CUSTOM_BYTES - DATA_BYTES - 6; length++) {
        struct rsbx_wasm_parsed parsed;
        void *exact = malloc(length + 1); /* so that a byte too far is seen by sanitizers */

        assert_non_null(exact);
        memcpy(exact, sample, length);
        assert_int_not_equal(parse(&parsed, exact, length), 0);
        free(exact);
    }
}

/* No byte anywhere can make it read outside, hang, or keep more than it was given. */
static void changed_modules_do_no_harm(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof sample; i++) {
        for (unsigned value = 0; value < 256; value += value < 4 || value > 250 ? 1 : 3) {
            struct rsbx_wasm_parsed parsed;
            uint8_t *copy = malloc(sizeof sample);

            assert_non_null(copy);
            memcpy(copy, sample, sizeof sample);
            copy[i] = (uint8_t)value;
            if (parse(&parsed, copy, sizeof sample) == 0) {
                assert_true(parsed.bare.length <= sizeof sample);
                assert_true(parsed.image.length <= 65536);
                rsbx_wasm_parsed_dispose(&parsed);
            }
            free(copy);
        }
    }
}

static void data_that_does_not_fit_stays_in_the_code(void **state)
{
    struct rsbx_wasm_parsed parsed;
    uint8_t copy[sizeof sample];

    (void)state;
    memcpy(copy, sample, sizeof sample);
    copy[sizeof sample - 3 - 0] = 0x0b;
    copy[sizeof sample - 4] = 0x7f; /* the last one at -1, the end of 4 GiB */
    assert_int_equal(parse(&parsed, copy, sizeof copy), 0);
    assert_int_equal(parsed.image.length, 0);
    assert_int_equal(parsed.bare.length, sizeof sample - CUSTOM_BYTES);
    rsbx_wasm_parsed_dispose(&parsed);
}

static void imports_have_names_and_types(void **state)
{
    const struct rsbx_wasm_import *import = rsbx_wasm_import_find("path_open", 9);

    (void)state;
    assert_non_null(import);
    assert_string_equal(import->type, "iiiiillii:i");
    assert_null(rsbx_wasm_import_find("path_open", 8));
    assert_null(rsbx_wasm_import_find("path_open2", 10));
    assert_null(rsbx_wasm_import_find("", 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(data_is_laid_out_in_its_order),
        cmocka_unit_test(cut_modules_are_refused),
        cmocka_unit_test(changed_modules_do_no_harm),
        cmocka_unit_test(data_that_does_not_fit_stays_in_the_code),
        cmocka_unit_test(imports_have_names_and_types),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
