/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/limits.h"
#include "fake/common.h"
#include "fake/endpoints.h"

#include "base/banned.h"

static struct rsbx_deadline soon(void)
{
    return rsbx_deadline_in_ms(10000);
}

static const struct endpoint *endpoint_of(call_function call)
{
    for (size_t i = 0; i < ENDPOINTS; i++) {
        if (endpoints[i].call == call)
            return &endpoints[i];
    }
    abort();
}

static void succeeds(struct fake_world *world, const struct endpoint *endpoint,
                     const struct rsbx_buf *reply)
{
    reposbx_error err = REPOSBX_ERROR_INIT;
    char request[4096];

    fake_world_reply(world, reply->data, reply->length);
    if (endpoint->call(world->engine, soon(), &err) != 0)
        fail_msg("%s: %s", endpoint->name, err.message);
    assert_int_equal(fake_engine_requests(world->fake), 1);
    fake_engine_request(request, sizeof request, world->fake, 0);
    if (strncmp(request, endpoint->request, strlen(endpoint->request)) != 0)
        fail_msg("%s: sent %s", endpoint->name, request);
}

/* The call must fail with one of the two codes that say "no whole, sensible answer", exactly one
 * request must have come, and the error must be filled. */
static void fails_whole(struct fake_world *world, const struct endpoint *endpoint,
                        const void *reply, size_t length)
{
    reposbx_error err = REPOSBX_ERROR_INIT;
    int rc;

    fake_world_reply(world, reply, length);
    rc = endpoint->call(world->engine, soon(), &err);
    if (rc != REPOSBX_EPROTOCOL && rc != REPOSBX_EUNAVAILABLE)
        fail_msg("%s, %zu bytes: %d %s\n%.*s", endpoint->name, length, rc, err.message, (int)length,
                 (const char *)reply);
    assert_int_equal(err.code, rc);
    assert_string_not_equal(err.message, "");
    assert_int_equal(fake_engine_requests(world->fake), 1);
}

static void cut_everywhere(struct fake_world *world, const struct endpoint *endpoint,
                           const struct rsbx_buf *reply)
{
    for (size_t length = 0; length < reply->length; length++)
        fails_whole(world, endpoint, reply->data, length);
}

static void whole_replies_and_cut_ones(void **state)
{
    struct fake_world *world = *state;
    struct rsbx_buf reply = RSBX_BUF_INIT(4096);

    for (size_t i = 0; i < ENDPOINTS; i++) {
        for (int framing = BY_LENGTH; framing <= BY_CLOSE; framing++) {
            const char *body = endpoints[i].body;

            /* Without a mark of its end only what is whole by itself can be told from a cut one:
             * JSON, and the tar that the caller of an archive reads. */
            if (framing != BY_LENGTH && (body == NULL || body[0] != '{'))
                continue;
            fake_reply_text(&reply, endpoints[i].status, body, (enum fake_framing)framing);
            succeeds(world, &endpoints[i], &reply);
            cut_everywhere(world, &endpoints[i], &reply);
        }
    }
    fake_reply_text(&reply, "200 OK", "eleven byte", BY_CHUNKS);
    succeeds(world, endpoint_of(call_archive_get), &reply);
    cut_everywhere(world, endpoint_of(call_archive_get), &reply);
    rsbx_buf_dispose(&reply);
}

static void slow_replies_are_whole_too(void **state)
{
    struct fake_world *world = *state;
    struct rsbx_buf reply = RSBX_BUF_INIT(4096);

    for (int framing = BY_LENGTH; framing <= BY_CLOSE; framing++) {
        struct fake_reply slow = { .drip_ms = 1 };

        fake_reply_text(&reply, "200 OK", endpoint_of(call_volume_inspect)->body,
                        (enum fake_framing)framing);
        slow.bytes = reply.data;
        slow.length = reply.length;
        fake_engine_script(world->fake, &slow, 1);
        assert_int_equal(call_volume_inspect(world->engine, soon(), NULL), 0);
    }
    rsbx_buf_dispose(&reply);
}

