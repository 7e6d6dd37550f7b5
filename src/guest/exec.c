/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "guest/fence.h"
#include "guest/guest.h"
#include "guest/io.h"
#include "guest/observe.h"
#include "guest/process.h"
#include "guest/sha256.h"
#include "guest/spawn.h"

/* One of the command's two streams. */
struct stream {
    int fd; /* -1 at its end */
    uint16_t type;
    uint64_t bytes;
    struct rsbx_guest_sha256 hash;
};

struct exec {
    struct rsbx_guest *guest;
    struct rsbx_spawned spawned;
    struct rsbx_children children;
    struct stream out, err;
    int signal_fd;
    uint64_t deadline_ns;     /* 0: none */
    uint64_t left_bytes;      /* of the cap on both streams together */
    bool limited, timed_out;
    bool input_ended;         /* END has come, or no input was announced */
    const uint8_t *input;     /* a DATA message that the command has not taken yet */
    size_t input_left;
};

/* Reads a stream once. At the cap one byte more is read, not sent: proof that there was more. */
static bool read_stream(struct exec *exec, struct stream *stream)
{
    static uint8_t piece[RSBX_WIRE_PIECE_BYTES];
    size_t want = sizeof(piece);
    ssize_t got;

    if (exec->left_bytes < want) {
        want = exec->left_bytes == 0 ? 1 : (size_t)exec->left_bytes;
    }
    got = read(stream->fd, piece, want);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
        return errno == EINTR;
    }
    if (got <= 0) {
        close(stream->fd);
        stream->fd = -1;
        return false;
    }
    if (exec->left_bytes == 0) {
        exec->limited = true;
        return false;
    }
    exec->left_bytes -= (uint64_t)got;
    stream->bytes += (uint64_t)got;
    rsbx_guest_sha256_update(&stream->hash, piece, (size_t)got);
    rsbx_io_send(stream->type, piece, (size_t)got, NULL, 0);
    return true;
}

static void close_input(struct exec *exec)
{
    if (exec->spawned.stdin_fd >= 0) {
        close(exec->spawned.stdin_fd);
        exec->spawned.stdin_fd = -1;
    }
}

/* Gives the command what has come for it; a command that has closed its stdin gets nothing more. */
static void feed(struct exec *exec)
{
    while (exec->input_left > 0 && exec->spawned.stdin_fd >= 0) {
        ssize_t put = write(exec->spawned.stdin_fd, exec->input, exec->input_left);

        if (put > 0) {
            exec->input += put;
            exec->input_left -= (size_t)put;
        } else if (put < 0 && errno == EAGAIN) {
            return;
        } else if (put == 0 || errno != EINTR) {
            close_input(exec);
        }
    }
    exec->input_left = 0;
    if (exec->input_ended) {
        close_input(exec);
    }
}

static void take_messages(struct exec *exec)
{
    struct rsbx_message message;

    while (exec->input_left == 0 && rsbx_io_take(&message)) {
        if (exec->input_ended) {
            rsbx_guest_malformed();
        }
        if (message.type == RSBX_WIRE_DATA && message.length <= RSBX_WIRE_PIECE_BYTES) {
            exec->input = message.payload;
            exec->input_left = message.length;
        } else if (message.type == RSBX_WIRE_END && message.length == 0) {
            exec->input_ended = true;
        } else {
            rsbx_guest_malformed();
        }
        feed(exec);
    }
}

enum { POLL_CONTROLLER, POLL_OUTPUT, POLL_STDIN, POLL_STDOUT, POLL_STDERR, POLL_CHILD, POLL_COUNT };

