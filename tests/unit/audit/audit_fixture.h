/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RSBX_TESTS_AUDIT_FIXTURE_H
#define RSBX_TESTS_AUDIT_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "audit/audit.h"
#include "audit/record.h"
#include "base/fd.h"

/* A folder for the audit of one test, and the files in it. */
static char audit_path[4096];
static int audit_fd = -1;
static struct rsbx_audit *audit_log;

#define AUDIT_LIMIT (64U * 1024U * 1024U)

static __attribute__((unused)) int audit_setup(void **state)
{
    const char *place = getenv("TMPDIR");

    (void)state;
    /* In memory where that is possible: thousands of synced records on a disk take minutes. */
    if (place == NULL)
        place = access("/dev/shm", W_OK | X_OK) == 0 ? "/dev/shm" : "/tmp";
    (void)snprintf(audit_path, sizeof audit_path, "%s/rsbx-audit-XXXXXX", place);
    if (mkdtemp(audit_path) == NULL)
        return -1;
    audit_fd = open(audit_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return audit_fd >= 0 ? 0 : -1;
}

static __attribute__((unused)) int audit_teardown(void **state)
{
    (void)state;
    rsbx_audit_free(audit_log);
    audit_log = NULL;
    (void)close(audit_fd);
    audit_fd = -1;
    return rsbx_remove_tree_at(AT_FDCWD, audit_path, NULL);
}

/* Opens the log, which stays in `audit_log`; the result code. */
static __attribute__((unused)) int audit_reopen(uint64_t limit, reposbx_error *err)
{
    rsbx_audit_free(audit_log);
    audit_log = NULL;
    return rsbx_audit_open(&audit_log, audit_fd, limit, err);
}

static __attribute__((unused)) int audit_append_text(const char *event, const char *json,
                                                     enum rsbx_audit_weight weight)
{
    json_t *data = json_loads(json, JSON_ALLOW_NUL, NULL);
    int rc;

    assert_non_null(data);
    rc = rsbx_audit_append(audit_log, event, data, weight, NULL);
    json_decref(data);
    return rc;
}

/* A whole file of the folder; free(). */
static __attribute__((unused)) char *audit_load(const char *name, size_t *length)
{
    struct rsbx_buf buf = RSBX_BUF_INIT(128U * 1024U * 1024U);

    assert_int_equal(rsbx_read_file_at(&buf, audit_fd, name, NULL), 0);
    *length = buf.length;
    return rsbx_buf_steal(&buf);
}

static __attribute__((unused)) void audit_store(const char *name, const void *bytes, size_t length)
{
    int fd = openat(audit_fd, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    assert_true(fd >= 0);
    assert_int_equal(rsbx_write_all(fd, bytes, length), 0);
    assert_int_equal(close(fd), 0);
}

static __attribute__((unused)) reposbx_audit_report audit_report(void)
{
    reposbx_audit_report report = { .verdict = -1 };
    reposbx_error err = REPOSBX_ERROR_INIT;
    int rc = reposbx_audit_verify(&report, audit_path, &err);

    if (rc != 0)
        print_error("%s\n", err.message);
    assert_int_equal(rc, 0);
    return report;
}

static __attribute__((unused)) void expect_verdict(int verdict, uint64_t records,
                                                   uint64_t bad_line)
{
    reposbx_audit_report report = audit_report();

    if (report.verdict != verdict || report.records != records || report.bad_line != bad_line)
        print_error("verdict %d, %llu records, line %llu: %s\n", report.verdict,
                    (unsigned long long)report.records, (unsigned long long)report.bad_line,
                    report.reason);
    assert_int_equal(report.verdict, verdict);
    assert_int_equal(report.records, records);
    assert_int_equal(report.bad_line, bad_line);
}

#endif
