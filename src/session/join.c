/* SPDX-License-Identifier: Apache-2.0 */
#include "session/join.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/text.h"
#include "codec/sha256.h"
#include "guest/embedded.h"

#include "base/banned.h"

/* Of how a baseline lies in its store: another number, other stores. */
#define GUEST_KIND "guest1"
#define BASELINE_KIND "base2"

void rsbx_join_release(struct rsbx_joined *joined)
{
    rsbx_shared_release(&joined->guest);
    rsbx_shared_release(&joined->baseline);
}

/* The store of a record, as long as the engine still has it. */
static int known_store(char store[RSBX_NAME_BYTES], char owner[REPOSBX_SESSION_ID_BYTES],
                       struct rsbx_shared *shared, struct rsbx_session *session,
                       reposbx_error *err)
{
    static const char what[] = "record of a shared store";
    struct rsbx_store_spec spec = { .must_exist = true };
    reposbx_error why = REPOSBX_ERROR_INIT;
    int rc = rsbx_json_get_text(&spec.name, shared->record, "store", what, err);

    if (rc == 0)
        rc = rsbx_json_get_text(&spec.session_id, shared->record, "owner", what, err);
    if (rc == 0 && (strlen(spec.name) >= RSBX_NAME_BYTES || !rsbx_session_id_valid(spec.session_id)))
        rc = rsbx_fail(err, REPOSBX_EIO, "the record of %s is damaged", shared->key);
    if (rc != 0)
        return rc;
    rc = session->provider->ops->make_store(session->provider, &spec,
                                            rsbx_session_deadline(session, RSBX_ENGINE_CALL_MS), &why);
    if (rc == REPOSBX_ENOTFOUND)
        return rsbx_shared_unpublish(shared, err); /* somebody removed it: it is filled anew */
    if (rc != 0) {
        if (err != NULL)
            *err = why;
        return rc;
    }
    (void)snprintf(store, RSBX_NAME_BYTES, "%s", spec.name);
    (void)snprintf(owner, REPOSBX_SESSION_ID_BYTES, "%s", spec.session_id);
    return REPOSBX_OK;
}

/* A new name each time: what an attempt that failed has left is never taken for the content. */
static int settle(char store[RSBX_NAME_BYTES], char owner[REPOSBX_SESSION_ID_BYTES],
                  struct rsbx_shared *shared, struct rsbx_session *session, reposbx_error *err)
{
    uint8_t salt[4];
    char hex[2 * sizeof salt + 1];
    int rc = REPOSBX_OK;

    if (shared->record != NULL)
        rc = known_store(store, owner, shared, session, err);
    if (rc != 0)
        return rc;
    if (shared->record != NULL) /* filled: nothing of ours changes it any more */
        return REPOSBX_OK;
    rc = rsbx_random(salt, sizeof salt, err);
    if (rc != 0)
        return rc;
    rsbx_hex(hex, salt, sizeof salt);
    (void)snprintf(store, RSBX_NAME_BYTES, "sbx-%.90s-%s", shared->key, hex);
    (void)snprintf(owner, REPOSBX_SESSION_ID_BYTES, "%s", session->id);
    return REPOSBX_OK;
}

static int guest_key(char key[RSBX_NAME_BYTES], const struct rsbx_session *session,
                     reposbx_error *err)
{
    char digest[RSBX_SHA256_HEX_BYTES];
    RSBX_AUTO(rsbx_json) rsbx_json_ptr parts = NULL;

    rsbx_sha256_hex(digest, rsbx_guest_binary, rsbx_guest_binary_size);
    parts = json_pack("{s:s}", "sha256", digest);
    if (parts == NULL)
        return rsbx_fail_memory(err);
    digest[16] = '\0';
    return rsbx_shared_key(key, session, GUEST_KIND, digest, parts, err);
}

