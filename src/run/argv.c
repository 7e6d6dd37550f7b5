/* SPDX-License-Identifier: Apache-2.0 */
/* The flags that isolate one container, as an argv that a test can read. No mount, no device, no
 * namespace of the host, nothing of an environment. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "guest/protocol.h"
#include "run/internal.h"

#include "base/banned.h"

#define MAX_ARGV 64U
#define LEAST_TMPFS_BYTES (1024U * 1024U)

uint64_t rsbx_run_small_tmpfs(const reposbx_limits *limits)
{
    uint64_t tenth = limits->tmpfs_bytes / 10;

    return tenth < LEAST_TMPFS_BYTES ? LEAST_TMPFS_BYTES : tenth;
}

struct rsbx_run_box rsbx_run_box(const reposbx_policy *policy, const reposbx_limits *limits,
                                 const char *name, const char *image, const char *role)
{
    return (struct rsbx_run_box){ .name = name,
                                  .image = image,
                                  .role = role,
                                  .limits = *limits,
                                  .network = policy->network == RSBX_NETWORK_BRIDGE,
                                  .read_only_root = policy->read_only_rootfs,
                                  .seccomp_profile = policy->seccomp_profile,
                                  .runtime = policy->runtime };
}

void rsbx_run_argv_free(char **argv)
{
    for (size_t i = 0; argv != NULL && i < MAX_ARGV; i++)
        free(argv[i]);
    free(argv);
}

struct list {
    char **items;
    size_t count;
    bool failed;
};

static void add(struct list *list, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void add(struct list *list, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    if (list->count + 1 >= MAX_ARGV || vasprintf(&list->items[list->count], format, arguments) < 0)
        list->failed = true;
    else
        list->count++;
    va_end(arguments);
}

static int new_list(struct list *list, reposbx_error *err)
{
    *list = (struct list){ .items = calloc(MAX_ARGV, sizeof(char *)) };
    return list->items != NULL ? REPOSBX_OK : rsbx_fail_memory(err);
}

static int give(char ***out, struct list *list, reposbx_error *err)
{
    if (list->failed) {
        rsbx_run_argv_free(list->items);
        return rsbx_fail_memory(err);
    }
    *out = list->items;
    return REPOSBX_OK;
}

static void add_tmpfs(struct list *list, const char *at, uint64_t bytes)
{
    add(list, "--tmpfs=%s:rw,nosuid,nodev,noexec,mode=1777,size=%" PRIu64 ",notmpcopyup", at, bytes);
}

static void add_isolation(struct list *list, const struct rsbx_run_box *box)
{
    add(list, "--pull=never");
    add(list, "--network=%s", box->network ? "bridge" : "none");
    if (box->read_only_root)
        add(list, "--read-only");
    /* Podman's own tmpfs mounts would take the place of ours. */
    add(list, "--read-only-tmpfs=false");
    add(list, "--cap-drop=ALL");
    add(list, "--security-opt=no-new-privileges");
    if (box->seccomp_profile != NULL)
        add(list, "--security-opt=seccomp=%s", box->seccomp_profile);
    add(list, "--user=%u:%u", RSBX_RUN_UID, RSBX_RUN_GID);
    add(list, "--ipc=private");
    add(list, "--cgroupns=private");
    add(list, "--memory=%" PRIu64, box->limits.memory_bytes);
    add(list, "--memory-swap=%" PRIu64, box->limits.memory_bytes);
    add(list, "--cpus=%.9g", box->limits.cpus);
    add(list, "--pids-limit=%" PRIu64, box->limits.pids);
    add(list, "--ulimit=nofile=%u:%u", RSBX_RUN_NOFILE, RSBX_RUN_NOFILE);
    add(list, "--ulimit=nproc=%u:%u", RSBX_RUN_NPROC, RSBX_RUN_NPROC);
    add(list, "--ulimit=core=0:0");
    add_tmpfs(list, "/tmp", box->limits.tmpfs_bytes);
    add_tmpfs(list, "/run", rsbx_run_small_tmpfs(&box->limits));
}

static void add_silence(struct list *list)
{
    add(list, "--unsetenv-all");
    add(list, "--http-proxy=false");
    add(list, "--image-volume=ignore");
    add(list, "--hostname=sandbox");
    add(list, "--no-hosts");
    add(list, "--no-healthcheck");
    add(list, "--systemd=false");
    add(list, "--sdnotify=ignore");
    add(list, "--log-driver=none");
    add(list, "--restart=no");
    add(list, "--stop-timeout=0");
    add(list, "--workdir=/");
}

int rsbx_run_argv(char ***out, const struct rsbx_run_box *box, reposbx_error *err)
{
    struct list list;
    int rc = new_list(&list, err);

    if (rc != 0)
        return rc;
    add(&list, "run");
    add(&list, "--rm");
    add(&list, "--interactive");
    add(&list, "--name=%s", box->name);
    add(&list, "--label=reposbx.run=%s", box->name);
    add(&list, "--label=reposbx.role=%s", box->role);
    add_isolation(&list, box);
    add_silence(&list);
    add(&list, "--passwd=false");
    add(&list, "--entrypoint=[\"%s\"]", RSBX_GUEST_PATH);
    add(&list, "%s", box->image);
    return give(out, &list, err);
}

int rsbx_run_bake_argv(char ***out, const struct rsbx_run_box *box, reposbx_error *err)
{
    struct list list;
    int rc = new_list(&list, err);

    if (rc != 0)
        return rc;
    add(&list, "create");
    add(&list, "--name=%s", box->name);
    add(&list, "--label=reposbx.run=%s", box->name);
    add(&list, "--pull=never");
    add(&list, "--network=none");
    add(&list, "--cap-drop=ALL");
    add_silence(&list);
    add(&list, "--entrypoint=[\"%s\"]", RSBX_GUEST_PATH);
    add(&list, "%s", box->image);
    return give(out, &list, err);
}

int rsbx_run_spec_argv(char ***out, const reposbx_exec_spec *spec, const reposbx_policy *policy,
                       const char *name, const char *image, reposbx_error *err)
{
    struct rsbx_run_order order;
    struct rsbx_run_box box;
    int rc = rsbx_run_check(&order, spec, policy, err);

    if (rc == 0 && image == NULL)
        rc = rsbx_run_check_image(&order, policy, err);
    if (rc != 0)
        return rc;
    box = rsbx_run_box(policy, &order.limits, name, image != NULL ? image : order.image, "run");
    return rsbx_run_argv(out, &box, err);
}

int rsbx_run_warm_argv(char ***out, const reposbx_policy *policy, const char *name,
                       const char *image, const reposbx_limits *limits, reposbx_error *err)
{
    reposbx_limits usual;
    struct rsbx_run_box box;

    rsbx_run_usual_limits(&usual, policy);
    box = rsbx_run_box(policy, limits != NULL ? limits : &usual, name, image, "warm");
    return rsbx_run_argv(out, &box, err);
}
