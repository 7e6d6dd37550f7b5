/* SPDX-License-Identifier: Apache-2.0 */
#include "session/snapshot.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/limits.h"
#include "base/text.h"

#include "base/banned.h"

/* Enough for the link to stay busy while the next piece is read. */
#define AHEAD_BYTES (512U * 1024U)
#define PROGRESS_EVERY_NS 100000000ULL

typedef struct rsbx_fingerprint *rsbx_fingerprint_ptr;
typedef struct rsbx_manifest_writer *rsbx_manifest_ptr;
RSBX_CLEANUP(rsbx_fingerprint, rsbx_fingerprint_ptr, rsbx_fingerprint_free);
RSBX_CLEANUP(rsbx_manifest, rsbx_manifest_ptr, rsbx_manifest_free);

struct filling {
    const struct rsbx_snapshot_order *order;
    struct rsbx_snapshot *snapshot;
    struct rsbx_fingerprint *fingerprint;
    struct rsbx_manifest_writer *manifest;
    uint64_t told_ns;
    char filler[RSBX_NAME_BYTES]; /* the container that wrote; "" when none did */
};

static void tell(struct filling *filling, const char *step, bool last)
{
    const struct rsbx_snapshot_order *order = filling->order;
    uint64_t now = rsbx_now_ns();
    reposbx_progress progress = { .step = step, .done = filling->snapshot->bytes };

    if (order->progress == NULL || (!last && now - filling->told_ns < PROGRESS_EVERY_NS))
        return;
    filling->told_ns = now;
    progress.total = rsbx_source_facts(order->source)->expected_bytes;
    order->progress(order->progress_payload, &progress);
}

static int put_entry(struct filling *filling, struct rsbx_talk *talk,
                     const struct rsbx_source_event *event, reposbx_error *err)
{
    uint8_t raw[RSBX_ENTRY_FIXED_BYTES + RSBX_MAX_PATH_BYTES];
    struct rsbx_entry entry = { .new_mode = event->mode,
                                .new_size = event->size,
                                .links = 1,
                                .path = event->path,
                                .path_length = (uint32_t)event->path_length };
    int rc;

    if (event->path_length > RSBX_MAX_PATH_BYTES)
        return rsbx_fail(err, REPOSBX_EINTERNAL, "a path over the limit came through");
    rsbx_wire_put_entry(raw, &entry);
    memcpy(raw + RSBX_ENTRY_FIXED_BYTES, event->path, event->path_length);
    rc = rsbx_talk_put(talk, RSBX_WIRE_ENTRY, raw, RSBX_ENTRY_FIXED_BYTES + event->path_length,
                       err);
    if (rc == 0)
        rc = rsbx_manifest_add(filling->manifest, event->path, event->path_length, event->mode,
                               event->oid, event->size, err);
    filling->snapshot->files++;
    return rc;
}

static int put_event(struct filling *filling, struct rsbx_talk *talk,
                     const struct rsbx_source_event *event, reposbx_error *err)
{
    switch (event->kind) {
    case RSBX_SOURCE_ENTRY:
        return put_entry(filling, talk, event, err);
    case RSBX_SOURCE_DATA:
        filling->snapshot->bytes += event->length;
        return rsbx_talk_put_data(talk, event->bytes, event->length, err);
    case RSBX_SOURCE_NOTE:
        return json_array_append_new(filling->snapshot->notes,
                                     rsbx_json_bytes(event->text, strlen(event->text))) != 0
                   ? rsbx_fail_memory(err)
                   : REPOSBX_OK;
    case RSBX_SOURCE_DONE:
        break;
    }
    return rsbx_talk_put(talk, RSBX_WIRE_END, NULL, 0, err);
}

static int refill(void *payload, struct rsbx_talk *talk, reposbx_error *err)
{
    struct filling *filling = payload;

    RSBX_FAULT("fill.refill");
    while (rsbx_talk_waiting(talk) < AHEAD_BYTES) {
        struct rsbx_source_event event = { .kind = RSBX_SOURCE_DONE };
        int rc = rsbx_source_next(&event, filling->order->source, err);

        if (rc == 0 && (event.kind == RSBX_SOURCE_ENTRY || event.kind == RSBX_SOURCE_DATA))
            rc = rsbx_fingerprint_feed(filling->fingerprint, &event, err);
        if (rc == 0)
            rc = put_event(filling, talk, &event, err);
        if (rc != 0)
            return rc;
        if (event.kind == RSBX_SOURCE_DONE)
            return 1;
        tell(filling, "copy", false);
    }
    return REPOSBX_OK;
}

