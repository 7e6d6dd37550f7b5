/* SPDX-License-Identifier: Apache-2.0 */
#include "output.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int rsbx_cli_exit_code(int code)
{
    static const struct {
        int code, exit_code;
    } table[] = {
        { REPOSBX_OK, 0 },           { REPOSBX_EINVALID, 64 },   { REPOSBX_EMALFORMED, 65 },
        { REPOSBX_ENOTFOUND, 66 },   { REPOSBX_EUNAVAILABLE, 69 }, { REPOSBX_EINTERNAL, 70 },
        { REPOSBX_EEXISTS, 73 },     { REPOSBX_EIO, 74 },        { REPOSBX_EBUSY, 75 },
        { REPOSBX_EPROTOCOL, 76 },   { REPOSBX_EPOLICY, 77 },    { REPOSBX_ELIMIT, 77 },
        { REPOSBX_ECLOSED, 78 },     { REPOSBX_EPOISONED, 78 },  { REPOSBX_ECANCELLED, 130 },
    };

    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        if (table[i].code == code)
            return table[i].exit_code;
    }
    return 70;
}

/* Copies the printable form into a bounded field, cut at a character's edge. */
static void fill(char *out, size_t size, const char *text)
{
    char *printable = rsbx_cli_printable(text, strlen(text));
    size_t length = 0;

    while (printable[length] != '\0') {
        size_t step = rsbx_cli_utf8(NULL, printable + length, strlen(printable + length));

        if (step == 0 || length + step >= size)
            break;
        length += step;
    }
    memcpy(out, printable, length);
    out[length] = '\0';
    free(printable);
}

static void set_text(char *out, size_t size, const char *format, va_list arguments)
    __attribute__((format(printf, 3, 0)));
static void set_text(char *out, size_t size, const char *format, va_list arguments)
{
    char text[2 * REPOSBX_MESSAGE_BYTES];

    (void)vsnprintf(text, sizeof text, format, arguments);
    fill(out, size, text);
}

int rsbx_cli_set(reposbx_error *err, int code, const char *format, ...)
{
    va_list arguments;

    err->code = code;
    err->hint[0] = '\0';
    va_start(arguments, format);
    set_text(err->message, sizeof err->message, format, arguments);
    va_end(arguments);
    return code;
}

int rsbx_cli_set_errno(reposbx_error *err, int code, const char *format, ...)
{
    int number = errno;
    va_list arguments;
    size_t length;

    err->code = code;
    err->hint[0] = '\0';
    va_start(arguments, format);
    set_text(err->message, sizeof err->message, format, arguments);
    va_end(arguments);
    length = strlen(err->message);
    (void)snprintf(err->message + length, sizeof err->message - length, ": %s", strerror(number));
    return code;
}

void rsbx_cli_hint(reposbx_error *err, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    set_text(err->hint, sizeof err->hint, format, arguments);
    va_end(arguments);
}

int rsbx_cli_fail(const struct rsbx_cli *cli, const reposbx_error *err)
{
    int code = err->code == REPOSBX_OK ? REPOSBX_EINTERNAL : err->code;
    const char *message = err->message[0] == '\0' ? "unknown error" : err->message;

    if (cli->json) {
        json_t *value = json_pack("{s:{s:s,s:o,s:o}}", "error", "code", reposbx_code_word(code),
                                  "message", rsbx_cli_json_bytes(message, strlen(message)), "hint",
                                  rsbx_cli_json_bytes(err->hint, strlen(err->hint)));

        (void)rsbx_cli_print_json(cli, rsbx_cli_need(value));
        json_decref(value);
    } else {
        (void)fflush(stdout);
        (void)fprintf(stderr, "reposbx: %s\n", message);
        if (err->hint[0] != '\0')
            (void)fprintf(stderr, "hint: %s\n", err->hint);
    }
    return rsbx_cli_exit_code(code);
}

void rsbx_cli_note(const struct rsbx_cli *cli, const char *format, ...)
{
    char text[2 * REPOSBX_MESSAGE_BYTES];
    va_list arguments;

    if (cli->quiet)
        return;
    va_start(arguments, format);
    set_text(text, sizeof text, format, arguments);
    va_end(arguments);
    (void)fprintf(stderr, "reposbx: %s\n", text);
}

void rsbx_cli_print_text(const char *text)
{
    size_t length = strlen(text);

    (void)fwrite(text, 1, length, stdout);
    if (length == 0 || text[length - 1] != '\n')
        (void)putchar('\n');
}

static int put_json(const char *bytes, size_t length, void *stream)
{
    return fwrite(bytes, 1, length, stream) == length ? 0 : -1;
}

