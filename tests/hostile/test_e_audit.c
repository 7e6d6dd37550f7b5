/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/audit/audit_fixture.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

#include "base/clock.h"
#include "base/limits.h"

#include "base/banned.h"

/* Group E of the hostile cases, as far as the log itself can show them: E4 to E7. */

#define RECORDS 9U

/* The sample: a closed log with a captured stream, and the head after each record. */
static char *sample;
static size_t sample_length;
static size_t edges[RECORDS + 1]; /* where each line starts; the last is the length */
static char heads[RECORDS + 1][RSBX_HEAD_BYTES];

static void keep_head(size_t records)
{
    size_t length;
    char *head = audit_load("head.json", &length);

    assert_int_equal(length, RSBX_HEAD_BYTES);
    memcpy(heads[records], head, length);
    free(head);
}

static void append_command(void)
{
    struct rsbx_capture *capture = NULL;
    uint64_t bytes = 0;
    char sha256[65];
    json_t *data;

    assert_int_equal(rsbx_capture_open(&capture, audit_log, "cmd-000001.stdout", NULL), 0);
    assert_int_equal(rsbx_capture_write(capture, "out\nput\n", 8, NULL), 0);
    assert_int_equal(rsbx_capture_seal(&bytes, sha256, capture, NULL), 0);
    rsbx_capture_free(capture);
    data = json_pack("{s:{s:s, s:I, s:s}, s:n}", "stdout", "file", "streams/cmd-000001.stdout",
                     "bytes", (json_int_t)bytes, "sha256", sha256, "stderr");
    assert_non_null(data);
    assert_int_equal(
        rsbx_audit_append(audit_log, "command_finished", data, RSBX_AUDIT_ORDINARY, NULL), 0);
    json_decref(data);
}

static int setup_sample(void **state)
{
    static const char *const steps[][2] = {
        { "sandbox_created", "{\"image\":\"sha256:00\"}" },
        { "command_started", "{\"argv\":[\"sh\",\"-c\",\"echo \\\"x\\\"; \\u2028\\u001b[31m\"]}" },
        { "command_finished", NULL },
        { "step", "{}" },
        { "step", "{}" },
        { "step", "{\"n\":-1.5,\"deep\":[[{\"a\":null}]]}" },
        { "audit_full", "{}" },
        { "closing", "{\"ok\":true}" },
        { "sandbox_closed", "{}" },
    };

    if (audit_setup(state) != 0 || audit_reopen(AUDIT_LIMIT, NULL) != 0)
        return -1;
    keep_head(0);
    for (size_t i = 0; i < RECORDS; i++) {
        if (steps[i][1] == NULL)
            append_command();
        else
            assert_int_equal(audit_append_text(steps[i][0], steps[i][1], RSBX_AUDIT_FINAL), 0);
        keep_head(i + 1);
    }
    sample = audit_load("events.jsonl", &sample_length);
    edges[0] = 0;
    for (size_t at = 0, line = 0; at < sample_length; at++) {
        if (sample[at] == '\n')
            edges[++line] = at + 1;
    }
    assert_int_equal(edges[RECORDS], sample_length);
    return 0;
}

static int teardown_sample(void **state)
{
    free(sample);
    sample = NULL;
    return audit_teardown(state);
}

static size_t line_of(size_t at)
{
    size_t line = 1;

    while (edges[line] <= at)
        line++;
    return line;
}

static void put(int fd, size_t at, char byte)
{
    assert_int_equal(pwrite(fd, &byte, 1, (off_t)at), 1);
}

/* ---- E5: every changed bit ---- */