static int join_keys(struct rsbx_joined *out, struct rsbx_session *session, const char *guest,
                     const char *baseline, reposbx_error *err)
{
    char owner[REPOSBX_SESSION_ID_BYTES];
    struct rsbx_joined joined = RSBX_JOINED_INIT;
    int rc = rsbx_shared_hold(&joined.guest, session, guest, err);

    if (rc == 0)
        rc = settle(session->guest_store, owner, &joined.guest, session, err);
    if (rc == 0)
        rc = rsbx_shared_hold(&joined.baseline, session, baseline, err);
    if (rc == 0)
        rc = settle(session->baseline_store, session->baseline_owner, &joined.baseline, session,
                    err);
    if (rc != 0) {
        rsbx_join_release(&joined);
        return rc;
    }
    *out = joined;
    return REPOSBX_OK;
}

int rsbx_join(struct rsbx_joined *out, struct rsbx_session *session, const char *tree,
              const json_t *parts, reposbx_error *err)
{
    char guest[RSBX_NAME_BYTES];
    char baseline[RSBX_NAME_BYTES];
    int rc = guest_key(guest, session, err);

    if (rc == 0)
        rc = rsbx_shared_key(baseline, session, BASELINE_KIND, tree, parts, err);
    return rc == 0 ? join_keys(out, session, guest, baseline, err) : rc;
}

int rsbx_join_of(struct rsbx_joined *out, struct rsbx_session *session,
                 const struct rsbx_session *other, reposbx_error *err)
{
    const json_t *keys = json_object_get(other->spec, "shared");
    const char *guest = json_string_value(json_array_get(keys, 0));
    const char *baseline = json_string_value(json_array_get(keys, 1));
    struct rsbx_joined joined = RSBX_JOINED_INIT;
    int rc;

    if (guest == NULL || baseline == NULL)
        return rsbx_fail(err, REPOSBX_EIO, "the documents of session %s are damaged", other->id);
    rc = join_keys(&joined, session, guest, baseline, err);
    if (rc == 0 && (joined.guest.record == NULL || joined.baseline.record == NULL))
        rc = rsbx_fail(err, REPOSBX_EUNAVAILABLE, "the baseline of session %s is not there any more",
                       other->id);
    if (rc != 0) {
        rsbx_join_release(&joined);
        return rc;
    }
    *out = joined;
    return REPOSBX_OK;
}

const json_t *rsbx_join_facts(const struct rsbx_joined *joined)
{
    return json_object_get(joined->baseline.record, "facts");
}

const char *rsbx_join_overlay(const struct rsbx_joined *joined)
{
    return json_string_value(json_object_get(rsbx_join_facts(joined), "overlay"));
}

int rsbx_join_publish_guest(struct rsbx_joined *joined, struct rsbx_session *session,
                            reposbx_error *err)
{
    int rc = REPOSBX_OK;

    if (joined->guest.record == NULL)
        rc = rsbx_shared_publish(&joined->guest, session, session->guest_store, json_object(), err);
    rsbx_shared_release(&joined->guest); /* nobody who joins needs to wait for the baseline */
    return rc;
}

int rsbx_join_publish_baseline(struct rsbx_joined *joined, struct rsbx_session *session,
                               json_t *facts, reposbx_error *err)
{
    RSBX_AUTO(rsbx_json) rsbx_json_ptr owned = facts;

    (void)unlinkat(joined->baseline.dir_fd, "manifest", 0);
    if (linkat(session->dir_fd, "manifest", joined->baseline.dir_fd, "manifest", 0) != 0)
        return rsbx_fail_errno(err, REPOSBX_EIO, "cannot share the manifest");
    return rsbx_shared_publish(&joined->baseline, session, session->baseline_store,
                               rsbx_json_steal(&owned), err);
}

int rsbx_join_manifest(const struct rsbx_joined *joined, struct rsbx_session *session,
                       reposbx_error *err)
{
    if (linkat(joined->baseline.dir_fd, "manifest", session->dir_fd, "manifest", 0) != 0)
        return rsbx_fail_errno(err, REPOSBX_EIO, "cannot take over the baseline's manifest");
    return rsbx_sync_fd(session->dir_fd, "the session folder", err);
}

json_t *rsbx_join_spec(const struct rsbx_joined *joined, const struct rsbx_session *session)
{
    return json_pack("{s:[s, s], s:s, s:s, s:s}", "shared", joined->guest.key,
                     joined->baseline.key, "guest_store", session->guest_store, "baseline_store",
                     session->baseline_store, "baseline_owner", session->baseline_owner);
}
