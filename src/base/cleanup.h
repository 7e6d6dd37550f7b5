/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RSBX_BASE_CLEANUP_H
#define RSBX_BASE_CLEANUP_H

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

/*
 * Scope-bound clean-up. A variable declared with RSBX_AUTO(name) is released by <name>_autop when
 * its scope ends, on every path; errno is kept. A function that uses it has no goto. To hand the
 * value on, steal it:
 *
 *     RSBX_AUTO(rsbx_text) char *line = NULL;
 *     RSBX_AUTO(rsbx_fd) int dir_fd = -1;
 *     …
 *     *out = rsbx_text_steal(&line);
 *
 * RSBX_CLEANUP(name, type, free_function) generates name_autop and name_steal for a pointer type.
 */
#define RSBX_AUTO(name) __attribute__((cleanup(name##_autop)))

#define RSBX_CLEANUP(name, type, release)                                                          \
    static inline void name##_autop(type *place)                                                   \
    {                                                                                              \
        int saved_errno = errno;                                                                   \
        if (*place != NULL)                                                                        \
            release(*place);                                                                       \
        *place = NULL;                                                                             \
        errno = saved_errno;                                                                       \
    }                                                                                              \
    static inline __attribute__((unused)) type name##_steal(type *place)                           \
    {                                                                                              \
        type value = *place;                                                                       \
        *place = NULL;                                                                             \
        return value;                                                                              \
    }                                                                                              \
    struct name##_cleanup_is_defined

typedef char *rsbx_text_ptr;
typedef void *rsbx_memory_ptr;

RSBX_CLEANUP(rsbx_text, rsbx_text_ptr, free);
RSBX_CLEANUP(rsbx_memory, rsbx_memory_ptr, free);

/* Closes once; an error of close() says nothing that could be acted on (never retried). */
static inline void rsbx_fd_autop(int *place)
{
    int saved_errno = errno;

    if (*place >= 0)
        (void)close(*place);
    *place = -1;
    errno = saved_errno;
}

static inline __attribute__((unused)) int rsbx_fd_steal(int *place)
{
    int fd = *place;

    *place = -1;
    return fd;
}

#endif
