/* SPDX-License-Identifier: Apache-2.0 */
/* Podman: no daemon. One process of it is the container from its start to its removal, and its stdin
 * and stdout are the wire. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/fd.h"
#include "base/limits.h"
#include "codec/tar.h"
#include "guest/embedded.h"
#include "guest/protocol.h"
#include "podman/podman.h"
#include "provider/podman_ask.h"
#include "run/internal.h"

#include "base/banned.h"

/* A guest whose job is done ends at once; podman then removes the container. */
#define FINISH_MS 10000U
#define COMPLAINT_BYTES 16384U
/* Between two looks at a container that is on its way out. */
#define POLL_NS 20000000L
#define MEMBER_COUNT 6U

struct podman_engine {
    struct rsbx_run_engine base;
    struct rsbx_podman *podman;
};

static const struct rsbx_podman *podman_of(struct rsbx_run_engine *engine)
{
    return ((struct podman_engine *)engine)->podman;
}

static void podman_free(struct rsbx_run_engine *engine)
{
    rsbx_podman_free(((struct podman_engine *)engine)->podman);
    free(engine);
}

static struct rsbx_podman_call make_call(const char *const *argv, size_t output_bytes,
                                         const int *cancel_fd)
{
    return (struct rsbx_podman_call){ .argv = argv,
                                      .output_bytes = output_bytes,
                                      .deadline = rsbx_run_until(cancel_fd) };
}

static int podman_host(struct rsbx_host_facts *out, struct rsbx_run_engine *engine,
                       struct rsbx_deadline deadline, reposbx_error *err)
{
    unsigned int version;

    return rsbx_podman_host(out, &version, podman_of(engine), deadline, err);
}

static int podman_image(struct rsbx_image_facts *out, struct rsbx_run_engine *engine,
                        const char *reference, struct rsbx_deadline deadline, reposbx_error *err)
{
    return rsbx_podman_image(out, podman_of(engine), reference, deadline, err);
}

/* ---- removal ---- */

static int look(bool *exists, struct rsbx_run_engine *engine, const char *name, reposbx_error *err)
{
    return rsbx_podman_exists(exists, podman_of(engine), "container", name,
                              rsbx_run_until(NULL), err);
}

static int check_ours(struct rsbx_run_engine *engine, const char *name, reposbx_error *err)
{
    const char *const argv[] = { "container", "inspect",
                                 "--format={{index .Config.Labels \"reposbx.run\"}}", name, NULL };
    RSBX_AUTO(rsbx_buf) struct rsbx_buf text = RSBX_BUF_INIT(1024);
    struct rsbx_podman_call call = make_call(argv, 1024, NULL);
    int rc = rsbx_podman_text(&text, podman_of(engine), &call, "podman container inspect", err);

    if (rc != 0)
        return rc;
    if (text.length != strlen(name) + 1 || strncmp(text.data, name, strlen(name)) != 0)
        return rsbx_fail(err, REPOSBX_EPOLICY, "container %s exists and is not ours", name);
    return REPOSBX_OK;
}

static int remove_by_name(struct rsbx_run_engine *engine, const char *name, reposbx_error *err)
{
    const char *const argv[] = { "rm", "--force", "--time=0", "--volumes=false", name, NULL };
    struct rsbx_deadline deadline = rsbx_run_until(NULL);

    for (;;) {
        RSBX_AUTO(rsbx_podman_answer) struct rsbx_podman_answer answer = { 0 };
        struct timespec pause = { .tv_sec = 0, .tv_nsec = POLL_NS };
        struct rsbx_podman_call call = make_call(argv, 1024, NULL);
        bool exists = true;
        int rc = look(&exists, engine, name, err);

        if (rc != 0 || !exists)
            return rc;
        /* It may go by itself between the two calls. */
        rc = check_ours(engine, name, err);
        if (rc == REPOSBX_EPOLICY)
            return rc;
        rc = rsbx_podman_run(&answer, podman_of(engine), &call, err);
        if (rc != 0)
            return rc;
        rc = look(&exists, engine, name, err);
        if (rc != 0 || !exists)
            return rc;
        if (rsbx_deadline_passed(deadline)) {
            rc = rsbx_podman_check(&answer, "podman rm", err);
            return rc != 0 ? rc
                           : rsbx_fail(err, REPOSBX_EUNAVAILABLE,
                                       "container %s could not be removed", name);
        }
        (void)nanosleep(&pause, NULL);
    }
}

