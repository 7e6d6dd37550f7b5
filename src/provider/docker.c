/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Docker as a provider. Two rules run through this file:
 *  1. A create, start or remove whose answer is missing or odd says nothing: what counts is what an
 *     inspect by name shows afterwards, and an object without our session's label is never ours. After
 *     a cancel it is the clean-up that looks: a removal begins with it.
 *  2. Gone means that inspect says "no such object", not that a DELETE was answered.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/buf.h"
#include "base/limits.h"
#include "codec/json.h"
#include "codec/tar.h"
#include "engine/engine.h"
#include "provider/docker_spec.h"
#include "provider/objects.h"
#include "provider/provider.h"

#include "base/banned.h"

/* Between two looks at an object that is on its way out. */
#define POLL_NS 5000000L

struct docker {
    struct rsbx_provider base;
    struct rsbx_engine *engine;
};

struct docker_link {
    struct rsbx_link base;
    struct rsbx_stream *stream;
};

static struct rsbx_engine *engine_of(struct rsbx_provider *provider)
{
    return ((struct docker *)provider)->engine;
}

static void docker_free(struct rsbx_provider *provider)
{
    struct docker *docker = (struct docker *)provider;

    rsbx_engine_free(docker->engine);
    free(docker);
}

static int docker_open(struct rsbx_provider **out, const char *address, unsigned int known,
                       struct rsbx_deadline deadline, reposbx_error *err)
{
    struct docker *docker = calloc(1, sizeof *docker);
    int rc;

    if (docker == NULL)
        return rsbx_fail_memory(err);
    docker->base.ops = &rsbx_docker_provider;
    rc = known != 0 ? rsbx_engine_reopen(&docker->engine, address, known, err)
                    : rsbx_engine_open(&docker->engine, address, deadline, err);
    if (rc != 0) {
        free(docker);
        return rc;
    }
    docker->base.known = rsbx_engine_api_version(docker->engine);
    *out = &docker->base;
    return REPOSBX_OK;
}

static int docker_host(struct rsbx_host_facts *out, struct rsbx_provider *provider,
                       struct rsbx_deadline deadline, reposbx_error *err)
{
    struct rsbx_engine_host host;
    int rc = rsbx_engine_host(&host, engine_of(provider), deadline, err);

    if (rc != 0)
        return rc;
    memset(out, 0, sizeof *out);
    (void)snprintf(out->provider, sizeof out->provider, "docker");
    (void)snprintf(out->version, sizeof out->version, "%s", host.server_version);
    (void)snprintf(out->platform, sizeof out->platform, "%s/%s", host.os, host.architecture);
    out->rootless = host.rootless;
    out->seccomp = host.seccomp;
    out->cgroup_version = host.cgroup_version;
    out->systemd_cgroups = strcmp(host.cgroup_driver, "systemd") == 0;
    out->memory_limit = host.memory_limit;
    out->swap_limit = host.swap_limit;
    out->cpu_limit = host.cpu_quota;
    out->pids_limit = host.pids_limit;
    return REPOSBX_OK;
}

static int docker_image(struct rsbx_image_facts *out, struct rsbx_provider *provider,
                        const char *reference, struct rsbx_deadline deadline, reposbx_error *err)
{
    RSBX_AUTO(rsbx_json) rsbx_json_ptr document = NULL;
    struct rsbx_image_facts facts = { 0 };
    int rc = rsbx_engine_image_inspect(&document, engine_of(provider), reference, deadline, err);

    if (rc == REPOSBX_ENOTFOUND) {
        rc = rsbx_fail(err, REPOSBX_EUNAVAILABLE, "image %s is not on this engine", reference);
        rsbx_hint(err, "images are never pulled: load or import it first, then name it by the id or "
                       "digest that the engine shows");
    }
    if (rc != 0)
        return rc;
    rc = rsbx_image_read(&facts, document, err);
    if (rc != 0) {
        rsbx_image_facts_dispose(&facts);
        return rc;
    }
    *out = facts;
    return REPOSBX_OK;
}

