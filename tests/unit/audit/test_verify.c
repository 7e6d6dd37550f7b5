/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/audit/audit_fixture.h"

#include "base/banned.h"

static int setup(void **state)
{
    return audit_setup(state) == 0 && audit_reopen(AUDIT_LIMIT, NULL) == 0 ? 0 : -1;
}

/* A captured stream and its entry in a record. */
static json_t *captured(const char *name, const char *file, const char *text)
{
    struct rsbx_capture *capture = NULL;
    uint64_t bytes = 0;
    char sha256[65];

    assert_int_equal(rsbx_capture_open(&capture, audit_log, name, NULL), 0);
    assert_int_equal(rsbx_capture_write(capture, text, strlen(text), NULL), 0);
    assert_int_equal(rsbx_capture_seal(&bytes, sha256, capture, NULL), 0);
    rsbx_capture_free(capture);
    return json_pack("{s:s, s:I, s:s}", "file", file, "bytes", (json_int_t)bytes, "sha256", sha256);
}

static void finish_command(json_t *out_entry, json_t *err_entry)
{
    json_t *data = json_pack("{s:o, s:o}", "stdout", out_entry, "stderr", err_entry);

    assert_non_null(data);
    assert_int_equal(
        rsbx_audit_append(audit_log, "command_finished", data, RSBX_AUDIT_ORDINARY, NULL), 0);
    json_decref(data);
}

static void missing_things_are_errors(void **state)
{
    reposbx_audit_report report = { .records = 99 };

    (void)state;
    assert_int_equal(reposbx_audit_verify(&report, "/nowhere/at/all", NULL), REPOSBX_ENOTFOUND);
    assert_int_equal(unlinkat(audit_fd, "events.jsonl", 0), 0);
    assert_int_equal(reposbx_audit_verify(&report, audit_path, NULL), REPOSBX_ENOTFOUND);
    assert_int_equal(mkdirat(audit_fd, "events.jsonl", 0700), 0);
    assert_int_equal(reposbx_audit_verify(&report, audit_path, NULL), REPOSBX_EIO);
    assert_int_equal(reposbx_audit_verify(&report, NULL, NULL), REPOSBX_EINVALID);
    assert_int_equal(report.records, 99);
}

static void streams_are_compared(void **state)
{
    reposbx_audit_report report;

    (void)state;
    finish_command(captured("c1.stdout", "streams/c1.stdout", "hello\n"),
                   captured("c1.stderr", "c1.stderr", ""));
    finish_command(json_null(), json_object());
    report = audit_report();
    assert_int_equal(report.verdict, REPOSBX_AUDIT_OPEN);
    assert_int_equal(report.streams_checked, 2);
    audit_store("streams/c1.stdout", "hellp\n", 6);
    expect_verdict(REPOSBX_AUDIT_TAMPERED, 0, 1);
    audit_store("streams/c1.stdout", "hello\n\n", 7);
    expect_verdict(REPOSBX_AUDIT_TAMPERED, 0, 1);
    audit_store("streams/c1.stdout", "hello\n", 6);
    audit_store("streams/c1.stderr", "x", 1);
    expect_verdict(REPOSBX_AUDIT_TAMPERED, 0, 1);
    assert_non_null(strstr(audit_report().reason, "stderr was changed"));
    assert_int_equal(unlinkat(audit_fd, "streams/c1.stderr", 0), 0);
    expect_verdict(REPOSBX_AUDIT_TAMPERED, 0, 1);
    assert_non_null(strstr(audit_report().reason, "stderr is missing"));
    assert_int_equal(symlinkat("c1.stdout", audit_fd, "streams/c1.stderr"), 0);
    expect_verdict(REPOSBX_AUDIT_TAMPERED, 0, 1);
}

/* As many bytes as a file claims to have are not read when the record says otherwise, nor the same ones
 * for one record after another. */
static void streams_are_read_once(void **state)
{
    RSBX_AUTO(rsbx_json) rsbx_json_ptr entry = captured("c1.stdout", "streams/c1.stdout", "hello\n");
    RSBX_AUTO(rsbx_fd) int fd = -1;

    (void)state;
    finish_command(json_incref(entry), json_null());
    expect_verdict(REPOSBX_AUDIT_OPEN, 1, 0);
    /* A tebibyte of nothing, which takes hours to hash. */
    fd = openat(audit_fd, "streams/c1.stdout", O_WRONLY | O_CLOEXEC);
    assert_int_equal(ftruncate(fd, (off_t)1 << 40), 0);
    expect_verdict(REPOSBX_AUDIT_TAMPERED, 0, 1);
    assert_non_null(strstr(audit_report().reason, "stdout was changed"));
    assert_int_equal(ftruncate(fd, 6), 0); /* the first bytes are as they were */
    expect_verdict(REPOSBX_AUDIT_OPEN, 1, 0);
    finish_command(json_incref(entry), json_null());
    expect_verdict(REPOSBX_AUDIT_TAMPERED, 1, 2);
    assert_non_null(strstr(audit_report().reason, "none of ours"));
}

/* A record that names a file elsewhere makes nothing be read there. */
static void stream_names_stay_inside(void **state)
{
    static const char *const names[] = { "../events.jsonl", "streams/../head.json", "/etc/passwd",
                                         "streams/", "", ".", "..", "streams/a/b" };

    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        assert_int_equal(audit_reopen(AUDIT_LIMIT, NULL), 0);
        finish_command(json_pack("{s:s, s:i, s:s}", "file", names[i], "bytes", 0, "sha256",
                                 RSBX_AUDIT_ZEROS),
                       json_null());
        expect_verdict(REPOSBX_AUDIT_TAMPERED, 0, 1);
        assert_non_null(strstr(audit_report().reason, "none of ours"));
        assert_int_equal(unlinkat(audit_fd, "events.jsonl", 0), 0);
        assert_int_equal(unlinkat(audit_fd, "head.json", 0), 0);
    }
}

static void lost_files_are_seen(void **state)
{
    size_t length;
    char *head;

    (void)state;
    assert_int_equal(audit_append_text("step", "{}", RSBX_AUDIT_ORDINARY), 0);
    assert_int_equal(unlinkat(audit_fd, "events.jsonl", 0), 0);
    expect_verdict(REPOSBX_AUDIT_TAMPERED, 0, 1);
    assert_int_equal(audit_reopen(AUDIT_LIMIT, NULL), REPOSBX_EIO);
    audit_store("events.jsonl", "", 0);
    expect_verdict(REPOSBX_AUDIT_TAMPERED, 0, 1);
    assert_int_equal(audit_reopen(AUDIT_LIMIT, NULL), REPOSBX_EIO);
    head = audit_load("head.json", &length);
    assert_int_equal(length, RSBX_HEAD_BYTES);
    audit_store("head.json", head, length - 1);
    free(head);
    expect_verdict(REPOSBX_AUDIT_TAMPERED, 0, 0);
    assert_int_equal(audit_reopen(AUDIT_LIMIT, NULL), REPOSBX_EIO);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, audit_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(missing_things_are_errors),
        TEST(streams_are_compared),
        TEST(streams_are_read_once),
        TEST(stream_names_stay_inside),
        TEST(lost_files_are_seen),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
