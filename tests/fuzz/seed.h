/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RSBX_TESTS_FUZZ_SEED_H
#define RSBX_TESTS_FUZZ_SEED_H

#include <stdbool.h>
#include <stddef.h>

/* What the programs that write seeds share: FOLDER/name with these bytes, and an end of the program where
 * something is not as it must be (a seed that its own decoder refuses is of no use). */
void seed_write(const char *folder, const char *name, const void *bytes, size_t length);
void seed_must(bool holds);

#endif
