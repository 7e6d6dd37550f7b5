/* SPDX-License-Identifier: Apache-2.0 */
#include "provider/talk.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include <reposbx/session.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/text.h"

#include "base/banned.h"

/* Messages that wait to be sent: a full command line (argv and environment at their caps) and the
 * largest stdin fit, file streams are refilled in much smaller steps. */
#define MAX_WAITING_BYTES (96U * 1024U * 1024U)
/* Received and not yet decoded: one message and one frame. */
#define MAX_RECEIVED_BYTES (2U * 1024U * 1024U)
/* What the guest wrote to its stderr: only a fault of the guest itself ends up there. */
#define MAX_COMPLAINT_BYTES 512U

struct rsbx_talk {
    struct rsbx_link *link;
    struct rsbx_buf waiting;
    size_t sent; /* bytes of `waiting` that are out */
    struct rsbx_buf received;
    size_t decoded; /* bytes of `received` that are handled */
    struct rsbx_buf complaint;
    uint32_t next_put, next_get;
    const struct rsbx_talk_handler *handler; /* of the run that is going on */
    int handler_result;
};

int rsbx_talk_open(struct rsbx_talk **out, struct rsbx_link *link, reposbx_error *err)
{
    struct rsbx_talk *talk = calloc(1, sizeof *talk);

    if (talk == NULL) {
        rsbx_link_free(link);
        return rsbx_fail_memory(err);
    }
    talk->link = link;
    talk->waiting.limit = MAX_WAITING_BYTES;
    talk->received.limit = MAX_RECEIVED_BYTES;
    talk->complaint.limit = MAX_COMPLAINT_BYTES;
    *out = talk;
    return REPOSBX_OK;
}

void rsbx_talk_free(struct rsbx_talk *talk)
{
    if (talk == NULL)
        return;
    rsbx_link_free(talk->link);
    rsbx_buf_dispose(&talk->waiting);
    rsbx_buf_dispose(&talk->received);
    rsbx_buf_dispose(&talk->complaint);
    free(talk);
}

size_t rsbx_talk_waiting(const struct rsbx_talk *talk)
{
    return talk->waiting.length - talk->sent;
}

/* Header and up to two parts of payload as one message. */
static int put_parts(struct rsbx_talk *talk, enum rsbx_wire_type type, const void *first,
                     size_t first_length, const void *second, size_t second_length,
                     reposbx_error *err)
{
    uint8_t raw[RSBX_WIRE_HEADER_BYTES];
    size_t length = first_length + second_length;
    struct rsbx_wire_header header;
    int rc;

    if (length > RSBX_WIRE_MAX_PAYLOAD)
        return rsbx_fail(err, REPOSBX_EINTERNAL, "message of %zu bytes", length);
    header = (struct rsbx_wire_header){
        .type = (uint16_t)type, .sequence = talk->next_put, .length = (uint32_t)length
    };
    rsbx_wire_put_header(raw, &header);
    rc = rsbx_buf_append(&talk->waiting, raw, sizeof raw, err);
    if (rc == 0)
        rc = rsbx_buf_append(&talk->waiting, first, first_length, err);
    if (rc == 0)
        rc = rsbx_buf_append(&talk->waiting, second, second_length, err);
    if (rc == 0)
        talk->next_put++;
    return rc;
}

int rsbx_talk_put(struct rsbx_talk *talk, enum rsbx_wire_type type, const void *bytes,
                  size_t length, reposbx_error *err)
{
    return put_parts(talk, type, bytes, length, NULL, 0, err);
}

int rsbx_talk_put_text(struct rsbx_talk *talk, enum rsbx_text_kind kind, const void *bytes,
                       size_t length, reposbx_error *err)
{
    uint8_t raw[4];

    rsbx_wire_put_u32(raw, (uint32_t)kind);
    return put_parts(talk, RSBX_WIRE_TEXT, raw, sizeof raw, bytes, length, err);
}

int rsbx_talk_put_request(struct rsbx_talk *talk, const struct rsbx_request *request,
                          reposbx_error *err)
{
    uint8_t raw[RSBX_REQUEST_BYTES];

    rsbx_wire_put_request(raw, request);
    return rsbx_talk_put(talk, RSBX_WIRE_REQUEST, raw, sizeof raw, err);
}

