/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/http.h"

#include <errno.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#include "base/cleanup.h"
#include "base/limits.h"

#include "base/banned.h"

/*
 * libcurl calls transfers good that we do not: one that ends in the middle of the head, before the
 * last line end of a chunked body, with more bytes than were announced, with a length that is no
 * number, or in the middle of a body without a length. The callbacks below keep what is needed to
 * see all but the last; there the reader of the body must be strict.
 */
#define MAX_LENGTH_DIGITS 18 /* of a Content-Length: no overflow in 64 bits */

struct exchange {
    const struct rsbx_http_call *call;
    struct rsbx_buf body;
    size_t head_bytes; /* all heads of the exchange together, trailers too */
    long status;
    bool head_done;
    bool body_claimed; /* the head announces a body */
    bool chunked;
    bool bad_length;
    char tail[4]; /* the last bytes of the body as they came, before chunks are taken away */
    bool head_flood;
    bool body_flood;
    bool excess;
    struct rsbx_deadline patience; /* after a cancel; at_ns 0: none was heard */
};

typedef CURL *easy_ptr;
typedef struct curl_slist *list_ptr;

#define SET(...) (rsbx_curl.curl_easy_setopt(__VA_ARGS__) == CURLE_OK)

RSBX_CLEANUP(list, list_ptr, rsbx_curl.curl_slist_free_all);

static bool starts_with(const char *line, size_t length, const char *name)
{
    size_t name_length = strlen(name);

    return length >= name_length && strncasecmp(line, name, name_length) == 0;
}

static long status_of(const char *line, size_t length)
{
    const char *space = memchr(line, ' ', length);
    size_t at = space != NULL ? (size_t)(space - line) + 1 : length;
    long status = 0;

    for (size_t i = at; i < at + 3; i++) {
        if (i >= length || line[i] < '0' || line[i] > '9')
            return 0;
        status = status * 10 + (line[i] - '0');
    }
    return status;
}

static void take_length(struct exchange *exchange, const char *value, size_t length)
{
    size_t digits = 0;

    while (length > 0 && (*value == ' ' || *value == '\t')) {
        value++;
        length--;
    }
    while (length > 0 && strchr(" \t\r\n", value[length - 1]) != NULL)
        length--;
    for (; digits < length && value[digits] >= '0' && value[digits] <= '9'; digits++)
        exchange->body_claimed = exchange->body_claimed || value[digits] != '0';
    if (digits == 0 || digits != length || digits > MAX_LENGTH_DIGITS)
        exchange->bad_length = true;
}

/* A field of a head; its body's length is all that matters here. */
static void take_field(struct exchange *exchange, const char *line, size_t length)
{
    static const char sized[] = "content-length:";

    if (starts_with(line, length, sized)) {
        take_length(exchange, line + strlen(sized), length - strlen(sized));
    } else if (starts_with(line, length, "transfer-encoding:")) {
        exchange->body_claimed = true;
        exchange->chunked = true;
    }
}

/* Called with one whole line at a time. */
static size_t take_head(char *line, size_t size, size_t count, void *payload)
{
    struct exchange *exchange = payload;
    size_t length = size * count;

    exchange->head_bytes += length;
    if (exchange->head_bytes > RSBX_MAX_HEADER_BYTES) {
        exchange->head_flood = true;
        return 0;
    }
    if (exchange->head_done) /* trailers */
        return length;
    if (starts_with(line, length, "HTTP/")) {
        exchange->status = status_of(line, length);
        exchange->body_claimed = false;
        exchange->chunked = false;
    } else if (line[0] == '\r' || line[0] == '\n') {
        exchange->head_done = exchange->status >= 200; /* another head follows a 1xx */
    } else {
        take_field(exchange, line, length);
    }
    return exchange->bad_length ? 0 : length;
}

static size_t take_body(char *bytes, size_t size, size_t count, void *payload)
{
    struct exchange *exchange = payload;
    size_t length = size * count;

    /* A caller's small limit must not cut the message of a refusal. */
    if (exchange->status != exchange->call->expected || exchange->call->limit_bytes == 0)
        exchange->body.limit = RSBX_MAX_REPLY_BYTES;
    else
        exchange->body.limit = exchange->call->limit_bytes;
    if (rsbx_buf_append(&exchange->body, bytes, length, NULL) != 0) {
        exchange->body_flood = true;
        return 0;
    }
    return length;
}