static void cut_refusals_are_no_refusals(void **state)
{
    struct fake_world *world = *state;
    struct rsbx_buf reply = RSBX_BUF_INIT(4096);
    static const char *const statuses[] = { "404 Not Found", "409 Conflict" };

    for (size_t i = 0; i < ENDPOINTS; i++) {
        for (int framing = BY_LENGTH; framing <= BY_CLOSE; framing++) {
            fake_reply_text(&reply, statuses[i % 2], "{\"message\":\"no such thing: sbx-1\"}",
                            (enum fake_framing)framing);
            cut_everywhere(world, &endpoints[i], &reply);
        }
    }
    fake_reply_text(&reply, "304 Not Modified", NULL, BY_LENGTH);
    cut_everywhere(world, endpoint_of(call_container_start), &reply);
    rsbx_buf_dispose(&reply);
}

static void refusals_keep_the_engines_words(void **state)
{
    static const struct {
        const char *status;
        int code;
    } cases[] = {
        { "404 Not Found", REPOSBX_ENOTFOUND },
        { "409 Conflict", REPOSBX_EBUSY },
        { "400 Bad Request", REPOSBX_EPROTOCOL },
        { "401 Unauthorized", REPOSBX_EPROTOCOL },
        { "500 Internal Server Error", REPOSBX_EPROTOCOL },
        { "503 Service Unavailable", REPOSBX_EPROTOCOL },
    };
    struct fake_world *world = *state;
    struct rsbx_buf reply = RSBX_BUF_INIT(4096);
    reposbx_error err = REPOSBX_ERROR_INIT;

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        for (size_t j = 0; j < ENDPOINTS; j++) {
            fake_reply_text(&reply, cases[i].status, "{\"message\":\"words\\nof it\"}",
                            (enum fake_framing)(j % 3));
            fake_world_reply(world, reply.data, reply.length);
            assert_int_equal(endpoints[j].call(world->engine, soon(), &err), cases[i].code);
            assert_non_null(strstr(err.message, "words\\nof it"));
        }
    }
    rsbx_buf_dispose(&reply);
}

static void started_already_is_busy(void **state)
{
    struct fake_world *world = *state;
    struct rsbx_buf reply = RSBX_BUF_INIT(4096);

    fake_reply_text(&reply, "304 Not Modified", NULL, BY_LENGTH);
    fake_world_reply(world, reply.data, reply.length);
    assert_int_equal(call_container_start(world->engine, soon(), NULL), REPOSBX_EBUSY);
    fails_whole(world, endpoint_of(call_container_kill), reply.data,
                reply.length); /* kill knows no 304 */
    rsbx_buf_dispose(&reply);
}

static void unexpected_statuses(void **state)
{
    static const char *const replies[] = {
        "HTTP/1.1 301 Moved Permanently\r\nLocation: /v1.41/other\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 307 Temporary Redirect\r\nLocation: /other\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Basic realm=x\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 407 Proxy Authentication Required\r\nProxy-Authenticate: Basic\r\n"
        "Content-Length: 0\r\n\r\n",
        "HTTP/1.1 202 Accepted\r\nContent-Length: 2\r\n\r\n{}",
        "HTTP/1.1 206 Partial Content\r\nContent-Length: 2\r\n\r\n{}",
        "HTTP/1.1 500 Internal Server Error\r\nContent-Type: text/html\r\nContent-Length: "
        "13\r\n\r\n"
        "<html></html>",
        "HTTP/1.1 404 Not Found\r\nContent-Type: text/html\r\nContent-Length: "
        "13\r\n\r\n<html></html>",
        "HTTP/1.1 404 Not Found\r\nContent-Type: text/plain\r\nContent-Length: 19\r\n\r\n"
        "404 page not found\n",
        "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 409 Conflict\r\nContent-Length: 14\r\n\r\n{\"message\":42}",
        "HTTP/1.1 409 Conflict\r\nContent-Length: 27\r\n\r\n{\"message\":\"a\"}{\"b\":\"cdef\"}",
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: tcp\r\nConnection: Upgrade\r\n\r\n{}",
        "HTTP/1.1 100 Continue\r\n\r\n",
        "HTTP/1.1 200\r\n\r\n[]",
        "HTTP/1.1 200 OK\r\nContent-Length: 15\r\n\r\n<html>OK</html>",
        "HTTP/1.0 200 OK\r\n\r\nnull",
        "HTTP/2 200\r\n\r\n{",
        "ICY 200 OK\r\n\r\n{}",
        "{\"Id\":\"sha256:1\"}",
        "SSH-2.0-OpenSSH_9.2\r\n",
        "\r\n\r\n\r\n",
    };
    struct fake_world *world = *state;

    for (size_t i = 0; i < ENDPOINTS; i++) {
        bool archive =
            endpoints[i].call == call_archive_get || endpoints[i].call == call_archive_put;

        for (size_t j = 0; j < sizeof replies / sizeof replies[0]; j++) {
            if (!archive || strstr(replies[j], " 200") == NULL)
                fails_whole(world, &endpoints[i], replies[j], strlen(replies[j]));
        }
    }
}

