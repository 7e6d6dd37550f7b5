/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "cleanup.h"
#include "cli.h"
#include "output.h"

static int run(const struct rsbx_cli_call *call)
{
    RSBX_CLI_AUTO(text) char *text = NULL;
    RSBX_CLI_AUTO(json) json_t *document = NULL;
    reposbx_error err = REPOSBX_ERROR_INIT;
    json_t *libraries;

    if (!call->cli->json && !call->cli->verbose) {
        (void)printf("reposbx %s\n", reposbx_version());
        return RSBX_CLI_OK;
    }
    if (reposbx_version_json(&text, &err) < 0)
        return rsbx_cli_fail(call->cli, &err);
    if (call->cli->json) {
        rsbx_cli_print_text(text);
        return RSBX_CLI_OK;
    }
    (void)printf("reposbx %s\n", reposbx_version());
    document = json_loads(text, 0, NULL);
    libraries = json_object_get(document, "libraries");
    for (void *at = json_object_iter(libraries); at != NULL;
         at = json_object_iter_next(libraries, at)) {
        const char *value = json_string_value(json_object_iter_value(at));

        (void)printf("  %-12s %s\n", json_object_iter_key(at), value == NULL ? "-" : value);
    }
    return RSBX_CLI_OK;
}

const struct rsbx_cli_command rsbx_cli_version = {
    .name = "version",
    .summary = "versions of reposbx and its libraries",
    .operands = "",
    .text = "Prints the version; with -v those of the libraries too, with --json all of it and the "
            "range of engine API versions.",
    .example = "reposbx version --json",
    .run = run,
};
