/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/protocol.h"

#include <string.h>

/*
 * Plain cursors over a buffer whose size the caller has checked: every struct of the wire has one
 * fixed size, so the length is compared once and the cursor cannot run out.
 */

/* The u64 fields of a hello that carry a value; the rest up to RSBX_HELLO_BYTES is reserved. */
#define HELLO_FIELDS 34U
#define HELLO_RESERVED ((RSBX_HELLO_BYTES - RSBX_NONCE_BYTES) / 8U - HELLO_FIELDS)

#define ALL_REQUEST_FLAGS                                                                          \
    (RSBX_REQUEST_COPY | RSBX_REQUEST_PARENTS | RSBX_REQUEST_EXECUTABLE | RSBX_REQUEST_STDIN |     \
     RSBX_REQUEST_BASELINE | RSBX_REQUEST_UPPER)
#define ALL_TRAILER_FLAGS                                                                          \
    (RSBX_TRAILER_TIMED_OUT | RSBX_TRAILER_OUTPUT_LIMITED | RSBX_TRAILER_FAILED)

static void put(uint8_t **cursor, uint64_t value, unsigned bytes)
{
    for (unsigned i = 0; i < bytes; i++) {
        (*cursor)[i] = (uint8_t)(value >> (8U * (bytes - 1U - i)));
    }
    *cursor += bytes;
}

static uint64_t get(const uint8_t **cursor, unsigned bytes)
{
    uint64_t value = 0;

    for (unsigned i = 0; i < bytes; i++) {
        value = (value << 8U) | (*cursor)[i];
    }
    *cursor += bytes;
    return value;
}

static uint32_t get32(const uint8_t **cursor)
{
    return (uint32_t)get(cursor, 4);
}

void rsbx_wire_put_u32(uint8_t out[4], uint32_t value)
{
    put(&out, value, 4);
}

uint32_t rsbx_wire_get_u32(const uint8_t in[4])
{
    return get32(&in);
}

static bool known_type(uint32_t type)
{
    return (type >= RSBX_WIRE_GREETING && type <= RSBX_WIRE_NODE) ||
           (type >= RSBX_WIRE_HELLO && type <= RSBX_WIRE_TRAILER);
}

void rsbx_wire_put_header(uint8_t out[RSBX_WIRE_HEADER_BYTES], const struct rsbx_wire_header *in)
{
    put(&out, RSBX_WIRE_MAGIC, 4);
    put(&out, RSBX_WIRE_VERSION, 2);
    put(&out, in->type, 2);
    put(&out, in->sequence, 4);
    put(&out, in->length, 4);
}

bool rsbx_wire_get_header(struct rsbx_wire_header *out, const uint8_t in[RSBX_WIRE_HEADER_BYTES])
{
    uint32_t magic = get32(&in);
    uint32_t version = (uint32_t)get(&in, 2);
    struct rsbx_wire_header header;

    header.type = (uint16_t)get(&in, 2);
    header.sequence = get32(&in);
    header.length = get32(&in);
    if (magic != RSBX_WIRE_MAGIC || version != RSBX_WIRE_VERSION || !known_type(header.type) ||
        header.length > RSBX_WIRE_MAX_PAYLOAD) {
        return false;
    }
    *out = header;
    return true;
}

/* The fields of a hello in the order of the wire, for both directions. */
static void hello_fields(uint64_t *fields[HELLO_FIELDS], struct rsbx_hello *hello)
{
    uint64_t *const order[HELLO_FIELDS] = {
        &hello->pid, &hello->uid, &hello->gid, &hello->group_count,
        &hello->cap_effective, &hello->cap_permitted, &hello->cap_bounding,
        &hello->cap_inheritable, &hello->cap_ambient,
        &hello->no_new_privs, &hello->seccomp_mode, &hello->cgroup_version,
        &hello->memory_bytes, &hello->memory_swap_bytes, &hello->pids,
        &hello->cpu_quota_us, &hello->cpu_period_us,
        &hello->nofile_soft, &hello->nofile_hard, &hello->core_soft, &hello->core_hard,
        &hello->root_read_only, &hello->tmp_bytes, &hello->run_bytes,
        &hello->tmp_flags, &hello->run_flags, &hello->interfaces,
        &hello->baseline, &hello->workspace, &hello->guest_read_only, &hello->dumpable,
        &hello->monotonic_ns, &hello->oom_kills, &hello->upper,
    };

    memcpy(fields, order, sizeof(order));
}

