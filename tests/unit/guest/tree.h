/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RSBX_TEST_GUEST_TREE_H
#define RSBX_TEST_GUEST_TREE_H

#include <stddef.h>
#include <sys/types.h>

/* Small trees on the host's disk; every failure is a failed assertion. Paths are "root/…". */

/* Writes a file with its parents; the content is text. */
void tree_file(const char *root, const char *path, const char *text, mode_t mode);
void tree_bytes(const char *root, const char *path, const void *bytes, size_t length, mode_t mode);
void tree_folder(const char *root, const char *path);
void tree_link(const char *root, const char *path, const char *target);
/* The file's content, NUL-terminated, for free(); NULL when there is none. */
char *tree_read(const char *root, const char *path);
mode_t tree_mode(const char *root, const char *path); /* st_mode, 0 when absent */
void tree_remove(const char *folder);

#endif
