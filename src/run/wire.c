/* SPDX-License-Identifier: Apache-2.0 */
#include "run/wire.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "guest/protocol.h"

#include "base/banned.h"

#define HEAD_BYTES 8U
#define WHAT "pool message"
/* Of a result; a year is no run's. */
#define MAX_SECONDS 31536000.0

static int late(reposbx_error *err)
{
    return rsbx_fail(err, REPOSBX_EUNAVAILABLE, "the pool did not answer in time");
}

/* A peer that was killed while it had bytes unread resets the connection; the others close it. */
static bool peer_gone(int error)
{
    return error == ECONNRESET || error == EPIPE;
}

static int closed(reposbx_error *err)
{
    return rsbx_fail(err, REPOSBX_ENOTFOUND, "the pool closed the connection");
}

static int send_all(int fd, const void *bytes, size_t length, struct rsbx_deadline deadline,
                    reposbx_error *err)
{
    const char *at = bytes;

    while (length > 0) {
        ssize_t put = send(fd, at, length, MSG_NOSIGNAL | MSG_DONTWAIT);

        if (put < 0 && peer_gone(errno))
            return closed(err);
        if (put < 0 && errno != EAGAIN && errno != EINTR)
            return rsbx_fail_errno(err, REPOSBX_EUNAVAILABLE, "the pool's connection");
        if (put > 0) {
            at += put;
            length -= (size_t)put;
        } else if (rsbx_wait_fd(fd, POLLOUT, deadline) != 1) {
            return late(err);
        }
    }
    return REPOSBX_OK;
}

/* `*got` less than `length` only at the end of the stream. */
static int receive_all(size_t *got, int fd, char *bytes, size_t length,
                       struct rsbx_deadline deadline, reposbx_error *err)
{
    *got = 0;
    while (*got < length) {
        ssize_t part = recv(fd, bytes + *got, length - *got, MSG_DONTWAIT);

        if (part == 0 || (part < 0 && peer_gone(errno)))
            return REPOSBX_OK;
        if (part < 0 && errno != EAGAIN && errno != EINTR)
            return rsbx_fail_errno(err, REPOSBX_EUNAVAILABLE, "the pool's connection");
        if (part > 0)
            *got += (size_t)part;
        else if (rsbx_wait_fd(fd, POLLIN, deadline) != 1)
            return late(err);
    }
    return REPOSBX_OK;
}

int rsbx_pool_send(int fd, const json_t *document, const struct rsbx_buf *bytes,
                   struct rsbx_deadline deadline, reposbx_error *err)
{
    RSBX_AUTO(rsbx_text) char *text = NULL;
    uint8_t head[HEAD_BYTES];
    int rc = rsbx_json_text(&text, document, err);

    if (rc != 0)
        return rc;
    rsbx_wire_put_u32(head, (uint32_t)strlen(text));
    rsbx_wire_put_u32(head + 4, (uint32_t)bytes->length);
    rc = send_all(fd, head, sizeof head, deadline, err);
    if (rc == 0)
        rc = send_all(fd, text, strlen(text), deadline, err);
    return rc == 0 ? send_all(fd, bytes->data, bytes->length, deadline, err) : rc;
}

static int receive_buf(struct rsbx_buf *out, int fd, size_t length, struct rsbx_deadline deadline,
                       reposbx_error *err)
{
    char *space = NULL;
    size_t got = 0;
    int rc;

    if (length > out->limit - out->length)
        return rsbx_fail(err, REPOSBX_EPROTOCOL, WHAT " has more than %zu bytes", out->limit);
    space = rsbx_buf_reserve(out, length, err);
    if (space == NULL)
        return REPOSBX_EINTERNAL;
    rc = receive_all(&got, fd, space, length, deadline, err);
    if (rc == 0 && got < length)
        rc = rsbx_fail(err, REPOSBX_EPROTOCOL, WHAT " is cut");
    if (rc != 0)
        return rc;
    out->length += length;
    out->data[out->length] = '\0';
    return REPOSBX_OK;
}

