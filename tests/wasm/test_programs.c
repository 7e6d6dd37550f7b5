/* SPDX-License-Identifier: Apache-2.0 */
/* How programs run and end, and what they can reach: one small module (probe.wat) that is told by its
 * argument what to do. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/fd.h"
#include "wasm/fixture.h"

#include "base/banned.h"

#define MIB (1024U * 1024U)

static struct place place;
static struct rsbx_wasm_module *module;

static int setup(void **state)
{
    struct rsbx_wasm_install_options options = RSBX_WASM_INSTALL_OPTIONS_INIT;
    char digest[RSBX_WASM_DIGEST_BYTES];
    reposbx_error err = REPOSBX_ERROR_INIT;
    char path[128];

    (void)state;
    place_make(&place);
    assemble_file(path, &place, "probe", PROBE);
    if (rsbx_wasm_install(digest, place.state, path, &options, &err) != 0 ||
        rsbx_wasm_find(&module, place.state, NULL, &err) != 0)
        fail_msg("%s", err.message);
    assert_string_equal(module->digest, digest);
    assert_string_equal(module->name, "probe.wasm");
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    rsbx_wasm_module_free(module);
    place_remove(&place);
    return 0;
}

static struct rsbx_wasm_program program_of(const char *const argv[2])
{
    return (struct rsbx_wasm_program){ .argv = argv, .argc = 2 };
}

/* Runs the probe's `letter` with these bytes on stdin. */
static struct rsbx_wasm_outcome run_with(const char *letter, struct rsbx_wasm_program extra,
                                         struct rsbx_wasm_job job)
{
    const char *const argv[2] = { "probe", letter };
    struct rsbx_wasm_program program = program_of(argv);
    struct rsbx_wasm_outcome outcome = RSBX_WASM_OUTCOME_INIT;
    reposbx_error err = REPOSBX_ERROR_INIT;

    program.memory_bytes = extra.memory_bytes;
    program.cpu_seconds = extra.cpu_seconds;
    if (rsbx_wasm_run(&outcome, module, &program, &job, &err) != 0)
        fail_msg("%s", err.message);
    return outcome;
}

static struct rsbx_wasm_outcome run_plain(const char *letter)
{
    return run_with(letter, (struct rsbx_wasm_program){ NULL, 0, 0, 0 },
                    (struct rsbx_wasm_job)RSBX_WASM_JOB_INIT);
}

static void assert_text(const struct rsbx_buf *buf, const char *text)
{
    assert_int_equal(buf->length, strlen(text));
    if (buf->length > 0)
        assert_memory_equal(buf->data, text, buf->length);
}

static void streams_arguments_and_exit_codes(void **state)
{
    struct rsbx_wasm_outcome outcome = run_plain("h");

    (void)state;
    assert_text(&outcome.out, "hello\n");
    assert_text(&outcome.err, "");
    assert_int_equal(outcome.exit_code, 0);
    assert_int_equal(outcome.signal, 0);
    assert_false(outcome.trapped || outcome.timed_out || outcome.output_limited ||
                 outcome.out_of_memory || outcome.cpu_exhausted);
    assert_int_equal(outcome.memory_pages, 2);
    rsbx_wasm_outcome_dispose(&outcome);

    outcome = run_plain("a second half"); /* its arguments, each with its NUL, to stderr */
    assert_text(&outcome.out, "");
    assert_int_equal(outcome.err.length, 20);
    assert_memory_equal(outcome.err.data, "probe\0a second half\0", 20);
    rsbx_wasm_outcome_dispose(&outcome);

    outcome = run_plain("x");
    assert_int_equal(outcome.exit_code, 42);
    rsbx_wasm_outcome_dispose(&outcome);
}

