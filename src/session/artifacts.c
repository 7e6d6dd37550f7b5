/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "artifact/bundle.h"
#include "base/buf.h"
#include "base/fault.h"
#include "base/limits.h"
#include "session/internal.h"

#include "base/banned.h"

typedef struct rsbx_bundle *rsbx_bundle_ptr;
RSBX_CLEANUP(rsbx_bundle, rsbx_bundle_ptr, rsbx_bundle_free);

/* One member's keys, digits and hash in a record; the whole record's own head and sum. */
#define MEMBER_BYTES 160U
#define RECORD_BYTES 1024U

struct collection {
    struct rsbx_bundle *bundle;
    bool in_file;
    char path[RSBX_MAX_PATH_BYTES + 1];
    size_t path_length;
    uint32_t mode;
    uint64_t size;
    uint64_t record_bytes; /* what the members will take in the audit record, at most */
    struct rsbx_buf content;
    struct rsbx_paths paths;
};

void rsbx_artifact_bundle_dispose(reposbx_artifact_bundle *bundle)
{
    if (bundle == NULL)
        return;
    free(bundle->path);
    for (size_t i = 0; i < bundle->member_count; i++)
        free(bundle->members[i].name);
    free(bundle->members);
    memset(bundle, 0, sizeof *bundle);
}

static int on_entry(void *payload, const struct rsbx_entry *entry, reposbx_error *err)
{
    struct collection *collection = payload;

    if (collection->in_file || entry->path_length > RSBX_MAX_PATH_BYTES)
        return rsbx_fail(err, REPOSBX_EPROTOCOL, "the guest's files are out of order");
    memcpy(collection->path, entry->path, entry->path_length);
    collection->path[entry->path_length] = '\0';
    collection->path_length = entry->path_length;
    collection->mode = entry->new_mode;
    collection->size = entry->new_size;
    collection->in_file = true;
    rsbx_buf_clear(&collection->content);
    return REPOSBX_OK;
}

static int on_data(void *payload, const uint8_t *bytes, size_t length, reposbx_error *err)
{
    struct collection *collection = payload;

    if (!collection->in_file)
        return rsbx_fail(err, REPOSBX_EPROTOCOL, "the guest's files are out of order");
    if (bytes != NULL)
        return rsbx_buf_append(&collection->content, bytes, length, err);
    collection->in_file = false;
    collection->record_bytes += MEMBER_BYTES + rsbx_record_bytes(collection->path);
    if (collection->content.length != collection->size)
        return rsbx_fail(err, REPOSBX_EPROTOCOL, "%s changed while it was read", collection->path);
    return rsbx_bundle_add(collection->bundle, collection->path, collection->path_length,
                           collection->mode & 0777, collection->content.data, collection->content.length,
                           err);
}

static void collection_dispose(struct collection *collection)
{
    if (collection == NULL)
        return;
    rsbx_paths_dispose(&collection->paths);
    rsbx_buf_dispose(&collection->content);
    rsbx_bundle_free(collection->bundle);
    free(collection);
}

typedef struct collection *collection_ptr;
RSBX_CLEANUP(collection, collection_ptr, collection_dispose);

static int check_options(uint64_t *max_bytes, const struct rsbx_session *session,
                         const reposbx_artifact_options *options, reposbx_error *err)
{
    uint64_t allowed = session->policy->limits.artifact_bytes;

    if (options->output == NULL || options->output[0] == '\0')
        return rsbx_fail(err, REPOSBX_EINVALID, "output: missing");
    if (options->max_bytes > allowed)
        return rsbx_fail(err, REPOSBX_EPOLICY,
                         "max_bytes: %" PRIu64 " is above the policy's artifact_bytes, %" PRIu64,
                         options->max_bytes, allowed);
    *max_bytes = options->max_bytes != 0 ? options->max_bytes : allowed;
    return REPOSBX_OK;
}

static int collect(struct collection *collection, struct rsbx_session *session, uint64_t max_bytes,
                   reposbx_error *err)
{
    const struct rsbx_bundle_limits limits = { .max_members = session->policy->limits.artifact_members,
                                               .max_bytes = max_bytes };
    struct rsbx_ask ask = { .want = rsbx_want_control(session, "control"),
                            .request = { .op = RSBX_OP_COLLECT, .max_bytes = max_bytes,
                                         .max_entries = limits.max_members },
                            .paths = (const char *const *)collection->paths.list,
                            .path_count = collection->paths.count,
                            .entry = on_entry,
                            .data = on_data,
                            .payload = collection,
                            .deadline_ms = RSBX_ENGINE_CALL_MS };
    int rc = rsbx_bundle_new(&collection->bundle, &limits, err);

    collection->content.limit = (size_t)max_bytes;
    if (rc == 0)
        rc = rsbx_session_ask(NULL, session, &ask, err);
    if (rc == 0 && collection->in_file)
        rc = rsbx_fail(err, REPOSBX_EPROTOCOL, "the guest's files end in the middle");
    return rc;
}

