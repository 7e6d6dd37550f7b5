/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/audit/audit_fixture.h"

#include "base/limits.h"

#include "base/banned.h"

static void append_ok(const char *event)
{
    assert_int_equal(audit_append_text(event, "{\"a\":1}", RSBX_AUDIT_ORDINARY), 0);
}

static void a_new_log_is_empty_and_private(void **state)
{
    struct stat facts;

    (void)state;
    assert_int_equal(audit_reopen(AUDIT_LIMIT, NULL), 0);
    assert_int_equal(rsbx_audit_count(audit_log), 0);
    assert_string_equal(rsbx_audit_head(audit_log), RSBX_AUDIT_ZEROS);
    assert_int_equal(rsbx_audit_left(audit_log), AUDIT_LIMIT - RSBX_AUDIT_RESERVE_BYTES);
    assert_int_equal(fstatat(audit_fd, "events.jsonl", &facts, 0), 0);
    assert_int_equal(facts.st_mode & 07777, 0600);
    assert_int_equal(facts.st_size, 0);
    assert_int_equal(fstatat(audit_fd, "head.json", &facts, 0), 0);
    assert_int_equal(facts.st_mode & 07777, 0600);
    expect_verdict(REPOSBX_AUDIT_OPEN, 0, 0);
}

/* The chain as a stranger would check it: each prev is the hash of the line before. */
static void records_are_chained(void **state)
{
    char prev[RSBX_SHA256_HEX_BYTES] = RSBX_AUDIT_ZEROS;
    uint64_t count = 0;
    size_t length;
    char *text, *line;

    (void)state;
    assert_int_equal(audit_reopen(AUDIT_LIMIT, NULL), 0);
    for (int i = 0; i < 5; i++)
        append_ok("step");
    assert_int_equal(audit_append_text("sandbox_closed", "{}", RSBX_AUDIT_FINAL), 0);
    text = audit_load("events.jsonl", &length);
    for (line = text; *line != '\0';) {
        char *end = strchr(line, '\n');
        json_t *record;

        assert_non_null(end);
        *end = '\0';
        record = json_loads(line, 0, NULL);
        assert_non_null(record);
        assert_int_equal(json_integer_value(json_object_get(record, "seq")), count);
        assert_string_equal(json_string_value(json_object_get(record, "prev")), prev);
        json_decref(record);
        rsbx_sha256_hex(prev, line, strlen(line));
        count++;
        line = end + 1;
    }
    free(text);
    assert_int_equal(count, 6);
    assert_string_equal(rsbx_audit_head(audit_log), prev);
    assert_string_equal(audit_report().head, prev);
    expect_verdict(REPOSBX_AUDIT_WHOLE, 6, 0);
}

static void a_log_is_continued(void **state)
{
    char head[RSBX_SHA256_HEX_BYTES];

    (void)state;
    for (unsigned int i = 0; i < 10; i++) {
        assert_int_equal(audit_reopen(AUDIT_LIMIT, NULL), 0);
        assert_int_equal(rsbx_audit_count(audit_log), 2 * i);
        if (i > 0)
            assert_string_equal(rsbx_audit_head(audit_log), head);
        append_ok("step");
        append_ok("step");
        memcpy(head, rsbx_audit_head(audit_log), sizeof head);
        expect_verdict(REPOSBX_AUDIT_OPEN, 2 * (i + 1), 0);
    }
}

/* The head is made before the log: a log is never without one, not even an empty one. */
static void a_log_without_its_head_is_refused(void **state)
{
    size_t length, head_length;
    char *log, *head;

    (void)state;
    assert_int_equal(audit_reopen(AUDIT_LIMIT, NULL), 0);
    append_ok("step");
    append_ok("step");
    log = audit_load("events.jsonl", &length);
    head = audit_load("head.json", &head_length);
    assert_int_equal(unlinkat(audit_fd, "head.json", 0), 0);
    for (size_t i = 0; i < 5; i++) {
        const size_t lengths[] = { length, length - 1, length / 2, 1, 0 };

        audit_store("events.jsonl", log, lengths[i]);
        assert_int_equal(audit_report().verdict, REPOSBX_AUDIT_TAMPERED);
        assert_non_null(strstr(audit_report().reason, "head.json is missing"));
        assert_int_equal(audit_report().bad_line, 0);
        assert_int_equal(audit_reopen(AUDIT_LIMIT, NULL), REPOSBX_EIO);
    }
    assert_int_equal(faccessat(audit_fd, "head.json", F_OK, 0), -1);

    audit_store("events.jsonl", log, length);
    audit_store("head.json", head, head_length);
    expect_verdict(REPOSBX_AUDIT_OPEN, 2, 0);
    assert_int_equal(audit_reopen(AUDIT_LIMIT, NULL), 0);
    append_ok("step");
    expect_verdict(REPOSBX_AUDIT_OPEN, 3, 0);
    free(log);
    free(head);
}

