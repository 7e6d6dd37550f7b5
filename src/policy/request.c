/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/policy.h"

#include <math.h>
#include <string.h>

#include "base/limits.h"
#include "base/text.h"
#include "policy/fields.h"

#include "base/banned.h"

int rsbx_check_revision(const char *revision, reposbx_error *err)
{
    if (revision != NULL && strnlen(revision, 41) == 40 && rsbx_is_hex(revision, 40))
        return REPOSBX_OK;
    (void)rsbx_fail(err, REPOSBX_EMALFORMED, "revision: not 40 lower-case hex digits");
    rsbx_hint(err, "git rev-parse --verify 'HEAD^{commit}' gives it");
    return REPOSBX_EMALFORMED;
}

int rsbx_check_task_id(const char *task_id, reposbx_error *err)
{
    if (task_id != NULL && strnlen(task_id, 129) <= 128 && rsbx_plain_name(task_id, 128))
        return REPOSBX_OK;
    return rsbx_fail(err, REPOSBX_EPOLICY,
                     "task_id: must be 1 to 128 letters, digits, '_', '.' or '-', the first a "
                     "letter or digit");
}

/* Length of one lower-case word of a platform, 0 when there is none. */
static size_t platform_word(const char *text)
{
    size_t length = strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789_.-");

    return length > 0 && length < 32 && strchr("_.-", text[0]) == NULL ? length : 0;
}

int rsbx_check_platform(const char *platform, reposbx_error *err)
{
    const char *at = platform;
    size_t words = 0;

    while (at != NULL && words < 3) {
        size_t length = platform_word(at);

        if (length == 0)
            break;
        words++;
        at += length;
        if (*at == '\0' && words >= 2)
            return REPOSBX_OK;
        if (*at != '/')
            break;
        at++;
    }
    (void)rsbx_fail(err, REPOSBX_EPOLICY, "platform: must be os/arch or os/arch/variant");
    rsbx_hint(err, "for instance linux/amd64");
    return REPOSBX_EPOLICY;
}

int rsbx_check_argv(const char *const *argv, size_t argc, reposbx_error *err)
{
    size_t total = 0;

    if (argc == 0 || argv == NULL || argv[0] == NULL)
        return rsbx_fail(err, REPOSBX_EPOLICY, "argv: must have at least one element");
    if (argv[0][0] == '\0')
        return rsbx_fail(err, REPOSBX_EPOLICY, "argv: the first element is empty");
    if (argc > RSBX_MAX_ARGV_COUNT)
        return rsbx_fail(err, REPOSBX_EPOLICY, "argv: more than %u elements", RSBX_MAX_ARGV_COUNT);
    for (size_t i = 0; i < argc; i++) {
        size_t length;

        if (argv[i] == NULL)
            return rsbx_fail(err, REPOSBX_EINVALID, "argv: element %zu is missing", i);
        length = strnlen(argv[i], RSBX_MAX_ARG_BYTES + 1);
        if (length > RSBX_MAX_ARG_BYTES)
            return rsbx_fail(err, REPOSBX_EPOLICY, "argv: element %zu is longer than %u bytes", i,
                             RSBX_MAX_ARG_BYTES);
        total += length + 1;
    }
    if (total > RSBX_MAX_ARGV_BYTES)
        return rsbx_fail(err, REPOSBX_EPOLICY, "argv: more than %u bytes together",
                         RSBX_MAX_ARGV_BYTES);
    return REPOSBX_OK;
}

/* ---- limits ---- */

static int lower_number(double *value, double wanted, double least, const char *field,
                        reposbx_error *err)
{
    if (!isfinite(wanted) || wanted < 0.0)
        return rsbx_fail(err, REPOSBX_EPOLICY, "%s: must be a finite number above 0", field);
    if (wanted <= 0.0) /* 0: keep */
        return REPOSBX_OK;
    if (wanted < least)
        return rsbx_fail(err, REPOSBX_EPOLICY, "%s: %.15g is below %.15g, the least that works",
                         field, wanted, least);
    if (wanted > *value)
        return rsbx_fail(err, REPOSBX_EPOLICY, "%s: %.15g is above the policy's %.15g", field,
                         wanted, *value);
    *value = wanted;
    return REPOSBX_OK;
}

static int lower_count(uint64_t *value, uint64_t wanted, uint64_t least, const char *field,
                       reposbx_error *err)
{
    if (wanted == 0) /* keep */
        return REPOSBX_OK;
    if (wanted < least)
        return rsbx_fail(err, REPOSBX_EPOLICY, "%s: %llu is below %llu, the least that works",
                         field, (unsigned long long)wanted, (unsigned long long)least);
    if (wanted > *value)
        return rsbx_fail(err, REPOSBX_EPOLICY, "%s: %llu is above the policy's %llu", field,
                         (unsigned long long)wanted, (unsigned long long)*value);
    *value = wanted;
    return REPOSBX_OK;
}

int rsbx_lower_limits(reposbx_limits *out, const reposbx_policy *policy,
                      const struct rsbx_limit_request *request, reposbx_error *err)
{
    reposbx_limits limits = policy->limits;
    int rc = lower_number(&limits.cpus, request->cpus, RSBX_LEAST_CPUS, "cpus", err);

    if (rc == 0)
        rc = lower_number(&limits.command_timeout_seconds, request->timeout_seconds,
                          RSBX_LEAST_TIMEOUT_SECONDS, "timeout_seconds", err);
    if (rc == 0)
        rc = lower_count(&limits.memory_bytes, request->memory_bytes, RSBX_LEAST_MEMORY_BYTES,
                         "memory_bytes", err);
    if (rc == 0)
        rc = lower_count(&limits.pids, request->pids, RSBX_LEAST_PIDS, "pids", err);
    if (rc != 0)
        return rc;
    *out = limits;
    return REPOSBX_OK;
}
