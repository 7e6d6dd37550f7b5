/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/sha256.h"

#include <stdbool.h>
#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

typedef void compress_function(uint32_t state[8], const uint8_t *blocks, size_t count);

static const uint32_t round_constants[64] __attribute__((aligned(16))) = {
    0x428a2f98U, 0x71374491U, 0xb5c0fbcfU, 0xe9b5dba5U, 0x3956c25bU, 0x59f111f1U, 0x923f82a4U,
    0xab1c5ed5U, 0xd807aa98U, 0x12835b01U, 0x243185beU, 0x550c7dc3U, 0x72be5d74U, 0x80deb1feU,
    0x9bdc06a7U, 0xc19bf174U, 0xe49b69c1U, 0xefbe4786U, 0x0fc19dc6U, 0x240ca1ccU, 0x2de92c6fU,
    0x4a7484aaU, 0x5cb0a9dcU, 0x76f988daU, 0x983e5152U, 0xa831c66dU, 0xb00327c8U, 0xbf597fc7U,
    0xc6e00bf3U, 0xd5a79147U, 0x06ca6351U, 0x14292967U, 0x27b70a85U, 0x2e1b2138U, 0x4d2c6dfcU,
    0x53380d13U, 0x650a7354U, 0x766a0abbU, 0x81c2c92eU, 0x92722c85U, 0xa2bfe8a1U, 0xa81a664bU,
    0xc24b8b70U, 0xc76c51a3U, 0xd192e819U, 0xd6990624U, 0xf40e3585U, 0x106aa070U, 0x19a4c116U,
    0x1e376c08U, 0x2748774cU, 0x34b0bcb5U, 0x391c0cb3U, 0x4ed8aa4aU, 0x5b9cca4fU, 0x682e6ff3U,
    0x748f82eeU, 0x78a5636fU, 0x84c87814U, 0x8cc70208U, 0x90befffaU, 0xa4506cebU, 0xbef9a3f7U,
    0xc67178f2U,
};

static bool portable_only;

static uint32_t rotate(uint32_t value, unsigned bits)
{
    return (value >> bits) | (value << (32U - bits));
}

/* Round j of eight: what the standard calls a is s[-j mod 8], b the next, and so on. */
static inline __attribute__((always_inline)) void round_at(uint32_t s[8], unsigned j, uint32_t add)
{
    uint32_t a = s[(0U - j) % 8U], b = s[(1U - j) % 8U], c = s[(2U - j) % 8U];
    uint32_t e = s[(4U - j) % 8U], f = s[(5U - j) % 8U], g = s[(6U - j) % 8U];
    uint32_t *d = &s[(3U - j) % 8U], *h = &s[(7U - j) % 8U];

    *h += (rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25)) + ((e & f) ^ (~e & g)) + add;
    *d += *h;
    *h += (rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
}

static void compress_portable(uint32_t state[8], const uint8_t *block, size_t count)
{
    for (; count > 0; count--, block += 64) {
        uint32_t w[64];
        uint32_t s[8];

        for (unsigned i = 0; i < 16; i++) {
            w[i] = ((uint32_t)block[4 * i] << 24U) | ((uint32_t)block[4 * i + 1] << 16U) |
                   ((uint32_t)block[4 * i + 2] << 8U) | block[4 * i + 3];
        }
        for (unsigned i = 16; i < 64; i++) {
            uint32_t a = w[i - 15], b = w[i - 2];

            w[i] = w[i - 16] + (rotate(a, 7) ^ rotate(a, 18) ^ (a >> 3U)) + w[i - 7] +
                   (rotate(b, 17) ^ rotate(b, 19) ^ (b >> 10U));
        }
        memcpy(s, state, sizeof(s));
        for (unsigned i = 0; i < 64; i += 8) {
            /* The eight values stay where they are; their names move instead. */
            for (unsigned j = 0; j < 8; j++) {
                round_at(s, j, round_constants[i + j] + w[i + j]);
            }
        }
        for (unsigned i = 0; i < 8; i++) {
            state[i] += s[i];
        }
    }
}

