/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cmocka.h>

#include "real/one_session.h"

#include "base/banned.h"

/*
 * Commands in one session on a real engine: how they end, what goes in, what comes out. What holds them
 * is in confinement.c. The session's limits are small, so that bounds are met fast.
 */

#define CAPTURE 300000U
#define PREVIEW 65536U
#define STDIN_CAP 1048576U
static const char changes[] =
    "{\"limits\": {\"audit_log_bytes\": 300000, \"memory_bytes\": 134217728, \"pids\": 64,"
    " \"cpus\": 1.0, \"command_timeout_seconds\": 60, \"tmpfs_bytes\": 16777216}}";

static int setup(void **state)
{
    (void)state;
    return session_setup(changes);
}

/* ---- how a command ends ---- */

static void test_exit_codes(void **state)
{
    static const int codes[] = { 0, 1, 3, 122, 124, 125, 126, 127, 128, 137, 143, 255 };
    char script[32];

    (void)state;
    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++) {
        reposbx_exec_result result;

        (void)snprintf(script, sizeof script, "exit %d", codes[i]);
        place_sh(&result, session, script);
        assert_int_equal(result.status, REPOSBX_EXITED);
        assert_int_equal(result.exit_code, codes[i]);
        assert_int_equal(result.signal, 0);
        assert_int_equal(result.exec_errno, 0);
        assert_false(result.oom_killed || result.timed_out || result.output_limited);
        assert_int_equal(result.argc, 3);
        assert_string_equal(result.argv[2], script);
        assert_int_equal(strncmp(result.command_id, "cmd-", 4), 0);
        reposbx_exec_result_dispose(&result);
    }
}

static bool ends_a_process(int number)
{
    return number != SIGSTOP && number != SIGTSTP && number != SIGTTIN && number != SIGTTOU &&
           number != SIGCHLD && number != SIGCONT && number != SIGURG && number != SIGWINCH;
}

/* BusyBox' shell ignores SIGQUIT; its timeout becomes the program and lets a child send the signal. */
static void send_signal(reposbx_exec_result *result, int number)
{
    char script[32], text[16];
    const char *argv[] = { "timeout", "-s", text, "1", "sleep", "1000" };
    reposbx_exec_request request = request_of(argv, 6);

    (void)snprintf(text, sizeof text, "%d", number);
    (void)snprintf(script, sizeof script, "kill -%d $$; exit 99", number);
    if (number == SIGQUIT)
        place_exec(result, session, &request);
    else
        place_sh(result, session, script);
}

static void test_every_signal(void **state)
{

    (void)state;
    for (int number = 1; number <= 31; number++) {
        reposbx_exec_result result;

        if (!ends_a_process(number))
            continue;
        send_signal(&result, number);
        if (result.status != REPOSBX_SIGNALED || result.signal != number)
            fail_msg("signal %d: %s, signal %d, code %d", number,
                     reposbx_exec_status_word(result.status), result.signal, result.exit_code);
        assert_int_equal(result.exit_code, -1);
        assert_false(result.oom_killed);
        reposbx_exec_result_dispose(&result);
    }
}

/* A program that could not be started is told apart from one that ended with the same code. */
static void test_not_started(void **state)
{
    static const struct {
        const char *program;
        int code, number;
    } cases[] = { { "/no/such/program", 127, ENOENT }, { "no-such-program", 127, ENOENT },
                  { "./text.txt", 126, EACCES },       { "./deep", 126, EACCES },
                  { "./bad-interpreter", 0, ENOENT } };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        reposbx_exec_request request = request_of(&cases[i].program, 1);
        reposbx_exec_result result;

        place_exec(&result, session, &request);
        assert_int_equal(result.status, REPOSBX_EXITED);
        assert_int_equal(result.exec_errno, cases[i].number);
        if (cases[i].code != 0)
            assert_int_equal(result.exit_code, cases[i].code);
        assert_in_range(result.exit_code, 126, 127);
        reposbx_exec_result_dispose(&result);
    }
}