/* What the other side wrote is no input of the user's. */
static int parse(json_t **out, const struct rsbx_buf *text, reposbx_error *err)
{
    int rc = rsbx_json_parse(out, text->data, text->length, WHAT, err);

    if (rc == REPOSBX_EMALFORMED && err != NULL)
        err->code = REPOSBX_EPROTOCOL;
    return rc == REPOSBX_EMALFORMED ? REPOSBX_EPROTOCOL : rc;
}

int rsbx_pool_receive(json_t **document, struct rsbx_buf *bytes, int fd,
                      struct rsbx_deadline deadline, reposbx_error *err)
{
    RSBX_AUTO(rsbx_buf) struct rsbx_buf text = RSBX_BUF_INIT(RSBX_POOL_MAX_DOCUMENT_BYTES);
    RSBX_AUTO(rsbx_json) rsbx_json_ptr value = NULL;
    uint8_t head[HEAD_BYTES];
    size_t got = 0;
    int rc = receive_all(&got, fd, (char *)head, sizeof head, deadline, err);

    if (rc == 0 && got == 0)
        return closed(err);
    if (rc == 0 && got < sizeof head)
        rc = rsbx_fail(err, REPOSBX_EPROTOCOL, WHAT " is cut");
    if (rc == 0)
        rc = receive_buf(&text, fd, rsbx_wire_get_u32(head), deadline, err);
    if (rc == 0)
        rc = receive_buf(bytes, fd, rsbx_wire_get_u32(head + 4), deadline, err);
    if (rc == 0)
        rc = parse(&value, &text, err);
    if (rc == 0 && !json_is_object(value))
        rc = rsbx_fail(err, REPOSBX_EPROTOCOL, WHAT " is no object");
    if (rc != 0)
        return rc;
    *document = rsbx_json_steal(&value);
    return REPOSBX_OK;
}

bool rsbx_pool_peer_is_ours(int fd)
{
    struct ucred peer;
    socklen_t size = sizeof peer;

    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && size == sizeof peer &&
           peer.uid == geteuid();
}

/* ---- specs ---- */

int rsbx_pool_put_spec(json_t **document, struct rsbx_buf *bytes, const reposbx_exec_spec *spec,
                       reposbx_error *err)
{
    RSBX_AUTO(rsbx_json) rsbx_json_ptr value = NULL;
    json_t *env = json_array();
    json_t *inputs = json_array();
    int rc = rsbx_buf_append(bytes, spec->code != NULL ? spec->code : "", spec->code_length, err);

    value = json_pack("{s:s, s:I, s:f, s:I, s:f, s:I, s:o, s:o}", "language",
                      spec->language != NULL ? spec->language : "python", "code",
                      (json_int_t)spec->code_length, "timeout_seconds", spec->timeout_seconds,
                      "memory_bytes", (json_int_t)spec->memory_bytes, "cpus", spec->cpus, "pids",
                      (json_int_t)spec->pids, "env", env, "inputs", inputs);
    if (value == NULL)
        return rsbx_fail_memory(err);
    for (size_t i = 0; rc == 0 && i < spec->env_count; i++) {
        size_t length = strlen(spec->env[i]) + 1; /* its NUL comes along */

        rc = rsbx_buf_append(bytes, spec->env[i], length, err);
        (void)json_array_append_new(env, json_integer((json_int_t)length));
    }
    for (size_t i = 0; rc == 0 && i < spec->input_count; i++) {
        const reposbx_run_input *input = &spec->inputs[i];

        rc = rsbx_buf_append(bytes, input->bytes != NULL ? input->bytes : "", input->length, err);
        (void)json_array_append_new(inputs, json_pack("{s:s, s:I}", "name", input->name, "length",
                                                      (json_int_t)input->length));
    }
    if (rc == 0)
        *document = rsbx_json_steal(&value);
    return rc;
}

void rsbx_pool_space_autop(struct rsbx_pool_space *space)
{
    free(space->env);
    free(space->inputs);
}

