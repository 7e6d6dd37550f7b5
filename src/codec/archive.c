/* SPDX-License-Identifier: Apache-2.0 */
#include "codec/archive.h"

#include "base/banned.h"

struct rsbx_archive rsbx_archive;

int rsbx_archive_load(reposbx_error *err)
{
    static const char *const names[] = { RSBX_ARCHIVE_FUNCTIONS(RSBX_LAZY_NAME) NULL };
    static struct rsbx_lazy lazy = { .soname = RSBX_ARCHIVE_SONAME,
                                     .names = names,
                                     .table = &rsbx_archive,
                                     .table_bytes = sizeof rsbx_archive,
                                     .lock = PTHREAD_MUTEX_INITIALIZER };

    return rsbx_lazy_load(&lazy, err);
}
