/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a job goes. WebAssembly has no network and no files to give, so only python that asks for
 * neither fits. The choice is the policy's, never made in silence: what was chosen stands in the
 * result, and what is demanded and not there is an error.
 */
#include <string.h>

#include "run/internal.h"

#include "base/banned.h"

bool rsbx_run_fits_wasm(const struct rsbx_run_order *order, const reposbx_policy *policy)
{
    return strcmp(order->language->name, "python") == 0 && order->spec->input_count == 0 &&
           order->spec->env_count == 0 && policy->network == RSBX_NETWORK_NONE;
}

bool rsbx_run_waits_as_wasm(const char *address, const struct rsbx_run_language *language,
                            const reposbx_policy *policy)
{
    return strcmp(address, "wasm") == 0 ||
           (strcmp(address, "auto") == 0 && policy->wasm == RSBX_WASM_REQUIRE &&
            policy->network == RSBX_NETWORK_NONE && strcmp(language->name, "python") == 0);
}

int rsbx_run_refuse_container(const struct rsbx_run_language *language, const reposbx_policy *policy,
                              reposbx_error *err)
{
    if (policy->wasm != RSBX_WASM_REQUIRE || strcmp(language->name, "python") != 0)
        return REPOSBX_OK;
    (void)rsbx_fail(err, REPOSBX_EPOLICY, "run.wasm: the policy demands WebAssembly for python, which has no "
                                          "network, inputs or environment to give");
    rsbx_hint(err, "leave --engine and $REPOSBX_ENGINE out, or use a policy whose run.wasm is \"prefer\"");
    return REPOSBX_EPOLICY;
}

int rsbx_run_not_ready(const reposbx_error *why, reposbx_error *err)
{
    (void)rsbx_fail(err, REPOSBX_EUNAVAILABLE, "WebAssembly is demanded and not ready: %s",
                    why->message);
    if (why->hint[0] != '\0')
        rsbx_hint(err, "%s", why->hint);
    return REPOSBX_EUNAVAILABLE;
}

int rsbx_run_route(enum rsbx_run_route *out, const char *address,
                   const struct rsbx_run_order *order, const reposbx_policy *policy,
                   int wasm_code, const reposbx_error *wasm_why, reposbx_error *err)
{
    bool asked = strcmp(address, "wasm") == 0;
    bool fits = rsbx_run_fits_wasm(order, policy);

    *out = RSBX_ROUTE_CONTAINER;
    if (!asked && strcmp(address, "auto") != 0)
        return rsbx_run_refuse_container(order->language, policy, err);
    if (asked && (!fits || policy->wasm == RSBX_WASM_NEVER)) {
        (void)rsbx_fail(err, REPOSBX_EPOLICY, "engine: WebAssembly runs only python without network, "
                                              "inputs and environment, where the policy lets it");
        rsbx_hint(err, "leave --engine out, or name podman or docker");
        return REPOSBX_EPOLICY;
    }
    if (!fits || policy->wasm == RSBX_WASM_NEVER)
        return rsbx_run_refuse_container(order->language, policy, err);
    if (wasm_code == REPOSBX_OK) {
        *out = RSBX_ROUTE_WASM;
        return REPOSBX_OK;
    }
    if (!asked && policy->wasm == RSBX_WASM_PREFER)
        return REPOSBX_OK;
    return rsbx_run_not_ready(wasm_why, err);
}
