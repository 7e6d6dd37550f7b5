/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/protocol.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/banned.h"

/* A decoder that sees a copy of exactly `length` bytes, so that a sanitizer finds a read beyond. */
static bool decodes(bool (*decode)(void *out, const uint8_t *in, size_t length), void *out,
                    const uint8_t *in, size_t length)
{
    uint8_t *copy = malloc(length == 0 ? 1 : length);
    bool result;

    assert_non_null(copy);
    if (length > 0) {
        memcpy(copy, in, length);
    }
    result = decode(out, copy, length);
    free(copy);
    return result;
}

static bool hello(void *out, const uint8_t *in, size_t length)
{
    return rsbx_wire_get_hello(out, in, length);
}

static bool node(void *out, const uint8_t *in, size_t length)
{
    return rsbx_wire_get_node(out, in, length);
}

static bool request(void *out, const uint8_t *in, size_t length)
{
    return rsbx_wire_get_request(out, in, length);
}

static bool entry(void *out, const uint8_t *in, size_t length)
{
    return rsbx_wire_get_entry(out, in, length);
}

static bool failure(void *out, const uint8_t *in, size_t length)
{
    return rsbx_wire_get_fail(out, in, length);
}

static bool trailer(void *out, const uint8_t *in, size_t length)
{
    return rsbx_wire_get_trailer(out, in, length);
}

static void test_sample(void **state)
{
    static const uint8_t sample[16] = {0x52, 0x53, 0x42, 0x58, 0, 1, 0, 1, 0, 0, 0, 0, 0, 0, 0, 32};
    struct rsbx_wire_header header = {.type = RSBX_WIRE_GREETING, .sequence = 0, .length = 32};
    uint8_t out[RSBX_WIRE_HEADER_BYTES];

    (void)state;
    rsbx_wire_put_header(out, &header);
    assert_memory_equal(out, sample, sizeof(sample));
    memset(&header, 0xff, sizeof(header));
    assert_true(rsbx_wire_get_header(&header, sample));
    assert_int_equal(header.type, RSBX_WIRE_GREETING);
    assert_int_equal(header.sequence, 0);
    assert_int_equal(header.length, 32);
}

static void test_header_refusals(void **state)
{
    struct rsbx_wire_header header = {.type = RSBX_WIRE_DATA, .sequence = 0x01020304U,
                                      .length = RSBX_WIRE_MAX_PAYLOAD};
    struct rsbx_wire_header back = {0};
    uint8_t good[RSBX_WIRE_HEADER_BYTES], bad[RSBX_WIRE_HEADER_BYTES];

    (void)state;
    rsbx_wire_put_header(good, &header);
    assert_true(rsbx_wire_get_header(&back, good));
    assert_int_equal(back.sequence, 0x01020304U);
    /* Any flipped byte of magic, version or type, and a length of one too many. */
    for (size_t i = 0; i < 8; i++) {
        memcpy(bad, good, sizeof(bad));
        bad[i] ^= 0x40U;
        assert_false(rsbx_wire_get_header(&back, bad));
    }
    for (unsigned type = 0; type < 300; type++) {
        bool known = (type >= 1 && type <= 8) || (type >= 16 && type <= 20);

        header.type = (uint16_t)type;
        rsbx_wire_put_header(bad, &header);
        assert_int_equal(rsbx_wire_get_header(&back, bad), known);
    }
    header.type = RSBX_WIRE_DATA;
    header.length = RSBX_WIRE_MAX_PAYLOAD + 1U;
    rsbx_wire_put_header(bad, &header);
    assert_false(rsbx_wire_get_header(&back, bad));
    header.length = UINT32_MAX;
    rsbx_wire_put_header(bad, &header);
    assert_false(rsbx_wire_get_header(&back, bad));
}

