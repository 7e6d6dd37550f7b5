/* SPDX-License-Identifier: Apache-2.0 */
#include "zipmake.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/banned.h"

static void put(struct rsbx_buf *out, const void *bytes, size_t length)
{
    if (rsbx_buf_append(out, bytes, length, NULL) != 0)
        abort();
}

static void put16(struct rsbx_buf *out, uint32_t value)
{
    uint8_t bytes[2] = { (uint8_t)value, (uint8_t)(value >> 8) };

    put(out, bytes, sizeof bytes);
}

static void put32(struct rsbx_buf *out, uint32_t value)
{
    put16(out, value);
    put16(out, value >> 16);
}

static void put64(struct rsbx_buf *out, uint64_t value)
{
    put32(out, (uint32_t)value);
    put32(out, (uint32_t)(value >> 32));
}

uint32_t zipmake_crc(const void *bytes, size_t length)
{
    const uint8_t *at = bytes;
    uint32_t crc = 0xffffffffU;

    for (size_t i = 0; i < length; i++) {
        crc ^= at[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ ((crc & 1U) != 0 ? 0xedb88320U : 0U);
    }
    return ~crc;
}

/* What both headers have in common, from the version to the length of the name. */
static void put_common(struct rsbx_buf *out, const struct zipmake_member *member,
                       size_t name_length, bool local)
{
    bool sizes64 = local && member->local64 != 0;

    put16(out, 20);
    put16(out, member->flags);
    put16(out, member->method);
    put32(out, 0x00210000U);
    if (local && member->descriptor != NULL) {
        put32(out, 0);
        put32(out, 0);
        put32(out, member->local_size);
        put16(out, (uint32_t)name_length);
        return;
    }
    put32(out, member->crc);
    put32(out, sizes64 ? 0xffffffffU : (uint32_t)member->length);
    put32(out, sizes64             ? 0xffffffffU
               : member->size == 0 ? (uint32_t)member->length
                                   : member->size);
    put16(out, (uint32_t)name_length);
}

void zipmake(struct rsbx_buf *out, const struct zipmake_member *members, size_t count)
{
    uint32_t places[64], directory;

    if (count > 64)
        abort();
    for (size_t i = 0; i < count; i++) {
        const struct zipmake_member *member = &members[i];
        const char *name = member->local_name == NULL ? member->name : member->local_name;
        size_t length = member->name_length == 0 ? strlen(name) : member->name_length;

        places[i] = (uint32_t)out->length - member->overlap;
        put32(out, 0x04034b50U);
        put_common(out, member, length, true);
        put16(out, member->local64 != 0 ? 20 : 0);
        put(out, name, length);
        if (member->local64 != 0) {
            uint64_t unpacked = member->size == 0 ? member->length : member->size;

            put16(out, 1);
            put16(out, 16);
            put64(out, member->local64 == 1 ? unpacked : member->local64);
            put64(out, member->length);
        }
        put(out, member->bytes, member->length);
        if (member->descriptor != NULL)
            put(out, member->descriptor, member->descriptor_length);
    }
    directory = (uint32_t)out->length;
    for (size_t i = 0; i < count; i++) {
        const struct zipmake_member *member = &members[i];
        size_t length = member->name_length == 0 ? strlen(member->name) : member->name_length;

        put32(out, 0x02014b50U);
        put16(out, 3U << 8 | 20U);
        put_common(out, member, length, false);
        put16(out, member->extra_length);
        put32(out, 0);
        put16(out, 0);
        put32(out, member->attributes == 0 ? 0100644U << 16 : member->attributes);
        put32(out, places[i]);
        put(out, member->name, length);
        put(out, member->extra, member->extra_length);
    }
    put32(out, 0x06054b50U);
    put32(out, 0);
    put16(out, (uint32_t)count);
    put16(out, (uint32_t)count);
    put32(out, (uint32_t)(out->length - 12) - directory);
    put32(out, directory);
    put16(out, 0);
}
