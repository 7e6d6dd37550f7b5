/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/policy.h"

#include "base/banned.h"

static int refuse(const char *message, const char *hint, reposbx_error *err)
{
    (void)rsbx_fail(err, REPOSBX_EPOLICY, "host: %s", message);
    rsbx_hint(err, "%s", hint);
    return REPOSBX_EPOLICY;
}

/* The kernel's default for a user's own engine: only cgroup 2 with systemd as its manager hands the
 * limits down to a user. */
static int check_rootless(const struct rsbx_host_facts *facts, reposbx_error *err)
{
    if (!facts->rootless)
        return refuse("the policy demands a rootless engine and this one runs as root",
                      "point --engine at a rootless engine's socket, or use a policy with "
                      "\"require_rootless_runtime\": false",
                      err);
    if (facts->cgroup_version != 2)
        return refuse("a rootless engine needs cgroup version 2",
                      "boot with systemd.unified_cgroup_hierarchy=1", err);
    if (!facts->systemd_cgroups)
        return refuse("a rootless engine needs systemd as its cgroup manager",
                      "run the engine as a service of the user's systemd, with cgroup driver "
                      "\"systemd\"",
                      err);
    return REPOSBX_OK;
}

int rsbx_check_host(const reposbx_policy *policy, const struct rsbx_host_facts *facts,
                    reposbx_error *err)
{
    static const char delegate[] =
        "a rootless engine needs the cpu, memory and pids controllers delegated to the user "
        "(Delegate= of user@.service); a rootful one needs them in the kernel";
    int rc;

    /* Without a policy's word the rule is about the engine that is there: rootless is held to its
     * rules in either case. */
    if (policy->require_rootless_runtime || facts->rootless) {
        rc = check_rootless(facts, err);
        if (rc != 0)
            return rc;
    } else if (facts->cgroup_version != 1 && facts->cgroup_version != 2) {
        return refuse("the engine does not say which cgroup version it uses",
                      "use an engine that reports it", err);
    }
    if (!facts->seccomp)
        return refuse("the engine has no seccomp",
                      "use a kernel and an engine with seccomp, and no unconfined default profile",
                      err);
    if (!facts->memory_limit)
        return refuse("the engine cannot limit memory", delegate, err);
    if (!facts->swap_limit)
        return refuse("the engine cannot limit swap",
                      "boot with swapaccount=1, or see that the memory controller is delegated",
                      err);
    if (!facts->cpu_limit)
        return refuse("the engine cannot limit processors", delegate, err);
    if (!facts->pids_limit)
        return refuse("the engine cannot limit processes", delegate, err);
    return REPOSBX_OK;
}
