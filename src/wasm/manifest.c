/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "codec/json.h"
#include "codec/sha256.h"
#include "wasm/internal.h"

#include "base/banned.h"

/*
 * The manifest of an installed module:
 *
 *     {"manifest":{"format":1,"module":{…},"native":{…},"host":…,…},"sum":"…"}
 *
 * `sum` is the sha256 of the canonical text of `manifest`, so that a changed byte is seen by itself.
 */
#define FORMAT 1U
#define WHAT "the module's manifest"

static json_t *file_object(const char *digest, uint64_t bytes)
{
    return json_pack("{s:s,s:I}", "sha256", digest, "bytes", (json_int_t)bytes);
}

int rsbx_wasm_manifest_text(char **out, const struct rsbx_wasm_module *module, reposbx_error *err)
{
    RSBX_AUTO(rsbx_json) json_t *whole = NULL;
    RSBX_AUTO(rsbx_text) char *canonical = NULL;
    RSBX_AUTO(rsbx_json) json_t *manifest = json_pack(
        "{s:I,s:o,s:o,s:s,s:o,s:s,s:s,s:s,s:s}", "format", (json_int_t)FORMAT, "module",
        file_object(module->digest, module->module_bytes), "native",
        file_object(module->native_digest, module->native_bytes), "host", module->host_digest, "name",
        rsbx_json_bytes(module->name, strlen(module->name)), "translator", module->translator,
        "compiler", module->compiler, "optimisation", module->optimisation, "installed_at",
        module->installed_at);
    char sum[RSBX_SHA256_HEX_BYTES];
    int rc;

    if (manifest == NULL)
        return rsbx_fail_memory(err);
    rc = rsbx_json_canonical(&canonical, manifest, err);
    if (rc != 0)
        return rc;
    rsbx_sha256_hex(sum, canonical, strlen(canonical));
    whole = json_pack("{s:O,s:s}", "manifest", manifest, "sum", sum);
    return whole == NULL ? rsbx_fail_memory(err) : rsbx_json_text(out, whole, err);
}

static int check_sum(const json_t *whole, const json_t *manifest, reposbx_error *err)
{
    RSBX_AUTO(rsbx_text) char *canonical = NULL;
    char sum[RSBX_SHA256_HEX_BYTES];
    const char *claimed;
    int rc = rsbx_json_get_text(&claimed, whole, "sum", WHAT, err);

    if (rc == 0)
        rc = rsbx_json_canonical(&canonical, manifest, err);
    if (rc != 0)
        return rc;
    rsbx_sha256_hex(sum, canonical, strlen(canonical));
    return strcmp(sum, claimed) == 0
               ? REPOSBX_OK
               : rsbx_fail(err, REPOSBX_EPROTOCOL, "%s does not have its own sum", WHAT);
}

static int get_digest(char out[RSBX_WASM_DIGEST_BYTES], const json_t *object, const char *key,
                      reposbx_error *err)
{
    const char *text;
    int rc = rsbx_json_get_text(&text, object, key, WHAT, err);

    if (rc != 0)
        return rc;
    if (strlen(text) != RSBX_WASM_DIGEST_BYTES - 1)
        return rsbx_fail(err, REPOSBX_EPROTOCOL, "%s: %s is no digest", WHAT, key);
    memcpy(out, text, RSBX_WASM_DIGEST_BYTES);
    return REPOSBX_OK;
}

static int get_file(char digest[RSBX_WASM_DIGEST_BYTES], uint64_t *bytes, const json_t *manifest,
                    const char *key, reposbx_error *err)
{
    json_t *object;
    int rc = rsbx_json_get_node(&object, manifest, key, JSON_OBJECT, WHAT, err);

    if (rc == 0)
        rc = get_digest(digest, object, "sha256", err);
    return rc != 0 ? rc : rsbx_json_get_u64(bytes, object, "bytes", WHAT, err);
}

static int get_copy(char **out, const json_t *manifest, const char *key, reposbx_error *err)
{
    const char *text;
    int rc = rsbx_json_get_text(&text, manifest, key, WHAT, err);

    if (rc != 0)
        return rc;
    *out = strdup(text);
    return *out != NULL ? REPOSBX_OK : rsbx_fail_memory(err);
}

int rsbx_wasm_manifest_parse(struct rsbx_wasm_module *out, const void *bytes, size_t length,
                             reposbx_error *err)
{
    RSBX_AUTO(rsbx_json) json_t *whole = NULL;
    json_t *manifest;
    uint64_t format = 0;
    int rc = rsbx_json_parse(&whole, bytes, length, WHAT, err);

    if (rc == 0)
        rc = rsbx_json_get_node(&manifest, whole, "manifest", JSON_OBJECT, WHAT, err);
    if (rc == 0)
        rc = check_sum(whole, manifest, err);
    if (rc == 0)
        rc = rsbx_json_get_u64(&format, manifest, "format", WHAT, err);
    if (rc == 0 && format != FORMAT)
        rc = rsbx_fail(err, REPOSBX_EPROTOCOL, "%s has format %llu", WHAT, (unsigned long long)format);
    if (rc == 0)
        rc = get_file(out->digest, &out->module_bytes, manifest, "module", err);
    if (rc == 0)
        rc = get_file(out->native_digest, &out->native_bytes, manifest, "native", err);
    if (rc == 0)
        rc = get_digest(out->host_digest, manifest, "host", err);
    if (rc == 0)
        rc = get_copy(&out->name, manifest, "name", err);
    if (rc == 0)
        rc = get_copy(&out->translator, manifest, "translator", err);
    if (rc == 0)
        rc = get_copy(&out->compiler, manifest, "compiler", err);
    if (rc == 0)
        rc = get_copy(&out->optimisation, manifest, "optimisation", err);
    return rc != 0 ? rc : get_copy(&out->installed_at, manifest, "installed_at", err);
}
