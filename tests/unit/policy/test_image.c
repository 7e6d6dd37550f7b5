/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "policy/policy.h"

#include "base/banned.h"

#define HEX_A "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define HEX_B "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
#define DIGEST_A "sha256:" HEX_A
#define DIGEST_B "sha256:" HEX_B

static reposbx_error err;

/* A policy with one image on its list. */
static reposbx_policy *policy_for(const char *image, bool unpinned)
{
    reposbx_policy *policy = NULL;
    char text[1024];

    (void)snprintf(text, sizeof text,
                   "{\"version\":1,\"name\":\"p\",\"images\":[\"%s\"],\"allow_unpinned_image\":%s}",
                   image, unpinned ? "true" : "false");
    assert_int_equal(reposbx_policy_parse(&policy, text, strlen(text), &err), 0);
    return policy;
}

static void references_must_be_on_the_list(void **state)
{
    static const char *const bad[] = { "",           "busybox", "busybox@" DIGEST_B, DIGEST_A,
                                       "busybox@" DIGEST_A " ", "a b", "busybox@" DIGEST_A "\n",
                                       "../x",       "-x",      "BUSYBOX@" DIGEST_A };
    reposbx_policy *policy = policy_for("busybox@" DIGEST_A, false);
    reposbx_policy *none = NULL, *shipped = NULL;

    (void)state;
    assert_int_equal(rsbx_check_image_reference(policy, "busybox@" DIGEST_A, &err), 0);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(rsbx_check_image_reference(policy, bad[i], &err), REPOSBX_EPOLICY);
        assert_non_null(strstr(err.message, "image"));
    }
    assert_int_equal(rsbx_check_image_reference(policy, NULL, &err), REPOSBX_EPOLICY);
    assert_int_equal(reposbx_policy_default(&none, NULL), 0);
    assert_int_equal(rsbx_check_image_reference(none, "busybox@" DIGEST_A, &err), REPOSBX_EPOLICY);
    assert_non_null(strstr(err.hint, "empty"));
    assert_non_null(strstr(err.hint, "policy show issue-bot"));
    assert_int_equal(reposbx_policy_load(&shipped, "ci-validator", &err), 0);
    assert_int_equal(rsbx_check_image_reference(shipped, "busybox@" DIGEST_A, &err), REPOSBX_EPOLICY);
    assert_non_null(strstr(err.hint, "policy show ci-validator"));
    reposbx_policy_free(shipped);
    reposbx_policy_free(none);
    reposbx_policy_free(policy);
}

static void pins_are_demanded(void **state)
{
    static const char *const pinned[] = { "busybox@" DIGEST_A, DIGEST_A, "a:1@" DIGEST_A,
                                          "localhost:5000/a/b:1@" DIGEST_A };
    static const char *const loose[] = { "busybox", "busybox:1.36", "localhost:5000/a", HEX_A,
                                         "sha256" };

    (void)state;
    for (size_t i = 0; i < sizeof pinned / sizeof pinned[0]; i++) {
        reposbx_policy *policy = policy_for(pinned[i], false);

        assert_int_equal(rsbx_check_image_reference(policy, pinned[i], &err), 0);
        reposbx_policy_free(policy);
    }
    for (size_t i = 0; i < sizeof loose / sizeof loose[0]; i++) {
        reposbx_policy *policy = policy_for(loose[i], false);

        assert_int_equal(rsbx_check_image_reference(policy, loose[i], &err), REPOSBX_EPOLICY);
        assert_non_null(strstr(err.message, "not pinned"));
        reposbx_policy_free(policy);
        policy = policy_for(loose[i], true);
        assert_int_equal(rsbx_check_image_reference(policy, loose[i], &err), 0);
        assert_int_equal(rsbx_check_image_reference(policy, "other", &err), REPOSBX_EPOLICY);
        reposbx_policy_free(policy);
    }
}

/* What the engine says; the lists are borrowed from the test. */
static struct rsbx_image_facts facts_with(char **digests, size_t count)
{
    struct rsbx_image_facts facts = { .id = DIGEST_A,
                                      .os = "linux",
                                      .architecture = "amd64",
                                      .repo_digests = digests,
                                      .repo_digest_count = count };

    return facts;
}

static int check(const char *reference, const char *platform, const struct rsbx_image_facts *facts)
{
    reposbx_policy *policy = policy_for(reference, true);
    int rc = rsbx_check_image(policy, reference, platform, facts, &err);

    reposbx_policy_free(policy);
    return rc;
}

