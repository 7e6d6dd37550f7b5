/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/engine.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "engine/http.h"

#include "base/banned.h"

#define SCHEME "unix://"

typedef struct rsbx_engine *engine_ptr;
RSBX_CLEANUP(engine, engine_ptr, rsbx_engine_free);

static pthread_once_t curl_once = PTHREAD_ONCE_INIT;
static CURLcode curl_ready;

/* All of libcurl, although we need no TLS: the first call in a process decides for everybody. */
static void start_curl(void)
{
    curl_ready = rsbx_curl.curl_global_init(CURL_GLOBAL_NOTHING); /* no TLS over a unix socket */
}

static int check_address(const char **path, const char *address, reposbx_error *err)
{
    const struct sockaddr_un *unix_address = NULL;

    if (strncmp(address, SCHEME "/", strlen(SCHEME) + 1) != 0)
        return rsbx_fail(err, REPOSBX_EINVALID,
                         "engine address \"%s\" is not unix:///an/absolute/path", address);
    *path = address + strlen(SCHEME);
    if (strlen(*path) >= sizeof unix_address->sun_path)
        return rsbx_fail(err, REPOSBX_EINVALID, "the path of a socket has at most %zu bytes: %s",
                         sizeof unix_address->sun_path - 1, *path);
    return REPOSBX_OK;
}

/* An engine can do to us what it likes with the data that we hand it, so a stranger's is
 * refused. */
static int check_socket(const char *path, reposbx_error *err)
{
    struct stat status;

    if (stat(path, &status) != 0) {
        int reason = errno;

        (void)rsbx_fail_errno(err, REPOSBX_EUNAVAILABLE, "no engine at %s", path);
        if (reason == EACCES)
            rsbx_hint(err,
                      "this user may not look there: run a rootless engine of your own, or ask "
                      "for access to this one");
        else
            rsbx_hint(err, "start the engine, or name the socket of one that runs");
        return REPOSBX_EUNAVAILABLE;
    }
    if (!S_ISSOCK(status.st_mode)) {
        (void)rsbx_fail(err, REPOSBX_EUNAVAILABLE, "no engine at %s: not a socket", path);
        rsbx_hint(err, "name the socket of an engine that runs");
        return REPOSBX_EUNAVAILABLE;
    }
    if (status.st_uid != 0 && status.st_uid != geteuid()) {
        (void)rsbx_fail(err, REPOSBX_EUNAVAILABLE, "the socket %s belongs to user %lu", path,
                        (unsigned long)status.st_uid);
        rsbx_hint(err, "use an engine of your own or of root; another user's could read and change "
                       "everything");
        return REPOSBX_EUNAVAILABLE;
    }
    return REPOSBX_OK;
}

/* "1.41" as 141. */
static int parse_version(unsigned int *out, const char *text, reposbx_error *err)
{
    unsigned int parts[2] = { 0, 0 };
    const char *next = text;

    for (int i = 0; i < 2; i++) {
        int digits = 0;

        for (; *next >= '0' && *next <= '9' && digits < 2; next++, digits++)
            parts[i] = parts[i] * 10 + (unsigned int)(*next - '0');
        if (digits == 0 || *next != (i == 0 ? '.' : '\0'))
            return rsbx_fail(err, REPOSBX_EPROTOCOL, "\"%s\" is no API version", text);
        next++;
    }
    *out = parts[0] * 100 + parts[1];
    return REPOSBX_OK;
}

static int ping(struct rsbx_engine *engine, struct rsbx_deadline deadline, reposbx_error *err)
{
    RSBX_AUTO(rsbx_buf) struct rsbx_buf reply = RSBX_BUF_INIT(64);
    const struct rsbx_http_call call = { .method = "GET",
                                         .path = "/_ping",
                                         .unversioned = true,
                                         .expected = 200,
                                         .deadline = deadline };
    int rc = rsbx_http_exchange(&reply, engine, &call, err);

    if (rc == 0 && (reply.length != 2 || memcmp(reply.data, "OK", 2) != 0))
        rc = rsbx_fail(err, REPOSBX_EPROTOCOL, "engine, GET /_ping: the answer is not OK");
    if (rc != 0 && rc != REPOSBX_EINTERNAL && rc != REPOSBX_ECANCELLED && err != NULL &&
        err->hint[0] == '\0')
        rsbx_hint(err, "is that the socket of a Docker engine?");
    return rc;
}

static int ask_version(json_t **out, struct rsbx_engine *engine, struct rsbx_deadline deadline,
                       reposbx_error *err)
{
    const struct rsbx_http_call call = { .method = "GET",
                                         .path = "/version",
                                         .unversioned = true,
                                         .expected = 200,
                                         .deadline = deadline };

    return rsbx_http_json(out, engine, &call, err);
}

