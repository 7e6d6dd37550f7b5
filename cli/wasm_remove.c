/* SPDX-License-Identifier: Apache-2.0 */
#include "cleanup.h"
#include "cli.h"
#include "output.h"

static int run(const struct rsbx_cli_call *call)
{
    RSBX_CLI_AUTO(provider) reposbx_provider *provider = NULL;
    reposbx_error err = REPOSBX_ERROR_INIT;

    if (rsbx_cli_open_provider(&provider, call->cli, &err) < 0 ||
        reposbx_wasm_remove(provider, call->operands[0], &err) < 0)
        return rsbx_cli_fail(call->cli, &err);
    return RSBX_CLI_OK;
}

const struct rsbx_cli_command rsbx_cli_wasm_remove = {
    .group = "wasm",
    .name = "remove",
    .summary = "remove a compiled module",
    .operands = "DIGEST",
    .min_operands = 1,
    .max_operands = 1,
    .text = "Removes an installed module by the digest that list shows. Programs of it that run are "
            "not disturbed. When it was the default, there is none until one is installed with "
            "--default, or as the first.",
    .example = "reposbx wasm remove 5f1c…",
    .run = run,
};
