/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "unit/guest/group.h"
#include "unit/guest/tree.h"

#include "base/banned.h"

#define CAP (1024U * 1024U)

static uint64_t now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000U + (uint64_t)now.tv_nsec / 1000000U;
}

/* The SHA-256 of nothing. */
static const uint8_t empty_digest[4] = {0xe3, 0xb0, 0xc4, 0x42};

static void test_hello(void **state)
{
    struct rsbx_hello hello;

    (void)state;
    box_start(&box);
    box_greet(&box, &hello);
    assert_int_equal(hello.pid, 1);
    assert_int_equal(hello.uid, RSBX_GUEST_UID);
    assert_int_equal(hello.gid, RSBX_GUEST_GID);
    assert_int_equal(hello.group_count, 0);
    assert_int_equal(hello.cap_effective, 0);
    assert_int_equal(hello.cap_permitted, 0);
    assert_int_equal(hello.no_new_privs, 1);
    assert_int_equal(hello.dumpable, 0);
    assert_int_equal(hello.interfaces, 0);
    assert_int_equal(hello.root_read_only, 1);
    assert_int_equal(hello.tmp_bytes, 4U * 1024U * 1024U);
    assert_int_equal(hello.tmp_flags, 7);
    assert_int_equal(hello.run_bytes, 1024U * 1024U);
    assert_int_equal(hello.run_flags, 3);
    assert_int_equal(hello.baseline, 2);
    assert_int_equal(hello.workspace, 2);
    assert_int_equal(hello.guest_read_only, 1);
    assert_true(hello.monotonic_ns / 1000000U <= now_ms());
    assert_true(hello.monotonic_ns / 1000000U + 5000U > now_ms());
    /* No cgroup file system is mounted in this box. */
    assert_true(hello.memory_bytes == RSBX_UNKNOWN && hello.pids == RSBX_UNKNOWN);
    assert_true(hello.cgroup_version == RSBX_UNKNOWN && hello.oom_kills == RSBX_UNKNOWN);
    /* End of stdin ends it. */
    close(box.in_fd);
    box.in_fd = -1;
    assert_int_equal(box_end(&box), 0);
}

static void test_exit_codes(void **state)
{
    static const int codes[] = {0, 1, 124, 125, 126, 127, 137, 255};

    (void)state;
    for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
        char script[32];

        snprintf(script, sizeof(script), "exit %d", codes[i]);
        box_shell(&box, &reply, script, 10000, CAP);
        assert_int_equal(reply.trailer.op, RSBX_OP_EXEC);
        assert_int_equal(reply.trailer.end, RSBX_END_EXITED);
        assert_int_equal(reply.trailer.exit_code, codes[i]);
        assert_int_equal(reply.trailer.flags, 0);
        assert_int_equal(reply.trailer.survivors, 0);
        assert_int_equal(reply.trailer.main_oom_killed, 0);
        assert_int_equal(reply.out.length + reply.err.length, 0);
        assert_memory_equal(reply.trailer.stdout_sha256, empty_digest, 4);
        reply_free(&reply);
    }
}

static void test_signals(void **state)
{
    static const int signals[] = {SIGTERM, SIGKILL, SIGSEGV, SIGABRT, SIGPIPE};

    (void)state;
    for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++) {
        char script[32];

        snprintf(script, sizeof(script), "kill -%d $$", signals[i]);
        box_shell(&box, &reply, script, 10000, CAP);
        assert_int_equal(reply.trailer.end, RSBX_END_SIGNALED);
        assert_int_equal(reply.trailer.signal, signals[i]);
        assert_int_equal(reply.trailer.flags, 0);
        reply_free(&reply);
    }
}

static void check_not_started(const char *name, int error)
{
    const char *const argv[] = {name, "argument", NULL};

    box_begin_exec(&box, argv, 0, 10000, CAP);
    box_reply(&box, &reply);
    assert_int_equal(reply.trailer.end, RSBX_END_NOT_STARTED);
    assert_int_equal(reply.trailer.exec_errno, error);
    assert_int_equal(reply.fail_error, 0);
    reply_free(&reply);
}

