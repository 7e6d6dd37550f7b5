/* SPDX-License-Identifier: Apache-2.0 */
#include "cleanup.h"
#include "cli.h"
#include "output.h"

static int run(const struct rsbx_cli_call *call)
{
    RSBX_CLI_AUTO(provider) reposbx_provider *provider = NULL;
    RSBX_CLI_AUTO(json) json_t *document = NULL;
    reposbx_error err = REPOSBX_ERROR_INIT;

    if (rsbx_cli_open_provider(&provider, call->cli, &err) < 0 ||
        reposbx_pool_stop(provider, &err) < 0)
        return rsbx_cli_fail(call->cli, &err);
    if (!call->cli->json)
        return RSBX_CLI_OK;
    document = rsbx_cli_need(json_pack("{s:s}", "state", "stopped"));
    return rsbx_cli_print_json(call->cli, document);
}

const struct rsbx_cli_command rsbx_cli_pool_shutdown = {
    .group = "pool",
    .name = "shutdown",
    .summary = "end the pool that serves, and wait until it is gone",
    .operands = "",
    .text = "No new job is taken, those that run are waited for, and every container is removed.",
    .exits = "66 when no pool serves.",
    .example = "reposbx pool shutdown",
    .run = run,
};
