/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "real/one_session.h"

#include "base/banned.h"

/*
 * Hostile input B: commands that attack their sandbox, on a real engine. `helper` is a static program of
 * ours that misbehaves (helper.c); it is written into the workspace of each session. Endings that the
 * flow tests cover (real/exec.c) are not repeated.
 */

#define CAPTURE 2000000U
static const char changes[] =
    "{\"limits\": {\"audit_log_bytes\": 2000000, \"memory_bytes\": 134217728, \"pids\": 64,"
    " \"cpus\": 1.0, \"command_timeout_seconds\": 120, \"tmpfs_bytes\": 16777216}}";

static char *helper;
static size_t helper_length;

static int load_helper(void)
{
    FILE *file = fopen(REPOSBX_TEST_HELPER, "rb");

    helper = malloc(1048576);
    if (file == NULL || helper == NULL)
        return -1;
    helper_length = fread(helper, 1, 1048576, file);
    return fclose(file);
}

static int setup(void **state)
{
    return load_helper() == 0 ? group_setup(state) : -1;
}

static int teardown(void **state)
{
    free(helper);
    return group_teardown(state);
}

static int enter(void **state)
{
    (void)state;
    session = place_session(&place, changes, NULL);
    return reposbx_session_write(session, "helper", helper, helper_length, REPOSBX_WRITE_EXECUTABLE,
                                 NULL);
}

static int leave(void **state)
{
    (void)state;
    if (session != NULL) {
        (void)reposbx_session_close(session, REPOSBX_DROP_AUDIT, NULL);
        place_free(session);
    }
    session = NULL;
    return 0;
}

static double now(void)
{
    struct timespec moment;

    (void)clock_gettime(CLOCK_MONOTONIC, &moment);
    return (double)moment.tv_sec + (double)moment.tv_nsec / 1e9;
}

/* `helper verb word` with a deadline; what it gives is the caller's. */
static void run_helper(reposbx_exec_result *out, const char *verb, const char *word, double seconds)
{
    const char *argv[] = { "./helper", verb, word };
    reposbx_exec_request request = REPOSBX_EXEC_REQUEST_INIT;

    request.argv = argv;
    request.argc = 3;
    request.timeout_seconds = seconds;
    place_exec(out, session, &request);
}

/* The next command finds a whole sandbox: its own process alone, empty scratch space, a quiet workspace. */
static void unaffected(void)
{
    char *text = place_text(session,
                            "set -- /proc/[0-9]*; echo $#; ls -A /tmp /run | grep -v ':$' | "
                            "grep -v '^$' | grep -v '^home$'; before=$(stat -c %s trace 2>&1); "
                            "sleep 0.5; test \"$before\" = \"$(stat -c %s trace 2>&1)\" && echo quiet");

    /* PID 1 and the shell. */
    assert_string_equal(text, "2\nquiet\n");
    free(text);
}

static void silent(const char *verb)
{
    reposbx_exec_result result;

    run_helper(&result, verb, "", 60);
    if (result.status != REPOSBX_EXITED || result.exit_code != 0 || result.stdout_bytes != 0)
        fail_msg("%s: %s %d, not refused: %s%s", verb, reposbx_exec_status_word(result.status),
                 result.exit_code, result.stdout_preview, result.stderr_preview);
    reposbx_exec_result_dispose(&result);
}

static void diff_of(reposbx_diff_result *out)
{
    reposbx_diff_options options = REPOSBX_DIFF_OPTIONS_INIT;
    reposbx_error err = REPOSBX_ERROR_INIT;

    options.max_bytes = 1U << 28;
    (void)memset(out, 0, sizeof *out);
    if (reposbx_session_diff(out, session, &options, &err) != 0)
        fail_msg("diff: %s", err.message);
}

static bool has_file(const reposbx_diff_result *diff, const char *path)
{
    for (size_t i = 0; i < diff->file_count; i++)
        if (strcmp(diff->files[i].path, path) == 0)
            return true;
    return false;
}

