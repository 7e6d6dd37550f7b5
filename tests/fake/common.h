/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RSBX_TESTS_FAKE_COMMON_H
#define RSBX_TESTS_FAKE_COMMON_H

#include <pthread.h>

#include "engine/engine.h"
#include "support/fake_engine.h"

/* A fake engine and a handle that was opened on it. */
struct fake_world {
    struct fake_engine *fake;
    struct rsbx_engine *engine;
    struct rsbx_stream *stream; /* freed with the rest */
};

int fake_world_setup(void **state);
int fake_world_teardown(void **state);

/* One reply of `length` bytes, then the connection is closed. */
void fake_world_reply(struct fake_world *world, const void *bytes, size_t length);

/* How the end of a body is marked. */
enum fake_framing { BY_LENGTH, BY_CHUNKS, BY_CLOSE };

/* Writes a reply into out (emptied before): "HTTP/1.1 STATUS", a content type, the framing, the
 * body. A NULL body is no body at all. */
void fake_reply_text(struct rsbx_buf *out, const char *status, const char *body,
                     enum fake_framing framing);

/* Cancels (read_fd becomes readable) once the engine has a request. */
struct fake_cancel {
    struct fake_engine *fake;
    int read_fd, write_fd;
    pthread_t thread;
};
void fake_cancel_start(struct fake_cancel *cancel, struct fake_engine *fake);
void fake_cancel_await(struct fake_cancel *cancel);
void fake_cancel_end(struct fake_cancel *cancel);

#define FAKE_PING "HTTP/1.1 200 OK\r\nApi-Version: 1.41\r\nContent-Length: 2\r\n\r\nOK"
#define FAKE_VERSION_BODY(newest, oldest)                                                 \
    "{\"Version\":\"20.10.24\",\"ApiVersion\":\"" newest "\",\"MinAPIVersion\":\"" oldest \
    "\",\"Os\":\"linux\",\"Arch\":\"amd64\",\"Components\":[{\"Name\":\"Engine\"}]}"

#endif
