/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Clearing up behind the dead. A session is reaped when nobody holds its lock and it is half made,
 * poisoned, or past its lease, or when it is closed and its journal still names something. What is
 * removed is what the journal names and nothing else; every name carries the session's id, and the
 * provider checks the owner again. A ready session within its lease is left alone, but slots that a
 * killed controller left behind in it are removed.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/lister.h"
#include "session/internal.h"
#include "session/shared.h"

#include "base/banned.h"

/* A folder without a lock may belong to a creator that is between two system calls. */
#define YOUNG_SECONDS 60

struct reaping {
    reposbx_reap_report *report;
    struct rsbx_state *state;
    int dry_run;
};

void rsbx_reap_report_dispose(reposbx_reap_report *report)
{
    if (report == NULL)
        return;
    for (size_t i = 0; i < report->count; i++) {
        free(report->items[i].session_id);
        free(report->items[i].object);
        free(report->items[i].detail);
    }
    free(report->items);
    memset(report, 0, sizeof *report);
}

static int tell_action(struct reaping *reaping, const char *action, const char *id,
                       const char *what, const char *name, const char *detail, reposbx_error *err)
{
    reposbx_reap_report *report = reaping->report;
    reposbx_reap_item *grown = realloc(report->items, (report->count + 1) * sizeof *grown);
    reposbx_reap_item *item;

    if (grown == NULL)
        return rsbx_fail_memory(err);
    report->items = grown;
    item = &grown[report->count];
    memset(item, 0, sizeof *item);
    item->session_id = strdup(id);
    item->detail = strdup(detail);
    item->action = action;
    if (asprintf(&item->object, "%s%s%s", what, name[0] != '\0' ? " " : "", name) < 0)
        item->object = NULL;
    report->count++;
    return item->session_id != NULL && item->detail != NULL && item->object != NULL
               ? REPOSBX_OK
               : rsbx_fail_memory(err);
}

static int tell(struct reaping *reaping, const char *id, const char *what, const char *name,
                const char *failure, reposbx_error *err)
{
    const char *done = reaping->dry_run ? "would_remove" : "removed";

    if (failure == NULL)
        return tell_action(reaping, done, id, what, name, "", err);
    reaping->report->failed++;
    return tell_action(reaping, "failed", id, what, name, failure, err);
}

static int reap_object(struct reaping *reaping, struct rsbx_session *session,
                       const struct rsbx_journal_item *item, reposbx_error *err)
{
    const char *what = item->kind == RSBX_OBJECT_SLOT ? "container" : "volume";
    reposbx_error why = REPOSBX_ERROR_INIT;
    int rc;

    /* Shared meanwhile: it goes when its last user has left. */
    if (item->kind == RSBX_OBJECT_STORE && rsbx_shared_lent(session, item->name))
        return reaping->dry_run ? REPOSBX_OK
                                : rsbx_journal_gone(session, item->kind, item->name, err);
    if (reaping->dry_run)
        return tell(reaping, session->id, what, item->name, NULL, err);
    rc = rsbx_session_provider(session, &why);
    if (rc == 0)
        rc = session->provider->ops->destroy(session->provider, item->kind, item->name,
                                             session->id,
                                             rsbx_deadline_in_ms(RSBX_ENGINE_CALL_MS), &why);
    /* Somebody else's under our name. An engine cannot change labels, so ours is gone already: this is
     * told once, and the journal forgets it. */
    if (rc == REPOSBX_EPOLICY) {
        rc = rsbx_journal_gone(session, item->kind, item->name, err);
        return rc != 0 ? rc
                       : tell_action(reaping, "left_alone", session->id, what, item->name, why.message,
                                     err);
    }
    if (rc == 0)
        rc = rsbx_journal_gone(session, item->kind, item->name, &why);
    RSBX_FAULT("reap.destroyed");
    return tell(reaping, session->id, what, item->name, rc != 0 ? why.message : NULL, err);
}

struct leaving {
    struct reaping *reaping;
    const char *id;
};

static int tell_left(void *payload, const char *store, reposbx_error *err)
{
    const struct leaving *leaving = payload;

    return tell(leaving->reaping, leaving->id, "volume", store, NULL, err);
}

static int tell_unused(void *payload, const char *key, const char *store, const char *failure,
                       reposbx_error *err)
{
    return tell(payload, key, "volume", store, failure, err);
}

