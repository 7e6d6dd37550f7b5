/* SPDX-License-Identifier: Apache-2.0 */
#include <stdint.h>

#include "cleanup.h"
#include "cli.h"
#include "output.h"

struct options {
    const char *language, *policy;
    uint64_t size;
};

static void say_ready(void *payload)
{
    const struct rsbx_cli_call *call = payload;

    rsbx_cli_note(call->cli, "serving; stop with Ctrl-C or reposbx pool shutdown");
}

static int run(const struct rsbx_cli_call *call)
{
    const struct options *options = call->options;
    RSBX_CLI_AUTO(provider) reposbx_provider *provider = NULL;
    RSBX_CLI_AUTO(policy) reposbx_policy *policy = NULL;
    RSBX_CLI_AUTO(runner) reposbx_runner *runner = NULL;
    reposbx_runner_options runner_options = REPOSBX_RUNNER_OPTIONS_INIT;
    reposbx_pool_serve_options serve = REPOSBX_POOL_SERVE_OPTIONS_INIT;
    reposbx_error err = REPOSBX_ERROR_INIT;
    int rc = rsbx_cli_open_provider(&provider, call->cli, &err);

    if (rc == 0 && options->policy != NULL)
        rc = reposbx_policy_load(&policy, options->policy, &err);
    runner_options.engine = call->cli->engine;
    runner_options.policy = policy;
    if (rc == 0)
        rc = reposbx_runner_open(&runner, provider, &runner_options, &err);
    if (rc == 0)
        rc = rsbx_cli_catch_signals(&serve.stop_fd, &err);
    serve.language = options->language;
    serve.size = options->size > UINT32_MAX ? UINT32_MAX : (unsigned int)options->size;
    serve.ready = say_ready;
    serve.payload = (void *)(uintptr_t)call;
    if (rc == 0)
        rc = reposbx_pool_serve(provider, runner, &serve, &err);
    if (rc < 0 && rsbx_cli_caught_signal() != 0) {
        (void)rsbx_cli_fail(call->cli, &err);
        return RSBX_CLI_SIGNAL_BASE + rsbx_cli_caught_signal();
    }
    return rc < 0 ? rsbx_cli_fail(call->cli, &err) : RSBX_CLI_OK;
}

static const struct rsbx_cli_option table[] = {
    { "size", 0, RSBX_CLI_COUNT, offsetof(struct options, size), "N",
      "Containers or processes that wait, and jobs that may run at a time. Default: 1, at most 64." },
    { "language", 'l', RSBX_CLI_TEXT, offsetof(struct options, language), "LANGUAGE",
      "python (the default), bash or node." },
    { "policy", 0, RSBX_CLI_TEXT, offsetof(struct options, policy), "FILE|NAME",
      "As for reposbx run; only runs under the same policy use the pool." },
    { NULL, 0, RSBX_CLI_FLAG, 0, NULL, NULL },
};

const struct rsbx_cli_command rsbx_cli_pool_serve = {
    .group = "pool",
    .name = "serve",
    .summary = "keep containers or WebAssembly processes waiting for reposbx run",
    .operands = "",
    .text = "Keeps N containers of one language waiting and serves them to this user's reposbx run "
            "over a socket in the state folder, until it is told to stop. A container serves one "
            "job and is replaced in the background. A job more than N at a time is refused at once "
            "(exit code 75).\n"
            "With --engine wasm, or where the policy demands WebAssembly for python, what waits is a "
            "process of the installed module that has done its start; it serves one job likewise.",
    .example = "reposbx pool serve --size 2 --language python --policy my-run.json",
    .options = table,
    .options_size = sizeof(struct options),
    .run = run,
};
