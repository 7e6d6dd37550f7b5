/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Slots: containers in which the guest waits for one request. A session keeps some waiting (pool),
 * so that a request finds one; each serves one request and is removed. Whatever its age, a slot's
 * hello is compared at use, and one that differs or does not answer is removed and replaced by a
 * new one.
 */
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/limits.h"
#include "session/internal.h"

#include "base/banned.h"

#define NOFILE 1024U
/* A slot that waits answers in milliseconds; one that does not is given up. */
#define WAITING_HELLO_MS 5000U
/* Longest time between two looks at the journal while a keeper makes the slot: told of its lines, and
 * not told. */
#define WATCHED_PAUSE_MS 50
#define BLIND_PAUSE_MS 2

struct rsbx_slot_want rsbx_want_control(const struct rsbx_session *session, const char *purpose)
{
    return (struct rsbx_slot_want){ .purpose = purpose,
                                    .pooled = strcmp(purpose, "control") == 0,
                                    .as_reader = true,
                                    .baseline = 1,
                                    .workspace = 1,
                                    .upper = rsbx_session_overlay(session) ? 1 : 0,
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
    want.upper = 0;
    return want;
}

struct rsbx_slot_want rsbx_want_command(const struct rsbx_session *session)
{
    struct rsbx_slot_want want = rsbx_want_writer(session, "exec");