static void test_timeout(void **state)
{
    const char *argv[] = { "sh", "-c", "printf early; printf late >&2; sleep 1000" };
    reposbx_exec_request request = request_of(argv, 3);
    reposbx_exec_result result;
    char *json = NULL;

    (void)state;
    request.timeout_seconds = 1.0;
    place_exec(&result, session, &request);
    assert_int_equal(result.status, REPOSBX_TIMED_OUT);
    assert_true(result.timed_out);
    assert_false(result.output_limited || result.oom_killed);
    assert_int_equal(result.exit_code, -1);
    assert_string_equal(result.stdout_preview, "early");
    assert_string_equal(result.stderr_preview, "late");
    assert_in_range(result.duration_ms, 950, 20000);
    assert_int_equal(reposbx_exec_result_json(&json, &result, NULL), 0);
    assert_non_null(strstr(json, "\"timed_out\""));
    free(json);
    reposbx_exec_result_dispose(&result);
    still_works();
}

/* Ignoring every signal helps nobody past the deadline. */
static void test_timeout_of_the_stubborn(void **state)
{
    const char *argv[] = { "sh", "-c", "trap '' TERM INT HUP QUIT; while :; do sleep 1; done" };
    reposbx_exec_request request = request_of(argv, 3);
    reposbx_exec_result result;

    (void)state;
    request.timeout_seconds = 0.5;
    place_exec(&result, session, &request);
    assert_int_equal(result.status, REPOSBX_TIMED_OUT);
    assert_in_range(result.duration_ms, 450, 20000);
    reposbx_exec_result_dispose(&result);
}

static void test_out_of_memory(void **state)
{
    reposbx_exec_result result;

    (void)state;
    place_sh(&result, session, "exec dd if=/dev/zero of=/dev/null bs=512M count=1");
    assert_int_equal(result.status, REPOSBX_OOM_KILLED);
    assert_true(result.oom_killed);
    assert_int_equal(result.signal, SIGKILL);
    assert_int_equal(result.exit_code, -1);
    reposbx_exec_result_dispose(&result);
    /* A process of the command was killed for memory, the command itself was not. */
    place_sh(&result, session, "dd if=/dev/zero of=/dev/null bs=512M count=1; exit 0");
    assert_int_equal(result.status, REPOSBX_EXITED);
    assert_int_equal(result.exit_code, 0);
    assert_true(result.oom_killed);
    reposbx_exec_result_dispose(&result);
    /* The code alone proves nothing. */
    place_sh(&result, session, "kill -KILL $$");
    assert_int_equal(result.status, REPOSBX_SIGNALED);
    assert_false(result.oom_killed);
    reposbx_exec_result_dispose(&result);
}

/* ---- what goes in ---- */

static void test_argv_bytes(void **state)
{
    static char every[256];
    const char *argv[] = { "sh",       "-c",         "cat /proc/$$/cmdline; :", "sh", every, "",
                           "\xff\xfe", "two\nlines", "it's \"quoted\" $(no) `shell`" };
    reposbx_exec_request request = request_of(argv, sizeof argv / sizeof argv[0]);
    reposbx_exec_result result;
    size_t at = 0;

    (void)state;
    for (int i = 1; i < 256; i++)
        every[i - 1] = (char)i;
    place_exec(&result, session, &request);
    assert_int_equal(result.exit_code, 0);
    for (size_t i = 0; i < request.argc; i++) {
        size_t length = strlen(argv[i]) + 1;

        assert_true(at + length <= result.stdout_preview_length);
        assert_memory_equal(result.stdout_preview + at, argv[i], length);
        assert_string_equal(result.argv[i], argv[i]);
        at += length;
    }
    assert_int_equal(at, result.stdout_preview_length);
    reposbx_exec_result_dispose(&result);
}

static void test_argv_refused(void **state)
{
    const char *argv[] = { "" };
    reposbx_exec_request request = request_of(argv, 1);
    reposbx_exec_result result;

    (void)state;
    (void)memset(&result, 0, sizeof result);
    assert_true(reposbx_session_exec(&result, session, &request, NULL) < 0);
    request.argc = 0;
    assert_true(reposbx_session_exec(&result, session, &request, NULL) < 0);
    request.argv = NULL;
    assert_true(reposbx_session_exec(&result, session, &request, NULL) < 0);
    request = request_of(argv, 1);
    argv[0] = "true";
    request.version = 99;
    assert_int_equal(reposbx_session_exec(&result, session, &request, NULL), REPOSBX_EINVALID);
    assert_null(result.command_id);
}

