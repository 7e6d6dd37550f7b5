/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A pool that other processes of the same user use: STATE/run/pool.sock, one connection for each
 * request, one thread for each connection. The lock STATE/run/pool.lock is held for as long as the
 * server lives, so a socket without it is a dead one's.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "run/wire.h"

#include "base/banned.h"

#define SOCKET "pool.sock"
/* For a whole request to arrive, and for its answer to be taken. */
#define REQUEST_MS 30000U
/* When no descriptor is left for one who waits. */
#define PAUSE_MS 100
/* For a job that runs to end by its timeout, and for all containers to be removed. */
#define STOP_MS ((uint64_t)(REPOSBX_RUN_MAX_TIMEOUT_SECONDS * 1000.0) + 2U * REQUEST_MS)
/* Until a server takes a connection. */
#define CONNECT_SECONDS 10
/* More connections than can run at a time are still told that it is busy. */
#define MAX_CONNECTIONS 256U

struct server {
    struct rsbx_runner *runner;
    struct rsbx_pool *pool;
    const char *language;
    int stop_fd;           /* eventfd: readable when a client says stop */
    pthread_mutex_t mutex; /* of connections */
    pthread_cond_t idle;
    unsigned int connections;
};

struct connection {
    struct server *server;
    int fd;
};

/* ---- one request ---- */

static void answer(int fd, const json_t *document, const struct rsbx_buf *bytes)
{
    const struct rsbx_buf none = RSBX_BUF_INIT(0);

    /* A client that went away gets nothing. */
    (void)rsbx_pool_send(fd, document, bytes != NULL ? bytes : &none,
                         rsbx_deadline_in_ms(REQUEST_MS), NULL);
}

static void answer_error(int fd, int code, const reposbx_error *why)
{
    RSBX_AUTO(rsbx_json) rsbx_json_ptr document = rsbx_pool_put_error(code, why);

    if (document != NULL)
        answer(fd, document, NULL);
}

struct reply {
    int fd;
    bool sent;
};

static void on_result(void *payload, const reposbx_run_result *result)
{
    RSBX_AUTO(rsbx_buf) struct rsbx_buf bytes = RSBX_BUF_INIT(RSBX_POOL_MAX_BYTES);
    RSBX_AUTO(rsbx_json) rsbx_json_ptr document = NULL;
    struct reply *reply = payload;

    if (rsbx_pool_put_result(&document, &bytes, result, NULL) == 0) {
        answer(reply->fd, document, &bytes);
        reply->sent = true;
    }
}

/* The client's engine and policy have to be the server's, or it asked the wrong one. */
static int check_fit(const struct server *server, const json_t *request, reposbx_error *err)
{
    const char *policy;
    const char *engine;
    int rc = rsbx_json_get_text(&policy, request, "policy", "pool message", err);

    if (rc == 0)
        rc = rsbx_json_get_text(&engine, request, "engine", "pool message", err);
    if (rc != 0)
        return rc;
    if (strcmp(policy, server->runner->policy_digest) != 0)
        return rsbx_fail(err, REPOSBX_ENOTFOUND, "the pool has another policy");
    if (strcmp(engine, "auto") != 0 && strcmp(engine, server->runner->address) != 0 &&
        (server->runner->engine == NULL || strcmp(engine, server->runner->engine->address) != 0))
        return rsbx_fail(err, REPOSBX_ENOTFOUND, "the pool has another engine");
    return REPOSBX_OK;
}

static void serve_run(struct server *server, int fd, const json_t *request,
                      const struct rsbx_buf *bytes)
{
    RSBX_AUTO(rsbx_pool_space) struct rsbx_pool_space space = { NULL, NULL };
    struct reply reply = { .fd = fd };
    reposbx_run_result result = { 0 };
    reposbx_exec_spec spec;
    reposbx_error why = REPOSBX_ERROR_INIT;
    int rc = check_fit(server, request, &why);

    if (rc == 0)
        rc = rsbx_pool_get_spec(&spec, &space, request, bytes, &why);
    if (rc == 0) {
        spec.cancel_fd = fd; /* a client that goes away takes its job with it */
        spec.result = on_result;
        spec.result_payload = &reply;
        rc = rsbx_pool_run(&result, server->pool, &spec, &why);
        rsbx_run_result_dispose(&result);
    }
    if (rc == REPOSBX_EINVALID)
        rc = REPOSBX_ENOTFOUND; /* it does not fit: let it run elsewhere */
    if (rc != 0 && !reply.sent)
        answer_error(fd, rc, &why);
}

