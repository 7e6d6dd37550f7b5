/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RSBX_TEST_CORPUS_H
#define RSBX_TEST_CORPUS_H

#include <stddef.h>
#include <stdint.h>

/* Pairs of trees made from a kind and a seed: the same on every machine. Aborts without memory. */
struct corpus_file {
    char *path;
    size_t path_length;
    uint32_t mode;
    char *bytes; /* never NULL */
    size_t length;
};

struct corpus_tree {
    struct corpus_file *files; /* no order */
    size_t count, capacity;
};

struct corpus_case {
    struct corpus_tree base, result;
};

size_t corpus_kind_count(void);
const char *corpus_kind_name(size_t kind);
/* How many seeds of this kind are worth their time. */
size_t corpus_kind_repeats(size_t kind);
void corpus_make(struct corpus_case *out, size_t kind, uint64_t seed);
void corpus_dispose(struct corpus_case *one);
const struct corpus_file *corpus_find(const struct corpus_tree *tree, const char *path,
                                      size_t length);

#endif
