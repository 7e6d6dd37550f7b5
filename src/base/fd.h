/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RSBX_BASE_FD_H
#define RSBX_BASE_FD_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/error.h"

/* Writes all bytes, over short writes and EINTR; 0 or -1 with errno. Blocking descriptors only. */
int rsbx_write_all(int fd, const void *bytes, size_t length);

/* Reads until `length` bytes are there or the end comes; the count, or -1 with errno. */
ssize_t rsbx_read_full(int fd, void *bytes, size_t length);

/* A small file (of /proc, say) as NUL-terminated text in out[size]; longer ones are cut. Missing:
 * REPOSBX_ENOTFOUND. */
int rsbx_read_small(char *out, size_t size, const char *path, reposbx_error *err);

/* A whole file relative to dir_fd (AT_FDCWD allowed) into buf, up to buf's limit. Symlinks at the
 * last component are not followed. Missing: REPOSBX_ENOTFOUND; too long: REPOSBX_ELIMIT. */
int rsbx_read_file_at(struct rsbx_buf *out, int dir_fd, const char *name, reposbx_error *err);

/* The same from a place on; one beyond the end gives nothing. */
int rsbx_read_file_from(struct rsbx_buf *out, int dir_fd, const char *name, off_t from,
                        reposbx_error *err);

/* Replaces dir_fd/name by the bytes so that after a crash either the old or the new content is
 * there: temporary file (mode 0600), fsync, rename, fsync of the folder. */
int rsbx_replace_file_at(int dir_fd, const char *name, const void *bytes, size_t length,
                         reposbx_error *err);

/* fsync of a file or folder. */
int rsbx_sync_fd(int fd, const char *what, reposbx_error *err);

/* Removes dir_fd/name and everything below it without following symlinks; what is missing is fine.
 * Does not recurse on the C stack. */
int rsbx_remove_tree_at(int dir_fd, const char *name, reposbx_error *err);

/* Kernel random bytes. */
int rsbx_random(void *out, size_t length, reposbx_error *err);

/* poll() of one descriptor for `events` until the deadline: 1 ready, 0 deadline passed or cancelled
 * (rsbx_deadline_cancelled tells), -1 errno. */
int rsbx_wait_fd(int fd, short events, struct rsbx_deadline deadline);

/* flock() with LOCK_SH or LOCK_EX, asked for again and again since the kernel's own wait has no
 * deadline; the same answers, 1 with the lock. Asks once however late it is. */
int rsbx_wait_lock(int fd, int operation, struct rsbx_deadline deadline);

#endif
