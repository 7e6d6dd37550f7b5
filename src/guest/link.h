/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RSBX_GUEST_LINK_H
#define RSBX_GUEST_LINK_H

#include <stddef.h>

/* Where a symlink of a tree leads, by walking its target name by name within the tree. */
enum rsbx_link_state {
    RSBX_LINK_OUTSIDE,    /* absolute, or above the root */
    RSBX_LINK_UNRESOLVED, /* nothing there, a loop, or neither file nor folder */
    RSBX_LINK_FOLDER,
    RSBX_LINK_REGULAR
};

/* `path` is the link's own path and `target` its text. For a regular file *fd is open for reading
 * and the caller's. The tree must not change meanwhile. */
enum rsbx_link_state rsbx_link_resolve(int *fd, int root_fd, const char *path, size_t path_length,
                                       const char *target);

#endif
