/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RSBX_RUN_INTERNAL_H
#define RSBX_RUN_INTERNAL_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "audit/audit.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "codec/json.h"
#include "policy/policy.h"
#include "provider/provider.h"
#include "provider/talk.h"
#include "run/run.h"

/*
 * What the files of the run room share.
 *
 * On disk, STATE/run/:
 *     live/PID-RANDOM   containers of one process that runs now, "make NAME" before each is made and
 *                       "gone NAME" after; flock()ed by its owner, so whoever can lock it knows that
 *                       the owner is dead and clears up
 *     checks/KEY        what was found to be allowed under a policy since the machine booted
 *     images/KEY        the image with our guest in it that was made of a base image
 *     audit/            the chained log of every execution
 *     pool.sock         where a pool serves
 */

#define RSBX_RUN_UID 65534U
#define RSBX_RUN_GID 65534U
#define RSBX_RUN_NOFILE 1024U
#define RSBX_RUN_NPROC 1024U
#define RSBX_RUN_NAME_BYTES 64

/* -- spec.c -- */
struct rsbx_run_language {
    const char *name;
    const char *image;        /* when the policy names none */
    const char *const *argv;  /* ended by NULL */
    bool inputs;
};
/* REPOSBX_EPOLICY for one that is not known. */
int rsbx_run_language(const struct rsbx_run_language **out, const char *name, reposbx_error *err);
const char *rsbx_run_image(const struct rsbx_run_language *language, const reposbx_policy *policy);
int rsbx_run_check_inputs(const reposbx_exec_spec *spec, const struct rsbx_run_language *language,
                          reposbx_error *err);
/* A spec that may be run, as far as the policy and the spec alone can say. */
struct rsbx_run_order {
    const reposbx_exec_spec *spec;
    const struct rsbx_run_language *language;
    const char *image;        /* as the policy names it */
    reposbx_limits limits;
    bool usual;               /* the limits are those of a spec that names none */
    char passed_over[128];    /* why WebAssembly was not taken where the policy prefers it; or "" */
};
int rsbx_run_check(struct rsbx_run_order *out, const reposbx_exec_spec *spec,
                   const reposbx_policy *policy, reposbx_error *err);
/* And that a container of its image may run it. */
int rsbx_run_check_image(const struct rsbx_run_order *order, const reposbx_policy *policy,
                         reposbx_error *err);
/* The limits of a spec that names none. */
void rsbx_run_usual_limits(reposbx_limits *out, const reposbx_policy *policy);

/* -- compose.c -- */
int rsbx_run_compose(struct rsbx_buf *out, const reposbx_exec_spec *spec, reposbx_error *err);
#define RSBX_RUN_MAX_PROGRAM_BYTES (64U * 1024U * 1024U)

/* -- argv.c -- */
struct rsbx_run_box {
    const char *name;
    const char *image;            /* with the guest in it, unless it is to be baked */
    const char *role;             /* "run", "warm", "bake" */
    reposbx_limits limits;
    bool network, read_only_root;
    const char *seccomp_profile;  /* path, or NULL */
    const char *runtime;          /* or NULL */
    const int *cancel_fd;         /* readable: what is being made is given up; NULL, or -1 there: none */
};
struct rsbx_run_box rsbx_run_box(const reposbx_policy *policy, const reposbx_limits *limits,
                                 const char *name, const char *image, const char *role);
uint64_t rsbx_run_small_tmpfs(const reposbx_limits *limits);
/* argv for podman from its verb on, ended by NULL (rsbx_run_argv_free). */
int rsbx_run_argv(char ***out, const struct rsbx_run_box *box, reposbx_error *err);
/* The argv that makes the container whose files become the image; it never runs. */
int rsbx_run_bake_argv(char ***out, const struct rsbx_run_box *box, reposbx_error *err);

/* -- place.c -- */
struct rsbx_run_place {
    int run_fd;  /* STATE/run */
    char *dir;   /* its path */
};
int rsbx_run_place_open(struct rsbx_run_place *out, const char *state_dir, reposbx_error *err);
void rsbx_run_place_close(struct rsbx_run_place *place);
/* Opens STATE/run/NAME, made when it is missing. */
int rsbx_run_folder(int *out, const struct rsbx_run_place *place, const char *name,
                    reposbx_error *err);

/* -- live.c -- */
struct rsbx_live {
    int fd;
    int folder_fd;
    char file[64];
    unsigned int left;       /* made and not gone */
    pthread_mutex_t mutex;
};
int rsbx_live_open(struct rsbx_live **out, const struct rsbx_run_place *place, const char *address,
                   const char *runtime, reposbx_error *err);