/* Podman answers the same calls, but not with the same guarantees. */
static int refuse_podman(const json_t *version, reposbx_error *err)
{
    const json_t *components = json_object_get(version, "Components");
    const json_t *component;
    size_t index;

    json_array_foreach(components, index, component)
    {
        const char *name = json_string_value(json_object_get(component, "Name"));

        if (name == NULL || strcmp(name, "Podman Engine") != 0)
            continue;
        (void)rsbx_fail(err, REPOSBX_EPOLICY, "the engine is Podman's imitation of Docker");
        rsbx_hint(err, "use --engine podman, or name the socket of a Docker engine");
        return REPOSBX_EPOLICY;
    }
    return REPOSBX_OK;
}

static int settle(unsigned int *out, const json_t *version, reposbx_error *err)
{
    const char *newest_text, *oldest_text;
    unsigned int newest, oldest;
    int rc = rsbx_json_get_text(&newest_text, version, "ApiVersion", "engine version", err);

    if (rc == 0)
        rc = rsbx_json_get_text_or(&oldest_text, version, "MinAPIVersion", "1.0", "engine version",
                                   err);
    if (rc == 0)
        rc = parse_version(&newest, newest_text, err);
    if (rc == 0)
        rc = parse_version(&oldest, oldest_text, err);
    if (rc != 0)
        return rc;
    if (oldest > newest)
        return rsbx_fail(err, REPOSBX_EPROTOCOL,
                         "the engine's oldest API %s is above its newest %s", oldest_text,
                         newest_text);
    if (newest < RSBX_ENGINE_API_OLDEST || oldest > RSBX_ENGINE_API_NEWEST) {
        (void)rsbx_fail(err, REPOSBX_EUNAVAILABLE,
                        "no common API version: the engine speaks %s to %s, we speak %d.%02d to "
                        "%d.%02d",
                        oldest_text, newest_text, RSBX_ENGINE_API_OLDEST / 100,
                        RSBX_ENGINE_API_OLDEST % 100, RSBX_ENGINE_API_NEWEST / 100,
                        RSBX_ENGINE_API_NEWEST % 100);
        rsbx_hint(err, newest < RSBX_ENGINE_API_OLDEST ? "use Docker 20.10 or newer"
                                                       : "use a newer version of this program");
        return REPOSBX_EUNAVAILABLE;
    }
    *out = newest < RSBX_ENGINE_API_NEWEST ? newest : RSBX_ENGINE_API_NEWEST;
    return REPOSBX_OK;
}

/* A handle for a socket that passes as one; nothing is asked yet. */
static int new_engine(struct rsbx_engine **out, const char *address, reposbx_error *err)
{
    RSBX_AUTO(engine) struct rsbx_engine *engine = NULL;
    const char *path = NULL;
    int rc = check_address(&path, address, err);

    if (rc == 0)
        rc = check_socket(path, err);
    if (rc == 0)
        rc = rsbx_curl_load(err);
    if (rc != 0)
        return rc;
    (void)pthread_once(&curl_once, start_curl);
    engine = calloc(1, sizeof *engine);
    if (engine == NULL || curl_ready != CURLE_OK)
        return rsbx_fail_memory(err);
    engine->socket_path = strdup(path);
    engine->easy = rsbx_curl.curl_easy_init();
    if (engine->socket_path == NULL || engine->easy == NULL)
        return rsbx_fail_memory(err);
    *out = engine_steal(&engine);
    return REPOSBX_OK;
}

int rsbx_engine_open(struct rsbx_engine **out, const char *address, struct rsbx_deadline deadline,
                     reposbx_error *err)
{
    RSBX_AUTO(engine) struct rsbx_engine *engine = NULL;
    int rc = new_engine(&engine, address, err);

    if (rc == 0)
        rc = ping(engine, deadline, err);
    if (rc == 0)
        rc = ask_version(&engine->version, engine, deadline, err);
    if (rc == 0)
        rc = refuse_podman(engine->version, err);
    if (rc == 0)
        rc = settle(&engine->api_version, engine->version, err);
    if (rc == 0)
        *out = engine_steal(&engine);
    return rc;
}

int rsbx_engine_reopen(struct rsbx_engine **out, const char *address, unsigned int api_version,
                       reposbx_error *err)
{
    RSBX_AUTO(engine) struct rsbx_engine *engine = NULL;
    int rc = new_engine(&engine, address, err);

    if (rc != 0)
        return rc;
    if (api_version < RSBX_ENGINE_API_OLDEST || api_version > RSBX_ENGINE_API_NEWEST)
        return rsbx_fail(err, REPOSBX_EINVALID, "no API version: %u", api_version);
    engine->api_version = api_version;
    *out = engine_steal(&engine);
    return REPOSBX_OK;
}

unsigned int rsbx_engine_api_version(const struct rsbx_engine *engine)
{
    return engine->api_version;
}