/* Returns how many changes were tried; each must be found, at its own line. */
static size_t flip_everything(bool with_head)
{
    int fd = openat(audit_fd, "events.jsonl", O_WRONLY | O_CLOEXEC);
    size_t tried = 0;

    assert_true(fd >= 0);
    for (size_t at = 0; at < sample_length; at++) {
        for (int bit = 0; bit < 9; bit++) {
            char changed = (char)(bit < 8 ? sample[at] ^ (1 << bit) : '\n');
            reposbx_audit_report report;

            if (changed == sample[at])
                continue;
            put(fd, at, changed);
            report = audit_report();
            tried++;
            assert_int_equal(report.verdict, REPOSBX_AUDIT_TAMPERED);
            /* The log shows it alone; but without its newline the last line looks like a torn one, and what is
             * found is that the head is not there. */
            if (with_head || at != sample_length - 1)
                assert_int_equal(report.bad_line, line_of(at));
            else
                assert_int_equal(report.bad_line, 0);
            assert_int_equal(report.records, line_of(at) - 1);
            assert_string_not_equal(report.reason, "");
        }
        put(fd, at, sample[at]);
    }
    assert_int_equal(close(fd), 0);
    expect_verdict(with_head ? REPOSBX_AUDIT_WHOLE : REPOSBX_AUDIT_TAMPERED, RECORDS, 0);
    return tried;
}

static void e5_every_flipped_bit_is_found(void **state)
{
    size_t tried;

    (void)state;
    tried = flip_everything(true);
    print_message("%zu bytes: %zu changes with a head, all found\n", sample_length, tried);
    assert_int_equal(unlinkat(audit_fd, "head.json", 0), 0);
    tried = flip_everything(false);
    print_message("%zu bytes: %zu changes without a head, all found\n", sample_length, tried);
}

static void e5_every_flipped_bit_of_the_head_is_found(void **state)
{
    int fd = openat(audit_fd, "head.json", O_WRONLY | O_CLOEXEC);
    size_t tried = 0;

    (void)state;
    assert_true(fd >= 0);
    for (size_t at = 0; at < RSBX_HEAD_BYTES; at++) {
        for (int bit = 0; bit < 8; bit++) {
            put(fd, at, (char)(heads[RECORDS][at] ^ (1 << bit)));
            assert_int_equal(audit_report().verdict, REPOSBX_AUDIT_TAMPERED);
            tried++;
        }
        put(fd, at, heads[RECORDS][at]);
    }
    assert_int_equal(close(fd), 0);
    print_message("%zu changes of the head, all found\n", tried);
}

static void e5_every_flipped_bit_of_a_stream_is_found(void **state)
{
    int fd = openat(audit_fd, "streams/cmd-000001.stdout", O_WRONLY | O_CLOEXEC);
    static const char text[] = "out\nput\n";

    (void)state;
    assert_true(fd >= 0);
    for (size_t at = 0; at < 8; at++) {
        for (int bit = 0; bit < 8; bit++) {
            put(fd, at, (char)(text[at] ^ (1 << bit)));
            expect_verdict(REPOSBX_AUDIT_TAMPERED, 2, 3);
        }
        put(fd, at, text[at]);
    }
    for (off_t length = 0; length < 8; length++) {
        assert_int_equal(ftruncate(fd, length), 0);
        expect_verdict(REPOSBX_AUDIT_TAMPERED, 2, 3);
    }
    assert_int_equal(close(fd), 0);
}

/* ---- E5: every cut ---- */

static void e5_every_cut_is_found(void **state)
{
    size_t torn = 0, open_end = 0;

    (void)state;
    for (size_t length = 0; length < sample_length; length++) {
        size_t whole = line_of(length) - 1;
        bool edge = edges[whole] == length;

        audit_store("events.jsonl", sample, length);
        audit_store("head.json", heads[RECORDS], RSBX_HEAD_BYTES);
        expect_verdict(REPOSBX_AUDIT_TAMPERED, whole, whole + 1);

        /* The head of that moment: a crash in the next record. */
        audit_store("head.json", heads[whole], RSBX_HEAD_BYTES);
        expect_verdict(edge ? REPOSBX_AUDIT_OPEN : REPOSBX_AUDIT_TORN, whole,
                       edge ? 0 : whole + 1);

        assert_int_equal(unlinkat(audit_fd, "head.json", 0), 0);
        expect_verdict(REPOSBX_AUDIT_TAMPERED, whole, 0);
        open_end += edge;
        torn += !edge;
    }
    print_message("%zu cuts: %zu inside a record, %zu between records\n", sample_length, torn,
                  open_end);
}

