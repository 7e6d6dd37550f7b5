/* SPDX-License-Identifier: Apache-2.0 */
#include "codec/json.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/banned.h"

#define REPLACEMENT "\xEF\xBF\xBD"

static json_t *parsed(const char *text)
{
    json_t *document = NULL;
    reposbx_error err = REPOSBX_ERROR_INIT;

    if (rsbx_json_parse(&document, text, strlen(text), "test", &err) != 0)
        fail_msg("%s", err.message);
    return document;
}

static void refused_bytes(const void *bytes, size_t length)
{
    json_t *untouched = json_null();
    json_t *document = untouched;
    reposbx_error err = REPOSBX_ERROR_INIT;

    assert_int_equal(rsbx_json_parse(&document, bytes, length, "the reply", &err),
                     REPOSBX_EMALFORMED);
    assert_ptr_equal(document, untouched);
    assert_int_equal(err.code, REPOSBX_EMALFORMED);
    assert_memory_equal(err.message, "the reply: line ", 16);
}

static void refused(const char *text)
{
    refused_bytes(text, strlen(text));
}

static void accepts_every_kind_of_value(void **state)
{
    static const char *const texts[] = { "{}",   "[]",    "null",
                                         "true", "false", "-3",
                                         "2.5",  "\"\"",  " {\"a\":[1,{\"b\":null}]} \r\n\t" };

    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        json_decref(parsed(texts[i]));
}

static void refuses_what_is_not_one_document(void **state)
{
    static const char *const texts[] = { "",        " ",       "{} x",      "{}{}", "{},",
                                         "nul",     "{\"a\"}", "{a:1}",     "[1,]", "{,}",
                                         "'a'",     "01",      "+1",        "0x10", "1e999",
                                         "NaN",     "[1 2]",   "<html>",    "\"a",  "\"\n\"",
                                         "\"\\x\"", "/**/1",   "{\"a\":1,}" };

    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        refused(texts[i]);
}

static void refuses_duplicate_keys(void **state)
{
    (void)state;
    refused("{\"a\":1,\"a\":1}");
    refused("{\"x\":{\"a\":1,\"b\":2,\"\\u0061\":3}}");
}

static void refuses_nul(void **state)
{
    (void)state;
    refused("\"a\\u0000b\"");
    refused("{\"a\\u0000b\":1}");
    refused_bytes("{}\0", 3);
    refused_bytes("\0{}", 3);
    refused_bytes("\"a\0b\"", 5);
    refused_bytes("\0", 1);
}

static void refuses_bad_utf8(void **state)
{
    (void)state;
    refused("\"\xFF\"");
    refused("\"\xC0\x80\"");         /* overlong */
    refused("\"\xED\xA0\x80\"");     /* a surrogate */
    refused("\"\xF4\x90\x80\x80\""); /* above U+10FFFF */
    refused("\"\xE2\x82\"");
    refused("\"\\uD800\"");
    refused("\"\\uDC00\\uD800\"");
    refused("\xEF\xBB\xBF{}"); /* a byte order mark is no white space */
}

static void bounds_nesting(void **state)
{
    static char text[200001];

    (void)state;
    memset(text, '[', 100000);
    memset(text + 100000, ']', 100000);
    refused_bytes(text, 200000);
    refused_bytes(text, 100000);
    for (size_t i = 0; i < 100000; i += 5)
        memcpy(text + i, "{\"a\":", 5);
    refused_bytes(text, 100000);
}

static void refuses_a_document_cut_anywhere(void **state)
{
    static const char text[] =
        "{\"ID\":\"sha256:ab\\u00e9\",\"n\":[1,-2.5,true,null,{\"\xC3\xA9\":\"\\\"\"}],\"z\":{}}";

    (void)state;
    json_decref(parsed(text));
    for (size_t length = 0; length < sizeof text - 1; length++)
        refused_bytes(text, length);
}

static void says_where(void **state)
{
    json_t *document = NULL;
    reposbx_error err = REPOSBX_ERROR_INIT;
    static const char text[] = "{\n \"a\": 1,\n \"b\" 2}";

    (void)state;
    assert_int_equal(rsbx_json_parse(&document, text, strlen(text), "policy", &err),
                     REPOSBX_EMALFORMED);
    assert_memory_equal(err.message, "policy: line 3 column 6: ", 25);
}

