/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/io.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "guest/guest.h"
#include "guest/process.h"
#include "guest/protocol.h"

struct queue {
    size_t start, end;
    uint32_t sequence;
    uint8_t bytes[256U * 1024U];
};

static struct queue in, out;
static void (*undo_work)(void);
static int epoll_fd = -1;

void rsbx_io_start(void)
{
    int flags = fcntl(STDOUT_FILENO, F_GETFL);

    epoll_fd = epoll_create1(EPOLL_CLOEXEC);

    /* Only the write side: stdin is never read unless poll has said so. */
    if (flags < 0 || fcntl(STDOUT_FILENO, F_SETFL, flags | O_NONBLOCK) < 0) {
        rsbx_io_abandon(RSBX_GUEST_EXIT_MALFORMED);
    }
}

void rsbx_io_at_abandon(void (*undo)(void))
{
    undo_work = undo;
}

_Noreturn void rsbx_io_abandon(int exit_code)
{
    struct rsbx_children children = {0};

    rsbx_process_end_all(&children);
    if (undo_work != NULL) {
        undo_work();
    }
    _exit(exit_code);
}

/* What ppoll does, by an epoll that was made while descriptors could be made. */
static int wait_by_epoll(struct pollfd *wait, size_t count, const struct timespec *left)
{
    struct epoll_event ready[RSBX_IO_MAX_WAIT];
    int milliseconds = -1, found;

    if (left != NULL) {
        milliseconds = left->tv_sec > 1000000
                           ? 1000000000
                           : (int)(left->tv_sec * 1000 + (left->tv_nsec + 999999) / 1000000);
    }
    for (size_t i = 0; i < count; i++) {
        /* The bits are those of poll. */
        struct epoll_event event = {.events = (uint16_t)wait[i].events, .data.u32 = (uint32_t)i};

        wait[i].revents = 0;
        if (wait[i].fd >= 0 && epoll_ctl(epoll_fd, EPOLL_CTL_ADD, wait[i].fd, &event) != 0 &&
            errno == EPERM) {
            wait[i].revents = wait[i].events; /* a file is always ready */
            milliseconds = 0;
        }
    }
    found = epoll_wait(epoll_fd, ready, RSBX_IO_MAX_WAIT, milliseconds);
    for (int i = 0; i < found; i++) {
        wait[ready[i].data.u32].revents = (short)ready[i].events;
    }
    found = 0;
    for (size_t i = 0; i < count; i++) {
        found += wait[i].revents != 0;
        if (wait[i].fd >= 0) {
            epoll_ctl(epoll_fd, EPOLL_CTL_DEL, wait[i].fd, NULL);
        }
    }
    return found;
}

int rsbx_io_wait(struct pollfd *wait, size_t count, const struct timespec *left)
{
    int found = ppoll(wait, count, left, NULL);

    /* poll takes no more entries than the limit of descriptors, and a command, which has our user,
     * may lower that limit of ours: we would neither hear the controller nor see the command's end. */
    return found < 0 && errno == EINVAL && epoll_fd >= 0 ? wait_by_epoll(wait, count, left) : found;
}

/* Moves what is unread to the front, so that the rest of the space is in one piece. */
static void compact(struct queue *queue)
{
    if (queue->start > 0) {
        memmove(queue->bytes, queue->bytes + queue->start, queue->end - queue->start);
        queue->end -= queue->start;
        queue->start = 0;
    }
}

bool rsbx_io_take(struct rsbx_message *message)
{
    struct rsbx_wire_header header;
    size_t there = in.end - in.start;

    if (there < RSBX_WIRE_HEADER_BYTES) {
        return false;
    }
    if (!rsbx_wire_get_header(&header, in.bytes + in.start) || header.sequence != in.sequence) {
        rsbx_guest_malformed();
    }
    if (there - RSBX_WIRE_HEADER_BYTES < header.length) {
        return false;
    }
    message->type = header.type;
    message->length = header.length;
    message->payload = in.bytes + in.start + RSBX_WIRE_HEADER_BYTES;
    in.start += RSBX_WIRE_HEADER_BYTES + header.length;
    in.sequence++;
    return true;
}

