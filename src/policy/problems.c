/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/fields.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

#include "base/banned.h"

/* The next problem of the list at the given place, or NULL when the list is full. */
static char *next_message(struct rsbx_problems *problems, size_t line, size_t column)
{
    reposbx_policy_problem *problem;

    if (problems->count == RSBX_MAX_PROBLEMS) {
        problems->dropped++;
        return NULL;
    }
    problem = &problems->list[problems->count++];
    problem->line = line;
    problem->column = column;
    return problem->message;
}

/* Line and column of byte `offset`. */
static void place_of(size_t *line, size_t *column, const char *text, size_t offset)
{
    *line = 1;
    *column = 1;
    for (size_t i = 0; i < offset; i++) {
        (*column)++;
        if (text[i] == '\n') {
            (*line)++;
            *column = 1;
        }
    }
}

void rsbx_policy_note(struct rsbx_problems *problems, const char *path, const char *format, ...)
{
    char raw[1024];
    size_t line = 0, column = 0;
    char *message;
    va_list args;

    /* Finding a place reads the whole text: not done for what the list cannot hold. */
    if (path != NULL && problems->count < RSBX_MAX_PROBLEMS &&
        !rsbx_json_locate(&line, &column, problems->text, problems->length, path))
        place_of(&line, &column, problems->text, strspn(problems->text, " \t\r\n"));
    message = next_message(problems, line, column);
    if (message == NULL)
        return;
    va_start(args, format);
    if (vsnprintf(raw, sizeof raw, format, args) < 0)
        raw[0] = '\0';
    va_end(args);
    rsbx_text_printable(message, sizeof problems->list[0].message, raw, strlen(raw));
}

/* The opening quote of the string that ends before `end`. Quotes inside are escaped. */
static size_t string_start(const char *text, size_t end)
{
    size_t at = end > 0 ? end - 1 : 0;

    while (at > 0) {
        size_t slashes = 0;

        at--;
        if (text[at] != '"')
            continue;
        while (slashes < at && text[at - 1 - slashes] == '\\')
            slashes++;
        if (slashes % 2 == 0)
            break;
    }
    return at;
}

void rsbx_policy_note_syntax(struct rsbx_problems *problems, const json_error_t *fault)
{
    const char *text = problems->text;
    size_t offset = fault->position > 0 ? (size_t)fault->position : 0;
    size_t line, column;
    char *message;

    if (offset > problems->length)
        offset = problems->length;
    if (json_error_code(fault) == json_error_duplicate_key) {
        size_t start = string_start(text, offset);
        size_t width = offset - start < 100 ? offset - start : 100;

        place_of(&line, &column, text, start);
        message = next_message(problems, line, column);
        if (message != NULL) {
            char raw[128];

            (void)snprintf(raw, sizeof raw, "the key %.*s stands twice", (int)width, text + start);
            rsbx_text_printable(message, sizeof problems->list[0].message, raw, strlen(raw));
        }
        return;
    }
    /* The parser stands behind what it did not like. */
    place_of(&line, &column, text, offset > 0 ? offset - 1 : 0);
    message = next_message(problems, line, column);
    if (message != NULL)
        rsbx_text_printable(message, sizeof problems->list[0].message, fault->text,
                            strlen(fault->text));
}

static int by_place(const void *a, const void *b)
{
    const reposbx_policy_problem *left = a, *right = b;

    if (left->line != right->line)
        return left->line < right->line ? -1 : 1;
    if (left->column != right->column)
        return left->column < right->column ? -1 : 1;
    return 0;
}

void rsbx_policy_sort_problems(struct rsbx_problems *problems)
{
    reposbx_policy_problem *last;

    qsort(problems->list, problems->count, sizeof problems->list[0], by_place);
    if (problems->dropped == 0)
        return;
    last = &problems->list[problems->count++];
    last->line = 0;
    last->column = 0;
    (void)snprintf(last->message, sizeof last->message, "and %zu more", problems->dropped);
}
