/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Placing a patch from outside: what it makes of the base was worked out from the repository, a guest
 * makes the same of the fresh workspace, and a diff of the two volumes must give the tree that was
 * worked out. Neither the guest nor the placing is believed.
 */
#include <string.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/limits.h"
#include "diff/incoming.h"
#include "session/internal.h"

#include "base/banned.h"

/* Enough for the link to stay busy while the next piece is put. */
#define AHEAD_BYTES (512U * 1024U)
/* The proof holds both sides of each change and is no patch that anybody gets. */
#define MAX_PROOF_BYTES (512ULL * 1024ULL * 1024ULL)

struct placing {
    const struct rsbx_incoming_outcome *outcome;
    size_t step, offset; /* the next piece */
    bool head_sent;      /* of the step */
    int64_t now_ns;
};

static struct rsbx_node describe(const struct rsbx_incoming_step *step, int64_t now_ns)
{
    struct rsbx_node node = { .path = step->path, .path_length = (uint32_t)step->path_length,
                              .mtime_ns = now_ns };

    if (step->what == RSBX_INCOMING_GONE) {
        node.kind = RSBX_NODE_GONE;
        node.mtime_ns = 0;
    } else if (step->what == RSBX_INCOMING_FOLDER) {
        node.kind = RSBX_NODE_FOLDER;
        node.mode = 0755;
    } else {
        node.kind = step->mode == 0120000U ? RSBX_NODE_LINK : RSBX_NODE_FILE;
        node.mode = step->mode == 0120000U ? 0 : step->mode & 0777U;
        node.size = step->length;
    }
    return node;
}

static int put_head(struct placing *placing, struct rsbx_talk *talk,
                    const struct rsbx_incoming_step *step, reposbx_error *err)
{
    uint8_t raw[RSBX_NODE_FIXED_BYTES + RSBX_MAX_PATH_BYTES];
    struct rsbx_node node = describe(step, placing->now_ns);

    if (step->path_length > RSBX_MAX_PATH_BYTES)
        return rsbx_fail(err, REPOSBX_EINTERNAL, "a path over the limit came through");
    rsbx_wire_put_node(raw, &node);
    memcpy(raw + RSBX_NODE_FIXED_BYTES, step->path, step->path_length);
    placing->head_sent = true;
    return rsbx_talk_put(talk, RSBX_WIRE_NODE, raw, RSBX_NODE_FIXED_BYTES + step->path_length, err);
}

/* The next piece of a file, or its end, which ends the step. */
static int put_piece(struct placing *placing, struct rsbx_talk *talk,
                     const struct rsbx_incoming_step *step, reposbx_error *err)
{
    size_t left = step->length - placing->offset;
    size_t piece = left < RSBX_WIRE_PIECE_BYTES ? left : RSBX_WIRE_PIECE_BYTES;
    int rc = REPOSBX_OK;

    if (step->what == RSBX_INCOMING_FILE && left > 0) {
        rc = rsbx_talk_put_data(talk, step->bytes + placing->offset, piece, err);
        placing->offset += piece;
        return rc;
    }
    if (step->what == RSBX_INCOMING_FILE)
        rc = rsbx_talk_put(talk, RSBX_WIRE_END, NULL, 0, err);
    placing->step++;
    placing->offset = 0;
    placing->head_sent = false;
    return rc;
}

static int refill(void *payload, struct rsbx_talk *talk, reposbx_error *err)
{
    struct placing *placing = payload;
    int rc = REPOSBX_OK;

    while (rc == 0 && rsbx_talk_waiting(talk) < AHEAD_BYTES) {
        const struct rsbx_incoming_step *step = &placing->outcome->steps[placing->step];

        if (placing->step == placing->outcome->step_count) {
            rc = rsbx_talk_put(talk, RSBX_WIRE_END, NULL, 0, err);
            return rc == 0 ? 1 : rc;
        }
        rc = placing->head_sent ? put_piece(placing, talk, step, err)
                                : put_head(placing, talk, step, err);
    }
    return rc;
}

static int place(struct rsbx_session *session, const struct rsbx_incoming_outcome *outcome,
                 reposbx_error *err)
{
    struct placing placing = { .outcome = outcome, .now_ns = (int64_t)rsbx_wall_ns() };
    struct rsbx_unpacked expected = { .nodes = outcome->step_count };

    for (size_t i = 0; i < outcome->step_count; i++)
        expected.bytes += outcome->steps[i].length;
    return rsbx_session_unpack(session, refill, &placing, &expected, false, err);
}

static int prove(reposbx_diff_result *diff, struct rsbx_session *session,
                 const struct rsbx_incoming_outcome *outcome, reposbx_error *err)
{
    const reposbx_diff_options options = { .version = 1, .max_bytes = MAX_PROOF_BYTES };
    reposbx_diff_result made = { .patch = NULL };
    int rc = rsbx_session_diff(&made, session, &options, err);

    if (rc == 0 && (strcmp(made.base_tree, outcome->base_tree) != 0 ||
                    strcmp(made.result_tree, outcome->result_tree) != 0))
        rc = rsbx_fail(err, REPOSBX_EPROTOCOL,
                       "the patch makes the tree %s of %s, and the workspace holds %s of %s",
                       outcome->result_tree, outcome->base_tree, made.result_tree, made.base_tree);
    if (rc == 0 && made.omitted_count > 0)
        rc = rsbx_fail(err, REPOSBX_EPROTOCOL, "the workspace holds %s, which no patch makes",
                       made.omitted[0].path);
    if (rc != 0) {
        rsbx_diff_outcome_dispose(&made);
        return rc;
    }
    *diff = made;
    return REPOSBX_OK;
}

int rsbx_session_place(reposbx_diff_result *diff, struct rsbx_session *session,
                       const struct rsbx_incoming_outcome *outcome, const char *sha256,
                       uint64_t patch_bytes, reposbx_error *err)
{
    RSBX_AUTO(rsbx_json) rsbx_json_ptr data = json_pack(
        "{s:s, s:I, s:s, s:s, s:I}", "sha256", sha256, "bytes", (json_int_t)patch_bytes,
        "base_tree", outcome->base_tree, "result_tree", outcome->result_tree, "files",
        (json_int_t)outcome->file_count);
    reposbx_diff_result made = { .patch = NULL };
    int rc = data != NULL ? rsbx_session_record(session, "patch_started", json_incref(data),
                                                RSBX_AUDIT_ORDINARY, err)
                          : rsbx_fail_memory(err);

    RSBX_FAULT("place.started");
    if (rc == 0) {
        rc = place(session, outcome, err);
        if (rc == 0)
            rc = prove(&made, session, outcome, err);
        if (rc != 0)
            (void)rsbx_session_refused(session, "patch", rc, err);
    }
    RSBX_FAULT("place.proved");
    if (rc == 0)
        rc = rsbx_session_record(session, "patch_applied", json_incref(data), RSBX_AUDIT_ORDINARY,
                                 err);
    if (rc != 0) {
        rsbx_diff_outcome_dispose(&made);
        return rc;
    }
    *diff = made;
    return REPOSBX_OK;
}
