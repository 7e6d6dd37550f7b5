/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RSBX_CLI_CLI_H
#define RSBX_CLI_CLI_H

#include <stddef.h>
#include <stdint.h>

#include <reposbx/reposbx.h>

/*
 * The command line: a thin customer of libreposbx. Each command is one const table entry
 * (rsbx_cli_command) in a file of its own; its help, its manual page, the shell completions and the
 * option parser all read that entry, so that they cannot disagree.
 */

/* Global options: the same before the command, between its words and behind it. */
struct rsbx_cli {
    const char *state_dir;
    const char *engine;
    int json, quiet, verbose, help;
};

/* Values of an option that may be repeated, in their order. */
struct rsbx_cli_list {
    const char **items;
    size_t count;
};

/* What an option writes at its offset. */
enum rsbx_cli_kind {
    RSBX_CLI_FLAG,    /* int, counted up */
    RSBX_CLI_TEXT,    /* const char *, not empty */
    RSBX_CLI_WORD,    /* const char *; the library judges the empty one, too */
    RSBX_CLI_LIST,    /* struct rsbx_cli_list of not empty values */
    RSBX_CLI_WORDS,   /* struct rsbx_cli_list; as for RSBX_CLI_WORD */
    RSBX_CLI_COUNT,   /* uint64_t > 0; 0: not given */
    RSBX_CLI_NUMBER,  /* double > 0, finite; 0.0: not given */
    RSBX_CLI_FD       /* int > 0, an open descriptor; 0: not given */
};

struct rsbx_cli_option {
    const char *name;     /* without the dashes; NULL ends a table */
    char letter;          /* 0: none */
    enum rsbx_cli_kind kind;
    size_t offset;        /* in the command's options struct */
    const char *value;    /* name of the value in the help; NULL for flags */
    const char *text;
};

struct rsbx_cli_call;

struct rsbx_cli_command {
    const char *group;    /* "session", "policy", …; NULL: none */
    const char *name;
    const char *summary;  /* one line, no full stop */
    const char *operands; /* as in the synopsis; "" for none */
    size_t min_operands, max_operands; /* max SIZE_MAX: no bound */
    int takes_argv;       /* everything behind "--" is a command line of the sandbox */
    const char *text;     /* paragraphs, parted by newlines */
    const char *exits;    /* what its exit code means beyond the common table; NULL: nothing */
    const char *example;  /* one command line */
    const struct rsbx_cli_option *options;
    size_t options_size;
    int (*run)(const struct rsbx_cli_call *call);
};

/* One invocation, parsed. Strings are borrowed from main's argv. */
struct rsbx_cli_call {
    const struct rsbx_cli *cli;
    const struct rsbx_cli_command *command;
    const void *options;  /* the command's own struct */
    const char *const *operands;
    size_t operand_count;
    const char *const *argv; /* behind "--", only where takes_argv */
    size_t argc;
    int saw_dashes;       /* "--" was there */
};

/* Every command, in the order of the help; NULL-terminated. */
extern const struct rsbx_cli_command *const rsbx_cli_commands[];
/* The global options as a table over struct rsbx_cli. */
extern const struct rsbx_cli_option rsbx_cli_globals[];

/* NULL when there is none. `group` may be NULL. */
const struct rsbx_cli_command *rsbx_cli_find(const char *group, const char *name);
int rsbx_cli_is_group(const char *word);
/* One line about a group. */
const char *rsbx_cli_group_summary(const char *group);

