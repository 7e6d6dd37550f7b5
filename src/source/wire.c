/* SPDX-License-Identifier: Apache-2.0 */
#include "source/internal.h"

#include <stdlib.h>
#include <string.h>

#include "base/fd.h"

#include "base/banned.h"

/*
 * The pipe from the child to the parent. Numbers are big-endian. One message after the other, each
 * with a fixed head that begins with its kind:
 *
 *   X  code (4, two's complement), message length (2), hint length (2); message, hint. The last.
 *   F  files (8), bytes (8), commit length (4); the commit object (nothing for a plain folder).
 *      The first one, when there is no error.
 *   E  mode as found (4), blob id (20), size (8), link state (1), linked size (8), path length (2);
 *      path, linked bytes, content.
 *   O  the same head, sizes 0, then the path: a gitlink or empty folder that is left out.
 *   Z  nothing. The last one.
 */
int rsbx_wire_init(struct rsbx_wire *wire, int fd, reposbx_error *err)
{
    wire->fd = fd;
    wire->used = 0;
    wire->buffer = malloc(RSBX_WIRE_BUFFER_BYTES);
    return wire->buffer != NULL ? REPOSBX_OK : rsbx_fail_memory(err);
}

static int flush(struct rsbx_wire *wire)
{
    int rc = rsbx_write_all(wire->fd, wire->buffer, wire->used);

    wire->used = 0;
    return rc;
}

/* Small pieces are gathered; large ones go straight through. */
static int put(struct rsbx_wire *wire, const void *bytes, size_t length)
{
    if (length == 0)
        return 0;
    if (length > RSBX_WIRE_BUFFER_BYTES - wire->used && flush(wire) != 0)
        return -1;
    if (length > RSBX_WIRE_BUFFER_BYTES / 2)
        return flush(wire) != 0 ? -1 : rsbx_write_all(wire->fd, bytes, length);
    memcpy(wire->buffer + wire->used, bytes, length);
    wire->used += length;
    return 0;
}

static int sent(int rc, reposbx_error *err)
{
    return rc == 0 ? REPOSBX_OK : rsbx_fail_errno(err, REPOSBX_EIO, "cannot write to the pipe");
}

int rsbx_wire_error(struct rsbx_wire *wire, const reposbx_error *fault)
{
    uint8_t head[RSBX_WIRE_ERROR_BYTES] = { RSBX_WIRE_ERROR };
    size_t message = strlen(fault->message);
    size_t hint = strlen(fault->hint);

    rsbx_put32(head + 1, (uint32_t)fault->code);
    head[5] = (uint8_t)(message >> 8);
    head[6] = (uint8_t)message;
    head[7] = (uint8_t)(hint >> 8);
    head[8] = (uint8_t)hint;
    if (put(wire, head, sizeof head) != 0 || put(wire, fault->message, message) != 0 ||
        put(wire, fault->hint, hint) != 0)
        return -1;
    return flush(wire);
}

int rsbx_wire_facts(struct rsbx_wire *wire, uint64_t files, uint64_t bytes, const void *commit,
                    size_t length, reposbx_error *err)
{
    uint8_t head[RSBX_WIRE_FACTS_BYTES] = { RSBX_WIRE_FACTS };

    rsbx_put64(head + 1, files);
    rsbx_put64(head + 9, bytes);
    rsbx_put32(head + 17, (uint32_t)length);
    if (put(wire, head, sizeof head) != 0 || put(wire, commit, length) != 0)
        return sent(-1, err);
    /* open() of the parent waits for this one. */
    return sent(flush(wire), err);
}

int rsbx_wire_entry(struct rsbx_wire *wire, enum rsbx_wire_kind kind,
                    const struct rsbx_wire_entry *entry, reposbx_error *err)
{
    uint8_t head[RSBX_WIRE_ENTRY_BYTES] = { (uint8_t)kind };
    uint64_t size = kind == RSBX_WIRE_ENTRY ? entry->leaf->size : 0;

    rsbx_put32(head + 1, entry->leaf->mode);
    memcpy(head + 5, entry->leaf->oid, RSBX_OID_BYTES);
    rsbx_put64(head + 25, size);
    head[33] = (uint8_t)entry->link_state;
    rsbx_put64(head + 34, entry->linked_length);
    head[42] = (uint8_t)(entry->path_length >> 8);
    head[43] = (uint8_t)entry->path_length;
    if (put(wire, head, sizeof head) != 0 || put(wire, entry->path, entry->path_length) != 0 ||
        put(wire, entry->linked, entry->linked_length) != 0 ||
        put(wire, entry->bytes, (size_t)size) != 0)
        return sent(-1, err);
    return REPOSBX_OK;
}

int rsbx_wire_done(struct rsbx_wire *wire, reposbx_error *err)
{
    uint8_t head = RSBX_WIRE_DONE;

    return sent(put(wire, &head, 1) != 0 ? -1 : flush(wire), err);
}