/* Takes the next `length` bytes of a message. */
static const char *cut(size_t *used, const struct rsbx_buf *bytes, uint64_t length)
{
    const char *at = bytes->data + *used;

    if (length > bytes->length - *used)
        return NULL;
    *used += (size_t)length;
    return at;
}

static int bad_message(reposbx_error *err)
{
    return rsbx_fail(err, REPOSBX_EPROTOCOL, WHAT " does not fit its lengths");
}

static int get_env(reposbx_exec_spec *spec, struct rsbx_pool_space *space, const json_t *list,
                   size_t *used, const struct rsbx_buf *bytes, reposbx_error *err)
{
    const json_t *item;
    size_t index;

    space->env = calloc(json_array_size(list) + 1, sizeof *space->env);
    if (space->env == NULL)
        return rsbx_fail_memory(err);
    json_array_foreach(list, index, item)
    {
        json_int_t length = json_integer_value(item);
        const char *text = length > 0 ? cut(used, bytes, (uint64_t)length) : NULL;

        if (text == NULL || memchr(text, '\0', (size_t)length) != text + length - 1)
            return bad_message(err);
        space->env[index] = text;
    }
    spec->env = space->env;
    spec->env_count = json_array_size(list);
    return REPOSBX_OK;
}

static int get_inputs(reposbx_exec_spec *spec, struct rsbx_pool_space *space, const json_t *list,
                      size_t *used, const struct rsbx_buf *bytes, reposbx_error *err)
{
    const json_t *item;
    size_t index;

    space->inputs = calloc(json_array_size(list) + 1, sizeof *space->inputs);
    if (space->inputs == NULL)
        return rsbx_fail_memory(err);
    json_array_foreach(list, index, item)
    {
        reposbx_run_input *input = &space->inputs[index];
        uint64_t length;
        int rc = rsbx_json_get_text(&input->name, item, "name", WHAT, err);

        if (rc == 0)
            rc = rsbx_json_get_u64(&length, item, "length", WHAT, err);
        if (rc != 0)
            return rc;
        input->bytes = cut(used, bytes, length);
        input->length = (size_t)length;
        if (input->bytes == NULL)
            return bad_message(err);
    }
    spec->inputs = space->inputs;
    spec->input_count = json_array_size(list);
    return REPOSBX_OK;
}

int rsbx_pool_get_spec(reposbx_exec_spec *out, struct rsbx_pool_space *space, const json_t *document,
                       const struct rsbx_buf *bytes, reposbx_error *err)
{
    reposbx_exec_spec spec = REPOSBX_EXEC_SPEC_INIT;
    json_t *env = NULL;
    json_t *inputs = NULL;
    uint64_t length = 0;
    size_t used = 0;
    int rc = rsbx_json_get_text(&spec.language, document, "language", WHAT, err);

    if (rc == 0)
        rc = rsbx_json_get_u64(&length, document, "code", WHAT, err);
    if (rc == 0)
        rc = rsbx_json_get_u64(&spec.memory_bytes, document, "memory_bytes", WHAT, err);
    if (rc == 0)
        rc = rsbx_json_get_u64(&spec.pids, document, "pids", WHAT, err);
    if (rc == 0)
        rc = rsbx_json_get_node(&env, document, "env", JSON_ARRAY, WHAT, err);
    if (rc == 0)
        rc = rsbx_json_get_node(&inputs, document, "inputs", JSON_ARRAY, WHAT, err);
    if (rc != 0)
        return rc;
    spec.timeout_seconds = json_number_value(json_object_get(document, "timeout_seconds"));
    spec.cpus = json_number_value(json_object_get(document, "cpus"));
    spec.code = cut(&used, bytes, length);
    spec.code_length = (size_t)length;
    if (spec.code == NULL)
        return length == 0 && bytes->data == NULL ? REPOSBX_OK : bad_message(err);
    rc = get_env(&spec, space, env, &used, bytes, err);
    if (rc == 0)
        rc = get_inputs(&spec, space, inputs, &used, bytes, err);
    if (rc == 0)
        *out = spec;
    return rc;
}

