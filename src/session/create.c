/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Making a session. First everything is asked and checked (request, repository, host, image): up to
 * there nothing exists anywhere. Then the folder with its lock, and from then on every object is
 * journaled before it is made; a failure clears what the journal names and forgets the folder. So does
 * a cancel, which every wait of a creation hears and no wait of the clearing.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/path.h"
#include "base/text.h"
#include "codec/sha256.h"
#include "session/internal.h"
#include "session/join.h"
#include "session/snapshot.h"

#include "base/banned.h"

/* The word of a baseline's record once somebody has worked in an overlay over it. */
#define OVERLAY_WORKS "works"

/* Confinements that a baseline's record remembers. */
#define MAX_PROVED 64U

/* A creation under way. */
struct creation {
    const reposbx_spec *spec;
    int cancel_fd;
    reposbx_policy *policy; /* a private copy */
    struct rsbx_paths excludes;
    struct rsbx_source *source;
    struct rsbx_provider *provider;
    struct rsbx_host_facts host;
    struct rsbx_image_facts image;
    enum rsbx_workspace_mode mode;
    const char *platform;
    char *seccomp_profile;
    struct rsbx_source_options source_options;
    struct rsbx_joined joined;
    json_t *observed; /* of the container that proved the confinement on a known baseline, or NULL */
    const char *workspace_reason;
};

static void creation_dispose(struct creation *creation)
{
    rsbx_join_release(&creation->joined);
    rsbx_source_free(creation->source);
    rsbx_provider_free(creation->provider);
    rsbx_image_facts_dispose(&creation->image);
    reposbx_policy_free(creation->policy);
    json_decref(creation->observed);
    rsbx_paths_dispose(&creation->excludes);
    free(creation->seccomp_profile);
}

static void creation_autop(struct creation *creation)
{
    creation_dispose(creation);
}

/* A copy of the caller's policy (or the default), through its document. */
static int own_policy(struct creation *creation, reposbx_error *err)
{
    RSBX_AUTO(rsbx_text) char *text = NULL;
    int rc;

    if (creation->spec->policy == NULL)
        return reposbx_policy_default(&creation->policy, err);
    rc = reposbx_policy_json(&text, creation->spec->policy, 0, err);
    if (rc == 0)
        rc = reposbx_policy_parse(&creation->policy, text, strlen(text), err);
    return rc;
}

static int check_workspace_mode(struct creation *creation, reposbx_error *err)
{
    const char *mode = creation->spec->workspace;

    if (mode == NULL)
        creation->mode = creation->policy->workspace_mode;
    else if (strcmp(mode, "auto") == 0)
        creation->mode = RSBX_WORKSPACE_AUTO;
    else if (strcmp(mode, "overlay") == 0)
        creation->mode = RSBX_WORKSPACE_OVERLAY;
    else if (strcmp(mode, "copy") == 0)
        creation->mode = RSBX_WORKSPACE_COPY;
    else
        return rsbx_fail(err, REPOSBX_EINVALID,
                         "workspace: \"%s\" is not one of auto, overlay, copy", mode);
    if (creation->policy->require_disk_quota)
        return rsbx_fail(err, REPOSBX_EPOLICY,
                         "workspace.require_disk_quota: this engine's volumes have no disk quota");
    return REPOSBX_OK;
}

/* The state folder must not lie inside the repository: commands' outputs would become source. */
static int check_apart(const struct rsbx_state *state, const char *repo, reposbx_error *err)
{
    RSBX_AUTO(rsbx_text) char *real = realpath(repo, NULL);

    if (real == NULL)
        return rsbx_fail_errno(
            err, errno == ENOENT || errno == ENOTDIR ? REPOSBX_ENOTFOUND : REPOSBX_EPOLICY,
            "repo: cannot reach %s", repo);
    if (strcmp(real, "/") != 0 && rsbx_path_below(state->dir, strlen(state->dir), real)) {
        (void)rsbx_fail(err, REPOSBX_EPOLICY, "the state folder %s lies inside the repository",
                        state->dir);
        rsbx_hint(err, "give a folder outside of it with --state-dir");
        return REPOSBX_EPOLICY;
    }
    return REPOSBX_OK;
}