/* Whether a container exists and is ours: 0 with *state filled; ENOTFOUND; EPOLICY. */
static int look_at_slot(struct rsbx_slot_state *out, struct rsbx_engine *engine, const char *name,
                        const char *session_id, struct rsbx_deadline deadline, reposbx_error *err)
{
    RSBX_AUTO(rsbx_json) rsbx_json_ptr document = NULL;
    json_t *state = NULL;
    uint64_t exit_code = 0;
    bool running = false;
    bool oom_killed = false;
    int rc = rsbx_engine_container_inspect(&document, engine, name, deadline, err);

    if (rc != 0)
        return rc;
    if (!rsbx_labels_ours(json_object_get(json_object_get(document, "Config"), "Labels"), session_id))
        return rsbx_not_ours("container", name, err);
    rc = rsbx_json_get_node(&state, document, "State", JSON_OBJECT, "container", err);
    if (rc == 0)
        rc = rsbx_json_get_bool(&running, state, "Running", "container", err);
    if (rc == 0)
        rc = rsbx_json_get_bool_or(&oom_killed, state, "OOMKilled", false, "container", err);
    if (rc != 0)
        return rc;
    if (json_is_integer(json_object_get(state, "ExitCode")))
        exit_code = (uint64_t)json_integer_value(json_object_get(state, "ExitCode"));
    *out = (struct rsbx_slot_state){ .exists = true,
                                     .running = running,
                                     .exit_code = (int)exit_code,
                                     .oom_killed = oom_killed };
    return REPOSBX_OK;
}

/* The same for a store; *lost (NULL: it is not ours then) when it is one that the engine made in another's
 * place. */
static int look_at_store(bool *lost, struct rsbx_engine *engine, const char *name,
                         const char *session_id, struct rsbx_deadline deadline, reposbx_error *err)
{
    RSBX_AUTO(rsbx_json) rsbx_json_ptr document = NULL;
    const json_t *labels;
    int rc = rsbx_engine_volume_inspect(&document, engine, name, deadline, err);

    if (rc != 0)
        return rc;
    labels = json_object_get(document, "Labels");
    if (lost != NULL)
        *lost = rsbx_labels_lost(labels);
    return rsbx_labels_ours(labels, session_id) || (lost != NULL && *lost)
               ? REPOSBX_OK
               : rsbx_not_ours("volume", name, err);
}

/* With a container that holds them: what is there now stays. */
static int check_kept(struct rsbx_engine *engine, const struct rsbx_slot_spec *spec,
                      struct rsbx_deadline deadline, reposbx_error *err)
{
    for (size_t i = 0; i < spec->kept_count; i++) {
        bool lost = false;
        int rc = look_at_store(&lost, engine, spec->kept[i].name, spec->kept[i].owner, deadline, err);

        if (rc == REPOSBX_ENOTFOUND || lost)
            return rsbx_store_gone(spec->kept[i].name, err);
        if (rc != 0)
            return rc;
    }
    return REPOSBX_OK;
}

static int docker_inspect(struct rsbx_slot_state *out, struct rsbx_provider *provider,
                          const char *slot, const char *session_id, struct rsbx_deadline deadline,
                          reposbx_error *err)
{
    struct rsbx_slot_state state = { 0 };
    int rc = look_at_slot(&state, engine_of(provider), slot, session_id, deadline, err);

    if (rc != 0 && rc != REPOSBX_ENOTFOUND)
        return rc;
    *out = state;
    return REPOSBX_OK;
}

/* Where the engine keeps a volume of the session on its host; the caller frees. */
static int host_folder(char **out, struct rsbx_engine *engine, const char *name,
                       const char *session_id, struct rsbx_deadline deadline, reposbx_error *err)
{
    RSBX_AUTO(rsbx_json) rsbx_json_ptr document = NULL;
    int rc = rsbx_engine_volume_inspect(&document, engine, name, deadline, err);

    if (rc == 0 && !rsbx_labels_ours(json_object_get(document, "Labels"), session_id))
        rc = rsbx_not_ours("volume", name, err);
    return rc == 0 ? rsbx_layer_folder(out, document, name, err) : rc;
}

