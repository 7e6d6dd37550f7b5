/* SPDX-License-Identifier: Apache-2.0 */
/* What a container saw from inside. The product compares it as a whole before it sends a command;
 * here each part gets a row, by the same comparison: everything else is taken from a container that
 * is as it must be. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "doctor/internal.h"

#include "base/banned.h"

#define FILTERED 2U
#define TMPFS_FLAGS 7U
#define PERIOD_US 100000U

static const char *const rows[] = {
    "inside_memory", "inside_processes", "inside_processors", "inside_user", "inside_capabilities",
    "inside_no_new_privileges", "inside_seccomp", "inside_root", "inside_network", "inside_tmpfs",
    "inside_open_files", "inside_core_files", "inside_mounts",
};
enum { MEMORY, PROCESSES, PROCESSORS, USER, CAPABILITIES, PRIVILEGES, SECCOMP, ROOT, NETWORK, TMPFS,
       OPEN_FILES, CORE_FILES, MOUNTS, ROWS };

static struct rsbx_hello ideal(const struct rsbx_hello_want *want)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    uint64_t memory = want->memory_bytes / page * page;

    return (struct rsbx_hello){
        .pid = 1, .uid = want->uid, .gid = want->gid, .cap_effective = want->capabilities,
        .cap_permitted = want->capabilities, .cap_bounding = want->capabilities,
        .no_new_privs = 1, .seccomp_mode = FILTERED, .memory_bytes = memory,
        .memory_swap_bytes = memory, .pids = want->pids,
        .cpu_quota_us = (uint64_t)(want->cpus * PERIOD_US + 0.5), .cpu_period_us = PERIOD_US,
        .nofile_soft = want->nofile, .nofile_hard = want->nofile,
        .root_read_only = 1, .tmp_bytes = want->tmp_bytes, .run_bytes = want->run_bytes,
        .tmp_flags = TMPFS_FLAGS, .run_flags = TMPFS_FLAGS, .baseline = want->baseline,
        .workspace = want->workspace, .upper = want->upper, .guest_read_only = want->guest_mounted,
    };
}

static void take_identity(struct rsbx_hello *to, const struct rsbx_hello *from, size_t row)
{
    if (row == USER) {
        to->uid = from->uid;
        to->gid = from->gid;
        to->group_count = from->group_count;
    } else if (row == CAPABILITIES) {
        to->cap_effective = from->cap_effective;
        to->cap_permitted = from->cap_permitted;
        to->cap_bounding = from->cap_bounding;
        to->cap_inheritable = from->cap_inheritable;
        to->cap_ambient = from->cap_ambient;
    } else if (row == PRIVILEGES) {
        to->no_new_privs = from->no_new_privs;
        to->dumpable = from->dumpable;
    } else if (row == SECCOMP) {
        to->seccomp_mode = from->seccomp_mode;
    } else if (row == MOUNTS) {
        to->baseline = from->baseline;
        to->workspace = from->workspace;
        to->upper = from->upper;
        to->guest_read_only = from->guest_read_only;
    }
}

static void take_limits(struct rsbx_hello *to, const struct rsbx_hello *from, size_t row)
{
    if (row == MEMORY) {
        to->memory_bytes = from->memory_bytes;
        to->memory_swap_bytes = from->memory_swap_bytes;
    } else if (row == PROCESSES) {
        to->pids = from->pids;
    } else if (row == PROCESSORS) {
        to->cpu_quota_us = from->cpu_quota_us;
        to->cpu_period_us = from->cpu_period_us;
    } else if (row == ROOT) {
        to->root_read_only = from->root_read_only;
    } else if (row == NETWORK) {
        to->interfaces = from->interfaces;
    } else if (row == TMPFS) {
        to->tmp_bytes = from->tmp_bytes;
        to->run_bytes = from->run_bytes;
        to->tmp_flags = from->tmp_flags;
        to->run_flags = from->run_flags;
    } else if (row == OPEN_FILES) {
        to->nofile_soft = from->nofile_soft;
        to->nofile_hard = from->nofile_hard;
    } else if (row == CORE_FILES) {
        to->core_soft = from->core_soft;
        to->core_hard = from->core_hard;
    }
}

/* Said of a row that passes. */
static void describe(char *out, size_t size, const struct rsbx_hello *hello,
                     const struct rsbx_hello_want *want, size_t row)
{
    static const char *const fixed[ROWS] = {
        [CAPABILITIES] = "none, in all five sets",
        [PRIVILEGES] = "no-new-privileges is set, and the guest cannot be traced",
        [SECCOMP] = "a filter is in force",
        [CORE_FILES] = "none",
        [MOUNTS] = "guest read-only, workspace writable, nothing of the baseline",
    };

    if (row == MEMORY)
        (void)snprintf(out, size, "%" PRIu64 " bytes, swap included", hello->memory_bytes);
    else if (row == PROCESSES)
        (void)snprintf(out, size, "%" PRIu64, hello->pids);
    else if (row == PROCESSORS)
        (void)snprintf(out, size, "%.2f",
                       (double)hello->cpu_quota_us / (double)hello->cpu_period_us);
    else if (row == USER)
        (void)snprintf(out, size, "%" PRIu64 ":%" PRIu64 ", no other groups", hello->uid, hello->gid);
    else if (row == ROOT)
        (void)snprintf(out, size, "%s", want->read_only_root ? "read-only"
                                                             : "writable, as the policy says");
    else if (row == NETWORK)
        (void)snprintf(out, size, "%s", want->network ? "there, as the policy says"
                                                      : "no interface but lo");
    else if (row == TMPFS)
        (void)snprintf(out, size, "/tmp %" PRIu64 " bytes, nosuid, nodev, noexec", hello->tmp_bytes);
    else if (row == OPEN_FILES)
        (void)snprintf(out, size, "%" PRIu64, hello->nofile_hard);
    else
        (void)snprintf(out, size, "%s", fixed[row]);
}

void rsbx_doctor_inside(struct rsbx_doctor *doctor, const struct rsbx_hello *hello,
                        const struct rsbx_hello_want *want)
{
    for (size_t row = 0; row < ROWS; row++) {
        struct rsbx_hello seen = ideal(want);
        reposbx_error err = REPOSBX_ERROR_INIT;
        char detail[128];

        take_identity(&seen, hello, row);
        take_limits(&seen, hello, row);
        describe(detail, sizeof detail, hello, want, row);
        rsbx_doctor_judge(doctor, rows[row], rsbx_hello_compare(&seen, want, &err), &err, detail);
    }
}

void rsbx_doctor_inside_skip(struct rsbx_doctor *doctor, const char *why)
{
    for (size_t row = 0; row < ROWS; row++)
        rsbx_doctor_skip(doctor, rows[row], "%s", why);
}
