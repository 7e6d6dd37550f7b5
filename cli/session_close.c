/* SPDX-License-Identifier: Apache-2.0 */
#include <unistd.h>

#include "cleanup.h"
#include "cli.h"
#include "output.h"

struct options {
    int keep_audit, drop_audit, wait;
};

static int run(const struct rsbx_cli_call *call)
{
    const struct options *options = call->options;
    RSBX_CLI_AUTO(provider) reposbx_provider *provider = NULL;
    RSBX_CLI_AUTO(session) reposbx_session *session = NULL;
    RSBX_CLI_AUTO(json) json_t *document = NULL;
    const char *audit;
    reposbx_error err = REPOSBX_ERROR_INIT;

    if (options->keep_audit && options->drop_audit) {
        (void)rsbx_cli_set(&err, REPOSBX_EINVALID,
                           "--keep-audit and --drop-audit exclude each other");
        return rsbx_cli_fail(call->cli, &err);
    }
    if (rsbx_cli_open_session(&session, &provider, call, &err) < 0 ||
        reposbx_session_close(session,
                              (options->drop_audit ? REPOSBX_DROP_AUDIT : REPOSBX_KEEP_AUDIT) |
                                  (options->wait ? 0 : REPOSBX_CLOSE_BEHIND),
                              &err) < 0)
        return rsbx_cli_fail(call->cli, &err);
    if (!call->cli->json)
        return RSBX_CLI_OK;
    /* An earlier close may have dropped it. */
    audit = access(reposbx_session_audit_dir(session), F_OK) == 0 ? "kept" : "dropped";
    document = rsbx_cli_need(json_pack("{s:s,s:s,s:s}", "sandbox_id", call->operands[0], "state",
                                       "closed", "audit", audit));
    return rsbx_cli_print_json(call->cli, document);
}

static const struct rsbx_cli_option table[] = {
    { "keep-audit", 0, RSBX_CLI_FLAG, offsetof(struct options, keep_audit), NULL,
      "Keep the log and the captured output (the default)." },
    { "drop-audit", 0, RSBX_CLI_FLAG, offsetof(struct options, drop_audit), NULL,
      "Remove them too." },
    { "wait", 0, RSBX_CLI_FLAG, offsetof(struct options, wait), NULL,
      "Return when large volumes are gone too." },
    { NULL, 0, RSBX_CLI_FLAG, 0, NULL, NULL },
};

const struct rsbx_cli_command rsbx_cli_session_close = {
    .group = "session",
    .name = "close",
    .summary = "remove a session's containers and volumes",
    .operands = "ID",
    .min_operands = 1,
    .max_operands = 1,
    .text = "Removes every container and volume of the session and makes sure that they are gone. "
            "Closing a closed session is fine. What could not be removed is named and stays for "
            "'reposbx reap'. The volumes of a large repository (over 1,000 files or 16 MiB) are "
            "removed behind the command's back unless --wait is given.",
    .example = "reposbx session close ID",
    .options = table,
    .options_size = sizeof(struct options),
    .run = run,
};