static void serve_status(struct server *server, int fd)
{
    RSBX_AUTO(rsbx_json) rsbx_json_ptr document = NULL;
    reposbx_pool_stats stats;

    rsbx_pool_stats(&stats, server->pool);
    document = json_pack(
        "{s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:f}", "language",
        server->language, "engine", rsbx_runner_kind(server->runner, server->language), "pid",
        (json_int_t)getpid(), "size", (json_int_t)stats.size, "ready", (json_int_t)stats.ready,
        "running", (json_int_t)stats.running, "hits", (json_int_t)stats.hits, "misses",
        (json_int_t)stats.misses, "resets", (json_int_t)stats.resets, "discards",
        (json_int_t)stats.discards, "busy", (json_int_t)stats.busy, "failures",
        (json_int_t)stats.failures, "p50_ms", stats.p50_ms, "p95_ms", stats.p95_ms);
    if (document != NULL)
        answer(fd, document, NULL);
}

static void serve_one(struct server *server, int fd)
{
    RSBX_AUTO(rsbx_buf) struct rsbx_buf bytes = RSBX_BUF_INIT(RSBX_POOL_MAX_BYTES);
    RSBX_AUTO(rsbx_json) rsbx_json_ptr request = NULL;
    reposbx_error why = REPOSBX_ERROR_INIT;
    uint64_t one = 1;
    const char *op = "";
    int rc = rsbx_pool_receive(&request, &bytes, fd, rsbx_deadline_in_ms(REQUEST_MS), &why);

    if (rc == 0)
        rc = rsbx_json_get_text(&op, request, "op", "pool message", &why);
    if (rc != 0)
        answer_error(fd, rc, &why);
    else if (strcmp(op, "run") == 0)
        serve_run(server, fd, request, &bytes);
    else if (strcmp(op, "status") == 0)
        serve_status(server, fd);
    else if (strcmp(op, "stop") == 0)
        (void)rsbx_write_all(server->stop_fd, &one, sizeof one);
    else
        answer_error(fd, rsbx_fail(&why, REPOSBX_EPROTOCOL, "the pool knows no such request"), &why);
}

static void *serve_connection(void *payload)
{
    struct connection *connection = payload;
    struct server *server = connection->server;

    if (rsbx_pool_peer_is_ours(connection->fd))
        serve_one(server, connection->fd);
    (void)close(connection->fd);
    free(connection);
    (void)pthread_mutex_lock(&server->mutex);
    server->connections--;
    (void)pthread_cond_broadcast(&server->idle);
    (void)pthread_mutex_unlock(&server->mutex);
    return NULL;
}

/* ---- the socket ---- */

/* A unix socket's name has 107 bytes; a state folder's path may have more. */
static void address_of(struct sockaddr_un *address, int run_fd)
{
    memset(address, 0, sizeof *address);
    address->sun_family = AF_UNIX;
    (void)snprintf(address->sun_path, sizeof address->sun_path, "/proc/self/fd/%d/" SOCKET, run_fd);
}

static int take_lock(int *out, int run_fd, reposbx_error *err)
{
    RSBX_AUTO(rsbx_fd) int fd =
        openat(run_fd, "pool.lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);

    if (fd < 0)
        return rsbx_fail_errno(err, REPOSBX_EIO, "cannot open the pool's lock");
    if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
        (void)rsbx_fail(err, REPOSBX_EBUSY, "a pool serves this state folder already");
        rsbx_hint(err, "reposbx pool status shows it, reposbx pool shutdown ends it");
        return REPOSBX_EBUSY;
    }
    *out = rsbx_fd_steal(&fd);
    return REPOSBX_OK;
}

static int check_socket_owner(int run_fd, reposbx_error *err)
{
    struct stat facts;

    if (fstatat(run_fd, SOCKET, &facts, AT_SYMLINK_NOFOLLOW) != 0) {
        if (errno != ENOENT)
            return rsbx_fail_errno(err, REPOSBX_EIO, "cannot look at the pool's socket");
        (void)rsbx_fail(err, REPOSBX_ENOTFOUND, "no pool serves in this state folder");
        rsbx_hint(err, "reposbx pool serve starts one");
        return REPOSBX_ENOTFOUND;
    }
    if (!S_ISSOCK(facts.st_mode))
        return rsbx_fail(err, REPOSBX_EPOLICY, "run/" SOCKET " is no socket of a pool: it is something else");
    if (facts.st_uid != geteuid())
        return rsbx_fail(err, REPOSBX_EPOLICY,
                         "the pool's socket run/" SOCKET " is not ours: it belongs to user %ld",
                         (long)facts.st_uid);
    return REPOSBX_OK;
}