/* Options of the local driver for an overlay. */
static int overlay_options(json_t **out, struct rsbx_engine *engine,
                           const struct rsbx_store_spec *spec, struct rsbx_deadline deadline,
                           reposbx_error *err)
{
    RSBX_AUTO(rsbx_text) char *lower = NULL;
    RSBX_AUTO(rsbx_text) char *upper = NULL;
    const char *lower_owner = spec->lower_owner != NULL ? spec->lower_owner : spec->session_id;
    int rc = host_folder(&lower, engine, spec->lower, lower_owner, deadline, err);

    if (rc == 0)
        rc = host_folder(&upper, engine, spec->upper, spec->session_id, deadline, err);
    if (rc != 0)
        return rc;
    *out = json_pack("{s:s, s:s, s:o}", "type", "overlay", "device", "overlay", "o",
                     json_sprintf("lowerdir=%s,upperdir=%s/upper,workdir=%s/work," RSBX_OVERLAY_OPTIONS,
                                  lower, upper, upper));
    return *out != NULL ? REPOSBX_OK : rsbx_fail_memory(err);
}

/* An engine may say that it has removed something, and keep it. */
static int still_there(const char *what, const char *name, const reposbx_error *refused,
                       reposbx_error *err)
{
    return rsbx_fail(err, REPOSBX_EUNAVAILABLE, "%s %s could not be removed: %s", what, name,
                     refused->message[0] != '\0' ? refused->message : "it is still there");
}

static int remove_store(struct rsbx_engine *engine, const char *name, const char *session_id,
                        struct rsbx_deadline deadline, reposbx_error *err)
{
    for (;;) {
        struct timespec pause = { .tv_sec = 0, .tv_nsec = POLL_NS };
        reposbx_error refused = REPOSBX_ERROR_INIT;
        bool lost;
        int rc = look_at_store(&lost, engine, name, session_id, deadline, err);

        if (rc == REPOSBX_ENOTFOUND)
            return REPOSBX_OK;
        if (rc != 0)
            return rc;
        if (rsbx_engine_volume_remove(engine, name, deadline, &refused) == 0 &&
            look_at_store(&lost, engine, name, session_id, deadline, err) == REPOSBX_ENOTFOUND)
            return REPOSBX_OK;
        if (rsbx_deadline_passed(deadline))
            return still_there("volume", name, &refused, err);
        (void)nanosleep(&pause, NULL);
    }
}

/* That it is there. One that the engine made in its place is not it, and goes. */
static int look_for_store(struct rsbx_engine *engine, const char *name, const char *session_id,
                          struct rsbx_deadline deadline, reposbx_error *err)
{
    bool lost = false;
    int rc = look_at_store(&lost, engine, name, session_id, deadline, err);

    if (rc == 0 && lost)
        rc = remove_store(engine, name, session_id, deadline, err);
    return rc == 0 && lost ? rsbx_fail(err, REPOSBX_ENOTFOUND, "volume %s was removed", name) : rc;
}

static int docker_make_store(struct rsbx_provider *provider, const struct rsbx_store_spec *spec,
                             struct rsbx_deadline deadline, reposbx_error *err)
{
    RSBX_AUTO(rsbx_json) rsbx_json_ptr labels = NULL;
    RSBX_AUTO(rsbx_json) rsbx_json_ptr options = NULL;
    reposbx_error first = REPOSBX_ERROR_INIT;
    int created;
    int rc;

