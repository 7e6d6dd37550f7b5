/* SPDX-License-Identifier: Apache-2.0 */
/* Writes what fuzz_wire and fuzz_frames begin with: a struct of each kind, and a few frames.
 * usage: seed_wire FOLDER-FOR-WIRE FOLDER-FOR-FRAMES */
#include <stdint.h>
#include <string.h>

#include "fuzz/seed.h"
#include "guest/protocol.h"

#define PATH "src/a file"
#define PATH_BYTES ((uint32_t)(sizeof PATH - 1))

static void write_answers(const char *folder)
{
    struct rsbx_hello hello = { .monotonic_ns = 1, .baseline = 1, .workspace = 2 };
    struct rsbx_fail fail;
    struct rsbx_trailer trailer = { .op = RSBX_OP_EXEC, .end = RSBX_END_EXITED, .exit_code = 3 };
    uint8_t bytes[512] = { 0, 0, 0, 2, 'n', 'o' };

    seed_must(rsbx_wire_get_fail(&fail, bytes, 6));
    seed_write(folder, "fail", bytes, 6);
    rsbx_wire_put_hello(bytes, &hello);
    seed_must(rsbx_wire_get_hello(&hello, bytes, RSBX_HELLO_BYTES));
    seed_write(folder, "hello", bytes, RSBX_HELLO_BYTES);
    rsbx_wire_put_trailer(bytes, &trailer);
    seed_must(rsbx_wire_get_trailer(&trailer, bytes, RSBX_TRAILER_BYTES));
    seed_write(folder, "trailer", bytes, RSBX_TRAILER_BYTES);
}

static void write_questions(const char *folder)
{
    struct rsbx_wire_header header = { .type = RSBX_WIRE_REQUEST, .length = RSBX_REQUEST_BYTES };
    struct rsbx_request request = { .op = RSBX_OP_EXEC, .argc = 1, .timeout_ms = 1000 };
    struct rsbx_entry entry = { .change = RSBX_CHANGE_MODIFIED,
                                .old_mode = 0100644,
                                .new_mode = 0120000,
                                .old_size = 5,
                                .new_size = 6,
                                .links = 1,
                                .path_length = PATH_BYTES };
    struct rsbx_node node = { .kind = RSBX_NODE_FILE,
                              .mode = 0644,
                              .mtime_ns = -1,
                              .size = 5,
                              .path_length = PATH_BYTES };
    uint8_t bytes[512];

    rsbx_wire_put_header(bytes, &header);
    seed_must(rsbx_wire_get_header(&header, bytes));
    seed_write(folder, "header", bytes, RSBX_WIRE_HEADER_BYTES);
    rsbx_wire_put_request(bytes, &request);
    seed_must(rsbx_wire_get_request(&request, bytes, RSBX_REQUEST_BYTES));
    seed_write(folder, "request", bytes, RSBX_REQUEST_BYTES);
    rsbx_wire_put_entry(bytes, &entry);
    memcpy(bytes + RSBX_ENTRY_FIXED_BYTES, PATH, PATH_BYTES);
    seed_must(rsbx_wire_get_entry(&entry, bytes, RSBX_ENTRY_FIXED_BYTES + PATH_BYTES));
    seed_write(folder, "entry", bytes, RSBX_ENTRY_FIXED_BYTES + PATH_BYTES);
    rsbx_wire_put_node(bytes, &node);
    memcpy(bytes + RSBX_NODE_FIXED_BYTES, PATH, PATH_BYTES);
    seed_must(rsbx_wire_get_node(&node, bytes, RSBX_NODE_FIXED_BYTES + PATH_BYTES));
    seed_write(folder, "node", bytes, RSBX_NODE_FIXED_BYTES + PATH_BYTES);
}

int main(int argc, char **argv)
{
    /* stdout, stderr, an empty piece, stdout again; and one that is cut. */
    static const char frames[] = "\1\0\0\0\0\0\0\5hello\2\0\0\0\0\0\0\3no\n\2\0\0\0\0\0\0\0\1\0\0\0\0\0\0\1!";

    if (argc != 3)
        return 64;
    write_answers(argv[1]);
    write_questions(argv[1]);
    seed_write(argv[2], "whole", frames, sizeof frames - 1);
    seed_write(argv[2], "cut", frames, sizeof frames - 5);
    return 0;
}
