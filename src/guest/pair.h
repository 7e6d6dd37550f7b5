/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RSBX_GUEST_PAIR_H
#define RSBX_GUEST_PAIR_H

#include <stdbool.h>

#include "guest/guest.h"
#include "guest/walk.h"

/*
 * The baseline (old) and the workspace (new), walked at the same time, both in the order of their
 * names with a folder before what is in it. That is one order for both trees, so the two walks
 * merge like two sorted lists: the smaller path exists on its side alone.
 *
 * Where the workspace is an overlay over the baseline, whatever was changed has an entry in the
 * upper layer, and so has every folder above it. What stands in both trees and has none there is
 * the baseline's own, and is neither entered nor read.
 */
struct rsbx_side {
    struct rsbx_walk walk;
    struct rsbx_item item;
    bool there; /* an item is held */
};

struct rsbx_pair {
    struct rsbx_guest *guest;
    struct rsbx_side old, new;
    int upper_fd; /* of the upper layer; -1: compare everything */
};

/* Begins as the request's flags say; what cannot be opened fails the request. */
void rsbx_pair_begin(struct rsbx_pair *pair, struct rsbx_guest *guest);
/* Negative: the old side's path is the smaller; positive: the new side's; 0: the same. Only while
 * one of them is there. */
int rsbx_pair_order(const struct rsbx_pair *pair);
void rsbx_side_advance(struct rsbx_side *side);
/* Whether the same path of both sides is the same file or folder by the overlay's own doing. */
bool rsbx_pair_untouched(const struct rsbx_pair *pair);
/* Whether an errno, negative, says that we may not look. */
bool rsbx_unreadable(long result);
_Noreturn void rsbx_pair_fail(struct rsbx_pair *pair, int error, const char *what,
                              const struct rsbx_item *item);

#endif
