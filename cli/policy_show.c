/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "cleanup.h"
#include "cli.h"
#include "output.h"

/* Names the shipped policies behind "no such policy". */
static void hint_names(reposbx_error *err)
{
    char names[REPOSBX_HINT_BYTES] = "";
    const char *const *name = reposbx_policy_names();
    size_t used = 0;

    for (; *name != NULL && used + strlen(*name) + 3 < sizeof names; name++)
        used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", used == 0 ? "" : ", ",
                                 *name);
    if (err->hint[0] == '\0' && used > 0)
        rsbx_cli_hint(err, "shipped policies: %s", names);
}

static int run(const struct rsbx_cli_call *call)
{
    RSBX_CLI_AUTO(policy) reposbx_policy *policy = NULL;
    RSBX_CLI_AUTO(text) char *text = NULL;
    reposbx_error err = REPOSBX_ERROR_INIT;
    int rc = reposbx_policy_load(&policy, call->operands[0], &err);

    if (rc == REPOSBX_ENOTFOUND)
        hint_names(&err);
    if (rc < 0 || reposbx_policy_json(&text, policy, !call->cli->json, &err) < 0)
        return rsbx_cli_fail(call->cli, &err);
    rsbx_cli_print_text(text);
    return RSBX_CLI_OK;
}

const struct rsbx_cli_command rsbx_cli_policy_show = {
    .group = "policy",
    .name = "show",
    .summary = "print a policy with every default filled in",
    .operands = "NAME|FILE",
    .min_operands = 1,
    .max_operands = 1,
    .text = "Prints a shipped policy (issue-bot, ci-validator, code-run, trusted-dev) or a "
            "document of your own as it takes effect. With --json: on one line.",
    .example = "reposbx policy show issue-bot",
    .run = run,
};
