/* SPDX-License-Identifier: Apache-2.0 */
#include "support/fake_docker.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <archive.h>
#include <archive_entry.h>
#include <jansson.h>

#include "base/buf.h"
#include "codec/tar.h"

#include "base/banned.h"

#define MAX_OBJECTS 256
#define MAX_REQUESTS 4096
#define MAX_CONNECTIONS 64
#define MAX_BODY_BYTES (64U * 1024U * 1024U)

struct volume {
    char *name; /* NULL: free */
    json_t *document;
    struct fake_baseline baseline;
    uint64_t gone_at_ms; /* 0: not removed */
};

struct container {
    char *name; /* NULL: free */
    json_t *spec; /* the body of its create, with later updates */
    struct rsbx_buf archive;
    bool running;
    uint64_t gone_at_ms; /* 0: not removed */
};

struct fake_docker {
    pthread_mutex_t lock; /* of all below, but what start sets */
    pthread_cond_t idle;  /* a connection ended */
    struct fake_habits habits;
    struct volume volumes[MAX_OBJECTS];
    struct container containers[MAX_OBJECTS];
    char *requests[MAX_REQUESTS];
    size_t request_count;
    size_t asked[16];
    int connections[MAX_CONNECTIONS]; /* -1: free */
    size_t connection_count;

    pthread_t thread;
    int listen_fd, stop_fd[2];
    char folder[64], path[96], address[112];
};

/* One request. */
struct call {
    struct fake_docker *fake;
    int fd;
    char method[16];
    char target[1024]; /* without the API version */
    const char *body;
    size_t body_length;
    bool lost;  /* close without an answer */
    bool hangs; /* and not before the caller does */
};

static void need(bool good, const char *what)
{
    if (good)
        return;
    perror(what);
    exit(1);
}

static uint64_t now_ms(void)
{
    struct timespec now;

    need(clock_gettime(CLOCK_MONOTONIC, &now) == 0, "clock");
    return (uint64_t)now.tv_sec * 1000U + (uint64_t)now.tv_nsec / 1000000U;
}

static bool ends_with(const char *text, const char *end)
{
    size_t length = strlen(text), tail = strlen(end);

    return length >= tail && strcmp(text + length - tail, end) == 0;
}

/* ---- answers ---- */

/* Whether what was asked is done; how it is answered goes into the call. */
static bool does(struct call *call, enum fake_answer answer)
{
    call->lost = answer != FAKE_ANSWERED;
    call->hangs = answer == FAKE_HANGS || answer == FAKE_DONE_AND_HANGS;
    return answer != FAKE_LOST && answer != FAKE_HANGS;
}

static void send_all(int fd, const void *bytes, size_t length)
{
    const char *p = bytes;

    while (length > 0) {
        ssize_t count = send(fd, p, length, MSG_NOSIGNAL);

        if (count < 0 && errno == EINTR)
            continue;
        if (count <= 0)
            return;
        p += count;
        length -= (size_t)count;
    }
}

static void answer_bytes(const struct call *call, int status, const char *type, const void *bytes,
                         size_t length)
{
    char head[256];

    if (status == 204 || status == 304)
        (void)snprintf(head, sizeof head, "HTTP/1.1 %d X\r\nConnection: close\r\n\r\n", status);
    else
        (void)snprintf(head, sizeof head,
                       "HTTP/1.1 %d X\r\nContent-Type: %s\r\nContent-Length: %zu\r\n"
                       "Connection: close\r\n\r\n",
                       status, type, length);
    send_all(call->fd, head, strlen(head));
    send_all(call->fd, bytes, length);
}

static void answer(const struct call *call, int status, const char *json)
{
    answer_bytes(call, status, "application/json", json, strlen(json));
}

/* Takes the value over. */
static void answer_value(const struct call *call, int status, json_t *value)
{
    char *text = json_dumps(value, JSON_COMPACT);

    need(text != NULL, "answer");
    answer(call, status, text);
    free(text);
    json_decref(value);
}

static void no_such(const struct call *call, const char *what)
{
    answer_value(call, 404, json_pack("{s:o}", "message", json_sprintf("no such %s", what)));
}

