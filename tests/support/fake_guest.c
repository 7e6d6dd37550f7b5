/* SPDX-License-Identifier: Apache-2.0 */
#include "support/fake_guest.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "codec/sha256.h"
#include "guest/fingerprint.h"

#include "base/banned.h"

/* The selection of a fingerprint without exclusions. */
#define SELECTION                                                                                  \
    "{\"exclude_subtrees\":[],\"repository_filter_policy\":4,\"schema\":"                          \
    "\"codenib.repository-source-selection.v1\"}"
#define OUTPUT "hello\n"

struct wire {
    int fd;
    struct fake_guest *guest;
    uint32_t next_out;
    struct rsbx_wire_header header; /* of the last message received */
    uint8_t *payload;               /* RSBX_WIRE_MAX_PAYLOAD bytes */
};

static bool send_all(int fd, const void *bytes, size_t length)
{
    const char *p = bytes;

    while (length > 0) {
        ssize_t count = send(fd, p, length, MSG_NOSIGNAL);

        if (count < 0 && errno == EINTR)
            continue;
        if (count <= 0)
            return false;
        p += count;
        length -= (size_t)count;
    }
    return true;
}

static bool receive_all(int fd, void *bytes, size_t length)
{
    return length == 0 || recv(fd, bytes, length, MSG_WAITALL) == (ssize_t)length;
}

/* One frame of the engine's multiplexed stream: channel 1 and the length. */
static bool send_frame(int fd, const void *bytes, size_t length)
{
    uint8_t head[8] = { 1, 0, 0, 0 };

    rsbx_wire_put_u32(head + 4, (uint32_t)length);
    return send_all(fd, head, sizeof head) && send_all(fd, bytes, length);
}

static bool put(struct wire *wire, uint16_t type, const void *bytes, size_t length)
{
    uint8_t head[RSBX_WIRE_HEADER_BYTES];
    const struct rsbx_wire_header header = { .type = type,
                                             .sequence = wire->next_out++,
                                             .length = (uint32_t)length };

    rsbx_wire_put_header(head, &header);
    return send_frame(wire->fd, head, sizeof head) &&
           (length == 0 || send_frame(wire->fd, bytes, length));
}

static bool get(struct wire *wire)
{
    uint8_t head[RSBX_WIRE_HEADER_BYTES];
    struct rsbx_request request = { .op = 0 };

    if (!receive_all(wire->fd, head, sizeof head) || !rsbx_wire_get_header(&wire->header, head) ||
        wire->header.length > RSBX_WIRE_MAX_PAYLOAD ||
        !receive_all(wire->fd, wire->payload, wire->header.length))
        return false;
    if (wire->header.type == RSBX_WIRE_REQUEST)
        (void)rsbx_wire_get_request(&request, wire->payload, wire->header.length);
    if (wire->guest->heard != NULL)
        wire->guest->heard(wire->guest->payload, wire->header.type, request.op);
    return true;
}

static void wait_for_end(int fd)
{
    char byte;

    while (recv(fd, &byte, 1, 0) > 0)
        continue;
}

/* Whether the conversation goes on after the hello. */
static bool say_hello(struct wire *wire)
{
    static const char text[] = "Error: this is what a broken engine or a broken guest may say\n";
    uint8_t raw[RSBX_HELLO_BYTES];
    struct rsbx_hello hello = wire->guest->hello;
    size_t length = sizeof raw;

    memcpy(hello.nonce, wire->payload, sizeof hello.nonce);
    switch (wire->guest->habit) {
    case FAKE_GUEST_SILENT:
        wait_for_end(wire->fd);
        return false;
    case FAKE_GUEST_GONE:
        return false;
    case FAKE_GUEST_GARBAGE:
        (void)send_frame(wire->fd, text, sizeof text - 1);
        wait_for_end(wire->fd);
        return false;
    case FAKE_GUEST_NO_FRAMES:
        (void)send_all(wire->fd, text, sizeof text - 1);
        wait_for_end(wire->fd);
        return false;
    case FAKE_GUEST_OTHER_NONCE:
        hello.nonce[0] ^= 1U;
        break;
    case FAKE_GUEST_CUT_HELLO:
        length--;
        break;
    case FAKE_GUEST_HONEST:
    case FAKE_GUEST_NO_TRAILER:
        break;
    }
    rsbx_wire_put_hello(raw, &hello);
    return put(wire, RSBX_WIRE_HELLO, raw, length);
}

/* ---- operations ---- */

static bool trail(struct wire *wire, const struct rsbx_trailer *trailer)
{
    uint8_t raw[RSBX_TRAILER_BYTES];

    rsbx_wire_put_trailer(raw, trailer);
    return put(wire, RSBX_WIRE_TRAILER, raw, sizeof raw);
}

static void hash(uint8_t out[32], const void *bytes, size_t length)
{
    struct rsbx_sha256 *sha256 = NULL;

    if (rsbx_sha256_new(&sha256, NULL) != 0)
        abort();
    rsbx_sha256_update(sha256, bytes, length);
    rsbx_sha256_finish(sha256, out);
    rsbx_sha256_free(sha256);
}

