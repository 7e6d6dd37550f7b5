/* SPDX-License-Identifier: Apache-2.0 */
#include "help.h"

#include <stdlib.h>
#include <string.h>

#include "output.h"

#define WIDTH 80U
#define TEXT_INDENT 6U

const struct rsbx_cli_exit_text rsbx_cli_exit_texts[] = {
    { 0, "done" },
    { 1, "the answer is no: a check failed, or diff --exit-code found changes" },
    { 64, "usage" },
    { 65, "malformed input (policy file, patch, revision)" },
    { 66, "no such session, repository or file" },
    { 69, "engine or image unavailable" },
    { 70, "internal error" },
    { 73, "the output exists or cannot be created" },
    { 74, "I/O error" },
    { 75, "busy: someone else holds the session; try again" },
    { 76, "the engine, the guest or the repository answered nonsense" },
    { 77, "refused by the policy or over a limit" },
    { 78, "the session is closed, expired or poisoned" },
    { 130, "interrupted (128 + the signal)" },
    { 0, NULL },
};

/* Prints text wrapped at WIDTH; every line starts at `indent`. */
static void wrap(FILE *stream, const char *text, size_t indent)
{
    size_t column = 0;

    while (*text != '\0') {
        size_t length = strcspn(text, " \n");

        if (column > 0 && column + 1 + length > WIDTH) {
            (void)fputc('\n', stream);
            column = 0;
        }
        if (column == 0) {
            (void)fprintf(stream, "%*s", (int)indent, "");
            column = indent;
        } else {
            (void)fputc(' ', stream);
            column++;
        }
        (void)fwrite(text, 1, length, stream);
        column += length;
        text += length;
        if (*text == '\n') {
            (void)fputc('\n', stream);
            column = 0;
        }
        if (*text != '\0')
            text++;
    }
    if (column > 0)
        (void)fputc('\n', stream);
}

static void print_options(FILE *stream, const char *title, const struct rsbx_cli_option *option)
{
    if (option == NULL || option->name == NULL)
        return;
    (void)fprintf(stream, "\n%s:\n", title);
    for (; option->name != NULL; option++) {
        if (option->letter != 0)
            (void)fprintf(stream, "  -%c, --%s", option->letter, option->name);
        else
            (void)fprintf(stream, "  --%s", option->name);
        if (option->value != NULL)
            (void)fprintf(stream, " %s", option->value);
        (void)fputc('\n', stream);
        wrap(stream, option->text, TEXT_INDENT);
    }
}

static void print_row(FILE *stream, const struct rsbx_cli_command *command)
{
    char words[64];

    (void)snprintf(words, sizeof words, "%s%s%s", command->group == NULL ? "" : command->group,
                   command->group == NULL ? "" : " ", command->name);
    (void)fprintf(stream, "  %-20s  %s\n", words, command->summary);
}

void rsbx_cli_help_top(FILE *stream)
{
    (void)fputs("Usage: reposbx [OPTION]… COMMAND …\n\n", stream);
    wrap(stream,
         "Hands an untrusted repository and untrusted commands to a container engine and gets back "
         "data only: bounded output, a patch, a bundle of files and a log that can be checked.",
         0);
    (void)fputs("\nCommands:\n", stream);
    for (size_t i = 0; rsbx_cli_commands[i] != NULL; i++)
        print_row(stream, rsbx_cli_commands[i]);
    print_options(stream, "Options (before the command or behind it)", rsbx_cli_globals);
    (void)fputs("\nExit codes:\n", stream);
    for (size_t i = 0; rsbx_cli_exit_texts[i].text != NULL; i++)
        (void)fprintf(stream, "  %3d  %s\n", rsbx_cli_exit_texts[i].code,
                      rsbx_cli_exit_texts[i].text);
    (void)fprintf(stream, "\nExample:\n  %s\n\n", rsbx_cli_session_create.example);
    (void)fputs("'reposbx COMMAND --help' tells more about a command.\n", stream);
}

void rsbx_cli_help_group(FILE *stream, const char *group)
{
    const char *example = NULL;

    (void)fprintf(stream, "Usage: reposbx %s COMMAND …\n\n%s: %s\n\nCommands:\n", group, group,
                  rsbx_cli_group_summary(group));
    for (size_t i = 0; rsbx_cli_commands[i] != NULL; i++) {
        const struct rsbx_cli_command *command = rsbx_cli_commands[i];

        if (command->group == NULL || strcmp(command->group, group) != 0)
            continue;
        print_row(stream, command);
        if (example == NULL)
            example = command->example;
    }
    (void)fprintf(stream, "\nExample:\n  %s\n\n", example == NULL ? "" : example);
    (void)fprintf(stream, "'reposbx %s COMMAND --help' tells more about a command.\n", group);
}

void rsbx_cli_help_command(FILE *stream, const struct rsbx_cli_command *command)
{
    const char *group = command->group == NULL ? "" : command->group;
    const char *space = command->group == NULL ? "" : " ";
    int has_options = command->options != NULL && command->options[0].name != NULL;

    (void)fprintf(stream, "Usage: reposbx %s%s%s%s%s%s\n\n", group, space, command->name,
                  has_options ? " [OPTION]…" : "", command->operands[0] == '\0' ? "" : " ",
                  command->operands);
    wrap(stream, command->text, 0);
    print_options(stream, "Options", command->options);
    print_options(stream, "Global options", rsbx_cli_globals);
    if (command->exits != NULL) {
        (void)fputs("\nExit code:\n", stream);
        wrap(stream, command->exits, 2);
    }
    (void)fprintf(stream, "\nExample:\n  %s\n", command->example);
}