void rsbx_wire_put_hello(uint8_t out[RSBX_HELLO_BYTES], const struct rsbx_hello *in)
{
    struct rsbx_hello copy = *in;
    uint64_t *fields[HELLO_FIELDS];

    hello_fields(fields, &copy);
    memcpy(out, copy.nonce, RSBX_NONCE_BYTES);
    out += RSBX_NONCE_BYTES;
    for (unsigned i = 0; i < HELLO_FIELDS; i++) {
        put(&out, *fields[i], 8);
    }
    for (unsigned i = 0; i < HELLO_RESERVED; i++) {
        put(&out, 0, 8);
    }
}

bool rsbx_wire_get_hello(struct rsbx_hello *out, const uint8_t *in, size_t length)
{
    struct rsbx_hello hello;
    uint64_t *fields[HELLO_FIELDS];

    if (length != RSBX_HELLO_BYTES) {
        return false;
    }
    memset(&hello, 0, sizeof(hello));
    hello_fields(fields, &hello);
    memcpy(hello.nonce, in, RSBX_NONCE_BYTES);
    in += RSBX_NONCE_BYTES;
    for (unsigned i = 0; i < HELLO_FIELDS; i++) {
        *fields[i] = get(&in, 8);
    }
    for (unsigned i = 0; i < HELLO_RESERVED; i++) {
        if (get(&in, 8) != 0) {
            return false;
        }
    }
    *out = hello;
    return true;
}

static bool known_op(uint32_t op)
{
    return op >= RSBX_OP_EXEC && op <= RSBX_OP_UNPACK;
}

void rsbx_wire_put_request(uint8_t out[RSBX_REQUEST_BYTES], const struct rsbx_request *in)
{
    put(&out, in->op, 4);
    put(&out, in->flags, 4);
    put(&out, in->timeout_ms, 8);
    put(&out, in->max_bytes, 8);
    put(&out, in->max_entries, 8);
    put(&out, in->argc, 4);
    put(&out, in->envc, 4);
}

bool rsbx_wire_get_request(struct rsbx_request *out, const uint8_t *in, size_t length)
{
    struct rsbx_request request;

    if (length != RSBX_REQUEST_BYTES) {
        return false;
    }
    request.op = get32(&in);
    request.flags = get32(&in);
    request.timeout_ms = get(&in, 8);
    request.max_bytes = get(&in, 8);
    request.max_entries = get(&in, 8);
    request.argc = get32(&in);
    request.envc = get32(&in);
    if (!known_op(request.op) || (request.flags & ~ALL_REQUEST_FLAGS) != 0) {
        return false;
    }
    if ((request.op == RSBX_OP_EXEC) != (request.argc != 0) ||
        (request.op != RSBX_OP_EXEC && request.envc != 0)) {
        return false;
    }
    *out = request;
    return true;
}

static bool known_mode(uint32_t mode)
{
    return mode == 0 || mode == 0100644U || mode == 0100755U || mode == 0120000U ||
           mode == 040000U;
}

void rsbx_wire_put_entry(uint8_t out[RSBX_ENTRY_FIXED_BYTES], const struct rsbx_entry *in)
{
    put(&out, in->change, 4);
    put(&out, in->reason, 4);
    put(&out, in->old_mode, 4);
    put(&out, in->new_mode, 4);
    put(&out, in->old_size, 8);
    put(&out, in->new_size, 8);
    put(&out, in->links, 4);
    put(&out, in->path_length, 4);
}

bool rsbx_wire_get_entry(struct rsbx_entry *out, const uint8_t *in, size_t length)
{
    struct rsbx_entry entry;

    if (length <= RSBX_ENTRY_FIXED_BYTES || length > RSBX_WIRE_MAX_PAYLOAD) {
        return false;
    }
    entry.change = get32(&in);
    entry.reason = get32(&in);
    entry.old_mode = get32(&in);
    entry.new_mode = get32(&in);
    entry.old_size = get(&in, 8);
    entry.new_size = get(&in, 8);
    entry.links = get32(&in);
    entry.path_length = get32(&in);
    if (entry.change > RSBX_CHANGE_OMITTED || entry.reason > RSBX_OMIT_TOO_DEEP ||
        !known_mode(entry.old_mode) || !known_mode(entry.new_mode) ||
        entry.path_length != length - RSBX_ENTRY_FIXED_BYTES ||
        memchr(in, 0, entry.path_length) != NULL) {
        return false;
    }
    entry.path = (const char *)in;
    *out = entry;
    return true;
}

void rsbx_wire_put_node(uint8_t out[RSBX_NODE_FIXED_BYTES], const struct rsbx_node *in)
{
    put(&out, in->kind, 4);
    put(&out, in->reason, 4);
    put(&out, in->mode, 4);
    put(&out, (uint64_t)in->mtime_ns, 8);
    put(&out, in->size, 8);
    put(&out, in->path_length, 4);
}

