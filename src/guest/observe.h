/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RSBX_GUEST_OBSERVE_H
#define RSBX_GUEST_OBSERVE_H

#include <stdint.h>

#include "guest/protocol.h"

/* Fills in everything but the nonce. What cannot be read is RSBX_UNKNOWN. */
void rsbx_observe_hello(struct rsbx_hello *hello);
/* Processes that the cgroup killed for memory so far, and the most memory that it has held. */
uint64_t rsbx_observe_oom_kills(void);
uint64_t rsbx_observe_peak_memory(void);

#endif
