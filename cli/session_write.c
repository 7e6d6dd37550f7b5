/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "cleanup.h"
#include "cli.h"
#include "output.h"

struct options {
    int parents;
    const char *mode;
};

static int flags_of(unsigned int *out, const struct options *options, reposbx_error *err)
{
    unsigned int flags = options->parents ? REPOSBX_WRITE_PARENTS : 0U;

    if (options->mode != NULL && strcmp(options->mode, "755") == 0)
        flags |= REPOSBX_WRITE_EXECUTABLE;
    else if (options->mode != NULL && strcmp(options->mode, "644") != 0)
        return rsbx_cli_set(err, REPOSBX_EINVALID, "--mode: '%s' is not 644 or 755",
                            options->mode);
    *out = flags;
    return 0;
}

static int run(const struct rsbx_cli_call *call)
{
    RSBX_CLI_AUTO(provider) reposbx_provider *provider = NULL;
    RSBX_CLI_AUTO(session) reposbx_session *session = NULL;
    RSBX_CLI_AUTO(json) json_t *document = NULL;
    RSBX_CLI_AUTO(text) char *bytes = NULL;
    const char *path = call->operands[1];
    reposbx_error err = REPOSBX_ERROR_INIT;
    unsigned int flags = 0;
    size_t length = 0;

    /* The session is opened last: its lock is not held while stdin is waited for. */
    if (flags_of(&flags, call->options, &err) < 0 ||
        rsbx_cli_read_all(&bytes, &length, "-", RSBX_CLI_MAX_INPUT_BYTES, &err) < 0 ||
        rsbx_cli_open_session(&session, &provider, call, &err) < 0)
        return rsbx_cli_fail(call->cli, &err);
    if (reposbx_session_write(session, path, bytes, length, flags, &err) < 0) {
        if (err.code == REPOSBX_ENOTFOUND && err.hint[0] == '\0' && (flags & REPOSBX_WRITE_PARENTS) == 0)
            rsbx_cli_hint(&err, "--parents makes folders that are missing");
        return rsbx_cli_fail(call->cli, &err);
    }
    if (!call->cli->json)
        return RSBX_CLI_OK;
    document = rsbx_cli_need(json_pack(
        "{s:o,s:I,s:s}", "path", rsbx_cli_json_bytes(path, strlen(path)), "size",
        (json_int_t)length, "mode", (flags & REPOSBX_WRITE_EXECUTABLE) != 0 ? "755" : "644"));
    return rsbx_cli_print_json(call->cli, document);
}

static const struct rsbx_cli_option table[] = {
    { "parents", 0, RSBX_CLI_FLAG, offsetof(struct options, parents), NULL,
      "Make missing folders." },
    { "mode", 0, RSBX_CLI_TEXT, offsetof(struct options, mode), "644|755",
      "Permissions of the file. Default: 644." },
    { NULL, 0, RSBX_CLI_FLAG, 0, NULL, NULL },
};

const struct rsbx_cli_command rsbx_cli_session_write = {
    .group = "session",
    .name = "write",
    .summary = "replace or make a file of the workspace",
    .operands = "ID PATH",
    .min_operands = 2,
    .max_operands = 2,
    .text = "Writes what comes on stdin into the file, in one step: readers see the old content or "
            "the new one. At most the policy's stdin_bytes.",
    .example = "reposbx session write ID notes/todo.txt --parents < todo.txt",
    .options = table,
    .options_size = sizeof(struct options),
    .run = run,
};
