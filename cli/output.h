/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RSBX_CLI_OUTPUT_H
#define RSBX_CLI_OUTPUT_H

#include <stdint.h>
#include <stdio.h>

#include <jansson.h>

#include "cli.h"

/* Exit codes of the command line beyond those of errors. */
enum rsbx_cli_exit {
    RSBX_CLI_OK = 0,
    RSBX_CLI_NO = 1,
    RSBX_CLI_OUTPUT_LIMITED = 122,
    RSBX_CLI_TIMED_OUT = 124,
    RSBX_CLI_OOM_KILLED = 137,
    RSBX_CLI_SIGNAL_BASE = 128,
    RSBX_CLI_PIPE_CLOSED = 141
};

/* The exit code of an error code. */
int rsbx_cli_exit_code(int code);

/* Fills err, with control characters and bad UTF-8 of the text escaped; returns code. */
int rsbx_cli_set(reposbx_error *err, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The same with ": " and the text of errno behind. */
int rsbx_cli_set_errno(reposbx_error *err, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void rsbx_cli_hint(reposbx_error *err, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Tells the error (stderr, or with --json a document on stdout) and returns the exit code. */
int rsbx_cli_fail(const struct rsbx_cli *cli, const reposbx_error *err);
/* "reposbx: …" on stderr, unless quiet. */
void rsbx_cli_note(const struct rsbx_cli *cli, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* A document on stdout with its newline. The text form adds one where it is missing. */
void rsbx_cli_print_text(const char *text);
int rsbx_cli_print_json(const struct rsbx_cli *cli, const json_t *value);
/* Flushes stdout; the exit code is `code`, or that of the failed write. */
int rsbx_cli_finish(const struct rsbx_cli *cli, int code);

/* Memory or exit 70: a command line has nothing to go on with. */
void *rsbx_cli_need(void *memory);

/* ---- names from outside ---- */

/* Length of the well-formed UTF-8 character at the start of `bytes`, 0 when there is none. */
size_t rsbx_cli_utf8(uint32_t *code, const char *bytes, size_t length);
/* A printable copy (free()): controls, bad bytes and invisible direction marks are escaped. */
char *rsbx_cli_printable(const char *bytes, size_t length);
/* A path as Git prints it (free()): as it is, or in double quotes with C escapes where a byte needs
 * it. `ascii`: everything that is not ASCII needs it; else only what is not printable UTF-8. */
char *rsbx_cli_quoted(const char *path, int ascii);
/* A JSON string; bytes that are not UTF-8 become U+FFFD. Never NULL. */
json_t *rsbx_cli_json_bytes(const char *bytes, size_t length);
/* Columns that printable text takes on a terminal, one for each character. */
size_t rsbx_cli_width(const char *text);

/* ---- sizes, times, tables ---- */

#define RSBX_CLI_SHORT_BYTES 32
/* "812 B", "1.4 MiB". */
const char *rsbx_cli_size(char out[RSBX_CLI_SHORT_BYTES], uint64_t bytes);
/* "350 ms", "2.0 s", "3 min 20 s". */
const char *rsbx_cli_duration(char out[RSBX_CLI_SHORT_BYTES], uint64_t milliseconds);

#define RSBX_CLI_MAX_COLUMNS 8U
struct rsbx_cli_table {
    size_t columns;
    unsigned int right;      /* bit n: column n is aligned to the right */
    char **cells;            /* columns to a row, owned */
    size_t count, capacity;
};
/* Adds a copy of a cell; rows fill from the left. */
void rsbx_cli_cell(struct rsbx_cli_table *table, const char *text);
/* Adds a cell that is already printable and malloc()ed. */
void rsbx_cli_cell_take(struct rsbx_cli_table *table, char *text);
void rsbx_cli_table_print(const struct rsbx_cli_table *table, FILE *stream);
void rsbx_cli_table_dispose(struct rsbx_cli_table *table);

#endif
