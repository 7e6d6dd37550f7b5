/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RSBX_TESTS_FAKE_ENDPOINTS_H
#define RSBX_TESTS_FAKE_ENDPOINTS_H

#include "engine/engine.h"

/*
 * Every call of the engine room in one shape, with what it sends and what it wants to hear. Each
 * checks by itself that its outputs stay as they were when it fails.
 */
typedef int (*call_function)(struct rsbx_engine *engine, struct rsbx_deadline deadline,
                             reposbx_error *err);

struct endpoint {
    const char *name;
    call_function call;
    const char *request; /* how the request begins */
    const char *status;  /* of success */
    const char *body;    /* of success, NULL for none */
};

#define ENDPOINTS 11
extern const struct endpoint endpoints[ENDPOINTS];

int call_image_inspect(struct rsbx_engine *engine, struct rsbx_deadline deadline,
                       reposbx_error *err);
int call_container_inspect(struct rsbx_engine *engine, struct rsbx_deadline deadline,
                           reposbx_error *err);
int call_volume_inspect(struct rsbx_engine *engine, struct rsbx_deadline deadline,
                        reposbx_error *err);
int call_volume_create(struct rsbx_engine *engine, struct rsbx_deadline deadline,
                       reposbx_error *err);
int call_volume_remove(struct rsbx_engine *engine, struct rsbx_deadline deadline,
                       reposbx_error *err);
int call_container_create(struct rsbx_engine *engine, struct rsbx_deadline deadline,
                          reposbx_error *err);
int call_container_start(struct rsbx_engine *engine, struct rsbx_deadline deadline,
                         reposbx_error *err);
int call_container_kill(struct rsbx_engine *engine, struct rsbx_deadline deadline,
                        reposbx_error *err);
int call_container_remove(struct rsbx_engine *engine, struct rsbx_deadline deadline,
                          reposbx_error *err);
int call_host(struct rsbx_engine *engine, struct rsbx_deadline deadline, reposbx_error *err);
int call_archive_put(struct rsbx_engine *engine, struct rsbx_deadline deadline, reposbx_error *err);
int call_archive_get(struct rsbx_engine *engine, struct rsbx_deadline deadline, reposbx_error *err);

/* Tells that an output was not touched. */
#define UNTOUCHED_WARNINGS ((char *)(uintptr_t)8)

#endif
