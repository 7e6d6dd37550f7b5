/* SPDX-License-Identifier: Apache-2.0 */
#include "list.h"

static const char *const titles[] = { "ID", "STATE", "CREATED", "WORKSPACE", "TASK", "IMAGE" };

static void row(struct rsbx_cli_table *table, const json_t *item)
{
    static const char *const keys[] = { "sandbox_id", "state", "created_at", "workspace",
                                        "task_id",    "image" };

    for (size_t column = 0; column < sizeof keys / sizeof keys[0]; column++)
        rsbx_cli_text_cell(table, item, keys[column]);
}

static int run(const struct rsbx_cli_call *call)
{
    static const struct rsbx_cli_listing list = { "sessions", reposbx_session_list_json, titles,
                                               sizeof titles / sizeof titles[0], row };

    return rsbx_cli_list(call->cli, &list);
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