/* What a crash left is cut off and told; the log goes on and is whole again. */
static void e5_a_torn_line_is_recovered(void **state)
{
    (void)state;
    for (size_t length = edges[3] + 1; length < edges[4]; length++) {
        char wanted[64];
        size_t size;
        char *text;

        audit_store("events.jsonl", sample, length);
        audit_store("head.json", heads[3], RSBX_HEAD_BYTES);
        assert_int_equal(audit_reopen(AUDIT_LIMIT, NULL), 0);
        assert_int_equal(rsbx_audit_count(audit_log), 4);
        assert_int_equal(audit_append_text("step", "{}", RSBX_AUDIT_ORDINARY), 0);
        expect_verdict(REPOSBX_AUDIT_OPEN, 5, 0);
        text = audit_load("events.jsonl", &size);
        (void)snprintf(wanted, sizeof wanted,
                       "\"event\":\"recovered\",\"data\":{\"cut_bytes\":%zu}",
                       length - edges[3]);
        assert_non_null(strstr(text, wanted));
        free(text);
    }
}

/* A line with its end but without its middle (blocks reach the disk in any order). */
static void e5_a_holed_last_line_is_recovered(void **state)
{
    char *holed = malloc(sample_length);

    (void)state;
    assert_non_null(holed);
    memcpy(holed, sample, sample_length);
    memset(holed + edges[3] + 10, 0, edges[4] - edges[3] - 40);
    audit_store("events.jsonl", holed, edges[4]);
    audit_store("head.json", heads[3], RSBX_HEAD_BYTES);
    expect_verdict(REPOSBX_AUDIT_TORN, 3, 4);
    assert_int_equal(audit_reopen(AUDIT_LIMIT, NULL), 0);
    assert_int_equal(rsbx_audit_count(audit_log), 4);
    expect_verdict(REPOSBX_AUDIT_OPEN, 4, 0);

    /* Not the last line, or acknowledged: no crash does that. */
    audit_store("events.jsonl", holed, edges[5]);
    audit_store("head.json", heads[3], RSBX_HEAD_BYTES);
    expect_verdict(REPOSBX_AUDIT_TAMPERED, 3, 4);
    assert_int_equal(audit_reopen(AUDIT_LIMIT, NULL), REPOSBX_EIO);
    audit_store("events.jsonl", holed, edges[4]);
    audit_store("head.json", heads[4], RSBX_HEAD_BYTES);
    expect_verdict(REPOSBX_AUDIT_TAMPERED, 3, 4);
    assert_int_equal(audit_reopen(AUDIT_LIMIT, NULL), REPOSBX_EIO);
    free(holed);
}

/* A record that became durable just before the crash, while its head did not. */
static void e5_an_unacknowledged_record_is_kept(void **state)
{
    (void)state;
    for (size_t behind = 0; behind < 8; behind++) {
        audit_store("events.jsonl", sample, edges[8]);
        audit_store("head.json", heads[behind], RSBX_HEAD_BYTES);
        expect_verdict(REPOSBX_AUDIT_OPEN, 8, 0);
        assert_int_equal(audit_reopen(AUDIT_LIMIT, NULL), 0);
        assert_int_equal(rsbx_audit_count(audit_log), 8);
        assert_int_equal(audit_append_text("step", "{}", RSBX_AUDIT_ORDINARY), REPOSBX_ELIMIT);
        assert_int_equal(audit_append_text("closing", "{}", RSBX_AUDIT_FINAL), 0);
        expect_verdict(REPOSBX_AUDIT_OPEN, 9, 0);
    }
}

/* ---- E5: records removed, moved, doubled, exchanged ---- */

