/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RSBX_GUEST_FENCE_H
#define RSBX_GUEST_FENCE_H

/*
 * A command has the guest's user, and a few system calls ask for no more than that to slow another
 * process down or to limit it: its priority, scheduler, processors and limits. The fence is a filter
 * that refuses them where they are meant for PID 1 or for all processes of the user. It is inherited
 * and nobody can take it away.
 *
 * It also shuts what the profiles of older engines leave open: sockets of AF_VSOCK, which belong to no
 * network namespace and lead to the machine's hypervisor, and io_uring, whose requests no filter sees.
 */

/* 0, or an errno. From here on it holds for this process and all that it starts. */
int rsbx_fence(void);

#endif