/* A bundle whose record cannot be written is not made: it would stand there unrecorded. */
static int check_record(struct rsbx_session *session, const struct collection *collection,
                        reposbx_error *err)
{
    uint64_t needed = RECORD_BYTES + collection->record_bytes;
    int rc = rsbx_session_audit(session, err);

    if (rc != 0) {
        rsbx_session_poison(session, err->message);
        return rc;
    }
    if (needed > RSBX_MAX_RECORD_BYTES)
        return rsbx_fail(err, REPOSBX_ELIMIT,
                         "the names of so many members do not fit into one audit record");
    if (needed <= rsbx_audit_left(session->audit))
        return REPOSBX_OK;
    (void)rsbx_fail(err, REPOSBX_ELIMIT, "the audit folder has no room for this bundle's record");
    rsbx_hint(err, "session.audit_bytes of the policy bounds it; close this session");
    return REPOSBX_ELIMIT;
}

static int take_result(reposbx_artifact_bundle *bundle, struct rsbx_bundle_result *made,
                       const char *path, reposbx_error *err)
{
    bundle->path = strdup(path);
    bundle->members = calloc(made->member_count + 1, sizeof *bundle->members);
    if (bundle->path == NULL || bundle->members == NULL)
        return rsbx_fail_memory(err);
    bundle->size = made->size;
    memcpy(bundle->sha256, made->sha256, sizeof bundle->sha256);
    for (size_t i = 0; i < made->member_count; i++) {
        bundle->members[i].name = made->members[i].name;
        made->members[i].name = NULL;
        bundle->members[i].size = made->members[i].size;
        memcpy(bundle->members[i].sha256, made->members[i].sha256, 65);
        bundle->member_count = i + 1;
    }
    return REPOSBX_OK;
}

static int record_bundle(struct rsbx_session *session, const reposbx_artifact_bundle *bundle,
                         reposbx_error *err)
{
    json_t *members = json_array();

    for (size_t i = 0; i < bundle->member_count; i++) {
        const reposbx_artifact_member *member = &bundle->members[i];

        (void)json_array_append_new(
            members, json_pack("{s:o, s:I, s:s}", "path",
                               rsbx_json_bytes(member->name, strlen(member->name)), "size",
                               (json_int_t)member->size, "sha256", member->sha256));
    }
    return rsbx_session_record(session, "artifacts_collected",
                               json_pack("{s:s, s:I, s:o}", "sha256", bundle->sha256, "size",
                                         (json_int_t)bundle->size, "members", members),
                               RSBX_AUDIT_ORDINARY, err);
}

int rsbx_session_artifacts(reposbx_artifact_bundle *out, struct rsbx_session *session,
                           const reposbx_artifact_options *options, reposbx_error *err)
{
    RSBX_AUTO(collection) collection_ptr collection = NULL;
    struct rsbx_bundle_result made = { .members = NULL };
    reposbx_artifact_bundle bundle = { .path = NULL };
    reposbx_error own = REPOSBX_ERROR_INIT;
    uint64_t max_bytes = 0;
    int rc = rsbx_session_usable(session, err != NULL ? err : (err = &own));

    if (rc != 0)
        return rc;
    collection = calloc(1, sizeof *collection);
    rc = collection != NULL ? check_options(&max_bytes, session, options, err)
                            : rsbx_fail_memory(err);
    if (rc == 0 && options->path_count == 0)
        rc = rsbx_fail(err, REPOSBX_EPOLICY, "paths: at least one file or folder is needed");
    if (rc == 0)
        rc = rsbx_paths_prepare(&collection->paths, options->paths, options->path_count, "paths",
                                err);
    if (rc == 0)
        rc = collect(collection, session, max_bytes, err);
    if (rc == REPOSBX_ELIMIT)
        rsbx_hint(err, "limits.artifact_bytes and limits.artifact_members of the policy are the bounds");
    if (rc == 0)
        rc = check_record(session, collection, err);
    RSBX_FAULT("artifacts.collected");
    if (rc == 0)
        rc = rsbx_bundle_finish(&made, collection->bundle, options->output, err);
    if (rc == 0)
        rc = take_result(&bundle, &made, options->output, err);
    if (rc != 0)
        (void)rsbx_session_refused(session, "artifacts", rc, err);
    if (rc == 0)
        rc = record_bundle(session, &bundle, err);
    rsbx_bundle_result_dispose(&made);
    if (rc != 0) {
        rsbx_artifact_bundle_dispose(&bundle);
        return rc;
    }
    *out = bundle;
    return REPOSBX_OK;
}

int rsbx_artifact_verify(reposbx_artifact_bundle *out, const char *path, reposbx_error *err)
{
    struct rsbx_bundle_result made = { .members = NULL };
    reposbx_artifact_bundle bundle = { .path = NULL };
    int rc = rsbx_bundle_verify(&made, path, NULL, err);

    if (rc == 0)
        rc = take_result(&bundle, &made, path, err);
    rsbx_bundle_result_dispose(&made);
    if (rc != 0) {
        rsbx_artifact_bundle_dispose(&bundle);
        return rc;
    }
    *out = bundle;
    return REPOSBX_OK;
}