    if (spec->must_exist)
        return look_for_store(engine_of(provider), spec->name, spec->session_id, deadline, err);
    rc = rsbx_docker_labels(&labels, spec->session_id, err);
    if (rc == 0 && spec->lower != NULL)
        rc = overlay_options(&options, engine_of(provider), spec, deadline, err);
    if (rc != 0)
        return rc;
    created = rsbx_engine_volume_create(engine_of(provider), spec->name, labels, options, deadline,
                                        &first);
    /* 201 is also the answer for a volume that was there before, with labels of its own. */
    rc = look_at_store(NULL, engine_of(provider), spec->name, spec->session_id, deadline, err);
    if (rc != 0 && created != 0 && rc != REPOSBX_EPOLICY) {
        if (err != NULL)
            *err = first;
        return created;
    }
    return rc;
}

/* Creates a container; an unanswered create is settled by an inspect. */
static int create_slot(struct rsbx_engine *engine, const struct rsbx_slot_spec *spec,
                       struct rsbx_deadline deadline, reposbx_error *err)
{
    RSBX_AUTO(rsbx_json) rsbx_json_ptr body = NULL;
    RSBX_AUTO(rsbx_text) char *warnings = NULL;
    struct rsbx_slot_state state;
    reposbx_error first = REPOSBX_ERROR_INIT;
    int rc = rsbx_docker_slot_body(&body, spec, err);

    if (rc != 0)
        return rc;
    rc = rsbx_engine_container_create(&warnings, engine, spec->name, body, deadline, &first);
    if (rc == REPOSBX_EBUSY || rc == REPOSBX_EPROTOCOL || rc == REPOSBX_EUNAVAILABLE) {
        /* A name that is taken is never used again, whoever took it: its limits are not known. */
        if (look_at_slot(&state, engine, spec->name, spec->session_id, deadline, err) ==
            REPOSBX_EPOLICY)
            return REPOSBX_EPOLICY;
    }
    if (rc != 0) {
        if (err != NULL)
            *err = first;
        return rc;
    }
    if (warnings != NULL) {
        rc = rsbx_fail(err, REPOSBX_EPOLICY, "the engine would not keep every limit: %s", warnings);
        rsbx_hint(err, "use an engine whose cgroups can hold memory, swap, cpu and pids limits");
        return rc;
    }
    return REPOSBX_OK;
}

static int docker_launch(struct rsbx_provider *provider, const struct rsbx_slot_spec *spec,
                         struct rsbx_deadline deadline, reposbx_error *err)
{
    struct rsbx_engine *engine = engine_of(provider);
    struct rsbx_slot_state state = { 0 };
    reposbx_error first = REPOSBX_ERROR_INIT;
    int rc = create_slot(engine, spec, deadline, err);

    if (rc == 0)
        rc = check_kept(engine, spec, deadline, err);
    if (rc != 0)
        return rc;
    rc = rsbx_engine_container_start(engine, spec->name, deadline, &first);
    if (rc == REPOSBX_EPROTOCOL || rc == REPOSBX_EUNAVAILABLE) {
        /* Unanswered: running all the same? */
        if (look_at_slot(&state, engine, spec->name, spec->session_id, deadline, err) == 0 &&
            state.running)
            return REPOSBX_OK;
    }
    if (rc != 0 && err != NULL)
        *err = first;
    return rc;
}

/* Reads one seeded file back and compares. */
static int check_seed(struct rsbx_engine *engine, const char *slot,
                      const struct rsbx_seed_file *file, struct rsbx_deadline deadline,
                      reposbx_error *err)
{
    RSBX_AUTO(rsbx_buf) struct rsbx_buf tar = RSBX_BUF_INIT(file->length + 1024U * 1024U);
    RSBX_AUTO(rsbx_buf) struct rsbx_buf bytes = RSBX_BUF_INIT(file->length);
    RSBX_AUTO(rsbx_text) char *path = NULL;
    const char *base = strrchr(file->path, '/');
    int rc;

    if (asprintf(&path, "/%s", file->path) < 0) {
        path = NULL;
        return rsbx_fail_memory(err);
    }
    rc = rsbx_engine_archive_get(&tar, engine, slot, path, deadline, err);
    if (rc == 0)
        rc = rsbx_tar_read_file(&bytes, base != NULL ? base + 1 : file->path, tar.data, tar.length,
                                err);
    if (rc == 0 &&
        (bytes.length != file->length || memcmp(bytes.data, file->bytes, file->length) != 0))
        rc = rsbx_fail(err, REPOSBX_EPROTOCOL, "the engine stored other bytes as %s", path);
    return rc;
}