/* ---- volumes ---- */

static void forget_volume(struct volume *volume)
{
    free(volume->name);
    json_decref(volume->document);
    memset(volume, 0, sizeof *volume);
}

static struct volume *find_volume(struct fake_docker *fake, const char *name)
{
    for (size_t i = 0; i < MAX_OBJECTS; i++) {
        struct volume *volume = &fake->volumes[i];

        if (volume->name == NULL)
            continue;
        if (volume->gone_at_ms != 0 && now_ms() >= volume->gone_at_ms)
            forget_volume(volume);
        else if (strcmp(volume->name, name) == 0)
            return volume;
    }
    return NULL;
}

static void create_volume(struct call *call)
{
    struct fake_docker *fake = call->fake;
    json_t *body = json_loadb(call->body, call->body_length, 0, NULL);
    const char *name = json_string_value(json_object_get(body, "Name"));
    struct volume *volume = name != NULL ? find_volume(fake, name) : NULL;
    json_t *labels = json_object_get(body, "Labels");
    bool done;

    need(name != NULL, "volume without a name");
    done = does(call, fake->habits.volume_create);
    for (size_t i = 0; volume == NULL && done; i++) {
        need(i < MAX_OBJECTS, "volumes");
        if (fake->volumes[i].name != NULL)
            continue;
        volume = &fake->volumes[i];
        volume->name = strdup(name);
        volume->document = json_pack("{s:s, s:s, s:o, s:O}", "Name", name, "Driver", "local",
                                     "Mountpoint", json_sprintf("/volumes/%s/_data", name),
                                     "Labels", labels);
    }
    if (!call->lost)
        answer_value(call, 201, json_deep_copy(volume->document));
    json_decref(body);
}

static void on_volume(struct call *call, const char *name)
{
    struct fake_docker *fake = call->fake;
    const char *foreign = fake->habits.foreign_volume;
    struct volume *volume = find_volume(fake, name);

    if (volume == NULL) {
        no_such(call, "volume");
    } else if (strcmp(call->method, "DELETE") == 0) {
        if (fake->habits.linger_ms == 0)
            forget_volume(volume);
        else if (volume->gone_at_ms == 0)
            volume->gone_at_ms = now_ms() + (uint64_t)fake->habits.linger_ms;
        answer(call, 204, "");
    } else {
        json_t *document = json_deep_copy(volume->document);

        if (foreign != NULL && ends_with(name, foreign))
            (void)json_object_set_new(document, "Labels",
                                      json_pack("{s:s}", "owner", "somebody else"));
        answer_value(call, 200, document);
    }
}

/* ---- containers ---- */

static void forget_container(struct container *container)
{
    free(container->name);
    json_decref(container->spec);
    rsbx_buf_dispose(&container->archive);
    memset(container, 0, sizeof *container);
}

static struct container *find_container(struct fake_docker *fake, const char *name)
{
    for (size_t i = 0; i < MAX_OBJECTS; i++) {
        struct container *container = &fake->containers[i];

        if (container->name == NULL)
            continue;
        if (container->gone_at_ms != 0 && now_ms() >= container->gone_at_ms)
            forget_container(container);
        else if (strcmp(container->name, name) == 0)
            return container;
    }
    return NULL;
}

static void create_container(struct call *call, const char *name)
{
    struct fake_docker *fake = call->fake;
    const char *warning = fake->habits.create_warning;
    struct container *container = find_container(fake, name);
    bool done;

    if (container != NULL) {
        answer(call, 409, "{\"message\":\"the name is in use\"}");
        return;
    }
    done = does(call, fake->habits.container_create);
    for (size_t i = 0; container == NULL && done; i++) {
        need(i < MAX_OBJECTS, "containers");
        if (fake->containers[i].name != NULL)
            continue;
        container = &fake->containers[i];
        container->name = strdup(name);
        container->spec = json_loadb(call->body, call->body_length, 0, NULL);
        container->archive = (struct rsbx_buf)RSBX_BUF_INIT(MAX_BODY_BYTES);
        need(container->spec != NULL, "container spec");
    }
    if (!call->lost)
        answer_value(call, 201,
                     json_pack("{s:s, s:o}", "Id", "c0ffee", "Warnings",
                               warning != NULL ? json_pack("[s]", warning) : json_array()));
}

