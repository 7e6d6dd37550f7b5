/* SPDX-License-Identifier: Apache-2.0 */
#include "real/place.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <curl/curl.h>
#include <openssl/evp.h>

#include "base/banned.h"

#define PODMAN(out, ...) place_podman((out), (const char *const[]){ __VA_ARGS__, NULL })
#define API "http://engine/v1.41"

static bool is_podman(void);

static const char *engine_address(void)
{
    const char *address = getenv("REPOSBX_TEST_ENGINE");

    return address != NULL ? address : "";
}

const char *place_image(void)
{
    const char *image = getenv("REPOSBX_TEST_IMAGE_ID");

    return image != NULL ? image : "";
}

int place_gate(void)
{
    const char *must = getenv("REPOSBX_TEST_MUST_RUN");
    int failure = must != NULL && strcmp(must, "1") == 0 ? 1 : 77;
    char *answer = NULL;

    if (engine_address()[0] == '\0' || place_image()[0] == '\0') {
        (void)fprintf(stderr, "REPOSBX_TEST_ENGINE or REPOSBX_TEST_IMAGE_ID is not set\n");
        return failure;
    }
    if (is_podman())
        (void)PODMAN(&answer, "version");
    else
        answer = place_engine("GET", "/_ping", NULL);
    if (answer == NULL || answer[0] == '\0') {
        (void)fprintf(stderr, "no engine answers at %s\n", engine_address());
        return failure;
    }
    free(answer);
    return 0;
}

/* ---- programs and files of the host ---- */

static void child_becomes(const char *folder, const char *const *argv, int out_fd)
{
    /* execvp's type is older than const; it changes nothing. */
    union {
        const char *const *in;
        char *const *out;
    } words = { .in = argv };
    int null_fd = open("/dev/null", O_RDWR);

    if (null_fd < 0 || dup2(null_fd, 0) < 0 || dup2(out_fd >= 0 ? out_fd : null_fd, 1) < 0)
        _exit(125);
    if (folder != NULL && chdir(folder) != 0)
        _exit(125);
    if (setenv("GIT_CONFIG_GLOBAL", "/dev/null", 1) != 0 ||
        setenv("GIT_CONFIG_SYSTEM", "/dev/null", 1) != 0 ||
        setenv("GIT_CONFIG_NOSYSTEM", "1", 1) != 0 || setenv("LC_ALL", "C.UTF-8", 1) != 0)
        _exit(125);
    (void)execvp(argv[0], words.out);
    _exit(127);
}

static char *drain(int fd, size_t *length)
{
    size_t size = 65536, used = 0;
    char *bytes = malloc(size + 1);

    while (bytes != NULL) {
        ssize_t count = read(fd, bytes + used, size - used);

        if (count < 0 && errno == EINTR)
            continue;
        if (count <= 0)
            break;
        used += (size_t)count;
        if (used == size) {
            char *larger = realloc(bytes, size * 2 + 1);

            if (larger == NULL)
                abort();
            bytes = larger;
            size *= 2;
        }
    }
    if (bytes == NULL)
        abort();
    bytes[used] = '\0';
    if (length != NULL)
        *length = used;
    return bytes;
}

