/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "real/group.h"

#include "base/banned.h"

/*
 * Whole sessions on a real engine: create, metadata, files, artifacts, locks, close and what is left.
 * Commands and diffs have programs of their own (exec.c, confinement.c, diff.c).
 */

static json_t *metadata_of(const char *id)
{
    char *text = NULL;
    reposbx_error err = REPOSBX_ERROR_INIT;
    json_t *document;

    if (reposbx_session_metadata_json(&text, place.provider, id, &err) != 0)
        fail_msg("metadata: %s", err.message);
    document = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(document);
    free(text);
    return document;
}

static const char *text_of(const json_t *document, const char *key)
{
    const char *text = json_string_value(json_object_get(document, key));

    if (text == NULL)
        fail_msg("no text '%s'", key);
    return text;
}

/* ---- create ---- */

static void check_capabilities(const json_t *document)
{
    static const char *const yes[] = { "non_root_user",    "network_isolation",
                                       "read_only_rootfs", "resource_limits",
                                       "process_tree_cleanup" };
    const json_t *all = json_object_get(document, "capabilities");

    assert_true(json_is_object(all));
    for (size_t i = 0; i < sizeof yes / sizeof yes[0]; i++)
        assert_true(json_is_true(json_object_get(all, yes[i])));
    assert_true(json_is_false(json_object_get(all, "disk_quota")));
    assert_true(json_is_boolean(json_object_get(all, "rootless_runtime")));
    assert_string_equal(text_of(all, "provider"), text_of(document, "provider"));
    assert_string_equal(text_of(all, "isolation"), text_of(document, "isolation"));
}

static void test_metadata(void **state)
{
    reposbx_session *session = place_session(&place, NULL, NULL);
    const char *id = reposbx_session_id(session);
    json_t *document = metadata_of(id), *policy = json_object_get(document, "policy");

    (void)state;
    assert_int_equal(strlen(id), REPOSBX_SESSION_ID_BYTES - 1);
    assert_int_equal(strncmp(id, "sbx-", 4), 0);
    assert_int_equal(strspn(id + 4, "0123456789abcdef"), 32);
    assert_string_equal(text_of(document, "sandbox_id"), id);
    assert_string_equal(text_of(document, "task_id"), "test-1");
    assert_string_equal(text_of(document, "provider"), place_provider_name());
    assert_string_equal(text_of(document, "image"), place_image());
    assert_string_equal(text_of(document, "image_id"), place_image());
    assert_string_equal(text_of(document, "platform"), "linux/amd64");
    assert_string_equal(text_of(document, "source_revision"), place.revision);
    assert_string_equal(text_of(document, "source_tree"), place.tree);
    assert_true(strlen(text_of(document, "source_fingerprint")) >= 64);
    assert_int_equal(json_integer_value(json_object_get(document, "source_file_count")), 15);
    assert_true(json_integer_value(json_object_get(document, "source_bytes")) > 100);
    assert_true(strcmp(text_of(document, "workspace"), "overlay") == 0 ||
                strcmp(text_of(document, "workspace"), "copy") == 0);
    assert_string_equal(text_of(document, "network"), "none");
    assert_true(json_is_boolean(json_object_get(document, "rootless_runtime")));
    assert_string_equal(text_of(policy, "name"), "issue-bot");
    assert_true(json_is_object(json_object_get(policy, "limits")));
    check_capabilities(document);
    assert_non_null(strchr(text_of(document, "created_at"), 'T'));
    assert_string_equal(text_of(document, "state"), "ready");
    json_decref(document);
    place_close(session, false);
}

static int create_with(const reposbx_spec *spec, reposbx_error *err)
{
    reposbx_session *session = NULL;
    int rc = reposbx_session_create(&session, place.provider, spec, err);

    if (rc == 0) {
        place_close(session, true);
        return 0;
    }
    assert_null(session);
    assert_int_equal(err->code, rc);
    assert_true(err->message[0] != '\0');
    return rc;
}

