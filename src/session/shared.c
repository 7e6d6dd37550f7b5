/* SPDX-License-Identifier: Apache-2.0 */
#include "session/shared.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/lister.h"
#include "base/text.h"
#include "codec/sha256.h"

#include "base/banned.h"

#define KEY_DIGITS 16
/* A folder on its way out; never a key, which starts with a letter. */
#define GONE_PREFIX ".gone-"

int rsbx_shared_key(char out[RSBX_NAME_BYTES], const struct rsbx_session *session,
                    const char *kind, const char *name, const json_t *parts, reposbx_error *err)
{
    RSBX_AUTO(rsbx_json) rsbx_json_ptr bound =
        json_pack("{s:s, s:s, s:s, s:O}", "engine", session->engine, "kind", kind, "name", name,
                  "parts", parts);
    RSBX_AUTO(rsbx_text) char *text = NULL;
    char hex[RSBX_SHA256_HEX_BYTES];
    int rc = bound != NULL ? rsbx_json_canonical(&text, bound, err) : rsbx_fail_memory(err);

    if (rc != 0)
        return rc;
    rsbx_sha256_hex(hex, text, strlen(text));
    (void)snprintf(out, RSBX_NAME_BYTES, "%s-%s-%.*s", kind, name, KEY_DIGITS, hex);
    return REPOSBX_OK;
}

void rsbx_shared_release(struct rsbx_shared *shared)
{
    json_decref(shared->record);
    shared->record = NULL;
    if (shared->lock_fd >= 0)
        (void)close(shared->lock_fd);
    if (shared->dir_fd >= 0)
        (void)close(shared->dir_fd);
    shared->lock_fd = shared->dir_fd = -1;
}

