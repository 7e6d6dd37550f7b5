/* SPDX-License-Identifier: Apache-2.0 */
#include "provider/objects.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/banned.h"

bool rsbx_labels_ours(const json_t *labels, const char *session_id)
{
    const char *owner = json_string_value(json_object_get(labels, RSBX_LABEL_SESSION));

    return owner != NULL && (session_id == NULL || strcmp(owner, session_id) == 0);
}

bool rsbx_labels_lost(const json_t *labels)
{
    return json_object_get(labels, RSBX_LABEL_LOST) != NULL;
}

int rsbx_store_gone(const char *name, reposbx_error *err)
{
    return rsbx_fail(err, REPOSBX_EPOISONED, "volume %s was removed, by something else than the session", name);
}

int rsbx_not_ours(const char *what, const char *name, reposbx_error *err)
{
    return rsbx_fail(err, REPOSBX_EPOLICY, "%s %s exists and does not belong to this session", what,
                     name);
}

int rsbx_layer_folder(char **out, const json_t *volume, const char *name, reposbx_error *err)
{
    const char *folder;
    char *copy;
    int rc = rsbx_json_get_text(&folder, volume, "Mountpoint", "volume", err);

    if (rc != 0)
        return rc;
    /* These would end an option of the mount. */
    if (folder[0] != '/' || strpbrk(folder, ",:\\") != NULL)
        return rsbx_fail(err, REPOSBX_EUNAVAILABLE, "the folder of volume %s cannot be a layer", name);
    copy = strdup(folder);
    if (copy == NULL)
        return rsbx_fail_memory(err);
    *out = copy;
    return REPOSBX_OK;
}

/* Copies an array of strings of the document; missing or null is an empty list. */
static int copy_strings(char ***out, size_t *count, const json_t *array, reposbx_error *err)
{
    size_t length = json_is_array(array) ? json_array_size(array) : 0;
    char **list;
    size_t filled = 0;

    if (!rsbx_json_is_or_absent(array, JSON_ARRAY))
        return rsbx_fail(err, REPOSBX_EPROTOCOL, "image: what must be a list is none");
    list = calloc(length + 1, sizeof *list);
    if (list == NULL)
        return rsbx_fail_memory(err);
    *out = list;
    *count = 0;
    for (; filled < length; filled++) {
        const char *text = json_string_value(json_array_get(array, filled));

        if (text == NULL)
            return rsbx_fail(err, REPOSBX_EPROTOCOL, "image: a list holds something that is no text");
        list[filled] = strdup(text);
        if (list[filled] == NULL)
            return rsbx_fail_memory(err);
        *count = filled + 1;
    }
    return REPOSBX_OK;
}

int rsbx_image_read(struct rsbx_image_facts *facts, const json_t *document, reposbx_error *err)
{
    const json_t *config = json_object_get(document, "Config");
    const json_t *volumes = json_object_get(config, "Volumes");
    const char *id;
    const char *os;
    const char *architecture;
    const char *variant;
    int rc = rsbx_json_get_text(&id, document, "Id", "image", err);

    if (rc == 0)
        rc = rsbx_json_get_text_or(&os, document, "Os", "", "image", err);
    if (rc == 0)
        rc = rsbx_json_get_text_or(&architecture, document, "Architecture", "", "image", err);
    if (rc == 0)
        rc = rsbx_json_get_text_or(&variant, document, "Variant", "", "image", err);
    if (rc == 0)
        rc = copy_strings(&facts->repo_digests, &facts->repo_digest_count,
                          json_object_get(document, "RepoDigests"), err);
    if (rc == 0)
        rc = copy_strings(&facts->env, &facts->env_count, json_object_get(config, "Env"), err);
    if (rc != 0)
        return rc;
    /* What is not understood could hide a volume or a secret. */
    if (!rsbx_json_is_or_absent(config, JSON_OBJECT) ||
        !rsbx_json_is_or_absent(volumes, JSON_OBJECT))
        return rsbx_fail(err, REPOSBX_EPROTOCOL, "image: \"Config\" or its volumes are no object");
    facts->volume_count = json_object_size(volumes);
    (void)snprintf(facts->id, sizeof facts->id, "%s", id);
    (void)snprintf(facts->os, sizeof facts->os, "%s", os);
    (void)snprintf(facts->architecture, sizeof facts->architecture, "%s", architecture);
    (void)snprintf(facts->variant, sizeof facts->variant, "%s", variant);
    return REPOSBX_OK;
}
