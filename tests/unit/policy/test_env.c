/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <cmocka.h>

#include "base/limits.h"
#include "policy/policy.h"

#include "base/banned.h"

#define VALUE "s3cr3t-value-that-must-not-be-seen"

static reposbx_error err;

static int check_one(const char *entry)
{
    err = (reposbx_error)REPOSBX_ERROR_INIT;
    return rsbx_check_env(&entry, 1, &err);
}

static void ordinary_names_are_allowed(void **state)
{
    static const char *const good[] = {
        "A=",        "_=x",         "a1_B=c=d",   "PATH=/x",       "HOME=/h",  "TMPDIR=/t",
        "CI=0",      "LANG=C",      "PYTHONPATH=/p", "LD_DEBUG=1", "DOCKER=1", "KUBECONFIG=/k",
        "AWS_REGION=x", "GIT_DIR=x", "PROXY=1",   "HTTP_PROXYX=1", "PASS=1",   "KEY=1",
        "X=\xff\n",
    };

    (void)state;
    assert_int_equal(rsbx_check_env(NULL, 0, &err), 0);
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++)
        assert_int_equal(check_one(good[i]), 0);
    assert_int_equal(rsbx_check_env(good, sizeof good / sizeof good[0], &err), 0);
}

static void malformed_entries_are_refused_unseen(void **state)
{
    static const char *const bad[] = { "",       VALUE,        "=" VALUE,     "1A=" VALUE,
                                       "A-B=" VALUE, "A B=" VALUE, "\xc3\xa9=" VALUE, VALUE "==" };

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(check_one(bad[i]), REPOSBX_EPOLICY);
        assert_null(strstr(err.message, "s3cr3t"));
        assert_null(strstr(err.hint, "s3cr3t"));
        assert_non_null(strstr(err.message, "env"));
        assert_non_null(strstr(err.message, "1"));
    }
    assert_int_equal(check_one(NULL), REPOSBX_EINVALID);
}

static void secret_names_are_refused_in_any_case(void **state)
{
    static const char *const names[] = {
        "DOCKER_HOST", "DOCKER_CONFIG", "DOCKER_CONTEXT", "GIT_ASKPASS", "SSH_AUTH_SOCK",
        "LD_PRELOAD", "LD_LIBRARY_PATH", "HTTP_PROXY", "HTTPS_PROXY", "FTP_PROXY", "ALL_PROXY",
        "NO_PROXY", "http_proxy", "https_proxy", "ftp_proxy", "all_proxy", "no_proxy", "TOKEN",
        "GITHUB_TOKEN", "my_token_1", "TOKENS", "Secret", "X_SECRET_Y", "PASSWORD", "DB_PASSWORD",
        "PASSWD", "CREDENTIAL", "CREDENTIALS_FILE", "SSH_PRIVATE_KEY", "API_KEY", "OPENAI_API_KEY",
        "AUTH", "GIT_AUTHOR_NAME", "OAUTH", "COOKIE", "cookies",
    };

    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char entry[256];

        (void)snprintf(entry, sizeof entry, "%s=" VALUE, names[i]);
        assert_int_equal(check_one(entry), REPOSBX_EPOLICY);
        assert_non_null(strstr(err.message, names[i]));
        assert_null(strstr(err.message, "s3cr3t"));
        assert_true(rsbx_env_name_refused(names[i], strlen(names[i])));
        for (char *c = entry; *c != '='; c++)
            *c = (char)(*c >= 'A' && *c <= 'Z' ? *c + 32 : *c >= 'a' && *c <= 'z' ? *c - 32 : *c);
        assert_int_equal(check_one(entry), REPOSBX_EPOLICY);
    }
    /* Only the name counts, and only its own bytes. */
    assert_int_equal(check_one("A=TOKEN"), 0);
    assert_false(rsbx_env_name_refused("TOKEN", 4));
    assert_false(rsbx_env_name_refused("LD_PRELOADED", 12));
    assert_true(rsbx_env_name_refused("LD_PRELOADED", 10));
}

static void duplicates_and_sizes(void **state)
{
    const char *twice[] = { "A=1", "AB=2", "A=3" };
    const char *cases[] = { "a=1", "A=1" };
    static char large[RSBX_MAX_ARG_BYTES + 2];
    const char *many[RSBX_MAX_ENV_COUNT + 1];
    static char names[RSBX_MAX_ENV_COUNT + 1][16];
    static char piece[10][RSBX_MAX_ARG_BYTES + 1];
    const char *heavy[10];

    (void)state;
    assert_int_equal(rsbx_check_env(twice, 3, &err), REPOSBX_EPOLICY);
    assert_string_equal(err.message, "env: A is given twice");
    assert_int_equal(rsbx_check_env(twice, 2, &err), 0);
    assert_int_equal(rsbx_check_env(cases, 2, &err), 0);

    memset(large, 'x', sizeof large - 1);
    large[1] = '=';
    assert_int_equal(check_one(large), REPOSBX_EPOLICY);
    large[RSBX_MAX_ARG_BYTES] = '\0';
    assert_int_equal(check_one(large), 0);

    for (size_t i = 0; i <= RSBX_MAX_ENV_COUNT; i++) {
        (void)snprintf(names[i], sizeof names[i], "N%zu=1", i);
        many[i] = names[i];
    }
    assert_int_equal(rsbx_check_env(many, RSBX_MAX_ENV_COUNT, &err), 0);
    assert_int_equal(rsbx_check_env(many, RSBX_MAX_ENV_COUNT + 1, &err), REPOSBX_EPOLICY);
    for (size_t i = 0; i < 10; i++) {
        memset(piece[i], 'x', RSBX_MAX_ARG_BYTES);
        memcpy(piece[i], names[i], 3);
        heavy[i] = piece[i];
    }
    assert_int_equal(rsbx_check_env(heavy, 8, &err), 0);
    assert_int_equal(rsbx_check_env(heavy, 9, &err), REPOSBX_EPOLICY);
}

static void image_names(void **state)
{
    static const char *const bad[] = { "AWS_REGION", "AZURE_X", "GITHUB_SHA", "OPENAI_ORG",
                                       "ANTHROPIC_X", "SSH_AGENT_PID", "KUBECONFIG", "kube",
                                       "DOCKER_VERSION", "GOOGLE_APPLICATION_CREDENTIALS",
                                       "NPM_TOKEN", "LD_LIBRARY_PATH", "http_proxy" };
    static const char *const good[] = { "PATH", "HOME", "GPG_KEY", "PYTHON_VERSION", "LANG",
                                        "MY_AWS_REGION", "XKUBE", "" };

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_true(rsbx_image_env_refused(bad[i], strlen(bad[i])));
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++)
        assert_false(rsbx_image_env_refused(good[i], strlen(good[i])));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ordinary_names_are_allowed),
        cmocka_unit_test(malformed_entries_are_refused_unseen),
        cmocka_unit_test(secret_names_are_refused_in_any_case),
        cmocka_unit_test(duplicates_and_sizes),
        cmocka_unit_test(image_names),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