int place_run(char **out, size_t *length, const char *folder, const char *const *argv)
{
    int ends[2] = { -1, -1 };
    int status = 0;
    pid_t pid;

    if (out != NULL && pipe2(ends, O_CLOEXEC) != 0)
        return -1;
    pid = fork();
    if (pid < 0)
        return -1;
    if (pid == 0)
        child_becomes(folder, argv, ends[1]);
    if (out != NULL) {
        (void)close(ends[1]);
        *out = drain(ends[0], length);
        (void)close(ends[0]);
    }
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int place_write(const char *folder, const char *name, const void *bytes, size_t length, int mode)
{
    char path[512];
    int fd;
    ssize_t count = 0;

    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    for (char *slash = strchr(path + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        if (mkdir(path, 0755) != 0 && errno != EEXIST)
            return -1;
        *slash = '/';
    }
    fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0)
        return -1;
    for (size_t done = 0; done < length && count >= 0; done += (size_t)count)
        count = write(fd, (const char *)bytes + done, length - done);
    if (fchmod(fd, (mode_t)mode) != 0)
        count = -1;
    return close(fd) == 0 && count >= 0 ? 0 : -1;
}

void place_sha256(char *out, const void *bytes, size_t length)
{
    unsigned char hash[EVP_MAX_MD_SIZE];
    unsigned int size = 0;

    if (EVP_Digest(bytes, length, hash, &size, EVP_sha256(), NULL) != 1 || size != 32)
        abort();
    for (unsigned int i = 0; i < size; i++)
        (void)snprintf(out + 2 * i, 3, "%02x", hash[i]);
}

/* ---- Podman ---- */

static bool is_podman(void)
{
    return strncmp(engine_address(), "podman", 6) == 0;
}

const char *place_provider_name(void)
{
    return is_podman() ? "podman" : "docker";
}

int place_podman(char **out, const char *const *words)
{
    /* podman?root=/a&runroot=/b becomes podman --root=/a --runroot=/b */
    char flags[1024];
    const char *argv[64] = { "podman" };
    size_t count = 1;
    char *rest = flags;

    (void)snprintf(flags, sizeof flags, "%s", engine_address());
    rest = strchr(flags, '?');
    while (rest != NULL && count < 16) {
        char *flag = NULL;

        *rest++ = '\0';
        if (asprintf(&flag, "--%s", rest) < 0)
            abort();
        rest = strchr(rest, '&');
        flag[strcspn(flag, "&")] = '\0';
        argv[count++] = flag; /* kept to the end of the program */
    }
    while (*words != NULL && count < 63)
        argv[count++] = *words++;
    return place_run(out, NULL, NULL, argv);
}

/* Lines of the text that hold a part. */
static size_t count_lines(char *text, const char *part)
{
    size_t count = 0;
    char *rest = text;
    char *line;

    while ((line = strsep(&rest, "\n")) != NULL) {
        if (strstr(line, part) == NULL)
            continue;
        (void)fprintf(stderr, "in Podman's storage: %s\n", line);
        count++;
    }
    return count;
}

static size_t podman_left(const char *text)
{
    char *containers = NULL, *volumes = NULL;
    size_t count;

    if (PODMAN(&containers, "ps", "--all", "--format", "{{.Names}}") != 0 ||
        PODMAN(&volumes, "volume", "ls", "--format", "{{.Name}}") != 0)
        abort();
    count = count_lines(containers, text) + count_lines(volumes, text);
    free(containers);
    free(volumes);
    return count;
}

/* ---- Docker's own API ---- */

struct answer {
    char *bytes;
    size_t length;
};

static size_t take(char *bytes, size_t size, size_t count, void *payload)
{
    struct answer *answer = payload;
    size_t more = size * count;
    char *larger = realloc(answer->bytes, answer->length + more + 1);

    if (larger == NULL)
        return 0;
    (void)memcpy(larger + answer->length, bytes, more);
    answer->bytes = larger;
    answer->length += more;
    larger[answer->length] = '\0';
    return more;
}

char *place_engine(const char *method, const char *path, const char *body)
{
    CURL *easy = curl_easy_init();
    struct curl_slist *head = curl_slist_append(NULL, "Content-Type: application/json");
    struct answer answer = { NULL, 0 };
    char url[2048];
    long status = 0;

    (void)snprintf(url, sizeof url, API "%s", path);
    (void)curl_easy_setopt(easy, CURLOPT_UNIX_SOCKET_PATH, engine_address() + strlen("unix://"));
    (void)curl_easy_setopt(easy, CURLOPT_PROXY, "");
    (void)curl_easy_setopt(easy, CURLOPT_URL, url);
    (void)curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    (void)curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, 60000L);
    (void)curl_easy_setopt(easy, CURLOPT_HTTPHEADER, head);
    (void)curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, take);
    (void)curl_easy_setopt(easy, CURLOPT_WRITEDATA, &answer);
    if (strcmp(method, "POST") == 0)
        (void)curl_easy_setopt(easy, CURLOPT_POSTFIELDS, body != NULL ? body : "");
    else
        (void)curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, method);
    if (curl_easy_perform(easy) == CURLE_OK)
        (void)curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
    curl_easy_cleanup(easy);
    curl_slist_free_all(head);
    if (status / 100 == 2 && answer.bytes == NULL)
        (void)take(url, 1, 0, &answer);
    if (status / 100 == 2)
        return answer.bytes;
    if (status != 0)
        (void)fprintf(stderr, "%s %s: %ld %s\n", method, path, status, answer.bytes);
    free(answer.bytes);
    return NULL;
}

