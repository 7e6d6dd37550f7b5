/* SPDX-License-Identifier: Apache-2.0 */
/* Writes what fuzz_wire and fuzz_frames begin with: a struct of each kind, and a few frames.
 * usage: seed_wire FOLDER-FOR-WIRE FOLDER-FOR-FRAMES */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "guest/protocol.h"

#define PATH "src/a file"
#define PATH_BYTES ((uint32_t)(sizeof PATH - 1))

static void write_seed(const char *folder, const char *name, const void *bytes, size_t length)
{
    RSBX_AUTO(rsbx_fd) int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    reposbx_error err = REPOSBX_ERROR_INIT;

    if (rsbx_replace_file_at(fd, name, bytes, length, &err) != 0) {
        (void)fprintf(stderr, "%s: %s\n", folder, err.message);
        exit(1);
    }
}

/* A seed that its own decoder refuses would be of no use. */
static void must(bool taken)
{
    if (!taken)
        abort();
}

static void write_answers(const char *folder)
{
    struct rsbx_hello hello = { .monotonic_ns = 1, .baseline = 1, .workspace = 2 };
    struct rsbx_fail fail;
    struct rsbx_trailer trailer = { .op = RSBX_OP_EXEC, .end = RSBX_END_EXITED, .exit_code = 3 };
    uint8_t bytes[512] = { 0, 0, 0, 2, 'n', 'o' };

    must(rsbx_wire_get_fail(&fail, bytes, 6));
    write_seed(folder, "fail", bytes, 6);
    rsbx_wire_put_hello(bytes, &hello);
    must(rsbx_wire_get_hello(&hello, bytes, RSBX_HELLO_BYTES));
    write_seed(folder, "hello", bytes, RSBX_HELLO_BYTES);
    rsbx_wire_put_trailer(bytes, &trailer);
    must(rsbx_wire_get_trailer(&trailer, bytes, RSBX_TRAILER_BYTES));
    write_seed(folder, "trailer", bytes, RSBX_TRAILER_BYTES);
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
    must(rsbx_wire_get_header(&header, bytes));
    write_seed(folder, "header", bytes, RSBX_WIRE_HEADER_BYTES);
    rsbx_wire_put_request(bytes, &request);
    must(rsbx_wire_get_request(&request, bytes, RSBX_REQUEST_BYTES));
    write_seed(folder, "request", bytes, RSBX_REQUEST_BYTES);
    rsbx_wire_put_entry(bytes, &entry);
    memcpy(bytes + RSBX_ENTRY_FIXED_BYTES, PATH, PATH_BYTES);
    must(rsbx_wire_get_entry(&entry, bytes, RSBX_ENTRY_FIXED_BYTES + PATH_BYTES));
    write_seed(folder, "entry", bytes, RSBX_ENTRY_FIXED_BYTES + PATH_BYTES);
    rsbx_wire_put_node(bytes, &node);
    memcpy(bytes + RSBX_NODE_FIXED_BYTES, PATH, PATH_BYTES);
    must(rsbx_wire_get_node(&node, bytes, RSBX_NODE_FIXED_BYTES + PATH_BYTES));
    write_seed(folder, "node", bytes, RSBX_NODE_FIXED_BYTES + PATH_BYTES);
}

int main(int argc, char **argv)
{
    /* stdout, stderr, an empty piece, stdout again; and one that is cut. */
    static const char frames[] = "\1\0\0\0\0\0\0\5hello\2\0\0\0\0\0\0\3no\n\2\0\0\0\0\0\0\0\1\0\0\0\0\0\0\1!";

    if (argc != 3)
        return 64;
    write_answers(argv[1]);
    write_questions(argv[1]);
    write_seed(argv[2], "whole", frames, sizeof frames - 1);
    write_seed(argv[2], "cut", frames, sizeof frames - 5);
    return 0;
}
