/* SPDX-License-Identifier: Apache-2.0 */
#include "codec/sha256.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include <openssl/crypto.h>
#include <openssl/evp.h>

#include "base/text.h"

#include "base/banned.h"

/* Nothing of the host's openssl.cnf, which could load providers of its own; no work at exit. */
static void start(void)
{
    (void)OPENSSL_init_crypto(OPENSSL_INIT_NO_LOAD_CONFIG | OPENSSL_INIT_NO_ATEXIT, NULL);
}

static pthread_once_t started = PTHREAD_ONCE_INIT;

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

    (void)pthread_once(&started, start);
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

    (void)pthread_once(&started, start);
    demand(EVP_Digest(bytes, length, digest, NULL, EVP_sha256(), NULL));
    rsbx_hex(out, digest, sizeof digest);
}

int rsbx_sha256_file(char out[RSBX_SHA256_HEX_BYTES], uint64_t *length, int fd, uint64_t most,
                     const char *what, reposbx_error *err)
{
    RSBX_AUTO(rsbx_sha256) struct rsbx_sha256 *hash = NULL;
    uint8_t digest[RSBX_SHA256_BYTES];
    char piece[65536];
    uint64_t total = 0;
    int rc = rsbx_sha256_new(&hash, err);

    if (rc != 0)
        return rc;
    while (total <= most) {
        ssize_t got = pread(fd, piece, sizeof piece, (off_t)total);

        if (got == 0)
            break;
        if (got < 0 && errno != EINTR)
            return rsbx_fail_errno(err, REPOSBX_EIO, "cannot read %s", what);
        if (got < 0)
            continue;
        rsbx_sha256_update(hash, piece, (size_t)got);
        total += (uint64_t)got;
    }
    rsbx_sha256_finish(hash, digest);
    rsbx_hex(out, digest, sizeof digest);
    *length = total;
    return REPOSBX_OK;
}
