/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/source/fixture.h"

#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "base/clock.h"

#include "base/banned.h"

/* 20,000 files in 200 folders, 80 MB, packed and loose: prints the time, and fails only where it is
 * far from usable. */
#define FILES 20000U
#define FILE_BYTES 4096U
#define TOO_SLOW_MS 60000U

static void fill(const struct fx *fx)
{
    static uint8_t bytes[FILE_BYTES];
    uint32_t seed = 1;

    for (unsigned i = 0; i < FILES; i++) {
        char name[64];

        for (size_t k = 0; k < sizeof bytes; k++) {
            seed = seed * 1664525U + 1013904223U;
            bytes[k] = (uint8_t)('a' + (seed >> 28));
        }
        (void)snprintf(name, sizeof name, "d%03u/f%05u.txt", i % 200, i);
        fx_write(fx, name, bytes, sizeof bytes);
    }
}

/* Processor time of this process (0) or its ended children (1), for a busy machine. */
static unsigned long long cpu_ms(int children)
{
    struct rusage usage;

    assert_int_equal(getrusage(children ? RUSAGE_CHILDREN : RUSAGE_SELF, &usage), 0);
    return (unsigned long long)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000U +
           (unsigned long long)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1000U;
}

static void measure(const char *what, const struct rsbx_source_options *options)
{
    static struct fx_result result;
    uint64_t from = rsbx_now_ns();
    unsigned long long own_ms = cpu_ms(0);
    unsigned long long child_ms = cpu_ms(1);
    uint64_t took;

    fx_read(&result, options);
    took = (rsbx_now_ns() - from) / 1000000U;
    if (result.rc != 0)
        fail_msg("%s: %s", what, result.err.message);
    assert_int_equal(result.files, FILES);
    assert_int_equal(result.bytes, (uint64_t)FILES * FILE_BYTES);
    print_message("%s: %u files, %u MB in %llu ms (processor: parent %llu ms, child %llu ms)\n",
                  what, FILES, FILES / 1000 * FILE_BYTES / 1000, (unsigned long long)took,
                  cpu_ms(0) - own_ms, cpu_ms(1) - child_ms);
    assert_true(took < TOO_SLOW_MS);
}

static void test_speed(void **state)
{
    struct fx *fx = *state;
    char commit[41];
    struct rsbx_source_options options;

    fill(fx);
    FX_GIT(NULL, fx, "config", "gc.auto", "0");
    FX_GIT(NULL, fx, "config", "core.looseCompression", "1");
    fx_commit_all(commit, fx);
    options = fx_options(fx, commit);
    measure("loose objects", &options);
    FX_GIT(NULL, fx, "repack", "-q", "-a", "-d", "--window=1");
    measure("one pack", &options);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_speed, fx_setup, fx_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
