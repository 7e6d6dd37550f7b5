/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RSBX_CLI_HELP_H
#define RSBX_CLI_HELP_H

#include <stdio.h>

#include "cli.h"

/* Help on a terminal, manual pages and shell completions, all from the table of commands. */

void rsbx_cli_help_top(FILE *stream);
void rsbx_cli_help_group(FILE *stream, const char *group);
void rsbx_cli_help_command(FILE *stream, const struct rsbx_cli_command *command);

/* The common table of exit codes, one row at a time; NULL text ends it. */
struct rsbx_cli_exit_text {
    int code;
    const char *text;
};
extern const struct rsbx_cli_exit_text rsbx_cli_exit_texts[];

/* A page in roff: "" is reposbx(1), "session-exec" is reposbx-session-exec(1). 0, or -1 for an
 * unknown page. */
int rsbx_cli_man(FILE *stream, const char *page);
/* "bash" or "zsh"; 0, or -1 for an unknown shell. */
int rsbx_cli_completion(FILE *stream, const char *shell);

#endif