/* What a crash between the two leaves: a head of nothing. There is no log to verify, and one can begin. */
static void a_head_alone_is_a_beginning(void **state)
{
    reposbx_audit_report report;

    (void)state;
    assert_int_equal(audit_reopen(AUDIT_LIMIT, NULL), 0);
    assert_int_equal(unlinkat(audit_fd, "events.jsonl", 0), 0);
    assert_int_equal(reposbx_audit_verify(&report, audit_path, NULL), REPOSBX_ENOTFOUND);
    assert_int_equal(audit_reopen(AUDIT_LIMIT, NULL), 0);
    append_ok("step");
    expect_verdict(REPOSBX_AUDIT_OPEN, 1, 0);
}

static void nothing_follows_the_final_record(void **state)
{
    (void)state;
    assert_int_equal(audit_reopen(AUDIT_LIMIT, NULL), 0);
    append_ok("step");
    assert_int_equal(audit_append_text("sandbox_closed", "{}", RSBX_AUDIT_FINAL), 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(audit_append_text("step", "{}", RSBX_AUDIT_ORDINARY), REPOSBX_ECLOSED);
        assert_int_equal(audit_append_text("step", "{}", RSBX_AUDIT_FINAL), REPOSBX_ECLOSED);
        assert_int_equal(audit_append_text("sandbox_closed", "{}", RSBX_AUDIT_FINAL), 0);
        assert_int_equal(rsbx_audit_count(audit_log), 2);
        assert_int_equal(rsbx_audit_left(audit_log), 0);
        assert_int_equal(audit_reopen(AUDIT_LIMIT, NULL), 0);
    }
    expect_verdict(REPOSBX_AUDIT_WHOLE, 2, 0);
}

static void bad_arguments_leave_the_log_usable(void **state)
{
    json_t *list = json_array();

    (void)state;
    assert_int_equal(audit_reopen(AUDIT_LIMIT, NULL), 0);
    assert_int_equal(rsbx_audit_append(audit_log, "step", list, RSBX_AUDIT_ORDINARY, NULL),
                     REPOSBX_EINVALID);
    json_decref(list);
    assert_int_equal(rsbx_audit_append(audit_log, "step", NULL, RSBX_AUDIT_ORDINARY, NULL),
                     REPOSBX_EINVALID);
    assert_int_equal(audit_append_text("no name", "{}", RSBX_AUDIT_ORDINARY), REPOSBX_EINVALID);
    append_ok("step");
    expect_verdict(REPOSBX_AUDIT_OPEN, 1, 0);
}

/* The bound is reached: one record says so, ordinary ones stay out, the closing one fits. */
static void a_full_log_ends_well(void **state)
{
    const uint64_t limit = RSBX_AUDIT_RESERVE_BYTES + 4000;
    uint64_t count;
    size_t length;
    char *text;
    int rc = 0;

    (void)state;
    assert_int_equal(audit_reopen(limit, NULL), 0);
    for (int i = 0; i < 1000 && rc == 0; i++)
        rc = audit_append_text("step", "{\"a\":\"some text\"}", RSBX_AUDIT_ORDINARY);
    assert_int_equal(rc, REPOSBX_ELIMIT);
    count = rsbx_audit_count(audit_log);
    assert_in_range(count, 5, 20);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(audit_append_text("step", "{}", RSBX_AUDIT_ORDINARY), REPOSBX_ELIMIT);
        assert_int_equal(rsbx_audit_charge(audit_log, 1, NULL), REPOSBX_ELIMIT);
        assert_int_equal(rsbx_audit_left(audit_log), 0);
        assert_int_equal(rsbx_audit_count(audit_log), count);
        assert_int_equal(audit_reopen(limit, NULL), 0);
    }
    assert_int_equal(audit_append_text("poisoned", "{}", RSBX_AUDIT_FINAL), 0);
    assert_int_equal(audit_append_text("step", "{}", RSBX_AUDIT_ORDINARY), REPOSBX_ELIMIT);
    assert_int_equal(audit_append_text("sandbox_closed", "{}", RSBX_AUDIT_FINAL), 0);
    expect_verdict(REPOSBX_AUDIT_WHOLE, count + 2, 0);
    text = audit_load("events.jsonl", &length);
    assert_true(length <= limit);
    assert_non_null(strstr(text, "\"event\":\"audit_full\",\"data\":{\"limit_bytes\":69536,"));
    assert_null(strstr(strstr(text, "audit_full") + 1, "audit_full"));
    free(text);
}

static void the_reserve_is_bounded_too(void **state)
{
    const uint64_t limit = RSBX_AUDIT_RESERVE_BYTES + 1000;
    size_t length;
    char *text;
    int rc = 0;

    (void)state;
    assert_int_equal(audit_reopen(limit, NULL), 0);
    for (int i = 0; i < 10000 && rc == 0; i++)
        rc = audit_append_text("closing", "{\"a\":\"0123456789012345678901234567890123456789\"}",
                               RSBX_AUDIT_FINAL);
    assert_int_equal(rc, REPOSBX_ELIMIT);
    text = audit_load("events.jsonl", &length);
    free(text);
    assert_in_range(length, limit - 600, limit);
    expect_verdict(REPOSBX_AUDIT_OPEN, rsbx_audit_count(audit_log), 0);
}

