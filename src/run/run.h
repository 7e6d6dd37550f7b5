/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RSBX_RUN_RUN_H
#define RSBX_RUN_RUN_H

#include <reposbx/run.h>

#include "base/cleanup.h"

/* The run room's face to the api room: one piece of code, without a session. */
struct rsbx_runner;
struct rsbx_warm;
struct rsbx_pool;
typedef struct rsbx_runner *rsbx_runner_ptr;
typedef struct rsbx_pool *rsbx_pool_ptr;

void rsbx_run_result_dispose(reposbx_run_result *result);

/* `engine` NULL: $REPOSBX_ENGINE, else "auto"; `policy` NULL: code-run. The policy is copied. */
int rsbx_runner_open(struct rsbx_runner **out, const char *state_dir, const char *engine,
                     const reposbx_policy *policy, reposbx_error *err);
void rsbx_runner_free(struct rsbx_runner *runner);
RSBX_CLEANUP(rsbx_runner, rsbx_runner_ptr, rsbx_runner_free);
int rsbx_runner_available(struct rsbx_runner *runner, const char *language, reposbx_error *err);
int rsbx_runner_run_once(reposbx_run_result *out, struct rsbx_runner *runner,
                         const reposbx_exec_spec *spec, reposbx_error *err);
/* `cancel_fd` (NULL: nobody cancels): readable, what is being made is given up. */
int rsbx_runner_start(struct rsbx_warm **out, struct rsbx_runner *runner, const char *language,
                      const int *cancel_fd, reposbx_error *err);
int rsbx_runner_exec_in(reposbx_run_result *out, struct rsbx_runner *runner, struct rsbx_warm *warm,
                        const reposbx_exec_spec *spec, reposbx_error *err);
int rsbx_runner_destroy(struct rsbx_warm *warm, reposbx_error *err);

/* `cancel_fd` (-1: none): readable, no container is waited for any more; whoever opens shuts down then. */
int rsbx_pool_open(struct rsbx_pool **out, struct rsbx_runner *runner, const char *language,
                   unsigned int size, int cancel_fd, reposbx_error *err);
int rsbx_pool_prewarm(struct rsbx_pool *pool, reposbx_error *err);
int rsbx_pool_run(reposbx_run_result *out, struct rsbx_pool *pool, const reposbx_exec_spec *spec,
                  reposbx_error *err);
void rsbx_pool_stats(reposbx_pool_stats *out, struct rsbx_pool *pool);
int rsbx_pool_shutdown(struct rsbx_pool *pool, reposbx_error *err);
void rsbx_pool_free(struct rsbx_pool *pool);
RSBX_CLEANUP(rsbx_pool, rsbx_pool_ptr, rsbx_pool_free);

int rsbx_pool_serve(struct rsbx_runner *runner, const reposbx_pool_serve_options *options,
                    reposbx_error *err);
int rsbx_pool_status(char **out, const char *state_dir, reposbx_error *err);
int rsbx_pool_stop(const char *state_dir, reposbx_error *err);
/* Runs the spec in the pool that serves the runner's state folder. REPOSBX_ENOTFOUND: there is none,
 * or it is not for this spec, policy or engine: run it elsewhere. */
int rsbx_pool_ask(reposbx_run_result *out, struct rsbx_runner *runner,
                  const reposbx_exec_spec *spec, reposbx_error *err);

/* The pure functions (see <reposbx/run.h>). */
int rsbx_run_spec_argv(char ***out, const reposbx_exec_spec *spec, const reposbx_policy *policy,
                       const char *name, const char *image, reposbx_error *err);
int rsbx_run_warm_argv(char ***out, const reposbx_policy *policy, const char *name,
                       const char *image, const reposbx_limits *limits, reposbx_error *err);
void rsbx_run_argv_free(char **argv);
int rsbx_run_program(char **out, size_t *length, const reposbx_exec_spec *spec, reposbx_error *err);

/* Removes what dead processes left (reap); each name is told. */
int rsbx_run_reap(const char *state_dir, int dry_run, void (*removed)(void *payload, const char *name),
                  void *payload, reposbx_error *err);

#endif
