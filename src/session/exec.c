/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One command.
 *
 *     usable? ─► request checked ─► audit has room ─► slot taken (hello compared)
 *        ─► "command_started" durable ─► request sent ─► frames ─► trailer
 *        ─► slot gone, verified ─► streams sealed ─► "command_finished" durable ─► result
 *
 * Invariants:
 *  1. Nothing of the command runs before its started record is on disk.
 *  2. What the guest counted and hashed is what we counted and hashed, or the result is an error.
 *  3. No path leaves the container behind without poisoning the session.
 *  4. No answer is never success: without a trailer the status is what the engine has evidence
 *     for, or unknown.
 */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/limits.h"
#include "base/path.h"
#include "base/text.h"
#include "codec/sha256.h"
#include "session/internal.h"

#include "base/banned.h"

/* A "command_started" record without its texts is some 900 bytes. */
#define STARTED_BYTES 2048U

typedef struct rsbx_capture *rsbx_capture_ptr;
RSBX_CLEANUP(rsbx_capture, rsbx_capture_ptr, rsbx_capture_free);

/* One captured stream. */
struct stream {
    struct rsbx_capture *capture;
    struct rsbx_buf preview;
    uint64_t bytes;
    char file[64];
    char sha256[65];
};

struct running {
    const reposbx_exec_request *request;
    struct rsbx_session *session;
    struct rsbx_slot *slot;
    struct stream streams[2];
    struct rsbx_trailer trailer;
    bool have_trailer;
    bool stopped_by_caller;
    reposbx_error failure; /* of the guest's FAIL */
};

/* ---- what is asked ---- */

struct order {
    char command_id[16];
    char cwd[RSBX_MAX_PATH_BYTES + 1];
    reposbx_limits limits;
};

static int check_stdin(const struct rsbx_session *session, const reposbx_exec_request *request,
                       reposbx_error *err)
{
    if (request->stdin_bytes == NULL && request->stdin_length > 0)
        return rsbx_fail(err, REPOSBX_EINVALID, "stdin: a length without bytes");
    if (request->stdin_length > session->policy->limits.stdin_bytes) {
        (void)rsbx_fail(err, REPOSBX_EPOLICY, "stdin: more than %" PRIu64 " bytes",
                        session->policy->limits.stdin_bytes);
        rsbx_hint(err, "limits.stdin_bytes of the policy is the bound");
        return REPOSBX_EPOLICY;
    }
    return REPOSBX_OK;
}

static int check_request(struct order *order, struct rsbx_session *session,
                         const reposbx_exec_request *request, reposbx_error *err)
{
    const struct rsbx_limit_request lower = { .cpus = request->cpus,
                                              .timeout_seconds = request->timeout_seconds,
                                              .memory_bytes = request->memory_bytes,
                                              .pids = request->pids };
    int rc = rsbx_check_argv(request->argv, request->argc, err);

    if (rc == 0)
        rc = rsbx_check_env(request->env, request->env_count, err);
    if (rc == 0)
        rc = rsbx_path_request(order->cwd, request->cwd != NULL ? request->cwd : ".", true, "cwd",
                               err);
    if (rc == 0)
        rc = rsbx_lower_limits(&order->limits, session->policy, &lower, err);
    if (rc == 0)
        rc = check_stdin(session, request, err);
    if (rc == 0 && session->commands_made >= session->policy->max_commands) {
        rc = rsbx_fail(err, REPOSBX_EPOLICY, "session.max_commands: %" PRIu64 " commands were run",
                       session->commands_made);
        rsbx_hint(err, "close the session and create a new one");
    }
    return rc;
}

static json_t *texts_value(const char *const *texts, size_t count, bool names_only)
{
    json_t *array = json_array();

    for (size_t i = 0; array != NULL && i < count; i++) {
        size_t length = names_only ? strcspn(texts[i], "=") : strlen(texts[i]);

        if (json_array_append_new(array, rsbx_json_bytes(texts[i], length)) != 0) {
            json_decref(array);
            array = NULL;
        }
    }
    return array;
}

