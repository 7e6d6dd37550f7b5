/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/limits.h"
#include "policy/fields.h"
#include "policy/policy.h"

#include "base/banned.h"

static struct rsbx_problems found;

/* Reads a document; the policy (to be freed) or NULL with the mistakes in `found`. */
static reposbx_policy *read_text(const char *text, size_t length)
{
    reposbx_policy *policy = NULL;
    reposbx_error err = REPOSBX_ERROR_INIT;
    int rc = rsbx_policy_read(&policy, &found, text, length, &err);

    assert_int_equal(rc, 0);
    assert_true((policy != NULL) == (found.count == 0));
    return policy;
}

static void expect_good(const char *text)
{
    reposbx_policy *policy = read_text(text, strlen(text));

    if (policy == NULL)
        print_error("%s\n-> %s\n", text, found.list[0].message);
    assert_non_null(policy);
    reposbx_policy_free(policy);
}

/* Exactly one mistake, there, with this in its message. */
static void expect_bad(const char *text, size_t line, size_t column, const char *part)
{
    reposbx_policy *policy = read_text(text, strlen(text));

    reposbx_policy_free(policy);
    if (found.count != 1 || found.list[0].line != line || found.list[0].column != column ||
        strstr(found.list[0].message, part) == NULL) {
        print_error("%s\n", text);
        for (size_t i = 0; i < found.count; i++)
            print_error("-> %zu:%zu %s\n", found.list[i].line, found.list[i].column,
                        found.list[i].message);
        print_error("wanted %zu:%zu %s\n", line, column, part);
    }
    assert_int_equal(found.count, 1);
    assert_int_equal(found.list[0].line, line);
    assert_int_equal(found.list[0].column, column);
    assert_non_null(strstr(found.list[0].message, part));
}

static void smallest_document_has_every_default(void **state)
{
    reposbx_policy *policy = read_text("{\"version\":1}", 13);

    (void)state;
    assert_non_null(policy);
    assert_string_equal(policy->name, "default");
    assert_int_equal(policy->image_count, 0);
    assert_int_equal(policy->network, RSBX_NETWORK_NONE);
    assert_true(policy->read_only_rootfs && policy->require_rootless_runtime &&
                policy->require_source_revision);
    assert_false(policy->allow_unpinned_image || policy->keep_symlinks ||
                 policy->empty_submodules || policy->raw_attributes || policy->any_owner ||
                 policy->require_disk_quota);
    assert_null(policy->seccomp_profile);
    assert_null(policy->runtime);
    assert_int_equal(policy->max_files, 200000);
    assert_int_equal(policy->max_bytes, 4294967296);
    assert_int_equal(policy->max_depth, 128);
    assert_int_equal(policy->workspace_mode, RSBX_WORKSPACE_AUTO);
    assert_int_equal(policy->disk_bytes, 0);
    assert_int_equal(policy->lease_seconds, 7200);
    assert_int_equal(policy->max_commands, 1000);
    assert_int_equal(policy->slots, 1);
    assert_int_equal(policy->audit_bytes, 268435456);
    assert_true(policy->limits.cpus == 2.0 && policy->limits.command_timeout_seconds == 300.0);
    assert_int_equal(policy->limits.memory_bytes, 2147483648);
    assert_int_equal(policy->limits.pids, 256);
    assert_int_equal(policy->limits.output_bytes, 65536);
    assert_int_equal(policy->limits.audit_log_bytes, 8388608);
    assert_int_equal(policy->limits.stdin_bytes, 1048576);
    assert_int_equal(policy->limits.tmpfs_bytes, 268435456);
    assert_int_equal(policy->limits.artifact_bytes, 67108864);
    assert_int_equal(policy->limits.artifact_members, 1000);
    reposbx_policy_free(policy);
}

