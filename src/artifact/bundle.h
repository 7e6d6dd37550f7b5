/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RSBX_ARTIFACT_BUNDLE_H
#define RSBX_ARTIFACT_BUNDLE_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

/*
 * The deterministic ZIP. Members in byte order of their names, one fixed DOS time (1980-01-01
 * 00:00:00), mode 0644 or 0755 as a Unix attribute, deflate at one fixed level (or store where that is smaller:
 * decided by rule, not by luck), no comment, no extra fields that depend on the host. The same members give the
 * same bytes on every host, in every time zone, locale and order of adding.
 *
 * The writer holds all bytes until finish: they are hashed before libzip sees them.
 *
 *     rsbx_bundle_new(&bundle, &limits, err);
 *     rsbx_bundle_add(bundle, name, length, mode, bytes, size, err);      bytes are copied
 *     rsbx_bundle_finish(&result, bundle, "out.zip", err);                 temporary beside it, 0600, O_EXCL,
 *                                                                          fsync, rename without replace
 *     rsbx_bundle_free(bundle);
 */
struct rsbx_bundle;

struct rsbx_bundle_limits {
    uint64_t max_members;
    uint64_t max_bytes;      /* content of all members; also the bound on the written file */
};

struct rsbx_bundle_member {
    char *name;              /* bytes, NUL-terminated */
    uint64_t size;
    char sha256[65];
};

struct rsbx_bundle_result {
    uint64_t size;           /* of the ZIP */
    char sha256[65];         /* of the ZIP */
    struct rsbx_bundle_member *members;  /* in the order of the ZIP */
    size_t member_count;
};
void rsbx_bundle_result_dispose(struct rsbx_bundle_result *result);

int rsbx_bundle_new(struct rsbx_bundle **out, const struct rsbx_bundle_limits *limits,
                    reposbx_error *err);
void rsbx_bundle_free(struct rsbx_bundle *bundle);

/* Member names: relative POSIX paths by the rules of rsbx_path_request, well-formed UTF-8 (else REPOSBX_EPOLICY:
 * ZIP readers disagree about other bytes). The same name twice is REPOSBX_EINVALID; over a limit REPOSBX_ELIMIT. */
int rsbx_bundle_add(struct rsbx_bundle *bundle, const char *name, size_t name_length, uint32_t mode,
                    const void *bytes, size_t length, reposbx_error *err);

/* Writes, syncs, reopens and verifies, then renames to `path` without replacing. No member:
 * REPOSBX_EINVALID. Path exists (also as a dangling symlink) or its folder is missing: REPOSBX_EEXISTS.
 * Disk full: REPOSBX_EIO. On any failure no file of ours is left. */
int rsbx_bundle_finish(struct rsbx_bundle_result *out, struct rsbx_bundle *bundle, const char *path,
                       reposbx_error *err);

/* Re-reads any ZIP and checks: opens, every name allowed, no duplicate, no link or folder entry, not
 * encrypted, methods store/deflate only, size and CRC right, totals within limits (bombs are stopped while they are
 * read), and gives the members with their hashes in the file's order. `limits` NULL: defaults.
 * The answer "no" is REPOSBX_EMALFORMED with the first problem in words; a missing file is REPOSBX_ENOTFOUND. */
int rsbx_bundle_verify(struct rsbx_bundle_result *out, const char *path,
                       const struct rsbx_bundle_limits *limits, reposbx_error *err);

#endif
