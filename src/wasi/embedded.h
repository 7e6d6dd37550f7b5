/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RSBX_WASI_EMBEDDED_H
#define RSBX_WASI_EMBEDDED_H

#include <stddef.h>

/* The sources of the WASI host as they were when this library was built: they are compiled where a
 * module is installed, so that an installed library needs no file beside it. */
struct rsbx_wasi_file {
    const char *name; /* NULL ends the table */
    const unsigned char *bytes;
    size_t size;
};

extern const struct rsbx_wasi_file rsbx_wasi_files[];

#endif
