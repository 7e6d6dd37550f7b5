/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/frames.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/limits.h"

#include "base/banned.h"

struct collected {
    struct rsbx_buf channel[3];
    size_t pieces;
    int answer;
};

#define COLLECTED_INIT                                                              \
    {                                                                               \
        { RSBX_BUF_INIT(4096), RSBX_BUF_INIT(4U << 20), RSBX_BUF_INIT(4096) }, 0, 0 \
    }

static int collect(void *payload, int channel, const void *bytes, size_t length, reposbx_error *err)
{
    struct collected *own = payload;

    assert_true(channel == 1 || channel == 2);
    assert_true(length > 0);
    own->pieces++;
    assert_int_equal(rsbx_buf_append(&own->channel[channel], bytes, length, err), 0);
    return own->answer;
}

static void dispose(struct collected *own)
{
    for (int i = 0; i < 3; i++)
        rsbx_buf_dispose(&own->channel[i]);
}

static const char stream[] = "\1\0\0\0\0\0\0\5hello"
                             "\2\0\0\0\0\0\0\3err"
                             "\1\0\0\0\0\0\0\0"
                             "\1\0\0\0\0\0\0\2\0\n";
#define STREAM_BYTES (sizeof stream - 1)

static void check_stream(const struct collected *got)
{
    assert_int_equal(got->channel[1].length, 7);
    assert_memory_equal(got->channel[1].data, "hello\0\n", 7);
    assert_int_equal(got->channel[2].length, 3);
    assert_memory_equal(got->channel[2].data, "err", 3);
}

static void whole_and_split_at_every_byte(void **state)
{
    (void)state;
    for (size_t cut = 0; cut <= STREAM_BYTES; cut++) {
        struct rsbx_frames frames = RSBX_FRAMES_INIT;
        struct collected got = COLLECTED_INIT;

        assert_true(rsbx_frames_at_edge(&frames));
        assert_int_equal(rsbx_frames_feed(&frames, stream, cut, collect, &got, NULL), 0);
        assert_int_equal(rsbx_frames_at_edge(&frames),
                         cut == 0 || cut == 13 || cut == 24 || cut == 32 || cut == STREAM_BYTES);
        assert_int_equal(
            rsbx_frames_feed(&frames, stream + cut, STREAM_BYTES - cut, collect, &got, NULL), 0);
        assert_true(rsbx_frames_at_edge(&frames));
        check_stream(&got);
        dispose(&got);
    }
}

static void byte_by_byte(void **state)
{
    struct rsbx_frames frames = RSBX_FRAMES_INIT;
    struct collected got = COLLECTED_INIT;

    (void)state;
    for (size_t i = 0; i < STREAM_BYTES; i++)
        assert_int_equal(rsbx_frames_feed(&frames, stream + i, 1, collect, &got, NULL), 0);
    assert_int_equal(got.pieces, 10);
    check_stream(&got);
    dispose(&got);
}

static void empty_frame_is_not_the_end(void **state)
{
    struct rsbx_frames frames = RSBX_FRAMES_INIT;
    struct collected got = COLLECTED_INIT;

    (void)state;
    assert_int_equal(
        rsbx_frames_feed(&frames, "\2\0\0\0\0\0\0\0\1\0\0\0\0\0\0\1x", 17, collect, &got, NULL), 0);
    assert_int_equal(got.pieces, 1);
    assert_int_equal(got.channel[1].length, 1);
    dispose(&got);
}

static void refuse(const char *bytes, size_t length)
{
    struct rsbx_frames frames = RSBX_FRAMES_INIT;
    struct collected got = COLLECTED_INIT;
    reposbx_error err = REPOSBX_ERROR_INIT;

    assert_int_equal(rsbx_frames_feed(&frames, bytes, length, collect, &got, &err),
                     REPOSBX_EPROTOCOL);
    assert_int_equal(err.code, REPOSBX_EPROTOCOL);
    assert_int_equal(got.pieces, 0);
    dispose(&got);
}

static void refuses_what_is_no_frame(void **state)
{
    char header[8] = { 0 };

    (void)state;
    for (int channel = 0; channel < 256; channel++) {
        header[0] = (char)channel;
        if (channel != 1 && channel != 2) {
            refuse(header, 1); /* at once */
            refuse(header, 8);
        }
    }
    refuse("\1\1\0\0\0\0\0\1x", 9);
    refuse("\1\0\1\0\0\0\0\1x", 9);
    refuse("\1\0\0\xFF\0\0\0\1x", 9);
    refuse("\1\0\0\0\xFF\xFF\xFF\xFF", 8);
    refuse("\1\0\0\0\x7F\xFF\xFF\xFF", 8);
    refuse("\1\0\0\0\0\x10\0\1", 8); /* one over the cap */
    refuse("Hello", 5);
}

static void takes_a_frame_at_the_cap(void **state)
{
    struct rsbx_frames frames = RSBX_FRAMES_INIT;
    struct collected got = COLLECTED_INIT;
    char *block = calloc(1, 65536);

    (void)state;
    assert_non_null(block);
    assert_int_equal(rsbx_frames_feed(&frames, "\1\0\0\0\0\x10\0\0", 8, collect, &got, NULL), 0);
    for (int i = 0; i < 16; i++)
        assert_int_equal(rsbx_frames_feed(&frames, block, 65536, collect, &got, NULL), 0);
    assert_true(rsbx_frames_at_edge(&frames));
    assert_int_equal(got.channel[1].length, RSBX_MAX_FRAME_BYTES);
    free(block);
    dispose(&got);
}

static void hands_on_the_callers_stop(void **state)
{
    struct rsbx_frames frames = RSBX_FRAMES_INIT;
    struct collected got = COLLECTED_INIT;

    (void)state;
    got.answer = 42;
    assert_int_equal(rsbx_frames_feed(&frames, stream, STREAM_BYTES, collect, &got, NULL), 42);
    assert_int_equal(got.pieces, 1);
    dispose(&got);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_and_split_at_every_byte),
        cmocka_unit_test(byte_by_byte),
        cmocka_unit_test(empty_frame_is_not_the_end),
        cmocka_unit_test(refuses_what_is_no_frame),
        cmocka_unit_test(takes_a_frame_at_the_cap),
        cmocka_unit_test(hands_on_the_callers_stop),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
