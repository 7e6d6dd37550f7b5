/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <netinet/in.h>
#include <poll.h>

#include <cmocka.h>

#include "fake/session.h"

#include "base/banned.h"

/* Creations that are refused before anything exists: engines and images that are not what the policy
 * demands. Each is proven by the engine's own book of requests. */

#define ROOTLESS "{\"require_rootless_runtime\":true}"
#define OTHER_ID "sha256:3333333333333333333333333333333333333333333333333333333333333333"
#define OTHER_DIGEST                                                                               \
    "example.org/tools@sha256:4444444444444444444444444444444444444444444444444444444444444444"
#define OTHER_NAME                                                                                 \
    "example.org/other@sha256:2222222222222222222222222222222222222222222222222222222222222222"
/* An engine that says of its limits only this. */
#define ABLE_TO(limits)                                                                            \
    "{\"SecurityOptions\":[" FAKE_SECCOMP "],\"CgroupVersion\":\"2\",\"CgroupDriver\":"            \
    "\"systemd\",\"Driver\":\"overlay2\"" limits "}"

struct refusal {
    struct fake_habits habits;
    const char *changes; /* of the policy */
    const char *image;   /* NULL: FAKE_IMAGE_ID */
    int code;
    const char *says;
};

static void is_refused(struct fake_place *here, const struct refusal *refusal)
{
    const char *image = refusal->image != NULL ? refusal->image : FAKE_IMAGE_ID;
    reposbx_session *session = NULL;
    reposbx_error err = REPOSBX_ERROR_INIT;
    char *list = NULL;
    int rc;

    fake_docker_forget(here->fake);
    fake_docker_behave(here->fake, &refusal->habits);
    rc = fake_place_create(&session, here, image, refusal->changes, &err);
    if (rc != refusal->code || strstr(err.message, refusal->says) == NULL)
        fail_msg("expected \"%s\", got %s: %s", refusal->says, reposbx_code_word(rc), err.message);
    assert_null(session);
    assert_int_equal(err.code, rc);
    assert_true(fake_docker_count(here->fake, "GET /") > 0);
    assert_int_equal(fake_docker_count(here->fake, "POST "), 0);
    assert_int_equal(fake_docker_count(here->fake, "PUT "), 0);
    assert_int_equal(fake_docker_count(here->fake, "DELETE "), 0);
    assert_int_equal(fake_docker_left(here->fake), 0);
    assert_int_equal(reposbx_session_list_json(&list, here->place.provider, NULL), 0);
    assert_string_equal(list, "[]");
    free(list);
}

static void all_are_refused(struct fake_place *here, const struct refusal *refusals, size_t count)
{
    for (size_t i = 0; i < count; i++)
        is_refused(here, &refusals[i]);
}
#define ALL_ARE_REFUSED(here, list) all_are_refused((here), (list), sizeof(list) / sizeof *(list))

static void opening_contacts_nothing(void **state)
{
    struct fake_place *here = *state;
    reposbx_provider_options options = REPOSBX_PROVIDER_OPTIONS_INIT;
    reposbx_provider *provider = NULL;
    char *text = NULL;

    options.engine = "tcp://127.0.0.1:2375";
    options.state_dir = here->place.state;
    if (reposbx_provider_open(&provider, &options, NULL) == 0)
        reposbx_provider_free(provider); /* told at the first use */
    options.engine = fake_docker_address(here->fake);
    assert_int_equal(reposbx_provider_open(&provider, &options, NULL), 0);
    assert_string_equal(reposbx_provider_engine(provider), fake_docker_address(here->fake));
    assert_int_equal(reposbx_version_json(&text, NULL), 0);
    free(text);
    reposbx_provider_free(provider);
    assert_int_equal(fake_docker_count(here->fake, ""), 0);
}

