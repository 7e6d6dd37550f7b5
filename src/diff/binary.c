/* SPDX-License-Identifier: Apache-2.0 */
#include "diff/internal.h"

#include <stdlib.h>
#include <string.h>

#include <zlib.h>

#include "base/cleanup.h"
#include "codec/git2.h"

#include "base/banned.h"

/*
 * "GIT binary patch" blocks: a zlib stream of the content, or of a delta where that is smaller, in
 * lines of up to 52 bytes in base 85. The delta comes from libgit2, whose algorithm is git's.
 */

#define LINE_BYTES 52U
/* git's default for these streams (core.compression unset); so the bytes agree with git's. */
#define DEFLATE_LEVEL Z_BEST_SPEED

static const char alphabet[] =
    "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~";

static int append_line(struct rsbx_buf *out, const uint8_t *bytes, size_t length,
                       reposbx_error *err)
{
    char line[1 + (LINE_BYTES + 3) / 4 * 5 + 1];
    size_t used = 0;

    line[used++] = (char)(length <= 26 ? 'A' + length - 1 : 'a' + length - 27);
    for (size_t i = 0; i < length; i += 4) {
        uint32_t word = 0;

        for (size_t k = 0; k < 4; k++)
            word = word << 8 | (i + k < length ? bytes[i + k] : 0U);
        for (size_t k = 5; k-- > 0; word /= 85)
            line[used + k] = alphabet[word % 85];
        used += 5;
    }
    line[used++] = '\n';
    return rsbx_buf_append(out, line, used, err);
}

static int append_block(struct rsbx_buf *out, const char *kind, size_t size, const uint8_t *bytes,
                        size_t length, reposbx_error *err)
{
    int rc = rsbx_buf_format(out, err, "%s %zu\n", kind, size);

    for (size_t at = 0; rc == REPOSBX_OK && at < length; at += LINE_BYTES)
        rc = append_line(out, bytes + at, length - at < LINE_BYTES ? length - at : LINE_BYTES, err);
    return rc == REPOSBX_OK ? rsbx_buf_text(out, "\n", err) : rc;
}

static int deflated(uint8_t **out, size_t *out_length, const void *bytes, size_t length,
                    reposbx_error *err)
{
    uLongf size = compressBound((uLong)length);
    uint8_t *place = malloc(size);

    if (place == NULL)
        return rsbx_fail_memory(err);
    if (compress2(place, &size, bytes, (uLong)length, DEFLATE_LEVEL) != Z_OK) {
        free(place);
        return rsbx_fail(err, REPOSBX_EINTERNAL, "compressing a binary file failed");
    }
    *out = place;
    *out_length = size;
    return REPOSBX_OK;
}

/* The deltas of both directions, inflated; NULL where there is none. */
struct deltas {
    uint8_t *forward, *backward;
    size_t forward_length, backward_length;
    int rc;
    reposbx_error *err;
};

static int take_delta(uint8_t **out, size_t *out_length, const git_diff_binary_file *file,
                      reposbx_error *err)
{
    uLongf size = (uLongf)file->inflatedlen;
    uint8_t *place;

    if (file->type != GIT_DIFF_BINARY_DELTA)
        return REPOSBX_OK;
    place = malloc(file->inflatedlen + 1);
    if (place == NULL)
        return rsbx_fail_memory(err);
    if (uncompress(place, &size, (const Bytef *)file->data, (uLong)file->datalen) != Z_OK ||
        size != file->inflatedlen) {
        free(place);
        return rsbx_fail(err, REPOSBX_EINTERNAL, "a binary delta does not inflate");
    }
    *out = place;
    *out_length = size;
    return REPOSBX_OK;
}

static int on_binary(const git_diff_delta *delta, const git_diff_binary *binary, void *payload)
{
    struct deltas *deltas = payload;

    (void)delta;
    deltas->rc = take_delta(&deltas->forward, &deltas->forward_length, &binary->new_file,
                            deltas->err);
    if (deltas->rc == REPOSBX_OK)
        deltas->rc = take_delta(&deltas->backward, &deltas->backward_length, &binary->old_file,
                                deltas->err);
    return deltas->rc;
}

static int find_deltas(struct deltas *deltas, const struct rsbx_diff_side *before,
                       const struct rsbx_diff_side *after, reposbx_error *err)
{
    git_diff_options options;
    int rc;

    deltas->err = err;
    if (before->length == 0 || after->length == 0)
        return REPOSBX_OK;
    if (rsbx_git2.git_diff_options_init(&options, GIT_DIFF_OPTIONS_VERSION) != 0)
        return rsbx_diff_library_failed(err, "preparing a comparison");
    options.flags = GIT_DIFF_FORCE_BINARY | GIT_DIFF_SHOW_BINARY;
    options.max_size = INT64_MAX;
    rc = rsbx_git2.git_diff_buffers(before->bytes, before->length, NULL, after->bytes,
                                    after->length, NULL, &options, NULL, on_binary, NULL, NULL,
                                    deltas);
    if (deltas->rc != REPOSBX_OK)
        return deltas->rc;
    return rc == 0 ? REPOSBX_OK : rsbx_diff_library_failed(err, "comparing two binary files");
}

static int append_direction(struct rsbx_buf *out, const char *content, size_t content_length,
                            const uint8_t *delta, size_t delta_length, reposbx_error *err)
{
    RSBX_AUTO(rsbx_memory) void *literal_memory = NULL;
    RSBX_AUTO(rsbx_memory) void *delta_memory = NULL;
    uint8_t *bytes = NULL;
    size_t literal_length = 0, packed_length = 0;
    int rc = deflated(&bytes, &literal_length, content, content_length, err);

    literal_memory = bytes;
    if (rc == REPOSBX_OK && delta != NULL) {
        rc = deflated(&bytes, &packed_length, delta, delta_length, err);
        delta_memory = bytes == literal_memory ? NULL : bytes;
    }
    if (rc != REPOSBX_OK)
        return rc;
    if (delta != NULL && packed_length < literal_length)
        return append_block(out, "delta", delta_length, delta_memory, packed_length, err);
    return append_block(out, "literal", content_length, literal_memory, literal_length, err);
}

int rsbx_diff_binary_write(struct rsbx_buf *out, const struct rsbx_diff_side *before,
                           const struct rsbx_diff_side *after, reposbx_error *err)
{
    struct deltas deltas = { .rc = REPOSBX_OK };
    int rc = find_deltas(&deltas, before, after, err);

    if (rc == REPOSBX_OK)
        rc = rsbx_buf_text(out, "GIT binary patch\n", err);
    if (rc == REPOSBX_OK)
        rc = append_direction(out, after->bytes, after->length, deltas.forward,
                              deltas.forward_length, err);
    if (rc == REPOSBX_OK)
        rc = append_direction(out, before->bytes, before->length, deltas.backward,
                              deltas.backward_length, err);
    free(deltas.forward);
    free(deltas.backward);
    return rc;
}
