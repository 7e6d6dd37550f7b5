/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "cleanup.h"
#include "cli.h"
#include "output.h"

static void text_cell(struct rsbx_cli_table *table, const json_t *value)
{
    const char *text = json_string_value(value);

    rsbx_cli_cell(table, text == NULL ? "-" : text);
}

static void size_cell(struct rsbx_cli_table *table, const json_t *value)
{
    char text[RSBX_CLI_SHORT_BYTES];

    rsbx_cli_cell(table, rsbx_cli_size(text, (uint64_t)json_integer_value(value)));
}

static void print_table(const json_t *list)
{
    static const char *const titles[] = { "DIGEST", "NAME", "PROGRAM", "INSTALLED", "STATE" };
    struct rsbx_cli_table table = { sizeof titles / sizeof titles[0], 0, NULL, 0, 0 };

    for (size_t column = 0; column < table.columns; column++)
        rsbx_cli_cell(&table, titles[column]);
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *item = json_array_get(list, i);

        text_cell(&table, json_object_get(item, "digest"));
        text_cell(&table, json_object_get(item, "name"));
        size_cell(&table, json_object_get(item, "native_bytes"));
        text_cell(&table, json_object_get(item, "installed_at"));
        if (!json_is_true(json_object_get(item, "ready")))
            text_cell(&table, json_object_get(item, "problem"));
        else
            rsbx_cli_cell(&table, json_is_true(json_object_get(item, "default")) ? "ready, default"
                                                                                 : "ready");
    }
    rsbx_cli_table_print(&table, stdout);
    rsbx_cli_table_dispose(&table);
}

static int run(const struct rsbx_cli_call *call)
{
    RSBX_CLI_AUTO(provider) reposbx_provider *provider = NULL;
    RSBX_CLI_AUTO(text) char *text = NULL;
    RSBX_CLI_AUTO(json) json_t *list = NULL;
    reposbx_error err = REPOSBX_ERROR_INIT;

    if (rsbx_cli_open_provider(&provider, call->cli, &err) < 0 ||
        reposbx_wasm_list_json(&text, provider, &err) < 0)
        return rsbx_cli_fail(call->cli, &err);
    if (call->cli->json) {
        rsbx_cli_print_text(text);
        return RSBX_CLI_OK;
    }
    list = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    if (!json_is_array(list)) {
        (void)rsbx_cli_set(&err, REPOSBX_EINTERNAL, "the list of modules is not a JSON array");
        return rsbx_cli_fail(call->cli, &err);
    }
    if (json_array_size(list) == 0)
        rsbx_cli_note(call->cli, "no modules in %s", reposbx_provider_state_dir(provider));
    else
        print_table(list);
    return RSBX_CLI_OK;
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
