/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RSBX_TEST_ZIPMAKE_H
#define RSBX_TEST_ZIPMAKE_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

/* Writes ZIP files that no honest writer would make: every field can be set. */
struct zipmake_member {
    const char *name;
    size_t name_length;         /* 0: strlen(name) */
    const char *local_name;     /* NULL: as name */
    const void *bytes;          /* as they stand in the file */
    size_t length;
    uint32_t crc;
    uint32_t size;              /* unpacked; as length when 0 */
    uint16_t method, flags;
    uint32_t attributes;        /* 0: a regular file of mode 0644 */
    uint32_t overlap;           /* bytes by which the directory points before the local header */
    const void *extra;          /* of the directory's row */
    uint16_t extra_length;
    uint64_t local64;           /* not 0: the local header has its sizes in a zip64 field; 1: the right
                                 * ones, else this as the unpacked one */
    const void *descriptor;     /* behind the bytes; sum and size of the local header are 0 then */
    size_t descriptor_length;
    uint32_t local_size;        /* with a descriptor: the unpacked size in the local header */
};

void zipmake(struct rsbx_buf *out, const struct zipmake_member *members, size_t count);

/* CRC-32 as in ZIP. */
uint32_t zipmake_crc(const void *bytes, size_t length);

#endif