static void inspect_container(struct call *call, const struct container *container)
{
    answer_value(call, 200,
                 json_pack("{s:{s:O}, s:{s:b, s:b, s:i}}", "Config", "Labels",
                           json_object_get(container->spec, "Labels"), "State", "Running",
                           container->running, "OOMKilled", 0, "ExitCode", 0));
}

static void delete_container(struct call *call, struct container *container)
{
    int linger_ms = call->fake->habits.linger_ms;

    if (container->gone_at_ms != 0) {
        answer(call, 409, "{\"message\":\"removal is already in progress\"}");
        return;
    }
    container->running = false;
    if (linger_ms > 0)
        container->gone_at_ms = now_ms() + (uint64_t)linger_ms;
    else
        forget_container(container);
    answer(call, 204, "");
}

/* One regular file of the archive that was put into the container, as an archive of its own. */
static void get_archive(struct call *call, const struct container *container, const char *path)
{
    struct archive *reader = archive_read_new();
    struct archive_entry *entry;
    struct rsbx_buf out = RSBX_BUF_INIT(MAX_BODY_BYTES);

    need(archive_read_support_format_tar(reader) == ARCHIVE_OK &&
             archive_read_open_memory(reader, container->archive.data,
                                      container->archive.length) == ARCHIVE_OK,
         "archive");
    while (archive_read_next_header(reader, &entry) == ARCHIVE_OK && out.length == 0) {
        size_t length = (size_t)archive_entry_size(entry);
        const char *slash = strrchr(path, '/');
        struct rsbx_tar_member member = { .path = slash + 1, .mode = 0555, .length = length };
        void *bytes;

        if (strcmp(archive_entry_pathname(entry), path + 1) != 0)
            continue;
        bytes = malloc(length + 1);
        need(bytes != NULL && archive_read_data(reader, bytes, length) == (la_ssize_t)length,
             "archive data");
        member.bytes = bytes;
        need(rsbx_tar_write(&out, &member, 1, NULL) == 0, "tar");
        free(bytes);
    }
    (void)archive_read_free(reader);
    if (out.length > 0)
        answer_bytes(call, 200, "application/x-tar", out.data, out.length);
    else
        no_such(call, "file");
    rsbx_buf_dispose(&out);
}

static void update_container(struct call *call, const struct container *container)
{
    json_t *limits = json_loadb(call->body, call->body_length, 0, NULL);

    need(json_object_update(json_object_get(container->spec, "HostConfig"), limits) == 0, "update");
    json_decref(limits);
    answer(call, 200, "{\"Warnings\":null}");
}

/* ---- the guest ---- */

static uint64_t number(const json_t *object, const char *key)
{
    return (uint64_t)json_integer_value(json_object_get(object, key));
}

static uint64_t tmpfs_size(const json_t *host, const char *folder)
{
    const char *options =
        json_string_value(json_object_get(json_object_get(host, "Tmpfs"), folder));
    const char *size = options != NULL ? strstr(options, "size=") : NULL;

    return size != NULL ? strtoull(size + strlen("size="), NULL, 10) : 0;
}

/* What an honest guest sees of a container with this spec. */
static struct rsbx_hello look_around(const json_t *spec)
{
    const json_t *host = json_object_get(spec, "HostConfig");
    const char *user = json_string_value(json_object_get(spec, "User"));
    bool reader = json_array_size(json_object_get(host, "CapAdd")) > 0;
    struct rsbx_hello hello = { .pid = 1, .no_new_privs = 1, .seccomp_mode = 2,
                                .cgroup_version = 2, .nofile_soft = 1024, .nofile_hard = 1024,
                                .tmp_flags = 7, .run_flags = 7, .guest_read_only = 1 };
    const json_t *mount;
    size_t i;

