/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tour of the README as a C program: a session on a repository, a command, a file of our own,
 * what changed, files to keep, and the end.
 *
 *     tour POLICY REPO REVISION IMAGE PATCH ZIP
 *
 * Engine and state folder are $REPOSBX_ENGINE and $REPOSBX_STATE_DIR; it makes PATCH and ZIP.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <reposbx/reposbx.h>

static int run(reposbx_session *session, const char *script, reposbx_error *err)
{
    const char *const argv[] = { "sh", "-c", script };
    reposbx_exec_request request = REPOSBX_EXEC_REQUEST_INIT;
    reposbx_exec_result result = { 0 };
    int rc;

    request.argv = argv;
    request.argc = sizeof argv / sizeof argv[0];
    request.timeout_seconds = 2; /* may be lower than the policy's, never higher */
    rc = reposbx_session_exec(&result, session, &request, err);
    if (rc != 0)
        return rc;
    printf("$ %s\n%s", script, result.stdout_preview);
    printf("[%s, exit code %d]\n", reposbx_exec_status_word(result.status), result.exit_code);
    reposbx_exec_result_dispose(&result);
    return 0;
}

static int add_a_file(reposbx_session *session, reposbx_error *err)
{
    static const char text[] = "hello\n";
    char *bytes = NULL;
    size_t length = 0;
    int rc = reposbx_session_write(session, "notes/hello.txt", text, strlen(text),
                                   REPOSBX_WRITE_PARENTS, err);

    if (rc == 0)
        rc = reposbx_session_read(&bytes, &length, session, "notes/hello.txt",
                                  REPOSBX_READ_BYTES_DEFAULT, err);
    if (rc == 0)
        printf("notes/hello.txt: %zu bytes\n", length);
    free(bytes);
    return rc;
}

static int show_changes(reposbx_session *session, const char *patch_file, reposbx_error *err)
{
    reposbx_diff_result diff = { 0 };
    FILE *file;
    int rc = reposbx_session_diff(&diff, session, NULL, err);

    if (rc != 0)
        return rc;
    for (size_t i = 0; i < diff.file_count; i++)
        printf("%-8s %s\n", diff.files[i].status, diff.files[i].path);
    printf("result tree %s\n", diff.result_tree);
    file = fopen(patch_file, "wxb");
    if (file == NULL || fwrite(diff.patch, 1, diff.patch_length, file) != diff.patch_length)
        rc = REPOSBX_EIO;
    if (file != NULL && fclose(file) != 0)
        rc = REPOSBX_EIO;
    if (rc != 0)
        snprintf(err->message, sizeof err->message, "cannot write %s", patch_file);
    reposbx_diff_result_dispose(&diff);
    return rc;
}

static int keep_files(reposbx_session *session, const char *zip_file, reposbx_error *err)
{
    const char *const paths[] = { "out", "notes" };
    reposbx_artifact_options options = REPOSBX_ARTIFACT_OPTIONS_INIT;
    reposbx_artifact_bundle bundle = { 0 };
    int rc;

    options.paths = paths;
    options.path_count = sizeof paths / sizeof paths[0];
    options.output = zip_file;
    rc = reposbx_session_artifacts(&bundle, session, &options, err);
    if (rc != 0)
        return rc;
    for (size_t i = 0; i < bundle.member_count; i++)
        printf("%s  %s\n", bundle.members[i].sha256, bundle.members[i].name);
    reposbx_artifact_bundle_dispose(&bundle);
    return 0;
}

static int tour(reposbx_provider *provider, const reposbx_spec *spec, char **files,
                reposbx_error *err)
{
    static const char *const scripts[] = {
        "ls -a", "echo one more line >> README.md; mkdir -p out; date > out/when", "sleep 60"
    };
    reposbx_error closing = REPOSBX_ERROR_INIT;
    reposbx_session *session = NULL;
    int rc = reposbx_session_create(&session, provider, spec, err);
    int closed;

    if (rc != 0)
        return rc;
    printf("session %s\n", reposbx_session_id(session));
    for (size_t i = 0; rc == 0 && i < sizeof scripts / sizeof scripts[0]; i++)
        rc = run(session, scripts[i], err);
    if (rc == 0)
        rc = add_a_file(session, err);
    if (rc == 0)
        rc = show_changes(session, files[0], err);
    if (rc == 0)
        rc = keep_files(session, files[1], err);
    /* Whatever happened: every container and volume goes, the audit folder stays. */
    closed = reposbx_session_close(session, REPOSBX_KEEP_AUDIT, &closing);
    if (closed == 0)
        printf("closed; audit in %s\n", reposbx_session_audit_dir(session));
    else if (rc == 0)
        *err = closing;
    reposbx_session_free(session);
    return rc != 0 ? rc : closed;
}

int main(int argc, char **argv)
{
    reposbx_error err = REPOSBX_ERROR_INIT;
    reposbx_provider *provider = NULL;
    reposbx_policy *policy = NULL;
    reposbx_spec spec = REPOSBX_SPEC_INIT;
    int rc;

    if (argc != 7)
        return 64;
    rc = reposbx_policy_load(&policy, argv[1], &err);
    if (rc == 0)
        rc = reposbx_provider_open(&provider, NULL, &err);
    spec.policy = policy;
    spec.repo = argv[2];
    spec.revision = argv[3];
    spec.image = argv[4];
    if (rc == 0)
        rc = tour(provider, &spec, argv + 5, &err);
    if (rc != 0)
        fprintf(stderr, "tour: %s: %s\n%s\n", reposbx_code_word(rc), err.message, err.hint);
    reposbx_provider_free(provider);
    reposbx_policy_free(policy);
    return rc == 0 ? 0 : 1;
}