static void add_lines(struct rsbx_buf *out, size_t from, size_t to)
{
    assert_int_equal(rsbx_buf_append(out, sample + edges[from], edges[to] - edges[from], NULL), 0);
}

static void expect_tampered(const struct rsbx_buf *log, size_t good, bool head)
{
    audit_store("events.jsonl", log->data != NULL ? log->data : "", log->length);
    if (head)
        audit_store("head.json", heads[RECORDS], RSBX_HEAD_BYTES);
    else
        (void)unlinkat(audit_fd, "head.json", 0);
    expect_verdict(REPOSBX_AUDIT_TAMPERED, good, good + 1);
}

static void e5_removed_moved_and_doubled_records_are_found(void **state)
{
    struct rsbx_buf log = RSBX_BUF_INIT(1024U * 1024U);
    size_t removed = 0, swapped = 0, doubled = 0;

    (void)state;
    for (size_t i = 0; i < RECORDS; i++) {
        rsbx_buf_clear(&log);
        add_lines(&log, 0, i);
        add_lines(&log, i + 1, RECORDS);
        expect_tampered(&log, i, true);
        if (i + 1 < RECORDS) /* the last one is missed by the head alone */
            expect_tampered(&log, i, false);
        removed++;

        rsbx_buf_clear(&log);
        add_lines(&log, 0, i + 1);
        add_lines(&log, i, RECORDS);
        expect_tampered(&log, i + 1, true);
        expect_tampered(&log, i + 1, false);
        doubled++;

        for (size_t j = i + 1; j < RECORDS; j++) {
            rsbx_buf_clear(&log);
            add_lines(&log, 0, i);
            add_lines(&log, j, j + 1);
            add_lines(&log, i + 1, j);
            add_lines(&log, i, i + 1);
            add_lines(&log, j + 1, RECORDS);
            expect_tampered(&log, i, true);
            expect_tampered(&log, i, false);
            swapped++;
        }
    }
    rsbx_buf_dispose(&log);
    print_message("%zu removals, %zu doublings, %zu exchanges, all found\n", removed, doubled,
                  swapped);
}

/* A record of another log at the same place, and a whole log written anew. */
static void e5_spliced_records_are_found(void **state)
{
    struct rsbx_buf log = RSBX_BUF_INIT(1024U * 1024U);
    char *other;
    size_t length;

    (void)state;
    assert_int_equal(unlinkat(audit_fd, "events.jsonl", 0), 0);
    assert_int_equal(unlinkat(audit_fd, "head.json", 0), 0);
    assert_int_equal(audit_reopen(AUDIT_LIMIT, NULL), 0);
    for (size_t i = 0; i < RECORDS - 1; i++)
        assert_int_equal(audit_append_text("step", "{}", RSBX_AUDIT_FINAL), 0);
    assert_int_equal(audit_append_text("sandbox_closed", "{}", RSBX_AUDIT_FINAL), 0);
    other = audit_load("events.jsonl", &length);
    expect_verdict(REPOSBX_AUDIT_WHOLE, RECORDS, 0);
    /* The other log is whole, but it is not the one that the head knows. */
    audit_store("head.json", heads[RECORDS], RSBX_HEAD_BYTES);
    expect_verdict(REPOSBX_AUDIT_TAMPERED, RECORDS - 1, RECORDS);
    for (size_t i = 0; i < RECORDS; i++) {
        const char *start = other, *end;

        for (size_t line = 0; line < i; line++)
            start = strchr(start, '\n') + 1;
        end = strchr(start, '\n') + 1;
        rsbx_buf_clear(&log);
        add_lines(&log, 0, i);
        assert_int_equal(rsbx_buf_append(&log, start, (size_t)(end - start), NULL), 0);
        add_lines(&log, i + 1, RECORDS);
        /* The first record alone has no record before it that could disagree. */
        expect_tampered(&log, i == 0 ? 1 : i, i > 0);
    }
    free(other);
    rsbx_buf_dispose(&log);
}

/* ---- E5: the disk ---- */