    hello.uid = hello.gid = strtoull(user != NULL ? user : "0", NULL, 10);
    hello.cap_effective = hello.cap_permitted = hello.cap_bounding = reader ? 4 : 0;
    hello.memory_bytes = number(host, "Memory") / 4096 * 4096;
    hello.memory_swap_bytes = number(host, "MemorySwap") / 4096 * 4096;
    hello.pids = number(host, "PidsLimit");
    hello.cpu_period_us = 100000;
    hello.cpu_quota_us = number(host, "NanoCpus") / 10000;
    hello.root_read_only = json_is_true(json_object_get(host, "ReadonlyRootfs"));
    hello.tmp_bytes = tmpfs_size(host, "/tmp");
    hello.run_bytes = tmpfs_size(host, "/run");
    json_array_foreach (json_object_get(host, "Mounts"), i, mount) {
        const char *at = json_string_value(json_object_get(mount, "Target"));
        uint64_t state = json_is_true(json_object_get(mount, "ReadOnly")) ? 1 : 2;

        if (strcmp(at, RSBX_BASELINE_FOLDER) == 0)
            hello.baseline = state;
        else if (strcmp(at, RSBX_WORKSPACE_FOLDER) == 0)
            hello.workspace = state;
        else if (strcmp(at, RSBX_UPPER_FOLDER) == 0)
            hello.upper = state;
    }
    return hello;
}

static struct fake_baseline *mounted_baseline(struct fake_docker *fake, const json_t *spec)
{
    const json_t *mount;
    size_t i;

    json_array_foreach (json_object_get(json_object_get(spec, "HostConfig"), "Mounts"), i, mount) {
        const char *at = json_string_value(json_object_get(mount, "Target"));
        struct volume *volume;

        if (strcmp(at, RSBX_BASELINE_FOLDER) != 0)
            continue;
        volume = find_volume(fake, json_string_value(json_object_get(mount, "Source")));
        return volume != NULL ? &volume->baseline : NULL;
    }
    return NULL;
}

static void heard(void *payload, uint16_t type, uint32_t op)
{
    struct fake_docker *fake = payload;

    if (type != RSBX_WIRE_REQUEST)
        return;
    need(pthread_mutex_lock(&fake->lock) == 0, "lock");
    fake->asked[0]++;
    if (op > 0 && op < sizeof fake->asked / sizeof fake->asked[0])
        fake->asked[op]++;
    need(pthread_mutex_unlock(&fake->lock) == 0, "unlock");
}

/* Gives the lock away while the guest talks. */
static void attach(struct call *call, const struct container *container)
{
    struct fake_docker *fake = call->fake;
    const struct fake_habits *habits = &fake->habits;
    bool odd = habits->guest_of == NULL || ends_with(container->name, habits->guest_of);
    struct fake_guest guest = { .habit = odd ? habits->guest : FAKE_GUEST_HONEST,
                                .hello = look_around(container->spec),
                                .baseline = mounted_baseline(fake, container->spec),
                                .heard = heard,
                                .payload = fake };
    static const char head[] = "HTTP/1.1 101 UPGRADED\r\nContent-Type: "
                               "application/vnd.docker.raw-stream\r\nConnection: Upgrade\r\n"
                               "Upgrade: tcp\r\n\r\n";
    char *name = strdup(container->name);
    struct container *again;

    if (odd && habits->hello != NULL)
        habits->hello(&guest.hello);
    need(pthread_mutex_unlock(&fake->lock) == 0, "unlock");
    send_all(call->fd, head, sizeof head - 1);
    fake_guest_serve(call->fd, &guest);
    need(pthread_mutex_lock(&fake->lock) == 0, "lock");
    again = name != NULL ? find_container(fake, name) : NULL;
    if (again != NULL && fake->habits.vanishing)
        forget_container(again);
    else if (again != NULL)
        again->running = false;
    free(name);
}

