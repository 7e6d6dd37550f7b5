/* SPDX-License-Identifier: Apache-2.0 */
#include "options.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "output.h"

#define MAX_GUESS_BYTES 32U

/* Where the value of one option goes. */
struct target {
    const struct rsbx_cli_option *option;
    void *base;
    const char *shown;       /* as it was written: "--timeout" or "-e" */
};

static size_t min2(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Levenshtein's distance; words over the bound are as far as they are long. */
static size_t distance(const char *a, const char *b)
{
    size_t row[MAX_GUESS_BYTES + 1];
    size_t a_length = strlen(a), b_length = strlen(b);

    if (a_length > MAX_GUESS_BYTES || b_length > MAX_GUESS_BYTES)
        return MAX_GUESS_BYTES;
    for (size_t j = 0; j <= b_length; j++)
        row[j] = j;
    for (size_t i = 1; i <= a_length; i++) {
        size_t diagonal = row[0];

        row[0] = i;
        for (size_t j = 1; j <= b_length; j++) {
            size_t above = row[j];
            size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0U : 1U);

            row[j] = min2(min2(above + 1, row[j - 1] + 1), replaced);
            diagonal = above;
        }
    }
    return row[b_length];
}

void rsbx_cli_guess(struct rsbx_cli_guess *guess, const char *candidate)
{
    size_t length = strlen(guess->word), far = distance(guess->word, candidate);
    size_t bound = length < 4 ? 1 : 2;

    /* What was cut short is meant too: "--rev" is --revision. */
    if (length >= 3 && strncmp(guess->word, candidate, length) == 0)
        far = min2(far, bound);
    if (far <= bound && (guess->best == NULL || far < guess->distance)) {
        guess->best = candidate;
        guess->distance = far;
    }
}

/* [-](digits[.digits]|.digits)[(e|E)[+-]digits] */
static int is_decimal(const char *text)
{
    static const char digits[] = "0123456789";
    size_t whole, part = 0;

    if (*text == '-')
        text++;
    whole = strspn(text, digits);
    text += whole;
    if (*text == '.') {
        part = strspn(text + 1, digits);
        if (part == 0)
            return 0;
        text += 1 + part;
    }
    if (whole + part == 0)
        return 0;
    if (*text == 'e' || *text == 'E') {
        text++;
        if (*text == '+' || *text == '-')
            text++;
        part = strspn(text, digits);
        if (part == 0)
            return 0;
        text += part;
    }
    return *text == '\0';
}

static int is_nan_or_infinity(const char *text)
{
    if (*text == '-' || *text == '+')
        text++;
    return strcasecmp(text, "nan") == 0 || strcasecmp(text, "inf") == 0 ||
           strcasecmp(text, "infinity") == 0;
}

int rsbx_cli_number(double *out, const char *field, const char *text, reposbx_error *err)
{
    double value;

    if (!is_decimal(text) && !is_nan_or_infinity(text))
        return rsbx_cli_set(err, REPOSBX_EINVALID, "%s: '%s' is not a number", field, text);
    value = strtod(text, NULL);
    if (!isfinite(value) || value <= 0.0)
        return rsbx_cli_set(err, REPOSBX_EPOLICY,
                            "%s: %s is refused: it must be finite and greater than zero", field,
                            text);
    *out = value;
    return 0;
}

int rsbx_cli_count(uint64_t *out, const char *field, const char *text, reposbx_error *err)
{
    unsigned long long value;

    if (!is_decimal(text) && !is_nan_or_infinity(text))
        return rsbx_cli_set(err, REPOSBX_EINVALID, "%s: '%s' is not a number: digits alone, no unit", field, text);
    errno = 0;
    value = strtoull(text, NULL, 10);
    if (text[strspn(text, "0123456789")] != '\0' || errno != 0 || value == 0)
        return rsbx_cli_set(err, REPOSBX_EPOLICY,
                            "%s: %s is refused: it must be a whole number greater than zero", field,
                            text);
    *out = value;
    return 0;
}

static int read_fd(int *out, const char *field, const char *text, reposbx_error *err)
{
    char *end;
    long value;

    errno = 0;
    value = strtol(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end != '\0' || errno != 0 || value < 1 ||
        value > INT_MAX)
        return rsbx_cli_set(err, REPOSBX_EINVALID, "%s: '%s' is not the number of a descriptor",
                            field, text);
    if (fcntl((int)value, F_GETFD) < 0)
        return rsbx_cli_set(err, REPOSBX_EINVALID, "%s: descriptor %s is not open", field, text);
    *out = (int)value;
    return 0;
}

