/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RSBX_GUEST_CONTENT_H
#define RSBX_GUEST_CONTENT_H

#include <stdint.h>
#include <sys/stat.h>

#include "guest/guest.h"
#include "guest/io.h"

/* Longest target of a symlink, and one byte more that shows that there is none longer. */
#define RSBX_GUEST_LINK_ROOM 4097U

/* Git's mode of what lstat says: 0100644, 0100755, 0120000, 040000, or 0 for all else. */
uint32_t rsbx_git_mode(const struct stat *status);
/* Why Git cannot carry it, from the type: fifo, socket, device; else RSBX_OMIT_NONE. */
uint32_t rsbx_omit_reason(const struct stat *status);
/* A regular file for reading, never blocking, with its status; or a negative errno: -EINVAL when
 * it is not regular, -ELOOP for a symlink. */
int rsbx_open_regular(int folder_fd, const char *name, struct stat *status);
/* The target of a symlink; its length or a negative errno. */
long rsbx_read_link(int folder_fd, const char *name, char target[RSBX_GUEST_LINK_ROOM]);
/* DATA… END of exactly `size` bytes; fails the request with EIO when the file has another size by
 * now. Closes the descriptor. */
void rsbx_send_file(struct rsbx_guest *guest, int fd, uint64_t size, const char *path,
                    size_t path_length);
/* DATA END of a few bytes. */
void rsbx_send_bytes(struct rsbx_guest *guest, const void *bytes, size_t length);
void rsbx_send_entry(const struct rsbx_entry *entry);
/* Fails the request with EFBIG when `size` more bytes would go beyond max_bytes. */
void rsbx_count_bytes(struct rsbx_guest *guest, uint64_t *total, uint64_t size, const char *path,
                      size_t path_length);
/* Reads up to a whole piece; the number of bytes, 0 at the end, or a negative errno. */
long rsbx_read_piece(int fd, void *bytes, size_t length);
/* The next piece of content that comes in: never empty, never more than is missing. */
void rsbx_receive_piece(struct rsbx_message *message, uint64_t left);
/* `size` bytes of content into an open file; 0 or a negative errno. */
int rsbx_receive_file(int fd, uint64_t size);
/* A symlink's target of `size` bytes, NUL-terminated; 0 or a negative errno. */
int rsbx_receive_target(char target[RSBX_GUEST_LINK_ROOM], uint64_t size);
/* Whether what two descriptors give from here on is the same: 1, 0, or a negative errno. */
int rsbx_same_content(int left_fd, int right_fd);
/* All of it, or a negative errno. */
int rsbx_write_all(int fd, const void *bytes, size_t length);

#endif