/* `rest` is what follows the container's name: "/json", "/start", … */
static void on_container(struct call *call, const char *name, const char *rest)
{
    static const char archive_query[] = "/archive?path=";
    struct fake_docker *fake = call->fake;
    struct container *container = find_container(fake, name);

    if (container == NULL) {
        no_such(call, "container");
    } else if (strcmp(call->method, "DELETE") == 0) {
        delete_container(call, container);
    } else if (strcmp(rest, "/json") == 0) {
        inspect_container(call, container);
    } else if (strcmp(rest, "/start") == 0) {
        container->running = does(call, fake->habits.container_start);
        if (!call->lost)
            answer(call, 204, "");
    } else if (strcmp(rest, "/update") == 0) {
        update_container(call, container);
    } else if (strncmp(rest, "/attach", 7) == 0) {
        attach(call, container);
    } else if (strncmp(rest, archive_query, strlen(archive_query)) == 0) {
        if (strcmp(call->method, "PUT") == 0) {
            rsbx_buf_clear(&container->archive);
            need(rsbx_buf_append(&container->archive, call->body, call->body_length, NULL) == 0,
                 "archive");
            answer(call, 200, "");
        } else {
            get_archive(call, container, rest + strlen(archive_query));
        }
    } else {
        no_such(call, "page");
    }
}

/* ---- requests ---- */

static const char *or_else(const char *text, const char *usual)
{
    return text != NULL ? text : usual;
}

static void route(struct call *call)
{
    static const char create[] = "/containers/create?name=";
    const struct fake_habits *habits = &call->fake->habits;
    const char *target = call->target;

    if (strcmp(target, "/_ping") == 0) {
        answer_bytes(call, 200, "text/plain", "OK", 2);
    } else if (strcmp(target, "/version") == 0) {
        answer(call, 200, or_else(habits->version, FAKE_VERSION));
    } else if (strcmp(target, "/info") == 0) {
        answer(call, 200, or_else(habits->info, FAKE_INFO));
    } else if (strncmp(target, "/images/", 8) == 0) {
        if (habits->image != NULL && habits->image[0] == '\0')
            no_such(call, "image");
        else
            answer(call, 200, or_else(habits->image, FAKE_IMAGE));
    } else if (strcmp(target, "/volumes/create") == 0) {
        create_volume(call);
    } else if (strncmp(target, "/volumes/", 9) == 0) {
        on_volume(call, target + 9);
    } else if (strncmp(target, create, strlen(create)) == 0) {
        create_container(call, target + strlen(create));
    } else if (strncmp(target, "/containers/", 12) == 0) {
        char name[256];
        size_t length = strcspn(target + 12, "/?");

        (void)snprintf(name, sizeof name, "%.*s", (int)length, target + 12);
        on_container(call, name, target + 12 + length);
    } else {
        no_such(call, "page");
    }
}

/* Splits the request line and takes the API version off; %2F and the like are put back. */
static bool parse_line(struct call *call, const char *text)
{
    const char *space = strchr(text, ' ');
    const char *from = space != NULL ? space + 1 : NULL;
    size_t used = 0;

    if (space == NULL || (size_t)(space - text) >= sizeof call->method)
        return false;
    (void)snprintf(call->method, sizeof call->method, "%.*s", (int)(space - text), text);
    if (strncmp(from, "/v1.", 4) == 0)
        from += 4 + strcspn(from + 4, "/ ");
    while (*from != ' ' && *from != '\0' && used + 1 < sizeof call->target) {
        unsigned int code = 0;

        if (*from == '%' && sscanf(from + 1, "%2x", &code) == 1) {
            call->target[used++] = (char)code;
            from += 3;
        } else {
            call->target[used++] = *from++;
        }
    }
    call->target[used] = '\0';
    return *from == ' ';
}

/* Reads one whole request into `in`; the offset of its body, 0 when there is none to come. */
static size_t receive(struct rsbx_buf *in, int fd)
{
    size_t head = 0, length = 0;

    for (;;) {
        char piece[65536];
        const char *end = in->length > 0 ? strstr(in->data, "\r\n\r\n") : NULL;
        const char *field = in->length > 0 ? strcasestr(in->data, "\r\ncontent-length:") : NULL;
        ssize_t count;

        if (head == 0 && end != NULL) {
            head = (size_t)(end - in->data) + 4;
            if (field != NULL && field < end)
                length = strtoul(field + strlen("\r\ncontent-length:"), NULL, 10);
        }
        if (head > 0 && in->length >= head + length)
            return head;
        count = recv(fd, piece, sizeof piece, 0);
        if (count < 0 && errno == EINTR)
            continue;
        if (count <= 0)
            return 0;
        need(rsbx_buf_append(in, piece, (size_t)count, NULL) == 0, "request");
    }
}

