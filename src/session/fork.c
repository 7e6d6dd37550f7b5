/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A second session from the present state of a first one: it joins the same baseline, gets a
 * workspace of its own, and a guest of the one tells what makes it another than the baseline, which
 * a guest of the other then makes. What lies between is a file without a name in the new session's
 * folder, so the cost is that of the changes. The first session is held by its caller, so no command
 * runs in it meanwhile.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/fd.h"
#include "base/limits.h"
#include "session/internal.h"
#include "session/join.h"
#include "session/snapshot.h"

#include "base/banned.h"

/* Enough for the link to stay busy while the next piece is read. */
#define AHEAD_BYTES (512U * 1024U)

/* Messages of a pack on their way: type and length (4 bytes each, big endian) and the payload. */
struct spool {
    FILE *file;
    struct rsbx_unpacked packed;
    json_t *left_behind; /* [{path, reason}] */
};

/* ---- out of the first session ---- */

static int put_message(struct spool *spool, uint32_t type, const void *first, size_t first_length,
                       const void *second, size_t second_length, reposbx_error *err)
{
    uint8_t head[8];

    rsbx_wire_put_u32(head, type);
    rsbx_wire_put_u32(head + 4, (uint32_t)(first_length + second_length));
    if (fwrite(head, 1, sizeof head, spool->file) != sizeof head ||
        fwrite(first, 1, first_length, spool->file) != first_length ||
        fwrite(second, 1, second_length, spool->file) != second_length)
        return rsbx_fail_errno(err, REPOSBX_EIO, "cannot keep the workspace's changes");
    return REPOSBX_OK;
}

static const char *reason_word(uint32_t reason)
{
    switch (reason) {
    case RSBX_OMIT_SOCKET:
        return "socket";
    case RSBX_OMIT_DEVICE:
        return "device";
    case RSBX_OMIT_TOO_DEEP:
        return "too_deep";
    default:
        return "unreadable";
    }
}

static int on_node(void *payload, const struct rsbx_node *node, reposbx_error *err)
{
    struct spool *spool = payload;
    uint8_t fixed[RSBX_NODE_FIXED_BYTES];

    if (node->kind == RSBX_NODE_OMITTED)
        return json_array_append_new(
                   spool->left_behind,
                   json_pack("{s:o, s:s}", "path", rsbx_json_bytes(node->path, node->path_length),
                             "reason", reason_word(node->reason))) != 0
                   ? rsbx_fail_memory(err)
                   : REPOSBX_OK;
    spool->packed.nodes++;
    spool->packed.bytes += node->size;
    rsbx_wire_put_node(fixed, node);
    return put_message(spool, RSBX_WIRE_NODE, fixed, sizeof fixed, node->path, node->path_length,
                       err);
}

static int on_data(void *payload, const uint8_t *bytes, size_t length, reposbx_error *err)
{
    return put_message(payload, bytes != NULL ? RSBX_WIRE_DATA : RSBX_WIRE_END, bytes, length, "",
                       0, err);
}

static int pack(struct spool *spool, struct rsbx_session *session, reposbx_error *err)
{
    const struct rsbx_ask ask = {
        .want = rsbx_want_control(session, "control"),
        .request = { .op = RSBX_OP_PACK,
                     .flags = rsbx_session_overlay(session) ? RSBX_REQUEST_UPPER : 0,
                     .max_entries = RSBX_MAX_ENTRIES,
                     .max_bytes = session->policy->max_bytes },
        .node = on_node,
        .data = on_data,
        .payload = spool,
        .deadline_ms = RSBX_READER_MS,
    };
    struct rsbx_trailer trailer;
    int rc = rsbx_session_ask(&trailer, session, &ask, err);

    if (rc != 0)
        rsbx_context(err, "reading the workspace of %s", session->id);
    else if (fflush(spool->file) != 0 || fseek(spool->file, 0, SEEK_SET) != 0)
        rc = rsbx_fail_errno(err, REPOSBX_EIO, "cannot keep the workspace's changes");
    return rc;
}

/* ---- into the second one ---- */