static const char *omission(const reposbx_diff_result *diff, const char *path)
{
    for (size_t i = 0; i < diff->omitted_count; i++)
        if (strcmp(diff->omitted[i].path, path) == 0)
            return diff->omitted[i].reason;
    return "not omitted";
}

/* ---- 1: bombs ---- */

static void test_b1_fork_bomb(void **state)
{
    reposbx_exec_result result;

    (void)state;
    run_helper(&result, "fork-bomb", "", 20);
    assert_true(result.status == REPOSBX_EXITED || result.status == REPOSBX_TIMED_OUT);
    if (result.status == REPOSBX_EXITED)
        assert_string_equal(result.stdout_preview, "bounded\n");
    assert_int_equal(result.observed_pids, 64);
    reposbx_exec_result_dispose(&result);
    unaffected();
}

static void test_b1_memory_bomb(void **state)
{
    reposbx_exec_result result;

    (void)state;
    run_helper(&result, "memory-bomb", "", 30);
    assert_true(result.oom_killed);
    assert_true(result.status == REPOSBX_OOM_KILLED || result.status == REPOSBX_TIMED_OUT);
    assert_int_equal(result.observed_memory_bytes, 134217728);
    reposbx_exec_result_dispose(&result);
    unaffected();
}

static void test_b1_scratch_fill(void **state)
{
    char *text;

    (void)state;
    text = place_text(session, "dd if=/dev/zero of=/tmp/x bs=1M 2>/dev/null; stat -c %s /tmp/x; "
                               "dd if=/dev/zero of=/run/x bs=1M 2>/dev/null; stat -c %s /run/x");
    assert_true(strtol(text, NULL, 10) > 15000000);
    assert_true(strtol(text, NULL, 10) <= 16777216);
    assert_true(strtol(strchr(text, '\n'), NULL, 10) <= 2097152);
    free(text);
    unaffected();
}

/* More files than a list may have: a bound that is named, and a session that goes on. */
static void test_b1_many_files(void **state)
{
    reposbx_exec_result result;
    reposbx_file_list list = { NULL, 0 };
    reposbx_diff_options options = REPOSBX_DIFF_OPTIONS_INIT;
    reposbx_diff_result diff;
    double start;
    int rc;

    (void)state;
    run_helper(&result, "many-files", "205000", 120);
    assert_int_equal(result.exit_code, 0);
    reposbx_exec_result_dispose(&result);
    assert_int_equal(reposbx_session_list_files(&list, session, NULL, NULL), REPOSBX_ELIMIT);
    assert_null(list.files);
    (void)memset(&diff, 0, sizeof diff);
    start = now();
    rc = reposbx_session_diff(&diff, session, &options, NULL);
    assert_true(rc == 0 || rc == REPOSBX_ELIMIT);
    assert_true(now() - start < 240);
    if (rc == 0)
        assert_true(diff.file_count + diff.omitted_count >= 205000);
    reposbx_diff_result_dispose(&diff);
    free(place_text(session, "rm -r many"));
    unaffected();
}

/* ---- 2: output ---- */

static unsigned char byte_at(int stream, size_t at)
{
    static const unsigned char text[] = { 0xe2, 0x82, 0xac, 0x00, 0xff, 0xc3, 0xa9, 'a', 0xed };

    return (unsigned char)(text[at % sizeof text] + (stream == 2 && at % 5 == 0 ? 1 : 0));
}

static void hash_is(const char *hash, int stream, size_t length)
{
    unsigned char *bytes = malloc(length + 1);
    char wanted[65];

    assert_non_null(bytes);
    for (size_t i = 0; i < length; i++)
        bytes[i] = byte_at(stream, i);
    place_sha256(wanted, bytes, length);
    free(bytes);
    assert_string_equal(hash, wanted);
}

