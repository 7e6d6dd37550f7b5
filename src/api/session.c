/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The public session functions: arguments and struct versions are checked here, calls on one
 * session are served one after the other, and the session room does the work.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <reposbx/session.h>
#include <reposbx/validate.h>

#include "base/error.h"
#include "run/run.h"
#include "session/session.h"

#include "base/banned.h"

#define STRUCT_VERSION 1U

struct reposbx_provider {
    struct rsbx_state *state;
};

struct reposbx_session {
    pthread_mutex_t mutex;
    struct rsbx_session *own;
};

static int missing(const char *what, reposbx_error *err)
{
    return rsbx_fail(err, REPOSBX_EINVALID, "%s: missing", what);
}

static int wrong_version(const char *what, unsigned int version, reposbx_error *err)
{
    return rsbx_fail(err, REPOSBX_EINVALID, "%s: version %u; this library knows %u", what, version,
                     STRUCT_VERSION);
}

int reposbx_provider_open(reposbx_provider **out, const reposbx_provider_options *options,
                          reposbx_error *err)
{
    reposbx_provider *provider;
    int rc;

    if (out == NULL)
        return missing("out", err);
    if (options != NULL && options->version != STRUCT_VERSION)
        return wrong_version("provider options", options->version, err);
    provider = calloc(1, sizeof *provider);
    if (provider == NULL)
        return rsbx_fail_memory(err);
    rc = rsbx_state_open(&provider->state, options != NULL ? options->engine : NULL,
                         options != NULL ? options->state_dir : NULL, err);
    if (rc != 0) {
        free(provider);
        return rc;
    }
    *out = provider;
    return REPOSBX_OK;
}

void reposbx_provider_free(reposbx_provider *provider)
{
    if (provider == NULL)
        return;
    rsbx_state_free(provider->state);
    free(provider);
}

const char *reposbx_provider_state_dir(const reposbx_provider *provider)
{
    return rsbx_state_dir(provider->state);
}

const char *reposbx_provider_engine(const reposbx_provider *provider)
{
    return rsbx_state_engine(provider->state);
}

/* Wraps a session of the room; takes it over, also on failure. */
static int wrap(reposbx_session **out, struct rsbx_session *own, reposbx_error *err)
{
    reposbx_session *session = calloc(1, sizeof *session);

    if (session == NULL || pthread_mutex_init(&session->mutex, NULL) != 0) {
        free(session);
        rsbx_session_free(own);
        return rsbx_fail_memory(err);
    }
    session->own = own;
    *out = session;
    return REPOSBX_OK;
}

int reposbx_session_create(reposbx_session **out, reposbx_provider *provider,
                           const reposbx_spec *spec, reposbx_error *err)
{
    return reposbx_session_create_until(out, provider, spec, -1, err);
}

int reposbx_session_create_until(reposbx_session **out, reposbx_provider *provider,
                                 const reposbx_spec *spec, int cancel_fd, reposbx_error *err)
{
    struct rsbx_session *own = NULL;
    int rc;

    if (out == NULL || provider == NULL || spec == NULL)
        return missing(out == NULL ? "out" : provider == NULL ? "provider" : "spec", err);
    if (spec->version != STRUCT_VERSION)
        return wrong_version("spec", spec->version, err);
    if (spec->exclude_count > 0 && spec->exclude_subtrees == NULL)
        return missing("exclude_subtrees", err);
    rc = rsbx_session_create(&own, provider->state, spec, cancel_fd, err);
    return rc != 0 ? rc : wrap(out, own, err);
}

int reposbx_session_open(reposbx_session **out, reposbx_provider *provider, const char *id,
                         reposbx_error *err)
{
    struct rsbx_session *own = NULL;
    int rc;

    if (out == NULL || provider == NULL || id == NULL)
        return missing(out == NULL ? "out" : provider == NULL ? "provider" : "id", err);
    rc = rsbx_session_open(&own, provider->state, id, err);
    return rc != 0 ? rc : wrap(out, own, err);
}

void reposbx_session_free(reposbx_session *session)
{
    if (session == NULL)
        return;
    rsbx_session_free(session->own);
    (void)pthread_mutex_destroy(&session->mutex);
    free(session);
}

const char *reposbx_session_id(const reposbx_session *session)
{
    return rsbx_session_id(session->own);
}

const char *reposbx_session_audit_dir(const reposbx_session *session)
{
    return rsbx_session_audit_dir(session->own);
}

int reposbx_session_metadata_json(char **out, reposbx_provider *provider, const char *id,
                                  reposbx_error *err)
{
    if (out == NULL || provider == NULL || id == NULL)
        return missing(out == NULL ? "out" : provider == NULL ? "provider" : "id", err);
    return rsbx_metadata_text(out, provider->state, id, err);
}

