/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/fd.h"
#include "base/limits.h"
#include "session/internal.h"

#include "base/banned.h"

/* Containers before stores: a store that is mounted cannot go. */
static int clear_kind(struct rsbx_session *session, const struct rsbx_journal *journal,
                      enum rsbx_object_kind kind, reposbx_error *err)
{
    int first = REPOSBX_OK;

    for (size_t i = 0; i < journal->left_count; i++) {
        const struct rsbx_journal_item *item = &journal->left[i];
        reposbx_error why = REPOSBX_ERROR_INIT;
        int rc;

        if (item->kind != kind)
            continue;
        rc = session->provider->ops->destroy(session->provider, kind, item->name, session->id,
                                             rsbx_deadline_in_ms(RSBX_ENGINE_CALL_MS), &why);
        RSBX_FAULT("clear.destroyed");
        if (rc == 0)
            rc = rsbx_journal_gone(session, kind, item->name, &why);
        if (rc != 0 && first == REPOSBX_OK) {
            first = rc;
            if (err != NULL)
                *err = why;
        }
    }
    return first;
}

static int clear(struct rsbx_session *session, bool stores_too, reposbx_error *err)
{
    RSBX_AUTO(rsbx_fd) int keepers_fd = -1;
    struct rsbx_journal journal;
    int rc = rsbx_keepers_wait(&keepers_fd, session, RSBX_KEEPERS_MS, err);

    if (rc == 0)
        rc = rsbx_journal_read(&journal, session->dir_fd, err);
    if (rc != 0)
        return rc;
    if (journal.left_count > 0) {
        rc = rsbx_session_provider(session, err);
        if (rc == 0) {
            rc = clear_kind(session, &journal, RSBX_OBJECT_SLOT, err);
            if (stores_too) {
                int stores = clear_kind(session, &journal, RSBX_OBJECT_STORE,
                                        rc == 0 ? err : NULL);

                rc = rc != 0 ? rc : stores;
            }
        }
    }
    rsbx_journal_dispose(&journal);
    return rc;
}

int rsbx_session_clear(struct rsbx_session *session, reposbx_error *err)
{
    return clear(session, true, err);
}

int rsbx_session_clear_slots(struct rsbx_session *session, reposbx_error *err)
{
    return clear(session, false, err);
}

/* What a closed session no longer needs. */
static int drop_files(struct rsbx_session *session, int drop_audit, reposbx_error *err)
{
    (void)unlinkat(session->dir_fd, "manifest", 0);
    (void)unlinkat(session->dir_fd, "manifest.new", 0);
    if (drop_audit == REPOSBX_KEEP_AUDIT)
        return REPOSBX_OK;
    rsbx_audit_free(session->audit);
    session->audit = NULL;
    return rsbx_remove_tree_at(session->dir_fd, "audit", err);
}

static bool audit_exists(const struct rsbx_session *session)
{
    return faccessat(session->dir_fd, "audit", F_OK, 0) == 0;
}

int rsbx_session_close(struct rsbx_session *session, int drop_audit, reposbx_error *err)
{
    reposbx_error own = REPOSBX_ERROR_INIT;
    bool was_closed = strcmp(rsbx_session_state(session), "closed") == 0;
    int recorded = REPOSBX_OK;
    int rc;

    if (err == NULL)
        err = &own;
    rc = rsbx_session_clear(session, err);
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
                                       json_pack("{s:I, s:b}", "commands",
                                                 (json_int_t)session->commands_made, "drop_audit",
                                                 drop_audit != REPOSBX_KEEP_AUDIT),
                                       RSBX_AUDIT_FINAL, err);
    RSBX_FAULT("close.recorded");
    /* Closed it stays, also when the final record could not be written. */
    rc = rsbx_session_set_state(session, "closed", NULL, recorded == 0 ? err : NULL);
    if (rc == 0)
        rc = drop_files(session, drop_audit, recorded == 0 ? err : NULL);
    return recorded != 0 ? recorded : rc;
}
