/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A runner: which engine, and the way of one job.
 *
 *     spec checked ─► engine settled ─► host and image checked ─► container named on disk
 *        ─► made, hello compared ─► "run_started" durable ─► request, frames, trailer
 *        ─► "run_finished" durable ─► result known ─► container gone, seen to be gone
 *
 * The choice of "auto" is made once for a runner and fails safe: an engine that does not answer is
 * passed over, and the result names the one that ran the code.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "run/internal.h"
#include "wasm/wasm.h"

#include "base/banned.h"

void rsbx_run_result_dispose(reposbx_run_result *result)
{
    free(result->stdout_bytes);
    free(result->stderr_bytes);
    memset(result, 0, sizeof *result);
}

void rsbx_runner_free(struct rsbx_runner *runner)
{
    if (runner == NULL)
        return;
    rsbx_live_close(runner->live);
    rsbx_run_engine_free(runner->engine);
    rsbx_run_place_close(&runner->place);
    reposbx_policy_free(runner->policy);
    free(runner->address);
    (void)pthread_mutex_destroy(&runner->mutex);
    free(runner);
}

static int copy_policy(struct rsbx_runner *runner, const reposbx_policy *policy, reposbx_error *err)
{
    RSBX_AUTO(rsbx_text) char *text = NULL;
    int rc;

    if (policy == NULL) {
        rc = reposbx_policy_load(&runner->policy, "code-run", err);
    } else {
        rc = reposbx_policy_json(&text, policy, 0, err);
        if (rc == 0)
            rc = reposbx_policy_parse(&runner->policy, text, strlen(text), err);
    }
    return rc == 0 ? rsbx_policy_digest(runner->policy_digest, runner->policy, err) : rc;
}

int rsbx_runner_open(struct rsbx_runner **out, const char *state_dir, const char *engine,
                     const reposbx_policy *policy, reposbx_error *err)
{
    RSBX_AUTO(rsbx_runner) rsbx_runner_ptr runner = calloc(1, sizeof *runner);
    const char *own = getenv("REPOSBX_ENGINE");
    int rc;

    if (runner == NULL)
        return rsbx_fail_memory(err);
    runner->place.run_fd = -1;
    (void)pthread_mutex_init(&runner->mutex, NULL);
    if (engine == NULL)
        engine = own != NULL && own[0] != '\0' ? own : "auto";
    runner->address = strdup(engine);
    if (runner->address == NULL)
        return rsbx_fail_memory(err);
    rc = rsbx_run_place_open(&runner->place, state_dir, err);
    if (rc == 0)
        rc = copy_policy(runner, policy, err);
    if (rc == 0)
        *out = rsbx_runner_steal(&runner);
    return rc;
}

/* ---- which engine ---- */

static int open_engine(struct rsbx_runner *runner, const char *address, reposbx_error *err)
{
    int rc = rsbx_run_engine_open(&runner->engine, address, runner->policy->runtime, err);

    if (rc == 0)
        rc = rsbx_live_open(&runner->live, &runner->place, runner->engine->address,
                            runner->engine->runtime, err);
    if (rc != 0) {
        rsbx_run_engine_free(runner->engine);
        runner->engine = NULL;
    }
    return rc;
}

/* Whether an engine really answers; what it answers is judged later, in words. */
static bool answers(const char *address, const char *runtime, const int *cancel_fd)
{
    RSBX_AUTO(rsbx_run_engine) rsbx_run_engine_ptr engine = NULL;
    struct rsbx_host_facts facts;

    return rsbx_run_engine_open(&engine, address, runtime, NULL) == 0 &&
           engine->ops->host(&facts, engine, rsbx_run_until(cancel_fd), NULL) == 0;
}

static int choose_engine(struct rsbx_runner *runner, const int *cancel_fd, reposbx_error *err)
{
    static const char *const order[] = { "podman", "docker" };

    for (size_t i = 0; i < sizeof order / sizeof order[0]; i++) {
        if (answers(order[i], runner->policy->runtime, cancel_fd))
            return open_engine(runner, order[i], err);
        if (rsbx_check_cancelled(cancel_fd, err) != 0)
            return REPOSBX_ECANCELLED;
    }
    (void)rsbx_fail(err, REPOSBX_EUNAVAILABLE, "neither podman nor docker answers");
    rsbx_hint(err, "install podman, or name an engine with --engine");
    return REPOSBX_EUNAVAILABLE;
}

