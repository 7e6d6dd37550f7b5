/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RSBX_BASE_PATH_H
#define RSBX_BASE_PATH_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

/*
 * Rules for names and paths, in bytes; nothing here touches a file system.
 */

/* Why a name may not stand in a tree that we make into files, or NULL when it may. The rules:
 * not empty, at most 255 bytes, no NUL, no '/', not "." or "..", and nothing that a Git checkout on
 * any system would take for ".git": any case, trailing dots and spaces, "git~1" (and "git~2" …) of
 * NTFS, "::$INDEX_ALLOCATION" and other alternate streams, backslash forms, and ignorable code points
 * inside, those of HFS+ and of Unicode (source: git's fsck and path.c rules, as documented in
 * git-config(1) core.protectHFS and core.protectNTFS, which are narrower). */
const char *rsbx_name_problem(const void *name, size_t length);

/* Whether the name is ".git" or a disguise of it by the rules above. */
bool rsbx_name_is_dotgit(const void *name, size_t length);

/* Whether the name, in the same disguises, is the given dot file ("gitmodules", "gitattributes",
 * "gitignore", "mailmap" without their leading dot). */
bool rsbx_name_is_dotfile(const void *name, size_t length, const char *plain);

/* Whether a symlink may not have this name: what Git reads as its own, ".gitmodules" and ".gitattributes"
 * in all disguises, must not lead elsewhere. */
bool rsbx_name_is_never_link(const void *name, size_t length);

/* Whether a path of a request is allowed: relative POSIX, at most 4095 bytes and 256 components, no
 * backslash, no "..", not empty, no empty component inside; one "./" in front and a trailing slash
 * are taken away, "." components inside refused unless the whole path is "." and `root_allowed`.
 * On success `out` (RSBX_MAX_PATH_BYTES + 1 bytes) holds the normal form ("" for the root).
 * Refusals are REPOSBX_EPOLICY and name `field`. */
int rsbx_path_request(char *out, const char *path, bool root_allowed, const char *field,
                      reposbx_error *err);

/* Whether `path` equals `ancestor` or lies below it (both in normal form). */
bool rsbx_path_below(const char *path, size_t length, const char *ancestor);

/* Order by bytes as unsigned; the shorter first when one is a prefix. */
int rsbx_bytes_compare(const void *a, size_t a_length, const void *b, size_t b_length);

#endif
