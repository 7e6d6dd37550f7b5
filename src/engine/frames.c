/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/frames.h"

#include "base/limits.h"

#include "base/banned.h"

/* Takes one byte of a header. Each is judged when it comes, so that text in place of frames is seen
 * at its first byte and not only when eight have come. */
static int take_header(struct rsbx_frames *frames, uint8_t byte, reposbx_error *err)
{
    uint32_t length;

    if (frames->header_length == 0 && byte != 1 && byte != 2)
        return rsbx_fail(err, REPOSBX_EPROTOCOL, "a frame of the unknown channel %u",
                         (unsigned int)byte);
    if (frames->header_length >= 1 && frames->header_length <= 3 && byte != 0)
        return rsbx_fail(err, REPOSBX_EPROTOCOL, "a frame header with the padding byte %u",
                         (unsigned int)byte);
    frames->header[frames->header_length++] = byte;
    if (frames->header_length < sizeof frames->header)
        return REPOSBX_OK;
    length = (uint32_t)frames->header[4] << 24 | (uint32_t)frames->header[5] << 16 |
             (uint32_t)frames->header[6] << 8 | (uint32_t)frames->header[7];
    if (length > RSBX_MAX_FRAME_BYTES)
        return rsbx_fail(err, REPOSBX_EPROTOCOL, "a frame of %lu bytes", (unsigned long)length);
    frames->channel = frames->header[0];
    frames->left = length;
    frames->header_length = 0;
    return REPOSBX_OK;
}

int rsbx_frames_feed(struct rsbx_frames *frames, const void *bytes, size_t length,
                     rsbx_frames_piece piece, void *payload, reposbx_error *err)
{
    const uint8_t *next = bytes;
    int rc = REPOSBX_OK;

    while (rc == 0 && length > 0) {
        size_t count = 1;

        if (frames->left == 0) {
            rc = take_header(frames, *next, err);
        } else {
            count = length < frames->left ? length : frames->left;
            frames->left -= count;
            rc = piece(payload, frames->channel, next, count, err);
        }
        next += count;
        length -= count;
    }
    return rc;
}

bool rsbx_frames_at_edge(const struct rsbx_frames *frames)
{
    return frames->left == 0 && frames->header_length == 0;
}
