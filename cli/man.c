/* SPDX-License-Identifier: Apache-2.0 */
#include "help.h"

#include <string.h>

/* Text of roff: backslashes and dashes are escaped, and no line starts with a control character. */
static void roff(FILE *stream, const char *text)
{
    int start = 1;

    for (; *text != '\0'; text++) {
        if (start && (*text == '.' || *text == '\''))
            (void)fputs("\\&", stream);
        start = 0;
        if (*text == '\\') {
            (void)fputs("\\e", stream);
        } else if (*text == '-') {
            (void)fputs("\\-", stream);
        } else if (*text == '\n') {
            (void)fputs("\n.PP\n", stream);
            start = 1;
        } else {
            (void)fputc(*text, stream);
        }
    }
    (void)fputc('\n', stream);
}

/* A name in running text of roff, where a bare dash would become a hyphen. */
static void dashes(FILE *stream, const char *name)
{
    for (; *name != '\0'; name++) {
        if (*name == '-')
            (void)fputc('\\', stream);
        (void)fputc(*name, stream);
    }
}

static void header(FILE *stream, const char *page, const char *summary)
{
    (void)fputs(".\\\" SPDX-License-Identifier: Apache-2.0\n.TH \"", stream);
    for (const char *c = page; *c != '\0'; c++)
        (void)fputc(*c >= 'a' && *c <= 'z' ? *c - 'a' + 'A' : *c, stream);
    (void)fprintf(stream, "\" \"1\" \"\" \"reposbx %s\" \"reposbx\"\n.SH NAME\n", REPOSBX_VERSION);
    dashes(stream, page);
    (void)fputs(" \\- ", stream);
    roff(stream, summary);
}

static void options(FILE *stream, const char *title, const struct rsbx_cli_option *option)
{
    if (option == NULL || option->name == NULL)
        return;
    (void)fprintf(stream, ".SH %s\n", title);
    for (; option->name != NULL; option++) {
        (void)fputs(".TP\n", stream);
        if (option->letter != 0)
            (void)fprintf(stream, "\\fB\\-%c\\fR, ", option->letter);
        (void)fputs("\\fB\\-\\-", stream);
        dashes(stream, option->name);
        (void)fputs("\\fR", stream);
        if (option->value != NULL)
            (void)fprintf(stream, " \\fI%s\\fR", option->value);
        (void)fputc('\n', stream);
        roff(stream, option->text);
    }
}

static void exit_codes(FILE *stream, const char *own)
{
    (void)fputs(".SH EXIT STATUS\n", stream);
    if (own != NULL) {
        roff(stream, own);
        (void)fputs(".PP\nOf reposbx itself:\n", stream);
    }
    for (size_t i = 0; rsbx_cli_exit_texts[i].text != NULL; i++) {
        (void)fprintf(stream, ".TP\n.B %d\n", rsbx_cli_exit_texts[i].code);
        roff(stream, rsbx_cli_exit_texts[i].text);
    }
}

static void example(FILE *stream, const char *text)
{
    (void)fputs(".SH EXAMPLE\n.nf\n", stream);
    roff(stream, text);
    (void)fputs(".fi\n", stream);
}

/* "session-exec": the group and the name joined by a dash. */
static void page_name(char out[64], const struct rsbx_cli_command *command)
{
    (void)snprintf(out, 64, "%s%s%s", command->group == NULL ? "" : command->group,
                   command->group == NULL ? "" : "-", command->name);
}

static void top_page(FILE *stream)
{
    header(stream, "reposbx", "sandboxes for untrusted repositories and commands");
    (void)fputs(".SH SYNOPSIS\n.B reposbx\n[\\fIOPTION\\fR]... \\fICOMMAND\\fR ...\n"
                ".SH DESCRIPTION\n",
                stream);
    roff(stream, "Hands an untrusted repository and untrusted commands to a container engine and "
                 "gets back data only: bounded output, a patch, a bundle of files and a log that "
                 "can be checked.\nEvery command prints its data on stdout and everything else on "
                 "stderr.");
    (void)fputs(".SH COMMANDS\n", stream);
    for (size_t i = 0; rsbx_cli_commands[i] != NULL; i++) {
        char name[64];

        page_name(name, rsbx_cli_commands[i]);
        (void)fputs(".TP\n.BR ", stream);
        (void)fputs("reposbx\\-", stream);
        dashes(stream, name);
        (void)fputs(" (1)\n", stream);
        roff(stream, rsbx_cli_commands[i]->summary);
    }
    options(stream, "OPTIONS", rsbx_cli_globals);
    exit_codes(stream, NULL);
    example(stream, rsbx_cli_session_create.example);
}

static void command_page(FILE *stream, const struct rsbx_cli_command *command)
{
    char page[64], name[80];

    page_name(page, command);
    (void)snprintf(name, sizeof name, "reposbx-%s", page);
    header(stream, name, command->summary);
    (void)fputs(".SH SYNOPSIS\n.B reposbx ", stream);
    (void)fprintf(stream, "%s%s", command->group == NULL ? "" : command->group,
                  command->group == NULL ? "" : " ");
    roff(stream, command->name);
    if (command->options != NULL && command->options[0].name != NULL)
        (void)fputs("[\\fIOPTION\\fR]...\n", stream);
    if (command->operands[0] != '\0')
        roff(stream, command->operands);
    (void)fputs(".SH DESCRIPTION\n", stream);
    roff(stream, command->text);
    options(stream, "OPTIONS", command->options);
    options(stream, "GLOBAL OPTIONS", rsbx_cli_globals);
    exit_codes(stream, command->exits);
    example(stream, command->example);
    (void)fputs(".SH SEE ALSO\n.BR reposbx (1)\n", stream);
}

int rsbx_cli_man(FILE *stream, const char *page)
{
    char name[64];

    if (page[0] == '\0') {
        top_page(stream);
        return 0;
    }
    for (size_t i = 0; rsbx_cli_commands[i] != NULL; i++) {
        page_name(name, rsbx_cli_commands[i]);
        if (strcmp(name, page) == 0) {
            command_page(stream, rsbx_cli_commands[i]);
            return 0;
        }
    }
    return -1;
}
