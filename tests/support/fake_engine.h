/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RSBX_TESTS_FAKE_ENGINE_H
#define RSBX_TESTS_FAKE_ENGINE_H

#include <stdbool.h>
#include <stddef.h>

/*
 * An engine that answers by script: a thread behind a unix socket in a folder of its own. It reads
 * one request (head, and a body by Content-Length) and plays the next reply of the script, byte for
 * byte as given, whatever was asked. When the script is at its end it closes without an answer.
 *
 *     struct fake_engine *fake = fake_engine_start();
 *     fake_engine_script(fake, replies, 2);
 *     … the call under test …
 *     assert_int_equal(fake_engine_requests(fake), 1);
 *     fake_engine_stop(fake);
 */
struct fake_engine;

struct fake_reply {
    const void *bytes; /* copied when the script is set */
    size_t length;
    size_t filler; /* so many further bytes 'x' */
    int wait_ms;   /* before the first byte */
    int drip_ms;   /* between two bytes; 0: as fast as it goes */
    bool hold;     /* leave the connection open and read another request from it */
};

/* Ends the program when it cannot be made. */
struct fake_engine *fake_engine_start(void);
void fake_engine_stop(struct fake_engine *fake);

const char *fake_engine_address(const struct fake_engine *fake); /* unix:///… */
const char *fake_engine_path(const struct fake_engine *fake);

/* Replaces the script (at most 64 replies) and forgets the requests that came so far. */
void fake_engine_script(struct fake_engine *fake, const struct fake_reply *replies, size_t count);

/* How many whole requests came since the script was set. */
size_t fake_engine_requests(struct fake_engine *fake);

/* The text of one of them in out[size], cut to fit; empty when there is none. */
void fake_engine_request(char *out, size_t size, struct fake_engine *fake, size_t index);

#endif