/* Exact bytes of an argv that is not all UTF-8, in hex; NULL when the plain list is exact. */
static json_t *argv_hex(const reposbx_exec_request *request)
{
    json_t *array = NULL;
    bool plain = true;

    for (size_t i = 0; i < request->argc; i++)
        plain = plain && rsbx_utf8_valid(request->argv[i], strlen(request->argv[i]));
    if (plain)
        return json_null();
    array = json_array();
    for (size_t i = 0; i < request->argc; i++) {
        size_t length = strlen(request->argv[i]);
        char *hex = malloc(2 * length + 1);

        if (hex == NULL)
            break;
        rsbx_hex(hex, request->argv[i], length);
        (void)json_array_append_new(array, json_string(hex));
        free(hex);
    }
    return array;
}

static json_t *limits_value(const reposbx_limits *limits)
{
    return json_pack("{s:f, s:I, s:I, s:f, s:I, s:I}", "cpus", limits->cpus, "memory_bytes",
                     (json_int_t)limits->memory_bytes, "pids", (json_int_t)limits->pids,
                     "timeout_seconds", limits->command_timeout_seconds, "output_bytes",
                     (json_int_t)limits->output_bytes, "audit_log_bytes",
                     (json_int_t)limits->audit_log_bytes);
}

static double observed_cpus(const struct rsbx_hello *hello)
{
    return (double)hello->cpu_quota_us / (double)hello->cpu_period_us;
}

json_t *rsbx_observed_value(const struct rsbx_hello *hello)
{
    return json_pack("{s:I, s:I, s:f}", "memory_bytes", (json_int_t)hello->memory_bytes, "pids",
                     (json_int_t)hello->pids, "cpus", observed_cpus(hello));
}

static int record_started(struct rsbx_session *session, const struct order *order,
                          const reposbx_exec_request *request, const struct rsbx_hello *hello,
                          reposbx_error *err)
{
    char stdin_hash[65] = "";
    json_t *data;

    if (request->stdin_bytes != NULL)
        rsbx_sha256_hex(stdin_hash, request->stdin_bytes, request->stdin_length);
    data = json_pack("{s:s, s:o, s:o, s:o, s:o, s:o, s:{s:I, s:s}, s:o}", "command_id",
                     order->command_id, "argv", texts_value(request->argv, request->argc, false),
                     "argv_hex", argv_hex(request), "cwd",
                     rsbx_json_bytes(order->cwd, strlen(order->cwd)), "env",
                     texts_value(request->env, request->env_count, true), "limits",
                     limits_value(&order->limits), "stdin", "bytes",
                     (json_int_t)request->stdin_length, "sha256", stdin_hash, "observed",
                     rsbx_observed_value(hello));
    return rsbx_session_record(session, "command_started", data, RSBX_AUDIT_ORDINARY, err);
}

/* ---- the conversation ---- */

static int put_request(struct rsbx_talk *talk, const struct order *order,
                       const reposbx_exec_request *request, reposbx_error *err)
{
    const char *env[RSBX_DEFAULT_ENV_COUNT];
    size_t defaults = rsbx_default_env(env, request->env, request->env_count);
    struct rsbx_request wire = { .op = RSBX_OP_EXEC };
    int rc;

    wire.flags = request->stdin_bytes != NULL ? RSBX_REQUEST_STDIN : 0;
    wire.timeout_ms = (uint64_t)ceil(order->limits.command_timeout_seconds * 1000.0);
    wire.max_bytes = order->limits.audit_log_bytes;
    wire.argc = (uint32_t)request->argc;
    wire.envc = (uint32_t)(request->env_count + defaults);
    rc = rsbx_talk_put_request(talk, &wire, err);
    for (size_t i = 0; rc == 0 && i < request->argc; i++)
        rc = rsbx_talk_put_text(talk, RSBX_TEXT_ARG, request->argv[i], strlen(request->argv[i]),
                                err);
    for (size_t i = 0; rc == 0 && i < defaults; i++)
        rc = rsbx_talk_put_text(talk, RSBX_TEXT_ENV, env[i], strlen(env[i]), err);
    for (size_t i = 0; rc == 0 && i < request->env_count; i++)
        rc = rsbx_talk_put_text(talk, RSBX_TEXT_ENV, request->env[i], strlen(request->env[i]), err);
    if (rc == 0)
        rc = rsbx_talk_put_text(talk, RSBX_TEXT_CWD, order->cwd, strlen(order->cwd), err);
    if (rc == 0)
        rc = rsbx_talk_put(talk, RSBX_WIRE_GO, NULL, 0, err);
    if (rc == 0 && request->stdin_bytes != NULL) {
        rc = rsbx_talk_put_data(talk, request->stdin_bytes, request->stdin_length, err);
        if (rc == 0)
            rc = rsbx_talk_put(talk, RSBX_WIRE_END, NULL, 0, err);
    }
    return rc;
}

