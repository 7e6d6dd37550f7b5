/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "guest/guest.h"
#include "guest/io.h"

/* All texts of one request: an argv and environment at their limits, or 64 Ki paths. */
#define MAX_TEXT_BYTES (32U * 1024U * 1024U)
#define MAX_TEXTS 131072U

/* Appends to a list that always ends with NULL; its room doubles at every power of two. */
static void append(char ***list, size_t *count, char *text)
{
    if ((*count & (*count + 1U)) == 0) {
        char **grown = realloc(*list, (*count + 1U) * 2U * sizeof(**list));

        if (grown == NULL) {
            rsbx_guest_malformed();
        }
        *list = grown;
    }
    (*list)[(*count)++] = text;
    (*list)[*count] = NULL;
}

static char *copy_text(struct rsbx_guest_request *request, const uint8_t *bytes, size_t length)
{
    char *text;

    request->text_bytes += length + 1U;
    if (request->text_bytes > MAX_TEXT_BYTES || memchr(bytes, 0, length) != NULL) {
        rsbx_guest_malformed();
    }
    text = malloc(length + 1U);
    if (text == NULL) {
        rsbx_guest_malformed();
    }
    memcpy(text, bytes, length);
    text[length] = '\0';
    return text;
}

/* Which kinds of text an operation takes. */
static bool takes(uint32_t op, uint32_t kind)
{
    switch (kind) {
    case RSBX_TEXT_ARG:
    case RSBX_TEXT_ENV:
    case RSBX_TEXT_CWD:
        return op == RSBX_OP_EXEC;
    case RSBX_TEXT_PATH:
        return op == RSBX_OP_LIST || op == RSBX_OP_READ || op == RSBX_OP_WRITE ||
               op == RSBX_OP_COLLECT;
    case RSBX_TEXT_EXCLUDE:
    case RSBX_TEXT_SELECTION:
        return op == RSBX_OP_SEAL;
    default:
        return false;
    }
}

static uint32_t flags_of(uint32_t op)
{
    switch (op) {
    case RSBX_OP_EXEC:
        return RSBX_REQUEST_STDIN;
    case RSBX_OP_SEAL:
        return RSBX_REQUEST_COPY;
    case RSBX_OP_SCAN:
    case RSBX_OP_PACK:
        return RSBX_REQUEST_UPPER;
    case RSBX_OP_WRITE:
        return RSBX_REQUEST_PARENTS | RSBX_REQUEST_EXECUTABLE;
    case RSBX_OP_COLLECT:
        return RSBX_REQUEST_BASELINE;
    default:
        return 0;
    }
}

static void take_once(char **place, char *text)
{
    if (*place != NULL) {
        rsbx_guest_malformed();
    }
    *place = text;
}

static void take_text(struct rsbx_guest_request *request, const struct rsbx_message *message)
{
    uint32_t kind;
    char *text;

    if (message->length < 4U) {
        rsbx_guest_malformed();
    }
    kind = rsbx_wire_get_u32(message->payload);
    if (!takes(request->head.op, kind)) {
        rsbx_guest_malformed();
    }
    text = copy_text(request, message->payload + 4, message->length - 4U);
    if (kind == RSBX_TEXT_ARG) {
        append(&request->argv, &request->argc, text);
    } else if (kind == RSBX_TEXT_ENV) {
        if (strchr(text, '=') == NULL || text[0] == '=') {
            rsbx_guest_malformed();
        }
        append(&request->envp, &request->envc, text);
    } else if (kind == RSBX_TEXT_PATH) {
        append(&request->paths, &request->path_count, text);
    } else if (kind == RSBX_TEXT_EXCLUDE) {
        append(&request->excludes, &request->exclude_count, text);
    } else {
        take_once(kind == RSBX_TEXT_CWD ? &request->cwd : &request->selection, text);
    }
}

static bool complete(const struct rsbx_guest_request *request)
{
    if (request->argc != request->head.argc || request->envc != request->head.envc) {
        return false;
    }
    switch (request->head.op) {
    case RSBX_OP_EXEC:
        return request->argv[0][0] != '\0';
    case RSBX_OP_LIST:
    case RSBX_OP_READ:
    case RSBX_OP_WRITE:
        return request->path_count == 1;
    case RSBX_OP_COLLECT:
        return request->path_count >= 1;
    case RSBX_OP_SEAL:
        return request->selection != NULL;
    default:
        return true;
    }
}

void rsbx_request_receive(struct rsbx_guest_request *out)
{
    struct rsbx_message message;
    size_t texts = 0;

    rsbx_io_receive(&message);
    if (message.type != RSBX_WIRE_REQUEST ||
        !rsbx_wire_get_request(&out->head, message.payload, message.length) ||
        (out->head.flags & ~flags_of(out->head.op)) != 0) {
        rsbx_guest_malformed();
    }
    for (;;) {
        rsbx_io_receive(&message);
        if (message.type == RSBX_WIRE_GO && message.length == 0) {
            break;
        }
        if (message.type != RSBX_WIRE_TEXT || ++texts > MAX_TEXTS) {
            rsbx_guest_malformed();
        }
        take_text(out, &message);
    }
    if (!complete(out)) {
        rsbx_guest_malformed();
    }
}