/* No session of the place has anything on the engine. */
static void nothing_is_ready(void)
{
    char *text = NULL;
    json_t *list, *item;
    size_t i;

    assert_int_equal(reposbx_session_list_json(&text, place.provider, NULL), 0);
    list = json_loads(text, 0, NULL);
    assert_true(json_is_array(list));
    json_array_foreach (list, i, item) {
        assert_string_not_equal(text_of(item, "state"), "ready");
        assert_int_equal(place_left(text_of(item, "sandbox_id") + strlen("sbx-")), 0);
    }
    json_decref(list);
    free(text);
}

/* Everything that can be refused is refused before anything is made. */
static void test_create_refused(void **state)
{
    reposbx_policy *policy = place_policy(place_image(), NULL);
    reposbx_policy *strict = NULL;
    char upper[41], deep[128];
    const struct {
        const char *repo, *revision, *image, *platform, *task, *workspace;
        int code;
    } cases[] = {
        { NULL, "HEAD", NULL, NULL, NULL, NULL, REPOSBX_EMALFORMED },
        { NULL, "main", NULL, NULL, NULL, NULL, REPOSBX_EMALFORMED },
        { NULL, "", NULL, NULL, NULL, NULL, REPOSBX_EMALFORMED },
        { NULL, upper, NULL, NULL, NULL, NULL, REPOSBX_EMALFORMED },
        { NULL, place.tree, NULL, NULL, NULL, NULL, 0 },
        { NULL, "1234567890123456789012345678901234567890", NULL, NULL, NULL, NULL, 0 },
        { "/nowhere/at/all", NULL, NULL, NULL, NULL, NULL, REPOSBX_ENOTFOUND },
        { deep, NULL, NULL, NULL, NULL, NULL, 0 },
        { "/", NULL, NULL, NULL, NULL, NULL, 0 },
        { NULL, NULL, "busybox", NULL, NULL, NULL, REPOSBX_EPOLICY },
        { NULL, NULL, "a b", NULL, NULL, NULL, 0 },
        { NULL, NULL, "", NULL, NULL, NULL, 0 },
        { NULL, NULL, NULL, "linux/s390x", NULL, NULL, 0 },
        { NULL, NULL, NULL, "Linux", NULL, NULL, REPOSBX_EPOLICY },
        { NULL, NULL, NULL, NULL, "-x", NULL, REPOSBX_EPOLICY },
        { NULL, NULL, NULL, NULL, "a b", NULL, REPOSBX_EPOLICY },
        { NULL, NULL, NULL, NULL, NULL, "magic", 0 },
    };

    (void)state;
    (void)snprintf(upper, sizeof upper, "%s", place.revision);
    upper[0] = 'A';
    (void)snprintf(deep, sizeof deep, "%s/deep", place.repo);
    assert_int_equal(reposbx_policy_default(&strict, NULL), 0);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        reposbx_spec spec = REPOSBX_SPEC_INIT;
        reposbx_error err = REPOSBX_ERROR_INIT;
        int rc;

        spec.repo = cases[i].repo != NULL ? cases[i].repo : place.repo;
        spec.revision = cases[i].revision != NULL ? cases[i].revision : place.revision;
        spec.image = cases[i].image != NULL ? cases[i].image : place_image();
        spec.platform = cases[i].platform;
        spec.task_id = cases[i].task;
        spec.workspace = cases[i].workspace;
        spec.policy = policy;
        rc = create_with(&spec, &err);
        if (rc >= 0 || rc == REPOSBX_EINTERNAL || (cases[i].code != 0 && rc != cases[i].code))
            fail_msg("case %zu: %s: %s", i, reposbx_code_word(rc), err.message);
        spec.policy = i % 2 == 0 ? strict : NULL;
        assert_true(create_with(&spec, &err) < 0);
    }
    reposbx_policy_free(policy);
    reposbx_policy_free(strict);
    nothing_is_ready();
}

