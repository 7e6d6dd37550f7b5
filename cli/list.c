/* SPDX-License-Identifier: Apache-2.0 */
#include "list.h"

#include <stdio.h>

#include "cleanup.h"
#include "cli.h"

void rsbx_cli_text_cell(struct rsbx_cli_table *table, const json_t *item, const char *key)
{
    const char *text = json_string_value(json_object_get(item, key));

    rsbx_cli_cell(table, text == NULL ? "-" : text);
}

static void print_table(const struct rsbx_cli_listing *list, const json_t *items)
{
    struct rsbx_cli_table table = { list->columns, 0, NULL, 0, 0 };

    for (size_t column = 0; column < list->columns; column++)
        rsbx_cli_cell(&table, list->titles[column]);
    for (size_t i = 0; i < json_array_size(items); i++)
        list->row(&table, json_array_get(items, i));
    rsbx_cli_table_print(&table, stdout);
    rsbx_cli_table_dispose(&table);
}

int rsbx_cli_list(const struct rsbx_cli *cli, const struct rsbx_cli_listing *list)
{
    RSBX_CLI_AUTO(provider) reposbx_provider *provider = NULL;
    RSBX_CLI_AUTO(text) char *text = NULL;
    RSBX_CLI_AUTO(json) json_t *items = NULL;
    reposbx_error err = REPOSBX_ERROR_INIT;

    if (rsbx_cli_open_provider(&provider, cli, &err) < 0 || list->get(&text, provider, &err) < 0)
        return rsbx_cli_fail(cli, &err);
    if (cli->json) {
        rsbx_cli_print_text(text);
        return RSBX_CLI_OK;
    }
    items = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    if (!json_is_array(items)) {
        (void)rsbx_cli_set(&err, REPOSBX_EINTERNAL, "the list of %s is not a JSON array",
                           list->things);
        return rsbx_cli_fail(cli, &err);
    }
    if (json_array_size(items) == 0)
        rsbx_cli_note(cli, "no %s in %s", list->things, reposbx_provider_state_dir(provider));
    else
        print_table(list, items);
    return RSBX_CLI_OK;
}
