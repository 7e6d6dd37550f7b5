/* SPDX-License-Identifier: Apache-2.0 */
/* The structure of a ZIP: what is taken has members that lie in the file, side by side and in its order, under
 * names that could be unpacked. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "artifact/bundle.h"
#include "artifact/internal.h"
#include "base/cleanup.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct rsbx_bundle_limits limits = { .max_members = 16, .max_bytes = 1U << 20 };
    RSBX_AUTO(rsbx_zip_rows) struct rsbx_zip_rows rows = { NULL, 0 };
    uint64_t total = 0;

    if (rsbx_zip_directory(&rows, data, size, &limits, NULL) != 0)
        return 0;
    for (size_t i = 0; i < rows.count; i++) {
        const struct rsbx_zip_row *row = &rows.rows[i];
        size_t length = strlen(row->name) - (row->folder ? 2 : 0); /* "folder//" */

        if (row->at > size || row->packed > size - row->at ||
            rsbx_bundle_check_name(row->name, length, NULL) != 0)
            abort();
        total += row->packed;
    }
    if (total > size)
        abort();
    return 0;
}
