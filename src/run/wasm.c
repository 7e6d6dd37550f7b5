/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A job as a WebAssembly module: the store's default module is the language's interpreter, the code is its
 * stdin. There is no container, so no hello: what the module can reach is what the host hands it.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "run/internal.h"
#include "wasm/wasm.h"

#include "base/banned.h"

int rsbx_run_wasm_open(struct rsbx_wasm_module **out, const struct rsbx_runner *runner,
                       reposbx_error *err)
{
    RSBX_AUTO(rsbx_text) char *state = strdup(runner->place.dir);
    char *tail;

    if (state == NULL)
        return rsbx_fail_memory(err);
    tail = strrchr(state, '/'); /* STATE/run */
    if (tail != NULL)
        *tail = '\0';
    return rsbx_wasm_find(out, state, NULL, err);
}

static void read_end(reposbx_run_result *result, const struct rsbx_wasm_outcome *outcome)
{
    result->duration_s = (double)outcome->duration_ms / 1e3;
    result->truncated = outcome->output_limited;
    result->timed_out = outcome->timed_out || outcome->cpu_exhausted;
    if (result->timed_out) {
        result->status = REPOSBX_TIMED_OUT;
    } else if (outcome->signal != 0) {
        result->status = REPOSBX_SIGNALED;
        result->signal = outcome->signal;
    } else {
        result->status = REPOSBX_EXITED;
        result->exit_code = outcome->exit_code;
    }
    result->ok = result->status == REPOSBX_EXITED && result->exit_code == 0;
}

/* Takes the bytes over; an empty stream is an empty text. */
static char *take_bytes(struct rsbx_buf *buf, size_t *length)
{
    *length = buf->length;
    return buf->data != NULL ? rsbx_buf_steal(buf) : strdup("");
}

static int perform(reposbx_run_result *out, const struct rsbx_wasm_module *module,
                   const struct rsbx_run_order *order, reposbx_error *err)
{
    RSBX_AUTO(rsbx_buf) struct rsbx_buf program = RSBX_BUF_INIT(RSBX_RUN_MAX_PROGRAM_BYTES);
    const double seconds = order->limits.command_timeout_seconds;
    const struct rsbx_wasm_program start = { .memory_bytes = order->limits.memory_bytes,
                                             .cpu_seconds = (uint64_t)ceil(seconds) + 1 };
    struct rsbx_wasm_job job = RSBX_WASM_JOB_INIT;
    struct rsbx_wasm_outcome outcome = RSBX_WASM_OUTCOME_INIT;
    reposbx_run_result result = { .exit_code = -1 };
    int rc = rsbx_run_compose(&program, order->spec, err);

    if (rc != 0)
        return rc;
    job.input = program.data;
    job.input_length = program.length;
    job.timeout_ms = (uint64_t)ceil(seconds * 1000.0);
    job.output_bytes = order->limits.output_bytes;
    job.cancel_fd = order->spec->cancel_fd;
    rc = rsbx_wasm_run(&outcome, module, &start, &job, err);
    if (rc != 0)
        return rc;
    read_end(&result, &outcome);
    result.stdout_bytes = take_bytes(&outcome.out, &result.stdout_length);
    result.stderr_bytes = take_bytes(&outcome.err, &result.stderr_length);
    rsbx_wasm_outcome_dispose(&outcome);
    if (result.stdout_bytes == NULL || result.stderr_bytes == NULL) {
        rsbx_run_result_dispose(&result);
        return rsbx_fail_memory(err);
    }
    (void)snprintf(result.engine, sizeof result.engine, "wasm");
    (void)snprintf(result.language, sizeof result.language, "%s", order->language->name);
    *out = result;
    return REPOSBX_OK;
}

int rsbx_run_wasm(reposbx_run_result *out, struct rsbx_runner *runner,
                  const struct rsbx_wasm_module *module, const struct rsbx_run_order *order,
                  char run_id[RSBX_RUN_NAME_BYTES], reposbx_error *err)
{
    struct rsbx_run_order named = *order;
    reposbx_run_result result;
    int rc = rsbx_run_new_name(run_id, err);

    named.image = module->digest;
    if (rc == 0)
        rc = rsbx_run_record_started(runner, &named, "wasm", run_id, NULL, err);
    if (rc == 0)
        rc = perform(&result, module, order, err);
    if (rc != 0)
        return rc;
    rc = rsbx_run_record_finished(runner, run_id, &result, err);
    if (rc != 0) {
        rsbx_run_result_dispose(&result);
        return rc;
    }
    if (order->spec->result != NULL)
        order->spec->result(order->spec->result_payload, &result);
    *out = result;
    return REPOSBX_OK;
}
