/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cleanup.h"
#include "cli.h"
#include "output.h"

struct options {
    struct rsbx_cli_wishes wishes;
    const char *stdin_file;
    int status_fd, passthrough;
};

static int check(const struct rsbx_cli_call *call, reposbx_error *err)
{
    const struct options *options = call->options;

    if (!call->saw_dashes || call->argc == 0) {
        (void)rsbx_cli_set(err, REPOSBX_EINVALID, "missing: the command that is to run");
        rsbx_cli_hint(err, "usage: reposbx session exec %s", call->command->operands);
        return REPOSBX_EINVALID;
    }
    if (call->cli->json && options->status_fd > 0)
        return rsbx_cli_set(err, REPOSBX_EINVALID, "--json and --status-fd exclude each other");
    return 0;
}

/* Why it ended early, in one line. */
static void explain(const struct rsbx_cli *cli, const reposbx_exec_result *result)
{
    char text[RSBX_CLI_SHORT_BYTES];

    switch ((enum reposbx_exec_status)result->status) {
    case REPOSBX_EXITED:
        if (result->exec_errno != 0 && result->argc == 1 && strchr(result->argv[0], ' ') != NULL)
            rsbx_cli_note(cli, "cannot start %.200s: %s; it is one word here: give each argument as its own, "
                               "or a shell's name, -c and the line",
                          result->argv[0], strerror(result->exec_errno));
        else if (result->exec_errno != 0)
            rsbx_cli_note(cli, "cannot start %.200s: %s",
                          result->argc == 0 ? "the command" : result->argv[0],
                          strerror(result->exec_errno));
        else if (result->oom_killed)
            rsbx_cli_note(cli, "a process of the command was killed for memory");
        break;
    case REPOSBX_SIGNALED:
        rsbx_cli_note(cli, "killed by signal %d (%s)", result->signal, strsignal(result->signal));
        break;
    case REPOSBX_TIMED_OUT:
        rsbx_cli_note(cli, "timed out after %s", rsbx_cli_duration(text, result->duration_ms));
        break;
    case REPOSBX_OUTPUT_LIMITED:
        rsbx_cli_note(cli, "stopped: it wrote more than the output limit (%s)",
                      rsbx_cli_size(text, result->stdout_bytes + result->stderr_bytes));
        break;
    case REPOSBX_OOM_KILLED:
        rsbx_cli_note(cli, "killed for memory (limit %s)",
                      rsbx_cli_size(text, result->observed_memory_bytes));
        break;
    case REPOSBX_STATUS_UNKNOWN:
        rsbx_cli_note(cli, "the engine or the guest went away: how the command ended is unknown");
        break;
    }
}

static int put_status(int fd, const char *text, reposbx_error *err)
{
    size_t length = strlen(text);

    while (length > 0) {
        ssize_t put = write(fd, text, length);

        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0)
            return rsbx_cli_set_errno(err, REPOSBX_EIO, "cannot write to descriptor %d", fd);
        text += put;
        length -= (size_t)put;
    }
    return write(fd, "\n", 1) == 1
               ? 0
               : rsbx_cli_set_errno(err, REPOSBX_EIO, "cannot write to descriptor %d", fd);
}

static int report(const struct rsbx_cli_call *call, const reposbx_exec_result *result)
{
    const struct options *options = call->options;
    RSBX_CLI_AUTO(text) char *document = NULL;
    reposbx_error err = REPOSBX_ERROR_INIT;
    int code = rsbx_cli_status_code(result->status, result->exit_code, result->signal);

    if ((call->cli->json || options->status_fd > 0) &&
        reposbx_exec_result_json(&document, result, &err) < 0)
        return rsbx_cli_fail(call->cli, &err);
    if (call->cli->json) {
        rsbx_cli_print_text(document);
        return options->passthrough || result->status == REPOSBX_STATUS_UNKNOWN ? code
                                                                                : RSBX_CLI_OK;
    }
    explain(call->cli, result);
    if (options->status_fd > 0 && put_status(options->status_fd, document, &err) < 0)
        return rsbx_cli_fail(call->cli, &err);
    return code;
}

