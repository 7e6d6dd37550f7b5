/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RSBX_ENGINE_ENGINE_H
#define RSBX_ENGINE_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/clock.h"
#include "codec/json.h"

/*
 * The Docker Engine API over one explicit unix socket, by libcurl. Nothing of the host's
 * environment (DOCKER_HOST, contexts, proxies, credential helpers) is read. One function for each
 * endpoint; every call has a deadline and a limit on its reply; JSON replies must be one complete
 * document. Redirects are never followed. Calls that are not idempotent use a fresh connection
 * each, so that libcurl never sends them twice by itself; when such a call gets no whole answer its
 * state is unknown: REPOSBX_EPROTOCOL, REPOSBX_EUNAVAILABLE or REPOSBX_ECANCELLED, and the caller
 * inspects by name.
 *
 *     rc = rsbx_engine_open(&engine, "unix:///run/user/1000/docker.sock", err);
 *     rc = rsbx_engine_volume_create(engine, "sbx-…-workspace", labels, NULL, deadline, err);
 *     rsbx_engine_free(engine);
 *
 * Not thread-safe: one engine handle for each thread.
 *
 * Errors in general: socket missing, not a socket, no permission, connection refused or deadline
 * passed: REPOSBX_EUNAVAILABLE with a hint; an answer that is not what the API promises (wrong
 * status, HTML, cut body, header flood, body over the limit): REPOSBX_EPROTOCOL; 404:
 * REPOSBX_ENOTFOUND with the engine's message; 409 and the engine's other refusals (400, 500 with a
 * message): REPOSBX_EBUSY for 409, REPOSBX_EPROTOCOL else, always with the engine's message; given up
 * since the deadline was cancelled: REPOSBX_ECANCELLED.
 */
struct rsbx_engine;

#define RSBX_ENGINE_API_OLDEST 141 /* 1.41: 20.10, Debian 12 */
#define RSBX_ENGINE_API_NEWEST 147 /* 1.47: the newest whose changes we have read */

/* `address` is unix:///absolute/path. The path must be a socket; one that is owned by another user
 * than us or root is refused (REPOSBX_EUNAVAILABLE, with a hint). Asks /_ping and /version and
 * settles the API version: the newest both sides know; no overlap is REPOSBX_EUNAVAILABLE in words.
 * A Podman compatible socket (a component named "Podman Engine") is refused: REPOSBX_EPOLICY. */
int rsbx_engine_open(struct rsbx_engine **out, const char *address, struct rsbx_deadline deadline,
                     reposbx_error *err);
/* The same engine later, with the API version that was settled then: nothing is asked. /version makes
 * the engine ask its own parts and costs more than any call of a command. An engine that knows the
 * version no more answers every call with an error. */
int rsbx_engine_reopen(struct rsbx_engine **out, const char *address, unsigned int api_version,
                       reposbx_error *err);
unsigned int rsbx_engine_api_version(const struct rsbx_engine *engine);
void rsbx_engine_free(struct rsbx_engine *engine);

/* What /version and /info say, exactly as the engine gave it. */
struct rsbx_engine_host {
    char server_version[64];
    unsigned int api_version;      /* 141 for "1.41", the settled one */
    char os[32], architecture[32]; /* of /version: "linux", "amd64" */
    char cgroup_driver[32];        /* "systemd", "cgroupfs", "none" */
    unsigned int cgroup_version;   /* 1 or 2; 1 when the engine does not say */
    bool rootless;                 /* a security option with exactly name=rootless */
    bool seccomp;                  /* a security option with exactly name=seccomp */
    bool memory_limit, swap_limit, cpu_quota, pids_limit;
    char storage_driver[32];
};
int rsbx_engine_host(struct rsbx_engine_host *out, struct rsbx_engine *engine,
                     struct rsbx_deadline deadline, reposbx_error *err);

/* The whole inspect documents; the caller reads what it needs (json_decref). */
int rsbx_engine_image_inspect(json_t **out, struct rsbx_engine *engine, const char *reference,
                              struct rsbx_deadline deadline, reposbx_error *err);
int rsbx_engine_container_inspect(json_t **out, struct rsbx_engine *engine, const char *name,
                                  struct rsbx_deadline deadline, reposbx_error *err);
int rsbx_engine_volume_inspect(json_t **out, struct rsbx_engine *engine, const char *name,
                               struct rsbx_deadline deadline, reposbx_error *err);

/* `labels` and `options` are JSON objects of strings (borrowed), options may be NULL. The engine
 * answers 201 for a volume that exists already, so the caller inspects the labels. */
