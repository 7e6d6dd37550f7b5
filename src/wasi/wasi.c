/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdint.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "wasi/host.h"

/*
 * WASI preview 1. Every address and length comes from the module: it is looked up by rsbx_wasi_span()
 * before it is used, and structs are copied in and out bytewise, since nothing is aligned.
 */

/* Error numbers of preview 1. */
enum {
    DONE = 0,
    E_AGAIN = 6,
    E_BADF = 8,
    E_FAULT = 21,
    E_INTR = 27,
    E_INVAL = 28,
    E_IO = 29,
    E_NOTSUP = 58,
    E_PIPE = 64,
    E_SPIPE = 70
};

/* Rights and kinds of a descriptor as in fdstat. */
#define RIGHT_READ (1ULL << 1)
#define RIGHT_WRITE (1ULL << 6)
#define RIGHT_FILESTAT (1ULL << 21)
#define RIGHT_POLL (1ULL << 27)

#define MOST_VECTORS 1024U
#define MOST_SUBSCRIPTIONS 64U

#define FUNCTION(name) Z_wasi_snapshot_preview1Z_##name

void *rsbx_wasi_span(const rsbx_wasi *wasi, uint32_t at, uint64_t length)
{
    const wasm_rt_memory_t *memory = wasi->memory;

    /* Pages, not `size`: that is 32 bits wide and 0 for all of 4 GiB. */
    if ((uint64_t)at + length > (uint64_t)memory->pages * 65536U || memory->data == NULL)
        return NULL;
    return memory->data + at;
}

static uint32_t put_u32(rsbx_wasi *wasi, uint32_t at, uint32_t value)
{
    void *place = rsbx_wasi_span(wasi, at, sizeof value);

    if (place == NULL)
        return E_FAULT;
    memcpy(place, &value, sizeof value);
    return DONE;
}

static uint32_t put_u64(rsbx_wasi *wasi, uint32_t at, uint64_t value)
{
    void *place = rsbx_wasi_span(wasi, at, sizeof value);

    if (place == NULL)
        return E_FAULT;
    memcpy(place, &value, sizeof value);
    return DONE;
}

static uint32_t error_of(int number)
{
    switch (number) {
    case EAGAIN:
        return E_AGAIN;
    case EINTR:
        return E_INTR;
    case EPIPE:
        return E_PIPE;
    default:
        return E_IO;
    }
}

/* ---- arguments and environment ---- */

uint32_t FUNCTION(args_sizes_get)(rsbx_wasi *wasi, uint32_t count_at, uint32_t bytes_at);
uint32_t FUNCTION(args_get)(rsbx_wasi *wasi, uint32_t pointers, uint32_t bytes);
uint32_t FUNCTION(environ_sizes_get)(rsbx_wasi *wasi, uint32_t count_at, uint32_t bytes_at);
uint32_t FUNCTION(environ_get)(rsbx_wasi *wasi, uint32_t pointers, uint32_t bytes);

uint32_t FUNCTION(args_sizes_get)(rsbx_wasi *wasi, uint32_t count_at, uint32_t bytes_at)
{
    uint64_t bytes = 0;
    uint32_t rc;

    for (uint32_t i = 0; i < wasi->argc; i++)
        bytes += strlen(wasi->argv[i]) + 1;
    rc = put_u32(wasi, count_at, wasi->argc);
    return rc != DONE ? rc : put_u32(wasi, bytes_at, (uint32_t)bytes);
}

uint32_t FUNCTION(args_get)(rsbx_wasi *wasi, uint32_t pointers, uint32_t bytes)
{
    for (uint32_t i = 0; i < wasi->argc; i++) {
        size_t length = strlen(wasi->argv[i]) + 1;
        void *place = rsbx_wasi_span(wasi, bytes, length);

        if (place == NULL || rsbx_wasi_span(wasi, pointers, 4ULL * wasi->argc) == NULL)
            return E_FAULT;
        memcpy(place, wasi->argv[i], length);
        (void)put_u32(wasi, pointers + 4U * i, bytes);
        bytes += (uint32_t)length;
    }
    return DONE;
}

uint32_t FUNCTION(environ_sizes_get)(rsbx_wasi *wasi, uint32_t count_at, uint32_t bytes_at)
{
    uint32_t rc = put_u32(wasi, count_at, 0);

    return rc != DONE ? rc : put_u32(wasi, bytes_at, 0);
}

