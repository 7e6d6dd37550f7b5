/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>

#include "bundle.h"
#include "cleanup.h"
#include "cli.h"
#include "output.h"

struct options {
    const char *output;
    uint64_t max_bytes;
};

static void row(struct rsbx_cli_table *table, uint64_t size, const char *sha256, const char *name)
{
    char text[RSBX_CLI_SHORT_BYTES];

    (void)snprintf(text, sizeof text, "%" PRIu64, size);
    rsbx_cli_cell(table, text);
    rsbx_cli_cell(table, sha256);
    rsbx_cli_cell_take(table, rsbx_cli_quoted(name, 0));
}

void rsbx_cli_print_bundle(const reposbx_artifact_bundle *bundle)
{
    struct rsbx_cli_table table = { 3, 1U, NULL, 0, 0 };

    rsbx_cli_cell(&table, "SIZE");
    rsbx_cli_cell(&table, "SHA256");
    rsbx_cli_cell(&table, "MEMBER");
    for (size_t i = 0; i < bundle->member_count; i++)
        row(&table, bundle->members[i].size, bundle->members[i].sha256, bundle->members[i].name);
    rsbx_cli_table_print(&table, stdout);
    rsbx_cli_table_dispose(&table);
    (void)fputs("\nbundle:\n", stdout);
    table = (struct rsbx_cli_table){ 3, 1U, NULL, 0, 0 };
    row(&table, bundle->size, bundle->sha256, bundle->path);
    rsbx_cli_table_print(&table, stdout);
    rsbx_cli_table_dispose(&table);
}

static int run(const struct rsbx_cli_call *call)
{
    const struct options *options = call->options;
    RSBX_CLI_AUTO(provider) reposbx_provider *provider = NULL;
    RSBX_CLI_AUTO(session) reposbx_session *session = NULL;
    RSBX_CLI_AUTO(bundle) reposbx_artifact_bundle bundle = { 0 };
    RSBX_CLI_AUTO(text) char *document = NULL;
    reposbx_artifact_options request = REPOSBX_ARTIFACT_OPTIONS_INIT;
    reposbx_error err = REPOSBX_ERROR_INIT;

    if (options->output == NULL) {
        (void)rsbx_cli_set(&err, REPOSBX_EINVALID, "missing: -o FILE.zip");
        rsbx_cli_hint(&err, "usage: reposbx session artifacts %s", call->command->operands);
        return rsbx_cli_fail(call->cli, &err);
    }
    request.paths = call->operands + 1;
    request.path_count = call->operand_count - 1;
    request.output = options->output;
    request.max_bytes = options->max_bytes;
    if (rsbx_cli_must_be_new(options->output, &err) < 0 ||
        rsbx_cli_open_session(&session, &provider, call, &err) < 0 ||
        reposbx_session_artifacts(&bundle, session, &request, &err) < 0)
        return rsbx_cli_fail(call->cli, &err);
    if (!call->cli->json) {
        rsbx_cli_print_bundle(&bundle);
        return RSBX_CLI_OK;
    }
    if (reposbx_artifact_bundle_json(&document, &bundle, &err) < 0)
        return rsbx_cli_fail(call->cli, &err);
    rsbx_cli_print_text(document);
    return RSBX_CLI_OK;
}

static const struct rsbx_cli_option table[] = {
    { "output", 'o', RSBX_CLI_TEXT, offsetof(struct options, output), "FILE.zip",
      "The ZIP that is to be made; an existing file is never overwritten." },
    { "max-bytes", 0, RSBX_CLI_COUNT, offsetof(struct options, max_bytes), "N",
      "Bound of all members together; it may only lower the policy's artifact_bytes." },
    { NULL, 0, RSBX_CLI_FLAG, 0, NULL, NULL },
};

const struct rsbx_cli_command rsbx_cli_session_artifacts = {
    .group = "session",
    .name = "artifacts",
    .summary = "pack files of the workspace into a ZIP with hashes",
    .operands = "ID -o FILE.zip PATH…",
    .min_operands = 2,
    .max_operands = SIZE_MAX,
    .text = "Packs regular files, and folders with all below them. The same content gives the same "
            "bytes on every host. Prints each member with its size and SHA-256.",
    .example = "reposbx session artifacts ID -o out.zip build/report.html dist",
    .options = table,
    .options_size = sizeof(struct options),
    .run = run,
};
