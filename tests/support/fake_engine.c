/* SPDX-License-Identifier: Apache-2.0 */
#include "support/fake_engine.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define MAX_REPLIES 64
#define MAX_CONNECTIONS 8
#define MAX_REQUEST_BYTES 65536U

struct connection {
    int fd;
    size_t length;
    char text[MAX_REQUEST_BYTES + 1];
};

struct fake_engine {
    pthread_t thread;
    pthread_mutex_t lock;                   /* of everything down to the blank line */
    struct fake_reply replies[MAX_REPLIES]; /* their bytes are copies of our own */
    size_t reply_count, next_reply;
    char *requests[MAX_REPLIES];
    size_t request_count;

    int listen_fd;
    int stop_fd[2];
    char folder[64];
    char path[96];
    char address[112];
    struct connection connections[MAX_CONNECTIONS];
};

static void need(bool good, const char *what)
{
    if (good)
        return;
    perror(what);
    exit(1);
}

/* Waits, but not longer than the client or the test does. False when either went away. */
static bool pause_ms(const struct fake_engine *fake, int fd, int milliseconds)
{
    struct pollfd watched[2] = { { fake->stop_fd[0], POLLIN, 0 }, { fd, POLLRDHUP, 0 } };

    return poll(watched, 2, milliseconds) == 0;
}

static bool send_bytes(int fd, const char *bytes, size_t length)
{
    while (length > 0) {
        ssize_t count = send(fd, bytes, length, MSG_NOSIGNAL);

        if (count <= 0)
            return false;
        bytes += count;
        length -= (size_t)count;
    }
    return true;
}

/* Whether the connection is still good afterwards. */
static bool play(const struct fake_engine *fake, int fd, const struct fake_reply *reply)
{
    const char *bytes = reply->bytes;
    char block[16384];

    if (reply->wait_ms > 0 && !pause_ms(fake, fd, reply->wait_ms))
        return false;
    if (reply->drip_ms > 0) {
        for (size_t i = 0; i < reply->length; i++) {
            if (!send_bytes(fd, bytes + i, 1) || !pause_ms(fake, fd, reply->drip_ms))
                return false;
        }
    } else if (!send_bytes(fd, bytes, reply->length)) {
        return false;
    }
    memset(block, 'x', sizeof block);
    for (size_t left = reply->filler; left > 0;) {
        size_t count = left < sizeof block ? left : sizeof block;

        if (!send_bytes(fd, block, count))
            return false;
        left -= count;
    }
    return reply->hold;
}

/* The length of the whole request that `text` begins with, or 0 when it is not yet there. */
static size_t whole_request(const char *text)
{
    const char *end = strstr(text, "\r\n\r\n");
    const char *field = strcasestr(text, "\r\ncontent-length:");
    size_t length = 0;

    if (end == NULL)
        return 0;
    if (field != NULL && field < end)
        length = strtoul(field + strlen("\r\ncontent-length:"), NULL, 10);
    length += (size_t)(end - text) + 4;
    return strlen(text) >= length ? length : 0;
}

static void close_connection(struct connection *connection)
{
    (void)close(connection->fd);
    connection->fd = -1;
    connection->length = 0;
}

static void *copy_bytes(const void *bytes, size_t length)
{
    void *copy = malloc(length + 1);

    need(copy != NULL, "reply");
    if (length > 0)
        memcpy(copy, bytes, length);
    return copy;
}

static void free_bytes(struct fake_reply *reply)
{
    union {
        const void *borrowed;
        void *owned;
    } bytes = { .borrowed = reply->bytes };

    free(bytes.owned);
    reply->bytes = NULL;
}

static void answer(struct fake_engine *fake, struct connection *connection, size_t length)
{
    struct fake_reply reply = { 0 };

    need(pthread_mutex_lock(&fake->lock) == 0, "lock");
    if (fake->request_count < MAX_REPLIES)
        fake->requests[fake->request_count++] = strndup(connection->text, length);
    if (fake->next_reply < fake->reply_count)
        reply = fake->replies[fake->next_reply++];
    reply.bytes =
        copy_bytes(reply.bytes, reply.length); /* the next script may come while we send */
    need(pthread_mutex_unlock(&fake->lock) == 0, "unlock");
    connection->length = 0;
    if (!play(fake, connection->fd, &reply))
        close_connection(connection);
    free_bytes(&reply);
}

static void read_some(struct fake_engine *fake, struct connection *connection)
{
    ssize_t count = recv(connection->fd, connection->text + connection->length,
                         MAX_REQUEST_BYTES - connection->length, 0);
    size_t length;

    if (count <= 0) {
        close_connection(connection);
        return;
    }
    connection->length += (size_t)count;
    connection->text[connection->length] = '\0';
    length = whole_request(connection->text);
    if (length > 0)
        answer(fake, connection, length);
}