static uint64_t log_size(void)
{
    struct stat facts;

    assert_int_equal(fstatat(audit_fd, "events.jsonl", &facts, 0), 0);
    return (uint64_t)facts.st_size;
}

static void limit_files(rlim_t bytes)
{
    struct rlimit limit;

    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = bytes < limit.rlim_max ? bytes : limit.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

/* No room at each byte of a record: an error, the log as before, and this opener stays out. */
static void e5_disk_full_at_every_byte(void **state)
{
    uint64_t before, record;
    size_t tried = 0;

    (void)state;
    (void)signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(audit_reopen(AUDIT_LIMIT, NULL), 0);
    assert_int_equal(audit_append_text("step", "{\"a\":1}", RSBX_AUDIT_ORDINARY), 0);
    before = log_size();
    record = before;
    for (uint64_t room = 0; room < record; room++) {
        int first, second;

        limit_files(before + room);
        first = audit_append_text("step", "{\"a\":1}", RSBX_AUDIT_ORDINARY);
        limit_files(RLIM_INFINITY);
        second = audit_append_text("step", "{\"a\":1}", RSBX_AUDIT_FINAL);
        if (first == 0) /* clocks make the lines differ by some bytes */
            break;
        tried++;
        assert_int_equal(first, REPOSBX_EIO);
        assert_int_equal(second, REPOSBX_EIO);
        assert_int_equal(log_size(), before);
        expect_verdict(REPOSBX_AUDIT_OPEN, 1, 0);
        assert_int_equal(audit_reopen(AUDIT_LIMIT, NULL), 0);
        assert_int_equal(rsbx_audit_count(audit_log), 1);
    }
    assert_true(tried >= record - 8);
    assert_int_equal(audit_reopen(AUDIT_LIMIT, NULL), 0);
    assert_int_equal(audit_append_text("step", "{}", RSBX_AUDIT_ORDINARY), 0);
    print_message("no room at %zu places of a record, all refused and undone\n", tried);
}

static void e5_disk_full_in_a_stream(void **state)
{
    struct rsbx_capture *capture = NULL;
    uint64_t bytes = 0;
    char sha256[65], wanted[65];

    (void)state;
    (void)signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(audit_reopen(AUDIT_LIMIT, NULL), 0);
    assert_int_equal(rsbx_capture_open(&capture, audit_log, "a", NULL), 0);
    assert_int_equal(rsbx_capture_write(capture, "0123456789", 10, NULL), 0);
    limit_files(15);
    assert_int_equal(rsbx_capture_write(capture, "0123456789", 10, NULL), REPOSBX_EIO);
    limit_files(RLIM_INFINITY);
    assert_int_equal(rsbx_capture_seal(&bytes, sha256, capture, NULL), 0);
    rsbx_capture_free(capture);
    rsbx_sha256_hex(wanted, "0123456789", 10);
    assert_int_equal(bytes, 10);
    assert_string_equal(sha256, wanted);
}

/* Makes one system call of this process fail with `error` from now on. */
static int break_call(unsigned int number, unsigned int error)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (error & SECCOMP_RET_DATA)),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = { sizeof code / sizeof code[0], code };

    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
        return -1;
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

