/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/audit/audit_fixture.h"

#include "base/limits.h"

#include "base/banned.h"

struct seen {
    size_t count;
    size_t stop_at;
    char last[512];
    size_t last_length;
};

static int take(void *payload, const char *line, size_t length)
{
    struct seen *seen = payload;

    if (seen->stop_at != 0 && seen->count + 1 == seen->stop_at)
        return -77;
    seen->count++;
    seen->last_length = length;
    (void)snprintf(seen->last, sizeof seen->last, "%.*s", (int)(length < 500 ? length : 500), line);
    return 0;
}

static void whole_lines_from_an_offset(void **state)
{
    struct seen seen = { .count = 0 };
    uint64_t offset = 0;

    (void)state;
    audit_store("events.jsonl", "one\n\nthree\nfour", 15);
    assert_int_equal(reposbx_audit_read(audit_path, &offset, take, &seen, NULL), 0);
    assert_int_equal(seen.count, 3);
    assert_string_equal(seen.last, "three");
    assert_int_equal(offset, 11);
    assert_int_equal(reposbx_audit_read(audit_path, &offset, take, &seen, NULL), 0);
    assert_int_equal(seen.count, 3);
    audit_store("events.jsonl", "one\n\nthree\nfour\n", 16);
    assert_int_equal(reposbx_audit_read(audit_path, &offset, take, &seen, NULL), 0);
    assert_int_equal(seen.count, 4);
    assert_string_equal(seen.last, "four");
    assert_int_equal(offset, 16);
}

static void a_reader_may_stop(void **state)
{
    struct seen seen = { .stop_at = 2 };
    uint64_t offset = 0;

    (void)state;
    audit_store("events.jsonl", "one\ntwo\nthree\n", 14);
    assert_int_equal(reposbx_audit_read(audit_path, &offset, take, &seen, NULL), -77);
    assert_int_equal(seen.count, 1);
    assert_int_equal(offset, 4); /* the refused line comes again */
}

static void faults_are_typed(void **state)
{
    struct seen seen = { .count = 0 };
    uint64_t offset = 0;
    size_t length = RSBX_MAX_RECORD_BYTES + 2;
    char *text = malloc(length);

    (void)state;
    assert_non_null(text);
    assert_int_equal(reposbx_audit_read("/nowhere/at/all", &offset, take, &seen, NULL),
                     REPOSBX_ENOTFOUND);
    assert_int_equal(reposbx_audit_read(audit_path, &offset, take, &seen, NULL), REPOSBX_ENOTFOUND);
    audit_store("events.jsonl", "one\n", 4);
    offset = 5;
    assert_int_equal(reposbx_audit_read(audit_path, &offset, take, &seen, NULL), REPOSBX_EIO);
    assert_int_equal(reposbx_audit_read(NULL, &offset, take, &seen, NULL), REPOSBX_EINVALID);
    memset(text, 'a', length);
    text[length - 1] = '\n';
    audit_store("events.jsonl", text, length);
    offset = 0;
    assert_int_equal(reposbx_audit_read(audit_path, &offset, take, &seen, NULL),
                     REPOSBX_EMALFORMED);
    assert_int_equal(seen.count, 0);
    audit_store("events.jsonl", text + 1, length - 1); /* exactly the bound */
    assert_int_equal(reposbx_audit_read(audit_path, &offset, take, &seen, NULL), 0);
    assert_int_equal(seen.last_length, RSBX_MAX_RECORD_BYTES);
    free(text);
}

/* Line ends at every place around the edges of the pieces that are read. */
static void piece_edges_do_not_matter(void **state)
{
    struct rsbx_buf text = RSBX_BUF_INIT(2000000);

    (void)state;
    for (size_t first = 65530; first < 65545; first++) {
        struct seen seen = { .count = 0 };
        uint64_t offset = 0;

        rsbx_buf_clear(&text);
        memset(rsbx_buf_reserve(&text, first, NULL), 'x', first);
        text.length += first;
        assert_int_equal(rsbx_buf_text(&text, "\na\n\nb\n", NULL), 0);
        audit_store("events.jsonl", text.data, text.length);
        assert_int_equal(reposbx_audit_read(audit_path, &offset, take, &seen, NULL), 0);
        assert_int_equal(seen.count, 4);
        assert_string_equal(seen.last, "b");
        assert_int_equal(offset, text.length);
    }
    rsbx_buf_dispose(&text);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, audit_setup, audit_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(whole_lines_from_an_offset),
        TEST(a_reader_may_stop),
        TEST(faults_are_typed),
        TEST(piece_edges_do_not_matter),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