void rsbx_io_read(void)
{
    ssize_t got;

    /* A message of the longest kind always fits behind the start of an incomplete one. */
    if (in.start == in.end) {
        in.start = 0;
        in.end = 0;
    } else if (sizeof(in.bytes) - in.start < RSBX_WIRE_HEADER_BYTES + RSBX_WIRE_MAX_PAYLOAD) {
        compact(&in);
    }
    if (in.end == sizeof(in.bytes)) {
        return;
    }
    got = read(STDIN_FILENO, in.bytes + in.end, sizeof(in.bytes) - in.end);
    if (got > 0) {
        in.end += (size_t)got;
    } else if (got == 0 || (errno != EINTR && errno != EAGAIN)) {
        rsbx_io_abandon(RSBX_GUEST_EXIT_DONE);
    }
}

void rsbx_io_receive(struct rsbx_message *message)
{
    rsbx_io_drain();
    while (!rsbx_io_take(message)) {
        struct pollfd wait = {.fd = STDIN_FILENO, .events = POLLIN};

        if (rsbx_io_wait(&wait, 1, NULL) > 0) {
            rsbx_io_read();
        }
    }
}

bool rsbx_io_pending(void)
{
    return out.end > out.start;
}

void rsbx_io_flush(void)
{
    while (rsbx_io_pending()) {
        ssize_t put = write(STDOUT_FILENO, out.bytes + out.start, out.end - out.start);

        if (put > 0) {
            out.start += (size_t)put;
        } else if (put < 0 && errno == EAGAIN) {
            return;
        } else if (put == 0 || errno != EINTR) {
            rsbx_io_abandon(RSBX_GUEST_EXIT_DONE);
        }
    }
    out.start = 0;
    out.end = 0;
}

/* Whether poll says of stdin that its other end is closed. */
static bool gone(short revents)
{
    return (revents & (POLLHUP | POLLERR | POLLNVAL | POLLRDHUP)) != 0;
}

static void flush_or_wait(void)
{
    struct pollfd wait[2] = {{.fd = STDIN_FILENO, .events = POLLRDHUP},
                             {.fd = STDOUT_FILENO, .events = POLLOUT}};

    rsbx_io_flush();
    if (!rsbx_io_pending()) {
        return;
    }
    if (rsbx_io_wait(wait, 2, NULL) > 0 && gone(wait[0].revents)) {
        rsbx_io_abandon(RSBX_GUEST_EXIT_DONE);
    }
}

void rsbx_io_drain(void)
{
    while (rsbx_io_pending()) {
        flush_or_wait();
    }
}

bool rsbx_io_has_room(void)
{
    return sizeof(out.bytes) - (out.end - out.start) >=
           RSBX_WIRE_HEADER_BYTES + RSBX_WIRE_PIECE_BYTES;
}

void rsbx_io_send(uint16_t type, const void *first, size_t first_length, const void *second,
                  size_t second_length)
{
    size_t need = RSBX_WIRE_HEADER_BYTES + first_length + second_length;
    struct rsbx_wire_header header = {.type = type, .sequence = out.sequence,
                                      .length = (uint32_t)(first_length + second_length)};

    while (sizeof(out.bytes) - (out.end - out.start) < need) {
        flush_or_wait();
    }
    if (sizeof(out.bytes) - out.end < need) {
        compact(&out);
    }
    rsbx_wire_put_header(out.bytes + out.end, &header);
    out.end += RSBX_WIRE_HEADER_BYTES;
    if (first_length > 0) {
        memcpy(out.bytes + out.end, first, first_length);
        out.end += first_length;
    }
    if (second_length > 0) {
        memcpy(out.bytes + out.end, second, second_length);
        out.end += second_length;
    }
    out.sequence++;
}

void rsbx_io_check(void)
{
    struct pollfd wait = {.fd = STDIN_FILENO, .events = POLLRDHUP};
    struct timespec none = {0};

    if (rsbx_io_wait(&wait, 1, &none) > 0 && gone(wait.revents)) {
        rsbx_io_abandon(RSBX_GUEST_EXIT_DONE);
    }
}
