/* SPDX-License-Identifier: Apache-2.0 */
/* WebAssembly modules: what is taken is taken again without its custom sections and data, and says the same. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "wasm/internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct rsbx_wasm_parsed first = { .imports = false };
    struct rsbx_wasm_parsed second = { .imports = false };

    if (rsbx_wasm_parse(&first, data, size, NULL) != 0)
        return 0;
    if (first.bare.length > size || first.image.length > RSBX_WASM_MAX_IMAGE_BYTES ||
        rsbx_wasm_parse(&second, first.bare.data, first.bare.length, NULL) != 0 ||
        second.imports != first.imports || second.bare.length != first.bare.length ||
        memcmp(second.bare.data, first.bare.data, first.bare.length) != 0)
        abort();
    rsbx_wasm_parsed_dispose(&first);
    rsbx_wasm_parsed_dispose(&second);
    return 0;
}
