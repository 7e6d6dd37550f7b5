/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RSBX_CLI_OPTIONS_H
#define RSBX_CLI_OPTIONS_H

#include "cli.h"

/*
 * The option parser: --name VALUE, --name=VALUE, -n VALUE, -nVALUE, joined flags, "--". Options and
 * operands may be mixed. Errors are REPOSBX_EINVALID with a hint, and REPOSBX_EPOLICY for a number
 * that is one but is refused (zero, negative, nan, infinite, too large).
 */

struct rsbx_cli_parsed {
    void *options;             /* calloc()ed, of the command's size */
    const char **operands;     /* free() */
    size_t operand_count;
    const char *const *argv;
    size_t argc;
    int saw_dashes;
};

/* Reads global options up to the first word that is none; *index is moved there. */
int rsbx_cli_parse_globals(struct rsbx_cli *cli, int *index, int argc, char **argv,
                           reposbx_error *err);
/* Reads everything behind the command's words. */
int rsbx_cli_parse(struct rsbx_cli_parsed *out, struct rsbx_cli *cli,
                   const struct rsbx_cli_command *command, int argc, char **argv,
                   reposbx_error *err);
void rsbx_cli_parsed_dispose(struct rsbx_cli_parsed *parsed,
                             const struct rsbx_cli_command *command);

/* Strict numbers; `field` is named in the message. */
int rsbx_cli_number(double *out, const char *field, const char *text, reposbx_error *err);
int rsbx_cli_count(uint64_t *out, const char *field, const char *text, reposbx_error *err);

/* The candidate that `word` probably meant, or NULL; candidates are given one by one. */
struct rsbx_cli_guess {
    const char *word;
    const char *best;
    size_t distance;
};
void rsbx_cli_guess(struct rsbx_cli_guess *guess, const char *candidate);

#endif