static int check_request(struct creation *creation, const struct rsbx_state *state,
                         reposbx_error *err)
{
    const reposbx_spec *spec = creation->spec;
    int rc = own_policy(creation, err);

    if (rc == 0 && spec->repo == NULL)
        rc = rsbx_fail(err, REPOSBX_EINVALID, "repo: missing");
    if (rc == 0 && spec->image == NULL)
        rc = rsbx_fail(err, REPOSBX_EINVALID, "image: missing");
    if (rc == 0 && spec->revision != NULL)
        rc = rsbx_check_revision(spec->revision, err);
    if (rc == 0 && spec->revision == NULL && creation->policy->require_source_revision) {
        rc = rsbx_fail(err, REPOSBX_EPOLICY, "revision: the policy demands an exact revision");
        rsbx_hint(err, "give --revision, or a policy with require_source_revision false");
    }
    if (rc == 0 && spec->task_id != NULL)
        rc = rsbx_check_task_id(spec->task_id, err);
    if (rc == 0 && spec->platform != NULL)
        rc = rsbx_check_platform(spec->platform, err);
    if (rc == 0)
        rc = rsbx_check_image_reference(creation->policy, spec->image, err);
    if (rc == 0)
        rc = rsbx_paths_prepare(&creation->excludes, spec->exclude_subtrees, spec->exclude_count,
                                "exclude_subtrees", err);
    if (rc == 0)
        rc = check_workspace_mode(creation, err);
    if (rc == 0)
        rc = check_apart(state, spec->repo, err);
    return rc;
}

/* A child begins to validate the repository. */
static int start_source(struct creation *creation, reposbx_error *err)
{
    creation->source_options =
        rsbx_source_options_of(creation->policy, creation->spec->repo, creation->spec->revision);
    creation->source_options.excludes = (const char *const *)creation->excludes.list;
    creation->source_options.exclude_count = creation->excludes.count;
    creation->source_options.cancel_fd = &creation->cancel_fd;
    if (creation->spec->progress != NULL) {
        reposbx_progress progress = { .step = "check" };

        creation->spec->progress(creation->spec->progress_payload, &progress);
    }
    return rsbx_source_start(&creation->source, &creation->source_options, err);
}

static int check_engine(struct creation *creation, const struct rsbx_state *state,
                        reposbx_error *err)
{
    struct rsbx_deadline deadline =
        rsbx_deadline_or(rsbx_deadline_in_ms(RSBX_ENGINE_CALL_MS), &creation->cancel_fd);
    int rc = rsbx_provider_open(&creation->provider, state->engine, 0, deadline, err);

    if (rc == 0)
        rc = creation->provider->ops->host(&creation->host, creation->provider, deadline, err);
    if (rc == 0)
        rc = rsbx_check_host(creation->policy, &creation->host, err);
    if (rc == 0)
        rc = creation->provider->ops->image(&creation->image, creation->provider,
                                            creation->spec->image, deadline, err);
    if (rc != 0)
        return rc;
    creation->platform =
        creation->spec->platform != NULL ? creation->spec->platform : creation->host.platform;
    return rsbx_check_image(creation->policy, creation->spec->image, creation->platform,
                            &creation->image, err);
}

/* Asks the engine while the child reads the repository, whose mistakes are told first. */
static int check_source_and_engine(struct creation *creation, const struct rsbx_state *state,
                                   reposbx_error *err)
{
    reposbx_error of_engine = REPOSBX_ERROR_INIT;
    int engine = REPOSBX_OK;
    int rc = start_source(creation, err);

    if (rc == 0)
        engine = check_engine(creation, state, &of_engine);
    if (rc == 0)
        rc = rsbx_source_await(creation->source, err);
    if (rc == 0 && engine != 0)
        *err = of_engine;
    return rc != 0 ? rc : engine;
}

static json_t *capabilities_value(const struct creation *creation, const reposbx_policy *policy)
{
    return json_pack("{s:s, s:s, s:b, s:b, s:b, s:b, s:b, s:b, s:b}", "provider",
                     creation->host.provider, "isolation", "container", "non_root_user", 1,
                     "network_isolation", policy->network == RSBX_NETWORK_NONE,
                     "read_only_rootfs", policy->read_only_rootfs, "resource_limits", 1,
                     "process_tree_cleanup", 1, "disk_quota", 0, "rootless_runtime",
                     creation->host.rootless);
}

