/* SPDX-License-Identifier: Apache-2.0 */
/* One job in one container: the request, the frames as they come, the trailer. */
#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/limits.h"
#include "run/internal.h"

#include "base/banned.h"

struct job {
    struct rsbx_buf out, err; /* of each stream what a result can hold */
    uint64_t out_bytes, err_bytes;
    uint64_t start_ns;
    struct rsbx_trailer trailer;
    bool have_trailer;
    reposbx_error failure;
    int failure_code;
};

static int put_texts(struct rsbx_talk *talk, const struct rsbx_run_order *order,
                     const char *const *env, size_t env_count, reposbx_error *err)
{
    const reposbx_exec_spec *spec = order->spec;
    int rc = REPOSBX_OK;

    for (const char *const *word = order->language->argv; rc == 0 && *word != NULL; word++)
        rc = rsbx_talk_put_text(talk, RSBX_TEXT_ARG, *word, strlen(*word), err);
    for (size_t i = 0; rc == 0 && i < env_count; i++)
        rc = rsbx_talk_put_text(talk, RSBX_TEXT_ENV, env[i], strlen(env[i]), err);
    for (size_t i = 0; rc == 0 && i < spec->env_count; i++)
        rc = rsbx_talk_put_text(talk, RSBX_TEXT_ENV, spec->env[i], strlen(spec->env[i]), err);
    return rc == 0 ? rsbx_talk_put_text(talk, RSBX_TEXT_CWD, "", 0, err) : rc;
}

static int put_job(struct rsbx_talk *talk, const struct rsbx_run_order *order,
                   const struct rsbx_buf *program, uint64_t max_bytes, reposbx_error *err)
{
    const char *env[RSBX_DEFAULT_ENV_COUNT];
    size_t env_count = rsbx_default_env(env, order->spec->env, order->spec->env_count);
    struct rsbx_request request = {
        .op = RSBX_OP_EXEC,
        .flags = RSBX_REQUEST_STDIN,
        .timeout_ms = (uint64_t)ceil(order->limits.command_timeout_seconds * 1000.0),
        .max_bytes = max_bytes,
    };
    int rc;

    while (order->language->argv[request.argc] != NULL)
        request.argc++;
    request.envc = (uint32_t)(order->spec->env_count + env_count);
    rc = rsbx_talk_put_request(talk, &request, err);
    if (rc == 0)
        rc = put_texts(talk, order, env, env_count, err);
    if (rc == 0)
        rc = rsbx_talk_put(talk, RSBX_WIRE_GO, NULL, 0, err);
    if (rc == 0)
        rc = rsbx_talk_put_data(talk, program->data, program->length, err);
    return rc == 0 ? rsbx_talk_put(talk, RSBX_WIRE_END, NULL, 0, err) : rc;
}

/* Bytes over what a result can hold are counted and dropped. */
static int keep(struct rsbx_buf *buf, uint64_t *total, const struct rsbx_wire_message *message,
                reposbx_error *err)
{
    size_t room = buf->limit - buf->length;

    *total += message->length;
    return rsbx_buf_append(buf, message->bytes, message->length < room ? message->length : room, err);
}

static int on_message(void *payload, const struct rsbx_wire_message *message, reposbx_error *err)
{
    struct job *job = payload;
    struct rsbx_fail fail;

    switch (message->type) {
    case RSBX_WIRE_STDOUT:
        return keep(&job->out, &job->out_bytes, message, err);
    case RSBX_WIRE_STDERR:
        return keep(&job->err, &job->err_bytes, message, err);
    case RSBX_WIRE_FAIL:
        if (!rsbx_wire_get_fail(&fail, message->bytes, message->length))
            break;
        job->failure_code = rsbx_fail(&job->failure, REPOSBX_EIO, "inside the container: %.*s",
                                      (int)fail.text_length, fail.text);
        return 0;
    case RSBX_WIRE_TRAILER:
        if (!rsbx_wire_get_trailer(&job->trailer, message->bytes, message->length) ||
            job->trailer.op != RSBX_OP_EXEC)
            break;
        job->have_trailer = true;
        return 1;
    default:
        break;
    }
    return rsbx_fail(err, REPOSBX_EPROTOCOL, "the guest sent an unexpected message of type %u",
                     message->type);
}

static void read_trailer(reposbx_run_result *result, const struct rsbx_trailer *trailer)
{
    result->timed_out = (trailer->flags & RSBX_TRAILER_TIMED_OUT) != 0;
    result->output_limited = (trailer->flags & RSBX_TRAILER_OUTPUT_LIMITED) != 0;
    result->oom_killed = trailer->oom_kills > 0 && trailer->oom_kills != RSBX_UNKNOWN;
    result->duration_s = (double)(trailer->duration_ns / 1000) / 1e6;
    result->status = rsbx_trailer_status(trailer);
    if (result->status == REPOSBX_OOM_KILLED || result->status == REPOSBX_SIGNALED)
        result->signal = (int)trailer->signal;
    else if (result->status == REPOSBX_EXITED)
        result->exit_code = (int)trailer->exit_code;
}