static int listen_there(int *out, int run_fd, reposbx_error *err)
{
    RSBX_AUTO(rsbx_fd) int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    struct sockaddr_un address;
    int rc = check_socket_owner(run_fd, err);

    if (rc != 0 && rc != REPOSBX_ENOTFOUND)
        return rc;
    address_of(&address, run_fd);
    (void)unlinkat(run_fd, SOCKET, 0); /* of a server that died: the lock is ours */
    /* Nobody can connect before it listens, and then it has its mode. */
    if (fd < 0 || bind(fd, (const struct sockaddr *)&address, sizeof address) != 0 ||
        fchmodat(run_fd, SOCKET, 0600, 0) != 0 || listen(fd, 64) != 0)
        return rsbx_fail_errno(err, REPOSBX_EIO, "cannot listen at run/" SOCKET);
    *out = rsbx_fd_steal(&fd);
    return REPOSBX_OK;
}

/* False when none could be taken: the one that waits is still there then. */
static bool take_connection(struct server *server, int listen_fd)
{
    int fd = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC);
    struct connection *connection = fd >= 0 ? calloc(1, sizeof *connection) : NULL;
    pthread_attr_t attributes;
    pthread_t thread;
    bool started = false;

    if (connection != NULL && pthread_attr_init(&attributes) == 0) {
        *connection = (struct connection){ server, fd };
        (void)pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
        (void)pthread_mutex_lock(&server->mutex);
        if (server->connections < MAX_CONNECTIONS) {
            started = pthread_create(&thread, &attributes, serve_connection, connection) == 0;
            server->connections += started;
        }
        (void)pthread_mutex_unlock(&server->mutex);
        (void)pthread_attr_destroy(&attributes);
    }
    if (!started) {
        free(connection);
        if (fd >= 0)
            (void)close(fd);
    }
    return fd >= 0 || errno == EINTR || errno == ECONNABORTED || errno == EAGAIN;
}

static int accept_until_stopped(struct server *server, int listen_fd, int stop_fd,
                                reposbx_error *err)
{
    bool pause = false;

    for (;;) {
        struct pollfd ready[3] = { { .fd = pause ? -1 : listen_fd, .events = POLLIN },
                                   { .fd = server->stop_fd, .events = POLLIN },
                                   { .fd = stop_fd, .events = POLLIN } };

        if (poll(ready, 3, pause ? PAUSE_MS : -1) < 0) {
            if (errno == EINTR)
                continue;
            return rsbx_fail_errno(err, REPOSBX_EINTERNAL, "poll");
        }
        if (ready[1].revents != 0 || (stop_fd >= 0 && ready[2].revents != 0))
            return REPOSBX_OK;
        /* Without a descriptor for whoever waits, asking at once would do nothing but ask. */
        pause = ready[0].revents != 0 && !take_connection(server, listen_fd);
    }
}

static void wait_for_connections(struct server *server)
{
    (void)pthread_mutex_lock(&server->mutex);
    while (server->connections > 0)
        (void)pthread_cond_wait(&server->idle, &server->mutex);
    (void)pthread_mutex_unlock(&server->mutex);
}

/* With the lock held and the pool warm: until it is told to stop. */
static int serve_pool(struct server *server, int run_fd, const reposbx_pool_serve_options *options,
                      reposbx_error *err)
{
    RSBX_AUTO(rsbx_fd) int listen_fd = -1;
    int shut;
    int rc = listen_there(&listen_fd, run_fd, err);

    if (rc == 0 && options->ready != NULL)
        options->ready(options->payload);
    if (rc == 0) {
        rc = accept_until_stopped(server, listen_fd, options->stop_fd, err);
        (void)unlinkat(run_fd, SOCKET, 0);
    }
    /* No new jobs; those that run end by themselves or by their timeout. */
    shut = rsbx_pool_shutdown(server->pool, rc == 0 ? err : NULL);
    wait_for_connections(server);
    return rc == 0 ? shut : rc;
}