/* The session's part in what it shares. */
static int reap_shares(struct reaping *reaping, struct rsbx_session *session, reposbx_error *err)
{
    struct leaving leaving = { .reaping = reaping, .id = session->id };
    reposbx_error why = REPOSBX_ERROR_INIT;
    int rc = rsbx_shared_leave(session, reaping->dry_run, tell_left, &leaving, &why);

    return rc == 0 ? rc : tell(reaping, session->id, "shared volumes", "", why.message, err);
}

/* Containers first, then volumes. Of a session that lives on (`over` false) only containers that
 * nobody uses and nobody waits for. */
static int reap_objects(struct reaping *reaping, struct rsbx_session *session, bool over,
                        reposbx_error *err)
{
    RSBX_AUTO(rsbx_fd) int keepers_fd = -1;
    struct rsbx_journal journal;
    int rc = rsbx_keepers_wait(&keepers_fd, session, over ? RSBX_KEEPERS_MS : 0, err);

    if (rc == REPOSBX_EBUSY && !over)
        return REPOSBX_OK; /* work behind its last request goes on */
    if (rc == 0)
        rc = rsbx_journal_read(&journal, session->dir_fd, err);
    if (rc != 0)
        return rc;
    for (int pass = 0; rc == 0 && pass < (over ? 2 : 1); pass++) {
        enum rsbx_object_kind kind = pass == 0 ? RSBX_OBJECT_SLOT : RSBX_OBJECT_STORE;

        for (size_t i = 0; rc == 0 && i < journal.left_count; i++) {
            if (journal.left[i].kind == kind &&
                (over || journal.left[i].stage != RSBX_STAGE_READY))
                rc = reap_object(reaping, session, &journal.left[i], err);
        }
    }
    rsbx_journal_dispose(&journal);
    return rc == 0 && over ? reap_shares(reaping, session, err) : rc;
}

/* Whether somebody may be about to lock it for the first time. Asked before it is opened: that makes the lock,
 * and the folder's time is then the present. */
static bool is_young(const struct rsbx_state *state, const char *id)
{
    char lock[REPOSBX_SESSION_ID_BYTES + 8];
    struct stat facts;

    (void)snprintf(lock, sizeof lock, "%.36s/lock", id);
    return faccessat(state->sessions_fd, lock, F_OK, 0) != 0 &&
           fstatat(state->sessions_fd, id, &facts, AT_SYMLINK_NOFOLLOW) == 0 &&
           time(NULL) - facts.st_mtime < YOUNG_SECONDS;
}

/* Whether a document is missing or is none. What merely could not be read now is not lost. */
static bool is_lost(const struct rsbx_session *session, const char *name, int rc)
{
    struct stat facts;

    if (rc == REPOSBX_ENOTFOUND || rc == REPOSBX_EMALFORMED)
        return true;
    return rc != 0 && fstatat(session->dir_fd, name, &facts, AT_SYMLINK_NOFOLLOW) == 0 &&
           !S_ISREG(facts.st_mode);
}

/* Whether a session that cannot be opened is half made or damaged. One that a disk gives no answer about,
 * or that says what only another version knows, may be in use. */
static bool is_remains(struct rsbx_session *session)
{
    int rc = rsbx_session_load(&session->spec, session->dir_fd, "spec.json", NULL);

    if (rc != 0)
        return is_lost(session, "spec.json", rc);
    rc = rsbx_session_load(&session->metadata, session->dir_fd, "metadata.json", NULL);
    if (rc != 0)
        return is_lost(session, "metadata.json", rc);
    return !json_is_object(session->spec) || !json_is_object(session->metadata) ||
           strcmp(rsbx_session_state(session), "creating") == 0;
}

/* Whether something was done: the log is then all that tells of it. */
static bool has_records(const struct rsbx_session *session)
{
    struct stat facts;

    return fstatat(session->dir_fd, "audit/events.jsonl", &facts, AT_SYMLINK_NOFOLLOW) == 0 &&
           facts.st_size > 0;
}

