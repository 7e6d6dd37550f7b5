/* SPDX-License-Identifier: Apache-2.0 */
/* What goes between a client of the pool and its server, and what comes of messages that lie. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/fd.h"
#include "run/wire.h"

#define ENOUGH_MS 5000

static void a_spec_comes_back_whole(void **state)
{
    static const char *const env[] = { "A=1", "B=\xff\xfe" };
    const reposbx_run_input inputs[] = { { "x", "a\0b", 3 }, { "empty", "", 0 } };
    RSBX_AUTO(rsbx_buf) struct rsbx_buf bytes = RSBX_BUF_INIT(4096);
    RSBX_AUTO(rsbx_json) rsbx_json_ptr document = NULL;
    RSBX_AUTO(rsbx_pool_space) struct rsbx_pool_space space = { NULL, NULL };
    reposbx_exec_spec spec = REPOSBX_EXEC_SPEC_INIT;
    reposbx_exec_spec again;

    (void)state;
    spec.language = "bash";
    spec.code = "echo\0";
    spec.code_length = 5;
    spec.timeout_seconds = 0.1;
    spec.cpus = 0.5;
    spec.memory_bytes = 1ULL << 40;
    spec.pids = 7;
    spec.env = env;
    spec.env_count = 2;
    spec.inputs = inputs;
    spec.input_count = 2;
    assert_int_equal(rsbx_pool_put_spec(&document, &bytes, &spec, NULL), 0);
    assert_int_equal(rsbx_pool_get_spec(&again, &space, document, &bytes, NULL), 0);
    assert_string_equal(again.language, "bash");
    assert_int_equal(again.code_length, 5);
    assert_memory_equal(again.code, "echo\0", 5);
    assert_true(again.timeout_seconds == 0.1 && again.cpus == 0.5);
    assert_true(again.memory_bytes == 1ULL << 40 && again.pids == 7);
    assert_int_equal(again.env_count, 2);
    assert_string_equal(again.env[1], "B=\xff\xfe");
    assert_int_equal(again.input_count, 2);
    assert_string_equal(again.inputs[0].name, "x");
    assert_int_equal(again.inputs[0].length, 3);
    assert_memory_equal(again.inputs[0].bytes, "a\0b", 3);
    assert_int_equal(again.inputs[1].length, 0);
}

static void a_result_comes_back_whole(void **state)
{
    RSBX_AUTO(rsbx_buf) struct rsbx_buf bytes = RSBX_BUF_INIT(4096);
    RSBX_AUTO(rsbx_json) rsbx_json_ptr document = NULL;
    char out[] = "o\0t";
    char errors[] = "err";
    reposbx_run_result result = { .stdout_bytes = out, .stderr_bytes = errors, .stdout_length = 3,
                                  .stderr_length = 3, .status = REPOSBX_OOM_KILLED,
                                  .exit_code = -1, .signal = 9, .oom_killed = 1, .truncated = 1,
                                  .duration_s = 1.25, .engine = "podman", .language = "python",
                                  .warm = 1, .image_id = "sha256:0" };
    reposbx_run_result again;

    (void)state;
    assert_int_equal(rsbx_pool_put_result(&document, &bytes, &result, NULL), 0);
    assert_int_equal(rsbx_pool_get_result(&again, document, &bytes, NULL), 0);
    assert_int_equal(again.stdout_length, 3);
    assert_memory_equal(again.stdout_bytes, out, 3);
    assert_string_equal(again.stderr_bytes, "err");
    assert_int_equal(again.status, REPOSBX_OOM_KILLED);
    assert_int_equal(again.exit_code, -1);
    assert_int_equal(again.signal, 9);
    assert_true(again.oom_killed && again.truncated && again.warm && !again.ok && !again.timed_out);
    assert_true(again.duration_s == 1.25);
    assert_string_equal(again.engine, "podman");
    rsbx_run_result_dispose(&again);
}

/* Each would become another number, some of them a success, where only the lowest bits are kept. */
static void numbers_without_bounds_are_refused(void **state)
{
    static const char *const changes[] = {
        "{\"exit_code\": 4294967296}", "{\"exit_code\": 256}", "{\"exit_code\": -2}",
        "{\"exit_code\": null}",       "{\"status\": 6}",      "{\"status\": -1}",
        "{\"status\": 4294967296}",    "{\"signal\": 65}",     "{\"signal\": 4294967296}",
        "{\"duration_s\": -1.0}",      "{\"duration_s\": 1e300}",
    };
    static const char *const errors[] = {
        "{\"error\": -4294967296, \"message\": \"m\", \"hint\": \"\"}",
        "{\"error\": -8589934595, \"message\": \"m\", \"hint\": \"\"}",
        "{\"error\": -15, \"message\": \"m\", \"hint\": \"\"}",
        "{\"error\": 0, \"message\": \"m\", \"hint\": \"\"}",
    };
    static const char output[REPOSBX_RUN_OUTPUT_BYTES + 1];
    const size_t big = sizeof output;
    RSBX_AUTO(rsbx_buf) struct rsbx_buf bytes = RSBX_BUF_INIT(2U * REPOSBX_RUN_OUTPUT_BYTES);
    RSBX_AUTO(rsbx_json) rsbx_json_ptr document = NULL;
    reposbx_run_result result = { .engine = "podman", .language = "python", .image_id = "x" };

    (void)state;
    assert_int_equal(rsbx_pool_put_result(&document, &bytes, &result, NULL), 0);
    for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) {
        RSBX_AUTO(rsbx_json) rsbx_json_ptr changed = json_deep_copy(document);
        RSBX_AUTO(rsbx_json) rsbx_json_ptr change = json_loads(changes[i], 0, NULL);
        reposbx_run_result again;

        assert_int_equal(json_object_update(changed, change), 0);
        assert_int_equal(rsbx_pool_get_result(&again, changed, &bytes, NULL), REPOSBX_EPROTOCOL);
    }
    /* Nor is an output over the cap a result's. */
    assert_int_equal(json_object_set_new(document, "stdout", json_integer((json_int_t)big)), 0);
    assert_int_equal(rsbx_buf_append(&bytes, output, big, NULL), 0);
    assert_int_equal(rsbx_pool_get_result(&result, document, &bytes, NULL), REPOSBX_EPROTOCOL);
    for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++) {
        RSBX_AUTO(rsbx_json) rsbx_json_ptr error = json_loads(errors[i], 0, NULL);

        assert_int_equal(rsbx_pool_get_error(error, NULL), REPOSBX_EPROTOCOL);
    }
}

