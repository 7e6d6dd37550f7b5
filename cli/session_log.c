/* SPDX-License-Identifier: Apache-2.0 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cleanup.h"
#include "cli.h"
#include "output.h"

#define POLL_MS 200
#define MAX_VALUE_BYTES 200U

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

/* How much of a value is shown: what is cut is cut between characters. */
static int shown_bytes(const char *text)
{
    size_t length = strlen(text);

    if (length > MAX_VALUE_BYTES) {
        length = MAX_VALUE_BYTES;
        while (((unsigned char)text[length] & 0xC0U) == 0x80U)
            length--;
    }
    return (int)length;
}

/* argv as a shell would take it, for reading only. */
static void print_argv(const json_t *argv)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "_./:=,+-@%";

    for (size_t i = 0; i < json_array_size(argv); i++) {
        const json_t *item = json_array_get(argv, i);
        const char *bytes = json_is_string(item) ? json_string_value(item) : "?";
        RSBX_CLI_AUTO(text) char *text = rsbx_cli_printable(bytes, strlen(bytes));
        const char *quote = text[0] != '\0' && text[strspn(text, plain)] == '\0' ? "" : "'";

        (void)printf(" %s%.*s%s%s", quote, shown_bytes(text), text,
                     strlen(text) > MAX_VALUE_BYTES ? "…" : "", quote);
    }
}

static void print_stream(const char *name, const json_t *stream)
{
    char size[RSBX_CLI_SHORT_BYTES];
    const json_t *bytes = json_object_get(stream, "bytes");

    if (json_is_integer(bytes) && json_integer_value(bytes) > 0)
        (void)printf("  %s %s", name, rsbx_cli_size(size, (uint64_t)json_integer_value(bytes)));
}

/* Any other member: scalars as key=value, inner documents not at all (--json has them). */
static void print_member(const char *key, const json_t *value)
{
    RSBX_CLI_AUTO(text) char *text = NULL;
    RSBX_CLI_AUTO(text) char *printable = NULL;

    if (json_is_null(value) || json_is_object(value) || json_is_array(value))
        return;
    if (json_is_string(value)) {
        printable = rsbx_cli_printable(json_string_value(value), json_string_length(value));
    } else {
        text = rsbx_cli_need(json_dumps(value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(6)));
        printable = rsbx_cli_printable(text, strlen(text));
    }
    (void)printf("  %s=%.*s%s", key, shown_bytes(printable), printable,
                 strlen(printable) > MAX_VALUE_BYTES ? "…" : "");
}

static void print_data(json_t *data)
{
    char text[RSBX_CLI_SHORT_BYTES];
    const json_t *duration = json_object_get(data, "duration_ms");
    const char *id = json_string_value(json_object_get(data, "command_id"));

    if (id != NULL) {
        RSBX_CLI_AUTO(text) char *printable = rsbx_cli_printable(id, strlen(id));

        (void)printf("  %s", printable);
    }
    if (json_is_array(json_object_get(data, "argv"))) {
        (void)putchar(' ');
        print_argv(json_object_get(data, "argv"));
    }
    for (void *at = json_object_iter(data); at != NULL; at = json_object_iter_next(data, at)) {
        const char *key = json_object_iter_key(at);

        if (strcmp(key, "duration_ms") != 0 && strcmp(key, "command_id") != 0)
            print_member(key, json_object_iter_value(at));
    }
    if (json_is_integer(duration) && json_integer_value(duration) >= 0)
        (void)printf("  took %s",
                     rsbx_cli_duration(text, (uint64_t)json_integer_value(duration)));
    print_stream("stdout", json_object_get(data, "stdout"));
    print_stream("stderr", json_object_get(data, "stderr"));
}

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
        RSBX_CLI_AUTO(text) char *when = rsbx_cli_printable(time, strlen(time));
        RSBX_CLI_AUTO(text) char *what = rsbx_cli_printable(event, strlen(event));

        (void)printf("%s  %-18s", when, what);
        print_data(json_object_get(record, "data"));
        (void)putchar('\n');
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
    .text = "Prints one line for each record of the session's log. With --json: the records "
            "themselves, one JSON document a line.",
    .example = "reposbx session log ID --follow",
    .options = table,
    .options_size = sizeof(struct options),
    .run = run,
};