int rsbx_pool_serve(struct rsbx_runner *runner, const reposbx_pool_serve_options *options,
                    reposbx_error *err)
{
    struct server server = { .runner = runner,
                             .language = options->language != NULL ? options->language : "python" };
    RSBX_AUTO(rsbx_pool) rsbx_pool_ptr pool = NULL;
    RSBX_AUTO(rsbx_fd) int lock_fd = -1;
    RSBX_AUTO(rsbx_fd) int stop_fd = eventfd(0, EFD_CLOEXEC);
    int rc = stop_fd < 0 ? rsbx_fail_errno(err, REPOSBX_EINTERNAL, "cannot make an eventfd")
                         : take_lock(&lock_fd, runner->place.run_fd, err);

    if (rc == 0)
        rc = rsbx_pool_open(&pool, runner, options->language, options->size > 0 ? options->size : 1,
                            options->stop_fd, err);
    if (rc == 0)
        rc = rsbx_pool_prewarm(pool, err);
    if (rc != 0)
        return rc;
    server.pool = pool;
    server.stop_fd = stop_fd;
    (void)pthread_mutex_init(&server.mutex, NULL);
    (void)pthread_cond_init(&server.idle, NULL);
    rc = serve_pool(&server, runner->place.run_fd, options, err);
    (void)pthread_cond_destroy(&server.idle);
    (void)pthread_mutex_destroy(&server.mutex);
    return rc;
}

/* ---- the other side ---- */

static int connect_there(int *out, int run_fd, reposbx_error *err)
{
    RSBX_AUTO(rsbx_fd) int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    /* Where a server that does nothing has a queue that is full, connecting would wait for ever. */
    const struct timeval patience = { .tv_sec = CONNECT_SECONDS };
    struct sockaddr_un address;
    int rc = check_socket_owner(run_fd, err);

    if (rc != 0)
        return rc;
    address_of(&address, run_fd);
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience) != 0)
        return rsbx_fail_errno(err, REPOSBX_EINTERNAL, "cannot make a socket");
    if (connect(fd, (const struct sockaddr *)&address, sizeof address) != 0) {
        if (errno == EAGAIN)
            return rsbx_fail(err, REPOSBX_EUNAVAILABLE, "the pool takes no connection");
        return rsbx_fail_errno(err, REPOSBX_ENOTFOUND, "no pool serves this state folder");
    }
    if (!rsbx_pool_peer_is_ours(fd))
        return rsbx_fail(err, REPOSBX_EPOLICY,
                         "the pool's socket run/" SOCKET " is served by somebody else");
    *out = rsbx_fd_steal(&fd);
    return REPOSBX_OK;
}

/* Until the answer begins; the caller may change its mind before. */
static int await_answer(int fd, int cancel_fd, struct rsbx_deadline deadline, reposbx_error *err)
{
    for (;;) {
        struct pollfd ready[2] = { { .fd = fd, .events = POLLIN },
                                   { .fd = cancel_fd, .events = POLLIN } };
        int count = poll(ready, 2, rsbx_deadline_left_ms(deadline));

        if (count < 0 && errno != EINTR)
            return rsbx_fail_errno(err, REPOSBX_EINTERNAL, "poll");
        if (count > 0 && ready[1].revents != 0)
            return rsbx_fail(err, REPOSBX_ECANCELLED, "cancelled");
        if (count > 0)
            return REPOSBX_OK;
        if (rsbx_deadline_passed(deadline))
            return rsbx_fail(err, REPOSBX_EUNAVAILABLE, "the pool did not answer in time");
    }
}

struct question {
    const json_t *document;
    const struct rsbx_buf *bytes;
    struct rsbx_deadline deadline;
    int cancel_fd;
};

static int ask(json_t **reply, struct rsbx_buf *reply_bytes, int run_fd,
               const struct question *question, reposbx_error *err)
{
    RSBX_AUTO(rsbx_fd) int fd = -1;
    int rc = connect_there(&fd, run_fd, err);

    if (rc == 0)
        rc = rsbx_pool_send(fd, question->document, question->bytes, question->deadline, err);
    if (rc == 0)
        rc = await_answer(fd, question->cancel_fd, question->deadline, err);
    return rc == 0 ? rsbx_pool_receive(reply, reply_bytes, fd, question->deadline, err) : rc;
}