/* Both streams at once, no newline, NULs, no UTF-8: exact up to the cap, which both share. */
static void test_b2_both_streams(void **state)
{
    static const char *const sizes[] = { "100003", "999999", "1500000" };

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        size_t size = strtoul(sizes[i], NULL, 10);
        reposbx_exec_result result;

        run_helper(&result, "both", sizes[i], 60);
        if (2 * size < CAPTURE) {
            assert_int_equal(result.status, REPOSBX_EXITED);
            assert_int_equal(result.stdout_bytes, size);
            assert_int_equal(result.stderr_bytes, size);
        } else {
            assert_int_equal(result.status, REPOSBX_OUTPUT_LIMITED);
            assert_int_equal(result.stdout_bytes + result.stderr_bytes, CAPTURE);
        }
        hash_is(result.stdout_sha256, 1, result.stdout_bytes);
        hash_is(result.stderr_sha256, 2, result.stderr_bytes);
        reposbx_exec_result_dispose(&result);
    }
}

struct slow {
    size_t seen;
    unsigned int calls;
};

/* Sleeps past the deadline, then reads on: everything that is under way still comes. */
static int dawdle(void *payload, int stream, const void *bytes, size_t length)
{
    const struct timespec pause = { 0, 200000000L };
    struct slow *slow = payload;

    (void)stream;
    (void)bytes;
    slow->seen += length;
    return slow->calls++ < 30 ? nanosleep(&pause, NULL) : 0;
}

/* A caller that reads slowly blocks neither the deadline nor the kill. */
static void test_b2_slow_reader(void **state)
{
    const char *argv[] = { "sh", "-c", "while :; do echo line; done" };
    reposbx_exec_request request = REPOSBX_EXEC_REQUEST_INIT;
    reposbx_exec_result result;
    struct slow slow = { 0, 0 };
    double start = now();

    (void)state;
    request.argv = argv;
    request.argc = 3;
    request.timeout_seconds = 2;
    request.output = dawdle;
    request.output_payload = &slow;
    place_exec(&result, session, &request);
    assert_true(result.timed_out || result.output_limited);
    assert_true(slow.calls > 0);
    assert_int_equal(slow.seen, result.stdout_bytes);
    assert_true(now() - start < 60);
    reposbx_exec_result_dispose(&result);
    unaffected();
}

/* ---- 3: survivors ---- */

static void no_survivor(const char *script)
{
    reposbx_exec_result result;

    place_sh(&result, session, script);
    if (result.status != REPOSBX_EXITED || result.exit_code != 0)
        fail_msg("%s: %s %d", script, reposbx_exec_status_word(result.status), result.exit_code);
    assert_true(result.duration_ms < 30000);
    reposbx_exec_result_dispose(&result);
    unaffected();
}

static void test_b3_survivors(void **state)
{
    (void)state;
    no_survivor("sleep 1000 & exit 0");
    no_survivor("(while :; do echo x >> trace; done) & exit 0");
    no_survivor("setsid sh -c 'while :; do echo x >> trace; sleep 0.01; done' & exit 0");
    no_survivor("nohup sh -c 'while :; do echo x >> trace; sleep 0.01; done' >/dev/null 2>&1 & exit 0");
    no_survivor("(trap '' TERM HUP INT; while :; do echo x >> trace; sleep 0.01; done) & sleep 0.1");
    no_survivor("sh -c 'kill -STOP $$' & sleep 0.1");
    no_survivor("exec ./helper daemons 0");
    no_survivor("exec ./helper daemons 1");
}

/* What runs past the deadline is gone too, even where everything is stopped. */
static void test_b3_deadline(void **state)
{
    static const char *const verbs[] = { "stop-all", "trace-all", "fork-bomb" };
    reposbx_exec_result result;

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        run_helper(&result, verbs[i], "", 1);
        if (i < 2)
            assert_int_equal(result.status, REPOSBX_TIMED_OUT);
        assert_true(result.duration_ms < 30000);
        reposbx_exec_result_dispose(&result);
        unaffected();
    }
}

/* ---- 4: endings ---- */

