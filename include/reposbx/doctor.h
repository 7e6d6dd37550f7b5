/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPOSBX_DOCTOR_H
#define REPOSBX_DOCTOR_H

#include <stddef.h>

#include <reposbx/error.h>

/*
 * Whether this host keeps what the sandbox promises: one row for each guarantee, each with what was
 * seen. Without an image nothing is made in the engine. With one, a session of a tiny repository of
 * our own is made, in the folder doctor/ of the state folder, commands try to get over every limit,
 * and everything is removed again.
 */

#ifdef __cplusplus
extern "C" {
#endif

enum reposbx_doctor_status {
    REPOSBX_DOCTOR_PASS = 0,
    REPOSBX_DOCTOR_FAIL = 1,
    REPOSBX_DOCTOR_SKIP = 2      /* not judged; the detail says why */
};
/* "pass", "fail", "skip". */
const char *reposbx_doctor_status_word(int status);

typedef struct reposbx_doctor_check {
    const char *name;            /* a word; static */
    int status;                  /* enum reposbx_doctor_status */
    char detail[REPOSBX_MESSAGE_BYTES];
    char hint[REPOSBX_HINT_BYTES]; /* of a failure: what to do; may be empty */
} reposbx_doctor_check;

typedef struct reposbx_doctor_report {
    reposbx_doctor_check *checks;
    size_t count;
    size_t failed, skipped;      /* how many of them */
} reposbx_doctor_report;
void reposbx_doctor_report_dispose(reposbx_doctor_report *report);
/* {"ok","checks":[{"name","status","detail","hint"}]} (free()); hint null where there is none. */
int reposbx_doctor_report_json(char **out, const reposbx_doctor_report *report, reposbx_error *err);

typedef struct reposbx_doctor_options {
    unsigned int version;        /* 1 */
    const char *engine;          /* as in reposbx_provider_options */
    const char *state_dir;       /* the same */
    const char *policy;          /* file or name; NULL: the default policy */
    const char *image;           /* NULL: nothing is run */
    /* Told each row as it is settled; NULL: none. */
    void (*row)(void *payload, const reposbx_doctor_check *check);
    void *row_payload;
    int cancel_fd;               /* readable: clear up and end with REPOSBX_ECANCELLED; -1: none */
} reposbx_doctor_options;
#define REPOSBX_DOCTOR_OPTIONS_INIT { 1, NULL, NULL, NULL, NULL, NULL, NULL, -1 }

/* What is wrong with the host is a row that fails, also an engine that is not there; an error is what
 * keeps the rows from being told. */
int reposbx_doctor(reposbx_doctor_report *out, const reposbx_doctor_options *options,
                   reposbx_error *err);

#ifdef __cplusplus
}
#endif
#endif
