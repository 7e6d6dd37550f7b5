/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RSBX_SOURCE_TREEID_H
#define RSBX_SOURCE_TREEID_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

/* Git's tree ids from leaves that come in walk order, that is, with everything below a folder
 * together. */
struct rsbx_treeid;
typedef struct rsbx_treeid *rsbx_treeid_ptr;

/* Told of every folder but the root: `opened` before its first leaf is entered, `closed` with its path
 * and its id of what was streamed when the first leaf behind it is added (or at the end). Depth is 1
 * below the root. */
struct rsbx_treeid_watch {
    void (*opened)(void *payload, size_t depth);
    int (*closed)(void *payload, size_t depth, const char *path, size_t length,
                  const uint8_t oid[20], reposbx_error *err);
    void *payload;
};

/* watch: NULL, or copied. */
int rsbx_treeid_new(struct rsbx_treeid **out, const struct rsbx_treeid_watch *watch,
                    reposbx_error *err);
void rsbx_treeid_free(struct rsbx_treeid *treeid);
/* Adds one leaf: `mode` as in the commit, `streamed_mode` as handed out, 0 for what is left out. */
int rsbx_treeid_add(struct rsbx_treeid *treeid, const char *path, size_t length, uint32_t mode,
                    uint32_t streamed_mode, const uint8_t *oid, reposbx_error *err);
/* The tree id of everything that was added, and of what was streamed. */
int rsbx_treeid_finish(uint8_t full[20], uint8_t streamed[20], struct rsbx_treeid *treeid,
                       reposbx_error *err);

#endif
