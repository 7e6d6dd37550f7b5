/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RSBX_WASM_IMPORTS_H
#define RSBX_WASM_IMPORTS_H

#include <stddef.h>

/* The functions of WASI preview 1, by name and type: a letter for each parameter (i: 32 bits, l: 64
 * bits), a colon, and the result. */
struct rsbx_wasm_import {
    const char *name, *type;
};

#define RSBX_WASM_IMPORT_MODULE "wasi_snapshot_preview1"

/* NULL when there is no function of that name. */
const struct rsbx_wasm_import *rsbx_wasm_import_find(const char *name, size_t length);

#endif