static void lengths_that_lie_are_refused(void **state)
{
    static const char *const documents[] = {
        "{\"language\":\"x\",\"code\":9,\"memory_bytes\":0,\"pids\":0,\"env\":[],\"inputs\":[]}",
        "{\"language\":\"x\",\"code\":4,\"memory_bytes\":0,\"pids\":0,\"env\":[5],\"inputs\":[]}",
        "{\"language\":\"x\",\"code\":4,\"memory_bytes\":0,\"pids\":0,\"env\":[-1],\"inputs\":[]}",
        "{\"language\":\"x\",\"code\":4,\"memory_bytes\":0,\"pids\":0,\"env\":[2],\"inputs\":[]}",
        "{\"language\":\"x\",\"code\":4,\"memory_bytes\":0,\"pids\":0,\"env\":[],"
        "\"inputs\":[{\"name\":\"a\",\"length\":5}]}",
        "{\"language\":\"x\",\"code\":4,\"memory_bytes\":0,\"pids\":0,\"env\":[],\"inputs\":[1]}",
        "{\"language\":1,\"code\":4,\"memory_bytes\":0,\"pids\":0,\"env\":[],\"inputs\":[]}",
        "{\"language\":\"x\",\"code\":-4,\"memory_bytes\":0,\"pids\":0,\"env\":[],\"inputs\":[]}",
        "{}",
    };
    RSBX_AUTO(rsbx_buf) struct rsbx_buf bytes = RSBX_BUF_INIT(64);

    (void)state;
    assert_int_equal(rsbx_buf_append(&bytes, "codeA=1x", 8, NULL), 0);
    for (size_t i = 0; i < sizeof documents / sizeof documents[0]; i++) {
        RSBX_AUTO(rsbx_json) rsbx_json_ptr document = json_loads(documents[i], 0, NULL);
        RSBX_AUTO(rsbx_pool_space) struct rsbx_pool_space space = { NULL, NULL };
        reposbx_exec_spec spec;

        assert_non_null(document);
        assert_int_equal(rsbx_pool_get_spec(&spec, &space, document, &bytes, NULL),
                         REPOSBX_EPROTOCOL);
    }
}

