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
static void print_text(const char *word, const char *text, size_t length)
{
    RSBX_CLI_AUTO(text) char *printable = rsbx_cli_printable(text, length);

    (void)printf("  %s%s%.*s%s", word != NULL ? word : "", word != NULL ? " " : "",
                 shown_bytes(printable, MAX_VALUE_BYTES), printable,
                 strlen(printable) > MAX_VALUE_BYTES ? "…" : "");
}

/* A string of the record, when it has one that is not empty. */
static void print_member(const json_t *data, const char *key, const char *word)
{
    const json_t *value = json_object_get(data, key);

    if (json_is_string(value) && json_string_length(value) > 0)
        print_text(word, json_string_value(value), json_string_length(value));
}

/* The beginning of an id in hex, behind its "sha256:" where it has one. */
static void print_id(const json_t *data, const char *key, const char *word)
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
    print_text(word, id, length);
}

/* argv as a shell would take it, for reading only. */
static void print_argv(const json_t *argv)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "_./:=,+-@%";

    if (json_array_size(argv) > 0)
        (void)putchar(' ');
    for (size_t i = 0; i < json_array_size(argv); i++) {
        const json_t *item = json_array_get(argv, i);
        const char *bytes = json_is_string(item) ? json_string_value(item) : "?";
        RSBX_CLI_AUTO(text) char *text = rsbx_cli_printable(bytes, strlen(bytes));
        const char *quote = text[0] != '\0' && text[strspn(text, plain)] == '\0' ? "" : "'";

        (void)printf(" %s%.*s%s%s", quote, shown_bytes(text, MAX_VALUE_BYTES), text,
                     strlen(text) > MAX_VALUE_BYTES ? "…" : "", quote);
    }
}

/* A count with its thing, from a number or from an array's size; `zero`: also when there is none. */
static void print_count(const json_t *data, const char *key, const char *thing, int zero)
{
    const json_t *value = json_object_get(data, key);
    json_int_t count =
        json_is_array(value) ? (json_int_t)json_array_size(value) : json_integer_value(value);

    if ((json_is_array(value) || json_is_integer(value)) && (count > 0 || zero))
        (void)printf("  %lld %s%s", (long long)count, thing, count == 1 ? "" : "s");
}

static void print_bytes(const json_t *data, const char *key, const char *word)
{
    const json_t *value = json_object_get(data, key);
    char size[RSBX_CLI_SHORT_BYTES];

    if (json_is_integer(value) && json_integer_value(value) >= 0)
        (void)printf("  %s%s%s", word != NULL ? word : "", word != NULL ? " " : "",
                     rsbx_cli_size(size, (uint64_t)json_integer_value(value)));
}

static json_int_t number(const json_t *data, const char *key)
{
    return json_integer_value(json_object_get(data, key));
}

/* How a command ended, in words. */
static void print_ending(const json_t *data)
{
    const char *status = json_string_value(json_object_get(data, "status"));

    if (status == NULL)
        return;
    if (strcmp(status, "exited") == 0 && number(data, "exec_errno") != 0)
        (void)printf("  not started: %s", strerror((int)number(data, "exec_errno")));
    else if (strcmp(status, "exited") == 0)
        (void)printf("  exited with %lld", (long long)number(data, "exit_code"));
    else if (strcmp(status, "signaled") == 0)
        (void)printf("  killed by signal %lld", (long long)number(data, "signal"));
    else if (strcmp(status, "timed_out") == 0)
        (void)fputs("  timed out", stdout);
    else if (strcmp(status, "output_limited") == 0)
        (void)fputs("  wrote too much", stdout);
    else if (strcmp(status, "oom_killed") == 0)
        (void)fputs("  killed for memory", stdout);
    else
        print_text(NULL, status, strlen(status));
    if (strcmp(status, "oom_killed") != 0 && json_is_true(json_object_get(data, "oom_killed")))
        (void)fputs(", a process of it killed for memory", stdout);
    print_count(data, "survivors", "process left behind", 0);
}

static void print_duration(const json_t *data)
{
    const json_t *duration = json_object_get(data, "duration_ms");
    char text[RSBX_CLI_SHORT_BYTES];

    if (json_is_integer(duration) && json_integer_value(duration) >= 0)
        (void)printf("  %s", rsbx_cli_duration(text, (uint64_t)json_integer_value(duration)));
}

/* Of the first record, which has the whole metadata. */
static void print_metadata(const json_t *metadata)
{
    print_member(metadata, "task_id", NULL);
    print_member(metadata, "forked_from", "fork of");
    print_id(metadata, "source_revision", "revision");
    print_id(metadata, "image", "image");
    print_member(metadata, "workspace", "workspace");
    print_count(metadata, "source_file_count", "file", 1);
    print_bytes(metadata, "source_bytes", NULL);
}

static void print_command(const json_t *data)
{
    print_member(data, "command_id", NULL);
    print_argv(json_object_get(data, "argv"));
    print_member(data, "cwd", "in");
    if (number(json_object_get(data, "stdin"), "bytes") > 0)
        print_bytes(json_object_get(data, "stdin"), "bytes", "stdin");
    print_ending(data);
    print_duration(data);
    print_bytes(json_object_get(data, "stdout"), "bytes", "stdout");
    print_bytes(json_object_get(data, "stderr"), "bytes", "stderr");
}

/* What the other events have, where they have it. */
static void print_rest(const json_t *data)
{
    static const char *const subjects[] = { "path", "fork", "operation", "code", "message", "reason" };
    static const struct {
        const char *key, *thing;
    } counts[] = { { "commands", "command" }, { "files", "file" },      { "members", "file" },
                   { "changes", "change" },   { "omitted", "omission" } };

    for (size_t i = 0; i < sizeof subjects / sizeof subjects[0]; i++)
        print_member(data, subjects[i], NULL);
    print_id(data, "result_tree", "tree");
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
        print_count(data, counts[i].key, counts[i].thing, strcmp(counts[i].key, "omitted") != 0);
    print_count(data, "left_behind", "thing left behind", 0);
    print_bytes(data, "bytes", NULL);
    print_bytes(data, "size", NULL);
}

void rsbx_cli_print_record(const char *time, const char *event, const json_t *data)
{
    RSBX_CLI_AUTO(text) char *when = rsbx_cli_printable(time, strlen(time));
    RSBX_CLI_AUTO(text) char *what = rsbx_cli_printable(event, strlen(event));
    const json_t *metadata = json_object_get(data, "metadata");

    (void)printf("%s  %-19s", when, what);
    if (metadata != NULL)
        print_metadata(metadata);
    else if (json_object_get(data, "command_id") != NULL)
        print_command(data);
    else
        print_rest(data);
    (void)putchar('\n');
}