static void prepare(const struct exec *exec, struct pollfd wait[POLL_COUNT])
{
    bool room = rsbx_io_has_room();

    memset(wait, 0, sizeof(wait[0]) * POLL_COUNT);
    wait[POLL_CONTROLLER].fd = STDIN_FILENO;
    wait[POLL_CONTROLLER].events = exec->input_left == 0 ? POLLIN | POLLRDHUP : POLLRDHUP;
    wait[POLL_OUTPUT].fd = STDOUT_FILENO;
    wait[POLL_OUTPUT].events = rsbx_io_pending() ? POLLOUT : 0;
    wait[POLL_STDIN].fd = exec->input_left > 0 ? exec->spawned.stdin_fd : -1;
    wait[POLL_STDIN].events = POLLOUT;
    /* While the controller is slow the command's pipes are not looked at, and the command waits. */
    wait[POLL_STDOUT].fd = room ? exec->out.fd : -1;
    wait[POLL_STDOUT].events = POLLIN;
    wait[POLL_STDERR].fd = room ? exec->err.fd : -1;
    wait[POLL_STDERR].events = POLLIN;
    wait[POLL_CHILD].fd = exec->signal_fd;
    wait[POLL_CHILD].events = POLLIN;
}

/* Waits for anything to happen, at most until the deadline. */
static int wait_for(const struct exec *exec, struct pollfd wait[POLL_COUNT])
{
    struct timespec left = {0};
    uint64_t now;

    if (exec->children.more) {
        return rsbx_io_wait(wait, POLL_COUNT, &left);
    }
    if (exec->deadline_ns == 0) {
        return rsbx_io_wait(wait, POLL_COUNT, NULL);
    }
    now = rsbx_guest_now_ns();
    now = now < exec->deadline_ns ? exec->deadline_ns - now : 0;
    left.tv_sec = (time_t)(now / 1000000000U);
    left.tv_nsec = (long)(now % 1000000000U);
    return rsbx_io_wait(wait, POLL_COUNT, &left);
}

static void serve_controller(struct exec *exec, short revents)
{
    if ((revents & POLLIN) != 0 && exec->input_left == 0) {
        rsbx_io_read();
        take_messages(exec);
    } else if ((revents & (POLLHUP | POLLERR | POLLNVAL | POLLRDHUP)) != 0) {
        rsbx_io_abandon(RSBX_GUEST_EXIT_DONE);
    }
}

/* One round; false when the command is over for one of the four reasons. */
static bool step(struct exec *exec)
{
    struct pollfd wait[POLL_COUNT];
    struct signalfd_siginfo signals[8];

    prepare(exec, wait);
    if (wait_for(exec, wait) > 0 || exec->children.more) {
        bool told = wait[POLL_CHILD].revents != 0 &&
                    read(exec->signal_fd, signals, sizeof(signals)) >= 0;

        if (told || exec->children.more) {
            rsbx_process_reap(&exec->children);
        }
        if (wait[POLL_OUTPUT].revents != 0) {
            if ((wait[POLL_OUTPUT].revents & (POLLERR | POLLNVAL)) != 0) {
                rsbx_io_abandon(RSBX_GUEST_EXIT_DONE);
            }
            rsbx_io_flush();
        }
        if (wait[POLL_STDIN].revents != 0) {
            feed(exec);
            take_messages(exec);
        }
        serve_controller(exec, wait[POLL_CONTROLLER].revents);
        if (exec->children.main_ended) {
            return false;
        }
        if (wait[POLL_STDOUT].revents != 0) {
            read_stream(exec, &exec->out);
        }
        if (wait[POLL_STDERR].revents != 0 && !exec->limited && rsbx_io_has_room()) {
            read_stream(exec, &exec->err);
        }
        rsbx_io_flush();
    }
    if (exec->limited) {
        return false;
    }
    if (exec->deadline_ns != 0 && rsbx_guest_now_ns() >= exec->deadline_ns) {
        rsbx_process_reap(&exec->children);
        exec->timed_out = !exec->children.main_ended;
        return false;
    }
    return true;
}

/* What the dead have left in a pipe. */
static void drain_stream(struct exec *exec, struct stream *stream)
{
    while (stream->fd >= 0 && !exec->limited && read_stream(exec, stream)) {
        continue;
    }
}

static uint64_t microseconds(struct timeval time)
{
    return (uint64_t)time.tv_sec * 1000000U + (uint64_t)time.tv_usec;
}

