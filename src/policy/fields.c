/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/fields.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"

#include "base/banned.h"

#define AT(member) offsetof(reposbx_policy, member)

#define MIB 1048576.0
/* Above 2^53 other readers of JSON lose digits. */
#define MOST_BYTES 9007199254740991.0
/* stdin and the preview are held in memory, twice where they become JSON. */
#define MOST_HELD_BYTES (1024.0 * MIB)
#define YEAR_SECONDS 31536000.0
/* Command ids have six digits. */
#define MOST_COMMANDS 999999.0
/* Every slot is a running container with the full limits. */
#define MOST_SLOTS 64.0
/* The reserve for the closing records is 64 KiB; below twice that nothing could be recorded. */
#define LEAST_AUDIT_BYTES 131072.0
/* The most that Linux can be built for. */
#define MOST_CPUS 8192.0
/* PID_MAX_LIMIT of 64-bit Linux. */
#define MOST_PIDS 4194304.0
/* /tmp holds the home folder at least: some pages. */
#define LEAST_TMPFS_BYTES 65536.0

/* Choices are stored through the size of an enum. */
static_assert(sizeof(enum rsbx_workspace_mode) == sizeof(unsigned int) &&
                  sizeof(enum rsbx_network_mode) == sizeof(unsigned int) &&
                  sizeof(enum rsbx_wasm_mode) == sizeof(unsigned int),
              "an enum has the size of an unsigned int");

const char *const rsbx_policy_sections[RSBX_SECTION_COUNT] = { "source", "workspace", "session",
                                                               "run", "limits" };

const struct rsbx_field rsbx_policy_fields[RSBX_FIELD_COUNT_ALL] = {
    { "", "name", RSBX_FIELD_NAME, AT(name),
      0, 0, { NULL } },
    { "", "images", RSBX_FIELD_IMAGES, AT(images),
      0, 0, { NULL } },
    { "", "network", RSBX_FIELD_CHOICE, AT(network),
      0, 0, { "none", "bridge", NULL } },
    { "", "read_only_rootfs", RSBX_FIELD_FLAG, AT(read_only_rootfs),
      0, 0, { NULL } },
    { "", "require_rootless_runtime", RSBX_FIELD_FLAG, AT(require_rootless_runtime),
      0, 0, { NULL } },
    { "", "require_source_revision", RSBX_FIELD_FLAG, AT(require_source_revision),
      0, 0, { NULL } },
    { "", "allow_unpinned_image", RSBX_FIELD_FLAG, AT(allow_unpinned_image),
      0, 0, { NULL } },
    { "", "seccomp_profile", RSBX_FIELD_PATH, AT(seccomp_profile),
      0, 0, { NULL } },
    { "", "runtime", RSBX_FIELD_RUNTIME, AT(runtime),
      0, 0, { NULL } },
    { "source", "symlinks", RSBX_FIELD_SWITCH, AT(keep_symlinks),
      0, 0, { "refuse", "keep", NULL } },
    { "source", "submodules", RSBX_FIELD_SWITCH, AT(empty_submodules),
      0, 0, { "refuse", "empty", NULL } },
    { "source", "export_attributes", RSBX_FIELD_SWITCH, AT(raw_attributes),
      0, 0, { "refuse", "raw", NULL } },
    { "source", "owner", RSBX_FIELD_SWITCH, AT(any_owner),
      0, 0, { "caller", "any", NULL } },
    { "source", "max_files", RSBX_FIELD_COUNT, AT(max_files),
      1, RSBX_MAX_ENTRIES, { NULL } },
    { "source", "max_bytes", RSBX_FIELD_COUNT, AT(max_bytes),
      1, MOST_BYTES, { NULL } },
    { "source", "max_depth", RSBX_FIELD_COUNT32, AT(max_depth),
      1, RSBX_MAX_PATH_COMPONENTS, { NULL } },
    { "workspace", "mode", RSBX_FIELD_CHOICE, AT(workspace_mode),
      0, 0, { "auto", "overlay", "copy", NULL } },
    { "workspace", "disk_bytes", RSBX_FIELD_COUNT_NULL, AT(disk_bytes),
      MIB, MOST_BYTES, { NULL } },
    { "workspace", "require_disk_quota", RSBX_FIELD_FLAG, AT(require_disk_quota),
      0, 0, { NULL } },
    { "session", "lease_seconds", RSBX_FIELD_COUNT, AT(lease_seconds),
      1, YEAR_SECONDS, { NULL } },
    { "session", "max_commands", RSBX_FIELD_COUNT, AT(max_commands),
      1, MOST_COMMANDS, { NULL } },
    { "session", "slots", RSBX_FIELD_COUNT, AT(slots),
      1, MOST_SLOTS, { NULL } },
    { "session", "audit_bytes", RSBX_FIELD_COUNT, AT(audit_bytes),
      LEAST_AUDIT_BYTES, MOST_BYTES, { NULL } },
    { "run", "python", RSBX_FIELD_IMAGE, AT(python_image),
      0, 0, { NULL } },
    { "run", "bash", RSBX_FIELD_IMAGE, AT(bash_image),
      0, 0, { NULL } },
    { "run", "node", RSBX_FIELD_IMAGE, AT(node_image),
      0, 0, { NULL } },
    { "run", "wasm", RSBX_FIELD_CHOICE, AT(wasm),
      0, 0, { "prefer", "require", "never", NULL } },
    { "limits", "cpus", RSBX_FIELD_NUMBER, AT(limits.cpus),
      RSBX_LEAST_CPUS, MOST_CPUS, { NULL } },
    { "limits", "memory_bytes", RSBX_FIELD_COUNT, AT(limits.memory_bytes),
      RSBX_LEAST_MEMORY_BYTES, MOST_BYTES, { NULL } },
    { "limits", "pids", RSBX_FIELD_COUNT, AT(limits.pids),
      RSBX_LEAST_PIDS, MOST_PIDS, { NULL } },
    { "limits", "command_timeout_seconds", RSBX_FIELD_NUMBER, AT(limits.command_timeout_seconds),
      RSBX_LEAST_TIMEOUT_SECONDS, YEAR_SECONDS, { NULL } },
    { "limits", "output_bytes", RSBX_FIELD_COUNT, AT(limits.output_bytes),
      1, MOST_HELD_BYTES, { NULL } },
    { "limits", "audit_log_bytes", RSBX_FIELD_COUNT, AT(limits.audit_log_bytes),
      1, MOST_BYTES, { NULL } },
    { "limits", "stdin_bytes", RSBX_FIELD_COUNT, AT(limits.stdin_bytes),
      1, MOST_HELD_BYTES, { NULL } },
    { "limits", "tmpfs_bytes", RSBX_FIELD_COUNT, AT(limits.tmpfs_bytes),
      LEAST_TMPFS_BYTES, MOST_BYTES, { NULL } },
    { "limits", "artifact_bytes", RSBX_FIELD_COUNT, AT(limits.artifact_bytes),
      1, MOST_BYTES, { NULL } },
    { "limits", "artifact_members", RSBX_FIELD_COUNT, AT(limits.artifact_members),
      1, RSBX_MAX_BUNDLE_MEMBERS, { NULL } },
};