static void writes_ascii_in_order(void **state)
{
    RSBX_AUTO(rsbx_json)
    rsbx_json_ptr document =
        parsed("{\"b\": 1, \"a\": \"\xC3\xA9\xF0\x9F\x98\x80\\u2028\\u001b\\n\"}");
    RSBX_AUTO(rsbx_text) char *text = NULL;
    RSBX_AUTO(rsbx_text) char *sorted = NULL;

    (void)state;
    assert_int_equal(rsbx_json_text(&text, document, NULL), 0);
    assert_string_equal(text, "{\"b\":1,\"a\":\"\\u00E9\\uD83D\\uDE00\\u2028\\u001B\\n\"}");
    assert_int_equal(rsbx_json_canonical(&sorted, document, NULL), 0);
    assert_string_equal(sorted, "{\"a\":\"\\u00E9\\uD83D\\uDE00\\u2028\\u001B\\n\",\"b\":1}");
}

static void reads_back_what_it_writes(void **state)
{
    static const char *const texts[] = { "3", "\"x\"", "[]",
                                         "{\"\":[0.1,1e300,-9007199254740993]}" };

    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        RSBX_AUTO(rsbx_json) rsbx_json_ptr first = parsed(texts[i]);
        RSBX_AUTO(rsbx_json) rsbx_json_ptr second = NULL;
        RSBX_AUTO(rsbx_text) char *text = NULL;

        assert_int_equal(rsbx_json_text(&text, first, NULL), 0);
        second = parsed(text);
        assert_true(json_equal(first, second));
    }
}

static void becomes(const void *bytes, size_t length, const char *wanted, size_t wanted_length)
{
    RSBX_AUTO(rsbx_json) rsbx_json_ptr value = rsbx_json_bytes(bytes, length);

    assert_true(json_is_string(value));
    assert_int_equal(json_string_length(value), wanted_length);
    assert_memory_equal(json_string_value(value), wanted, wanted_length + 1);
}

static void makes_text_of_any_bytes(void **state)
{
    (void)state;
    becomes("", 0, "", 0);
    becomes("plain \xC3\xA9", 8, "plain \xC3\xA9", 8);
    becomes("a\0b", 3, "a\0b", 3);
    becomes("\xFFx\xFE", 3, REPLACEMENT "x" REPLACEMENT, 7);
    becomes("\xE2\x82", 2, REPLACEMENT REPLACEMENT, 6);
    becomes("\xED\xA0\x80", 3, REPLACEMENT REPLACEMENT REPLACEMENT, 9);
}

static void every_byte_becomes_sound_text(void **state)
{
    char bytes[256 * 3];

    (void)state;
    for (int i = 0; i < 256; i++)
        memset(bytes + 3 * i, i == 0 ? 1 : i, 3);
    for (size_t length = 0; length <= sizeof bytes; length++) {
        RSBX_AUTO(rsbx_json) rsbx_json_ptr value = rsbx_json_bytes(bytes, length);
        RSBX_AUTO(rsbx_json) rsbx_json_ptr again = NULL;
        RSBX_AUTO(rsbx_text) char *text = NULL;

        assert_int_equal(rsbx_json_text(&text, value, NULL), 0);
        again = parsed(text);
        assert_true(json_equal(value, again));
    }
}