int rsbx_runner_engine(struct rsbx_run_engine **engine, struct rsbx_live **live,
                       struct rsbx_runner *runner, const int *cancel_fd, reposbx_error *err)
{
    int rc = REPOSBX_OK;

    (void)pthread_mutex_lock(&runner->mutex);
    if (runner->engine == NULL)
        rc = strcmp(runner->address, "auto") == 0 ? choose_engine(runner, cancel_fd, err)
                                                  : open_engine(runner, runner->address, err);
    if (rc == 0 && !runner->swept) {
        /* What cannot be removed now stays on its list, and stops nobody. */
        (void)rsbx_live_sweep(&runner->place, false, NULL, NULL, NULL);
        runner->swept = true;
    }
    if (rc == 0) {
        *engine = runner->engine;
        *live = runner->live;
    }
    (void)pthread_mutex_unlock(&runner->mutex);
    return rc;
}

const char *rsbx_runner_kind(struct rsbx_runner *runner, const char *language)
{
    const struct rsbx_run_language *known;
    const char *name = "none";

    if (rsbx_run_language(&known, language, NULL) == 0 &&
        rsbx_run_waits_as_wasm(runner->address, known, runner->policy))
        return "wasm";
    (void)pthread_mutex_lock(&runner->mutex);
    if (runner->engine != NULL)
        name = runner->engine->ops->name;
    (void)pthread_mutex_unlock(&runner->mutex);
    return name;
}

/* The module that is demanded for a language. */
static int open_module(struct rsbx_wasm_module **module, const struct rsbx_runner *runner,
                       const struct rsbx_run_language *language, reposbx_error *err)
{
    reposbx_error why = REPOSBX_ERROR_INIT;

    if (strcmp(language->name, "python") != 0 || runner->policy->wasm == RSBX_WASM_NEVER ||
        runner->policy->network != RSBX_NETWORK_NONE)
        return rsbx_fail(err, REPOSBX_EPOLICY, "engine: no WebAssembly for %s under this policy",
                         language->name);
    return rsbx_run_wasm_open(module, runner, &why) == 0 ? REPOSBX_OK : rsbx_run_not_ready(&why, err);
}

static int wasm_available(const struct rsbx_runner *runner, const struct rsbx_run_language *language,
                          reposbx_error *err)
{
    struct rsbx_wasm_module *module = NULL;
    int rc = open_module(&module, runner, language, err);

    rsbx_wasm_module_free(module);
    return rc;
}

int rsbx_runner_available(struct rsbx_runner *runner, const char *language, reposbx_error *err)
{
    const struct rsbx_run_language *known;
    struct rsbx_run_engine *engine;
    struct rsbx_run_image image;
    struct rsbx_live *live;
    const char *reference;
    int rc = rsbx_run_language(&known, language, err);

    if (rc == 0 && strcmp(runner->address, "wasm") == 0)
        return wasm_available(runner, known, err);
    if (rc != 0)
        return rc;
    reference = rsbx_run_image(known, runner->policy);
    rc = rsbx_check_image_reference(runner->policy, reference, err);
    if (rc == 0)
        rc = rsbx_runner_engine(&engine, &live, runner, NULL, err);
    if (rc == 0)
        rc = rsbx_run_prepare(&image, &runner->place, engine, live, runner->policy, reference, false,
                              NULL, err);
    return rc;
}

/* ---- one job ---- */

