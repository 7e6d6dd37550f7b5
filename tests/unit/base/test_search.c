/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/search.h"

#include "base/banned.h"

#define MOST 40U

struct element {
    char other[3];
    int value;
};

static int by_value(const void *element, const void *key)
{
    return ((const struct element *)element)->value - *(const int *)key;
}

/* Even numbers, each as often as `times` says: every number up to behind the last is looked for. */
static void in_arrays_of_every_length(size_t times)
{
    struct element elements[MOST * 3];

    for (size_t count = 0; count <= MOST; count++) {
        for (size_t i = 0; i < count * times; i++)
            elements[i].value = 2 * (int)(i / times);
        for (int key = -1; key <= 2 * (int)count; key++) {
            size_t wanted = key < 0 ? 0 : ((size_t)key + 1) / 2;
            size_t first = rsbx_search_first(elements, count * times, sizeof *elements, by_value, &key);
            const void *found = rsbx_search(elements, count * times, sizeof *elements, by_value, &key);

            if (wanted > count)
                wanted = count;
            assert_int_equal(first, wanted * times);
            if (key >= 0 && key % 2 == 0 && (size_t)key / 2 < count)
                assert_ptr_equal(found, &elements[first]);
            else
                assert_null(found);
        }
    }
}

static void the_first_that_is_not_before_is_found(void **state)
{
    (void)state;
    in_arrays_of_every_length(1);
}

static void of_equal_ones_the_first_is_found(void **state)
{
    (void)state;
    in_arrays_of_every_length(2);
    in_arrays_of_every_length(3);
}

static void in_nothing_nothing_is_found(void **state)
{
    const int key = 0;

    (void)state;
    assert_int_equal(rsbx_search_first(NULL, 0, sizeof(struct element), by_value, &key), 0);
    assert_null(rsbx_search(NULL, 0, sizeof(struct element), by_value, &key));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_that_is_not_before_is_found),
        cmocka_unit_test(of_equal_ones_the_first_is_found),
        cmocka_unit_test(in_nothing_nothing_is_found),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