int reposbx_session_list_json(char **out, reposbx_provider *provider, reposbx_error *err)
{
    if (out == NULL || provider == NULL)
        return missing(out == NULL ? "out" : "provider", err);
    return rsbx_metadata_list(out, provider->state, err);
}

int reposbx_session_audit_path(char **out, reposbx_provider *provider, const char *id,
                               reposbx_error *err)
{
    if (out == NULL || provider == NULL || id == NULL)
        return missing(out == NULL ? "out" : provider == NULL ? "provider" : "id", err);
    return rsbx_audit_path(out, provider->state, id, err);
}

/* Serves `call`, an expression, while the session's mutex is held. */
#define SERVE(session, call)                                                                       \
    int rc;                                                                                        \
    (void)pthread_mutex_lock(&(session)->mutex);                                                   \
    rc = (call);                                                                                   \
    (void)pthread_mutex_unlock(&(session)->mutex);                                                 \
    return rc

int reposbx_session_exec(reposbx_exec_result *out, reposbx_session *session,
                         const reposbx_exec_request *request, reposbx_error *err)
{
    if (out == NULL || session == NULL || request == NULL)
        return missing(out == NULL ? "out" : session == NULL ? "session" : "request", err);
    if (request->version != STRUCT_VERSION)
        return wrong_version("exec request", request->version, err);
    SERVE(session, rsbx_session_exec(out, session->own, request, err));
}

void reposbx_exec_result_dispose(reposbx_exec_result *result)
{
    rsbx_exec_result_dispose(result);
}

int reposbx_session_read(char **bytes, size_t *length, reposbx_session *session, const char *path,
                         uint64_t max_bytes, reposbx_error *err)
{
    if (bytes == NULL || length == NULL || session == NULL || path == NULL)
        return missing(session == NULL ? "session" : path == NULL ? "path" : "output", err);
    SERVE(session, rsbx_session_read(bytes, length, session->own, path, max_bytes, err));
}

int reposbx_session_write(reposbx_session *session, const char *path, const void *bytes,
                          size_t length, unsigned int flags, reposbx_error *err)
{
    if (session == NULL || path == NULL || (bytes == NULL && length > 0))
        return missing(session == NULL ? "session" : path == NULL ? "path" : "bytes", err);
    SERVE(session, rsbx_session_write(session->own, path, bytes, length, flags, err));
}

void reposbx_file_list_dispose(reposbx_file_list *list)
{
    rsbx_file_list_dispose(list);
}

int reposbx_session_list_files(reposbx_file_list *out, reposbx_session *session, const char *path,
                               reposbx_error *err)
{
    if (out == NULL || session == NULL)
        return missing(out == NULL ? "out" : "session", err);
    SERVE(session, rsbx_session_list_files(out, session->own, path, err));
}

void reposbx_diff_result_dispose(reposbx_diff_result *result)
{
    rsbx_diff_outcome_dispose(result);
}

int reposbx_session_diff(reposbx_diff_result *out, reposbx_session *session,
                         const reposbx_diff_options *options, reposbx_error *err)
{
    static const reposbx_diff_options defaults = REPOSBX_DIFF_OPTIONS_INIT;

    if (out == NULL || session == NULL)
        return missing(out == NULL ? "out" : "session", err);
    if (options == NULL)
        options = &defaults;
    if (options->version != STRUCT_VERSION)
        return wrong_version("diff options", options->version, err);
    if (options->untracked != REPOSBX_UNTRACKED_ALL &&
        options->untracked != REPOSBX_UNTRACKED_UNIGNORED)
        return rsbx_fail(err, REPOSBX_EINVALID, "untracked: %d is no choice", options->untracked);
    SERVE(session, rsbx_session_diff(out, session->own, options, err));
}

int reposbx_repository_tree(char tree[41], const char *repo, const char *revision,
                            const reposbx_policy *policy, reposbx_error *err)
{
    if (tree == NULL || repo == NULL || revision == NULL)
        return missing(tree == NULL ? "tree" : repo == NULL ? "repo" : "revision", err);
    return rsbx_repository_tree(tree, repo, revision, policy, err);
}

int reposbx_session_artifacts(reposbx_artifact_bundle *out, reposbx_session *session,
                              const reposbx_artifact_options *options, reposbx_error *err)
{
    if (out == NULL || session == NULL || options == NULL)
        return missing(out == NULL ? "out" : session == NULL ? "session" : "options", err);
    if (options->version != STRUCT_VERSION)
        return wrong_version("artifact options", options->version, err);
    if (options->path_count > 0 && options->paths == NULL)
        return missing("paths", err);
    SERVE(session, rsbx_session_artifacts(out, session->own, options, err));
}

