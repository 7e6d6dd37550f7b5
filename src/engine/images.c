/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/engine.h"

#include "engine/http.h"

#include "base/banned.h"

int rsbx_engine_image_inspect(json_t **out, struct rsbx_engine *engine, const char *reference,
                              struct rsbx_deadline deadline, reposbx_error *err)
{
    RSBX_AUTO(rsbx_buf) struct rsbx_buf path = RSBX_BUF_INIT(RSBX_HTTP_MAX_PATH_BYTES);
    struct rsbx_http_call call = { .method = "GET", .expected = 200, .deadline = deadline };
    int rc = rsbx_http_path(&path, "/images/", reference, true, "/json", err);

    if (rc != 0)
        return rc;
    call.path = path.data;
    return rsbx_http_json(out, engine, &call, err);
}