static void neighbouring_success_is_none(void **state)
{
    struct fake_world *world = *state;
    struct rsbx_buf reply = RSBX_BUF_INIT(4096);

    for (size_t i = 0; i < ENDPOINTS; i++) {
        const char *body = endpoints[i].body != NULL ? endpoints[i].body : "{}";

        if (endpoints[i].status[2] != '0') {
            fake_reply_text(&reply, "200 OK", body, BY_LENGTH);
            fails_whole(world, &endpoints[i], reply.data, reply.length);
        }
        if (endpoints[i].status[2] != '1') {
            fake_reply_text(&reply, "201 Created", body, BY_LENGTH);
            fails_whole(world, &endpoints[i], reply.data, reply.length);
        }
        if (endpoints[i].status[2] != '4') {
            fake_reply_text(&reply, "204 No Content", NULL, BY_LENGTH);
            fails_whole(world, &endpoints[i], reply.data, reply.length);
        }
        fake_reply_text(&reply, "204 No Content", body[0] != '\0' ? body : "x", BY_LENGTH);
        fails_whole(world, &endpoints[i], reply.data, reply.length);
        fake_reply_text(&reply, "204 No Content", body[0] != '\0' ? body : "x", BY_CLOSE);
        fails_whole(world, &endpoints[i], reply.data, reply.length);
        fake_reply_text(&reply, "204 No Content", body[0] != '\0' ? body : "x", BY_CHUNKS);
        fails_whole(world, &endpoints[i], reply.data, reply.length);
    }
    rsbx_buf_dispose(&reply);
}

static void wrong_lengths_and_chunks(void **state)
{
    static const char *const bodies[] = {
        "Content-Length: 1\r\n\r\n{\"Id\":\"1\",\"Name\":\"sbx-1\"}",
        "Content-Length: 0\r\n\r\n{\"Id\":\"1\",\"Name\":\"sbx-1\"}",
        "Content-Length: 26\r\n\r\n{\"Id\":\"1\",\"Name\":\"sbx-1\"}",
        "Content-Length: 26\r\n\r\n{\"Id\":\"1\",\"Name\":\"sbx-1\"}  more",
        "Content-Length: 99999999999999999999999\r\n\r\n{\"Id\":\"1\",\"Name\":\"sbx-1\"}",
        "Content-Length: -1\r\n\r\n{\"Id\":\"1\",\"Name\":\"sbx-1\"",
        "Content-Length: 1048576\r\n\r\n{\"Id\":\"1\",\"Name\":\"sbx-1\"}",
        "Transfer-Encoding: chunked\r\n\r\n19\r\n{\"Id\":\"1\",\"Name\":\"sbx-1\"}\r\n",
        "Transfer-Encoding: chunked\r\n\r\nzz\r\n{\"Id\":\"1\",\"Name\":\"sbx-1\"}\r\n0\r\n\r\n",
        "Transfer-Encoding: chunked\r\n\r\n5\r\n{\"Id\":\"1\",\"Name\":\"sbx-1\"}\r\n0\r\n\r\n",
        "Transfer-Encoding: chunked\r\n\r\nFFFFFFFFFFFFFFFF\r\n{\"Id\":\"1\",\"Name\":\"sbx-1\"}",
        "Transfer-Encoding: chunked\r\n\r\n{\"Id\":\"1\",\"Name\":\"sbx-1\"}",
        "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "\r\n",
        "\r\n{\"Id\":\"1\",\"Name\":\"sbx-1\"}{}",
        "\r\n{\"Id\":\"1\",\"Id\":\"2\",\"Name\":\"sbx-1\"}",
        "\r\n{\"Id\":\"\xFF\",\"Name\":\"sbx-1\"}",
        "\r\n{\"Id\":\"a\\u0000b\",\"Name\":\"sbx-1\"}",
    };
    struct fake_world *world = *state;
    struct rsbx_buf reply = RSBX_BUF_INIT(4096);

    for (size_t i = 0; i < ENDPOINTS; i++) {
        if (endpoints[i].body == NULL || endpoints[i].body[0] != '{')
            continue;
        for (size_t j = 0; j < sizeof bodies / sizeof bodies[0]; j++) {
            rsbx_buf_clear(&reply);
            assert_int_equal(
                rsbx_buf_format(&reply, NULL, "HTTP/1.1 %s\r\n%s", endpoints[i].status, bodies[j]),
                0);
            fails_whole(world, &endpoints[i], reply.data, reply.length);
        }
    }
    rsbx_buf_dispose(&reply);
}

