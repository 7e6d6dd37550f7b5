/* SPDX-License-Identifier: Apache-2.0 */
#include "list.h"

static const char *const titles[] = { "DIGEST", "NAME", "PROGRAM", "INSTALLED", "STATE" };

static void row(struct rsbx_cli_table *table, const json_t *item)
{
    char text[RSBX_CLI_SHORT_BYTES];

    rsbx_cli_text_cell(table, item, "digest");
    rsbx_cli_text_cell(table, item, "name");
    rsbx_cli_cell(table, rsbx_cli_size(text, (uint64_t)json_integer_value(
                                                 json_object_get(item, "native_bytes"))));
    rsbx_cli_text_cell(table, item, "installed_at");
    if (!json_is_true(json_object_get(item, "ready")))
        rsbx_cli_text_cell(table, item, "problem");
    else
        rsbx_cli_cell(table, json_is_true(json_object_get(item, "default")) ? "ready, default"
                                                                            : "ready");
}

static int get(char **out, reposbx_provider *provider, reposbx_error *err)
{
    return reposbx_wasm_list_json(out, provider, err);
}

static int run(const struct rsbx_cli_call *call)
{
    static const struct rsbx_cli_listing list = { "modules", get, titles,
                                               sizeof titles / sizeof titles[0], row };

    return rsbx_cli_list(call->cli, &list);
}

const struct rsbx_cli_command rsbx_cli_wasm_list = {
    .group = "wasm",
    .name = "list",
    .summary = "the modules of the state folder, checked",
    .operands = "",
    .text = "Lists the installed WebAssembly modules. Each is checked against its hashes; one that "
            "was changed is shown with what is wrong, and never run.",
    .example = "reposbx wasm list --json",
    .run = run,
};
