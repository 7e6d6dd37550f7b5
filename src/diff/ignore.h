/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RSBX_DIFF_IGNORE_H
#define RSBX_DIFF_IGNORE_H

#include <stddef.h>

#include "base/cleanup.h"
#include "base/error.h"

/*
 * Which new files the .gitignore files of a tree leave out, by the rules of gitignore(5). Pure:
 * texts in, answers out. The texts come from the repository and are hostile: a pattern is compiled to
 * tokens and matched by following all its positions at once, so that time is bounded by length of
 * pattern times length of path, and all of it together by a budget.
 *
 *     rsbx_ignore_new(&ignore, err)
 *     rsbx_ignore_add(ignore, folder, length, text, text_length, err)   for each .gitignore
 *     rsbx_ignore_find(&ignored, ignore, path, length, err)             for each path; a walk's
 *                                                                       order is the fastest
 *
 * Case counts; there are no rules but these texts (no info/exclude, no configuration).
 */
struct rsbx_ignore;
typedef struct rsbx_ignore *rsbx_ignore_ptr;

int rsbx_ignore_new(struct rsbx_ignore **out, reposbx_error *err);
void rsbx_ignore_free(struct rsbx_ignore *ignore);
RSBX_CLEANUP(rsbx_ignore, rsbx_ignore_ptr, rsbx_ignore_free);

/* The text of FOLDER/.gitignore; "" is the root. Copied. */
int rsbx_ignore_add(struct rsbx_ignore *ignore, const char *folder, size_t folder_length,
                    const char *text, size_t length, reposbx_error *err);

/* About a file or link that the tree does not have: *ignored is 0 when it counts, else the length
 * of the part of `path` that is ignored: all of it, or a folder above it. REPOSBX_ELIMIT when the
 * patterns have used up their budget. */
int rsbx_ignore_find(size_t *ignored, struct rsbx_ignore *ignore, const char *path, size_t length,
                     reposbx_error *err);

#endif
