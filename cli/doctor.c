/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "cleanup.h"
#include "cli.h"
#include "output.h"

/* As wide as the longest name of a row. */
#define NAME_COLUMNS 24

struct options {
    const char *image, *policy;
};

/* A row as soon as it is settled: the probe takes a while. */
static void print(void *payload, const reposbx_doctor_check *check)
{
    (void)payload;
    (void)printf("%s  %-*s  %s\n", reposbx_doctor_status_word(check->status), NAME_COLUMNS,
                 check->name, check->detail);
    if (check->hint[0] != '\0')
        (void)printf("      hint: %s\n", check->hint);
    (void)fflush(stdout);
}

static int run(const struct rsbx_cli_call *call)
{
    const struct options *options = call->options;
    RSBX_CLI_AUTO(doctor_report) reposbx_doctor_report report = { 0 };
    RSBX_CLI_AUTO(text) char *document = NULL;
    reposbx_doctor_options given = REPOSBX_DOCTOR_OPTIONS_INIT;
    reposbx_error err = REPOSBX_ERROR_INIT;
    int rc = rsbx_cli_catch_signals(&given.cancel_fd, &err);

    given.engine = call->cli->engine;
    given.state_dir = call->cli->state_dir;
    given.policy = options->policy;
    given.image = options->image;
    if (!call->cli->json)
        given.row = print;
    if (rc == 0)
        rc = reposbx_doctor(&report, &given, &err);
    if (rc == 0 && call->cli->json)
        rc = reposbx_doctor_report_json(&document, &report, &err);
    if (rc < 0) {
        int number = rc == REPOSBX_ECANCELLED ? rsbx_cli_caught_signal() : 0;

        if (number != 0)
            (void)rsbx_cli_set(&err, rc, "interrupted by signal %d: what was made is removed", number);
        (void)rsbx_cli_fail(call->cli, &err);
        return number != 0 ? RSBX_CLI_SIGNAL_BASE + number : rsbx_cli_exit_code(rc);
    }
    if (call->cli->json)
        rsbx_cli_print_text(document);
    else if (report.failed == 0)
        rsbx_cli_note(call->cli, "all is well: %zu checks passed, %zu skipped",
                      report.count - report.skipped, report.skipped);
    else
        rsbx_cli_note(call->cli, "%zu of %zu checks failed", report.failed, report.count);
    return report.failed == 0 ? RSBX_CLI_OK : RSBX_CLI_NO;
}

static const struct rsbx_cli_option table[] = {
    { "image", 0, RSBX_CLI_TEXT, offsetof(struct options, image), "REF",
      "Judge this image, too, and prove the limits in a session of its own." },
    { "policy", 0, RSBX_CLI_TEXT, offsetof(struct options, policy), "FILE|NAME",
      "The policy that host and image are held against. Default: the default policy, which demands a "
      "rootless engine and allows no image." },
    { NULL, 0, RSBX_CLI_FLAG, 0, NULL, NULL },
};

const struct rsbx_cli_command rsbx_cli_doctor = {
    .group = NULL,
    .name = "doctor",
    .summary = "prove that this host keeps what the sandbox promises",
    .operands = "[--image REF] [--policy FILE|NAME]",
    .text = "One row for each guarantee, with what was seen, and a hint where it fails: the state "
            "folder, the libraries, the policy, the engine and its socket, what the engine says of "
            "its host, and what dead sessions left. Rows that cannot be judged are skipped and say "
            "why.\n"
            "With --image a session of a tiny repository is made, as session create makes it, in the "
            "folder doctor of the state folder. Its containers say what they see of their limits, "
            "and commands try to run for ever, write for ever, take all memory, fork without end "
            "and leave processes behind. Then it is removed; that takes some twenty seconds.",
    .exits = "1 when a row failed, also when it is the engine that does not answer.",
    .example = "reposbx doctor --image sha256:… --policy ci-validator",
    .options = table,
    .options_size = sizeof(struct options),
    .run = run,
};