/* HEAD must be at the revision; later commits must not be readable inside. */
static void test_head_elsewhere(void **state)
{
    reposbx_policy *policy = place_policy(place_image(), NULL);
    reposbx_spec spec = REPOSBX_SPEC_INIT;
    reposbx_error err = REPOSBX_ERROR_INIT;
    int rc;

    (void)state;
    assert_int_equal(GIT(NULL, place.repo, "-c", "user.name=t", "-c", "user.email=t@example.org",
                         "commit", "-q", "--allow-empty", "-m", "two"), 0);
    spec.repo = place.repo;
    spec.revision = place.revision;
    spec.image = place_image();
    spec.policy = policy;
    rc = create_with(&spec, &err);
    assert_int_equal(GIT(NULL, place.repo, "reset", "-q", "--hard", place.revision), 0);
    assert_true(rc < 0);
    assert_true(strstr(err.message, "HEAD") != NULL || strstr(err.hint, "HEAD") != NULL);
    reposbx_policy_free(policy);
}

/* What an image would like to be is overridden, or the image is refused. */
static void test_images(void **state)
{
    static const char *const refused[] = { "VOLUME /data", "ENV MY_TOKEN=x", "ENV GITHUB_ACTOR=x",
                                           "ENV AWS_REGION=x", "ENV LD_PRELOAD=x" };
    static const char *const harmless[] = { "ENV OF_THE_IMAGE=visible", "USER root",
                                            "ENTRYPOINT [\"/bin/false\"]", "WORKDIR /etc",
                                            "HEALTHCHECK CMD /bin/false", NULL };
    reposbx_spec spec = REPOSBX_SPEC_INIT;
    reposbx_session *session = NULL;
    reposbx_policy *policy;
    reposbx_error err;
    char image[PLACE_IMAGE_BYTES], *text;

    (void)state;
    spec.repo = place.repo;
    spec.revision = place.revision;
    spec.image = image;
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        const char *const change[] = { refused[i], NULL };
        int rc;

        (void)memset(&err, 0, sizeof err);
        place_derive_image(image, change);
        spec.policy = policy = place_policy(image, NULL);
        rc = create_with(&spec, &err);
        reposbx_policy_free(policy);
        place_drop_image(image);
        if (rc != REPOSBX_EPOLICY)
            fail_msg("%s: %s: %s", refused[i], reposbx_code_word(rc), err.message);
    }
    place_derive_image(image, harmless);
    spec.policy = policy = place_policy(image, NULL);
    (void)memset(&err, 0, sizeof err);
    if (reposbx_session_create(&session, place.provider, &spec, &err) != 0)
        fail_msg("%s", err.message);
    text = place_text(session, "id -u; env | grep -c OF_THE_IMAGE; test \"$PWD\" = /etc || echo else");
    assert_string_equal(text, "65532\n0\nelse\n");
    free(text);
    reposbx_policy_free(policy);
    place_close(session, true);
    place_drop_image(image);
}

/* ---- files ---- */

static void read_is(reposbx_session *session, const char *path, const void *wanted, size_t length)
{
    char *bytes = NULL;
    size_t got = 0;
    reposbx_error err = REPOSBX_ERROR_INIT;

    if (reposbx_session_read(&bytes, &got, session, path, REPOSBX_READ_BYTES_DEFAULT, &err) != 0)
        fail_msg("read %s: %s", path, err.message);
    assert_int_equal(got, length);
    assert_memory_equal(bytes, wanted, length);
    assert_int_equal(bytes[length], 0);
    free(bytes);
}

static int read_fails(reposbx_session *session, const char *path, uint64_t max_bytes)
{
    char *bytes = NULL;
    size_t length = 77;
    int rc = reposbx_session_read(&bytes, &length, session, path, max_bytes, NULL);

    assert_true(rc < 0);
    assert_null(bytes);
    assert_int_equal(length, 77);
    return rc;
}