static void test_b4_real_time_signals(void **state)
{
    static const int numbers[] = { 34, 50, 64 };
    char script[32];

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        reposbx_exec_result result;

        (void)snprintf(script, sizeof script, "kill -%d $$; exit 0", numbers[i]);
        place_sh(&result, session, script);
        assert_int_equal(result.status, REPOSBX_SIGNALED);
        assert_int_equal(result.signal, numbers[i]);
        reposbx_exec_result_dispose(&result);
    }
}

/* Programs that no kernel starts are a result with their errno, never an error of the sandbox. */
static void test_b4_odd_programs(void **state)
{
    static char long_name[5001];
    const char *programs[] = { "./noshebang", "./folder-interpreter", "./loop", "./empty-program",
                               "./garbage", long_name, "./\xff\xfe" };

    (void)state;
    (void)memset(long_name, 'n', sizeof long_name - 1);
    (void)memcpy(long_name, "./", 2);
    free(place_text(session, "echo 'exit 0' > noshebang; printf '#!/tmp\\n' > folder-interpreter; "
                             "ln -s loop loop; : > empty-program; printf '\\177ELF\\001garbage' > garbage; "
                             "chmod 755 noshebang folder-interpreter empty-program garbage"));
    for (size_t i = 0; i < sizeof programs / sizeof programs[0]; i++) {
        reposbx_exec_request request = REPOSBX_EXEC_REQUEST_INIT;
        reposbx_exec_result result;

        request.argv = &programs[i];
        request.argc = 1;
        place_exec(&result, session, &request);
        if (result.exec_errno == 0 || (result.exit_code != 126 && result.exit_code != 127))
            fail_msg("program %zu: %d, errno %d", i, result.exit_code, result.exec_errno);
        reposbx_exec_result_dispose(&result);
    }
    unaffected();
}

/* An argv that is too large for the kernel or for us is refused or said to be too long, with time to spare. */
static void test_b4_huge_argv(void **state)
{
    size_t large = 10U << 20, many = 50000;
    char *word = malloc(large + 1);
    const char **argv = calloc(many, sizeof *argv);
    reposbx_exec_request request = REPOSBX_EXEC_REQUEST_INIT;
    reposbx_exec_result result;
    reposbx_error err = REPOSBX_ERROR_INIT;
    int rc;

    (void)state;
    assert_true(word != NULL && argv != NULL);
    (void)memset(word, '\n', large);
    word[large] = '\0';
    argv[0] = "echo";
    argv[1] = word;
    request.argv = argv;
    for (int i = 0; i < 2; i++) {
        request.argc = i == 0 ? 2 : many;
        for (size_t j = 1; i == 1 && j < many; j++)
            argv[j] = "12345678901234567890123456789012345678901234567890";
        (void)memset(&result, 0, sizeof result);
        rc = reposbx_session_exec(&result, session, &request, &err);
        if (rc != 0 && rc != REPOSBX_ELIMIT && rc != REPOSBX_EPOLICY && rc != REPOSBX_EINVALID)
            fail_msg("%s: %s", reposbx_code_word(rc), err.message);
        if (rc == 0)
            assert_true(result.exec_errno != 0 || result.exit_code == 0);
        reposbx_exec_result_dispose(&result);
    }
    free(argv);
    free(word);
    unaffected();
}

/* ---- 5: stdin ---- */

