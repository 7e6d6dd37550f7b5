/* SPDX-License-Identifier: Apache-2.0 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cleanup.h"
#include "cli.h"
#include "log_line.h"
#include "output.h"

#define POLL_MS 200

struct options {
    int follow;
};

static volatile sig_atomic_t caught_signal;

static void on_signal(int number)
{
    caught_signal = number;
}

/* What is carried from line to line. */
struct log {
    const struct rsbx_cli *cli;
    int ended;               /* the record that ends a session was seen */
};

static int print_line(void *payload, const char *line, size_t length)
{
    struct log *log = payload;
    RSBX_CLI_AUTO(json) json_t *record = json_loadb(line, length, 0, NULL);
    const char *time = json_string_value(json_object_get(record, "time"));
    const char *event = json_string_value(json_object_get(record, "event"));

    if (log->cli->json) {
        (void)fwrite(line, 1, length, stdout);
        (void)putchar('\n');
    } else if (time == NULL || event == NULL) {
        (void)puts("(a line that is no record; see 'reposbx audit verify')");
    } else {
        rsbx_cli_print_record(time, event, json_object_get(record, "data"));
    }
    if (event != NULL && strcmp(event, "sandbox_closed") == 0)
        log->ended = 1;
    return ferror(stdout);
}

static void catch_signals(void)
{
    struct sigaction action;

    memset(&action, 0, sizeof action);
    action.sa_handler = on_signal;
    (void)sigemptyset(&action.sa_mask);
    (void)sigaction(SIGINT, &action, NULL);
    (void)sigaction(SIGTERM, &action, NULL);
    (void)sigaction(SIGHUP, &action, NULL);
}

static int follow(struct log *log, const char *folder, uint64_t *offset, reposbx_error *err)
{
    const struct timespec pause = { 0, POLL_MS * 1000000L };
    int rc;

    while (!log->ended && caught_signal == 0) {
        if (fflush(stdout) != 0)
            return rsbx_cli_finish(log->cli, RSBX_CLI_OK);
        (void)nanosleep(&pause, NULL);
        rc = reposbx_audit_read(folder, offset, print_line, log, err);
        /* The session was closed and its log dropped: there is no more to come. */
        if (rc == REPOSBX_ENOTFOUND)
            return RSBX_CLI_OK;
        if (rc < 0)
            return rsbx_cli_fail(log->cli, err);
        if (rc > 0)
            return RSBX_CLI_OK;
    }
    return caught_signal == 0 ? RSBX_CLI_OK : RSBX_CLI_SIGNAL_BASE + (int)caught_signal;
}

static int run(const struct rsbx_cli_call *call)
{
    const struct options *options = call->options;
    RSBX_CLI_AUTO(provider) reposbx_provider *provider = NULL;
    RSBX_CLI_AUTO(text) char *folder = NULL;
    struct log log = { call->cli, 0 };
    reposbx_error err = REPOSBX_ERROR_INIT;
    uint64_t offset = 0;

    if (rsbx_cli_open_provider(&provider, call->cli, &err) < 0 ||
        reposbx_session_audit_path(&folder, provider, call->operands[0], &err) < 0)
        return rsbx_cli_fail(call->cli, &err);
    if (options->follow)
        catch_signals();
    if (reposbx_audit_read(folder, &offset, print_line, &log, &err) < 0)
        return rsbx_cli_fail(call->cli, &err);
    return options->follow ? follow(&log, folder, &offset, &err) : RSBX_CLI_OK;
}

static const struct rsbx_cli_option table[] = {
    { "follow", 'f', RSBX_CLI_FLAG, offsetof(struct options, follow), NULL,
      "Wait for further records until the session is closed." },
    { NULL, 0, RSBX_CLI_FLAG, 0, NULL, NULL },
};

const struct rsbx_cli_command rsbx_cli_session_log = {
    .group = "session",
    .name = "log",
    .summary = "what happened in a session, step by step",
    .operands = "ID",
    .min_operands = 1,
    .max_operands = 1,
    .text = "Prints one line for each record of the session's log: time, event, what it is about, argv, how "
            "it ended, how long it took, how many bytes. With --json: the records themselves, one JSON "
            "document a line.",
    .example = "reposbx session log ID --follow",
    .options = table,
    .options_size = sizeof(struct options),
    .run = run,
};
