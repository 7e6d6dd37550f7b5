/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/limits.h"
#include "session/internal.h"

#include "base/banned.h"

/* Between two looks at a container that is about to end. */
#define END_POLL_NS 2000000L

/* One request under way. */
struct asking {
    const struct rsbx_ask *ask;
    struct rsbx_session *session;
    struct rsbx_slot *slot;
    bool kept; /* a keeper was started, or none is wanted */
    struct rsbx_trailer *trailer;
    reposbx_error failure; /* what the guest's FAIL means; code 0: none */
};

/* The guest's errno values, as our own errors. */
static int guest_code(uint32_t error)
{
    switch (error) {
    case ENOENT:
    case ENOTDIR:
        return REPOSBX_ENOTFOUND;
    case EFBIG:
    case EOVERFLOW:
        return REPOSBX_ELIMIT;
    case ELOOP:
    case EISDIR:
    case EINVAL:
    case EMLINK:
    case EXDEV:
    case EPERM:
    case EACCES:
        return REPOSBX_EPOLICY;
    case EEXIST:
        return REPOSBX_EEXISTS;
    default:
        return REPOSBX_EIO;
    }
}

/* Why a step that "cannot" be done cannot; other texts are whole by themselves. */
static const char *reason(char *room, size_t size, const struct rsbx_fail *fail)
{
    if (fail->text_length < 7 || memcmp(fail->text, "cannot ", 7) != 0)
        return NULL;
    switch (fail->error) {
    case ELOOP:
        return "a symlink is in the way";
    case EINVAL:
        return "not a regular file";
    case EXDEV:
        return "it leads out of the workspace";
    default:
        return fail->error <= INT_MAX ? strerror_r((int)fail->error, room, size) : NULL;
    }
}

int rsbx_guest_failure(reposbx_error *failure, const struct rsbx_wire_message *message,
                       reposbx_error *err)
{
    struct rsbx_fail fail;
    char text[512], room[128];
    const char *why;
    size_t length;

    if (!rsbx_wire_get_fail(&fail, message->bytes, message->length))
        return rsbx_fail(err, REPOSBX_EPROTOCOL, "the guest's failure does not parse");
    length = fail.text_length < sizeof text - 1 ? fail.text_length : sizeof text - 1;
    memcpy(text, fail.text, length);
    text[length] = '\0';
    why = reason(room, sizeof room, &fail);
    (void)rsbx_fail(failure, guest_code(fail.error), "%s%s%s", text, why != NULL ? ": " : "",
                    why != NULL ? why : "");
    return 0;
}

static int on_message(void *payload, const struct rsbx_wire_message *message, reposbx_error *err)
{
    struct asking *asking = payload;
    const struct rsbx_ask *ask = asking->ask;
    struct rsbx_entry entry;
    struct rsbx_node node;

    switch (message->type) {
    case RSBX_WIRE_ENTRY:
        if (ask->entry == NULL || !rsbx_wire_get_entry(&entry, message->bytes, message->length))
            break;
        return ask->entry(ask->payload, &entry, err);
    case RSBX_WIRE_NODE:
        if (ask->node == NULL || !rsbx_wire_get_node(&node, message->bytes, message->length))
            break;
        return ask->node(ask->payload, &node, err);
    case RSBX_WIRE_DATA:
        if (ask->data == NULL || message->length == 0)
            break;
        return ask->data(ask->payload, message->bytes, message->length, err);
    case RSBX_WIRE_END:
        if (ask->data == NULL || message->length != 0)
            break;
        return ask->data(ask->payload, NULL, 0, err);
    case RSBX_WIRE_FAIL:
        return rsbx_guest_failure(&asking->failure, message, err);
    case RSBX_WIRE_TRAILER:
        if (!rsbx_wire_get_trailer(asking->trailer, message->bytes, message->length) ||
            asking->trailer->op != ask->request.op)
            break;
        return 1;
    default:
        break;
    }
    return rsbx_fail(err, REPOSBX_EPROTOCOL, "the guest sent an unexpected message of type %u",
                     message->type);
}

/* While the guest works, the next slot is prepared. */
static void start_keeper(struct asking *asking)
{
    const struct rsbx_ask *ask = asking->ask;
    struct rsbx_slot_want again = ask->want;

    again.limits = asking->session->policy->limits;
    asking->kept = true;
    if (ask->next != NULL)
        rsbx_slot_prepare_next(asking->slot, asking->session, ask->next, ask->next_count);
    else
        rsbx_slot_prepare_next(asking->slot, asking->session, &again, ask->want.pooled ? 1 : 0);
}

