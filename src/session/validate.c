/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Validation of a patch.
 *
 *     patch read ─► applied to the repository's tree (no engine yet; no fit: the answer is no)
 *        ─► session ─► patch placed and proved ─► command ─► compared ─► session closed
 *
 * Invariants:
 *  1. Nothing is made before the patch is known to be one and to apply.
 *  2. A session that was made is closed before the call returns, whatever happened.
 *  3. The command runs on a workspace whose diff has proved to be the patch's, or not at all.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "base/path.h"
#include "base/text.h"
#include "codec/sha256.h"
#include "diff/incoming.h"
#include "session/internal.h"
#include "session/snapshot.h"

#include "base/banned.h"

/* Contents of all files that the patch changes, old and new each: they are held in memory. */
#define MAX_CONTENT_BYTES (256ULL * 1024ULL * 1024ULL)
/* A command that changes more than this gets no comparison. */
#define MAX_COMPARED_BYTES (64ULL * 1024ULL * 1024ULL)

typedef struct rsbx_source *rsbx_source_ptr;
RSBX_CLEANUP(rsbx_source, rsbx_source_ptr, rsbx_source_free);
RSBX_CLEANUP(rsbx_diff, rsbx_diff_ptr, rsbx_diff_free);

struct validation {
    const reposbx_validate_request *request;
    const reposbx_policy *policy;
    struct rsbx_incoming *incoming;
    struct rsbx_incoming_outcome outcome;
    reposbx_validate_result *result;
};

static void validation_autop(struct validation *validation)
{
    rsbx_incoming_free(validation->incoming);
    rsbx_incoming_outcome_dispose(&validation->outcome);
}

void rsbx_validate_result_dispose(reposbx_validate_result *result)
{
    if (result == NULL)
        return;
    for (size_t i = 0; i < result->file_count; i++) {
        free(result->files[i].path);
        free(result->files[i].from);
    }
    for (size_t i = 0; i < result->changed_count; i++)
        free(result->changed[i]);
    free(result->files);
    free(result->changed);
    free(result->sandbox_id);
    rsbx_exec_result_dispose(&result->exec);
    memset(result, 0, sizeof *result);
}

static int check_cancelled(const struct validation *validation, reposbx_error *err)
{
    return rsbx_check_cancelled(&validation->request->cancel_fd, err);
}

/* ---- what is asked ---- */

/* The same rules as of exec, which looks again: a command that is refused costs no session. */
static int check_command(const struct validation *validation, reposbx_error *err)
{
    const reposbx_exec_request *command = validation->request->command;
    const struct rsbx_limit_request lower = { .cpus = command->cpus,
                                              .timeout_seconds = command->timeout_seconds,
                                              .memory_bytes = command->memory_bytes,
                                              .pids = command->pids };
    reposbx_limits limits;
    char cwd[RSBX_MAX_PATH_BYTES + 1];
    int rc = rsbx_check_argv(command->argv, command->argc, err);

    if (rc == 0 && validation->request->spec->image == NULL)
        rc = rsbx_fail(err, REPOSBX_EINVALID, "image: missing; a command needs one to run in");
    if (rc == 0)
        rc = rsbx_check_env(command->env, command->env_count, err);
    if (rc == 0)
        rc = rsbx_path_request(cwd, command->cwd != NULL ? command->cwd : ".", true, "cwd", err);
    if (rc == 0)
        rc = rsbx_lower_limits(&limits, validation->policy, &lower, err);
    return rc;
}

static int check_request(struct validation *validation, reposbx_error *err)
{
    const reposbx_validate_request *request = validation->request;
    const reposbx_spec *spec = request->spec;
    const struct rsbx_incoming_rules rules = { .symlinks = validation->policy->keep_symlinks };
    const uint64_t limit = validation->policy->limits.stdin_bytes;
    int rc = REPOSBX_OK;

    if (spec->repo == NULL || spec->revision == NULL)
        return rsbx_fail(err, REPOSBX_EINVALID, "%s: missing",
                         spec->repo == NULL ? "repo" : "revision");
    rc = rsbx_check_revision(spec->revision, err);
    if (rc == 0 && request->command != NULL)
        rc = check_command(validation, err);
    if (rc == 0 && spec->image != NULL)
        rc = rsbx_check_image_reference(validation->policy, spec->image, err);
    if (rc == 0 && request->patch_length > limit) {
        rc = rsbx_fail(err, REPOSBX_EPOLICY, "patch: more than %" PRIu64 " bytes", limit);
        rsbx_hint(err, "limits.stdin_bytes of the policy bounds it");
    }
    if (rc == 0)
        rc = rsbx_incoming_read(&validation->incoming, request->patch, request->patch_length,
                                &rules, err);
    return rc;
}

