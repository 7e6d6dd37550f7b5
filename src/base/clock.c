/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/fd.h"

#include "base/banned.h"

#define NS_PER_S 1000000000ULL
#define NS_PER_MS 1000000ULL

static uint64_t read_clock(clockid_t clock)
{
    struct timespec now;

    if (clock_gettime(clock, &now) != 0)
        abort(); /* both clocks exist on every Linux */
    return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

uint64_t rsbx_now_ns(void)
{
    return read_clock(CLOCK_MONOTONIC);
}

uint64_t rsbx_wall_ns(void)
{
    return read_clock(CLOCK_REALTIME);
}

struct rsbx_deadline rsbx_deadline_in_ms(uint64_t milliseconds)
{
    struct rsbx_deadline deadline = { .cancel_fd = NULL };
    uint64_t now = rsbx_now_ns();

    deadline.at_ns =
        milliseconds > (UINT64_MAX - now) / NS_PER_MS ? UINT64_MAX : now + milliseconds * NS_PER_MS;
    return deadline;
}

struct rsbx_deadline rsbx_deadline_or(struct rsbx_deadline deadline, const int *cancel_fd)
{
    deadline.cancel_fd = cancel_fd;
    return deadline;
}

struct rsbx_deadline rsbx_deadline_min(struct rsbx_deadline a, struct rsbx_deadline b)
{
    return a.at_ns < b.at_ns ? a : b;
}

bool rsbx_deadline_passed(struct rsbx_deadline deadline)
{
    return rsbx_now_ns() >= deadline.at_ns;
}

int rsbx_deadline_cancel_fd(struct rsbx_deadline deadline)
{
    return deadline.cancel_fd != NULL ? *deadline.cancel_fd : -1;
}

bool rsbx_deadline_cancelled(struct rsbx_deadline deadline)
{
    struct pollfd cancel = { .fd = rsbx_deadline_cancel_fd(deadline), .events = POLLIN };

    return cancel.fd >= 0 && poll(&cancel, 1, 0) > 0;
}

int rsbx_check_cancelled(const int *cancel_fd, reposbx_error *err)
{
    const struct rsbx_deadline deadline = { .cancel_fd = cancel_fd };

    return rsbx_deadline_cancelled(deadline)
               ? rsbx_fail(err, REPOSBX_ECANCELLED, "cancelled by the caller")
               : REPOSBX_OK;
}

int rsbx_deadline_left_ms(struct rsbx_deadline deadline)
{
    uint64_t now = rsbx_now_ns();
    uint64_t left;

    if (now >= deadline.at_ns)
        return 0;
    left = (deadline.at_ns - now + NS_PER_MS - 1) / NS_PER_MS;
    return left > INT_MAX ? INT_MAX : (int)left;
}

void rsbx_time_text(char *out, uint64_t wall_ns)
{
    time_t seconds = (time_t)(wall_ns / NS_PER_S);
    struct tm parts;
    char stamp[24];

    (void)gmtime_r(&seconds, &parts);
    (void)strftime(stamp, sizeof stamp, "%Y-%m-%dT%H:%M:%S", &parts);
    (void)snprintf(out, RSBX_TIME_BYTES, "%s.%03uZ", stamp,
                   (unsigned)(wall_ns % NS_PER_S / NS_PER_MS));
}

int rsbx_boot_id(char *out, reposbx_error *err)
{
    char text[64];
    int rc = rsbx_read_small(text, sizeof text, "/proc/sys/kernel/random/boot_id", err);

    if (rc != 0)
        return rc;
    if (strlen(text) < RSBX_BOOT_ID_BYTES - 1)
        return rsbx_fail(err, REPOSBX_EIO, "the kernel gave no boot id");
    memcpy(out, text, RSBX_BOOT_ID_BYTES - 1);
    out[RSBX_BOOT_ID_BYTES - 1] = '\0';
    return REPOSBX_OK;
}

int rsbx_process_start(uint64_t *out, pid_t pid, reposbx_error *err)
{
    char path[48];
    char text[1024];
    const char *field;
    int rc;

    (void)snprintf(path, sizeof path, "/proc/%ld/stat", (long)pid);
    rc = rsbx_read_small(text, sizeof text, path, err);
    if (rc != 0)
        return rc;
    /* The name in field 2 may hold anything; the last ')' ends it. Field 22 is the 20th after
     * it. */
    field = strrchr(text, ')');
    for (int i = 0; field != NULL && i < 20; i++) {
        field = strchr(field, ' ');
        if (field != NULL)
            field++;
    }
    if (field == NULL || sscanf(field, "%" SCNu64, out) != 1)
        return rsbx_fail(err, REPOSBX_EIO, "%s does not parse", path);
    return REPOSBX_OK;
}