static void test_b5_stdin(void **state)
{
    static char bytes[1048576];
    static const struct {
        const char *script;
        int timed_out;
    } cases[] = { { "sleep 1000", 1 },
                  { "head -c 70000 > /dev/null; sleep 1000", 1 },
                  { "exec 0<&-; sleep 0.1", 0 },
                  { "(sleep 1000 <&0) & exit 0", 0 },
                  { "dd bs=1 count=5000 of=/dev/null 2>/dev/null", 0 },
                  { "cat | head -c 1 > /dev/null", 0 } };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *argv[] = { "sh", "-c", cases[i].script };
        reposbx_exec_request request = REPOSBX_EXEC_REQUEST_INIT;
        reposbx_exec_result result;

        request.argv = argv;
        request.argc = 3;
        request.stdin_bytes = bytes;
        request.stdin_length = sizeof bytes;
        request.timeout_seconds = cases[i].timed_out ? 1 : 60;
        place_exec(&result, session, &request);
        assert_int_equal(result.timed_out != 0, cases[i].timed_out);
        if (!cases[i].timed_out)
            assert_int_equal(result.exit_code, 0);
        reposbx_exec_result_dispose(&result);
    }
    unaffected();
}

/* ---- 6: rights ---- */

static void test_b6_pid_1(void **state)
{
    reposbx_exec_result result;

    (void)state;
    silent("reach-1");
    run_helper(&result, "signal-1", "", 60);
    assert_int_equal(result.status, REPOSBX_EXITED);
    assert_int_equal(result.exit_code, 9);
    assert_string_equal(result.stdout_preview, "alive\n");
    reposbx_exec_result_dispose(&result);
    unaffected();
}

static void test_b6_forged_frames(void **state)
{
    reposbx_exec_result result;

    (void)state;
    for (int quiet = 0; quiet < 2; quiet++) {
        run_helper(&result, "forge", quiet ? "1" : "0", 60);
        assert_int_equal(result.status, REPOSBX_EXITED);
        assert_int_equal(result.exit_code, 7);
        assert_true(result.stderr_bytes > 1000);
        assert_memory_equal(result.stderr_preview, "\1\0\0\0\0\0\0\20RSBX", 12);
        if (quiet)
            assert_string_equal(result.stdout_preview, "");
        else
            assert_string_equal(result.stdout_sha256, result.stderr_sha256);
        reposbx_exec_result_dispose(&result);
    }
    unaffected();
}

static void test_b6_rights(void **state)
{
    (void)state;
    silent("spaces");
    silent("doors");
    silent("rights");
    silent("kernel-files");
}

static void test_b6_no_network(void **state)
{
    reposbx_exec_result result;

    (void)state;
    place_sh(&result, session, "cat /proc/net/route | wc -l; timeout 5 nc 1.1.1.1 53 </dev/null || "
                               "timeout 5 nslookup example.org || echo cut");
    assert_non_null(strstr(result.stdout_preview, "cut\n"));
    assert_int_equal(strncmp(result.stdout_preview, "1\n", 2), 0);
    reposbx_exec_result_dispose(&result);
}

/* ---- 7: a nasty workspace ---- */

static const char nasty[] =
    "mkfifo pipe; ./helper socket sock; ln -s loop1 loop2; ln -s loop2 loop1; ln -s / root; ln -s . self; "
    "mkdir shut shut/in; echo a > shut/in/file; echo b > closed; chmod 000 closed shut/in/file shut/in "
    "shut; cp helper suid; chmod 6755 suid; mkdir sticky; echo s > sticky/f; chmod 7777 sticky; "
    "ln text.txt hard; mkdir .git; echo x > .git/config; mkdir a b c e; echo x > a/.git; "
    "mkdir b/.GIT; echo x > b/.GIT/config; mkdir c/git~1; echo x > c/git~1/f; echo x > 'e/.git '; "
    "mkdir g h; echo x > g/.git.; echo x > 'h/.git::$INDEX_ALLOCATION'; mkdir hfs; "
    "echo x > \"$(printf 'hfs/.g\\342\\200\\214it')\"; echo x > 'back\\slash'; "
    "echo x > \"$(printf 'esc\\033[31m')\"; echo x > \"$(printf 'bad\\377\\376')\"; "
    "echo x > \"$(printf 'u2028\\342\\200\\250')\"; echo x > $(printf '%0255d' 7); mkdir hollow; "
    "ln -s text.txt .gitattributes; mkdir m; ln -s ../text.txt m/.GITMODULES; "
    "mkdir well; cd well; ../helper deep 300";