/* Appends in a child where the call fails: 0 when both appends were refused as they must be. */
static int append_with_broken_call(unsigned int number, unsigned int error)
{
    int status = -1;
    pid_t child = fork();

    assert_true(child >= 0);
    if (child == 0) {
        json_t *data = json_object();
        int first, second;

        if (break_call(number, error) != 0)
            _exit(2);
        first = rsbx_audit_append(audit_log, "step", data, RSBX_AUDIT_ORDINARY, NULL);
        second = rsbx_audit_append(audit_log, "step", data, RSBX_AUDIT_FINAL, NULL);
        _exit(first == REPOSBX_EIO && second == REPOSBX_EIO ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void e5_failing_calls_are_never_success(void **state)
{
    static const struct {
        unsigned int number, error;
        uint64_t kept; /* records that may be there: the failing call came behind the write */
    } calls[] = {
        { __NR_write, EIO, 0 },      { __NR_write, ENOSPC, 0 },   { __NR_write, EDQUOT, 0 },
        { __NR_fdatasync, EIO, 1 },  { __NR_fdatasync, ENOSPC, 1 }, { __NR_pwrite64, EIO, 1 },
#ifdef __NR_newfstatat
        { __NR_newfstatat, EIO, 0 },
#endif
    };

    (void)state;
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        reposbx_audit_report report;
        uint64_t before;

        assert_int_equal(audit_reopen(AUDIT_LIMIT, NULL), 0);
        assert_int_equal(audit_append_text("step", "{}", RSBX_AUDIT_ORDINARY), 0);
        before = rsbx_audit_count(audit_log);
        assert_int_equal(append_with_broken_call(calls[i].number, calls[i].error), 0);
        report = audit_report();
        assert_int_equal(report.verdict, REPOSBX_AUDIT_OPEN);
        assert_int_equal(report.records, before + calls[i].kept);
        assert_int_equal(audit_reopen(AUDIT_LIMIT, NULL), 0);
        assert_int_equal(rsbx_audit_count(audit_log), before + calls[i].kept);
    }
}

/* ---- E5: the file under the opener's feet ---- */

static void grow_log(void)
{
    int fd = openat(audit_fd, "events.jsonl", O_WRONLY | O_APPEND | O_CLOEXEC);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, "x", 1), 1);
    assert_int_equal(close(fd), 0);
}

static void shrink_log(void)
{
    int fd = openat(audit_fd, "events.jsonl", O_WRONLY | O_CLOEXEC);

    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, (off_t)log_size() - 1), 0);
    assert_int_equal(close(fd), 0);
}

static void replace_log(void)
{
    size_t length;
    char *text = audit_load("events.jsonl", &length);

    audit_store("copy", text, length);
    free(text);
    assert_int_equal(renameat(audit_fd, "copy", audit_fd, "events.jsonl"), 0);
}

static void remove_log(void)
{
    assert_int_equal(unlinkat(audit_fd, "events.jsonl", 0), 0);
}

static void remove_head(void)
{
    assert_int_equal(unlinkat(audit_fd, "head.json", 0), 0);
}

static void e5_a_replaced_or_cut_file_is_refused(void **state)
{
    static void (*const changes[])(void) = { grow_log, shrink_log, replace_log, remove_log,
                                             remove_head };

    (void)state;
    for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) {
        (void)unlinkat(audit_fd, "events.jsonl", 0);
        (void)unlinkat(audit_fd, "head.json", 0);
        assert_int_equal(audit_reopen(AUDIT_LIMIT, NULL), 0);
        assert_int_equal(audit_append_text("step", "{}", RSBX_AUDIT_ORDINARY), 0);
        changes[i]();
        assert_int_equal(audit_append_text("step", "{}", RSBX_AUDIT_ORDINARY), REPOSBX_EIO);
        assert_int_equal(audit_append_text("step", "{}", RSBX_AUDIT_FINAL), REPOSBX_EIO);
        assert_int_equal(rsbx_audit_charge(audit_log, 1, NULL), REPOSBX_EIO);
    }
}

/* ---- E1, E5: killed at any moment ---- */

/* A child that appends without end and tells each acknowledged record over a pipe. It is killed some
 * microseconds after it told of `records`; the last one that it told of is returned. */
