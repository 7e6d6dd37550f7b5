/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "cleanup.h"
#include "cli.h"
#include "output.h"

struct options {
    struct rsbx_cli_source source;
    struct rsbx_cli_wishes wishes;
    const char *patch;
    int drop_audit;
};

static int check(const struct rsbx_cli_call *call, reposbx_error *err)
{
    const struct options *options = call->options;
    const char *missing = options->source.repo == NULL       ? "--repo"
                          : options->source.revision == NULL ? "--revision"
                          : options->patch == NULL           ? "--patch"
                          : call->argc > 0 && options->source.image == NULL ? "--image" : NULL;

    if (missing != NULL || (call->saw_dashes && call->argc == 0)) {
        (void)rsbx_cli_set(err, REPOSBX_EINVALID, "missing: %s",
                           missing != NULL ? missing : "the command that is to run");
        rsbx_cli_hint(err, "usage: reposbx validate %s", call->command->operands);
        return REPOSBX_EINVALID;
    }
    return 0;
}

static void explain(const struct rsbx_cli *cli, const reposbx_validate_result *result)
{
    if (!result->applies) {
        rsbx_cli_note(cli, "fail: the patch does not apply: %s", result->reason);
        return;
    }
    if (!result->ok)
        rsbx_cli_note(cli, "fail: %s", result->reason);
    else
        rsbx_cli_note(cli, "pass: %zu %s changed%s", result->file_count,
                      result->file_count == 1 ? "file" : "files",
                      result->ran ? ", and the command ended with 0" : "");
    if (result->ran && result->compared && result->changed_count > 0) {
        RSBX_CLI_AUTO(text) char *first = rsbx_cli_quoted(result->changed[0], 0);

        rsbx_cli_note(cli, "the command changed the workspace: %.200s%s", first,
                      result->changed_count > 1 ? ", …" : "");
    } else if (result->ran && !result->compared) {
        rsbx_cli_note(cli, "what the command changed is not known: %s", result->compare_reason);
    }
}

static int report(const struct rsbx_cli_call *call, const reposbx_validate_result *result)
{
    RSBX_CLI_AUTO(text) char *document = NULL;
    reposbx_error err = REPOSBX_ERROR_INIT;
    int unknown = result->ran && result->exec.status == REPOSBX_STATUS_UNKNOWN;

    if (call->cli->json) {
        if (reposbx_validate_result_json(&document, result, &err) < 0)
            return rsbx_cli_fail(call->cli, &err);
        rsbx_cli_print_text(document);
    } else {
        if (result->applies && !result->ran)
            rsbx_cli_print_text(result->result_tree);
        explain(call->cli, result);
    }
    if (unknown)
        return rsbx_cli_exit_code(REPOSBX_EPROTOCOL);
    return result->ok ? RSBX_CLI_OK : RSBX_CLI_NO;
}

