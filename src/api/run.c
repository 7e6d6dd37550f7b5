/* SPDX-License-Identifier: Apache-2.0 */
/* The public functions of one-shot code: arguments and struct versions are checked here, the run room
 * does the work. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include <reposbx/run.h>

#include "base/error.h"
#include "base/text.h"
#include "codec/json.h"
#include "run/run.h"

#include "base/banned.h"

#define STRUCT_VERSION 1U
#define DEFAULT_CONCURRENCY 64U

struct reposbx_runner {
    struct rsbx_runner *own;
};
struct reposbx_warm {
    struct rsbx_warm *own;
};
struct reposbx_warm_pool {
    struct rsbx_pool *own;
};
struct reposbx_broker {
    struct rsbx_runner *runner;
    unsigned int max_concurrency;
    atomic_uint running;
};

static int missing(const char *what, reposbx_error *err)
{
    return rsbx_fail(err, REPOSBX_EINVALID, "%s: missing", what);
}

static int check_version(unsigned int version, const char *what, reposbx_error *err)
{
    if (version == STRUCT_VERSION)
        return REPOSBX_OK;
    return rsbx_fail(err, REPOSBX_EINVALID, "%s: version %u; this library knows %u", what, version,
                     STRUCT_VERSION);
}

static int check_spec(const reposbx_exec_spec *spec, reposbx_error *err)
{
    if (spec == NULL)
        return missing("spec", err);
    if (spec->env_count > 0 && spec->env == NULL)
        return missing("env", err);
    if (spec->input_count > 0 && spec->inputs == NULL)
        return missing("inputs", err);
    return check_version(spec->version, "spec", err);
}

void reposbx_run_result_dispose(reposbx_run_result *result)
{
    if (result != NULL)
        rsbx_run_result_dispose(result);
}

int reposbx_run_result_json(char **out, const reposbx_run_result *result, reposbx_error *err)
{
    RSBX_AUTO(rsbx_json) rsbx_json_ptr document = NULL;
    size_t room = REPOSBX_RUN_OUTPUT_BYTES, out_length, err_length;

    if (out == NULL || result == NULL)
        return missing(out == NULL ? "out" : "result", err);
    /* Bytes that are no text take more room in one. */
    out_length = rsbx_utf8_fit(&room, result->stdout_bytes, result->stdout_length);
    err_length = rsbx_utf8_fit(&room, result->stderr_bytes, result->stderr_length);
    document = json_pack(
        "{s:o, s:o, s:o, s:o, s:s, s:b, s:b, s:b, s:b, s:b, s:f, s:s, s:s, s:b, s:s}", "stdout",
        rsbx_json_bytes(result->stdout_bytes, out_length), "stderr",
        rsbx_json_bytes(result->stderr_bytes, err_length), "exit_code",
        result->status == REPOSBX_EXITED ? json_integer(result->exit_code) : json_null(), "signal",
        result->signal != 0 ? json_integer(result->signal) : json_null(), "status",
        reposbx_exec_status_word(result->status), "timed_out", result->timed_out, "output_limited",
        result->output_limited, "oom_killed", result->oom_killed, "truncated",
        result->truncated || out_length < result->stdout_length || err_length < result->stderr_length,
        "ok", result->ok, "duration_s", result->duration_s, "engine", result->engine, "language",
        result->language, "warm", result->warm, "image_id", result->image_id);
    return document != NULL ? rsbx_json_measured(out, document, err) : rsbx_fail_memory(err);
}

/* ---- pure functions ---- */

int reposbx_build_run_argv(char ***out, const reposbx_exec_spec *spec, const reposbx_policy *policy,
                           const char *name, const char *image, reposbx_error *err)
{
    int rc = check_spec(spec, err);

    if (rc == 0 && (out == NULL || policy == NULL || name == NULL))
        rc = missing(out == NULL ? "out" : policy == NULL ? "policy" : "name", err);
    return rc == 0 ? rsbx_run_spec_argv(out, spec, policy, name, image, err) : rc;
}

int reposbx_build_warm_argv(char ***out, const reposbx_policy *policy, const char *name,
                            const char *image, const reposbx_limits *limits, reposbx_error *err)
{
    if (out == NULL || policy == NULL || name == NULL || image == NULL)
        return missing(out == NULL ? "out" : policy == NULL ? "policy" : name == NULL ? "name" : "image",
                       err);
    return rsbx_run_warm_argv(out, policy, name, image, limits, err);
}

void reposbx_argv_free(char **argv)
{
    rsbx_run_argv_free(argv);
}

