/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "cleanup.h"
#include "cli.h"
#include "help.h"
#include "options.h"
#include "output.h"

static int usage_error(const struct rsbx_cli *cli, const struct rsbx_cli_command *command,
                       reposbx_error *err)
{
    if (err->hint[0] == '\0' && command != NULL)
        rsbx_cli_hint(err, "see 'reposbx %s%s%s --help'",
                      command->group == NULL ? "" : command->group,
                      command->group == NULL ? "" : " ", command->name);
    else if (err->hint[0] == '\0')
        rsbx_cli_hint(err, "see 'reposbx --help'");
    return rsbx_cli_fail(cli, err);
}

/* Whether --json stands among the words: an error met before it must be told as JSON too. */
static int wants_json(int argc, char **argv)
{
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
        if (strcmp(argv[i], "--json") == 0)
            return 1;
    }
    return 0;
}

/* Every command of this name, each as it has to be typed; 0 when there is none. */
static int hint_homes(reposbx_error *err, const char *name)
{
    char text[REPOSBX_HINT_BYTES] = "";
    size_t used = 0;

    for (size_t i = 0; rsbx_cli_commands[i] != NULL && used < sizeof text; i++) {
        const struct rsbx_cli_command *command = rsbx_cli_commands[i];

        if (strcmp(command->name, name) == 0)
            used += (size_t)snprintf(text + used, sizeof text - used, "%s'reposbx %s%s%s'",
                                     used > 0 ? " or " : "",
                                     command->group == NULL ? "" : command->group,
                                     command->group == NULL ? "" : " ", name);
    }
    if (used > 0)
        rsbx_cli_hint(err, "did you mean %s?", text);
    return used > 0;
}

/* A word that is a command elsewhere ("exec", "session run") is told where; else what it is nearest to: among
 * the words that may stand here, and where a group is missing, among those of the groups. */
static int unknown_command(const struct rsbx_cli *cli, const char *group, const char *word)
{
    struct rsbx_cli_guess here = { word, NULL, 0 }, inside = { word, NULL, 0 };
    reposbx_error err = REPOSBX_ERROR_INIT;

    (void)rsbx_cli_set(&err, REPOSBX_EINVALID, "unknown command '%s%s%.200s'",
                       group == NULL ? "" : group, group == NULL ? "" : " ", word);
    for (size_t i = 0; rsbx_cli_commands[i] != NULL; i++) {
        const struct rsbx_cli_command *command = rsbx_cli_commands[i];

        if (group == NULL && command->group != NULL)
            rsbx_cli_guess(&inside, command->name);
        if (group == NULL)
            rsbx_cli_guess(&here, command->group == NULL ? command->name : command->group);
        else if (command->group != NULL && strcmp(command->group, group) == 0)
            rsbx_cli_guess(&here, command->name);
    }
    if (hint_homes(&err, word))
        return usage_error(cli, NULL, &err);
    if (here.best != NULL)
        rsbx_cli_hint(&err, "did you mean 'reposbx %s%s%s'?", group == NULL ? "" : group,
                      group == NULL ? "" : " ", here.best);
    else if (group != NULL)
        rsbx_cli_hint(&err, "see 'reposbx %s --help'", group);
    else if (inside.best != NULL)
        (void)hint_homes(&err, inside.best);
    return usage_error(cli, NULL, &err);
}

static int check_operands(const struct rsbx_cli_command *command,
                          const struct rsbx_cli_parsed *parsed, reposbx_error *err)
{
    const char *group = command->group == NULL ? "" : command->group;
    const char *space = command->group == NULL ? "" : " ";

    if (parsed->operand_count >= command->min_operands &&
        parsed->operand_count <= command->max_operands)
        return 0;
    if (parsed->operand_count > command->max_operands)
        (void)rsbx_cli_set(err, REPOSBX_EINVALID, "too many arguments: '%.200s'",
                           parsed->operands[command->max_operands]);
    else
        (void)rsbx_cli_set(err, REPOSBX_EINVALID, "too few arguments");
    if (command->takes_argv && !parsed->saw_dashes &&
        parsed->operand_count > command->max_operands)
        rsbx_cli_hint(err, "put -- before the command that is to run");
    else
        rsbx_cli_hint(err, "usage: reposbx %s%s%s%s%s", group, space, command->name,
                      command->operands[0] == '\0' ? "" : " ", command->operands);
    return REPOSBX_EINVALID;
}

static int run_parsed(struct rsbx_cli *cli, const struct rsbx_cli_command *command,
                      const struct rsbx_cli_parsed *parsed)
{
    struct rsbx_cli_call call = { cli,
                                  command,
                                  parsed->options,
                                  parsed->operands,
                                  parsed->operand_count,
                                  parsed->argv,
                                  parsed->argc,
                                  parsed->saw_dashes };
    struct timespec start, end;
    int code;

    (void)clock_gettime(CLOCK_MONOTONIC, &start);
    code = command->run(&call);
    (void)clock_gettime(CLOCK_MONOTONIC, &end);
    if (cli->verbose) {
        char text[RSBX_CLI_SHORT_BYTES];
        int64_t took = (int64_t)(end.tv_sec - start.tv_sec) * 1000 +
                       (end.tv_nsec - start.tv_nsec) / 1000000;

        rsbx_cli_note(cli, "took %s", rsbx_cli_duration(text, took < 0 ? 0 : (uint64_t)took));
    }
    return code;
}

