/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/fd.h"
#include "base/limits.h"
#include "codec/sha256.h"
#include "policy/policy.h"

#include "base/banned.h"

/* A folder of this test's own; it is also where bare names are looked for. */
static char folder[128];

static int setup(void **state)
{
    (void)state;
    (void)snprintf(folder, sizeof folder, "/tmp/rsbx-policy-XXXXXX");
    return mkdtemp(folder) != NULL && chdir(folder) == 0 ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    return chdir("/") == 0 ? rsbx_remove_tree_at(AT_FDCWD, folder, NULL) : -1;
}

static void store(const char *name, const char *text)
{
    int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    assert_true(fd >= 0);
    assert_int_equal(rsbx_write_all(fd, text, strlen(text)), 0);
    assert_int_equal(close(fd), 0);
}

static reposbx_policy *load(const char *name)
{
    reposbx_policy *policy = NULL;
    reposbx_error err = REPOSBX_ERROR_INIT;
    int rc = reposbx_policy_load(&policy, name, &err);

    if (rc != 0)
        print_error("%s: %s\n", name, err.message);
    assert_int_equal(rc, 0);
    return policy;
}

static char *text_of(const reposbx_policy *policy, int pretty)
{
    char *text = NULL;

    assert_int_equal(reposbx_policy_json(&text, policy, pretty, NULL), 0);
    return text;
}

static void default_document_is_the_documented_one(void **state)
{
    static const char wanted[] =
        "{\"version\":1,\"name\":\"default\",\"images\":[],\"network\":\"none\","
        "\"read_only_rootfs\":true,\"require_rootless_runtime\":true,"
        "\"require_source_revision\":true,\"allow_unpinned_image\":false,"
        "\"seccomp_profile\":null,\"runtime\":null,"
        "\"source\":{\"symlinks\":\"refuse\",\"submodules\":\"refuse\","
        "\"export_attributes\":\"refuse\",\"owner\":\"caller\",\"max_files\":200000,"
        "\"max_bytes\":4294967296,\"max_depth\":128},"
        "\"workspace\":{\"mode\":\"auto\",\"disk_bytes\":null,\"require_disk_quota\":false},"
        "\"session\":{\"lease_seconds\":7200,\"max_commands\":1000,\"slots\":1,"
        "\"audit_bytes\":268435456},"
        "\"run\":{\"python\":null,\"bash\":null,\"node\":null,\"wasm\":\"prefer\"},"
        "\"limits\":{\"cpus\":2.0,\"memory_bytes\":2147483648,\"pids\":256,"
        "\"command_timeout_seconds\":300.0,\"output_bytes\":65536,\"audit_log_bytes\":8388608,"
        "\"stdin_bytes\":1048576,\"tmpfs_bytes\":268435456,\"artifact_bytes\":67108864,"
        "\"artifact_members\":1000}}";
    reposbx_policy *policy = NULL;
    char *text;

    (void)state;
    assert_int_equal(reposbx_policy_default(&policy, NULL), 0);
    assert_string_equal(reposbx_policy_name(policy), "default");
    assert_int_equal(reposbx_policy_limits(policy)->pids, 256);
    text = text_of(policy, 0);
    assert_string_equal(text, wanted);
    free(text);
    reposbx_policy_free(policy);
}

/* What is printed is a document again, and the same one. */
static void printed_documents_are_read_back(void **state)
{
    static const char given[] =
        "{\"version\":1,\"name\":\"n\",\"images\":[\"a\",\"b\"],\"network\":\"bridge\","
        "\"seccomp_profile\":\"/a\\u00e9\",\"runtime\":\"runsc\",\"source\":{\"owner\":\"any\"},"
        "\"workspace\":{\"mode\":\"overlay\",\"disk_bytes\":9007199254740991},"
        "\"limits\":{\"cpus\":0.1,\"command_timeout_seconds\":0.30000000000000004}}";
    reposbx_policy *policy = NULL, *again = NULL;
    char first[65], second[65];

    (void)state;
    assert_int_equal(reposbx_policy_parse(&policy, given, strlen(given), NULL), 0);
    assert_int_equal(rsbx_policy_digest(first, policy, NULL), 0);
    for (int pretty = 0; pretty < 2; pretty++) {
        char *text = text_of(policy, pretty);

        assert_true((strchr(text, '\n') != NULL) == (pretty != 0));
        assert_int_equal(reposbx_policy_parse(&again, text, strlen(text), NULL), 0);
        assert_int_equal(rsbx_policy_digest(second, again, NULL), 0);
        assert_string_equal(first, second);
        assert_true(again->limits.cpus == policy->limits.cpus);
        assert_true(again->limits.command_timeout_seconds ==
                    policy->limits.command_timeout_seconds);
        reposbx_policy_free(again);
        free(text);
    }
    reposbx_policy_free(policy);
}