static uint64_t killed_writer(unsigned int records, unsigned int after_us)
{
    struct timespec pause = { 0, (long)after_us * 1000 };
    uint64_t acknowledged = 0, value;
    int ends[2], status;
    pid_t child;

    assert_int_equal(pipe(ends), 0);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        json_t *data = json_pack("{s:s}", "text", "0123456789012345678901234567890123456789");

        while (rsbx_audit_append(audit_log, "step", data, RSBX_AUDIT_ORDINARY, NULL) == 0) {
            value = rsbx_audit_count(audit_log);
            if (write(ends[1], &value, sizeof value) != (ssize_t)sizeof value)
                break;
        }
        _exit(1);
    }
    assert_int_equal(close(ends[1]), 0);
    for (unsigned int i = 0; i < records; i++) {
        assert_int_equal(rsbx_read_full(ends[0], &value, sizeof value), sizeof value);
        acknowledged = value;
    }
    (void)nanosleep(&pause, NULL);
    assert_int_equal(kill(child, SIGKILL), 0);
    while (rsbx_read_full(ends[0], &value, sizeof value) == (ssize_t)sizeof value)
        acknowledged = value;
    assert_int_equal(close(ends[0]), 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    return acknowledged;
}

static void e1_a_killed_writer_leaves_a_valid_prefix(void **state)
{
    size_t torn = 0;

    (void)state;
    for (unsigned int i = 0; i < 60; i++) {
        reposbx_audit_report report;
        uint64_t acknowledged, before;

        assert_int_equal(audit_reopen(AUDIT_LIMIT, NULL), 0);
        before = rsbx_audit_count(audit_log);
        acknowledged = killed_writer(i % 5, i * 37 % 1000);
        report = audit_report();
        assert_true(report.verdict == REPOSBX_AUDIT_OPEN || report.verdict == REPOSBX_AUDIT_TORN);
        torn += report.verdict == REPOSBX_AUDIT_TORN;
        assert_true(report.records >= acknowledged && report.records >= before);
        assert_true(acknowledged == 0 || report.records <= acknowledged + 1);
        assert_int_equal(audit_reopen(AUDIT_LIMIT, NULL), 0);
        assert_true(rsbx_audit_count(audit_log) >= report.records);
    }
    assert_true(rsbx_audit_count(audit_log) >= 120); /* 12 rounds of 0 to 4 */
    print_message("60 kills, %zu torn lines, %llu records, nothing acknowledged was lost\n", torn,
                  (unsigned long long)rsbx_audit_count(audit_log));
}

/* ---- E4: clocks ---- */

static void e4_clock_jumps_do_not_matter(void **state)
{
    static const char *const times[] = { "2026-01-02T03:04:05.678Z", "2027-01-02T03:04:05.678Z",
                                         "1970-01-01T00:00:00.000Z", "2026-01-02T02:04:05.678Z" };
    struct rsbx_buf log = RSBX_BUF_INIT(65536);
    struct rsbx_record record = { .boot_id = "x", .event = "step", .prev = RSBX_AUDIT_ZEROS };
    const struct rsbx_head head = { .sha256 = RSBX_AUDIT_ZEROS };

    (void)state;
    assert_int_equal(rsbx_head_create(audit_fd, &head, NULL), 0);
    record.data = json_object();
    for (size_t i = 0; i < 4; i++) {
        size_t start = log.length;

        record.seq = i;
        record.monotonic_ns = i % 2 == 0 ? UINT32_MAX : 1;
        memcpy(record.time, times[i], strlen(times[i]) + 1);
        assert_int_equal(rsbx_record_write(&log, &record, NULL), 0);
        rsbx_sha256_hex(record.prev, log.data + start, log.length - start);
        assert_int_equal(rsbx_buf_text(&log, "\n", NULL), 0);
    }
    json_decref(record.data);
    audit_store("events.jsonl", log.data, log.length);
    rsbx_buf_dispose(&log);
    expect_verdict(REPOSBX_AUDIT_OPEN, 4, 0);
    assert_int_equal(audit_reopen(AUDIT_LIMIT, NULL), 0);
    assert_int_equal(audit_append_text("step", "{}", RSBX_AUDIT_ORDINARY), 0);
    assert_int_equal(rsbx_audit_count(audit_log), 5);
    expect_verdict(REPOSBX_AUDIT_OPEN, 5, 0);
}

/* ---- E6: the bound in the middle of a record ---- */

