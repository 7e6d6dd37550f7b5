/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "cleanup.h"
#include "cli.h"
#include "output.h"

static int print_rows(const struct rsbx_cli *cli, const char *document)
{
    RSBX_CLI_AUTO(json) json_t *value = rsbx_cli_need(json_loads(document, 0, NULL));
    struct rsbx_cli_table table = { 2, 2, NULL, 0, 0 };
    const char *key;
    json_t *member;

    json_object_foreach(value, key, member)
    {
        char text[64];

        if (json_is_string(member))
            (void)snprintf(text, sizeof text, "%s", json_string_value(member));
        else if (json_is_real(member))
            (void)snprintf(text, sizeof text, "%.1f", json_real_value(member));
        else
            (void)snprintf(text, sizeof text, "%" JSON_INTEGER_FORMAT, json_integer_value(member));
        rsbx_cli_cell(&table, key);
        rsbx_cli_cell(&table, text);
    }
    rsbx_cli_table_print(&table, stdout);
    rsbx_cli_table_dispose(&table);
    return rsbx_cli_finish(cli, RSBX_CLI_OK);
}

static int run(const struct rsbx_cli_call *call)
{
    RSBX_CLI_AUTO(provider) reposbx_provider *provider = NULL;
    RSBX_CLI_AUTO(text) char *document = NULL;
    reposbx_error err = REPOSBX_ERROR_INIT;

    if (rsbx_cli_open_provider(&provider, call->cli, &err) < 0 ||
        reposbx_pool_status_json(&document, provider, &err) < 0)
        return rsbx_cli_fail(call->cli, &err);
    if (!call->cli->json)
        return print_rows(call->cli, document);
    rsbx_cli_print_text(document);
    return rsbx_cli_finish(call->cli, RSBX_CLI_OK);
}

const struct rsbx_cli_command rsbx_cli_pool_status = {
    .group = "pool",
    .name = "status",
    .summary = "the numbers of the pool that serves",
    .operands = "",
    .text = "Prints the size, what waits and runs, and counts since its start: hits (a container "
            "waited), misses (one had to be made first), resets (replaced after a job that ended by "
            "itself), discards (after one that did not), busy (refused), failures, and the median "
            "and the 95th percentile of the last 1000 jobs in milliseconds.",
    .exits = "66 when no pool serves.",
    .example = "reposbx pool status --json",
    .run = run,
};