static int put_seeds(struct rsbx_engine *engine, const char *slot,
                     const struct rsbx_seed_file *files, size_t count,
                     struct rsbx_deadline deadline, reposbx_error *err)
{
    RSBX_AUTO(rsbx_buf) struct rsbx_buf tar = RSBX_BUF_INIT(64U * 1024U * 1024U);
    RSBX_AUTO(rsbx_memory) void *memory = calloc(count, sizeof(struct rsbx_tar_member));
    struct rsbx_tar_member *members = memory;
    int rc;

    if (members == NULL)
        return rsbx_fail_memory(err);
    for (size_t i = 0; i < count; i++) {
        members[i] = (struct rsbx_tar_member){ .path = files[i].path,
                                               .mode = files[i].mode,
                                               .uid = files[i].uid,
                                               .gid = files[i].gid,
                                               .bytes = files[i].bytes,
                                               .length = files[i].length };
    }
    rc = rsbx_tar_write(&tar, members, count, err);
    if (rc == 0)
        rc = rsbx_engine_archive_put(engine, slot, "/", tar.data, tar.length, deadline, err);
    for (size_t i = 0; rc == 0 && i < count; i++) {
        if (files[i].bytes != NULL)
            rc = check_seed(engine, slot, &files[i], deadline, err);
    }
    return rc;
}

static int remove_slot(struct rsbx_engine *engine, const char *name, const char *session_id,
                       struct rsbx_deadline deadline, reposbx_error *err)
{
    for (;;) {
        struct timespec pause = { .tv_sec = 0, .tv_nsec = POLL_NS };
        struct rsbx_slot_state state;
        reposbx_error refused = REPOSBX_ERROR_INIT;
        int removed;
        int rc = look_at_slot(&state, engine, name, session_id, deadline, err);

        if (rc == REPOSBX_ENOTFOUND)
            return REPOSBX_OK;
        if (rc != 0)
            return rc;
        removed = rsbx_engine_container_remove(engine, name, deadline, &refused);
        if (removed == 0 &&
            look_at_slot(&state, engine, name, session_id, deadline, err) == REPOSBX_ENOTFOUND)
            return REPOSBX_OK;
        if (rsbx_deadline_passed(deadline))
            return still_there("container", name, &refused, err);
        (void)nanosleep(&pause, NULL);
    }
}

static int docker_destroy(struct rsbx_provider *provider, enum rsbx_object_kind kind,
                          const char *name, const char *session_id, struct rsbx_deadline deadline,
                          reposbx_error *err)
{
    deadline.cancel_fd = NULL; /* what clears up is not cancelled */
    return kind == RSBX_OBJECT_SLOT
               ? remove_slot(engine_of(provider), name, session_id, deadline, err)
               : remove_store(engine_of(provider), name, session_id, deadline, err);
}

/* Fills a slot that never runs; `image_id` (NULL: not wanted) gets what its files became. */
static int fill_slot(char **image_id, struct rsbx_engine *engine,
                     const struct rsbx_slot_spec *spec, const struct rsbx_seed_file *files,
                     size_t count, struct rsbx_deadline deadline, reposbx_error *err)
{
    char *id = NULL;
    reposbx_error cleanup = REPOSBX_ERROR_INIT;
    int removed;
    int rc = create_slot(engine, spec, deadline, err);

    if (rc == 0)
        rc = put_seeds(engine, spec->name, files, count, deadline, err);
    if (rc == 0 && image_id != NULL)
        rc = rsbx_engine_container_commit(&id, engine, spec->name, deadline, err);
    deadline.cancel_fd = NULL; /* what clears up is not cancelled */
    removed = remove_slot(engine, spec->name, spec->session_id, deadline, &cleanup);
    if (rc == 0 && removed != 0) {
        if (err != NULL)
            *err = cleanup;
        rc = removed;
    }
    if (rc == 0 && image_id != NULL)
        *image_id = id;
    else
        free(id);
    return rc;
}

