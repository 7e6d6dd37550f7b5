/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cleanup.h"
#include "cli.h"
#include "output.h"

#define GRAPH_CELLS 40U

struct options {
    const char *output, *untracked, *repo;
    uint64_t max_bytes;
    int stat, name_only, exit_code, check;
};

/* The share of the graph that `count` of `largest` lines gets; a change shows at least one cell. */
static int cells(uint64_t count, uint64_t largest)
{
    uint64_t scaled;

    if (count == 0 || largest <= GRAPH_CELLS)
        return (int)count;
    scaled = (uint64_t)((double)count * GRAPH_CELLS / (double)largest);
    return scaled == 0 ? 1 : (int)scaled;
}

static void totals(FILE *stream, const reposbx_diff_result *result)
{
    uint64_t insertions = 0, deletions = 0;

    for (size_t i = 0; i < result->file_count; i++) {
        insertions += result->files[i].insertions;
        deletions += result->files[i].deletions;
    }
    (void)fprintf(stream,
                  "%zu file%s changed, %" PRIu64 " insertion%s(+), %" PRIu64 " deletion%s(-)\n",
                  result->file_count, result->file_count == 1 ? "" : "s", insertions,
                  insertions == 1 ? "" : "s", deletions, deletions == 1 ? "" : "s");
}

static void print_stat(const reposbx_diff_result *result)
{
    static const char plus[] = "++++++++++++++++++++++++++++++++++++++++";
    static const char minus[] = "----------------------------------------";
    struct rsbx_cli_table table = { 3, 1U << 1, NULL, 0, 0 };
    uint64_t largest = 0;

    for (size_t i = 0; i < result->file_count; i++) {
        uint64_t changed = result->files[i].insertions + result->files[i].deletions;

        largest = changed > largest ? changed : largest;
    }
    for (size_t i = 0; i < result->file_count; i++) {
        const reposbx_diff_file *file = &result->files[i];
        char count[RSBX_CLI_SHORT_BYTES], graph[2 * GRAPH_CELLS + 3];

        (void)snprintf(count, sizeof count, "%" PRIu64, file->insertions + file->deletions);
        (void)snprintf(graph, sizeof graph, "%.*s%.*s", cells(file->insertions, largest), plus,
                       cells(file->deletions, largest), minus);
        rsbx_cli_cell_take(&table, rsbx_cli_quoted(file->path, 1));
        rsbx_cli_cell(&table, file->binary ? "Bin" : count);
        rsbx_cli_cell(&table, file->binary || graph[0] == '\0' ? file->status : graph);
    }
    rsbx_cli_table_print(&table, stdout);
    rsbx_cli_table_dispose(&table);
    totals(stdout, result);
}

static void print_names(const reposbx_diff_result *result)
{
    for (size_t i = 0; i < result->file_count; i++) {
        RSBX_CLI_AUTO(text) char *name = rsbx_cli_quoted(result->files[i].path, 1);

        (void)puts(name);
    }
}

/* What no patch can carry is never dropped in silence. */
static void tell_omitted(const struct rsbx_cli *cli, const reposbx_diff_result *result)
{
    for (size_t i = 0; i < result->omitted_count; i++) {
        RSBX_CLI_AUTO(text) char *name = rsbx_cli_quoted(result->omitted[i].path, 0);

        rsbx_cli_note(cli, "left out: %s (%s)", name, result->omitted[i].reason);
    }
}

static int print(const struct rsbx_cli_call *call, const reposbx_diff_result *result,
                 reposbx_error *err)
{
    const struct options *options = call->options;
    RSBX_CLI_AUTO(text) char *document = NULL;
    int rc;

    if (call->cli->json) {
        rc = reposbx_diff_result_json(&document, result, options->output, err);
        if (rc < 0)
            return rc;
        rsbx_cli_print_text(document);
        return 0;
    }
    tell_omitted(call->cli, result);
    if (options->stat)
        print_stat(result);
    else if (options->name_only)
        print_names(result);
    else if (options->output == NULL)
        (void)fwrite(result->patch, 1, result->patch_length, stdout);
    else if (!call->cli->quiet)
        totals(stderr, result);
    return 0;
}

/* The tree of the given checkout at the session's revision, under the session's own rules. */
static int checkout_tree(char tree[41], const struct rsbx_cli_call *call,
                         reposbx_provider *provider, reposbx_error *err)
{
    const struct options *options = call->options;
    RSBX_CLI_AUTO(text) char *metadata = NULL;
    RSBX_CLI_AUTO(text) char *rules = NULL;
    RSBX_CLI_AUTO(json) json_t *document = NULL;
    RSBX_CLI_AUTO(policy) reposbx_policy *policy = NULL;
    const char *revision;
    int rc = reposbx_session_metadata_json(&metadata, provider, call->operands[0], err);

    if (rc < 0)
        return rc;
    document = rsbx_cli_need(json_loads(metadata, 0, NULL));
    revision = json_string_value(json_object_get(document, "source_revision"));
    if (revision == NULL)
        return rsbx_cli_set(err, REPOSBX_EINVALID, "--check: the session has no revision");
    rules = rsbx_cli_need(json_dumps(json_object_get(document, "policy"), JSON_COMPACT));
    rc = reposbx_policy_parse(&policy, rules, strlen(rules), err);
    return rc < 0 ? rc : reposbx_repository_tree(tree, options->repo, revision, policy, err);
}

/* The patch was applied to the base tree and gave the result tree: so it does on every checkout
 * that has the base tree. */
