/* SPDX-License-Identifier: Apache-2.0 */
/* The metadata document of a session as a struct. The document is the one truth; this reads it. */
#include <stdlib.h>
#include <string.h>

#include <reposbx/session.h>

#include "base/error.h"
#include "codec/json.h"

#include "base/banned.h"

static void capabilities_dispose(reposbx_capabilities *capabilities)
{
    free(capabilities->provider);
    free(capabilities->isolation);
}

void reposbx_metadata_dispose(reposbx_metadata *metadata)
{
    if (metadata == NULL)
        return;
    free(metadata->sandbox_id);
    free(metadata->task_id);
    free(metadata->provider);
    free(metadata->isolation);
    free(metadata->image);
    free(metadata->image_id);
    free(metadata->platform);
    free(metadata->source_revision);
    free(metadata->source_tree);
    free(metadata->source_fingerprint);
    free(metadata->workspace);
    free(metadata->workspace_reason);
    free(metadata->created_at);
    free(metadata->state);
    free(metadata->state_reason);
    capabilities_dispose(&metadata->capabilities);
    reposbx_policy_free(metadata->policy);
    memset(metadata, 0, sizeof *metadata);
}

static void metadata_autop(reposbx_metadata *metadata)
{
    reposbx_metadata_dispose(metadata);
}

/* A text of the document and where it goes. */
struct text_field {
    const char *key;
    char **place;
    bool optional; /* missing or null: the place stays NULL */
};

static int take_texts(const struct text_field *fields, size_t count, const json_t *document,
                      reposbx_error *err)
{
    for (size_t i = 0; i < count; i++) {
        const char *text = NULL;
        int rc = fields[i].optional
                     ? rsbx_json_get_text_or(&text, document, fields[i].key, NULL, "metadata", err)
                     : rsbx_json_get_text(&text, document, fields[i].key, "metadata", err);

        if (rc != 0)
            return rc;
        if (text == NULL)
            continue;
        *fields[i].place = strdup(text);
        if (*fields[i].place == NULL)
            return rsbx_fail_memory(err);
    }
    return REPOSBX_OK;
}

static int take_flag(int *out, const json_t *object, const char *key, reposbx_error *err)
{
    bool value = false;
    int rc = rsbx_json_get_bool(&value, object, key, "metadata", err);

    if (rc == 0)
        *out = value;
    return rc;
}

static int take_capabilities(reposbx_capabilities *out, const json_t *document, reposbx_error *err)
{
    json_t *object = NULL;
    const struct text_field texts[] = {
        { "provider", &out->provider, false },
        { "isolation", &out->isolation, false },
    };
    const struct {
        const char *key;
        int *place;
    } flags[] = {
        { "non_root_user", &out->non_root_user },
        { "network_isolation", &out->network_isolation },
        { "read_only_rootfs", &out->read_only_rootfs },
        { "resource_limits", &out->resource_limits },
        { "process_tree_cleanup", &out->process_tree_cleanup },
        { "disk_quota", &out->disk_quota },
        { "rootless_runtime", &out->rootless_runtime },
    };
    int rc = rsbx_json_get_node(&object, document, "capabilities", JSON_OBJECT, "metadata", err);

    if (rc == 0)
        rc = take_texts(texts, sizeof texts / sizeof texts[0], object, err);
    for (size_t i = 0; rc == 0 && i < sizeof flags / sizeof flags[0]; i++)
        rc = take_flag(flags[i].place, object, flags[i].key, err);
    return rc;
}

static int take_network(int *out, const json_t *document, reposbx_error *err)
{
    const char *word = NULL;
    int rc = rsbx_json_get_text(&word, document, "network", "metadata", err);

    if (rc != 0)
        return rc;
    if (strcmp(word, "none") == 0)
        *out = REPOSBX_NETWORK_NONE;
    else if (strcmp(word, "bridge") == 0)
        *out = REPOSBX_NETWORK_BRIDGE;
    else
        return rsbx_fail(err, REPOSBX_EPROTOCOL, "metadata: network \"%s\" is not known", word);
    return REPOSBX_OK;
}

static int take_policy(reposbx_policy **out, const json_t *document, reposbx_error *err)
{
    RSBX_AUTO(rsbx_text) char *text = NULL;
    json_t *policy = NULL;
    int rc = rsbx_json_get_node(&policy, document, "policy", JSON_OBJECT, "metadata", err);

    if (rc == 0)
        rc = rsbx_json_text(&text, policy, err);
    if (rc == 0)
        rc = reposbx_policy_parse(out, text, strlen(text), err);
    return rc;
}

static int take_all(reposbx_metadata *out, const json_t *document, reposbx_error *err)
{
    const struct text_field texts[] = {
        { "sandbox_id", &out->sandbox_id, false },
        { "task_id", &out->task_id, true },
        { "provider", &out->provider, false },
        { "isolation", &out->isolation, false },
        { "image", &out->image, false },
        { "image_id", &out->image_id, false },
        { "platform", &out->platform, false },
        { "source_revision", &out->source_revision, true },
        { "source_tree", &out->source_tree, true },
        { "source_fingerprint", &out->source_fingerprint, true },
        { "workspace", &out->workspace, false },
        { "workspace_reason", &out->workspace_reason, true },
        { "created_at", &out->created_at, false },
        { "state", &out->state, false },
        { "state_reason", &out->state_reason, true },
    };
    int rc = take_texts(texts, sizeof texts / sizeof texts[0], document, err);

    if (rc == 0)
        rc = rsbx_json_get_u64(&out->source_file_count, document, "source_file_count", "metadata",
                               err);
    if (rc == 0)
        rc = rsbx_json_get_u64(&out->source_bytes, document, "source_bytes", "metadata", err);
    if (rc == 0)
        rc = take_network(&out->network, document, err);
    if (rc == 0)
        rc = take_flag(&out->rootless_runtime, document, "rootless_runtime", err);
    if (rc == 0)
        rc = take_capabilities(&out->capabilities, document, err);
    if (rc == 0)
        rc = take_policy(&out->policy, document, err);
    return rc;
}

int reposbx_session_metadata(reposbx_metadata *out, reposbx_provider *provider, const char *id,
                             reposbx_error *err)
{
    RSBX_AUTO(rsbx_text) char *text = NULL;
    RSBX_AUTO(rsbx_json) rsbx_json_ptr document = NULL;
    RSBX_AUTO(metadata) reposbx_metadata metadata = { .network = REPOSBX_NETWORK_NONE };
    reposbx_error own = REPOSBX_ERROR_INIT;
    int rc;

    if (err == NULL)
        err = &own;
    if (out == NULL)
        return rsbx_fail(err, REPOSBX_EINVALID, "out: missing");
    rc = reposbx_session_metadata_json(&text, provider, id, err);
    if (rc != 0)
        return rc;
    rc = rsbx_json_parse(&document, text, strlen(text), "metadata", err);
    if (rc == 0)
        rc = take_all(&metadata, document, err);
    if (rc == REPOSBX_EPROTOCOL || rc == REPOSBX_EMALFORMED)
        rc = err->code = REPOSBX_EIO; /* our own document, and damaged */
    if (rc != 0)
        return rc;
    *out = metadata;
    memset(&metadata, 0, sizeof metadata); /* handed on */
    return REPOSBX_OK;
}