static void floods_are_cut_off(void **state)
{
    struct fake_world *world = *state;
    struct rsbx_buf reply = RSBX_BUF_INIT(1U << 20);
    struct fake_reply flood;
    uint64_t began;

    for (size_t i = 0; i < ENDPOINTS; i++) {
        reposbx_error err = REPOSBX_ERROR_INIT;

        /* Many fields, one endless field, endless 1xx, a body of 64 MiB. */
        fake_reply_text(&reply, endpoints[i].status, NULL, BY_LENGTH);
        reply.length -= 2;
        for (int j = 0; j < 20000; j++)
            assert_int_equal(rsbx_buf_text(&reply, "X-Field: y\r\n", NULL), 0);
        assert_int_equal(rsbx_buf_text(&reply, "\r\n", NULL), 0);
        fails_whole(world, &endpoints[i], reply.data, reply.length);
        began = rsbx_now_ns();
        flood = (struct fake_reply){
            .bytes = "HTTP/1.1 200 OK\r\nX: ", .length = 20, .filler = 64U << 20
        };
        fake_engine_script(world->fake, &flood, 1);
        assert_int_equal(endpoints[i].call(world->engine, soon(), &err), REPOSBX_EPROTOCOL);
        assert_non_null(strstr(err.message, "a head of more than"));
        rsbx_buf_clear(&reply);
        for (int j = 0; j < 4000; j++)
            assert_int_equal(rsbx_buf_text(&reply, "HTTP/1.1 100 Continue\r\n\r\n", NULL), 0);
        fails_whole(world, &endpoints[i], reply.data, reply.length);
        rsbx_buf_clear(&reply);
        assert_int_equal(rsbx_buf_format(&reply, NULL,
                                         "HTTP/1.1 %s\r\nContent-Length: 67108864\r\n\r\n",
                                         endpoints[i].status),
                         0);
        flood =
            (struct fake_reply){ .bytes = reply.data, .length = reply.length, .filler = 64U << 20 };
        fake_engine_script(world->fake, &flood, 1);
        assert_int_equal(endpoints[i].call(world->engine, soon(), NULL),
                         endpoints[i].call == call_archive_get ? REPOSBX_ELIMIT
                                                               : REPOSBX_EPROTOCOL);
        assert_true(rsbx_now_ns() - began < 5000000000ULL);
    }
    rsbx_buf_dispose(&reply);
}

/* Within the deadline, and not long after it. */
static void late(struct fake_world *world, const struct endpoint *endpoint,
                 const struct fake_reply *reply)
{
    uint64_t began = rsbx_now_ns();
    uint64_t took;

    fake_engine_script(world->fake, reply, 1);
    assert_int_equal(endpoint->call(world->engine, rsbx_deadline_in_ms(150), NULL),
                     REPOSBX_EUNAVAILABLE);
    took = rsbx_now_ns() - began;
    assert_in_range(took, 140000000ULL, 2000000000ULL);
    assert_int_equal(fake_engine_requests(world->fake), 1);
}

