/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RSBX_WASI_HOST_H
#define RSBX_WASI_HOST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <wasm-rt.h>

#include "wasi/page.h"

/*
 * The host of one WebAssembly module: a static program that is compiled together with what wasm2c made
 * of the module. It hands the module its arguments, the three standard streams, clocks and random
 * bytes; every other function of WASI preview 1 answers that there is no such thing.
 *
 * Order of events, each a precondition of the next:
 *   1. map the page, close descriptor 3, see that 0 to 2 are the only ones left
 *   2. reserve the linear memory with its guard pages, install the handler of faults
 *   3. no_new_privs, the filter of system calls
 *   4. the module's code: its start function, then _start
 */

/* What the generated code calls the module that its imports come from. */
struct Z_wasi_snapshot_preview1_instance_t {
    wasm_rt_memory_t *memory;
    uint32_t argc;
    char **argv;
    volatile struct rsbx_wasi_page *page;
    bool closed[3]; /* standard streams that the module closed */
};

typedef struct Z_wasi_snapshot_preview1_instance_t rsbx_wasi;

/* Where guest bytes [at, at + length) are, or NULL when they are not all in linear memory. */
void *rsbx_wasi_span(const rsbx_wasi *wasi, uint32_t at, uint64_t length);

/* Ends the process; the page says how. */
_Noreturn void rsbx_wasi_exit(rsbx_wasi *wasi, uint32_t code);

/* no_new_privs and the filter: from here on only the calls that wasi.c makes, and mprotect() to
 * read-write below [memory, memory + reserved). 0, or -1 with errno. */
int rsbx_wasi_confine(const void *memory, uint64_t reserved);

#endif
