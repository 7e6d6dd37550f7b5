/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "base/fd.h"
#include "base/limits.h"
#include "session/internal.h"

#include "base/banned.h"

static int load_documents(struct rsbx_session *session, reposbx_error *err)
{
    RSBX_AUTO(rsbx_text) char *policy = NULL;
    int rc = rsbx_session_load(&session->metadata, session->dir_fd, "metadata.json", err);

    if (rc == 0)
        rc = rsbx_session_load(&session->spec, session->dir_fd, "spec.json", err);
    if (rc == 0)
        rc = rsbx_json_text(&policy, json_object_get(session->metadata, "policy"), err);
    if (rc == 0)
        rc = reposbx_policy_parse(&session->policy, policy, strlen(policy), err);
    if (rc == 0)
        rc = rsbx_journal_follow(session, err);
    if (rc != 0)
        return rc;
    /* A closed session of which nothing is left has had its fault cleared up. */
    if (session->journal.fault != NULL &&
        (session->journal.left_count > 0 || strcmp(rsbx_session_state(session), "closed") != 0))
        rsbx_session_poison(session, session->journal.fault);
    return REPOSBX_OK;
}

int rsbx_session_own_engine(struct rsbx_session *session, reposbx_error *err)
{
    const char *engine = json_string_value(json_object_get(session->spec, "engine"));
    char *copy = engine != NULL ? strdup(engine) : NULL;

    if (engine == NULL)
        return rsbx_fail(err, REPOSBX_EIO, "the session's documents name no engine");
    if (copy == NULL)
        return rsbx_fail_memory(err);
    free(session->engine);
    session->engine = copy;
    return REPOSBX_OK;
}

/* The stores that the session shares with others. */
static int own_stores(struct rsbx_session *session, reposbx_error *err)
{
    static const char what[] = "the session's documents";
    const char *guest;
    const char *baseline;
    const char *owner;
    int rc = rsbx_json_get_text(&guest, session->spec, "guest_store", what, err);

    if (rc == 0)
        rc = rsbx_json_get_text(&baseline, session->spec, "baseline_store", what, err);
    if (rc == 0)
        rc = rsbx_json_get_text(&owner, session->spec, "baseline_owner", what, err);
    if (rc != 0)
        return rc;
    (void)snprintf(session->guest_store, sizeof session->guest_store, "%s", guest);
    (void)snprintf(session->baseline_store, sizeof session->baseline_store, "%s", baseline);
    (void)snprintf(session->baseline_owner, sizeof session->baseline_owner, "%s", owner);
    return REPOSBX_OK;
}

int rsbx_session_seccomp(char **out, const reposbx_policy *policy, int dir_fd, const char *name,
                         reposbx_error *err)
{
    RSBX_AUTO(rsbx_buf) struct rsbx_buf text = RSBX_BUF_INIT(RSBX_MAX_SECCOMP_BYTES);
    RSBX_AUTO(rsbx_json) rsbx_json_ptr profile = NULL;
    int rc;

    if (policy->seccomp_profile == NULL)
        return REPOSBX_OK;
    rc = rsbx_read_file_at(&text, dir_fd, name, err);
    if (rc == 0)
        rc = rsbx_json_parse(&profile, text.data != NULL ? text.data : "", text.length,
                             "seccomp_profile", err);
    if (rc == 0)
        rc = rsbx_json_text(out, profile, err);
    return rc;
}

int rsbx_session_open(struct rsbx_session **out, struct rsbx_state *state, const char *id,
                      reposbx_error *err)
{
    RSBX_AUTO(rsbx_session) struct rsbx_session *session = NULL;
    int rc = rsbx_session_folder(&session, state, id, false, err);

    if (rc == 0)
        rc = rsbx_session_take_lock(session, err);
    if (rc == 0)
        rc = load_documents(session, err);
    if (rc == 0)
        rc = rsbx_session_own_engine(session, err);
    if (rc == 0)
        rc = own_stores(session, err);
    if (rc == 0)
        /* As it was at creation, whatever the policy's file holds by now. */
        rc = rsbx_session_seccomp(&session->seccomp_profile, session->policy, session->dir_fd,
                                  "seccomp.json", err);
    if (rc == 0)
        *out = rsbx_session_steal(&session);
    return rc;
}
