/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RSBX_ENGINE_FRAMES_H
#define RSBX_ENGINE_FRAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

/*
 * Pure decoder of the engine's multiplexed stream. A frame: channel (1 byte: 1 stdout, 2 stderr),
 * three zero bytes, payload length (4 bytes, big endian), payload. A length of 0 is an empty frame,
 * not the end. Holds at most 8 bytes of its own: payload is handed on as it arrives, so a large
 * frame costs no memory.
 */
struct rsbx_frames {
    uint8_t header[8];
    size_t header_length;
    size_t left; /* payload bytes of the current frame still to come */
    int channel;
};

#define RSBX_FRAMES_INIT \
    {                    \
        { 0 }, 0, 0, 0   \
    }

typedef int (*rsbx_frames_piece)(void *payload, int channel, const void *bytes, size_t length,
                                 reposbx_error *err);

/* Decodes `length` bytes. REPOSBX_EPROTOCOL on a channel other than 1 and 2, non-zero padding, or a
 * length over RSBX_MAX_FRAME_BYTES; the callback's own non-zero result otherwise. */
int rsbx_frames_feed(struct rsbx_frames *frames, const void *bytes, size_t length,
                     rsbx_frames_piece piece, void *payload, reposbx_error *err);

/* Whether the stream may end here. */
bool rsbx_frames_at_edge(const struct rsbx_frames *frames);

#endif