/* A folder that is no session: half made, or damaged. `why` is what opening it said. */
static int reap_remains(struct reaping *reaping, struct rsbx_state *state, const char *id,
                        bool young, const reposbx_error *why, reposbx_error *err)
{
    RSBX_AUTO(rsbx_session) struct rsbx_session *session = NULL;
    size_t failed = reaping->report->failed;
    size_t count = reaping->report->count;
    bool keep;
    int rc = rsbx_session_folder(&session, state, id, false, err);

    if (rc == 0)
        rc = rsbx_session_take_lock(session, err);
    if (rc != 0)
        return rc == REPOSBX_EBUSY ? REPOSBX_OK : rc;
    if (young)
        return REPOSBX_OK;
    if (!is_remains(session))
        return tell(reaping, id, "session", "", why->message, err);
    if (json_is_string(json_object_get(session->spec, "engine")))
        rc = rsbx_session_own_engine(session, err);
    if (rc != 0)
        return rc;
    keep = has_records(session) && strcmp(rsbx_session_state(session), "creating") != 0;
    rc = reap_objects(reaping, session, true, err);
    if (rc != 0 || reaping->report->failed != failed)
        return rc;
    /* Of a folder that is kept for its log nothing is told once all else is gone. */
    if (keep && reaping->report->count == count)
        return REPOSBX_OK;
    if (!keep && !reaping->dry_run)
        rc = rsbx_session_forget(state, id, err);
    return rc == 0 ? tell(reaping, id, "session", "", NULL, err) : rc;
}

/* Ends a session that is over: closed when it had been whole, forgotten when it was never ready. */
static int reap_over(struct reaping *reaping, struct rsbx_session *session, reposbx_error *err)
{
    bool half_made = strcmp(rsbx_session_state(session), "creating") == 0;
    size_t failed = reaping->report->failed;
    int rc = reap_objects(reaping, session, true, err);

    if (rc != 0 || reaping->report->failed != failed)
        return rc;
    rc = tell(reaping, session->id, "session", "", NULL, err);
    if (rc != 0 || reaping->dry_run)
        return rc;
    if (half_made)
        return rsbx_session_forget(reaping->state, session->id, err);
    return rsbx_session_close(session, REPOSBX_KEEP_AUDIT, err);
}

static int reap_one(struct reaping *reaping, const char *id, reposbx_error *err)
{
    RSBX_AUTO(rsbx_session) struct rsbx_session *session = NULL;
    reposbx_error why = REPOSBX_ERROR_INIT;
    const char *state;
    bool expired = false;
    bool young = is_young(reaping->state, id);
    int rc;

    rc = rsbx_session_open(&session, reaping->state, id, &why);

    if (rc == REPOSBX_EBUSY ||
        (rc == REPOSBX_ENOTFOUND && faccessat(reaping->state->sessions_fd, id, F_OK, 0) != 0))
        return REPOSBX_OK;
    if (rc != 0)
        return reap_remains(reaping, reaping->state, id, young, &why, err);
    state = rsbx_session_state(session);
    if (strcmp(state, "closed") == 0)
        return reap_objects(reaping, session, true, err);
    if (!rsbx_session_state_known(state)) {
        (void)rsbx_fail(&why, REPOSBX_EIO, "its state \"%.100s\" is none that this version knows", state);
        return tell(reaping, id, "session", "", why.message, err);
    }
    rc = rsbx_session_expired(&expired, session->metadata, session->spec, err);
    if (rc != 0)
        return rc;
    if (strcmp(state, "ready") == 0 && !expired)
        return reap_objects(reaping, session, false, err);
    return reap_over(reaping, session, err);
}

int rsbx_reap(reposbx_reap_report *out, struct rsbx_state *state, int dry_run, reposbx_error *err)
{
    reposbx_reap_report report = { .items = NULL };
    struct reaping reaping = { .report = &report, .state = state, .dry_run = dry_run };
    RSBX_AUTO(rsbx_lister) struct rsbx_lister lister = { NULL, NULL };
    const char *name;
    int rc = rsbx_lister_open(&lister, state->sessions_fd, "the sessions", err);

    while (rc == 0 && (rc = rsbx_lister_next(&name, &lister, err)) > 0) {
        reposbx_error why = REPOSBX_ERROR_INIT;

        rc = 0;
        if (rsbx_session_id_valid(name) && reap_one(&reaping, name, &why) != 0)
            rc = tell(&reaping, name, "session", "", why.message, err);
    }
    if (rc == 0)
        rc = rsbx_shared_reap(state, dry_run != 0, tell_unused, &reaping, err);
    if (rc != 0) {
        rsbx_reap_report_dispose(&report);
        return rc;
    }
    *out = report;
    return REPOSBX_OK;
}