static void test_hello(void **state)
{
    struct rsbx_hello in, out;
    uint8_t bytes[RSBX_HELLO_BYTES + 1U];
    uint64_t value = 0x1122334455667700U;

    (void)state;
    memset(&in, 0, sizeof(in));
    for (uint64_t *field = &in.pid; field <= &in.upper; field++) {
        *field = value++;
    }
    memset(in.nonce, 0x5a, sizeof(in.nonce));
    memset(bytes, 0xee, sizeof(bytes));
    rsbx_wire_put_hello(bytes, &in);
    assert_int_equal(bytes[RSBX_HELLO_BYTES], 0xee);
    assert_int_equal(bytes[RSBX_NONCE_BYTES], 0x11); /* pid, big endian */
    assert_int_equal(bytes[RSBX_NONCE_BYTES + 7U], 0);
    for (size_t length = 0; length < RSBX_HELLO_BYTES; length++) {
        assert_false(decodes(hello, &out, bytes, length));
    }
    assert_false(decodes(hello, &out, bytes, RSBX_HELLO_BYTES + 1U));
    memset(&out, 0, sizeof(out));
    assert_true(decodes(hello, &out, bytes, RSBX_HELLO_BYTES));
    assert_memory_equal(&out, &in, sizeof(in));
    bytes[RSBX_HELLO_BYTES - 1U] = 1; /* reserved */
    assert_false(decodes(hello, &out, bytes, RSBX_HELLO_BYTES));
}

static void test_request(void **state)
{
    struct rsbx_request in = {.op = RSBX_OP_EXEC, .flags = RSBX_REQUEST_STDIN, .timeout_ms = 1U,
                              .max_bytes = UINT64_MAX, .max_entries = 1ULL << 40U, .argc = 3,
                              .envc = 4};
    struct rsbx_request out = {0};
    uint8_t bytes[RSBX_REQUEST_BYTES + 1U] = {0};

    (void)state;
    rsbx_wire_put_request(bytes, &in);
    for (size_t length = 0; length < RSBX_REQUEST_BYTES; length++) {
        assert_false(decodes(request, &out, bytes, length));
    }
    assert_false(decodes(request, &out, bytes, RSBX_REQUEST_BYTES + 1U));
    assert_true(decodes(request, &out, bytes, RSBX_REQUEST_BYTES));
    assert_memory_equal(&out, &in, sizeof(in));
    in.argc = 0; /* a command without argv */
    rsbx_wire_put_request(bytes, &in);
    assert_false(decodes(request, &out, bytes, RSBX_REQUEST_BYTES));
    in.op = RSBX_OP_LIST; /* and an environment without a command */
    rsbx_wire_put_request(bytes, &in);
    assert_false(decodes(request, &out, bytes, RSBX_REQUEST_BYTES));
    in.envc = 0;
    rsbx_wire_put_request(bytes, &in);
    assert_true(decodes(request, &out, bytes, RSBX_REQUEST_BYTES));
    in.flags = 64;
    rsbx_wire_put_request(bytes, &in);
    assert_false(decodes(request, &out, bytes, RSBX_REQUEST_BYTES));
    in.flags = 0;
    for (uint32_t op = 0; op < 12; op++) {
        in.op = op;
        in.argc = op == RSBX_OP_EXEC;
        rsbx_wire_put_request(bytes, &in);
        assert_int_equal(decodes(request, &out, bytes, RSBX_REQUEST_BYTES), op >= 1 && op <= 10);
    }
}