static int podman_destroy(struct rsbx_run_engine *engine, const char *name, struct rsbx_link *link,
                          reposbx_error *err)
{
    int exit_code = 0;

    /* The quiet end: stdin ends, the guest ends, podman removes the container and ends. */
    if (link != NULL)
        (void)rsbx_podman_link_finish(&exit_code, link, rsbx_deadline_in_ms(FINISH_MS), NULL);
    return remove_by_name(engine, name, err);
}

/* ---- the image with the guest in it ---- */

static int put_guest(struct rsbx_run_engine *engine, const char *name, const int *cancel_fd,
                     reposbx_error *err)
{
    static const struct rsbx_tar_member members[] = {
        { .path = "reposbx/", .mode = 0755 },
        { .path = "reposbx/guest/", .mode = 0755 },
        { .path = "reposbx/guest/reposbx-guest", .mode = 0755, .bytes = rsbx_guest_binary },
        { .path = "workspace/", .mode = 0755 },
        /* runc gives a tmpfs the mode of the folder that it covers. */
        { .path = "tmp/", .mode = 01777 },
        { .path = "run/", .mode = 01777 },
    };
    struct rsbx_tar_member own[MEMBER_COUNT];
    RSBX_AUTO(rsbx_buf) struct rsbx_buf tar = RSBX_BUF_INIT(16U * 1024U * 1024U);
    RSBX_AUTO(rsbx_podman_answer) struct rsbx_podman_answer answer = { 0 };
    RSBX_AUTO(rsbx_text) char *where = NULL;
    const char *argv[] = { "cp", "-", NULL, NULL };
    char tmpdir[] = P_tmpdir "/reposbx-bake-XXXXXX"; /* podman leaves a copy of its stdin behind */
    struct rsbx_podman_call call;
    int rc;

    memcpy(own, members, sizeof own);
    own[2].length = rsbx_guest_binary_size;
    if (asprintf(&where, "%s:/", name) < 0) {
        where = NULL;
        return rsbx_fail_memory(err);
    }
    argv[2] = where;
    rc = rsbx_tar_write(&tar, own, MEMBER_COUNT, err);
    if (rc != 0)
        return rc;
    call = make_call(argv, 1024, cancel_fd);
    call.input = tar.data;
    call.input_length = tar.length;
    if (mkdtemp(tmpdir) == NULL)
        return rsbx_fail_errno(err, REPOSBX_EIO, "cannot make a temporary folder");
    call.tmpdir = tmpdir;
    rc = rsbx_podman_run(&answer, podman_of(engine), &call, err);
    if (rc == 0)
        rc = rsbx_podman_check(&answer, "podman cp", err);
    (void)rsbx_remove_tree_at(AT_FDCWD, tmpdir, NULL);
    return rc;
}

/* What the container's file holds now, against what was put. */
static int check_guest(struct rsbx_run_engine *engine, const char *name, const int *cancel_fd,
                       reposbx_error *err)
{
    RSBX_AUTO(rsbx_buf) struct rsbx_buf tar = RSBX_BUF_INIT(16U * 1024U * 1024U);
    RSBX_AUTO(rsbx_buf) struct rsbx_buf bytes = RSBX_BUF_INIT(rsbx_guest_binary_size);
    RSBX_AUTO(rsbx_text) char *where = NULL;
    const char *argv[] = { "cp", NULL, "-", NULL };
    struct rsbx_podman_call call;
    int rc;

    if (asprintf(&where, "%s:%s", name, RSBX_GUEST_PATH) < 0) {
        where = NULL;
        return rsbx_fail_memory(err);
    }
    argv[1] = where;
    call = make_call(argv, tar.limit, cancel_fd);
    rc = rsbx_podman_text(&tar, podman_of(engine), &call, "podman cp", err);
    if (rc == 0)
        rc = rsbx_tar_read_file(&bytes, "reposbx-guest", tar.data, tar.length, err);
    if (rc == 0 && (bytes.length != rsbx_guest_binary_size ||
                    memcmp(bytes.data, rsbx_guest_binary, bytes.length) != 0))
        rc = rsbx_fail(err, REPOSBX_EPROTOCOL, "podman stored other bytes as the guest");
    return rc;
}