static size_t count_names(const json_t *list, const char *key, const char *text)
{
    size_t count = 0, i;
    json_t *item;

    json_array_foreach (list, i, item) {
        json_t *name = json_object_get(item, key);

        if (json_is_array(name))
            name = json_array_get(name, 0);
        if (json_is_string(name) && strstr(json_string_value(name), text) != NULL) {
            (void)fprintf(stderr, "on the engine: %s\n", json_string_value(name));
            count++;
        }
    }
    return count;
}

size_t place_left(const char *text)
{
    char *containers, *volumes;
    json_t *first, *second;
    size_t count;

    if (is_podman())
        return podman_left(text);
    containers = place_engine("GET", "/containers/json?all=1", NULL);
    volumes = place_engine("GET", "/volumes", NULL);
    first = containers != NULL ? json_loads(containers, 0, NULL) : NULL;
    second = volumes != NULL ? json_loads(volumes, 0, NULL) : NULL;
    if (first == NULL || second == NULL)
        abort();
    count = count_names(first, "Names", text) +
            count_names(json_object_get(second, "Volumes"), "Name", text);
    json_decref(first);
    json_decref(second);
    free(containers);
    free(volumes);
    return count;
}

/* ---- the place ---- */

/* The repository that every test starts from. Sizes and names matter to the tests. */
static int fill(const char *repo)
{
    static const unsigned char binary[] = { 0, 1, 2, 3, 255, 254, 0, 10, 13 };
    char unique[96];
    int length = snprintf(unique, sizeof unique, "of this run alone: %s\n", repo);
    int bad = 0;

    bad |= place_write(repo, "text.txt", "one\ntwo\nthree\n", 14, 0644);
    bad |= place_write(repo, "unique", unique, (size_t)length, 0644);
    bad |= place_write(repo, "with space.txt", "a b\n", 4, 0644);
    bad |= place_write(repo, "caf\xe9", "latin\n", 6, 0644);
    bad |= place_write(repo, "b\303\274cher", "utf-8\n", 6, 0644);
    bad |= place_write(repo, "tab\tnewline\nquote\"back\\slash", "odd\n", 4, 0644);
    bad |= place_write(repo, "binary.bin", binary, sizeof binary, 0644);
    bad |= place_write(repo, "tool.sh", "#!/bin/sh\necho \"tool:$1\"\n", 25, 0755);
    bad |= place_write(repo, "bad-interpreter", "#!/no/such/shell\n", 17, 0755);
    bad |= place_write(repo, "empty", "", 0, 0644);
    bad |= place_write(repo, "no-newline", "end", 3, 0644);
    bad |= place_write(repo, "crlf.txt", "one\r\ntwo\rhalf\r\nthree\f\r\n", 23, 0644);
    bad |= place_write(repo, "deep/er/est/file", "down\n", 5, 0644);
    bad |= place_write(repo, "deep/er/other", "same\n", 5, 0644);
    bad |= place_write(repo, "deep/sibling", "same\n", 5, 0644);
    return bad;
}

