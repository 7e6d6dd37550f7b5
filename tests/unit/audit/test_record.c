/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/audit/audit_fixture.h"

#include "base/limits.h"

#include "base/banned.h"

static struct rsbx_record sample(json_t *data)
{
    struct rsbx_record record = { .seq = 7,
                                  .time = "2026-01-02T03:04:05.678Z",
                                  .monotonic_ns = 123456789012345,
                                  .boot_id = "01234567-89ab-cdef-0123-456789abcdef",
                                  .event = "command_started",
                                  .data = data,
                                  .prev = RSBX_AUDIT_ZEROS };

    return record;
}

/* Writes, looks at the line, reads it again. Takes the reference. */
static void round_trip(json_t *data)
{
    struct rsbx_record record = sample(data), again = { .data = NULL };
    struct rsbx_buf line = RSBX_BUF_INIT(RSBX_MAX_RECORD_BYTES);

    assert_non_null(data);
    assert_int_equal(rsbx_record_write(&line, &record, NULL), 0);
    for (size_t i = 0; i < line.length; i++)
        assert_in_range((unsigned char)line.data[i], 0x20, 0x7F);
    assert_int_equal(rsbx_record_parse(&again, line.data, line.length, NULL), 0);
    assert_int_equal(again.seq, record.seq);
    assert_int_equal(again.monotonic_ns, record.monotonic_ns);
    assert_string_equal(again.time, record.time);
    assert_string_equal(again.boot_id, record.boot_id);
    assert_string_equal(again.event, record.event);
    assert_string_equal(again.prev, record.prev);
    assert_true(json_equal(again.data, data));
    json_decref(again.data);
    json_decref(data);
    rsbx_buf_dispose(&line);
}

static void line_has_the_documented_form(void **state)
{
    json_t *data = json_pack("{s:i}", "x", 1);
    struct rsbx_record record = sample(data);
    struct rsbx_buf line = RSBX_BUF_INIT(4096);
    static const char start[] =
        "{\"seq\":7,\"time\":\"2026-01-02T03:04:05.678Z\",\"monotonic_ns\":123456789012345,"
        "\"boot_id\":\"01234567-89ab-cdef-0123-456789abcdef\",\"event\":\"command_started\","
        "\"data\":{\"x\":1},\"prev\":\"" RSBX_AUDIT_ZEROS "\"";
    char sum[RSBX_SHA256_HEX_BYTES], end[128];

    (void)state;
    assert_int_equal(rsbx_record_write(&line, &record, NULL), 0);
    rsbx_sha256_hex(sum, start, strlen(start));
    (void)snprintf(end, sizeof end, ",\"sum\":\"%s\"}", sum);
    assert_memory_equal(line.data, start, strlen(start));
    assert_string_equal(line.data + strlen(start), end);
    rsbx_buf_dispose(&line);
    json_decref(data);
}

/* Each byte and each character that could break or disguise a line, in values and names. */
static void any_text_is_one_ascii_line(void **state)
{
    static const char *const texts[] = {
        "", "\n", "\r\n", "\x1b[31m", "\x7f", "\xe2\x80\xa8\xe2\x80\xa9", "\xe2\x80\xae" "abc",
        "\xf0\x9f\x98\x80", "\"}\n{\"seq\":0}", "\\", "\\u0000", "\xc2\x85", "\xef\xbb\xbf",
        "\xf4\x8f\xbf\xbf", "\",\"sum\":\"",
    };

    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        json_t *data = json_object();

        assert_int_equal(json_object_set_new(data, "text", json_string(texts[i])), 0);
        assert_int_equal(json_object_set_new(data, texts[i], json_true()), 0);
        round_trip(data);
    }
    for (int byte = 0; byte < 256; byte++) {
        char bytes[3] = { 'a', (char)byte, 'b' };
        json_t *data = json_object();

        assert_int_equal(json_object_set_new(data, "argv", rsbx_json_bytes(bytes, 3)), 0);
        round_trip(data);
    }
}

static void any_value_comes_back(void **state)
{
    (void)state;
    round_trip(json_object());
    round_trip(json_pack("{s:I, s:I, s:f, s:f, s:f, s:n, s:b, s:b}", "least",
                         (json_int_t)INT64_MIN, "most", (json_int_t)INT64_MAX, "tenth", 0.1,
                         "large", 1.7976931348623157e308, "small", 5e-324, "null", "yes", 1, "no",
                         0));
    round_trip(json_pack("{s:[[{s:{}}],[]]}", "nested", "a"));
}

static void impossible_records_are_refused(void **state)
{
    static const char *const events[] = { "", "A", "a b", "a\n", "1a", "a-b",
                                          "a2345678901234567890123456789012345678901234567"
                                          "8901234567890123" };
    json_t *data = json_object(), *list = json_array();
    struct rsbx_buf line = RSBX_BUF_INIT(4096);

    (void)state;
    for (size_t i = 0; i < sizeof events / sizeof events[0]; i++) {
        struct rsbx_record record = sample(data);

        memcpy(record.event, events[i], strlen(events[i]) + 1);
        if (strlen(events[i]) < RSBX_EVENT_BYTES - 1)
            assert_int_equal(rsbx_record_write(&line, &record, NULL), REPOSBX_EINVALID);
        else
            assert_int_equal(rsbx_record_write(&line, &record, NULL), 0);
    }
    {
        struct rsbx_record record = sample(list);

        assert_int_equal(rsbx_record_write(&line, &record, NULL), REPOSBX_EINVALID);
    }
    json_decref(data);
    json_decref(list);
    rsbx_buf_dispose(&line);
}