static int run(const struct rsbx_cli_call *call)
{
    const struct options *options = call->options;
    RSBX_CLI_AUTO(text) char *values = NULL;
    RSBX_CLI_AUTO(text) char *patch = NULL;
    RSBX_CLI_AUTO(policy) reposbx_policy *policy = NULL;
    RSBX_CLI_AUTO(provider) reposbx_provider *provider = NULL;
    RSBX_CLI_AUTO(validate_result) reposbx_validate_result result = { 0 };
    reposbx_validate_request request = REPOSBX_VALIDATE_REQUEST_INIT;
    reposbx_exec_request command = REPOSBX_EXEC_REQUEST_INIT;
    reposbx_spec spec = REPOSBX_SPEC_INIT;
    struct rsbx_cli_stream stream = { -1, 0, 0 };
    reposbx_error err = REPOSBX_ERROR_INIT;
    int rc;

    if (check(call, &err) < 0 || rsbx_cli_hide_values(&values, &options->wishes.env, &err) < 0 ||
        (options->source.policy != NULL && reposbx_policy_load(&policy, options->source.policy, &err) < 0) ||
        rsbx_cli_read_all(&patch, &request.patch_length, options->patch, RSBX_CLI_MAX_INPUT_BYTES,
                          &err) < 0 ||
        rsbx_cli_open_provider(&provider, call->cli, &err) < 0 ||
        rsbx_cli_catch_signals(&stream.cancel_fd, &err) < 0)
        return rsbx_cli_fail(call->cli, &err);
    rsbx_cli_fill_spec(&spec, &options->source, policy);
    rsbx_cli_fill(&command, call, &options->wishes, &stream);
    request.spec = &spec;
    request.patch = patch;
    request.command = call->argc > 0 ? &command : NULL;
    request.close_flags = options->drop_audit ? REPOSBX_DROP_AUDIT : REPOSBX_KEEP_AUDIT;
    request.cancel_fd = stream.cancel_fd;
    rc = reposbx_validate(&result, provider, &request, &err);
    if (rc == REPOSBX_ECANCELLED || (rc < 0 && stream.broken))
        return rsbx_cli_stopped(call->cli, &stream, "nothing is left but the log", &err);
    return rc < 0 ? rsbx_cli_fail(call->cli, &err) : report(call, &result);
}

static const struct rsbx_cli_option table[] = {
    RSBX_CLI_REPO_ROW(struct options),
    { "revision", 0, RSBX_CLI_WORD, offsetof(struct options, source.revision), "SHA40",
      "The commit that the patch is for, 40 lower-case hex digits." },
    { "image", 0, RSBX_CLI_WORD, offsetof(struct options, source.image), "REF",
      "The container image, on the policy's list. Without it (and without a command) no engine is "
      "asked: only whether the patch applies." },
    { "patch", 0, RSBX_CLI_TEXT, offsetof(struct options, patch), "FILE|-",
      "What git diff --binary printed; - is stdin. At most limits.stdin_bytes of the policy, "
      "and 64 MiB." },
    { "policy", 0, RSBX_CLI_TEXT, offsetof(struct options, source.policy), "FILE|NAME",
      "A policy document or the name of a shipped one, such as ci-validator. Without it the default "
      "policy holds, which allows no image." },
    RSBX_CLI_SOURCE_ROWS(struct options),
    RSBX_CLI_COMMAND_ROWS(struct options),
    RSBX_CLI_LIMIT_ROWS(struct options),
    { "drop-audit", 0, RSBX_CLI_FLAG, offsetof(struct options, drop_audit), NULL,
      "Remove the session's log and captured output, too. Default: they are kept." },
    { NULL, 0, RSBX_CLI_FLAG, 0, NULL, NULL },
};

const struct rsbx_cli_command rsbx_cli_validate = {
    .group = NULL,
    .name = "validate",
    .summary = "apply a patch to a revision and run a command on the outcome",
    .operands = "--repo DIR --revision SHA40 --patch FILE [--image REF [-- ARGV…]]",
    .takes_argv = 1,
    .text = "Applies the patch to exactly this revision: as git apply would, but hunks stand at the "
            "lines that they name, index lines name what is there, and nothing is searched for or "
            "skipped. Then places it in the workspace of a new session, proves by a diff that the "
            "workspace holds the tree that was worked out, and runs ARGV on it in a fresh "
            "container. The session is closed whatever happens; its log stays.\n"
            "Streams the command's output and says pass or fail on stderr; without a command prints "
            "the id of the patched tree; with --json prints one document.\n"
            "An interrupt (Ctrl-C, SIGTERM, SIGHUP) kills the command and closes the session.",
    .exits = "0: pass. 1: the patch does not apply, or the command failed, timed out, wrote too much "
             "or was killed. 65: FILE is no patch, or names a path that no tree may have. 77: refused "
             "by the policy: too large, a submodule, a symlink.",
    .example = "reposbx validate --repo . --revision $(git rev-parse HEAD) --image sha256:… --patch "
               "fix.patch --policy ci-validator -- make check",
    .options = table,
    .options_size = sizeof(struct options),
    .run = run,
};
