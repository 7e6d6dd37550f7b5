/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RSBX_GUEST_FINGERPRINT_H
#define RSBX_GUEST_FINGERPRINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * The source fingerprint, version 2 ("sha256-v2:" and 64 hex digits), as a pure state machine over
 * a hash that the caller supplies. Computed twice for every snapshot: by the controller from the
 * objects, and by the guest from the sealed volume; the two must be equal.
 *
 * SHA-256 over "codenib-source-fingerprint", 0x00, 0x02, then frames. A frame is: length of the
 * domain (2 bytes, big endian), domain, length of the payload (8 bytes, big endian), payload.
 * First "filter-policy-version" = "4" and "source-selection-digest" = "sha256:" + hex SHA-256 of
 * the selection JSON. Then the tree, folder by folder: the names of a folder in code point order,
 * each file at once as "entry-kind" = "file", "entry-path", "file-content"; after all names of the
 * folder its subfolders in the same order. Last "entry-count", 8 bytes big endian.
 *
 * Skipped: ignored names (rsbx_fp_ignored) and excluded subtrees. What is skipped, and every mode,
 * is covered by the *rest digest* instead: SHA-256 over, for every entry of the snapshot in the
 * same walk order, mode (4 bytes BE), path length (4 bytes BE), path, size (8 bytes BE), and the
 * content of those entries alone that the fingerprint skips.
 */

/* Anything with an update function: libcrypto's outside, our own inside. */
struct rsbx_fp_hash {
    void (*update)(void *state, const void *bytes, size_t length);
    void *state;
};

/* Whether a name (file or folder) is left out: the ignored list, or starts with ".codenib". */
bool rsbx_fp_ignored(const char *name, size_t length);

/* Code point order of two names; a byte that is not part of well-formed UTF-8 counts as
 * U+DC00 + byte (U+DC80…U+DCFF). */
int rsbx_fp_compare(const char *a, size_t a_length, const char *b, size_t b_length);

/* Whether the path, or a folder above it, is ignored or excluded. `excludes` are normal paths. */
bool rsbx_fp_skipped(const char *path, size_t length, const char *const *excludes,
                     size_t exclude_count);

void rsbx_fp_frame(const struct rsbx_fp_hash *hash, const char *domain, const void *payload,
                   size_t length);
/* The head of a frame whose payload the caller feeds itself. */
void rsbx_fp_frame_head(const struct rsbx_fp_hash *hash, const char *domain, uint64_t length);

/* Prefix and the first two frames; `selection_digest` is 64 hex digits. */
void rsbx_fp_begin(const struct rsbx_fp_hash *hash, const char *selection_digest);
/* entry-kind, entry-path and the head of file-content; then feed exactly `size` bytes. */
void rsbx_fp_file(const struct rsbx_fp_hash *hash, const char *path, size_t path_length,
                  uint64_t size);
/* A symlink: entry-kind, entry-path, link-target; then, when resolved, link-target-state=regular
 * and the head of link-target-content of `target_size` bytes (feed them), else
 * link-target-state=unresolved. */
void rsbx_fp_link(const struct rsbx_fp_hash *hash, const char *path, size_t path_length,
                  const char *target, size_t target_length, bool resolved, uint64_t target_size);
/* entry-count. */
void rsbx_fp_end(const struct rsbx_fp_hash *hash, uint64_t entries);

/* One entry of the rest digest: everything but the content. */
void rsbx_fp_rest(const struct rsbx_fp_hash *hash, uint32_t mode, const char *path,
                  size_t path_length, uint64_t size);

#endif