/* The environment is what the manual says and the request names, to the byte. */
static void test_environment(void **state)
{
    static const char *const fixed[] = { "HOME=/tmp/home", "TMPDIR=/tmp", "CI=1",
                                         "LANG=C.UTF-8" };
    static const char *const more[] = { "GREETING=hi there", "EMPTY=", "_raw1=\xff\n=x" };
    const char *argv[] = { "cat", "/proc/self/environ" };
    reposbx_exec_request request = request_of(argv, 2);
    reposbx_exec_result result;
    size_t count = 0;

    (void)state;
    (void)setenv("REPOSBX_OF_THE_HOST", "visible", 1);
    request.env = more;
    request.env_count = 3;
    place_exec(&result, session, &request);
    for (const char *at = result.stdout_preview; *at != '\0'; at += strlen(at) + 1) {
        bool known = strncmp(at, "PATH=/", 6) == 0;

        for (size_t i = 0; i < 4; i++)
            known = known || strcmp(at, fixed[i]) == 0;
        for (size_t i = 0; i < 3; i++)
            known = known || strcmp(at, more[i]) == 0;
        if (!known)
            fail_msg("'%s' is in the environment", at);
        count++;
    }
    assert_int_equal(count, 4 + 1 + 3);
    reposbx_exec_result_dispose(&result);
    place_sh(&result, session, "cd \"$HOME\" && touch x && cd \"$TMPDIR\" && touch y");
    assert_int_equal(result.exit_code, 0);
    reposbx_exec_result_dispose(&result);
}

static void test_environment_refused(void **state)
{
    static const char *const names[] = {
        "DOCKER_HOST", "DOCKER_CONFIG", "DOCKER_CONTEXT", "GIT_ASKPASS", "SSH_AUTH_SOCK",
        "LD_PRELOAD", "LD_LIBRARY_PATH", "HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy",
        "ALL_PROXY", "all_proxy", "NO_PROXY", "no_proxy", "MY_TOKEN", "A_SECRET_B", "PASSWORD",
        "DBPASSWD", "CREDENTIALS", "PRIVATE_KEY", "MY_API_KEY", "BASIC_AUTH", "COOKIE_JAR",
        "my_token"
    };
    static const char *const wrong[] = { "1A=v", "A-B=v", "=v", "A B=v", "A.B=v", "\xff=v", "NAME" };
    const char *argv[] = { "true" };
    reposbx_exec_request request = request_of(argv, 1);
    reposbx_exec_result result;
    reposbx_error err;
    char text[64];
    const char *entry = text;

    (void)state;
    (void)memset(&result, 0, sizeof result);
    request.env = &entry;
    request.env_count = 1;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        (void)snprintf(text, sizeof text, "%s=hidden-value-5731", names[i]);
        (void)memset(&err, 0, sizeof err);
        if (reposbx_session_exec(&result, session, &request, &err) != REPOSBX_EPOLICY)
            fail_msg("%s was not refused", names[i]);
        assert_non_null(strstr(err.message, names[i]));
        assert_null(strstr(err.message, "5731"));
        assert_null(strstr(err.hint, "5731"));
    }
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        entry = wrong[i];
        if (reposbx_session_exec(&result, session, &request, &err) >= 0)
            fail_msg("'%s' was taken", wrong[i]);
    }
}