static int commit(char **image_id, struct rsbx_run_engine *engine, const char *name,
                  const int *cancel_fd, reposbx_error *err)
{
    const char *const argv[] = { "commit", "--quiet", "--pause=false", name, NULL };
    RSBX_AUTO(rsbx_buf) struct rsbx_buf text = RSBX_BUF_INIT(1024);
    struct rsbx_podman_call call = make_call(argv, 1024, cancel_fd);
    int rc = rsbx_podman_text(&text, podman_of(engine), &call, "podman commit", err);

    if (rc != 0)
        return rc;
    if (text.length < 64)
        return rsbx_fail(err, REPOSBX_EPROTOCOL, "podman commit gave no image id");
    text.data[strcspn(text.data, "\n")] = '\0';
    if (asprintf(image_id, "sha256:%s", text.data) < 0)
        return rsbx_fail_memory(err);
    return REPOSBX_OK;
}

static int podman_bake(char **image_id, struct rsbx_run_engine *engine,
                       const struct rsbx_run_box *box, reposbx_error *err)
{
    RSBX_AUTO(rsbx_podman_answer) struct rsbx_podman_answer answer = { 0 };
    reposbx_error removal = REPOSBX_ERROR_INIT;
    char **argv = NULL;
    struct rsbx_podman_call call;
    int removed;
    int rc = rsbx_run_bake_argv(&argv, box, err);

    if (rc != 0)
        return rc;
    call = make_call((const char *const *)argv, 4096, box->cancel_fd);
    rc = rsbx_podman_run(&answer, podman_of(engine), &call, err);
    rsbx_run_argv_free(argv);
    if (rc == 0)
        rc = rsbx_podman_check(&answer, "podman create", err);
    if (rc == 0)
        rc = put_guest(engine, box->name, box->cancel_fd, err);
    if (rc == 0)
        rc = check_guest(engine, box->name, box->cancel_fd, err);
    if (rc == 0)
        rc = commit(image_id, engine, box->name, box->cancel_fd, err);
    removed = remove_by_name(engine, box->name, &removal);
    if (rc == 0 && removed != 0) {
        free(*image_id);
        *image_id = NULL;
        if (err != NULL)
            *err = removal;
        rc = removed;
    }
    return rc;
}

/* ---- running ---- */

static int podman_launch(struct rsbx_link **out, struct rsbx_run_engine *engine,
                         const struct rsbx_run_box *box, reposbx_error *err)
{
    char **argv = NULL;
    int rc = rsbx_run_argv(&argv, box, err);

    if (rc != 0)
        return rc;
    rc = rsbx_podman_link(out, podman_of(engine), (const char *const *)argv, err);
    rsbx_run_argv_free(argv);
    return rc;
}

/* 125 is podman's own failure: the container did not come to be. */
static int podman_explain(struct rsbx_link *link, int code, reposbx_error *err)
{
    RSBX_AUTO(rsbx_buf) struct rsbx_buf text = RSBX_BUF_INIT(COMPLAINT_BYTES);
    struct rsbx_podman_answer answer = { .exit_code = 0 };
    int rc;

    if (code != REPOSBX_EPROTOCOL ||
        rsbx_podman_link_finish(&answer.exit_code, link, rsbx_deadline_in_ms(FINISH_MS), NULL) != 0 ||
        answer.exit_code != 125)
        return code;
    answer.err = text;
    rc = rsbx_podman_link_complaint(&answer.err, link, NULL);
    if (rc == 0)
        rc = rsbx_podman_check(&answer, "podman run", err);
    text = answer.err;
    return rc != 0 ? rc : code;
}

static const struct rsbx_run_engine_ops podman_ops = {
    .name = "podman",
    .free = podman_free,
    .host = podman_host,
    .image = podman_image,
    .bake = podman_bake,
    .launch = podman_launch,
    .explain = podman_explain,
    .destroy = podman_destroy,
};

int rsbx_run_podman_open(struct rsbx_run_engine **out, const char *address, const char *runtime,
                         reposbx_error *err)
{
    struct podman_engine *engine = calloc(1, sizeof *engine);
    int rc;

    if (engine == NULL)
        return rsbx_fail_memory(err);
    engine->base.ops = &podman_ops;
    engine->base.address = strdup(address);
    engine->base.runtime = runtime != NULL ? strdup(runtime) : NULL;
    rc = engine->base.address == NULL || (runtime != NULL && engine->base.runtime == NULL)
             ? rsbx_fail_memory(err)
             : rsbx_podman_open(&engine->podman, address, runtime, err);
    if (rc != 0) {
        rsbx_run_engine_free(&engine->base);
        return rc;
    }
    *out = &engine->base;
    return REPOSBX_OK;
}
