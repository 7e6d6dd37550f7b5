/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "cleanup.h"
#include "cli.h"
#include "output.h"

static int run(const struct rsbx_cli_call *call)
{
    RSBX_CLI_AUTO(provider) reposbx_provider *provider = NULL;
    RSBX_CLI_AUTO(session) reposbx_session *session = NULL;
    RSBX_CLI_AUTO(session) reposbx_session *fork = NULL;
    struct rsbx_cli_stream stream = { -1, 0, 0 };
    reposbx_error err = REPOSBX_ERROR_INIT;
    int rc;

    if (rsbx_cli_open_session(&session, &provider, call, &err) < 0 ||
        rsbx_cli_catch_signals(&stream.cancel_fd, &err) < 0)
        return rsbx_cli_fail(call->cli, &err);
    rc = reposbx_session_fork_until(&fork, session, provider, stream.cancel_fd, &err);
    if (rc == REPOSBX_ECANCELLED)
        return rsbx_cli_stopped(call->cli, &stream, "nothing is left of the new session", &err);
    if (rc < 0)
        return rsbx_cli_fail(call->cli, &err);
    return rsbx_cli_print_new_session(call, provider, fork);
}

static const struct rsbx_cli_option table[] = {
    { NULL, 0, RSBX_CLI_FLAG, 0, NULL, NULL },
};

const struct rsbx_cli_command rsbx_cli_session_fork = {
    .group = "session",
    .name = "fork",
    .summary = "make a new session from the present state of a session",
    .operands = "ID",
    .min_operands = 1,
    .max_operands = 1,
    .text = "Makes a second session with the same image, policy and source, whose workspace is what "
            "that of ID is now. The baseline is shared, so it costs what was changed. Prints the new "
            "session's id alone, or with --json its metadata.\n"
            "Files, folders, symlinks and fifos are carried over with permissions and times; hard "
            "links become files of their own; sockets and devices stay behind.\n"
            "An interrupt (Ctrl-C, SIGTERM, SIGHUP) removes what was made so far; a second one ends the "
            "command at once, and 'reposbx reap' removes what that left.",
    .example = "reposbx session fork ID",
    .options = table,
    .options_size = 1,
    .run = run,
};