static void input_goes_through(void **state)
{
    struct rsbx_wasm_job job = RSBX_WASM_JOB_INIT;
    struct rsbx_wasm_outcome outcome;
    char *bytes = malloc(3 * MIB);

    (void)state;
    assert_non_null(bytes);
    for (size_t i = 0; i < 3 * MIB; i++)
        bytes[i] = (char)(i * 7 + i / 251);
    job.input = bytes;
    job.input_length = 3 * MIB;
    job.output_bytes = 4 * MIB;
    outcome = run_with("e", (struct rsbx_wasm_program){ NULL, 0, 0, 0 }, job);
    assert_int_equal(outcome.exit_code, 0);
    assert_int_equal(outcome.out.length, 3 * MIB);
    assert_memory_equal(outcome.out.data, bytes, 3 * MIB);
    assert_false(outcome.output_limited);
    rsbx_wasm_outcome_dispose(&outcome);

    /* What is over the limit is dropped, and the program ends by itself all the same. */
    job.output_bytes = 1000;
    outcome = run_with("e", (struct rsbx_wasm_program){ NULL, 0, 0, 0 }, job);
    assert_int_equal(outcome.exit_code, 0);
    assert_int_equal(outcome.out.length, 1000);
    assert_memory_equal(outcome.out.data, bytes, 1000);
    assert_true(outcome.output_limited && !outcome.flooded);
    rsbx_wasm_outcome_dispose(&outcome);

    /* One that writes more than it may at all is killed; what it may is the last byte that is let through. */
    job.most_bytes = 3 * MIB;
    outcome = run_with("e", (struct rsbx_wasm_program){ NULL, 0, 0, 0 }, job);
    assert_int_equal(outcome.exit_code, 0);
    assert_false(outcome.flooded);
    rsbx_wasm_outcome_dispose(&outcome);
    job.most_bytes = 3 * MIB - 1;
    outcome = run_with("e", (struct rsbx_wasm_program){ NULL, 0, 0, 0 }, job);
    assert_true(outcome.flooded && outcome.output_limited && !outcome.timed_out);
    assert_int_equal(outcome.out.length, 1000);
    rsbx_wasm_outcome_dispose(&outcome);
    free(bytes);
}

static void input_that_is_not_read_costs_nothing(void **state)
{
    struct rsbx_wasm_job job = RSBX_WASM_JOB_INIT;
    struct rsbx_wasm_outcome outcome;
    char *bytes = calloc(1, 3 * MIB);

    (void)state;
    assert_non_null(bytes);
    job.input = bytes;
    job.input_length = 3 * MIB;
    outcome = run_with("h", (struct rsbx_wasm_program){ NULL, 0, 0, 0 }, job);
    assert_text(&outcome.out, "hello\n");
    rsbx_wasm_outcome_dispose(&outcome);
    free(bytes);
}

static void traps_are_outcomes(void **state)
{
    static const struct {
        const char *letter, *words;
    } cases[] = {
        { "o", "wasm trap: Out-of-bounds access in linear memory or a table\n" },
        { "f", "wasm trap: Out-of-bounds access in linear memory or a table\n" },
        { "u", "wasm trap: Unreachable instruction executed\n" },
        { "d", "wasm trap: Integer divide by zero\n" },
        { "i", "wasm trap: Invalid call_indirect\n" },
        { "s", "wasm trap: Call stack exhausted\n" },
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct rsbx_wasm_outcome outcome = run_plain(cases[i].letter);

        assert_text(&outcome.err, cases[i].words);
        assert_true(outcome.trapped);
        assert_int_equal(outcome.exit_code, 134);
        assert_int_equal(outcome.signal, 0);
        rsbx_wasm_outcome_dispose(&outcome);
    }
}

/* The exit code is the number of the first answer that was wrong. */
static void addresses_are_checked(void **state)
{
    struct rsbx_wasm_outcome outcome = run_plain("p");

    (void)state;
    assert_int_equal(outcome.exit_code, 0);
    assert_false(outcome.trapped);
    rsbx_wasm_outcome_dispose(&outcome);
}

static void what_is_absent_answers_so(void **state)
{
    struct rsbx_wasm_outcome outcome = run_plain("n");

    (void)state;
    assert_int_equal(outcome.exit_code, 0);
    rsbx_wasm_outcome_dispose(&outcome);
}

static void waiting_takes_its_time(void **state)
{
    uint64_t least_us = UINT64_MAX;

    (void)state;
    /* Asleep, not busy: who is busy uses as much every time, a start on a loaded machine does not. */
    for (int i = 0; i < 10 && least_us > 119000; i++) {
        struct rsbx_wasm_outcome outcome = run_plain("w");

        assert_int_equal(outcome.exit_code, 0);
        assert_in_range(outcome.duration_ms, 119, 60000);
        least_us = outcome.cpu_us < least_us ? outcome.cpu_us : least_us;
        rsbx_wasm_outcome_dispose(&outcome);
    }
    assert_in_range(least_us, 0, 119000);
}