static void accept_one(struct fake_engine *fake)
{
    const struct timeval patience = { .tv_sec = 20 };
    int fd = accept(fake->listen_fd, NULL, NULL);

    for (int i = 0; fd >= 0 && i < MAX_CONNECTIONS; i++) {
        if (fake->connections[i].fd < 0) {
            (void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
            fake->connections[i].fd = fd;
            return;
        }
    }
    if (fd >= 0)
        (void)close(fd);
}

static void *serve(void *payload)
{
    struct fake_engine *fake = payload;
    struct pollfd watched[2 + MAX_CONNECTIONS];

    for (;;) {
        watched[0] = (struct pollfd){ fake->stop_fd[0], POLLIN, 0 };
        watched[1] = (struct pollfd){ fake->listen_fd, POLLIN, 0 };
        for (int i = 0; i < MAX_CONNECTIONS; i++)
            watched[2 + i] = (struct pollfd){ fake->connections[i].fd, POLLIN, 0 };
        if (poll(watched, 2 + MAX_CONNECTIONS, -1) < 0 && errno != EINTR)
            return NULL;
        if (watched[0].revents != 0)
            return NULL;
        for (int i = 0; i < MAX_CONNECTIONS; i++) {
            if (watched[2 + i].revents != 0 && fake->connections[i].fd >= 0)
                read_some(fake, &fake->connections[i]);
        }
        if (watched[1].revents != 0)
            accept_one(fake);
    }
}

struct fake_engine *fake_engine_start(void)
{
    struct fake_engine *fake = calloc(1, sizeof *fake);
    struct sockaddr_un name = { .sun_family = AF_UNIX };

    need(fake != NULL, "fake engine");
    for (int i = 0; i < MAX_CONNECTIONS; i++)
        fake->connections[i].fd = -1;
    (void)snprintf(fake->folder, sizeof fake->folder, "/tmp/rsbx-fake-XXXXXX");
    need(mkdtemp(fake->folder) != NULL, "mkdtemp");
    (void)snprintf(fake->path, sizeof fake->path, "%s/socket", fake->folder);
    (void)snprintf(fake->address, sizeof fake->address, "unix://%s", fake->path);
    (void)snprintf(name.sun_path, sizeof name.sun_path, "%s", fake->path);
    fake->listen_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    need(fake->listen_fd >= 0, "socket");
    need(bind(fake->listen_fd, (const struct sockaddr *)&name, sizeof name) == 0, "bind");
    need(listen(fake->listen_fd, 16) == 0, "listen");
    need(pipe(fake->stop_fd) == 0, "pipe");
    need(pthread_mutex_init(&fake->lock, NULL) == 0, "mutex");
    need(pthread_create(&fake->thread, NULL, serve, fake) == 0, "thread");
    return fake;
}

static void forget_script(struct fake_engine *fake)
{
    for (size_t i = 0; i < fake->reply_count; i++)
        free_bytes(&fake->replies[i]);
    fake->reply_count = 0;
    for (size_t i = 0; i < fake->request_count; i++)
        free(fake->requests[i]);
    fake->request_count = 0;
}

void fake_engine_stop(struct fake_engine *fake)
{
    need(write(fake->stop_fd[1], "s", 1) == 1, "stop");
    need(pthread_join(fake->thread, NULL) == 0, "join");
    for (int i = 0; i < MAX_CONNECTIONS; i++) {
        if (fake->connections[i].fd >= 0)
            close_connection(&fake->connections[i]);
    }
    (void)close(fake->listen_fd);
    (void)close(fake->stop_fd[0]);
    (void)close(fake->stop_fd[1]);
    (void)chmod(fake->folder, 0700);
    (void)unlink(fake->path);
    (void)rmdir(fake->folder);
    forget_script(fake);
    (void)pthread_mutex_destroy(&fake->lock);
    free(fake);
}

const char *fake_engine_address(const struct fake_engine *fake)
{
    return fake->address;
}

const char *fake_engine_path(const struct fake_engine *fake)
{
    return fake->path;
}

void fake_engine_script(struct fake_engine *fake, const struct fake_reply *replies, size_t count)
{
    need(count <= MAX_REPLIES && pthread_mutex_lock(&fake->lock) == 0, "script");
    forget_script(fake);
    for (size_t i = 0; i < count; i++) {
        fake->replies[i] = replies[i];
        fake->replies[i].bytes = copy_bytes(replies[i].bytes, replies[i].length);
    }
    fake->reply_count = count;
    fake->next_reply = 0;
    need(pthread_mutex_unlock(&fake->lock) == 0, "unlock");
}

size_t fake_engine_requests(struct fake_engine *fake)
{
    size_t count;

    need(pthread_mutex_lock(&fake->lock) == 0, "lock");
    count = fake->request_count;
    need(pthread_mutex_unlock(&fake->lock) == 0, "unlock");
    return count;
}

void fake_engine_request(char *out, size_t size, struct fake_engine *fake, size_t index)
{
    need(pthread_mutex_lock(&fake->lock) == 0, "lock");
    (void)snprintf(out, size, "%s", index < fake->request_count ? fake->requests[index] : "");
    need(pthread_mutex_unlock(&fake->lock) == 0, "unlock");
}