static void check_reads(reposbx_session *session)
{
    static const char *const outside[] = { "../etc/passwd", "/etc/passwd", "a\\b", "", "a/../b" };

    read_is(session, "text.txt", "one\ntwo\nthree\n", 14);
    read_is(session, "empty", "", 0);
    read_is(session, "caf\xe9", "latin\n", 6);
    assert_int_equal(read_fails(session, "text.txt", 13), REPOSBX_ELIMIT);
    assert_true(read_fails(session, "text.txt", 0) < 0);
    assert_int_equal(read_fails(session, "none", 100), REPOSBX_ENOTFOUND);
    for (size_t i = 0; i < sizeof outside / sizeof outside[0]; i++)
        assert_int_equal(read_fails(session, outside[i], 100), REPOSBX_EPOLICY);
    free(place_text(session, "ln -s text.txt link; ln -s /etc out; mkfifo pipe; echo x > locked; "
                             "chmod 000 locked"));
    assert_true(read_fails(session, "link", 100) < 0);
    assert_true(read_fails(session, "out/passwd", 100) < 0);
    assert_true(read_fails(session, "pipe", 100) < 0);
    assert_true(read_fails(session, "deep", 100) < 0);
    read_is(session, "locked", "x\n", 2);
}

static void check_writes(reposbx_session *session)
{
    static const char *const outside[] = { "../x", "/x", "", "a\\b", "deep/../../x" };
    size_t cap = 1048576;
    char *large = calloc(1, cap + 1);
    char *text;

    assert_non_null(large);
    assert_int_equal(reposbx_session_write(session, "text.txt", "new\0\xff", 5, 0, NULL), 0);
    read_is(session, "text.txt", "new\0\xff", 5);
    assert_int_equal(reposbx_session_write(session, "made", "", 0, 0, NULL), 0);
    read_is(session, "made", "", 0);
    assert_true(reposbx_session_write(session, "no/folder/x", "1", 1, 0, NULL) < 0);
    assert_int_equal(reposbx_session_write(session, "no/folder/x", "1", 1, REPOSBX_WRITE_PARENTS,
                                           NULL), 0);
    assert_int_equal(reposbx_session_write(session, "run.sh", "#!/bin/sh\necho ran\n", 19,
                                           REPOSBX_WRITE_EXECUTABLE, NULL), 0);
    text = place_text(session, "./run.sh; stat -c '%a %u' run.sh made no/folder no/folder/x text.txt; "
                               "ls -a . no/folder | grep -ci tmp; :");
    assert_string_equal(text, "ran\n755 65532\n644 65532\n755 65532\n644 65532\n644 65532\n0\n");
    free(text);
    assert_int_equal(reposbx_session_write(session, "large", large, cap, 0, NULL), 0);
    assert_int_equal(reposbx_session_write(session, "large", large, cap + 1, 0, NULL),
                     REPOSBX_EPOLICY);
    read_is(session, "large", large, cap);
    for (size_t i = 0; i < sizeof outside / sizeof outside[0]; i++)
        assert_int_equal(reposbx_session_write(session, outside[i], "1", 1, 0, NULL),
                         REPOSBX_EPOLICY);
    assert_true(reposbx_session_write(session, "out/x", "1", 1, REPOSBX_WRITE_PARENTS, NULL) < 0);
    assert_true(reposbx_session_write(session, "deep", "1", 1, 0, NULL) < 0);
    /* A link is replaced, never written through. */
    assert_int_equal(reposbx_session_write(session, "no/folder/x", "2", 1, 0, NULL), 0);
    free(large);
}

static void check_list(reposbx_session *session)
{
    reposbx_file_list list = { NULL, 0 };
    const struct {
        const char *path;
        char type;
        uint64_t size;
    } wanted[] = { { "deep", 'd', 0 },   { "deep/er/est/file", 'f', 5 }, { "caf\xe9", 'f', 6 },
                   { "tool.sh", 'x', 25 }, { "link", 'l', 8 },           { "pipe", 'o', 0 },
                   { "empty", 'f', 0 },  { "locked", 'f', 2 },
                   { "tab\tnewline\nquote\"back\\slash", 'f', 4 } };

    assert_int_equal(reposbx_session_list_files(&list, session, NULL, NULL), 0);
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
        bool found = false;

        for (size_t j = 0; j < list.count; j++)
            found = found || (strcmp(list.files[j].path, wanted[i].path) == 0 &&
                              list.files[j].type == wanted[i].type &&
                              (wanted[i].type == 'd' || list.files[j].size == wanted[i].size));
        if (!found)
            fail_msg("%s is not in the list as it should", wanted[i].path);
    }
    for (size_t j = 1; j < list.count; j++)
        assert_true(strcmp(list.files[j - 1].path, list.files[j].path) < 0);
    reposbx_file_list_dispose(&list);
    assert_int_equal(reposbx_session_list_files(&list, session, "deep/er", NULL), 0);
    assert_true(list.count >= 3 && list.count <= 4);
    reposbx_file_list_dispose(&list);
    assert_int_equal(reposbx_session_list_files(&list, session, "none", NULL), REPOSBX_ENOTFOUND);
    assert_int_equal(reposbx_session_list_files(&list, session, "../..", NULL), REPOSBX_EPOLICY);
}

