/* SPDX-License-Identifier: Apache-2.0 */
/* CPython as a module: what install-python.sh installed from the package that $REPOSBX_TEST_PYTHON_WASM names, or
 * what the state folder $REPOSBX_TEST_WASM_STATE holds. */
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/fd.h"
#include "wasi/page.h"
#include "wasm/fixture.h"

#include "base/banned.h"

#define MIB (1024ULL * 1024ULL)

static struct rsbx_wasm_module *python;

static int setup(void **state)
{
    const char *there = getenv("REPOSBX_TEST_WASM_STATE");
    reposbx_error err = REPOSBX_ERROR_INIT;

    (void)state;
    if (rsbx_wasm_find(&python, there != NULL ? there : PYTHON_STATE, NULL, &err) != 0)
        fail_msg("%s", err.message);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    rsbx_wasm_module_free(python);
    return 0;
}

static struct rsbx_wasm_outcome finish(struct rsbx_wasm_process *process, const char *code,
                                       struct rsbx_wasm_job job)
{
    struct rsbx_wasm_outcome outcome = RSBX_WASM_OUTCOME_INIT;
    reposbx_error err = REPOSBX_ERROR_INIT;

    job.input = code;
    job.input_length = strlen(code);
    if (rsbx_wasm_finish(&outcome, process, &job, &err) != 0)
        fail_msg("%s", err.message);
    return outcome;
}

static struct rsbx_wasm_outcome run_with(const char *code, struct rsbx_wasm_program program,
                                         struct rsbx_wasm_job job)
{
    struct rsbx_wasm_process *process = NULL;
    struct rsbx_wasm_outcome outcome;
    reposbx_error err = REPOSBX_ERROR_INIT;

    if (rsbx_wasm_start(&process, python, &program, &err) != 0)
        fail_msg("%s", err.message);
    outcome = finish(process, code, job);
    rsbx_wasm_process_free(process);
    return outcome;
}

static struct rsbx_wasm_outcome run_code(const char *code)
{
    return run_with(code, (struct rsbx_wasm_program){ NULL, 0, 0, 0 },
                    (struct rsbx_wasm_job)RSBX_WASM_JOB_INIT);
}

static void assert_runs(const char *code, const char *out)
{
    struct rsbx_wasm_outcome outcome = run_code(code);

    if (outcome.exit_code != 0 || outcome.trapped)
        fail_msg("exit %d: %s", outcome.exit_code, outcome.err.data != NULL ? outcome.err.data : "");
    assert_non_null(outcome.out.data);
    assert_string_equal(outcome.out.data, out);
    rsbx_wasm_outcome_dispose(&outcome);
}

static void the_interpreter_and_its_library_work(void **state)
{
    (void)state;
    assert_runs("print(1)\n", "1\n");
    assert_runs("print(sum(i * i for i in range(1000000)))\n", "333332833333500000\n");
    assert_runs("import sys\nprint(sys.version_info[:2], sys.platform)\n", "(3, 12) wasi\n");
    assert_runs("import json, re, hashlib, datetime, decimal, collections, random, zlib\n"
                "print(json.dumps({'a': [1, 2.5, None]}), re.sub('b+', '-', 'abbc'))\n"
                "print(hashlib.sha256(b'x').hexdigest()[:8], decimal.Decimal(1) / 3)\n"
                "print(zlib.decompress(zlib.compress(b'y' * 9)))\n"
                "print(random.random() != random.random())\n",
                "{\"a\": [1, 2.5, null]} a-c\n2d711642 0.3333333333333333333333333333\n"
                "b'yyyyyyyyy'\nTrue\n");
    assert_runs("from __future__ import annotations\nprint('\xc3\xa4')\n", "\xc3\xa4\n");
}

