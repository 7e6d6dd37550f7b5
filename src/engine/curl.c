/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/curl.h"

#include "base/banned.h"

struct rsbx_curl rsbx_curl;

int rsbx_curl_load(reposbx_error *err)
{
    static const char *const names[] = { RSBX_CURL_FUNCTIONS(RSBX_LAZY_NAME) NULL };
    static struct rsbx_lazy lazy = { .soname = RSBX_CURL_SONAME,
                                     .names = names,
                                     .table = &rsbx_curl,
                                     .table_bytes = sizeof rsbx_curl,
                                     .lock = PTHREAD_MUTEX_INITIALIZER };

    return rsbx_lazy_load(&lazy, err);
}
