/* SPDX-License-Identifier: Apache-2.0 */
/* How the podman program is run. The program here is a script of the test's, so that it can behave
 * in every way that the real one might. */
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/fd.h"
#include "podman/podman.h"

#define ENOUGH_MS 20000

static char folder[64];
static char address[128];

static const char script[] =
    "#!/bin/sh\n"
    "while :; do case $1 in --*) flags=\"$flags $1\"; shift;; *) break;; esac; done\n"
    "case $1 in\n"
    "say) shift; printf '%s|' $flags; printf '%s\\n' \"$@\";;\n"
    "env) env;;\n"
    "cat) cat;;\n"
    /* Listed by a subshell: a pipe or file of the listing would be in the list otherwise. */
    "descriptors) (ls /proc/$$/fd >$0.open); sort -n $0.open | tr '\\n' ' '; pwd;\n"
    "  cut -d' ' -f5,6 /proc/$$/stat; echo $$;;\n"
    "flood) head -c 5000000 /dev/zero;;\n"
    "complain) head -c 100000 /dev/zero | tr '\\0' x >&2; echo out; exit 3;;\n"
    "fail) echo first >&2; echo 'Error: no such thing' >&2; echo 'See help' >&2; exit 125;;\n"
    "hang) sleep 1000 & echo $!; wait;;\n"
    "cancel) sleep $3 & echo $!; echo now >\"$2\"; wait;;\n"
    "orphan) sleep 1000 & echo $!;;\n"
    "die) kill -9 $$;;\n"
    "deaf) exec <&-; sleep 0.1; echo done;;\n"
    "esac\n";

static int setup(void **state)
{
    char path[80];
    int fd;

    (void)state;
    (void)snprintf(folder, sizeof folder, "/tmp/podman-test.XXXXXX");
    assert_non_null(mkdtemp(folder));
    (void)snprintf(path, sizeof path, "%s/program", folder);
    fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0700);
    assert_true(fd >= 0);
    assert_int_equal(rsbx_write_all(fd, script, sizeof script - 1), 0);
    (void)close(fd);
    (void)snprintf(address, sizeof address, "podman:%s?root=/r&cgroup-manager=cgroupfs", path);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    return rsbx_remove_tree_at(AT_FDCWD, folder, NULL);
}

static rsbx_podman_ptr opened(void)
{
    struct rsbx_podman *podman = NULL;
    reposbx_error err = REPOSBX_ERROR_INIT;

    if (rsbx_podman_open(&podman, address, NULL, &err) != 0)
        fail_msg("%s", err.message);
    return podman;
}

static void run(struct rsbx_podman_answer *out, const struct rsbx_podman_call *call)
{
    RSBX_AUTO(rsbx_podman) rsbx_podman_ptr podman = opened();
    reposbx_error err = REPOSBX_ERROR_INIT;

    if (rsbx_podman_run(out, podman, call, &err) != 0)
        fail_msg("%s", err.message);
}

static void run_word(struct rsbx_podman_answer *out, const char *word)
{
    const char *const argv[] = { word, "two words", "$(id)", NULL };
    struct rsbx_podman_call call = { .argv = argv,
                                     .output_bytes = 1000000,
                                     .deadline = rsbx_deadline_in_ms(ENOUGH_MS) };

    run(out, &call);
}

static bool process_is_there(const struct rsbx_buf *text)
{
    long pid = strtol(text->data, NULL, 10);

    assert_true(pid > 1);
    return kill((pid_t)pid, 0) == 0;
}

/* A killed process that nobody has reaped yet still has a number: wait for it to go. */
static void assert_goes(const struct rsbx_buf *text)
{
    for (int i = 0; i < 2000 && process_is_there(text); i++)
        (void)usleep(5000);
    assert_false(process_is_there(text));
}