static int on_output(struct running *running, int which, const struct rsbx_wire_message *message,
                     reposbx_error *err)
{
    struct stream *stream = &running->streams[which];
    size_t room = stream->preview.limit - stream->preview.length;
    int rc = rsbx_audit_charge(running->session->audit, message->length, err);

    if (rc == 0)
        rc = rsbx_capture_write(stream->capture, message->bytes, message->length, err);
    if (rc == 0)
        rc = rsbx_buf_append(&stream->preview, message->bytes,
                             message->length < room ? message->length : room, err);
    if (rc != 0)
        return rc;
    stream->bytes += message->length;
    if (running->request->output != NULL &&
        running->request->output(running->request->output_payload, which + 1, message->bytes,
                                 message->length) != 0) {
        running->stopped_by_caller = true;
        return rsbx_fail(err, REPOSBX_ECANCELLED, "cancelled by the caller");
    }
    return REPOSBX_OK;
}

static int on_message(void *payload, const struct rsbx_wire_message *message, reposbx_error *err)
{
    struct running *running = payload;

    switch (message->type) {
    case RSBX_WIRE_STDOUT:
        return on_output(running, 0, message, err);
    case RSBX_WIRE_STDERR:
        return on_output(running, 1, message, err);
    case RSBX_WIRE_FAIL:
        return rsbx_guest_failure(&running->failure, message, err);
    case RSBX_WIRE_TRAILER:
        if (!rsbx_wire_get_trailer(&running->trailer, message->bytes, message->length) ||
            running->trailer.op != RSBX_OP_EXEC)
            break;
        running->have_trailer = true;
        return 1;
    default:
        break;
    }
    return rsbx_fail(err, REPOSBX_EPROTOCOL, "the guest sent an unexpected message of type %u",
                     message->type);
}

/* Everything is sent: while the command runs, the slot of the next one is prepared. */
static int on_sent(void *payload, struct rsbx_talk *talk, reposbx_error *err)
{
    struct running *running = payload;
    const struct rsbx_slot_want next = rsbx_want_command(running->session);

    (void)talk;
    (void)err;
    rsbx_slot_prepare_next(running->slot, running->session, &next,
                           running->session->policy->slots > 0 ? 1 : 0);
    return 1;
}

/* Without a trailer only the engine's evidence is left. */
static int settle_without_trailer(reposbx_exec_result *result, struct rsbx_session *session,
                                  const char *slot, bool late, reposbx_error *err)
{
    struct rsbx_slot_state state = { 0 };
    struct rsbx_deadline deadline = rsbx_deadline_in_ms(RSBX_ENGINE_CALL_MS);
    int rc = session->provider->ops->inspect(&state, session->provider, slot, session->id, deadline,
                                             err);

    if (late) {
        result->status = REPOSBX_TIMED_OUT;
        result->timed_out = 1;
        return REPOSBX_OK;
    }
    if (rc == 0 && state.exists && state.oom_killed && !state.running) {
        result->status = REPOSBX_OOM_KILLED;
        result->oom_killed = 1;
        result->signal = SIGKILL;
        return REPOSBX_OK;
    }
    result->status = REPOSBX_STATUS_UNKNOWN;
    return REPOSBX_OK;
}