static void test_not_started(void **state)
{
    (void)state;
    tree_file(box.workspace, "plain", "text", 0644);
    tree_file(box.workspace, "script", "echo no interpreter\n", 0755);
    tree_file(box.workspace, "lost", "#!/no/such/interpreter\n", 0755);
    check_not_started("no-such-command", ENOENT);
    check_not_started("/bin/no-such-command", ENOENT);
    check_not_started("./plain", EACCES);
    check_not_started("/workspace", EACCES);
    check_not_started("./script", ENOEXEC);
    check_not_started("./lost", ENOENT);
}

static void test_environment_and_streams(void **state)
{
    (void)state;
    tree_folder(box.workspace, "sub");
    box_shell(&box, &reply,
              "env; pwd; id -u; cat /proc/self/oom_score_adj; umask; ls -ld $HOME >&2; "
              "cat; ls /proc/self/fd",
              10000, CAP);
    assert_int_equal(reply.trailer.exit_code, 0);
    assert_non_null(strstr(bytes_text(&reply.out), "HOME=/tmp/home\n"));
    assert_non_null(strstr(bytes_text(&reply.out), "PATH=/nowhere:/bin\n"));
    assert_non_null(strstr(bytes_text(&reply.out), "\n/workspace\n65532\n1000\n0022\n"));
    assert_int_equal(strncmp(bytes_text(&reply.err), "drwx------", 10), 0);
    /* Descriptors 0, 1, 2 and the one that ls reads the folder with. */
    assert_non_null(strstr(bytes_text(&reply.out), "0022\n0\n1\n2\n3\n"));
    assert_int_equal(reply.trailer.stdout_bytes, reply.out.length);
    assert_int_equal(reply.trailer.stderr_bytes, reply.err.length);
    assert_true(reply.trailer.user_us + reply.trailer.system_us > 0);
    assert_true(reply.trailer.peak_memory_bytes == RSBX_UNKNOWN);
}

static void run_in(const char *cwd)
{
    struct rsbx_request request = {.op = RSBX_OP_EXEC, .timeout_ms = 10000, .max_bytes = CAP,
                                   .argc = 1};
    struct rsbx_hello hello;

    box_start(&box);
    box_greet(&box, &hello);
    box_request(&box, &request);
    box_text(&box, RSBX_TEXT_ARG, "/bin/pwd");
    box_text(&box, RSBX_TEXT_CWD, cwd);
    box_go(&box);
    box_reply(&box, &reply);
}

static void test_cwd(void **state)
{
    (void)state;
    tree_file(box.workspace, "sub/deep/file", "x", 0644);
    tree_link(box.workspace, "link", "sub");
    run_in("sub/deep");
    assert_string_equal(bytes_text(&reply.out), "/workspace/sub/deep\n");
    reply_free(&reply);
    run_in("link");
    assert_int_equal(reply.fail_error, ELOOP);
    reply_free(&reply);
    run_in("link/deep");
    assert_int_equal(reply.fail_error, ELOOP);
    reply_free(&reply);
    run_in("../tmp");
    assert_int_equal(reply.fail_error, EINVAL);
    reply_free(&reply);
    run_in("missing");
    assert_int_equal(reply.fail_error, ENOENT);
    assert_int_equal(reply.trailer.end, RSBX_END_NONE);
}

static void test_timeout(void **state)
{
    uint64_t start = now_ms();

    (void)state;
    box_shell(&box, &reply,
              "printf before; setsid sh -c 'trap \"\" TERM; (setsid sleep 100 &) ; sleep 100' & "
              "(trap '' HUP; sleep 100 >/dev/null 2>&1 &); sh -c 'kill -STOP $$' & sleep 100",
              3000, CAP);
    assert_true(now_ms() - start < 10000);
    assert_int_equal(reply.trailer.flags, RSBX_TRAILER_TIMED_OUT);
    assert_int_equal(reply.trailer.end, RSBX_END_SIGNALED);
    assert_int_equal(reply.trailer.signal, SIGKILL);
    assert_string_equal(bytes_text(&reply.out), "before");
    assert_true(reply.trailer.survivors >= 4);
    assert_true(reply.trailer.duration_ns >= 3000000000U);
    assert_true(reply.trailer.duration_ns < 4500000000U);
    assert_int_equal(reply.trailer.main_oom_killed, 0);
}

