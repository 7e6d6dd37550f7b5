/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <unistd.h>

#include "run/internal.h"

#include "base/banned.h"

/* Whether anything was ever run here: looking must not make the folder. */
static int ran_before(bool *out, const char *state_dir, reposbx_error *err)
{
    RSBX_AUTO(rsbx_text) char *folder = NULL;

    if (asprintf(&folder, "%s/run/live", state_dir) < 0) {
        folder = NULL;
        return rsbx_fail_memory(err);
    }
    *out = access(folder, F_OK) == 0;
    return REPOSBX_OK;
}

int rsbx_run_reap(const char *state_dir, int dry_run, void (*removed)(void *payload, const char *name),
                  void *payload, reposbx_error *err)
{
    struct rsbx_run_place place = { .run_fd = -1 };
    bool ran = false;
    int rc = ran_before(&ran, state_dir, err);

    if (rc != 0 || !ran)
        return rc;
    rc = rsbx_run_place_open(&place, state_dir, err);
    if (rc == 0)
        rc = rsbx_live_sweep(&place, dry_run != 0, removed, payload, err);
    rsbx_run_place_close(&place);
    return rc;
}
