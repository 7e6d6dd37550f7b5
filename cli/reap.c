/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "cleanup.h"
#include "cli.h"
#include "output.h"

struct options {
    int dry_run;
};

static void print_table(const reposbx_reap_report *report)
{
    struct rsbx_cli_table table = { 4, 0, NULL, 0, 0 };

    for (size_t i = 0; i < report->count; i++) {
        const reposbx_reap_item *item = &report->items[i];

        rsbx_cli_cell(&table, item->action);
        rsbx_cli_cell(&table, item->session_id == NULL ? "-" : item->session_id);
        rsbx_cli_cell(&table, item->object);
        rsbx_cli_cell(&table, item->detail == NULL ? "" : item->detail);
    }
    rsbx_cli_table_print(&table, stdout);
    rsbx_cli_table_dispose(&table);
}

static int run(const struct rsbx_cli_call *call)
{
    const struct options *options = call->options;
    RSBX_CLI_AUTO(provider) reposbx_provider *provider = NULL;
    RSBX_CLI_AUTO(reap_report) reposbx_reap_report report = { NULL, 0, 0 };
    RSBX_CLI_AUTO(text) char *document = NULL;
    reposbx_error err = REPOSBX_ERROR_INIT;

    if (rsbx_cli_open_provider(&provider, call->cli, &err) < 0 ||
        reposbx_reap(&report, provider, options->dry_run, &err) < 0)
        return rsbx_cli_fail(call->cli, &err);
    if (call->cli->json) {
        if (reposbx_reap_report_json(&document, &report, &err) < 0)
            return rsbx_cli_fail(call->cli, &err);
        rsbx_cli_print_text(document);
    } else if (report.count == 0) {
        rsbx_cli_note(call->cli, "nothing to remove");
    } else {
        print_table(&report);
    }
    return report.failed > 0 ? RSBX_CLI_NO : RSBX_CLI_OK;
}

static const struct rsbx_cli_option table[] = {
    { "dry-run", 0, RSBX_CLI_FLAG, offsetof(struct options, dry_run), NULL,
      "Only say what would be removed." },
    { NULL, 0, RSBX_CLI_FLAG, 0, NULL, NULL },
};

const struct rsbx_cli_command rsbx_cli_reap = {
    .name = "reap",
    .summary = "remove what dead or expired sessions left",
    .operands = "",
    .text = "Removes what dead, half-made, poisoned and expired sessions of this state folder left "
            "in the engine and on disk, and nothing else. A session that someone uses, and a ready "
            "one within its lease, is not touched.",
    .exits = "1 when something could not be removed.",
    .example = "reposbx reap --dry-run",
    .options = table,
    .options_size = sizeof(struct options),
    .run = run,
};
