/* SPDX-License-Identifier: Apache-2.0 */
/* Every flag of a command's container, read from the body that the engine gets. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "provider/docker_spec.h"
#include "spec.h"

static json_t *body_of(const struct rsbx_slot_spec *spec)
{
    json_t *body = NULL;
    reposbx_error err = REPOSBX_ERROR_INIT;

    assert_int_equal(rsbx_docker_slot_body(&body, spec, &err), 0);
    assert_non_null(body);
    return body;
}

static void assert_text(const json_t *object, const char *key, const char *wanted)
{
    const char *seen = json_string_value(json_object_get(object, key));

    assert_non_null(seen);
    assert_string_equal(seen, wanted);
}

static void assert_number(const json_t *object, const char *key, json_int_t wanted)
{
    assert_true(json_is_integer(json_object_get(object, key)));
    assert_int_equal(json_integer_value(json_object_get(object, key)), wanted);
}

static void assert_list(const json_t *object, const char *key, const char *wanted)
{
    json_t *parsed = json_loads(wanted, JSON_DECODE_ANY, NULL);

    assert_non_null(parsed);
    assert_true(json_equal(json_object_get(object, key), parsed));
    json_decref(parsed);
}

static void limits_and_isolation(void **state)
{
    const struct rsbx_slot_spec spec = exec_slot_spec();
    json_t *body = body_of(&spec);
    const json_t *host = json_object_get(body, "HostConfig");

    (void)state;
    assert_text(body, "Image", "sha256:abc");
    assert_text(body, "User", "65532:65532");
    assert_list(body, "Entrypoint", "[\"/reposbx/guest/reposbx-guest\"]");
    assert_list(body, "Cmd", "[]");
    assert_list(body, "Env", "[]");
    assert_list(body, "Healthcheck", "{\"Test\":[\"NONE\"]}");
    assert_list(body, "Labels", "{\"reposbx.session\":\"sbx-1\"}");
    assert_true(json_is_true(json_object_get(body, "NetworkDisabled")));
    assert_true(json_is_true(json_object_get(body, "OpenStdin")));
    assert_true(json_is_true(json_object_get(body, "StdinOnce")));
    assert_true(json_is_false(json_object_get(body, "Tty")));
    assert_text(host, "NetworkMode", "none");
    assert_true(json_is_true(json_object_get(host, "ReadonlyRootfs")));
    assert_true(json_is_false(json_object_get(host, "Privileged")));
    assert_list(host, "CapDrop", "[\"ALL\"]");
    assert_list(host, "CapAdd", "[]");
    assert_list(host, "SecurityOpt", "[\"no-new-privileges\"]");
    assert_number(host, "Memory", 268435456);
    assert_number(host, "MemorySwap", 268435456);
    assert_number(host, "NanoCpus", 1500000000);
    assert_number(host, "PidsLimit", 64);
    assert_list(host, "Ulimits",
                "[{\"Name\":\"nofile\",\"Soft\":1024,\"Hard\":1024},"
                "{\"Name\":\"core\",\"Soft\":0,\"Hard\":0}]");
    assert_text(host, "IpcMode", "private");
    assert_text(host, "CgroupnsMode", "private");
    assert_list(host, "LogConfig", "{\"Type\":\"none\",\"Config\":{}}");
    assert_list(host, "RestartPolicy", "{\"Name\":\"no\"}");
    assert_true(json_is_false(json_object_get(host, "AutoRemove")));
    assert_null(json_object_get(host, "Runtime"));
    assert_null(json_object_get(host, "Binds"));
    assert_null(json_object_get(host, "Devices"));
    json_decref(body);
}

static void mounts_are_volumes_only(void **state)
{
    const struct rsbx_slot_spec spec = exec_slot_spec();
    json_t *body = body_of(&spec);

    (void)state;
    assert_list(json_object_get(body, "HostConfig"), "Mounts",
                "[{\"Type\":\"volume\",\"Source\":\"sbx-1-guest\",\"Target\":\"/reposbx/guest\","
                "\"ReadOnly\":true,\"VolumeOptions\":{\"NoCopy\":true,"
                "\"Labels\":{\"reposbx.lost\":\"yes\"}}},"
                "{\"Type\":\"volume\",\"Source\":\"sbx-1-workspace\",\"Target\":\"/workspace\","
                "\"ReadOnly\":false,\"VolumeOptions\":{\"NoCopy\":true,"
                "\"Labels\":{\"reposbx.lost\":\"yes\"}}}]");
    assert_list(json_object_get(body, "HostConfig"), "Tmpfs",
                "{\"/tmp\":\"rw,nosuid,nodev,noexec,mode=1777,uid=65532,gid=65532,size=1048576\","
                "\"/run\":\"rw,nosuid,nodev,noexec,mode=1777,uid=65532,gid=65532,size=2097152\"}");
    json_decref(body);
}

static void words_of_the_policy_widen(void **state)
{
    struct rsbx_slot_spec spec = exec_slot_spec();
    json_t *body;

    (void)state;
    spec.network = true;
    spec.read_only_root = false;
    spec.read_everything = true;
    spec.uid = spec.gid = 0;
    spec.seccomp_profile = "{\"defaultAction\":\"SCMP_ACT_ERRNO\"}";
    spec.runtime = "runsc";
    body = body_of(&spec);
    assert_true(json_is_false(json_object_get(body, "NetworkDisabled")));
    assert_text(body, "User", "0:0");
    assert_text(json_object_get(body, "HostConfig"), "NetworkMode", "bridge");
    assert_text(json_object_get(body, "HostConfig"), "Runtime", "runsc");
    assert_list(json_object_get(body, "HostConfig"), "CapAdd", "[\"DAC_READ_SEARCH\"]");
    assert_list(json_object_get(body, "HostConfig"), "SecurityOpt",
                "[\"no-new-privileges\",\"seccomp={\\\"defaultAction\\\":\\\"SCMP_ACT_ERRNO\\\"}\"]");
    json_decref(body);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(limits_and_isolation),
        cmocka_unit_test(mounts_are_volumes_only),
        cmocka_unit_test(words_of_the_policy_widen),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
