/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RSBX_CLI_LIST_H
#define RSBX_CLI_LIST_H

#include "output.h"

/* What a verb that lists things shows: all of them as the library's JSON, or a table of a line each. */
struct rsbx_cli_listing {
    const char *things;            /* "sessions" */
    int (*get)(char **out, reposbx_provider *provider, reposbx_error *err);
    const char *const *titles;
    size_t columns;
    void (*row)(struct rsbx_cli_table *table, const json_t *item);
};
/* The exit code. */
int rsbx_cli_list(const struct rsbx_cli *cli, const struct rsbx_cli_listing *list);
/* A cell with the text at `key` of an item, or "-". */
void rsbx_cli_text_cell(struct rsbx_cli_table *table, const json_t *item, const char *key);

#endif
