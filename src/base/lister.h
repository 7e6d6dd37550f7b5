/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RSBX_BASE_LISTER_H
#define RSBX_BASE_LISTER_H

#include <dirent.h>

#include "base/cleanup.h"
#include "base/error.h"

/* The names in a folder, one by one. What cannot be listed to its end is an error and never a shorter list:
 * somebody decides by it what may be removed. */
struct rsbx_lister {
    DIR *stream;
    const char *what; /* the caller's, for messages: "cannot list WHAT" */
};

/* Begins with the first name of the folder that dir_fd stands for; dir_fd stays the caller's. */
int rsbx_lister_open(struct rsbx_lister *out, int dir_fd, const char *what, reposbx_error *err);

/* The next name, without "." and "..", in no order: 1 and *name (valid until the next call), 0 behind the
 * last one, negative REPOSBX_E* on failure. */
int rsbx_lister_next(const char **name, struct rsbx_lister *lister, reposbx_error *err);

/* A zeroed one may be closed. */
static inline void rsbx_lister_autop(struct rsbx_lister *lister)
{
    int saved_errno = errno;

    if (lister->stream != NULL)
        (void)closedir(lister->stream);
    lister->stream = NULL;
    errno = saved_errno;
}

#endif