static void send_raw(int fd, uint32_t document, uint32_t bytes, const char *text)
{
    uint8_t head[8];

    for (int i = 0; i < 4; i++) {
        head[i] = (uint8_t)(document >> (24 - 8 * i));
        head[4 + i] = (uint8_t)(bytes >> (24 - 8 * i));
    }
    assert_int_equal(rsbx_write_all(fd, head, sizeof head), 0);
    assert_int_equal(rsbx_write_all(fd, text, strlen(text)), 0);
}

static int receive_raw(uint32_t document, uint32_t bytes, const char *text)
{
    RSBX_AUTO(rsbx_buf) struct rsbx_buf got = RSBX_BUF_INIT(RSBX_POOL_MAX_BYTES);
    RSBX_AUTO(rsbx_json) rsbx_json_ptr value = NULL;
    int both[2];
    int rc;

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, both), 0);
    send_raw(both[0], document, bytes, text);
    (void)shutdown(both[0], SHUT_WR);
    rc = rsbx_pool_receive(&value, &got, both[1], rsbx_deadline_in_ms(ENOUGH_MS), NULL);
    (void)close(both[0]);
    (void)close(both[1]);
    return rc;
}

static void messages_are_bounded_and_whole(void **state)
{
    (void)state;
    assert_int_equal(receive_raw(2, 3, "{}abc"), REPOSBX_OK);
    assert_int_equal(receive_raw(2, 3, "{}ab"), REPOSBX_EPROTOCOL);
    assert_int_equal(receive_raw(2, 0, "{"), REPOSBX_EPROTOCOL);
    assert_int_equal(receive_raw(2, 0, "[]"), REPOSBX_EPROTOCOL);
    assert_int_equal(receive_raw(2, 0, "{x"), REPOSBX_EPROTOCOL);
    assert_int_equal(receive_raw(RSBX_POOL_MAX_DOCUMENT_BYTES + 1, 0, ""), REPOSBX_EPROTOCOL);
    assert_int_equal(receive_raw(2, RSBX_POOL_MAX_BYTES + 1, "{}"), REPOSBX_EPROTOCOL);
}

static void errors_keep_their_code_and_hint(void **state)
{
    reposbx_error why = REPOSBX_ERROR_INIT;
    reposbx_error again = REPOSBX_ERROR_INIT;
    RSBX_AUTO(rsbx_json) rsbx_json_ptr document = NULL;
    RSBX_AUTO(rsbx_json) rsbx_json_ptr nonsense = json_pack("{s:i}", "error", 5);

    (void)state;
    (void)rsbx_fail(&why, REPOSBX_EBUSY, "full");
    rsbx_hint(&why, "later");
    document = rsbx_pool_put_error(REPOSBX_EBUSY, &why);
    assert_int_equal(rsbx_pool_get_error(document, &again), REPOSBX_EBUSY);
    assert_string_equal(again.message, "full");
    assert_string_equal(again.hint, "later");
    assert_int_equal(rsbx_pool_get_error(nonsense, &again), REPOSBX_EPROTOCOL);
}

/* However a server was killed, its clients see the same: it is not there, and they run their jobs. */
static void a_killed_server_is_none(void **state)
{
    RSBX_AUTO(rsbx_buf) struct rsbx_buf bytes = RSBX_BUF_INIT(64);
    RSBX_AUTO(rsbx_json) rsbx_json_ptr document = json_object();
    struct rsbx_deadline deadline = rsbx_deadline_in_ms(ENOUGH_MS);
    reposbx_error err = REPOSBX_ERROR_INIT;

    (void)state;
    for (int unread = 0; unread < 2; unread++) {
        json_t *value = NULL;
        int both[2];

        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, both), 0);
        if (unread)
            assert_int_equal(rsbx_pool_send(both[1], document, &bytes, deadline, NULL), 0);
        (void)close(both[0]);
        assert_int_equal(rsbx_pool_receive(&value, &bytes, both[1], deadline, &err),
                         REPOSBX_ENOTFOUND);
        assert_int_equal(rsbx_pool_send(both[1], document, &bytes, deadline, &err),
                         REPOSBX_ENOTFOUND);
        (void)close(both[1]);
    }
}

