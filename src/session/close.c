/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/fd.h"
#include "base/limits.h"
#include "session/internal.h"
#include "session/shared.h"

#include "base/banned.h"

/* Volumes up to here are removed before a close returns: some ten milliseconds of work. */
#define QUICK_FILES 1000
#define QUICK_BYTES (16LL * 1024 * 1024)
/* Children that remove containers side by side. */
#define MAX_HELPERS 8U

static int destroy(struct rsbx_session *session, const struct rsbx_journal_item *item,
                   reposbx_error *err)
{
    int rc = REPOSBX_OK;

    /* What was shared while the session was made is everybody's, also when the crash that left it
     * in the journal came first. */
    if (item->kind == RSBX_OBJECT_SLOT || !rsbx_shared_lent(session, item->name))
        rc = session->provider->ops->destroy(session->provider, item->kind, item->name, session->id,
                                             rsbx_deadline_in_ms(RSBX_ENGINE_CALL_MS), err);
    RSBX_FAULT("clear.destroyed");
    return rc == 0 ? rsbx_journal_gone(session, item->kind, item->name, err) : rc;
}

/* One after the other; what goes wrong with one keeps none of the others. */
static int clear_kind(struct rsbx_session *session, const struct rsbx_journal *journal,
                      enum rsbx_object_kind kind, reposbx_error *err)
{
    int first = REPOSBX_OK;

    for (size_t i = 0; i < journal->left_count; i++) {
        int rc;

        if (journal->left[i].kind != kind)
            continue;
        rc = destroy(session, &journal->left[i], first == REPOSBX_OK ? err : NULL);
        first = first != REPOSBX_OK ? first : rc;
    }
    return first;
}

/* A child of ours with a connection of its own. Its failure is no loss: what it has not removed
 * still stands in the journal. */
static _Noreturn void help(struct rsbx_session *session, const struct rsbx_journal_item *item)
{
    session->provider = NULL; /* the parent's connection is the parent's */
    _exit(rsbx_session_provider(session, NULL) == 0 && destroy(session, item, NULL) == 0 ? 0 : 1);
}

/* An engine takes its time for each container, and the same time for several at once. Leaves one
 * to the caller. */
static void remove_side_by_side(struct rsbx_session *session, const struct rsbx_journal *journal)
{
    pid_t helpers[MAX_HELPERS];
    size_t count = 0;
    bool kept = false;

    for (size_t i = 0; i < journal->left_count && count < MAX_HELPERS; i++) {
        const struct rsbx_journal_item *item = &journal->left[i];
        pid_t child;

        if (item->kind != RSBX_OBJECT_SLOT)
            continue;
        if (!kept) {
            kept = true;
            continue;
        }
        child = fork();
        if (child == 0)
            help(session, item);
        if (child > 0)
            helpers[count++] = child;
    }
    for (size_t i = 0; kept && i < journal->left_count; i++) {
        if (journal->left[i].kind == RSBX_OBJECT_SLOT) {
            (void)destroy(session, &journal->left[i], NULL);
            break;
        }
    }
    for (size_t i = 0; i < count; i++) {
        while (waitpid(helpers[i], NULL, 0) < 0 && errno == EINTR)
            continue;
    }
}

static int clear_slots(struct rsbx_session *session, reposbx_error *err)
{
    struct rsbx_journal journal;
    size_t slots = 0;
    int rc = rsbx_journal_read(&journal, session->dir_fd, err);

    if (rc != 0)
        return rc;
    for (size_t i = 0; i < journal.left_count; i++)
        slots += journal.left[i].kind == RSBX_OBJECT_SLOT ? 1 : 0;
    if (slots > 0)
        rc = rsbx_session_provider(session, err);
    if (rc == 0 && slots > 1) {
        remove_side_by_side(session, &journal);
        rsbx_journal_dispose(&journal);
        rc = rsbx_journal_read(&journal, session->dir_fd, err);
    }
    if (rc == 0 && slots > 0)
        rc = clear_kind(session, &journal, RSBX_OBJECT_SLOT, err);
    rsbx_journal_dispose(&journal);
    return rc;
}

/* The session's own, then its part in what it shares. Nothing mounts them any more. */
static int clear_stores(struct rsbx_session *session, reposbx_error *err)
{
    struct rsbx_journal journal;
    int left;
    int rc = rsbx_journal_read(&journal, session->dir_fd, err);

    if (rc != 0)
        return rc;
    if (journal.left_count > 0)
        rc = rsbx_session_provider(session, err);
    if (rc == 0)
        rc = clear_kind(session, &journal, RSBX_OBJECT_STORE, err);
    rsbx_journal_dispose(&journal);
    left = rsbx_shared_leave(session, false, NULL, NULL, rc == 0 ? err : NULL);
    return rc != 0 ? rc : left;
}