static void pins_are_compared(void **state)
{
    static const char *const pairs[][2] = {
        { "busybox@" DIGEST_B, "busybox@" DIGEST_B },
        { "busybox:1.36@" DIGEST_B, "busybox@" DIGEST_B },
        { "docker.io/library/busybox@" DIGEST_B, "busybox@" DIGEST_B },
        { "busybox@" DIGEST_B, "docker.io/library/busybox@" DIGEST_B },
        { "docker.io/busybox@" DIGEST_B, "busybox@" DIGEST_B },
        { "index.docker.io/library/busybox@" DIGEST_B, "busybox@" DIGEST_B },
        { "library/busybox@" DIGEST_B, "busybox@" DIGEST_B },
        { "me/tool@" DIGEST_B, "docker.io/me/tool@" DIGEST_B },
        { "localhost:5000/a/b:2@" DIGEST_B, "localhost:5000/a/b@" DIGEST_B },
        { "localhost/a@" DIGEST_B, "localhost/a@" DIGEST_B },
    };
    static const char *const others[][2] = {
        { "busybox@" DIGEST_B, "busybox@" DIGEST_A },
        { "busybox@" DIGEST_B, "alpine@" DIGEST_B },
        { "busybox@" DIGEST_B, "me/busybox@" DIGEST_B },
        { "busybox@" DIGEST_B, "localhost:5000/busybox@" DIGEST_B },
        { "a.example/busybox@" DIGEST_B, "b.example/busybox@" DIGEST_B },
        { "localhost:5000/a@" DIGEST_B, "localhost:5001/a@" DIGEST_B },
        { "localhost/a@" DIGEST_B, "docker.io/localhost/a@" DIGEST_B },
        { "busybox@" DIGEST_B, "busybox" },
        { "busybox@" DIGEST_B, "<none>@<none>" },
    };
    struct rsbx_image_facts facts = facts_with(NULL, 0);

    (void)state;
    assert_int_equal(check(DIGEST_A, "linux/amd64", &facts), 0);
    assert_int_equal(check(DIGEST_B, "linux/amd64", &facts), REPOSBX_EPOLICY);
    assert_int_equal(check("busybox@" DIGEST_A, "linux/amd64", &facts), REPOSBX_EPOLICY);
    assert_int_equal(check("busybox", "linux/amd64", &facts), 0);
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        char other[] = "x@" DIGEST_A, found[256];
        char *digests[] = { other, found };

        (void)snprintf(found, sizeof found, "%s", pairs[i][1]);
        facts = facts_with(digests, 2);
        if (check(pairs[i][0], "linux/amd64", &facts) != 0)
            print_error("%s %s: %s\n", pairs[i][0], found, err.message);
        assert_int_equal(check(pairs[i][0], "linux/amd64", &facts), 0);
    }
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        char found[256];
        char *digests[] = { found };

        (void)snprintf(found, sizeof found, "%s", others[i][1]);
        facts = facts_with(digests, 1);
        assert_int_equal(check(others[i][0], "linux/amd64", &facts), REPOSBX_EPOLICY);
    }
}

static void platforms_are_compared(void **state)
{
    static const struct {
        const char *wanted, *architecture, *variant;
        bool fits;
    } cases[] = {
        { "linux/amd64", "amd64", "", true },      { "linux/amd64", "arm64", "", false },
        { "linux/amd64", "amd64", "v2", false },   { "linux/amd64/v2", "amd64", "", false },
        { "linux/amd64/v2", "amd64", "v2", true }, { "linux/arm64", "arm64", "v8", true },
        { "linux/arm64", "arm64", "", true },      { "linux/arm64/v8", "arm64", "", true },
        { "linux/arm64", "arm64", "v9", false },   { "linux/arm/v7", "arm", "v6", false },
        { "linux/arm/v7", "arm", "v7", true },     { "windows/amd64", "amd64", "", false },
        { "linux/amd6", "amd64", "", false },      { "linux/amd64", "amd6", "", false },
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct rsbx_image_facts facts = facts_with(NULL, 0);

        (void)snprintf(facts.architecture, sizeof facts.architecture, "%s", cases[i].architecture);
        (void)snprintf(facts.variant, sizeof facts.variant, "%s", cases[i].variant);
        assert_int_equal(check(DIGEST_A, cases[i].wanted, &facts),
                         cases[i].fits ? 0 : REPOSBX_EPOLICY);
    }
}

static void volumes_and_secrets_are_refused(void **state)
{
    char path[] = "PATH=/bin", token[] = "NPM_TOKEN=s3cr3t", bare[] = "AWS_X";
    char *good[] = { path }, *bad[] = { path, token }, *odd[] = { bare };
    struct rsbx_image_facts facts = facts_with(NULL, 0);

    (void)state;
    facts.env = good;
    facts.env_count = 1;
    assert_int_equal(check(DIGEST_A, "linux/amd64", &facts), 0);
    facts.volume_count = 1;
    assert_int_equal(check(DIGEST_A, "linux/amd64", &facts), REPOSBX_EPOLICY);
    assert_non_null(strstr(err.message, "VOLUME"));
    facts.volume_count = 0;
    facts.env = bad;
    facts.env_count = 2;
    assert_int_equal(check(DIGEST_A, "linux/amd64", &facts), REPOSBX_EPOLICY);
    assert_non_null(strstr(err.message, "NPM_TOKEN"));
    assert_null(strstr(err.message, "s3cr3t"));
    facts.env = odd;
    facts.env_count = 1;
    assert_int_equal(check(DIGEST_A, "linux/amd64", &facts), REPOSBX_EPOLICY);
}

static void facts_are_released(void **state)
{
    struct rsbx_image_facts facts = { .repo_digest_count = 1, .env_count = 1 };

    (void)state;
    facts.repo_digests = calloc(1, sizeof *facts.repo_digests);
    facts.env = calloc(1, sizeof *facts.env);
    assert_true(facts.repo_digests != NULL && facts.env != NULL);
    facts.repo_digests[0] = strdup("a");
    facts.env[0] = strdup("b");
    rsbx_image_facts_dispose(&facts);
    rsbx_image_facts_dispose(&facts);
    assert_null(facts.env);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(references_must_be_on_the_list),
        cmocka_unit_test(pins_are_demanded),
        cmocka_unit_test(pins_are_compared),
        cmocka_unit_test(platforms_are_compared),
        cmocka_unit_test(volumes_and_secrets_are_refused),
        cmocka_unit_test(facts_are_released),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
