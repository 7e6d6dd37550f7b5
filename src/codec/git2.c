/* SPDX-License-Identifier: Apache-2.0 */
#include "codec/git2.h"

#include "base/banned.h"

struct rsbx_git2 rsbx_git2;

int rsbx_git2_load(reposbx_error *err)
{
    static const char *const names[] = { RSBX_GIT2_FUNCTIONS(RSBX_LAZY_NAME) NULL };
    static struct rsbx_lazy lazy = { .soname = RSBX_GIT2_SONAME,
                                     .names = names,
                                     .table = &rsbx_git2,
                                     .table_bytes = sizeof rsbx_git2,
                                     .lock = PTHREAD_MUTEX_INITIALIZER };

    return rsbx_lazy_load(&lazy, err);
}