bool rsbx_wire_get_node(struct rsbx_node *out, const uint8_t *in, size_t length)
{
    struct rsbx_node node;

    if (length <= RSBX_NODE_FIXED_BYTES || length > RSBX_WIRE_MAX_PAYLOAD) {
        return false;
    }
    node.kind = get32(&in);
    node.reason = get32(&in);
    node.mode = get32(&in);
    node.mtime_ns = (int64_t)get(&in, 8);
    node.size = get(&in, 8);
    node.path_length = get32(&in);
    if (node.kind < RSBX_NODE_GONE || node.kind > RSBX_NODE_OMITTED || node.mode > 07777U ||
        node.reason > RSBX_OMIT_TOO_DEEP ||
        (node.kind == RSBX_NODE_OMITTED) != (node.reason != RSBX_OMIT_NONE) ||
        (node.size != 0 && node.kind != RSBX_NODE_FILE && node.kind != RSBX_NODE_LINK) ||
        node.path_length != length - RSBX_NODE_FIXED_BYTES ||
        memchr(in, 0, node.path_length) != NULL) {
        return false;
    }
    node.path = (const char *)in;
    *out = node;
    return true;
}

bool rsbx_wire_get_fail(struct rsbx_fail *out, const uint8_t *in, size_t length)
{
    uint32_t error;

    if (length < 4U || length > RSBX_WIRE_MAX_PAYLOAD) {
        return false;
    }
    error = get32(&in);
    if (error == 0) {
        return false;
    }
    out->error = error;
    out->text = (const char *)in;
    out->text_length = (uint32_t)(length - 4U);
    return true;
}

void rsbx_wire_put_trailer(uint8_t out[RSBX_TRAILER_BYTES], const struct rsbx_trailer *in)
{
    put(&out, in->op, 4);
    put(&out, in->flags, 4);
    put(&out, in->end, 4);
    put(&out, in->exit_code, 4);
    put(&out, in->signal, 4);
    put(&out, in->exec_errno, 4);
    put(&out, in->user_us, 8);
    put(&out, in->system_us, 8);
    put(&out, in->peak_memory_bytes, 8);
    put(&out, in->oom_kills, 8);
    put(&out, in->survivors, 8);
    put(&out, in->duration_ns, 8);
    put(&out, in->stdout_bytes, 8);
    put(&out, in->stderr_bytes, 8);
    put(&out, in->entries, 8);
    put(&out, in->bytes, 8);
    put(&out, in->fingerprint_entries, 8);
    memcpy(out, in->stdout_sha256, 32);
    memcpy(out + 32, in->stderr_sha256, 32);
    out += 64;
    put(&out, in->main_oom_killed, 8);
}

/* Whether the fields that depend on `end` are those that such an end has. */
static bool consistent_end(const struct rsbx_trailer *trailer)
{
    if (trailer->end > RSBX_END_NOT_STARTED || trailer->exit_code > 255U ||
        (trailer->end != RSBX_END_EXITED && trailer->exit_code != 0)) {
        return false;
    }
    return (trailer->end == RSBX_END_SIGNALED) == (trailer->signal != 0) &&
           (trailer->end == RSBX_END_NOT_STARTED) == (trailer->exec_errno != 0);
}

bool rsbx_wire_get_trailer(struct rsbx_trailer *out, const uint8_t *in, size_t length)
{
    struct rsbx_trailer trailer;

    if (length != RSBX_TRAILER_BYTES) {
        return false;
    }
    memset(&trailer, 0, sizeof(trailer));
    trailer.op = get32(&in);
    trailer.flags = get32(&in);
    trailer.end = get32(&in);
    trailer.exit_code = get32(&in);
    trailer.signal = get32(&in);
    trailer.exec_errno = get32(&in);
    trailer.user_us = get(&in, 8);
    trailer.system_us = get(&in, 8);
    trailer.peak_memory_bytes = get(&in, 8);
    trailer.oom_kills = get(&in, 8);
    trailer.survivors = get(&in, 8);
    trailer.duration_ns = get(&in, 8);
    trailer.stdout_bytes = get(&in, 8);
    trailer.stderr_bytes = get(&in, 8);
    trailer.entries = get(&in, 8);
    trailer.bytes = get(&in, 8);
    trailer.fingerprint_entries = get(&in, 8);
    memcpy(trailer.stdout_sha256, in, 32);
    memcpy(trailer.stderr_sha256, in + 32, 32);
    in += 64;
    trailer.main_oom_killed = get(&in, 8);
    if (!known_op(trailer.op) || (trailer.flags & ~ALL_TRAILER_FLAGS) != 0 ||
        !consistent_end(&trailer) || trailer.main_oom_killed > 1U) {
        return false;
    }
    *out = trailer;
    return true;
}
