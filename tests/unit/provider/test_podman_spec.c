/* SPDX-License-Identifier: Apache-2.0 */
/* Every word that Podman gets for a slot and for a store, and what its answers mean. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "provider/podman_spec.h"
#include "spec.h"

static const struct rsbx_podman_place place = { .processes = 32768 };

static const char *const command_words[] = {
    "run",
    "--detach",
    "--name=sbx-1-000001-exec",
    "--label=reposbx.session=sbx-1",
    "--user=65532:65532",
    "--cap-drop=all",
    "--privileged=false",
    "--security-opt=no-new-privileges",
    "--network=none",
    "--ipc=private",
    "--pid=private",
    "--uts=private",
    "--cgroupns=private",
    "--userns=host",
    "--hostname=sandbox",
    "--no-hosts",
    "--memory=268435456b",
    "--memory-swap=268435456b",
    "--cpu-period=100000",
    "--cpu-quota=150000",
    "--pids-limit=64",
    "--ulimit=nofile=1024:1024",
    "--ulimit=nproc=32768:32768",
    "--ulimit=core=0:0",
    "--shm-size=67108864b",
    "--read-only=true",
    "--read-only-tmpfs=false",
    "--image-volume=ignore",
    "--tmpfs=/tmp:rw,nosuid,nodev,noexec,mode=1777,notmpcopyup,U,size=1048576",
    "--tmpfs=/run:rw,nosuid,nodev,noexec,mode=1777,notmpcopyup,U,size=2097152",
    "--volume=sbx-1-guest:/reposbx/guest:ro,nocopy",
    "--volume=sbx-1-workspace:/workspace:rw,nocopy",
    "--interactive",
    "--log-driver=none",
    "--restart=no",
    "--rm=false",
    "--stop-timeout=0",
    "--no-healthcheck",
    "--systemd=false",
    "--sdnotify=ignore",
    "--init=false",
    "--env-host=false",
    "--unsetenv-all",
    "--http-proxy=false",
    "--umask=0022",
    "--workdir=/",
    "--pull=never",
    "--entrypoint=/reposbx/guest/reposbx-guest",
    "sha256:abc",
    NULL,
};

static void assert_words(char **words, const char *const *wanted)
{
    size_t i = 0;

    for (; wanted[i] != NULL; i++) {
        assert_non_null(words[i]);
        assert_string_equal(words[i], wanted[i]);
    }
    assert_null(words[i]);
}

static bool has_word(char **words, const char *wanted)
{
    for (size_t i = 0; words[i] != NULL; i++) {
        if (strcmp(words[i], wanted) == 0)
            return true;
    }
    return false;
}

static void a_command_gets_these_words(void **state)
{
    const struct rsbx_slot_spec spec = exec_slot_spec();
    char **words = NULL;

    (void)state;
    assert_int_equal(rsbx_podman_slot_words(&words, &spec, &place, NULL), 0);
    assert_words(words, command_words);
    rsbx_words_free(words);
}

static void a_reader_has_one_capability(void **state)
{
    struct rsbx_slot_spec spec = exec_slot_spec();
    char **words = NULL;

    (void)state;
    spec.uid = spec.gid = 0;
    spec.read_everything = true;
    assert_int_equal(rsbx_podman_slot_words(&words, &spec, &place, NULL), 0);
    assert_true(has_word(words, "--user=0:0"));
    assert_true(has_word(words, "--cap-drop=all"));
    assert_true(has_word(words, "--cap-add=DAC_READ_SEARCH"));
    rsbx_words_free(words);
}

static void words_of_the_policy_widen(void **state)
{
    const struct rsbx_podman_place own = { .seccomp_file = "/tmp/profile", .processes = 5 };
    struct rsbx_slot_spec spec = exec_slot_spec();
    char **words = NULL;

    (void)state;
    spec.network = true;
    spec.read_only_root = false;
    spec.runtime = "crun";
    spec.limits.cpus = 0.01;
    assert_int_equal(rsbx_podman_slot_words(&words, &spec, &own, NULL), 0);
    assert_string_equal(words[0], "--runtime=crun"); /* a flag of podman, not of `run` */
    assert_string_equal(words[1], "run");
    assert_true(has_word(words, "--network=private"));
    assert_false(has_word(words, "--network=none"));
    assert_true(has_word(words, "--read-only=false"));
    assert_true(has_word(words, "--security-opt=seccomp=/tmp/profile"));
    assert_true(has_word(words, "--security-opt=no-new-privileges"));
    assert_true(has_word(words, "--cpu-quota=1000"));
    assert_true(has_word(words, "--ulimit=nproc=5:5"));
    rsbx_words_free(words);
}

