/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RSBX_RUN_WIRE_H
#define RSBX_RUN_WIRE_H

#include "run/internal.h"

/*
 * Between a process that wants code run and the one that serves the pool, over a unix socket: one
 * request, one answer, each a message of
 *
 *     4 bytes   length of the document, big endian
 *     4 bytes   length of the bytes behind it
 *     document  JSON
 *     bytes     what is no text: code, environment and inputs; stdout and stderr
 */
#define RSBX_POOL_MAX_DOCUMENT_BYTES (1024U * 1024U)
#define RSBX_POOL_MAX_BYTES (32U * 1024U * 1024U)

int rsbx_pool_send(int fd, const json_t *document, const struct rsbx_buf *bytes,
                   struct rsbx_deadline deadline, reposbx_error *err);
/* REPOSBX_ENOTFOUND: the other side closed before a message. */
int rsbx_pool_receive(json_t **document, struct rsbx_buf *bytes, int fd,
                      struct rsbx_deadline deadline, reposbx_error *err);

/* A spec as a message, and back. The spec that is read borrows from `bytes` and `space`. */
int rsbx_pool_put_spec(json_t **document, struct rsbx_buf *bytes, const reposbx_exec_spec *spec,
                       reposbx_error *err);
struct rsbx_pool_space {
    const char **env;
    reposbx_run_input *inputs;
};
void rsbx_pool_space_autop(struct rsbx_pool_space *space);
int rsbx_pool_get_spec(reposbx_exec_spec *out, struct rsbx_pool_space *space, const json_t *document,
                       const struct rsbx_buf *bytes, reposbx_error *err);

int rsbx_pool_put_result(json_t **document, struct rsbx_buf *bytes, const reposbx_run_result *result,
                         reposbx_error *err);
int rsbx_pool_get_result(reposbx_run_result *out, const json_t *document,
                         const struct rsbx_buf *bytes, reposbx_error *err);

/* Whether it is the status of a pool; an error in its place is handed on. */
int rsbx_pool_check_status(const json_t *document, reposbx_error *err);

/* An error as a document, and back: returns its code. */
json_t *rsbx_pool_put_error(int code, const reposbx_error *why);
int rsbx_pool_get_error(const json_t *document, reposbx_error *err);

/* Until the server whose run folder this is has ended, which it shows by its lock. REPOSBX_EUNAVAILABLE:
 * it has not by then. */
int rsbx_pool_await_end(int run_fd, struct rsbx_deadline deadline, reposbx_error *err);

/* The uid of the process at the other end of a socket is ours. */
bool rsbx_pool_peer_is_ours(int fd);

#endif
