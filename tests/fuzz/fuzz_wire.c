/* SPDX-License-Identifier: Apache-2.0 */
/* The guest's structs: what is decoded encodes to the bytes that it was decoded from. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "guest/protocol.h"

static void same(const uint8_t *a, const uint8_t *b, size_t length)
{
    if (memcmp(a, b, length) != 0)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t raw[512];
    struct rsbx_wire_header header;
    struct rsbx_hello hello;
    struct rsbx_request request;
    struct rsbx_entry entry;
    struct rsbx_node node;
    struct rsbx_fail fail;
    struct rsbx_trailer trailer;

    if (size >= RSBX_WIRE_HEADER_BYTES && rsbx_wire_get_header(&header, data)) {
        rsbx_wire_put_header(raw, &header);
        same(raw, data, RSBX_WIRE_HEADER_BYTES);
    }
    if (rsbx_wire_get_hello(&hello, data, size)) {
        rsbx_wire_put_hello(raw, &hello);
        same(raw, data, RSBX_HELLO_BYTES);
    }
    if (rsbx_wire_get_request(&request, data, size)) {
        rsbx_wire_put_request(raw, &request);
        same(raw, data, RSBX_REQUEST_BYTES);
    }
    if (rsbx_wire_get_entry(&entry, data, size)) {
        rsbx_wire_put_entry(raw, &entry);
        same(raw, data, RSBX_ENTRY_FIXED_BYTES);
        if (entry.path_length != size - RSBX_ENTRY_FIXED_BYTES)
            abort();
    }
    if (rsbx_wire_get_node(&node, data, size)) {
        rsbx_wire_put_node(raw, &node);
        same(raw, data, RSBX_NODE_FIXED_BYTES);
        if (node.path_length != size - RSBX_NODE_FIXED_BYTES)
            abort();
    }
    if (rsbx_wire_get_fail(&fail, data, size) && fail.text_length != size - 4)
        abort();
    if (rsbx_wire_get_trailer(&trailer, data, size)) {
        rsbx_wire_put_trailer(raw, &trailer);
        same(raw, data, RSBX_TRAILER_BYTES);
    }
    return 0;
}