static void tracebacks_and_exit_codes(void **state)
{
    struct rsbx_wasm_outcome outcome = run_code("x = [\n  1]\n\nraise ValueError('no')\n");

    (void)state;
    assert_int_equal(outcome.exit_code, 1);
    assert_false(outcome.trapped);
    assert_non_null(strstr(outcome.err.data, "File \"<stdin>\", line 4, in <module>"));
    assert_non_null(strstr(outcome.err.data, "ValueError: no"));
    rsbx_wasm_outcome_dispose(&outcome);
    outcome = run_code("import sys\nprint('out')\nprint('err', file=sys.stderr)\nsys.exit(7)\n");
    assert_int_equal(outcome.exit_code, 7);
    assert_string_equal(outcome.out.data, "out\n");
    assert_string_equal(outcome.err.data, "err\n");
    rsbx_wasm_outcome_dispose(&outcome);
    outcome = run_code("def f(n):\n    return f(n + 1)\ntry:\n    f(0)\nexcept RecursionError:\n"
                       "    print('deep')\n");
    assert_int_equal(outcome.exit_code, 0);
    assert_string_equal(outcome.out.data, "deep\n");
    rsbx_wasm_outcome_dispose(&outcome);
}

/* Isolation by absence, as a program sees it. */
static void nothing_of_the_host_is_there(void **state)
{
    (void)state;
    assert_runs("import os\n"
                "def no(what):\n"
                "    try:\n"
                "        what()\n"
                "        print('was possible')\n"
                "    except (OSError, ImportError, AttributeError, NotImplementedError):\n"
                "        print('no')\n"
                "no(lambda: open('/etc/passwd'))\n"
                "no(lambda: open('/proc/self/environ'))\n"
                "no(lambda: os.listdir('/tmp'))\n"
                "no(lambda: open('/tmp/new', 'w'))\n"
                "no(lambda: __import__('socket').create_connection(('127.0.0.1', 22), 1))\n"
                "no(lambda: os.fork())\n"
                "no(lambda: __import__('subprocess').run(['id']))\n"
                "no(lambda: os.kill(1, 9))\n"
                "print({k: v for k, v in os.environ.items() if k not in ('PWD', 'LC_CTYPE')})\n",
                "no\nno\nno\nno\nno\nno\nno\nno\n{}\n");
}

static void limits_hold(void **state)
{
    struct rsbx_wasm_program program = { NULL, 0, 64 * MIB, 0 };
    struct rsbx_wasm_job job = RSBX_WASM_JOB_INIT;
    struct rsbx_wasm_outcome outcome = run_with(
        "try:\n    x = bytearray(100 << 20)\nexcept MemoryError:\n    print('none left')\n", program, job);

    (void)state;
    assert_int_equal(outcome.exit_code, 0);
    assert_string_equal(outcome.out.data, "none left\n");
    assert_true(outcome.out_of_memory);
    assert_in_range(outcome.memory_pages, 1, 1024);
    rsbx_wasm_outcome_dispose(&outcome);

    job.timeout_ms = 1500;
    outcome = run_with("while True: pass\n", (struct rsbx_wasm_program){ NULL, 0, 0, 0 }, job);
    assert_true(outcome.timed_out);
    rsbx_wasm_outcome_dispose(&outcome);

    job = (struct rsbx_wasm_job)RSBX_WASM_JOB_INIT;
    outcome = run_with("for i in range(100000): print('x' * 100)\n",
                       (struct rsbx_wasm_program){ NULL, 0, 0, 0 }, job);
    assert_int_equal(outcome.exit_code, 0);
    assert_true(outcome.output_limited);
    assert_int_equal(outcome.out.length, 64 * 1024);
    rsbx_wasm_outcome_dispose(&outcome);
}

/* ---- how long it takes ---- */

static struct rsbx_wasm_process *start_warm(void)
{
    struct rsbx_deadline deadline = rsbx_deadline_in_ms(120000);
    struct rsbx_wasm_process *process;
    reposbx_error err = REPOSBX_ERROR_INIT;

    if (rsbx_wasm_start(&process, python, NULL, &err) != 0)
        fail_msg("%s", err.message);
    while (!rsbx_wasm_process_waits(process)) {
        struct timespec pause = { 0, 500000 };

        assert_false(rsbx_deadline_passed(deadline));
        (void)nanosleep(&pause, NULL);
    }
    return process;
}

static void assert_one(struct rsbx_wasm_outcome *outcome)
{
    assert_int_equal(outcome->exit_code, 0);
    assert_string_equal(outcome->out.data, "1\n");
    rsbx_wasm_outcome_dispose(outcome);
}

static int ascending(const void *a, const void *b)
{
    double first = *(const double *)a, second = *(const double *)b;

    return first < second ? -1 : first > second;
}

