/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/fault.h"
#include "base/limits.h"
#include "session/internal.h"

#include "base/banned.h"

#define NOFILE 1024U

struct rsbx_slot_want rsbx_want_control(const struct rsbx_session *session, const char *purpose)
{
    return (struct rsbx_slot_want){ .purpose = purpose,
                                    .as_reader = true,
                                    .baseline = 1,
                                    .workspace = 1,
                                    .limits = session->policy->limits,
                                    .network = false,
                                    .read_only_root = true };
}

struct rsbx_slot_want rsbx_want_writer(const struct rsbx_session *session, const char *purpose)
{
    struct rsbx_slot_want want = rsbx_want_control(session, purpose);

    want.as_reader = false;
    want.baseline = 0;
    want.workspace = 2;
    return want;
}

/* Mounts borrow the names of their stores. */
struct store_names {
    char guest[RSBX_NAME_BYTES], baseline[RSBX_NAME_BYTES], workspace[RSBX_NAME_BYTES];
};

static void name_stores(struct store_names *names, const struct rsbx_session *session)
{
    rsbx_store_name(names->guest, session->id, "guest");
    rsbx_store_name(names->baseline, session->id, "baseline");
    rsbx_store_name(names->workspace, session->id, "workspace");
}

static size_t fill_mounts(struct rsbx_mount mounts[3], const struct store_names *names,
                          const struct rsbx_slot_want *want)
{
    size_t count = 0;

    mounts[count++] = (struct rsbx_mount){ .store = names->guest, .at = RSBX_GUEST_FOLDER };
    if (want->baseline > 0)
        mounts[count++] = (struct rsbx_mount){ .store = names->baseline,
                                               .at = RSBX_BASELINE_FOLDER,
                                               .writable = want->baseline > 1 };
    if (want->workspace > 0)
        mounts[count++] = (struct rsbx_mount){ .store = names->workspace,
                                               .at = RSBX_WORKSPACE_FOLDER,
                                               .writable = want->workspace > 1 };
    return count;
}

static const char *image_id(const struct rsbx_session *session)
{
    return json_string_value(json_object_get(session->metadata, "image_id"));
}

static struct rsbx_slot_spec make_spec(const struct rsbx_session *session,
                                       const struct rsbx_slot_want *want, const char *name)
{
    return (struct rsbx_slot_spec){
        .name = name,
        .session_id = session->id,
        .image_id = image_id(session),
        .uid = want->as_reader ? 0 : RSBX_GUEST_UID,
        .gid = want->as_reader ? 0 : RSBX_GUEST_GID,
        .read_everything = want->as_reader,
        .network = want->network,
        .read_only_root = want->read_only_root,
        .cpus = want->limits.cpus,
        .memory_bytes = want->limits.memory_bytes,
        .pids = want->limits.pids,
        .tmpfs_bytes = want->limits.tmpfs_bytes,
        .run_bytes = rsbx_run_bytes(&want->limits),
        .nofile = NOFILE,
        .seccomp_profile = session->seccomp_profile,
        .runtime = session->policy->runtime,
    };
}

/* Journals, then lets `act` (launch or seed) make the container. */
static int launch(struct rsbx_session *session, const struct rsbx_slot_want *want,
                  const char *name, reposbx_error *err)
{
    struct store_names names;
    struct rsbx_mount mounts[3];
    struct rsbx_slot_spec spec = make_spec(session, want, name);
    int rc = rsbx_journal_make(session, RSBX_OBJECT_SLOT, name, want->command, err);

    if (rc != 0)
        return rc;
    name_stores(&names, session);
    spec.mounts = mounts;
    spec.mount_count = fill_mounts(mounts, &names, want);
    rc = session->provider->ops->launch(session->provider, &spec,
                                        rsbx_deadline_in_ms(RSBX_ENGINE_CALL_MS), err);
    RSBX_FAULT("slot.launched");
    return rc;
}

static int greet(struct rsbx_slot *slot, struct rsbx_session *session,
                 const struct rsbx_slot_want *want, reposbx_error *err)
{
    struct rsbx_link *link = NULL;
    int rc = session->provider->ops->connect(&link, session->provider, slot->name,
                                             rsbx_deadline_in_ms(RSBX_ENGINE_CALL_MS), err);

    if (rc == 0)
        rc = rsbx_talk_open(&slot->talk, link, err);
    if (rc == 0)
        rc = rsbx_talk_greet(&slot->hello, slot->talk, rsbx_deadline_in_ms(RSBX_HELLO_MS), err);
    if (rc == 0)
        rc = rsbx_hello_check(&slot->hello, want, err);
    return rc;
}

int rsbx_slot_take(struct rsbx_slot *out, struct rsbx_session *session,
                   const struct rsbx_slot_want *want, reposbx_error *err)
{
    struct rsbx_slot slot = { .talk = NULL };
    int rc = rsbx_session_provider(session, err);

    if (rc != 0)
        return rc;
    (void)snprintf(slot.name, sizeof slot.name, "%s-%06" PRIu64 "-%s", session->id,
                   session->slots_made + 1, want->purpose);
    rc = launch(session, want, slot.name, err);
    if (rc == 0)
        rc = greet(&slot, session, want, err);
    if (rc != 0) {
        (void)rsbx_slot_drop(&slot, session, NULL);
        return rc;
    }
    *out = slot;
    return REPOSBX_OK;
}

int rsbx_slot_drop(struct rsbx_slot *slot, struct rsbx_session *session, reposbx_error *err)
{
    reposbx_error why = REPOSBX_ERROR_INIT;
    int rc;

    rsbx_talk_free(slot->talk);
    slot->talk = NULL;
    RSBX_FAULT("slot.drop");
    rc = session->provider->ops->destroy(session->provider, RSBX_OBJECT_SLOT, slot->name,
                                         session->id, rsbx_deadline_in_ms(RSBX_ENGINE_CALL_MS),
                                         &why);
    if (rc == 0)
        rc = rsbx_journal_gone(session, RSBX_OBJECT_SLOT, slot->name, &why);
    if (rc == 0)
        return REPOSBX_OK;
    rsbx_session_poison(session, why.message);
    if (err != NULL)
        *err = why;
    return rc;
}

int rsbx_session_seed(struct rsbx_session *session, const struct rsbx_seed_file *files,
                      size_t count, reposbx_error *err)
{
    struct rsbx_slot_want want = rsbx_want_control(session, "stage");
    struct store_names names;
    struct rsbx_mount mounts[3];
    char name[RSBX_NAME_BYTES];
    struct rsbx_slot_spec spec = make_spec(session, &want, name);
    int rc;

    want.baseline = want.workspace = 2;
    name_stores(&names, session);
    spec.mounts = mounts;
    spec.mount_count = fill_mounts(mounts, &names, &want);
    mounts[0].writable = true;
    spec.read_only_root = false; /* it never runs; the engine unpacks into its root's mounts */
    (void)snprintf(name, sizeof name, "%s-%06" PRIu64 "-stage", session->id,
                   session->slots_made + 1);
    rc = rsbx_journal_make(session, RSBX_OBJECT_SLOT, name, false, err);
    if (rc == 0)
        rc = session->provider->ops->seed(session->provider, &spec, files, count,
                                          rsbx_deadline_in_ms(RSBX_ENGINE_CALL_MS), err);
    if (rc == 0)
        rc = rsbx_journal_gone(session, RSBX_OBJECT_SLOT, name, err);
    return rc;
}
