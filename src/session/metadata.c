/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/lister.h"
#include "session/internal.h"

#include "base/banned.h"

const char *rsbx_session_state(const struct rsbx_session *session)
{
    const char *state = json_string_value(json_object_get(session->metadata, "state"));

    return state != NULL ? state : "poisoned";
}

bool rsbx_session_state_known(const char *state)
{
    static const char *const states[] = { "creating", "ready", "closed", "poisoned" };

    for (size_t i = 0; i < sizeof states / sizeof states[0]; i++) {
        if (strcmp(state, states[i]) == 0)
            return true;
    }
    return false;
}

bool rsbx_session_overlay(const struct rsbx_session *session)
{
    const char *mode = json_string_value(json_object_get(session->metadata, "workspace"));

    return mode != NULL && strcmp(mode, "overlay") == 0;
}

int rsbx_session_set_state(struct rsbx_session *session, const char *state, const char *reason,
                           reposbx_error *err)
{
    if (json_object_set_new(session->metadata, "state", json_string(state)) != 0 ||
        (reason != NULL && json_object_set_new(session->metadata, "state_reason",
                                               rsbx_json_bytes(reason, strlen(reason))) != 0))
        return rsbx_fail_memory(err);
    return rsbx_session_save(session, "metadata.json", session->metadata, err);
}

void rsbx_session_poison(struct rsbx_session *session, const char *reason)
{
    json_t *data;

    if (session->metadata == NULL || strcmp(rsbx_session_state(session), "poisoned") == 0)
        return;
    (void)rsbx_session_set_state(session, "poisoned", reason, NULL);
    data = json_pack("{s:o}", "reason", rsbx_json_bytes(reason, strlen(reason)));
    if (session->audit != NULL && data != NULL)
        (void)rsbx_audit_append(session->audit, "session_poisoned", data, RSBX_AUDIT_FINAL, NULL);
    json_decref(data);
}

int rsbx_session_expired(bool *out, const json_t *metadata, const json_t *spec, reposbx_error *err)
{
    const json_t *policy = json_object_get(metadata, "policy");
    const json_t *lease =
        json_object_get(json_object_get(policy, "session"), "lease_seconds");
    const char *born_boot = json_string_value(json_object_get(spec, "boot_id"));
    const json_t *born = json_object_get(spec, "monotonic_ns");
    const json_t *born_wall = json_object_get(spec, "wall_ns");
    char boot[RSBX_BOOT_ID_BYTES];
    uint64_t age_ns;
    int rc = rsbx_boot_id(boot, err);

    if (rc != 0)
        return rc;
    if (!json_is_integer(lease) || born_boot == NULL || !json_is_integer(born) ||
        !json_is_integer(born_wall))
        return rsbx_fail(err, REPOSBX_EIO, "the session's documents are damaged");
    if (strcmp(boot, born_boot) == 0) {
        age_ns = rsbx_now_ns() - (uint64_t)json_integer_value(born);
    } else {
        /* Another boot: the monotonic clock began anew, only the wall clock is left. */
        uint64_t now = rsbx_wall_ns();
        uint64_t then = (uint64_t)json_integer_value(born_wall);

        age_ns = now > then ? now - then : 0;
    }
    *out = age_ns / 1000000000ULL >= (uint64_t)json_integer_value(lease);
    return REPOSBX_OK;
}

