/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RSBX_SESSION_SHARED_H
#define RSBX_SESSION_SHARED_H

#include "session/internal.h"

/*
 * Stores that live sessions share: the guest's binary, and a baseline for each tree. Both are only
 * ever mounted read-only once they are filled. On disk, STATE/shared/KEY/:
 *     lock           flock()ed by whoever fills, joins, leaves or removes
 *     sbx-…          one empty file for each session that uses it, made before the use
 *     record.json    once it is filled: store, owner, engine, and facts of its content
 *     manifest       of a baseline
 * The key follows from the content and the engine, so that the same content is found again. The last
 * session that leaves removes the store and the folder; reap does so for sessions that are no more.
 * A session must not hold a key while it leaves it.
 */
struct rsbx_shared {
    char key[RSBX_NAME_BYTES];
    int dir_fd, lock_fd; /* held exclusively; -1: not */
    json_t *record;      /* NULL: not filled yet */
};
#define RSBX_SHARED_INIT { .dir_fd = -1, .lock_fd = -1 }

/* KIND-NAME-DIGEST: the digest binds the engine and everything in `parts` that changes the
 * content. */
int rsbx_shared_key(char out[RSBX_NAME_BYTES], const struct rsbx_session *session,
                    const char *kind, const char *name, const json_t *parts, reposbx_error *err);

/* Joins: the session's mark is durable and the lock held when it returns. Waits for one that
 * fills. */
int rsbx_shared_hold(struct rsbx_shared *out, struct rsbx_session *session, const char *key,
                     reposbx_error *err);
/* The store of the session's journal becomes everybody's, with facts (stolen; NULL: out of
 * memory). */
int rsbx_shared_publish(struct rsbx_shared *shared, struct rsbx_session *session,
                        const char *store, json_t *facts, reposbx_error *err);
/* Other facts for what is filled already (stolen; NULL: out of memory). */
int rsbx_shared_update(struct rsbx_shared *shared, json_t *facts, reposbx_error *err);
/* Forgets a record whose store is not there any more. */
int rsbx_shared_unpublish(struct rsbx_shared *shared, reposbx_error *err);
/* Lets the lock go; the mark stays. */
void rsbx_shared_release(struct rsbx_shared *shared);

/* Takes the session's marks away; a store that nobody else uses is removed. `removed`, when not
 * NULL, is told its name. With dry_run it is only told. Idempotent. */
int rsbx_shared_leave(struct rsbx_session *session, bool dry_run,
                      int (*removed)(void *payload, const char *store, reposbx_error *err),
                      void *payload, reposbx_error *err);
/* Whether a store that stands in the session's journal has become everybody's. */
bool rsbx_shared_lent(const struct rsbx_session *session, const char *store);

/* The same for the marks of sessions that have no folder any more, and for what nobody uses. */
typedef int (*rsbx_shared_report)(void *payload, const char *key, const char *store,
                                  const char *failure, reposbx_error *err);
int rsbx_shared_reap(struct rsbx_state *state, bool dry_run, rsbx_shared_report report,
                     void *payload, reposbx_error *err);

#endif
