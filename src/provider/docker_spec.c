/* SPDX-License-Identifier: Apache-2.0 */
#include "provider/docker_spec.h"

#include <inttypes.h>
#include <math.h>

#include "guest/protocol.h"

#include "base/banned.h"

int rsbx_docker_labels(json_t **out, const char *session_id, reposbx_error *err)
{
    json_t *labels = json_pack("{s:s}", RSBX_LABEL_SESSION, session_id);

    if (labels == NULL)
        return rsbx_fail_memory(err);
    *out = labels;
    return REPOSBX_OK;
}

static json_t *mounts_value(const struct rsbx_slot_spec *spec)
{
    json_t *mounts = json_array();

    for (size_t i = 0; i < spec->mount_count; i++) {
        const struct rsbx_mount *mount = &spec->mounts[i];
        /* NoCopy: nothing of the image's own folder may appear in a store. The labels are those of a store
         * that is missing, which the engine makes without a word. */
        json_t *value = json_pack("{s:s, s:s, s:s, s:b, s:{s:b, s:{s:s}}}", "Type", "volume", "Source",
                                  mount->store, "Target", mount->at, "ReadOnly", !mount->writable,
                                  "VolumeOptions", "NoCopy", 1, "Labels", RSBX_LABEL_LOST, "yes");

        if (json_array_append_new(mounts, value) != 0) {
            json_decref(mounts);
            return NULL;
        }
    }
    return mounts;
}

/* runc gives a tmpfs the mode of the folder that the image has in its place, whatever `mode` says;
 * as the owner, the command can write to it all the same. */
static json_t *tmpfs_options(const struct rsbx_slot_spec *spec, uint64_t size)
{
    return json_sprintf("rw,nosuid,nodev,noexec,mode=1777,uid=%" PRIu32 ",gid=%" PRIu32
                        ",size=%" PRIu64,
                        spec->uid, spec->gid, size);
}

static json_t *tmpfs_value(const struct rsbx_slot_spec *spec)
{
    return json_pack("{s:o, s:o}", "/tmp", tmpfs_options(spec, spec->tmpfs_bytes), "/run",
                     tmpfs_options(spec, spec->run_bytes));
}

static json_t *security_value(const struct rsbx_slot_spec *spec)
{
    json_t *options = json_pack("[s]", "no-new-privileges");

    if (options != NULL && spec->seccomp_profile != NULL &&
        json_array_append_new(options, json_sprintf("seccomp=%s", spec->seccomp_profile)) != 0) {
        json_decref(options);
        return NULL;
    }
    return options;
}

static json_t *host_value(const struct rsbx_slot_spec *spec)
{
    json_t *host = json_pack(
        "{s:s, s:b, s:[s], s:o, s:o, s:I, s:I, s:I, s:I, s:[{s:s,s:I,s:I}, {s:s,s:I,s:I}]}",
        "NetworkMode", spec->network ? "bridge" : "none", "ReadonlyRootfs", spec->read_only_root,
        "CapDrop", "ALL", "CapAdd",
        spec->read_everything ? json_pack("[s]", "DAC_READ_SEARCH") : json_array(), "SecurityOpt",
        security_value(spec), "Memory", (json_int_t)spec->limits.memory_bytes, "MemorySwap",
        (json_int_t)spec->limits.memory_bytes, "NanoCpus", (json_int_t)llround(spec->limits.cpus * 1e9),
        "PidsLimit", (json_int_t)spec->limits.pids, "Ulimits", "Name", "nofile", "Soft",
        (json_int_t)spec->nofile, "Hard", (json_int_t)spec->nofile, "Name", "core", "Soft",
        (json_int_t)0, "Hard", (json_int_t)0);
    json_t *more = json_pack(
        "{s:s, s:s, s:o, s:o, s:{s:s, s:{}}, s:{s:s}, s:b, s:b, s:b, s:b}", "IpcMode", "private",
        "CgroupnsMode", "private", "Tmpfs", tmpfs_value(spec), "Mounts", mounts_value(spec),
        "LogConfig", "Type", "none", "Config", "RestartPolicy", "Name", "no", "AutoRemove", 0,
        "Privileged", 0, "Init", 0, "PublishAllPorts", 0);

    if (host == NULL || more == NULL || json_object_update(host, more) != 0 ||
        (spec->runtime != NULL &&
         json_object_set_new(host, "Runtime", json_string(spec->runtime)) != 0)) {
        json_decref(host);
        host = NULL;
    }
    json_decref(more);
    return host;
}

int rsbx_docker_limits_body(json_t **out, const struct rsbx_slot_limits *limits,
                            reposbx_error *err)
{
    json_t *body = json_pack("{s:I, s:I, s:I, s:I}", "Memory", (json_int_t)limits->memory_bytes,
                             "MemorySwap", (json_int_t)limits->memory_bytes, "NanoCpus",
                             (json_int_t)llround(limits->cpus * 1e9), "PidsLimit",
                             (json_int_t)limits->pids);

    if (body == NULL)
        return rsbx_fail_memory(err);
    *out = body;
    return REPOSBX_OK;
}

int rsbx_docker_slot_body(json_t **out, const struct rsbx_slot_spec *spec, reposbx_error *err)
{
    json_t *labels = NULL;
    json_t *body;
    int rc = rsbx_docker_labels(&labels, spec->session_id, err);

    if (rc != 0)
        return rc;
    body = json_pack(
        "{s:s, s:o, s:[s], s:[], s:[], s:s, s:s, s:o, s:b, s:b, s:b, s:b, s:b, s:b, s:b, "
        "s:{s:[s]}, s:o}",
        "Image", spec->image_id, "User",
        json_sprintf("%" PRIu32 ":%" PRIu32, spec->uid, spec->gid), "Entrypoint", RSBX_GUEST_PATH,
        "Cmd", "Env", "WorkingDir", "/", "Hostname", "sandbox", "Labels", labels, "Tty", 0,
        "OpenStdin", 1, "StdinOnce", 1, "AttachStdin", 1, "AttachStdout", 1, "AttachStderr", 1,
        "NetworkDisabled", !spec->network, "Healthcheck", "Test", "NONE", "HostConfig",
        host_value(spec));
    if (body == NULL)
        return rsbx_fail_memory(err);
    *out = body;
    return REPOSBX_OK;
}
