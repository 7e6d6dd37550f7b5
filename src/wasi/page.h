/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RSBX_WASI_PAGE_H
#define RSBX_WASI_PAGE_H

#include <stdint.h>

/*
 * The page that a compiled module's process shares with the process that started it. It arrives as
 * descriptor 3, is mapped and closed before any code of the module runs, and lies outside of what the
 * module can address. The starter believes nothing in it that could do more than mislabel an outcome.
 */
#define RSBX_WASI_PAGE_MAGIC 0x52535857U
#define RSBX_WASI_PAGE_FD 3
#define RSBX_WASI_PAGE_BYTES 4096U

enum rsbx_wasi_phase {
    RSBX_WASI_BORN = 0,    /* not yet confined */
    RSBX_WASI_RUNS = 1,    /* the module's code runs */
    RSBX_WASI_WAITS = 2,   /* it has asked for its first byte of stdin */
    RSBX_WASI_EXITED = 3,  /* proc_exit, or _start returned */
    RSBX_WASI_TRAPPED = 4, /* `trap` says why */
    RSBX_WASI_BROKEN = 5   /* the host could not confine itself; the words are on stderr */
};

/* Exit codes of the process; those of a program that ends by itself are its own. */
#define RSBX_WASI_EXIT_TRAP 134
#define RSBX_WASI_EXIT_BROKEN 125

struct rsbx_wasi_page {
    /* from the starter */
    uint32_t magic;
    uint32_t limit_pages; /* of linear memory; may be lowered while the module waits */
    /* from the process */
    uint32_t phase;
    uint32_t trap;        /* a wasm_rt_trap_t */
    uint32_t denied;      /* not 0: memory was asked for beyond the limit */
    uint32_t peak_pages;
};

#endif
