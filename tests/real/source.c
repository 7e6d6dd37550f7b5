/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "real/group.h"

#include "base/banned.h"

/*
 * What of a repository comes into a session on a real engine, and what its policy's words change. The
 * reader alone is tried in hostile/test_a_repository.c.
 */

static void commit(void)
{
    char *text = NULL;

    assert_int_equal(GIT(NULL, place.repo, "add", "-A"), 0);
    assert_int_equal(GIT(NULL, place.repo, "-c", "user.name=t", "-c", "user.email=t@example.org",
                         "commit", "-q", "--allow-empty", "-m", "more"),
                     0);
    assert_int_equal(GIT(&text, place.repo, "rev-parse", "HEAD"), 0);
    (void)snprintf(place.revision, sizeof place.revision, "%.40s", text);
    free(text);
}

static int create(reposbx_session **out, const char *changes, const char *const *excludes,
                  size_t exclude_count, reposbx_error *err)
{
    reposbx_policy *policy = place_policy(place_image(), changes);
    reposbx_spec spec = REPOSBX_SPEC_INIT;
    int rc;

    spec.repo = place.repo;
    spec.revision = place.revision[0] != '\0' ? place.revision : NULL;
    spec.image = place_image();
    spec.exclude_subtrees = excludes;
    spec.exclude_count = exclude_count;
    spec.policy = policy;
    rc = reposbx_session_create(out, place.provider, &spec, err);
    reposbx_policy_free(policy);
    return rc;
}

static reposbx_session *made(const char *changes, const char *const *excludes, size_t count)
{
    reposbx_session *session = NULL;
    reposbx_error err = REPOSBX_ERROR_INIT;

    if (create(&session, changes, excludes, count, &err) != 0)
        fail_msg("create: %s (%s)", err.message, err.hint);
    return session;
}

static void is_refused(const char *changes, const char *says)
{
    reposbx_session *session = NULL;
    reposbx_error err = REPOSBX_ERROR_INIT;
    int rc = create(&session, changes, NULL, 0, &err);

    if (rc != REPOSBX_EPOLICY || strstr(err.message, says) == NULL)
        fail_msg("expected \"%s\", got %s: %s", says, reposbx_code_word(rc), err.message);
    assert_null(session);
}

static void prints(reposbx_session *session, const char *script, const char *wanted)
{
    char *text = place_text(session, script);

    assert_string_equal(text, wanted);
    free(text);
}

static void document_has(const reposbx_session *session, const char *key, const char *wanted)
{
    char *text = NULL;
    json_t *document, *rules;

    assert_int_equal(reposbx_session_metadata_json(&text, place.provider,
                                                   reposbx_session_id(session), NULL),
                     0);
    document = json_loads(text, 0, NULL);
    free(text);
    rules = json_object_get(json_object_get(document, "policy"), "source");
    assert_true(json_is_string(json_object_get(rules, key)));
    assert_string_equal(json_string_value(json_object_get(rules, key)), wanted);
    json_decref(document);
}

/* Changes of the working tree, untracked and ignored files stay outside. */
static void test_commit_alone(void **state)
{
    reposbx_session *session;

    (void)state;
    assert_int_equal(place_write(place.repo, ".gitignore", "ignored\n", 8, 0644), 0);
    commit();
    assert_int_equal(place_write(place.repo, "text.txt", "changed\n", 8, 0644), 0);
    assert_int_equal(place_write(place.repo, "untracked", "x", 1, 0644), 0);
    assert_int_equal(place_write(place.repo, "ignored", "x", 1, 0644), 0);
    session = made(NULL, NULL, 0);
    prints(session, "cat text.txt; ls untracked ignored .git 2>/dev/null; echo end",
           "one\ntwo\nthree\nend\n");
    place_close(session, true);
    assert_int_equal(GIT(NULL, place.repo, "checkout", "-q", "text.txt"), 0);
    assert_int_equal(GIT(NULL, place.repo, "clean", "-qfdx"), 0);
}

