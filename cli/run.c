/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cleanup.h"
#include "cli.h"
#include "output.h"

struct options {
    const char *language, *policy, *memory;
    struct rsbx_cli_list inputs, env;
    double timeout, cpus;
    uint64_t pids;
    int passthrough;
};

/* "256m", "1g", "268435456". */
static int read_size(uint64_t *out, const char *text, reposbx_error *err)
{
    static const char units[] = "kmg";
    const char *unit;
    char *end = NULL;
    unsigned long long number;
    unsigned int shift = 0;

    number = isdigit((unsigned char)text[0]) ? strtoull(text, &end, 10) : 0;
    if (end != NULL && *end != '\0') {
        unit = strchr(units, tolower((unsigned char)*end));
        shift = unit != NULL ? (unsigned int)(unit - units + 1) * 10U : 64U;
        end++;
    }
    if (end == NULL || *end != '\0' || shift > 30 || number > UINT64_MAX >> shift)
        return rsbx_cli_set(err, REPOSBX_EINVALID, "--memory: %s is no size such as 256m", text);
    if (number == 0)
        return rsbx_cli_set(err, REPOSBX_EPOLICY, "--memory: %s is refused: it must be greater than zero", text);
    *out = (uint64_t)number << shift;
    return 0;
}

/* NAME=FILE: reads the files; what was read is in `inputs` for the caller to free. */
static int read_inputs(reposbx_run_input *inputs, char **names, const struct options *options,
                       reposbx_error *err)
{
    size_t left = REPOSBX_RUN_MAX_INPUT_BYTES;

    for (size_t i = 0; i < options->inputs.count; i++) {
        const char *item = options->inputs.items[i];
        const char *equals = strchr(item, '=');
        char *bytes = NULL;
        int rc;

        if (equals == NULL || equals == item || equals[1] == '\0')
            return rsbx_cli_set(err, REPOSBX_EINVALID, "--input: NAME=FILE is needed");
        names[i] = rsbx_cli_need(strndup(item, (size_t)(equals - item)));
        inputs[i].name = names[i];
        rc = rsbx_cli_read_all(&bytes, &inputs[i].length, equals + 1, left, err);
        if (rc == REPOSBX_ELIMIT)
            return rsbx_cli_set(err, REPOSBX_EPOLICY, "inputs: more than %u bytes together",
                                REPOSBX_RUN_MAX_INPUT_BYTES);
        if (rc < 0)
            return rc;
        inputs[i].bytes = bytes;
        left -= inputs[i].length;
    }
    return 0;
}

static void free_inputs(reposbx_run_input *inputs, char **names, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        free((void *)(uintptr_t)inputs[i].bytes);
        free(names[i]);
    }
    free(inputs);
    free(names);
}

static void explain(const struct rsbx_cli *cli, const reposbx_run_result *result)
{
    char text[RSBX_CLI_SHORT_BYTES];

    if (result->status == REPOSBX_TIMED_OUT)
        rsbx_cli_note(cli, "timed out after %s",
                      rsbx_cli_duration(text, (uint64_t)(result->duration_s * 1000.0)));
    else if (result->status == REPOSBX_SIGNALED)
        rsbx_cli_note(cli, "killed by signal %d (%s)", result->signal, strsignal(result->signal));
    else if (result->status == REPOSBX_OOM_KILLED)
        rsbx_cli_note(cli, "killed for memory");
    else if (result->status == REPOSBX_OUTPUT_LIMITED)
        rsbx_cli_note(cli, "stopped: it wrote more than the policy allows");
    else if (result->status == REPOSBX_STATUS_UNKNOWN)
        rsbx_cli_note(cli, "the engine or the guest went away: how the code ended is unknown");
    if (result->truncated)
        rsbx_cli_note(cli, "the output is cut: a result holds %u bytes", REPOSBX_RUN_OUTPUT_BYTES);
    if (cli->verbose)
        rsbx_cli_note(cli, "%s on %s%s, %s", result->language, result->engine,
                      result->warm ? " (warm)" : "",
                      rsbx_cli_duration(text, (uint64_t)(result->duration_s * 1000.0)));
}

struct printed {
    const struct rsbx_cli *cli;
    int done;
    int code; /* of what was printed */
};

