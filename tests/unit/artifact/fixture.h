/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RSBX_TEST_ARTIFACT_FIXTURE_H
#define RSBX_TEST_ARTIFACT_FIXTURE_H

#include <stddef.h>

#include "artifact/bundle.h"

/*
 * A folder of its own for each test, and where its ZIP goes. Include <cmocka.h> first.
 */
extern char folder[64];
extern char path[128];
int enter(void **state);
int leave(void **state);
#define in_folder(name) cmocka_unit_test_setup_teardown(name, enter, leave)

/* How many names a folder has; SIZE_MAX when it cannot be read. */
size_t files_in(const char *place);
/* Aborts when there is none: it serves children too. */
struct rsbx_bundle *new_bundle(const struct rsbx_bundle_limits *limits);

#endif
