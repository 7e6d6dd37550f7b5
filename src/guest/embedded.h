/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RSBX_GUEST_EMBEDDED_H
#define RSBX_GUEST_EMBEDDED_H

#include <stddef.h>

/* The guest program as built with this library: a static executable for the engine's platform. */
extern const unsigned char rsbx_guest_binary[];
extern const size_t rsbx_guest_binary_size;

#endif
