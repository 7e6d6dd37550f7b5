/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/fd.h"
#include "fake/common.h"

#include "base/banned.h"

#define NOBODY 65534U

static struct rsbx_deadline soon(void)
{
    return rsbx_deadline_in_ms(10000);
}

/* Opens against a ping and a version document; the settled API, or the error. */
static int open_with(struct rsbx_engine_host *out, struct fake_world *world, const char *version,
                     const char *info, reposbx_error *err)
{
    struct rsbx_buf texts[2] = { RSBX_BUF_INIT(8192), RSBX_BUF_INIT(8192) };
    struct rsbx_engine *engine = NULL;
    struct fake_reply replies[3] = { { .bytes = FAKE_PING, .length = strlen(FAKE_PING) } };
    int rc;

    fake_reply_text(&texts[0], "200 OK", version, BY_LENGTH);
    fake_reply_text(&texts[1], "200 OK", info, BY_LENGTH);
    replies[1] = (struct fake_reply){ .bytes = texts[0].data, .length = texts[0].length };
    replies[2] = (struct fake_reply){ .bytes = texts[1].data, .length = texts[1].length };
    fake_engine_script(world->fake, replies, 3);
    rc = rsbx_engine_open(&engine, fake_engine_address(world->fake), soon(), err);
    if (rc == 0)
        rc = rsbx_engine_host(out, engine, soon(), err);
    else
        assert_null(engine);
    rsbx_engine_free(engine);
    rsbx_buf_dispose(&texts[0]);
    rsbx_buf_dispose(&texts[1]);
    return rc;
}

static const char plain_info[] = "{\"CgroupDriver\":\"systemd\",\"CgroupVersion\":\"2\","
                                 "\"Driver\":\"overlay2\"}";

static void settles_the_newest_common_version(void **state)
{
    static const struct {
        const char *version;
        unsigned int settled;
        const char *path;
    } cases[] = {
        { FAKE_VERSION_BODY("1.41", "1.12"), 141, "GET /v1.41/info " },
        { FAKE_VERSION_BODY("1.43", "1.12"), 143, "GET /v1.43/info " },
        { FAKE_VERSION_BODY("1.47", "1.24"), 147, "GET /v1.47/info " },
        { FAKE_VERSION_BODY("1.52", "1.44"), 147, "GET /v1.47/info " },
        { FAKE_VERSION_BODY("1.52", "1.47"), 147, "GET /v1.47/info " },
        { FAKE_VERSION_BODY("1.41", "1.41"), 141, "GET /v1.41/info " },
    };
    struct fake_world *world = *state;
    reposbx_error err = REPOSBX_ERROR_INIT;
    char request[512];

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct rsbx_engine_host host = { .api_version = 0 };

        if (open_with(&host, world, cases[i].version, plain_info, &err) != 0)
            fail_msg("%s: %s", cases[i].version, err.message);
        assert_int_equal(host.api_version, cases[i].settled);
        fake_engine_request(request, sizeof request, world->fake, 2);
        assert_memory_equal(request, cases[i].path, strlen(cases[i].path));
    }
}