static void test_entry(void **state)
{
    static const char path[] = "a/b\xff\n";
    struct rsbx_entry in = {.change = RSBX_CHANGE_MODIFIED, .old_mode = 0100644U,
                            .new_mode = 0120000U, .old_size = 5, .new_size = 1ULL << 40U,
                            .links = 2, .path = path, .path_length = sizeof(path) - 1U};
    size_t full = RSBX_ENTRY_FIXED_BYTES + sizeof(path) - 1U;
    uint8_t bytes[RSBX_ENTRY_FIXED_BYTES + sizeof(path)] = {0};
    struct rsbx_entry out;

    (void)state;
    rsbx_wire_put_entry(bytes, &in);
    memcpy(bytes + RSBX_ENTRY_FIXED_BYTES, path, sizeof(path) - 1U);
    for (size_t length = 0; length < full; length++) {
        assert_false(decodes(entry, &out, bytes, length));
    }
    assert_false(decodes(entry, &out, bytes, full + 1U));
    assert_true(rsbx_wire_get_entry(&out, bytes, full));
    assert_int_equal(out.change, in.change);
    assert_int_equal(out.new_mode, in.new_mode);
    assert_true(out.new_size == in.new_size);
    assert_int_equal(out.links, 2);
    assert_ptr_equal(out.path, bytes + RSBX_ENTRY_FIXED_BYTES);
    bytes[RSBX_ENTRY_FIXED_BYTES + 1U] = 0; /* NUL in the path */
    assert_false(decodes(entry, &out, bytes, full));
    bytes[RSBX_ENTRY_FIXED_BYTES + 1U] = '/';
    in.new_mode = 0104755U;
    rsbx_wire_put_entry(bytes, &in);
    assert_false(decodes(entry, &out, bytes, full));
    in.new_mode = 0;
    in.change = 5;
    rsbx_wire_put_entry(bytes, &in);
    assert_false(decodes(entry, &out, bytes, full));
    in.change = RSBX_CHANGE_OMITTED;
    in.reason = 9;
    rsbx_wire_put_entry(bytes, &in);
    assert_false(decodes(entry, &out, bytes, full));
    in.reason = 8;
    rsbx_wire_put_entry(bytes, &in);
    assert_true(decodes(entry, &out, bytes, full));
}

static void test_node(void **state)
{
    struct rsbx_node in = {.kind = RSBX_NODE_FILE, .mode = 07777U, .mtime_ns = -5, .size = 7,
                           .path_length = 3};
    struct rsbx_node out;
    uint8_t bytes[RSBX_NODE_FIXED_BYTES + 4U];
    size_t full = RSBX_NODE_FIXED_BYTES + 3U;

    (void)state;
    memset(bytes, 0, sizeof(bytes));
    rsbx_wire_put_node(bytes, &in);
    memcpy(bytes + RSBX_NODE_FIXED_BYTES, "a/b", 4);
    for (size_t length = 0; length < full; length++) {
        assert_false(decodes(node, &out, bytes, length));
    }
    assert_false(decodes(node, &out, bytes, full + 1U));
    assert_true(rsbx_wire_get_node(&out, bytes, full));
    assert_int_equal(out.kind, RSBX_NODE_FILE);
    assert_int_equal(out.mode, 07777);
    assert_true(out.mtime_ns == -5);
    assert_int_equal(out.size, 7);
    assert_memory_equal(out.path, "a/b", 3);
    in.mode = 010000U; /* no permission bit */
    rsbx_wire_put_node(bytes, &in);
    assert_false(decodes(node, &out, bytes, full));
    in.mode = 0;
    in.kind = RSBX_NODE_FOLDER; /* with a size */
    rsbx_wire_put_node(bytes, &in);
    assert_false(decodes(node, &out, bytes, full));
    in.size = 0;
    in.reason = RSBX_OMIT_SOCKET; /* but not left out */
    rsbx_wire_put_node(bytes, &in);
    assert_false(decodes(node, &out, bytes, full));
    in.kind = RSBX_NODE_OMITTED;
    rsbx_wire_put_node(bytes, &in);
    assert_true(decodes(node, &out, bytes, full));
    in.reason = RSBX_OMIT_NONE;
    rsbx_wire_put_node(bytes, &in);
    assert_false(decodes(node, &out, bytes, full));
    in.kind = 8;
    rsbx_wire_put_node(bytes, &in);
    assert_false(decodes(node, &out, bytes, full));
    in.kind = RSBX_NODE_GONE;
    rsbx_wire_put_node(bytes, &in);
    bytes[RSBX_NODE_FIXED_BYTES + 1U] = 0; /* NUL in a path */
    assert_false(decodes(node, &out, bytes, full));
}

