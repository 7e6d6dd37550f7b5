/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/fd.h"
#include "base/limits.h"
#include "fake/common.h"

#include "base/banned.h"

#define UPGRADED                                                                   \
    "HTTP/1.1 101 UPGRADED\r\nContent-Type: application/vnd.docker.raw-stream\r\n" \
    "Connection: Upgrade\r\nUpgrade: tcp\r\n\r\n"
#define MULTIPLEXED                                                                        \
    "HTTP/1.1 101 UPGRADED\r\nContent-Type: application/vnd.docker.multiplexed-stream\r\n" \
    "Connection: Upgrade\r\nUpgrade: tcp\r\n\r\n"
#define PLAIN_200 "HTTP/1.1 200 OK\r\nContent-Type: application/vnd.docker.raw-stream\r\n\r\n"
#define FRAME "\1\0\0\0\0\0\0\2hi"
#define FRAME_BYTES 10U

static struct rsbx_deadline soon(void)
{
    return rsbx_deadline_in_ms(10000);
}

struct heard {
    struct rsbx_buf channel[3];
    int answer;
};

#define HEARD_INIT                                                                 \
    {                                                                              \
        { RSBX_BUF_INIT(64), RSBX_BUF_INIT(1U << 20), RSBX_BUF_INIT(1U << 20) }, 0 \
    }

static int hear(void *payload, int channel, const void *bytes, size_t length, reposbx_error *err)
{
    struct heard *heard = payload;
    int rc = rsbx_buf_append(&heard->channel[channel], bytes, length, err);

    return rc != 0 ? rc : heard->answer;
}

static void dispose(struct heard *heard)
{
    for (int i = 0; i < 3; i++)
        rsbx_buf_dispose(&heard->channel[i]);
}

static int attach(struct fake_world *world, reposbx_error *err)
{
    rsbx_stream_free(world->stream);
    world->stream = NULL;
    return rsbx_engine_attach(&world->stream, world->engine, "sbx-1", soon(), err);
}

/* Receives to the end or to the first failure, waiting only on the descriptor. */
static int drain(struct heard *heard, struct fake_world *world, reposbx_error *err)
{
    bool ended = false;
    int rc = 0;

    while (rc == 0 && !ended) {
        assert_int_equal(rsbx_wait_fd(rsbx_stream_fd(world->stream), POLLIN, soon()), 1);
        rc = rsbx_stream_receive(&ended, world->stream, hear, heard, err);
    }
    return rc;
}

static void accepts(struct fake_world *world, const char *head)
{
    struct heard heard = HEARD_INIT;
    struct rsbx_buf reply = RSBX_BUF_INIT(4096);
    reposbx_error err = REPOSBX_ERROR_INIT;

    assert_int_equal(rsbx_buf_format(&reply, NULL, "%s", head), 0);
    assert_int_equal(rsbx_buf_append(&reply, FRAME, FRAME_BYTES, NULL), 0);
    fake_world_reply(world, reply.data, reply.length);
    if (attach(world, &err) != 0 || drain(&heard, world, &err) != 0)
        fail_msg("%s%s", head, err.message);
    assert_int_equal(heard.channel[1].length, 2);
    assert_memory_equal(heard.channel[1].data, "hi", 2);
    dispose(&heard);
    rsbx_buf_dispose(&reply);
}

static void first_frame_in_the_packet_of_the_head(void **state)
{
    struct fake_world *world = *state;
    char request[1024];

    accepts(world, UPGRADED);
    fake_engine_request(request, sizeof request, world->fake, 0);
    assert_string_equal(request,
                        "POST /v1.41/containers/sbx-1/attach?stream=1&stdin=1&stdout=1&stderr=1 "
                        "HTTP/1.1\r\nHost: engine\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n"
                        "Content-Length: 0\r\n\r\n");
    accepts(world, MULTIPLEXED);
    accepts(world, PLAIN_200);
    accepts(world, "HTTP/1.1 101\r\nupgrade:tcp\r\n\r\n");
    accepts(world, "HTTP/1.1 101 Switching Protocols\r\nX-Empty:\r\nUPGRADE: \tTCP \t\r\n\r\n");
}

static void frame_alone_wakes_the_poll(void **state)
{
    struct fake_world *world = *state;
    static const char bytes[] = UPGRADED FRAME;
    const struct fake_reply reply = { .bytes = bytes, .length = sizeof bytes - 1, .hold = true };
    struct heard heard = HEARD_INIT;
    bool ended = true;

    fake_engine_script(world->fake, &reply, 1);
    assert_int_equal(attach(world, NULL), 0);
    assert_int_equal(fcntl(rsbx_stream_fd(world->stream), F_GETFD), FD_CLOEXEC);
    while (heard.channel[1].length < 2) {
        assert_int_equal(rsbx_wait_fd(rsbx_stream_fd(world->stream), POLLIN, soon()), 1);
        assert_int_equal(rsbx_stream_receive(&ended, world->stream, hear, &heard, NULL), 0);
        assert_false(ended);
    }
    /* Nothing more is there, and that is no end. */
    ended = true;
    assert_int_equal(rsbx_stream_receive(&ended, world->stream, hear, &heard, NULL), 0);
    assert_false(ended);
    dispose(&heard);
}

