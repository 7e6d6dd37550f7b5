/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "cleanup.h"
#include "cli.h"
#include "output.h"

static void cell(struct rsbx_cli_table *table, const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));

    rsbx_cli_cell(table, text == NULL ? "-" : text);
}

static void print_table(const json_t *list)
{
    static const char *const keys[] = { "sandbox_id", "state", "created_at", "workspace",
                                        "task_id",    "image" };
    static const char *const titles[] = { "ID", "STATE", "CREATED", "WORKSPACE", "TASK", "IMAGE" };
    struct rsbx_cli_table table = { sizeof keys / sizeof keys[0], 0, NULL, 0, 0 };

    for (size_t column = 0; column < table.columns; column++)
        rsbx_cli_cell(&table, titles[column]);
    for (size_t i = 0; i < json_array_size(list); i++) {
        for (size_t column = 0; column < table.columns; column++)
            cell(&table, json_array_get(list, i), keys[column]);
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
        reposbx_session_list_json(&text, provider, &err) < 0)
        return rsbx_cli_fail(call->cli, &err);
    if (call->cli->json) {
        rsbx_cli_print_text(text);
        return RSBX_CLI_OK;
    }
    list = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    if (!json_is_array(list)) {
        (void)rsbx_cli_set(&err, REPOSBX_EINTERNAL, "the list of sessions is not a JSON array");
        return rsbx_cli_fail(call->cli, &err);
    }
    if (json_array_size(list) == 0)
        rsbx_cli_note(call->cli, "no sessions in %s", reposbx_provider_state_dir(provider));
    else
        print_table(list);
    return RSBX_CLI_OK;
}

const struct rsbx_cli_command rsbx_cli_session_list = {
    .group = "session",
    .name = "list",
    .summary = "the sessions of the state folder",
    .operands = "",
    .text = "Lists every session of the state folder, newest first, closed ones too while their "
            "log is kept. With --json: an array of metadata documents.",
    .example = "reposbx session list --json",
    .run = run,
};