static void short_numbers_are_printed_short(void **state)
{
    static const char given[] = "{\"version\":1,\"limits\":{\"cpus\":0.1}}";
    reposbx_policy *policy = NULL;
    char *text;

    (void)state;
    assert_int_equal(reposbx_policy_parse(&policy, given, strlen(given), NULL), 0);
    text = text_of(policy, 1);
    assert_non_null(strstr(text, "\"cpus\": 0.1,"));
    free(text);
    reposbx_policy_free(policy);
}

static void digest_follows_the_content(void **state)
{
    static const char *const same[] = { "{\"version\":1,\"limits\":{\"pids\":256}}",
                                        " { \"limits\" : {}, \"version\" : 1 } " };
    static const char other[] = "{\"version\":1,\"limits\":{\"pids\":255}}";
    char first[65], digest[65];
    reposbx_policy *policy = NULL;

    (void)state;
    assert_int_equal(reposbx_policy_default(&policy, NULL), 0);
    assert_int_equal(rsbx_policy_digest(first, policy, NULL), 0);
    reposbx_policy_free(policy);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(reposbx_policy_parse(&policy, same[i], strlen(same[i]), NULL), 0);
        assert_int_equal(rsbx_policy_digest(digest, policy, NULL), 0);
        assert_string_equal(first, digest);
        reposbx_policy_free(policy);
    }
    assert_int_equal(reposbx_policy_parse(&policy, other, strlen(other), NULL), 0);
    assert_int_equal(rsbx_policy_digest(digest, policy, NULL), 0);
    assert_string_not_equal(first, digest);
    reposbx_policy_free(policy);
}

/* The carried texts are the files, and each says every value in words. */
static void shipped_policies_are_whole(void **state)
{
    const char *const *names = reposbx_policy_names();
    size_t count = 0;

    (void)state;
    for (; names[count] != NULL; count++) {
        struct rsbx_buf file = RSBX_BUF_INIT(RSBX_MAX_POLICY_BYTES);
        reposbx_policy *policy = load(names[count]), *from_file;
        char path[512], *pretty, first[65], second[65];
        json_t *given, *full;

        assert_string_equal(reposbx_policy_name(policy), names[count]);
        (void)snprintf(path, sizeof path, "%s/%s.json", RSBX_POLICIES, names[count]);
        from_file = load(path);
        assert_int_equal(rsbx_policy_digest(first, policy, NULL), 0);
        assert_int_equal(rsbx_policy_digest(second, from_file, NULL), 0);
        assert_string_equal(first, second);
        assert_int_equal(rsbx_read_file_at(&file, AT_FDCWD, path, NULL), 0);
        pretty = text_of(policy, 1);
        given = json_loadb(file.data, file.length, JSON_REJECT_DUPLICATES, NULL);
        full = json_loads(pretty, 0, NULL);
        assert_true(json_equal(given, full));
        json_decref(given);
        json_decref(full);
        free(pretty);
        rsbx_buf_dispose(&file);
        reposbx_policy_free(from_file);

        assert_int_equal(policy->network, RSBX_NETWORK_NONE);
        assert_true(policy->read_only_rootfs);
        assert_int_equal(policy->image_count, 0);
        assert_true(policy->require_rootless_runtime == (strcmp(names[count], "trusted-dev") != 0));
        assert_true(policy->allow_unpinned_image == (strcmp(names[count], "trusted-dev") == 0));
        reposbx_policy_free(policy);
    }
    assert_int_equal(count, 4);
}

