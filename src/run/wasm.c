/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A job as a WebAssembly module: the store's default module is the language's interpreter, the code is its
 * stdin. There is no container, so no hello: what the module can reach is what the host hands it.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/limits.h"
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

int rsbx_run_wasm_start(struct rsbx_warm *out, const struct rsbx_wasm_module *module,
                        const struct rsbx_run_language *language, const reposbx_limits *limits,
                        bool waits, reposbx_error *err)
{
    /* Whole seconds of processor time, one more than the wall clock lets through. What waits has the most
     * that there is: it has one thread, so the wall clock of its job ends it before. */
    const uint64_t fuel = waits ? 0 : (uint64_t)ceil(limits->command_timeout_seconds) + 1;
    const struct rsbx_wasm_program program = { .memory_bytes = limits->memory_bytes,
                                               .cpu_seconds = fuel };
    struct rsbx_warm warm = { .language = language, .limits = *limits };
    int rc = rsbx_run_new_name(warm.name, err);

    (void)snprintf(warm.module, sizeof warm.module, "%s", module->digest);
    if (rc == 0)
        rc = rsbx_wasm_start(&warm.process, module, &program, err);
    if (rc == 0 && waits)
        rc = rsbx_wasm_process_settle(warm.process, rsbx_deadline_in_ms(RSBX_HELLO_MS), err);
    if (rc != 0) {
        rsbx_wasm_process_free(warm.process);
        return rc;
    }
    *out = warm;
    return REPOSBX_OK;
}

static void read_end(reposbx_run_result *result, const struct rsbx_wasm_outcome *outcome)
{
    result->duration_s = (double)outcome->duration_ms / 1e3;
    result->output_limited = outcome->flooded;
    result->truncated = outcome->output_limited || outcome->flooded;
    result->timed_out = !outcome->flooded && (outcome->timed_out || outcome->cpu_exhausted);
    if (result->timed_out) {
        result->status = REPOSBX_TIMED_OUT;
    } else if (result->output_limited) {
        result->status = REPOSBX_OUTPUT_LIMITED;
    } else if (outcome->signal != 0) {
        result->status = REPOSBX_SIGNALED;
        result->signal = outcome->signal;
    } else {
        result->status = REPOSBX_EXITED;
        result->exit_code = outcome->exit_code;
    }
    result->ok = result->status == REPOSBX_EXITED && result->exit_code == 0;
}

int rsbx_run_wasm_job(reposbx_run_result *out, struct rsbx_warm *warm,
                      const struct rsbx_run_order *order, const struct rsbx_buf *program,
                      uint64_t audit_log_bytes, reposbx_error *err)
{
    struct rsbx_wasm_job job = RSBX_WASM_JOB_INIT;
    struct rsbx_wasm_outcome outcome = RSBX_WASM_OUTCOME_INIT;
    reposbx_run_result result = { .exit_code = -1 };
    int rc;

    job.input = program->data;
    job.input_length = program->length;
    job.timeout_ms = (uint64_t)ceil(order->limits.command_timeout_seconds * 1000.0);
    job.output_bytes = order->limits.output_bytes;
    job.most_bytes = audit_log_bytes;
    job.cancel_fd = order->spec->cancel_fd;
    rc = rsbx_wasm_finish(&outcome, warm->process, &job, err);
    if (rc != 0)
        return rc;
    read_end(&result, &outcome);
    result.stdout_length = outcome.out.length;
    result.stderr_length = outcome.err.length;
    result.stdout_bytes = rsbx_buf_steal(&outcome.out);
    result.stderr_bytes = rsbx_buf_steal(&outcome.err);
    rsbx_wasm_outcome_dispose(&outcome);
    if (result.stdout_bytes == NULL || result.stderr_bytes == NULL) {
        rsbx_run_result_dispose(&result);
        return rsbx_fail_memory(err);
    }
    (void)snprintf(result.engine, sizeof result.engine, "%s", rsbx_warm_engine(warm));
    (void)snprintf(result.language, sizeof result.language, "%s", order->language->name);
    *out = result;
    return REPOSBX_OK;
}