int reposbx_compose_program(char **out, size_t *length, const reposbx_exec_spec *spec,
                            reposbx_error *err)
{
    int rc = check_spec(spec, err);

    if (rc == 0 && (out == NULL || length == NULL))
        rc = missing(out == NULL ? "out" : "length", err);
    return rc == 0 ? rsbx_run_program(out, length, spec, err) : rc;
}

/* ---- runners ---- */

int reposbx_runner_open(reposbx_runner **out, reposbx_provider *provider,
                        const reposbx_runner_options *options, reposbx_error *err)
{
    const reposbx_runner_options none = REPOSBX_RUNNER_OPTIONS_INIT;
    reposbx_runner *runner;
    int rc;

    if (out == NULL || provider == NULL)
        return missing(out == NULL ? "out" : "provider", err);
    if (options == NULL)
        options = &none;
    rc = check_version(options->version, "runner options", err);
    if (rc != 0)
        return rc;
    runner = calloc(1, sizeof *runner);
    if (runner == NULL)
        return rsbx_fail_memory(err);
    rc = rsbx_runner_open(&runner->own, reposbx_provider_state_dir(provider), options->engine,
                          options->policy, err);
    if (rc != 0) {
        free(runner);
        return rc;
    }
    *out = runner;
    return REPOSBX_OK;
}

void reposbx_runner_free(reposbx_runner *runner)
{
    if (runner == NULL)
        return;
    rsbx_runner_free(runner->own);
    free(runner);
}

int reposbx_runner_available(reposbx_runner *runner, const char *language, reposbx_error *err)
{
    return runner != NULL ? rsbx_runner_available(runner->own, language, err) : missing("runner", err);
}

int reposbx_runner_run_once(reposbx_run_result *out, reposbx_runner *runner,
                            const reposbx_exec_spec *spec, reposbx_error *err)
{
    int rc = check_spec(spec, err);

    if (rc == 0 && (out == NULL || runner == NULL))
        rc = missing(out == NULL ? "out" : "runner", err);
    return rc == 0 ? rsbx_runner_run_once(out, runner->own, spec, err) : rc;
}

int reposbx_runner_start(reposbx_warm **out, reposbx_runner *runner, const char *language,
                         reposbx_error *err)
{
    reposbx_warm *warm;
    int rc;

    if (out == NULL || runner == NULL)
        return missing(out == NULL ? "out" : "runner", err);
    warm = calloc(1, sizeof *warm);
    if (warm == NULL)
        return rsbx_fail_memory(err);
    rc = rsbx_runner_start(&warm->own, runner->own, language, NULL, err);
    if (rc != 0) {
        free(warm);
        return rc;
    }
    *out = warm;
    return REPOSBX_OK;
}

int reposbx_runner_exec_in(reposbx_run_result *out, reposbx_runner *runner, reposbx_warm *warm,
                           const reposbx_exec_spec *spec, reposbx_error *err)
{
    int rc = check_spec(spec, err);

    if (rc == 0 && (out == NULL || runner == NULL || warm == NULL))
        rc = missing(out == NULL ? "out" : runner == NULL ? "runner" : "warm", err);
    return rc == 0 ? rsbx_runner_exec_in(out, runner->own, warm->own, spec, err) : rc;
}

int reposbx_runner_destroy(reposbx_runner *runner, reposbx_warm *warm, reposbx_error *err)
{
    int rc;

    if (runner == NULL || warm == NULL)
        return missing(runner == NULL ? "runner" : "warm", err);
    rc = rsbx_runner_destroy(warm->own, err);
    free(warm);
    return rc;
}

/* ---- pools ---- */

int reposbx_warm_pool_open(reposbx_warm_pool **out, reposbx_runner *runner, const char *language,
                           unsigned int size, reposbx_error *err)
{
    reposbx_warm_pool *pool;
    int rc;

    if (out == NULL || runner == NULL)
        return missing(out == NULL ? "out" : "runner", err);
    pool = calloc(1, sizeof *pool);
    if (pool == NULL)
        return rsbx_fail_memory(err);
    rc = rsbx_pool_open(&pool->own, runner->own, language, size, -1, err);
    if (rc != 0) {
        free(pool);
        return rc;
    }
    *out = pool;
    return REPOSBX_OK;
}

int reposbx_warm_pool_prewarm(reposbx_warm_pool *pool, reposbx_error *err)
{
    return pool != NULL ? rsbx_pool_prewarm(pool->own, err) : missing("pool", err);
}