static void memory_has_a_limit(void **state)
{
    struct rsbx_wasm_program program = { NULL, 0, 4 * MIB, 0 };
    struct rsbx_wasm_outcome outcome = run_with("g", program,
                                                (struct rsbx_wasm_job)RSBX_WASM_JOB_INIT);
    struct rsbx_wasm_job lower = RSBX_WASM_JOB_INIT;

    (void)state;
    assert_text(&outcome.out, "grown\n");
    assert_int_equal(outcome.exit_code, 0); /* it was told, and went on */
    assert_true(outcome.out_of_memory);
    assert_int_equal(outcome.memory_pages, 64);
    rsbx_wasm_outcome_dispose(&outcome);

    program.memory_bytes = 65536; /* less than it starts with */
    outcome = run_with("h", program, (struct rsbx_wasm_job)RSBX_WASM_JOB_INIT);
    assert_text(&outcome.out, "");
    assert_true(outcome.out_of_memory);
    assert_int_equal(outcome.exit_code, 134);
    rsbx_wasm_outcome_dispose(&outcome);

    /* A job may lower it, and not raise it. */
    program.memory_bytes = 4 * MIB;
    lower.memory_bytes = 400 * MIB;
    outcome = run_with("g", program, lower);
    assert_int_equal(outcome.memory_pages, 64);
    rsbx_wasm_outcome_dispose(&outcome);
}

static void time_has_limits(void **state)
{
    struct rsbx_wasm_program program = { NULL, 0, 0, 1 };
    struct rsbx_wasm_job job = RSBX_WASM_JOB_INIT;
    struct rsbx_wasm_outcome outcome;

    (void)state;
    job.timeout_ms = 300;
    outcome = run_with("c", (struct rsbx_wasm_program){ NULL, 0, 0, 0 }, job);
    assert_true(outcome.timed_out);
    assert_false(outcome.cpu_exhausted);
    assert_int_equal(outcome.signal, SIGKILL);
    assert_in_range(outcome.duration_ms, 300, 60000);
    rsbx_wasm_outcome_dispose(&outcome);

    job.timeout_ms = 0;
    outcome = run_with("c", program, job);
    assert_true(outcome.cpu_exhausted);
    assert_false(outcome.timed_out);
    assert_int_equal(outcome.signal, SIGXCPU);
    rsbx_wasm_outcome_dispose(&outcome);
}

static void a_caller_can_cancel(void **state)
{
    const char *const argv[2] = { "probe", "c" };
    struct rsbx_wasm_program program = program_of(argv);
    struct rsbx_wasm_job job = RSBX_WASM_JOB_INIT;
    struct rsbx_wasm_outcome outcome = RSBX_WASM_OUTCOME_INIT;
    int ends[2];

    (void)state;
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    assert_int_equal(write(ends[1], "x", 1), 1);
    job.cancel_fd = ends[0];
    assert_int_equal(rsbx_wasm_run(&outcome, module, &program, &job, NULL), REPOSBX_ECANCELLED);
    assert_null(outcome.out.data); /* untouched */
    (void)close(ends[0]);
    (void)close(ends[1]);
}

/* ---- the warm form ---- */

static struct rsbx_wasm_process *start_waiting(const char *letter)
{
    const char *const argv[2] = { "probe", letter };
    struct rsbx_wasm_program program = program_of(argv);
    struct rsbx_wasm_process *process;
    struct rsbx_deadline deadline = rsbx_deadline_in_ms(60000);
    reposbx_error err = REPOSBX_ERROR_INIT;

    if (rsbx_wasm_start(&process, module, &program, &err) != 0)
        fail_msg("%s", err.message);
    while (!rsbx_wasm_process_waits(process) && !rsbx_deadline_passed(deadline)) {
        struct timespec pause = { 0, 1000000 };

        (void)nanosleep(&pause, NULL);
    }
    assert_true(rsbx_wasm_process_waits(process));
    return process;
}

static void read_proc(char *out, size_t size, pid_t pid, const char *name)
{
    char path[64];
    reposbx_error err = REPOSBX_ERROR_INIT;

    (void)snprintf(path, sizeof path, "/proc/%ld/%s", (long)pid, name);
    if (rsbx_read_small(out, size, path, &err) != 0)
        fail_msg("%s", err.message);
}

static void a_waiting_process_serves_one_job(void **state)
{
    struct rsbx_wasm_process *process = start_waiting("e");
    struct rsbx_wasm_job job = RSBX_WASM_JOB_INIT;
    struct rsbx_wasm_outcome outcome = RSBX_WASM_OUTCOME_INIT;

    (void)state;
    job.input = "warm";
    job.input_length = 4;
    assert_int_equal(rsbx_wasm_finish(&outcome, process, &job, NULL), 0);
    assert_text(&outcome.out, "warm");
    assert_false(rsbx_wasm_process_alive(process));
    rsbx_wasm_outcome_dispose(&outcome);
    assert_int_equal(rsbx_wasm_finish(&outcome, process, &job, NULL), REPOSBX_EINVALID);
    rsbx_wasm_process_free(process);
}

