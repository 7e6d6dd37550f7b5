/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RSBX_SESSION_JOIN_H
#define RSBX_SESSION_JOIN_H

#include "session/shared.h"

/*
 * How a session that is being made comes to its guest store and its baseline: it joins those of
 * other sessions with the same content, or makes them and shares them from then on.
 */
struct rsbx_joined {
    struct rsbx_shared guest, baseline;
};
#define RSBX_JOINED_INIT { RSBX_SHARED_INIT, RSBX_SHARED_INIT }

/* Names the session's two stores and joins their keys; the locks are held as long as something has
 * to be filled. `tree`: hex id, or "plain" and the session's own digits; `parts`: whatever else
 * changes the snapshot. */
int rsbx_join(struct rsbx_joined *out, struct rsbx_session *session, const char *tree,
              const json_t *parts, reposbx_error *err);
/* The keys of another session that lives: a fork's. Both must be filled. */
int rsbx_join_of(struct rsbx_joined *out, struct rsbx_session *session,
                 const struct rsbx_session *other, reposbx_error *err);
void rsbx_join_release(struct rsbx_joined *joined);

/* The facts of a baseline that is filled, or NULL. Borrowed. */
const json_t *rsbx_join_facts(const struct rsbx_joined *joined);
/* "works", a reason why not, or NULL when nobody has tried an overlay over this baseline yet. */
const char *rsbx_join_overlay(const struct rsbx_joined *joined);

int rsbx_join_publish_guest(struct rsbx_joined *joined, struct rsbx_session *session,
                            reposbx_error *err);
/* With the session's manifest. */
int rsbx_join_publish_baseline(struct rsbx_joined *joined, struct rsbx_session *session,
                               json_t *facts, reposbx_error *err);
/* Gives the session the manifest of a baseline that is filled. */
int rsbx_join_manifest(const struct rsbx_joined *joined, struct rsbx_session *session,
                       reposbx_error *err);
/* The keys, and the names of the stores, for the session's spec. NULL without memory. */
json_t *rsbx_join_spec(const struct rsbx_joined *joined, const struct rsbx_session *session);

#endif