/* stdout first, stderr in what is left. */
static int give_output(reposbx_run_result *result, struct job *job, size_t budget,
                       reposbx_error *err)
{
    if (job->err.length > budget - job->out.length)
        job->err.length = budget - job->out.length;
    result->stdout_length = job->out.length;
    result->stderr_length = job->err.length;
    result->truncated = job->out.length < job->out_bytes || job->err.length < job->err_bytes ||
                        result->output_limited;
    result->stdout_bytes = rsbx_buf_steal(&job->out);
    result->stderr_bytes = rsbx_buf_steal(&job->err);
    if (result->stdout_bytes == NULL || result->stderr_bytes == NULL)
        return rsbx_fail_memory(err);
    result->stderr_bytes[result->stderr_length] = '\0';
    return REPOSBX_OK;
}

/* An interpreter that was not started. Where it is looked for, and how much it is given, is the caller's to say:
 * then nothing is known of the image. */
static int not_started(const struct rsbx_run_order *order, int error, reposbx_error *err)
{
    const reposbx_exec_spec *spec = order->spec;
    const char *interpreter = order->language->argv[0];
    bool path = false;

    for (size_t i = 0; i < spec->env_count; i++)
        path = path || strncmp(spec->env[i], "PATH=", 5) == 0;
    if (path || error == E2BIG) {
        (void)rsbx_fail(err, REPOSBX_EUNAVAILABLE, "%s cannot be started with the environment that was given: %s",
                        interpreter, strerror(error));
        rsbx_hint(err, path ? "PATH says where it is looked for; without one of yours that is where images have it"
                            : "the kernel bounds one variable, and all of them together");
        return REPOSBX_EUNAVAILABLE;
    }
    (void)rsbx_fail(err, REPOSBX_EUNAVAILABLE, "the image cannot run %s: %s", interpreter, strerror(error));
    rsbx_hint(err, "the image of a language has to hold its interpreter");
    return REPOSBX_EUNAVAILABLE;
}

/* What the conversation's end means. A guest that is silent after its own deadline has passed is
 * stopped by the removal: the job timed out. Any other end without a trailer is unknown. */
static int settle(reposbx_run_result *result, const struct job *job, int rc,
                  const struct rsbx_run_order *order, reposbx_error *err)
{
    if (job->have_trailer) {
        if (job->failure_code != 0) {
            if (err != NULL)
                *err = job->failure;
            return job->failure_code;
        }
        if (job->trailer.end == RSBX_END_NOT_STARTED)
            return not_started(order, (int)job->trailer.exec_errno, err);
        read_trailer(result, &job->trailer);
        return REPOSBX_OK;
    }
    if (rc != REPOSBX_EUNAVAILABLE && rc != REPOSBX_EPROTOCOL)
        return rc;
    result->duration_s = (double)(rsbx_now_ns() - job->start_ns) / 1e9;
    result->timed_out = rc == REPOSBX_EUNAVAILABLE;
    result->status = result->timed_out ? REPOSBX_TIMED_OUT : REPOSBX_STATUS_UNKNOWN;
    return REPOSBX_OK;
}

int rsbx_job_run(reposbx_run_result *out, struct rsbx_warm *warm,
                 const struct rsbx_run_order *order, const struct rsbx_buf *program,
                 uint64_t audit_log_bytes, reposbx_error *err)
{
    size_t budget = (size_t)order->limits.output_bytes;
    struct job job = { .out = RSBX_BUF_INIT(budget), .err = RSBX_BUF_INIT(budget),
                       .start_ns = rsbx_now_ns() };
    struct rsbx_talk_handler handler = { .message = on_message, .payload = &job };
    reposbx_run_result result = { .exit_code = -1 };
    struct rsbx_deadline deadline = rsbx_deadline_in_ms(
        (uint64_t)ceil(order->limits.command_timeout_seconds * 1000.0) + RSBX_GUEST_GRACE_MS);
    int rc = put_job(warm->talk, order, program, audit_log_bytes, err);

    if (rc == 0) {
        rc = rsbx_talk_run(warm->talk, &handler,
                           rsbx_deadline_or(deadline, &order->spec->cancel_fd), err);
        rc = settle(&result, &job, rc, order, err);
    }
    if (rc == 0)
        rc = give_output(&result, &job, budget, err);
    rsbx_buf_dispose(&job.out);
    rsbx_buf_dispose(&job.err);
    if (rc != 0) {
        rsbx_run_result_dispose(&result);
        return rc;
    }
    result.ok = result.status == REPOSBX_EXITED && result.exit_code == 0;
    (void)snprintf(result.engine, sizeof result.engine, "%s", warm->engine->ops->name);
    (void)snprintf(result.language, sizeof result.language, "%s", order->language->name);
    (void)snprintf(result.image_id, sizeof result.image_id, "%s", warm->image.base_id);
    *out = result;
    return REPOSBX_OK;
}
