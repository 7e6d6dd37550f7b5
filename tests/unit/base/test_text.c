/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/text.h"

#include "base/banned.h"

static size_t encode(unsigned char out[4], uint32_t code)
{
    if (code < 0x80) {
        out[0] = (unsigned char)code;
        return 1;
    }
    if (code < 0x800) {
        out[0] = (unsigned char)(0xC0 | code >> 6);
        out[1] = (unsigned char)(0x80 | (code & 0x3F));
        return 2;
    }
    if (code < 0x10000) {
        out[0] = (unsigned char)(0xE0 | code >> 12);
        out[1] = (unsigned char)(0x80 | (code >> 6 & 0x3F));
        out[2] = (unsigned char)(0x80 | (code & 0x3F));
        return 3;
    }
    out[0] = (unsigned char)(0xF0 | code >> 18);
    out[1] = (unsigned char)(0x80 | (code >> 12 & 0x3F));
    out[2] = (unsigned char)(0x80 | (code >> 6 & 0x3F));
    out[3] = (unsigned char)(0x80 | (code & 0x3F));
    return 4;
}

/* Every character, cut everywhere, behind nothing, a letter and another such character. */
static void a_cut_character_is_left_out(void **state)
{
    (void)state;
    for (uint32_t code = 1; code <= 0x10FFFF; code++) {
        unsigned char text[8], one[4];
        size_t length;

        if (code >= 0xD800 && code <= 0xDFFF)
            continue;
        length = encode(one, code);
        text[0] = 'a';
        memcpy(text + 1, one, length);
        for (size_t cut = 1; cut < length; cut++) {
            assert_int_equal(rsbx_utf8_edge(text, 1 + cut), 1);
            assert_int_equal(rsbx_utf8_edge(one, cut), 0);
        }
        assert_int_equal(rsbx_utf8_edge(text, 1 + length), 1 + length);
        memcpy(text, one, length);
        memcpy(text + length, one, length);
        for (size_t cut = 1; cut < length; cut++)
            assert_int_equal(rsbx_utf8_edge(text, length + cut), length);
    }
}

/* What could never become a character stays: it is not the cut that broke it. */
static void what_is_no_text_stays(void **state)
{
    static const char *const bytes[] = { "",         "a",        "\x80",         "a\x80\x80\x80",
                                         "\xc0",     "\xc1",     "\xff",         "\xf5\x80\x80",
                                         "\xe0\x80", "\xed\xa0", "\xf0\x80\x80", "\xf4\x90\x80",
                                         "\xc3\xc3\xa9", "\x80\x80\x80\x80\x80" };

    (void)state;
    for (size_t i = 0; i < sizeof bytes / sizeof bytes[0]; i++)
        assert_int_equal(rsbx_utf8_edge(bytes[i], strlen(bytes[i])), strlen(bytes[i]));
}

/* Bytes that are no text count as the three bytes that stand for each of them in one. */
static void a_room_is_filled_with_text(void **state)
{
    static const struct {
        const char *bytes;
        size_t length, room, fits, left;
    } rows[] = {
        { "", 0, 0, 0, 0 },           { "ab", 2, 2, 2, 0 },         { "ab", 2, 1, 1, 0 },
        { "\xff\xfe", 2, 5, 1, 2 },   { "\xff\xfe", 2, 6, 2, 0 },   { "a\xff", 2, 3, 1, 2 },
        { "\xc3\xa9", 2, 1, 0, 1 },   { "\xc3\xa9x", 3, 2, 2, 0 },  { "\xf0\x9f\x98", 3, 8, 2, 2 },
        { "\0\0", 2, 2, 2, 0 },       { "\xed\xa0\x80", 3, 9, 3, 0 },
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        size_t room = rows[i].room;

        assert_int_equal(rsbx_utf8_fit(&room, rows[i].bytes, rows[i].length), rows[i].fits);
        assert_int_equal(room, rows[i].left);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_cut_character_is_left_out),
        cmocka_unit_test(what_is_no_text_stays),
        cmocka_unit_test(a_room_is_filled_with_text),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