static void slow_heads_and_frames(void **state)
{
    struct fake_world *world = *state;
    static const char bytes[] = UPGRADED FRAME "\2\0\0\0\0\0\0\0" FRAME;
    const struct fake_reply reply = { .bytes = bytes, .length = sizeof bytes - 1, .drip_ms = 1 };
    struct heard heard = HEARD_INIT;

    fake_engine_script(world->fake, &reply, 1);
    assert_int_equal(attach(world, NULL), 0);
    assert_int_equal(drain(&heard, world, NULL), 0);
    assert_int_equal(heard.channel[1].length, 4);
    dispose(&heard);
}

static void head_cut_everywhere(void **state)
{
    static const char *const heads[] = { UPGRADED, PLAIN_200 };
    struct fake_world *world = *state;

    for (size_t i = 0; i < 2; i++) {
        for (size_t length = 0; length < strlen(heads[i]); length++) {
            reposbx_error err = REPOSBX_ERROR_INIT;
            int rc;

            fake_world_reply(world, heads[i], length);
            rc = attach(world, &err);
            assert_null(world->stream);
            if (rc != REPOSBX_EPROTOCOL && rc != REPOSBX_EUNAVAILABLE)
                fail_msg("cut at %zu: %d", length, rc);
            assert_int_equal(fake_engine_requests(world->fake), 1);
        }
    }
}

static void frames_cut_everywhere(void **state)
{
    static const char bytes[] = UPGRADED FRAME "\2\0\0\0\0\0\0\0" FRAME;
    size_t head = strlen(UPGRADED);
    struct fake_world *world = *state;

    for (size_t cut = 0; cut < sizeof bytes - head; cut++) {
        struct heard heard = HEARD_INIT;
        bool edge = cut == 0 || cut == 10 || cut == 18 || cut == 28;

        fake_world_reply(world, bytes, head + cut);
        assert_int_equal(attach(world, NULL), 0);
        assert_int_equal(drain(&heard, world, NULL), edge ? 0 : REPOSBX_EPROTOCOL);
        dispose(&heard);
    }
}

static void refuses_what_are_no_frames(void **state)
{
    static const struct {
        const char *bytes;
        size_t length;
    } cases[] = {
        { "\3\0\0\0\0\0\0\1x", 9 },
        { "\377\0\0\0\0\0\0\1x", 9 },
        { "\0\0\0\0\0\0\0\1x", 9 },
        { "\1\0\0\0\377\377\377\377", 8 },
        { "\1\0\0\1\0\0\0\1x", 9 },
        { "plain text", 10 },
        { "H", 1 },
        { "{\"message\":\"x\"}", 15 },
    };
    struct fake_world *world = *state;
    char bytes[512];

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        size_t head = strlen(UPGRADED);
        struct fake_reply reply = { .bytes = bytes, .hold = true };
        struct heard heard = HEARD_INIT;
        reposbx_error err = REPOSBX_ERROR_INIT;
        bool ended = false;

        memcpy(bytes, UPGRADED, head);
        memcpy(bytes + head, FRAME, FRAME_BYTES);
        memcpy(bytes + head + FRAME_BYTES, cases[i].bytes, cases[i].length);
        reply.length = head + FRAME_BYTES + cases[i].length;
        fake_engine_script(world->fake, &reply, 1);
        assert_int_equal(attach(world, NULL), 0);
        assert_int_equal(drain(&heard, world, &err), REPOSBX_EPROTOCOL);
        assert_int_equal(heard.channel[1].length, 2); /* what came before it is kept */
        assert_int_equal(rsbx_stream_receive(&ended, world->stream, hear, &heard, NULL),
                         REPOSBX_EPROTOCOL); /* and nothing after it */
        assert_false(ended);
        dispose(&heard);
    }
}

