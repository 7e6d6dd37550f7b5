/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/engine.h"

#include <string.h>

#include "engine/http.h"

#include "base/banned.h"

int rsbx_engine_volume_inspect(json_t **out, struct rsbx_engine *engine, const char *name,
                               struct rsbx_deadline deadline, reposbx_error *err)
{
    RSBX_AUTO(rsbx_buf) struct rsbx_buf path = RSBX_BUF_INIT(RSBX_HTTP_MAX_PATH_BYTES);
    struct rsbx_http_call call = { .method = "GET", .expected = 200, .deadline = deadline };
    int rc = rsbx_http_path(&path, "/volumes/", name, false, "", err);

    if (rc != 0)
        return rc;
    call.path = path.data;
    return rsbx_http_json(out, engine, &call, err);
}

/* The body of a create; NULL without memory. */
static json_t *create_body(const char *name, const json_t *labels, const json_t *options)
{
    RSBX_AUTO(rsbx_json) rsbx_json_ptr body = json_object();
    json_t *own_labels = json_deep_copy(labels);
    json_t *own_options = options != NULL ? json_deep_copy(options) : json_object();
    bool made = json_object_set_new(body, "Name", json_string(name)) == 0;

    made = json_object_set_new(body, "Driver", json_string("local")) == 0 && made;
    made = json_object_set_new(body, "Labels", own_labels) == 0 && made;
    made = json_object_set_new(body, "DriverOpts", own_options) == 0 && made;
    return made ? rsbx_json_steal(&body) : NULL;
}

int rsbx_engine_volume_create(struct rsbx_engine *engine, const char *name, const json_t *labels,
                              const json_t *options, struct rsbx_deadline deadline,
                              reposbx_error *err)
{
    RSBX_AUTO(rsbx_json) rsbx_json_ptr body = create_body(name, labels, options);
    RSBX_AUTO(rsbx_json) rsbx_json_ptr reply = NULL;
    RSBX_AUTO(rsbx_text) char *text = NULL;
    struct rsbx_http_call call = { .method = "POST",
                                   .path = "/volumes/create",
                                   .body_type = "application/json",
                                   .expected = 201,
                                   .deadline = deadline };
    const char *given;
    int rc;

    if (*name == '\0') /* the engine would make up a name */
        return rsbx_fail(err, REPOSBX_EINVALID, "a volume needs a name");
    if (body == NULL)
        return rsbx_fail_memory(err);
    rc = rsbx_json_text(&text, body, err);
    if (rc != 0)
        return rc;
    call.body = text;
    call.body_length = strlen(text);
    rc = rsbx_http_json(&reply, engine, &call, err);
    if (rc == 0)
        rc = rsbx_json_get_text(&given, reply, "Name", "created volume", err);
    if (rc == 0 && strcmp(given, name) != 0)
        rc = rsbx_fail(err, REPOSBX_EPROTOCOL, "the engine made a volume \"%s\" for \"%s\"", given,
                       name);
    return rc;
}

int rsbx_engine_volume_remove(struct rsbx_engine *engine, const char *name,
                              struct rsbx_deadline deadline, reposbx_error *err)
{
    RSBX_AUTO(rsbx_buf) struct rsbx_buf path = RSBX_BUF_INIT(RSBX_HTTP_MAX_PATH_BYTES);
    struct rsbx_http_call call = { .method = "DELETE", .expected = 204, .deadline = deadline };
    int rc = rsbx_http_path(&path, "/volumes/", name, false, "", err);

    if (rc != 0)
        return rc;
    call.path = path.data;
    return rsbx_http_exchange(NULL, engine, &call, err);
}