/* A limit below the reserve leaves nothing for ordinary records. */
static void tiny_limits_do_not_wrap_around(void **state)
{
    (void)state;
    assert_int_equal(audit_reopen(1000, NULL), 0);
    assert_int_equal(rsbx_audit_left(audit_log), 0);
    assert_int_equal(audit_append_text("step", "{}", RSBX_AUDIT_ORDINARY), REPOSBX_ELIMIT);
    assert_int_equal(audit_append_text("sandbox_closed", "{}", RSBX_AUDIT_FINAL), 0);
    expect_verdict(REPOSBX_AUDIT_WHOLE, 2, 0);
}

static void streams_count(void **state)
{
    uint64_t left;

    (void)state;
    assert_int_equal(audit_reopen(1000000, NULL), 0);
    left = rsbx_audit_left(audit_log);
    assert_int_equal(rsbx_audit_charge(audit_log, left + 1, NULL), REPOSBX_ELIMIT);
    assert_int_equal(rsbx_audit_charge(audit_log, UINT64_MAX, NULL), REPOSBX_ELIMIT);
    assert_int_equal(rsbx_audit_charge(audit_log, left - 2000, NULL), 0);
    assert_int_equal(rsbx_audit_left(audit_log), 2000);
    append_ok("step");
    assert_in_range(rsbx_audit_left(audit_log), 1400, 1800);
    /* What lies in the folder of streams is counted when the log is opened again. */
    assert_int_equal(mkdirat(audit_fd, "streams", 0700), 0);
    audit_store("streams/x", "0123456789", 10);
    left = 1000000 - RSBX_AUDIT_RESERVE_BYTES;
    assert_int_equal(audit_reopen(1000000, NULL), 0);
    assert_in_range(rsbx_audit_left(audit_log), left - 600 - 10, left - 300);
}

/* Ten megabytes in one record: refused, nothing written, the log goes on. */
static void large_records_are_refused_whole(void **state)
{
    size_t length = 10U * 1024U * 1024U, size;
    char *text = malloc(length), *log;
    json_t *data = json_object();

    (void)state;
    assert_non_null(text);
    memset(text, 'a', length);
    assert_int_equal(audit_reopen(AUDIT_LIMIT, NULL), 0);
    append_ok("step");
    assert_int_equal(json_object_set_new(data, "argv", json_stringn(text, length)), 0);
    assert_int_equal(rsbx_audit_append(audit_log, "large", data, RSBX_AUDIT_ORDINARY, NULL),
                     REPOSBX_ELIMIT);
    assert_int_equal(rsbx_audit_append(audit_log, "large", data, RSBX_AUDIT_FINAL, NULL),
                     REPOSBX_ELIMIT);
    append_ok("step");
    expect_verdict(REPOSBX_AUDIT_OPEN, 2, 0);
    log = audit_load("events.jsonl", &size);
    assert_true(size < 2000);
    free(log);

    /* The largest argv of a request fits, also where each byte is escaped. */
    memset(text, 0x1B, RSBX_MAX_ARGV_BYTES);
    assert_int_equal(json_object_set_new(data, "argv", json_stringn(text, RSBX_MAX_ARGV_BYTES)), 0);
    assert_int_equal(
        rsbx_audit_append(audit_log, "command_started", data, RSBX_AUDIT_ORDINARY, NULL), 0);
    json_decref(data);
    free(text);
    assert_int_equal(audit_reopen(AUDIT_LIMIT, NULL), 0);
    append_ok("step");
    expect_verdict(REPOSBX_AUDIT_OPEN, 4, 0);
}

static void only_regular_files_are_opened(void **state)
{
    reposbx_error err = REPOSBX_ERROR_INIT;

    (void)state;
    assert_int_equal(mkfifoat(audit_fd, "events.jsonl", 0600), 0);
    assert_int_equal(audit_reopen(AUDIT_LIMIT, &err), REPOSBX_EIO);
    assert_int_equal(unlinkat(audit_fd, "events.jsonl", 0), 0);
    audit_store("target", "", 0);
    assert_int_equal(symlinkat("target", audit_fd, "events.jsonl"), 0);
    assert_int_equal(audit_reopen(AUDIT_LIMIT, &err), REPOSBX_EIO);
    assert_int_equal(unlinkat(audit_fd, "events.jsonl", 0), 0);
    assert_int_equal(symlinkat("target", audit_fd, "head.json"), 0);
    assert_int_equal(audit_reopen(AUDIT_LIMIT, &err), REPOSBX_EIO);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, audit_setup, audit_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_new_log_is_empty_and_private),
        TEST(records_are_chained),
        TEST(a_log_without_its_head_is_refused),
        TEST(a_head_alone_is_a_beginning),
        TEST(a_log_is_continued),
        TEST(nothing_follows_the_final_record),
        TEST(bad_arguments_leave_the_log_usable),
        TEST(a_full_log_ends_well),
        TEST(the_reserve_is_bounded_too),
        TEST(tiny_limits_do_not_wrap_around),
        TEST(streams_count),
        TEST(large_records_are_refused_whole),
        TEST(only_regular_files_are_opened),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
