/* SPDX-License-Identifier: Apache-2.0 */
/* Docker, through the provider of sessions: the same slots, the same removal. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <fcntl.h>

#include "base/fd.h"
#include "base/limits.h"
#include "guest/embedded.h"
#include "guest/protocol.h"
#include "provider/docker_spec.h"
#include "run/internal.h"

#include "base/banned.h"

struct docker_engine {
    struct rsbx_run_engine base;
    pthread_mutex_t mutex; /* of known */
    unsigned int known;    /* the version that was settled with the engine */
};

/* A provider serves one thread at a time, so each operation opens its own; all but the first know
 * what the engine is. */
static int open_provider(struct rsbx_provider **out, struct rsbx_run_engine *engine,
                         struct rsbx_deadline deadline, reposbx_error *err)
{
    struct docker_engine *own = (struct docker_engine *)engine;
    unsigned int known;
    int rc;

    (void)pthread_mutex_lock(&own->mutex);
    known = own->known;
    (void)pthread_mutex_unlock(&own->mutex);
    rc = rsbx_provider_open(out, engine->address, known, deadline, err);
    if (rc == 0) {
        (void)pthread_mutex_lock(&own->mutex);
        own->known = (*out)->known;
        (void)pthread_mutex_unlock(&own->mutex);
    }
    return rc;
}

static void docker_free(struct rsbx_run_engine *engine)
{
    (void)pthread_mutex_destroy(&((struct docker_engine *)engine)->mutex);
    free(engine);
}

static int docker_host(struct rsbx_host_facts *out, struct rsbx_run_engine *engine,
                       struct rsbx_deadline deadline, reposbx_error *err)
{
    RSBX_AUTO(rsbx_provider) rsbx_provider_ptr provider = NULL;
    int rc = open_provider(&provider, engine, deadline, err);

    return rc == 0 ? provider->ops->host(out, provider, deadline, err) : rc;
}

static int docker_image(struct rsbx_image_facts *out, struct rsbx_run_engine *engine,
                        const char *reference, struct rsbx_deadline deadline, reposbx_error *err)
{
    RSBX_AUTO(rsbx_provider) rsbx_provider_ptr provider = NULL;
    int rc = open_provider(&provider, engine, deadline, err);

    return rc == 0 ? provider->ops->image(out, provider, reference, deadline, err) : rc;
}

/* The engine wants the profile's text, podman its path. */
static int read_profile(char **out, const char *path, reposbx_error *err)
{
    RSBX_AUTO(rsbx_buf) struct rsbx_buf text = RSBX_BUF_INIT(RSBX_MAX_SECCOMP_BYTES);
    RSBX_AUTO(rsbx_json) rsbx_json_ptr profile = NULL;
    int rc;

    if (path == NULL)
        return REPOSBX_OK;
    rc = rsbx_read_file_at(&text, AT_FDCWD, path, err);
    if (rc == 0)
        rc = rsbx_json_parse(&profile, text.data != NULL ? text.data : "", text.length,
                             "seccomp_profile", err);
    return rc == 0 ? rsbx_json_text(out, profile, err) : rc;
}

static struct rsbx_slot_spec slot_spec(const struct rsbx_run_box *box, const char *profile)
{
    return (struct rsbx_slot_spec){
        .name = box->name,
        .session_id = box->name,
        .image_id = box->image,
        .uid = RSBX_RUN_UID,
        .gid = RSBX_RUN_GID,
        .network = box->network,
        .read_only_root = box->read_only_root,
        .limits = { .cpus = box->limits.cpus,
                    .memory_bytes = box->limits.memory_bytes,
                    .pids = box->limits.pids },
        .tmpfs_bytes = box->limits.tmpfs_bytes,
        .run_bytes = rsbx_run_small_tmpfs(&box->limits),
        .nofile = RSBX_RUN_NOFILE,
        .seccomp_profile = profile,
        .runtime = box->runtime,
    };
}

static int docker_bake(char **image_id, struct rsbx_run_engine *engine,
                       const struct rsbx_run_box *box, reposbx_error *err)
{
    const struct rsbx_seed_file files[] = {
        { .path = "reposbx/", .mode = 0755 },
        { .path = "reposbx/guest/", .mode = 0755 },
        { .path = &RSBX_GUEST_PATH[1], .mode = 0755, .bytes = rsbx_guest_binary,
          .length = rsbx_guest_binary_size },
        { .path = "workspace/", .mode = 0755 },
    };
    RSBX_AUTO(rsbx_provider) rsbx_provider_ptr provider = NULL;
    struct rsbx_slot_spec spec = slot_spec(box, NULL);
    struct rsbx_deadline deadline = rsbx_run_until(box->cancel_fd);
    int rc = open_provider(&provider, engine, deadline, err);

    spec.read_only_root = false; /* it never runs; the engine unpacks into its root */
    if (rc == 0)
        rc = rsbx_docker_bake(image_id, provider, &spec, files, sizeof files / sizeof files[0], deadline,
                              err);
    return rc;
}

static int docker_launch(struct rsbx_link **out, struct rsbx_run_engine *engine,
                         const struct rsbx_run_box *box, reposbx_error *err)
{
    RSBX_AUTO(rsbx_provider) rsbx_provider_ptr provider = NULL;
    RSBX_AUTO(rsbx_text) char *profile = NULL;
    struct rsbx_slot_spec spec;
    struct rsbx_deadline deadline = rsbx_run_until(box->cancel_fd);
    int rc = read_profile(&profile, box->seccomp_profile, err);

    if (rc == 0)
        rc = open_provider(&provider, engine, deadline, err);
    if (rc != 0)
        return rc;
    spec = slot_spec(box, profile);
    rc = provider->ops->launch(provider, &spec, deadline, err);
    return rc == 0 ? provider->ops->connect(out, provider, box->name, NULL, deadline, err) : rc;
}

static int docker_explain(struct rsbx_link *link, int code, reposbx_error *err)
{
    (void)link;
    (void)err;
    return code;
}

static int docker_destroy(struct rsbx_run_engine *engine, const char *name, struct rsbx_link *link,
                          reposbx_error *err)
{
    RSBX_AUTO(rsbx_provider) rsbx_provider_ptr provider = NULL;
    struct rsbx_deadline deadline = rsbx_run_until(NULL);
    int rc = open_provider(&provider, engine, deadline, err);

    (void)link;
    if (rc != 0)
        return rc;
    return provider->ops->destroy(provider, RSBX_OBJECT_SLOT, name, name, deadline, err);
}

static const struct rsbx_run_engine_ops docker_ops = {
    .name = "docker",
    .free = docker_free,
    .host = docker_host,
    .image = docker_image,
    .bake = docker_bake,
    .launch = docker_launch,
    .explain = docker_explain,
    .destroy = docker_destroy,
};

int rsbx_run_docker_open(struct rsbx_run_engine **out, const char *address, const char *runtime,
                         reposbx_error *err)
{
    struct docker_engine *engine = calloc(1, sizeof *engine);

    if (engine == NULL)
        return rsbx_fail_memory(err);
    engine->base.ops = &docker_ops;
    (void)pthread_mutex_init(&engine->mutex, NULL);
    engine->base.address = strdup(address);
    engine->base.runtime = runtime != NULL ? strdup(runtime) : NULL;
    if (engine->base.address == NULL || (runtime != NULL && engine->base.runtime == NULL)) {
        rsbx_run_engine_free(&engine->base);
        return rsbx_fail_memory(err);
    }
    *out = &engine->base;
    return REPOSBX_OK;
}
