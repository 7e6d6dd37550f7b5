/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RSBX_TESTS_FAKE_GUEST_H
#define RSBX_TESTS_FAKE_GUEST_H

#include <stdbool.h>
#include <stdint.h>

#include "guest/protocol.h"

/*
 * The guest's side of the wire, for a fake engine: answers the greeting, fills and seals a baseline
 * that exists only as its two digests, and "runs" every command as one that writes "hello\n" and
 * exits with 0. One request a connection, like the real one.
 */

/* How the guest behaves. */
enum fake_guest_habit {
    FAKE_GUEST_HONEST = 0,
    FAKE_GUEST_SILENT,      /* reads the greeting and never answers */
    FAKE_GUEST_GONE,        /* ends the connection instead of a hello */
    FAKE_GUEST_GARBAGE,     /* sends text in well-formed frames that is no message */
    FAKE_GUEST_NO_FRAMES,   /* sends text where the engine's frames belong */
    FAKE_GUEST_OTHER_NONCE, /* a hello that was meant for another greeting */
    FAKE_GUEST_CUT_HELLO,   /* a hello that is one byte short */
    FAKE_GUEST_NO_TRAILER   /* honest, but leaves in the middle of a command */
};

/* What FILL left behind, as SEAL must find it. Regular files only. */
struct fake_baseline {
    bool filled;
    uint64_t entries, bytes, fingerprint_entries;
    uint8_t fingerprint[32], rest[32];
};

struct fake_guest {
    enum fake_guest_habit habit;
    struct rsbx_hello hello; /* the nonce is taken from the greeting */
    struct fake_baseline *baseline; /* filled by FILL, told by SEAL; NULL: not mounted */
    /* Every whole message that came, in order; `op` of REQUEST, else 0. NULL: none. */
    void (*heard)(void *payload, uint16_t type, uint32_t op);
    void *payload;
};

/* Serves one attached connection until either side ends it. */
void fake_guest_serve(int fd, struct fake_guest *guest);

#endif