static void a_list_is_never_cut(void **state)
{
    struct rsbx_mount many[100];
    struct rsbx_slot_spec spec = exec_slot_spec();
    reposbx_error err = REPOSBX_ERROR_INIT;
    char **words = NULL;

    (void)state;
    for (size_t i = 0; i < 100; i++)
        many[i] = exec_slot_mounts[0];
    spec.mounts = many;
    spec.mount_count = 100;
    assert_true(rsbx_podman_slot_words(&words, &spec, &place, &err) < 0);
    assert_null(words);
}

static void stores(void **state)
{
    static const char *const plain[] = { "volume",
                                         "create",
                                         "--driver=local",
                                         "--label=reposbx.session=sbx-1",
                                         "--opt=o=uid=65532,gid=65532",
                                         "sbx-1-baseline",
                                         NULL };
    static const char *const overlay[] = {
        "volume",
        "create",
        "--driver=local",
        "--label=reposbx.session=sbx-1",
        "--opt=type=overlay",
        "--opt=device=overlay",
        "--opt=o=lowerdir=/s/b,upperdir=/s/u/upper,workdir=/s/u/work,userxattr,"
        "redirect_dir=nofollow,metacopy=off,index=off",
        "sbx-1-workspace",
        NULL,
    };
    const struct rsbx_store_spec one = { .name = "sbx-1-baseline", .session_id = "sbx-1" };
    const struct rsbx_store_spec other = { .name = "sbx-1-workspace",
                                           .session_id = "sbx-1",
                                           .lower = "sbx-1-baseline",
                                           .upper = "sbx-1-upper" };
    char **words = NULL;

    (void)state;
    assert_int_equal(rsbx_podman_store_words(&words, &one, NULL, NULL, NULL), 0);
    assert_words(words, plain);
    rsbx_words_free(words);
    assert_int_equal(rsbx_podman_store_words(&words, &other, "/s/b", "/s/u", NULL), 0);
    assert_words(words, overlay);
    rsbx_words_free(words);
}

static void process_limits(void **state)
{
    (void)state;
    assert_int_equal(rsbx_podman_process_limit(UINT64_MAX, 32768), 32768);
    assert_int_equal(rsbx_podman_process_limit(96364, 32768), 32768);
    assert_int_equal(rsbx_podman_process_limit(1000, 4194304), 1000);
}

/* ---- answers ---- */

#define HOST                                                                                       \
    "{'host': {'arch': 'amd64', 'os': 'linux', 'cgroupVersion': 'v2', 'cgroupManager': 'systemd'," \
    " 'cgroupControllers': ['cpu', 'memory', 'pids'], 'serviceIsRemote': false,"                   \
    " 'security': {'rootless': true, 'seccompEnabled': true}}, 'version': {'Version': '4.3.1'}}"

/* A document with ' for ", and one text replaced by another. */
static json_t *document(const char *text, const char *from, const char *to)
{
    char bytes[1024];
    const char *at = from != NULL ? strstr(text, from) : NULL;
    json_t *value;

    if (from != NULL) {
        assert_non_null(at);
        (void)snprintf(bytes, sizeof bytes, "%.*s%s%s", (int)(at - text), text, to,
                       at + strlen(from));
    } else {
        (void)snprintf(bytes, sizeof bytes, "%s", text);
    }
    for (char *p = bytes; *p != '\0'; p++) {
        if (*p == '\'')
            *p = '"';
    }
    value = json_loads(bytes, 0, NULL);
    assert_non_null(value);
    return value;
}

static int host(struct rsbx_host_facts *facts, const char *from, const char *to, reposbx_error *err)
{
    unsigned int version = 0;
    json_t *info = document(HOST, from, to);
    int rc = rsbx_podman_read_host(facts, &version, info, err);

    json_decref(info);
    if (rc == 0)
        assert_in_range(version, 403, 9999);
    return rc;
}

