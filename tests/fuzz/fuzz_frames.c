/* SPDX-License-Identifier: Apache-2.0 */
/* The engine's frames: however the bytes are cut, the same pieces come out or the same refusal. */
#include <stdint.h>
#include <stdlib.h>

#include "engine/frames.h"

struct seen {
    uint64_t bytes, sum;
};

static int note(void *payload, int channel, const void *bytes, size_t length, reposbx_error *err)
{
    struct seen *seen = payload;
    const uint8_t *p = bytes;

    (void)err;
    for (size_t i = 0; i < length; i++)
        seen->sum = seen->sum * 31 + p[i] + (uint64_t)channel;
    seen->bytes += length;
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct rsbx_frames whole = RSBX_FRAMES_INIT;
    struct rsbx_frames single = RSBX_FRAMES_INIT;
    struct seen first = { 0, 0 };
    struct seen second = { 0, 0 };
    int at_once = rsbx_frames_feed(&whole, data, size, note, &first, NULL);
    int one_by_one = 0;

    for (size_t i = 0; i < size && one_by_one == 0; i++)
        one_by_one = rsbx_frames_feed(&single, data + i, 1, note, &second, NULL);
    if (at_once != one_by_one || (at_once == 0 && (first.bytes != second.bytes ||
                                                   first.sum != second.sum ||
                                                   rsbx_frames_at_edge(&whole) !=
                                                       rsbx_frames_at_edge(&single))))
        abort();
    return 0;
}
