/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cleanup.h"
#include "cli.h"
#include "output.h"

static int is_session_id(const char *text)
{
    return strlen(text) == REPOSBX_SESSION_ID_BYTES - 1 && strncmp(text, "sbx-", 4) == 0 &&
           strspn(text + 4, "0123456789abcdef") == REPOSBX_SESSION_ID_BYTES - 5;
}

static int find_folder(char **out, const struct rsbx_cli_call *call, reposbx_error *err)
{
    RSBX_CLI_AUTO(provider) reposbx_provider *provider = NULL;
    int rc;

    if (!is_session_id(call->operands[0])) {
        *out = rsbx_cli_need(strdup(call->operands[0]));
        return 0;
    }
    rc = rsbx_cli_open_provider(&provider, call->cli, err);
    if (rc < 0)
        return rc;
    return reposbx_session_audit_path(out, provider, call->operands[0], err);
}

static const char *word(int verdict)
{
    switch ((enum reposbx_audit_verdict)verdict) {
    case REPOSBX_AUDIT_WHOLE:
        return "whole";
    case REPOSBX_AUDIT_OPEN:
        return "open";
    case REPOSBX_AUDIT_TORN:
        return "torn";
    case REPOSBX_AUDIT_TAMPERED:
        break;
    }
    return "tampered";
}

static const char *meaning(int verdict)
{
    switch ((enum reposbx_audit_verdict)verdict) {
    case REPOSBX_AUDIT_WHOLE:
        return "every record is in place, up to the final one";
    case REPOSBX_AUDIT_OPEN:
        return "every record is in place; there is no final one yet";
    case REPOSBX_AUDIT_TORN:
        return "the last record is cut off";
    case REPOSBX_AUDIT_TAMPERED:
        break;
    }
    return "a record is changed, missing, moved or added";
}

static void print_human(const reposbx_audit_report *report)
{
    RSBX_CLI_AUTO(text) char *reason = rsbx_cli_printable(report->reason, strlen(report->reason));

    (void)printf("%s: %s\n", word(report->verdict), meaning(report->verdict));
    if (report->bad_line != 0)
        (void)printf("line %" PRIu64 ": %s\n", report->bad_line, reason);
    else if (reason[0] != '\0')
        (void)printf("%s\n", reason);
    (void)printf("records  %" PRIu64 "\nstreams  %" PRIu64 "\nhead     %s\n", report->records,
                 report->streams_checked, report->head);
}

static int run(const struct rsbx_cli_call *call)
{
    RSBX_CLI_AUTO(text) char *folder = NULL;
    RSBX_CLI_AUTO(json) json_t *document = NULL;
    reposbx_audit_report report;
    reposbx_error err = REPOSBX_ERROR_INIT;

    memset(&report, 0, sizeof report);
    if (find_folder(&folder, call, &err) < 0 || reposbx_audit_verify(&report, folder, &err) < 0)
        return rsbx_cli_fail(call->cli, &err);
    if (call->cli->json) {
        document = rsbx_cli_need(json_pack(
            "{s:s,s:I,s:I,s:s,s:o,s:I}", "verdict", word(report.verdict), "records",
            (json_int_t)report.records, "bad_line", (json_int_t)report.bad_line, "head",
            report.head, "reason", rsbx_cli_json_bytes(report.reason, strlen(report.reason)),
            "streams_checked", (json_int_t)report.streams_checked));
        (void)rsbx_cli_print_json(call->cli, document);
    } else {
        print_human(&report);
    }
    return report.verdict == REPOSBX_AUDIT_WHOLE || report.verdict == REPOSBX_AUDIT_OPEN
               ? RSBX_CLI_OK
               : RSBX_CLI_NO;
}

const struct rsbx_cli_command rsbx_cli_audit_verify = {
    .group = "audit",
    .name = "verify",
    .summary = "check that a log is whole and unchanged",
    .operands = "ID|DIR",
    .min_operands = 1,
    .max_operands = 1,
    .text = "Follows the chain of hashes through the log and compares the captured output beside "
            "it. The argument is a session or an audit folder. The answer is whole, open (the "
            "session goes on), torn (the last record is cut) or tampered.",
    .exits = "0: whole or open; 1: torn or tampered.",
    .example = "reposbx audit verify ID",
    .run = run,
};
