/* SPDX-License-Identifier: Apache-2.0 */
#include "source/stream_internal.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"

#include "base/banned.h"

/* What the child says, byte by byte, and how it ends when it says no more. */

int rsbx_source_nonsense(const char *what, reposbx_error *err)
{
    return rsbx_fail(err, REPOSBX_EPROTOCOL, "the repository is damaged: its reader sent %s", what);
}

/* The child is silent for good, or too slow: says how it ended. */
static int child_gone(struct rsbx_source *source, reposbx_error *err)
{
    struct rsbx_deadline soon =
        rsbx_deadline_min(source->deadline, rsbx_deadline_in_ms(RSBX_STREAM_LAST_MS));
    int rc;

    if (rsbx_check_cancelled(source->deadline.cancel_fd, err) != 0)
        return REPOSBX_ECANCELLED; /* and the same Ctrl-C may have ended the child */
    rc = rsbx_child_finish(&source->child, soon, NULL, err);
    if (rc == 0)
        rc = rsbx_fail(err, REPOSBX_EPROTOCOL, "its reader ended in mid-stream");
    rsbx_context(err, "the repository is damaged or too large to read");
    rsbx_hint(err, "git fsck says whether it is damaged");
    return REPOSBX_EPROTOCOL;
}

int rsbx_source_need(struct rsbx_source *source, size_t length, reposbx_error *err)
{
    while (source->used - source->at < length) {
        ssize_t got;
        int ready;

        if (source->at > 0 && (source->at == source->used ||
                               RSBX_STREAM_BYTES - source->at < length)) {
            memmove(source->buffer, source->buffer + source->at, source->used - source->at);
            source->used -= source->at;
            source->at = 0;
        }
        ready = rsbx_wait_fd(source->child.pipe_fd, POLLIN, source->deadline);
        if (ready < 0)
            return rsbx_fail_errno(err, REPOSBX_EIO, "cannot wait for the reader");
        if (ready == 0)
            return child_gone(source, err);
        got = read(source->child.pipe_fd, source->buffer + source->used,
                   RSBX_STREAM_BYTES - source->used);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return rsbx_fail_errno(err, REPOSBX_EIO, "cannot read from the reader");
        if (got == 0)
            return child_gone(source, err);
        source->used += (size_t)got;
    }
    return REPOSBX_OK;
}

int rsbx_source_take(void *out, struct rsbx_source *source, size_t length, reposbx_error *err)
{
    uint8_t *place = out;

    while (length > 0) {
        size_t part = source->used - source->at;
        int rc;

        if (part == 0) {
            rc = rsbx_source_need(source, 1, err);
            if (rc != 0)
                return rc;
            continue;
        }
        part = part < length ? part : length;
        memcpy(place, source->buffer + source->at, part);
        source->at += part;
        place += part;
        length -= part;
    }
    return REPOSBX_OK;
}

int rsbx_source_take_error(struct rsbx_source *source, reposbx_error *err)
{
    uint8_t head[RSBX_WIRE_ERROR_BYTES];
    char message[REPOSBX_MESSAGE_BYTES];
    char hint[REPOSBX_HINT_BYTES];
    size_t message_length, hint_length;
    int code;
    int rc = rsbx_source_take(head, source, sizeof head, err);

    if (rc != 0)
        return rc;
    code = (int)rsbx_get32(head + 1);
    message_length = (size_t)head[5] << 8 | head[6];
    hint_length = (size_t)head[7] << 8 | head[8];
    if (code >= 0 || code < REPOSBX_ECANCELLED || message_length >= sizeof message ||
        hint_length >= sizeof hint)
        return rsbx_source_nonsense("an error that is none", err);
    rc = rsbx_source_take(message, source, message_length, err);
    if (rc == 0)
        rc = rsbx_source_take(hint, source, hint_length, err);
    if (rc != 0)
        return rc;
    message[message_length] = '\0';
    hint[hint_length] = '\0';
    (void)rsbx_fail(err, code, "%s", message);
    if (hint_length > 0)
        rsbx_hint(err, "%s", hint);
    return code;
}