static void test_files(void **state)
{
    reposbx_session *session = place_session(&place, NULL, NULL);

    (void)state;
    check_reads(session);
    check_writes(session);
    check_list(session);
    place_close(session, true);
}

/* ---- artifacts ---- */

static int bundle(reposbx_artifact_bundle *out, reposbx_session *session, const char *name,
                  const char *path, uint64_t max_bytes)
{
    reposbx_artifact_options options = REPOSBX_ARTIFACT_OPTIONS_INIT;
    const char *paths[] = { path, "deep", "deep/er", "tool.sh" };
    char file[128];

    (void)snprintf(file, sizeof file, "%s/%s", place.root, name);
    (void)memset(out, 0, sizeof *out);
    options.paths = paths;
    options.path_count = 4;
    options.output = file;
    options.max_bytes = max_bytes;
    return reposbx_session_artifacts(out, session, &options, NULL);
}

static void check_bundle(const reposbx_artifact_bundle *made)
{
    static const char *const names[] = { "deep/er/est/file", "deep/er/other", "deep/sibling",
                                         "text.txt", "tool.sh" };
    reposbx_artifact_bundle read = { NULL, 0, "", NULL, 0 };
    struct stat status;
    char hash[65];

    assert_int_equal(stat(made->path, &status), 0);
    assert_int_equal(status.st_mode & 07777, 0600);
    assert_int_equal(status.st_size, made->size);
    assert_int_equal(made->member_count, 5);
    for (size_t i = 0; i < 5; i++)
        assert_string_equal(made->members[i].name, names[i]);
    place_sha256(hash, "one\ntwo\nthree\n", 14);
    assert_string_equal(made->members[3].sha256, hash);
    assert_int_equal(made->members[3].size, 14);
    assert_int_equal(reposbx_artifact_verify(&read, made->path, NULL), 0);
    assert_string_equal(read.sha256, made->sha256);
    assert_int_equal(read.member_count, 5);
    reposbx_artifact_bundle_dispose(&read);
}

static size_t entries(const char *folder)
{
    DIR *stream = opendir(folder);
    size_t count = 0;

    assert_non_null(stream);
    while (readdir(stream) != NULL)
        count++;
    (void)closedir(stream);
    return count;
}

static void test_artifacts(void **state)
{
    static const char *const refused[] = { "link", "hard", "pipe", "linked/file", "none", "nest" };
    reposbx_session *session = place_session(&place, NULL, NULL);
    reposbx_artifact_bundle one, two;
    size_t before;

    (void)state;
    assert_int_equal(bundle(&one, session, "one.zip", "text.txt", 0), 0);
    check_bundle(&one);
    assert_int_equal(bundle(&two, session, "two.zip", "text.txt", 0), 0);
    assert_string_equal(one.sha256, two.sha256);
    reposbx_artifact_bundle_dispose(&two);
    before = entries(place.root);
    assert_int_equal(bundle(&two, session, "one.zip", "text.txt", 0), REPOSBX_EEXISTS);
    assert_int_equal(bundle(&two, session, "no/folder.zip", "text.txt", 0), REPOSBX_EEXISTS);
    assert_int_equal(bundle(&two, session, "small.zip", "text.txt", 20), REPOSBX_ELIMIT);
    assert_int_equal(bundle(&two, session, "up.zip", "../x", 0), REPOSBX_EPOLICY);
    free(place_text(session, "ln -s text.txt link; ln text.txt hard; mkfifo pipe; mkdir real nest; "
                             "echo f > real/file; ln -s real linked; mkfifo nest/pipe"));
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++)
        if (bundle(&two, session, "refused.zip", refused[i], 0) >= 0)
            fail_msg("%s was bundled", refused[i]);
    assert_int_equal(entries(place.root), before);
    check_bundle(&one);
    reposbx_artifact_bundle_dispose(&one);
    place_close(session, true);
}