static void what_the_host_says(void **state)
{
    struct rsbx_host_facts facts;

    (void)state;
    assert_int_equal(host(&facts, NULL, NULL, NULL), 0);
    assert_string_equal(facts.provider, "podman");
    assert_string_equal(facts.version, "4.3.1");
    assert_string_equal(facts.platform, "linux/amd64");
    assert_true(facts.rootless && facts.seccomp && facts.systemd_cgroups);
    assert_int_equal(facts.cgroup_version, 2);
    assert_true(facts.memory_limit && facts.swap_limit && facts.cpu_limit && facts.pids_limit);
    assert_int_equal(host(&facts, "'cpu', ", "", NULL), 0);
    assert_false(facts.cpu_limit);
    assert_int_equal(host(&facts, "'systemd'", "'cgroupfs'", NULL), 0);
    assert_false(facts.systemd_cgroups);
    assert_int_equal(host(&facts, "'v2'", "'v1'", NULL), 0);
    assert_int_equal(facts.cgroup_version, 1);
    assert_int_equal(host(&facts, "'v2'", "'v3'", NULL), 0);
    assert_int_equal(facts.cgroup_version, 0);
    assert_int_equal(host(&facts, "4.3.1", "5.0.0-dev", NULL), 0);
}

static void hosts_that_are_refused(void **state)
{
    struct rsbx_host_facts facts = { .provider = "untouched" };
    reposbx_error err = REPOSBX_ERROR_INIT;

    (void)state;
    assert_int_equal(host(&facts, "4.3.1", "4.2.9", &err), REPOSBX_EUNAVAILABLE);
    assert_non_null(strstr(err.message, "4.2.9"));
    assert_non_null(strstr(err.hint, "4.3"));
    assert_int_equal(host(&facts, "4.3.1", "", &err), REPOSBX_EUNAVAILABLE);
    assert_int_equal(host(&facts, "'serviceIsRemote': false", "'serviceIsRemote': true", &err),
                     REPOSBX_EUNAVAILABLE);
    assert_int_equal(host(&facts, "'rootless': true", "'rootless': 1", &err), REPOSBX_EPROTOCOL);
    assert_int_equal(host(&facts, "'cgroupVersion'", "'x'", &err), REPOSBX_EPROTOCOL);
    assert_string_equal(facts.provider, "untouched");
}

static void what_an_image_is(void **state)
{
    static const char text[] =
        "[{'Id': '43f799b5802eb7f6d4fd75b68c68c4d7acad5d8108a7f2d3e2417d2de4db82a9', 'Os': 'linux',"
        " 'Architecture': 'amd64', 'RepoDigests': ['localhost/a@sha256:9c'],"
        " 'Config': {'Env': ['PATH=/bin'], 'Volumes': {'/data': {}}}}]";
    struct rsbx_image_facts facts = { 0 };
    json_t *list = document(text, NULL, NULL);
    json_t *none = json_array();

    (void)state;
    assert_int_equal(rsbx_podman_read_image(&facts, list, NULL), 0);
    assert_string_equal(facts.id, "sha256:"
                                  "43f799b5802eb7f6d4fd75b68c68c4d7acad5d8108a7f2d3e2417d2de4db82a9");
    assert_string_equal(facts.os, "linux");
    assert_string_equal(facts.variant, "");
    assert_int_equal(facts.repo_digest_count, 1);
    assert_int_equal(facts.env_count, 1);
    assert_int_equal(facts.volume_count, 1);
    rsbx_image_facts_dispose(&facts);
    assert_int_equal(rsbx_podman_read_image(&facts, none, NULL), REPOSBX_EPROTOCOL);
    json_decref(list);
    json_decref(none);
}

static void warnings_about_limits(void **state)
{
    (void)state;
    assert_true(rsbx_podman_drops_a_limit(
        "Your kernel does not support swap limit capabilities or the cgroup is not mounted."));
    assert_true(rsbx_podman_drops_a_limit(
        "Resource limits are not supported and ignored on cgroups V1 rootless systems\n"));
    assert_true(rsbx_podman_drops_a_limit("… is not mounted. PIDs limit discarded."));
    assert_false(rsbx_podman_drops_a_limit("time=\"…\" level=warning msg=\"another matter\""));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_command_gets_these_words), cmocka_unit_test(a_reader_has_one_capability),
        cmocka_unit_test(words_of_the_policy_widen),  cmocka_unit_test(a_list_is_never_cut),
        cmocka_unit_test(stores),                     cmocka_unit_test(process_limits),
        cmocka_unit_test(what_the_host_says),         cmocka_unit_test(hosts_that_are_refused),
        cmocka_unit_test(what_an_image_is),           cmocka_unit_test(warnings_about_limits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
