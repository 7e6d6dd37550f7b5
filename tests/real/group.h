/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RSBX_TESTS_GROUP_H
#define RSBX_TESTS_GROUP_H

#include "real/place.h"

/*
 * The place of a group of tests: all of them run in one.
 *
 *     cmocka_run_group_tests_name(NAME, tests, group_setup, group_teardown)
 */
extern struct place place;
int group_setup(void **state);
int group_teardown(void **state);

/* That `git apply --index` of the patch in a fresh clone of the place's repository gives the tree that the
 * diff names. */
void applies(const reposbx_diff_result *diff);

#endif
