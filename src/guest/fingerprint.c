/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/fingerprint.h"

#include <string.h>

/* "codenib-source-fingerprint" and the version, as the hash begins. */
static const char prefix[] = "codenib-source-fingerprint\0\x02";

/* With their lengths: the list is gone through for every component of every path. */
#define NAME(text) {text, sizeof(text) - 1U}
static const struct {
    const char *name;
    size_t length;
} ignored_names[] = {
    NAME(".codenib_cache"), NAME(".env"), NAME(".git"), NAME(".hg"), NAME(".mypy_cache"),
    NAME(".next"), NAME(".pytest_cache"), NAME(".ruff_cache"), NAME(".svn"), NAME(".tox"),
    NAME(".venv"), NAME("__pycache__"), NAME("build"), NAME("dist"), NAME("env"), NAME("htmlcov"),
    NAME("node_modules"), NAME("site"), NAME("target"), NAME("third_party"), NAME("vendor"),
    NAME("venv"),
};

static void feed(const struct rsbx_fp_hash *hash, const void *bytes, size_t length)
{
    hash->update(hash->state, bytes, length);
}

static void feed_number(const struct rsbx_fp_hash *hash, uint64_t value, unsigned bytes)
{
    uint8_t out[8];

    for (unsigned i = 0; i < bytes; i++) {
        out[i] = (uint8_t)(value >> (8U * (bytes - 1U - i)));
    }
    feed(hash, out, bytes);
}

bool rsbx_fp_ignored(const char *name, size_t length)
{
    static const char private_prefix[] = ".codenib";

    if (length >= sizeof(private_prefix) - 1U &&
        memcmp(name, private_prefix, sizeof(private_prefix) - 1U) == 0) {
        return true;
    }
    for (size_t i = 0; i < sizeof(ignored_names) / sizeof(ignored_names[0]); i++) {
        if (ignored_names[i].length == length &&
            memcmp(ignored_names[i].name, name, length) == 0) {
            return true;
        }
    }
    return false;
}

/* The code point that starts at s[0], and how many bytes it takes. Well-formed UTF-8 only: no
 * overlong form, no surrogate, nothing above U+10FFFF; any other byte stands for itself. */
static uint32_t decode(const unsigned char *s, size_t left, size_t *taken)
{
    static const uint32_t smallest[] = {0, 0, 0x80U, 0x800U, 0x10000U};
    uint32_t point;
    size_t need;

    *taken = 1;
    if (s[0] < 0x80U) {
        return s[0];
    }
    if (s[0] >= 0xc2U && s[0] <= 0xdfU) {
        need = 2;
    } else if (s[0] >= 0xe0U && s[0] <= 0xefU) {
        need = 3;
    } else if (s[0] >= 0xf0U && s[0] <= 0xf4U) {
        need = 4;
    } else {
        return 0xdc00U + s[0];
    }
    if (left < need) {
        return 0xdc00U + s[0];
    }
    point = s[0] & (0xffU >> (need + 1U));
    for (size_t i = 1; i < need; i++) {
        if ((s[i] & 0xc0U) != 0x80U) {
            return 0xdc00U + s[0];
        }
        point = (point << 6U) | (s[i] & 0x3fU);
    }
    if (point < smallest[need] || point > 0x10ffffU || (point >= 0xd800U && point <= 0xdfffU)) {
        return 0xdc00U + s[0];
    }
    *taken = need;
    return point;
}

int rsbx_fp_compare(const char *a, size_t a_length, const char *b, size_t b_length)
{
    const unsigned char *left = (const unsigned char *)a;
    const unsigned char *right = (const unsigned char *)b;
    size_t i = 0, j = 0;

    while (i < a_length && j < b_length) {
        size_t left_taken, right_taken;
        uint32_t left_point = decode(left + i, a_length - i, &left_taken);
        uint32_t right_point = decode(right + j, b_length - j, &right_taken);

        if (left_point != right_point) {
            return left_point < right_point ? -1 : 1;
        }
        i += left_taken;
        j += right_taken;
    }
    return (i < a_length) - (j < b_length);
}

/* Whether `path` is `folder` or below it. */
static bool at_or_below(const char *path, size_t length, const char *folder)
{
    size_t folder_length = strlen(folder);

    return length >= folder_length && memcmp(path, folder, folder_length) == 0 &&
           (length == folder_length || path[folder_length] == '/');
}

bool rsbx_fp_skipped(const char *path, size_t length, const char *const *excludes,
                     size_t exclude_count)
{
    size_t start = 0;

    for (size_t i = 0; i < exclude_count; i++) {
        if (at_or_below(path, length, excludes[i])) {
            return true;
        }
    }
    for (size_t i = 0; i <= length; i++) {
        if (i == length || path[i] == '/') {
            if (rsbx_fp_ignored(path + start, i - start)) {
                return true;
            }
            start = i + 1U;
        }
    }
    return false;
}

void rsbx_fp_frame_head(const struct rsbx_fp_hash *hash, const char *domain, uint64_t length)
{
    size_t domain_length = strlen(domain);

    feed_number(hash, domain_length, 2);
    feed(hash, domain, domain_length);
    feed_number(hash, length, 8);
}

void rsbx_fp_frame(const struct rsbx_fp_hash *hash, const char *domain, const void *payload,
                   size_t length)
{
    rsbx_fp_frame_head(hash, domain, length);
    if (length > 0) {
        feed(hash, payload, length);
    }
}

void rsbx_fp_begin(const struct rsbx_fp_hash *hash, const char *selection_digest)
{
    static const char algorithm[] = "sha256:";
    size_t digits = strlen(selection_digest);

    feed(hash, prefix, sizeof(prefix) - 1U);
    rsbx_fp_frame(hash, "filter-policy-version", "4", 1);
    rsbx_fp_frame_head(hash, "source-selection-digest", sizeof(algorithm) - 1U + digits);
    feed(hash, algorithm, sizeof(algorithm) - 1U);
    feed(hash, selection_digest, digits);
}

void rsbx_fp_file(const struct rsbx_fp_hash *hash, const char *path, size_t path_length,
                  uint64_t size)
{
    rsbx_fp_frame(hash, "entry-kind", "file", 4);
    rsbx_fp_frame(hash, "entry-path", path, path_length);
    rsbx_fp_frame_head(hash, "file-content", size);
}

void rsbx_fp_link(const struct rsbx_fp_hash *hash, const char *path, size_t path_length,
                  const char *target, size_t target_length, bool resolved, uint64_t target_size)
{
    rsbx_fp_frame(hash, "entry-kind", "link", 4);
    rsbx_fp_frame(hash, "entry-path", path, path_length);
    rsbx_fp_frame(hash, "link-target", target, target_length);
    if (resolved) {
        rsbx_fp_frame(hash, "link-target-state", "regular", 7);
        rsbx_fp_frame_head(hash, "link-target-content", target_size);
    } else {
        rsbx_fp_frame(hash, "link-target-state", "unresolved", 10);
    }
}

void rsbx_fp_end(const struct rsbx_fp_hash *hash, uint64_t entries)
{
    rsbx_fp_frame_head(hash, "entry-count", 8);
    feed_number(hash, entries, 8);
}

void rsbx_fp_rest(const struct rsbx_fp_hash *hash, uint32_t mode, const char *path,
                  size_t path_length, uint64_t size)
{
    feed_number(hash, mode, 4);
    feed_number(hash, path_length, 4);
    feed(hash, path, path_length);
    feed_number(hash, size, 8);
}
