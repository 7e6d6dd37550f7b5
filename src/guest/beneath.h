/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RSBX_GUEST_BENEATH_H
#define RSBX_GUEST_BENEATH_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Opening below a root: no symlink at any component, no "..", no magic link. Paths are relative,
 * "" is the root itself. Functions return a descriptor (O_CLOEXEC) or a negative errno.
 */

/* As the fingerprint format bounds them; a path is one byte less than Linux's PATH_MAX. */
#define RSBX_GUEST_MAX_PATH 4095U
#define RSBX_GUEST_MAX_COMPONENTS 256U

/* Whether the path has only plain components: none empty, ".", ".."; and is within the bounds. */
bool rsbx_path_ok(const char *path, size_t length);
/* Length of the folder part: 0 for a path of one component. */
size_t rsbx_path_folder(const char *path, size_t length);

int rsbx_open_root(const char *folder);
int rsbx_open_beneath(int root_fd, const char *path, int flags);

/* The folder that was used last, for writers that go from file to file. */
struct rsbx_folder_cache {
    int root_fd;
    int fd; /* -1: none yet */
    size_t length;
    char path[RSBX_GUEST_MAX_PATH + 1U];
};

void rsbx_folder_cache_start(struct rsbx_folder_cache *cache, int root_fd);
/* The folder, made with its parents (0755) where missing; the descriptor is the cache's. */
int rsbx_folder_cache_get(struct rsbx_folder_cache *cache, const char *path, size_t length);

#endif