/* Before the container is made; durable. */
int rsbx_live_make(struct rsbx_live *live, const char *name, reposbx_error *err);
void rsbx_live_gone(struct rsbx_live *live, const char *name);
/* Removes the file when everything is gone; else the next sweep takes care. */
void rsbx_live_close(struct rsbx_live *live);
/* Removes what dead processes left: `removed` (NULL allowed) is told each name. */
int rsbx_live_sweep(const struct rsbx_run_place *place, bool dry_run,
                    void (*removed)(void *payload, const char *name), void *payload,
                    reposbx_error *err);

/* -- engine.c, podman.c, docker.c -- */
struct rsbx_run_engine;
typedef struct rsbx_run_engine *rsbx_run_engine_ptr;
struct rsbx_run_engine_ops {
    const char *name;
    void (*free)(struct rsbx_run_engine *engine);
    int (*host)(struct rsbx_host_facts *out, struct rsbx_run_engine *engine,
                struct rsbx_deadline deadline, reposbx_error *err);
    int (*image)(struct rsbx_image_facts *out, struct rsbx_run_engine *engine,
                 const char *reference, struct rsbx_deadline deadline, reposbx_error *err);
    /* Makes an image of box->image with the guest in it; box->name is gone afterwards. */
    int (*bake)(char **image_id, struct rsbx_run_engine *engine, const struct rsbx_run_box *box,
                reposbx_error *err);
    /* Starts a container with the guest as PID 1. */
    int (*launch)(struct rsbx_link **out, struct rsbx_run_engine *engine,
                  const struct rsbx_run_box *box, reposbx_error *err);
    /* Why a container that was launched did not say hello; fills err, or leaves it. */
    int (*explain)(struct rsbx_link *link, int code, reposbx_error *err);
    /* Removes and sees that it is gone. `link` (NULL allowed) is still open: a guest whose job is
     * done ends by itself. */
    int (*destroy)(struct rsbx_run_engine *engine, const char *name, struct rsbx_link *link,
                   reposbx_error *err);
};
/* Operations may be called from several threads. */
struct rsbx_run_engine {
    const struct rsbx_run_engine_ops *ops;
    char *address;
    char *runtime; /* or NULL */
};
/* Opens by address; contacts nothing. */
int rsbx_run_engine_open(struct rsbx_run_engine **out, const char *address, const char *runtime,
                         reposbx_error *err);
void rsbx_run_engine_free(struct rsbx_run_engine *engine);
/* How long one call of an engine is waited for, or until `cancel_fd` (NULL: nobody cancels). */
struct rsbx_deadline rsbx_run_until(const int *cancel_fd);
RSBX_CLEANUP(rsbx_run_engine, rsbx_run_engine_ptr, rsbx_run_engine_free);
int rsbx_run_podman_open(struct rsbx_run_engine **out, const char *address, const char *runtime,
                         reposbx_error *err);
int rsbx_run_docker_open(struct rsbx_run_engine **out, const char *address, const char *runtime,
                         reposbx_error *err);
/* Where the user's own docker engine is. */
void rsbx_run_docker_address(char *out, size_t size);

/* -- prepare.c -- */
struct rsbx_run_image {
    char id[80];      /* with the guest in it */
    char base_id[80]; /* as the policy's reference resolves */
};
/* The host and the image are allowed, and the image with the guest is there. `again`: what is on
 * record is looked at afresh. */
int rsbx_run_prepare(struct rsbx_run_image *out, const struct rsbx_run_place *place,
                     struct rsbx_run_engine *engine, struct rsbx_live *live,
                     const reposbx_policy *policy, const char *reference, bool again,
                     const int *cancel_fd, reposbx_error *err);

/* -- route.c -- */
enum rsbx_run_route { RSBX_ROUTE_CONTAINER, RSBX_ROUTE_WASM };
/* Pure. `wasm_code` is 0 when WebAssembly is ready, else `wasm_why` says why it is not. */
int rsbx_run_route(enum rsbx_run_route *out, const char *address,
                   const struct rsbx_run_order *order, const reposbx_policy *policy,
                   int wasm_code, const reposbx_error *wasm_why, reposbx_error *err);
/* Whether the order needs nothing that a module cannot have. */
bool rsbx_run_fits_wasm(const struct rsbx_run_order *order, const reposbx_policy *policy);
/* Whether what waits for jobs of a language is a module's process and no container. */
bool rsbx_run_waits_as_wasm(const char *address, const struct rsbx_run_language *language,
                            const reposbx_policy *policy);
/* REPOSBX_EPOLICY when the policy demands WebAssembly: no flag and no other engine widens that. */
int rsbx_run_refuse_container(const struct rsbx_run_language *language, const reposbx_policy *policy,
                              reposbx_error *err);