static void test_timeout_while_output_is_stuck(void **state)
{
    const char *const argv[] = {"yes", NULL};
    struct timespec pause = {.tv_sec = 1};

    (void)state;
    /* Nobody reads for longer than the command may run. */
    box_begin_exec(&box, argv, 0, 300, 1ULL << 40U);
    nanosleep(&pause, NULL);
    box_reply(&box, &reply);
    assert_int_equal(reply.trailer.flags, RSBX_TRAILER_TIMED_OUT);
    assert_true(reply.trailer.duration_ns < 900000000U);
    assert_int_equal(reply.trailer.stdout_bytes, reply.out.length);
}

static void test_background_does_not_delay(void **state)
{
    uint64_t start = now_ms();

    (void)state;
    box_shell(&box, &reply, "sleep 100 & setsid sleep 100 & echo done; exit 3", 50000, CAP);
    assert_true(now_ms() - start < 10000);
    assert_int_equal(reply.trailer.flags, 0);
    assert_int_equal(reply.trailer.exit_code, 3);
    assert_int_equal(reply.trailer.survivors, 2);
    assert_string_equal(bytes_text(&reply.out), "done\n");
}

static void test_output_cap(void **state)
{
    (void)state;
    /* Exactly the cap is not over it. */
    box_shell(&box, &reply, "seq 1 1000000 | head -c 100000", 10000, 100000);
    assert_int_equal(reply.trailer.flags, 0);
    assert_int_equal(reply.out.length, 100000);
    assert_int_equal(reply.trailer.exit_code, 0);
    reply_free(&reply);
    /* One byte more is, whether the command goes on or not. */
    box_shell(&box, &reply, "seq 1 1000000 | head -c 100001", 10000, 100000);
    assert_int_equal(reply.trailer.flags, RSBX_TRAILER_OUTPUT_LIMITED);
    assert_int_equal(reply.out.length, 100000);
    assert_int_equal(reply.trailer.stdout_bytes, 100000);
    assert_int_equal(strncmp(bytes_text(&reply.out), "1\n2\n3\n4\n", 8), 0);
    reply_free(&reply);
    box_shell(&box, &reply, "yes & yes >&2", 10000, 300000);
    assert_int_equal(reply.trailer.flags, RSBX_TRAILER_OUTPUT_LIMITED);
    assert_int_equal(reply.out.length + reply.err.length, 300000);
    assert_int_equal(reply.trailer.stdout_bytes + reply.trailer.stderr_bytes, 300000);
    reply_free(&reply);
    box_shell(&box, &reply, "printf x", 10000, 0);
    assert_int_equal(reply.trailer.flags, RSBX_TRAILER_OUTPUT_LIMITED);
    assert_int_equal(reply.out.length, 0);
}

/* Sends what is there in pieces while the reply is read by a child, so that both pipes can fill. */
static void test_stdin_echo(void **state)
{
    static uint8_t input[1024U * 1024U];
    const char *const argv[] = {"cat", NULL};
    pid_t writer;

    (void)state;
    for (size_t i = 0; i < sizeof(input); i++) {
        input[i] = (uint8_t)(i * 31U + i / 4096U);
    }
    box_begin_exec(&box, argv, RSBX_REQUEST_STDIN, 20000, 2U * CAP);
    writer = fork();
    if (writer == 0) {
        for (size_t at = 0; at < sizeof(input); at += RSBX_WIRE_PIECE_BYTES) {
            box_send(&box, RSBX_WIRE_DATA, input + at, RSBX_WIRE_PIECE_BYTES);
        }
        box_send(&box, RSBX_WIRE_END, NULL, 0);
        pause();
        _exit(0);
    }
    assert_true(writer > 0);
    box_reply(&box, &reply);
    kill(writer, SIGKILL);
    assert_int_equal(reply.trailer.flags, 0);
    assert_int_equal(reply.trailer.exit_code, 0);
    assert_int_equal(reply.out.length, sizeof(input));
    assert_memory_equal(reply.out.data, input, sizeof(input));
}

