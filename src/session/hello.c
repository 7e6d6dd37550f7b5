/* SPDX-License-Identifier: Apache-2.0 */
#include "base/limits.h"
#include "provider/hello.h"
#include "session/internal.h"

#include "base/banned.h"

/* Bit of CAP_DAC_READ_SEARCH. Source: linux/capability.h. */
#define READER_CAPABILITY (1ULL << 2)
#define NOFILE 1024U

uint64_t rsbx_run_bytes(const reposbx_limits *limits)
{
    uint64_t tenth = limits->tmpfs_bytes / 10;

    return tenth < 1024U * 1024U ? 1024U * 1024U : tenth;
}

static struct rsbx_hello_want hello_want(const struct rsbx_slot_want *want)
{
    return (struct rsbx_hello_want){
        .uid = want->as_reader ? 0 : RSBX_GUEST_UID,
        .gid = want->as_reader ? 0 : RSBX_GUEST_GID,
        .capabilities = want->as_reader ? READER_CAPABILITY : 0,
        .baseline = (uint64_t)want->baseline,
        .workspace = (uint64_t)want->workspace,
        .upper = (uint64_t)want->upper,
        .guest_mounted = true,
        .network = want->network,
        .read_only_root = want->read_only_root,
        .cpus = want->limits.cpus,
        .memory_bytes = want->limits.memory_bytes,
        .pids = want->limits.pids,
        .tmp_bytes = want->limits.tmpfs_bytes,
        .run_bytes = rsbx_run_bytes(&want->limits),
        .nofile = NOFILE,
    };
}

bool rsbx_session_observed(struct rsbx_hello *hello, struct rsbx_hello_want *want,
                           const struct rsbx_session *session)
{
    const struct rsbx_slot_want command = rsbx_want_command(session);

    *hello = session->observed;
    *want = hello_want(&command);
    return session->has_observed;
}

int rsbx_hello_check(const struct rsbx_hello *hello, const struct rsbx_slot_want *want,
                     reposbx_error *err)
{
    const struct rsbx_hello_want wanted = hello_want(want);

    return rsbx_hello_compare(hello, &wanted, err);
}