/* ---- the repository alone ---- */

struct reading {
    const struct rsbx_incoming *incoming;
    struct rsbx_diff *diff;
    struct rsbx_diff_change change; /* a file whose content is coming; path NULL: none */
    char path[RSBX_MAX_PATH_BYTES + 1];
    struct rsbx_buf content;
    uint64_t bytes;
    uint64_t tree_files, tree_bytes; /* of the whole tree */
};

/* The file before is whole. */
static int end_file(struct reading *reading, reposbx_error *err)
{
    struct rsbx_diff_change *change = &reading->change;
    int rc;

    if (change->path == NULL)
        return REPOSBX_OK;
    change->old_content.length = reading->content.length;
    change->old_content.bytes = rsbx_buf_steal(&reading->content);
    rc = change->old_content.bytes != NULL ? rsbx_diff_change(reading->diff, change, err)
                                           : rsbx_fail_memory(err);
    if (rc != 0)
        free(change->old_content.bytes);
    *change = (struct rsbx_diff_change){ .path = NULL };
    return rc;
}

static int on_entry(struct reading *reading, const struct rsbx_source_event *event,
                    reposbx_error *err)
{
    int rc = end_file(reading, err);

    if (rc == 0)
        rc = rsbx_diff_base(reading->diff, event->path, event->path_length, event->mode, event->oid,
                            err);
    if (rc != 0 || !rsbx_incoming_wants(reading->incoming, event->path, event->path_length))
        return rc;
    reading->bytes += event->size;
    if (reading->bytes > MAX_CONTENT_BYTES)
        return rsbx_fail(err, REPOSBX_ELIMIT, "the files that the patch changes are larger than "
                                              "%llu bytes", MAX_CONTENT_BYTES);
    memcpy(reading->path, event->path, event->path_length + 1);
    reading->change = (struct rsbx_diff_change){ .path = reading->path,
                                                 .path_length = event->path_length,
                                                 .old_mode = event->mode };
    return REPOSBX_OK;
}

/* The whole tree, every blob checked, and the contents that the patch is about. */
static int read_repository(struct reading *reading, struct validation *validation,
                           reposbx_error *err)
{
    const reposbx_spec *spec = validation->request->spec;
    struct rsbx_source_options options =
        rsbx_source_options_of(validation->policy, spec->repo, spec->revision);
    RSBX_AUTO(rsbx_source) rsbx_source_ptr source = NULL;
    struct rsbx_source_event event = { .kind = RSBX_SOURCE_NOTE };
    int rc;

    options.cancel_fd = &validation->request->cancel_fd;
    rc = rsbx_source_open(&source, &options, err);
    while (rc == 0 && event.kind != RSBX_SOURCE_DONE) {
        rc = rsbx_source_next(&event, source, err);
        if (rc == 0 && event.kind == RSBX_SOURCE_ENTRY)
            rc = on_entry(reading, &event, err);
        else if (rc == 0 && event.kind == RSBX_SOURCE_DATA && reading->change.path != NULL)
            rc = rsbx_buf_append(&reading->content, event.bytes, event.length, err);
        if (rc == 0)
            rc = check_cancelled(validation, err);
    }
    if (rc == 0)
        rc = end_file(reading, err);
    if (rc == 0)
        memcpy(validation->result->base_tree, rsbx_source_facts(source)->tree, 41);
    if (rc == 0) {
        reading->tree_files = rsbx_source_facts(source)->expected_files;
        reading->tree_bytes = rsbx_source_facts(source)->expected_bytes;
    }
    return rc;
}