static void every_value_is_read(void **state)
{
    static const char text[] =
        "{\"version\":1,\"name\":\"n\",\"images\":[\"a\",\"sha256:"
        "0000000000000000000000000000000000000000000000000000000000000000\"],"
        "\"network\":\"bridge\",\"read_only_rootfs\":false,\"require_rootless_runtime\":false,"
        "\"require_source_revision\":false,\"allow_unpinned_image\":true,"
        "\"seccomp_profile\":\"/etc/s.json\",\"runtime\":\"runsc\","
        "\"source\":{\"symlinks\":\"keep\",\"submodules\":\"empty\",\"export_attributes\":\"raw\","
        "\"owner\":\"any\",\"max_files\":1,\"max_bytes\":2,\"max_depth\":3},"
        "\"workspace\":{\"mode\":\"copy\",\"disk_bytes\":1048576,\"require_disk_quota\":true},"
        "\"session\":{\"lease_seconds\":5,\"max_commands\":6,\"slots\":7,\"audit_bytes\":200000},"
        "\"run\":{\"python\":\"a\",\"bash\":null,\"node\":\"n:1\",\"wasm\":\"never\"},"
        "\"limits\":{\"cpus\":1,\"memory_bytes\":6291456,\"pids\":10,"
        "\"command_timeout_seconds\":1.5,\"output_bytes\":11,\"audit_log_bytes\":12,"
        "\"stdin_bytes\":13,\"tmpfs_bytes\":65536,\"artifact_bytes\":15,"
        "\"artifact_members\":16}}";
    reposbx_policy *policy = read_text(text, strlen(text));

    (void)state;
    assert_non_null(policy);
    assert_string_equal(policy->name, "n");
    assert_int_equal(policy->image_count, 2);
    assert_string_equal(policy->images[0], "a");
    assert_int_equal(policy->network, RSBX_NETWORK_BRIDGE);
    assert_false(policy->read_only_rootfs || policy->require_rootless_runtime ||
                 policy->require_source_revision);
    assert_true(policy->allow_unpinned_image && policy->keep_symlinks && policy->empty_submodules &&
                policy->raw_attributes && policy->any_owner && policy->require_disk_quota);
    assert_string_equal(policy->seccomp_profile, "/etc/s.json");
    assert_string_equal(policy->runtime, "runsc");
    assert_int_equal(policy->max_files, 1);
    assert_int_equal(policy->max_bytes, 2);
    assert_int_equal(policy->max_depth, 3);
    assert_int_equal(policy->workspace_mode, RSBX_WORKSPACE_COPY);
    assert_int_equal(policy->disk_bytes, 1048576);
    assert_int_equal(policy->lease_seconds, 5);
    assert_int_equal(policy->max_commands, 6);
    assert_int_equal(policy->slots, 7);
    assert_int_equal(policy->audit_bytes, 200000);
    assert_string_equal(policy->python_image, "a");
    assert_null(policy->bash_image);
    assert_string_equal(policy->node_image, "n:1");
    assert_int_equal(policy->wasm, RSBX_WASM_NEVER);
    assert_true(policy->limits.cpus == 1.0 && policy->limits.command_timeout_seconds == 1.5);
    assert_int_equal(policy->limits.memory_bytes, 6291456);
    assert_int_equal(policy->limits.pids, 10);
    assert_int_equal(policy->limits.output_bytes, 11);
    assert_int_equal(policy->limits.audit_log_bytes, 12);
    assert_int_equal(policy->limits.stdin_bytes, 13);
    assert_int_equal(policy->limits.tmpfs_bytes, 65536);
    assert_int_equal(policy->limits.artifact_bytes, 15);
    assert_int_equal(policy->limits.artifact_members, 16);
    reposbx_policy_free(policy);
}

static void syntax_is_strict(void **state)
{
    (void)state;
    expect_bad("", 1, 1, "");
    expect_bad("{\"version\":1", 1, 12, "");
    expect_bad("{\"version\":1} x", 1, 15, "end of file");
    expect_bad("{\"version\":1}\n{}", 2, 1, "end of file");
    expect_bad("{\n  \"version\": 1,\n}", 3, 1, "");
    expect_bad("{\"version\":1,\"limits\":{\"cpus\":NaN}}", 1, 33, "");
    expect_bad("{\"version\":1,\"limits\":{\"cpus\":Infinity}}", 1, 38, "");
    expect_bad("{\"version\":1,\"limits\":{\"cpus\":1e999}}", 1, 35, "real number overflow");
    expect_bad("{\"version\":1,\"name\":\"a\\u0000b\"}", 1, 30, "");
    expect_bad("[]", 1, 1, "must be an object");
    expect_bad(" \n 7", 2, 2, "must be an object");
    expect_bad("{\"version\":1,\n \"name\":\"a\",\n \"name\":\"b\"}", 3, 2,
               "\"name\" stands twice");
    expect_bad("{\"version\":1,\"limits\":{\"pids\":3, \"pids\":3}}", 1, 34,
               "\"pids\" stands twice");
    expect_bad("{\"version\":1,\"a\\\"\":1,\"a\\\"\":1}", 1, 22, "stands twice");
}