/* libcurl drops bytes beyond the announced end and only remarks on it; and it shows a body as it
 * came, chunks and all. */
static int take_remark(CURL *easy, curl_infotype type, char *text, size_t length, void *payload)
{
    struct exchange *exchange = payload;

    (void)easy;
    if (type == CURLINFO_TEXT && starts_with(text, length, "Excess found"))
        exchange->excess = true;
    for (size_t i = 0; type == CURLINFO_DATA_IN && i < sizeof exchange->tail; i++) {
        size_t kept = sizeof exchange->tail - i; /* 4, 3, 2, 1: bytes from the end */

        if (kept <= length)
            exchange->tail[i] = text[length - kept];
        else
            exchange->tail[i] = exchange->tail[i + length];
    }
    return 0;
}

static bool is_reading(const struct rsbx_http_call *call)
{
    return strcmp(call->method, "GET") == 0;
}

/* libcurl asks whenever it has waited, at least once a second; not 0 gives the transfer up. */
static int on_progress(void *payload, curl_off_t down_total, curl_off_t down, curl_off_t up_total,
                       curl_off_t up)
{
    struct exchange *exchange = payload;

    (void)down_total;
    (void)down;
    (void)up_total;
    (void)up;
    if (exchange->patience.at_ns == 0) {
        if (!rsbx_deadline_cancelled(exchange->call->deadline))
            return 0;
        exchange->patience =
            rsbx_deadline_in_ms(is_reading(exchange->call) ? 0 : RSBX_CANCEL_GRACE_MS);
    }
    return rsbx_deadline_passed(exchange->patience);
}

/* libcurl of this age leaves its sockets open across exec; a program that we do not know would hold
 * a container's input open. */
static curl_socket_t open_socket(void *payload, curlsocktype purpose, struct curl_sockaddr *address)
{
    (void)payload;
    (void)purpose;
    return socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
}

bool rsbx_http_prepare(CURL *easy, const struct rsbx_engine *engine, struct rsbx_deadline deadline)
{
    long left = rsbx_deadline_left_ms(deadline);
    long connect = left < RSBX_ENGINE_CONNECT_MS ? left : RSBX_ENGINE_CONNECT_MS;

    return SET(easy, CURLOPT_UNIX_SOCKET_PATH, engine->socket_path) &&
           SET(easy, CURLOPT_OPENSOCKETFUNCTION, open_socket) &&
           SET(easy, CURLOPT_PROXY, "") &&
           SET(easy, CURLOPT_NOPROXY, "*") &&
           SET(easy, CURLOPT_PROTOCOLS_STR, "http") &&
           SET(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1) &&
           SET(easy, CURLOPT_HTTP09_ALLOWED, 0L) &&
           SET(easy, CURLOPT_FOLLOWLOCATION, 0L) &&
           SET(easy, CURLOPT_NETRC, (long)CURL_NETRC_IGNORED) &&
           SET(easy, CURLOPT_PATH_AS_IS, 1L) &&
           SET(easy, CURLOPT_NOSIGNAL, 1L) &&
           SET(easy, CURLOPT_CONNECTTIMEOUT_MS, connect > 0 ? connect : 1L) &&
           SET(easy, CURLOPT_TIMEOUT_MS, left > 0 ? left : 1L);
}

static bool set_request(CURL *easy, const struct rsbx_http_call *call, const char *url)
{
    /* Only a GET may share a connection: on one that has died meanwhile libcurl sends the request
     * a second time by itself. */
    bool reading = is_reading(call);
    bool sending = call->body != NULL || strcmp(call->method, "POST") == 0;

    if (!SET(easy, CURLOPT_URL, url) ||
        !SET(easy, CURLOPT_FRESH_CONNECT, reading ? 0L : 1L) ||
        !SET(easy, CURLOPT_FORBID_REUSE, reading ? 0L : 1L))
        return false;
    if (sending && (!SET(easy, CURLOPT_POST, 1L) ||
                    !SET(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)call->body_length) ||
                    !SET(easy, CURLOPT_POSTFIELDS, call->body != NULL ? call->body : "")))
        return false;
    return reading || SET(easy, CURLOPT_CUSTOMREQUEST, call->method);
}

