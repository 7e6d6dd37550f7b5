/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "cleanup.h"
#include "cli.h"
#include "output.h"

int rsbx_cli_open_provider(reposbx_provider **out, const struct rsbx_cli *cli, reposbx_error *err)
{
    reposbx_provider_options options = REPOSBX_PROVIDER_OPTIONS_INIT;

    options.engine = cli->engine;
    options.state_dir = cli->state_dir;
    return reposbx_provider_open(out, &options, err);
}

int rsbx_cli_open_session(reposbx_session **session, reposbx_provider **provider,
                          const struct rsbx_cli_call *call, reposbx_error *err)
{
    int rc = rsbx_cli_open_provider(provider, call->cli, err);

    if (rc < 0)
        return rc;
    return reposbx_session_open(session, *provider, call->operands[0], err);
}

void rsbx_cli_fill_spec(reposbx_spec *spec, const struct rsbx_cli_source *source,
                        const reposbx_policy *policy)
{
    spec->repo = source->repo;
    spec->revision = source->revision;
    spec->image = source->image;
    spec->platform = source->platform;
    spec->task_id = source->task_id;
    spec->workspace = source->workspace;
    spec->policy = policy;
}

int rsbx_cli_print_new_session(const struct rsbx_cli_call *call, reposbx_provider *provider,
                               const reposbx_session *session)
{
    RSBX_CLI_AUTO(text) char *metadata = NULL;
    reposbx_error err = REPOSBX_ERROR_INIT;
    int code;

    if (!call->cli->json) {
        rsbx_cli_print_text(reposbx_session_id(session));
    } else {
        if (reposbx_session_metadata_json(&metadata, provider, reposbx_session_id(session), &err) <
            0) {
            rsbx_cli_note(call->cli, "session %s was created", reposbx_session_id(session));
            return rsbx_cli_fail(call->cli, &err);
        }
        rsbx_cli_print_text(metadata);
    }
    code = rsbx_cli_finish(call->cli, RSBX_CLI_OK);
    /* An id that nobody has seen would be lost until reap. */
    if (code != RSBX_CLI_OK)
        (void)fprintf(stderr, "reposbx: session %s was created\n", reposbx_session_id(session));
    return code;
}