static void test_folder(void **state)
{
    static const char *const outside[] = { "..", "../..", "/", "/etc", "deep/../..", "a\\b", "" };
    const char *argv[] = { "pwd" };
    reposbx_exec_request request = request_of(argv, 1);
    reposbx_exec_result result;
    reposbx_error err;
    char top[128];

    (void)state;
    place_exec(&result, session, &request);
    (void)snprintf(top, sizeof top, "%s", result.stdout_preview);
    reposbx_exec_result_dispose(&result);
    request.cwd = ".";
    place_exec(&result, session, &request);
    assert_string_equal(result.stdout_preview, top);
    reposbx_exec_result_dispose(&result);
    request.cwd = "deep/er";
    place_exec(&result, session, &request);
    assert_non_null(strstr(result.stdout_preview, "/deep/er\n"));
    reposbx_exec_result_dispose(&result);
    for (size_t i = 0; i < sizeof outside / sizeof outside[0]; i++) {
        request.cwd = outside[i];
        (void)memset(&err, 0, sizeof err);
        if (reposbx_session_exec(&result, session, &request, &err) != REPOSBX_EPOLICY)
            fail_msg("'%s' was not refused by policy: %s", outside[i], err.message);
    }
    request.cwd = "nowhere";
    refused(&request, REPOSBX_ENOTFOUND, "nowhere");
    request.cwd = "text.txt";
    assert_true(reposbx_session_exec(&result, session, &request, NULL) < 0);
    /* A folder that a command swapped for a way out. */
    free(place_text(session, "ln -s /etc way-out; ln -s / deep/root"));
    request.cwd = "way-out";
    assert_true(reposbx_session_exec(&result, session, &request, NULL) < 0);
    request.cwd = "deep/root/tmp";
    assert_true(reposbx_session_exec(&result, session, &request, NULL) < 0);
    free(place_text(session, "rm way-out deep/root"));
}

static void with_stdin(const char *script, const void *bytes, size_t length, const char *wanted)
{
    const char *argv[] = { "sh", "-c", script };
    reposbx_exec_request request = request_of(argv, 3);
    reposbx_exec_result result;

    request.stdin_bytes = bytes;
    request.stdin_length = length;
    place_exec(&result, session, &request);
    assert_int_equal(result.status, REPOSBX_EXITED);
    assert_int_equal(result.exit_code, 0);
    assert_string_equal(result.stdout_preview, wanted);
    reposbx_exec_result_dispose(&result);
}

static void test_stdin(void **state)
{
    unsigned char *bytes = malloc(STDIN_CAP + 1);
    const char *argv[] = { "cat" };
    reposbx_exec_request request = request_of(argv, 1);
    char wanted[128], hash[65];

    (void)state;
    assert_non_null(bytes);
    for (size_t i = 0; i <= STDIN_CAP; i++)
        bytes[i] = (unsigned char)(i * 7 + i / 251);
    with_stdin("wc -c; readlink /proc/self/fd/0 >&2", NULL, 0, "0\n");
    with_stdin("wc -c", "", 0, "0\n");
    with_stdin("cat", "x\0y", 1, "x");
    place_sha256(hash, bytes, STDIN_CAP);
    (void)snprintf(wanted, sizeof wanted, "%s  -\n", hash);
    with_stdin("sha256sum", bytes, STDIN_CAP, wanted);
    with_stdin("exit 0", bytes, STDIN_CAP, "");
    with_stdin("exec <&-; sleep 0.2; echo on", bytes, STDIN_CAP, "on\n");
    with_stdin("head -c 1000 | wc -c", bytes, STDIN_CAP, "1000\n");
    request.stdin_bytes = bytes;
    request.stdin_length = STDIN_CAP + 1;
    refused(&request, REPOSBX_EPOLICY, "stdin");
    free(bytes);
}

/* ---- what comes out ---- */

static void test_streams_apart(void **state)
{
    reposbx_exec_result result;
    char hash[65];

    (void)state;
    place_sh(&result, session, "printf 'o\\000\\377'; printf 'e\\nf' >&2");
    assert_int_equal(result.stdout_bytes, 3);
    assert_int_equal(result.stderr_bytes, 3);
    assert_int_equal(result.stdout_preview_length, 3);
    assert_memory_equal(result.stdout_preview, "o\0\xff", 3);
    assert_memory_equal(result.stderr_preview, "e\nf", 3);
    place_sha256(hash, "o\0\xff", 3);
    assert_string_equal(result.stdout_sha256, hash);
    place_sha256(hash, "e\nf", 3);
    assert_string_equal(result.stderr_sha256, hash);
    assert_false(result.stdout_truncated || result.stderr_truncated);
    reposbx_exec_result_dispose(&result);
}