static void refuses_other_answers(void **state)
{
    static const char *const replies[] = {
        "HTTP/1.1 301 Moved\r\nLocation: /x\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 204 No Content\r\n\r\n",
        "HTTP/1.1 201 Created\r\nContent-Type: application/vnd.docker.raw-stream\r\n\r\n",
        "HTTP/1.1 200 OK\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n<html>",
        "HTTP/1.1 200 OK\r\nContent-Type: application/vnd.docker.raw-stream\r\n"
        "Transfer-Encoding: chunked\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Type: application/vnd.docker.raw-stream\r\n"
        "Content-Length: 10\r\n\r\n",
        "HTTP/1.1 101 UPGRADED\r\nUpgrade: h2c\r\n\r\n",
        "HTTP/1.1 101 UPGRADED\r\nContent-Type: text/html\r\nUpgrade: tcp\r\n\r\n",
        "HTTP/1.0 101 UPGRADED\r\n\r\n",
        "HTTP/1.1 1011 UPGRADED\r\n\r\n",
        "HTTP/1.1 10 UPGRADED\r\n\r\n",
        "HTTP/1.1 101 UPGRADED\n\n",
        "HTTP/1.1 101 UPGRADED\r\n Folded: x\r\n\r\n",
        "HTTP/1.1 101 UPGRADED\r\nNo colon\r\n\r\n",
        "HTTP/1.1 101 UPGRADED\r\nUpgrade : tcp\r\n\r\n",
        "HTTP/1.1 101 UPGRADED\r\n: x\r\n\r\n",
        "HTTP/1.1 101 UPGRADED\r\nX: a\rb\r\n\r\n",
        "HTTP/1.1 101 UPGRADED\r\nX: a\nUpgrade: tcp\r\n\r\n",
        "HTTP/1.1 500 Internal Server Error\r\nContent-Type: text/html\r\nContent-Length: 6\r\n\r\n"
        "<html>",
        "HTTP/1.1 404 Not Found\r\nContent-Type: text/html\r\nContent-Length: 6\r\n\r\n<html>",
        "HTTP/1.1 404 Not Found\r\nContent-Length: 9\r\nContent-Length: "
        "15\r\n\r\n{\"message\":\"x\"}",
        "HTTP/1.1 404 Not Found\r\nContent-Length: 99999999999999999999\r\n\r\n{\"message\":\"x\"}",
        "HTTP/1.1 404 Not Found\r\nContent-Length: 16\r\n\r\n{\"message\":\"x\"}",
        "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 100 Continue\r\n\r\n",
        "\r\n\r\n",
        "\1\0\0\0\0\0\0\2hi\r\n\r\n",
        "plain text\r\n\r\n",
    };
    struct fake_world *world = *state;

    for (size_t i = 0; i < sizeof replies / sizeof replies[0]; i++) {
        reposbx_error err = REPOSBX_ERROR_INIT;
        size_t length = replies[i][0] == '\1' ? 14 : strlen(replies[i]);

        fake_world_reply(world, replies[i], length);
        if (attach(world, &err) != REPOSBX_EPROTOCOL)
            fail_msg("%s: %d %s", replies[i], err.code, err.message);
        assert_null(world->stream);
        assert_int_equal(fake_engine_requests(world->fake), 1);
    }
}

static void refusals_keep_the_engines_words(void **state)
{
    static const struct {
        const char *reply;
        int code;
    } cases[] = {
        { "HTTP/1.1 404 Not Found\r\nContent-Type: application/json\r\nContent-Length: 35\r\n\r\n"
          "{\"message\":\"No such container: x\"}\n and no more of this",
          REPOSBX_ENOTFOUND },
        { "HTTP/1.1 404 Not Found\r\nContent-Type: application/vnd.docker.raw-stream\r\n\r\n"
          "No such container: x\r\n",
          REPOSBX_ENOTFOUND },
        { "HTTP/1.1 404 Not Found\r\nContent-Type: text/plain; charset=utf-8\r\n"
          "Content-Length: 21\r\n\r\nNo such container: x\n",
          REPOSBX_ENOTFOUND },
        { "HTTP/1.1 409 Conflict\r\nContent-Type: application/json\r\n\r\n"
          "{\"message\":\"No such container: x\"}",
          REPOSBX_EBUSY },
        { "HTTP/1.1 500 Internal Server Error\r\nContent-Type: application/json\r\n\r\n"
          "{\"message\":\"No such container: x\"}",
          REPOSBX_EPROTOCOL },
    };
    struct fake_world *world = *state;

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        reposbx_error err = REPOSBX_ERROR_INIT;

        fake_world_reply(world, cases[i].reply, strlen(cases[i].reply));
        assert_int_equal(attach(world, &err), cases[i].code);
        if (strstr(err.message, ": No such container: x (status ") == NULL)
            fail_msg("%s", err.message);
    }
}

