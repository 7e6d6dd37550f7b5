/* SPDX-License-Identifier: Apache-2.0 */
#include "fake/endpoints.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/banned.h"

typedef int (*inspect_function)(json_t **out, struct rsbx_engine *engine, const char *name,
                                struct rsbx_deadline deadline, reposbx_error *err);

static int inspect(inspect_function function, const char *name, struct rsbx_engine *engine,
                   struct rsbx_deadline deadline, reposbx_error *err)
{
    json_t *document = json_null();
    int rc = function(&document, engine, name, deadline, err);

    assert_int_equal(rc != 0, json_is_null(document));
    json_decref(document);
    return rc;
}

int call_image_inspect(struct rsbx_engine *engine, struct rsbx_deadline deadline,
                       reposbx_error *err)
{
    return inspect(rsbx_engine_image_inspect, "host:5000/a/b@sha256:12", engine, deadline, err);
}

int call_container_inspect(struct rsbx_engine *engine, struct rsbx_deadline deadline,
                           reposbx_error *err)
{
    return inspect(rsbx_engine_container_inspect, "sbx-1", engine, deadline, err);
}

int call_volume_inspect(struct rsbx_engine *engine, struct rsbx_deadline deadline,
                        reposbx_error *err)
{
    return inspect(rsbx_engine_volume_inspect, "sbx-1", engine, deadline, err);
}

int call_volume_create(struct rsbx_engine *engine, struct rsbx_deadline deadline,
                       reposbx_error *err)
{
    RSBX_AUTO(rsbx_json) rsbx_json_ptr labels = json_pack("{s:s}", "a", "b");
    RSBX_AUTO(rsbx_json) rsbx_json_ptr options = json_pack("{s:s}", "type", "tmpfs");

    return rsbx_engine_volume_create(engine, "sbx-1", labels, options, deadline, err);
}

int call_volume_remove(struct rsbx_engine *engine, struct rsbx_deadline deadline,
                       reposbx_error *err)
{
    return rsbx_engine_volume_remove(engine, "sbx-1", deadline, err);
}

int call_container_create(struct rsbx_engine *engine, struct rsbx_deadline deadline,
                          reposbx_error *err)
{
    RSBX_AUTO(rsbx_json) rsbx_json_ptr spec = json_pack("{s:s}", "Image", "sha256:1");
    char *warnings = UNTOUCHED_WARNINGS;
    int rc = rsbx_engine_container_create(&warnings, engine, "sbx-1", spec, deadline, err);

    if (rc != 0)
        assert_ptr_equal(warnings, UNTOUCHED_WARNINGS);
    else
        free(warnings);
    return rc;
}

int call_container_start(struct rsbx_engine *engine, struct rsbx_deadline deadline,
                         reposbx_error *err)
{
    return rsbx_engine_container_start(engine, "sbx-1", deadline, err);
}

int call_container_kill(struct rsbx_engine *engine, struct rsbx_deadline deadline,
                        reposbx_error *err)
{
    return rsbx_engine_container_kill(engine, "sbx-1", deadline, err);
}

int call_container_remove(struct rsbx_engine *engine, struct rsbx_deadline deadline,
                          reposbx_error *err)
{
    return rsbx_engine_container_remove(engine, "sbx-1", deadline, err);
}

int call_host(struct rsbx_engine *engine, struct rsbx_deadline deadline, reposbx_error *err)
{
    struct rsbx_engine_host facts = { .server_version = "kept" };
    int rc = rsbx_engine_host(&facts, engine, deadline, err);

    if (rc != 0)
        assert_string_equal(facts.server_version, "kept");
    return rc;
}

int call_archive_put(struct rsbx_engine *engine, struct rsbx_deadline deadline, reposbx_error *err)
{
    return rsbx_engine_archive_put(engine, "sbx-1", "/a b", "tar", 3, deadline, err);
}

int call_archive_get(struct rsbx_engine *engine, struct rsbx_deadline deadline, reposbx_error *err)
{
    RSBX_AUTO(rsbx_buf) struct rsbx_buf out = RSBX_BUF_INIT(1U << 20);
    int rc = rsbx_engine_archive_get(&out, engine, "sbx-1", "/a b", deadline, err);

    assert_int_equal(out.length, rc == 0 ? 11 : 0);
    return rc;
}

const struct endpoint endpoints[ENDPOINTS] = {
    { "image inspect", call_image_inspect,
      "GET /v1.41/images/host%3A5000/a/b%40sha256%3A12/json HTTP/1.1\r\n", "200 OK",
      "{\"Id\":\"sha256:1\",\"RepoTags\":null}" },
    { "container inspect", call_container_inspect, "GET /v1.41/containers/sbx-1/json HTTP/1.1\r\n",
      "200 OK", "{\"Id\":\"1\",\"State\":{\"Running\":true}}" },
    { "volume inspect", call_volume_inspect, "GET /v1.41/volumes/sbx-1 HTTP/1.1\r\n", "200 OK",
      "{\"Name\":\"sbx-1\",\"Labels\":{}}" },
    { "volume create", call_volume_create, "POST /v1.41/volumes/create HTTP/1.1\r\n", "201 Created",
      "{\"Name\":\"sbx-1\",\"Labels\":{}}" },
    { "volume remove", call_volume_remove, "DELETE /v1.41/volumes/sbx-1 HTTP/1.1\r\n",
      "204 No Content", NULL },
    { "container create", call_container_create,
      "POST /v1.41/containers/create?name=sbx-1 HTTP/1.1\r\n", "201 Created",
      "{\"Id\":\"abc\",\"Warnings\":[\"one\",\"two\"]}" },
    { "container start", call_container_start, "POST /v1.41/containers/sbx-1/start HTTP/1.1\r\n",
      "204 No Content", NULL },
    { "container kill", call_container_kill,
      "POST /v1.41/containers/sbx-1/kill?signal=SIGKILL HTTP/1.1\r\n", "204 No Content", NULL },
    { "container remove", call_container_remove,
      "DELETE /v1.41/containers/sbx-1?force=1&v=0 HTTP/1.1\r\n", "204 No Content", NULL },
    { "archive get", call_archive_get,
      "GET /v1.41/containers/sbx-1/archive?path=/a%20b HTTP/1.1\r\n", "200 OK", "eleven byte" },
    { "archive put", call_archive_put,
      "PUT /v1.41/containers/sbx-1/archive?path=/a%20b HTTP/1.1\r\n", "200 OK", "" },
};