static void engines_below_the_policy(void **state)
{
    static const struct refusal refusals[] = {
        { { .info = FAKE_INFO_OF(FAKE_SECCOMP, "2", "systemd") }, ROOTLESS, NULL, REPOSBX_EPOLICY,
          "demands a rootless engine" },
        { { .info = FAKE_INFO_OF(FAKE_SECCOMP ",\"name=rootlessly\"", "2", "systemd") }, ROOTLESS,
          NULL, REPOSBX_EPOLICY, "demands a rootless engine" },
        { { .info = FAKE_INFO_OF(FAKE_SECCOMP ",\"rootless\"", "2", "systemd") }, ROOTLESS, NULL,
          REPOSBX_EPOLICY, "demands a rootless engine" },
        { { .info = FAKE_INFO_OF("\"name=rootless\"", "2", "systemd") }, ROOTLESS, NULL,
          REPOSBX_EPOLICY, "no seccomp" },
        { { .info = FAKE_INFO_OF("\"name=seccomped\",\"name=rootless\"", "2", "systemd") },
          ROOTLESS, NULL, REPOSBX_EPOLICY, "no seccomp" },
        { { .info = FAKE_INFO_OF(FAKE_SECCOMP ",\"name=rootless\"", "1", "systemd") }, ROOTLESS,
          NULL, REPOSBX_EPOLICY, "cgroup version 2" },
        { { .info = FAKE_INFO_OF(FAKE_SECCOMP ",\"name=rootless\"", "2", "cgroupfs") }, ROOTLESS,
          NULL, REPOSBX_EPOLICY, "systemd" },
        /* Held to its rules also where the policy does not demand rootless. */
        { { .info = FAKE_INFO_OF(FAKE_SECCOMP ",\"name=rootless\"", "1", "cgroupfs") }, NULL, NULL,
          REPOSBX_EPOLICY, "cgroup version 2" },
        { { .info = FAKE_INFO_OF("", "1", "cgroupfs") }, NULL, NULL, REPOSBX_EPOLICY,
          "no seccomp" },
    };

    ALL_ARE_REFUSED(*state, refusals);
}

static void engines_that_cannot_limit(void **state)
{
    static const struct refusal refusals[] = {
        { { .info = ABLE_TO("") }, NULL, NULL, REPOSBX_EPOLICY, "cannot limit memory" },
        { { .info = ABLE_TO(",\"MemoryLimit\":true") }, NULL, NULL, REPOSBX_EPOLICY,
          "cannot limit swap" },
        { { .info = ABLE_TO(",\"MemoryLimit\":true,\"SwapLimit\":true") }, NULL, NULL,
          REPOSBX_EPOLICY, "cannot limit processors" },
        { { .info = ABLE_TO(",\"MemoryLimit\":true,\"SwapLimit\":true,\"CpuCfsQuota\":true") },
          NULL, NULL, REPOSBX_EPOLICY, "cannot limit processes" },
        /* An engine that contradicts itself. */
        { { .info = ABLE_TO(",\"MemoryLimit\":true,\"MemoryLimit\":false") }, NULL, NULL,
          REPOSBX_EPROTOCOL, "duplicate" },
    };

    ALL_ARE_REFUSED(*state, refusals);
}

static void other_engines(void **state)
{
    static const struct refusal refusals[] = {
        { { .version = FAKE_VERSION_OF("Podman Engine") }, NULL, NULL, REPOSBX_EPOLICY, "Podman" },
        { { .version = "{\"Version\":\"19.03.0\",\"ApiVersion\":\"1.40\",\"MinAPIVersion\":"
                       "\"1.12\",\"Os\":\"linux\",\"Arch\":\"amd64\"}" },
          NULL, NULL, REPOSBX_EUNAVAILABLE, "no common API version" },
        { { .version = "{\"Version\":\"99.0.0\",\"ApiVersion\":\"1.99\",\"MinAPIVersion\":"
                       "\"1.98\",\"Os\":\"linux\",\"Arch\":\"amd64\"}" },
          NULL, NULL, REPOSBX_EUNAVAILABLE, "no common API version" },
    };

    ALL_ARE_REFUSED(*state, refusals);
}