static void *place(const struct target *target)
{
    return (char *)target->base + target->option->offset;
}

static void append(struct rsbx_cli_list *list, const char *text)
{
    list->items = rsbx_cli_need(
        reallocarray(list->items, list->count + 1, sizeof list->items[0]));
    list->items[list->count++] = text;
}

static int store(const struct target *target, const char *text, reposbx_error *err)
{
    const enum rsbx_cli_kind kind = target->option->kind;

    if (text[0] == '\0' && kind != RSBX_CLI_FLAG && kind != RSBX_CLI_WORD && kind != RSBX_CLI_WORDS)
        return rsbx_cli_set(err, REPOSBX_EINVALID, "%s: the value must not be empty",
                            target->shown);
    switch (kind) {
    case RSBX_CLI_FLAG:
        ++*(int *)place(target);
        return 0;
    case RSBX_CLI_TEXT:
    case RSBX_CLI_WORD:
        *(const char **)place(target) = text;
        return 0;
    case RSBX_CLI_LIST:
    case RSBX_CLI_WORDS:
        append(place(target), text);
        return 0;
    case RSBX_CLI_COUNT:
        return rsbx_cli_count(place(target), target->shown, text, err);
    case RSBX_CLI_NUMBER:
        return rsbx_cli_number(place(target), target->shown, text, err);
    case RSBX_CLI_FD:
        return read_fd(place(target), target->shown, text, err);
    }
    return rsbx_cli_set(err, REPOSBX_EINTERNAL, "%s: unknown kind of option", target->shown);
}

/* State of one pass over the words. */
struct pass {
    struct rsbx_cli *cli;
    const struct rsbx_cli_command *command;  /* NULL: only global options */
    void *options;
    char **argv;
    int argc, index;
};

static const struct rsbx_cli_option *find(const struct rsbx_cli_option *table, const char *name,
                                          size_t length, char letter)
{
    for (; table != NULL && table->name != NULL; table++) {
        if (name != NULL && strlen(table->name) == length &&
            memcmp(table->name, name, length) == 0)
            return table;
        if (name == NULL && table->letter == letter)
            return table;
    }
    return NULL;
}

static int locate(struct target *out, const struct pass *pass, const char *name, size_t length,
                  char letter)
{
    out->option = pass->command == NULL ? NULL
                                        : find(pass->command->options, name, length, letter);
    out->base = pass->options;
    if (out->option == NULL) {
        out->option = find(rsbx_cli_globals, name, length, letter);
        out->base = pass->cli;
    }
    return out->option != NULL;
}

static int unknown_long(const struct pass *pass, const char *word, size_t length,
                        reposbx_error *err)
{
    char name[MAX_GUESS_BYTES + 2];
    struct rsbx_cli_guess guess = { name, NULL, 0 };
    const struct rsbx_cli_option *option;

    (void)snprintf(name, sizeof name, "%.*s", (int)min2(length, sizeof name), word + 2);
    for (option = pass->command == NULL ? NULL : pass->command->options;
         option != NULL && option->name != NULL; option++)
        rsbx_cli_guess(&guess, option->name);
    for (option = rsbx_cli_globals; option->name != NULL; option++)
        rsbx_cli_guess(&guess, option->name);
    (void)rsbx_cli_set(err, REPOSBX_EINVALID, "unknown option --%.*s", (int)min2(length, 200),
                       word + 2);
    if (guess.best != NULL)
        rsbx_cli_hint(err, "did you mean --%s?", guess.best);
    return REPOSBX_EINVALID;
}

static int need_value(const char **out, struct pass *pass, const struct target *target,
                      reposbx_error *err)
{
    if (pass->index >= pass->argc)
        return rsbx_cli_set(err, REPOSBX_EINVALID, "%s needs a value: %s", target->shown,
                            target->option->value);
    *out = pass->argv[pass->index++];
    return 0;
}