static void test_fail(void **state)
{
    uint8_t bytes[8] = {0, 0, 0, 2, 't', 'e', 'x', 't'};
    struct rsbx_fail out;

    (void)state;
    for (size_t length = 0; length < 4; length++) {
        assert_false(decodes(failure, &out, bytes, length));
    }
    assert_true(rsbx_wire_get_fail(&out, bytes, sizeof(bytes)));
    assert_int_equal(out.error, 2);
    assert_int_equal(out.text_length, 4);
    assert_memory_equal(out.text, "text", 4);
    assert_true(rsbx_wire_get_fail(&out, bytes, 4));
    assert_int_equal(out.text_length, 0);
    bytes[3] = 0;
    assert_false(decodes(failure, &out, bytes, sizeof(bytes)));
}

static void test_trailer(void **state)
{
    struct rsbx_trailer in, out;
    uint8_t bytes[RSBX_TRAILER_BYTES + 1U];
    uint64_t value = 1ULL << 33U;

    (void)state;
    memset(&in, 0, sizeof(in));
    in.op = RSBX_OP_EXEC;
    in.flags = RSBX_TRAILER_TIMED_OUT | RSBX_TRAILER_OUTPUT_LIMITED;
    in.end = RSBX_END_SIGNALED;
    in.signal = 9;
    for (uint64_t *field = &in.user_us; field <= &in.fingerprint_entries; field++) {
        *field = value++;
    }
    memset(in.stdout_sha256, 1, 32);
    memset(in.stderr_sha256, 2, 32);
    in.main_oom_killed = 1;
    memset(bytes, 0xee, sizeof(bytes));
    rsbx_wire_put_trailer(bytes, &in);
    assert_int_equal(bytes[RSBX_TRAILER_BYTES], 0xee);
    for (size_t length = 0; length < RSBX_TRAILER_BYTES; length++) {
        assert_false(decodes(trailer, &out, bytes, length));
    }
    assert_false(decodes(trailer, &out, bytes, RSBX_TRAILER_BYTES + 1U));
    memset(&out, 0, sizeof(out));
    assert_true(decodes(trailer, &out, bytes, RSBX_TRAILER_BYTES));
    assert_memory_equal(&out, &in, sizeof(in));
    in.exit_code = 1; /* an exit code of a command that a signal ended */
    rsbx_wire_put_trailer(bytes, &in);
    assert_false(decodes(trailer, &out, bytes, RSBX_TRAILER_BYTES));
    in.exit_code = 0;
    in.flags = 8;
    rsbx_wire_put_trailer(bytes, &in);
    assert_false(decodes(trailer, &out, bytes, RSBX_TRAILER_BYTES));
    in.flags = 0;
    in.main_oom_killed = 2;
    rsbx_wire_put_trailer(bytes, &in);
    assert_false(decodes(trailer, &out, bytes, RSBX_TRAILER_BYTES));
    in.main_oom_killed = 0;
    in.end = RSBX_END_EXITED; /* still with a signal */
    rsbx_wire_put_trailer(bytes, &in);
    assert_false(decodes(trailer, &out, bytes, RSBX_TRAILER_BYTES));
    in.signal = 0;
    in.exit_code = 255;
    rsbx_wire_put_trailer(bytes, &in);
    assert_true(decodes(trailer, &out, bytes, RSBX_TRAILER_BYTES));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sample),  cmocka_unit_test(test_header_refusals),
        cmocka_unit_test(test_hello),   cmocka_unit_test(test_request),
        cmocka_unit_test(test_entry),   cmocka_unit_test(test_fail),
        cmocka_unit_test(test_trailer), cmocka_unit_test(test_node),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