static bool set_callbacks(CURL *easy, struct exchange *exchange)
{
    int cancel_fd = rsbx_deadline_cancel_fd(exchange->call->deadline);

    return SET(easy, CURLOPT_HEADERFUNCTION, take_head) &&
           SET(easy, CURLOPT_HEADERDATA, exchange) &&
           SET(easy, CURLOPT_WRITEFUNCTION, take_body) &&
           SET(easy, CURLOPT_WRITEDATA, exchange) &&
           SET(easy, CURLOPT_DEBUGFUNCTION, take_remark) &&
           SET(easy, CURLOPT_DEBUGDATA, exchange) &&
           SET(easy, CURLOPT_VERBOSE, 1L) &&
           SET(easy, CURLOPT_XFERINFOFUNCTION, on_progress) &&
           SET(easy, CURLOPT_XFERINFODATA, exchange) &&
           SET(easy, CURLOPT_NOPROGRESS, cancel_fd < 0 ? 1L : 0L);
}

/* An empty value takes away what libcurl would add of its own. */
static struct curl_slist *request_head(const struct rsbx_http_call *call)
{
    RSBX_AUTO(rsbx_buf) struct rsbx_buf type = RSBX_BUF_INIT(256);
    RSBX_AUTO(list) struct curl_slist *list = NULL;
    struct curl_slist *longer;

    if (rsbx_buf_format(&type, NULL, "Content-Type:%s%s", call->body != NULL ? " " : "",
                        call->body != NULL ? call->body_type : "") != 0)
        return NULL;
    list = rsbx_curl.curl_slist_append(NULL, "Expect:");
    longer = list != NULL ? rsbx_curl.curl_slist_append(list, type.data) : NULL;
    if (longer == NULL)
        return NULL;
    (void)list_steal(&list);
    return longer;
}

int rsbx_http_unreachable(const struct rsbx_engine *engine, CURL *easy, reposbx_error *err)
{
    long reason = 0;

    (void)rsbx_curl.curl_easy_getinfo(easy, CURLINFO_OS_ERRNO, &reason);
    if (reason == 0)
        return rsbx_fail(err, REPOSBX_EUNAVAILABLE, "cannot connect to the engine at %s",
                         engine->socket_path);
    errno = (int)reason;
    (void)rsbx_fail_errno(err, REPOSBX_EUNAVAILABLE, "cannot connect to the engine at %s",
                          engine->socket_path);
    if (reason == EACCES)
        rsbx_hint(err, "this user may not open that socket: run a rootless engine of your own, or "
                       "ask for access to this one");
    else
        rsbx_hint(err, "start the engine, or name the socket of one that runs");
    return REPOSBX_EUNAVAILABLE;
}

static int cancelled(const struct rsbx_http_call *call, reposbx_error *err)
{
    return rsbx_fail(err, REPOSBX_ECANCELLED, "engine, %s %s: cancelled by the caller", call->method,
                     call->path);
}