int rsbx_runner_job(reposbx_run_result *out, bool *healthy, struct rsbx_runner *runner,
                    struct rsbx_warm *warm, const struct rsbx_run_order *order, bool was_warm,
                    reposbx_error *err)
{
    RSBX_AUTO(rsbx_buf) struct rsbx_buf program = RSBX_BUF_INIT(RSBX_RUN_MAX_PROGRAM_BYTES);
    const bool wasm = warm->process != NULL;
    const uint64_t most_bytes = runner->policy->limits.audit_log_bytes;
    struct rsbx_run_order named = *order;
    reposbx_run_result result;
    int rc = rsbx_run_compose(&program, order->spec, err);

    *healthy = false;
    if (wasm)
        named.image = warm->module;
    if (rc == 0)
        rc = rsbx_run_record_started(runner, &named, rsbx_warm_engine(warm), warm->name,
                                     wasm ? NULL : &warm->hello, err);
    if (rc == 0)
        rc = wasm ? rsbx_run_wasm_job(&result, warm, order, &program, most_bytes, err)
                  : rsbx_job_run(&result, warm, order, &program, most_bytes, err);
    if (rc != 0)
        return rc;
    result.warm = was_warm;
    rc = rsbx_run_record_finished(runner, warm->name, &result, err);
    if (rc != 0) {
        rsbx_run_result_dispose(&result);
        return rc;
    }
    *healthy = result.status == REPOSBX_EXITED;
    if (order->spec->result != NULL)
        order->spec->result(order->spec->result_payload, &result);
    *out = result;
    return REPOSBX_OK;
}

/* The container goes whatever became of the job; the job's own error is the one that is told. */
static int conclude(reposbx_run_result *out, const reposbx_run_result *result, int rc,
                    struct rsbx_warm *warm, reposbx_error *err)
{
    reposbx_error removal = REPOSBX_ERROR_INIT;
    int removed = rsbx_warm_remove(warm, &removal);

    if (rc == 0 && removed != 0) {
        reposbx_run_result lost = *result;

        rsbx_run_result_dispose(&lost);
        if (err != NULL)
            *err = removal;
        return removed;
    }
    if (rc == 0)
        *out = *result;
    return rc;
}

/* What is no module's business is not looked for: a look hashes the whole program. */
static bool wasm_matters(const struct rsbx_runner *runner, const struct rsbx_run_order *order)
{
    return (strcmp(runner->address, "wasm") == 0 || strcmp(runner->address, "auto") == 0) &&
           runner->policy->wasm != RSBX_WASM_NEVER && strcmp(order->language->name, "python") == 0;
}

int rsbx_runner_route(struct rsbx_wasm_module **module, struct rsbx_runner *runner,
                      struct rsbx_run_order *order, reposbx_error *err)
{
    reposbx_error why = REPOSBX_ERROR_INIT;
    struct rsbx_wasm_module *found = NULL;
    enum rsbx_run_route where;
    int code = wasm_matters(runner, order) ? rsbx_run_wasm_open(&found, runner, &why)
                                           : rsbx_fail(&why, REPOSBX_ENOTFOUND, "not looked for");
    int rc = rsbx_run_route(&where, runner->address, order, runner->policy, code, &why, err);

    if (rc == 0 && where == RSBX_ROUTE_CONTAINER)
        rc = rsbx_run_check_image(order, runner->policy, err);
    if (rc != 0 || where == RSBX_ROUTE_CONTAINER) {
        rsbx_wasm_module_free(found);
        found = NULL;
        /* Not being installed is usual; being damaged is told in the record. */
        if (code != REPOSBX_OK && code != REPOSBX_ENOTFOUND)
            (void)snprintf(order->passed_over, sizeof order->passed_over, "%.120s", why.message);
    }
    if (rc == 0)
        *module = found;
    return rc;
}

static int run_once(reposbx_run_result *out, struct rsbx_runner *runner,
                    const reposbx_exec_spec *spec, char run_id[RSBX_RUN_NAME_BYTES],
                    reposbx_error *err)
{
    struct rsbx_run_order order;
    struct rsbx_run_engine *engine;
    struct rsbx_live *live;
    struct rsbx_warm warm;
    struct rsbx_wasm_module *module = NULL;
    reposbx_run_result result = { 0 };
    bool healthy;
    int rc = rsbx_run_check(&order, spec, runner->policy, err);

    if (rc == 0)
        rc = rsbx_runner_route(&module, runner, &order, err);
    if (rc == 0 && module != NULL) {
        rc = rsbx_run_wasm_start(&warm, module, order.language, &order.limits, false, err);
        rsbx_wasm_module_free(module);
    } else if (rc == 0) {
        rc = rsbx_runner_engine(&engine, &live, runner, &spec->cancel_fd, err);
        if (rc == 0)
            rc = rsbx_warm_make(&warm, runner, engine, live, order.language, &order.limits, "run",
                                &spec->cancel_fd, err);
    }
    if (rc != 0)
        return rc;
    (void)snprintf(run_id, RSBX_RUN_NAME_BYTES, "%s", warm.name);
    rc = rsbx_runner_job(&result, &healthy, runner, &warm, &order, false, err);
    return conclude(out, &result, rc, &warm, err);
}