static void test_stdin_unread(void **state)
{
    static uint8_t input[RSBX_WIRE_PIECE_BYTES];
    const char *const ignores[] = {"sleep", "0.2", NULL};
    const char *const closes[] = {"sh", "-c", "exec <&-; sleep 0.2; echo alive", NULL};
    const char *const half[] = {"head", "-c", "10", NULL};
    const char *const *const commands[] = {ignores, closes, half};

    (void)state;
    memset(input, 'i', sizeof(input));
    for (size_t i = 0; i < 3; i++) {
        box_begin_exec(&box, commands[i], RSBX_REQUEST_STDIN, 10000, CAP);
        for (size_t j = 0; j < 3; j++) {
            box_send(&box, RSBX_WIRE_DATA, input, sizeof(input));
        }
        box_send(&box, RSBX_WIRE_END, NULL, 0);
        box_reply(&box, &reply);
        assert_int_equal(reply.trailer.flags, 0);
        assert_int_equal(reply.trailer.end, RSBX_END_EXITED);
        assert_int_equal(reply.trailer.exit_code, 0);
        assert_string_equal(bytes_text(&reply.out),
                            i == 0 ? "" : i == 1 ? "alive\n" : "iiiiiiiiii");
        reply_free(&reply);
    }
    /* Nothing at all: END alone. */
    box_begin_exec(&box, (const char *const[]){"cat", NULL}, RSBX_REQUEST_STDIN, 10000, CAP);
    box_send(&box, RSBX_WIRE_END, NULL, 0);
    box_reply(&box, &reply);
    assert_int_equal(reply.trailer.exit_code, 0);
}

static void test_end_of_stdin_kills(void **state)
{
    const char *const argv[] = {"sh", "-c", "setsid sleep 100 & echo up; sleep 100", NULL};
    const uint8_t *payload;
    uint64_t start = now_ms();
    size_t length;
    uint16_t type;

    (void)state;
    box_begin_exec(&box, argv, 0, 100000, CAP);
    box_receive(&box, &type, &payload, &length);
    assert_int_equal(type, RSBX_WIRE_STDOUT);
    close(box.in_fd);
    box.in_fd = -1;
    assert_int_equal(box_end(&box), 0);
    assert_true(now_ms() - start < 5000);
}

static void test_malformed(void **state)
{
    static const uint8_t garbage[64] = {0x52, 0x53, 0x42, 0x59};
    struct rsbx_request request = {.op = RSBX_OP_EXEC, .argc = 2};
    struct rsbx_hello hello;

    (void)state;
    box_start(&box);
    assert_int_equal(write(box.in_fd, garbage, sizeof(garbage)), sizeof(garbage));
    assert_int_equal(box_end(&box), 70);
    box_start(&box); /* a request before the greeting */
    box_request(&box, &request);
    assert_int_equal(box_end(&box), 70);
    box_start(&box); /* fewer arguments than announced */
    box_greet(&box, &hello);
    box_request(&box, &request);
    box_text(&box, RSBX_TEXT_ARG, "true");
    box_go(&box);
    assert_int_equal(box_end(&box), 70);
    box_start(&box); /* a sequence that jumps */
    box_greet(&box, &hello);
    box.sent = 5;
    box_request(&box, &request);
    assert_int_equal(box_end(&box), 70);
    /* Input that was not announced ends a running command too. */
    box_begin_exec(&box, (const char *const[]){"sleep", "100", NULL}, 0, 0, CAP);
    box_send(&box, RSBX_WIRE_DATA, "x", 1);
    assert_int_equal(box_end(&box), 70);
}

static void test_guest_is_out_of_reach(void **state)
{
    (void)state;
    box_shell(&box, &reply,
              "kill -KILL 1; kill -STOP 1; kill -TERM 1; kill -CHLD 1; ls /proc/1/fd; "
              "cat /proc/1/environ; cat /proc/1/mem; echo x > /proc/1/fd/1; echo end",
              10000, CAP);
    assert_int_equal(reply.trailer.exit_code, 0);
    assert_string_equal(bytes_text(&reply.out), "end\n");
}