int rsbx_pool_ask(reposbx_run_result *out, struct rsbx_runner *runner,
                  const reposbx_exec_spec *spec, reposbx_error *err)
{
    RSBX_AUTO(rsbx_buf) struct rsbx_buf bytes = RSBX_BUF_INIT(RSBX_POOL_MAX_BYTES);
    RSBX_AUTO(rsbx_buf) struct rsbx_buf reply_bytes = RSBX_BUF_INIT(RSBX_POOL_MAX_BYTES);
    RSBX_AUTO(rsbx_json) rsbx_json_ptr request = NULL;
    RSBX_AUTO(rsbx_json) rsbx_json_ptr reply = NULL;
    struct rsbx_run_order order;
    struct question question = { .bytes = &bytes, .cancel_fd = spec->cancel_fd };
    int rc = check_socket_owner(runner->place.run_fd, err);

    if (rc != 0)
        return rc;
    rc = rsbx_run_check(&order, spec, runner->policy, err);
    if (rc != 0)
        return rc;
    if (!order.usual)
        return rsbx_fail(err, REPOSBX_ENOTFOUND, "the pool has other limits");
    rc = rsbx_pool_put_spec(&request, &bytes, spec, err);
    if (rc == 0 && (json_object_set_new(request, "op", json_string("run")) != 0 ||
                    json_object_set_new(request, "policy", json_string(runner->policy_digest)) != 0 ||
                    json_object_set_new(request, "engine", json_string(runner->address)) != 0))
        rc = rsbx_fail_memory(err);
    if (rc != 0)
        return rc;
    /* Its own time, and that of a container that has to be made first. */
    question.document = request;
    question.deadline = rsbx_deadline_in_ms(
        (uint64_t)(order.limits.command_timeout_seconds * 1000.0) + 2U * REQUEST_MS);
    rc = ask(&reply, &reply_bytes, runner->place.run_fd, &question, err);
    if (rc == 0 && json_object_get(reply, "error") != NULL)
        return rsbx_pool_get_error(reply, err);
    return rc == 0 ? rsbx_pool_get_result(out, reply, &reply_bytes, err) : rc;
}

int rsbx_pool_status(char **out, const char *state_dir, reposbx_error *err)
{
    RSBX_AUTO(rsbx_buf) struct rsbx_buf none = RSBX_BUF_INIT(0);
    RSBX_AUTO(rsbx_json) rsbx_json_ptr request = json_pack("{s:s}", "op", "status");
    RSBX_AUTO(rsbx_json) rsbx_json_ptr reply = NULL;
    struct question question = { .document = request, .bytes = &none, .cancel_fd = -1 };
    struct rsbx_run_place place = { .run_fd = -1 };
    int rc = request != NULL ? rsbx_run_place_open(&place, state_dir, err) : rsbx_fail_memory(err);

    question.deadline = rsbx_deadline_in_ms(REQUEST_MS);
    if (rc == 0)
        rc = ask(&reply, &none, place.run_fd, &question, err);
    if (rc == 0)
        rc = rsbx_pool_check_status(reply, err);
    if (rc == 0)
        rc = rsbx_json_measured(out, reply, err);
    rsbx_run_place_close(&place);
    return rc;
}

/* The server lets go of its lock when everything is gone. */
int rsbx_pool_await_end(int run_fd, struct rsbx_deadline deadline, reposbx_error *err)
{
    RSBX_AUTO(rsbx_fd) int lock_fd = openat(run_fd, "pool.lock", O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    int ended = lock_fd >= 0 ? rsbx_wait_lock(lock_fd, LOCK_SH, deadline) : -1;

    if (ended > 0)
        return REPOSBX_OK;
    if (ended < 0)
        return rsbx_fail_errno(err, REPOSBX_EIO, "cannot wait for the pool's end");
    (void)rsbx_fail(err, REPOSBX_EUNAVAILABLE, "the pool was told to stop and has not ended in time");
    rsbx_hint(err, "its process hangs, or another pool took its place: see reposbx pool status");
    return REPOSBX_EUNAVAILABLE;
}

int rsbx_pool_stop(const char *state_dir, reposbx_error *err)
{
    RSBX_AUTO(rsbx_buf) struct rsbx_buf none = RSBX_BUF_INIT(0);
    RSBX_AUTO(rsbx_json) rsbx_json_ptr request = json_pack("{s:s}", "op", "stop");
    RSBX_AUTO(rsbx_fd) int fd = -1;
    struct rsbx_run_place place = { .run_fd = -1 };
    int rc = request != NULL ? rsbx_run_place_open(&place, state_dir, err) : rsbx_fail_memory(err);

    if (rc == 0)
        rc = connect_there(&fd, place.run_fd, err);
    if (rc == 0)
        rc = rsbx_pool_send(fd, request, &none, rsbx_deadline_in_ms(REQUEST_MS), err);
    if (rc == 0)
        rc = rsbx_pool_await_end(place.run_fd, rsbx_deadline_in_ms(STOP_MS), err);
    rsbx_run_place_close(&place);
    return rc;
}