static void report_end(struct exec *exec)
{
    struct rsbx_trailer *trailer = &exec->guest->trailer;
    int status = exec->children.main_status;
    int error = rsbx_spawn_error(&exec->spawned);

    if (error != 0) {
        trailer->end = RSBX_END_NOT_STARTED;
        trailer->exec_errno = (uint32_t)error;
    } else if (WIFEXITED(status)) {
        trailer->end = RSBX_END_EXITED;
        trailer->exit_code = (uint32_t)WEXITSTATUS(status);
    } else {
        trailer->end = RSBX_END_SIGNALED;
        trailer->signal = (uint32_t)WTERMSIG(status);
    }
    /* Between the last look and the kill the command may have ended by itself. */
    if (exec->timed_out && !(trailer->end == RSBX_END_SIGNALED && trailer->signal == SIGKILL)) {
        exec->timed_out = false;
    }
    if (exec->timed_out) {
        trailer->flags |= RSBX_TRAILER_TIMED_OUT;
    }
}

static void report(struct exec *exec)
{
    struct rsbx_trailer *trailer = &exec->guest->trailer;
    uint64_t kills = rsbx_observe_oom_kills();
    uint64_t before = exec->guest->oom_kills_before;
    struct rusage usage;

    if (kills != RSBX_UNKNOWN && before != RSBX_UNKNOWN && kills > before) {
        trailer->oom_kills = kills - before;
    }
    report_end(exec);
    if (exec->limited) {
        trailer->flags |= RSBX_TRAILER_OUTPUT_LIMITED;
    }
    if (getrusage(RUSAGE_CHILDREN, &usage) == 0) {
        trailer->user_us = microseconds(usage.ru_utime);
        trailer->system_us = microseconds(usage.ru_stime);
    }
    trailer->main_oom_killed = trailer->end == RSBX_END_SIGNALED && trailer->signal == SIGKILL &&
                               trailer->oom_kills > 0 && !exec->timed_out && !exec->limited;
    trailer->survivors = exec->children.killed;
    trailer->stdout_bytes = exec->out.bytes;
    trailer->stderr_bytes = exec->err.bytes;
    trailer->bytes = exec->out.bytes + exec->err.bytes;
    rsbx_guest_sha256_final(&exec->out.hash, trailer->stdout_sha256);
    rsbx_guest_sha256_final(&exec->err.hash, trailer->stderr_sha256);
}

void rsbx_guest_exec(struct rsbx_guest *guest)
{
    static struct exec exec;
    const struct rsbx_request *request = &guest->request.head;
    int error = rsbx_fence();
    sigset_t child;

    if (error != 0) {
        rsbx_guest_fail(guest, error, "cannot keep the command from this process", NULL, 0);
    }
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    exec.guest = guest;
    exec.signal_fd = signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
    if (exec.signal_fd < 0) {
        rsbx_guest_fail(guest, errno, "cannot watch for the end of the command", NULL, 0);
    }
    rsbx_spawn(guest, &exec.spawned);
    exec.children.main = exec.spawned.pid;
    exec.out.fd = exec.spawned.stdout_fd;
    exec.out.type = RSBX_WIRE_STDOUT;
    exec.err.fd = exec.spawned.stderr_fd;
    exec.err.type = RSBX_WIRE_STDERR;
    rsbx_guest_sha256_init(&exec.out.hash);
    rsbx_guest_sha256_init(&exec.err.hash);
    exec.left_bytes = request->max_bytes;
    exec.input_ended = (request->flags & RSBX_REQUEST_STDIN) == 0;
    if (request->timeout_ms > 0 && request->timeout_ms < UINT64_MAX / 2000000U) {
        exec.deadline_ns = guest->start_ns + request->timeout_ms * 1000000U;
    }
    take_messages(&exec);
    while (step(&exec)) {
        continue;
    }
    rsbx_process_end_all(&exec.children);
    guest->trailer.duration_ns = rsbx_guest_now_ns() - guest->start_ns;
    if (!exec.limited) {
        drain_stream(&exec, &exec.out);
        drain_stream(&exec, &exec.err);
    }
    report(&exec);
}