static int refill(void *payload, struct rsbx_talk *talk, reposbx_error *err)
{
    struct spool *spool = payload;
    RSBX_AUTO(rsbx_memory) void *memory = malloc(RSBX_WIRE_MAX_PAYLOAD);

    if (memory == NULL)
        return rsbx_fail_memory(err);
    while (rsbx_talk_waiting(talk) < AHEAD_BYTES) {
        uint8_t head[8];
        size_t got = fread(head, 1, sizeof head, spool->file);
        uint32_t length;
        int rc;

        if (got == 0 && ferror(spool->file) == 0) {
            rc = rsbx_talk_put(talk, RSBX_WIRE_END, NULL, 0, err);
            return rc == 0 ? 1 : rc;
        }
        length = rsbx_wire_get_u32(head + 4);
        if (got != sizeof head || length > RSBX_WIRE_MAX_PAYLOAD ||
            fread(memory, 1, length, spool->file) != length)
            return rsbx_fail(err, REPOSBX_EIO, "the workspace's changes cannot be read again");
        rc = rsbx_talk_put(talk, (enum rsbx_wire_type)rsbx_wire_get_u32(head), memory, length, err);
        if (rc != 0)
            return rc;
    }
    return REPOSBX_OK;
}

int rsbx_session_unpack(struct rsbx_session *session,
                        int (*more)(void *payload, struct rsbx_talk *talk, reposbx_error *err),
                        void *payload, const struct rsbx_unpacked *expected, bool prepare,
                        reposbx_error *err)
{
    struct rsbx_slot_want next[RSBX_MAX_WAITING_SLOTS];
    struct rsbx_ask ask = {
        .want = rsbx_want_writer(session, "unpack"),
        .request = { .op = RSBX_OP_UNPACK,
                     .max_entries = RSBX_MAX_ENTRIES,
                     .max_bytes = session->policy->max_bytes },
        .refill = more,
        .payload = payload,
        .next = next,
        .next_count = prepare ? rsbx_want_waiting(next, session) : 0,
        .deadline_ms = RSBX_READER_MS,
    };
    struct rsbx_trailer trailer;
    int rc = rsbx_session_ask(&trailer, session, &ask, err);

    if (rc != 0) {
        rsbx_context(err, "making the workspace of %s", session->id);
        return rc;
    }
    if (trailer.entries != expected->nodes || trailer.bytes != expected->bytes)
        return rsbx_fail(err, REPOSBX_EPROTOCOL,
                         "the guest made %" PRIu64 " things of %" PRIu64 " bytes, not %" PRIu64
                         " of %" PRIu64,
                         trailer.entries, trailer.bytes, expected->nodes, expected->bytes);
    return REPOSBX_OK;
}