/* REPOSBX_EUNAVAILABLE: what is demanded is not ready, and why. */
int rsbx_run_not_ready(const reposbx_error *why, reposbx_error *err);

/* -- box.c: one container, or one process of a module -- */
struct rsbx_wasm_module;
struct rsbx_wasm_process;
struct rsbx_warm {
    const struct rsbx_run_language *language;
    reposbx_limits limits;
    char name[RSBX_RUN_NAME_BYTES];
    /* a module's process: of what follows it has nothing */
    struct rsbx_wasm_process *process; /* NULL: a container */
    char module[65];                   /* its digest */
    /* a container */
    struct rsbx_run_engine *engine; /* borrowed */
    struct rsbx_live *live;         /* borrowed */
    struct rsbx_run_image image;
    struct rsbx_link *link;         /* belongs to talk */
    struct rsbx_talk *talk;
    struct rsbx_hello hello;
};
int rsbx_run_new_name(char out[RSBX_RUN_NAME_BYTES], reposbx_error *err);
/* Makes a container, and compares its hello with the policy. */
int rsbx_warm_make(struct rsbx_warm *out, struct rsbx_runner *runner,
                   struct rsbx_run_engine *engine, struct rsbx_live *live,
                   const struct rsbx_run_language *language, const reposbx_limits *limits,
                   const char *role, const int *cancel_fd, reposbx_error *err);
/* "podman", "docker", "wasm" */
const char *rsbx_warm_engine(const struct rsbx_warm *warm);
/* Whether it still waits: it has not ended, and has said nothing. */
bool rsbx_warm_quiet(const struct rsbx_warm *warm);
/* Removes it and sees that it is gone. */
int rsbx_warm_remove(struct rsbx_warm *warm, reposbx_error *err);

/* -- wasm.c -- */
/* The module that runs python, checked. */
int rsbx_run_wasm_open(struct rsbx_wasm_module **out, const struct rsbx_runner *runner,
                       reposbx_error *err);
/* A process of it. `waits`: started for a job that is not known yet, and it has got as far as it can
 * without one; it dies with the calling thread. */
int rsbx_run_wasm_start(struct rsbx_warm *out, const struct rsbx_wasm_module *module,
                        const struct rsbx_run_language *language, const reposbx_limits *limits,
                        bool waits, reposbx_error *err);
int rsbx_run_wasm_job(reposbx_run_result *out, struct rsbx_warm *warm,
                      const struct rsbx_run_order *order, const struct rsbx_buf *program,
                      uint64_t audit_log_bytes, reposbx_error *err);

/* -- job.c -- */
int rsbx_job_run(reposbx_run_result *out, struct rsbx_warm *warm,
                 const struct rsbx_run_order *order, const struct rsbx_buf *program,
                 uint64_t audit_log_bytes, reposbx_error *err);

/* -- record.c -- */
int rsbx_run_record_started(struct rsbx_runner *runner, const struct rsbx_run_order *order,
                            const char *engine, const char *run_id, const struct rsbx_hello *hello,
                            reposbx_error *err);
int rsbx_run_record_finished(struct rsbx_runner *runner, const char *run_id,
                             const reposbx_run_result *result, reposbx_error *err);
/* What did not become a result. */
void rsbx_run_record_failed(struct rsbx_runner *runner, const char *run_id,
                            const reposbx_exec_spec *spec, int code, const reposbx_error *why);

/* -- runner.c -- */
struct rsbx_runner {
    struct rsbx_run_place place;
    reposbx_policy *policy;
    char policy_digest[65];
    char *address;               /* as asked for; "auto" */
    pthread_mutex_t mutex;       /* of what follows */
    struct rsbx_run_engine *engine; /* NULL until it is needed */
    struct rsbx_live *live;
    bool swept;
};
/* The engine that containers of the runner use, settled and opened at its first use. */
int rsbx_runner_engine(struct rsbx_run_engine **engine, struct rsbx_live **live,
                       struct rsbx_runner *runner, const int *cancel_fd, reposbx_error *err);
/* Who runs what the runner keeps waiting: "podman", "docker", "wasm"; "none" until that is settled. */
const char *rsbx_runner_kind(struct rsbx_runner *runner, const char *language);
/* Where the job goes: *module (NULL: to a container, whose image is then allowed; free it). */
int rsbx_runner_route(struct rsbx_wasm_module **module, struct rsbx_runner *runner,
                      struct rsbx_run_order *order, reposbx_error *err);
/* The whole of one job in a container that waits; *healthy: it ended by itself. */
int rsbx_runner_job(reposbx_run_result *out, bool *healthy, struct rsbx_runner *runner,
                    struct rsbx_warm *warm, const struct rsbx_run_order *order, bool was_warm,
                    reposbx_error *err);

#endif
