/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RSBX_BASE_SEARCH_H
#define RSBX_BASE_SEARCH_H

#include <stddef.h>

/* How an element stands to what is looked for: below 0 before it, 0 at it, above 0 behind it. The key is the
 * caller's, and need be no element. */
typedef int rsbx_search_order(const void *element, const void *key);

/* In `count` elements of `size` bytes each that are sorted by `order`: the index of the first one that does
 * not stand before the key, or `count` when all do. `elements` may be NULL when count is 0. */
size_t rsbx_search_first(const void *elements, size_t count, size_t size, rsbx_search_order *order,
                         const void *key);

/* The first element that stands at the key, or NULL. */
const void *rsbx_search(const void *elements, size_t count, size_t size, rsbx_search_order *order,
                        const void *key);

#endif
