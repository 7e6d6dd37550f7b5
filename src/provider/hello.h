/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RSBX_PROVIDER_HELLO_H
#define RSBX_PROVIDER_HELLO_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "guest/protocol.h"

/* What a container must look like from inside. */
struct rsbx_hello_want {
    uint64_t uid, gid;
    uint64_t capabilities;               /* of the effective, permitted and bounding sets */
    uint64_t baseline, workspace, upper; /* 0 not mounted, 1 read-only, 2 writable */
    bool guest_mounted;                  /* false: the guest is a file of the image itself */
    bool network, read_only_root;
    double cpus;
    uint64_t memory_bytes, pids, tmp_bytes, run_bytes, nofile;
};

/* REPOSBX_EPOLICY naming the first thing that differs. */
int rsbx_hello_compare(const struct rsbx_hello *hello, const struct rsbx_hello_want *want,
                       reposbx_error *err);

#endif
