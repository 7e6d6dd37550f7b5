/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include <reposbx/wasm.h>

#include "base/error.h"
#include "codec/json.h"
#include "wasm/wasm.h"

#include "base/banned.h"

#define STRUCT_VERSION 1U

static int missing(const char *what, reposbx_error *err)
{
    return rsbx_fail(err, REPOSBX_EINVALID, "%s: missing", what);
}

int reposbx_wasm_install(char digest[REPOSBX_WASM_DIGEST_BYTES], const reposbx_provider *provider,
                         const char *path, const reposbx_wasm_install_options *options,
                         reposbx_error *err)
{
    struct rsbx_wasm_install_options own = RSBX_WASM_INSTALL_OPTIONS_INIT;

    if (digest == NULL || provider == NULL || path == NULL)
        return missing("digest, provider or path", err);
    if (options != NULL && options->version != STRUCT_VERSION)
        return rsbx_fail(err, REPOSBX_EINVALID, "install options: version %u; this library knows %u",
                         options->version, STRUCT_VERSION);
    if (options != NULL) {
        own.member = options->member;
        own.optimisation = options->optimisation;
        own.jobs = options->jobs;
        own.make_default = options->make_default != 0;
        own.progress = options->progress;
        own.payload = options->payload;
    }
    return rsbx_wasm_install(digest, reposbx_provider_state_dir(provider), path, &own, err);
}

static json_t *item_value(const struct rsbx_wasm_item *item, const char *preferred)
{
    bool ready = item->error.code == 0;

    return json_pack("{s:s, s:o, s:b, s:b, s:I, s:I, s:o, s:o}", "digest", item->digest, "name",
                     ready ? rsbx_json_bytes(item->name, strlen(item->name)) : json_null(), "default",
                     strcmp(item->digest, preferred) == 0, "ready", ready, "module_bytes",
                     (json_int_t)item->module_bytes, "native_bytes", (json_int_t)item->native_bytes,
                     "installed_at", ready ? json_string(item->installed_at) : json_null(), "problem",
                     ready ? json_null()
                           : rsbx_json_bytes(item->error.message, strlen(item->error.message)));
}

int reposbx_wasm_list_json(char **out, const reposbx_provider *provider, reposbx_error *err)
{
    RSBX_AUTO(rsbx_json) rsbx_json_ptr array = json_array();
    struct rsbx_wasm_list list;
    int rc;

    if (out == NULL || provider == NULL)
        return missing("out or provider", err);
    if (array == NULL)
        return rsbx_fail_memory(err);
    rc = rsbx_wasm_list(&list, reposbx_provider_state_dir(provider), err);
    if (rc != 0)
        return rc;
    for (size_t i = 0; i < list.count && rc == 0; i++) {
        if (json_array_append_new(array, item_value(&list.items[i], list.preferred)) != 0)
            rc = rsbx_fail_memory(err);
    }
    rsbx_wasm_list_dispose(&list);
    return rc != 0 ? rc : rsbx_json_text(out, array, err);
}

int reposbx_wasm_remove(const reposbx_provider *provider, const char *digest, reposbx_error *err)
{
    if (provider == NULL || digest == NULL)
        return missing("provider or digest", err);
    return rsbx_wasm_remove(reposbx_provider_state_dir(provider), digest, err);
}