static void gets_typed_members(void **state)
{
    RSBX_AUTO(rsbx_json)
    rsbx_json_ptr object = parsed("{\"t\":\"x\",\"n\":7,\"y\":true,\"o\":{},\"l\":[],\"z\":null}");
    const char *text = NULL;
    uint64_t number = 0;
    bool flag = false;
    json_t *node = NULL;

    (void)state;
    assert_int_equal(rsbx_json_get_text(&text, object, "t", "w", NULL), 0);
    assert_string_equal(text, "x");
    assert_int_equal(rsbx_json_get_u64(&number, object, "n", "w", NULL), 0);
    assert_int_equal(number, 7);
    assert_int_equal(rsbx_json_get_bool(&flag, object, "y", "w", NULL), 0);
    assert_true(flag);
    assert_int_equal(rsbx_json_get_node(&node, object, "o", JSON_OBJECT, "w", NULL), 0);
    assert_true(json_is_object(node));
    assert_int_equal(rsbx_json_get_node(&node, object, "l", JSON_ARRAY, "w", NULL), 0);
    assert_true(json_is_array(node));
    assert_int_equal(rsbx_json_get_text_or(&text, object, "z", "d", "w", NULL), 0);
    assert_string_equal(text, "d");
    assert_int_equal(rsbx_json_get_text_or(&text, object, "none", NULL, "w", NULL), 0);
    assert_null(text);
    assert_int_equal(rsbx_json_get_bool_or(&flag, object, "none", true, "w", NULL), 0);
    assert_true(flag);
}

static void refuses_mistyped_members(void **state)
{
    RSBX_AUTO(rsbx_json)
    rsbx_json_ptr object = parsed("{\"t\":\"x\",\"n\":-7,\"r\":7.0,\"y\":1,\"z\":null}");
    RSBX_AUTO(rsbx_json) rsbx_json_ptr array = parsed("[]");
    const char *text = "kept";
    uint64_t number = 9;
    bool flag = true;
    json_t *node = array;
    reposbx_error err = REPOSBX_ERROR_INIT;

    (void)state;
    assert_int_equal(rsbx_json_get_text(&text, object, "n", "reply", &err), REPOSBX_EPROTOCOL);
    assert_string_equal(err.message, "reply: \"n\" is a whole number, not text");
    assert_int_equal(rsbx_json_get_text(&text, object, "gone", "reply", &err), REPOSBX_EPROTOCOL);
    assert_string_equal(err.message, "reply: \"gone\" is missing (text)");
    assert_int_equal(rsbx_json_get_text(&text, object, "z", "reply", NULL), REPOSBX_EPROTOCOL);
    assert_int_equal(rsbx_json_get_text_or(&text, object, "n", "d", "r", NULL), REPOSBX_EPROTOCOL);
    assert_int_equal(rsbx_json_get_text_or(&text, array, "n", "d", "r", NULL), REPOSBX_EPROTOCOL);
    assert_int_equal(rsbx_json_get_text_or(&text, NULL, "n", "d", "r", NULL), REPOSBX_EPROTOCOL);
    assert_int_equal(rsbx_json_get_u64(&number, object, "n", "reply", NULL), REPOSBX_EPROTOCOL);
    assert_int_equal(rsbx_json_get_u64(&number, object, "r", "reply", NULL), REPOSBX_EPROTOCOL);
    assert_int_equal(rsbx_json_get_bool(&flag, object, "y", "reply", NULL), REPOSBX_EPROTOCOL);
    assert_int_equal(rsbx_json_get_bool_or(&flag, object, "y", false, "r", NULL),
                     REPOSBX_EPROTOCOL);
    assert_int_equal(rsbx_json_get_node(&node, object, "t", JSON_OBJECT, "reply", NULL),
                     REPOSBX_EPROTOCOL);
    assert_string_equal(text, "kept");
    assert_int_equal(number, 9);
    assert_true(flag);
    assert_ptr_equal(node, array);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(accepts_every_kind_of_value),
        cmocka_unit_test(refuses_what_is_not_one_document),
        cmocka_unit_test(refuses_duplicate_keys),
        cmocka_unit_test(refuses_nul),
        cmocka_unit_test(refuses_bad_utf8),
        cmocka_unit_test(bounds_nesting),
        cmocka_unit_test(refuses_a_document_cut_anywhere),
        cmocka_unit_test(says_where),
        cmocka_unit_test(writes_ascii_in_order),
        cmocka_unit_test(reads_back_what_it_writes),
        cmocka_unit_test(makes_text_of_any_bytes),
        cmocka_unit_test(every_byte_becomes_sound_text),
        cmocka_unit_test(gets_typed_members),
        cmocka_unit_test(refuses_mistyped_members),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