static void says_when_there_is_no_common_version(void **state)
{
    static const struct {
        const char *version;
        int code;
        const char *words;
    } cases[] = {
        { FAKE_VERSION_BODY("1.55", "1.50"), REPOSBX_EUNAVAILABLE, "speaks 1.50 to 1.55" },
        { FAKE_VERSION_BODY("1.48", "1.48"), REPOSBX_EUNAVAILABLE, "we speak 1.41 to 1.47" },
        { FAKE_VERSION_BODY("1.40", "1.12"), REPOSBX_EUNAVAILABLE, "speaks 1.12 to 1.40" },
        { FAKE_VERSION_BODY("2.0", "2.0"), REPOSBX_EUNAVAILABLE, "speaks 2.0 to 2.0" },
        { FAKE_VERSION_BODY("1.41", "1.44"), REPOSBX_EPROTOCOL, "above" },
        { FAKE_VERSION_BODY("1.4x", "1.12"), REPOSBX_EPROTOCOL, "no API version" },
        { FAKE_VERSION_BODY("141", "1.12"), REPOSBX_EPROTOCOL, "no API version" },
        { FAKE_VERSION_BODY("1.", "1.12"), REPOSBX_EPROTOCOL, "no API version" },
        { FAKE_VERSION_BODY("", "1.12"), REPOSBX_EPROTOCOL, "no API version" },
        { FAKE_VERSION_BODY("1.41.1", "1.12"), REPOSBX_EPROTOCOL, "no API version" },
        { FAKE_VERSION_BODY("1.41", "x"), REPOSBX_EPROTOCOL, "no API version" },
        { FAKE_VERSION_BODY("999999999999.41", "1.12"), REPOSBX_EPROTOCOL, "no API version" },
        { "{\"Version\":\"20.10\"}", REPOSBX_EPROTOCOL, "ApiVersion" },
        { "{\"ApiVersion\":1.41}", REPOSBX_EPROTOCOL, "ApiVersion" },
        { "[]", REPOSBX_EPROTOCOL, "no object" },
        { "{\"ApiVersion\":\"1.41\"}x", REPOSBX_EPROTOCOL, "/version" },
    };
    struct fake_world *world = *state;

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct rsbx_engine_host host;
        reposbx_error err = REPOSBX_ERROR_INIT;

        assert_int_equal(open_with(&host, world, cases[i].version, plain_info, &err),
                         cases[i].code);
        if (strstr(err.message, cases[i].words) == NULL)
            fail_msg("\"%s\" is not in \"%s\"", cases[i].words, err.message);
    }
}

static void refuses_podman(void **state)
{
    static const char podman[] =
        "{\"Components\":[{\"Name\":\"x\"},{\"Name\":\"Podman Engine\",\"Version\":\"4.3.1\"}],"
        "\"Version\":\"4.3.1\",\"ApiVersion\":\"1.41\",\"MinAPIVersion\":\"1.24\"}";
    struct fake_world *world = *state;
    struct rsbx_engine_host host;
    reposbx_error err = REPOSBX_ERROR_INIT;

    assert_int_equal(open_with(&host, world, podman, plain_info, &err), REPOSBX_EPOLICY);
    assert_non_null(strstr(err.message, "Podman"));
    assert_string_not_equal(err.hint, "");
}

static void demands_a_proper_ping(void **state)
{
    static const char *const replies[] = {
        "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nOK\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nOKOK",
        "HTTP/1.1 200 OK\r\n\r\nO",
        "HTTP/1.1 204 No Content\r\n\r\n",
        "HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\nOK",
        "HTTP/1.1 301 Moved\r\nLocation: /_ping\r\nContent-Length: 2\r\n\r\nOK",
        "220 mail.example ESMTP\r\n",
        "OK",
        "",
    };
    struct fake_world *world = *state;

    for (size_t i = 0; i < sizeof replies / sizeof replies[0]; i++) {
        struct rsbx_engine *engine = NULL;
        reposbx_error err = REPOSBX_ERROR_INIT;
        int rc;

        fake_world_reply(world, replies[i], strlen(replies[i]));
        rc = rsbx_engine_open(&engine, fake_engine_address(world->fake), soon(), &err);
        if (rc != REPOSBX_EPROTOCOL && rc != REPOSBX_EUNAVAILABLE)
            fail_msg("%s: %d", replies[i], rc);
        assert_null(engine);
        assert_string_not_equal(err.hint, "");
        assert_int_equal(fake_engine_requests(world->fake), 1);
    }
}