int rsbx_cli_print_json(const struct rsbx_cli *cli, const json_t *value)
{
    (void)cli;
    (void)json_dump_callback(value, put_json, stdout,
                             JSON_INDENT(2) | JSON_ENSURE_ASCII | JSON_ENCODE_ANY);
    (void)putchar('\n');
    return RSBX_CLI_OK;
}

/* Whether the reader of stdout went away: a pipe says so even when nothing is left to write. */
static int reader_is_gone(void)
{
    struct pollfd out = { STDOUT_FILENO, POLLOUT, 0 };

    return poll(&out, 1, 0) == 1 && (out.revents & POLLERR) != 0;
}

int rsbx_cli_finish(const struct rsbx_cli *cli, int code)
{
    static int told;
    int failed = ferror(stdout);

    errno = 0;
    if (fflush(stdout) == 0 && !failed)
        return code;
    if (errno == EPIPE || reader_is_gone())
        return RSBX_CLI_PIPE_CLOSED;
    if (!cli->quiet && !told)
        (void)fprintf(stderr, "reposbx: cannot write to stdout: %s\n",
                      errno == 0 ? "a write failed" : strerror(errno));
    told = 1;
    return rsbx_cli_exit_code(REPOSBX_EIO);
}

void *rsbx_cli_need(void *memory)
{
    if (memory == NULL) {
        (void)fputs("reposbx: out of memory\n", stderr);
        exit(rsbx_cli_exit_code(REPOSBX_EINTERNAL));
    }
    return memory;
}

const char *rsbx_cli_size(char out[RSBX_CLI_SHORT_BYTES], uint64_t bytes)
{
    static const char *const units[] = { "KiB", "MiB", "GiB", "TiB", "PiB", "EiB" };
    double value = (double)bytes / 1024.0;
    size_t unit = 0;

    if (bytes < 1024) {
        (void)snprintf(out, RSBX_CLI_SHORT_BYTES, "%" PRIu64 " B", bytes);
        return out;
    }
    while (value >= 1024.0 && unit + 1 < sizeof units / sizeof units[0]) {
        value /= 1024.0;
        unit++;
    }
    (void)snprintf(out, RSBX_CLI_SHORT_BYTES, "%.1f %s", value, units[unit]);
    return out;
}

const char *rsbx_cli_duration(char out[RSBX_CLI_SHORT_BYTES], uint64_t milliseconds)
{
    uint64_t seconds = milliseconds / 1000;

    if (milliseconds < 1000)
        (void)snprintf(out, RSBX_CLI_SHORT_BYTES, "%" PRIu64 " ms", milliseconds);
    else if (seconds < 120)
        (void)snprintf(out, RSBX_CLI_SHORT_BYTES, "%.1f s", (double)milliseconds / 1000.0);
    else
        (void)snprintf(out, RSBX_CLI_SHORT_BYTES, "%" PRIu64 " min %" PRIu64 " s", seconds / 60,
                       seconds % 60);
    return out;
}

void rsbx_cli_cell_take(struct rsbx_cli_table *table, char *text)
{
    rsbx_cli_need(text);
    if (table->count == table->capacity) {
        size_t capacity = table->capacity == 0 ? 64 : table->capacity * 2;

        table->cells = rsbx_cli_need(
            reallocarray(table->cells, capacity, sizeof table->cells[0]));
        table->capacity = capacity;
    }
    table->cells[table->count++] = text;
}

void rsbx_cli_cell(struct rsbx_cli_table *table, const char *text)
{
    rsbx_cli_cell_take(table, rsbx_cli_printable(text, strlen(text)));
}

void rsbx_cli_table_print(const struct rsbx_cli_table *table, FILE *stream)
{
    size_t widths[RSBX_CLI_MAX_COLUMNS] = { 0 };
    size_t blanks = 0; /* printed before the next cell that has anything: no line ends in them */

    for (size_t i = 0; i < table->count; i++) {
        size_t width = rsbx_cli_width(table->cells[i]);

        if (width > widths[i % table->columns])
            widths[i % table->columns] = width;
    }
    for (size_t i = 0; i < table->count; i++) {
        size_t column = i % table->columns;
        size_t padding = widths[column] - rsbx_cli_width(table->cells[i]);
        int right = (table->right >> column & 1U) != 0;

        blanks += right ? padding : 0;
        if (table->cells[i][0] != '\0') {
            (void)fprintf(stream, "%*s%s", (int)blanks, "", table->cells[i]);
            blanks = 0;
        }
        blanks += (right ? 0 : padding) + 2;
        if (column + 1 == table->columns) {
            (void)fputc('\n', stream);
            blanks = 0;
        }
    }
}

void rsbx_cli_table_dispose(struct rsbx_cli_table *table)
{
    for (size_t i = 0; i < table->count; i++)
        free(table->cells[i]);
    free(table->cells);
    table->cells = NULL;
    table->count = table->capacity = 0;
}