static int transfer_failed(const struct rsbx_engine *engine, const struct exchange *exchange,
                           CURLcode code, reposbx_error *err)
{
    const struct rsbx_http_call *call = exchange->call;

    /* One endless line of a head is libcurl's to end, which says that it is out of memory. */
    if (exchange->head_flood || (code == CURLE_OUT_OF_MEMORY && !exchange->head_done))
        return rsbx_fail(err, REPOSBX_EPROTOCOL, "engine, %s %s: a head of more than %u bytes",
                         call->method, call->path, RSBX_MAX_HEADER_BYTES);
    if (exchange->bad_length)
        return rsbx_fail(err, REPOSBX_EPROTOCOL, "engine, %s %s: a length that is none",
                         call->method, call->path);
    if (exchange->body_flood && call->limit_bytes != 0 && exchange->status == call->expected)
        return rsbx_fail(err, REPOSBX_ELIMIT, "engine, %s %s: an answer of more than %zu bytes",
                         call->method, call->path, call->limit_bytes);
    if (exchange->body_flood)
        return rsbx_fail(err, REPOSBX_EPROTOCOL, "engine, %s %s: an answer of more than %u bytes",
                         call->method, call->path, RSBX_MAX_REPLY_BYTES);
    if (code == CURLE_ABORTED_BY_CALLBACK)
        return cancelled(call, err);
    if (code == CURLE_COULDNT_CONNECT)
        return rsbx_http_unreachable(engine, engine->easy, err);
    if (code == CURLE_OPERATION_TIMEDOUT) {
        (void)rsbx_fail(err, REPOSBX_EUNAVAILABLE, "engine, %s %s: no whole answer in time",
                        call->method, call->path);
        rsbx_hint(err, "the engine at %s hangs or is overloaded", engine->socket_path);
        return REPOSBX_EUNAVAILABLE;
    }
    if (code == CURLE_OUT_OF_MEMORY)
        return rsbx_fail_memory(err);
    if (code == CURLE_GOT_NOTHING) {
        (void)rsbx_fail(err, REPOSBX_EUNAVAILABLE, "engine, %s %s: closed without an answer",
                        call->method, call->path);
        rsbx_hint(err, "the engine at %s stopped or broke down", engine->socket_path);
        return REPOSBX_EUNAVAILABLE;
    }
    return rsbx_fail(err, REPOSBX_EPROTOCOL, "engine, %s %s: broken answer: %s", call->method,
                     call->path, rsbx_curl.curl_easy_strerror(code));
}

char *rsbx_http_message(const void *body, size_t length)
{
    RSBX_AUTO(rsbx_json) rsbx_json_ptr document = NULL;
    const char *text;

    if (rsbx_json_parse(&document, body, length, "message", NULL) != 0 ||
        rsbx_json_get_text(&text, document, "message", "message", NULL) != 0)
        return NULL;
    return strdup(text);
}

int rsbx_http_refused(const char *method, const char *path, long status, const char *message,
                      reposbx_error *err)
{
    int code = REPOSBX_EPROTOCOL;

    if (message == NULL || status < 400)
        return rsbx_fail(err, REPOSBX_EPROTOCOL, "engine, %s %s: unexpected status %ld", method,
                         path, status);
    if (status == 404)
        code = REPOSBX_ENOTFOUND;
    else if (status == 409)
        code = REPOSBX_EBUSY;
    return rsbx_fail(err, code, "engine, %s %s: %s (status %ld)", method, path, message, status);
}

/* What the whole answer means. */
static int judge(const struct exchange *exchange, reposbx_error *err)
{
    const struct rsbx_http_call *call = exchange->call;
    RSBX_AUTO(rsbx_text) char *message = NULL;

    if (!exchange->head_done)
        return rsbx_fail(err, REPOSBX_EPROTOCOL,
                         "engine, %s %s: an answer without an end of its head", call->method,
                         call->path);
    if (exchange->chunked && memcmp(exchange->tail, "\r\n\r\n", sizeof exchange->tail) != 0)
        return rsbx_fail(err, REPOSBX_EPROTOCOL, "engine, %s %s: a cut answer", call->method,
                         call->path);
    if (exchange->excess || (exchange->status == 204 && exchange->body_claimed))
        return rsbx_fail(err, REPOSBX_EPROTOCOL,
                         "engine, %s %s: bytes behind the end of the answer (status %ld)",
                         call->method, call->path, exchange->status);
    if (exchange->status == call->expected)
        return REPOSBX_OK;
    if (exchange->status == call->already)
        return rsbx_fail(err, REPOSBX_EBUSY, "engine, %s %s: already so (status %ld)", call->method,
                         call->path, exchange->status);
    if (exchange->body.length > 0)
        message = rsbx_http_message(exchange->body.data, exchange->body.length);
    return rsbx_http_refused(call->method, call->path, exchange->status, message, err);
}