uint32_t FUNCTION(environ_get)(rsbx_wasi *wasi, uint32_t pointers, uint32_t bytes)
{
    (void)wasi;
    (void)pointers;
    (void)bytes;
    return DONE;
}

/* ---- clocks, random bytes, the end ---- */

uint32_t FUNCTION(clock_res_get)(rsbx_wasi *wasi, uint32_t id, uint32_t at);
uint32_t FUNCTION(clock_time_get)(rsbx_wasi *wasi, uint32_t id, uint64_t precision, uint32_t at);
uint32_t FUNCTION(random_get)(rsbx_wasi *wasi, uint32_t at, uint32_t length);
uint32_t FUNCTION(sched_yield)(rsbx_wasi *wasi);
void FUNCTION(proc_exit)(rsbx_wasi *wasi, uint32_t code);

static const clockid_t clocks[] = { CLOCK_REALTIME, CLOCK_MONOTONIC, CLOCK_PROCESS_CPUTIME_ID,
                                    CLOCK_THREAD_CPUTIME_ID };

static uint64_t nanoseconds(const struct timespec *time)
{
    return (uint64_t)time->tv_sec * 1000000000U + (uint64_t)time->tv_nsec;
}

uint32_t FUNCTION(clock_res_get)(rsbx_wasi *wasi, uint32_t id, uint32_t at)
{
    struct timespec step;

    if (id >= sizeof clocks / sizeof clocks[0] || clock_getres(clocks[id], &step) != 0)
        return E_INVAL;
    return put_u64(wasi, at, nanoseconds(&step));
}

uint32_t FUNCTION(clock_time_get)(rsbx_wasi *wasi, uint32_t id, uint64_t precision, uint32_t at)
{
    struct timespec now;

    (void)precision;
    if (id >= sizeof clocks / sizeof clocks[0] || clock_gettime(clocks[id], &now) != 0)
        return E_INVAL;
    return put_u64(wasi, at, nanoseconds(&now));
}

uint32_t FUNCTION(random_get)(rsbx_wasi *wasi, uint32_t at, uint32_t length)
{
    unsigned char *place = rsbx_wasi_span(wasi, at, length);
    size_t done = 0;

    if (place == NULL)
        return E_FAULT;
    while (done < length) {
        ssize_t got = getrandom(place + done, length - done, 0);

        if (got < 0 && errno != EINTR)
            return E_IO;
        if (got > 0)
            done += (size_t)got;
    }
    return DONE;
}

uint32_t FUNCTION(sched_yield)(rsbx_wasi *wasi)
{
    (void)wasi;
    (void)sched_yield();
    return DONE;
}

void FUNCTION(proc_exit)(rsbx_wasi *wasi, uint32_t code)
{
    rsbx_wasi_exit(wasi, code);
}

/* ---- the three streams ---- */

uint32_t FUNCTION(fd_read)(rsbx_wasi *wasi, uint32_t fd, uint32_t vectors, uint32_t count, uint32_t at);
uint32_t FUNCTION(fd_write)(rsbx_wasi *wasi, uint32_t fd, uint32_t vectors, uint32_t count, uint32_t at);
uint32_t FUNCTION(fd_close)(rsbx_wasi *wasi, uint32_t fd);
uint32_t FUNCTION(fd_fdstat_get)(rsbx_wasi *wasi, uint32_t fd, uint32_t at);
uint32_t FUNCTION(fd_filestat_get)(rsbx_wasi *wasi, uint32_t fd, uint32_t at);
uint32_t FUNCTION(fd_seek)(rsbx_wasi *wasi, uint32_t fd, uint64_t offset, uint32_t whence, uint32_t at);
uint32_t FUNCTION(fd_tell)(rsbx_wasi *wasi, uint32_t fd, uint32_t at);

static bool is_open(const rsbx_wasi *wasi, uint32_t fd)
{
    return fd <= 2 && !wasi->closed[fd];
}

