/* SPDX-License-Identifier: Apache-2.0 */
#include "help.h"

#include <string.h>

/* Words that are completed at one level: the options of a table as "--name". */
static void option_words(FILE *stream, const struct rsbx_cli_option *option)
{
    for (; option != NULL && option->name != NULL; option++)
        (void)fprintf(stream, " --%s", option->name);
}

/* A group that is a command as well: its verbs are completed with the command's options. */
static int is_command_too(const char *group)
{
    return group != NULL && rsbx_cli_find(NULL, group) != NULL;
}

static void verb_words(FILE *stream, const char *group)
{
    for (size_t i = 0; rsbx_cli_commands[i] != NULL; i++) {
        const struct rsbx_cli_command *command = rsbx_cli_commands[i];

        if (command->group != NULL && strcmp(command->group, group) == 0)
            (void)fprintf(stream, " %s", command->name);
    }
}

/* Groups and commands without one, each once: commands of a group stand together in the table. */
static void first_words(FILE *stream)
{
    const char *last = "";

    for (size_t i = 0; rsbx_cli_commands[i] != NULL; i++) {
        const struct rsbx_cli_command *command = rsbx_cli_commands[i];

        if (command->group != NULL &&
            (strcmp(command->group, last) == 0 || is_command_too(command->group)))
            continue;
        (void)fprintf(stream, "%s%s", i == 0 ? "" : " ",
                      command->group == NULL ? command->name : command->group);
        last = command->group == NULL ? "" : command->group;
    }
}

static void bash_cases(FILE *stream)
{
    const char *last = "";

    for (size_t i = 0; rsbx_cli_commands[i] != NULL; i++) {
        const struct rsbx_cli_command *command = rsbx_cli_commands[i];

        (void)fprintf(stream, "    '%s%s%s')\n        words='",
                      command->group == NULL ? "" : command->group,
                      command->group == NULL ? "" : " ", command->name);
        option_words(stream, command->options);
        if (command->group == NULL)
            verb_words(stream, command->name);
        (void)fputs("' ;;\n", stream);
        if (command->group == NULL || strcmp(command->group, last) == 0 ||
            is_command_too(command->group))
            continue;
        last = command->group;
        (void)fprintf(stream, "    '%s')\n        words='", last);
        verb_words(stream, last);
        (void)fputs("' ;;\n", stream);
    }
}

static void bash(FILE *stream)
{
    (void)fputs(
        "# SPDX-License-Identifier: Apache-2.0\n"
        "# bash completion for reposbx; file names where nothing else fits.\n"
        "_reposbx()\n"
        "{\n"
        "    local cur=${COMP_WORDS[COMP_CWORD]} word command='' words='' count=0 i\n"
        "    COMPREPLY=()\n"
        "    for ((i = 1; i < COMP_CWORD; i++)); do\n"
        "        word=${COMP_WORDS[i]}\n"
        "        case $word in\n"
        "        --) return ;;\n"
        "        --state-dir | --engine) ((i++)) ;;\n"
        "        -*) ;;\n"
        "        *)\n"
        "            if ((count == 0)); then\n"
        "                command=$word\n"
        "                count=1\n"
        "            elif ((count == 1)); then\n"
        "                case $command in\n"
        "                session | audit | artifact | policy) command+=\" $word\" ;;\n"
        "                receipt) [[ $word == verify ]] && command+=\" $word\" ;;\n"
        "                esac\n"
        "                count=2\n"
        "            fi ;;\n"
        "        esac\n"
        "    done\n"
        "    case $command in\n"
        "    '')\n"
        "        words='",
        stream);
    first_words(stream);
    (void)fputs("' ;;\n", stream);
    bash_cases(stream);
    (void)fputs("    esac\n"
                "    if [[ $cur == -* ]]; then\n"
                "        words+='",
                stream);
    option_words(stream, rsbx_cli_globals);
    (void)fputs(
        "'\n"
        "    elif [[ $cur == sbx-* ]]; then\n"
        "        words=$(reposbx session list 2>/dev/null | while read -r word _; do\n"
        "            [[ $word == sbx-* ]] && printf '%s ' \"$word\"\n"
        "        done)\n"
        "    fi\n"
        "    mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$cur\")\n"
        "}\n"
        "complete -o default -F _reposbx reposbx\n",
        stream);
}

/* Text inside _arguments' brackets and single quotes. */
static void zsh_text(FILE *stream, const char *text)
{
    for (; *text != '\0' && *text != '\n'; text++) {
        if (*text == '\'')
            (void)fputs("'\\''", stream);
        else if (strchr("[]:\\", *text) != NULL)
            (void)fprintf(stream, "\\%c", *text);
        else
            (void)fputc(*text, stream);
    }
}

static void zsh_options(FILE *stream, const struct rsbx_cli_option *option)
{
    for (; option != NULL && option->name != NULL; option++) {
        (void)fprintf(stream, " \\\n            '*--%s%s[", option->name,
                      option->value == NULL ? "" : "=");
        zsh_text(stream, option->text);
        (void)fputc(']', stream);
        if (option->value != NULL) {
            (void)fputc(':', stream);
            zsh_text(stream, option->value);
            (void)fputs(":_files", stream);
        }
        (void)fputc('\'', stream);
    }
}

static void zsh_case(FILE *stream, const struct rsbx_cli_command *command)
{
    if (command->group == NULL)
        (void)fprintf(stream, "    %s*)\n", command->name);
    else
        (void)fprintf(stream, "    '%s %s')\n", command->group, command->name);
    (void)fputs("        _arguments -S", stream);
    zsh_options(stream, command->options);
    zsh_options(stream, rsbx_cli_globals);
    (void)fputs(" \\\n            '*:operand:_files' ;;\n", stream);
}

static void zsh(FILE *stream)
{
    (void)fputs("#compdef reposbx\n"
                "# SPDX-License-Identifier: Apache-2.0\n"
                "_reposbx()\n"
                "{\n"
                "    local -a path rest\n"
                "    local word\n"
                "    for word in ${words[2,CURRENT-1]}; do\n"
                "        [[ $word == -* ]] || path+=($word)\n"
                "    done\n"
                "    case \"${path[1,2]}\" in\n",
                stream);
    /* Verbs first: the pattern of a command without a group fits everything behind its name. */
    for (int grouped = 1; grouped >= 0; grouped--) {
        for (size_t i = 0; rsbx_cli_commands[i] != NULL; i++) {
            if ((rsbx_cli_commands[i]->group != NULL) == grouped)
                zsh_case(stream, rsbx_cli_commands[i]);
        }
    }
    (void)fputs("    *)\n        case \"${path[1]}\" in\n", stream);
    for (size_t i = 0; rsbx_cli_commands[i] != NULL; i++) {
        const char *group = rsbx_cli_commands[i]->group;

        if (group == NULL || (i > 0 && rsbx_cli_commands[i - 1]->group != NULL &&
                              strcmp(rsbx_cli_commands[i - 1]->group, group) == 0))
            continue;
        (void)fprintf(stream, "        %s) compadd --", group);
        verb_words(stream, group);
        (void)fputs(" ;;\n", stream);
    }
    (void)fputs("        *) compadd -- ", stream);
    first_words(stream);
    (void)fputs(" ;;\n        esac ;;\n    esac\n}\n_reposbx \"$@\"\n", stream);
}

int rsbx_cli_completion(FILE *stream, const char *shell)
{
    if (strcmp(shell, "bash") == 0)
        bash(stream);
    else if (strcmp(shell, "zsh") == 0)
        zsh(stream);
    else
        return -1;
    return 0;
}