/* ---- streams ---- */

static int open_streams(struct running *running, struct rsbx_session *session,
                        const struct order *order, reposbx_error *err)
{
    static const char *const names[] = { "stdout", "stderr" };

    for (int i = 0; i < 2; i++) {
        struct stream *stream = &running->streams[i];
        int rc;

        (void)snprintf(stream->file, sizeof stream->file, "%s.%s", order->command_id, names[i]);
        stream->preview.limit = order->limits.output_bytes;
        rc = rsbx_capture_open(&stream->capture, session->audit, stream->file, err);
        if (rc != 0)
            return rc;
    }
    return REPOSBX_OK;
}

static void close_streams(struct running *running)
{
    for (int i = 0; i < 2; i++) {
        rsbx_capture_free(running->streams[i].capture);
        rsbx_buf_dispose(&running->streams[i].preview);
    }
}

static int seal_streams(struct running *running, reposbx_error *err)
{
    for (int i = 0; i < 2; i++) {
        uint64_t bytes = 0;
        int rc = rsbx_capture_seal(&bytes, running->streams[i].sha256, running->streams[i].capture,
                                   err);

        if (rc != 0)
            return rc;
    }
    return REPOSBX_OK;
}

/* The guest counts and hashes too: a difference means that bytes were lost on the way. */
static int compare_streams(const struct running *running, reposbx_error *err)
{
    char guest[2][65];

    if (!running->have_trailer)
        return REPOSBX_OK;
    rsbx_hex(guest[0], running->trailer.stdout_sha256, 32);
    rsbx_hex(guest[1], running->trailer.stderr_sha256, 32);
    if (running->trailer.stdout_bytes != running->streams[0].bytes ||
        running->trailer.stderr_bytes != running->streams[1].bytes ||
        strcmp(guest[0], running->streams[0].sha256) != 0 ||
        strcmp(guest[1], running->streams[1].sha256) != 0)
        return rsbx_fail(err, REPOSBX_EPROTOCOL,
                         "the engine did not hand on every byte that the command wrote");
    return REPOSBX_OK;
}

/* ---- the result ---- */

static int copy_argv(reposbx_exec_result *result, const reposbx_exec_request *request,
                     reposbx_error *err)
{
    result->argv = calloc(request->argc + 1, sizeof *result->argv);
    if (result->argv == NULL)
        return rsbx_fail_memory(err);
    for (size_t i = 0; i < request->argc; i++) {
        result->argv[i] = strdup(request->argv[i]);
        if (result->argv[i] == NULL)
            return rsbx_fail_memory(err);
        result->argc = i + 1;
    }
    return REPOSBX_OK;
}

/* A preview that is cut ends with a whole character, so that text stays text; and it has its length as
 * the text that documents make of it. */
static void cut_preview(struct rsbx_buf *preview, size_t *room, uint64_t captured)
{
    if (preview->length > 0 && preview->length < captured)
        preview->length = rsbx_utf8_edge(preview->data, preview->length);
    preview->length = rsbx_utf8_fit(room, preview->data, preview->length);
}

/* Both previews share one budget; stdout goes first. */
static int copy_previews(reposbx_exec_result *result, struct running *running, uint64_t budget,
                         reposbx_error *err)
{
    struct rsbx_buf *out = &running->streams[0].preview;
    struct rsbx_buf *errors = &running->streams[1].preview;
    size_t room = (size_t)budget;

    cut_preview(out, &room, running->streams[0].bytes);
    cut_preview(errors, &room, running->streams[1].bytes);
    result->stdout_preview_length = out->length;
    result->stderr_preview_length = errors->length;
    result->stdout_truncated = out->length < running->streams[0].bytes;
    result->stderr_truncated = errors->length < running->streams[1].bytes;
    result->stdout_preview = rsbx_buf_steal(out);
    result->stderr_preview = rsbx_buf_steal(errors);
    return result->stdout_preview != NULL && result->stderr_preview != NULL
               ? REPOSBX_OK
               : rsbx_fail_memory(err);
}