static int perform(struct exchange *exchange, struct rsbx_engine *engine, const char *url,
                   reposbx_error *err)
{
    RSBX_AUTO(list) struct curl_slist *head = request_head(exchange->call);
    CURLcode code;
    int rc;

    rsbx_curl.curl_easy_reset(engine->easy);
    if (head == NULL || !rsbx_http_prepare(engine->easy, engine, exchange->call->deadline) ||
        !set_request(engine->easy, exchange->call, url) || !set_callbacks(engine->easy, exchange) ||
        !SET(engine->easy, CURLOPT_HTTPHEADER, head))
        return rsbx_fail(err, REPOSBX_EINTERNAL, "cannot set up a request to the engine");
    code = rsbx_curl.curl_easy_perform(engine->easy);
    rc = code == CURLE_OK ? judge(exchange, err) : transfer_failed(engine, exchange, code, err);
    /* The list and the exchange end with this call; the handle must not point at them. */
    rsbx_curl.curl_easy_reset(engine->easy);
    return rc;
}

int rsbx_http_exchange(struct rsbx_buf *reply, struct rsbx_engine *engine,
                       const struct rsbx_http_call *call, reposbx_error *err)
{
    RSBX_AUTO(rsbx_buf) struct rsbx_buf url = RSBX_BUF_INIT(RSBX_HTTP_MAX_PATH_BYTES + 64);
    struct exchange exchange = { .call = call, .body = RSBX_BUF_INIT(RSBX_MAX_REPLY_BYTES) };
    int rc;

    if (rsbx_deadline_passed(call->deadline))
        return rsbx_fail(err, REPOSBX_EUNAVAILABLE, "engine, %s %s: no time is left", call->method,
                         call->path);
    if (rsbx_deadline_cancelled(call->deadline))
        return cancelled(call, err);
    /* The host's name is never resolved: the socket decides where the bytes go. */
    rc = call->unversioned
             ? rsbx_buf_format(&url, err, "http://engine%s", call->path)
             : rsbx_buf_format(&url, err, "http://engine/v%u.%u%s", engine->api_version / 100,
                               engine->api_version % 100, call->path);
    if (rc == 0)
        rc = perform(&exchange, engine, url.data, err);
    if (rc == 0 && reply != NULL) {
        rsbx_buf_dispose(reply);
        reply->data = exchange.body.data;
        reply->length = exchange.body.length;
        reply->capacity = exchange.body.capacity;
        return REPOSBX_OK;
    }
    rsbx_buf_dispose(&exchange.body);
    return rc;
}

int rsbx_http_json(json_t **out, struct rsbx_engine *engine, const struct rsbx_http_call *call,
                   reposbx_error *err)
{
    RSBX_AUTO(rsbx_buf) struct rsbx_buf reply = RSBX_BUF_INIT(RSBX_MAX_REPLY_BYTES);
    RSBX_AUTO(rsbx_json) rsbx_json_ptr document = NULL;
    reposbx_error fault = REPOSBX_ERROR_INIT;
    int rc = rsbx_http_exchange(&reply, engine, call, err);

    if (rc != 0)
        return rc;
    rc = rsbx_json_parse(&document, reply.data, reply.length, "reply", &fault);
    if (rc == REPOSBX_EMALFORMED)
        return rsbx_fail(err, REPOSBX_EPROTOCOL, "engine, %s %s: %s", call->method, call->path,
                         fault.message);
    if (rc != 0)
        return rsbx_fail_memory(err);
    if (!json_is_object(document))
        return rsbx_fail(err, REPOSBX_EPROTOCOL, "engine, %s %s: the reply is no object",
                         call->method, call->path);
    *out = rsbx_json_steal(&document);
    return REPOSBX_OK;
}

int rsbx_http_path(struct rsbx_buf *out, const char *before, const char *name, bool keep_slashes,
                   const char *after, reposbx_error *err)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                "0123456789-._~";
    int rc = rsbx_buf_text(out, before, err);

    if (*name == '\0' || (!keep_slashes && strchr(name, '/') != NULL))
        return rsbx_fail(err, REPOSBX_EINVALID, "\"%s\" is no name of an engine object", name);
    for (; rc == 0 && *name != '\0'; name++) {
        if (strchr(plain, *name) != NULL || *name == '/')
            rc = rsbx_buf_append(out, name, 1, err);
        else
            rc = rsbx_buf_format(out, err, "%%%02X", (unsigned int)(unsigned char)*name);
    }
    return rc == 0 ? rsbx_buf_text(out, after, err) : rc;
}
