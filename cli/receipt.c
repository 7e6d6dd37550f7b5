/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "cleanup.h"
#include "cli.h"
#include "output.h"

/* A key in PEM form has some hundred bytes. */
#define MAX_KEY_BYTES (64U * 1024U)

struct options {
    const char *output, *key;
};

static int print(const struct rsbx_cli_call *call, const char *receipt, size_t length)
{
    const struct options *options = call->options;
    RSBX_CLI_AUTO(json) json_t *document = NULL;

    if (options->output == NULL) {
        rsbx_cli_print_text(receipt);
        return RSBX_CLI_OK;
    }
    if (!call->cli->json)
        return RSBX_CLI_OK;
    document = rsbx_cli_need(json_pack(
        "{s:o, s:I, s:b}", "path", rsbx_cli_json_bytes(options->output, strlen(options->output)),
        "bytes", (json_int_t)length, "signed", options->key != NULL));
    return rsbx_cli_print_json(call->cli, document);
}

static int run(const struct rsbx_cli_call *call)
{
    const struct options *options = call->options;
    RSBX_CLI_AUTO(provider) reposbx_provider *provider = NULL;
    RSBX_CLI_AUTO(text) char *key = NULL;
    RSBX_CLI_AUTO(text) char *receipt = NULL;
    reposbx_receipt_options receipt_options = REPOSBX_RECEIPT_OPTIONS_INIT;
    reposbx_error err = REPOSBX_ERROR_INIT;
    size_t length;

    if ((options->output != NULL && rsbx_cli_must_be_new(options->output, &err) < 0) ||
        (options->key != NULL && rsbx_cli_read_all(&key, &receipt_options.private_key_length,
                                                   options->key, MAX_KEY_BYTES, &err) < 0))
        return rsbx_cli_fail(call->cli, &err);
    receipt_options.private_key = key;
    if (rsbx_cli_open_provider(&provider, call->cli, &err) < 0 ||
        reposbx_receipt_make(&receipt, provider, call->operands[0], &receipt_options, &err) < 0)
        return rsbx_cli_fail(call->cli, &err);
    length = strlen(receipt);
    if (options->output != NULL &&
        rsbx_cli_write_new(options->output, receipt, length, &err) < 0)
        return rsbx_cli_fail(call->cli, &err);
    return print(call, receipt, length);
}

static const struct rsbx_cli_option table[] = {
    { "output", 'o', RSBX_CLI_TEXT, offsetof(struct options, output), "FILE",
      "Write the receipt into a new file; an existing one is never overwritten. Default: stdout." },
    { "key", 0, RSBX_CLI_TEXT, offsetof(struct options, key), "PEM",
      "Sign it with this Ed25519 private key (a file without a pass phrase; - is stdin), in a DSSE "
      "envelope." },
    { NULL, 0, RSBX_CLI_FLAG, 0, NULL, NULL },
};

const struct rsbx_cli_command rsbx_cli_receipt = {
    .group = NULL,
    .name = "receipt",
    .summary = "bind source, commands, patch and log in one document",
    .operands = "ID",
    .min_operands = 1,
    .max_operands = 1,
    .text = "Writes one JSON document (an in-toto statement) that binds the session's revision, "
            "image and policy, each command with its end and the hashes of its output, the last "
            "patch, the bundles and the head of the log. The log is verified first: one that was "
            "changed gives no receipt. Asks no engine; works on open and closed sessions.",
    .example = "reposbx receipt ID -o receipt.json --key key.pem",
    .options = table,
    .options_size = sizeof(struct options),
    .run = run,
};
