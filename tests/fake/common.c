/* SPDX-License-Identifier: Apache-2.0 */
#include "fake/common.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/banned.h"

void fake_reply_text(struct rsbx_buf *out, const char *status, const char *body,
                     enum fake_framing framing)
{
    size_t length = body != NULL ? strlen(body) : 0;
    size_t half = length / 2;
    int rc;

    rsbx_buf_clear(out);
    rc = rsbx_buf_format(out, NULL, "HTTP/1.1 %s\r\nServer: Docker/20.10.24 (linux)\r\n", status);
    if (rc == 0 && body == NULL)
        rc = rsbx_buf_text(out, "\r\n", NULL);
    else if (rc == 0)
        rc = rsbx_buf_text(out, "Content-Type: application/json\r\n", NULL);
    if (rc == 0 && body != NULL && framing == BY_LENGTH)
        rc = rsbx_buf_format(out, NULL, "Content-Length: %zu\r\n\r\n%s", length, body);
    if (rc == 0 && body != NULL && framing == BY_CLOSE)
        rc = rsbx_buf_format(out, NULL, "Connection: close\r\n\r\n%s", body);
    if (rc == 0 && body != NULL && framing == BY_CHUNKS)
        rc = rsbx_buf_format(out, NULL,
                             "Transfer-Encoding: chunked\r\n\r\n%zx\r\n%.*s\r\n%zx\r\n%s\r\n"
                             "0\r\n\r\n",
                             half, (int)half, body, length - half, body + half);
    if (rc != 0)
        abort();
}

void fake_world_reply(struct fake_world *world, const void *bytes, size_t length)
{
    const struct fake_reply reply = { .bytes = bytes, .length = length };

    fake_engine_script(world->fake, &reply, 1);
}

int fake_world_setup(void **state)
{
    struct fake_world *world = calloc(1, sizeof *world);
    struct rsbx_buf version = RSBX_BUF_INIT(4096);
    struct fake_reply replies[2] = { { .bytes = FAKE_PING, .length = strlen(FAKE_PING) } };
    int rc;

    if (world == NULL)
        return -1;
    *state = world;
    fake_reply_text(&version, "200 OK", FAKE_VERSION_BODY("1.41", "1.12"), BY_LENGTH);
    replies[1].bytes = version.data;
    replies[1].length = version.length;
    world->fake = fake_engine_start();
    fake_engine_script(world->fake, replies, 2);
    rc = rsbx_engine_open(&world->engine, fake_engine_address(world->fake),
                          rsbx_deadline_in_ms(10000), NULL);
    rsbx_buf_dispose(&version);
    return rc;
}

int fake_world_teardown(void **state)
{
    struct fake_world *world = *state;

    rsbx_stream_free(world->stream);
    rsbx_engine_free(world->engine);
    fake_engine_stop(world->fake);
    free(world);
    return 0;
}

static void *cancel_soon(void *payload)
{
    struct fake_cancel *cancel = payload;

    while (fake_engine_requests(cancel->fake) == 0)
        (void)usleep(1000);
    if (write(cancel->write_fd, "", 1) != 1)
        abort();
    return NULL;
}

void fake_cancel_start(struct fake_cancel *cancel, struct fake_engine *fake)
{
    int both[2];

    if (pipe(both) != 0)
        abort();
    *cancel = (struct fake_cancel){ .fake = fake, .read_fd = both[0], .write_fd = both[1] };
    if (pthread_create(&cancel->thread, NULL, cancel_soon, cancel) != 0)
        abort();
}

void fake_cancel_await(struct fake_cancel *cancel)
{
    if (pthread_join(cancel->thread, NULL) != 0)
        abort();
}

void fake_cancel_end(struct fake_cancel *cancel)
{
    (void)close(cancel->read_fd);
    (void)close(cancel->write_fd);
}
