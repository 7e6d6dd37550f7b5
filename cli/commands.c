/* SPDX-License-Identifier: Apache-2.0 */
#include "cli.h"

#include <string.h>

const struct rsbx_cli_command *const rsbx_cli_commands[] = {
    &rsbx_cli_session_create,
    &rsbx_cli_session_exec,
    &rsbx_cli_session_read,
    &rsbx_cli_session_write,
    &rsbx_cli_session_list_files,
    &rsbx_cli_session_diff,
    &rsbx_cli_session_artifacts,
    &rsbx_cli_session_show,
    &rsbx_cli_session_list,
    &rsbx_cli_session_log,
    &rsbx_cli_session_fork,
    &rsbx_cli_session_close,
    &rsbx_cli_validate,
    &rsbx_cli_run,
    &rsbx_cli_pool_serve,
    &rsbx_cli_pool_status,
    &rsbx_cli_pool_shutdown,
    &rsbx_cli_reap,
    &rsbx_cli_doctor,
    &rsbx_cli_audit_verify,
    &rsbx_cli_artifact_verify,
    &rsbx_cli_receipt,
    &rsbx_cli_receipt_verify,
    &rsbx_cli_wasm_install,
    &rsbx_cli_wasm_list,
    &rsbx_cli_wasm_remove,
    &rsbx_cli_policy_check,
    &rsbx_cli_policy_show,
    &rsbx_cli_version,
    NULL,
};

const struct rsbx_cli_option rsbx_cli_globals[] = {
    { "state-dir", 0, RSBX_CLI_TEXT, offsetof(struct rsbx_cli, state_dir), "DIR",
      "Where sessions are kept. Default: $REPOSBX_STATE_DIR, else $XDG_STATE_HOME/reposbx, else "
      "~/.local/state/reposbx (root: /var/lib/reposbx). Made with mode 0700; refused when others "
      "can write to it." },
    { "engine", 0, RSBX_CLI_TEXT, offsetof(struct rsbx_cli, engine), "ENGINE",
      "unix:///PATH, the socket of a Docker Engine, or podman, which needs no daemon; its storage "
      "may be named: podman?root=/DIR&runroot=/DIR. reposbx run also takes docker, wasm and auto. "
      "Default: $REPOSBX_ENGINE, else auto for reposbx run and pool serve, and "
      "unix:///run/user/UID/docker.sock for all others. DOCKER_HOST, CONTAINER_HOST and Docker "
      "contexts are ignored on purpose: which engine runs untrusted code must not depend on a "
      "setting made for something else." },
    { "json", 0, RSBX_CLI_FLAG, offsetof(struct rsbx_cli, json), NULL,
      "Print one JSON document on stdout, also for errors." },
    { "quiet", 'q', RSBX_CLI_FLAG, offsetof(struct rsbx_cli, quiet), NULL,
      "No notes and no progress on stderr; errors are still told." },
    { "verbose", 'v', RSBX_CLI_FLAG, offsetof(struct rsbx_cli, verbose), NULL,
      "Say a little more on stderr, such as how long it took." },
    { "help", 'h', RSBX_CLI_FLAG, offsetof(struct rsbx_cli, help), NULL, "Show this help." },
    { NULL, 0, RSBX_CLI_FLAG, 0, NULL, NULL },
};

static int same(const char *a, const char *b)
{
    return (a == NULL || b == NULL) ? a == b : strcmp(a, b) == 0;
}

const struct rsbx_cli_command *rsbx_cli_find(const char *group, const char *name)
{
    for (size_t i = 0; rsbx_cli_commands[i] != NULL; i++) {
        if (same(rsbx_cli_commands[i]->group, group) && same(rsbx_cli_commands[i]->name, name))
            return rsbx_cli_commands[i];
    }
    return NULL;
}

int rsbx_cli_is_group(const char *word)
{
    for (size_t i = 0; rsbx_cli_commands[i] != NULL; i++) {
        if (rsbx_cli_commands[i]->group != NULL && strcmp(rsbx_cli_commands[i]->group, word) == 0)
            return 1;
    }
    return 0;
}

const char *rsbx_cli_group_summary(const char *group)
{
    static const struct {
        const char *group, *summary;
    } table[] = {
        { "session", "a repository at an exact revision, and commands that run on it" },
        { "pool", "containers that wait for one-shot code" },
        { "audit", "check the log of a session" },
        { "artifact", "check a bundle of files" },
        { "receipt", "bind what a session did in one document, and check it" },
        { "wasm", "WebAssembly modules, compiled once and run without an engine" },
        { "policy", "check and show policy documents" },
    };

    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        if (strcmp(table[i].group, group) == 0)
            return table[i].summary;
    }
    return "";
}
