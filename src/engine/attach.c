/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/engine.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#include "base/fd.h"
#include "base/limits.h"
#include "engine/frames.h"
#include "engine/http.h"

#include "base/banned.h"

/*
 * libcurl connects and steps aside (CURLOPT_CONNECT_ONLY): the request and the head of the answer
 * are ours. The head is read with a look ahead (MSG_PEEK), so that not one byte behind it leaves
 * the kernel: frames that came in the same packet wake up the caller's poll() like all others.
 */
#define READ_BYTES 65536U
/* One receive call reads at most this much, so that a container that never stops talking cannot
 * keep its caller from looking at the clock. */
#define RECEIVE_BYTES (16U * READ_BYTES)
#define MAX_MESSAGE_BYTES 65536U

struct rsbx_stream {
    CURL *easy; /* owns the socket */
    int fd;
    struct rsbx_frames frames;
    bool broken; /* a fault was reported: what follows would be out of step */
    char space[READ_BYTES];
};

typedef struct rsbx_stream *stream_ptr;
RSBX_CLEANUP(stream, stream_ptr, rsbx_stream_free);

/* What an answer's head says that matters here. */
struct head {
    long status;
    bool typed; /* a content type is there … */
    bool raw;   /* … and it is one of the engine's streams */
    bool text;  /* … or plain text */
    bool other_upgrade;
    bool chunked;
    bool sized;
    size_t size;
};

static int broken_head(const char *path, const char *reason, reposbx_error *err)
{
    return rsbx_fail(err, REPOSBX_EPROTOCOL, "engine, POST %s: %s", path, reason);
}

static bool same(const char *a, size_t length, const char *b)
{
    return length == strlen(b) && strncasecmp(a, b, length) == 0;
}

/* Digits only, and few enough to be no overflow. */
static bool parse_size(size_t *out, const char *text, size_t length)
{
    size_t value = 0;

    if (length == 0 || length > 9)
        return false;
    for (size_t i = 0; i < length; i++) {
        if (text[i] < '0' || text[i] > '9')
            return false;
        value = value * 10 + (size_t)(text[i] - '0');
    }
    *out = value;
    return true;
}

static bool parse_field(struct head *head, const char *name, size_t name_length, const char *value,
                        size_t length)
{
    if (same(name, name_length, "content-type")) {
        const char *semicolon = memchr(value, ';', length);
        size_t type_length = semicolon != NULL ? (size_t)(semicolon - value) : length;

        head->typed = true;
        head->raw = same(value, type_length, "application/vnd.docker.raw-stream") ||
                    same(value, type_length, "application/vnd.docker.multiplexed-stream");
        head->text = same(value, type_length, "text/plain");
    } else if (same(name, name_length, "upgrade")) {
        head->other_upgrade = !same(value, length, "tcp");
    } else if (same(name, name_length, "transfer-encoding")) {
        head->chunked = true;
    } else if (same(name, name_length, "content-length")) {
        if (head->sized)
            return false;
        head->sized = true;
        return parse_size(&head->size, value, length);
    }
    return true;
}

/* One line without its end: a name of token characters, a colon, a value without controls. */
static bool parse_line(struct head *head, const char *line, size_t length)
{
    static const char token[] = "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyz"
                                "ABCDEFGHIJKLMNOPQRSTUVWXYZ";
    size_t name_length = 0;
    size_t start;

    while (name_length < length && line[name_length] != '\0' &&
           strchr(token, line[name_length]) != NULL)
        name_length++;
    if (name_length == 0 || name_length == length || line[name_length] != ':')
        return false;
    start = name_length + 1;
    while (start < length && (line[start] == ' ' || line[start] == '\t'))
        start++;
    while (length > start && (line[length - 1] == ' ' || line[length - 1] == '\t'))
        length--;
    for (size_t i = start; i < length; i++) {
        unsigned char c = (unsigned char)line[i];

        if ((c < 0x20 && c != '\t') || c == 0x7F)
            return false;
    }
    return parse_field(head, line, name_length, line + start, length - start);
}

static bool parse_status(struct head *head, const char *line, size_t length)
{
    static const char version[] = "HTTP/1.1 ";
    size_t at = sizeof version - 1;

    if (length < at + 3 || memcmp(line, version, at) != 0 ||
        (length > at + 3 && line[at + 3] != ' '))
        return false;
    for (size_t i = at; i < at + 3; i++) {
        if (line[i] < '0' || line[i] > '9')
            return false;
        head->status = head->status * 10 + (line[i] - '0');
    }
    return true;
}

