/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RSBX_BASE_BUF_H
#define RSBX_BASE_BUF_H

#include <stdarg.h>
#include <stddef.h>

#include "base/error.h"

/*
 * A growing byte buffer with a limit that is set at birth. `data` is always followed by a NUL that
 * `length` does not count, so text can be used as a C string. Going over the limit is
 * REPOSBX_ELIMIT and leaves the content as it was.
 *
 *     RSBX_AUTO(rsbx_buf) struct rsbx_buf body = RSBX_BUF_INIT(RSBX_MAX_REPLY_BYTES);
 */
struct rsbx_buf {
    char *data;
    size_t length;
    size_t capacity;
    size_t limit;
};

#define RSBX_BUF_INIT(limit_bytes) { NULL, 0, 0, (limit_bytes) }

void rsbx_buf_dispose(struct rsbx_buf *buf);
void rsbx_buf_autop(struct rsbx_buf *buf);

/* Empties without releasing memory. */
void rsbx_buf_clear(struct rsbx_buf *buf);

int rsbx_buf_append(struct rsbx_buf *buf, const void *bytes, size_t length, reposbx_error *err);
int rsbx_buf_text(struct rsbx_buf *buf, const char *text, reposbx_error *err);
int rsbx_buf_format(struct rsbx_buf *buf, reposbx_error *err, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Makes room for `length` more bytes and returns where they go (the caller writes there and adds to
 * buf->length), or NULL with err set. */
void *rsbx_buf_reserve(struct rsbx_buf *buf, size_t length, reposbx_error *err);

/* Hands the bytes to the caller (free()); the buffer is empty after. Never NULL unless out of
 * memory: an empty buffer gives an empty string. */
char *rsbx_buf_steal(struct rsbx_buf *buf);

#endif
