/* SPDX-License-Identifier: Apache-2.0 */
#include "log_line.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cleanup.h"
#include "cli.h"
#include "output.h"

#define MAX_VALUE_BYTES 200U
/* As much of an id as people tell apart. */
#define ID_DIGITS 12
/* Of most events' names. */
#define EVENT_COLUMNS 19

/* How much of a value is shown: what is cut is cut between characters. */
static int shown_bytes(const char *text, size_t limit)
{
    size_t length = strlen(text);

    if (length > limit) {
        length = limit;
        while (((unsigned char)text[length] & 0xC0U) == 0x80U)
            length--;
    }
    return (int)length;
}

/* Two spaces, a word (NULL: none) and a text from outside. */
static void print_text(FILE *out, const char *word, const char *text, size_t length)
{
    RSBX_CLI_AUTO(text) char *printable = rsbx_cli_printable(text, length);

    (void)fprintf(out, "  %s%s%.*s%s", word != NULL ? word : "", word != NULL ? " " : "",
                 shown_bytes(printable, MAX_VALUE_BYTES), printable,
                 strlen(printable) > MAX_VALUE_BYTES ? "…" : "");
}

/* A string of the record, when it has one that is not empty. */
static void print_member(FILE *out, const json_t *data, const char *key, const char *word)
{
    const json_t *value = json_object_get(data, key);

    if (json_is_string(value) && json_string_length(value) > 0)
        print_text(out, word, json_string_value(value), json_string_length(value));
}

/* The beginning of an id in hex, behind its "sha256:" where it has one. */
static void print_id(FILE *out, const json_t *data, const char *key, const char *word)
{
    static const char kind[] = "sha256:";
    const char *id = json_string_value(json_object_get(data, key));
    size_t length;

    if (id == NULL || id[0] == '\0')
        return;
    if (strncmp(id, kind, sizeof kind - 1) == 0)
        id += sizeof kind - 1;
    length = strspn(id, "0123456789abcdef");
    if (id[length] != '\0') /* a name: as it is */
        length = strlen(id);
    else if (length > ID_DIGITS)
        length = ID_DIGITS;
    print_text(out, word, id, length);
}

/* argv as a shell would take it, for reading only. */
static void print_argv(FILE *out, const json_t *argv)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "_./:=,+-@%";

    if (json_array_size(argv) > 0)
        (void)fputc(' ', out);
    for (size_t i = 0; i < json_array_size(argv); i++) {
        const json_t *item = json_array_get(argv, i);
        const char *bytes = json_is_string(item) ? json_string_value(item) : "?";
        RSBX_CLI_AUTO(text) char *text = rsbx_cli_printable(bytes, strlen(bytes));
        const char *quote = text[0] != '\0' && text[strspn(text, plain)] == '\0' ? "" : "'";

        (void)fprintf(out, " %s%.*s%s%s", quote, shown_bytes(text, MAX_VALUE_BYTES), text,
                     strlen(text) > MAX_VALUE_BYTES ? "…" : "", quote);
    }
}

/* A count with its thing, from a number or from an array's size; `zero`: also when there is none. */
static void print_count(FILE *out, const json_t *data, const char *key, const char *thing, int zero)
{
    const json_t *value = json_object_get(data, key);
    json_int_t count =
        json_is_array(value) ? (json_int_t)json_array_size(value) : json_integer_value(value);

    if ((json_is_array(value) || json_is_integer(value)) && (count > 0 || zero))
        (void)fprintf(out, "  %lld %s%s", (long long)count, thing, count == 1 ? "" : "s");
}

static void print_bytes(FILE *out, const json_t *data, const char *key, const char *word)
{
    const json_t *value = json_object_get(data, key);
    char size[RSBX_CLI_SHORT_BYTES];

    if (json_is_integer(value) && json_integer_value(value) >= 0)
        (void)fprintf(out, "  %s%s%s", word != NULL ? word : "", word != NULL ? " " : "",
                     rsbx_cli_size(size, (uint64_t)json_integer_value(value)));
}

static json_int_t number(const json_t *data, const char *key)
{
    return json_integer_value(json_object_get(data, key));
}

