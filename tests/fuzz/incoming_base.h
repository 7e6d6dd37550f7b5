/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RSBX_FUZZ_INCOMING_BASE_H
#define RSBX_FUZZ_INCOMING_BASE_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "diff/internal.h"

/* The tree that every patch of fuzz_incoming is for: texts with and without a last newline, a NUL, an
 * empty file, a program, a symlink, folders and a name that needs quotes. */
struct base_file {
    const char *path;
    uint32_t mode;
    const char *bytes;
    size_t length;
};
#define BASE_TEXT(path, mode, text) { path, mode, text, sizeof(text) - 1 }
static const struct base_file base_files[] = {
    BASE_TEXT("a", 0100644, "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n11\n12\n"),
    BASE_TEXT("b", 0100644, "one\ntwo"),
    BASE_TEXT("bin", 0100644, "\0\1\2\3binary\0binary\0binary\n"),
    BASE_TEXT("d/e/f", 0100644, "x\n"),
    BASE_TEXT("d/g", 0100755, "#!/bin/sh\n"),
    BASE_TEXT("empty", 0100644, ""),
    BASE_TEXT("l", 0120000, "d/g"),
    BASE_TEXT("q\t\"q", 0100644, "quoted\n"),
};
#define BASE_FILES (sizeof base_files / sizeof base_files[0])

static inline const struct base_file *base_find(const char *path, size_t length)
{
    for (size_t i = 0; i < BASE_FILES; i++) {
        if (strlen(base_files[i].path) == length && memcmp(base_files[i].path, path, length) == 0)
            return &base_files[i];
    }
    return NULL;
}

/* No length of ours is 0 for malloc. */
static inline char *base_copy(const char *bytes, size_t length)
{
    char *copy = malloc(length + 1);

    if (copy == NULL)
        abort();
    if (length > 0)
        memcpy(copy, bytes, length);
    copy[length] = '\0';
    return copy;
}

/* Entries in byte order, as the array has them. */
static inline struct rsbx_diff *base_new(void)
{
    struct rsbx_diff *diff = NULL;

    if (rsbx_diff_new(&diff, NULL) != 0)
        abort();
    for (size_t i = 0; i < BASE_FILES; i++) {
        uint8_t oid[RSBX_OID_BYTES];

        if (rsbx_diff_blob_id(oid, base_files[i].bytes, base_files[i].length, NULL) != 0 ||
            rsbx_diff_base(diff, base_files[i].path, strlen(base_files[i].path), base_files[i].mode, oid,
                           NULL) != 0)
            abort();
    }
    return diff;
}

/* A change of the path from what the base has of it; mode 0: it goes. */
static inline void base_change(struct rsbx_diff *diff, const char *path, size_t length, uint32_t mode,
                               const char *bytes, size_t count)
{
    const struct base_file *old = base_find(path, length);
    struct rsbx_diff_change change = { .path = path, .path_length = length, .new_mode = mode };

    if (old != NULL) {
        change.old_mode = old->mode;
        change.old_content.bytes = base_copy(old->bytes, old->length);
        change.old_content.length = old->length;
    }
    if (mode != 0) {
        change.new_content.bytes = base_copy(bytes, count);
        change.new_content.length = count;
    }
    if (rsbx_diff_change(diff, &change, NULL) != 0)
        abort();
}

#endif