static int check_checkout(const struct rsbx_cli_call *call, const char *tree,
                          const reposbx_diff_result *result)
{
    const struct options *options = call->options;
    int same = strcmp(tree, result->base_tree) == 0;
    RSBX_CLI_AUTO(json) json_t *document = NULL;

    if (!call->cli->json) {
        if (same)
            (void)printf("ok: applied to tree %s it gives %s\n", tree, result->result_tree);
        else
            (void)printf("no: the checkout has tree %s, the patch is for %s\n", tree,
                         result->base_tree);
        return same ? RSBX_CLI_OK : RSBX_CLI_NO;
    }
    document = rsbx_cli_need(json_pack(
        "{s:b, s:o, s:s, s:s, s:s, s:s}", "ok", same, "repo",
        rsbx_cli_json_bytes(options->repo, strlen(options->repo)), "tree", tree, "base_tree",
        result->base_tree, "result_tree", result->result_tree, "sha256", result->sha256));
    (void)rsbx_cli_print_json(call->cli, document);
    return same ? RSBX_CLI_OK : RSBX_CLI_NO;
}

static int check(const struct options *options, reposbx_error *err)
{
    if (options->stat + options->name_only + options->check > 1)
        return rsbx_cli_set(err, REPOSBX_EINVALID,
                            "--stat, --name-only and --check exclude each other");
    if (options->check != (options->repo != NULL))
        return rsbx_cli_set(err, REPOSBX_EINVALID, "--check and --repo go together");
    if (options->untracked != NULL && strcmp(options->untracked, "all") != 0 &&
        strcmp(options->untracked, "unignored") != 0)
        return rsbx_cli_set(err, REPOSBX_EINVALID, "--untracked: all or unignored, not %.100s",
                            options->untracked);
    return options->output == NULL ? 0 : rsbx_cli_must_be_new(options->output, err);
}

static int run(const struct rsbx_cli_call *call)
{
    const struct options *options = call->options;
    RSBX_CLI_AUTO(provider) reposbx_provider *provider = NULL;
    RSBX_CLI_AUTO(session) reposbx_session *session = NULL;
    RSBX_CLI_AUTO(diff_result) reposbx_diff_result result = { 0 };
    reposbx_diff_options diff_options = REPOSBX_DIFF_OPTIONS_INIT;
    reposbx_error err = REPOSBX_ERROR_INIT;
    char tree[41] = "";

    diff_options.max_bytes = options->max_bytes;
    if (options->untracked != NULL && strcmp(options->untracked, "unignored") == 0)
        diff_options.untracked = REPOSBX_UNTRACKED_UNIGNORED;
    if (check(options, &err) < 0 || rsbx_cli_open_session(&session, &provider, call, &err) < 0 ||
        reposbx_session_diff(&result, session, &diff_options, &err) < 0)
        return rsbx_cli_fail(call->cli, &err);
    if (options->output != NULL &&
        rsbx_cli_write_new(options->output, result.patch, result.patch_length, &err) < 0)
        return rsbx_cli_fail(call->cli, &err);
    if (options->check) {
        if (checkout_tree(tree, call, provider, &err) < 0)
            return rsbx_cli_fail(call->cli, &err);
        return check_checkout(call, tree, &result);
    }
    if (print(call, &result, &err) < 0)
        return rsbx_cli_fail(call->cli, &err);
    return options->exit_code && result.file_count > 0 ? RSBX_CLI_NO : RSBX_CLI_OK;
}

static const struct rsbx_cli_option table[] = {
    { "output", 'o', RSBX_CLI_TEXT, offsetof(struct options, output), "FILE",
      "Write the patch into a new file; an existing one is never overwritten." },
    { "stat", 0, RSBX_CLI_FLAG, offsetof(struct options, stat), NULL,
      "Print changed lines by file instead of the patch." },
    { "name-only", 0, RSBX_CLI_FLAG, offsetof(struct options, name_only), NULL,
      "Print the changed paths instead of the patch, quoted as Git does." },
    { "check", 0, RSBX_CLI_FLAG, offsetof(struct options, check), NULL,
      "Say whether the patch, applied to the checkout of --repo, gives the result tree." },
    { "repo", 0, RSBX_CLI_TEXT, offsetof(struct options, repo), "DIR",
      "The checkout for --check: its HEAD must be at the session's revision. Read by a confined "
      "process under the session's policy." },
    { "untracked", 0, RSBX_CLI_TEXT, offsetof(struct options, untracked), "all|unignored",
      "Which new files count: all of them (default), or those that the .gitignore files of the "
      "base tree do not name. What is left out is told." },
    { "max-bytes", 0, RSBX_CLI_COUNT, offsetof(struct options, max_bytes), "N",
      "Refuse a larger patch; it is never cut. Default: 16777216 (16 MiB)." },
    { "exit-code", 0, RSBX_CLI_FLAG, offsetof(struct options, exit_code), NULL,
      "Exit with 1 when there are changes." },
    { NULL, 0, RSBX_CLI_FLAG, 0, NULL, NULL },
};

const struct rsbx_cli_command rsbx_cli_session_diff = {
    .group = "session",
    .name = "diff",
    .summary = "the workspace's changes as a Git patch",
    .operands = "ID",
    .min_operands = 1,
    .max_operands = 1,
    .text = "Prints a patch that was applied to the base tree once more and gave exactly the "
            "result tree. Entries that a patch cannot carry are left out and named on stderr with the "
            "reason.",
    .exits = "With --exit-code: 1 when there are changes, 0 when there are none. With --check: 1 "
             "when the checkout has another tree.",
    .example = "reposbx session diff ID -o fix.patch",
    .options = table,
    .options_size = sizeof(struct options),
    .run = run,
};