extern const struct rsbx_cli_command rsbx_cli_session_create;
extern const struct rsbx_cli_command rsbx_cli_session_exec;
extern const struct rsbx_cli_command rsbx_cli_session_read;
extern const struct rsbx_cli_command rsbx_cli_session_write;
extern const struct rsbx_cli_command rsbx_cli_session_list_files;
extern const struct rsbx_cli_command rsbx_cli_session_diff;
extern const struct rsbx_cli_command rsbx_cli_session_artifacts;
extern const struct rsbx_cli_command rsbx_cli_session_show;
extern const struct rsbx_cli_command rsbx_cli_session_list;
extern const struct rsbx_cli_command rsbx_cli_session_log;
extern const struct rsbx_cli_command rsbx_cli_session_fork;
extern const struct rsbx_cli_command rsbx_cli_session_close;
extern const struct rsbx_cli_command rsbx_cli_run;
extern const struct rsbx_cli_command rsbx_cli_pool_serve;
extern const struct rsbx_cli_command rsbx_cli_pool_status;
extern const struct rsbx_cli_command rsbx_cli_pool_shutdown;
extern const struct rsbx_cli_command rsbx_cli_reap;
extern const struct rsbx_cli_command rsbx_cli_audit_verify;
extern const struct rsbx_cli_command rsbx_cli_artifact_verify;
extern const struct rsbx_cli_command rsbx_cli_receipt;
extern const struct rsbx_cli_command rsbx_cli_receipt_verify;
extern const struct rsbx_cli_command rsbx_cli_policy_check;
extern const struct rsbx_cli_command rsbx_cli_policy_show;
extern const struct rsbx_cli_command rsbx_cli_doctor;
extern const struct rsbx_cli_command rsbx_cli_validate;
extern const struct rsbx_cli_command rsbx_cli_version;
extern const struct rsbx_cli_command rsbx_cli_wasm_install;
extern const struct rsbx_cli_command rsbx_cli_wasm_list;
extern const struct rsbx_cli_command rsbx_cli_wasm_remove;

/* ---- steps that several commands share (open.c) ---- */

/* A provider from the global options. */
int rsbx_cli_open_provider(reposbx_provider **out, const struct rsbx_cli *cli, reposbx_error *err);
/* The session named by the call's first operand; both are the caller's. */
int rsbx_cli_open_session(reposbx_session **session, reposbx_provider **provider,
                          const struct rsbx_cli_call *call, reposbx_error *err);
/* The id of a session that was just made, or its metadata with --json; the exit code. */
int rsbx_cli_print_new_session(const struct rsbx_cli_call *call, reposbx_provider *provider,
                               const reposbx_session *session);

/* ---- what commands that run something share (interrupt.c) ---- */

/* SIGINT, SIGTERM and SIGHUP make *cancel_fd readable from now on. */
int rsbx_cli_catch_signals(int *cancel_fd, reposbx_error *err);
/* The signal that came; 0: none. */
int rsbx_cli_caught_signal(void);
/* Moves the values of --env out of our arguments, which everybody on the host can read, into
 * memory; *block is the caller's to free. REPOSBX_EINVALID for one that is not NAME=VALUE. */
int rsbx_cli_hide_values(char **block, const struct rsbx_cli_list *env, reposbx_error *err);

/* The exit code for how a command or a piece of code ended (enum reposbx_exec_status). */
int rsbx_cli_status_code(int status, int exit_code, int signal);

/* ---- options that several commands have, and their rows (TYPE is the command's options struct) ---- */

/* Of a session that is made: a member `source` of TYPE. */
struct rsbx_cli_source {
    const char *repo, *revision, *image, *policy, *platform, *task_id, *workspace;
};
#define RSBX_CLI_REPO_ROW(TYPE) \
    { "repo", 0, RSBX_CLI_TEXT, offsetof(TYPE, source.repo), "DIR", \
      "Top folder of the Git repository; its HEAD must be at the revision." }
#define RSBX_CLI_SOURCE_ROWS(TYPE) \
    { "platform", 0, RSBX_CLI_WORD, offsetof(TYPE, source.platform), "OS/ARCH", \
      "Platform of the image, such as linux/amd64. Default: the engine's own." }, \
    { "task-id", 0, RSBX_CLI_WORD, offsetof(TYPE, source.task_id), "ID", \
      "A name of the caller's for this session, kept in its metadata and log." }, \
    { "workspace", 0, RSBX_CLI_TEXT, offsetof(TYPE, source.workspace), "auto|overlay|copy", \
      "How the workspace is made. Default: as the policy says." }