static json_t *optional_text(const char *text)
{
    return text != NULL && text[0] != '\0' ? json_string(text) : json_null();
}

static int make_metadata(struct rsbx_session *session, const struct creation *creation,
                         reposbx_error *err)
{
    const struct rsbx_source_facts *facts = rsbx_source_facts(creation->source);
    json_t *policy = NULL;
    char created[RSBX_TIME_BYTES];
    int rc = rsbx_policy_value(&policy, session->policy, err);

    if (rc != 0)
        return rc;
    rsbx_time_text(created, rsbx_wall_ns());
    session->metadata = json_pack(
        "{s:s, s:o, s:s, s:s, s:s, s:s, s:s, s:o, s:o, s:n, s:I, s:I, s:s, s:s, s:s, s:b, s:o, "
        "s:o, s:s, s:s}",
        "sandbox_id", session->id, "task_id", optional_text(creation->spec->task_id), "provider",
        creation->host.provider, "isolation", "container", "image", creation->spec->image,
        "image_id", creation->image.id, "platform", creation->platform, "source_revision",
        optional_text(facts->commit), "source_tree", optional_text(facts->tree),
        "source_fingerprint", "source_file_count", (json_int_t)0, "source_bytes", (json_int_t)0,
        "workspace", creation->mode == RSBX_WORKSPACE_COPY ? "copy" : "overlay",
        "workspace_reason", creation->workspace_reason, "network",
        session->policy->network == RSBX_NETWORK_NONE ? "none" : "bridge", "rootless_runtime",
        creation->host.rootless, "policy", policy, "capabilities",
        capabilities_value(creation, session->policy),
        "created_at", created, "state", "creating");
    return session->metadata != NULL ? REPOSBX_OK : rsbx_fail_memory(err);
}

static json_t *excludes_value(const struct creation *creation)
{
    json_t *excludes = json_array();

    for (size_t i = 0; i < creation->excludes.count; i++) {
        const char *path = creation->excludes.list[i];

        if (json_array_append_new(excludes, rsbx_json_bytes(path, strlen(path))) != 0) {
            json_decref(excludes);
            return NULL;
        }
    }
    return excludes;
}

int rsbx_session_write_spec(struct rsbx_session *session, const json_t *excludes, json_t *stores,
                            reposbx_error *err)
{
    RSBX_AUTO(rsbx_json) rsbx_json_ptr owned = stores;
    char boot[RSBX_BOOT_ID_BYTES];
    int rc = rsbx_boot_id(boot, err);

    if (rc != 0)
        return rc;
    session->spec =
        json_pack("{s:i, s:s, s:i, s:s, s:I, s:I, s:O}", "version", 1, "engine", session->engine,
                  "engine_known", (int)session->provider->known, "boot_id", boot, "monotonic_ns",
                  (json_int_t)rsbx_now_ns(), "wall_ns", (json_int_t)rsbx_wall_ns(), "excludes",
                  excludes);
    if (session->spec == NULL || json_object_update(session->spec, owned) != 0)
        return rsbx_fail_memory(err);
    return rsbx_session_save(session, "spec.json", session->spec, err);
}

/* Whatever changes the snapshot of a tree, or what is told of it. */
static json_t *baseline_parts(const struct creation *creation)
{
    const struct rsbx_source_options *options = &creation->source_options;

    return json_pack("{s:i, s:i, s:i, s:o}", "symlinks", (int)options->symlinks, "submodules",
                     (int)options->submodules, "attributes", (int)options->attributes, "excludes",
                     excludes_value(creation));
}