static int open_spool(struct spool *spool, const struct rsbx_session *session, reposbx_error *err)
{
    int fd = openat(session->dir_fd, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

    if (fd < 0) {
        /* Not every file system has files without a name. */
        fd = openat(session->dir_fd, "spool",
                    O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
        (void)unlinkat(session->dir_fd, "spool", 0);
    }
    spool->file = fd >= 0 ? fdopen(fd, "w+") : NULL;
    spool->left_behind = json_array();
    if (spool->file == NULL) {
        int rc = rsbx_fail_errno(err, REPOSBX_EIO, "cannot make a file for the changes");

        if (fd >= 0)
            (void)close(fd);
        return rc;
    }
    return spool->left_behind != NULL ? REPOSBX_OK : rsbx_fail_memory(err);
}

static void spool_dispose(struct spool *spool)
{
    if (spool->file != NULL)
        (void)fclose(spool->file);
    json_decref(spool->left_behind);
}

/* ---- the new session ---- */

/* What is the same as in the first session: engine, policy, profile. */
static int take_over(struct rsbx_session *session, struct rsbx_session *from, reposbx_error *err)
{
    RSBX_AUTO(rsbx_text) char *policy = NULL;
    char *engine = strdup(from->engine);
    int rc = engine != NULL ? REPOSBX_OK : rsbx_fail_memory(err);

    if (rc != 0)
        return rc;
    free(session->engine);
    session->engine = engine;
    if (from->seccomp_profile != NULL &&
        (session->seccomp_profile = strdup(from->seccomp_profile)) == NULL)
        return rsbx_fail_memory(err);
    rc = rsbx_json_text(&policy, json_object_get(from->metadata, "policy"), err);
    if (rc == 0)
        rc = reposbx_policy_parse(&session->policy, policy, strlen(policy), err);
    if (rc == 0)
        rc = rsbx_provider_open(&session->provider, session->engine, from->provider->known,
                                rsbx_session_deadline(session, RSBX_ENGINE_CALL_MS), err);
    return rc;
}

static int make_metadata(struct rsbx_session *session, const struct rsbx_session *from,
                         reposbx_error *err)
{
    char created[RSBX_TIME_BYTES];

    rsbx_time_text(created, rsbx_wall_ns());
    session->metadata = json_deep_copy(from->metadata);
    if (session->metadata == NULL ||
        json_object_set_new(session->metadata, "sandbox_id", json_string(session->id)) != 0 ||
        json_object_set_new(session->metadata, "forked_from", json_string(from->id)) != 0 ||
        json_object_set_new(session->metadata, "created_at", json_string(created)) != 0 ||
        json_object_set_new(session->metadata, "state", json_string("creating")) != 0)
        return rsbx_fail_memory(err);
    return REPOSBX_OK;
}

/* The folder, and the workspace as it was when the first session began. */
static int begin(struct rsbx_session *session, struct rsbx_state *state, struct rsbx_session *from,
                 bool changed, int cancel_fd, reposbx_error *err)
{
    const struct rsbx_stores_order stores = { .new_guest = false, .new_baseline = false };
    const struct rsbx_snapshot_order order = { .max_files = from->policy->max_files,
                                               .no_slots = changed };
    struct rsbx_joined joined = RSBX_JOINED_INIT;
    struct rsbx_snapshot snapshot = { .notes = NULL };
    int rc;

    session->cancel_fd = cancel_fd;
    rc = take_over(session, from, err);
    if (rc == 0)
        rc = rsbx_join_of(&joined, session, from, err);
    if (rc == 0)
        rc = make_metadata(session, from, err);
    if (rc == 0)
        rc = rsbx_session_write_spec(session, json_object_get(from->spec, "excludes"),
                                     rsbx_join_spec(&joined, session), err);
    if (rc == 0)
        rc = rsbx_session_write_rest(session, state, err);
    if (rc == 0)
        rc = rsbx_session_make_stores(session, &stores, err);
    if (rc == 0)
        rc = rsbx_join_manifest(&joined, session, err);
    if (rc == 0)
        rc = rsbx_snapshot_known(&snapshot, session, &order, rsbx_join_facts(&joined),
                                 !rsbx_session_overlay(session), err);
    rsbx_snapshot_dispose(&snapshot);
    rsbx_join_release(&joined);
    return rc;
}

static int tell(struct rsbx_session *session, struct rsbx_session *from, const struct spool *spool,
                reposbx_error *err)
{
    /* without changes no container of the fork has started: those that packed have the same limits */
    RSBX_AUTO(rsbx_json) rsbx_json_ptr observed = rsbx_observed_value(&from->observed);
    int rc = rsbx_session_record(
        from, "session_forked",
        json_pack("{s:s, s:I, s:I, s:O}", "fork", session->id, "changes",
                  (json_int_t)spool->packed.nodes, "bytes", (json_int_t)spool->packed.bytes, "left_behind",
                  spool->left_behind),
        RSBX_AUDIT_ORDINARY, err);

    if (rc == 0 && (json_object_set(session->metadata, "left_behind", spool->left_behind) != 0 ||
                    json_object_set_new(session->metadata, "state", json_string("ready")) != 0))
        rc = rsbx_fail_memory(err);
    if (rc == 0)
        rc = rsbx_session_record_created(session, observed, err);
    RSBX_FAULT("fork.recorded");
    return rc == 0 ? rsbx_session_save(session, "metadata.json", session->metadata, err) : rc;
}

int rsbx_session_fork(struct rsbx_session **out, struct rsbx_state *state,
                      struct rsbx_session *from, int cancel_fd, reposbx_error *err)
{
    struct rsbx_session *session = NULL;
    struct spool spool = { .file = NULL };
    reposbx_error own = REPOSBX_ERROR_INIT;
    int outer_cancel_fd = from->cancel_fd;
    int rc;

    if (err == NULL)
        err = &own;
    rc = rsbx_session_usable(from, err);
    if (rc == 0)
        rc = rsbx_session_provider(from, err);
    if (rc != 0)
        return rc;
    rc = rsbx_session_begin(&session, state, err);
    if (rc == 0)
        rc = open_spool(&spool, session, err);
    from->cancel_fd = cancel_fd;
    if (rc == 0)
        rc = pack(&spool, from, err);
    from->cancel_fd = outer_cancel_fd;
    if (rc == 0)
        rc = begin(session, state, from, spool.packed.nodes > 0, cancel_fd, err);
    RSBX_FAULT("fork.begun");
    if (rc == 0 && spool.packed.nodes > 0)
        rc = rsbx_session_unpack(session, refill, &spool, &spool.packed,
                                 rsbx_session_overlay(session), err);
    if (rc == 0)
        rc = tell(session, from, &spool, err);
    spool_dispose(&spool);
    if (rc != 0) {
        (void)rsbx_session_refused(from, "fork", rc, err);
        rsbx_session_undo(session, state, err);
        return rc;
    }
    session->cancel_fd = -1; /* it was the request's */
    *out = session;
    return REPOSBX_OK;
}