/* All of it but the exclusions and the progress. */
void rsbx_cli_fill_spec(reposbx_spec *spec, const struct rsbx_cli_source *source,
                        const reposbx_policy *policy);

/* Of a command that is to run: a member `wishes` of TYPE. */
struct rsbx_cli_wishes {
    const char *cwd;
    struct rsbx_cli_list env;
    double timeout, cpus;
    uint64_t memory, pids;
};
#define RSBX_CLI_COMMAND_ROWS(TYPE) \
    { "cwd", 'w', RSBX_CLI_WORD, offsetof(TYPE, wishes.cwd), "PATH", \
      "Folder below the workspace to run in. Default: the workspace itself." }, \
    { "env", 'e', RSBX_CLI_LIST, offsetof(TYPE, wishes.env), "NAME=VALUE", \
      "Set a variable. Nothing of this shell's environment goes in, and names that look like " \
      "secrets are refused. May be repeated." }
#define RSBX_CLI_LIMIT_ROWS(TYPE) \
    { "timeout", 0, RSBX_CLI_NUMBER, offsetof(TYPE, wishes.timeout), "SECONDS", \
      "Kill the command after this time. This and the three limits below may only lower the " \
      "policy's." }, \
    { "memory", 0, RSBX_CLI_COUNT, offsetof(TYPE, wishes.memory), "BYTES", \
      "Memory and swap together." }, \
    { "cpus", 0, RSBX_CLI_NUMBER, offsetof(TYPE, wishes.cpus), "N", "Processors." }, \
    { "pids", 0, RSBX_CLI_COUNT, offsetof(TYPE, wishes.pids), "N", "Processes and threads." }

/* ---- live output (forward.c) ---- */

/* Where it goes, and why it could not. */
struct rsbx_cli_stream {
    int cancel_fd;
    int broken;              /* the reader of our stdout or stderr went away */
    int write_errno;         /* another failure */
};
/* Of a reposbx_exec_request; the payload is a stream. */
int rsbx_cli_forward(void *payload, int number, const void *bytes, size_t length);
/* The argv of the call and the wishes; without --json the output goes to the stream. */
void rsbx_cli_fill(reposbx_exec_request *request, const struct rsbx_cli_call *call,
                   const struct rsbx_cli_wishes *wishes, struct rsbx_cli_stream *stream);
/* The exit code of a command that we stopped ourselves: by a signal (`then` says what came of it), or
 * since its output could not be passed on. Tells it, or what stands in err where it was neither. */
int rsbx_cli_stopped(const struct rsbx_cli *cli, const struct rsbx_cli_stream *stream,
                     const char *then, reposbx_error *err);

/* ---- reading what the caller gives (files.c) ---- */

/* Content that is read into memory here is bounded by this; the library applies the policy's own,
 * usually lower, bound. */
#define RSBX_CLI_MAX_INPUT_BYTES (64U * 1024U * 1024U)

/* Everything of a file, or of stdin for "-" (free(); NUL behind). Over `limit`: REPOSBX_ELIMIT. */
int rsbx_cli_read_all(char **bytes, size_t *length, const char *file, size_t limit,
                      reposbx_error *err);
/* Makes a file that must not exist, mode 0644, with its content synced; removes it on failure. */
int rsbx_cli_write_new(const char *file, const void *bytes, size_t length, reposbx_error *err);
/* REPOSBX_EEXISTS when the name is taken or its folder is not there, REPOSBX_EINVALID for "-": asked before
 * the work whose result goes there. */
int rsbx_cli_must_be_new(const char *file, reposbx_error *err);

#endif