/* Joins the stores, and settles the kind of workspace by what is known of overlays here. */
static int join(struct rsbx_session *session, struct creation *creation, reposbx_error *err)
{
    RSBX_AUTO(rsbx_json) rsbx_json_ptr parts = baseline_parts(creation);
    const struct rsbx_source_facts *facts = rsbx_source_facts(creation->source);
    const char *overlay;
    char plain[REPOSBX_SESSION_ID_BYTES + 8];
    int rc;

    if (parts == NULL)
        return rsbx_fail_memory(err);
    /* Nobody knows the content of a plain folder before it is read: shared with forks alone. */
    (void)snprintf(plain, sizeof plain, "plain-%s", session->id + 4);
    rc = rsbx_join(&creation->joined, session, facts->tree[0] != '\0' ? facts->tree : plain, parts,
                   err);
    if (rc != 0)
        return rc;
    overlay = rsbx_join_overlay(&creation->joined);
    creation->workspace_reason = "overlay works here";
    if (creation->mode == RSBX_WORKSPACE_AUTO && overlay != NULL &&
        strcmp(overlay, OVERLAY_WORKS) != 0) {
        creation->mode = RSBX_WORKSPACE_COPY;
        creation->workspace_reason = overlay; /* lives as long as `joined` */
    } else if (creation->mode == RSBX_WORKSPACE_COPY) {
        creation->workspace_reason = "copy was asked for";
    }
    return REPOSBX_OK;
}

int rsbx_session_begin(struct rsbx_session **out, struct rsbx_state *state, reposbx_error *err)
{
    uint8_t salt[16];
    char id[REPOSBX_SESSION_ID_BYTES] = "sbx-";
    int rc = rsbx_random(salt, sizeof salt, err);

    if (rc != 0)
        return rc;
    rsbx_hex(id + 4, salt, sizeof salt);
    rc = rsbx_session_folder(out, state, id, true, err);
    if (rc == 0)
        rc = rsbx_session_take_lock(*out, err);
    return rc == 0 ? rsbx_keepers_make(*out, err) : rc;
}

int rsbx_session_write_rest(struct rsbx_session *session, struct rsbx_state *state,
                            reposbx_error *err)
{
    int rc = REPOSBX_OK;

    if (mkdirat(session->dir_fd, "audit", 0700) != 0)
        rc = rsbx_fail_errno(err, REPOSBX_EIO, "cannot make the audit folder");
    if (rc == 0)
        rc = rsbx_session_save(session, "metadata.json", session->metadata, err);
    if (rc == 0 && session->seccomp_profile != NULL)
        rc = rsbx_replace_file_at(session->dir_fd, "seccomp.json", session->seccomp_profile,
                                  strlen(session->seccomp_profile), err);
    if (rc == 0)
        rc = rsbx_sync_fd(state->sessions_fd, "the state folder", err);
    RSBX_FAULT("create.folder");
    return rc;
}

/* The folder with everything in it that a later close or reap needs. */
static int make_folder(struct rsbx_session **out, struct rsbx_state *state,
                       struct creation *creation, reposbx_error *err)
{
    RSBX_AUTO(rsbx_json) rsbx_json_ptr excludes = excludes_value(creation);
    struct rsbx_session *session;
    int rc = excludes != NULL ? rsbx_session_begin(out, state, err) : rsbx_fail_memory(err);

    if (rc != 0)
        return rc;
    session = *out;
    session->policy = creation->policy;
    creation->policy = NULL;
    session->provider = creation->provider;
    creation->provider = NULL;
    session->seccomp_profile = creation->seccomp_profile;
    creation->seccomp_profile = NULL;
    session->cancel_fd = creation->cancel_fd;
    rc = join(session, creation, err);
    if (rc == 0)
        rc = make_metadata(session, creation, err);
    if (rc == 0)
        rc = rsbx_session_write_spec(session, excludes, rsbx_join_spec(&creation->joined, session),
                                     err);
    return rc == 0 ? rsbx_session_write_rest(session, state, err) : rc;
}

static int settle_metadata(struct rsbx_session *session, const struct rsbx_snapshot *snapshot,
                           reposbx_error *err)
{
    json_t *metadata = session->metadata;

    if (json_object_set_new(metadata, "source_tree", json_string(snapshot->tree)) != 0 ||
        json_object_set_new(metadata, "source_fingerprint",
                            json_string(snapshot->fingerprint)) != 0 ||
        json_object_set_new(metadata, "source_file_count",
                            json_integer((json_int_t)snapshot->files)) != 0 ||
        json_object_set_new(metadata, "source_bytes",
                            json_integer((json_int_t)snapshot->bytes)) != 0 ||
        json_object_set(metadata, "source_notes", snapshot->notes) != 0 ||
        json_object_set_new(metadata, "state", json_string("ready")) != 0)
        return rsbx_fail_memory(err);
    return REPOSBX_OK;
}

