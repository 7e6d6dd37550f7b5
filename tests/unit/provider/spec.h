/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_UNIT_PROVIDER_SPEC_H
#define TESTS_UNIT_PROVIDER_SPEC_H

#include "provider/provider.h"

/* A slot of a command as every provider is asked for it; what each makes of it is for its own test. */
static const struct rsbx_mount exec_slot_mounts[] = {
    { .store = "sbx-1-guest", .at = "/reposbx/guest", .writable = false },
    { .store = "sbx-1-workspace", .at = "/workspace", .writable = true },
};

static inline struct rsbx_slot_spec exec_slot_spec(void)
{
    return (struct rsbx_slot_spec){ .name = "sbx-1-000001-exec",
                                    .session_id = "sbx-1",
                                    .image_id = "sha256:abc",
                                    .mounts = exec_slot_mounts,
                                    .mount_count = 2,
                                    .uid = 65532,
                                    .gid = 65532,
                                    .read_only_root = true,
                                    .limits = { .cpus = 1.5,
                                                .memory_bytes = 268435456,
                                                .pids = 64 },
                                    .tmpfs_bytes = 1048576,
                                    .run_bytes = 2097152,
                                    .nofile = 1024 };
}

#endif
