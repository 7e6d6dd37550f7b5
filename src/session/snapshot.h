/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RSBX_SESSION_SNAPSHOT_H
#define RSBX_SESSION_SNAPSHOT_H

#include "session/internal.h"
#include "source/source.h"

/* What the snapshot turned out to be. */
struct rsbx_snapshot {
    char fingerprint[RSBX_FINGERPRINT_BYTES];
    uint8_t fingerprint_raw[32], rest_digest[32];
    uint64_t fingerprint_entries;
    uint64_t files, bytes;
    char tree[41];
    json_t *notes; /* array of texts; owned */
};

struct rsbx_snapshot_order {
    struct rsbx_source *source;
    const char *const *excludes;
    size_t exclude_count;
    uint64_t max_files;
    bool no_slots; /* where nothing runs: whoever goes on with the workspace prepares the waiting slots */
    /* Makes the workspace a plain store, when an overlay does not work and need not; NULL: it
     * must. */
    int (*fall_back)(struct rsbx_session *session, reposbx_error *err);
    void (*progress)(void *payload, const reposbx_progress *progress);
    void *progress_payload;
};

/* What the policy says of sources, as the reader wants it (repository.c). */
struct rsbx_source_options rsbx_source_options_of(const reposbx_policy *policy, const char *repo,
                                                  const char *revision);

/* Streams the source into the session's baseline store through a guest, writes the manifest, then
 * has a second guest read the sealed baseline, compare the fingerprint and the rest digest, and
 * copy the workspace. */
int rsbx_snapshot_make(struct rsbx_snapshot *out, struct rsbx_session *session,
                       const struct rsbx_snapshot_order *order, reposbx_error *err);
/* The same of a baseline that was filled and sealed before, as its facts say. `mount`: a guest reads
 * the whole of it once more, which is also how a copied workspace is made and an overlay is tried;
 * otherwise nothing is read and nothing runs. */
int rsbx_snapshot_known(struct rsbx_snapshot *out, struct rsbx_session *session,
                        const struct rsbx_snapshot_order *order, const json_t *facts, bool mount,
                        reposbx_error *err);
/* What rsbx_snapshot_known needs to be told later; NULL without memory. */
json_t *rsbx_snapshot_facts(const struct rsbx_snapshot *snapshot, const char *overlay);
void rsbx_snapshot_dispose(struct rsbx_snapshot *snapshot);

#endif