static void addresses(void **state)
{
    static const char *const bad[] = {
        "podman:",           "podman:relative",           "podman?",
        "podman?root",       "podman?root=relative",      "podman?root=/a&root=/b",
        "podman?shell=/bin", "podman?storage-driver=a b", "podman?storage-driver=",
    };

    (void)state;
    assert_true(rsbx_podman_is_address("podman"));
    assert_true(rsbx_podman_is_address("podman:/usr/bin/podman?root=/a"));
    assert_false(rsbx_podman_is_address("podmanx"));
    assert_false(rsbx_podman_is_address("unix:///podman"));
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct rsbx_podman *podman = NULL;
        reposbx_error err = REPOSBX_ERROR_INIT;
        char text[160];

        /* The program of the test stands in where the machine has none. */
        (void)snprintf(text, sizeof text, "%s", bad[i]);
        if (strncmp(bad[i], "podman?", 7) == 0)
            (void)snprintf(text, sizeof text, "podman:%s/program?%s", folder, bad[i] + 7);
        assert_int_equal(rsbx_podman_open(&podman, text, NULL, &err), REPOSBX_EINVALID);
        assert_null(podman);
        assert_true(err.hint[0] != '\0');
    }
}

static void a_program_that_is_not_there(void **state)
{
    struct rsbx_podman *podman = NULL;
    reposbx_error err = REPOSBX_ERROR_INIT;

    (void)state;
    assert_int_equal(rsbx_podman_open(&podman, "podman:/nowhere/podman", NULL, &err),
                     REPOSBX_EUNAVAILABLE);
    assert_non_null(strstr(err.message, "/nowhere/podman"));
    assert_null(podman);
}

static void arguments_are_not_read_by_a_shell(void **state)
{
    RSBX_AUTO(rsbx_podman_answer) struct rsbx_podman_answer answer = { 0 };

    (void)state;
    run_word(&answer, "say");
    assert_int_equal(answer.exit_code, 0);
    assert_string_equal(answer.out.data,
                        "--remote=false|--default-mounts-file=/dev/null|--root=/r|"
                        "--cgroup-manager=cgroupfs|two words\n$(id)\n");
    assert_string_equal(answer.err.length > 0 ? answer.err.data : "", "");
}

static void a_runtime_of_the_policy_comes_first(void **state)
{
    RSBX_AUTO(rsbx_podman) rsbx_podman_ptr podman = NULL;
    char text[160];

    (void)state;
    (void)snprintf(text, sizeof text, "podman:%s/program?runtime=/a", folder);
    assert_int_equal(rsbx_podman_open(&podman, text, "/b", NULL), 0);
    assert_string_equal(rsbx_podman_flags(podman)[2], "--runtime=/b");
    assert_null(rsbx_podman_flags(podman)[3]);
}

static void the_environment_is_ours(void **state)
{
    RSBX_AUTO(rsbx_podman_answer) struct rsbx_podman_answer answer = { 0 };

    (void)state;
    assert_int_equal(setenv("CONTAINER_HOST", "tcp://elsewhere", 1), 0);
    assert_int_equal(setenv("CONTAINERS_CONF", "/elsewhere", 1), 0);
    assert_int_equal(setenv("HTTPS_PROXY", "http://elsewhere", 1), 0);
    assert_int_equal(setenv("HOME", "/elsewhere", 1), 0);
    assert_int_equal(setenv("XDG_RUNTIME_DIR", "/", 1), 0);
    assert_int_equal(setenv("DBUS_SESSION_BUS_ADDRESS", "unixexec:path=/elsewhere", 1), 0);
    run_word(&answer, "env");
    assert_non_null(strstr(answer.out.data, "HOME=/"));
    assert_non_null(strstr(answer.out.data, "LC_ALL=C\n"));
    assert_non_null(strstr(answer.out.data, "CONTAINERS_CONF=/dev/null\n"));
    assert_null(strstr(answer.out.data, "elsewhere"));
    assert_null(strstr(answer.out.data, "XDG_RUNTIME_DIR=/\n"));
}

static void no_descriptor_is_inherited(void **state)
{
    RSBX_AUTO(rsbx_podman_answer) struct rsbx_podman_answer answer = { 0 };
    RSBX_AUTO(rsbx_fd) int stray = open("/dev/null", O_RDONLY);
    long group;
    long session;
    long pid;

    (void)state;
    assert_int_equal(fcntl(stray, F_SETFD, 0), 0);
    assert_int_equal(dup2(stray, 77), 77);
    run_word(&answer, "descriptors");
    (void)close(77);
    /* 10 is the shell's own for its script. */
    assert_int_equal(strncmp(answer.out.data, "0 1 2 10 /\n", 11), 0);
    assert_int_equal(sscanf(strchr(answer.out.data, '\n'), "%ld %ld %ld", &group, &session, &pid), 3);
    assert_int_equal(group, pid);
    assert_int_equal(session, pid);
}