/* Nice value, processors, policy and limits of PID 1 are not a command's to change; its own are. */
static void test_guest_keeps_its_pace(void **state)
{
    (void)state;
    box_shell(&box, &reply,
              "for a in cut grep renice taskset ionice cmp; do alias $a=\"busybox $a\"; done\n"
              "cut -d' ' -f19,41 /proc/1/stat; grep Cpus_allowed: /proc/1/status >/tmp/before\n"
              "for try in '-p 1' '-g 1' '-u 65532'; do renice -n 19 $try && echo $try; done\n"
              "taskset -p 1 1 >/dev/null && echo taskset; ionice -c3 -p1 && echo ionice\n"
              "grep Cpus_allowed: /proc/1/status | cmp - /tmp/before || echo moved\n"
              "cut -d' ' -f19,41 /proc/1/stat\n"
              "renice -n 5 -p $$ && cut -d' ' -f19 /proc/self/stat",
              10000, CAP);
    assert_int_equal(reply.trailer.exit_code, 0);
    assert_string_equal(bytes_text(&reply.out), "0 0\n0 0\n5\n");
}

/* PID 1 of the box as the host sees it: the child of who made the box. */
static pid_t guest_pid(void)
{
    char path[64];
    FILE *file;
    int pid = 0;

    snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)box.pid, (int)box.pid);
    file = fopen(path, "re");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%d", &pid), 1);
    fclose(file);
    return pid;
}

/* As a command does it, which has the guest's user. */
static void lower_descriptors(rlim_t count)
{
    const struct rlimit lowered = {count, count};
    pid_t guest = guest_pid();
    pid_t child = fork();
    int status = 0;

    assert_true(child >= 0);
    if (child == 0) {
        _exit(setresgid(RSBX_GUEST_GID, RSBX_GUEST_GID, RSBX_GUEST_GID) != 0 ||
              setresuid(RSBX_GUEST_UID, RSBX_GUEST_UID, RSBX_GUEST_UID) != 0 ||
              prlimit(guest, RLIMIT_NOFILE, &lowered, NULL) != 0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

static void test_lowered_descriptors(void **state)
{
    static const char *const argv[] = {"sh", "-c", "echo start; cat; echo end; exit 3", NULL};
    static const rlim_t lowered[] = {3, 0};
    const uint8_t *payload;
    size_t length;
    uint16_t type;

    (void)state;
    for (size_t i = 0; i < sizeof(lowered) / sizeof(lowered[0]); i++) {
        /* Without a deadline: a guest that no longer listens never ends. */
        box_begin_exec(&box, argv, RSBX_REQUEST_STDIN, 0, CAP);
        box_receive(&box, &type, &payload, &length);
        lower_descriptors(lowered[i]);
        box_send(&box, RSBX_WIRE_DATA, "in\n", 3);
        box_send(&box, RSBX_WIRE_END, NULL, 0);
        box_reply(&box, &reply);
        assert_int_equal(reply.trailer.end, RSBX_END_EXITED);
        assert_int_equal(reply.trailer.exit_code, 3);
        assert_string_equal(bytes_text(&reply.out), "in\nend\n");
        reply_free(&reply);
        /* Nor does it when its controller is gone. */
        box_begin_exec(&box, (const char *const[]){"sh", "-c", "echo start; sleep 100", NULL}, 0, 0, CAP);
        box_receive(&box, &type, &payload, &length);
        lower_descriptors(lowered[i]);
        close(box.in_fd);
        box.in_fd = -1;
        assert_int_equal(box_end(&box), 0);
    }
}

static void test_fork_bomb(void **state)
{
    (void)state;
    /* Bounded, so that a guest that fails does not take the machine with it. */
    box_shell(&box, &reply,
              "f() { [ $1 -gt 0 ] && { f $(($1-1)) & f $(($1-1)) & }; sleep 100; }; f 7", 1000,
              CAP);
    assert_int_equal(reply.trailer.flags, RSBX_TRAILER_TIMED_OUT);
    assert_true(reply.trailer.survivors > 50);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        guest_test(test_hello),
        guest_test(test_exit_codes),
        guest_test(test_signals),
        guest_test(test_not_started),
        guest_test(test_environment_and_streams),
        guest_test(test_cwd),
        guest_test(test_timeout),
        guest_test(test_timeout_while_output_is_stuck),
        guest_test(test_background_does_not_delay),
        guest_test(test_output_cap),
        guest_test(test_stdin_echo),
        guest_test(test_stdin_unread),
        guest_test(test_end_of_stdin_kills),
        guest_test(test_malformed),
        guest_test(test_guest_is_out_of_reach),
        guest_test(test_guest_keeps_its_pace),
        guest_test(test_lowered_descriptors),
        guest_test(test_fork_bomb),
    };

    return guest_tests(tests, true);
}