static void remember(struct fake_docker *fake, const struct call *call)
{
    need(fake->request_count < MAX_REQUESTS, "too many requests");
    need(asprintf(&fake->requests[fake->request_count++], "%s %s", call->method, call->target) > 0,
         "request");
}

struct served {
    struct fake_docker *fake;
    int fd;
};

static void *serve_one(void *payload)
{
    struct served served = *(struct served *)payload;
    struct rsbx_buf in = RSBX_BUF_INIT(MAX_BODY_BYTES);
    struct call call = { .fake = served.fake, .fd = served.fd };
    size_t head = receive(&in, served.fd);

    free(payload);
    need(pthread_mutex_lock(&served.fake->lock) == 0, "lock");
    if (head > 0 && parse_line(&call, in.data)) {
        call.body = in.data + head;
        call.body_length = in.length - head;
        remember(served.fake, &call);
        route(&call);
    }
    if (call.hangs) {
        struct pollfd gone = { .fd = served.fd, .events = POLLIN };

        need(pthread_mutex_unlock(&served.fake->lock) == 0, "unlock");
        while (poll(&gone, 1, -1) < 0 && errno == EINTR)
            continue;
        need(pthread_mutex_lock(&served.fake->lock) == 0, "lock");
    }
    for (size_t i = 0; i < MAX_CONNECTIONS; i++) {
        if (served.fake->connections[i] == served.fd)
            served.fake->connections[i] = -1;
    }
    (void)close(served.fd);
    served.fake->connection_count--;
    need(pthread_cond_broadcast(&served.fake->idle) == 0, "signal");
    need(pthread_mutex_unlock(&served.fake->lock) == 0, "unlock");
    rsbx_buf_dispose(&in);
    return NULL;
}

static void accept_one(struct fake_docker *fake)
{
    struct served *served = malloc(sizeof *served);
    size_t place = 0;
    pthread_t thread;

    need(served != NULL, "connection");
    served->fake = fake;
    served->fd = accept4(fake->listen_fd, NULL, NULL, SOCK_CLOEXEC);
    need(served->fd >= 0, "accept");
    need(pthread_mutex_lock(&fake->lock) == 0, "lock");
    while (place < MAX_CONNECTIONS && fake->connections[place] >= 0)
        place++;
    need(place < MAX_CONNECTIONS, "too many connections");
    fake->connections[place] = served->fd;
    fake->connection_count++;
    need(pthread_mutex_unlock(&fake->lock) == 0, "unlock");
    need(pthread_create(&thread, NULL, serve_one, served) == 0, "thread");
    need(pthread_detach(thread) == 0, "detach");
}

static void *serve(void *payload)
{
    struct fake_docker *fake = payload;

    for (;;) {
        struct pollfd watched[2] = { { fake->stop_fd[0], POLLIN, 0 },
                                     { fake->listen_fd, POLLIN, 0 } };

        if (poll(watched, 2, -1) < 0 && errno != EINTR)
            return NULL;
        if (watched[0].revents != 0)
            return NULL;
        if (watched[1].revents != 0)
            accept_one(fake);
    }
}

/* ---- outside ---- */

struct fake_docker *fake_docker_start(void)
{
    struct fake_docker *fake = calloc(1, sizeof *fake);
    struct sockaddr_un name = { .sun_family = AF_UNIX };

