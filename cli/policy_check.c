/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "cleanup.h"
#include "cli.h"
#include "output.h"

static int print_document(const struct rsbx_cli *cli, const char *file,
                          const reposbx_policy_problem *problems, size_t count)
{
    RSBX_CLI_AUTO(json) json_t *document = NULL;
    json_t *list = rsbx_cli_need(json_array());

    for (size_t i = 0; i < count; i++) {
        json_t *item = json_pack(
            "{s:I,s:I,s:o}", "line", (json_int_t)problems[i].line, "column",
            (json_int_t)problems[i].column, "message",
            rsbx_cli_json_bytes(problems[i].message, strlen(problems[i].message)));

        (void)json_array_append_new(list, rsbx_cli_need(item));
    }
    document = rsbx_cli_need(json_pack("{s:o,s:b,s:o}", "file",
                                       rsbx_cli_json_bytes(file, strlen(file)), "ok", count == 0,
                                       "problems", list));
    return rsbx_cli_print_json(cli, document);
}

static void print_lines(const char *file, const reposbx_policy_problem *problems, size_t count)
{
    RSBX_CLI_AUTO(text) char *name = rsbx_cli_printable(file, strlen(file));

    if (count == 0)
        (void)puts("ok");
    for (size_t i = 0; i < count; i++) {
        RSBX_CLI_AUTO(text) char *message = rsbx_cli_printable(problems[i].message,
                                                               strlen(problems[i].message));

        if (problems[i].line == 0)
            (void)printf("%s: %s\n", name, message);
        else
            (void)printf("%s:%zu:%zu: %s\n", name, problems[i].line, problems[i].column, message);
    }
}

static int run(const struct rsbx_cli_call *call)
{
    RSBX_CLI_AUTO(problems) reposbx_policy_problem *problems = NULL;
    reposbx_error err = REPOSBX_ERROR_INIT;
    size_t count = 0;

    if (reposbx_policy_check(&problems, &count, call->operands[0], &err) < 0)
        return rsbx_cli_fail(call->cli, &err);
    if (call->cli->json)
        (void)print_document(call->cli, call->operands[0], problems, count);
    else
        print_lines(call->operands[0], problems, count);
    return count == 0 ? RSBX_CLI_OK : RSBX_CLI_NO;
}

const struct rsbx_cli_command rsbx_cli_policy_check = {
    .group = "policy",
    .name = "check",
    .summary = "find every mistake of a policy document",
    .operands = "FILE",
    .min_operands = 1,
    .max_operands = 1,
    .text = "Prints every mistake as FILE:LINE:COLUMN: MESSAGE, or ok. With --json: an object with "
            "file, ok and problems.",
    .exits = "1 when there are mistakes.",
    .example = "reposbx policy check my-policy.json",
    .run = run,
};