/* As soon as the result is known: the removal of its container is waited for afterwards. */
static void print_result(void *payload, const reposbx_run_result *result)
{
    struct printed *printed = payload;
    RSBX_CLI_AUTO(text) char *document = NULL;
    reposbx_error err = REPOSBX_ERROR_INIT;

    printed->done = 1;
    if (printed->cli->json) {
        if (reposbx_run_result_json(&document, result, &err) < 0) {
            printed->code = rsbx_cli_fail(printed->cli, &err);
            return;
        }
        rsbx_cli_print_text(document);
    } else {
        (void)fwrite(result->stdout_bytes, 1, result->stdout_length, stdout);
        (void)fflush(stdout);
        (void)fwrite(result->stderr_bytes, 1, result->stderr_length, stderr);
        explain(printed->cli, result);
    }
    printed->code = rsbx_cli_finish(printed->cli, RSBX_CLI_OK);
}

/* What the file's name says; NULL when it says nothing, and the library's default holds. */
static const char *language_of(const char *file)
{
    static const struct {
        const char *suffix, *language;
    } table[] = { { ".py", "python" }, { ".sh", "bash" },  { ".bash", "bash" },
                  { ".js", "node" },   { ".mjs", "node" }, { ".cjs", "node" } };
    const char *suffix = strrchr(file, '.');

    for (size_t i = 0; suffix != NULL && i < sizeof table / sizeof table[0]; i++) {
        if (strcmp(suffix, table[i].suffix) == 0)
            return table[i].language;
    }
    return NULL;
}

static int fill(reposbx_exec_spec *spec, const struct options *options, const char *file,
                reposbx_error *err)
{
    spec->language = options->language != NULL ? options->language : language_of(file);
    spec->timeout_seconds = options->timeout;
    spec->cpus = options->cpus;
    spec->pids = options->pids;
    spec->env = options->env.items;
    spec->env_count = options->env.count;
    return options->memory != NULL ? read_size(&spec->memory_bytes, options->memory, err) : 0;
}

static int run_spec(const struct rsbx_cli_call *call, reposbx_exec_spec *spec, reposbx_error *err)
{
    const struct options *options = call->options;
    RSBX_CLI_AUTO(provider) reposbx_provider *provider = NULL;
    RSBX_CLI_AUTO(policy) reposbx_policy *policy = NULL;
    RSBX_CLI_AUTO(broker) reposbx_broker *broker = NULL;
    RSBX_CLI_AUTO(run_result) reposbx_run_result result = { 0 };
    reposbx_broker_options broker_options = REPOSBX_BROKER_OPTIONS_INIT;
    struct printed printed = { call->cli, 0, 0 };
    int rc = rsbx_cli_open_provider(&provider, call->cli, err);

    if (rc == 0 && options->policy != NULL)
        rc = reposbx_policy_load(&policy, options->policy, err);
    broker_options.engine = call->cli->engine;
    broker_options.policy = policy;
    if (rc == 0)
        rc = reposbx_broker_open(&broker, provider, &broker_options, err);
    spec->result = print_result;
    spec->result_payload = &printed;
    if (rc == 0)
        rc = reposbx_broker_run(&result, broker, spec, err);
    if (rc < 0 && rsbx_cli_caught_signal() != 0) {
        (void)rsbx_cli_fail(call->cli, err);
        return RSBX_CLI_SIGNAL_BASE + rsbx_cli_caught_signal();
    }
    /* A failure behind a result that is out already is told on stderr alone. */
    if (rc < 0 && printed.done && call->cli->json) {
        rsbx_cli_note(call->cli, "%s", err->message);
        return rsbx_cli_exit_code(rc);
    }
    if (rc < 0)
        return rsbx_cli_fail(call->cli, err);
    if (printed.code != 0)
        return printed.code;
    if (call->cli->json && !options->passthrough && result.status != REPOSBX_STATUS_UNKNOWN)
        return RSBX_CLI_OK;
    return rsbx_cli_status_code(result.status, result.exit_code, result.signal);
}