    want.pooled = true;
    want.network = session->policy->network == RSBX_NETWORK_BRIDGE;
    want.read_only_root = session->policy->read_only_rootfs;
    return want;
}

size_t rsbx_want_waiting(struct rsbx_slot_want out[RSBX_MAX_WAITING_SLOTS],
                         const struct rsbx_session *session)
{
    size_t count = 0;

    while (count < session->policy->slots && count < RSBX_MAX_WAITING_SLOTS - 1)
        out[count++] = rsbx_want_command(session);
    out[count++] = rsbx_want_control(session, "control");
    return count;
}

/* Mounts borrow the names of their stores. */
struct store_names {
    const char *guest, *baseline;
    char upper[RSBX_NAME_BYTES], workspace[RSBX_NAME_BYTES];
};
#define MAX_MOUNTS 4

static void name_stores(struct store_names *names, const struct rsbx_session *session)
{
    names->guest = session->guest_store;
    names->baseline = session->baseline_store;
    rsbx_store_name(names->upper, session->id, "upper");
    rsbx_store_name(names->workspace, session->id, "workspace");
}

static size_t fill_mounts(struct rsbx_mount mounts[MAX_MOUNTS], const struct store_names *names,
                          const struct rsbx_slot_want *want)
{
    size_t count = 0;

    mounts[count++] = (struct rsbx_mount){ .store = names->guest,
                                           .at = RSBX_GUEST_FOLDER,
                                           .writable = want->seeds_guest };
    if (want->baseline > 0)
        mounts[count++] = (struct rsbx_mount){ .store = names->baseline,
                                               .at = RSBX_BASELINE_FOLDER,
                                               .writable = want->baseline > 1 };
    if (want->upper > 0)
        mounts[count++] = (struct rsbx_mount){ .store = names->upper,
                                               .at = RSBX_UPPER_FOLDER,
                                               .writable = want->upper > 1 };
    if (want->workspace > 0)
        mounts[count++] = (struct rsbx_mount){ .store = names->workspace,
                                               .at = RSBX_WORKSPACE_FOLDER,
                                               .writable = want->workspace > 1 };
    return count;
}

/* All that a whole session has, also what the slot does not mount: an overlay's layers are beneath it. */
static size_t fill_kept(struct rsbx_kept_store kept[MAX_MOUNTS], const struct store_names *names,
                        const struct rsbx_session *session)
{
    size_t count = 0;

    if (strcmp(rsbx_session_state(session), "ready") != 0)
        return 0;
    kept[count++] = (struct rsbx_kept_store){ names->guest, NULL };
    kept[count++] = (struct rsbx_kept_store){ names->baseline, session->baseline_owner };
    if (rsbx_session_overlay(session))
        kept[count++] = (struct rsbx_kept_store){ names->upper, session->id };
    kept[count++] = (struct rsbx_kept_store){ names->workspace, session->id };
    return count;
}

static struct rsbx_slot_limits slot_limits(const reposbx_limits *limits)
{
    return (struct rsbx_slot_limits){ .cpus = limits->cpus,
                                      .memory_bytes = limits->memory_bytes,
                                      .pids = limits->pids };
}

static struct rsbx_slot_spec make_spec(const struct rsbx_session *session,
                                       const struct rsbx_slot_want *want, const char *name)
{
    return (struct rsbx_slot_spec){
        .name = name,
        .session_id = session->id,
        .image_id = json_string_value(json_object_get(session->metadata, "image_id")),
        .uid = want->as_reader ? 0 : RSBX_GUEST_UID,
        .gid = want->as_reader ? 0 : RSBX_GUEST_GID,
        .read_everything = want->as_reader,
        .network = want->network,
        .read_only_root = want->read_only_root,
        .limits = slot_limits(&want->limits),
        .tmpfs_bytes = want->limits.tmpfs_bytes,
        .run_bytes = rsbx_run_bytes(&want->limits),
        .nofile = NOFILE,
        .seccomp_profile = session->seccomp_profile,
        .runtime = session->policy->runtime,
    };
}

int rsbx_slot_plan(char name[RSBX_NAME_BYTES], struct rsbx_session *session,
                   const struct rsbx_slot_want *want, reposbx_error *err)
{
    (void)snprintf(name, RSBX_NAME_BYTES, "%s-%06" PRIu64 "-%s", session->id,
                   session->slots_made + 1, want->purpose);
    return rsbx_journal_plan(session, RSBX_OBJECT_SLOT, name, err);
}

int rsbx_slot_launch(struct rsbx_session *session, const struct rsbx_slot_want *want,
                     const char *name, reposbx_error *err)
{
    struct store_names names;
    struct rsbx_mount mounts[MAX_MOUNTS];
    struct rsbx_kept_store kept[MAX_MOUNTS];
    struct rsbx_slot_spec spec = make_spec(session, want, name);

    name_stores(&names, session);
    spec.mounts = mounts;
    spec.mount_count = fill_mounts(mounts, &names, want);
    spec.kept = kept;
    spec.kept_count = fill_kept(kept, &names, session);
    return session->provider->ops->launch(session->provider, &spec,
                                          rsbx_session_deadline(session, RSBX_ENGINE_CALL_MS), err);
}

/* Whether the request has lower limits than those that slots wait with. */
static bool lowers_limits(const struct rsbx_session *session, const struct rsbx_slot_want *want)
{
    const struct rsbx_slot_limits lower = slot_limits(&want->limits);
    const struct rsbx_slot_limits usual = slot_limits(&session->policy->limits);

    return lower.cpus < usual.cpus || lower.memory_bytes < usual.memory_bytes ||
           lower.pids < usual.pids;
}

/* Connects, greets and compares; `lower` as for the provider. */
static int greet(struct rsbx_slot *slot, struct rsbx_session *session,
                 const struct rsbx_slot_want *want, bool waiting, reposbx_error *err)
{
    const struct rsbx_slot_limits lower = slot_limits(&want->limits);
    bool adjust = waiting && lowers_limits(session, want);
    struct rsbx_link *link = NULL;
    int rc = session->provider->ops->connect(&link, session->provider, slot->name,
                                             adjust ? &lower : NULL,
                                             rsbx_session_deadline(session, RSBX_ENGINE_CALL_MS),
                                             err);

    if (rc == 0)
        rc = rsbx_talk_open(&slot->talk, link, err);
    if (rc == 0)
        rc = rsbx_talk_greet(
            &slot->hello, slot->talk,
            rsbx_session_deadline(
                session, waiting ? WAITING_HELLO_MS + session->provider->ops->connect_ms : RSBX_HELLO_MS),
            err);
    if (rc == 0)
        rc = rsbx_hello_check(&slot->hello, want, err);
    if (rc == 0) {
        session->observed = slot->hello;
        session->has_observed = true;
    }
    return rc;
}

/* Whether a slot's name is of the purpose. */
static bool serves(const struct rsbx_journal_item *item, const char *purpose)
{
    size_t length = strlen(item->name);
    size_t tail = strlen(purpose);

    return item->kind == RSBX_OBJECT_SLOT && length > tail &&
           item->name[length - tail - 1] == '-' && strcmp(item->name + length - tail, purpose) == 0;
}

/* Finds the oldest waiting slot of the purpose. *coming: one is being made. */
static int find_waiting(char name[RSBX_NAME_BYTES], bool *coming, struct rsbx_session *session,
                        const char *purpose, reposbx_error *err)
{
    const struct rsbx_journal *journal = &session->journal;
    int rc = rsbx_journal_follow(session, err);

    if (rc != 0)
        return rc;
    name[0] = '\0';
    *coming = false;
    for (size_t i = 0; i < journal->left_count && name[0] == '\0'; i++) {
        const struct rsbx_journal_item *item = &journal->left[i];

        if (!serves(item, purpose))
            continue;
        if (item->stage == RSBX_STAGE_READY)
            (void)snprintf(name, RSBX_NAME_BYTES, "%s", item->name);
        else if (item->stage == RSBX_STAGE_MADE)
            *coming = true;
    }
    if (journal->fault != NULL) {
        rsbx_session_poison(session, journal->fault);
        return rsbx_fail(err, REPOSBX_EPOISONED, "%s", journal->fault);
    }
    return REPOSBX_OK;
}

/* Until somebody writes to the journal, and not for long: a keeper that was killed writes nothing. */
static void pause_for(int journal_watch, struct rsbx_deadline deadline)
{
    struct pollfd ready[] = {
        { .fd = rsbx_deadline_cancel_fd(deadline), .events = POLLIN },
        { .fd = journal_watch, .events = POLLIN },
    };
    char events[4096];

    (void)poll(ready, 2, journal_watch >= 0 ? WATCHED_PAUSE_MS : BLIND_PAUSE_MS);
    if ((ready[1].revents & POLLIN) != 0)
        (void)!read(journal_watch, events, sizeof events);
}

/* The name of a waiting slot, "" when there is none: waits for one that a keeper is making. */
static int await_slot(char name[RSBX_NAME_BYTES], struct rsbx_session *session,
                      const struct rsbx_slot_want *want, reposbx_error *err)
{
    struct rsbx_deadline deadline = rsbx_session_deadline(session, RSBX_ENGINE_CALL_MS);
    RSBX_AUTO(rsbx_fd) int watch = -1;

    for (bool first = true;; first = false) {
        bool alive = rsbx_keepers_alive(session);
        bool coming = false;
        int rc = find_waiting(name, &coming, session, want->purpose, err);

        if (rc != 0 || name[0] != '\0' || !coming || !alive || rsbx_deadline_passed(deadline))
            return rc;
        rc = rsbx_check_cancelled(deadline.cancel_fd, err);
        if (rc != 0)
            return rc;
        if (first)
            watch = rsbx_journal_watch(session); /* and look once more: it may have been written since */
        else
            pause_for(watch, deadline);
    }
}

static int remove_now(struct rsbx_slot *slot, struct rsbx_session *session, reposbx_error *err)
{
    reposbx_error why = REPOSBX_ERROR_INIT;
    int rc = session->provider->ops->destroy(session->provider, RSBX_OBJECT_SLOT, slot->name,
                                             session->id,
                                             rsbx_deadline_in_ms(RSBX_ENGINE_CALL_MS), &why);

    if (rc == 0)
        rc = rsbx_journal_gone(session, RSBX_OBJECT_SLOT, slot->name, &why);
    if (rc == 0)
        return REPOSBX_OK;
    rsbx_session_poison(session, why.message);
    if (err != NULL)
        *err = why;
    return rc;
}

/* A waiting slot that answers as it should; 0 with slot->talk NULL when there is none. */
static int take_waiting(struct rsbx_slot *slot, struct rsbx_session *session,
                        const struct rsbx_slot_want *want, reposbx_error *err)
{
    for (;;) {
        int rc = await_slot(slot->name, session, want, err);

        if (rc != 0 || slot->name[0] == '\0')
            return rc;
        rc = rsbx_journal_stage(session, slot->name, RSBX_STAGE_TAKEN, err);
        if (rc != 0)
            return rc;
        if (greet(slot, session, want, true, NULL) == 0)
            return REPOSBX_OK;
        rsbx_talk_free(slot->talk);
        slot->talk = NULL;
        rc = remove_now(slot, session, err);
        if (rc != 0)
            return rc;
    }
}

static int make_new(struct rsbx_slot *slot, struct rsbx_session *session,
                    const struct rsbx_slot_want *want, reposbx_error *err)
{
    reposbx_error why = REPOSBX_ERROR_INIT;
    int rc = rsbx_slot_plan(slot->name, session, want, err);

    if (rc == 0)
        rc = rsbx_journal_stage(session, slot->name, RSBX_STAGE_TAKEN, err);
    if (rc == 0)
        rc = rsbx_journal_sync(session, err);
    if (rc != 0)
        return rc;
    rc = rsbx_slot_launch(session, want, slot->name, err != NULL ? err : &why);
    RSBX_FAULT("slot.launched");
    if (rc == REPOSBX_EPOISONED)
        rsbx_session_poison(session, err != NULL ? err->message : why.message);
    if (rc == 0)
        rc = greet(slot, session, want, false, err);
    if (rc != 0) {
        rsbx_talk_free(slot->talk);
        slot->talk = NULL;
        (void)remove_now(slot, session, NULL);
    }
    return rc;
}

int rsbx_slot_take(struct rsbx_slot *out, struct rsbx_session *session,
                   const struct rsbx_slot_want *want, reposbx_error *err)
{
    struct rsbx_slot slot = { .talk = NULL, .keeper = { .done_fd = -1 } };
    int rc = rsbx_session_provider(session, err);

    if (rc == 0)
        rc = rsbx_journal_shorten(session, err);
    /* One that waits and cannot be lowered goes on waiting, for another request. */
    slot.beside = rc == 0 && want->pooled && session->provider->ops->fixed_limits &&
                  lowers_limits(session, want);
    if (rc == 0 && want->pooled && !slot.beside)
        rc = take_waiting(&slot, session, want, err);
    if (rc == 0 && slot.talk == NULL)
        rc = make_new(&slot, session, want, err);
    if (rc == 0)
        *out = slot;
    return rc;
}

void rsbx_slot_prepare_next(struct rsbx_slot *slot, struct rsbx_session *session,
                            const struct rsbx_slot_want *next, size_t count)
{
    const struct rsbx_keeper_plan plan = { .wants = next,
                                           .want_count = slot->beside ? 0 : count,
                                           .used = slot->name };

    /* Without a keeper the slot is removed at its drop, and the next request makes its own. */
    (void)rsbx_keeper_start(&slot->keeper, session, &plan, NULL);
}

void rsbx_slots_prepare(struct rsbx_session *session)
{
    struct rsbx_slot_want next[RSBX_MAX_WAITING_SLOTS];
    struct rsbx_keeper keeper = { .done_fd = -1 };
    const struct rsbx_keeper_plan plan = { .wants = next,
                                           .want_count = rsbx_want_waiting(next, session) };

    if (rsbx_keeper_start(&keeper, session, &plan, NULL) == 0)
        rsbx_keeper_done(&keeper);
}

int rsbx_slot_drop(struct rsbx_slot *slot, struct rsbx_session *session, reposbx_error *err)
{
    rsbx_talk_free(slot->talk);
    slot->talk = NULL;
    RSBX_FAULT("slot.drop");
    if (slot->keeper.done_fd < 0)
        return remove_now(slot, session, err);
    rsbx_keeper_done(&slot->keeper);
    return REPOSBX_OK;
}

int rsbx_session_seed(struct rsbx_session *session, const struct rsbx_slot_want *mounted,
                      const struct rsbx_seed_file *files, size_t count, reposbx_error *err)
{
    struct rsbx_slot_want want = *mounted;
    struct store_names names;
    struct rsbx_mount mounts[MAX_MOUNTS];
    char name[RSBX_NAME_BYTES] = ""; /* made below; the spec borrows it */
    struct rsbx_slot_spec spec = make_spec(session, &want, name);
    int rc;

    name_stores(&names, session);
    spec.mounts = mounts;
    spec.mount_count = fill_mounts(mounts, &names, &want);
    spec.read_only_root = false; /* it never runs; the engine unpacks into its root's mounts */
    rc = rsbx_slot_plan(name, session, &want, err);
    if (rc == 0)
        rc = rsbx_journal_sync(session, err);
    if (rc == 0)
        rc = session->provider->ops->seed(session->provider, &spec, files, count,
                                          rsbx_session_deadline(session, RSBX_ENGINE_CALL_MS), err);
    if (rc == 0)
        rc = rsbx_journal_gone(session, RSBX_OBJECT_SLOT, name, err);
    return rc;
}