/* `text` is the whole head with the empty line at its end. */
static bool parse_head(struct head *out, const char *text, size_t length)
{
    struct head head = { 0 };
    bool first = true;

    while (length > 0) {
        const char *end = memmem(text, length, "\r\n", 2);
        size_t line_length = end != NULL ? (size_t)(end - text) : 0;

        if (end == NULL)
            return false;
        if (line_length == 0) {
            *out = head;
            return !first && length == 2;
        }
        if (!(first ? parse_status(&head, text, line_length)
                    : parse_line(&head, text, line_length)))
            return false;
        first = false;
        text += line_length + 2;
        length -= line_length + 2;
    }
    return false;
}

static int send_request(struct rsbx_stream *stream, const char *text, size_t length,
                        const char *path, struct rsbx_deadline deadline, reposbx_error *err)
{
    while (length > 0) {
        ssize_t count = send(stream->fd, text, length, MSG_NOSIGNAL | MSG_DONTWAIT);

        if (count >= 0) {
            text += count;
            length -= (size_t)count;
        } else if (errno == EAGAIN) {
            if (rsbx_wait_fd(stream->fd, POLLOUT, deadline) == 0) {
                int rc = rsbx_check_cancelled(deadline.cancel_fd, err);

                return rc != 0 ? rc
                               : rsbx_fail(err, REPOSBX_EUNAVAILABLE,
                                           "engine, POST %s: not taken in time", path);
            }
        } else if (errno != EINTR) {
            return rsbx_fail_errno(err, REPOSBX_EUNAVAILABLE, "engine, POST %s", path);
        }
    }
    return REPOSBX_OK;
}

/* Waits for bytes and looks at them without taking them. 0 is the end of the stream. */
static int look(size_t *count, struct rsbx_stream *stream, const char *path,
                struct rsbx_deadline deadline, reposbx_error *err)
{
    for (;;) {
        int ready = rsbx_wait_fd(stream->fd, POLLIN, deadline);
        ssize_t got;

        if (ready == 0 && rsbx_check_cancelled(deadline.cancel_fd, err) != 0)
            return REPOSBX_ECANCELLED;
        if (ready == 0) {
            (void)rsbx_fail(err, REPOSBX_EUNAVAILABLE, "engine, POST %s: no whole answer in time",
                            path);
            rsbx_hint(err, "the engine hangs or is overloaded");
            return REPOSBX_EUNAVAILABLE;
        }
        got = recv(stream->fd, stream->space, sizeof stream->space, MSG_PEEK | MSG_DONTWAIT);
        if (got >= 0) {
            *count = (size_t)got;
            return REPOSBX_OK;
        }
        if (errno != EAGAIN && errno != EINTR)
            return rsbx_fail_errno(err, REPOSBX_EPROTOCOL, "engine, POST %s", path);
    }
}

/* Takes `count` bytes that were looked at. */
static void take(struct rsbx_stream *stream, size_t count)
{
    while (count > 0) {
        ssize_t got = recv(stream->fd, stream->space, count, MSG_DONTWAIT);

        if (got <= 0 && errno != EINTR)
            return; /* bytes that were there do not go away */
        if (got > 0)
            count -= (size_t)got;
    }
}

/* Reads exactly the head, and nothing of what is behind it. */
static int read_head(struct head *head, struct rsbx_stream *stream, const char *path,
                     struct rsbx_deadline deadline, reposbx_error *err)
{
    RSBX_AUTO(rsbx_buf) struct rsbx_buf text = RSBX_BUF_INIT(RSBX_MAX_HEADER_BYTES + READ_BYTES);

    for (;;) {
        size_t before = text.length;
        const char *end;
        size_t count;
        int rc = look(&count, stream, path, deadline, err);

        if (rc != 0)
            return rc;
        if (count == 0)
            return before == 0 ? rsbx_fail(err, REPOSBX_EUNAVAILABLE,
                                           "engine, POST %s: closed without an answer", path)
                               : broken_head(path, "an answer without an end of its head", err);
        rc = rsbx_buf_append(&text, stream->space, count, err);
        if (rc != 0)
            return rc;
        end = memmem(text.data, text.length, "\r\n\r\n", 4);
        if (end != NULL)
            text.length = (size_t)(end - text.data) + 4;
        if (text.length > RSBX_MAX_HEADER_BYTES)
            return broken_head(path, "a head that is too long", err);
        take(stream, text.length - before);
        if (end != NULL)
            return parse_head(head, text.data, text.length)
                       ? REPOSBX_OK
                       : broken_head(path, "a damaged head", err);
    }
}

