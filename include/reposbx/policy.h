/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPOSBX_POLICY_H
#define REPOSBX_POLICY_H

#include <stddef.h>
#include <stdint.h>

#include <reposbx/error.h>

/*
 * Policies: what a sandbox may be and do. A policy is a JSON document (policies/README.md, schema
 * policies/policy.schema.json); it is immutable once loaded and may be shared between threads.
 */

#ifdef __cplusplus
extern "C" {
#endif

/* The hard limits of one command (SandboxLimits). All are finite and positive. */
typedef struct reposbx_limits {
    double cpus;                    /* processors */
    uint64_t memory_bytes;          /* memory and swap together */
    uint64_t pids;                  /* processes and threads */
    double command_timeout_seconds;
    uint64_t output_bytes;          /* preview of stdout and stderr together */
    uint64_t audit_log_bytes;       /* captured stdout and stderr together: reaching it kills */
    uint64_t stdin_bytes;           /* stdin of a command, content of one write, a patch */
    uint64_t tmpfs_bytes;           /* /tmp (and, a tenth of it but at least 1 MiB, /run) */
    uint64_t artifact_bytes;        /* content of one bundle */
    uint64_t artifact_members;      /* files in one bundle */
} reposbx_limits;

typedef struct reposbx_policy reposbx_policy;

/* One mistake in a policy document. Lines and columns start at 1; columns count bytes; both 0 when
 * the mistake has no place (an unreadable file). */
typedef struct reposbx_policy_problem {
    size_t line, column;
    char message[256];
} reposbx_policy_problem;

/* The default policy: every value as documented, no image allowed. */
int reposbx_policy_default(reposbx_policy **out, reposbx_error *err);

/* Loads a document from a file, or, when `file_or_name` holds no '/' and no such file exists, one
 * of the shipped policies by name ("issue-bot", "ci-validator", "code-run", "trusted-dev").
 * REPOSBX_ENOTFOUND: neither; REPOSBX_EMALFORMED: the first mistake with line and column. */
int reposbx_policy_load(reposbx_policy **out, const char *file_or_name, reposbx_error *err);

/* Parses a document from memory. */
int reposbx_policy_parse(reposbx_policy **out, const char *text, size_t length, reposbx_error *err);

/* All mistakes of a document, in the order of their place. *problems (free()) is NULL and *count 0
 * when it is right. Fails only when the file cannot be read. */
int reposbx_policy_check(reposbx_policy_problem **problems, size_t *count, const char *file,
                         reposbx_error *err);

/* The document with every default filled in, as JSON text (free()); pretty or on one line. */
int reposbx_policy_json(char **out, const reposbx_policy *policy, int pretty, reposbx_error *err);

/* Names of the shipped policies, NULL-terminated, static. */
const char *const *reposbx_policy_names(void);

const char *reposbx_policy_name(const reposbx_policy *policy);
const reposbx_limits *reposbx_policy_limits(const reposbx_policy *policy);

void reposbx_policy_free(reposbx_policy *policy);

#ifdef __cplusplus
}
#endif
#endif