static void a_process_that_died_is_seen(void **state)
{
    struct rsbx_wasm_process *process = start_waiting("e");
    struct rsbx_wasm_job job = RSBX_WASM_JOB_INIT;
    struct rsbx_wasm_outcome outcome = RSBX_WASM_OUTCOME_INIT;
    struct rsbx_deadline deadline = rsbx_deadline_in_ms(60000);

    (void)state;
    assert_int_equal(kill(rsbx_wasm_process_pid(process), SIGKILL), 0);
    while (rsbx_wasm_process_alive(process))
        assert_false(rsbx_deadline_passed(deadline));
    assert_false(rsbx_wasm_process_waits(process));
    job.input = "too late";
    job.input_length = 8;
    assert_int_equal(rsbx_wasm_finish(&outcome, process, &job, NULL), 0);
    assert_int_equal(outcome.signal, SIGKILL);
    assert_text(&outcome.out, "");
    rsbx_wasm_outcome_dispose(&outcome);
    rsbx_wasm_process_free(process);
}

/* What the kernel says of a process that waits. */
static void nothing_is_within_reach(void **state)
{
    struct rsbx_wasm_process *process = start_waiting("e");
    pid_t pid = rsbx_wasm_process_pid(process);
    char text[8192], path[64], target[256];

    (void)state;
    read_proc(text, sizeof text, pid, "status");
    assert_non_null(strstr(text, "\nSeccomp:\t2\n"));
    assert_non_null(strstr(text, "\nNoNewPrivs:\t1\n"));
    assert_non_null(strstr(text, "\nCapEff:\t0000000000000000\n"));
    if (geteuid() == 0)
        assert_non_null(strstr(text, "\nUid:\t65534\t65534\t65534\t65534\n"));
    read_proc(text, sizeof text, pid, "limits");
    assert_non_null(strstr(text, "Max file size             0"));
    assert_non_null(strstr(text, "Max processes             0"));
    assert_non_null(strstr(text, "Max core file size        0"));
    read_proc(text, sizeof text, pid, "environ");
    assert_string_equal(text, "");
    for (int fd = 0; fd < 64; fd++) {
        (void)snprintf(path, sizeof path, "/proc/%ld/fd/%d", (long)pid, fd);
        assert_int_equal(readlink(path, target, sizeof target) > 0, fd < 3);
    }
    rsbx_wasm_process_free(process); /* kills it */
    assert_int_equal(kill(pid, 0), -1);
    assert_int_equal(errno, ESRCH);
}

/* ---- refusals ---- */

static void impossible_requests_are_refused(void **state)
{
    struct rsbx_wasm_program program = { NULL, 0, 5ULL * 1024 * MIB, 0 };
    struct rsbx_wasm_process *process = NULL;

    (void)state;
    assert_int_equal(rsbx_wasm_start(&process, module, &program, NULL), REPOSBX_EINVALID);
    program = (struct rsbx_wasm_program){ NULL, 0, 0, 121 };
    assert_int_equal(rsbx_wasm_start(&process, module, &program, NULL), REPOSBX_EINVALID);
    program = (struct rsbx_wasm_program){ (const char *const[]){ "probe" }, 0, 0, 0 };
    assert_int_equal(rsbx_wasm_start(&process, module, &program, NULL), REPOSBX_EINVALID);
    assert_null(process);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(streams_arguments_and_exit_codes),
        cmocka_unit_test(input_goes_through),
        cmocka_unit_test(input_that_is_not_read_costs_nothing),
        cmocka_unit_test(traps_are_outcomes),
        cmocka_unit_test(addresses_are_checked),
        cmocka_unit_test(what_is_absent_answers_so),
        cmocka_unit_test(waiting_takes_its_time),
        cmocka_unit_test(memory_has_a_limit),
        cmocka_unit_test(time_has_limits),
        cmocka_unit_test(a_caller_can_cancel),
        cmocka_unit_test(a_waiting_process_serves_one_job),
        cmocka_unit_test(a_process_that_died_is_seen),
        cmocka_unit_test(nothing_is_within_reach),
        cmocka_unit_test(impossible_requests_are_refused),
    };
    int missing = tools_missing();

    return missing != 0 ? missing : cmocka_run_group_tests(tests, setup, teardown);
}
