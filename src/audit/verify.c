/* SPDX-License-Identifier: Apache-2.0 */
#include "audit/audit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "audit/record.h"
#include "base/text.h"

#include "base/banned.h"

/*
 * One reading of the log from its start. Each record must carry its own sum, its place in the
 * sequence and the hash of the line before it; the record that the head names must be that one.
 * What lies behind the last good record decides between a crash and a change: an unfinished line
 * that the head does not know of is what a crash leaves; anything else is not ours.
 */
struct checking {
    reposbx_audit_report report;
    int dir_fd;
    bool have_head, head_damaged, head_missing, full, closed;
    struct rsbx_head head;
    json_t *streams; /* the names that records have claimed */
};

static void checking_autop(struct checking *check)
{
    json_decref(check->streams);
}

static void condemn(struct checking *check, int verdict, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void condemn(struct checking *check, int verdict, const char *format, ...)
{
    char raw[512];
    va_list args;

    va_start(args, format);
    if (vsnprintf(raw, sizeof raw, format, args) < 0)
        raw[0] = '\0';
    va_end(args);
    rsbx_text_printable(check->report.reason, sizeof check->report.reason, raw, strlen(raw));
    check->report.verdict = verdict;
    check->report.bad_line = check->report.records + 1;
}

/* ---- captured streams ---- */

/* Size and hash of a stream; false when it is not there as a regular file. One of another size than
 * wanted is not read: a file with holes may be as long as it likes. */
static bool hash_stream(uint64_t *bytes, char sha256[RSBX_SHA256_HEX_BYTES], int folder_fd,
                        const char *name, uint64_t wanted)
{
    RSBX_AUTO(rsbx_fd) int fd =
        openat(folder_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    struct stat facts;

    if (fd < 0 || fstat(fd, &facts) != 0 || !S_ISREG(facts.st_mode))
        return false;
    *bytes = (uint64_t)facts.st_size;
    sha256[0] = '\0';
    return *bytes != wanted || rsbx_sha256_file(sha256, bytes, fd, wanted, name, NULL) == 0;
}

/* A stream belongs to one command; a log of many records that claim the same would be read as often. */
static bool claim(struct checking *check, const char *name)
{
    if (check->streams == NULL)
        check->streams = json_object();
    return json_object_get(check->streams, name) == NULL &&
           json_object_set_new(check->streams, name, json_true()) == 0;
}

/* Compares the file of one stream with its entry; an entry without a file claims nothing. */
static bool stream_good(struct checking *check, const json_t *data, const char *stream)
{
    static const char folder[] = RSBX_AUDIT_STREAMS "/";
    const json_t *entry = json_object_get(data, stream);
    const char *name = json_string_value(json_object_get(entry, "file"));
    const json_t *size = json_object_get(entry, "bytes");
    const char *wanted = json_string_value(json_object_get(entry, "sha256"));
    RSBX_AUTO(rsbx_fd) int folder_fd = -1;
    char sha256[RSBX_SHA256_HEX_BYTES];
    uint64_t bytes = 0;

    if (name == NULL)
        return true;
    if (strncmp(name, folder, sizeof folder - 1) == 0)
        name += sizeof folder - 1;
    if (name[0] == '\0' || name[0] == '.' || strchr(name, '/') != NULL || wanted == NULL ||
        !json_is_integer(size) || json_integer_value(size) < 0 || !claim(check, name)) {
        condemn(check, REPOSBX_AUDIT_TAMPERED, "the entry of its %s is none of ours", stream);
        return false;
    }
    folder_fd = openat(check->dir_fd, RSBX_AUDIT_STREAMS,
                       O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (folder_fd < 0 || !hash_stream(&bytes, sha256, folder_fd, name,
                                       (uint64_t)json_integer_value(size))) {
        condemn(check, REPOSBX_AUDIT_TAMPERED, "its %s is missing: streams/%s", stream, name);
        return false;
    }
    check->report.streams_checked++;
    if ((json_int_t)bytes != json_integer_value(size) || strcmp(sha256, wanted) != 0) {
        condemn(check, REPOSBX_AUDIT_TAMPERED, "its %s was changed: streams/%s", stream, name);
        return false;
    }
    return true;
}

/* ---- records ---- */

/* The record that the head names is this one. */
static bool head_good(struct checking *check, uint64_t start, uint64_t end)
{
    if (!check->have_head || check->report.records + 1 != check->head.records)
        return true;
    return check->head.start == start && check->head.end == end &&
           check->head.full == check->full;
}

static bool record_good(struct checking *check, const char *line, size_t length, uint64_t start,
                        bool last)
{
    RSBX_AUTO(rsbx_record) struct rsbx_record record = { .data = NULL };
    reposbx_audit_report *report = &check->report;
    reposbx_error err = REPOSBX_ERROR_INIT;
    char sha256[RSBX_SHA256_HEX_BYTES];

    if (rsbx_record_parse(&record, line, length, &err) != 0) {
        /* Blocks may reach the disk out of order: a line with its end but without its middle. */
        bool crash = last && check->have_head && check->head.records <= report->records &&
                     !check->closed;

        condemn(check, crash ? REPOSBX_AUDIT_TORN : REPOSBX_AUDIT_TAMPERED,
                "no record of ours: %s", err.message);
        return false;
    }
    if (record.seq != report->records) {
        condemn(check, REPOSBX_AUDIT_TAMPERED, "record %llu stands where %llu belongs",
                (unsigned long long)record.seq, (unsigned long long)report->records);
        return false;
    }
    if (strcmp(record.prev, report->head) != 0) {
        condemn(check, REPOSBX_AUDIT_TAMPERED, "it does not follow the record before it");
        return false;
    }
    if (check->closed) {
        condemn(check, REPOSBX_AUDIT_TAMPERED, "a record stands behind the final one");
        return false;
    }
    check->full = check->full || strcmp(record.event, RSBX_AUDIT_FULL_EVENT) == 0;
    rsbx_sha256_hex(sha256, line, length);
    if (!head_good(check, start, start + length + 1) ||
        (check->have_head && check->head.records == report->records + 1 &&
         strcmp(check->head.sha256, sha256) != 0)) {
        condemn(check, REPOSBX_AUDIT_TAMPERED, "it is not the record that head.json names");
        return false;
    }
    if (strcmp(record.event, "command_finished") == 0 &&
        (!stream_good(check, record.data, "stdout") || !stream_good(check, record.data, "stderr")))
        return false;
    check->closed = strcmp(record.event, RSBX_AUDIT_CLOSED_EVENT) == 0;
    memcpy(report->head, sha256, sizeof report->head);
    report->records++;
    return true;
}

static void end_of_log(struct checking *check, enum rsbx_line_kind kind, size_t torn_bytes)
{
    reposbx_audit_report *report = &check->report;

    if (check->have_head && check->head.records > report->records)
        condemn(check, REPOSBX_AUDIT_TAMPERED,
                "the log ends before record %llu, which was acknowledged",
                (unsigned long long)(check->head.records - 1));
    else if (kind == RSBX_LINE_TORN && check->closed)
        condemn(check, REPOSBX_AUDIT_TAMPERED, "bytes stand behind the final record");
    else if (kind == RSBX_LINE_TORN)
        condemn(check, REPOSBX_AUDIT_TORN, "the last line ends after %zu bytes", torn_bytes);
    else
        report->verdict = check->closed ? REPOSBX_AUDIT_WHOLE : REPOSBX_AUDIT_OPEN;
}

static int check_log(struct checking *check, int log_fd, uint64_t log_bytes, reposbx_error *err)
{
    RSBX_AUTO(rsbx_lines) struct rsbx_lines lines = { .fd = -1 };

    rsbx_lines_init(&lines, log_fd, 0);
    for (;;) {
        uint64_t start = lines.offset;
        enum rsbx_line_kind kind;
        const char *line;
        size_t length;
        int rc = rsbx_lines_next(&kind, &line, &length, &lines, err);

        if (rc != 0)
            return rc;
        if (kind == RSBX_LINE_LONG) {
            condemn(check, REPOSBX_AUDIT_TAMPERED, "the line is longer than any record");
            return REPOSBX_OK;
        }
        if (kind != RSBX_LINE_WHOLE) {
            end_of_log(check, kind, length);
            return REPOSBX_OK;
        }
        if (!record_good(check, line, length, start, lines.offset == log_bytes))
            return REPOSBX_OK;
    }
}

static int read_head(struct checking *check, reposbx_error *err)
{
    int rc = rsbx_head_read(&check->head, check->dir_fd, err);

    check->have_head = rc == 0;
    check->head_damaged = rc == REPOSBX_EMALFORMED;
    check->head_missing = rc == REPOSBX_ENOTFOUND;
    /* A head for an empty log holds nothing but zeros. */
    if (rc == 0 && check->head.records == 0 &&
        (check->head.start != 0 || check->head.end != 0 || check->head.full ||
         strcmp(check->head.sha256, RSBX_AUDIT_ZEROS) != 0)) {
        check->have_head = false;
        check->head_damaged = true;
    }
    return rc == REPOSBX_ENOTFOUND || rc == REPOSBX_EMALFORMED ? REPOSBX_OK : rc;
}

static int no_log(struct checking *check, const char *folder, int error, reposbx_error *err)
{
    errno = error;
    if (errno == ENOENT && check->have_head && check->head.records > 0) {
        condemn(check, REPOSBX_AUDIT_TAMPERED, "events.jsonl is missing");
        return REPOSBX_OK;
    }
    return rsbx_fail_errno(err, errno == ENOENT ? REPOSBX_ENOTFOUND : REPOSBX_EIO,
                           "cannot open %s/%s", folder, RSBX_AUDIT_LOG);
}

int reposbx_audit_verify(reposbx_audit_report *out, const char *folder, reposbx_error *err)
{
    __attribute__((cleanup(checking_autop))) struct checking check = {
        .report = { .head = RSBX_AUDIT_ZEROS }
    };
    RSBX_AUTO(rsbx_fd) int dir_fd = -1;
    RSBX_AUTO(rsbx_fd) int log_fd = -1;
    struct stat facts;
    int rc, error;

    if (out == NULL || folder == NULL)
        return rsbx_fail(err, REPOSBX_EINVALID, "no folder or report given");
    dir_fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir_fd < 0)
        return rsbx_fail_errno(err, errno == ENOENT ? REPOSBX_ENOTFOUND : REPOSBX_EIO,
                               "cannot open the audit folder %s", folder);
    check.dir_fd = dir_fd;
    /* Opened before the head is read: the head is made first, so beside a log that is there it must be. Read
     * behind it: a log that is being written only grows, so it is never behind the head that we hold. */
    log_fd = openat(dir_fd, RSBX_AUDIT_LOG, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    error = errno;
    rc = read_head(&check, err);
    if (rc != 0)
        return rc;
    if (log_fd < 0)
        rc = no_log(&check, folder, error, err);
    else if (fstat(log_fd, &facts) != 0 || !S_ISREG(facts.st_mode))
        rc = rsbx_fail(err, REPOSBX_EIO, "%s/%s is not a regular file", folder, RSBX_AUDIT_LOG);
    else
        rc = check_log(&check, log_fd, (uint64_t)facts.st_size, err);
    if (rc == 0 && (check.head_damaged || check.head_missing) &&
        check.report.verdict != REPOSBX_AUDIT_TAMPERED) {
        condemn(&check, REPOSBX_AUDIT_TAMPERED, "head.json is %s",
                check.head_damaged ? "damaged" : "missing");
        check.report.bad_line = 0; /* no line of the log is */
    }
    if (rc == 0)
        *out = check.report;
    return rc;
}
