/* SPDX-License-Identifier: Apache-2.0 */
#include "cli.h"

int rsbx_cli_open_provider(reposbx_provider **out, const struct rsbx_cli *cli, reposbx_error *err)
{
    reposbx_provider_options options = REPOSBX_PROVIDER_OPTIONS_INIT;

    options.engine = cli->engine;
    options.state_dir = cli->state_dir;
    return reposbx_provider_open(out, &options, err);
}

int rsbx_cli_open_session(reposbx_session **session, reposbx_provider **provider,
                          const struct rsbx_cli_call *call, reposbx_error *err)
{
    int rc = rsbx_cli_open_provider(provider, call->cli, err);

    if (rc < 0)
        return rc;
    return reposbx_session_open(session, *provider, call->operands[0], err);
}