static int over(const char *what, reposbx_error *err)
{
    rsbx_hint(err, "source.%s of the policy sets this limit, also for what a patch makes", what);
    return REPOSBX_EPOLICY;
}

/* A tree that would be refused as a source is not made of one that was taken. */
static int check_bounds(const struct validation *validation, const struct reading *reading,
                        reposbx_error *err)
{
    const reposbx_policy *policy = validation->policy;
    uint64_t files = reading->tree_files, bytes = reading->tree_bytes;

    for (size_t i = 0; i < validation->outcome.file_count; i++) {
        const struct rsbx_incoming_file *change = &validation->outcome.files[i];
        const char *path = change->file.path;
        uint32_t depth = 0;

        for (size_t k = 0; k < change->file.path_length; k++)
            depth += path[k] == '/';
        if (change->file.new_mode != 0 && depth > policy->max_depth) {
            (void)rsbx_fail(err, REPOSBX_EPOLICY, "patch: folders nested deeper than %" PRIu32 " at %s",
                            policy->max_depth, path);
            return over("max_depth", err);
        }
        files += (change->file.old_mode == 0) - (uint64_t)(change->file.new_mode == 0);
        bytes += change->new_bytes - change->old_bytes;
    }
    if (files > policy->max_files) {
        (void)rsbx_fail(err, REPOSBX_EPOLICY, "patch: more than %" PRIu64 " files in the patched tree",
                        policy->max_files);
        return over("max_files", err);
    }
    if (bytes > policy->max_bytes) {
        (void)rsbx_fail(err, REPOSBX_EPOLICY, "patch: more than %" PRIu64 " bytes in the patched tree",
                        policy->max_bytes);
        return over("max_bytes", err);
    }
    return REPOSBX_OK;
}

static int apply(struct validation *validation, reposbx_error *err)
{
    RSBX_AUTO(rsbx_diff) rsbx_diff_ptr diff = NULL;
    RSBX_AUTO(rsbx_memory) void *memory = calloc(1, sizeof(struct reading));
    struct rsbx_diff_options options = { .max_bytes = MAX_CONTENT_BYTES };
    struct reading *reading = memory;
    int rc = memory != NULL ? rsbx_diff_new(&diff, err) : rsbx_fail_memory(err);

    if (rc != 0)
        return rc;
    reading->incoming = validation->incoming;
    reading->diff = diff;
    reading->content.limit = RSBX_MAX_BLOB_BYTES;
    rc = read_repository(reading, validation, err);
    rsbx_buf_dispose(&reading->content);
    options.base_tree = validation->result->base_tree;
    if (rc == 0)
        rc = rsbx_incoming_apply(&validation->outcome, validation->incoming, diff, &options, err);
    return rc == 0 && validation->outcome.applies ? check_bounds(validation, reading, err) : rc;
}

/* What the trial on the repository says. */
static int tell_trial(struct validation *validation, reposbx_error *err)
{
    reposbx_validate_result *result = validation->result;
    struct rsbx_incoming_outcome *outcome = &validation->outcome;

    result->applies = outcome->applies;
    memcpy(result->reason, outcome->reason, sizeof result->reason);
    if (!outcome->applies)
        return REPOSBX_OK;
    memcpy(result->result_tree, outcome->result_tree, 41);
    result->files = calloc(outcome->file_count + 1, sizeof *result->files);
    if (result->files == NULL)
        return rsbx_fail_memory(err);
    for (size_t i = 0; i < outcome->file_count; i++) {
        struct rsbx_incoming_file *from = &outcome->files[i];
        reposbx_validate_file *to = &result->files[i];

        to->path = from->file.path;
        to->from = from->from;
        from->file.path = from->from = NULL;
        to->status = rsbx_diff_status_word(from->file.status);
        to->old_mode = from->file.old_mode;
        to->new_mode = from->file.new_mode;
        memcpy(to->old_oid, from->file.old_oid, sizeof to->old_oid);
        memcpy(to->new_oid, from->file.new_oid, sizeof to->new_oid);
        result->file_count = i + 1;
    }
    return REPOSBX_OK;
}

/* ---- after the command ---- */

