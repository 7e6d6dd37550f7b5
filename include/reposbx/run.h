/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPOSBX_RUN_H
#define REPOSBX_RUN_H

#include <stddef.h>
#include <stdint.h>

#include <reposbx/error.h>
#include <reposbx/policy.h>
#include <reposbx/session.h>

/*
 * One piece of code in, data out: no repository, no session, nothing kept.
 *
 *     reposbx_provider_open(&provider, NULL, &err);               the state folder
 *     options.policy = policy;                                    which images may run
 *     reposbx_broker_open(&broker, provider, &options, &err);
 *     spec.code = "print(1)"; spec.code_length = 8;
 *     reposbx_broker_run(&result, broker, &spec, &err);
 *     reposbx_run_result_dispose(&result);
 *     reposbx_broker_free(broker);
 *
 * Code that fails, times out or is killed is a result, never an error; errors speak of the sandbox.
 * Runners, pools and brokers may be used from several threads at once.
 */

#ifdef __cplusplus
extern "C" {
#endif

#define REPOSBX_RUN_TIMEOUT_SECONDS 10.0       /* when the spec names none */
#define REPOSBX_RUN_MAX_TIMEOUT_SECONDS 120.0
#define REPOSBX_RUN_MEMORY_BYTES (256ULL * 1024ULL * 1024ULL)
#define REPOSBX_RUN_CPUS 1.0
#define REPOSBX_RUN_PIDS 128U
#define REPOSBX_RUN_OUTPUT_BYTES 65536U        /* stdout and stderr of a result together */
#define REPOSBX_RUN_MAX_INPUT_BYTES (16U * 1024U * 1024U) /* all inputs together */

/* A file that the code finds as /tmp/input/NAME; python only. */
typedef struct reposbx_run_input {
    const char *name;        /* one path component: letters, digits, '.', '_', '-'; no '.' in front */
    const void *bytes;
    size_t length;
} reposbx_run_input;

struct reposbx_run_result;

/* What to run (ExecSpec with its Limits). 0 and NULL stand for the defaults; a limit may not be
 * above the policy's. */
typedef struct reposbx_exec_spec {
    unsigned int version;    /* 1 */
    const char *language;    /* "python", "bash", "node"; NULL: python */
    const void *code;        /* at most the policy's limits.stdin_bytes */
    size_t code_length;
    double timeout_seconds;  /* wall clock; default 10, at most 120 */
    uint64_t memory_bytes;   /* memory and swap together; default 256 MiB */
    double cpus;             /* default 1 */
    uint64_t pids;           /* processes and threads; default 128 */
    const char *const *env;  /* env_count strings "NAME=value", by the rules for commands */
    size_t env_count;
    const reposbx_run_input *inputs;
    size_t input_count;
    int cancel_fd;           /* readable: kill it, REPOSBX_ECANCELLED; -1: none */
    /* Called once, as soon as the result is known: the container's removal, which the call that runs
     * the spec still waits for, comes after it. NULL: none. */
    void (*result)(void *payload, const struct reposbx_run_result *result);
    void *result_payload;
} reposbx_exec_spec;
#define REPOSBX_EXEC_SPEC_INIT                                                                     \
    { 1, NULL, NULL, 0, 0.0, 0, 0.0, 0, NULL, 0, NULL, 0, -1, NULL, NULL }

/* What became of it (ExecResult). The bytes are raw; a NUL stands behind them. */
typedef struct reposbx_run_result {
    char *stdout_bytes, *stderr_bytes; /* together at most REPOSBX_RUN_OUTPUT_BYTES, stdout first */
    size_t stdout_length, stderr_length;
    int status;              /* enum reposbx_exec_status */
    int exit_code;           /* -1 unless REPOSBX_EXITED */
    int signal;              /* 0 unless one ended it */
    int timed_out, output_limited, oom_killed;
    int truncated;           /* it wrote more than is here */
    int ok;                  /* exit code 0 and not timed out */
    double duration_s;
    char engine[16];         /* who ran it: "podman", "docker", "wasm" */
    char language[16];
    int warm;                /* 1: in a container or process that was waiting */
    char image_id[80];       /* the image as the policy names it; "" for WebAssembly */
} reposbx_run_result;

void reposbx_run_result_dispose(reposbx_run_result *result);
/* The result as a JSON document (free()): stdout, stderr, exit_code (null unless it exited), signal,
 * status, timed_out, output_limited, oom_killed, truncated, ok, duration_s, engine, language, warm,
 * image_id. Each byte that is no UTF-8 is U+FFFD in it; both texts together have at most
 * REPOSBX_RUN_OUTPUT_BYTES also then, and "truncated" says when that takes something away. */
int reposbx_run_result_json(char **out, const reposbx_run_result *result, reposbx_error *err);

/* ---- what will be run, for tests and the curious: pure functions ---- */

/* The argv of the one `podman run` in which a spec runs, from "run" on (reposbx_argv_free): `image`
 * NULL is the language's image. The code is not in it: it arrives on stdin. */
int reposbx_build_run_argv(char ***out, const reposbx_exec_spec *spec, const reposbx_policy *policy,
                           const char *name, const char *image, reposbx_error *err);
/* The same for a container that waits for a job; `limits` NULL is what a spec without limits gets. */
int reposbx_build_warm_argv(char ***out, const reposbx_policy *policy, const char *name,
                            const char *image, const reposbx_limits *limits, reposbx_error *err);
void reposbx_argv_free(char **argv);
/* What the interpreter reads on its stdin (free()): the code itself, or, where there are inputs, a
 * preamble that writes them and then runs the code with its own line numbers. */
int reposbx_compose_program(char **out, size_t *length, const reposbx_exec_spec *spec,
                            reposbx_error *err);

/* ---- runners (SandboxRunner: PodmanRunner, Docker's, WasmRunner, RoutingRunner) ---- */

typedef struct reposbx_runner reposbx_runner;

typedef struct reposbx_runner_options {
    unsigned int version;          /* 1 */
    const char *engine;            /* "podman[:/program][?root=…]", "docker" (the user's own socket),
                                      "unix:///socket", "wasm", "auto"; NULL: $REPOSBX_ENGINE, else
                                      auto: WebAssembly for python where the policy and the spec let
                                      it, else podman, else docker, whichever is really there */
    const reposbx_policy *policy;  /* NULL: the shipped policy code-run, which allows no image */
} reposbx_runner_options;
#define REPOSBX_RUNNER_OPTIONS_INIT { 1, NULL, NULL }

/* Contacts nothing yet. `provider` gives the state folder and must outlive the runner. */
int reposbx_runner_open(reposbx_runner **out, reposbx_provider *provider,
                        const reposbx_runner_options *options, reposbx_error *err);
void reposbx_runner_free(reposbx_runner *runner);

/* 0 when code of the language could be run now: the engine answered (not merely: is installed), the
 * policy allows it, the image is there. NULL: python. */
int reposbx_runner_available(reposbx_runner *runner, const char *language, reposbx_error *err);

/* Runs the spec in a container that exists for it alone. */
int reposbx_runner_run_once(reposbx_run_result *out, reposbx_runner *runner,
                            const reposbx_exec_spec *spec, reposbx_error *err);

/* A container that waits: its limits have been seen from inside, its job is still unknown. It serves
 * one job; there is no reset, since a container that nobody used before is what a reset would have
 * to prove. With the engine "wasm", or "auto" where the policy demands WebAssembly for python, it is a
 * process of the installed module that has got to the end of its start; it dies with the thread that
 * started it. */
typedef struct reposbx_warm reposbx_warm;
int reposbx_runner_start(reposbx_warm **out, reposbx_runner *runner, const char *language,
                         reposbx_error *err);
/* Runs the spec in it; only a spec with the default limits and of its language fits
 * (REPOSBX_EINVALID). It is used up afterwards, also on failure. */
int reposbx_runner_exec_in(reposbx_run_result *out, reposbx_runner *runner, reposbx_warm *warm,
                           const reposbx_exec_spec *spec, reposbx_error *err);
/* Removes it and sees that it is gone. `warm` is freed in either case. */
int reposbx_runner_destroy(reposbx_runner *runner, reposbx_warm *warm, reposbx_error *err);

/* ---- the warm pool (WarmPool) ---- */

typedef struct reposbx_warm_pool reposbx_warm_pool;

typedef struct reposbx_pool_stats {
    uint64_t size, ready, running;
    uint64_t hits;           /* jobs that found a container waiting */
    uint64_t misses;         /* jobs that had to wait until one was made */
    uint64_t resets;         /* containers replaced after a job that ended by itself */
    uint64_t discards;       /* containers replaced after one that did not, or that did not work */
    uint64_t busy;           /* jobs refused since `size` were running */
    uint64_t failures;       /* containers that could not be made */
    double p50_ms, p95_ms;   /* from taking a job to its result, of the last 1000 */
} reposbx_pool_stats;

/* `size` containers, or processes of a module, (1 to 64) for one language: also the number of jobs that
 * may run at a time. Makes none yet. The runner must outlive the pool. */
int reposbx_warm_pool_open(reposbx_warm_pool **out, reposbx_runner *runner, const char *language,
                           unsigned int size, reposbx_error *err);
/* Makes what is missing, in the calling thread. */
int reposbx_warm_pool_prewarm(reposbx_warm_pool *pool, reposbx_error *err);
/* Runs the spec in a waiting container, which is replaced in the background afterwards. Over the
 * pool's size: REPOSBX_EBUSY (SandboxBusyError) at once. A spec that does not fit the pool (another
 * language, other limits, what WebAssembly cannot have, or containers where the policy demands
 * WebAssembly): REPOSBX_EINVALID. */
int reposbx_warm_pool_run(reposbx_run_result *out, reposbx_warm_pool *pool,
                          const reposbx_exec_spec *spec, reposbx_error *err);
void reposbx_warm_pool_stats(reposbx_pool_stats *out, reposbx_warm_pool *pool);
/* No job is taken any more; those that run are waited for; every container is removed and seen to
 * be gone. */
int reposbx_warm_pool_shutdown(reposbx_warm_pool *pool, reposbx_error *err);
void reposbx_warm_pool_free(reposbx_warm_pool *pool);

/* ---- a pool that other processes use, over STATE/run/pool.sock ---- */

typedef struct reposbx_pool_serve_options {
    unsigned int version;    /* 1 */
    const char *language;    /* NULL: python */
    unsigned int size;       /* 0: 1 */
    int stop_fd;             /* readable: shut down, or, before the first containers wait, give up with
                                REPOSBX_ECANCELLED; -1: only by reposbx_pool_stop */
    void (*ready)(void *payload); /* called when the first containers wait; may be NULL */
    void *payload;
} reposbx_pool_serve_options;
#define REPOSBX_POOL_SERVE_OPTIONS_INIT { 1, NULL, 0, -1, NULL, NULL }

/* Serves until it is told to stop, and leaves nothing. Only processes of the same user are served.
 * Another server of the state folder: REPOSBX_EBUSY. */
int reposbx_pool_serve(reposbx_provider *provider, reposbx_runner *runner,
                       const reposbx_pool_serve_options *options, reposbx_error *err);
/* The server's numbers as JSON (free()): language, engine, pid, and the members of
 * reposbx_pool_stats. REPOSBX_ENOTFOUND: no server. A socket that is not the user's own is
 * REPOSBX_EPOLICY. */
int reposbx_pool_status_json(char **out, reposbx_provider *provider, reposbx_error *err);
/* Stops the server and waits until it is gone. REPOSBX_ENOTFOUND: none. */
int reposbx_pool_stop(reposbx_provider *provider, reposbx_error *err);

/* ---- the broker (ExecutionBroker) ---- */

typedef struct reposbx_broker reposbx_broker;

typedef struct reposbx_broker_options {
    unsigned int version;           /* 1 */
    const char *engine;             /* as in reposbx_runner_options */
    const reposbx_policy *policy;   /* likewise */
    unsigned int max_concurrency;   /* jobs of this broker at a time; 0: 64 */
} reposbx_broker_options;
#define REPOSBX_BROKER_OPTIONS_INIT { 1, NULL, NULL, 0 }

int reposbx_broker_open(reposbx_broker **out, reposbx_provider *provider,
                        const reposbx_broker_options *options, reposbx_error *err);
/* Runs the spec: in the pool that serves the state folder where there is one of the same policy,
 * engine and language and the spec has the default limits, else in a container of its own. Every run
 * is announced in the audit log before it starts and concluded after it (STATE/run/audit): language,
 * engine, network, limits, timeout, outcome. More than max_concurrency at a time, or a pool that is
 * full: REPOSBX_EBUSY at once. */
int reposbx_broker_run(reposbx_run_result *out, reposbx_broker *broker,
                       const reposbx_exec_spec *spec, reposbx_error *err);
void reposbx_broker_free(reposbx_broker *broker);

#ifdef __cplusplus
}
#endif
#endif
