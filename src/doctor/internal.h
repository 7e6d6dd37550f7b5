/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RSBX_DOCTOR_INTERNAL_H
#define RSBX_DOCTOR_INTERNAL_H

#include <stdbool.h>

#include <reposbx/doctor.h>
#include <reposbx/session.h>

#include "base/clock.h"
#include "base/error.h"
#include "policy/policy.h"
#include "provider/hello.h"
#include "provider/provider.h"

/*
 * What the files of this room share. A row is judged by the very function that the product asks, on
 * facts of which all but the row's own are made good: so each guarantee has its own answer, and the
 * rules stand in one place.
 */
#define RSBX_DOCTOR_MAX_ROWS 80U

struct rsbx_doctor {
    const reposbx_doctor_options *options;
    reposbx_doctor_report *report;
    reposbx_provider *provider;     /* NULL: the state folder is no good */
    reposbx_policy *policy;         /* NULL: it cannot be read */
    struct rsbx_provider *engine;   /* NULL: it does not answer */
    struct rsbx_host_facts host;
    bool has_host;
    struct rsbx_image_facts image;
    bool has_image;                 /* it is there and may be run */
};

/* -- report.c -- */
/* One row; the text may come from outside. */
void rsbx_doctor_pass(struct rsbx_doctor *doctor, const char *name, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void rsbx_doctor_skip(struct rsbx_doctor *doctor, const char *name, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void rsbx_doctor_fail(struct rsbx_doctor *doctor, const char *name, const char *hint,
                      const char *format, ...) __attribute__((format(printf, 4, 5)));
/* Passes with the detail when rc is 0, else fails with the error's words. */
void rsbx_doctor_judge(struct rsbx_doctor *doctor, const char *name, int rc,
                       const reposbx_error *err, const char *detail);
bool rsbx_doctor_cancelled(const struct rsbx_doctor *doctor);
/* How long one call of an engine is waited for, or until the caller has had enough. */
struct rsbx_deadline rsbx_doctor_patience(const struct rsbx_doctor *doctor);

/* -- libraries.c -- */
void rsbx_doctor_libraries(struct rsbx_doctor *doctor);
/* -- host.c -- */
void rsbx_doctor_state(struct rsbx_doctor *doctor);
void rsbx_doctor_policy(struct rsbx_doctor *doctor);
void rsbx_doctor_engine(struct rsbx_doctor *doctor);
/* What the engine says of the host, against the policy; pure. */
void rsbx_doctor_host(struct rsbx_doctor *doctor);
void rsbx_doctor_others(struct rsbx_doctor *doctor);
/* What wasm install needs; `missing` NULL: it is all there. `installed`: modules are. Pure. */
void rsbx_doctor_toolchain(struct rsbx_doctor *doctor, const char *missing, bool installed);
/* -- image.c -- */
void rsbx_doctor_image(struct rsbx_doctor *doctor);
/* -- inside.c -- */
/* What a container saw, against what it must be; pure. */
void rsbx_doctor_inside(struct rsbx_doctor *doctor, const struct rsbx_hello *hello,
                        const struct rsbx_hello_want *want);
void rsbx_doctor_inside_skip(struct rsbx_doctor *doctor, const char *why);
/* -- probe.c -- */
void rsbx_doctor_probe(struct rsbx_doctor *doctor);
/* -- repository.c -- */
/* A repository of one commit in the folder, which must be empty and ours. */
int rsbx_doctor_repository(char commit[41], const char *folder, reposbx_error *err);

#endif
