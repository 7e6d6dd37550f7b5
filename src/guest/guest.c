/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/guest.h"

#include <errno.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "guest/io.h"
#include "guest/observe.h"
#include "guest/process.h"

/*
 * Theory of operation
 *
 * The guest is PID 1 of one container and serves one request. It is the only program there that
 * the controller trusts, and it shares the container with a command that nobody trusts.
 *
 *     wait for GREETING ──► HELLO ──► REQUEST, TEXT…, GO ──► operation ──► TRAILER ──► exit 0
 *              │               │               │                 │
 *              └───────────────┴── EOF on stdin at any moment ───┴──► kill all, exit 0
 *                                  anything malformed ──────────────► kill all, exit 70
 *
 * Invariants
 *
 *  1. PID 1 only. Everything is killed with kill(-1), so anywhere else the guest refuses to run.
 *  2. Nothing is written before a well-formed GREETING has come, and nothing after the TRAILER.
 *  3. No signal handler exists: the kernel drops every signal that has none when it comes from
 *     inside the namespace, so the command cannot stop, end or confuse PID 1. SIGCHLD is blocked
 *     and read as a descriptor; a forged one only causes a look at the children.
 *  4. The guest is not dumpable: the command, of the same user, can neither trace nor read it.
 *  5. The command gets pipes and /dev/null alone. The guest's own 0, 1 and 2 and everything else
 *     that is open are closed in the child before execve, so frames cannot be forged.
 *  6. No process outlives the trailer. It is sent after waitpid said ECHILD, and then only the
 *     guest is left in the namespace.
 *  7. Neither a slow controller nor a command that does not read can stop the clock: while a
 *     command runs, every descriptor is waited for together with the deadline.
 *  8. Memory is bounded: one message in, a queue of fixed size out, the texts of the request, and
 *     the names of the folders on one path while a tree is walked.
 *  9. Paths are bytes. Every open is beneath one of two roots and follows no symlink; what was
 *     opened is examined through its descriptor before it is read.
 * 10. A failure ends the request, never with a part of the answer passed off as the whole: FAIL
 *     takes the place of the END that is missing.
 */

uint64_t rsbx_guest_now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000U + (uint64_t)now.tv_nsec;
}

_Noreturn void rsbx_guest_malformed(void)
{
    rsbx_io_abandon(RSBX_GUEST_EXIT_MALFORMED);
}

/* Nothing is left running when this is called: see invariant 6. */
static _Noreturn void finish(struct rsbx_guest *guest)
{
    uint8_t bytes[RSBX_TRAILER_BYTES];
    struct rsbx_trailer *trailer = &guest->trailer;

    trailer->op = guest->request.head.op;
    trailer->peak_memory_bytes = rsbx_observe_peak_memory();
    if (trailer->duration_ns == 0) {
        trailer->duration_ns = rsbx_guest_now_ns() - guest->start_ns;
    }
    rsbx_wire_put_trailer(bytes, trailer);
    rsbx_io_send(RSBX_WIRE_TRAILER, bytes, sizeof(bytes), NULL, 0);
    rsbx_io_drain();
    _exit(RSBX_GUEST_EXIT_DONE);
}

_Noreturn void rsbx_guest_fail(struct rsbx_guest *guest, int error, const char *what,
                               const char *path, size_t path_length)
{
    uint8_t payload[8192];
    size_t length = 4, part = strlen(what);

    if (part > 256U) {
        part = 256U;
    }
    rsbx_wire_put_u32(payload, (uint32_t)(error == 0 ? EIO : error));
    memcpy(payload + length, what, part);
    length += part;
    if (path != NULL) {
        payload[length++] = ':';
        payload[length++] = ' ';
        part = path_length < sizeof(payload) - length ? path_length : sizeof(payload) - length;
        memcpy(payload + length, path, part);
        length += part;
    }
    rsbx_io_send(RSBX_WIRE_FAIL, payload, length, NULL, 0);
    guest->trailer.flags |= RSBX_TRAILER_FAILED;
    finish(guest);
}

void rsbx_guest_count_entry(struct rsbx_guest *guest)
{
    if (guest->trailer.entries >= guest->request.head.max_entries) {
        rsbx_guest_fail(guest, EOVERFLOW, "too many entries", NULL, 0);
    }
    guest->trailer.entries++;
}

static void greet(void)
{
    uint8_t bytes[RSBX_HELLO_BYTES];
    struct rsbx_message message;
    struct rsbx_hello hello;

    rsbx_io_receive(&message);
    if (message.type != RSBX_WIRE_GREETING || message.length != RSBX_NONCE_BYTES) {
        rsbx_guest_malformed();
    }
    memset(&hello, 0, sizeof(hello));
    memcpy(hello.nonce, message.payload, RSBX_NONCE_BYTES);
    rsbx_observe_hello(&hello);
    rsbx_wire_put_hello(bytes, &hello);
    rsbx_io_send(RSBX_WIRE_HELLO, bytes, sizeof(bytes), NULL, 0);
    rsbx_io_drain();
}

static void serve(struct rsbx_guest *guest)
{
    switch (guest->request.head.op) {
    case RSBX_OP_EXEC:
        rsbx_guest_exec(guest);
        break;
    case RSBX_OP_FILL:
        rsbx_guest_fill(guest);
        break;
    case RSBX_OP_SEAL:
        rsbx_guest_seal(guest);
        break;
    case RSBX_OP_LIST:
        rsbx_guest_list(guest);
        break;
    case RSBX_OP_READ:
        rsbx_guest_read(guest);
        break;
    case RSBX_OP_WRITE:
        rsbx_guest_write(guest);
        break;
    case RSBX_OP_SCAN:
        rsbx_guest_scan(guest);
        break;
    case RSBX_OP_COLLECT:
        rsbx_guest_collect(guest);
        break;
    case RSBX_OP_PACK:
        rsbx_guest_pack(guest);
        break;
    case RSBX_OP_UNPACK:
        rsbx_guest_unpack(guest);
        break;
    default:
        rsbx_guest_malformed();
    }
}

int main(void)
{
    static struct rsbx_guest guest;

    if (getpid() != 1) {
        return RSBX_GUEST_EXIT_NOT_INIT;
    }
    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    umask(0);
    rsbx_process_start();
    rsbx_io_start();
    greet();
    rsbx_request_receive(&guest.request);
    guest.start_ns = rsbx_guest_now_ns();
    guest.oom_kills_before = rsbx_observe_oom_kills();
    (void)rsbx_observe_peak_memory(); /* opens what is read at the end, when nothing may be opened */
    serve(&guest);
    finish(&guest);
}