static int fill(struct filling *filling, struct rsbx_session *session, reposbx_error *err)
{
    struct rsbx_ask ask = {
        .want = rsbx_want_writer(session, "fill"),
        .request = { .op = RSBX_OP_FILL, .max_entries = filling->order->max_files,
                     .max_bytes = session->policy->max_bytes },
        .refill = refill,
        .payload = filling,
        .name = filling->filler,
        .deadline_ms = RSBX_READER_MS,
    };
    struct rsbx_trailer trailer;
    int rc;

    ask.want.workspace = 0;
    ask.want.baseline = 2;
    rc = rsbx_session_ask(&trailer, session, &ask, err);
    if (rc != 0) {
        rsbx_context(err, "filling the baseline");
        return rc;
    }
    if (trailer.entries != filling->snapshot->files || trailer.bytes != filling->snapshot->bytes)
        return rsbx_fail(err, REPOSBX_EPROTOCOL,
                         "the guest wrote %" PRIu64 " entries and %" PRIu64 " bytes, not %" PRIu64
                         " and %" PRIu64,
                         trailer.entries, trailer.bytes, filling->snapshot->files,
                         filling->snapshot->bytes);
    tell(filling, "copy", true);
    return REPOSBX_OK;
}

/* The sealed volume must be, byte for byte and mode for mode, what the objects say. */
static int seal(struct filling *filling, struct rsbx_session *session, reposbx_error *err)
{
    const struct rsbx_snapshot *snapshot = filling->snapshot;
    struct rsbx_slot_want next[RSBX_MAX_WAITING_SLOTS];
    RSBX_AUTO(rsbx_text) char *selection = NULL;
    struct rsbx_ask ask = {
        .want = rsbx_want_writer(session, "seal"),
        .request = { .op = RSBX_OP_SEAL,
                     .flags = rsbx_session_overlay(session) ? 0 : RSBX_REQUEST_COPY,
                     .max_entries = filling->order->max_files },
        .excludes = filling->order->excludes,
        .exclude_count = filling->order->exclude_count,
        .next = next,
        /* The seal starts while that ends, but reads when nobody is left who could write. */
        .after = filling->filler[0] != '\0' ? filling->filler : NULL,
        .deadline_ms = RSBX_READER_MS,
    };
    struct rsbx_trailer trailer;
    int rc =
        rsbx_selection_json(&selection, ask.excludes, ask.exclude_count, err);

    if (rc != 0)
        return rc;
    tell(filling, "verify", true);
    ask.selection = selection;
    ask.want.baseline = 1;
    /* What the session keeps waiting is made while the seal is computed. */
    ask.next_count = rsbx_want_waiting(next, session);
    rc = rsbx_session_ask(&trailer, session, &ask, err);
    if (rc != 0) {
        rsbx_context(err, "verifying the baseline");
        return rc;
    }
    if (trailer.entries != snapshot->files || trailer.bytes != snapshot->bytes ||
        trailer.fingerprint_entries != snapshot->fingerprint_entries ||
        memcmp(trailer.stdout_sha256, snapshot->fingerprint_raw, 32) != 0)
        return rsbx_fail(err, REPOSBX_EPROTOCOL,
                         "the fingerprint of the sealed baseline is not that of the repository");
    if (memcmp(trailer.stderr_sha256, snapshot->rest_digest, 32) != 0)
        return rsbx_fail(err, REPOSBX_EPROTOCOL,
                         "modes or ignored files of the sealed baseline are not the repository's");
    return REPOSBX_OK;
}

/* The workspace's first mount is the seal's: where an overlay does not work and need not, the
 * workspace is copied instead. */
static int seal_or_fall_back(struct filling *filling, struct rsbx_session *session,
                             reposbx_error *err)
{
    int rc = seal(filling, session, err);

    if (rc == 0 || rc == REPOSBX_ECANCELLED || filling->order->fall_back == NULL ||
        !rsbx_session_overlay(session))
        return rc;
    rc = filling->order->fall_back(session, err);
    return rc == 0 ? seal(filling, session, err) : rc;
}

