/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stores of a session: the guest's binary and the baseline, which it may share with others, and
 * the workspace, which is an overlay over the baseline with its own upper store, or a plain store
 * that is copied to.
 */
#include <stdio.h>
#include <string.h>

#include "base/fault.h"
#include "base/limits.h"
#include "guest/embedded.h"
#include "session/internal.h"

#include "base/banned.h"

static int make_store(struct rsbx_session *session, const char *name, bool overlay,
                      reposbx_error *err)
{
    char upper[RSBX_NAME_BYTES];
    struct rsbx_store_spec spec = { .name = name, .session_id = session->id };
    int rc;

    rsbx_store_name(upper, session->id, "upper");
    if (overlay) {
        spec.lower = session->baseline_store;
        spec.lower_owner = session->baseline_owner;
        spec.upper = upper;
    }
    rc = rsbx_journal_make(session, RSBX_OBJECT_STORE, name, err);
    if (rc == 0)
        rc = session->provider->ops->make_store(session->provider, &spec,
                                                rsbx_session_deadline(session, RSBX_ENGINE_CALL_MS),
                                                err);
    RSBX_FAULT("create.store");
    return rc;
}

/* A store of this session alone. */
static int make_own(struct rsbx_session *session, const char *role, bool overlay,
                    reposbx_error *err)
{
    char name[RSBX_NAME_BYTES];

    rsbx_store_name(name, session->id, role);
    return make_store(session, name, overlay, err);
}

/* A folder that belongs to the commands' user, at a mount or below one. */
static struct rsbx_seed_file seed_folder(const char *path)
{
    return (struct rsbx_seed_file){
        .path = path + 1, .mode = 0755, .uid = RSBX_GUEST_UID, .gid = RSBX_GUEST_GID
    };
}

static int seed_workspace(struct rsbx_session *session, reposbx_error *err)
{
    struct rsbx_slot_want mounted = rsbx_want_writer(session, "stage");
    const struct rsbx_seed_file seeds[] = { seed_folder(RSBX_WORKSPACE_FOLDER "/") };

    return rsbx_session_seed(session, &mounted, seeds, 1, err);
}

int rsbx_session_fall_back(struct rsbx_session *session, reposbx_error *err)
{
    char reason[REPOSBX_MESSAGE_BYTES];
    char name[RSBX_NAME_BYTES];
    int rc;

    (void)snprintf(reason, sizeof reason, "overlay does not work here: %.900s", err->message);
    rsbx_store_name(name, session->id, "workspace");
    /* The slots that were being made behind it hold the store. */
    rc = rsbx_session_clear_slots(session, err);
    if (rc == 0)
        rc = session->provider->ops->destroy(session->provider, RSBX_OBJECT_STORE, name,
                                             session->id, rsbx_deadline_in_ms(RSBX_ENGINE_CALL_MS),
                                             err);
    if (rc == 0)
        rc = rsbx_journal_gone(session, RSBX_OBJECT_STORE, name, err);
    if (rc == 0 && (json_object_set_new(session->metadata, "workspace", json_string("copy")) != 0 ||
                    json_object_set_new(session->metadata, "workspace_reason",
                                        json_string(reason)) != 0))
        rc = rsbx_fail_memory(err);
    if (rc == 0)
        rc = rsbx_session_save(session, "metadata.json", session->metadata, err);
    if (rc == 0)
        rc = make_own(session, "workspace", false, err);
    return rc == 0 ? seed_workspace(session, err) : rc;
}

/* What goes into the fresh stores; how many files. */
static size_t choose_seeds(struct rsbx_seed_file seeds[4], const struct rsbx_stores_order *order,
                           bool overlay)
{
    size_t count = 0;

    if (order->new_guest)
        seeds[count++] = (struct rsbx_seed_file){ .path = &RSBX_GUEST_PATH[1],
                                                  .mode = 0555,
                                                  .bytes = rsbx_guest_binary,
                                                  .length = rsbx_guest_binary_size };
    if (order->new_baseline)
        seeds[count++] = seed_folder(RSBX_BASELINE_FOLDER "/");
    if (overlay) {
        seeds[count++] = seed_folder(RSBX_UPPER_FOLDER "/upper/");
        seeds[count++] = seed_folder(RSBX_UPPER_FOLDER "/work" "/");
    } else {
        seeds[count++] = seed_folder(RSBX_WORKSPACE_FOLDER "/");
    }
    return count;
}

int rsbx_session_make_stores(struct rsbx_session *session, const struct rsbx_stores_order *order,
                             reposbx_error *err)
{
    bool overlay = rsbx_session_overlay(session);
    struct rsbx_slot_want mounted = rsbx_want_control(session, "stage");
    struct rsbx_seed_file seeds[4];
    size_t count = choose_seeds(seeds, order, overlay);
    int rc = REPOSBX_OK;

    if (order->new_guest)
        rc = make_store(session, session->guest_store, false, err);
    if (rc == 0 && order->new_baseline)
        rc = make_store(session, session->baseline_store, false, err);
    if (rc == 0 && overlay)
        rc = make_own(session, "upper", false, err);
    if (rc == 0)
        rc = make_own(session, "workspace", overlay, err);
    if (rc != 0)
        return rc;
    mounted.seeds_guest = order->new_guest;
    mounted.baseline = order->new_baseline ? 2 : 0;
    mounted.workspace = overlay ? 0 : 2;
    mounted.upper = overlay ? 2 : 0;
    return rsbx_session_seed(session, &mounted, seeds, count, err);
}