static int lock_folder(struct rsbx_shared *shared, struct rsbx_deadline deadline, reposbx_error *err)
{
    int locked;

    shared->lock_fd =
        openat(shared->dir_fd, "lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (shared->lock_fd < 0)
        return rsbx_fail_errno(err, REPOSBX_EIO, "cannot open the lock of %s", shared->key);
    locked = rsbx_wait_lock(shared->lock_fd, LOCK_EX, deadline);
    if (locked < 0)
        return rsbx_fail_errno(err, REPOSBX_EIO, "cannot lock %s", shared->key);
    if (locked == 0 && rsbx_check_cancelled(deadline.cancel_fd, err) != 0)
        return REPOSBX_ECANCELLED;
    if (locked == 0)
        return rsbx_fail(err, REPOSBX_EBUSY, "another session is filling %s", shared->key);
    return REPOSBX_OK;
}

/* Whether the open folder is still the one of that name: somebody may have removed it while we
 * waited. */
static bool still_there(const struct rsbx_shared *shared, int shared_fd)
{
    struct stat held;
    struct stat named;

    return fstat(shared->dir_fd, &held) == 0 &&
           fstatat(shared_fd, shared->key, &named, AT_SYMLINK_NOFOLLOW) == 0 &&
           held.st_ino == named.st_ino && held.st_dev == named.st_dev;
}

/* Opens and locks STATE/shared/KEY; ENOTFOUND when it is not there and not to be made. */
static int enter(struct rsbx_shared *out, int shared_fd, const char *key, bool make,
                 struct rsbx_deadline deadline, reposbx_error *err)
{
    struct rsbx_shared shared = RSBX_SHARED_INIT;

    (void)snprintf(shared.key, sizeof shared.key, "%s", key);
    for (;;) {
        int rc;

        if (make && mkdirat(shared_fd, key, 0700) != 0 && errno != EEXIST)
            return rsbx_fail_errno(err, REPOSBX_EIO, "cannot make the folder of %s", key);
        shared.dir_fd = openat(shared_fd, key, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (shared.dir_fd < 0 && errno == ENOENT && make)
            continue;
        if (shared.dir_fd < 0)
            return rsbx_fail_errno(err, errno == ENOENT ? REPOSBX_ENOTFOUND : REPOSBX_EIO,
                                   "cannot open the folder of %s", key);
        rc = lock_folder(&shared, deadline, err);
        if (rc == 0 && still_there(&shared, shared_fd)) {
            *out = shared;
            return REPOSBX_OK;
        }
        rsbx_shared_release(&shared);
        if (rc != 0)
            return rc;
    }
}

static int open_shared_fd(int *out, int state_fd, reposbx_error *err)
{
    if (mkdirat(state_fd, "shared", 0700) != 0 && errno != EEXIST)
        return rsbx_fail_errno(err, REPOSBX_EIO, "cannot make the folder of shared stores");
    *out = openat(state_fd, "shared", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (*out < 0)
        return rsbx_fail_errno(err, REPOSBX_EIO, "cannot open the folder of shared stores");
    return REPOSBX_OK;
}

static int load_record(struct rsbx_shared *shared, reposbx_error *err)
{
    int rc = rsbx_session_load(&shared->record, shared->dir_fd, "record.json", err);

    return rc == REPOSBX_ENOTFOUND ? REPOSBX_OK : rc;
}

static int make_mark(const struct rsbx_shared *shared, int shared_fd, const char *id,
                     reposbx_error *err)
{
    int fd = openat(shared->dir_fd, id, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    int rc;

    if (fd < 0)
        return rsbx_fail_errno(err, REPOSBX_EIO, "cannot join %s", shared->key);
    (void)close(fd);
    rc = rsbx_sync_fd(shared->dir_fd, "a shared store's folder", err);
    if (rc == 0 && shared->record == NULL)
        rc = rsbx_sync_fd(shared_fd, "the folder of shared stores", err);
    RSBX_FAULT("shared.marked");
    return rc;
}

int rsbx_shared_hold(struct rsbx_shared *out, struct rsbx_session *session, const char *key,
                     reposbx_error *err)
{
    RSBX_AUTO(rsbx_fd) int shared_fd = -1;
    struct rsbx_shared shared = RSBX_SHARED_INIT;
    int rc = open_shared_fd(&shared_fd, session->state_fd, err);

    if (rc == 0)
        rc = enter(&shared, shared_fd, key, true, rsbx_session_deadline(session, RSBX_READER_MS), err);
    if (rc == 0)
        rc = load_record(&shared, err);
    if (rc == 0)
        rc = make_mark(&shared, shared_fd, session->id, err);
    if (rc != 0) {
        rsbx_shared_release(&shared);
        return rc;
    }
    *out = shared;
    return REPOSBX_OK;
}

int rsbx_shared_publish(struct rsbx_shared *shared, struct rsbx_session *session,
                        const char *store, json_t *facts, reposbx_error *err)
{
    RSBX_AUTO(rsbx_json) rsbx_json_ptr record =
        json_pack("{s:i, s:s, s:s, s:s, s:o}", "version", 1, "store", store, "owner", session->id,
                  "engine", session->engine, "facts", facts);
    RSBX_AUTO(rsbx_text) char *text = NULL;
    int rc;

    if (facts == NULL || record == NULL)
        return rsbx_fail_memory(err);
    rc = rsbx_json_text(&text, record, err);
    if (rc == 0)
        rc = rsbx_replace_file_at(shared->dir_fd, "record.json", text, strlen(text), err);
    RSBX_FAULT("shared.published");
    if (rc == 0)
        rc = rsbx_journal_gone(session, RSBX_OBJECT_STORE, store, err);
    if (rc == 0) {
        json_decref(shared->record);
        shared->record = rsbx_json_steal(&record);
    }
    return rc;
}

int rsbx_shared_update(struct rsbx_shared *shared, json_t *facts, reposbx_error *err)
{
    RSBX_AUTO(rsbx_text) char *text = NULL;
    int rc;

    if (facts == NULL || json_object_set_new(shared->record, "facts", facts) != 0)
        return rsbx_fail_memory(err);
    rc = rsbx_json_text(&text, shared->record, err);
    return rc == 0 ? rsbx_replace_file_at(shared->dir_fd, "record.json", text, strlen(text), err)
                   : rc;
}

int rsbx_shared_unpublish(struct rsbx_shared *shared, reposbx_error *err)
{
    if (unlinkat(shared->dir_fd, "record.json", 0) != 0 && errno != ENOENT)
        return rsbx_fail_errno(err, REPOSBX_EIO, "cannot forget %s", shared->key);
    json_decref(shared->record);
    shared->record = NULL;
    return REPOSBX_OK;
}

/* ---- leaving ---- */

/* The users besides `but`. A mark whose session has no folder any more counts for nothing. */
static int count_users(size_t *out, const struct rsbx_shared *shared, int state_fd,
                       const char *but, reposbx_error *err)
{
    RSBX_AUTO(rsbx_fd) int sessions_fd =
        openat(state_fd, "sessions", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    RSBX_AUTO(rsbx_lister) struct rsbx_lister lister = { NULL, NULL };
    const char *name;
    size_t count = 0;
    int rc;

    if (sessions_fd < 0)
        return rsbx_fail_errno(err, REPOSBX_EIO, "cannot list the users of %s", shared->key);
    rc = rsbx_lister_open(&lister, shared->dir_fd, shared->key, err);
    while (rc == 0 && (rc = rsbx_lister_next(&name, &lister, err)) > 0) {
        rc = 0;
        if (!rsbx_session_id_valid(name) || strcmp(name, but) == 0)
            continue;
        if (faccessat(sessions_fd, name, F_OK, 0) != 0 && errno == ENOENT)
            continue;
        count++;
    }
    if (rc == 0)
        *out = count;
    return rc;
}

/* Removes the folder under its lock: first it loses its name, so that nobody joins what goes. */
static int remove_folder(const struct rsbx_shared *shared, int shared_fd, reposbx_error *err)
{
    uint8_t salt[8];
    char name[sizeof GONE_PREFIX + 2 * sizeof salt];
    int rc = rsbx_random(salt, sizeof salt, err);

    if (rc != 0)
        return rc;
    memcpy(name, GONE_PREFIX, sizeof GONE_PREFIX);
    rsbx_hex(name + sizeof GONE_PREFIX - 1, salt, sizeof salt);
    if (renameat(shared_fd, shared->key, shared_fd, name) != 0)
        return rsbx_fail_errno(err, REPOSBX_EIO, "cannot remove the folder of %s", shared->key);
    RSBX_FAULT("shared.renamed");
    rc = rsbx_remove_tree_at(shared_fd, name, err);
    return rc == 0 ? rsbx_sync_fd(shared_fd, "the folder of shared stores", err) : rc;
}

static int destroy_store(struct rsbx_provider *provider, const json_t *record, reposbx_error *err)
{
    const char *store;
    const char *owner;
    int rc = rsbx_json_get_text(&store, record, "store", "record of a shared store", err);

    if (rc == 0)
        rc = rsbx_json_get_text(&owner, record, "owner", "record of a shared store", err);
    if (rc == 0)
        rc = provider->ops->destroy(provider, RSBX_OBJECT_STORE, store, owner,
                                    rsbx_deadline_in_ms(RSBX_ENGINE_CALL_MS), err);
    RSBX_FAULT("shared.destroyed");
    return rc;
}

static const char *store_of(const struct rsbx_shared *shared)
{
    const char *store = json_string_value(json_object_get(shared->record, "store"));

    return store != NULL ? store : "";
}

struct leave {
    bool dry_run;
    int (*removed)(void *payload, const char *store, reposbx_error *err);
    void *payload;
};

/* The store, when it was filled, and then the folder: a crash between the two leaves a record that
 * is seen to be void. */
static int remove_unused(struct rsbx_session *session, struct rsbx_shared *shared, int shared_fd,
                         const struct leave *leave, reposbx_error *err)
{
    int rc = load_record(shared, err);

    if (rc == 0 && shared->record != NULL && !leave->dry_run)
        rc = rsbx_session_provider(session, err);
    if (rc == 0 && shared->record != NULL && !leave->dry_run)
        rc = destroy_store(session->provider, shared->record, err);
    if (rc == 0 && shared->record != NULL && leave->removed != NULL)
        rc = leave->removed(leave->payload, store_of(shared), err);
    return rc == 0 && !leave->dry_run ? remove_folder(shared, shared_fd, err) : rc;
}

static int leave_one(struct rsbx_session *session, int shared_fd, const char *key,
                     const struct leave *leave, reposbx_error *err)
{
    struct rsbx_shared shared = RSBX_SHARED_INIT;
    size_t others = 0;
    int rc = enter(&shared, shared_fd, key, false, rsbx_deadline_in_ms(RSBX_READER_MS), err);

    if (rc == REPOSBX_ENOTFOUND)
        return REPOSBX_OK;
    if (rc == 0)
        rc = count_users(&others, &shared, session->state_fd, session->id, err);
    if (rc == 0 && others == 0)
        rc = remove_unused(session, &shared, shared_fd, leave, err);
    else if (rc == 0 && !leave->dry_run && unlinkat(shared.dir_fd, session->id, 0) != 0 &&
             errno != ENOENT)
        rc = rsbx_fail_errno(err, REPOSBX_EIO, "cannot leave %s", key);
    RSBX_FAULT("shared.left");
    rsbx_shared_release(&shared);
    return rc;
}

/* The keys that a session has joined, by its documents. */
static const json_t *keys_of(const struct rsbx_session *session)
{
    return json_object_get(session->spec, "shared");
}

int rsbx_shared_leave(struct rsbx_session *session, bool dry_run,
                      int (*removed)(void *payload, const char *store, reposbx_error *err),
                      void *payload, reposbx_error *err)
{
    RSBX_AUTO(rsbx_fd) int shared_fd = -1;
    const struct leave leave = { .dry_run = dry_run, .removed = removed, .payload = payload };
    const json_t *keys = keys_of(session);
    int first = REPOSBX_OK;
    int rc;

    if (json_array_size(keys) == 0)
        return REPOSBX_OK;
    rc = open_shared_fd(&shared_fd, session->state_fd, err);
    if (rc != 0)
        return rc;
    for (size_t i = 0; i < json_array_size(keys); i++) {
        const char *key = json_string_value(json_array_get(keys, i));

        if (key == NULL || key[0] == '.' || strchr(key, '/') != NULL)
            rc = rsbx_fail(err, REPOSBX_EIO, "the session's documents are damaged");
        else
            rc = leave_one(session, shared_fd, key, &leave, first == 0 ? err : NULL);
        first = first != 0 ? first : rc;
    }
    return first;
}

bool rsbx_shared_lent(const struct rsbx_session *session, const char *store)
{
    RSBX_AUTO(rsbx_fd) int shared_fd =
        openat(session->state_fd, "shared", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    const json_t *keys = keys_of(session);
    bool lent = false;

    for (size_t i = 0; shared_fd >= 0 && !lent && i < json_array_size(keys); i++) {
        const char *key = json_string_value(json_array_get(keys, i));
        RSBX_AUTO(rsbx_json) rsbx_json_ptr record = NULL;
        RSBX_AUTO(rsbx_fd) int dir_fd =
            key != NULL ? openat(shared_fd, key, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
                        : -1;
        const char *named;

        if (dir_fd < 0 || rsbx_session_load(&record, dir_fd, "record.json", NULL) != 0)
            continue;
        named = json_string_value(json_object_get(record, "store"));
        lent = named != NULL && strcmp(named, store) == 0;
    }
    return lent;
}

/* ---- reaping ---- */

/* One folder of STATE/shared: removed when no session uses it. Nobody waits for a lock. */
static int reap_one(struct rsbx_state *state, int shared_fd, const char *key, bool dry_run,
                    rsbx_shared_report report, void *payload, reposbx_error *err)
{
    struct rsbx_shared shared = RSBX_SHARED_INIT;
    RSBX_AUTO(rsbx_provider) struct rsbx_provider *provider = NULL;
    reposbx_error why = REPOSBX_ERROR_INIT;
    const char *engine = NULL;
    size_t users = 0;
    int rc = enter(&shared, shared_fd, key, false, rsbx_deadline_in_ms(0), &why);

    if (rc == REPOSBX_EBUSY || rc == REPOSBX_ENOTFOUND)
        return REPOSBX_OK;
    if (rc == 0)
        rc = count_users(&users, &shared, state->dir_fd, "", &why);
    if (rc == 0 && users > 0) {
        rsbx_shared_release(&shared);
        return REPOSBX_OK;
    }
    if (rc == 0)
        rc = load_record(&shared, &why);
    if (rc == 0 && shared.record != NULL && !dry_run) {
        rc = rsbx_json_get_text(&engine, shared.record, "engine", "record of a shared store", &why);
        if (rc == 0)
            rc = rsbx_provider_open(&provider, engine, 0, rsbx_deadline_in_ms(RSBX_ENGINE_CALL_MS),
                                    &why);
        if (rc == 0)
            rc = destroy_store(provider, shared.record, &why);
    }
    if (rc == 0 && !dry_run)
        rc = remove_folder(&shared, shared_fd, &why);
    if (rc != 0 || shared.record != NULL)
        rc = report(payload, key, store_of(&shared), rc != 0 ? why.message : NULL, err);
    rsbx_shared_release(&shared);
    return rc;
}

int rsbx_shared_reap(struct rsbx_state *state, bool dry_run, rsbx_shared_report report,
                     void *payload, reposbx_error *err)
{
    RSBX_AUTO(rsbx_fd) int shared_fd = -1;
    RSBX_AUTO(rsbx_lister) struct rsbx_lister lister = { NULL, NULL };
    const char *name;
    int rc;

    if (faccessat(state->dir_fd, "shared", F_OK, AT_SYMLINK_NOFOLLOW) != 0 && errno == ENOENT)
        return REPOSBX_OK; /* whoever clears up makes nothing */
    rc = open_shared_fd(&shared_fd, state->dir_fd, err);
    if (rc == 0)
        rc = rsbx_lister_open(&lister, shared_fd, "the shared stores", err);
    while (rc == 0 && (rc = rsbx_lister_next(&name, &lister, err)) > 0) {
        rc = 0;
        if (strncmp(name, GONE_PREFIX, sizeof GONE_PREFIX - 1) == 0) {
            if (!dry_run)
                rc = rsbx_remove_tree_at(shared_fd, name, err);
        } else if (name[0] != '.') {
            rc = reap_one(state, shared_fd, name, dry_run, report, payload, err);
        }
    }
    return rc;
}
