/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/banned.h"

#define FIRST_CAPACITY 256U

void rsbx_buf_dispose(struct rsbx_buf *buf)
{
    free(buf->data);
    buf->data = NULL;
    buf->length = 0;
    buf->capacity = 0;
}

void rsbx_buf_autop(struct rsbx_buf *buf)
{
    int saved = errno;

    rsbx_buf_dispose(buf);
    errno = saved;
}

void rsbx_buf_clear(struct rsbx_buf *buf)
{
    buf->length = 0;
    if (buf->data != NULL)
        buf->data[0] = '\0';
}

void *rsbx_buf_reserve(struct rsbx_buf *buf, size_t length, reposbx_error *err)
{
    size_t need;
    size_t capacity = buf->capacity < FIRST_CAPACITY ? FIRST_CAPACITY : buf->capacity;
    char *grown;

    if (length > buf->limit || buf->length > buf->limit - length) {
        (void)rsbx_fail(err, REPOSBX_ELIMIT, "more than %zu bytes", buf->limit);
        return NULL;
    }
    need = buf->length + length + 1;
    if (need > buf->capacity) {
        while (capacity < need)
            capacity = capacity > (size_t)-1 / 2 ? need : capacity * 2;
        grown = realloc(buf->data, capacity);
        if (grown == NULL) {
            (void)rsbx_fail_memory(err);
            return NULL;
        }
        buf->data = grown;
        buf->capacity = capacity;
    }
    buf->data[buf->length] = '\0';
    return buf->data + buf->length;
}

int rsbx_buf_append(struct rsbx_buf *buf, const void *bytes, size_t length, reposbx_error *err)
{
    char *place = rsbx_buf_reserve(buf, length, err);

    if (place == NULL)
        return length > buf->limit || buf->length > buf->limit - length ? REPOSBX_ELIMIT
                                                                        : REPOSBX_EINTERNAL;
    if (length > 0)
        memcpy(place, bytes, length);
    buf->length += length;
    buf->data[buf->length] = '\0';
    return REPOSBX_OK;
}

int rsbx_buf_text(struct rsbx_buf *buf, const char *text, reposbx_error *err)
{
    return rsbx_buf_append(buf, text, strlen(text), err);
}

int rsbx_buf_format(struct rsbx_buf *buf, reposbx_error *err, const char *format, ...)
{
    va_list args;
    char *text = NULL;
    int length;
    int rc;

    va_start(args, format);
    length = vasprintf(&text, format, args);
    va_end(args);
    if (length < 0)
        return rsbx_fail_memory(err);
    rc = rsbx_buf_append(buf, text, (size_t)length, err);
    free(text);
    return rc;
}

char *rsbx_buf_steal(struct rsbx_buf *buf)
{
    char *data = buf->data;

    if (data == NULL)
        return calloc(1, 1);
    data[buf->length] = '\0';
    buf->data = NULL;
    buf->length = 0;
    buf->capacity = 0;
    return data;
}