int rsbx_talk_put_data(struct rsbx_talk *talk, const void *bytes, size_t length,
                       reposbx_error *err)
{
    const char *p = bytes;

    while (length > 0) {
        size_t piece = length < RSBX_WIRE_PIECE_BYTES ? length : RSBX_WIRE_PIECE_BYTES;
        int rc = rsbx_talk_put(talk, RSBX_WIRE_DATA, p, piece, err);

        if (rc != 0)
            return rc;
        p += piece;
        length -= piece;
    }
    return REPOSBX_OK;
}

/* Decodes every whole message that was received. */
static int decode(struct rsbx_talk *talk, reposbx_error *err)
{
    while (talk->handler_result == 0) {
        size_t left = talk->received.length - talk->decoded;
        struct rsbx_wire_header header;
        struct rsbx_wire_message message;
        const uint8_t *at;

        if (left < RSBX_WIRE_HEADER_BYTES)
            break;
        at = (const uint8_t *)talk->received.data + talk->decoded;
        if (!rsbx_wire_get_header(&header, at) || header.sequence != talk->next_get)
            return rsbx_fail(err, REPOSBX_EPROTOCOL, "the guest sent something that is no message");
        if (left - RSBX_WIRE_HEADER_BYTES < header.length)
            break;
        message = (struct rsbx_wire_message){ .type = header.type,
                                              .bytes = at + RSBX_WIRE_HEADER_BYTES,
                                              .length = header.length };
        talk->next_get++;
        talk->decoded += RSBX_WIRE_HEADER_BYTES + header.length;
        talk->handler_result = talk->handler->message(talk->handler->payload, &message, err);
    }
    if (talk->decoded == talk->received.length) {
        rsbx_buf_clear(&talk->received);
        talk->decoded = 0;
    } else if (talk->decoded > talk->received.length / 2) {
        memmove(talk->received.data, talk->received.data + talk->decoded,
                talk->received.length - talk->decoded);
        talk->received.length -= talk->decoded;
        talk->decoded = 0;
    }
    return talk->handler_result < 0 ? talk->handler_result : REPOSBX_OK;
}

static int on_piece(void *payload, int channel, const void *bytes, size_t length,
                    reposbx_error *err)
{
    struct rsbx_talk *talk = payload;
    int rc;

    if (channel != 1) {
        size_t room = talk->complaint.limit - talk->complaint.length;

        return rsbx_buf_append(&talk->complaint, bytes, length < room ? length : room, err);
    }
    rc = rsbx_buf_append(&talk->received, bytes, length, err);
    if (rc == 0)
        rc = decode(talk, err);
    return rc;
}

static int send_waiting(struct rsbx_talk *talk, reposbx_error *err)
{
    size_t sent = 0;
    int rc = talk->link->ops->send(&sent, talk->link, talk->waiting.data + talk->sent,
                                   talk->waiting.length - talk->sent, err);

    if (rc != 0)
        return rc;
    talk->sent += sent;
    if (talk->sent == talk->waiting.length) {
        rsbx_buf_clear(&talk->waiting);
        talk->sent = 0;
    }
    return REPOSBX_OK;
}

static int went_away(const struct rsbx_talk *talk, reposbx_error *err)
{
    if (talk->complaint.length > 0)
        return rsbx_fail(err, REPOSBX_EPROTOCOL, "the guest ended without an answer: %s",
                         talk->complaint.data);
    return rsbx_fail(err, REPOSBX_EPROTOCOL, "the guest ended without an answer");
}

/* Waits until the link or the cancel descriptor is ready. */
static int wait_ready(struct rsbx_talk *talk, struct rsbx_deadline deadline, struct pollfd ready[2],
                      reposbx_error *err)
{
    int count;

    ready[0] = (struct pollfd){ .fd = talk->link->ops->fd(talk->link), .events = POLLIN };
    if (rsbx_talk_waiting(talk) > 0)
        ready[0].events |= POLLOUT;
    ready[1] = (struct pollfd){ .fd = rsbx_deadline_cancel_fd(deadline), .events = POLLIN };
    count = poll(ready, 2, rsbx_deadline_left_ms(deadline));
    if (count < 0 && errno != EINTR)
        return rsbx_fail_errno(err, REPOSBX_EINTERNAL, "poll");
    if (count <= 0) {
        ready[0].revents = 0;
        ready[1].revents = 0;
    }
    if (count <= 0 && rsbx_deadline_passed(deadline))
        return rsbx_fail(err, REPOSBX_EUNAVAILABLE, "the guest did not answer in time");
    return ready[1].revents != 0 ? rsbx_fail(err, REPOSBX_ECANCELLED, "cancelled by the caller")
                                 : REPOSBX_OK;
}

