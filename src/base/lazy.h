/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RSBX_BASE_LAZY_H
#define RSBX_BASE_LAZY_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

/*
 * A shared library that is loaded when it is first needed. A process that needs it never (a command
 * in a slot, say) is spared its start and that of everything behind it.
 *
 * The functions that are called stand in a list FUNCTIONS(X), X(name) for each. RSBX_LAZY_TABLE(zip,
 * FUNCTIONS) in a header declares the struct of typed pointers rsbx_zip and rsbx_zip_load(), which is
 * rsbx_lazy_load of it; RSBX_LAZY_LIBRARY(zip, FUNCTIONS, SONAME) in a source file defines both.
 */
struct rsbx_lazy {
    const char *soname;        /* what the build was made with, as the loader finds it */
    const char *const *names;  /* of the functions, NULL behind */
    void *table;               /* the struct of pointers, in the order of names */
    size_t table_bytes;
    pthread_mutex_t lock;
    bool loaded;
};

#define RSBX_LAZY_MEMBER(name) __typeof__(&name) name;
#define RSBX_LAZY_NAME(name) #name,

#define RSBX_LAZY_TABLE(library, functions)                                                        \
    struct rsbx_##library {                                                                        \
        functions(RSBX_LAZY_MEMBER)                                                                \
    };                                                                                             \
    extern struct rsbx_##library rsbx_##library;                                                   \
    int rsbx_##library##_load(reposbx_error *err)

#define RSBX_LAZY_LIBRARY(library, functions, loader_name)                                         \
    struct rsbx_##library rsbx_##library;                                                          \
    int rsbx_##library##_load(reposbx_error *err)                                                  \
    {                                                                                              \
        static const char *const names[] = { functions(RSBX_LAZY_NAME) NULL };                     \
        static struct rsbx_lazy lazy = { .soname = loader_name,                                    \
                                         .names = names,                                           \
                                         .table = &rsbx_##library,                                 \
                                         .table_bytes = sizeof rsbx_##library,                     \
                                         .lock = PTHREAD_MUTEX_INITIALIZER };                      \
                                                                                                   \
        return rsbx_lazy_load(&lazy, err);                                                         \
    }                                                                                              \
    struct rsbx_##library

/* Idempotent, from any thread; it stays loaded. REPOSBX_EUNAVAILABLE when the library or a function
 * of it is not there; the table is untouched then. A confined child opens nothing, so its parent
 * calls this before the fork. */
int rsbx_lazy_load(struct rsbx_lazy *lazy, reposbx_error *err);

#endif