int rsbx_engine_volume_create(struct rsbx_engine *engine, const char *name, const json_t *labels,
                              const json_t *options, struct rsbx_deadline deadline,
                              reposbx_error *err);
/* Not there: REPOSBX_ENOTFOUND. In use: REPOSBX_EBUSY. */
int rsbx_engine_volume_remove(struct rsbx_engine *engine, const char *name,
                              struct rsbx_deadline deadline, reposbx_error *err);

/* POST /containers/create?name=…; `spec` is the whole body (borrowed). Warnings of the reply are
 * joined into *warnings (caller frees; NULL when there are none). Name taken: REPOSBX_EBUSY. */
int rsbx_engine_container_create(char **warnings, struct rsbx_engine *engine, const char *name,
                                 const json_t *spec, struct rsbx_deadline deadline,
                                 reposbx_error *err);
/* POST /containers/NAME/update: other limits for a container that runs; `limits` is the whole body. */
int rsbx_engine_container_update(char **warnings, struct rsbx_engine *engine, const char *name,
                                 const json_t *limits, struct rsbx_deadline deadline,
                                 reposbx_error *err);
/* POST /commit?container=NAME: the container's files as an image without a name; *id (caller frees)
 * is what the engine calls it. */
int rsbx_engine_container_commit(char **id, struct rsbx_engine *engine, const char *name,
                                 struct rsbx_deadline deadline, reposbx_error *err);
int rsbx_engine_container_start(struct rsbx_engine *engine, const char *name,
                                struct rsbx_deadline deadline, reposbx_error *err);
/* SIGKILL; not running is REPOSBX_EBUSY, not there REPOSBX_ENOTFOUND. */
int rsbx_engine_container_kill(struct rsbx_engine *engine, const char *name,
                               struct rsbx_deadline deadline, reposbx_error *err);
/* DELETE with force=1&v=0. Not there: REPOSBX_ENOTFOUND; removal already in progress:
 * REPOSBX_EBUSY. */
int rsbx_engine_container_remove(struct rsbx_engine *engine, const char *name,
                                 struct rsbx_deadline deadline, reposbx_error *err);
/* PUT /containers/NAME/archive?path=…: unpacks a tar below `path` of a container that need not
 * run. */
int rsbx_engine_archive_put(struct rsbx_engine *engine, const char *name, const char *path,
                            const void *tar, size_t length, struct rsbx_deadline deadline,
                            reposbx_error *err);
/* GET of the same: a tar of `path`. Over out's limit: REPOSBX_ELIMIT. */
int rsbx_engine_archive_get(struct rsbx_buf *out, struct rsbx_engine *engine, const char *name,
                            const char *path, struct rsbx_deadline deadline, reposbx_error *err);

/*
 * The attached stream: POST …/attach?stream=1&stdin=1&stdout=1&stderr=1 upgraded to raw bytes.
 * Sending is raw; receiving is multiplexed and decoded here. Non-blocking after the attach: poll
 * rsbx_stream_fd for POLLIN/POLLOUT.
 */
struct rsbx_stream;

int rsbx_engine_attach(struct rsbx_stream **out, struct rsbx_engine *engine, const char *name,
                       struct rsbx_deadline deadline, reposbx_error *err);
int rsbx_stream_fd(const struct rsbx_stream *stream);
/* Sends what fits now; *sent may be 0. */
int rsbx_stream_send(size_t *sent, struct rsbx_stream *stream, const void *bytes, size_t length,
                     reposbx_error *err);
/* Half-close: the container's stdin ends, its output still arrives. */
int rsbx_stream_shutdown_send(struct rsbx_stream *stream, reposbx_error *err);
/* `channel` is 1 (stdout) or 2 (stderr); a piece is at most one frame long. Not 0 stops: the value
 * is returned by rsbx_stream_receive. */
typedef int (*rsbx_stream_piece)(void *payload, int channel, const void *bytes, size_t length,
                                 reposbx_error *err);
/* Reads and decodes what is there now, without blocking. *ended is set at end of file between two
 * frames; end inside a frame, an unknown channel or a frame over RSBX_MAX_FRAME_BYTES is
 * REPOSBX_EPROTOCOL. */
int rsbx_stream_receive(bool *ended, struct rsbx_stream *stream, rsbx_stream_piece piece,
                        void *payload, reposbx_error *err);
void rsbx_stream_free(struct rsbx_stream *stream);

#endif