/* The compiled program as anybody would start it: no limits, no loading, nothing but its page. */
static void run_bare(const char *code)
{
    struct rsbx_wasi_page page = { .magic = RSBX_WASI_PAGE_MAGIC, .limit_pages = 4096 };
    char *const argv[] = { (char[]){ "python3" }, (char[]){ "-" }, NULL };
    char *const none[] = { NULL };
    int page_fd = memfd_create("page", 0), in[2], out[2], status = 0;
    char answer[16] = "";
    pid_t pid;

    assert_int_equal(ftruncate(page_fd, RSBX_WASI_PAGE_BYTES), 0);
    assert_int_equal(pwrite(page_fd, &page, sizeof page, 0), sizeof page);
    assert_true(pipe2(in, O_CLOEXEC) == 0 && pipe2(out, O_CLOEXEC) == 0);
    pid = fork();
    if (pid == 0) {
        int native_fd = fcntl(python->native_fd, F_DUPFD_CLOEXEC, 10);

        if (dup2(in[0], 0) == 0 && dup2(out[1], 1) == 1 && dup2(page_fd, RSBX_WASI_PAGE_FD) >= 0)
            (void)fexecve(native_fd, argv, none);
        _exit(127);
    }
    (void)close(in[0]);
    (void)close(out[1]);
    (void)close(page_fd);
    assert_int_equal(rsbx_write_all(in[1], code, strlen(code)), 0);
    (void)close(in[1]);
    assert_true(rsbx_read_full(out[0], answer, sizeof answer - 1) >= 0);
    (void)close(out[0]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_string_equal(answer, "1\n");
}

static double since(uint64_t start)
{
    return (double)(rsbx_now_ns() - start) / 1e6;
}

#define ROUNDS 15

/* A process that waits has its start behind it: with the same machine under the same load, in turn, its
 * median is well below that of one that has yet to start. What confinement costs is printed. */
static void warm_is_faster_than_cold(void **state)
{
    double warm[ROUNDS], cold[ROUNDS], bare[ROUNDS];

    (void)state;
    for (int i = 0; i < ROUNDS; i++) {
        struct rsbx_wasm_process *process = start_warm();
        struct rsbx_wasm_outcome outcome;
        uint64_t start = rsbx_now_ns();

        outcome = finish(process, "print(1)\n", (struct rsbx_wasm_job)RSBX_WASM_JOB_INIT);
        warm[i] = since(start);
        assert_one(&outcome);
        rsbx_wasm_process_free(process);
        start = rsbx_now_ns();
        outcome = run_code("print(1)\n");
        cold[i] = since(start);
        assert_one(&outcome);
        start = rsbx_now_ns();
        run_bare("print(1)\n");
        bare[i] = since(start);
    }
    qsort(warm, ROUNDS, sizeof warm[0], ascending);
    qsort(cold, ROUNDS, sizeof cold[0], ascending);
    qsort(bare, ROUNDS, sizeof bare[0], ascending);
    (void)printf("print(1): warm %.1f ms, cold %.1f ms, bare program %.1f ms (medians of %d, in turn)\n",
                 warm[ROUNDS / 2], cold[ROUNDS / 2], bare[ROUNDS / 2], ROUNDS);
    assert_true(warm[ROUNDS / 2] * 2 < cold[ROUNDS / 2]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_interpreter_and_its_library_work),
        cmocka_unit_test(tracebacks_and_exit_codes),
        cmocka_unit_test(nothing_of_the_host_is_there),
        cmocka_unit_test(limits_hold),
        cmocka_unit_test(warm_is_faster_than_cold),
    };
    const char *must = getenv("REPOSBX_TEST_MUST_RUN");
    int missing = tools_missing();

    if (missing != 0)
        return missing;
    if (getenv("REPOSBX_TEST_PYTHON_WASM") == NULL && getenv("REPOSBX_TEST_WASM_STATE") == NULL) {
        (void)fprintf(stderr, "REPOSBX_TEST_PYTHON_WASM names no package (scripts/python-wasm)\n");
        return must != NULL && strcmp(must, "1") == 0 ? 1 : 77;
    }
    return cmocka_run_group_tests(tests, setup, teardown);
}