    need(fake != NULL, "fake engine");
    for (size_t i = 0; i < MAX_CONNECTIONS; i++)
        fake->connections[i] = -1;
    (void)snprintf(fake->folder, sizeof fake->folder, "/tmp/rsbx-docker-XXXXXX");
    need(mkdtemp(fake->folder) != NULL, "mkdtemp");
    (void)snprintf(fake->path, sizeof fake->path, "%s/socket", fake->folder);
    (void)snprintf(fake->address, sizeof fake->address, "unix://%s", fake->path);
    (void)snprintf(name.sun_path, sizeof name.sun_path, "%s", fake->path);
    fake->listen_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    need(fake->listen_fd >= 0, "socket");
    need(bind(fake->listen_fd, (const struct sockaddr *)&name, sizeof name) == 0, "bind");
    need(listen(fake->listen_fd, 64) == 0, "listen");
    need(pipe2(fake->stop_fd, O_CLOEXEC) == 0, "pipe");
    need(pthread_mutex_init(&fake->lock, NULL) == 0, "mutex");
    need(pthread_cond_init(&fake->idle, NULL) == 0, "condition");
    need(pthread_create(&fake->thread, NULL, serve, fake) == 0, "thread");
    return fake;
}

void fake_docker_stop(struct fake_docker *fake)
{
    need(write(fake->stop_fd[1], "s", 1) == 1, "stop");
    need(pthread_join(fake->thread, NULL) == 0, "join");
    need(pthread_mutex_lock(&fake->lock) == 0, "lock");
    for (size_t i = 0; i < MAX_CONNECTIONS; i++) {
        if (fake->connections[i] >= 0)
            (void)shutdown(fake->connections[i], SHUT_RDWR);
    }
    while (fake->connection_count > 0)
        need(pthread_cond_wait(&fake->idle, &fake->lock) == 0, "wait");
    need(pthread_mutex_unlock(&fake->lock) == 0, "unlock");
    (void)close(fake->listen_fd);
    (void)close(fake->stop_fd[0]);
    (void)close(fake->stop_fd[1]);
    (void)unlink(fake->path);
    (void)rmdir(fake->folder);
    for (size_t i = 0; i < MAX_OBJECTS; i++) {
        forget_volume(&fake->volumes[i]);
        forget_container(&fake->containers[i]);
    }
    fake_docker_forget(fake);
    (void)pthread_cond_destroy(&fake->idle);
    (void)pthread_mutex_destroy(&fake->lock);
    free(fake);
}

const char *fake_docker_address(const struct fake_docker *fake)
{
    return fake->address;
}

void fake_docker_behave(struct fake_docker *fake, const struct fake_habits *habits)
{
    need(pthread_mutex_lock(&fake->lock) == 0, "lock");
    fake->habits = *habits;
    need(pthread_mutex_unlock(&fake->lock) == 0, "unlock");
}

size_t fake_docker_count(struct fake_docker *fake, const char *start)
{
    size_t count = 0;

    need(pthread_mutex_lock(&fake->lock) == 0, "lock");
    for (size_t i = 0; i < fake->request_count; i++)
        count += strncmp(fake->requests[i], start, strlen(start)) == 0;
    need(pthread_mutex_unlock(&fake->lock) == 0, "unlock");
    return count;
}

void fake_docker_forget(struct fake_docker *fake)
{
    need(pthread_mutex_lock(&fake->lock) == 0, "lock");
    for (size_t i = 0; i < fake->request_count; i++)
        free(fake->requests[i]);
    fake->request_count = 0;
    memset(fake->asked, 0, sizeof fake->asked);
    need(pthread_mutex_unlock(&fake->lock) == 0, "unlock");
}

size_t fake_docker_asked(struct fake_docker *fake, uint32_t op)
{
    size_t count;

    need(op < sizeof fake->asked / sizeof fake->asked[0], "operation");
    need(pthread_mutex_lock(&fake->lock) == 0, "lock");
    count = fake->asked[op];
    need(pthread_mutex_unlock(&fake->lock) == 0, "unlock");
    return count;
}

size_t fake_docker_left(struct fake_docker *fake)
{
    size_t count = 0;

    need(pthread_mutex_lock(&fake->lock) == 0, "lock");
    (void)find_container(fake, ""); /* lets the lingering ones go */
    (void)find_volume(fake, "");
    for (size_t i = 0; i < MAX_OBJECTS; i++)
        count += (fake->volumes[i].name != NULL ? 1U : 0U) +
                 (fake->containers[i].name != NULL ? 1U : 0U);
    need(pthread_mutex_unlock(&fake->lock) == 0, "unlock");
    return count;
}