static void input_and_output_of_any_size(void **state)
{
    RSBX_AUTO(rsbx_podman_answer) struct rsbx_podman_answer answer = { 0 };
    RSBX_AUTO(rsbx_memory) void *input = malloc(3000000);
    const char *const argv[] = { "cat", NULL };
    struct rsbx_podman_call call = { .argv = argv,
                                     .input = input,
                                     .input_length = 3000000,
                                     .output_bytes = 3000000,
                                     .deadline = rsbx_deadline_in_ms(ENOUGH_MS) };

    (void)state;
    assert_non_null(input);
    for (size_t i = 0; i < 3000000; i++)
        ((unsigned char *)input)[i] = (unsigned char)(i * 7 + i / 251);
    run(&answer, &call);
    assert_int_equal(answer.exit_code, 0);
    assert_int_equal(answer.out.length, 3000000);
    assert_memory_equal(answer.out.data, input, 3000000);
    assert_false(answer.truncated);
}

static void output_is_bounded_while_it_is_read(void **state)
{
    RSBX_AUTO(rsbx_podman_answer) struct rsbx_podman_answer answer = { 0 };
    const char *const argv[] = { "flood", NULL };
    struct rsbx_podman_call call = { .argv = argv,
                                     .output_bytes = 1000,
                                     .deadline = rsbx_deadline_in_ms(ENOUGH_MS) };
    reposbx_error err = REPOSBX_ERROR_INIT;

    (void)state;
    run(&answer, &call);
    assert_int_equal(answer.exit_code, 0);
    assert_int_equal(answer.out.length, 1000);
    assert_true(answer.out.capacity < 10000);
    assert_true(answer.truncated);
    assert_int_equal(rsbx_podman_check(&answer, "x", &err), REPOSBX_EPROTOCOL);
}

static void complaints_are_bounded_and_do_not_block(void **state)
{
    RSBX_AUTO(rsbx_podman_answer) struct rsbx_podman_answer answer = { 0 };

    (void)state;
    run_word(&answer, "complain");
    assert_int_equal(answer.exit_code, 3);
    assert_string_equal(answer.out.data, "out\n");
    assert_true(answer.err.length > 0 && answer.err.length <= 16384);
}

static void failures_are_told_with_their_reason(void **state)
{
    RSBX_AUTO(rsbx_podman_answer) struct rsbx_podman_answer answer = { 0 };
    RSBX_AUTO(rsbx_podman_answer) struct rsbx_podman_answer died = { 0 };
    reposbx_error err = REPOSBX_ERROR_INIT;

    (void)state;
    run_word(&answer, "fail");
    assert_int_equal(answer.exit_code, 125);
    assert_int_equal(rsbx_podman_check(&answer, "inspect", &err), REPOSBX_EUNAVAILABLE);
    assert_string_equal(err.message, "inspect: Error: no such thing");
    run_word(&died, "die");
    assert_int_equal(died.exit_code, -1);
    assert_int_equal(died.signal, SIGKILL);
    assert_int_equal(rsbx_podman_check(&died, "inspect", &err), REPOSBX_EUNAVAILABLE);
}

static void the_deadline_kills_helpers_too(void **state)
{
    RSBX_AUTO(rsbx_podman_answer) struct rsbx_podman_answer answer = { 0 };
    const char *const argv[] = { "hang", NULL };
    struct rsbx_podman_call call = { .argv = argv,
                                     .output_bytes = 100,
                                     .deadline = rsbx_deadline_in_ms(500) };

    (void)state;
    run(&answer, &call);
    assert_true(answer.timed_out);
    assert_int_equal(answer.exit_code, -1);
    assert_goes(&answer.out);
}