int rsbx_snapshot_make(struct rsbx_snapshot *out, struct rsbx_session *session,
                       const struct rsbx_snapshot_order *order, reposbx_error *err)
{
    RSBX_AUTO(rsbx_fingerprint) rsbx_fingerprint_ptr fingerprint = NULL;
    RSBX_AUTO(rsbx_manifest) rsbx_manifest_ptr manifest = NULL;
    struct rsbx_snapshot snapshot = { .notes = json_array() };
    struct filling filling = { .order = order, .snapshot = &snapshot };
    int rc = snapshot.notes != NULL ? REPOSBX_OK : rsbx_fail_memory(err);

    if (rc == 0)
        rc = rsbx_fingerprint_new(&fingerprint, order->excludes, order->exclude_count, err);
    if (rc == 0)
        rc = rsbx_manifest_begin(&manifest, session, err);
    filling.fingerprint = fingerprint;
    filling.manifest = manifest;
    if (rc == 0)
        rc = fill(&filling, session, err);
    if (rc == 0)
        rc = rsbx_manifest_commit(manifest, err);
    if (rc == 0)
        rc = rsbx_fingerprint_finish(snapshot.fingerprint, snapshot.fingerprint_raw,
                                     snapshot.rest_digest, &snapshot.fingerprint_entries,
                                     fingerprint, err);
    RSBX_FAULT("create.filled");
    if (rc == 0)
        rc = seal_or_fall_back(&filling, session, err);
    if (rc != 0) {
        rsbx_snapshot_dispose(&snapshot);
        return rc;
    }
    memcpy(snapshot.tree, rsbx_source_facts(order->source)->tree, sizeof snapshot.tree);
    *out = snapshot;
    return REPOSBX_OK;
}

json_t *rsbx_snapshot_facts(const struct rsbx_snapshot *snapshot, const char *overlay)
{
    char rest[2 * sizeof snapshot->rest_digest + 1];

    rsbx_hex(rest, snapshot->rest_digest, sizeof snapshot->rest_digest);
    return json_pack("{s:s, s:s, s:I, s:s, s:I, s:I, s:O, s:s?}", "tree", snapshot->tree,
                     "fingerprint", snapshot->fingerprint, "fingerprint_entries",
                     (json_int_t)snapshot->fingerprint_entries, "rest_digest", rest, "files",
                     (json_int_t)snapshot->files, "bytes", (json_int_t)snapshot->bytes, "notes",
                     snapshot->notes, "overlay", overlay);
}

static int read_facts(struct rsbx_snapshot *out, const json_t *facts, reposbx_error *err)
{
    static const char what[] = "record of a shared baseline";
    const char *tree;
    const char *fingerprint;
    const char *rest;
    const char *digits;
    int rc = rsbx_json_get_text(&tree, facts, "tree", what, err);

    if (rc == 0)
        rc = rsbx_json_get_text(&fingerprint, facts, "fingerprint", what, err);
    if (rc == 0)
        rc = rsbx_json_get_text(&rest, facts, "rest_digest", what, err);
    if (rc == 0)
        rc = rsbx_json_get_u64(&out->fingerprint_entries, facts, "fingerprint_entries", what, err);
    if (rc == 0)
        rc = rsbx_json_get_u64(&out->files, facts, "files", what, err);
    if (rc == 0)
        rc = rsbx_json_get_u64(&out->bytes, facts, "bytes", what, err);
    if (rc == 0)
        rc = rsbx_json_get_node(&out->notes, facts, "notes", JSON_ARRAY, what, err);
    if (rc != 0)
        return rc;
    digits = strchr(fingerprint, ':');
    if (digits == NULL || !rsbx_unhex(out->fingerprint_raw, 32, digits + 1) ||
        !rsbx_unhex(out->rest_digest, 32, rest) || strlen(tree) >= sizeof out->tree ||
        strlen(fingerprint) >= sizeof out->fingerprint)
        return rsbx_fail(err, REPOSBX_EIO, "the record of a shared baseline is damaged");
    (void)snprintf(out->tree, sizeof out->tree, "%s", tree);
    (void)snprintf(out->fingerprint, sizeof out->fingerprint, "%s", fingerprint);
    return REPOSBX_OK;
}

int rsbx_snapshot_known(struct rsbx_snapshot *out, struct rsbx_session *session,
                        const struct rsbx_snapshot_order *order, const json_t *facts, bool mount,
                        reposbx_error *err)
{
    struct rsbx_snapshot snapshot = { .notes = NULL };
    struct filling filling = { .order = order, .snapshot = &snapshot };
    int rc = read_facts(&snapshot, facts, err);

    if (rc == 0 && mount)
        rc = seal_or_fall_back(&filling, session, err);
    else if (rc == 0 && !order->no_slots)
        rsbx_slots_prepare(session);
    if (rc != 0)
        return rc;
    (void)json_incref(snapshot.notes);
    *out = snapshot;
    return REPOSBX_OK;
}

void rsbx_snapshot_dispose(struct rsbx_snapshot *snapshot)
{
    json_decref(snapshot->notes);
    snapshot->notes = NULL;
}