static void names_and_files(void **state)
{
    reposbx_policy *policy = NULL;
    reposbx_error err = REPOSBX_ERROR_INIT;

    (void)state;
    assert_int_equal(reposbx_policy_load(&policy, "nothing", &err), REPOSBX_ENOTFOUND);
    assert_non_null(strstr(err.hint, "trusted-dev"));
    assert_int_equal(reposbx_policy_load(&policy, "./issue-bot", &err), REPOSBX_ENOTFOUND);
    assert_int_equal(reposbx_policy_load(&policy, "issue-bot/x", &err), REPOSBX_ENOTFOUND);
    assert_int_equal(reposbx_policy_load(&policy, "", &err), REPOSBX_EINVALID);
    assert_int_equal(reposbx_policy_load(&policy, NULL, &err), REPOSBX_EINVALID);
    assert_int_equal(reposbx_policy_load(&policy, "/tmp", &err), REPOSBX_EIO);
    assert_int_equal(mkfifo("fifo", 0600), 0);
    assert_int_equal(reposbx_policy_load(&policy, "fifo", &err), REPOSBX_EIO);
    assert_null(policy);

    /* A file of that name goes first; a link to a file is a file. */
    store("issue-bot", "{\"version\":1,\"name\":\"mine\"}");
    policy = load("issue-bot");
    assert_string_equal(reposbx_policy_name(policy), "mine");
    reposbx_policy_free(policy);
    assert_int_equal(symlink("issue-bot", "link"), 0);
    policy = load("./link");
    assert_string_equal(reposbx_policy_name(policy), "mine");
    reposbx_policy_free(policy);
}

static void first_mistake_is_the_error(void **state)
{
    reposbx_policy *policy = NULL;
    reposbx_error err = REPOSBX_ERROR_INIT;

    (void)state;
    store("p.json", "{\"version\":1,\n \"zz\":1,\n \"yy\":2}");
    assert_int_equal(reposbx_policy_load(&policy, "p.json", &err), REPOSBX_EMALFORMED);
    assert_string_equal(err.message, "p.json: line 2 column 2: unknown key \"zz\"");
    assert_non_null(strstr(err.hint, "1 more"));
    assert_int_equal(reposbx_policy_parse(&policy, "{}", 2, &err), REPOSBX_EMALFORMED);
    assert_string_equal(err.message, "policy: line 1 column 1: \"version\": 1 is missing");
    assert_int_equal(reposbx_policy_parse(&policy, NULL, 0, &err), REPOSBX_EMALFORMED);
    assert_null(policy);
}

static void check_tells_all(void **state)
{
    reposbx_policy_problem *problems = NULL;
    reposbx_error err = REPOSBX_ERROR_INIT;
    size_t count = 99;

    (void)state;
    store("p.json", "{\"version\":1,\n \"zz\":1,\n \"limits\":{\"pids\":0}}");
    assert_int_equal(reposbx_policy_check(&problems, &count, "p.json", &err), 0);
    assert_int_equal(count, 2);
    assert_int_equal(problems[0].line, 2);
    assert_int_equal(problems[1].line, 3);
    assert_int_equal(problems[1].column, 12);
    free(problems);
    store("p.json", "{\"version\":1}");
    assert_int_equal(reposbx_policy_check(&problems, &count, "p.json", &err), 0);
    assert_int_equal(count, 0);
    assert_null(problems);
    assert_int_equal(reposbx_policy_check(&problems, &count, "none.json", &err), REPOSBX_ENOTFOUND);
    store("p.json", "{\"version\":1,}");
    assert_int_equal(reposbx_policy_check(&problems, &count, "p.json", &err), 0);
    assert_int_equal(count, 1);
    assert_int_equal(problems[0].column, 14);
    free(problems);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(default_document_is_the_documented_one),
        TEST(printed_documents_are_read_back),
        TEST(short_numbers_are_printed_short),
        TEST(digest_follows_the_content),
        TEST(shipped_policies_are_whole),
        TEST(names_and_files),
        TEST(first_mistake_is_the_error),
        TEST(check_tells_all),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