static int fill_result(reposbx_exec_result *result, struct running *running,
                       const struct order *order, const struct rsbx_hello *hello,
                       reposbx_error *err)
{
    int rc = copy_argv(result, running->request, err);

    result->command_id = strdup(order->command_id);
    if (result->command_id == NULL)
        return rsbx_fail_memory(err);
    result->stdout_bytes = running->streams[0].bytes;
    result->stderr_bytes = running->streams[1].bytes;
    memcpy(result->stdout_sha256, running->streams[0].sha256, 65);
    memcpy(result->stderr_sha256, running->streams[1].sha256, 65);
    result->observed_memory_bytes = hello->memory_bytes;
    result->observed_pids = hello->pids;
    result->observed_cpus = observed_cpus(hello);
    if (rc == 0)
        rc = copy_previews(result, running, order->limits.output_bytes, err);
    return rc;
}

static json_t *stream_value(const struct stream *stream)
{
    return json_pack("{s:s, s:I, s:s}", "file", stream->file, "bytes", (json_int_t)stream->bytes,
                     "sha256", stream->sha256);
}

static int record_finished(struct rsbx_session *session, const reposbx_exec_result *result,
                           const struct running *running, const struct order *order,
                           const char *status, reposbx_error *err)
{
    bool exited = result->status == REPOSBX_EXITED && strcmp(status, "exited") == 0;
    json_t *data = json_pack(
        "{s:s, s:s, s:o, s:i, s:i, s:I, s:b, s:b, s:b, s:I, s:I, s:o, s:o}", "command_id",
        order->command_id, "status", status, "exit_code",
        exited ? json_integer(result->exit_code) : json_null(), "signal", result->signal,
        "exec_errno", result->exec_errno, "duration_ms", (json_int_t)result->duration_ms,
        "timed_out", result->timed_out, "output_limited", result->output_limited, "oom_killed",
        result->oom_killed, "peak_memory_bytes", (json_int_t)result->peak_memory_bytes,
        "survivors",
        (json_int_t)(running->have_trailer ? running->trailer.survivors : 0), "stdout",
        stream_value(&running->streams[0]), "stderr", stream_value(&running->streams[1]));

    /* From the reserve: what ran is told even when its output took the last room; nothing runs
     * after that, so this happens once. */
    return rsbx_session_record(session, "command_finished", data, RSBX_AUDIT_FINAL, err);
}

/* ---- the run ---- */

/* Sends, listens, and settles how it ended. Negative only when the sandbox itself failed. */
static int converse(reposbx_exec_result *result, struct running *running, struct rsbx_slot *slot,
                    struct rsbx_session *session, const struct order *order, reposbx_error *err)
{
    const struct rsbx_talk_handler handler = { .message = on_message, .refill = on_sent,
                                               .payload = running };
    uint64_t limit_ms = (uint64_t)ceil(order->limits.command_timeout_seconds * 1000.0);
    struct rsbx_deadline deadline = rsbx_deadline_or(rsbx_deadline_in_ms(limit_ms + RSBX_GUEST_GRACE_MS),
                                                     &running->request->cancel_fd);
    uint64_t began = rsbx_now_ns();
    int rc = put_request(slot->talk, order, running->request, err);

    if (rc == 0)
        rc = rsbx_talk_run(slot->talk, &handler, deadline, err);
    result->duration_ms = (rsbx_now_ns() - began) / 1000000;
    if (running->failure.code != 0) {
        *err = running->failure;
        return running->failure.code;
    }
    if (rc == 0) {
        rsbx_outcome_from_trailer(result, &running->trailer);
        return REPOSBX_OK;
    }
    if (rc != REPOSBX_EPROTOCOL && rc != REPOSBX_EUNAVAILABLE)
        return rc;
    return settle_without_trailer(result, session, slot->name, rsbx_deadline_passed(deadline), err);
}