static void test_b7_nasty_workspace(void **state)
{
    static const struct {
        const char *path, *reason;
    } gone[] = { { "pipe", "fifo" },       { "sock", "socket" },     { "hollow", "empty_folder" },
                 { ".git", "dotgit" },     { "a/.git", "dotgit" },   { "b/.GIT", "dotgit" },
                 { "c/git~1", "dotgit" },  { "e/.git ", "dotgit" },  { "g/.git.", "dotgit" },
                 { "h/.git::$INDEX_ALLOCATION", "dotgit" },
                 { "hfs/.g\342\200\214it", "dotgit" },
                 { ".gitattributes", "name" }, { "m/.GITMODULES", "name" } };
    static const char *const there[] = { "loop1", "root", "self", "closed", "shut/in/file", "suid",
                                         "sticky/f", "hard", "esc\033[31m", "bad\377\376",
                                         "u2028\342\200\250" };
    reposbx_file_list list = { NULL, 0 };
    reposbx_diff_result diff;
    char *json = NULL;

    (void)state;
    free(place_text(session, nasty));
    diff_of(&diff);
    for (size_t i = 0; i < sizeof gone / sizeof gone[0]; i++)
        if (strcmp(omission(&diff, gone[i].path), gone[i].reason) != 0)
            fail_msg("%s: %s", gone[i].path, omission(&diff, gone[i].path));
    for (size_t i = 0; i < sizeof there / sizeof there[0]; i++)
        if (!has_file(&diff, there[i]))
            fail_msg("%s is not in the diff (%s)", there[i], omission(&diff, there[i]));
    for (size_t i = 0; i < diff.file_count; i++)
        assert_true(diff.files[i].new_mode == 0 || diff.files[i].new_mode == 0100644 ||
                    diff.files[i].new_mode == 0100755 || diff.files[i].new_mode == 0120000);
    /* Either in the diff or named: a name with a backslash, and what lies too deep. */
    assert_true(has_file(&diff, "back\\slash") ||
                strcmp(omission(&diff, "back\\slash"), "name") == 0);
    applies(&diff);
    assert_int_equal(reposbx_diff_result_json(&json, &diff, NULL, NULL), 0);
    assert_null(strchr(json, '\033'));
    free(json);
    reposbx_diff_result_dispose(&diff);
    assert_int_equal(reposbx_session_list_files(&list, session, NULL, NULL), 0);
    assert_true(list.count > 300);
    reposbx_file_list_dispose(&list);
    unaffected();
}

/* ---- 8, 9, 10: what the diff must see, and bounds ---- */

static void test_b8_same_size_and_time(void **state)
{
    reposbx_diff_result diff;

    (void)state;
    free(place_text(session, "./helper restamp text.txt; ./helper restamp-mapped deep/er/other; "
                             "./helper restamp deep/sibling"));
    diff_of(&diff);
    assert_true(has_file(&diff, "text.txt"));
    assert_true(has_file(&diff, "deep/er/other"));
    assert_true(has_file(&diff, "deep/sibling"));
    applies(&diff);
    reposbx_diff_result_dispose(&diff);
}

static void test_b9_everything_gone(void **state)
{
    reposbx_diff_result diff;
    char *text = NULL;
    size_t length = 0;

    (void)state;
    free(place_text(session, "rm -rf ./* ./.[!.]*; test -z \"$(ls -A)\" && chmod 000 /workspace"));
    diff_of(&diff);
    assert_string_equal(diff.result_tree, "4b825dc642cb6eb9a060e54bf8d69288fbee4904");
    assert_int_equal(diff.file_count, 15);
    for (size_t i = 0; i < diff.file_count; i++)
        assert_string_equal(diff.files[i].status, "deleted");
    applies(&diff);
    reposbx_diff_result_dispose(&diff);
    /* Nobody can write there any more, which is said; nothing hangs. */
    assert_int_equal(reposbx_session_write(session, "back", "1", 1, 0, NULL), REPOSBX_EPOLICY);
    assert_int_equal(reposbx_session_read(&text, &length, session, "unique", 10, NULL),
                     REPOSBX_ENOTFOUND);
}