static int run_command(struct rsbx_cli *cli, const struct rsbx_cli_command *command, int argc,
                       char **argv, int json_wanted)
{
    struct rsbx_cli_parsed parsed = { NULL, NULL, 0, NULL, 0, 0 };
    reposbx_error err = REPOSBX_ERROR_INIT;
    int rc = rsbx_cli_parse(&parsed, cli, command, argc, argv, &err);
    int code;

    if (rc == 0 && !cli->help)
        rc = check_operands(command, &parsed, &err);
    if (rc < 0) {
        cli->json |= json_wanted;
        code = usage_error(cli, command, &err);
    } else if (cli->help) {
        rsbx_cli_help_command(stdout, command);
        code = RSBX_CLI_OK;
    } else {
        code = run_parsed(cli, command, &parsed);
    }
    rsbx_cli_parsed_dispose(&parsed, command);
    return code;
}

/* What the build asks for: manual pages and completions. */
static int generate(const char *what, const char *name)
{
    int rc = strcmp(what, "--man") == 0 ? rsbx_cli_man(stdout, name)
                                        : rsbx_cli_completion(stdout, name);

    return rc == 0 ? RSBX_CLI_OK : rsbx_cli_exit_code(REPOSBX_EINVALID);
}

static int no_command(const struct rsbx_cli *cli, const char *group)
{
    reposbx_error err = REPOSBX_ERROR_INIT;

    if (cli->help) {
        if (group == NULL)
            rsbx_cli_help_top(stdout);
        else
            rsbx_cli_help_group(stdout, group);
        return RSBX_CLI_OK;
    }
    (void)rsbx_cli_set(&err, REPOSBX_EINVALID, "which command%s%s?", group == NULL ? "" : " of ",
                       group == NULL ? "" : group);
    if (group != NULL)
        rsbx_cli_hint(&err, "see 'reposbx %s --help'", group);
    return usage_error(cli, NULL, &err);
}

/* Whether the words at index are a group and one of its verbs: "receipt" is a command as well. */
static int names_verb(const struct rsbx_cli *cli, int index, int argc, char **argv)
{
    struct rsbx_cli unused = *cli;
    reposbx_error ignored = REPOSBX_ERROR_INIT;
    int next = index + 1;

    return rsbx_cli_parse_globals(&unused, &next, argc, argv, &ignored) == 0 && next < argc &&
           rsbx_cli_find(argv[index], argv[next]) != NULL;
}

static int dispatch(struct rsbx_cli *cli, int argc, char **argv)
{
    static char version[] = "version", help[] = "--help";
    const struct rsbx_cli_command *command;
    reposbx_error err = REPOSBX_ERROR_INIT;
    const char *group = NULL;
    int json_wanted = wants_json(argc, argv), index = 1;

    if (argc >= 2 && (strcmp(argv[1], "--man") == 0 || strcmp(argv[1], "--completion") == 0))
        return generate(argv[1], argc >= 3 ? argv[2] : "");
    /* What many a tool understands is understood here, too. */
    if (argc >= 2 && strcmp(argv[1], "--version") == 0)
        argv[1] = version;
    else if (argc >= 2 && strcmp(argv[1], "help") == 0)
        argv[1] = help;
    for (;;) {
        if (rsbx_cli_parse_globals(cli, &index, argc, argv, &err) < 0) {
            cli->json |= json_wanted;
            return usage_error(cli, NULL, &err);
        }
        if (index >= argc || strcmp(argv[index], "--") == 0)
            return no_command(cli, group);
        command = rsbx_cli_find(group, argv[index]);
        if (command != NULL && (group != NULL || !names_verb(cli, index, argc, argv)))
            return run_command(cli, command, argc - index - 1, argv + index + 1, json_wanted);
        if (group != NULL || !rsbx_cli_is_group(argv[index])) {
            cli->json |= json_wanted;
            return unknown_command(cli, group, argv[index]);
        }
        group = argv[index++];
    }
}

/* A descriptor 0, 1 or 2 that the caller closed would be given to the next file that is opened, and
 * our output would go into it. What fills it can be used as little as a closed one: stdin is there for
 * writing alone and stdout for reading, so that neither is nothing or everything in silence. */
static void fill_standard_descriptors(void)
{
    int fd;

    for (;;) {
        fd = open("/dev/null", O_RDWR);
        if (fd < 0 || fd > STDERR_FILENO)
            break;
        if (fd < STDERR_FILENO) {
            (void)close(fd);
            (void)open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
        }
    }
    if (fd > STDERR_FILENO)
        (void)close(fd);
}

/* A umask may keep others out of what we make; one that keeps ourselves out would end the next command. */
static void let_ourselves_in(void)
{
    (void)umask(umask(0) & (S_IRWXG | S_IRWXO));
}

int main(int argc, char **argv)
{
    struct rsbx_cli cli = { NULL, NULL, 0, 0, 0, 0 };
    int code;

    fill_standard_descriptors();
    let_ourselves_in();
    /* A reader that went away is told by EPIPE, where the reason can be acted on. */
    (void)signal(SIGPIPE, SIG_IGN);
    /* So is a file that reached the size that the caller's shell allows: it must not end us half way. */
    (void)signal(SIGXFSZ, SIG_IGN);
    code = rsbx_cli_finish(&cli, dispatch(&cli, argc, argv));
#ifndef __SANITIZE_ADDRESS__
    /* Everything is written and released. What is left are the exit handlers of the libraries behind ours,
     * which take as long as a command does. */
    _exit(code);
#endif
    return code;
}