int reposbx_warm_pool_run(reposbx_run_result *out, reposbx_warm_pool *pool,
                          const reposbx_exec_spec *spec, reposbx_error *err)
{
    int rc = check_spec(spec, err);

    if (rc == 0 && (out == NULL || pool == NULL))
        rc = missing(out == NULL ? "out" : "pool", err);
    return rc == 0 ? rsbx_pool_run(out, pool->own, spec, err) : rc;
}

void reposbx_warm_pool_stats(reposbx_pool_stats *out, reposbx_warm_pool *pool)
{
    rsbx_pool_stats(out, pool->own);
}

int reposbx_warm_pool_shutdown(reposbx_warm_pool *pool, reposbx_error *err)
{
    return pool != NULL ? rsbx_pool_shutdown(pool->own, err) : missing("pool", err);
}

void reposbx_warm_pool_free(reposbx_warm_pool *pool)
{
    if (pool == NULL)
        return;
    rsbx_pool_free(pool->own);
    free(pool);
}

int reposbx_pool_serve(reposbx_provider *provider, reposbx_runner *runner,
                       const reposbx_pool_serve_options *options, reposbx_error *err)
{
    const reposbx_pool_serve_options none = REPOSBX_POOL_SERVE_OPTIONS_INIT;
    int rc;

    if (provider == NULL || runner == NULL)
        return missing(provider == NULL ? "provider" : "runner", err);
    if (options == NULL)
        options = &none;
    rc = check_version(options->version, "pool options", err);
    return rc == 0 ? rsbx_pool_serve(runner->own, options, err) : rc;
}

int reposbx_pool_status_json(char **out, reposbx_provider *provider, reposbx_error *err)
{
    if (out == NULL || provider == NULL)
        return missing(out == NULL ? "out" : "provider", err);
    return rsbx_pool_status(out, reposbx_provider_state_dir(provider), err);
}

int reposbx_pool_stop(reposbx_provider *provider, reposbx_error *err)
{
    return provider != NULL ? rsbx_pool_stop(reposbx_provider_state_dir(provider), err)
                            : missing("provider", err);
}

/* ---- the broker ---- */

int reposbx_broker_open(reposbx_broker **out, reposbx_provider *provider,
                        const reposbx_broker_options *options, reposbx_error *err)
{
    const reposbx_broker_options none = REPOSBX_BROKER_OPTIONS_INIT;
    reposbx_broker *broker;
    int rc;

    if (out == NULL || provider == NULL)
        return missing(out == NULL ? "out" : "provider", err);
    if (options == NULL)
        options = &none;
    rc = check_version(options->version, "broker options", err);
    if (rc != 0)
        return rc;
    broker = calloc(1, sizeof *broker);
    if (broker == NULL)
        return rsbx_fail_memory(err);
    broker->max_concurrency =
        options->max_concurrency > 0 ? options->max_concurrency : DEFAULT_CONCURRENCY;
    rc = rsbx_runner_open(&broker->runner, reposbx_provider_state_dir(provider), options->engine,
                          options->policy, err);
    if (rc != 0) {
        free(broker);
        return rc;
    }
    *out = broker;
    return REPOSBX_OK;
}

static int broker_run(reposbx_run_result *out, reposbx_broker *broker,
                      const reposbx_exec_spec *spec, reposbx_error *err)
{
    reposbx_error own = REPOSBX_ERROR_INIT;
    int rc = rsbx_pool_ask(out, broker->runner, spec, &own);

    if (rc == REPOSBX_ENOTFOUND)
        return rsbx_runner_run_once(out, broker->runner, spec, err);
    if (rc != 0 && err != NULL)
        *err = own;
    if (rc == 0 && spec->result != NULL)
        spec->result(spec->result_payload, out);
    return rc;
}

int reposbx_broker_run(reposbx_run_result *out, reposbx_broker *broker,
                       const reposbx_exec_spec *spec, reposbx_error *err)
{
    int rc = check_spec(spec, err);

    if (rc == 0 && (out == NULL || broker == NULL))
        rc = missing(out == NULL ? "out" : "broker", err);
    if (rc != 0)
        return rc;
    if (atomic_fetch_add(&broker->running, 1) < broker->max_concurrency)
        rc = broker_run(out, broker, spec, err);
    else
        rc = rsbx_fail(err, REPOSBX_EBUSY, "%u jobs of this broker run already",
                       broker->max_concurrency);
    (void)atomic_fetch_sub(&broker->running, 1);
    return rc;
}

void reposbx_broker_free(reposbx_broker *broker)
{
    if (broker == NULL)
        return;
    rsbx_runner_free(broker->runner);
    free(broker);
}
