/* SPDX-License-Identifier: Apache-2.0 */
/* One container with the guest in it: made, shown to be what the policy says, and removed. */
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "base/fault.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/text.h"
#include "provider/hello.h"
#include "run/internal.h"
#include "wasm/wasm.h"

#include "base/banned.h"

int rsbx_run_new_name(char out[RSBX_RUN_NAME_BYTES], reposbx_error *err)
{
    unsigned char salt[16];
    char digits[2 * sizeof salt + 1];
    int rc = rsbx_random(salt, sizeof salt, err);

    if (rc != 0)
        return rc;
    rsbx_hex(digits, salt, sizeof salt);
    (void)snprintf(out, RSBX_RUN_NAME_BYTES, "reposbx-run-%s", digits);
    return REPOSBX_OK;
}

static int compare(const struct rsbx_warm *warm, const struct rsbx_run_box *box, reposbx_error *err)
{
    const struct rsbx_hello_want want = {
        .uid = RSBX_RUN_UID,
        .gid = RSBX_RUN_GID,
        .network = box->network,
        .read_only_root = box->read_only_root,
        .cpus = box->limits.cpus,
        .memory_bytes = box->limits.memory_bytes,
        .pids = box->limits.pids,
        .tmp_bytes = box->limits.tmpfs_bytes,
        .run_bytes = rsbx_run_small_tmpfs(&box->limits),
        .nofile = RSBX_RUN_NOFILE,
    };

    return rsbx_hello_compare(&warm->hello, &want, err);
}

static int launch(struct rsbx_warm *warm, const struct rsbx_run_box *box, reposbx_error *err)
{
    struct rsbx_link *link = NULL;
    int rc = warm->engine->ops->launch(&link, warm->engine, box, err);

    RSBX_FAULT("run.launched");
    if (rc == 0)
        rc = rsbx_talk_open(&warm->talk, link, err);
    if (rc != 0)
        return rc;
    warm->link = link;
    rc = rsbx_talk_greet(&warm->hello, warm->talk,
                         rsbx_deadline_or(rsbx_deadline_in_ms(RSBX_HELLO_MS), box->cancel_fd), err);
    if (rc != 0)
        rc = warm->engine->ops->explain(link, rc, err);
    return rc == 0 ? compare(warm, box, err) : rc;
}

static int make(struct rsbx_warm *warm, struct rsbx_runner *runner, const char *role, bool again,
                const int *cancel_fd, reposbx_error *err)
{
    const char *reference = rsbx_run_image(warm->language, runner->policy);
    struct rsbx_run_box box;
    int rc = rsbx_run_prepare(&warm->image, &runner->place, warm->engine, warm->live, runner->policy,
                              reference, again, cancel_fd, err);

    if (rc == 0)
        rc = rsbx_run_new_name(warm->name, err);
    if (rc == 0)
        rc = rsbx_live_make(warm->live, warm->name, err);
    if (rc != 0)
        return rc;
    box = rsbx_run_box(runner->policy, &warm->limits, warm->name, warm->image.id, role);
    box.cancel_fd = cancel_fd;
    rc = launch(warm, &box, err);
    if (rc != 0) {
        reposbx_error removal = REPOSBX_ERROR_INIT;

        if (rsbx_warm_remove(warm, &removal) != 0 && err != NULL)
            rsbx_hint(err, "container %s could not be removed either: %.200s", warm->name,
                      removal.message);
    }
    return rc;
}

int rsbx_warm_make(struct rsbx_warm *out, struct rsbx_runner *runner,
                   struct rsbx_run_engine *engine, struct rsbx_live *live,
                   const struct rsbx_run_language *language, const reposbx_limits *limits,
                   const char *role, const int *cancel_fd, reposbx_error *err)
{
    struct rsbx_warm warm = { .engine = engine, .live = live, .language = language,
                              .limits = *limits };
    struct rsbx_image_facts facts = { .id = "" };
    int rc = make(&warm, runner, role, false, cancel_fd, err);

    /* Whether it failed since the image of the record is gone. */
    if (rc == REPOSBX_EUNAVAILABLE || rc == REPOSBX_ENOTFOUND) {
        if (warm.image.id[0] != '\0' &&
            engine->ops->image(&facts, engine, warm.image.id, rsbx_run_until(cancel_fd), NULL) ==
                REPOSBX_EUNAVAILABLE)
            rc = make(&warm, runner, role, true, cancel_fd, err);
        rsbx_image_facts_dispose(&facts);
    }
    if (rc == 0)
        *out = warm;
    return rc;
}

const char *rsbx_warm_engine(const struct rsbx_warm *warm)
{
    return warm->process != NULL ? "wasm" : warm->engine->ops->name;
}

bool rsbx_warm_quiet(const struct rsbx_warm *warm)
{
    struct pollfd ready = { .events = POLLIN };

    if (warm->process != NULL)
        return rsbx_wasm_process_waits(warm->process);
    ready.fd = warm->link->ops->fd(warm->link);
    return poll(&ready, 1, 0) == 0;
}

int rsbx_warm_remove(struct rsbx_warm *warm, reposbx_error *err)
{
    int rc;

    if (warm->process != NULL) {
        rsbx_wasm_process_free(warm->process);
        warm->process = NULL;
        return REPOSBX_OK;
    }
    rc = warm->engine->ops->destroy(warm->engine, warm->name, warm->link, err);

    if (rc == 0)
        rsbx_live_gone(warm->live, warm->name);
    rsbx_talk_free(warm->talk);
    warm->talk = NULL;
    warm->link = NULL;
    return rc;
}