/* The body of a refusal, up to its length or the end of the stream. False when it is not whole. */
static bool read_refusal(struct rsbx_buf *body, struct rsbx_stream *stream, const struct head *head,
                         const char *path, struct rsbx_deadline deadline)
{
    while (!head->sized || body->length < head->size) {
        size_t count;

        if (look(&count, stream, path, deadline, NULL) != 0)
            return false;
        if (count == 0)
            return !head->sized;
        if (head->sized && count > head->size - body->length)
            count = head->size - body->length;
        if (rsbx_buf_append(body, stream->space, count, NULL) != 0)
            return false;
        take(stream, count);
    }
    return true;
}

/* The engine's own words. After it has taken over the connection it answers in plain text. */
static char *refusal_text(struct rsbx_stream *stream, const struct head *head, const char *path,
                          struct rsbx_deadline deadline)
{
    RSBX_AUTO(rsbx_buf) struct rsbx_buf body = RSBX_BUF_INIT(MAX_MESSAGE_BYTES);

    if (head->chunked || !read_refusal(&body, stream, head, path, deadline) || body.length == 0)
        return NULL;
    if (!head->raw && !head->text)
        return rsbx_http_message(body.data, body.length);
    while (body.length > 0 && strchr(" \r\n", body.data[body.length - 1]) != NULL &&
           body.data[body.length - 1] != '\0')
        body.data[--body.length] = '\0';
    return body.length > 0 ? rsbx_buf_steal(&body) : NULL;
}

static int judge_head(struct rsbx_stream *stream, const struct head *head, const char *path,
                      struct rsbx_deadline deadline, reposbx_error *err)
{
    RSBX_AUTO(rsbx_text) char *message = NULL;

    if (head->status == 101 || head->status == 200) {
        bool stream_type = head->typed ? head->raw : head->status == 101;

        if (!stream_type || head->other_upgrade || head->chunked || head->sized)
            return broken_head(path, "the answer is no stream", err);
        return REPOSBX_OK;
    }
    if (head->status >= 400)
        message = refusal_text(stream, head, path, deadline);
    return rsbx_http_refused("POST", path, head->status, message, err);
}

static int connect_stream(struct rsbx_stream *stream, struct rsbx_engine *engine, const char *path,
                          struct rsbx_deadline deadline, reposbx_error *err)
{
    curl_socket_t fd = CURL_SOCKET_BAD;
    CURLcode code;

    int rc = rsbx_check_cancelled(deadline.cancel_fd, err);

    if (rc != 0)
        return rc;
    if (rsbx_deadline_passed(deadline))
        return rsbx_fail(err, REPOSBX_EUNAVAILABLE, "engine, POST %s: no time is left", path);
    stream->easy = rsbx_curl.curl_easy_init();
    if (stream->easy == NULL || !rsbx_http_prepare(stream->easy, engine, deadline) ||
        rsbx_curl.curl_easy_setopt(stream->easy, CURLOPT_URL, "http://engine/") != CURLE_OK ||
        rsbx_curl.curl_easy_setopt(stream->easy, CURLOPT_CONNECT_ONLY, 1L) != CURLE_OK)
        return rsbx_fail(err, REPOSBX_EINTERNAL, "cannot set up a connection to the engine");
    code = rsbx_curl.curl_easy_perform(stream->easy);
    if (code != CURLE_OK)
        return rsbx_http_unreachable(engine, stream->easy, err);
    if (rsbx_curl.curl_easy_getinfo(stream->easy, CURLINFO_ACTIVESOCKET, &fd) != CURLE_OK ||
        fd == CURL_SOCKET_BAD)
        return rsbx_fail(err, REPOSBX_EINTERNAL, "the connection to the engine has no socket");
    stream->fd = fd;
    return REPOSBX_OK;
}

