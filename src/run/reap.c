/* SPDX-License-Identifier: Apache-2.0 */
#include "run/internal.h"

#include "base/banned.h"

int rsbx_run_reap(const char *state_dir, int dry_run, void (*removed)(void *payload, const char *name),
                  void *payload, reposbx_error *err)
{
    struct rsbx_run_place place = { .run_fd = -1 };
    int rc = rsbx_run_place_open(&place, state_dir, err);

    if (rc == 0)
        rc = rsbx_live_sweep(&place, dry_run != 0, removed, payload, err);
    rsbx_run_place_close(&place);
    return rc;
}