/* In text each bad byte has three, and the text has the bound. */
static void test_preview_of_no_text(void **state)
{
    reposbx_exec_result result;
    char *json = NULL;

    (void)state;
    place_sh(&result, session, "yes | head -c 9 >&2; head -c 65536 /dev/zero | tr '\\000' '\\377'");
    assert_int_equal(result.stdout_bytes, 65536);
    assert_int_equal(result.stdout_preview_length, PREVIEW / 3);
    assert_int_equal(result.stderr_preview_length, PREVIEW % 3);
    assert_true(result.stdout_truncated && result.stderr_truncated);
    assert_int_equal(reposbx_exec_result_json(&json, &result, NULL), 0);
    free(json);
    reposbx_exec_result_dispose(&result);
}

/* `count` bytes that are easy to make on both sides. */
static char *lines(size_t count)
{
    char *text = malloc(count + 2);

    assert_non_null(text);
    for (size_t i = 0; i <= count; i++)
        text[i] = i % 2 == 0 ? 'y' : '\n';
    text[count] = '\0';
    return text;
}

static void one_preview(size_t out, size_t err)
{
    size_t out_shown = out < PREVIEW ? out : PREVIEW;
    size_t err_shown = err < PREVIEW - out_shown ? err : PREVIEW - out_shown;
    char *text = lines(CAPTURE);
    char script[128], hash[65];
    reposbx_exec_result result;

    (void)snprintf(script, sizeof script, "yes | head -c %zu >&2; yes | head -c %zu", err, out);
    place_sh(&result, session, script);
    assert_int_equal(result.status, REPOSBX_EXITED);
    assert_int_equal(result.stdout_bytes, out);
    assert_int_equal(result.stderr_bytes, err);
    assert_int_equal(result.stdout_preview_length, out_shown);
    assert_int_equal(result.stderr_preview_length, err_shown);
    assert_int_equal(result.stdout_truncated != 0, out > out_shown);
    assert_int_equal(result.stderr_truncated != 0, err > err_shown);
    assert_memory_equal(result.stdout_preview, text, out_shown);
    assert_memory_equal(result.stderr_preview, text, err_shown);
    place_sha256(hash, text, out);
    assert_string_equal(result.stdout_sha256, hash);
    place_sha256(hash, text, err);
    assert_string_equal(result.stderr_sha256, hash);
    reposbx_exec_result_dispose(&result);
    free(text);
}

/* One budget for both previews, stdout first, even when stderr came first. */
static void test_preview_budget(void **state)
{
    (void)state;
    one_preview(10, PREVIEW - 10);
    one_preview(10, PREVIEW - 9);
    one_preview(40000, 40000);
    one_preview(PREVIEW, 1);
    one_preview(200000, 99999);
}

static void test_output_cap(void **state)
{
    char *text = lines(CAPTURE);
    reposbx_exec_result result;
    char script[96], hash[65];
    char *json = NULL;

    (void)state;
    (void)snprintf(script, sizeof script, "yes | head -c %u; exit 5", CAPTURE - 1);
    place_sh(&result, session, script);
    assert_int_equal(result.status, REPOSBX_EXITED);
    assert_int_equal(result.exit_code, 5);
    assert_int_equal(result.stdout_bytes, CAPTURE - 1);
    reposbx_exec_result_dispose(&result);
    place_sh(&result, session, "yes");
    assert_int_equal(result.status, REPOSBX_OUTPUT_LIMITED);
    assert_true(result.output_limited);
    assert_int_equal(result.exit_code, -1);
    assert_int_equal(result.stdout_bytes, CAPTURE);
    assert_true(result.stdout_truncated);
    place_sha256(hash, text, CAPTURE);
    assert_string_equal(result.stdout_sha256, hash);
    assert_int_equal(reposbx_exec_result_json(&json, &result, NULL), 0);
    assert_non_null(strstr(json, "output_limited"));
    free(json);
    reposbx_exec_result_dispose(&result);
    /* Both streams count. */
    place_sh(&result, session, "yes | head -c 250000 >&2; yes");
    assert_int_equal(result.status, REPOSBX_OUTPUT_LIMITED);
    assert_int_equal(result.stdout_bytes + result.stderr_bytes, CAPTURE);
    reposbx_exec_result_dispose(&result);
    free(text);
    still_works();
}

struct seen {
    char bytes[3][8192];
    size_t length[3];
    int stop_fd;     /* raised when something came; -1: none */
    int answer;
};