int rsbx_engine_attach(struct rsbx_stream **out, struct rsbx_engine *engine, const char *name,
                       struct rsbx_deadline deadline, reposbx_error *err)
{
    RSBX_AUTO(stream) struct rsbx_stream *stream = calloc(1, sizeof *stream);
    RSBX_AUTO(rsbx_buf) struct rsbx_buf path = RSBX_BUF_INIT(RSBX_HTTP_MAX_PATH_BYTES);
    RSBX_AUTO(rsbx_buf) struct rsbx_buf request = RSBX_BUF_INIT(2 * RSBX_HTTP_MAX_PATH_BYTES);
    struct head head = { 0 };
    int rc;

    if (stream == NULL)
        return rsbx_fail_memory(err);
    stream->fd = -1;
    rc = rsbx_http_path(&path, "/containers/", name, false,
                        "/attach?stream=1&stdin=1&stdout=1&stderr=1", err);
    if (rc == 0)
        rc = rsbx_buf_format(&request, err,
                             "POST /v%u.%u%s HTTP/1.1\r\nHost: engine\r\nConnection: Upgrade\r\n"
                             "Upgrade: tcp\r\nContent-Length: 0\r\n\r\n",
                             engine->api_version / 100, engine->api_version % 100, path.data);
    if (rc == 0)
        rc = connect_stream(stream, engine, path.data, deadline, err);
    if (rc == 0)
        rc = send_request(stream, request.data, request.length, path.data, deadline, err);
    if (rc == 0)
        rc = read_head(&head, stream, path.data, deadline, err);
    if (rc == 0)
        rc = judge_head(stream, &head, path.data, deadline, err);
    if (rc == 0)
        *out = stream_steal(&stream);
    return rc;
}

int rsbx_stream_fd(const struct rsbx_stream *stream)
{
    return stream->fd;
}

int rsbx_stream_send(size_t *sent, struct rsbx_stream *stream, const void *bytes, size_t length,
                     reposbx_error *err)
{
    ssize_t count;

    do {
        count = send(stream->fd, bytes, length, MSG_NOSIGNAL | MSG_DONTWAIT);
    } while (count < 0 && errno == EINTR);
    if (count < 0 && errno != EAGAIN)
        return rsbx_fail_errno(err, REPOSBX_EPROTOCOL, "the attached stream takes no more");
    *sent = count > 0 ? (size_t)count : 0;
    return REPOSBX_OK;
}

int rsbx_stream_shutdown_send(struct rsbx_stream *stream, reposbx_error *err)
{
    if (shutdown(stream->fd, SHUT_WR) != 0)
        return rsbx_fail_errno(err, REPOSBX_EPROTOCOL, "cannot end the container's input");
    return REPOSBX_OK;
}

static int receive(bool *ended, struct rsbx_stream *stream, rsbx_stream_piece piece, void *payload,
                   reposbx_error *err)
{
    for (size_t total = 0; total < RECEIVE_BYTES;) {
        ssize_t got = recv(stream->fd, stream->space, sizeof stream->space, MSG_DONTWAIT);
        int rc;

        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0 && errno == EAGAIN)
            break;
        if (got < 0)
            return rsbx_fail_errno(err, REPOSBX_EPROTOCOL, "the attached stream broke");
        if (got == 0 && !rsbx_frames_at_edge(&stream->frames))
            return rsbx_fail(err, REPOSBX_EPROTOCOL, "the attached stream ends inside a frame");
        if (got == 0) {
            *ended = true;
            return REPOSBX_OK;
        }
        rc = rsbx_frames_feed(&stream->frames, stream->space, (size_t)got, piece, payload, err);
        if (rc != 0)
            return rc;
        total += (size_t)got;
    }
    *ended = false;
    return REPOSBX_OK;
}

int rsbx_stream_receive(bool *ended, struct rsbx_stream *stream, rsbx_stream_piece piece,
                        void *payload, reposbx_error *err)
{
    int rc;

    if (stream->broken)
        return rsbx_fail(err, REPOSBX_EPROTOCOL, "the attached stream was given up");
    rc = receive(ended, stream, piece, payload, err);
    stream->broken = rc != 0;
    return rc;
}

void rsbx_stream_free(struct rsbx_stream *stream)
{
    if (stream == NULL)
        return;
    if (stream->easy != NULL)
        rsbx_curl.curl_easy_cleanup(stream->easy); /* closes the socket */
    free(stream);
}