/* How an overlay over this baseline went, for those who come later; NULL when nobody knows. */
static const char *overlay_word(const struct rsbx_session *session, const struct creation *creation)
{
    if (rsbx_session_overlay(session))
        return OVERLAY_WORKS;
    if (creation->mode == RSBX_WORKSPACE_COPY)
        return rsbx_join_overlay(&creation->joined); /* it was not tried */
    return json_string_value(json_object_get(session->metadata, "workspace_reason"));
}

/* What confines the containers of this session. A baseline's record names those that a container has
 * already proved by its hello, each with the limits that were seen; a creation under any other has one
 * start, like the first of all. */
static int confinement(char out[RSBX_SHA256_HEX_BYTES], const struct rsbx_session *session,
                       reposbx_error *err)
{
    RSBX_AUTO(rsbx_json) rsbx_json_ptr parts = json_pack(
        "{s:O, s:O, s:s?}", "policy", json_object_get(session->metadata, "policy"), "image",
        json_object_get(session->metadata, "image_id"), "seccomp", session->seccomp_profile);
    RSBX_AUTO(rsbx_text) char *text = NULL;
    int rc = parts != NULL ? rsbx_json_canonical(&text, parts, err) : rsbx_fail_memory(err);

    if (rc == 0)
        rsbx_sha256_hex(out, text, strlen(text));
    return rc;
}

static json_t *proved(const json_t *facts, const char *digest)
{
    return json_object_get(json_object_get(facts, "proved"), digest);
}

/* The facts to write into the record: those of the snapshot, and what is proved by now. */
static json_t *new_facts(const struct rsbx_session *session, const struct rsbx_snapshot *snapshot,
                         const char *overlay, const json_t *old, const char *digest)
{
    RSBX_AUTO(rsbx_json) rsbx_json_ptr facts = rsbx_snapshot_facts(snapshot, overlay);
    RSBX_AUTO(rsbx_json) rsbx_json_ptr known = json_deep_copy(json_object_get(old, "proved"));

    if (!json_is_object(known) || json_object_size(known) >= MAX_PROVED) {
        json_decref(known);
        known = json_object();
    }
    /* whoever has facts to write has heard a hello: the seal's at least */
    if (json_object_set_new(known, digest, rsbx_observed_value(&session->observed)) != 0 ||
        json_object_set(facts, "proved", known) != 0)
        return NULL;
    return rsbx_json_steal(&facts);
}

/* Takes the snapshot, or takes over one that is there. */
static int take_snapshot(struct rsbx_snapshot *out, struct rsbx_session *session,
                         struct creation *creation, reposbx_error *err)
{
    struct rsbx_snapshot_order order = { .source = creation->source,
                                         .excludes = (const char *const *)creation->excludes.list,
                                         .exclude_count = creation->excludes.count,
                                         .max_files = session->policy->max_files,
                                         .fall_back = creation->mode == RSBX_WORKSPACE_AUTO
                                                          ? rsbx_session_fall_back
                                                          : NULL,
                                         .progress = creation->spec->progress,
                                         .progress_payload = creation->spec->progress_payload };
    const json_t *facts = rsbx_join_facts(&creation->joined);
    const char *overlay = rsbx_join_overlay(&creation->joined);
    bool works = overlay != NULL && strcmp(overlay, OVERLAY_WORKS) == 0;
    char digest[RSBX_SHA256_HEX_BYTES];
    bool mount;
    int rc = confinement(digest, session, err);

    if (rc == 0 && facts == NULL) {
        rc = rsbx_snapshot_make(out, session, &order, err);
        if (rc == 0)
            rc = rsbx_join_publish_baseline(
                &creation->joined, session,
                new_facts(session, out, overlay_word(session, creation), NULL, digest), err);
        return rc;
    }
    creation->observed = json_incref(proved(facts, digest));
    mount = !rsbx_session_overlay(session) || !works || creation->observed == NULL;
    if (rc == 0)
        rc = rsbx_join_manifest(&creation->joined, session, err);
    if (rc == 0)
        rc = rsbx_snapshot_known(out, session, &order, facts, mount, err);
    if (rc == 0)
        rc = rsbx_source_recheck(&creation->source_options, err);
    if (rc == 0 && (overlay == NULL || creation->observed == NULL))
        rc = rsbx_shared_update(&creation->joined.baseline,
                                new_facts(session, out, overlay_word(session, creation), facts,
                                          digest),
                                err);
    return rc;
}