#if defined(__x86_64__)
/* The processor works on the state as two halves, ABEF and CDGH, and does two rounds at a time. */
__attribute__((target("sha,sse4.1"))) static void compress_x86(uint32_t state[8],
                                                               const uint8_t *block, size_t count)
{
    const __m128i swap = _mm_set_epi64x(0x0c0d0e0f08090a0bLL, 0x0405060700010203LL);
    const __m128i *constants = (const __m128i *)(const void *)round_constants;
    __m128i abcd = _mm_loadu_si128((const __m128i *)(const void *)state);
    __m128i efgh = _mm_loadu_si128((const __m128i *)(const void *)(state + 4));
    __m128i badc = _mm_shuffle_epi32(abcd, 0xb1);
    __m128i hgfe = _mm_shuffle_epi32(efgh, 0x1b);
    __m128i abef = _mm_alignr_epi8(badc, hgfe, 8);
    __m128i cdgh = _mm_blend_epi16(hgfe, badc, 0xf0);

    for (; count > 0; count--, block += 64) {
        const __m128i abef_before = abef, cdgh_before = cdgh;
        __m128i w[4];

        for (unsigned i = 0; i < 16; i++) {
            __m128i *now = &w[i % 4U];
            __m128i sum;

            if (i < 4) {
                *now = _mm_shuffle_epi8(
                    _mm_loadu_si128((const __m128i *)(const void *)(block + 16U * i)), swap);
            } else {
                /* w[t-16] + s0(w[t-15]) + w[t-7] + s1(w[t-2]) for four t at once. */
                *now = _mm_sha256msg1_epu32(*now, w[(i + 1U) % 4U]);
                *now = _mm_add_epi32(*now,
                                     _mm_alignr_epi8(w[(i + 3U) % 4U], w[(i + 2U) % 4U], 4));
                *now = _mm_sha256msg2_epu32(*now, w[(i + 3U) % 4U]);
            }
            sum = _mm_add_epi32(*now, _mm_load_si128(&constants[i]));
            cdgh = _mm_sha256rnds2_epu32(cdgh, abef, sum);
            abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(sum, 0x0e));
        }
        abef = _mm_add_epi32(abef, abef_before);
        cdgh = _mm_add_epi32(cdgh, cdgh_before);
    }
    hgfe = _mm_shuffle_epi32(abef, 0x1b); /* FEBA */
    badc = _mm_shuffle_epi32(cdgh, 0xb1); /* DCHG */
    _mm_storeu_si128((__m128i *)(void *)state, _mm_blend_epi16(hgfe, badc, 0xf0));
    _mm_storeu_si128((__m128i *)(void *)(state + 4), _mm_alignr_epi8(badc, hgfe, 8));
}

static bool has_x86_sha(void)
{
    unsigned a, b, c, d;

    if (!__get_cpuid(1, &a, &b, &c, &d) || (c & bit_SSSE3) == 0 || (c & bit_SSE4_1) == 0) {
        return false;
    }
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b & bit_SHA) != 0;
}
#endif

static compress_function *choose(void)
{
#if defined(__x86_64__)
    static int known; /* 0 not asked yet, 1 no, 2 yes */

    if (known == 0) {
        known = has_x86_sha() ? 2 : 1;
    }
    if (known == 2 && !portable_only) {
        return compress_x86;
    }
#endif
    return compress_portable;
}

void rsbx_guest_sha256_portable(int only)
{
    portable_only = only != 0;
}

void rsbx_guest_sha256_init(struct rsbx_guest_sha256 *hash)
{
    static const uint32_t initial[8] = {0x6a09e667U, 0xbb67ae85U, 0x3c6ef372U, 0xa54ff53aU,
                                        0x510e527fU, 0x9b05688cU, 0x1f83d9abU, 0x5be0cd19U};

    memcpy(hash->state, initial, sizeof(initial));
    hash->length = 0;
}

void rsbx_guest_sha256_update(void *state, const void *bytes, size_t length)
{
    struct rsbx_guest_sha256 *hash = state;
    const uint8_t *next = bytes;
    size_t held = hash->length % 64U;

    hash->length += length;
    if (held > 0) {
        size_t part = length < 64U - held ? length : 64U - held;

        memcpy(hash->block + held, next, part);
        next += part;
        length -= part;
        if (held + part < 64U) {
            return;
        }
        choose()(hash->state, hash->block, 1);
    }
    if (length >= 64U) {
        choose()(hash->state, next, length / 64U);
        next += length - length % 64U;
        length %= 64U;
    }
    if (length > 0) {
        memcpy(hash->block, next, length);
    }
}

void rsbx_guest_sha256_final(struct rsbx_guest_sha256 *hash, uint8_t out[32])
{
    static const uint8_t padding[64] = {0x80};
    uint64_t bits = hash->length * 8U;
    size_t held = hash->length % 64U;
    uint8_t length[8];

    for (unsigned i = 0; i < 8; i++) {
        length[i] = (uint8_t)(bits >> (56U - 8U * i));
    }
    rsbx_guest_sha256_update(hash, padding, held < 56U ? 56U - held : 120U - held);
    rsbx_guest_sha256_update(hash, length, sizeof(length));
    for (unsigned i = 0; i < 32; i++) {
        out[i] = (uint8_t)(hash->state[i / 4U] >> (24U - 8U * (i % 4U)));
    }
}
