/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RSBX_TEST_APPLIED_H
#define RSBX_TEST_APPLIED_H

#include <stddef.h>

#include "corpus.h"
#include "diff/diff.h"
#include "diff/incoming.h"

/* A diff whose base is the tree, with the contents that the patch wants (NULL: with none). */
struct rsbx_diff *base_with_contents(const struct corpus_tree *base,
                                     const struct rsbx_incoming *incoming);

/* Reads the patch as one from outside, applies it to the base, and follows the steps on a copy of the
 * base: both must give the tree with this id. */
void assert_applies(const struct corpus_tree *base, const char *patch, size_t length,
                    const char *result_tree, const char *what);

#endif
