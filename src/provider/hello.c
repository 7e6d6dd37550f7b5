/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Limits are proven, not requested: what the guest observes from inside its container is compared,
 * field by field, with what was asked for, and a container in which anything differs gets no
 * request.
 */
#include <inttypes.h>
#include <math.h>
#include <unistd.h>

#include "provider/hello.h"

#include "base/banned.h"

#define SECCOMP_FILTER 2U
/* nosuid, nodev, noexec */
#define TMPFS_FLAGS 7U
/* The kernel keeps a bandwidth quota in whole microseconds of a period of at least 1 ms. */
#define CPU_TOLERANCE 0.0015

/* The kernel keeps memory limits in whole pages. */
static uint64_t whole_pages(uint64_t bytes)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);

    return bytes / page * page;
}

static int differs(const char *field, uint64_t seen, uint64_t wanted, reposbx_error *err)
{
    if (seen == RSBX_UNKNOWN)
        (void)rsbx_fail(err, REPOSBX_EPOLICY, "inside the container %s cannot be observed", field);
    else if (seen == RSBX_UNLIMITED)
        (void)rsbx_fail(err, REPOSBX_EPOLICY, "inside the container %s is without limit, not %" PRIu64,
                        field, wanted);
    else
        (void)rsbx_fail(err, REPOSBX_EPOLICY,
                        "inside the container %s is %" PRIu64 ", not %" PRIu64, field, seen, wanted);
    rsbx_hint(err, "the engine does not keep what the policy demands; nothing was run");
    return REPOSBX_EPOLICY;
}

static int check_identity(const struct rsbx_hello *hello, const struct rsbx_hello_want *want,
                          reposbx_error *err)
{
    const struct {
        const char *field;
        uint64_t seen, wanted;
    } exact[] = {
        { "the guest's pid", hello->pid, 1 },
        { "the user id", hello->uid, want->uid },
        { "the group id", hello->gid, want->gid },
        { "the number of other groups", hello->group_count, 0 },
        { "the effective capability set", hello->cap_effective, want->capabilities },
        { "the permitted capability set", hello->cap_permitted, want->capabilities },
        { "the bounding capability set", hello->cap_bounding, want->capabilities },
        { "the ambient capability set", hello->cap_ambient, 0 },
        { "no-new-privileges", hello->no_new_privs, 1 },
        { "the seccomp mode", hello->seccomp_mode, SECCOMP_FILTER },
        { "the guest's dumpable flag", hello->dumpable, 0 },
        { "the soft limit of open files", hello->nofile_soft, want->nofile },
        { "the hard limit of open files", hello->nofile_hard, want->nofile },
        { "the soft limit of core files", hello->core_soft, 0 },
        { "the hard limit of core files", hello->core_hard, 0 },
        { "the read-only mount of the guest", hello->guest_read_only, want->guest_mounted },
        { "the state of the baseline mount", hello->baseline, want->baseline },
        { "the state of the workspace mount", hello->workspace, want->workspace },
        { "the state of the upper layer's mount", hello->upper, want->upper },
    };

    for (size_t i = 0; i < sizeof exact / sizeof exact[0]; i++) {
        if (exact[i].seen != exact[i].wanted)
            return differs(exact[i].field, exact[i].seen, exact[i].wanted, err);
    }
    if ((hello->cap_inheritable & ~want->capabilities) != 0)
        return differs("the inheritable capability set", hello->cap_inheritable, 0, err);
    if (want->read_only_root && hello->root_read_only != 1)
        return differs("the read-only root", hello->root_read_only, 1, err);
    if (!want->network && hello->interfaces != 0)
        return differs("the number of network interfaces beside lo", hello->interfaces, 0, err);
    return REPOSBX_OK;
}

static int check_limits(const struct rsbx_hello *hello, const struct rsbx_hello_want *want,
                        reposbx_error *err)
{
    uint64_t memory = whole_pages(want->memory_bytes);
    uint64_t tmp = want->tmp_bytes;
    uint64_t run = want->run_bytes;
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    double cpus;

    if (hello->memory_bytes != memory)
        return differs("the memory limit", hello->memory_bytes, memory, err);
    /* Swap that cannot be observed is swap that may be there: refused like any other difference. */
    if (hello->memory_swap_bytes != memory)
        return differs("the limit of memory and swap", hello->memory_swap_bytes, memory, err);
    if (hello->pids != want->pids)
        return differs("the limit of processes", hello->pids, want->pids, err);
    if (hello->cpu_quota_us >= RSBX_UNLIMITED || hello->cpu_period_us >= RSBX_UNLIMITED ||
        hello->cpu_period_us == 0)
        return differs("the processor quota", hello->cpu_quota_us,
                       (uint64_t)(want->cpus * 1e5), err);
    cpus = (double)hello->cpu_quota_us / (double)hello->cpu_period_us;
    if (fabs(cpus - want->cpus) > CPU_TOLERANCE)
        return differs("the processor quota", hello->cpu_quota_us,
                       (uint64_t)(want->cpus * (double)hello->cpu_period_us), err);
    /* tmpfs rounds up to whole pages. */
    if (hello->tmp_bytes < tmp || hello->tmp_bytes >= tmp + page)
        return differs("the size of /tmp", hello->tmp_bytes, tmp, err);
    if (hello->run_bytes < run || hello->run_bytes >= run + page)
        return differs("the size of /run", hello->run_bytes, run, err);
    if (hello->tmp_flags != TMPFS_FLAGS || hello->run_flags != TMPFS_FLAGS)
        return differs("the set of nosuid, nodev and noexec of /tmp and /run",
                       hello->tmp_flags & hello->run_flags, TMPFS_FLAGS, err);
    return REPOSBX_OK;
}

int rsbx_hello_compare(const struct rsbx_hello *hello, const struct rsbx_hello_want *want,
                       reposbx_error *err)
{
    int rc = check_identity(hello, want, err);

    return rc != 0 ? rc : check_limits(hello, want, err);
}
