/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cleanup.h"
#include "cli.h"
#include "output.h"

#define BAR_CELLS 24U
#define SHOW_AFTER_MS 1000
#define REDRAW_MS 100

struct options {
    struct rsbx_cli_source source;
    struct rsbx_cli_list exclude;
    int no_revision;
};

/* A line on a terminal that is redrawn in place. */
struct bar {
    int64_t start_ms, drawn_ms;
    int drawn;
};

static int64_t now_ms(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void draw(void *payload, const reposbx_progress *progress)
{
    struct bar *bar = payload;
    char done[RSBX_CLI_SHORT_BYTES], total[RSBX_CLI_SHORT_BYTES], cells[BAR_CELLS + 1];
    int64_t now = now_ms();
    double part;

    /* Short work shows nothing, and a terminal is not flooded. */
    if (now - bar->start_ms < SHOW_AFTER_MS || (bar->drawn && now - bar->drawn_ms < REDRAW_MS))
        return;
    bar->drawn_ms = now;
    bar->drawn = 1;
    if (progress->total == 0) {
        (void)fprintf(stderr, "\r\033[K%-7s %s", progress->step,
                      rsbx_cli_size(done, progress->done));
        return;
    }
    part = progress->done >= progress->total ? 1.0
                                             : (double)progress->done / (double)progress->total;
    for (size_t i = 0; i < BAR_CELLS; i++)
        cells[i] = (double)i < part * BAR_CELLS ? '#' : '-';
    cells[BAR_CELLS] = '\0';
    (void)fprintf(stderr, "\r\033[K%-7s [%s] %3.0f%%  %s of %s", progress->step, cells,
                  part * 100.0, rsbx_cli_size(done, progress->done),
                  rsbx_cli_size(total, progress->total));
}

static int check(const struct options *options, reposbx_error *err)
{
    const char *workspace = options->source.workspace;
    char missing[64] = "";
    size_t used = 0;

    if (options->source.repo == NULL)
        used += (size_t)snprintf(missing + used, sizeof missing - used, " --repo");
    if (options->source.revision == NULL && !options->no_revision)
        used += (size_t)snprintf(missing + used, sizeof missing - used, " --revision");
    if (options->source.image == NULL)
        used += (size_t)snprintf(missing + used, sizeof missing - used, " --image");
    if (used > 0) {
        (void)rsbx_cli_set(err, REPOSBX_EINVALID, "missing:%s", missing);
        rsbx_cli_hint(err, "usage: reposbx session create %s", rsbx_cli_session_create.operands);
        return REPOSBX_EINVALID;
    }
    if (options->source.revision != NULL && options->no_revision)
        return rsbx_cli_set(err, REPOSBX_EINVALID,
                            "--revision and --no-revision exclude each other");
    if (workspace != NULL && strcmp(workspace, "auto") != 0 && strcmp(workspace, "overlay") != 0 &&
        strcmp(workspace, "copy") != 0)
        return rsbx_cli_set(err, REPOSBX_EINVALID, "--workspace: '%s' is not auto, overlay or copy",
                            workspace);
    return 0;
}

static int create(reposbx_session **out, reposbx_provider *provider, const struct rsbx_cli *cli,
                  const struct options *options, const reposbx_policy *policy, int cancel_fd,
                  reposbx_error *err)
{
    reposbx_spec spec = REPOSBX_SPEC_INIT;
    struct bar bar = { now_ms(), 0, 0 };
    int rc;

    rsbx_cli_fill_spec(&spec, &options->source, policy);
    spec.exclude_subtrees = options->exclude.items;
    spec.exclude_count = options->exclude.count;
    if (!cli->quiet && isatty(STDERR_FILENO)) {
        spec.progress = draw;
        spec.progress_payload = &bar;
    }
    rc = reposbx_session_create_until(out, provider, &spec, cancel_fd, err);
    if (bar.drawn)
        (void)fputs("\r\033[K", stderr);
    return rc;
}

static int run(const struct rsbx_cli_call *call)
{
    const struct options *options = call->options;
    RSBX_CLI_AUTO(provider) reposbx_provider *provider = NULL;
    RSBX_CLI_AUTO(policy) reposbx_policy *policy = NULL;
    RSBX_CLI_AUTO(session) reposbx_session *session = NULL;
    struct rsbx_cli_stream stream = { -1, 0, 0 };
    reposbx_error err = REPOSBX_ERROR_INIT;
    int rc;

    if (check(options, &err) < 0)
        return rsbx_cli_fail(call->cli, &err);
    if (options->source.policy != NULL && reposbx_policy_load(&policy, options->source.policy, &err) < 0)
        return rsbx_cli_fail(call->cli, &err);
    if (rsbx_cli_open_provider(&provider, call->cli, &err) < 0 ||
        rsbx_cli_catch_signals(&stream.cancel_fd, &err) < 0)
        return rsbx_cli_fail(call->cli, &err);
    rc = create(&session, provider, call->cli, options, policy, stream.cancel_fd, &err);
    if (rc == REPOSBX_ECANCELLED)
        return rsbx_cli_stopped(call->cli, &stream, "nothing is left", &err);
    if (rc < 0)
        return rsbx_cli_fail(call->cli, &err);
    return rsbx_cli_print_new_session(call, provider, session);
}

static const struct rsbx_cli_option table[] = {
    RSBX_CLI_REPO_ROW(struct options),
    { "revision", 0, RSBX_CLI_WORD, offsetof(struct options, source.revision), "SHA40",
      "The commit, 40 lower-case hex digits." },
    { "no-revision", 0, RSBX_CLI_FLAG, offsetof(struct options, no_revision), NULL,
      "Take DIR as a plain folder; only where the policy says require_source_revision=false." },
    { "image", 0, RSBX_CLI_WORD, offsetof(struct options, source.image), "REF",
      "The container image, on the policy's list: NAME@sha256:… or sha256:…" },
    { "policy", 0, RSBX_CLI_TEXT, offsetof(struct options, source.policy), "FILE|NAME",
      "A policy document or the name of a shipped one. Without it the default policy holds, which "
      "allows no image." },
    RSBX_CLI_SOURCE_ROWS(struct options),
    { "exclude-subtree", 0, RSBX_CLI_WORDS, offsetof(struct options, exclude), "PATH",
      "Leave PATH out of the source fingerprint (not of the copy). May be repeated." },
    { NULL, 0, RSBX_CLI_FLAG, 0, NULL, NULL },
};

const struct rsbx_cli_command rsbx_cli_session_create = {
    .group = "session",
    .name = "create",
    .summary = "copy a repository at a revision into a new sandbox",
    .operands = "--repo DIR --revision SHA40 --image REF",
    .text = "Copies the repository at the revision into two volumes and proves the copy "
            "from inside. Prints the session's id alone, or with --json its metadata.\n"
            "Everything that can be refused is refused before anything is made.\n"
            "An interrupt (Ctrl-C, SIGTERM, SIGHUP) removes what was made so far. A second one ends the "
            "command at once; 'reposbx reap' removes what that left.",
    .example = "reposbx session create --repo . --revision $(git rev-parse HEAD) --image "
               "sha256:… --policy issue-bot",
    .options = table,
    .options_size = sizeof(struct options),
    .run = run,
};