void rsbx_engine_free(struct rsbx_engine *engine)
{
    if (engine == NULL)
        return;
    if (engine->easy != NULL)
        rsbx_curl.curl_easy_cleanup(engine->easy);
    json_decref(engine->version);
    free(engine->socket_path);
    free(engine);
}

static int copy_text(char *out, size_t size, const json_t *object, const char *key,
                     const char *what, reposbx_error *err)
{
    const char *text;
    int rc = rsbx_json_get_text(&text, object, key, what, err);

    if (rc != 0)
        return rc;
    if (strlen(text) >= size)
        return rsbx_fail(err, REPOSBX_EPROTOCOL, "%s: \"%s\" is too long", what, key);
    memcpy(out, text, strlen(text) + 1);
    return REPOSBX_OK;
}

/* Whether an option is "NAME" or "NAME,…": nothing that merely begins like it. */
static bool is_option(const char *option, const char *name)
{
    size_t length = strlen(name);

    return strncmp(option, name, length) == 0 && (option[length] == '\0' || option[length] == ',');
}

static int read_security(struct rsbx_engine_host *host, const json_t *info, reposbx_error *err)
{
    const json_t *options = json_object_get(info, "SecurityOptions");
    const json_t *option;
    size_t index;

    if (options == NULL || json_is_null(options))
        return REPOSBX_OK; /* nothing claimed */
    if (!json_is_array(options))
        return rsbx_fail(err, REPOSBX_EPROTOCOL, "engine info: the security options are no list");
    json_array_foreach(options, index, option)
    {
        const char *text = json_string_value(option);

        if (text == NULL)
            return rsbx_fail(err, REPOSBX_EPROTOCOL, "engine info: a security option is no text");
        host->rootless = host->rootless || is_option(text, "name=rootless");
        host->seccomp = host->seccomp || is_option(text, "name=seccomp");
    }
    return REPOSBX_OK;
}

static int read_cgroup(struct rsbx_engine_host *host, const json_t *info, reposbx_error *err)
{
    const char *text;
    int rc = rsbx_json_get_text_or(&text, info, "CgroupVersion", "1", "engine info", err);

    if (rc != 0)
        return rc;
    if (strcmp(text, "1") != 0 && strcmp(text, "2") != 0)
        return rsbx_fail(err, REPOSBX_EPROTOCOL, "engine info: cgroup version \"%s\"", text);
    host->cgroup_version = text[0] == '1' ? 1 : 2;
    return copy_text(host->cgroup_driver, sizeof host->cgroup_driver, info, "CgroupDriver",
                     "engine info", err);
}

static int read_info(struct rsbx_engine_host *host, const json_t *info, reposbx_error *err)
{
    static const char what[] = "engine info";
    int rc = read_cgroup(host, info, err);

    if (rc == 0)
        rc = read_security(host, info, err);
    if (rc == 0)
        rc = rsbx_json_get_bool_or(&host->memory_limit, info, "MemoryLimit", false, what, err);
    if (rc == 0)
        rc = rsbx_json_get_bool_or(&host->swap_limit, info, "SwapLimit", false, what, err);
    if (rc == 0)
        rc = rsbx_json_get_bool_or(&host->cpu_quota, info, "CpuCfsQuota", false, what, err);
    if (rc == 0)
        rc = rsbx_json_get_bool_or(&host->pids_limit, info, "PidsLimit", false, what, err);
    if (rc == 0)
        rc =
            copy_text(host->storage_driver, sizeof host->storage_driver, info, "Driver", what, err);
    return rc;
}

int rsbx_engine_host(struct rsbx_engine_host *out, struct rsbx_engine *engine,
                     struct rsbx_deadline deadline, reposbx_error *err)
{
    RSBX_AUTO(rsbx_json) rsbx_json_ptr version = json_incref(engine->version);
    RSBX_AUTO(rsbx_json) rsbx_json_ptr info = NULL;
    static const char what[] = "engine version";
    const struct rsbx_http_call call = {
        .method = "GET", .path = "/info", .expected = 200, .deadline = deadline
    };
    struct rsbx_engine_host host = { .api_version = engine->api_version };
    /* The engine starts three programs to answer this: it is asked once. */
    int rc = version != NULL ? REPOSBX_OK : ask_version(&version, engine, deadline, err);

    if (rc == 0)
        rc = rsbx_http_json(&info, engine, &call, err);
    if (rc == 0)
        rc = copy_text(host.server_version, sizeof host.server_version, version, "Version", what,
                       err);
    if (rc == 0)
        rc = copy_text(host.os, sizeof host.os, version, "Os", what, err);
    if (rc == 0)
        rc = copy_text(host.architecture, sizeof host.architecture, version, "Arch", what, err);
    if (rc == 0)
        rc = read_info(&host, info, err);
    if (rc == 0)
        *out = host;
    return rc;
}