static void version_is_one(void **state)
{
    (void)state;
    expect_bad("{}", 1, 1, "\"version\": 1 is missing");
    expect_bad("{\"version\":2}", 1, 2, "version 2 is not known");
    expect_bad("{\"version\":1.0}", 1, 2, "must be the number 1");
    expect_bad("{\"version\":\"1\"}", 1, 2, "must be the number 1, not text");
    expect_bad("{\"version\":true}", 1, 2, "not true");
    expect_bad("{\"version\":null}", 1, 2, "not null");
}

static void unknown_keys_are_named_with_a_guess(void **state)
{
    (void)state;
    expect_bad("{\"version\":1,\"netwrok\":\"none\"}", 1, 14, "did you mean \"network\"?");
    expect_bad("{\"version\":1,\n  \"limits\": {\n    \"pid\": 3}}", 3, 5,
               "did you mean \"pids\"?");
    expect_bad("{\"version\":1,\"limit\":{}}", 1, 14, "did you mean \"limits\"?");
    expect_bad("{\"version\":1,\"pids\":3}", 1, 14, "\"pids\" belongs into \"limits\"");
    expect_bad("{\"version\":1,\"limits\":{\"network\":\"none\"}}", 1, 24, "to the top level");
    expect_bad("{\"version\":1,\"zzz\":3}", 1, 14, "unknown key \"zzz\"");
    expect_bad("{\"version\":1,\"a.b\":3}", 1, 14, "unknown key \"a.b\"");
    expect_bad("{\"version\":1,\"\":3}", 1, 14, "unknown key \"\"");
    expect_bad("{\"version\":1,\"limits\":{\"limits\":{}}}", 1, 24, "unknown key");
    expect_bad("{\"version\":1,\"x\\u001b[31m\":3}", 1, 14, "unknown key \"x\\x1b[31m\"");
    assert_null(strstr(found.list[0].message, "did you mean"));
}

/* A field with each value that it must refuse. */
static void refuse_values(const char *section, const char *key, const char *const *values)
{
    for (size_t i = 0; values[i] != NULL; i++) {
        char text[512], where[128];

        (void)snprintf(where, sizeof where, "%s%s%s", section, section[0] != '\0' ? "." : "", key);
        if (section[0] != '\0')
            (void)snprintf(text, sizeof text, "{\"version\":1,\"%s\":{\n\"%s\":%s}}", section, key,
                           values[i]);
        else
            (void)snprintf(text, sizeof text, "{\"version\":1,\n\"%s\":%s}", key, values[i]);
        expect_bad(text, 2, 1, where);
    }
}

static void numbers_are_numbers(void **state)
{
    static const char *const counts[] = { "true", "false", "null", "\"5\"", "[]", "{}", "1.5",
                                          "100.0", "1e3", "0", "-1", "9007199254740992",
                                          "9223372036854775807", NULL };
    static const char *const reals[] = { "true", "null", "\"5\"", "[]", "{}", "0", "0.0", "-0.0",
                                         "-1", "-0.5", "1e300", "1e-300", NULL };

    (void)state;
    for (size_t i = 0; i < RSBX_FIELD_COUNT_ALL; i++) {
        const struct rsbx_field *field = &rsbx_policy_fields[i];

        if (field->kind == RSBX_FIELD_COUNT || field->kind == RSBX_FIELD_COUNT32)
            refuse_values(field->section, field->key, counts);
        if (field->kind == RSBX_FIELD_NUMBER)
            refuse_values(field->section, field->key, reals);
    }
    refuse_values("workspace", "disk_bytes",
                  (const char *const[]){ "true", "0", "-1", "1e9", "\"1\"", "1048575", NULL });
    expect_good("{\"version\":1,\"workspace\":{\"disk_bytes\":null}}");
    expect_good("{\"version\":1,\"limits\":{\"cpus\":0.5,\"command_timeout_seconds\":10}}");
    refuse_values("limits", "memory_bytes", (const char *const[]){ "6291455", NULL });
    refuse_values("limits", "pids", (const char *const[]){ "1", NULL });
    refuse_values("limits", "cpus", (const char *const[]){ "0.009", NULL });
    refuse_values("source", "max_depth", (const char *const[]){ "257", "4294967297", NULL });
    refuse_values("source", "max_files", (const char *const[]){ "500001", NULL });
    expect_bad("{\"version\":1,\"limits\":{\"pids\":9223372036854775808}}", 1, 49, "too big");
}