int rsbx_talk_run(struct rsbx_talk *talk, const struct rsbx_talk_handler *handler,
                  struct rsbx_deadline deadline, reposbx_error *err)
{
    bool refilling = handler->refill != NULL;
    bool ended = false;
    int rc;

    talk->handler = handler;
    talk->handler_result = 0;
    rc = decode(talk, err); /* what came with an earlier run's last piece */
    while (rc == 0 && talk->handler_result == 0) {
        struct pollfd ready[2];

        if (refilling && rsbx_talk_waiting(talk) == 0) {
            rc = handler->refill(handler->payload, talk, err);
            if (rc < 0)
                break;
            refilling = rc == 0;
            rc = 0;
        }
        rc = wait_ready(talk, deadline, ready, err);
        if (rc == 0 && (ready[0].revents & POLLOUT) != 0 && rsbx_talk_waiting(talk) > 0) {
            reposbx_error broken = REPOSBX_ERROR_INIT;

            /* A guest that gave up early explains itself in what is still to be received. */
            if (send_waiting(talk, &broken) != 0) {
                rsbx_buf_clear(&talk->waiting);
                talk->sent = 0;
                refilling = false;
                ready[0].revents |= POLLIN;
            }
        }
        if (rc == 0 && (ready[0].revents & (POLLIN | POLLHUP | POLLERR)) != 0) {
            rc = talk->link->ops->receive(&ended, talk->link, on_piece, talk, err);
            if (rc == 0 && ended && talk->handler_result == 0)
                rc = went_away(talk, err);
        }
    }
    talk->handler = NULL;
    return talk->handler_result > 0 ? REPOSBX_OK : rc;
}

struct greeting {
    uint8_t nonce[RSBX_NONCE_BYTES];
    struct rsbx_hello hello;
};

static int on_hello(void *payload, const struct rsbx_wire_message *message, reposbx_error *err)
{
    struct greeting *greeting = payload;

    if (message->type != RSBX_WIRE_HELLO ||
        !rsbx_wire_get_hello(&greeting->hello, message->bytes, message->length))
        return rsbx_fail(err, REPOSBX_EPROTOCOL, "the guest did not answer with a hello");
    if (memcmp(greeting->hello.nonce, greeting->nonce, sizeof greeting->nonce) != 0)
        return rsbx_fail(err, REPOSBX_EPROTOCOL, "the guest's hello is not for this greeting");
    return 1;
}

int rsbx_talk_greet(struct rsbx_hello *out, struct rsbx_talk *talk, struct rsbx_deadline deadline,
                    reposbx_error *err)
{
    struct greeting greeting;
    struct rsbx_talk_handler handler = { .message = on_hello, .payload = &greeting };
    int rc = rsbx_random(greeting.nonce, sizeof greeting.nonce, err);

    if (rc == 0)
        rc = rsbx_talk_put(talk, RSBX_WIRE_GREETING, greeting.nonce, sizeof greeting.nonce, err);
    if (rc == 0)
        rc = rsbx_talk_run(talk, &handler, deadline, err);
    if (rc == 0)
        *out = greeting.hello;
    return rc;
}

int rsbx_trailer_status(const struct rsbx_trailer *trailer)
{
    if ((trailer->flags & RSBX_TRAILER_TIMED_OUT) != 0)
        return REPOSBX_TIMED_OUT;
    if ((trailer->flags & RSBX_TRAILER_OUTPUT_LIMITED) != 0)
        return REPOSBX_OUTPUT_LIMITED;
    if (trailer->main_oom_killed != 0)
        return REPOSBX_OOM_KILLED;
    return trailer->end == RSBX_END_SIGNALED ? REPOSBX_SIGNALED : REPOSBX_EXITED;
}