static void test_b9_closed_root(void **state)
{
    reposbx_exec_request request = REPOSBX_EXEC_REQUEST_INIT;
    const char *argv[] = { "chmod", "755", "/workspace" };
    reposbx_exec_result result;
    reposbx_diff_result diff;
    int rc;

    (void)state;
    free(place_text(session, "rm helper; echo x > text.txt; chmod 000 /workspace"));
    diff_of(&diff);
    assert_int_equal(diff.file_count, 1);
    assert_true(has_file(&diff, "text.txt"));
    reposbx_diff_result_dispose(&diff);
    (void)memset(&result, 0, sizeof result);
    request.argv = argv;
    request.argc = 3;
    rc = reposbx_session_exec(&result, session, &request, NULL);
    assert_true(rc == 0 || rc == REPOSBX_ENOTFOUND || rc == REPOSBX_EPOLICY);
    reposbx_exec_result_dispose(&result);
}

static void bounded_diff(const char *script, bool must_work)
{
    reposbx_diff_options options = REPOSBX_DIFF_OPTIONS_INIT;
    reposbx_diff_result diff;
    reposbx_error err = REPOSBX_ERROR_INIT;
    double start;
    int rc;

    (void)memset(&diff, 0, sizeof diff);
    free(place_text(session, script));
    start = now();
    rc = reposbx_session_diff(&diff, session, &options, &err);
    if (rc != 0 && (must_work || rc != REPOSBX_ELIMIT))
        fail_msg("%s: %s: %s", script, reposbx_code_word(rc), err.message);
    assert_true(now() - start < 120);
    if (rc == 0)
        assert_true(diff.file_count + diff.omitted_count > 0);
    reposbx_diff_result_dispose(&diff);
}

static void test_b10_large_changes(void **state)
{
    (void)state;
    bounded_diff("rm helper; seq 1 200000 > text.txt", true);
    bounded_diff("seq 200001 400000 > text.txt", true);
    bounded_diff("head -c 3000000 /dev/zero | tr '\\0' x > text.txt; echo >> text.txt; "
                 "head -c 3000000 /dev/zero | tr '\\0' y >> text.txt", true);
    bounded_diff("head -c 2000000 /dev/zero | tr '\\0' '\\n' > text.txt", true);
}

static void test_b10_sparse(void **state)
{
    char *bytes = NULL;
    size_t length = 0;

    (void)state;
    bounded_diff("./helper sparse huge 1024", false);
    assert_int_equal(reposbx_session_read(&bytes, &length, session, "huge",
                                          REPOSBX_READ_BYTES_DEFAULT, NULL), REPOSBX_ELIMIT);
    bounded_diff("rm huge; echo y > text.txt", true);
    unaffected();
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, enter, leave)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_b1_fork_bomb), CASE(test_b1_memory_bomb), CASE(test_b1_scratch_fill),
        CASE(test_b1_many_files), CASE(test_b2_both_streams), CASE(test_b2_slow_reader),
        CASE(test_b3_survivors), CASE(test_b3_deadline), CASE(test_b4_real_time_signals),
        CASE(test_b4_odd_programs), CASE(test_b4_huge_argv), CASE(test_b5_stdin),
        CASE(test_b6_pid_1), CASE(test_b6_forged_frames), CASE(test_b6_rights),
        CASE(test_b6_no_network), CASE(test_b7_nasty_workspace), CASE(test_b8_same_size_and_time),
        CASE(test_b9_everything_gone), CASE(test_b9_closed_root), CASE(test_b10_large_changes),
        CASE(test_b10_sparse),
    };
    int gate = place_gate();

    if (gate != 0)
        return gate;
    return cmocka_run_group_tests_name("hostile commands", tests, setup, teardown);
}