static int commit(struct place *place)
{
    char *text = NULL;
    int bad = GIT(NULL, place->repo, "-c", "init.defaultBranch=main", "init", "-q");

    bad |= GIT(NULL, place->repo, "add", "-A");
    bad |= GIT(NULL, place->repo, "-c", "user.name=t", "-c", "user.email=t@example.org", "commit",
               "-q", "-m", "one");
    bad |= GIT(&text, place->repo, "rev-parse", "HEAD");
    (void)snprintf(place->revision, sizeof place->revision, "%s", text);
    free(text);
    bad |= GIT(&text, place->repo, "rev-parse", "HEAD^{tree}");
    (void)snprintf(place->tree, sizeof place->tree, "%s", text);
    free(text);
    return bad;
}

int place_make(struct place *place)
{
    reposbx_provider_options options = REPOSBX_PROVIDER_OPTIONS_INIT;
    reposbx_error err = REPOSBX_ERROR_INIT;

    (void)memset(place, 0, sizeof *place);
    (void)snprintf(place->root, sizeof place->root, "/tmp/reposbx-real.XXXXXX");
    if (mkdtemp(place->root) == NULL)
        return -1;
    (void)snprintf(place->repo, sizeof place->repo, "%s/the repo", place->root);
    (void)snprintf(place->state, sizeof place->state, "%s/state", place->root);
    if (fill(place->repo) != 0 || commit(place) != 0) {
        (void)fprintf(stderr, "no repository could be made in %s\n", place->repo);
        return -1;
    }
    options.engine = engine_address();
    options.state_dir = place->state;
    if (reposbx_provider_open(&place->provider, &options, &err) != 0) {
        (void)fprintf(stderr, "%s\n", err.message);
        return -1;
    }
    return 0;
}

/* Sessions that this program holds; a failed test leaves its own here. */
#define MAX_HELD 32
static reposbx_session *held[MAX_HELD];

static void hold(reposbx_session *session)
{
    size_t i = 0;

    while (i < MAX_HELD && held[i] != NULL)
        i++;
    if (i == MAX_HELD)
        fail_msg("more than %d sessions at once", MAX_HELD);
    held[i] = session;
}

void place_free(reposbx_session *session)
{
    for (size_t i = 0; i < MAX_HELD; i++)
        if (held[i] == session)
            held[i] = NULL;
    reposbx_session_free(session);
}

reposbx_session *place_open(struct place *place, const char *id)
{
    reposbx_session *session = NULL;
    reposbx_error err = REPOSBX_ERROR_INIT;

    if (reposbx_session_open(&session, place->provider, id, &err) != 0)
        fail_msg("open: %s", err.message);
    hold(session);
    return session;
}

/* Closes what failed tests left. */
static void close_all(struct place *place)
{
    char *text = NULL;
    json_t *list, *item;
    size_t i;

    for (i = 0; i < MAX_HELD; i++)
        if (held[i] != NULL)
            place_free(held[i]);
    if (reposbx_session_list_json(&text, place->provider, NULL) != 0)
        return;
    list = json_loads(text, 0, NULL);
    json_array_foreach (list, i, item) {
        const char *id = json_string_value(json_object_get(item, "sandbox_id"));
        reposbx_session *session = NULL;

        if (id == NULL || reposbx_session_open(&session, place->provider, id, NULL) != 0)
            continue;
        (void)reposbx_session_close(session, REPOSBX_KEEP_AUDIT, NULL);
        reposbx_session_free(session);
    }
    json_decref(list);
    free(text);
}

int place_leave(struct place *place)
{
    reposbx_reap_report report = { NULL, 0, 0 };

    if (place->provider != NULL) {
        close_all(place);
        if (reposbx_reap(&report, place->provider, 0, NULL) == 0)
            reposbx_reap_report_dispose(&report);
    }
    reposbx_provider_free(place->provider);
    place->provider = NULL;
    return RUN(NULL, NULL, "rm", "-rf", "--", place->root) == 0 ? 0 : -1;
}

