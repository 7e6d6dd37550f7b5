/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every execution is two records of STATE/run/audit: "run_started", durable before the code gets to
 * the guest, and "run_finished" before its result is handed out. What was refused or failed is one
 * "run_failed". Of the environment and the inputs names alone, of the code its hash.
 */
#include <string.h>

#include "base/limits.h"
#include "codec/sha256.h"
#include "run/internal.h"

#include "base/banned.h"

static json_t *env_names(const reposbx_exec_spec *spec)
{
    json_t *array = json_array();

    for (size_t i = 0; array != NULL && i < spec->env_count; i++) {
        if (json_array_append_new(array,
                                  rsbx_json_bytes(spec->env[i], strcspn(spec->env[i], "="))) != 0) {
            json_decref(array);
            array = NULL;
        }
    }
    return array;
}

static json_t *input_names(const reposbx_exec_spec *spec)
{
    json_t *array = json_array();

    for (size_t i = 0; array != NULL && i < spec->input_count; i++) {
        json_t *input = json_pack("{s:s, s:I}", "name", spec->inputs[i].name, "bytes",
                                  (json_int_t)spec->inputs[i].length);

        if (json_array_append_new(array, input) != 0) {
            json_decref(array);
            array = NULL;
        }
    }
    return array;
}

static int append(struct rsbx_runner *runner, const char *event, json_t *value, reposbx_error *err)
{
    RSBX_AUTO(rsbx_json) rsbx_json_ptr data = value;

    if (data == NULL)
        return rsbx_fail_memory(err);
    return rsbx_audit_roll(runner->place.run_fd, RSBX_MAX_RUN_AUDIT_BYTES, event, data, err);
}

static json_t *observed(const struct rsbx_hello *hello)
{
    if (hello == NULL)
        return json_null();
    return json_pack("{s:I, s:I, s:f}", "memory_bytes", (json_int_t)hello->memory_bytes, "pids",
                     (json_int_t)hello->pids, "cpus",
                     (double)hello->cpu_quota_us / (double)hello->cpu_period_us);
}

int rsbx_run_record_started(struct rsbx_runner *runner, const struct rsbx_run_order *order,
                            const char *engine, const char *run_id, const struct rsbx_hello *hello,
                            reposbx_error *err)
{
    const reposbx_exec_spec *spec = order->spec;
    char code[65];

    rsbx_sha256_hex(code, spec->code != NULL ? spec->code : "", spec->code_length);
    return append(runner, "run_started",
                  json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:{s:I, s:f, s:I, s:I}, s:f, s:{s:I, s:s}, "
                            "s:o, s:o, s:o, s:s*}",
                            "run_id", run_id, "language", order->language->name, "engine", engine,
                            "image", order->image, "policy", runner->policy_digest, "network",
                            runner->policy->network == RSBX_NETWORK_BRIDGE ? "bridge" : "none",
                            "limits", "memory_bytes", (json_int_t)order->limits.memory_bytes, "cpus",
                            order->limits.cpus, "pids", (json_int_t)order->limits.pids,
                            "output_bytes", (json_int_t)order->limits.output_bytes,
                            "timeout_seconds", order->limits.command_timeout_seconds, "code",
                            "bytes", (json_int_t)spec->code_length, "sha256", code, "env",
                            env_names(spec), "inputs", input_names(spec), "observed",
                            observed(hello), "wasm_passed_over",
                            order->passed_over[0] != '\0' ? order->passed_over : NULL),
                  err);
}

int rsbx_run_record_finished(struct rsbx_runner *runner, const char *run_id,
                             const reposbx_run_result *result, reposbx_error *err)
{
    return append(runner, "run_finished",
                  json_pack("{s:s, s:s, s:i, s:i, s:b, s:b, s:b, s:b, s:b, s:f, s:I, s:I}", "run_id",
                            run_id, "status", reposbx_exec_status_word(result->status), "exit_code",
                            result->exit_code, "signal", result->signal, "timed_out",
                            result->timed_out, "output_limited", result->output_limited, "oom_killed",
                            result->oom_killed, "truncated", result->truncated, "warm", result->warm,
                            "duration_s", result->duration_s, "stdout_bytes",
                            (json_int_t)result->stdout_length, "stderr_bytes",
                            (json_int_t)result->stderr_length),
                  err);
}

void rsbx_run_record_failed(struct rsbx_runner *runner, const char *run_id,
                            const reposbx_exec_spec *spec, int code, const reposbx_error *why)
{
    const char *language = spec->language != NULL ? spec->language : "python";

    (void)append(runner, "run_failed",
                 json_pack("{s:s?, s:o, s:s, s:s}", "run_id", run_id, "language",
                           rsbx_json_bytes(language, strnlen(language, 64)), "code",
                           reposbx_code_word(code), "message", why->message),
                 NULL);
}