static bool run(struct wire *wire)
{
    struct rsbx_trailer trailer = { .op = RSBX_OP_EXEC,
                                    .end = RSBX_END_EXITED,
                                    .duration_ns = 1000000,
                                    .stdout_bytes = sizeof OUTPUT - 1 };

    hash(trailer.stdout_sha256, OUTPUT, sizeof OUTPUT - 1);
    hash(trailer.stderr_sha256, "", 0);
    if (!put(wire, RSBX_WIRE_STDOUT, OUTPUT, sizeof OUTPUT - 1))
        return false;
    return wire->guest->habit == FAKE_GUEST_NO_TRAILER || trail(wire, &trailer);
}

static bool fill(struct wire *wire)
{
    struct fake_baseline made = { .filled = true };
    struct rsbx_sha256 *states[2] = { NULL, NULL };
    struct rsbx_fp_hash main_hash, rest_hash;
    const struct rsbx_fp_hash *content = &rest_hash;
    struct rsbx_trailer trailer = { .op = RSBX_OP_FILL };
    char digest[RSBX_SHA256_HEX_BYTES];
    bool good = wire->guest->baseline != NULL;

    if (rsbx_sha256_new(&states[0], NULL) != 0 || rsbx_sha256_new(&states[1], NULL) != 0)
        abort();
    main_hash = (struct rsbx_fp_hash){ rsbx_sha256_update, states[0] };
    rest_hash = (struct rsbx_fp_hash){ rsbx_sha256_update, states[1] };
    rsbx_sha256_hex(digest, SELECTION, sizeof SELECTION - 1);
    rsbx_fp_begin(&main_hash, digest);
    while (good && (good = get(wire)) && wire->header.type != RSBX_WIRE_END) {
        struct rsbx_entry entry;

        if (wire->header.type == RSBX_WIRE_DATA) {
            content->update(content->state, wire->payload, wire->header.length);
            made.bytes += wire->header.length;
            continue;
        }
        good = wire->header.type == RSBX_WIRE_ENTRY &&
               rsbx_wire_get_entry(&entry, wire->payload, wire->header.length);
        if (!good)
            break;
        made.entries++;
        rsbx_fp_rest(&rest_hash, entry.new_mode, entry.path, entry.path_length, entry.new_size);
        content = &rest_hash;
        if (rsbx_fp_skipped(entry.path, entry.path_length, NULL, 0))
            continue;
        content = &main_hash;
        made.fingerprint_entries++;
        rsbx_fp_file(&main_hash, entry.path, entry.path_length, entry.new_size);
    }
    rsbx_fp_end(&main_hash, made.fingerprint_entries);
    rsbx_sha256_finish(states[0], made.fingerprint);
    rsbx_sha256_finish(states[1], made.rest);
    rsbx_sha256_free(states[0]);
    rsbx_sha256_free(states[1]);
    if (!good)
        return false;
    *wire->guest->baseline = made;
    trailer.entries = made.entries;
    trailer.bytes = made.bytes;
    return trail(wire, &trailer);
}

static bool seal(struct wire *wire)
{
    const struct fake_baseline *baseline = wire->guest->baseline;
    struct rsbx_trailer trailer = { .op = RSBX_OP_SEAL };

    if (baseline == NULL || !baseline->filled)
        return false;
    trailer.entries = baseline->entries;
    trailer.bytes = baseline->bytes;
    trailer.fingerprint_entries = baseline->fingerprint_entries;
    memcpy(trailer.stdout_sha256, baseline->fingerprint, 32);
    memcpy(trailer.stderr_sha256, baseline->rest, 32);
    return trail(wire, &trailer);
}

static bool refuse(struct wire *wire, uint32_t op)
{
    static const char text[] = "....not in this fake";
    uint8_t raw[sizeof text - 1];
    const struct rsbx_trailer trailer = { .op = op, .flags = RSBX_TRAILER_FAILED };

    memcpy(raw, text, sizeof raw);
    rsbx_wire_put_u32(raw, ENOSYS);
    return put(wire, RSBX_WIRE_FAIL, raw, sizeof raw) && trail(wire, &trailer);
}

static bool serve_request(struct wire *wire)
{
    struct rsbx_request request;

    if (!get(wire) || wire->header.type != RSBX_WIRE_REQUEST ||
        !rsbx_wire_get_request(&request, wire->payload, wire->header.length))
        return false;
    do {
        if (!get(wire))
            return false;
    } while (wire->header.type == RSBX_WIRE_TEXT);
    if (wire->header.type != RSBX_WIRE_GO)
        return false;
    switch (request.op) {
    case RSBX_OP_EXEC:
        return run(wire);
    case RSBX_OP_FILL:
        return fill(wire);
    case RSBX_OP_SEAL:
        return seal(wire);
    default:
        return refuse(wire, request.op);
    }
}

void fake_guest_serve(int fd, struct fake_guest *guest)
{
    struct wire wire = { .fd = fd, .guest = guest, .payload = malloc(RSBX_WIRE_MAX_PAYLOAD) };

    if (wire.payload == NULL)
        abort();
    if (get(&wire) && wire.header.type == RSBX_WIRE_GREETING &&
        wire.header.length == RSBX_NONCE_BYTES && say_hello(&wire))
        (void)serve_request(&wire);
    free(wire.payload);
}
