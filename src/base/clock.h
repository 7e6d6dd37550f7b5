/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RSBX_BASE_CLOCK_H
#define RSBX_BASE_CLOCK_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"

/* CLOCK_MONOTONIC in nanoseconds. Deadlines are made of this clock alone. */
uint64_t rsbx_now_ns(void);

/* CLOCK_REALTIME in nanoseconds since 1970; for records that people read, never for deadlines. */
uint64_t rsbx_wall_ns(void);

/*
 * How long to wait: until a moment on the monotonic clock, or until the caller of all this has had
 * enough. Whoever waits hears both. What makes or starts something gives the answer a short while more
 * (RSBX_CANCEL_GRACE_MS); what clears up hears the clock alone.
 */
struct rsbx_deadline {
    uint64_t at_ns;
    const int *cancel_fd; /* readable: wait no longer; NULL, or -1 there: nobody cancels */
};

/* Without a cancel. */
struct rsbx_deadline rsbx_deadline_in_ms(uint64_t milliseconds);
/* The same moment, and `cancel_fd` (NULL: none), which must outlive the deadline. */
struct rsbx_deadline rsbx_deadline_or(struct rsbx_deadline deadline, const int *cancel_fd);
/* The earlier one. */
struct rsbx_deadline rsbx_deadline_min(struct rsbx_deadline a, struct rsbx_deadline b);
bool rsbx_deadline_passed(struct rsbx_deadline deadline);
/* The descriptor for poll(), -1 when nobody cancels. */
int rsbx_deadline_cancel_fd(struct rsbx_deadline deadline);
bool rsbx_deadline_cancelled(struct rsbx_deadline deadline);
/* Whether a descriptor as above is readable: REPOSBX_ECANCELLED in words. */
int rsbx_check_cancelled(const int *cancel_fd, reposbx_error *err);
/* Milliseconds left, rounded up, for poll(): 0 when passed, INT_MAX at most. */
int rsbx_deadline_left_ms(struct rsbx_deadline deadline);

#define RSBX_TIME_BYTES 32
/* "2026-01-02T03:04:05.678Z" in out[RSBX_TIME_BYTES]. */
void rsbx_time_text(char *out, uint64_t wall_ns);

#define RSBX_BOOT_ID_BYTES 37
/* The kernel's boot id (36 characters) in out[RSBX_BOOT_ID_BYTES]. */
int rsbx_boot_id(char *out, reposbx_error *err);

/* Start time of a process in clock ticks since boot (field 22 of /proc/PID/stat); with the boot id
 * and the pid it names a process for ever. REPOSBX_ENOTFOUND when it does not run. */
int rsbx_process_start(uint64_t *out, pid_t pid, reposbx_error *err);

#endif