/* What is under way may still end by itself, and what hangs is killed. The program cancels its own call. */
static void a_cancel_is_heard(void **state)
{
    RSBX_AUTO(rsbx_podman_answer) struct rsbx_podman_answer said = { 0 };
    RSBX_AUTO(rsbx_podman_answer) struct rsbx_podman_answer hung = { 0 };
    RSBX_AUTO(rsbx_podman_answer) struct rsbx_podman_answer none = { 0 };
    RSBX_AUTO(rsbx_podman) rsbx_podman_ptr podman = opened();
    char fifo[96];
    const char *argv[] = { "cancel", fifo, "0.2", NULL };
    int cancel_fd = -1;
    struct rsbx_podman_call call = {
        .argv = argv,
        .output_bytes = 100,
        .deadline = rsbx_deadline_or(rsbx_deadline_in_ms(10ULL * ENOUGH_MS), &cancel_fd),
    };
    reposbx_error err = REPOSBX_ERROR_INIT;

    (void)state;
    (void)snprintf(fifo, sizeof fifo, "%s/cancel", folder);
    assert_int_equal(mkfifo(fifo, 0600), 0);
    cancel_fd = open(fifo, O_RDWR | O_CLOEXEC);
    assert_true(cancel_fd >= 0);
    run(&said, &call);
    assert_int_equal(said.exit_code, 0);
    assert_false(said.cancelled);
    /* Cancelled before: not even started. */
    assert_int_equal(rsbx_podman_run(&none, podman, &call, &err), REPOSBX_ECANCELLED);
    assert_int_equal(read(cancel_fd, &(char[64]){ 0 }, 64), 4);
    argv[2] = "1000";
    run(&hung, &call);
    assert_true(hung.cancelled);
    assert_false(hung.timed_out);
    assert_false(rsbx_deadline_passed(call.deadline));
    assert_int_equal(hung.exit_code, -1);
    assert_goes(&hung.out);
    assert_int_equal(rsbx_podman_check(&hung, "podman run", &err), REPOSBX_ECANCELLED);
    (void)close(cancel_fd);
}

/* A monitor that keeps the output open must not hold the call up. */
static void a_helper_that_stays_does_not_hold_it_up(void **state)
{
    RSBX_AUTO(rsbx_podman_answer) struct rsbx_podman_answer answer = { 0 };

    (void)state;
    run_word(&answer, "orphan");
    assert_int_equal(answer.exit_code, 0);
    assert_false(answer.timed_out);
    assert_true(process_is_there(&answer.out));
    assert_int_equal(kill((pid_t)strtol(answer.out.data, NULL, 10), SIGKILL), 0);
}

static void who_does_not_read_gets_no_signal(void **state)
{
    RSBX_AUTO(rsbx_podman_answer) struct rsbx_podman_answer answer = { 0 };
    RSBX_AUTO(rsbx_memory) void *input = calloc(1, 3000000);
    const char *const argv[] = { "deaf", NULL };
    struct rsbx_podman_call call = { .argv = argv,
                                     .input = input,
                                     .input_length = 3000000,
                                     .output_bytes = 100,
                                     .deadline = rsbx_deadline_in_ms(ENOUGH_MS) };

    (void)state;
    run(&answer, &call);
    assert_int_equal(answer.exit_code, 0);
    assert_string_equal(answer.out.data, "done\n");
}

struct heard {
    struct rsbx_buf out, err;
};

static int on_piece(void *payload, int channel, const void *bytes, size_t length,
                    reposbx_error *err)
{
    struct heard *heard = payload;

    return rsbx_buf_append(channel == 1 ? &heard->out : &heard->err, bytes, length, err);
}

static void hear_out(struct rsbx_link *link, struct heard *heard)
{
    bool ended = false;

    while (!ended) {
        assert_int_equal(rsbx_wait_fd(link->ops->fd(link), POLLIN, rsbx_deadline_in_ms(ENOUGH_MS)), 1);
        assert_int_equal(link->ops->receive(&ended, link, on_piece, heard, NULL), 0);
    }
}

