/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RSBX_TEST_GITRUN_H
#define RSBX_TEST_GITRUN_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

/* Runs the git of the machine in an environment of our own: no system configuration, no global one
 * (or, when home is given, the one in that folder), fixed names and dates. */
struct gitrun {
    const char *git_dir, *work_tree, *index; /* NULL: not set */
    const char *home;                        /* NULL: no global configuration at all */
    const char *input;                       /* file for stdin; NULL: /dev/null */
};

/* The exit status, or -1; stdout goes to `out` (NULL: dropped), stderr is dropped when `quiet`. */
int gitrun(struct rsbx_buf *out, const struct gitrun *how, bool quiet, const char *const *argv);

bool gitrun_write_file(const char *path, const void *bytes, size_t length);

#endif