/* From the started record to the finished one. */
static int run(reposbx_exec_result *result, struct running *running, struct rsbx_session *session,
               const struct order *order, struct rsbx_slot *slot, reposbx_error *err)
{
    reposbx_error later = REPOSBX_ERROR_INIT;
    bool started = false;
    int dropped;
    int sealed;
    int rc = rsbx_journal_command(session, err);

    if (rc == 0)
        rc = open_streams(running, session, order, err);
    if (rc == 0) {
        rc = record_started(session, order, running->request, &slot->hello, err);
        started = rc == 0;
    }
    RSBX_FAULT("exec.started");
    if (started)
        rc = converse(result, running, slot, session, order, err);
    RSBX_FAULT("exec.conversed");
    dropped = rsbx_slot_drop(slot, session, &later);
    if (!started)
        return rc;
    sealed = seal_streams(running, &later);
    if (rc == 0 && sealed == 0)
        rc = compare_streams(running, err);
    if (rc == 0 && (dropped != 0 || sealed != 0)) {
        *err = later;
        rc = dropped != 0 ? dropped : sealed;
    }
    RSBX_FAULT("exec.dropped");
    later = (reposbx_error)REPOSBX_ERROR_INIT;
    sealed = record_finished(session, result, running, order,
                             rc == 0 ? reposbx_exec_status_word(result->status)
                                     : reposbx_code_word(rc),
                             &later);
    if (rc == 0 && sealed != 0) {
        *err = later;
        rc = sealed;
    }
    if (rc == 0)
        rc = fill_result(result, running, order, &slot->hello, err);
    return rc;
}

/* The started record and the whole capture must fit into the audit folder, or nothing runs. */
static int reserve_capture(struct rsbx_session *session, const struct order *order,
                           const reposbx_exec_request *request, reposbx_error *err)
{
    uint64_t needed = order->limits.audit_log_bytes + STARTED_BYTES + rsbx_record_bytes(order->cwd);
    int rc = rsbx_session_audit(session, err);

    if (rc != 0) {
        rsbx_session_poison(session, err->message);
        return rc;
    }
    for (size_t i = 0; i < request->argc; i++)
        needed += rsbx_record_bytes(request->argv[i]);
    for (size_t i = 0; i < request->env_count; i++)
        needed += rsbx_record_bytes(request->env[i]);
    if (rsbx_audit_left(session->audit) < needed) {
        (void)rsbx_fail(err, REPOSBX_ELIMIT, "the audit folder has no room for another command");
        rsbx_hint(err, "session.audit_bytes of the policy bounds it; close this session");
        return REPOSBX_ELIMIT;
    }
    return REPOSBX_OK;
}

int rsbx_session_exec(reposbx_exec_result *out, struct rsbx_session *session,
                      const reposbx_exec_request *request, reposbx_error *err)
{
    struct running running = { .request = request, .failure = REPOSBX_ERROR_INIT };
    reposbx_exec_result result = { .exit_code = -1 };
    reposbx_error own = REPOSBX_ERROR_INIT;
    struct order order;
    struct rsbx_slot slot;
    struct rsbx_slot_want want;
    int outer_cancel_fd = session->cancel_fd;
    int rc;

    if (err == NULL)
        err = &own;
    rc = rsbx_session_usable(session, err);
    if (rc != 0)
        return rc;
    rc = check_request(&order, session, request, err);
    if (rc == 0)
        rc = reserve_capture(session, &order, request, err);
    if (rc != 0)
        return rsbx_session_refused(session, "exec", rc, err);
    want = rsbx_want_command(session);
    want.limits = order.limits;
    (void)snprintf(order.command_id, sizeof order.command_id, "cmd-%06" PRIu64,
                   session->commands_made + 1);
    session->cancel_fd = request->cancel_fd;
    rc = rsbx_slot_take(&slot, session, &want, err);
    session->cancel_fd = outer_cancel_fd;
    if (rc != 0)
        return rsbx_session_refused(session, "exec", rc, err);
    running.session = session;
    running.slot = &slot;
    rc = run(&result, &running, session, &order, &slot, err);
    close_streams(&running);
    if (rc != 0) {
        rsbx_exec_result_dispose(&result);
        return rc;
    }
    *out = result;
    return REPOSBX_OK;
}