static void test_words_of_the_policy(void **state)
{
    char path[160], *text = NULL;
    char info[128];
    reposbx_session *session;

    (void)state;
    (void)snprintf(path, sizeof path, "%s/to-text", place.repo);
    assert_int_equal(symlink("text.txt", path), 0);
    commit();
    is_refused(NULL, "to-text");
    session = made("{\"source\":{\"symlinks\":\"keep\"}}", NULL, 0);
    prints(session, "ls -l to-text | grep -c ^l; cat to-text", "1\none\ntwo\nthree\n");
    document_has(session, "symlinks", "keep");
    place_close(session, true);
    assert_int_equal(unlink(path), 0);

    assert_int_equal(place_write(place.repo, ".gitattributes", "text.txt export-ignore\n", 23, 0644),
                     0);
    commit();
    is_refused(NULL, "text.txt");
    session = made("{\"source\":{\"export_attributes\":\"raw\"}}", NULL, 0);
    prints(session, "cat text.txt", "one\ntwo\nthree\n");
    document_has(session, "export_attributes", "raw");
    place_close(session, true);
    /* One that matches nothing changes nothing. */
    assert_int_equal(place_write(place.repo, ".gitattributes", "none.txt export-ignore\n", 23, 0644),
                     0);
    commit();
    session = made(NULL, NULL, 0);
    place_close(session, true);

    assert_int_equal(GIT(&text, place.repo, "rev-parse", "HEAD"), 0);
    (void)snprintf(info, sizeof info, "160000,%.40s,sub", text);
    free(text);
    assert_int_equal(GIT(NULL, place.repo, "update-index", "--add", "--cacheinfo", info), 0);
    assert_int_equal(GIT(NULL, place.repo, "-c", "user.name=t", "-c", "user.email=t@example.org",
                         "commit", "-q", "-m", "sub"),
                     0);
    assert_int_equal(GIT(&text, place.repo, "rev-parse", "HEAD"), 0);
    (void)snprintf(place.revision, sizeof place.revision, "%.40s", text);
    free(text);
    is_refused(NULL, "sub");
    session = made("{\"source\":{\"submodules\":\"empty\"}}", NULL, 0);
    prints(session, "ls -A sub 2>/dev/null | wc -l | tr -d ' '", "0\n");
    document_has(session, "submodules", "empty");
    place_close(session, true);
    assert_int_equal(GIT(NULL, place.repo, "rm", "-q", "--cached", "sub"), 0);
    assert_int_equal(GIT(NULL, place.repo, "clean", "-qfdx"), 0);
    commit();
}

static char *fingerprint_of(const reposbx_session *session)
{
    reposbx_metadata metadata;
    char *text;

    assert_int_equal(reposbx_session_metadata(&metadata, place.provider,
                                              reposbx_session_id(session), NULL),
                     0);
    text = strdup(metadata.source_fingerprint);
    reposbx_metadata_dispose(&metadata);
    assert_non_null(text);
    return text;
}

/* Exclusions change the fingerprint and not what is copied. */
static void test_excluded_subtrees(void **state)
{
    static const char *const once[] = { "deep" };
    static const char *const twice[] = { "deep/er", "deep", "deep" };
    static const char *const up[] = { "../deep" };
    reposbx_session *session = made(NULL, NULL, 0), *none = NULL;
    reposbx_error err = REPOSBX_ERROR_INIT;
    char *whole = fingerprint_of(session), *less, *same;

    (void)state;
    place_close(session, true);
    session = made(NULL, once, 1);
    less = fingerprint_of(session);
    prints(session, "cat deep/sibling", "same\n");
    place_close(session, true);
    session = made(NULL, twice, 3);
    same = fingerprint_of(session);
    place_close(session, true);
    assert_string_not_equal(whole, less);
    assert_string_equal(less, same);
    free(whole);
    free(less);
    free(same);
    assert_int_equal(create(&none, NULL, up, 1, &err), REPOSBX_EPOLICY);
    assert_non_null(strstr(err.message, "exclude_subtrees"));
}

/* Without a revision, and only where the policy says so: the folder as it is. */
static void test_plain_folder(void **state)
{
    char revision[41];
    reposbx_session *session;
    reposbx_metadata metadata;
    char away[128], dot_git[128];

    (void)state;
    (void)snprintf(revision, sizeof revision, "%s", place.revision);
    (void)snprintf(away, sizeof away, "%s/away", place.root);
    (void)snprintf(dot_git, sizeof dot_git, "%s/.git", place.repo);
    assert_int_equal(rename(dot_git, away), 0);
    place.revision[0] = '\0';
    is_refused(NULL, "revision");
    assert_int_equal(place_write(place.repo, "new", "x\n", 2, 0644), 0);
    session = made("{\"require_source_revision\":false}", NULL, 0);
    prints(session, "cat new", "x\n");
    assert_int_equal(reposbx_session_metadata(&metadata, place.provider,
                                              reposbx_session_id(session), NULL),
                     0);
    assert_null(metadata.source_revision);
    assert_int_equal(strlen(metadata.source_tree), 40);
    reposbx_metadata_dispose(&metadata);
    place_close(session, true);
    assert_int_equal(rename(away, dot_git), 0);
    (void)snprintf(place.revision, sizeof place.revision, "%s", revision);
    assert_int_equal(GIT(NULL, place.repo, "clean", "-qfdx"), 0);
}

/* What commands write must never become source. */
static void test_state_inside(void **state)
{
    reposbx_provider_options options = REPOSBX_PROVIDER_OPTIONS_INIT;
    reposbx_provider *outside = place.provider;
    char inside[160];

    (void)state;
    (void)snprintf(inside, sizeof inside, "%s/deep/state", place.repo);
    options.engine = reposbx_provider_engine(outside);
    options.state_dir = inside;
    place.provider = NULL;
    assert_int_equal(reposbx_provider_open(&place.provider, &options, NULL), 0);
    is_refused(NULL, "inside the repository");
    reposbx_provider_free(place.provider);
    place.provider = outside;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_commit_alone),      cmocka_unit_test(test_words_of_the_policy),
        cmocka_unit_test(test_excluded_subtrees), cmocka_unit_test(test_plain_folder),
        cmocka_unit_test(test_state_inside),
    };
    int gate = place_gate();

    if (gate != 0)
        return gate;
    return cmocka_run_group_tests_name("sources on a real engine", tests, group_setup, group_teardown);
}
