/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RSBX_TEST_GUEST_GROUP_H
#define RSBX_TEST_GUEST_GROUP_H

#include "unit/guest/box.h"

/*
 * What programs that test the guest in a box share. Include <cmocka.h> first.
 *
 *     const struct CMUnitTest tests[] = { guest_test(one), guest_root_test(another) };
 *     return guest_tests(tests, false);
 */
extern struct box box;     /* new for each test */
extern struct reply reply; /* of the last request */

int guest_setup(void **state);
int guest_root_setup(void **state);
int guest_teardown(void **state);

#define guest_test(name) cmocka_unit_test_setup_teardown(name, guest_setup, guest_teardown)
/* With the guest as root. */
#define guest_root_test(name) cmocka_unit_test_setup_teardown(name, guest_root_setup, guest_teardown)
/* Runs them where they can run; the program's exit code. */
#define guest_tests(tests, need_busybox)                                                           \
    (box_unavailable(need_busybox) != 0 ? box_unavailable(need_busybox)                            \
                                        : cmocka_run_group_tests(tests, NULL, NULL))

#endif