static void floods_and_deadlines(void **state)
{
    static const char fields[] = "HTTP/1.1 101 UPGRADED\r\nX: ";
    static const char refusal[] = "HTTP/1.1 404 Not Found\r\nContent-Type: text/plain\r\n\r\n";
    const struct fake_reply replies[] = {
        { .bytes = fields, .length = sizeof fields - 1, .filler = 64U << 20 },
        { .bytes = refusal, .length = sizeof refusal - 1, .filler = 64U << 20 },
    };
    const struct fake_reply late[] = {
        { .bytes = UPGRADED, .length = strlen(UPGRADED), .wait_ms = 60000 },
        { .bytes = UPGRADED, .length = strlen(UPGRADED), .drip_ms = 1000 },
        { .bytes = UPGRADED, .length = strlen(UPGRADED) - 1, .hold = true },
    };
    struct fake_world *world = *state;

    for (size_t i = 0; i < 2; i++) {
        fake_engine_script(world->fake, &replies[i], 1);
        assert_int_equal(attach(world, NULL), REPOSBX_EPROTOCOL);
    }
    for (size_t i = 0; i < 3; i++) {
        uint64_t began = rsbx_now_ns();

        fake_engine_script(world->fake, &late[i], 1);
        assert_int_equal(rsbx_engine_attach(&world->stream, world->engine, "sbx-1",
                                            rsbx_deadline_in_ms(150), NULL),
                         REPOSBX_EUNAVAILABLE);
        assert_in_range(rsbx_now_ns() - began, 140000000ULL, 2000000000ULL);
        assert_null(world->stream);
    }
    assert_int_equal(
        rsbx_engine_attach(&world->stream, world->engine, "sbx-1", rsbx_deadline_in_ms(0), NULL),
        REPOSBX_EUNAVAILABLE);
}

static void a_cancel_ends_the_wait(void **state)
{
    const struct fake_reply never = { .bytes = UPGRADED, .length = strlen(UPGRADED), .wait_ms = 600000 };
    const struct rsbx_deadline deadline = rsbx_deadline_in_ms(600000);
    struct fake_world *world = *state;
    struct fake_cancel cancel;

    fake_engine_script(world->fake, &never, 1);
    fake_cancel_start(&cancel, world->fake);
    assert_int_equal(rsbx_engine_attach(&world->stream, world->engine, "sbx-1",
                                        rsbx_deadline_or(deadline, &cancel.read_fd), NULL),
                     REPOSBX_ECANCELLED);
    assert_false(rsbx_deadline_passed(deadline));
    assert_int_equal(fake_engine_requests(world->fake), 1);
    assert_null(world->stream);
    fake_cancel_await(&cancel);
    fake_cancel_end(&cancel);
}

static void the_callers_stop_is_handed_on(void **state)
{
    static const char bytes[] = UPGRADED FRAME FRAME;
    struct fake_world *world = *state;
    struct heard heard = HEARD_INIT;

    heard.answer = REPOSBX_ECANCELLED;
    fake_world_reply(world, bytes, sizeof bytes - 1);
    assert_int_equal(attach(world, NULL), 0);
    assert_int_equal(drain(&heard, world, NULL), REPOSBX_ECANCELLED);
    assert_int_equal(heard.channel[1].length, 2);
    dispose(&heard);
}

static void sending_never_blocks_and_sees_the_end(void **state)
{
    struct fake_world *world = *state;
    const struct fake_reply deaf = { .bytes = UPGRADED, .length = strlen(UPGRADED), .hold = true };
    static char block[65536];
    reposbx_error err = REPOSBX_ERROR_INIT;
    size_t sent = 1;
    int rc = 0;

    /* The fake drops a connection whose "request" grows over its cap: the end is then seen. */
    fake_engine_script(world->fake, &deaf, 1);
    assert_int_equal(attach(world, NULL), 0);
    for (int i = 0; i < 100000 && rc == 0; i++) {
        if (sent == 0)
            (void)rsbx_wait_fd(rsbx_stream_fd(world->stream), POLLOUT, soon());
        rc = rsbx_stream_send(&sent, world->stream, block, sizeof block, &err);
    }
    assert_int_equal(rc, REPOSBX_EPROTOCOL);
    assert_int_equal(err.code, REPOSBX_EPROTOCOL);
}

#define WORLD(test) cmocka_unit_test_setup_teardown(test, fake_world_setup, fake_world_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WORLD(first_frame_in_the_packet_of_the_head),
        WORLD(frame_alone_wakes_the_poll),
        WORLD(slow_heads_and_frames),
        WORLD(head_cut_everywhere),
        WORLD(frames_cut_everywhere),
        WORLD(refuses_what_are_no_frames),
        WORLD(refuses_other_answers),
        WORLD(refusals_keep_the_engines_words),
        WORLD(floods_and_deadlines),
        WORLD(a_cancel_ends_the_wait),
        WORLD(the_callers_stop_is_handed_on),
        WORLD(sending_never_blocks_and_sees_the_end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