static void host_facts_are_exact(void **state)
{
    static const struct {
        const char *info;
        bool rootless, seccomp;
        unsigned int cgroup;
    } cases[] = {
        { "{\"CgroupDriver\":\"systemd\",\"CgroupVersion\":\"2\",\"Driver\":\"overlay2\","
          "\"SecurityOptions\":[\"name=seccomp,profile=default\",\"name=rootless\",\"name="
          "cgroupns\"]}",
          true, true, 2 },
        { "{\"CgroupDriver\":\"none\",\"Driver\":\"vfs\",\"SecurityOptions\":[\"name=rootlessly\","
          "\"name=seccompx\"]}",
          false, false, 1 },
        { "{\"CgroupDriver\":\"cgroupfs\",\"CgroupVersion\":\"1\",\"Driver\":\"vfs\","
          "\"SecurityOptions\":[\"name=apparmor,name=rootless\",\"xname=seccomp\",\"rootless\","
          "\" name=rootless\",\"NAME=ROOTLESS\"]}",
          false, false, 1 },
        { "{\"CgroupDriver\":\"systemd\",\"CgroupVersion\":\"2\",\"Driver\":\"x\","
          "\"SecurityOptions\":null}",
          false, false, 2 },
        { "{\"CgroupDriver\":\"systemd\",\"CgroupVersion\":null,\"Driver\":\"x\"}", false, false,
          1 },
    };
    struct fake_world *world = *state;
    reposbx_error err = REPOSBX_ERROR_INIT;

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct rsbx_engine_host host;

        if (open_with(&host, world, FAKE_VERSION_BODY("1.41", "1.12"), cases[i].info, &err) != 0)
            fail_msg("%s", err.message);
        assert_int_equal(host.rootless, cases[i].rootless);
        assert_int_equal(host.seccomp, cases[i].seccomp);
        assert_int_equal(host.cgroup_version, cases[i].cgroup);
        assert_false(host.memory_limit || host.swap_limit || host.cpu_quota || host.pids_limit);
        assert_string_equal(host.server_version, "20.10.24");
        assert_string_equal(host.os, "linux");
        assert_string_equal(host.architecture, "amd64");
    }
}

static void every_limit_has_its_own_fact(void **state)
{
    static const char *const keys[] = { "MemoryLimit", "SwapLimit", "CpuCfsQuota", "PidsLimit" };
    struct fake_world *world = *state;
    char info[256];

    for (unsigned int i = 0; i < 4; i++) {
        struct rsbx_engine_host host;

        (void)snprintf(info, sizeof info,
                       "{\"CgroupDriver\":\"x\",\"Driver\":\"y\",\"%s\":true,\"Name\":\"h\"}",
                       keys[i]);
        assert_int_equal(open_with(&host, world, FAKE_VERSION_BODY("1.41", "1.12"), info, NULL), 0);
        assert_int_equal(host.memory_limit, i == 0);
        assert_int_equal(host.swap_limit, i == 1);
        assert_int_equal(host.cpu_quota, i == 2);
        assert_int_equal(host.pids_limit, i == 3);
        assert_string_equal(host.cgroup_driver, "x");
        assert_string_equal(host.storage_driver, "y");
    }
}

static void mistyped_facts_fail(void **state)
{
    static const char *const infos[] = {
        "{}",
        "{\"CgroupDriver\":3,\"Driver\":\"y\"}",
        "{\"CgroupDriver\":\"x\"}",
        "{\"CgroupDriver\":\"x\",\"Driver\":\"0123456789012345678901234567890123\"}",
        "{\"CgroupDriver\":\"x\",\"Driver\":\"y\",\"CgroupVersion\":\"3\"}",
        "{\"CgroupDriver\":\"x\",\"Driver\":\"y\",\"CgroupVersion\":2}",
        "{\"CgroupDriver\":\"x\",\"Driver\":\"y\",\"SecurityOptions\":\"name=rootless\"}",
        "{\"CgroupDriver\":\"x\",\"Driver\":\"y\",\"SecurityOptions\":[{\"name\":\"rootless\"}]}",
        "{\"CgroupDriver\":\"x\",\"Driver\":\"y\",\"MemoryLimit\":\"true\"}",
        "{\"CgroupDriver\":\"x\",\"Driver\":\"y\",\"PidsLimit\":1}",
    };
    struct fake_world *world = *state;

    for (size_t i = 0; i < sizeof infos / sizeof infos[0]; i++) {
        struct rsbx_engine_host host = { .server_version = "kept" };

        assert_int_equal(open_with(&host, world, FAKE_VERSION_BODY("1.41", "1.12"), infos[i], NULL),
                         REPOSBX_EPROTOCOL);
        assert_string_equal(host.server_version, "kept");
    }
}

