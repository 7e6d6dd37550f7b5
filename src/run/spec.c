/* SPDX-License-Identifier: Apache-2.0 */
/* What may be asked for. Everything here is pure: nothing was started when it refuses. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/limits.h"
#include "run/internal.h"

#include "base/banned.h"

#define MAX_INPUT_COUNT 1000U

static const char *const python_argv[] = { "python3", "-", NULL };
static const char *const bash_argv[] = { "bash", "-s", NULL };
static const char *const node_argv[] = { "node", "-", NULL };

static const struct rsbx_run_language languages[] = {
    { "python", "python:3.12-slim", python_argv, true },
    { "bash", "bash:5", bash_argv, false },
    { "node", "node:22-slim", node_argv, false },
};

int rsbx_run_language(const struct rsbx_run_language **out, const char *name, reposbx_error *err)
{
    if (name == NULL)
        name = "python";
    for (size_t i = 0; i < sizeof languages / sizeof languages[0]; i++) {
        if (strcmp(languages[i].name, name) == 0) {
            *out = &languages[i];
            return REPOSBX_OK;
        }
    }
    (void)rsbx_fail(err, REPOSBX_EPOLICY, "language: \"%.60s\" is not known", name);
    rsbx_hint(err, "known are python, bash and node");
    return REPOSBX_EPOLICY;
}

const char *rsbx_run_image(const struct rsbx_run_language *language, const reposbx_policy *policy)
{
    const char *own = language->argv == python_argv ? policy->python_image
                      : language->argv == bash_argv ? policy->bash_image
                                                    : policy->node_image;

    return own != NULL ? own : language->image;
}

/* A component that means the same to every program that will see it. */
static bool good_name(const char *name)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    size_t length = strnlen(name, 256);

    return length > 0 && length <= RSBX_MAX_NAME_BYTES && name[0] != '.' && name[0] != '-' &&
           strspn(name, letters) == length;
}

int rsbx_run_check_inputs(const reposbx_exec_spec *spec, const struct rsbx_run_language *language,
                          reposbx_error *err)
{
    size_t total = 0;

    if (spec->input_count > 0 && !language->inputs)
        return rsbx_fail(err, REPOSBX_EPOLICY, "inputs: only python gets any, %s does not",
                         language->name);
    if (spec->input_count > MAX_INPUT_COUNT)
        return rsbx_fail(err, REPOSBX_EPOLICY, "inputs: more than %u", MAX_INPUT_COUNT);
    for (size_t i = 0; i < spec->input_count; i++) {
        const reposbx_run_input *input = &spec->inputs[i];

        if (input->name == NULL || (input->bytes == NULL && input->length > 0))
            return rsbx_fail(err, REPOSBX_EINVALID, "inputs: element %zu is not whole", i);
        if (!good_name(input->name)) {
            (void)rsbx_fail(err, REPOSBX_EPOLICY, "inputs: \"%.60s\" is no name of a single file",
                            input->name);
            rsbx_hint(err, "letters, digits, '.', '_' and '-', the first one a letter, digit or '_'");
            return REPOSBX_EPOLICY;
        }
        for (size_t j = 0; j < i; j++) {
            if (strcmp(spec->inputs[j].name, input->name) == 0)
                return rsbx_fail(err, REPOSBX_EPOLICY, "inputs: \"%s\" is there twice", input->name);
        }
        if (input->length > REPOSBX_RUN_MAX_INPUT_BYTES - total)
            return rsbx_fail(err, REPOSBX_EPOLICY, "inputs: more than %u bytes together",
                             REPOSBX_RUN_MAX_INPUT_BYTES);
        total += input->length;
    }
    return REPOSBX_OK;
}

static uint64_t least_count(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

void rsbx_run_usual_limits(reposbx_limits *out, const reposbx_policy *policy)
{
    reposbx_limits limits = policy->limits;

    limits.cpus = fmin(limits.cpus, REPOSBX_RUN_CPUS);
    limits.memory_bytes = least_count(limits.memory_bytes, REPOSBX_RUN_MEMORY_BYTES);
    limits.pids = least_count(limits.pids, REPOSBX_RUN_PIDS);
    limits.command_timeout_seconds =
        fmin(limits.command_timeout_seconds, REPOSBX_RUN_TIMEOUT_SECONDS);
    limits.output_bytes = least_count(limits.output_bytes, REPOSBX_RUN_OUTPUT_BYTES);
    *out = limits;
}

/* What the spec names goes through the policy's bounds; what it does not name has the default. */
static int check_limits(struct rsbx_run_order *order, const reposbx_exec_spec *spec,
                        const reposbx_policy *policy, reposbx_error *err)
{
    const struct rsbx_limit_request asked = { .cpus = spec->cpus,
                                              .timeout_seconds = spec->timeout_seconds,
                                              .memory_bytes = spec->memory_bytes,
                                              .pids = spec->pids };
    reposbx_limits usual;
    reposbx_limits limits;
    int rc;

    if (spec->timeout_seconds > REPOSBX_RUN_MAX_TIMEOUT_SECONDS)
        return rsbx_fail(err, REPOSBX_EPOLICY, "timeout_seconds: %.15g is above %.15g",
                         spec->timeout_seconds, REPOSBX_RUN_MAX_TIMEOUT_SECONDS);
    rc = rsbx_lower_limits(&limits, policy, &asked, err);
    if (rc != 0)
        return rc;
    rsbx_run_usual_limits(&usual, policy);
    order->limits = usual;
    if (spec->cpus > 0)
        order->limits.cpus = limits.cpus;
    if (spec->memory_bytes > 0)
        order->limits.memory_bytes = limits.memory_bytes;
    if (spec->pids > 0)
        order->limits.pids = limits.pids;
    if (spec->timeout_seconds > 0)
        order->limits.command_timeout_seconds = limits.command_timeout_seconds;
    /* The timeout is the guest's to keep and may differ from job to job. */
    order->usual = !(order->limits.cpus < usual.cpus || order->limits.cpus > usual.cpus) &&
                   order->limits.memory_bytes == usual.memory_bytes &&
                   order->limits.pids == usual.pids;
    return REPOSBX_OK;
}

int rsbx_run_check(struct rsbx_run_order *out, const reposbx_exec_spec *spec,
                   const reposbx_policy *policy, reposbx_error *err)
{
    struct rsbx_run_order order = { .spec = spec };
    int rc;

    if (spec->code == NULL && spec->code_length > 0)
        return rsbx_fail(err, REPOSBX_EINVALID, "code: a length without bytes");
    rc = rsbx_run_language(&order.language, spec->language, err);
    if (rc == 0 && spec->code_length > policy->limits.stdin_bytes)
        rc = rsbx_fail(err, REPOSBX_EPOLICY, "code: more than %" PRIu64 " bytes",
                       policy->limits.stdin_bytes);
    if (rc == 0)
        rc = rsbx_run_check_inputs(spec, order.language, err);
    if (rc == 0)
        rc = rsbx_check_env(spec->env, spec->env_count, err);
    if (rc == 0)
        rc = check_limits(&order, spec, policy, err);
    if (rc != 0)
        return rc;
    order.image = rsbx_run_image(order.language, policy);
    *out = order;
    return REPOSBX_OK;
}

int rsbx_run_check_image(const struct rsbx_run_order *order, const reposbx_policy *policy,
                         reposbx_error *err)
{
    return rsbx_check_image_reference(policy, order->image, err);
}