static int docker_seed(struct rsbx_provider *provider, const struct rsbx_slot_spec *spec,
                       const struct rsbx_seed_file *files, size_t count,
                       struct rsbx_deadline deadline, reposbx_error *err)
{
    return fill_slot(NULL, engine_of(provider), spec, files, count, deadline, err);
}

int rsbx_docker_bake(char **image_id, struct rsbx_provider *provider,
                     const struct rsbx_slot_spec *spec, const struct rsbx_seed_file *files,
                     size_t count, struct rsbx_deadline deadline, reposbx_error *err)
{
    return fill_slot(image_id, engine_of(provider), spec, files, count, deadline, err);
}

static int link_fd(const struct rsbx_link *link)
{
    return rsbx_stream_fd(((const struct docker_link *)link)->stream);
}

static int link_send(size_t *sent, struct rsbx_link *link, const void *bytes, size_t length,
                     reposbx_error *err)
{
    return rsbx_stream_send(sent, ((struct docker_link *)link)->stream, bytes, length, err);
}

static int link_shutdown(struct rsbx_link *link, reposbx_error *err)
{
    return rsbx_stream_shutdown_send(((struct docker_link *)link)->stream, err);
}

static int link_receive(bool *ended, struct rsbx_link *link, rsbx_link_piece piece, void *payload,
                        reposbx_error *err)
{
    return rsbx_stream_receive(ended, ((struct docker_link *)link)->stream, piece, payload, err);
}

static void link_free(struct rsbx_link *link)
{
    struct docker_link *own = (struct docker_link *)link;

    rsbx_stream_free(own->stream);
    free(own);
}

static const struct rsbx_link_ops docker_link_ops = {
    .fd = link_fd,
    .send = link_send,
    .shutdown_send = link_shutdown,
    .receive = link_receive,
    .free = link_free,
};

static int lower_limits(struct rsbx_engine *engine, const char *slot,
                        const struct rsbx_slot_limits *lower, struct rsbx_deadline deadline,
                        reposbx_error *err)
{
    RSBX_AUTO(rsbx_json) rsbx_json_ptr body = NULL;
    RSBX_AUTO(rsbx_text) char *warnings = NULL;
    int rc = rsbx_docker_limits_body(&body, lower, err);

    if (rc == 0)
        rc = rsbx_engine_container_update(&warnings, engine, slot, body, deadline, err);
    if (rc == 0 && warnings != NULL)
        rc = rsbx_fail(err, REPOSBX_EPOLICY, "the engine would not keep every limit: %s", warnings);
    return rc;
}

static int docker_connect(struct rsbx_link **out, struct rsbx_provider *provider, const char *slot,
                          const struct rsbx_slot_limits *lower, struct rsbx_deadline deadline,
                          reposbx_error *err)
{
    struct docker_link *link;
    int rc = lower != NULL ? lower_limits(engine_of(provider), slot, lower, deadline, err)
                           : REPOSBX_OK;

    if (rc != 0)
        return rc;
    link = calloc(1, sizeof *link);
    if (link == NULL)
        return rsbx_fail_memory(err);
    link->base.ops = &docker_link_ops;
    rc = rsbx_engine_attach(&link->stream, engine_of(provider), slot, deadline, err);
    if (rc != 0) {
        free(link);
        return rc;
    }
    *out = &link->base;
    return REPOSBX_OK;
}

const struct rsbx_provider_ops rsbx_docker_provider = {
    .name = "docker",
    .open = docker_open,
    .free = docker_free,
    .host = docker_host,
    .image = docker_image,
    .make_store = docker_make_store,
    .seed = docker_seed,
    .launch = docker_launch,
    .connect = docker_connect,
    .destroy = docker_destroy,
    .inspect = docker_inspect,
};