static int add_changed(reposbx_validate_result *result, const char *path, reposbx_error *err)
{
    char **grown = realloc(result->changed, (result->changed_count + 1) * sizeof *grown);

    if (grown == NULL)
        return rsbx_fail_memory(err);
    result->changed = grown;
    grown[result->changed_count] = strdup(path);
    if (grown[result->changed_count] == NULL)
        return rsbx_fail_memory(err);
    result->changed_count++;
    return REPOSBX_OK;
}

static int compare_texts(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Both are sorted by path and speak of the same base. */
static int compare(reposbx_validate_result *result, const reposbx_diff_result *before,
                   const reposbx_diff_result *after, reposbx_error *err)
{
    size_t i = 0, k = 0;
    int rc = REPOSBX_OK;

    while (rc == 0 && (i < before->file_count || k < after->file_count)) {
        const reposbx_diff_file *old = i < before->file_count ? &before->files[i] : NULL;
        const reposbx_diff_file *new = k < after->file_count ? &after->files[k] : NULL;
        int order = old == NULL ? 1 : new == NULL ? -1 : strcmp(old->path, new->path);

        if (order != 0 || old->new_mode != new->new_mode || strcmp(old->new_oid, new->new_oid) != 0)
            rc = add_changed(result, order <= 0 ? old->path : new->path, err);
        i += order <= 0;
        k += order >= 0;
    }
    for (size_t j = 0; rc == 0 && j < after->omitted_count; j++)
        rc = add_changed(result, after->omitted[j].path, err);
    if (result->changed_count > 1)
        qsort(result->changed, result->changed_count, sizeof *result->changed, compare_texts);
    return rc;
}

static int look_again(reposbx_validate_result *result, struct rsbx_session *session,
                      const reposbx_diff_result *before, reposbx_error *err)
{
    const reposbx_diff_options options = { .version = 1, .max_bytes = MAX_COMPARED_BYTES };
    reposbx_diff_result after = { .patch = NULL };
    int rc = rsbx_session_diff(&after, session, &options, err);

    if (rc == REPOSBX_ELIMIT) { /* the command's business, and no reason to fail */
        memcpy(result->compare_reason, err->message, sizeof result->compare_reason);
        *err = (reposbx_error)REPOSBX_ERROR_INIT;
        return REPOSBX_OK;
    }
    if (rc == 0)
        rc = compare(result, before, &after, err);
    rsbx_diff_outcome_dispose(&after);
    result->compared = rc == 0;
    return rc;
}

/* How it ended, for a sentence that begins with "the command". */
static const char *ending(const reposbx_exec_result *exec)
{
    switch ((enum reposbx_exec_status)exec->status) {
    case REPOSBX_TIMED_OUT:
        return "timed out";
    case REPOSBX_OUTPUT_LIMITED:
        return "wrote more than its output limit";
    case REPOSBX_OOM_KILLED:
        return "was killed for memory";
    case REPOSBX_EXITED:
    case REPOSBX_SIGNALED:
    case REPOSBX_STATUS_UNKNOWN:
        break;
    }
    return "ended in a way that is not known";
}

/* Whether the command is content, and in words why not. */
static void judge(reposbx_validate_result *result)
{
    const reposbx_exec_result *exec = &result->exec;
    char text[128];

    result->ok = exec->status == REPOSBX_EXITED && exec->exit_code == 0;
    if (result->ok)
        return;
    if (exec->status == REPOSBX_EXITED && exec->exec_errno != 0)
        (void)snprintf(result->reason, sizeof result->reason, "the command cannot be started: %s",
                       strerror_r(exec->exec_errno, text, sizeof text));
    else if (exec->status == REPOSBX_EXITED)
        (void)snprintf(result->reason, sizeof result->reason, "the command ended with %d",
                       exec->exit_code);
    else if (exec->status == REPOSBX_SIGNALED)
        (void)snprintf(result->reason, sizeof result->reason, "the command was killed by signal %d",
                       exec->signal);
    else
        (void)snprintf(result->reason, sizeof result->reason, "the command %s", ending(exec));
}

/* ---- the session ---- */

static int run_command(struct validation *validation, struct rsbx_session *session,
                       const reposbx_diff_result *placed, reposbx_error *err)
{
    reposbx_exec_request command = *validation->request->command;
    reposbx_validate_result *result = validation->result;
    int rc;

    command.cancel_fd = validation->request->cancel_fd;
    rc = rsbx_session_exec(&result->exec, session, &command, err);
    if (rc != 0)
        return rc;
    result->ran = 1;
    judge(result);
    if (result->exec.status == REPOSBX_STATUS_UNKNOWN) { /* nobody is there to be asked */
        (void)snprintf(result->compare_reason, sizeof result->compare_reason,
                       "the engine or the guest went away");
        return REPOSBX_OK;
    }
    return look_again(result, session, placed, err);
}

static int work_in(struct validation *validation, struct rsbx_session *session, reposbx_error *err)
{
    reposbx_validate_result *result = validation->result;
    reposbx_diff_result placed = { .patch = NULL };
    const char *tree = json_string_value(json_object_get(session->metadata, "source_tree"));
    int rc = check_cancelled(validation, err);

    if (rc == 0 && (tree == NULL || strcmp(tree, result->base_tree) != 0))
        rc = rsbx_fail(err, REPOSBX_EPROTOCOL, "the repository changed while it was read");
    if (rc == 0)
        rc = rsbx_session_place(&placed, session, &validation->outcome, result->patch_sha256,
                                result->patch_bytes, err);
    if (rc == 0)
        rc = check_cancelled(validation, err);
    if (rc == 0 && validation->request->command != NULL)
        rc = run_command(validation, session, &placed, err);
    else if (rc == 0)
        result->ok = 1;
    rsbx_diff_outcome_dispose(&placed);
    return rc;
}

static int run_session(struct validation *validation, struct rsbx_state *state, reposbx_error *err)
{
    int cancel_fd = validation->request->cancel_fd;
    struct rsbx_session *session = NULL;
    reposbx_error later = REPOSBX_ERROR_INIT;
    int closed;
    int rc = rsbx_session_create(&session, state, validation->request->spec, cancel_fd, err);

    if (rc != 0)
        return rc;
    session->cancel_fd = cancel_fd;
    validation->result->sandbox_id = strdup(session->id);
    if (validation->result->sandbox_id == NULL)
        rc = rsbx_fail_memory(err);
    if (rc == 0)
        rc = work_in(validation, session, err);
    session->cancel_fd = -1; /* invariant 2 */
    closed = rsbx_session_close(session, validation->request->close_flags, &later);
    rsbx_session_free(session);
    if (rc != 0 || closed == 0)
        return rc;
    *err = later;
    return closed;
}

/* Up to the answer of the repository. */
static int try_patch(struct validation *validation, reposbx_error *err)
{
    int rc = check_request(validation, err);

    if (rc == 0)
        rc = apply(validation, err);
    return rc == 0 ? tell_trial(validation, err) : rc;
}

int rsbx_validate(reposbx_validate_result *out, struct rsbx_state *state,
                  const reposbx_validate_request *request, reposbx_error *err)
{
    RSBX_AUTO(rsbx_policy) reposbx_policy *fallback = NULL;
    RSBX_AUTO(validation) struct validation validation = { .request = request,
                                                           .policy = request->spec->policy };
    reposbx_validate_result result = { .patch_bytes = request->patch_length };
    reposbx_error own = REPOSBX_ERROR_INIT;
    int rc = REPOSBX_OK;

    if (err == NULL)
        err = &own;
    validation.result = &result;
    rsbx_sha256_hex(result.patch_sha256, request->patch_length > 0 ? request->patch : "",
                    request->patch_length);
    if (validation.policy == NULL) {
        rc = reposbx_policy_default(&fallback, err);
        validation.policy = fallback;
    }
    if (rc == 0) {
        rc = try_patch(&validation, err);
        if (rc != 0)
            rsbx_state_refused(state, request->spec, rc, err);
    }
    if (rc == 0 && result.applies && request->spec->image != NULL) {
        rc = run_session(&validation, state, err);
    } else if (rc == 0) {
        result.ok = result.applies;
        rc = rsbx_state_patch(state, request->spec, &result, err);
    }
    if (rc != 0) {
        rsbx_validate_result_dispose(&result);
        return rc;
    }
    *out = result;
    return REPOSBX_OK;
}