/* Moves bytes for a list of { address, length } pairs until one comes up short. */
static uint32_t move(rsbx_wasi *wasi, uint32_t fd, uint32_t vectors, uint32_t count, uint32_t at)
{
    const unsigned char *list = rsbx_wasi_span(wasi, vectors, 8ULL * count);
    uint32_t total = 0;

    if (list == NULL || rsbx_wasi_span(wasi, at, 4) == NULL)
        return E_FAULT;
    if (count > MOST_VECTORS)
        return E_INVAL;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t pair[2];
        void *place;
        ssize_t moved;

        memcpy(pair, list + 8U * i, sizeof pair);
        place = rsbx_wasi_span(wasi, pair[0], pair[1]);
        if (place == NULL)
            return E_FAULT;
        if (pair[1] == 0)
            continue;
        if (pair[1] > UINT32_MAX - total)
            break;
        do {
            moved = fd == 0 ? read(0, place, pair[1]) : write((int)fd, place, pair[1]);
        } while (moved < 0 && errno == EINTR);
        if (moved < 0)
            return total > 0 ? put_u32(wasi, at, total) : error_of(errno);
        total += (uint32_t)moved;
        /* One call may block; a second read would wait for more than is there. */
        if ((uint32_t)moved < pair[1] || fd == 0)
            break;
    }
    return put_u32(wasi, at, total);
}

uint32_t FUNCTION(fd_read)(rsbx_wasi *wasi, uint32_t fd, uint32_t vectors, uint32_t count, uint32_t at)
{
    if (fd != 0 || !is_open(wasi, fd))
        return E_BADF;
    if (wasi->page->phase == RSBX_WASI_RUNS)
        wasi->page->phase = RSBX_WASI_WAITS;
    return move(wasi, fd, vectors, count, at);
}

uint32_t FUNCTION(fd_write)(rsbx_wasi *wasi, uint32_t fd, uint32_t vectors, uint32_t count, uint32_t at)
{
    if (fd == 0 || !is_open(wasi, fd))
        return E_BADF;
    return move(wasi, fd, vectors, count, at);
}

uint32_t FUNCTION(fd_close)(rsbx_wasi *wasi, uint32_t fd)
{
    if (!is_open(wasi, fd))
        return E_BADF;
    wasi->closed[fd] = true;
    return DONE;
}

/* kind: unknown, as a pipe is to preview 1. */
uint32_t FUNCTION(fd_fdstat_get)(rsbx_wasi *wasi, uint32_t fd, uint32_t at)
{
    unsigned char *place = rsbx_wasi_span(wasi, at, 24);
    uint64_t rights = (fd == 0 ? RIGHT_READ : RIGHT_WRITE) | RIGHT_FILESTAT | RIGHT_POLL;

    if (!is_open(wasi, fd))
        return E_BADF;
    if (place == NULL)
        return E_FAULT;
    memset(place, 0, 24);
    memcpy(place + 8, &rights, sizeof rights);
    return DONE;
}

uint32_t FUNCTION(fd_filestat_get)(rsbx_wasi *wasi, uint32_t fd, uint32_t at)
{
    unsigned char *place = rsbx_wasi_span(wasi, at, 64);

    if (!is_open(wasi, fd))
        return E_BADF;
    if (place == NULL)
        return E_FAULT;
    memset(place, 0, 64);
    place[8] = (unsigned char)(fd + 1); /* inode */
    place[24] = 1;                      /* links */
    return DONE;
}

uint32_t FUNCTION(fd_seek)(rsbx_wasi *wasi, uint32_t fd, uint64_t offset, uint32_t whence, uint32_t at)
{
    (void)offset;
    (void)whence;
    (void)at;
    return is_open(wasi, fd) ? E_SPIPE : E_BADF;
}

uint32_t FUNCTION(fd_tell)(rsbx_wasi *wasi, uint32_t fd, uint32_t at)
{
    (void)at;
    return is_open(wasi, fd) ? E_SPIPE : E_BADF;
}

/* ---- waiting ---- */

uint32_t FUNCTION(poll_oneoff)(rsbx_wasi *wasi, uint32_t in, uint32_t out, uint32_t count, uint32_t at);

enum { ON_CLOCK = 0, ON_READ = 1, ON_WRITE = 2 };

/* One subscription, read out of its 48 bytes. */
struct wish {
    uint64_t user_data;
    uint64_t at_ns;  /* of its clock's time, absolute */
    uint32_t clock;
    uint32_t fd;
    uint32_t error;
    uint8_t kind;
};

static struct wish read_wish(const rsbx_wasi *wasi, const unsigned char *bytes)
{
    struct wish wish = { .error = DONE, .kind = bytes[8] };
    struct timespec now = { 0, 0 };
    uint64_t timeout;
    uint16_t flags;