static void a_link_carries_both_ways(void **state)
{
    RSBX_AUTO(rsbx_podman) rsbx_podman_ptr podman = opened();
    RSBX_AUTO(rsbx_link) rsbx_link_ptr link = NULL;
    struct heard heard = { RSBX_BUF_INIT(1000), RSBX_BUF_INIT(1000) };
    const char *const argv[] = { "cat", NULL };
    size_t sent = 0;
    int exit_code = 7;

    (void)state;
    assert_int_equal(rsbx_podman_link(&link, podman, argv, NULL), 0);
    assert_int_equal(link->ops->send(&sent, link, "hello", 5, NULL), 0);
    assert_int_equal(sent, 5);
    assert_int_equal(link->ops->shutdown_send(link, NULL), 0);
    hear_out(link, &heard);
    assert_string_equal(heard.out.data, "hello");
    assert_int_equal(
        rsbx_podman_link_finish(&exit_code, link, rsbx_deadline_in_ms(ENOUGH_MS), NULL), 0);
    assert_int_equal(exit_code, 0);
    rsbx_buf_dispose(&heard.out);
    rsbx_buf_dispose(&heard.err);
}

static void a_link_tells_what_was_complained(void **state)
{
    RSBX_AUTO(rsbx_podman) rsbx_podman_ptr podman = opened();
    RSBX_AUTO(rsbx_link) rsbx_link_ptr link = NULL;
    struct heard heard = { RSBX_BUF_INIT(1000), RSBX_BUF_INIT(1000) };
    const char *const argv[] = { "fail", NULL };
    int exit_code = 7;

    (void)state;
    assert_int_equal(rsbx_podman_link(&link, podman, argv, NULL), 0);
    hear_out(link, &heard);
    assert_string_equal(heard.err.data, "first\nError: no such thing\nSee help\n");
    assert_int_equal(
        rsbx_podman_link_finish(&exit_code, link, rsbx_deadline_in_ms(ENOUGH_MS), NULL), 0);
    assert_int_equal(exit_code, 125);
    rsbx_buf_dispose(&heard.out);
    rsbx_buf_dispose(&heard.err);
}

static void a_freed_link_leaves_no_process(void **state)
{
    RSBX_AUTO(rsbx_podman) rsbx_podman_ptr podman = opened();
    struct rsbx_link *link = NULL;
    struct heard heard = { RSBX_BUF_INIT(1000), RSBX_BUF_INIT(1000) };
    const char *const argv[] = { "hang", NULL };
    bool ended = false;
    int exit_code = 7;

    (void)state;
    assert_int_equal(rsbx_podman_link(&link, podman, argv, NULL), 0);
    assert_int_equal(rsbx_wait_fd(link->ops->fd(link), POLLIN, rsbx_deadline_in_ms(ENOUGH_MS)), 1);
    assert_int_equal(link->ops->receive(&ended, link, on_piece, &heard, NULL), 0);
    assert_false(ended);
    assert_int_equal(rsbx_podman_link_finish(&exit_code, link, rsbx_deadline_in_ms(50), NULL),
                     REPOSBX_EUNAVAILABLE);
    assert_true(process_is_there(&heard.out));
    rsbx_link_free(link);
    assert_goes(&heard.out);
    rsbx_buf_dispose(&heard.out);
    rsbx_buf_dispose(&heard.err);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(addresses),
        cmocka_unit_test(a_program_that_is_not_there),
        cmocka_unit_test(arguments_are_not_read_by_a_shell),
        cmocka_unit_test(a_runtime_of_the_policy_comes_first),
        cmocka_unit_test(the_environment_is_ours),
        cmocka_unit_test(no_descriptor_is_inherited),
        cmocka_unit_test(input_and_output_of_any_size),
        cmocka_unit_test(output_is_bounded_while_it_is_read),
        cmocka_unit_test(complaints_are_bounded_and_do_not_block),
        cmocka_unit_test(failures_are_told_with_their_reason),
        cmocka_unit_test(the_deadline_kills_helpers_too),
        cmocka_unit_test(a_cancel_is_heard),
        cmocka_unit_test(a_helper_that_stays_does_not_hold_it_up),
        cmocka_unit_test(who_does_not_read_gets_no_signal),
        cmocka_unit_test(a_link_carries_both_ways),
        cmocka_unit_test(a_link_tells_what_was_complained),
        cmocka_unit_test(a_freed_link_leaves_no_process),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
