/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RSBX_ARTIFACT_INTERNAL_H
#define RSBX_ARTIFACT_INTERNAL_H

#include <stdbool.h>

#include "artifact/bundle.h"

/*
 * What the files of this room share: bundle.c makes the bytes, publish.c puts them in place,
 * directory.c reads the structure of any ZIP by itself, verify.c adds the contents through libzip.
 */

/* What a ZIP may have beyond the content of its members: headers, names twice, zip64 records, and
 * deflate's own overhead. */
#define RSBX_ZIP_MEMBER_OVERHEAD 160U
#define RSBX_ZIP_FIXED_OVERHEAD 4096U

/* Whether a member may have this name: REPOSBX_EPOLICY when not. */
int rsbx_bundle_check_name(const char *name, size_t length, reposbx_error *err);

/* Byte order; and "a/b" when "a" is a member: no place to extract it to. Names are NUL-terminated
 * and sorted. Returns the second of the two names, or NULL. */
const char *rsbx_bundle_conflict(const char *const *sorted, size_t count);

/* A file that has no name yet, or only a temporary one. */
struct rsbx_pending {
    int dir_fd, fd;      /* -1: none */
    char name[256];      /* the last component of the destination */
    char temporary[32];  /* "" with O_TMPFILE */
};
/* Refuses an existing destination (REPOSBX_EEXISTS). `named` forces a named temporary, as on file
 * systems without O_TMPFILE. */
int rsbx_pending_open(struct rsbx_pending *out, const char *path, bool named, reposbx_error *err);
/* Gives it its name, never replacing one, and syncs the folder. */
int rsbx_pending_publish(struct rsbx_pending *pending, reposbx_error *err);
/* Removes what was not published; closes. */
void rsbx_pending_dispose(struct rsbx_pending *pending);
void rsbx_pending_autop(struct rsbx_pending *pending);

/* One row of the central directory, checked. */
struct rsbx_zip_row {
    char *name;
    uint64_t size;       /* unpacked */
    uint64_t packed, at; /* its bytes in the file */
    uint32_t sum;        /* CRC-32 */
    bool deflated;       /* else stored */
    bool folder; /* a row that only says that a folder exists, as other writers have them: no member */
};
struct rsbx_zip_rows {
    struct rsbx_zip_row *rows;
    size_t count;
};
void rsbx_zip_rows_autop(struct rsbx_zip_rows *rows);
/* Reads the structure of a whole ZIP in memory: one directory, local headers that agree with it,
 * no byte outside of members and directory. */
int rsbx_zip_directory(struct rsbx_zip_rows *out, const uint8_t *bytes, size_t length,
                       const struct rsbx_bundle_limits *limits, reposbx_error *err);

/* The file behind fd, from its start. */
int rsbx_bundle_verify_fd(struct rsbx_bundle_result *out, int fd,
                          const struct rsbx_bundle_limits *limits, reposbx_error *err);

#endif