/* What another side says wrongly is its fault, whatever is wrong with it: not the user's input, no limit
 * of a policy, and no status. */
static void nonsense_is_the_other_sides(void **state)
{
    static const char *const words[] = { "nonsense", "[]", "{\"a\":1,\"a\":2}", "{\"a\":\"\\u0000\"}" };
    static const char *const statuses[] = {
        "{}", "{\"language\":\"bash\"}", "{\"language\":\"bash\",\"engine\":\"podman\",\"pid\":\"1\"}",
        "{\"error\":0,\"message\":\"m\",\"hint\":\"\"}",
    };
    RSBX_AUTO(rsbx_json) rsbx_json_ptr busy = json_loads("{\"error\":-8,\"message\":\"m\",\"hint\":\"\"}", 0, NULL);
    struct rsbx_deadline deadline = rsbx_deadline_in_ms(ENOUGH_MS);

    (void)state;
    for (size_t i = 0; i <= sizeof words / sizeof words[0]; i++) {
        bool last = i == sizeof words / sizeof words[0]; /* bytes where none are wanted */
        const char *text = last ? "{}" : words[i];
        RSBX_AUTO(rsbx_buf) struct rsbx_buf bytes = RSBX_BUF_INIT(0);
        const uint8_t head[8] = { 0, 0, 0, (uint8_t)strlen(text), 0, 0, 0, last };
        reposbx_error err = REPOSBX_ERROR_INIT;
        json_t *value = NULL;
        int both[2];

        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, both), 0);
        assert_int_equal(rsbx_write_all(both[0], head, sizeof head), 0);
        assert_int_equal(rsbx_write_all(both[0], text, strlen(text)), 0);
        assert_int_equal(rsbx_pool_receive(&value, &bytes, both[1], deadline, &err), REPOSBX_EPROTOCOL);
        assert_int_equal(err.code, REPOSBX_EPROTOCOL);
        (void)close(both[0]);
        (void)close(both[1]);
    }
    for (size_t i = 0; i < sizeof statuses / sizeof statuses[0]; i++) {
        RSBX_AUTO(rsbx_json) rsbx_json_ptr status = json_loads(statuses[i], 0, NULL);

        assert_int_equal(rsbx_pool_check_status(status, NULL), REPOSBX_EPROTOCOL);
    }
    assert_int_equal(rsbx_pool_check_status(busy, NULL), REPOSBX_EBUSY);
}

/* A server that hangs, or one that took the place of the first, is not waited for without end. */
static void an_end_is_waited_for_within_bounds(void **state)
{
    char folder[] = "/tmp/reposbx-wire.XXXXXX";
    RSBX_AUTO(rsbx_fd) int run_fd = -1;
    RSBX_AUTO(rsbx_fd) int lock_fd = -1;
    reposbx_error err = REPOSBX_ERROR_INIT;

    (void)state;
    assert_non_null(mkdtemp(folder));
    run_fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(rsbx_pool_await_end(run_fd, rsbx_deadline_in_ms(1), &err), REPOSBX_EIO);
    lock_fd = openat(run_fd, "pool.lock", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    assert_int_equal(flock(lock_fd, LOCK_EX), 0);
    assert_int_equal(rsbx_pool_await_end(run_fd, rsbx_deadline_in_ms(1), &err),
                     REPOSBX_EUNAVAILABLE);
    assert_int_equal(flock(lock_fd, LOCK_UN), 0);
    assert_int_equal(rsbx_pool_await_end(run_fd, rsbx_deadline_in_ms(1), &err), 0);
    assert_int_equal(unlinkat(run_fd, "pool.lock", 0), 0);
    assert_int_equal(rmdir(folder), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_spec_comes_back_whole),
        cmocka_unit_test(a_result_comes_back_whole),
        cmocka_unit_test(numbers_without_bounds_are_refused),
        cmocka_unit_test(lengths_that_lie_are_refused),
        cmocka_unit_test(messages_are_bounded_and_whole),
        cmocka_unit_test(a_killed_server_is_none),
        cmocka_unit_test(errors_keep_their_code_and_hint),
        cmocka_unit_test(nonsense_is_the_other_sides),
        cmocka_unit_test(an_end_is_waited_for_within_bounds),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