static int see(void *payload, int stream, const void *bytes, size_t length)
{
    struct seen *seen = payload;
    uint64_t one = 1;

    if (stream < 1 || stream > 2 || seen->length[stream] + length > sizeof seen->bytes[0])
        return -1;
    (void)memcpy(seen->bytes[stream] + seen->length[stream], bytes, length);
    seen->length[stream] += length;
    if (seen->stop_fd >= 0 && write(seen->stop_fd, &one, sizeof one) != sizeof one)
        return -1;
    return seen->answer;
}

static void test_live_output(void **state)
{
    const char *argv[] = { "sh", "-c", "echo 1; echo 2 >&2; sleep 0.3; printf '3\\377'" };
    struct seen seen = { .stop_fd = -1 };
    reposbx_exec_request request = request_of(argv, 3);
    reposbx_exec_result result;

    (void)state;
    request.output = see;
    request.output_payload = &seen;
    place_exec(&result, session, &request);
    assert_int_equal(seen.length[1], 4);
    assert_memory_equal(seen.bytes[1], "1\n3\xff", 4);
    assert_int_equal(seen.length[2], 2);
    assert_memory_equal(seen.bytes[2], "2\n", 2);
    assert_int_equal(result.stdout_bytes, 4);
    reposbx_exec_result_dispose(&result);
    seen.answer = 1;
    argv[2] = "echo on; sleep 1000";
    (void)memset(&result, 0, sizeof result);
    assert_int_equal(reposbx_session_exec(&result, session, &request, NULL), REPOSBX_ECANCELLED);
    still_works();
}

static void test_cancel(void **state)
{
    const char *argv[] = { "sh", "-c", "echo started; sleep 1000" };
    struct seen seen = { .stop_fd = eventfd(0, EFD_CLOEXEC) };
    reposbx_exec_request request = request_of(argv, 3);
    reposbx_exec_result result;

    (void)state;
    assert_true(seen.stop_fd >= 0);
    (void)memset(&result, 0, sizeof result);
    request.output = see;
    request.output_payload = &seen;
    request.cancel_fd = seen.stop_fd;
    assert_int_equal(reposbx_session_exec(&result, session, &request, NULL), REPOSBX_ECANCELLED);
    assert_memory_equal(seen.bytes[1], "started\n", 8);
    still_works();
    /* Readable from the start: the command is not waited for. */
    assert_int_equal(reposbx_session_exec(&result, session, &request, NULL), REPOSBX_ECANCELLED);
    (void)close(seen.stop_fd);
    still_works();
}

/* The commands above are in the chained log with their streams. */
static void test_audit_of_it_all(void **state)
{
    reposbx_audit_report report;
    reposbx_error err = REPOSBX_ERROR_INIT;

    (void)state;
    assert_int_equal(reposbx_audit_verify(&report, reposbx_session_audit_dir(session), &err), 0);
    if (report.verdict != REPOSBX_AUDIT_OPEN)
        fail_msg("verdict %d at line %llu: %s", report.verdict, (unsigned long long)report.bad_line,
                 report.reason);
    assert_true(report.streams_checked > 50);
    place_close(session, false);
    session = NULL;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exit_codes),
        cmocka_unit_test(test_every_signal),
        cmocka_unit_test(test_not_started),
        cmocka_unit_test(test_timeout),
        cmocka_unit_test(test_timeout_of_the_stubborn),
        cmocka_unit_test(test_out_of_memory),
        cmocka_unit_test(test_argv_bytes),
        cmocka_unit_test(test_argv_refused),
        cmocka_unit_test(test_environment),
        cmocka_unit_test(test_environment_refused),
        cmocka_unit_test(test_folder),
        cmocka_unit_test(test_stdin),
        cmocka_unit_test(test_streams_apart),
        cmocka_unit_test(test_preview_of_no_text),
        cmocka_unit_test(test_preview_budget),
        cmocka_unit_test(test_output_cap),
        cmocka_unit_test(test_live_output),
        cmocka_unit_test(test_cancel),
        cmocka_unit_test(test_audit_of_it_all),
    };
    int gate = place_gate();

    if (gate != 0)
        return gate;
    return cmocka_run_group_tests_name("commands on a real engine", tests, setup, group_teardown);
}