int rsbx_session_clear(struct rsbx_session *session, reposbx_error *err)
{
    RSBX_AUTO(rsbx_fd) int keepers_fd = -1;
    int rc = rsbx_keepers_wait(&keepers_fd, session, RSBX_KEEPERS_MS, err);
    int stores;

    if (rc != 0)
        return rc;
    rc = clear_slots(session, err);
    stores = clear_stores(session, rc == 0 ? err : NULL);
    return rc != 0 ? rc : stores;
}

int rsbx_session_clear_slots(struct rsbx_session *session, reposbx_error *err)
{
    RSBX_AUTO(rsbx_fd) int keepers_fd = -1;
    int rc = rsbx_keepers_wait(&keepers_fd, session, RSBX_KEEPERS_MS, err);

    return rc == 0 ? clear_slots(session, err) : rc;
}

/* Whether removing the volumes means removing many or large files. */
static bool takes_long(const struct rsbx_session *session)
{
    const json_t *files = json_object_get(session->metadata, "source_file_count");
    const json_t *bytes = json_object_get(session->metadata, "source_bytes");

    return json_integer_value(files) > QUICK_FILES || json_integer_value(bytes) > QUICK_BYTES;
}

/* Removes the containers, and the volumes too unless a process behind our back may: the journal
 * and the marks say what is left until it is gone. */
static int clear_for_close(bool *behind, struct rsbx_session *session, bool may_leave,
                           reposbx_error *err)
{
    RSBX_AUTO(rsbx_fd) int keepers_fd = -1;
    int stores;
    int rc = rsbx_keepers_wait(&keepers_fd, session, RSBX_KEEPERS_MS, err);

    if (rc != 0)
        return rc;
    rc = clear_slots(session, err);
    *behind = rc == 0 && may_leave && takes_long(session) &&
              rsbx_keeper_finish(session, keepers_fd, clear_stores, NULL) == 0;
    if (*behind)
        return REPOSBX_OK;
    stores = clear_stores(session, rc == 0 ? err : NULL);
    return rc != 0 ? rc : stores;
}

/* What a closed session no longer needs. */
static int drop_files(struct rsbx_session *session, bool drop_audit, reposbx_error *err)
{
    (void)unlinkat(session->dir_fd, "manifest", 0);
    (void)unlinkat(session->dir_fd, "manifest.new", 0);
    if (!drop_audit)
        return REPOSBX_OK;
    rsbx_audit_free(session->audit);
    session->audit = NULL;
    return rsbx_remove_tree_at(session->dir_fd, "audit", err);
}

static bool audit_exists(const struct rsbx_session *session)
{
    return faccessat(session->dir_fd, "audit", F_OK, 0) == 0;
}

int rsbx_session_close(struct rsbx_session *session, int flags, reposbx_error *err)
{
    reposbx_error own = REPOSBX_ERROR_INIT;
    bool was_closed = strcmp(rsbx_session_state(session), "closed") == 0;
    bool drop_audit = (flags & REPOSBX_DROP_AUDIT) != 0;
    bool behind = false;
    int recorded = REPOSBX_OK;
    int rc;

    if (err == NULL)
        err = &own;
    rc = clear_for_close(&behind, session, (flags & REPOSBX_CLOSE_BEHIND) != 0, err);
    if (rc != 0) {
        rsbx_context(err, "session %s is not wholly removed", session->id);
        rsbx_session_poison(session, err->message);
        rsbx_hint(err, "reposbx reap tries again");
        err->code = REPOSBX_EPOISONED;
        return REPOSBX_EPOISONED;
    }
    RSBX_FAULT("close.cleared");
    if (!was_closed && audit_exists(session))
        recorded = rsbx_session_record(session, "sandbox_closed",
                                       json_pack("{s:I, s:b, s:b}", "commands",
                                                 (json_int_t)session->commands_made, "drop_audit",
                                                 drop_audit, "removed", !behind),
                                       RSBX_AUDIT_FINAL, err);
    RSBX_FAULT("close.recorded");
    /* Closed it stays, also when the final record could not be written. */
    rc = rsbx_session_set_state(session, "closed", NULL, recorded == 0 ? err : NULL);
    if (rc == 0)
        rc = drop_files(session, drop_audit, recorded == 0 ? err : NULL);
    return recorded != 0 ? recorded : rc;
}
