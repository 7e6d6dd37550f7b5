/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/engine.h"

#include "engine/http.h"

#include "base/banned.h"

static int archive_path(struct rsbx_buf *out, const char *name, const char *path,
                        reposbx_error *err)
{
    int rc = rsbx_http_path(out, "/containers/", name, false, "/archive", err);

    return rc == 0 ? rsbx_http_path(out, "?path=", path, true, "", err) : rc;
}

int rsbx_engine_archive_put(struct rsbx_engine *engine, const char *name, const char *path,
                            const void *tar, size_t length, struct rsbx_deadline deadline,
                            reposbx_error *err)
{
    RSBX_AUTO(rsbx_buf) struct rsbx_buf url = RSBX_BUF_INIT(RSBX_HTTP_MAX_PATH_BYTES);
    struct rsbx_http_call call = { .method = "PUT",
                                   .body = tar,
                                   .body_length = length,
                                   .body_type = "application/x-tar",
                                   .expected = 200,
                                   .deadline = deadline };
    int rc = archive_path(&url, name, path, err);

    if (rc != 0)
        return rc;
    call.path = url.data;
    return rsbx_http_exchange(NULL, engine, &call, err);
}

int rsbx_engine_archive_get(struct rsbx_buf *out, struct rsbx_engine *engine, const char *name,
                            const char *path, struct rsbx_deadline deadline, reposbx_error *err)
{
    RSBX_AUTO(rsbx_buf) struct rsbx_buf url = RSBX_BUF_INIT(RSBX_HTTP_MAX_PATH_BYTES);
    RSBX_AUTO(rsbx_buf) struct rsbx_buf tar = RSBX_BUF_INIT(out->limit);
    struct rsbx_http_call call = { .method = "GET",
                                   .expected = 200,
                                   .limit_bytes = out->limit - out->length,
                                   .deadline = deadline };
    int rc;

    if (call.limit_bytes == 0)
        return rsbx_fail(err, REPOSBX_ELIMIT, "no room for an archive");
    rc = archive_path(&url, name, path, err);
    if (rc != 0)
        return rc;
    call.path = url.data;
    rc = rsbx_http_exchange(&tar, engine, &call, err);
    return rc == 0 ? rsbx_buf_append(out, tar.data, tar.length, err) : rc;
}
