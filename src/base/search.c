/* SPDX-License-Identifier: Apache-2.0 */
#include "base/search.h"

#include "base/banned.h"

size_t rsbx_search_first(const void *elements, size_t count, size_t size, rsbx_search_order *order,
                         const void *key)
{
    const char *bytes = elements;
    size_t low = 0, high = count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (order(bytes + middle * size, key) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

const void *rsbx_search(const void *elements, size_t count, size_t size, rsbx_search_order *order,
                        const void *key)
{
    size_t first = rsbx_search_first(elements, count, size, order, key);
    const char *found;

    if (first == count)
        return NULL;
    found = (const char *)elements + first * size;
    return order(found, key) == 0 ? found : NULL;
}