static void deadlines_hold(void **state)
{
    struct fake_world *world = *state;
    struct rsbx_buf reply = RSBX_BUF_INIT(4096);

    for (size_t i = 0; i < ENDPOINTS; i++) {
        struct fake_reply slow;

        fake_reply_text(&reply, endpoints[i].status, endpoints[i].body, BY_LENGTH);
        slow = (struct fake_reply){ .bytes = reply.data, .length = reply.length, .wait_ms = 60000 };
        late(world, &endpoints[i], &slow); /* no answer */
        slow.wait_ms = 0;
        slow.drip_ms = 1000;
        late(world, &endpoints[i], &slow); /* one byte a second */
        slow.drip_ms = 5;
        late(world, &endpoints[i], &slow);
        slow = (struct fake_reply){ .bytes = reply.data, .length = reply.length - 3, .hold = true };
        late(world, &endpoints[i], &slow); /* the last bytes never come */
        fake_engine_script(world->fake, &slow, 1);
        assert_int_equal(endpoints[i].call(world->engine, rsbx_deadline_in_ms(0), NULL),
                         REPOSBX_EUNAVAILABLE);
        assert_int_equal(fake_engine_requests(world->fake), 0);
    }
    rsbx_buf_dispose(&reply);
}

/* One call that is cancelled while it waits; its deadline is long enough to see that it is not that. */
static int cancelled(struct fake_world *world, const struct endpoint *endpoint,
                     const struct fake_reply *reply, reposbx_error *err)
{
    struct rsbx_deadline deadline = rsbx_deadline_in_ms(600000);
    struct fake_cancel cancel;
    int rc;

    fake_engine_script(world->fake, reply, 1);
    fake_cancel_start(&cancel, world->fake);
    rc = endpoint->call(world->engine, rsbx_deadline_or(deadline, &cancel.read_fd), err);
    assert_false(rsbx_deadline_passed(deadline));
    assert_int_equal(fake_engine_requests(world->fake), 1);
    /* The next one is not even sent. */
    fake_cancel_await(&cancel);
    fake_engine_script(world->fake, reply, 1);
    assert_int_equal(endpoint->call(world->engine, rsbx_deadline_or(deadline, &cancel.read_fd), NULL),
                     REPOSBX_ECANCELLED);
    assert_int_equal(fake_engine_requests(world->fake), 0);
    fake_cancel_end(&cancel);
    return rc;
}

static void cancels_are_heard(void **state)
{
    struct fake_world *world = *state;
    struct rsbx_buf reply = RSBX_BUF_INIT(4096);

    for (size_t i = 0; i < ENDPOINTS; i++) {
        bool reading = strncmp(endpoints[i].request, "GET ", 4) == 0;
        reposbx_error err = REPOSBX_ERROR_INIT;
        struct fake_reply slow;

        fake_reply_text(&reply, endpoints[i].status, endpoints[i].body, BY_LENGTH);
        slow = (struct fake_reply){ .bytes = reply.data, .length = reply.length, .wait_ms = 600000 };
        if (reading || endpoints[i].call == call_container_create) {
            assert_int_equal(cancelled(world, &endpoints[i], &slow, &err), REPOSBX_ECANCELLED);
            assert_non_null(strstr(err.message, "cancelled"));
        }
        /* What changes something is given a moment for its answer. */
        slow.wait_ms = 200;
        if (!reading)
            assert_int_equal(cancelled(world, &endpoints[i], &slow, NULL), REPOSBX_OK);
    }
    rsbx_buf_dispose(&reply);
}