static void flags_words_and_texts(void **state)
{
    static const char *const flags[] = { "1", "0", "\"true\"", "null", "[]", NULL };
    static const char *const words[] = { "\"Keep\"", "\"\"", "true", "null", "1",
                                         "[\"keep\"]", NULL };
    static const char *const names[] = { "null", "1", "\"\"", "\"-a\"", "\"a b\"", "\"a/b\"",
                                         "\"\\u00e9\"", NULL };

    (void)state;
    for (size_t i = 0; i < RSBX_FIELD_COUNT_ALL; i++) {
        const struct rsbx_field *field = &rsbx_policy_fields[i];

        if (field->kind == RSBX_FIELD_FLAG)
            refuse_values(field->section, field->key, flags);
        if (field->kind == RSBX_FIELD_SWITCH || field->kind == RSBX_FIELD_CHOICE)
            refuse_values(field->section, field->key, words);
    }
    refuse_values("", "name", names);
    refuse_values("", "runtime", &names[1]);
    refuse_values("", "seccomp_profile",
                  (const char *const[]){ "\"\"", "\"unconfined\"", "\"a/b\"", "true", "1", NULL });
    expect_good("{\"version\":1,\"seccomp_profile\":null,\"runtime\":null}");
    expect_bad("{\"version\":1,\"workspace\":{\"mode\":\"overlai\"}}", 1, 27,
               "\"auto\", \"overlay\" or \"copy\", not \"overlai\"");
    for (size_t i = 0; i < RSBX_SECTION_COUNT; i++)
        refuse_values("", rsbx_policy_sections[i],
                      (const char *const[]){ "null", "[]", "1", "\"\"", NULL });
}

static void images_are_references(void **state)
{
    static const char *const bad[] = {
        "1", "null", "\"\"", "\"a b\"", "\"-a\"", "\"a@sha256:12\"", "\"sha256:abc\"",
        "\"a\\n\"", "\"a@md5:00\"", "\"\\u00e9\"",
        "\"a@sha256:00000000000000000000000000000000000000000000000000000000000000000\"",
        "\"a@sha256:A000000000000000000000000000000000000000000000000000000000000000\"", NULL
    };

    (void)state;
    for (size_t i = 0; bad[i] != NULL; i++) {
        char text[256];

        (void)snprintf(text, sizeof text, "{\"version\":1,\"images\":[\"ok\",\n %s]}", bad[i]);
        expect_bad(text, 2, 2, "images[1]");
    }
    expect_bad("{\"version\":1,\"images\":\"a\"}", 1, 14, "a list");
    expect_bad("{\"version\":1,\"images\":{}}", 1, 14, "a list");
    expect_bad("{\"version\":1,\"images\":[\"a\", \"b\", \"a\"]}", 1, 34, "on the list already");
    expect_good("{\"version\":1,\"images\":[]}");
    expect_good("{\"version\":1,\"images\":[\"localhost:5000/a/b:1.2@sha256:"
                "0000000000000000000000000000000000000000000000000000000000000000\"]}");
}

static void pairs_are_checked(void **state)
{
    (void)state;
    expect_bad("{\"version\":1,\"limits\":{\"output_bytes\":8388609}}", 1, 24, "may not exceed");
    expect_bad("{\"version\":1,\"limits\":{\"audit_log_bytes\":65535}}", 1, 24, "may not exceed");
    expect_bad("{\"version\":1,\"limits\":{\"audit_log_bytes\":10,\"output_bytes\":11}}", 1, 45,
               "limits.output_bytes (11)");
    expect_good("{\"version\":1,\"limits\":{\"audit_log_bytes\":10,\"output_bytes\":10}}");
    expect_bad("{\"version\":1,\"workspace\":{\"require_disk_quota\":true}}", 1, 27,
               "needs a size");
    /* A value that is wrong in itself is said once. */
    expect_bad("{\"version\":1,\"limits\":{\"audit_log_bytes\":0,\"output_bytes\":9000000}}", 1, 24,
               "limits.audit_log_bytes");
}