static void images_below_the_policy(void **state)
{
    static const struct refusal refusals[] = {
        { { .image = "" }, NULL, NULL, REPOSBX_EUNAVAILABLE, "not on this engine" },
        { { .image = FAKE_IMAGE_OF(OTHER_ID, FAKE_IMAGE_DIGEST, "amd64", "") }, NULL, NULL,
          REPOSBX_EPOLICY, "the engine gave " OTHER_ID },
        { { .image = FAKE_IMAGE_OF(FAKE_IMAGE_ID, OTHER_DIGEST, "amd64", "") }, NULL,
          FAKE_IMAGE_DIGEST, REPOSBX_EPOLICY, "does not have this digest" },
        { { .image = FAKE_IMAGE_OF(FAKE_IMAGE_ID, OTHER_NAME, "amd64", "") }, NULL,
          FAKE_IMAGE_DIGEST, REPOSBX_EPOLICY, "does not have this digest" },
        { { .image = FAKE_IMAGE_OF(FAKE_IMAGE_ID, FAKE_IMAGE_DIGEST, "arm64", "") }, NULL, NULL,
          REPOSBX_EPOLICY, "platform: the image is for linux/arm64, not linux/amd64" },
        { { .image = FAKE_IMAGE_OF(FAKE_IMAGE_ID, FAKE_IMAGE_DIGEST, "amd64\",\"Variant\":\"v2",
                                   "") },
          NULL, NULL, REPOSBX_EPOLICY, "platform" },
        { { .image = FAKE_IMAGE_OF(FAKE_IMAGE_ID, FAKE_IMAGE_DIGEST, "amd64",
                                   "\"Volumes\":{\"/data\":{}}") },
          NULL, NULL, REPOSBX_EPOLICY, "VOLUME" },
        { { .image = FAKE_IMAGE_OF(FAKE_IMAGE_ID, FAKE_IMAGE_DIGEST, "amd64",
                                   "\"Env\":[\"PATH=/bin\",\"NPM_TOKEN=abc\"]") },
          NULL, NULL, REPOSBX_EPOLICY, "environment variable NPM_TOKEN" },
        { { .image = FAKE_IMAGE_OF(FAKE_IMAGE_ID, FAKE_IMAGE_DIGEST, "amd64",
                                   "\"Env\":[\"AWS_REGION=x\"]") },
          NULL, NULL, REPOSBX_EPOLICY, "environment variable AWS_REGION" },
        /* What is not of the type that it must have hides nothing. */
        { { .image = FAKE_IMAGE_OF(FAKE_IMAGE_ID, FAKE_IMAGE_DIGEST, "amd64",
                                   "\"Env\":\"NPM_TOKEN=abc\"") },
          NULL, NULL, REPOSBX_EPROTOCOL, "must be a list" },
        { { .image = FAKE_IMAGE_OF(FAKE_IMAGE_ID, FAKE_IMAGE_DIGEST, "amd64",
                                   "\"Volumes\":[\"/data\"]") },
          NULL, NULL, REPOSBX_EPROTOCOL, "volumes are no object" },
        { { .image = "{\"Os\":\"linux\",\"Architecture\":\"amd64\"}" }, NULL, NULL,
          REPOSBX_EPROTOCOL, "Id" },
    };

    ALL_ARE_REFUSED(*state, refusals);
}

/* A listener that nobody may come to; its address as HOST:PORT. */
static int decoy(char *address, size_t size)
{
    struct sockaddr_in name = { .sin_family = AF_INET };
    socklen_t length = sizeof name;
    union {
        struct sockaddr *any;
        struct sockaddr_in *in;
    } place = { .in = &name };
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, place.any, sizeof name), 0);
    assert_int_equal(listen(fd, 8), 0);
    assert_int_equal(getsockname(fd, place.any, &length), 0);
    (void)snprintf(address, size, "127.0.0.1:%u", (unsigned int)ntohs(name.sin_port));
    return fd;
}

static void surroundings_redirect_nothing(void **state)
{
    static const char *const proxies[] = { "HTTP_PROXY",  "http_proxy", "HTTPS_PROXY",
                                           "https_proxy", "ALL_PROXY",  "all_proxy" };
    static const char *const names[] = { "DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_CONFIG",
                                         "DOCKER_API_VERSION", "DOCKER_TLS_VERIFY",
                                         "DOCKER_CERT_PATH", "CONTAINER_HOST" };
    struct fake_place *here = *state;
    struct fake_docker *other = fake_docker_start();
    char address[64], url[80];
    int fd = decoy(address, sizeof address);
    struct pollfd watched = { fd, POLLIN, 0 };
    reposbx_session *session;
    reposbx_exec_result result = { 0 };
    reposbx_error err = REPOSBX_ERROR_INIT;
    int rc;

    (void)snprintf(url, sizeof url, "http://%s", address);
    for (size_t i = 0; i < sizeof proxies / sizeof proxies[0]; i++)
        assert_int_equal(setenv(proxies[i], url, 1), 0);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        assert_int_equal(setenv(names[i], fake_docker_address(other), 1), 0);
    session = fake_place_session(here, NULL);
    rc = fake_place_exec(&result, session, &err);
    if (rc != 0)
        fail_msg("%s", err.message);
    reposbx_exec_result_dispose(&result);
    rc = reposbx_session_close(session, REPOSBX_KEEP_AUDIT, &err);
    reposbx_session_free(session);
    for (size_t i = 0; i < sizeof proxies / sizeof proxies[0]; i++)
        (void)unsetenv(proxies[i]);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        (void)unsetenv(names[i]);
    assert_int_equal(rc, 0);
    assert_int_equal(poll(&watched, 1, 0), 0);
    assert_int_equal(fake_docker_count(other, ""), 0);
    assert_true(fake_docker_count(here->fake, "POST /containers/create") > 0);
    fake_docker_stop(other);
    (void)close(fd);
}

int main(void)
{
#define CASE(test) cmocka_unit_test_setup_teardown(test, fake_place_setup, fake_place_teardown)
    const struct CMUnitTest tests[] = {
        CASE(opening_contacts_nothing),
        CASE(engines_below_the_policy), CASE(engines_that_cannot_limit),
        CASE(other_engines),            CASE(images_below_the_policy),
        CASE(surroundings_redirect_nothing),
    };

    return cmocka_run_group_tests_name("sessions refused before anything exists", tests, NULL,
                                       NULL);
}