static void environment_changes_nothing(void **state)
{
    static const char *const names[] = { "http_proxy",     "HTTP_PROXY",   "https_proxy",
                                         "all_proxy",      "ALL_PROXY",    "DOCKER_HOST",
                                         "DOCKER_CONTEXT", "DOCKER_CONFIG" };
    struct fake_world *world = *state;
    struct rsbx_engine_host host;
    char folder[] = "/tmp/rsbx-home-XXXXXX";
    char netrc[64], request[1024];
    int fd;

    assert_non_null(mkdtemp(folder));
    (void)snprintf(netrc, sizeof netrc, "%s/.netrc", folder);
    fd = open(netrc, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(rsbx_write_all(fd, "default login user password secret\n", 35), 0);
    assert_int_equal(close(fd), 0);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        assert_int_equal(setenv(names[i], "http://127.0.0.1:9", 1), 0);
    assert_int_equal(setenv("no_proxy", "", 1), 0);
    assert_int_equal(setenv("HOME", folder, 1), 0);
    assert_int_equal(setenv("NETRC", netrc, 1), 0);
    assert_int_equal(open_with(&host, world, FAKE_VERSION_BODY("1.41", "1.12"), plain_info, NULL),
                     0);
    assert_int_equal(fake_engine_requests(world->fake), 3);
    fake_engine_request(request, sizeof request, world->fake, 0);
    assert_memory_equal(request, "GET /_ping HTTP/1.1\r\n", 21);
    fake_engine_request(request, sizeof request, world->fake, 2);
    assert_memory_equal(request, "GET /v1.41/info HTTP/1.1\r\n", 26);
    assert_null(strstr(request, "Authorization"));
    assert_null(strcasestr(request, "proxy"));
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        assert_int_equal(unsetenv(names[i]), 0);
    assert_int_equal(unlink(netrc), 0);
    assert_int_equal(rmdir(folder), 0);
}

/* Must be refused with this code; unavailable ones with a hint and the path. */
static void refused(const char *address, int code)
{
    struct rsbx_engine *engine = NULL;
    reposbx_error err = REPOSBX_ERROR_INIT;

    assert_int_equal(rsbx_engine_open(&engine, address, soon(), &err), code);
    assert_null(engine);
    assert_int_equal(err.code, code);
    assert_string_not_equal(err.message, "");
    if (code == REPOSBX_EUNAVAILABLE) {
        assert_string_not_equal(err.hint, "");
        assert_non_null(strstr(err.message, address + strlen("unix://")));
    }
}

static void refuses_other_addresses(void **state)
{
    char too_long[256] = "unix:///";

    (void)state;
    refused("", REPOSBX_EINVALID);
    refused("/var/run/docker.sock", REPOSBX_EINVALID);
    refused("unix://", REPOSBX_EINVALID);
    refused("unix://relative", REPOSBX_EINVALID);
    refused("unix:/one", REPOSBX_EINVALID);
    refused("tcp://127.0.0.1:2375", REPOSBX_EINVALID);
    refused("http://127.0.0.1:2375", REPOSBX_EINVALID);
    refused("ssh://host", REPOSBX_EINVALID);
    memset(too_long + 8, 'a', 120);
    refused(too_long, REPOSBX_EINVALID);
}

static void refuses_what_is_no_engine_socket(void **state)
{
    struct fake_world *world = *state;
    struct sockaddr_un name = { .sun_family = AF_UNIX };
    char path[120], address[128];
    int fd;

    (void)snprintf(address, sizeof address, "%s-none", fake_engine_address(world->fake));
    refused(address, REPOSBX_EUNAVAILABLE);
    (void)snprintf(address, sizeof address, "%s/below", fake_engine_address(world->fake));
    refused(address, REPOSBX_EUNAVAILABLE);
    refused("unix:///", REPOSBX_EUNAVAILABLE);
    refused("unix:///dev/null", REPOSBX_EUNAVAILABLE);
    (void)snprintf(path, sizeof path, "%s-file", fake_engine_path(world->fake));
    (void)snprintf(address, sizeof address, "unix://%s", path);
    fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(close(fd), 0);
    refused(address, REPOSBX_EUNAVAILABLE);
    assert_int_equal(unlink(path), 0);
    /* A socket that nobody listens on any more. */
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    memcpy(name.sun_path, path, strlen(path) + 1);
    assert_int_equal(bind(fd, (const struct sockaddr *)&name, sizeof name), 0);
    refused(address, REPOSBX_EUNAVAILABLE);
    assert_int_equal(close(fd), 0);
    refused(address, REPOSBX_EUNAVAILABLE);
    assert_int_equal(unlink(path), 0);
}

/* Opens in a child that is an ordinary user; its exit status says what came of it. */
static int refused_as_nobody(const char *address)
{
    int status;
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid == 0) {
        struct rsbx_engine *engine = NULL;
        reposbx_error err = REPOSBX_ERROR_INIT;

        if (geteuid() == 0 && seteuid(NOBODY) != 0)
            _exit(3);
        if (rsbx_engine_open(&engine, address, soon(), &err) != REPOSBX_EUNAVAILABLE)
            _exit(1);
        _exit(strstr(err.hint, "this user may not") == NULL || engine != NULL ? 2 : 0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return status;
}

static void refuses_without_permission(void **state)
{
    struct fake_world *world = *state;
    char folder[128];

    assert_int_equal(chmod(fake_engine_path(world->fake), 0), 0);
    (void)snprintf(folder, sizeof folder, "%s", fake_engine_path(world->fake));
    *strrchr(folder, '/') = '\0';
    assert_int_equal(chmod(folder, 0711), 0);
    assert_int_equal(refused_as_nobody(fake_engine_address(world->fake)), 0);
    assert_int_equal(chmod(folder, geteuid() == 0 ? 0700 : 0), 0);
    assert_int_equal(refused_as_nobody(fake_engine_address(world->fake)), 0);
    assert_int_equal(chmod(folder, 0700), 0);
    assert_int_equal(fake_engine_requests(world->fake), 2); /* those of the setup */
}

static void refuses_another_users_socket(void **state)
{
    struct fake_world *world = *state;

    if (geteuid() != 0)
        skip(); /* only root can give a socket away */
    assert_int_equal(chown(fake_engine_path(world->fake), NOBODY, NOBODY), 0);
    refused(fake_engine_address(world->fake), REPOSBX_EUNAVAILABLE);
    assert_int_equal(fake_engine_requests(world->fake), 2); /* those of the setup */
}

#define WORLD(test) cmocka_unit_test_setup_teardown(test, fake_world_setup, fake_world_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WORLD(settles_the_newest_common_version),
        WORLD(says_when_there_is_no_common_version),
        WORLD(refuses_podman),
        WORLD(demands_a_proper_ping),
        WORLD(host_facts_are_exact),
        WORLD(every_limit_has_its_own_fact),
        WORLD(mistyped_facts_fail),
        WORLD(environment_changes_nothing),
        WORLD(refuses_other_addresses),
        WORLD(refuses_what_is_no_engine_socket),
        WORLD(refuses_without_permission),
        WORLD(refuses_another_users_socket),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