static void unanswered_calls_are_sent_once(void **state)
{
    struct fake_world *world = *state;
    struct rsbx_buf good = RSBX_BUF_INIT(4096);
    struct fake_reply replies[2];
    char request[4096];

    fake_reply_text(&good, "200 OK", "{\"Name\":\"sbx-1\"}", BY_LENGTH);
    for (size_t i = 0; i < ENDPOINTS; i++) {
        reposbx_error err = REPOSBX_ERROR_INIT;

        if (strncmp(endpoints[i].request, "GET", 3) == 0)
            continue;
        /* A live connection is there that libcurl could be tempted to use, and then to resend on.
         * */
        replies[0] = (struct fake_reply){ .bytes = good.data, .length = good.length, .hold = true };
        replies[1] = (struct fake_reply){ .length = 0 };
        fake_engine_script(world->fake, replies, 2);
        assert_int_equal(call_volume_inspect(world->engine, soon(), NULL), 0);
        assert_int_equal(endpoints[i].call(world->engine, soon(), &err), REPOSBX_EUNAVAILABLE);
        assert_int_equal(fake_engine_requests(world->fake), 2);
        fake_engine_request(request, sizeof request, world->fake, 1);
        assert_memory_equal(request, endpoints[i].request, strlen(endpoints[i].request));
        assert_string_not_equal(err.hint, "");
    }
    rsbx_buf_dispose(&good);
}

static void reading_shares_a_connection(void **state)
{
    struct fake_world *world = *state;
    struct rsbx_buf good = RSBX_BUF_INIT(4096);
    struct fake_reply replies[3];

    fake_reply_text(&good, "200 OK", "{\"Name\":\"sbx-1\"}", BY_LENGTH);
    for (int i = 0; i < 3; i++)
        replies[i] =
            (struct fake_reply){ .bytes = good.data, .length = good.length, .hold = i < 2 };
    fake_engine_script(world->fake, replies, 3);
    for (int i = 0; i < 3; i++)
        assert_int_equal(call_volume_inspect(world->engine, soon(), NULL), 0);
    assert_int_equal(fake_engine_requests(world->fake), 3);
    /* The third reply closed it: the next call makes a new one. */
    fake_engine_script(world->fake, replies, 1);
    assert_int_equal(call_volume_inspect(world->engine, soon(), NULL), 0);
    rsbx_buf_dispose(&good);
}

static void bodies_are_sent_as_given(void **state)
{
    struct fake_world *world = *state;
    struct rsbx_buf reply = RSBX_BUF_INIT(4096);
    char request[4096];

    fake_reply_text(&reply, "201 Created", "{\"Name\":\"sbx-1\"}", BY_LENGTH);
    fake_world_reply(world, reply.data, reply.length);
    assert_int_equal(call_volume_create(world->engine, soon(), NULL), 0);
    fake_engine_request(request, sizeof request, world->fake, 0);
    assert_non_null(strstr(request, "\r\nContent-Type: application/json\r\n"));
    assert_non_null(strstr(request, "\r\n\r\n{\"Name\":\"sbx-1\",\"Driver\":\"local\",\"Labels\":"
                                    "{\"a\":\"b\"},\"DriverOpts\":{\"type\":\"tmpfs\"}}"));
    fake_reply_text(&reply, "200 OK", "", BY_LENGTH);
    fake_world_reply(world, reply.data, reply.length);
    assert_int_equal(call_archive_put(world->engine, soon(), NULL), 0);
    fake_engine_request(request, sizeof request, world->fake, 0);
    assert_non_null(strstr(request, "\r\nContent-Type: application/x-tar\r\n"));
    assert_non_null(strstr(request, "\r\n\r\ntar"));
    assert_null(strstr(request, "Expect"));
    rsbx_buf_dispose(&reply);
}

