/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/engine.h"

#include <string.h>

#include "base/limits.h"
#include "engine/http.h"

#include "base/banned.h"

int rsbx_engine_container_inspect(json_t **out, struct rsbx_engine *engine, const char *name,
                                  struct rsbx_deadline deadline, reposbx_error *err)
{
    RSBX_AUTO(rsbx_buf) struct rsbx_buf path = RSBX_BUF_INIT(RSBX_HTTP_MAX_PATH_BYTES);
    struct rsbx_http_call call = { .method = "GET", .expected = 200, .deadline = deadline };
    int rc = rsbx_http_path(&path, "/containers/", name, false, "/json", err);

    if (rc != 0)
        return rc;
    call.path = path.data;
    return rsbx_http_json(out, engine, &call, err);
}

/* The warnings of a create reply as one text; *out stays NULL when there are none. */
static int join_warnings(char **out, const json_t *reply, reposbx_error *err)
{
    RSBX_AUTO(rsbx_buf) struct rsbx_buf joined = RSBX_BUF_INIT(RSBX_MAX_REPLY_BYTES);
    const json_t *warnings = json_object_get(reply, "Warnings");
    const json_t *warning;
    size_t index;
    int rc = REPOSBX_OK;

    if (warnings == NULL || json_is_null(warnings) || json_array_size(warnings) == 0) {
        if (warnings != NULL && !json_is_null(warnings) && !json_is_array(warnings))
            return rsbx_fail(err, REPOSBX_EPROTOCOL, "created container: warnings are no list");
        *out = NULL;
        return REPOSBX_OK;
    }
    json_array_foreach(warnings, index, warning)
    {
        if (!json_is_string(warning))
            return rsbx_fail(err, REPOSBX_EPROTOCOL, "created container: a warning is no text");
        if (rc == 0)
            rc = rsbx_buf_format(&joined, err, "%s%s", index > 0 ? "; " : "",
                                 json_string_value(warning));
    }
    if (rc != 0)
        return rc;
    *out = rsbx_buf_steal(&joined);
    return *out != NULL ? REPOSBX_OK : rsbx_fail_memory(err);
}

/* POST of a JSON document that is answered with one, at `before` NAME `after`. */
static int post_document(json_t **reply, struct rsbx_engine *engine, const char *before,
                         const char *name, const char *after, const json_t *document,
                         struct rsbx_http_call *call, reposbx_error *err)
{
    RSBX_AUTO(rsbx_buf) struct rsbx_buf path = RSBX_BUF_INIT(RSBX_HTTP_MAX_PATH_BYTES);
    RSBX_AUTO(rsbx_text) char *text = NULL;
    int rc = rsbx_http_path(&path, before, name, false, after, err);

    if (rc == 0)
        rc = rsbx_json_text(&text, document, err);
    if (rc != 0)
        return rc;
    call->method = "POST";
    call->body_type = "application/json";
    call->path = path.data;
    call->body = text;
    call->body_length = strlen(text);
    return rsbx_http_json(reply, engine, call, err);
}

int rsbx_engine_container_update(char **warnings, struct rsbx_engine *engine, const char *name,
                                 const json_t *limits, struct rsbx_deadline deadline,
                                 reposbx_error *err)
{
    RSBX_AUTO(rsbx_json) rsbx_json_ptr reply = NULL;
    struct rsbx_http_call call = { .expected = 200, .deadline = deadline };
    int rc =
        post_document(&reply, engine, "/containers/", name, "/update", limits, &call, err);

    return rc == 0 ? join_warnings(warnings, reply, err) : rc;
}

int rsbx_engine_container_create(char **warnings, struct rsbx_engine *engine, const char *name,
                                 const json_t *spec, struct rsbx_deadline deadline,
                                 reposbx_error *err)
{
    RSBX_AUTO(rsbx_json) rsbx_json_ptr reply = NULL;
    struct rsbx_http_call call = { .expected = 201, .deadline = deadline };
    const char *id;
    int rc = post_document(&reply, engine, "/containers/create?name=", name, "", spec, &call, err);

    if (rc == 0)
        rc = rsbx_json_get_text(&id, reply, "Id", "created container", err);
    if (rc == 0 && *id == '\0')
        rc = rsbx_fail(err, REPOSBX_EPROTOCOL, "created container: the id is empty");
    return rc == 0 ? join_warnings(warnings, reply, err) : rc;
}

/* A call on one container that is answered with 204 and nothing else. */
static int act(struct rsbx_engine *engine, const char *method, const char *name, const char *after,
               long already, struct rsbx_deadline deadline, reposbx_error *err)
{
    RSBX_AUTO(rsbx_buf) struct rsbx_buf path = RSBX_BUF_INIT(RSBX_HTTP_MAX_PATH_BYTES);
    struct rsbx_http_call call = {
        .method = method, .expected = 204, .already = already, .deadline = deadline
    };
    int rc = rsbx_http_path(&path, "/containers/", name, false, after, err);

    if (rc != 0)
        return rc;
    call.path = path.data;
    return rsbx_http_exchange(NULL, engine, &call, err);
}

int rsbx_engine_container_commit(char **id, struct rsbx_engine *engine, const char *name,
                                 struct rsbx_deadline deadline, reposbx_error *err)
{
    RSBX_AUTO(rsbx_json) rsbx_json_ptr nothing = json_object();
    RSBX_AUTO(rsbx_json) rsbx_json_ptr reply = NULL;
    struct rsbx_http_call call = { .expected = 201, .deadline = deadline };
    const char *text;
    int rc = post_document(&reply, engine, "/commit?pause=0&container=", name, "", nothing, &call, err);

    if (rc == 0)
        rc = rsbx_json_get_text(&text, reply, "Id", "committed image", err);
    if (rc != 0)
        return rc;
    *id = strdup(text);
    return *id != NULL ? REPOSBX_OK : rsbx_fail_memory(err);
}

int rsbx_engine_container_start(struct rsbx_engine *engine, const char *name,
                                struct rsbx_deadline deadline, reposbx_error *err)
{
    return act(engine, "POST", name, "/start", 304, deadline, err);
}

int rsbx_engine_container_kill(struct rsbx_engine *engine, const char *name,
                               struct rsbx_deadline deadline, reposbx_error *err)
{
    return act(engine, "POST", name, "/kill?signal=SIGKILL", 0, deadline, err);
}

int rsbx_engine_container_remove(struct rsbx_engine *engine, const char *name,
                                 struct rsbx_deadline deadline, reposbx_error *err)
{
    return act(engine, "DELETE", name, "?force=1&v=0", 0, deadline, err);
}
