/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cleanup.h"
#include "cli.h"
#include "output.h"

static const char *type_word(char type)
{
    switch (type) {
    case 'f':
        return "file";
    case 'x':
        return "executable";
    case 'l':
        return "symlink";
    case 'd':
        return "folder";
    default:
        return "other";
    }
}

static int print_document(const struct rsbx_cli *cli, const reposbx_file_list *list)
{
    RSBX_CLI_AUTO(json) json_t *document = rsbx_cli_need(json_array());

    for (size_t i = 0; i < list->count; i++) {
        const reposbx_file *file = &list->files[i];
        json_t *item = json_pack("{s:o,s:s,s:I}", "path",
                                 rsbx_cli_json_bytes(file->path, strlen(file->path)), "type",
                                 type_word(file->type), "size", (json_int_t)file->size);

        (void)json_array_append_new(document, rsbx_cli_need(item));
    }
    return rsbx_cli_print_json(cli, document);
}

static void print_table(const reposbx_file_list *list)
{
    struct rsbx_cli_table table = { 3, 1U << 1, NULL, 0, 0 };

    for (size_t i = 0; i < list->count; i++) {
        char size[RSBX_CLI_SHORT_BYTES];

        (void)snprintf(size, sizeof size, "%" PRIu64, list->files[i].size);
        rsbx_cli_cell(&table, type_word(list->files[i].type));
        rsbx_cli_cell(&table, size);
        rsbx_cli_cell_take(&table, rsbx_cli_quoted(list->files[i].path, 0));
    }
    rsbx_cli_table_print(&table, stdout);
    rsbx_cli_table_dispose(&table);
}

static int run(const struct rsbx_cli_call *call)
{
    RSBX_CLI_AUTO(provider) reposbx_provider *provider = NULL;
    RSBX_CLI_AUTO(session) reposbx_session *session = NULL;
    RSBX_CLI_AUTO(file_list) reposbx_file_list list = { NULL, 0 };
    const char *path = call->operand_count > 1 ? call->operands[1] : NULL;
    reposbx_error err = REPOSBX_ERROR_INIT;

    if (rsbx_cli_open_session(&session, &provider, call, &err) < 0 ||
        reposbx_session_list_files(&list, session, path, &err) < 0)
        return rsbx_cli_fail(call->cli, &err);
    if (call->cli->json)
        return print_document(call->cli, &list);
    print_table(&list);
    return RSBX_CLI_OK;
}

const struct rsbx_cli_command rsbx_cli_session_list_files = {
    .group = "session",
    .name = "list-files",
    .summary = "list the workspace or a part of it",
    .operands = "ID [PATH]",
    .min_operands = 1,
    .max_operands = 2,
    .text = "Prints everything at and below PATH: type, size in bytes and path, sorted by path. A "
            "path that holds other bytes than printable UTF-8 is quoted as Git quotes it. With "
            "--json: an array of {path, type, size}.",
    .example = "reposbx session list-files ID src",
    .run = run,
};