/* JSON that is nested deeper than a reader takes is refused when it is written. */
static void deep_data_is_refused(void **state)
{
    json_t *data = json_object();
    struct rsbx_record record;
    struct rsbx_buf line = RSBX_BUF_INIT(RSBX_MAX_RECORD_BYTES);

    (void)state;
    for (int i = 0; i < 2100; i++) {
        json_t *outer = json_object();

        assert_int_equal(json_object_set_new(outer, "a", data), 0);
        data = outer;
    }
    record = sample(data);
    assert_int_equal(rsbx_record_write(&line, &record, NULL), REPOSBX_EINVALID);
    json_decref(data);
    rsbx_buf_dispose(&line);
}

static void size_is_bounded(void **state)
{
    size_t length = 10U * 1024U * 1024U;
    char *text = malloc(length);
    json_t *data = json_object();
    struct rsbx_record record;
    struct rsbx_buf line = RSBX_BUF_INIT(RSBX_MAX_RECORD_BYTES);

    (void)state;
    assert_non_null(text);
    memset(text, 'a', length);
    assert_int_equal(json_object_set_new(data, "argv", json_stringn(text, length)), 0);
    record = sample(data);
    assert_int_equal(rsbx_record_write(&line, &record, NULL), REPOSBX_ELIMIT);
    json_decref(data);
    rsbx_buf_dispose(&line);
    free(text);
}

/* A line whose sum is right but which is no record: the shape is looked at too. */
static void shapes_are_strict(void **state)
{
    static const char good[] =
        "{\"seq\":0,\"time\":\"t\",\"monotonic_ns\":1,\"boot_id\":\"b\",\"event\":\"e\","
        "\"data\":{},\"prev\":\"" RSBX_AUDIT_ZEROS "\"";
    static const char *const bad[] = {
        "[1",
        "{\"seq\":0",
        "{\"seq\":-1,\"time\":\"t\",\"monotonic_ns\":1,\"boot_id\":\"b\",\"event\":\"e\","
        "\"data\":{},\"prev\":\"" RSBX_AUDIT_ZEROS "\"",
        "{\"seq\":0,\"time\":\"t\",\"monotonic_ns\":1,\"boot_id\":\"b\",\"event\":\"e\","
        "\"data\":[],\"prev\":\"" RSBX_AUDIT_ZEROS "\"",
        "{\"seq\":0,\"time\":\"t\",\"monotonic_ns\":1,\"boot_id\":\"b\",\"event\":\"E e\","
        "\"data\":{},\"prev\":\"" RSBX_AUDIT_ZEROS "\"",
        "{\"seq\":0,\"time\":\"t\",\"monotonic_ns\":1,\"boot_id\":\"b\",\"event\":\"e\","
        "\"data\":{},\"prev\":\"0\"",
        "{\"seq\":0,\"time\":\"t\",\"monotonic_ns\":1,\"boot_id\":\"b\",\"event\":\"e\","
        "\"data\":{},\"more\":1,\"prev\":\"" RSBX_AUDIT_ZEROS "\"",
        "{\"seq\":0,\"seq\":0,\"time\":\"t\",\"monotonic_ns\":1,\"boot_id\":\"b\",\"event\":\"e\","
        "\"data\":{},\"prev\":\"" RSBX_AUDIT_ZEROS "\"",
        "{\"seq\":0,\"time\":\"0123456789012345678901234567890123456789\",\"monotonic_ns\":1,"
        "\"boot_id\":\"b\",\"event\":\"e\",\"data\":{},\"prev\":\"" RSBX_AUDIT_ZEROS "\"",
    };
    struct rsbx_record record = { .data = NULL };
    char line[1024], sum[RSBX_SHA256_HEX_BYTES];

    (void)state;
    rsbx_sha256_hex(sum, good, strlen(good));
    (void)snprintf(line, sizeof line, "%s,\"sum\":\"%s\"}", good, sum);
    assert_int_equal(rsbx_record_parse(&record, line, strlen(line), NULL), 0);
    json_decref(record.data);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        reposbx_error err = REPOSBX_ERROR_INIT;

        rsbx_sha256_hex(sum, bad[i], strlen(bad[i]));
        (void)snprintf(line, sizeof line, "%s,\"sum\":\"%s\"}", bad[i], sum);
        assert_int_equal(rsbx_record_parse(&record, line, strlen(line), &err), REPOSBX_EMALFORMED);
        assert_int_equal(err.code, REPOSBX_EMALFORMED);
        assert_string_not_equal(err.message, "");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(line_has_the_documented_form),
        cmocka_unit_test(any_text_is_one_ascii_line),
        cmocka_unit_test(any_value_comes_back),
        cmocka_unit_test(impossible_records_are_refused),
        cmocka_unit_test(deep_data_is_refused),
        cmocka_unit_test(size_is_bounded),
        cmocka_unit_test(shapes_are_strict),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