static int run(const struct rsbx_cli_call *call)
{
    const struct options *options = call->options;
    RSBX_CLI_AUTO(text) char *values = NULL;
    RSBX_CLI_AUTO(text) char *code = NULL;
    reposbx_exec_spec spec = REPOSBX_EXEC_SPEC_INIT;
    reposbx_run_input *inputs =
        rsbx_cli_need(calloc(options->inputs.count + 1, sizeof *inputs));
    char **names = rsbx_cli_need(calloc(options->inputs.count + 1, sizeof *names));
    const char *file = call->operand_count > 0 ? call->operands[0] : "-";
    reposbx_error err = REPOSBX_ERROR_INIT;
    int result;

    if (fill(&spec, options, file, &err) < 0 ||
        rsbx_cli_hide_values(&values, &options->env, &err) < 0 ||
        read_inputs(inputs, names, options, &err) < 0 ||
        rsbx_cli_read_all(&code, &spec.code_length, file, RSBX_CLI_MAX_INPUT_BYTES, &err) < 0 ||
        rsbx_cli_catch_signals(&spec.cancel_fd, &err) < 0) {
        result = rsbx_cli_fail(call->cli, &err);
    } else {
        spec.code = code;
        spec.inputs = inputs;
        spec.input_count = options->inputs.count;
        result = run_spec(call, &spec, &err);
    }
    free_inputs(inputs, names, options->inputs.count);
    return result;
}

static const struct rsbx_cli_option table[] = {
    { "language", 'l', RSBX_CLI_TEXT, offsetof(struct options, language), "LANGUAGE",
      "python, bash or node. Default: what FILE's suffix says (.py; .sh, .bash; .js, .mjs, .cjs), else "
      "python." },
    { "policy", 0, RSBX_CLI_TEXT, offsetof(struct options, policy), "FILE|NAME",
      "What it may be and do. Default: code-run, which allows no image: name yours in a copy." },
    { "input", 0, RSBX_CLI_LIST, offsetof(struct options, inputs), "NAME=FILE",
      "A file that the code finds as /tmp/input/NAME; python only, 16 MiB together. May be "
      "repeated." },
    { "env", 'e', RSBX_CLI_LIST, offsetof(struct options, env), "NAME=VALUE",
      "Set a variable. Nothing of this shell's environment goes in, and names that look like "
      "secrets are refused. May be repeated." },
    { "timeout", 0, RSBX_CLI_NUMBER, offsetof(struct options, timeout), "SECONDS",
      "Kill it after this time. Default: 10, at most 120." },
    { "memory", 0, RSBX_CLI_TEXT, offsetof(struct options, memory), "SIZE",
      "Memory and swap together, such as 256m, which is the default." },
    { "cpus", 0, RSBX_CLI_NUMBER, offsetof(struct options, cpus), "N", "Processors. Default: 1." },
    { "pids", 0, RSBX_CLI_COUNT, offsetof(struct options, pids), "N",
      "Processes and threads. Default: 128." },
    { "passthrough", 0, RSBX_CLI_FLAG, offsetof(struct options, passthrough), NULL,
      "With --json: exit with the code's own code all the same." },
    { NULL, 0, RSBX_CLI_FLAG, 0, NULL, NULL },
};

const struct rsbx_cli_command rsbx_cli_run = {
    .name = "run",
    .summary = "run one piece of code in a container of its own",
    .operands = "[FILE|-]",
    .max_operands = 1,
    .text = "Runs the code of FILE (or of stdin) without a repository and without a network, and "
            "prints what it printed, at most 64 KiB; with --json prints the result document "
            "instead. Nothing is kept but the audit record.\n"
            "The code runs in a waiting container where reposbx pool serve has one for it, else in "
            "one that is made for it. --engine podman, docker, wasm or auto chooses who runs it; auto, "
            "the default, takes WebAssembly for python where the policy and the job let it and a module "
            "is installed, else podman when it answers, else docker. The result names the engine.",
    .exits = "The code's own; 128 + n when signal n killed it; 124 timed out; 122 output limit "
             "reached; 137 killed for memory; 75 when the pool is full. With --json: 0 whenever the "
             "sandbox itself worked, unless --passthrough is given.",
    .example = "reposbx run --language python --policy my-run.json hello.py",
    .options = table,
    .options_size = sizeof(struct options),
    .run = run,
};