    memcpy(&wish.user_data, bytes, 8);
    if (wish.kind == ON_CLOCK) {
        memcpy(&wish.clock, bytes + 16, 4);
        memcpy(&timeout, bytes + 24, 8);
        memcpy(&flags, bytes + 40, 2);
        if (wish.clock > 1 || clock_gettime(clocks[wish.clock], &now) != 0) {
            wish.error = E_NOTSUP;
            return wish;
        }
        wish.at_ns = timeout;
        if ((flags & 1) == 0 && __builtin_add_overflow(nanoseconds(&now), timeout, &wish.at_ns))
            wish.at_ns = UINT64_MAX;
    } else if (wish.kind == ON_READ || wish.kind == ON_WRITE) {
        memcpy(&wish.fd, bytes + 16, 4);
        if (!is_open(wasi, wish.fd) || (wish.kind == ON_READ) != (wish.fd == 0))
            wish.error = E_BADF;
    } else {
        wish.error = E_INVAL;
    }
    return wish;
}

/* Nanoseconds until the moment, 0 when it has passed. */
static uint64_t until(const struct wish *wish)
{
    struct timespec now;
    uint64_t now_ns;

    (void)clock_gettime(clocks[wish->clock], &now);
    now_ns = nanoseconds(&now);
    return wish->at_ns > now_ns ? wish->at_ns - now_ns : 0;
}

/* Waits for the first of them; what is ready then is in polled[].revents. */
static void wait_for(const struct wish *wishes, struct pollfd *polled, uint32_t count)
{
    uint64_t shortest = UINT64_MAX;
    struct timespec time;
    nfds_t open_fds = 0;
    struct pollfd fds[3];
    uint32_t places[3];

    for (uint32_t i = 0; i < count; i++) {
        const struct wish *wish = &wishes[i];
        uint64_t left = wish->error != DONE ? 0 : UINT64_MAX;

        if (wish->error == DONE && wish->kind == ON_CLOCK)
            left = until(wish);
        else if (wish->error == DONE && open_fds < 3) {
            fds[open_fds] = polled[i];
            places[open_fds++] = i;
        }
        if (left < shortest)
            shortest = left;
    }
    time.tv_sec = (time_t)(shortest / 1000000000U);
    time.tv_nsec = (long)(shortest % 1000000000U);
    if (ppoll(fds, open_fds, shortest == UINT64_MAX ? NULL : &time, NULL) <= 0)
        return;
    for (nfds_t i = 0; i < open_fds; i++)
        polled[places[i]].revents = fds[i].revents;
}

static void put_event(unsigned char *place, const struct wish *wish, bool hang_up)
{
    uint16_t error = (uint16_t)wish->error;

    memset(place, 0, 32);
    memcpy(place, &wish->user_data, 8);
    memcpy(place + 8, &error, 2);
    place[10] = wish->kind;
    if (wish->kind != ON_CLOCK && error == DONE) {
        place[16] = 1; /* at least one byte */
        place[24] = hang_up ? 1 : 0;
    }
}

uint32_t FUNCTION(poll_oneoff)(rsbx_wasi *wasi, uint32_t in, uint32_t out, uint32_t count, uint32_t at)
{
    const unsigned char *from = rsbx_wasi_span(wasi, in, 48ULL * count);
    unsigned char *to = rsbx_wasi_span(wasi, out, 32ULL * count);
    struct wish wishes[MOST_SUBSCRIPTIONS];
    struct pollfd polled[MOST_SUBSCRIPTIONS];
    uint32_t events = 0;

    if (count == 0 || count > MOST_SUBSCRIPTIONS)
        return E_INVAL;
    if (from == NULL || to == NULL || rsbx_wasi_span(wasi, at, 4) == NULL)
        return E_FAULT;
    for (uint32_t i = 0; i < count; i++) {
        wishes[i] = read_wish(wasi, from + 48U * i);
        polled[i].fd = (int)wishes[i].fd;
        polled[i].events = wishes[i].kind == ON_READ ? POLLIN : POLLOUT;
        polled[i].revents = 0;
    }
    while (events == 0) {
        wait_for(wishes, polled, count);
        for (uint32_t i = 0; i < count; i++) {
            const struct wish *wish = &wishes[i];
            bool ready = wish->error != DONE ||
                         (wish->kind == ON_CLOCK ? until(wish) == 0 : polled[i].revents != 0);

            if (ready)
                put_event(to + 32U * events++, wish, (polled[i].revents & POLLHUP) != 0);
        }
    }
    return put_u32(wasi, at, events);
}