/* ---- results ---- */

int rsbx_pool_put_result(json_t **document, struct rsbx_buf *bytes, const reposbx_run_result *result,
                         reposbx_error *err)
{
    json_t *value = json_pack(
        "{s:I, s:I, s:i, s:i, s:i, s:b, s:b, s:b, s:b, s:b, s:f, s:s, s:s, s:b, s:s}", "stdout",
        (json_int_t)result->stdout_length, "stderr", (json_int_t)result->stderr_length, "status",
        result->status, "exit_code", result->exit_code, "signal", result->signal, "timed_out",
        result->timed_out, "output_limited", result->output_limited, "oom_killed",
        result->oom_killed, "truncated", result->truncated, "ok", result->ok, "duration_s",
        result->duration_s, "engine", result->engine, "language", result->language, "warm",
        result->warm, "image_id", result->image_id);
    int rc = rsbx_buf_append(bytes, result->stdout_bytes, result->stdout_length, err);

    if (rc == 0)
        rc = rsbx_buf_append(bytes, result->stderr_bytes, result->stderr_length, err);
    if (value == NULL)
        return rsbx_fail_memory(err);
    if (rc != 0) {
        json_decref(value);
        return rc;
    }
    *document = value;
    return REPOSBX_OK;
}

static int get_flag(int *out, const json_t *document, const char *key, reposbx_error *err)
{
    bool flag = false;
    int rc = rsbx_json_get_bool(&flag, document, key, WHAT, err);

    *out = flag;
    return rc;
}

static int get_word(char *out, size_t size, const json_t *document, const char *key,
                    reposbx_error *err)
{
    const char *text;
    int rc = rsbx_json_get_text(&text, document, key, WHAT, err);

    if (rc == 0)
        (void)snprintf(out, size, "%s", text);
    return rc;
}

static int get_number(int *out, const json_t *document, const char *key, int least, int most,
                      reposbx_error *err)
{
    const json_t *value = json_object_get(document, key);

    if (!json_is_integer(value) || json_integer_value(value) < least ||
        json_integer_value(value) > most)
        return rsbx_fail(err, REPOSBX_EPROTOCOL, WHAT ": \"%s\" is none", key);
    *out = (int)json_integer_value(value);
    return REPOSBX_OK;
}

/* How the code ended, in the ranges that these have. */
static int get_end(reposbx_run_result *result, const json_t *document, reposbx_error *err)
{
    double seconds = json_number_value(json_object_get(document, "duration_s"));
    int rc = get_number(&result->status, document, "status", 0, REPOSBX_STATUS_UNKNOWN, err);

    if (rc == 0)
        rc = get_number(&result->exit_code, document, "exit_code", -1, 255, err);
    if (rc == 0)
        rc = get_number(&result->signal, document, "signal", 0, 64, err);
    if (rc == 0 && !(seconds >= 0.0 && seconds < MAX_SECONDS))
        rc = rsbx_fail(err, REPOSBX_EPROTOCOL, WHAT ": \"duration_s\" is none");
    if (rc == 0)
        result->duration_s = seconds;
    return rc;
}

static int get_output(reposbx_run_result *result, const json_t *document,
                      const struct rsbx_buf *bytes, reposbx_error *err)
{
    struct rsbx_buf out = RSBX_BUF_INIT(bytes->length);
    struct rsbx_buf errors = RSBX_BUF_INIT(bytes->length);
    uint64_t lengths[2] = { 0, 0 };
    int rc = rsbx_json_get_u64(&lengths[0], document, "stdout", WHAT, err);

    if (rc == 0)
        rc = rsbx_json_get_u64(&lengths[1], document, "stderr", WHAT, err);
    if (rc == 0 && (bytes->length > REPOSBX_RUN_OUTPUT_BYTES || lengths[0] > bytes->length ||
                    lengths[1] != bytes->length - lengths[0]))
        rc = bad_message(err);
    if (rc == 0)
        rc = rsbx_buf_append(&out, bytes->data, (size_t)lengths[0], err);
    if (rc == 0)
        rc = rsbx_buf_append(&errors, bytes->data + lengths[0], (size_t)lengths[1], err);
    if (rc == 0) {
        result->stdout_length = (size_t)lengths[0];
        result->stderr_length = (size_t)lengths[1];
        result->stdout_bytes = rsbx_buf_steal(&out);
        result->stderr_bytes = rsbx_buf_steal(&errors);
        if (result->stdout_bytes == NULL || result->stderr_bytes == NULL)
            rc = rsbx_fail_memory(err);
    }
    rsbx_buf_dispose(&out);
    rsbx_buf_dispose(&errors);
    return rc;
}