static void e6_the_bound_is_never_cut_into(void **state)
{
    size_t tried = 0;

    (void)state;
    for (uint64_t extra = 0; extra < 1500; extra += 13) {
        const uint64_t limit = RSBX_AUDIT_RESERVE_BYTES + extra;
        reposbx_audit_report report;
        int rc = 0;

        (void)unlinkat(audit_fd, "events.jsonl", 0);
        (void)unlinkat(audit_fd, "head.json", 0);
        assert_int_equal(audit_reopen(limit, NULL), 0);
        for (int i = 0; i < 10 && rc == 0; i++)
            rc = audit_append_text("step", "{\"a\":\"text\"}", RSBX_AUDIT_ORDINARY);
        assert_int_equal(rc, REPOSBX_ELIMIT);
        assert_int_equal(audit_append_text("sandbox_closed", "{}", RSBX_AUDIT_FINAL), 0);
        report = audit_report();
        assert_int_equal(report.verdict, REPOSBX_AUDIT_WHOLE);
        assert_int_equal(report.records, rsbx_audit_count(audit_log));
        assert_true(log_size() <= limit);
        tried++;
    }
    print_message("%zu bounds, none cut into\n", tried);
}

/* ---- E7: what others write ---- */

static void e7_any_argv_is_one_ascii_line(void **state)
{
    unsigned char bytes[512];
    size_t length, lines = 0;
    json_t *argv = json_array(), *data = json_object();
    char *text;

    (void)state;
    for (unsigned int i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)(i * 7 + i / 256);
    assert_int_equal(json_array_append_new(argv, rsbx_json_bytes(bytes, sizeof bytes)), 0);
    assert_int_equal(
        json_array_append_new(argv, rsbx_json_bytes("\n\x1b]0;x\a\xe2\x80\xa8\xff", 11)), 0);
    assert_int_equal(json_object_set_new(data, "argv", argv), 0);
    assert_int_equal(json_object_set_new(data, "\n\xe2\x80\xa9", json_true()), 0);
    assert_int_equal(audit_reopen(AUDIT_LIMIT, NULL), 0);
    for (int i = 0; i < 3; i++)
        assert_int_equal(
            rsbx_audit_append(audit_log, "command_started", data, RSBX_AUDIT_ORDINARY, NULL), 0);
    json_decref(data);
    text = audit_load("events.jsonl", &length);
    for (size_t i = 0; i < length; i++) {
        if (text[i] == '\n')
            lines++;
        else
            assert_in_range((unsigned char)text[i], 0x20, 0x7F);
    }
    free(text);
    assert_int_equal(lines, 3);
    expect_verdict(REPOSBX_AUDIT_OPEN, 3, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, audit_setup, audit_teardown)
#define SAMPLE(name) cmocka_unit_test_setup_teardown(name, setup_sample, teardown_sample)

int main(void)
{
    const struct CMUnitTest tests[] = {
        SAMPLE(e5_every_flipped_bit_is_found),
        SAMPLE(e5_every_flipped_bit_of_the_head_is_found),
        SAMPLE(e5_every_flipped_bit_of_a_stream_is_found),
        SAMPLE(e5_every_cut_is_found),
        SAMPLE(e5_a_torn_line_is_recovered),
        SAMPLE(e5_a_holed_last_line_is_recovered),
        SAMPLE(e5_an_unacknowledged_record_is_kept),
        SAMPLE(e5_removed_moved_and_doubled_records_are_found),
        SAMPLE(e5_spliced_records_are_found),
        TEST(e5_disk_full_at_every_byte),
        TEST(e5_disk_full_in_a_stream),
        TEST(e5_failing_calls_are_never_success),
        TEST(e5_a_replaced_or_cut_file_is_refused),
        TEST(e1_a_killed_writer_leaves_a_valid_prefix),
        TEST(e4_clock_jumps_do_not_matter),
        TEST(e6_the_bound_is_never_cut_into),
        TEST(e7_any_argv_is_one_ascii_line),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
