/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RSBX_CODEC_SHA256_H
#define RSBX_CODEC_SHA256_H

#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/error.h"

/* SHA-256 over libcrypto. new → update… → finish → free. */
struct rsbx_sha256;

#define RSBX_SHA256_BYTES 32U
#define RSBX_SHA256_HEX_BYTES 65U /* 64 digits and NUL */

int rsbx_sha256_new(struct rsbx_sha256 **out, reposbx_error *err);
void rsbx_sha256_free(struct rsbx_sha256 *hash);
RSBX_CLEANUP(rsbx_sha256, struct rsbx_sha256 *, rsbx_sha256_free);
/* Never fails for bytes in memory; the signature fits rsbx_fp_hash (state is a struct
 * rsbx_sha256). */
void rsbx_sha256_update(void *hash, const void *bytes, size_t length);
/* The digest; the hash is ready for a new message afterwards. */
void rsbx_sha256_finish(struct rsbx_sha256 *hash, uint8_t out[RSBX_SHA256_BYTES]);

/* One-shot, as lower-case hex. */
void rsbx_sha256_hex(char out[RSBX_SHA256_HEX_BYTES], const void *bytes, size_t length);

/* Of a regular file from its first byte on, wherever its descriptor stands, as lower-case hex. Ends
 * with the file, or once more than `most` bytes were read: *length is above `most` then. `what` names
 * the file in REPOSBX_EIO. */
int rsbx_sha256_file(char out[RSBX_SHA256_HEX_BYTES], uint64_t *length, int fd, uint64_t most,
                     const char *what, reposbx_error *err);

#endif
