/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "cleanup.h"
#include "cli.h"
#include "output.h"

#define MAX_KEY_BYTES (64U * 1024U)

struct options {
    const char *patch, *audit, *repo, *public_key;
    struct rsbx_cli_list bundles;
};

static int print(const struct rsbx_cli_call *call, const reposbx_receipt_report *report,
                 reposbx_error *err)
{
    struct rsbx_cli_table table = { 3, 0, NULL, 0, 0 };
    RSBX_CLI_AUTO(text) char *document = NULL;

    if (call->cli->json) {
        int rc = reposbx_receipt_report_json(&document, report, err);

        if (rc == 0)
            rsbx_cli_print_text(document);
        return rc;
    }
    for (size_t i = 0; i < report->count; i++) {
        rsbx_cli_cell(&table, report->checks[i].name);
        rsbx_cli_cell(&table, reposbx_receipt_result_word(report->checks[i].result));
        rsbx_cli_cell(&table, report->checks[i].detail);
    }
    rsbx_cli_table_print(&table, stdout);
    rsbx_cli_table_dispose(&table);
    return 0;
}

static int run(const struct rsbx_cli_call *call)
{
    const struct options *options = call->options;
    RSBX_CLI_AUTO(text) char *receipt = NULL;
    RSBX_CLI_AUTO(text) char *key = NULL;
    RSBX_CLI_AUTO(receipt_report) reposbx_receipt_report report = { 0 };
    reposbx_receipt_verify_options given = REPOSBX_RECEIPT_VERIFY_OPTIONS_INIT;
    reposbx_error err = REPOSBX_ERROR_INIT;
    size_t length = 0;

    if (rsbx_cli_read_all(&receipt, &length, call->operands[0], RSBX_CLI_MAX_INPUT_BYTES, &err) <
            0 ||
        (options->public_key != NULL &&
         rsbx_cli_read_all(&key, &given.public_key_length, options->public_key, MAX_KEY_BYTES,
                           &err) < 0))
        return rsbx_cli_fail(call->cli, &err);
    given.public_key = key;
    given.patch = options->patch;
    given.audit_dir = options->audit;
    given.repo = options->repo;
    given.bundles = options->bundles.items;
    given.bundle_count = options->bundles.count;
    if (reposbx_receipt_verify(&report, receipt, length, &given, &err) < 0 ||
        print(call, &report, &err) < 0)
        return rsbx_cli_fail(call->cli, &err);
    return report.failed == 0 ? RSBX_CLI_OK : RSBX_CLI_NO;
}

static const struct rsbx_cli_option table[] = {
    { "patch", 0, RSBX_CLI_TEXT, offsetof(struct options, patch), "FILE",
      "The patch that it must bind." },
    { "bundle", 0, RSBX_CLI_LIST, offsetof(struct options, bundles), "FILE.zip",
      "A bundle that it must bind; may be repeated." },
    { "audit", 0, RSBX_CLI_TEXT, offsetof(struct options, audit), "DIR",
      "The session's audit folder, or a copy: the log must say everything that the receipt says." },
    { "repo", 0, RSBX_CLI_TEXT, offsetof(struct options, repo), "DIR",
      "A checkout at the receipt's revision: it must have the receipt's tree. Read by a confined "
      "process under the source rules of the receipt's policy." },
    { "public-key", 0, RSBX_CLI_TEXT, offsetof(struct options, public_key), "PEM",
      "The Ed25519 public key that it must be signed with." },
    { NULL, 0, RSBX_CLI_FLAG, 0, NULL, NULL },
};

const struct rsbx_cli_command rsbx_cli_receipt_verify = {
    .group = "receipt",
    .name = "verify",
    .summary = "check a receipt against what it binds",
    .operands = "FILE",
    .min_operands = 1,
    .max_operands = 1,
    .text = "Checks a receipt offline, needing neither the session nor an engine, against whatever "
            "is given, and names what could not be checked. FILE may be - for stdin.",
    .exits = "1 when a check failed; a check that was not made is no failure.",
    .example = "reposbx receipt verify receipt.json --patch fix.patch --public-key key.pub",
    .options = table,
    .options_size = sizeof(struct options),
    .run = run,
};