int rsbx_session_record_created(struct rsbx_session *session, json_t *known, reposbx_error *err)
{
    json_t *observed = session->has_observed ? rsbx_observed_value(&session->observed)
                                             : json_incref(known);

    return rsbx_session_record(session, "sandbox_created",
                               json_pack("{s:O, s:o}", "metadata", session->metadata, "observed",
                                         observed),
                               RSBX_AUDIT_ORDINARY, err);
}

/* Everything that exists in the engine. */
static int build(struct rsbx_session *session, struct creation *creation, reposbx_error *err)
{
    struct rsbx_snapshot snapshot = { .notes = NULL };
    const struct rsbx_stores_order order = {
        .new_guest = creation->joined.guest.record == NULL,
        .new_baseline = rsbx_join_facts(&creation->joined) == NULL,
    };
    int rc = rsbx_session_make_stores(session, &order, err);

    if (rc == 0)
        rc = rsbx_join_publish_guest(&creation->joined, session, err);
    if (rc == 0)
        rc = take_snapshot(&snapshot, session, creation, err);
    rsbx_join_release(&creation->joined);
    if (rc == 0)
        rc = settle_metadata(session, &snapshot, err);
    if (rc == 0)
        rc = rsbx_session_record_created(session, creation->observed, err);
    RSBX_FAULT("create.recorded");
    if (rc == 0)
        rc = rsbx_session_save(session, "metadata.json", session->metadata, err);
    rsbx_snapshot_dispose(&snapshot);
    return rc;
}

void rsbx_session_undo(struct rsbx_session *session, struct rsbx_state *state, reposbx_error *err)
{
    reposbx_error left = REPOSBX_ERROR_INIT;
    char id[REPOSBX_SESSION_ID_BYTES];
    int rc;

    if (session == NULL)
        return;
    memcpy(id, session->id, sizeof id);
    session->cancel_fd = -1; /* what is left to do is not cancelled */
    rc = rsbx_session_clear(session, &left);
    if (rc == 0)
        rc = rsbx_session_forget(state, id, &left);
    else if (session->metadata != NULL)
        (void)rsbx_session_set_state(session, "poisoned", left.message, NULL);
    rsbx_session_free(session);
    if (rc != 0 && err != NULL) {
        char first[REPOSBX_MESSAGE_BYTES];

        memcpy(first, err->message, sizeof first);
        (void)snprintf(err->message, sizeof err->message, "%.480s; and %s is left: %.400s", first,
                       id, left.message);
        rsbx_hint(err, "reposbx reap removes it");
    }
}

int rsbx_session_create(struct rsbx_session **out, struct rsbx_state *state,
                        const reposbx_spec *spec, int cancel_fd, reposbx_error *err)
{
    RSBX_AUTO(creation) struct creation creation = { .spec = spec,
                                                          .cancel_fd = cancel_fd,
                                                          .joined = RSBX_JOINED_INIT };
    struct rsbx_session *session = NULL;
    reposbx_error own = REPOSBX_ERROR_INIT;
    int rc;

    if (err == NULL)
        err = &own;
    rc = check_request(&creation, state, err);
    if (rc == 0)
        rc = rsbx_session_seccomp(&creation.seccomp_profile, creation.policy, AT_FDCWD,
                                  creation.policy->seccomp_profile, err);
    if (rc == 0)
        rc = check_source_and_engine(&creation, state, err);
    if (rc == 0)
        rc = make_folder(&session, state, &creation, err);
    if (rc == 0)
        rc = build(session, &creation, err);
    if (rc != 0) {
        rsbx_state_refused(state, spec, rc, err);
        rsbx_join_release(&creation.joined); /* leaving them takes their locks */
        rsbx_session_undo(session, state, err);
        return rc;
    }
    session->cancel_fd = -1; /* it was the request's */
    *out = session;
    return REPOSBX_OK;
}
