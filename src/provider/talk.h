/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RSBX_PROVIDER_TALK_H
#define RSBX_PROVIDER_TALK_H

#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "guest/protocol.h"
#include "provider/provider.h"

/*
 * A conversation with one guest: messages over a link, sending and receiving at once, so that
 * neither side can block the other for ever.
 *
 *     rc = rsbx_talk_open(&talk, link, err);                 takes the link over, also on failure
 *     rc = rsbx_talk_greet(&hello, talk, deadline, err);
 *     …compare hello with what was asked…
 *     rc = rsbx_talk_put(talk, RSBX_WIRE_REQUEST, …);
 *     rc = rsbx_talk_run(talk, &handler, deadline, err);
 *     rsbx_talk_free(talk);                                  the guest sees its stdin end and ends
 */
struct rsbx_talk;
typedef struct rsbx_talk *rsbx_talk_ptr;

struct rsbx_wire_message {
    uint16_t type;
    const uint8_t *bytes;   /* borrowed until the handler returns */
    size_t length;
};

struct rsbx_talk_handler {
    /* Called for every message; 0 go on, 1 the conversation is over, negative stops with that
     * error. */
    int (*message)(void *payload, const struct rsbx_wire_message *message, reposbx_error *err);
    /* Called when everything put so far has been sent: puts more; 1 when there will be no more.
     * NULL: nothing more. */
    int (*refill)(void *payload, struct rsbx_talk *talk, reposbx_error *err);
    void *payload;
};

int rsbx_talk_open(struct rsbx_talk **out, struct rsbx_link *link, reposbx_error *err);
void rsbx_talk_free(struct rsbx_talk *talk);
RSBX_CLEANUP(rsbx_talk, rsbx_talk_ptr, rsbx_talk_free);

/* Sends a greeting with a fresh nonce and waits for the hello that echoes it. */
int rsbx_talk_greet(struct rsbx_hello *out, struct rsbx_talk *talk, struct rsbx_deadline deadline,
                    reposbx_error *err);

/* Puts one message behind what waits to be sent. */
int rsbx_talk_put(struct rsbx_talk *talk, enum rsbx_wire_type type, const void *bytes,
                  size_t length, reposbx_error *err);
int rsbx_talk_put_text(struct rsbx_talk *talk, enum rsbx_text_kind kind, const void *bytes,
                       size_t length, reposbx_error *err);
int rsbx_talk_put_request(struct rsbx_talk *talk, const struct rsbx_request *request,
                          reposbx_error *err);
/* DATA in pieces. */
int rsbx_talk_put_data(struct rsbx_talk *talk, const void *bytes, size_t length,
                       reposbx_error *err);
/* Bytes that wait to be sent. */
size_t rsbx_talk_waiting(const struct rsbx_talk *talk);

/* Runs until the handler says 1 (0 is returned), the guest goes away or breaks the protocol
 * (REPOSBX_EPROTOCOL), the deadline passes (REPOSBX_EUNAVAILABLE), or is cancelled
 * (REPOSBX_ECANCELLED). */
int rsbx_talk_run(struct rsbx_talk *talk, const struct rsbx_talk_handler *handler,
                  struct rsbx_deadline deadline, reposbx_error *err);

/* enum reposbx_exec_status of an EXEC that has this trailer: of several reasons the one that explains the others.
 * A command that could not be started counts as exited. */
int rsbx_trailer_status(const struct rsbx_trailer *trailer);

#endif