int reposbx_session_fork(reposbx_session **out, reposbx_session *session,
                         reposbx_provider *provider, reposbx_error *err)
{
    return reposbx_session_fork_until(out, session, provider, -1, err);
}

int reposbx_session_fork_until(reposbx_session **out, reposbx_session *session,
                               reposbx_provider *provider, int cancel_fd, reposbx_error *err)
{
    struct rsbx_session *own = NULL;
    int rc;

    if (out == NULL || session == NULL || provider == NULL)
        return missing(out == NULL ? "out" : session == NULL ? "session" : "provider", err);
    (void)pthread_mutex_lock(&session->mutex);
    rc = rsbx_session_fork(&own, provider->state, session->own, cancel_fd, err);
    (void)pthread_mutex_unlock(&session->mutex);
    return rc != 0 ? rc : wrap(out, own, err);
}

int reposbx_validate(reposbx_validate_result *out, reposbx_provider *provider,
                     const reposbx_validate_request *request, reposbx_error *err)
{
    if (out == NULL || provider == NULL || request == NULL)
        return missing(out == NULL ? "out" : provider == NULL ? "provider" : "request", err);
    if (request->version != STRUCT_VERSION)
        return wrong_version("validate request", request->version, err);
    if (request->spec == NULL || (request->patch == NULL && request->patch_length > 0))
        return missing(request->spec == NULL ? "spec" : "patch", err);
    if (request->spec->version != STRUCT_VERSION)
        return wrong_version("spec", request->spec->version, err);
    if (request->command != NULL && request->command->version != STRUCT_VERSION)
        return wrong_version("exec request", request->command->version, err);
    if ((request->close_flags & ~(REPOSBX_DROP_AUDIT | REPOSBX_CLOSE_BEHIND)) != 0)
        return rsbx_fail(err, REPOSBX_EINVALID, "close_flags: %d has bits that mean nothing",
                         request->close_flags);
    return rsbx_validate(out, provider->state, request, err);
}

int reposbx_session_close(reposbx_session *session, int flags, reposbx_error *err)
{
    if (session == NULL)
        return missing("session", err);
    if ((flags & ~(REPOSBX_DROP_AUDIT | REPOSBX_CLOSE_BEHIND)) != 0)
        return rsbx_fail(err, REPOSBX_EINVALID, "flags: %d has bits that mean nothing", flags);
    SERVE(session, rsbx_session_close(session->own, flags, err));
}

void reposbx_reap_report_dispose(reposbx_reap_report *report)
{
    rsbx_reap_report_dispose(report);
}

/* What dead processes left of one-shot code goes into the same report; no session has it. */
struct run_reaping {
    reposbx_reap_report *report;
    int dry_run;
    int rc;
    reposbx_error *err;
};

static void add_item(struct run_reaping *reaping, const char *object, const char *failure)
{
    reposbx_reap_report *report = reaping->report;
    reposbx_reap_item *grown = realloc(report->items, (report->count + 1) * sizeof *grown);
    reposbx_reap_item item = { .action = failure != NULL      ? "failed"
                                         : reaping->dry_run ? "would_remove"
                                                            : "removed" };

    if (grown == NULL) {
        reaping->rc = rsbx_fail_memory(reaping->err);
        return;
    }
    report->items = grown;
    item.detail = strdup(failure != NULL ? failure : "");
    item.object = strdup(object);
    report->items[report->count++] = item;
    report->failed += failure != NULL;
    if (item.detail == NULL || item.object == NULL)
        reaping->rc = rsbx_fail_memory(reaping->err);
}

static void on_removed(void *payload, const char *name)
{
    char object[128];

    (void)snprintf(object, sizeof object, "container %s", name);
    add_item(payload, object, NULL);
}

int reposbx_reap(reposbx_reap_report *out, reposbx_provider *provider, int dry_run,
                 reposbx_error *err)
{
    struct run_reaping reaping = { .report = out, .dry_run = dry_run, .err = err };
    reposbx_error why = REPOSBX_ERROR_INIT;
    int rc;

    if (out == NULL || provider == NULL)
        return missing(out == NULL ? "out" : "provider", err);
    rc = rsbx_reap(out, provider->state, dry_run, err);
    if (rc != 0)
        return rc;
    if (rsbx_run_reap(rsbx_state_dir(provider->state), dry_run, on_removed, &reaping, &why) != 0)
        add_item(&reaping, "containers of one-shot code", why.message);
    if (reaping.rc != 0)
        rsbx_reap_report_dispose(out);
    return reaping.rc;
}