reposbx_policy *place_policy(const char *image, const char *changes)
{
    const char *elsewhere = getenv("REPOSBX_TEST_POLICY"); /* where the source folder is not there */
    json_t *document = json_load_file(elsewhere != NULL ? elsewhere : REPOSBX_TEST_POLICY, 0, NULL);
    json_t *more = json_loads(changes != NULL ? changes : "{}", 0, NULL);
    reposbx_policy *policy = NULL;
    reposbx_error err = REPOSBX_ERROR_INIT;
    char *text;

    if (document == NULL || more == NULL)
        fail_msg("no policy: %s", changes);
    (void)json_object_set_new(document, "require_rootless_runtime", json_false());
    (void)json_object_set_new(document, "images", json_pack("[s]", image));
    if (json_object_update_recursive(document, more) != 0)
        fail_msg("the policy's changes do not fit");
    text = json_dumps(document, 0);
    json_decref(document);
    json_decref(more);
    if (reposbx_policy_parse(&policy, text, strlen(text), &err) != 0)
        fail_msg("%s", err.message);
    free(text);
    return policy;
}

reposbx_session *place_session(struct place *place, const char *changes, const char *workspace)
{
    reposbx_policy *policy = place_policy(place_image(), changes);
    reposbx_spec spec = REPOSBX_SPEC_INIT;
    reposbx_session *session = NULL;
    reposbx_error err = REPOSBX_ERROR_INIT;
    int rc;

    spec.repo = place->repo;
    spec.revision = place->revision;
    spec.image = place_image();
    spec.task_id = "test-1";
    spec.workspace = workspace;
    spec.policy = policy;
    rc = reposbx_session_create(&session, place->provider, &spec, &err);
    reposbx_policy_free(policy);
    if (rc != 0)
        fail_msg("create: %s: %s (%s)", reposbx_code_word(rc), err.message, err.hint);
    hold(session);
    return session;
}

void place_close(reposbx_session *session, bool drop_audit)
{
    reposbx_error err = REPOSBX_ERROR_INIT;
    char id[REPOSBX_SESSION_ID_BYTES];
    int rc;

    (void)snprintf(id, sizeof id, "%s", reposbx_session_id(session));
    rc = reposbx_session_close(session, drop_audit ? REPOSBX_DROP_AUDIT : REPOSBX_KEEP_AUDIT, &err);
    place_free(session);
    if (rc != 0)
        fail_msg("close: %s: %s", reposbx_code_word(rc), err.message);
    assert_int_equal(place_left(id + strlen("sbx-")), 0);
}

/* ---- commands ---- */

void place_exec(reposbx_exec_result *out, reposbx_session *session,
                const reposbx_exec_request *request)
{
    reposbx_error err = REPOSBX_ERROR_INIT;
    int rc;

    (void)memset(out, 0, sizeof *out);
    rc = reposbx_session_exec(out, session, request, &err);
    if (rc != 0)
        fail_msg("exec: %s: %s (%s)", reposbx_code_word(rc), err.message, err.hint);
}

void place_sh(reposbx_exec_result *out, reposbx_session *session, const char *script)
{
    const char *argv[] = { "sh", "-c", script };
    reposbx_exec_request request = REPOSBX_EXEC_REQUEST_INIT;

    request.argv = argv;
    request.argc = 3;
    place_exec(out, session, &request);
}

char *place_text(reposbx_session *session, const char *script)
{
    reposbx_exec_result result;
    char *text;

    place_sh(&result, session, script);
    if (result.status != REPOSBX_EXITED || result.exit_code != 0)
        fail_msg("%s: %s, code %d, signal %d: %s", script, reposbx_exec_status_word(result.status),
                 result.exit_code, result.signal, result.stderr_preview);
    assert_int_equal(result.stdout_truncated, 0);
    text = result.stdout_preview;
    result.stdout_preview = NULL;
    reposbx_exec_result_dispose(&result);
    return text;
}