int rsbx_pool_get_result(reposbx_run_result *out, const json_t *document,
                         const struct rsbx_buf *bytes, reposbx_error *err)
{
    reposbx_run_result result = { .exit_code = -1 };
    int rc = get_flag(&result.timed_out, document, "timed_out", err);

    if (rc == 0)
        rc = get_flag(&result.output_limited, document, "output_limited", err);
    if (rc == 0)
        rc = get_flag(&result.oom_killed, document, "oom_killed", err);
    if (rc == 0)
        rc = get_flag(&result.truncated, document, "truncated", err);
    if (rc == 0)
        rc = get_flag(&result.ok, document, "ok", err);
    if (rc == 0)
        rc = get_flag(&result.warm, document, "warm", err);
    if (rc == 0)
        rc = get_word(result.engine, sizeof result.engine, document, "engine", err);
    if (rc == 0)
        rc = get_word(result.language, sizeof result.language, document, "language", err);
    if (rc == 0)
        rc = get_word(result.image_id, sizeof result.image_id, document, "image_id", err);
    if (rc == 0)
        rc = get_end(&result, document, err);
    if (rc == 0)
        rc = get_output(&result, document, bytes, err);
    if (rc != 0) {
        rsbx_run_result_dispose(&result);
        return rc;
    }
    *out = result;
    return REPOSBX_OK;
}

/* ---- status ---- */

int rsbx_pool_check_status(const json_t *document, reposbx_error *err)
{
    static const char *const numbers[] = { "pid",    "size",     "ready", "running",  "hits",   "misses",
                                           "resets", "discards", "busy",  "failures", "p50_ms", "p95_ms" };
    const char *text;
    int rc = REPOSBX_OK;

    if (json_object_get(document, "error") != NULL)
        return rsbx_pool_get_error(document, err);
    rc = rsbx_json_get_text(&text, document, "language", WHAT, err);
    if (rc == 0)
        rc = rsbx_json_get_text(&text, document, "engine", WHAT, err);
    for (size_t i = 0; rc == 0 && i < sizeof numbers / sizeof numbers[0]; i++) {
        if (!json_is_number(json_object_get(document, numbers[i])))
            rc = rsbx_fail(err, REPOSBX_EPROTOCOL, WHAT " lacks the number \"%s\"", numbers[i]);
    }
    return rc;
}

/* ---- errors ---- */

json_t *rsbx_pool_put_error(int code, const reposbx_error *why)
{
    return json_pack("{s:i, s:s, s:s}", "error", code, "message", why->message, "hint", why->hint);
}

int rsbx_pool_get_error(const json_t *document, reposbx_error *err)
{
    const json_t *code = json_object_get(document, "error");
    const char *message = json_string_value(json_object_get(document, "message"));
    const char *hint = json_string_value(json_object_get(document, "hint"));

    if (!json_is_integer(code) || json_integer_value(code) > REPOSBX_EINVALID ||
        json_integer_value(code) < REPOSBX_ECANCELLED || message == NULL || hint == NULL)
        return rsbx_fail(err, REPOSBX_EPROTOCOL, WHAT " holds neither a result nor an error");
    (void)rsbx_fail(err, (int)json_integer_value(code), "%s", message);
    if (hint[0] != '\0')
        rsbx_hint(err, "%s", hint);
    return (int)json_integer_value(code);
}
