/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "cleanup.h"
#include "cli.h"
#include "output.h"

static void row(struct rsbx_cli_table *table, const char *prefix, const char *key,
                const json_t *value)
{
    char name[96];
    char *text;

    if (value == NULL || json_is_object(value))
        return;
    (void)snprintf(name, sizeof name, "%s%s", prefix, key);
    rsbx_cli_cell(table, name);
    if (json_is_string(value)) {
        rsbx_cli_cell(table, json_string_value(value));
    } else if (json_is_null(value)) {
        rsbx_cli_cell(table, "-");
    } else {
        text = json_dumps(value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(6));
        rsbx_cli_cell_take(table, text);
    }
}

/* Scalars in the document's own order; members of inner objects as "capabilities.isolation". The
 * policy is long and has a document of its own: only its name is shown. */
static void print_table(json_t *document)
{
    struct rsbx_cli_table table = { 2, 0, NULL, 0, 0 };
    const char *key;
    const json_t *value;

    for (void *at = json_object_iter(document); at != NULL;
         at = json_object_iter_next(document, at)) {
        key = json_object_iter_key(at);
        value = json_object_iter_value(at);
        if (strcmp(key, "policy") == 0) {
            row(&table, "policy.", "name", json_object_get(value, "name"));
        } else if (strcmp(key, "capabilities") == 0) {
            for (void *inner = json_object_iter(json_object_iter_value(at)); inner != NULL;
                 inner = json_object_iter_next(json_object_iter_value(at), inner))
                row(&table, "capabilities.", json_object_iter_key(inner),
                    json_object_iter_value(inner));
        } else {
            row(&table, "", key, value);
        }
    }
    rsbx_cli_table_print(&table, stdout);
    rsbx_cli_table_dispose(&table);
}

static int run(const struct rsbx_cli_call *call)
{
    RSBX_CLI_AUTO(provider) reposbx_provider *provider = NULL;
    RSBX_CLI_AUTO(text) char *text = NULL;
    RSBX_CLI_AUTO(json) json_t *document = NULL;
    reposbx_error err = REPOSBX_ERROR_INIT;

    if (rsbx_cli_open_provider(&provider, call->cli, &err) < 0 ||
        reposbx_session_metadata_json(&text, provider, call->operands[0], &err) < 0)
        return rsbx_cli_fail(call->cli, &err);
    if (call->cli->json) {
        rsbx_cli_print_text(text);
        return RSBX_CLI_OK;
    }
    document = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    if (!json_is_object(document)) {
        (void)rsbx_cli_set(&err, REPOSBX_EINTERNAL, "the metadata is not a JSON object");
        return rsbx_cli_fail(call->cli, &err);
    }
    print_table(document);
    return RSBX_CLI_OK;
}

const struct rsbx_cli_command rsbx_cli_session_show = {
    .group = "session",
    .name = "show",
    .summary = "a session's metadata",
    .operands = "ID",
    .min_operands = 1,
    .max_operands = 1,
    .text = "Prints what the session is: its source, image, workspace, state and what its sandbox "
            "guarantees. Asks no engine and waits for nobody. With --json: the whole metadata "
            "document with the policy.",
    .example = "reposbx session show ID",
    .run = run,
};
