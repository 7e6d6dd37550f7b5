/* SPDX-License-Identifier: Apache-2.0 */
#include "artifact/zip.h"

#include "base/banned.h"

struct rsbx_zip rsbx_zip;

int rsbx_zip_load(reposbx_error *err)
{
    static const char *const names[] = { RSBX_ZIP_FUNCTIONS(RSBX_LAZY_NAME) NULL };
    static struct rsbx_lazy lazy = { .soname = RSBX_ZIP_SONAME,
                                     .names = names,
                                     .table = &rsbx_zip,
                                     .table_bytes = sizeof rsbx_zip,
                                     .lock = PTHREAD_MUTEX_INITIALIZER };

    return rsbx_lazy_load(&lazy, err);
}