/* How a command ended, in words. */
static void print_ending(FILE *out, const json_t *data)
{
    const char *status = json_string_value(json_object_get(data, "status"));

    if (status == NULL)
        return;
    if (strcmp(status, "exited") == 0 && number(data, "exec_errno") != 0)
        (void)fprintf(out, "  not started: %s", strerror((int)number(data, "exec_errno")));
    else if (strcmp(status, "exited") == 0)
        (void)fprintf(out, "  exited with %lld", (long long)number(data, "exit_code"));
    else if (strcmp(status, "signaled") == 0)
        (void)fprintf(out, "  killed by signal %lld", (long long)number(data, "signal"));
    else if (strcmp(status, "timed_out") == 0)
        (void)fputs("  timed out", out);
    else if (strcmp(status, "output_limited") == 0)
        (void)fputs("  wrote too much", out);
    else if (strcmp(status, "oom_killed") == 0)
        (void)fputs("  killed for memory", out);
    else
        print_text(out, NULL, status, strlen(status));
    if (strcmp(status, "oom_killed") != 0 && json_is_true(json_object_get(data, "oom_killed")))
        (void)fputs(", a process of it killed for memory", out);
    print_count(out, data, "survivors", "process left behind", 0);
}

static void print_duration(FILE *out, const json_t *data)
{
    const json_t *duration = json_object_get(data, "duration_ms");
    char text[RSBX_CLI_SHORT_BYTES];

    if (json_is_integer(duration) && json_integer_value(duration) >= 0)
        (void)fprintf(out, "  %s", rsbx_cli_duration(text, (uint64_t)json_integer_value(duration)));
}

/* Of the first record, which has the whole metadata. */
static void print_metadata(FILE *out, const json_t *metadata)
{
    print_member(out, metadata, "task_id", NULL);
    print_member(out, metadata, "forked_from", "fork of");
    print_id(out, metadata, "source_revision", "revision");
    print_id(out, metadata, "image", "image");
    print_member(out, metadata, "workspace", "workspace");
    print_count(out, metadata, "source_file_count", "file", 1);
    print_bytes(out, metadata, "source_bytes", NULL);
}

static void print_command(FILE *out, const json_t *data)
{
    print_member(out, data, "command_id", NULL);
    print_argv(out, json_object_get(data, "argv"));
    print_member(out, data, "cwd", "in");
    if (number(json_object_get(data, "stdin"), "bytes") > 0)
        print_bytes(out, json_object_get(data, "stdin"), "bytes", "stdin");
    print_ending(out, data);
    print_duration(out, data);
    print_bytes(out, json_object_get(data, "stdout"), "bytes", "stdout");
    print_bytes(out, json_object_get(data, "stderr"), "bytes", "stderr");
}

/* What the other events have, where they have it. */
static void print_rest(FILE *out, const json_t *data)
{
    static const char *const subjects[] = { "path", "fork", "operation", "code", "message", "reason" };
    static const struct {
        const char *key, *thing;
    } counts[] = { { "commands", "command" }, { "files", "file" },      { "members", "file" },
                   { "changes", "change" },   { "omitted", "omission" } };

    for (size_t i = 0; i < sizeof subjects / sizeof subjects[0]; i++)
        print_member(out, data, subjects[i], NULL);
    print_id(out, data, "result_tree", "tree");
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
        print_count(out, data, counts[i].key, counts[i].thing, strcmp(counts[i].key, "omitted") != 0);
    print_count(out, data, "left_behind", "thing left behind", 0);
    print_bytes(out, data, "bytes", NULL);
    print_bytes(out, data, "size", NULL);
}

void rsbx_cli_print_record(const char *time, const char *event, const json_t *data)
{
    RSBX_CLI_AUTO(text) char *when = rsbx_cli_printable(time, strlen(time));
    RSBX_CLI_AUTO(text) char *what = rsbx_cli_printable(event, strlen(event));
    RSBX_CLI_AUTO(text) char *rest = NULL;
    const json_t *metadata = json_object_get(data, "metadata");
    size_t length = 0;
    FILE *out = rsbx_cli_need(open_memstream(&rest, &length));

    if (metadata != NULL)
        print_metadata(out, metadata);
    else if (json_object_get(data, "command_id") != NULL)
        print_command(out, data);
    else
        print_rest(out, data);
    if (fclose(out) != 0)
        rsbx_cli_need(NULL);
    /* A line that has nothing more to say does not end in the column's blanks. */
    (void)printf("%s  %-*s%s\n", when, length > 0 ? EVENT_COLUMNS : 0, what, rest);
}
