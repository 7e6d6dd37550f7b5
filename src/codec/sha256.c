/* SPDX-License-Identifier: Apache-2.0 */
#include "codec/sha256.h"

#include <stdlib.h>

#include <openssl/evp.h>

#include "base/text.h"

#include "base/banned.h"

struct rsbx_sha256 {
    EVP_MD_CTX *context;
};

/* libcrypto's digest calls fail only for want of memory or of the algorithm; neither can be
 * answered in a way that keeps a digest trustworthy. */
static void demand(int ok)
{
    if (ok != 1)
        abort();
}

int rsbx_sha256_new(struct rsbx_sha256 **out, reposbx_error *err)
{
    struct rsbx_sha256 *hash = calloc(1, sizeof *hash);

    if (hash == NULL)
        return rsbx_fail_memory(err);
    hash->context = EVP_MD_CTX_new();
    if (hash->context == NULL || EVP_DigestInit_ex(hash->context, EVP_sha256(), NULL) != 1) {
        rsbx_sha256_free(hash);
        return rsbx_fail_memory(err);
    }
    *out = hash;
    return REPOSBX_OK;
}

void rsbx_sha256_free(struct rsbx_sha256 *hash)
{
    if (hash == NULL)
        return;
    EVP_MD_CTX_free(hash->context);
    free(hash);
}

void rsbx_sha256_update(void *hash, const void *bytes, size_t length)
{
    struct rsbx_sha256 *own = hash;

    demand(EVP_DigestUpdate(own->context, bytes, length));
}

void rsbx_sha256_finish(struct rsbx_sha256 *hash, uint8_t out[RSBX_SHA256_BYTES])
{
    demand(EVP_DigestFinal_ex(hash->context, out, NULL));
    demand(EVP_DigestInit_ex(hash->context, EVP_sha256(), NULL));
}

void rsbx_sha256_hex(char out[RSBX_SHA256_HEX_BYTES], const void *bytes, size_t length)
{
    uint8_t digest[RSBX_SHA256_BYTES];

    demand(EVP_Digest(bytes, length, digest, NULL, EVP_sha256(), NULL));
    rsbx_hex(out, digest, sizeof digest);
}
