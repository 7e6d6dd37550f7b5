/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RSBX_CODEC_TAR_H
#define RSBX_CODEC_TAR_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

/* Small tar archives in memory, over libarchive (ustar, with pax where a value needs it). The same
 * members give the same bytes: fixed times, numeric owners. */
struct rsbx_tar_member {
    const char *path; /* "a/b"; a folder ends with '/' */
    uint32_t mode;    /* permission bits */
    uint32_t uid, gid;
    const void *bytes; /* NULL for a folder */
    size_t length;
};

int rsbx_tar_write(struct rsbx_buf *out, const struct rsbx_tar_member *members, size_t count,
                   reposbx_error *err);

/* The bytes of the first regular file of an archive, whose base name must be `name`.
 * REPOSBX_EPROTOCOL when there is no such file or the archive is damaged; bounded by out's
 * limit. */
int rsbx_tar_read_file(struct rsbx_buf *out, const char *name, const void *bytes, size_t length,
                       reposbx_error *err);

#endif