/* ---- locks, closing, what is left ---- */

static int open_elsewhere(const char *id)
{
    int status = 0;
    pid_t pid = fork();

    if (pid == 0) {
        reposbx_provider_options options = REPOSBX_PROVIDER_OPTIONS_INIT;
        reposbx_provider *provider = NULL;
        reposbx_session *session = NULL;
        int rc;

        options.engine = reposbx_provider_engine(place.provider);
        options.state_dir = place.state;
        if (reposbx_provider_open(&provider, &options, NULL) != 0)
            _exit(99);
        rc = reposbx_session_open(&session, provider, id, NULL);
        reposbx_session_free(session);
        reposbx_provider_free(provider);
        _exit(-rc);
    }
    assert_true(pid > 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? -WEXITSTATUS(status) : -99;
}

static void test_lock(void **state)
{
    reposbx_session *session = place_session(&place, NULL, NULL), *second = NULL;
    char id[REPOSBX_SESSION_ID_BYTES];

    (void)state;
    (void)snprintf(id, sizeof id, "%s", reposbx_session_id(session));
    free(place_text(session, "echo here > mark"));
    assert_int_equal(reposbx_session_open(&second, place.provider, id, NULL), REPOSBX_EBUSY);
    assert_null(second);
    assert_int_equal(open_elsewhere(id), REPOSBX_EBUSY);
    place_free(session);
    assert_int_equal(open_elsewhere(id), 0);
    session = place_open(&place, id);
    free(place_text(session, "grep -q here mark"));
    assert_int_equal(reposbx_session_open(&second, place.provider,
                                          "sbx-00000000000000000000000000000000", NULL),
                     REPOSBX_ENOTFOUND);
    assert_true(reposbx_session_open(&second, place.provider, "../../etc", NULL) < 0);
    place_close(session, true);
}

static void test_max_commands(void **state)
{
    reposbx_session *session = place_session(&place, "{\"session\": {\"max_commands\": 2}}", NULL);
    const char *argv[] = { "true" };
    reposbx_exec_request request = REPOSBX_EXEC_REQUEST_INIT;
    reposbx_exec_result result;
    reposbx_diff_options options = REPOSBX_DIFF_OPTIONS_INIT;
    reposbx_diff_result diff;
    int rc;

    (void)state;
    (void)memset(&diff, 0, sizeof diff);
    request.argv = argv;
    request.argc = 1;
    for (int i = 0; i < 2; i++) {
        place_exec(&result, session, &request);
        reposbx_exec_result_dispose(&result);
    }
    (void)memset(&result, 0, sizeof result);
    rc = reposbx_session_exec(&result, session, &request, NULL);
    assert_true(rc == REPOSBX_EPOLICY || rc == REPOSBX_ELIMIT);
    read_is(session, "empty", "", 0);
    assert_int_equal(reposbx_session_diff(&diff, session, &options, NULL), 0);
    reposbx_diff_result_dispose(&diff);
    place_close(session, true);
}

static int verdict_of(const char *folder)
{
    reposbx_audit_report report;

    (void)memset(&report, 0, sizeof report);
    assert_int_equal(reposbx_audit_verify(&report, folder, NULL), 0);
    return report.verdict;
}

static void closed_refuses(reposbx_session *session)
{
    const char *argv[] = { "true" };
    reposbx_exec_request request = REPOSBX_EXEC_REQUEST_INIT;
    reposbx_exec_result result;
    reposbx_diff_options options = REPOSBX_DIFF_OPTIONS_INIT;
    reposbx_diff_result diff;
    reposbx_artifact_bundle zip;
    reposbx_file_list list = { NULL, 0 };

    request.argv = argv;
    request.argc = 1;
    (void)memset(&result, 0, sizeof result);
    (void)memset(&diff, 0, sizeof diff);
    assert_int_equal(reposbx_session_exec(&result, session, &request, NULL), REPOSBX_ECLOSED);
    assert_int_equal(reposbx_session_diff(&diff, session, &options, NULL), REPOSBX_ECLOSED);
    assert_int_equal(reposbx_session_write(session, "x", "1", 1, 0, NULL), REPOSBX_ECLOSED);
    assert_int_equal(read_fails(session, "text.txt", 100), REPOSBX_ECLOSED);
    assert_int_equal(reposbx_session_list_files(&list, session, NULL, NULL), REPOSBX_ECLOSED);
    assert_int_equal(bundle(&zip, session, "late.zip", "text.txt", 0), REPOSBX_ECLOSED);
}

static void test_close(void **state)
{
    reposbx_session *session = place_session(&place, NULL, NULL);
    char id[REPOSBX_SESSION_ID_BYTES], audit[256];
    json_t *document;

    (void)state;
    (void)snprintf(id, sizeof id, "%s", reposbx_session_id(session));
    (void)snprintf(audit, sizeof audit, "%s", reposbx_session_audit_dir(session));
    free(place_text(session, "echo x > y"));
    assert_int_equal(verdict_of(audit), REPOSBX_AUDIT_OPEN);
    assert_true(place_left(id + 4) > 0);
    assert_int_equal(reposbx_session_close(session, REPOSBX_KEEP_AUDIT, NULL), 0);
    assert_int_equal(place_left(id + 4), 0);
    assert_int_equal(verdict_of(audit), REPOSBX_AUDIT_WHOLE);
    assert_int_equal(reposbx_session_close(session, REPOSBX_KEEP_AUDIT, NULL), 0);
    closed_refuses(session);
    assert_int_equal(verdict_of(audit), REPOSBX_AUDIT_WHOLE);
    place_free(session);
    document = metadata_of(id);
    assert_string_equal(text_of(document, "state"), "closed");
    json_decref(document);
    session = place_open(&place, id);
    closed_refuses(session);
    assert_int_equal(reposbx_session_close(session, REPOSBX_DROP_AUDIT, NULL), 0);
    assert_int_equal(access(audit, F_OK), -1);
    place_free(session);
}

/* A ready session within its lease is nobody's left-over. */
static void test_reap_leaves_it(void **state)
{
    reposbx_session *session = place_session(&place, NULL, NULL);
    reposbx_reap_report report = { NULL, 0, 0 };
    char id[REPOSBX_SESSION_ID_BYTES];

    (void)state;
    (void)snprintf(id, sizeof id, "%s", reposbx_session_id(session));
    for (int held = 1; held >= 0; held--) {
        assert_int_equal(reposbx_reap(&report, place.provider, 0, NULL), 0);
        for (size_t i = 0; i < report.count; i++)
            assert_string_not_equal(report.items[i].session_id, id);
        assert_int_equal(report.failed, 0);
        reposbx_reap_report_dispose(&report);
        if (held)
            place_free(session);
    }
    session = place_open(&place, id);
    free(place_text(session, "cat text.txt"));
    place_close(session, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_metadata),
        cmocka_unit_test(test_create_refused),
        cmocka_unit_test(test_head_elsewhere),
        cmocka_unit_test(test_images),
        cmocka_unit_test(test_files),
        cmocka_unit_test(test_artifacts),
        cmocka_unit_test(test_lock),
        cmocka_unit_test(test_max_commands),
        cmocka_unit_test(test_close),
        cmocka_unit_test(test_reap_leaves_it),
    };
    int gate = place_gate();

    if (gate != 0)
        return gate;
    return cmocka_run_group_tests_name("whole sessions on a real engine", tests, group_setup, group_teardown);
}
