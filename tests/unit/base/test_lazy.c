/* SPDX-License-Identifier: Apache-2.0 */
/* Libraries that are loaded when they are needed: all of their functions, or none and an error that names
 * what is missing. zlib is there in every build, and nothing of this program needs it at its start. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <sys/resource.h>

#include <cmocka.h>
#include <zlib.h>

#include "base/lazy.h"

#include "base/banned.h"

#define FUNCTIONS(X) X(crc32) X(zlibVersion)

struct table {
    FUNCTIONS(RSBX_LAZY_MEMBER)
};

static void a_library_is_loaded_once(void **state)
{
    static const char *const names[] = { FUNCTIONS(RSBX_LAZY_NAME) NULL };
    struct table zlib = { .crc32 = NULL };
    struct rsbx_lazy lazy = { .soname = "libz.so.1", .names = names, .table = &zlib,
                              .table_bytes = sizeof zlib, .lock = PTHREAD_MUTEX_INITIALIZER };
    struct table first;

    (void)state;
    assert_int_equal(rsbx_lazy_load(&lazy, NULL), REPOSBX_OK);
    /* The check value of CRC-32, as in the ZIP format. */
    assert_int_equal(zlib.crc32(0, (const Bytef *)"123456789", 9), 0xCBF43926UL);
    assert_int_equal(zlib.zlibVersion()[0], '1');
    first = zlib;
    lazy.soname = "libreposbx-is-not-there.so.0"; /* it is not asked for again */
    assert_int_equal(rsbx_lazy_load(&lazy, NULL), REPOSBX_OK);
    assert_memory_equal(&first, &zlib, sizeof zlib);
}

/* An error, and the table as it was. */
static void refused(struct rsbx_lazy *lazy, struct table *table, int code, const char *names)
{
    const struct table before = *table;
    reposbx_error err = REPOSBX_ERROR_INIT;

    assert_int_equal(rsbx_lazy_load(lazy, &err), code);
    assert_non_null(strstr(err.message, names));
    assert_false(lazy->loaded);
    assert_memory_equal(&before, table, sizeof before);
}

static void what_is_missing_is_named(void **state)
{
    static const char *const names[] = { FUNCTIONS(RSBX_LAZY_NAME) NULL };
    static const char *const unknown[] = { "crc32", "no_such_function", NULL };
    struct table zlib = { .crc32 = NULL };
    struct rsbx_lazy lazy = { .soname = "libreposbx-is-not-there.so.0", .names = names, .table = &zlib,
                              .table_bytes = sizeof zlib, .lock = PTHREAD_MUTEX_INITIALIZER };

    (void)state;
    refused(&lazy, &zlib, REPOSBX_EUNAVAILABLE, "libreposbx-is-not-there.so.0");
    lazy.soname = "libz.so.1";
    lazy.names = unknown;
    refused(&lazy, &zlib, REPOSBX_EUNAVAILABLE, "no_such_function");
    lazy.names = names + 1;
    refused(&lazy, &zlib, REPOSBX_EINTERNAL, "another size");
    lazy.names = names;
    assert_int_equal(rsbx_lazy_load(&lazy, NULL), REPOSBX_OK);
}

/* No package helps where the process may open nothing more. */
static void too_few_descriptors_are_told_as_such(void **state)
{
    static const char *const names[] = { FUNCTIONS(RSBX_LAZY_NAME) NULL };
    struct table zlib = { .crc32 = NULL };
    struct rsbx_lazy lazy = { .soname = "libreposbx-is-not-there.so.0", .names = names, .table = &zlib,
                              .table_bytes = sizeof zlib, .lock = PTHREAD_MUTEX_INITIALIZER };
    reposbx_error err = REPOSBX_ERROR_INIT;
    struct rlimit before;
    struct rlimit none;

    (void)state;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    none = before;
    none.rlim_cur = 0;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    assert_int_equal(rsbx_lazy_load(&lazy, &err), REPOSBX_EIO);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_string_equal(err.message,
                        "cannot load libreposbx-is-not-there.so.0: Too many open files");
    assert_non_null(strstr(err.hint, "ulimit -n"));
    assert_int_equal(rsbx_lazy_load(&lazy, &err), REPOSBX_EUNAVAILABLE);
    assert_non_null(strstr(err.hint, "install the package"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_library_is_loaded_once),
        cmocka_unit_test(what_is_missing_is_named),
        cmocka_unit_test(too_few_descriptors_are_told_as_such),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
