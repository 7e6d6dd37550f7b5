/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RSBX_GUEST_SHA256_H
#define RSBX_GUEST_SHA256_H

#include <stddef.h>
#include <stdint.h>

/* SHA-256 (FIPS 180-4); init, any number of updates, final. */
struct rsbx_guest_sha256 {
    uint32_t state[8];
    uint64_t length;   /* bytes so far */
    uint8_t block[64]; /* what does not fill a block yet */
};

void rsbx_guest_sha256_init(struct rsbx_guest_sha256 *hash);
/* `hash` is a void pointer so that the function fits struct rsbx_fp_hash. */
void rsbx_guest_sha256_update(void *hash, const void *bytes, size_t length);
void rsbx_guest_sha256_final(struct rsbx_guest_sha256 *hash, uint8_t out[32]);

/* For the tests: 1 takes the portable code even where the processor has instructions for it. */
void rsbx_guest_sha256_portable(int only);

#endif
