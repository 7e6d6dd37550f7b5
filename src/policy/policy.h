/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RSBX_POLICY_POLICY_H
#define RSBX_POLICY_POLICY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <reposbx/policy.h>

#include "base/cleanup.h"
#include "codec/json.h"

/* Pure decisions: the policy document and the rules for requests. Nothing here touches an
 * engine. */

enum rsbx_workspace_mode { RSBX_WORKSPACE_AUTO, RSBX_WORKSPACE_OVERLAY, RSBX_WORKSPACE_COPY };
enum rsbx_network_mode { RSBX_NETWORK_NONE, RSBX_NETWORK_BRIDGE };
enum rsbx_wasm_mode { RSBX_WASM_PREFER, RSBX_WASM_REQUIRE, RSBX_WASM_NEVER };

struct reposbx_policy {
    char *name;                        /* "default" when the document gives none */
    char **images;
    size_t image_count;
    enum rsbx_network_mode network;
    bool read_only_rootfs;             /* false: the document says so, and / is writable */
    bool require_rootless_runtime;
    bool require_source_revision;
    bool allow_unpinned_image;
    char *seccomp_profile;             /* absolute path, or NULL: the engine's default */
    char *runtime;                     /* NULL: the engine's default */
    bool keep_symlinks;                /* source.symlinks == "keep" */
    bool empty_submodules;             /* source.submodules == "empty" */
    bool raw_attributes;               /* source.export_attributes == "raw" */
    bool any_owner;                    /* source.owner == "any" */
    uint64_t max_files, max_bytes;
    uint32_t max_depth;
    enum rsbx_workspace_mode workspace_mode;
    uint64_t disk_bytes;               /* 0: null */
    bool require_disk_quota;
    uint64_t lease_seconds, max_commands, slots, audit_bytes;
    char *python_image, *bash_image, *node_image; /* of one-shot code; NULL: the language's own */
    enum rsbx_wasm_mode wasm;          /* run.wasm */
    reposbx_limits limits;
};

typedef reposbx_policy *rsbx_policy_ptr;
RSBX_CLEANUP(rsbx_policy, rsbx_policy_ptr, reposbx_policy_free);

/* The document with every default, as a JSON value (keys in the order of the documentation). */
int rsbx_policy_value(json_t **out, const reposbx_policy *policy, reposbx_error *err);
/* SHA-256 hex of the canonical JSON of it. */
int rsbx_policy_digest(char out[65], const reposbx_policy *policy, reposbx_error *err);

/* Rules for requests. Each refuses with REPOSBX_EPOLICY naming the field, unless noted. */
int rsbx_check_revision(const char *revision, reposbx_error *err);      /* REPOSBX_EMALFORMED */
int rsbx_check_task_id(const char *task_id, reposbx_error *err);
int rsbx_check_platform(const char *platform, reposbx_error *err);      /* os/arch[/variant] */
int rsbx_check_argv(const char *const *argv, size_t argc, reposbx_error *err);
/* "NAME=value" strings: name rule, refused names (in any case), duplicates, sizes. Never echoes a
 * value, nor an entry that might be one. PATH, HOME, TMPDIR, CI and LANG, which the guest sets for
 * every command, may be given: the caller's value takes the place of the guest's. Nothing is lost
 * by that, since a command can set them itself. */
int rsbx_check_env(const char *const *env, size_t count, reposbx_error *err);
/* What every command has in its environment besides `env`: the entries of ours whose names are not
 * among it. Returns how many; they live for ever. */
#define RSBX_DEFAULT_ENV_COUNT 5U
size_t rsbx_default_env(const char *out[RSBX_DEFAULT_ENV_COUNT], const char *const *env,
                        size_t count);
/* Whether a name is refused for commands / secret-like in an image. */
bool rsbx_env_name_refused(const char *name, size_t length);
bool rsbx_image_env_refused(const char *name, size_t length);

/* On the list, reference syntax, pinned (by digest or id) unless the policy allows otherwise. */
int rsbx_check_image_reference(const reposbx_policy *policy, const char *image, reposbx_error *err);

/* What the engine says of an image. */
struct rsbx_image_facts {
    char id[80];                       /* sha256:… */
    char os[32], architecture[32], variant[32];
    char **repo_digests;               /* name@sha256:… */
    size_t repo_digest_count;
    char **env;                        /* NAME=value as the image sets them */
    size_t env_count;
    size_t volume_count;               /* VOLUME entries */
};
void rsbx_image_facts_dispose(struct rsbx_image_facts *facts);
/* Pin matches id or RepoDigests, platform equal, no VOLUME, no secret-like Env name. `platform` is
 * checked text; a variant that the platform does not name must be empty in the image or "v8" for
 * arm64. */
int rsbx_check_image(const reposbx_policy *policy, const char *reference, const char *platform,
                     const struct rsbx_image_facts *facts, reposbx_error *err);

/* What the host offers, in no engine's words. */
struct rsbx_host_facts {
    char provider[16];                 /* "docker" or "podman" */
    char version[64];
    char platform[64];                 /* "linux/amd64" */
    bool rootless, seccomp;
    unsigned int cgroup_version;
    bool systemd_cgroups;
    bool memory_limit, swap_limit, cpu_limit, pids_limit;
};
int rsbx_check_host(const reposbx_policy *policy, const struct rsbx_host_facts *facts,
                    reposbx_error *err);

/* The limits of one command: the policy's, lowered by the request (0 = keep). Raising, NaN,
 * infinity, negative: refused by field name. Also the smallest that work: memory 6 MiB, cpus 0.01,
 * pids 2. */
struct rsbx_limit_request {
    double cpus, timeout_seconds;
    uint64_t memory_bytes, pids;
};
int rsbx_lower_limits(reposbx_limits *out, const reposbx_policy *policy,
                      const struct rsbx_limit_request *request, reposbx_error *err);

#endif