int rsbx_runner_run_once(reposbx_run_result *out, struct rsbx_runner *runner,
                         const reposbx_exec_spec *spec, reposbx_error *err)
{
    char run_id[RSBX_RUN_NAME_BYTES] = "";
    reposbx_error own = REPOSBX_ERROR_INIT;
    int rc;

    if (err == NULL)
        err = &own;
    rc = run_once(out, runner, spec, run_id, err);
    if (rc != 0)
        rsbx_run_record_failed(runner, run_id[0] != '\0' ? run_id : NULL, spec, rc, err);
    return rc;
}

/* ---- what waits ---- */

static int start_container(struct rsbx_warm *out, struct rsbx_runner *runner,
                           const struct rsbx_run_language *language, const reposbx_limits *limits,
                           const int *cancel_fd, reposbx_error *err)
{
    struct rsbx_run_engine *engine;
    struct rsbx_live *live;
    int rc = rsbx_run_refuse_container(language, runner->policy, err);

    if (rc == 0)
        rc = rsbx_check_image_reference(runner->policy, rsbx_run_image(language, runner->policy), err);
    if (rc == 0)
        rc = rsbx_runner_engine(&engine, &live, runner, cancel_fd, err);
    return rc == 0 ? rsbx_warm_make(out, runner, engine, live, language, limits, "warm", cancel_fd,
                                    err)
                   : rc;
}

/* Looked at afresh for each: what waits is what would be started now. */
static int start_process(struct rsbx_warm *out, const struct rsbx_runner *runner,
                         const struct rsbx_run_language *language, const reposbx_limits *limits,
                         reposbx_error *err)
{
    struct rsbx_wasm_module *module = NULL;
    int rc = open_module(&module, runner, language, err);

    if (rc == 0)
        rc = rsbx_run_wasm_start(out, module, language, limits, true, err);
    rsbx_wasm_module_free(module);
    return rc;
}

int rsbx_runner_start(struct rsbx_warm **out, struct rsbx_runner *runner, const char *language,
                      const int *cancel_fd, reposbx_error *err)
{
    const struct rsbx_run_language *known;
    reposbx_limits limits;
    struct rsbx_warm *warm;
    int rc = rsbx_run_language(&known, language, err);

    if (rc != 0)
        return rc;
    rsbx_run_usual_limits(&limits, runner->policy);
    warm = calloc(1, sizeof *warm);
    if (warm == NULL)
        return rsbx_fail_memory(err);
    rc = rsbx_run_waits_as_wasm(runner->address, known, runner->policy)
             ? start_process(warm, runner, known, &limits, err)
             : start_container(warm, runner, known, &limits, cancel_fd, err);
    if (rc != 0) {
        free(warm);
        return rc;
    }
    *out = warm;
    return REPOSBX_OK;
}

int rsbx_runner_exec_in(reposbx_run_result *out, struct rsbx_runner *runner, struct rsbx_warm *warm,
                        const reposbx_exec_spec *spec, reposbx_error *err)
{
    struct rsbx_run_order order;
    bool healthy;
    int rc = rsbx_run_check(&order, spec, runner->policy, err);

    if (rc == 0 && warm->process == NULL)
        rc = rsbx_run_check_image(&order, runner->policy, err);
    if (rc != 0)
        return rc;
    if (order.language != warm->language || !order.usual ||
        (warm->process != NULL && !rsbx_run_fits_wasm(&order, runner->policy)))
        return rsbx_fail(err, REPOSBX_EINVALID,
                         "the spec does not fit what waits: its language, its limits or what it asks "
                         "for differ");
    return rsbx_runner_job(out, &healthy, runner, warm, &order, true, err);
}

int rsbx_runner_destroy(struct rsbx_warm *warm, reposbx_error *err)
{
    int rc = rsbx_warm_remove(warm, err);

    free(warm);
    return rc;
}