static void create_replies_are_read_strictly(void **state)
{
    static const char *const bad[] = { "{}",
                                       "{\"Id\":\"\"}",
                                       "{\"Id\":3}",
                                       "{\"Id\":\"a\",\"Warnings\":\"text\"}",
                                       "{\"Id\":\"a\",\"Warnings\":{\"b\":1}}",
                                       "{\"Id\":\"a\",\"Warnings\":[\"b\",3]}" };
    static const char *const none[] = { "{\"Id\":\"a\"}", "{\"Id\":\"a\",\"Warnings\":null}",
                                        "{\"Id\":\"a\",\"Warnings\":[]}" };
    struct fake_world *world = *state;
    struct rsbx_buf reply = RSBX_BUF_INIT(4096);
    json_t *spec = json_object();
    char *warnings = NULL;

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        fake_reply_text(&reply, "201 Created", bad[i], BY_LENGTH);
        fails_whole(world, endpoint_of(call_container_create), reply.data, reply.length);
    }
    for (size_t i = 0; i < sizeof none / sizeof none[0]; i++) {
        warnings = UNTOUCHED_WARNINGS;
        fake_reply_text(&reply, "201 Created", none[i], BY_LENGTH);
        fake_world_reply(world, reply.data, reply.length);
        assert_int_equal(
            rsbx_engine_container_create(&warnings, world->engine, "sbx-1", spec, soon(), NULL), 0);
        assert_null(warnings);
    }
    fake_reply_text(&reply, "201 Created", "{\"Id\":\"a\",\"Warnings\":[\"no swap\",\"x\"]}",
                    BY_LENGTH);
    fake_world_reply(world, reply.data, reply.length);
    assert_int_equal(
        rsbx_engine_container_create(&warnings, world->engine, "sbx-1", spec, soon(), NULL), 0);
    assert_string_equal(warnings, "no swap; x");
    free(warnings);
    /* A volume of another name is not the one that was asked for. */
    fake_reply_text(&reply, "201 Created", "{\"Name\":\"sbx-2\"}", BY_LENGTH);
    fails_whole(world, endpoint_of(call_volume_create), reply.data, reply.length);
    json_decref(spec);
    rsbx_buf_dispose(&reply);
}

/* Of an engine that was known: one that was just opened has its version already. */
static void host_facts_need_two_whole_replies(void **state)
{
    static const char info_body[] =
        "{\"CgroupDriver\":\"systemd\",\"CgroupVersion\":\"2\",\"Driver\":\"overlay2\"}";
    struct fake_world *world = *state;
    struct rsbx_buf version = RSBX_BUF_INIT(4096);
    struct rsbx_buf info = RSBX_BUF_INIT(4096);
    struct fake_reply replies[2];
    struct rsbx_engine *engine = NULL;
    int rc;

    assert_int_equal(rsbx_engine_reopen(&engine, fake_engine_address(world->fake), 141, NULL), 0);
    fake_reply_text(&version, "200 OK", FAKE_VERSION_BODY("1.41", "1.12"), BY_CHUNKS);
    fake_reply_text(&info, "200 OK", info_body, BY_CHUNKS);
    replies[0] = (struct fake_reply){ .bytes = version.data };
    replies[1] = (struct fake_reply){ .bytes = info.data };
    for (size_t i = 0; i <= version.length + info.length; i++) {
        replies[0].length = i < version.length ? i : version.length;
        replies[1].length = i < version.length ? info.length : i - version.length;
        fake_engine_script(world->fake, replies, 2);
        rc = call_host(engine, soon(), NULL);
        if (i == version.length + info.length)
            assert_int_equal(rc, 0);
        else if (rc != REPOSBX_EPROTOCOL && rc != REPOSBX_EUNAVAILABLE)
            fail_msg("cut at %zu: %d", i, rc);
    }
    rsbx_engine_free(engine);
    rsbx_buf_dispose(&version);
    rsbx_buf_dispose(&info);
}

#define WORLD(test) cmocka_unit_test_setup_teardown(test, fake_world_setup, fake_world_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WORLD(whole_replies_and_cut_ones),
        WORLD(slow_replies_are_whole_too),
        WORLD(cut_refusals_are_no_refusals),
        WORLD(refusals_keep_the_engines_words),
        WORLD(started_already_is_busy),
        WORLD(unexpected_statuses),
        WORLD(neighbouring_success_is_none),
        WORLD(wrong_lengths_and_chunks),
        WORLD(floods_are_cut_off),
        WORLD(deadlines_hold),
        WORLD(cancels_are_heard),
        WORLD(unanswered_calls_are_sent_once),
        WORLD(reading_shares_a_connection),
        WORLD(bodies_are_sent_as_given),
        WORLD(create_replies_are_read_strictly),
        WORLD(host_facts_need_two_whole_replies),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
