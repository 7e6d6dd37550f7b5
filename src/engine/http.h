/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RSBX_ENGINE_HTTP_H
#define RSBX_ENGINE_HTTP_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/clock.h"
#include "codec/json.h"
#include "engine/curl.h"

/*
 * One HTTP exchange with the engine; private to this room. The answer is whole or the call fails:
 * head complete, body as long as announced, status exactly the expected one.
 */
struct rsbx_engine {
    char *socket_path;
    CURL *easy;               /* keeps the connection of the last GET */
    unsigned int api_version; /* 141 for 1.41; 0 until settled */
    json_t *version;          /* what /version said when the API was settled, or NULL */
};

struct rsbx_http_call {
    const char *method;
    const char *path; /* encoded, with its query, without the version */
    bool unversioned; /* for /_ping and /version */
    const void *body; /* NULL for none */
    size_t body_length;
    const char *body_type; /* of the body, when there is one */
    long expected;         /* the one status that means success */
    long already;          /* the status that means "is so already": REPOSBX_EBUSY; 0 for none */
    size_t limit_bytes;    /* of the body of a success; 0 is RSBX_MAX_REPLY_BYTES */
    struct rsbx_deadline deadline;
};

/* Fills `reply` (may be NULL) with the body. The limit of `reply` does not count, limit_bytes
 * does. */
int rsbx_http_exchange(struct rsbx_buf *reply, struct rsbx_engine *engine,
                       const struct rsbx_http_call *call, reposbx_error *err);

/* The same for an answer that must be one JSON object. */
int rsbx_http_json(json_t **out, struct rsbx_engine *engine, const struct rsbx_http_call *call,
                   reposbx_error *err);

/* What every connection of ours has in common: the socket, no proxy, no redirects, no
 * environment. */
bool rsbx_http_prepare(CURL *easy, const struct rsbx_engine *engine, struct rsbx_deadline deadline);

/* The error of a failed connect, from what libcurl and the system say; always
 * REPOSBX_EUNAVAILABLE. */
int rsbx_http_unreachable(const struct rsbx_engine *engine, CURL *easy, reposbx_error *err);

/* The error of an answer with an unexpected status. `message` is the engine's own text or NULL:
 * then the answer is no refusal by an engine, whatever its status, and is REPOSBX_EPROTOCOL. */
int rsbx_http_refused(const char *method, const char *path, long status, const char *message,
                      reposbx_error *err);

/* The engine's message of an error reply (caller frees), or NULL when the body is not one complete
 * {"message": …} document. */
char *rsbx_http_message(const void *body, size_t length);

/* Appends `before`, `name` percent-encoded and `after`. Slashes of the name are kept when
 * `keep_slashes`. An empty name is REPOSBX_EINVALID, and so is one with a slash where they are not
 * kept. */
int rsbx_http_path(struct rsbx_buf *out, const char *before, const char *name, bool keep_slashes,
                   const char *after, reposbx_error *err);

/* Long enough for every path of ours: a name and a path at their caps, encoded. */
#define RSBX_HTTP_MAX_PATH_BYTES 16384U

#endif