static int on_refill(void *payload, struct rsbx_talk *talk, reposbx_error *err)
{
    struct asking *asking = payload;

    if (!asking->kept)
        start_keeper(asking);
    if (asking->failure.code != 0 || asking->ask->refill == NULL)
        return 1; /* nothing more is to be sent, or the guest has given up */
    return asking->ask->refill(asking->ask->payload, talk, err);
}

static int put_all(struct rsbx_talk *talk, const struct rsbx_ask *ask, reposbx_error *err)
{
    int rc = rsbx_talk_put_request(talk, &ask->request, err);

    for (size_t i = 0; rc == 0 && i < ask->path_count; i++)
        rc = rsbx_talk_put_text(talk, RSBX_TEXT_PATH, ask->paths[i], strlen(ask->paths[i]), err);
    for (size_t i = 0; rc == 0 && i < ask->exclude_count; i++)
        rc = rsbx_talk_put_text(talk, RSBX_TEXT_EXCLUDE, ask->excludes[i],
                                strlen(ask->excludes[i]), err);
    if (rc == 0 && ask->selection != NULL)
        rc = rsbx_talk_put_text(talk, RSBX_TEXT_SELECTION, ask->selection, strlen(ask->selection),
                                err);
    if (rc == 0)
        rc = rsbx_talk_put(talk, RSBX_WIRE_GO, NULL, 0, err);
    if (rc == 0 && ask->send_content) {
        rc = rsbx_talk_put_data(talk, ask->content, ask->content_length, err);
        if (rc == 0)
            rc = rsbx_talk_put(talk, RSBX_WIRE_END, NULL, 0, err);
    }
    return rc;
}

/* Waits until the engine says that the container has stopped. The guest ends behind its trailer. */
static int see_end(struct rsbx_session *session, const char *slot, reposbx_error *err)
{
    struct rsbx_deadline deadline = rsbx_session_deadline(session, RSBX_ENGINE_CALL_MS);

    for (;;) {
        struct timespec pause = { .tv_sec = 0, .tv_nsec = END_POLL_NS };
        struct rsbx_slot_state state = { .running = true };
        int rc = session->provider->ops->inspect(&state, session->provider, slot, session->id, deadline,
                                                 err);

        if (rc != 0 || !state.exists || !state.running)
            return rc;
        if (rsbx_deadline_passed(deadline))
            return rsbx_fail(err, REPOSBX_EUNAVAILABLE, "container %s does not end", slot);
        (void)nanosleep(&pause, NULL);
    }
}

int rsbx_session_ask(struct rsbx_trailer *trailer, struct rsbx_session *session,
                     const struct rsbx_ask *ask, reposbx_error *err)
{
    struct rsbx_slot slot;
    struct rsbx_trailer answer = { 0 };
    struct asking asking = { .ask = ask, .session = session, .slot = &slot, .trailer = &answer,
                             .failure = REPOSBX_ERROR_INIT };
    const struct rsbx_talk_handler handler = { .message = on_message, .refill = on_refill,
                                               .payload = &asking };
    int dropped;
    int rc = rsbx_slot_take(&slot, session, &ask->want, err);

    if (rc != 0)
        return rc;
    if (ask->name != NULL)
        (void)snprintf(ask->name, RSBX_NAME_BYTES, "%s", slot.name);
    if (ask->after != NULL)
        rc = see_end(session, ask->after, err);
    if (rc == 0)
        rc = put_all(slot.talk, ask, err);
    if (rc == 0)
        rc = rsbx_talk_run(slot.talk, &handler, rsbx_session_deadline(session, ask->deadline_ms), err);
    if (asking.failure.code != 0) {
        /* The guest's own words say more than what followed from them. */
        if (err != NULL)
            *err = asking.failure;
        rc = asking.failure.code;
    } else if (rc == 0 && (answer.flags & RSBX_TRAILER_FAILED) != 0) {
        rc = rsbx_fail(err, REPOSBX_EPROTOCOL, "the guest failed without a reason");
    }
    dropped = rsbx_slot_drop(&slot, session, rc == 0 ? err : NULL);
    if (rc != 0)
        return rc;
    if (dropped != 0)
        return dropped;
    if (trailer != NULL)
        *trailer = answer;
    return REPOSBX_OK;
}