int rsbx_session_usable(struct rsbx_session *session, reposbx_error *err)
{
    const char *state = rsbx_session_state(session);
    bool expired = false;
    int rc;

    if (strcmp(state, "closed") == 0) {
        (void)rsbx_fail(err, REPOSBX_ECLOSED, "session %s is closed", session->id);
        rsbx_hint(err, "reposbx session create makes a new one");
        return REPOSBX_ECLOSED;
    }
    if (strcmp(state, "ready") != 0) {
        const char *reason =
            json_string_value(json_object_get(session->metadata, "state_reason"));

        (void)rsbx_fail(err, REPOSBX_EPOISONED, "session %s is %s%s%s", session->id,
                        strcmp(state, "creating") == 0 ? "half made" : "poisoned",
                        reason != NULL ? ": " : "", reason != NULL ? reason : "");
        rsbx_hint(err, "reposbx session close %s, or reposbx reap, removes it", session->id);
        return REPOSBX_EPOISONED;
    }
    rc = rsbx_session_expired(&expired, session->metadata, session->spec, err);
    if (rc != 0)
        return rc;
    if (expired) {
        (void)rsbx_fail(err, REPOSBX_ECLOSED, "the lease of session %s is over", session->id);
        rsbx_hint(err, "close it, and create a new one; session.lease_seconds of the policy sets "
                       "how long a session lives");
        return REPOSBX_ECLOSED;
    }
    return REPOSBX_OK;
}

int rsbx_session_provider(struct rsbx_session *session, reposbx_error *err)
{
    const json_t *known = json_object_get(session->spec, "engine_known");

    if (session->provider != NULL)
        return REPOSBX_OK;
    return rsbx_provider_open(&session->provider, session->engine,
                              json_is_integer(known) ? (unsigned int)json_integer_value(known) : 0,
                              rsbx_session_deadline(session, RSBX_ENGINE_CALL_MS), err);
}