static int run(const struct rsbx_cli_call *call)
{
    const struct options *options = call->options;
    RSBX_CLI_AUTO(text) char *values = NULL;
    RSBX_CLI_AUTO(provider) reposbx_provider *provider = NULL;
    RSBX_CLI_AUTO(session) reposbx_session *session = NULL;
    RSBX_CLI_AUTO(text) char *input = NULL;
    RSBX_CLI_AUTO(exec_result) reposbx_exec_result result = { 0 };
    reposbx_exec_request request = REPOSBX_EXEC_REQUEST_INIT;
    struct rsbx_cli_stream stream = { -1, 0, 0 };
    reposbx_error err = REPOSBX_ERROR_INIT;
    int rc;

    if (check(call, &err) < 0 || rsbx_cli_hide_values(&values, &options->wishes.env, &err) < 0)
        return rsbx_cli_fail(call->cli, &err);
    if (options->stdin_file != NULL &&
        rsbx_cli_read_all(&input, &request.stdin_length, options->stdin_file,
                          RSBX_CLI_MAX_INPUT_BYTES, &err) < 0)
        return rsbx_cli_fail(call->cli, &err);
    request.stdin_bytes = input;
    if (rsbx_cli_open_session(&session, &provider, call, &err) < 0 ||
        rsbx_cli_catch_signals(&stream.cancel_fd, &err) < 0)
        return rsbx_cli_fail(call->cli, &err);
    rsbx_cli_fill(&request, call, &options->wishes, &stream);
    rc = reposbx_session_exec(&result, session, &request, &err);
    if (rc == REPOSBX_ECANCELLED || (rc < 0 && stream.broken))
        return rsbx_cli_stopped(call->cli, &stream, "the command was killed, the session is kept",
                                &err);
    return rc < 0 ? rsbx_cli_fail(call->cli, &err) : report(call, &result);
}

static const struct rsbx_cli_option table[] = {
    RSBX_CLI_COMMAND_ROWS(struct options),
    { "stdin", 0, RSBX_CLI_TEXT, offsetof(struct options, stdin_file), "FILE|-",
      "What the command reads from its stdin; - is our own stdin. Default: nothing." },
    RSBX_CLI_LIMIT_ROWS(struct options),
    { "status-fd", 0, RSBX_CLI_FD, offsetof(struct options, status_fd), "FD",
      "Stream the output and write the result document to this descriptor." },
    { "passthrough", 0, RSBX_CLI_FLAG, offsetof(struct options, passthrough), NULL,
      "With --json: exit with the command's code all the same." },
    { NULL, 0, RSBX_CLI_FLAG, 0, NULL, NULL },
};

const struct rsbx_cli_command rsbx_cli_session_exec = {
    .group = "session",
    .name = "exec",
    .summary = "run one command in a fresh container of the session",
    .operands = "ID -- ARGV…",
    .min_operands = 1,
    .max_operands = 1,
    .takes_argv = 1,
    .text = "Runs the command on the session's workspace and streams its stdout and stderr; with "
            "--json prints the result document instead. No shell is involved: name one in ARGV "
            "where it is wanted.\n"
            "An interrupt (Ctrl-C, SIGTERM, SIGHUP) kills the command and keeps the session.",
    .exits = "The command's own code; 128 + n when signal n killed it; 124 timed out; 122 output "
             "limit reached; 137 killed for memory; 126 or 127 when it could not be started. With "
             "--json: 0 whenever the sandbox itself worked, unless --passthrough is given.",
    .example = "reposbx session exec ID --timeout 60 -- make check",
    .options = table,
    .options_size = sizeof(struct options),
    .run = run,
};
