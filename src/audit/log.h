/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RSBX_AUDIT_LOG_H
#define RSBX_AUDIT_LOG_H

#include <sys/types.h>

#include "audit/audit.h"
#include "audit/record.h"

/*
 * An open log. Invariants, between two calls:
 *  1. `head` is the last record that was acknowledged: nothing lies behind head.end.
 *  2. Both names still mean the files that were opened, and the log has the size that we gave it;
 *     this is looked at before each append.
 *  3. `broken` is final: it is set by every failure after which 1 or 2 might not hold.
 */
struct rsbx_audit {
    int dir_fd;  /* borrowed */
    int log_fd, head_fd;
    uint64_t limit_bytes;
    uint64_t streams_bytes;
    struct rsbx_head head;
    char boot_id[RSBX_BOOT_ID_BYTES];
    bool closed; /* the last record is the final one */
    bool broken;
};

#endif