int rsbx_session_audit(struct rsbx_session *session, reposbx_error *err)
{
    uint64_t limit = session->policy != NULL ? session->policy->audit_bytes : 0;

    if (session->audit != NULL)
        return REPOSBX_OK;
    if (session->audit_fd < 0) {
        session->audit_fd =
            openat(session->dir_fd, "audit", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (session->audit_fd < 0)
            return rsbx_fail_errno(err, REPOSBX_EIO, "cannot open the audit folder of %s",
                                   session->id);
    }
    return rsbx_audit_open(&session->audit, session->audit_fd, limit, err);
}

int rsbx_session_record(struct rsbx_session *session, const char *event, json_t *data,
                        enum rsbx_audit_weight weight, reposbx_error *err)
{
    RSBX_AUTO(rsbx_json) rsbx_json_ptr owned = data;
    reposbx_error why = REPOSBX_ERROR_INIT;
    int rc = owned != NULL ? rsbx_session_audit(session, &why) : rsbx_fail_memory(&why);

    if (rc == 0)
        rc = rsbx_audit_append(session->audit, event, owned, weight, &why);
    if (rc == 0)
        return REPOSBX_OK;
    rsbx_context(&why, "the audit record %s could not be written", event);
    rsbx_session_poison(session, why.message);
    if (rc == REPOSBX_ELIMIT)
        rsbx_hint(&why, "session.audit_bytes of the policy bounds the whole audit folder");
    else
        why.code = rc = REPOSBX_EIO;
    if (err != NULL)
        *err = why;
    return rc;
}

uint64_t rsbx_record_bytes(const char *text)
{
    uint64_t bytes = sizeof "\"\", ";

    for (; *text != '\0'; text++)
        bytes += *text >= ' ' && *text <= '~' && *text != '"' && *text != '\\' ? 1 : 8;
    return bytes;
}

int rsbx_session_refused(struct rsbx_session *session, const char *operation, int code,
                         reposbx_error *err)
{
    json_t *data = json_pack("{s:s, s:s, s:s}", "operation", operation, "code",
                             reposbx_code_word(code), "message", err != NULL ? err->message : "");

    /* A log that cannot take this line poisons the session; the refusal itself stands either
     * way. */
    (void)rsbx_session_record(session, code == REPOSBX_EPOLICY ? "refused" : "failed", data,
                              RSBX_AUDIT_ORDINARY, NULL);
    return code;
}

/* Reads the public document of one session folder, with "expired" worked out. */
static int load_public(json_t **out, struct rsbx_state *state, const char *id, reposbx_error *err)
{
    RSBX_AUTO(rsbx_json) rsbx_json_ptr metadata = NULL;
    RSBX_AUTO(rsbx_json) rsbx_json_ptr spec = NULL;
    RSBX_AUTO(rsbx_session) struct rsbx_session *session = NULL;
    bool expired = false;
    int rc = rsbx_session_folder(&session, state, id, false, err);

    if (rc == 0)
        rc = rsbx_session_load(&metadata, session->dir_fd, "metadata.json", err);
    if (rc == 0)
        rc = rsbx_session_load(&spec, session->dir_fd, "spec.json", err);
    if (rc == 0)
        rc = rsbx_session_expired(&expired, metadata, spec, err);
    if (rc != 0)
        return rc;
    session->metadata = json_incref(metadata);
    if (expired && strcmp(rsbx_session_state(session), "ready") == 0 &&
        json_object_set_new(metadata, "state", json_string("expired")) != 0)
        return rsbx_fail_memory(err);
    *out = rsbx_json_steal(&metadata);
    return REPOSBX_OK;
}

int rsbx_metadata_text(char **out, struct rsbx_state *state, const char *id, reposbx_error *err)
{
    RSBX_AUTO(rsbx_json) rsbx_json_ptr metadata = NULL;
    int rc = load_public(&metadata, state, id, err);

    if (rc == 0)
        rc = rsbx_json_text(out, metadata, err);
    return rc;
}

static const char *created_at(const json_t *metadata)
{
    const char *text = json_string_value(json_object_get(metadata, "created_at"));

    return text != NULL ? text : "";
}

static int newest_first(const void *a, const void *b)
{
    return strcmp(created_at(*(json_t *const *)b), created_at(*(json_t *const *)a));
}

/* Collects the readable documents of every session folder into list[count] (grown). */
static int collect(json_t ***list, size_t *count, struct rsbx_state *state, reposbx_error *err)
{
    RSBX_AUTO(rsbx_lister) struct rsbx_lister lister = { NULL, NULL };
    const char *name;
    int rc = rsbx_lister_open(&lister, state->sessions_fd, "the sessions", err);

    while (rc == 0 && (rc = rsbx_lister_next(&name, &lister, err)) > 0) {
        json_t *metadata = NULL;
        json_t **grown;

        rc = 0;
        if (!rsbx_session_id_valid(name) || load_public(&metadata, state, name, NULL) != 0)
            continue;
        grown = realloc(*list, (*count + 1) * sizeof **list);
        if (grown == NULL) {
            json_decref(metadata);
            return rsbx_fail_memory(err);
        }
        *list = grown;
        grown[(*count)++] = metadata;
    }
    return rc;
}

int rsbx_metadata_list(char **out, struct rsbx_state *state, reposbx_error *err)
{
    RSBX_AUTO(rsbx_json) rsbx_json_ptr array = json_array();
    json_t **list = NULL;
    size_t count = 0;
    int rc = collect(&list, &count, state, err);

    if (count > 0)
        qsort(list, count, sizeof *list, newest_first);
    for (size_t i = 0; i < count; i++) {
        if (json_array_append_new(array, list[i]) != 0)
            rc = rsbx_fail_memory(err);
    }
    free(list);
    if (rc == 0)
        rc = rsbx_json_text(out, array, err);
    return rc;
}

int rsbx_audit_path(char **out, struct rsbx_state *state, const char *id, reposbx_error *err)
{
    RSBX_AUTO(rsbx_session) struct rsbx_session *session = NULL;
    int rc = rsbx_session_folder(&session, state, id, false, err);

    if (rc != 0)
        return rc;
    if (faccessat(session->dir_fd, "audit", F_OK, 0) != 0)
        return rsbx_fail(err, REPOSBX_ENOTFOUND, "the audit of session %s was dropped", id);
    *out = session->audit_dir;
    session->audit_dir = NULL;
    return REPOSBX_OK;
}