static const reposbx_policy defaults = {
    .network = RSBX_NETWORK_NONE,
    .read_only_rootfs = true,
    .require_rootless_runtime = true,
    .require_source_revision = true,
    .max_files = 200000,
    .max_bytes = 4294967296,
    .max_depth = 128,
    .workspace_mode = RSBX_WORKSPACE_AUTO,
    .lease_seconds = 7200,
    .max_commands = 1000,
    .slots = 1,
    .audit_bytes = 268435456,
    .limits = { .cpus = 2.0,
                .memory_bytes = 2147483648,
                .pids = 256,
                .command_timeout_seconds = 300.0,
                .output_bytes = 65536,
                .audit_log_bytes = 8388608,
                .stdin_bytes = 1048576,
                .tmpfs_bytes = 268435456,
                .artifact_bytes = 67108864,
                .artifact_members = 1000 },
};

reposbx_policy *rsbx_policy_new(void)
{
    reposbx_policy *policy = malloc(sizeof *policy);

    if (policy == NULL)
        return NULL;
    *policy = defaults;
    policy->name = strdup("default");
    if (policy->name == NULL) {
        free(policy);
        return NULL;
    }
    return policy;
}

void reposbx_policy_free(reposbx_policy *policy)
{
    if (policy == NULL)
        return;
    for (size_t i = 0; i < policy->image_count; i++)
        free(policy->images[i]);
    free(policy->images);
    free(policy->name);
    free(policy->seccomp_profile);
    free(policy->runtime);
    free(policy->python_image);
    free(policy->bash_image);
    free(policy->node_image);
    free(policy);
}
