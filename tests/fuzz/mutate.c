/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What runs a fuzz target where there is no libFuzzer: the seeds as they are, then so many mutations of
 * them, the same ones in every run. It does not look for new paths, as libFuzzer does; it holds what a
 * target promises, in every build and with the sanitizers of that build.
 * usage: PROGRAM RUNS FOLDER-OF-SEEDS
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fd.h"
#include "base/lister.h"

#define MAX_SEEDS 256U
#define MAX_SEED_BYTES (64U << 10)
/* A mutation may add as much as there was, a few times. */
#define MAX_INPUT_BYTES (4U * MAX_SEED_BYTES)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
__attribute__((weak)) int LLVMFuzzerInitialize(int *count, char ***arguments);

static struct rsbx_buf seeds[MAX_SEEDS];
static size_t seed_count;
static uint64_t state = 0x9e3779b97f4a7c15U;

/* xorshift64: below `limit`, which is not 0. */
static size_t below(size_t limit)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (size_t)(state % limit);
}

static int by_bytes(const void *a, const void *b)
{
    const struct rsbx_buf *first = a, *second = b;
    size_t shorter = first->length < second->length ? first->length : second->length;
    int order = memcmp(first->data, second->data, shorter);

    return order != 0 ? order : (first->length > second->length) - (first->length < second->length);
}

static int read_seeds(const char *folder, reposbx_error *err)
{
    RSBX_AUTO(rsbx_fd) int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    RSBX_AUTO(rsbx_lister) struct rsbx_lister lister = { NULL, NULL };
    const char *name;
    int rc = rsbx_lister_open(&lister, fd, "the seeds", err);

    while (rc == 0 && (rc = rsbx_lister_next(&name, &lister, err)) > 0) {
        if (seed_count == MAX_SEEDS)
            return rsbx_fail(err, REPOSBX_ELIMIT, "more than %u seeds", MAX_SEEDS);
        seeds[seed_count] = (struct rsbx_buf)RSBX_BUF_INIT(MAX_SEED_BYTES);
        rc = rsbx_read_file_at(&seeds[seed_count], fd, name, err);
        if (rc == 0 && seeds[seed_count].length > 0)
            seed_count++;
    }
    if (rc == 0 && seed_count == 0)
        rc = rsbx_fail(err, REPOSBX_ENOTFOUND, "no seeds in %s", folder);
    /* A folder's order is anybody's. */
    qsort(seeds, seed_count, sizeof seeds[0], by_bytes);
    return rc;
}

/* One change in bytes[length]; the new length. */
static size_t mutate(uint8_t *bytes, size_t length)
{
    static const uint8_t odd[] = { 0, 1, '\n', ' ', '"', '/', '0', 0x7f, 0x80, 0xff };
    size_t at = length > 0 ? below(length) : 0;
    size_t count = 1 + below(16);

    if (count > length - at)
        count = length - at;
    if (count == 0 || (length <= MAX_INPUT_BYTES - 16 && below(8) == 0)) {
        size_t more = 1 + below(16);

        memmove(bytes + at + more, bytes + at, length - at);
        for (size_t i = 0; i < more; i++)
            bytes[at + i] = (uint8_t)below(256);
        return length + more;
    }
    switch (below(5)) {
    case 0: /* a bit */
        bytes[at] ^= (uint8_t)(1U << below(8));
        return length;
    case 1: /* a byte that means something to somebody */
        bytes[at] = odd[below(sizeof odd)];
        return length;
    case 2: /* something goes */
        memmove(bytes + at, bytes + at + count, length - at - count);
        return length - count;
    case 3: /* something stands elsewhere too */
        memmove(bytes + below(length - count + 1), bytes + at, count);
        return length;
    default: /* the end is missing */
        return below(4) == 0 ? at : length;
    }
}

int main(int argc, char **argv)
{
    reposbx_error err = REPOSBX_ERROR_INIT;
    unsigned long runs = argc == 3 ? strtoul(argv[1], NULL, 10) : 0;
    uint8_t *bytes = malloc(MAX_INPUT_BYTES);

    if (bytes == NULL || runs == 0) {
        (void)fprintf(stderr, "usage: %s RUNS FOLDER-OF-SEEDS\n", argv[0]);
        return 64;
    }
    if (LLVMFuzzerInitialize != NULL)
        (void)LLVMFuzzerInitialize(&argc, &argv);
    if (read_seeds(argv[2], &err) != 0) {
        (void)fprintf(stderr, "%s\n", err.message);
        return 1;
    }
    for (size_t i = 0; i < seed_count; i++)
        (void)LLVMFuzzerTestOneInput((const uint8_t *)seeds[i].data, seeds[i].length);
    for (unsigned long run = 0; run < runs; run++) {
        const struct rsbx_buf *seed = &seeds[below(seed_count)];
        size_t length = seed->length;
        /* Of its exact size, so that a read behind it shows. */
        uint8_t *exact;

        memcpy(bytes, seed->data, length);
        for (size_t changes = 1 + below(6); changes > 0; changes--)
            length = mutate(bytes, length);
        exact = malloc(length + (length == 0));
        if (exact == NULL)
            return 1;
        memcpy(exact, bytes, length);
        (void)LLVMFuzzerTestOneInput(exact, length);
        free(exact);
    }
    (void)printf("%zu seeds, %lu mutations\n", seed_count, runs);
    for (size_t i = 0; i < seed_count; i++)
        rsbx_buf_dispose(&seeds[i]);
    free(bytes);
    return 0;
}