static void every_mistake_is_told_in_order(void **state)
{
    static const char text[] = "{\n"
                               "  \"nam\": \"x\",\n"
                               "  \"network\": \"host\",\n"
                               "  \"limits\": { \"cpus\": true, \"pids\": 0,\n"
                               "              \"output_bytes\": 99999999 },\n"
                               "  \"images\": [\"a\", 3, \"a\"]\n"
                               "}\n";
    static const size_t places[][2] = { { 1, 1 }, { 2, 3 }, { 3, 3 }, { 4, 15 },
                                        { 4, 29 }, { 5, 15 }, { 6, 19 }, { 6, 22 } };

    (void)state;
    assert_null(read_text(text, strlen(text)));
    assert_int_equal(found.count, 8);
    for (size_t i = 0; i < 8; i++) {
        assert_int_equal(found.list[i].line, places[i][0]);
        assert_int_equal(found.list[i].column, places[i][1]);
    }
}

static void many_mistakes_stay_bounded(void **state)
{
    struct rsbx_buf text = RSBX_BUF_INIT(RSBX_MAX_POLICY_BYTES);
    static char large[RSBX_MAX_POLICY_BYTES + 1];

    (void)state;
    assert_int_equal(rsbx_buf_text(&text, "{\"version\":1", NULL), 0);
    for (int i = 0; i < 50000; i++)
        assert_int_equal(rsbx_buf_format(&text, NULL, ",\"k%d\":0", i), 0);
    assert_int_equal(rsbx_buf_text(&text, "}", NULL), 0);
    assert_null(read_text(text.data, text.length));
    assert_int_equal(found.count, RSBX_MAX_PROBLEMS + 1);
    assert_string_equal(found.list[RSBX_MAX_PROBLEMS].message, "and 49900 more");
    rsbx_buf_dispose(&text);

    memset(large, ' ', sizeof large);
    memcpy(large, "{\"version\":1}", 13);
    assert_null(read_text(large, sizeof large));
    assert_int_equal(found.count, 1);
    assert_int_equal(found.list[0].line, 0);
    assert_non_null(strstr(found.list[0].message, "longer than"));
    reposbx_policy_free(read_text(large, sizeof large - 1));
    assert_int_equal(found.count, 0);
}

static void long_texts_do_not_spill(void **state)
{
    static char text[40000];
    int length;

    (void)state;
    length = snprintf(text, sizeof text, "{\"version\":1,\"%030000d\":1}", 7);
    expect_bad(text, 1, 14, "unknown key");
    length = snprintf(text, sizeof text, "{\"version\":1,\"images\":[\"%030000d\"]}", 7);
    assert_true(length > 30000);
    expect_bad(text, 1, 24, "longer than 512");
}

/* Every cut of a right document is a mistake with a place inside, never a policy or a crash. */
static void every_cut_is_refused(void **state)
{
    static const char text[] = "{\"version\":1,\"images\":[\"a\",\"b\"],\"limits\":{\"cpus\":1.5,"
                               "\"pids\":10},\"runtime\":null}";

    (void)state;
    for (size_t length = 0; length < strlen(text); length++) {
        assert_null(read_text(text, length));
        assert_int_equal(found.count, 1);
        assert_int_equal(found.list[0].line, 1);
        assert_in_range(found.list[0].column, 1, length + 1);
    }
    expect_good(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(smallest_document_has_every_default),
        cmocka_unit_test(every_value_is_read),
        cmocka_unit_test(syntax_is_strict),
        cmocka_unit_test(version_is_one),
        cmocka_unit_test(unknown_keys_are_named_with_a_guess),
        cmocka_unit_test(numbers_are_numbers),
        cmocka_unit_test(flags_words_and_texts),
        cmocka_unit_test(images_are_references),
        cmocka_unit_test(pairs_are_checked),
        cmocka_unit_test(every_mistake_is_told_in_order),
        cmocka_unit_test(many_mistakes_stay_bounded),
        cmocka_unit_test(long_texts_do_not_spill),
        cmocka_unit_test(every_cut_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