static int take_long(struct pass *pass, const char *word, reposbx_error *err)
{
    size_t length = strcspn(word + 2, "=");
    const char *value = word[2 + length] == '=' ? word + 3 + length : NULL;
    char shown[MAX_GUESS_BYTES + 4];
    struct target target = { NULL, NULL, shown };
    int rc;

    if (!locate(&target, pass, word + 2, length, 0))
        return unknown_long(pass, word, length, err);
    (void)snprintf(shown, sizeof shown, "--%s", target.option->name);
    if (target.option->kind == RSBX_CLI_FLAG) {
        if (value != NULL)
            return rsbx_cli_set(err, REPOSBX_EINVALID, "%s takes no value", shown);
        return store(&target, "", err);
    }
    if (value == NULL) {
        rc = need_value(&value, pass, &target, err);
        if (rc < 0)
            return rc;
    }
    return store(&target, value, err);
}

static int take_letters(struct pass *pass, const char *word, reposbx_error *err)
{
    for (size_t i = 1; word[i] != '\0'; i++) {
        char shown[3] = { '-', word[i], '\0' };
        struct target target = { NULL, NULL, shown };
        const char *value = word + i + 1;
        int rc;

        if (!locate(&target, pass, NULL, 0, word[i]))
            return word[2] == '\0'
                       ? rsbx_cli_set(err, REPOSBX_EINVALID, "unknown option %s", word)
                       : rsbx_cli_set(err, REPOSBX_EINVALID, "unknown option -%c in '%s'", word[i], word);
        if (target.option->kind == RSBX_CLI_FLAG) {
            rc = store(&target, "", err);
            if (rc < 0)
                return rc;
            continue;
        }
        if (*value == '\0') {
            rc = need_value(&value, pass, &target, err);
            if (rc < 0)
                return rc;
        }
        return store(&target, value, err);
    }
    return 0;
}

static int is_option(const char *word)
{
    return word[0] == '-' && word[1] != '\0';
}

static int take_option(struct pass *pass, reposbx_error *err)
{
    const char *word = pass->argv[pass->index++];

    return word[1] == '-' ? take_long(pass, word, err) : take_letters(pass, word, err);
}

int rsbx_cli_parse_globals(struct rsbx_cli *cli, int *index, int argc, char **argv,
                           reposbx_error *err)
{
    struct pass pass = { cli, NULL, NULL, argv, argc, *index };

    while (pass.index < argc && is_option(argv[pass.index]) &&
           strcmp(argv[pass.index], "--") != 0) {
        int rc = take_option(&pass, err);

        if (rc < 0)
            return rc;
    }
    *index = pass.index;
    return 0;
}

int rsbx_cli_parse(struct rsbx_cli_parsed *out, struct rsbx_cli *cli,
                   const struct rsbx_cli_command *command, int argc, char **argv,
                   reposbx_error *err)
{
    struct pass pass = { cli, command, NULL, argv, argc, 0 };

    out->options = rsbx_cli_need(calloc(1, command->options_size + 1));
    out->operands = rsbx_cli_need(calloc((size_t)argc + 1, sizeof out->operands[0]));
    pass.options = out->options;
    while (pass.index < argc) {
        if (!out->saw_dashes && strcmp(argv[pass.index], "--") == 0) {
            out->saw_dashes = 1;
            pass.index++;
            if (command->takes_argv)
                break;
        } else if (!out->saw_dashes && is_option(argv[pass.index])) {
            int rc = take_option(&pass, err);

            if (rc < 0 && command->takes_argv && out->operand_count > command->max_operands)
                rsbx_cli_hint(err, "put -- before the command that is to run");
            if (rc < 0)
                return rc;
        } else {
            out->operands[out->operand_count++] = argv[pass.index++];
        }
    }
    out->argv = (const char *const *)(argv + pass.index);
    out->argc = (size_t)(argc - pass.index);
    return 0;
}

void rsbx_cli_parsed_dispose(struct rsbx_cli_parsed *parsed, const struct rsbx_cli_command *command)
{
    const struct rsbx_cli_option *option = command == NULL ? NULL : command->options;

    for (; parsed->options != NULL && option != NULL && option->name != NULL; option++) {
        if (option->kind == RSBX_CLI_LIST || option->kind == RSBX_CLI_WORDS) {
            struct target target = { option, parsed->options, NULL };

            free(((struct rsbx_cli_list *)place(&target))->items);
        }
    }
    free(parsed->options);
    free(parsed->operands);
    *parsed = (struct rsbx_cli_parsed){ NULL, NULL, 0, NULL, 0, 0 };
}
