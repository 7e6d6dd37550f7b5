/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RSBX_GUEST_IO_H
#define RSBX_GUEST_IO_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#define RSBX_IO_MAX_WAIT 8

/*
 * Messages on stdin and stdout. Output goes through a queue of fixed size; whoever waits for room
 * in it also watches for the end of stdin. Any end of file, broken pipe or malformed header ends
 * the guest with everything that it started.
 */

struct rsbx_message {
    uint16_t type;
    uint32_t length;
    const uint8_t *payload; /* valid until the next message is taken */
};

void rsbx_io_start(void);
/* Runs once before the guest gives up, to remove what must not be left behind. */
void rsbx_io_at_abandon(void (*undo)(void));
_Noreturn void rsbx_io_abandon(int exit_code);

/* The next message, waiting for it; what is queued is sent first. */
void rsbx_io_receive(struct rsbx_message *out);
/* A message that is already there, if there is one. */
bool rsbx_io_take(struct rsbx_message *out);
/* One read of stdin, after poll has said that it is readable. */
void rsbx_io_read(void);

/* ppoll without a mask, of RSBX_IO_MAX_WAIT entries at most; also where the limit of descriptors was
 * lowered to less than that. */
int rsbx_io_wait(struct pollfd *wait, size_t count, const struct timespec *left);

/* Queues one message, waiting for room. */
void rsbx_io_send(uint16_t type, const void *first, size_t first_length, const void *second,
                  size_t second_length);
/* Writes what can be written without waiting. */
void rsbx_io_flush(void);
/* Writes everything. */
void rsbx_io_drain(void);
bool rsbx_io_pending(void);
/* Whether a piece of full size fits without waiting. */
bool rsbx_io_has_room(void);
/* Ends the guest when the controller is gone; for long work without input or output. */
void rsbx_io_check(void);

#endif
