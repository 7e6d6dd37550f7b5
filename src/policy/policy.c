/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/policy.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "base/limits.h"
#include "codec/sha256.h"
#include "policy/fields.h"

#include "base/banned.h"

typedef struct rsbx_problems *problems_ptr;
RSBX_CLEANUP(problems, problems_ptr, free);

static struct rsbx_problems *new_problems(reposbx_error *err)
{
    struct rsbx_problems *problems = calloc(1, sizeof *problems);

    if (problems == NULL)
        (void)rsbx_fail_memory(err);
    return problems;
}

int reposbx_policy_default(reposbx_policy **out, reposbx_error *err)
{
    reposbx_policy *policy = rsbx_policy_new();

    if (policy == NULL)
        return rsbx_fail_memory(err);
    *out = policy;
    return REPOSBX_OK;
}

/* The policy of a text, or its first mistake as the error. */
static int parse(reposbx_policy **out, const char *text, size_t length, const char *what,
                 reposbx_error *err)
{
    RSBX_AUTO(problems) struct rsbx_problems *problems = new_problems(err);
    const reposbx_policy_problem *first;
    int rc;

    if (problems == NULL)
        return REPOSBX_EINTERNAL;
    rc = rsbx_policy_read(out, problems, text, length, err);
    if (rc != 0 || problems->count == 0)
        return rc;
    first = &problems->list[0];
    if (first->line == 0)
        return rsbx_fail(err, REPOSBX_EMALFORMED, "%s: %s", what, first->message);
    (void)rsbx_fail(err, REPOSBX_EMALFORMED, "%s: line %zu column %zu: %s", what, first->line,
                    first->column, first->message);
    if (problems->count > 1)
        rsbx_hint(err, "%zu more mistakes in it: reposbx policy check shows all",
                  problems->count - 1);
    return REPOSBX_EMALFORMED;
}

int reposbx_policy_parse(reposbx_policy **out, const char *text, size_t length, reposbx_error *err)
{
    return parse(out, text, length, "policy", err);
}

static const struct rsbx_shipped_policy *shipped(const char *name)
{
    for (size_t i = 0; i < rsbx_shipped_policy_count; i++) {
        if (strcmp(rsbx_shipped_policies[i].name, name) == 0)
            return &rsbx_shipped_policies[i];
    }
    return NULL;
}

static int missing(const char *name, reposbx_error *err)
{
    if (strchr(name, '/') != NULL)
        return rsbx_fail(err, REPOSBX_ENOTFOUND, "no policy file %s", name);
    (void)rsbx_fail(err, REPOSBX_ENOTFOUND, "no policy file and no shipped policy \"%s\"", name);
    rsbx_hint(err, "shipped are issue-bot, ci-validator, code-run and trusted-dev");
    return REPOSBX_ENOTFOUND;
}

/* The text of a file or shipped policy. A file may be reached through symlinks: the user names it.
 * One byte above the bound is kept, so that the reader of the text refuses it in its own words. */
static int fetch(struct rsbx_buf *out, const char *name, reposbx_error *err)
{
    const struct rsbx_shipped_policy *found = strchr(name, '/') == NULL ? shipped(name) : NULL;
    RSBX_AUTO(rsbx_fd) int fd = open(name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    struct stat facts;
    ssize_t got;
    char *space;

    if (fd < 0 && errno == ENOENT && found != NULL)
        return rsbx_buf_append(out, found->text, found->length, err);
    if (fd < 0 && (errno == ENOENT || errno == ENOTDIR))
        return missing(name, err);
    if (fd < 0)
        return rsbx_fail_errno(err, REPOSBX_EIO, "cannot open policy %s", name);
    if (fstat(fd, &facts) != 0)
        return rsbx_fail_errno(err, REPOSBX_EIO, "cannot stat policy %s", name);
    if (!S_ISREG(facts.st_mode))
        return rsbx_fail(err, REPOSBX_EIO, "policy %s is not a regular file", name);
    space = rsbx_buf_reserve(out, RSBX_MAX_POLICY_BYTES + 1, err);
    if (space == NULL)
        return REPOSBX_EINTERNAL;
    got = rsbx_read_full(fd, space, RSBX_MAX_POLICY_BYTES + 1);
    if (got < 0)
        return rsbx_fail_errno(err, REPOSBX_EIO, "cannot read policy %s", name);
    out->length += (size_t)got;
    out->data[out->length] = '\0';
    return REPOSBX_OK;
}

int reposbx_policy_load(reposbx_policy **out, const char *file_or_name, reposbx_error *err)
{
    RSBX_AUTO(rsbx_buf) struct rsbx_buf text = RSBX_BUF_INIT(RSBX_MAX_POLICY_BYTES + 1);
    int rc;

    if (file_or_name == NULL || *file_or_name == '\0')
        return rsbx_fail(err, REPOSBX_EINVALID, "the name of the policy is empty");
    rc = fetch(&text, file_or_name, err);
    if (rc != 0)
        return rc;
    return parse(out, text.data, text.length, file_or_name, err);
}

int reposbx_policy_check(reposbx_policy_problem **problems, size_t *count, const char *file,
                         reposbx_error *err)
{
    RSBX_AUTO(rsbx_buf) struct rsbx_buf text = RSBX_BUF_INIT(RSBX_MAX_POLICY_BYTES + 1);
    RSBX_AUTO(problems) struct rsbx_problems *found = NULL;
    RSBX_AUTO(rsbx_policy) rsbx_policy_ptr policy = NULL;
    reposbx_policy_problem *copy = NULL;
    int rc;

    if (file == NULL || *file == '\0')
        return rsbx_fail(err, REPOSBX_EINVALID, "the name of the policy is empty");
    rc = fetch(&text, file, err);
    if (rc != 0)
        return rc;
    found = new_problems(err);
    if (found == NULL)
        return REPOSBX_EINTERNAL;
    rc = rsbx_policy_read(&policy, found, text.data, text.length, err);
    if (rc != 0)
        return rc;
    if (found->count > 0) {
        copy = calloc(found->count, sizeof *copy);
        if (copy == NULL)
            return rsbx_fail_memory(err);
        memcpy(copy, found->list, found->count * sizeof *copy);
    }
    *problems = copy;
    *count = found->count;
    return REPOSBX_OK;
}

/* ---- the full document ---- */

static json_t *text_or_null(const char *text)
{
    return text != NULL ? json_string(text) : json_null();
}

static json_t *image_list(const reposbx_policy *policy)
{
    json_t *list = json_array();

    for (size_t i = 0; i < policy->image_count; i++) {
        if (json_array_append_new(list, json_string(policy->images[i])) != 0) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

/* The value of a field, or NULL without memory. */
static json_t *field_value(const reposbx_policy *policy, const struct rsbx_field *field)
{
    const char *place = (const char *)policy + field->offset;
    unsigned int choice;
    uint64_t count;
    uint32_t small;
    double number;
    const char *text;
    bool flag;

    switch (field->kind) {
    case RSBX_FIELD_IMAGES:
        return image_list(policy);
    case RSBX_FIELD_FLAG:
        memcpy(&flag, place, sizeof flag);
        return json_boolean(flag);
    case RSBX_FIELD_SWITCH:
        memcpy(&flag, place, sizeof flag);
        return json_string(field->words[flag ? 1 : 0]);
    case RSBX_FIELD_CHOICE:
        memcpy(&choice, place, sizeof choice);
        return json_string(field->words[choice]);
    case RSBX_FIELD_COUNT32:
        memcpy(&small, place, sizeof small);
        return json_integer(small);
    case RSBX_FIELD_COUNT:
    case RSBX_FIELD_COUNT_NULL:
        memcpy(&count, place, sizeof count);
        if (field->kind == RSBX_FIELD_COUNT_NULL && count == 0)
            return json_null();
        return json_integer((json_int_t)count);
    case RSBX_FIELD_NUMBER:
        memcpy(&number, place, sizeof number);
        return json_real(number);
    case RSBX_FIELD_NAME:
    case RSBX_FIELD_PATH:
    case RSBX_FIELD_RUNTIME:
    case RSBX_FIELD_IMAGE:
    default:
        memcpy(&text, place, sizeof text);
        return text_or_null(text);
    }
}

int rsbx_policy_value(json_t **out, const reposbx_policy *policy, reposbx_error *err)
{
    RSBX_AUTO(rsbx_json) rsbx_json_ptr document = json_object();

    if (json_object_set_new(document, "version", json_integer(1)) != 0)
        return rsbx_fail_memory(err);
    for (size_t i = 0; i < RSBX_FIELD_COUNT_ALL; i++) {
        const struct rsbx_field *field = &rsbx_policy_fields[i];
        json_t *target = document;

        if (field->section[0] != '\0') {
            target = json_object_get(document, field->section);
            if (target == NULL) {
                target = json_object();
                if (json_object_set_new(document, field->section, target) != 0)
                    return rsbx_fail_memory(err);
            }
        }
        if (json_object_set_new(target, field->key, field_value(policy, field)) != 0)
            return rsbx_fail_memory(err);
    }
    *out = rsbx_json_steal(&document);
    return REPOSBX_OK;
}

int rsbx_policy_digest(char out[65], const reposbx_policy *policy, reposbx_error *err)
{
    RSBX_AUTO(rsbx_json) rsbx_json_ptr document = NULL;
    RSBX_AUTO(rsbx_text) char *text = NULL;
    int rc = rsbx_policy_value(&document, policy, err);

    if (rc == 0)
        rc = rsbx_json_canonical(&text, document, err);
    if (rc != 0)
        return rc;
    rsbx_sha256_hex(out, text, strlen(text));
    return REPOSBX_OK;
}

/* Whether 15 digits bring the number back; then 0.1 is printed as 0.1. */
static bool short_enough(double number)
{
    char text[32];

    (void)snprintf(text, sizeof text, "%.15g", number);
    return strtod(text, NULL) >= number && strtod(text, NULL) <= number;
}

int reposbx_policy_json(char **out, const reposbx_policy *policy, int pretty, reposbx_error *err)
{
    RSBX_AUTO(rsbx_json) rsbx_json_ptr document = NULL;
    size_t flags = JSON_ENSURE_ASCII;
    char *text;
    int rc;

    if (policy == NULL)
        return rsbx_fail(err, REPOSBX_EINVALID, "no policy given");
    rc = rsbx_policy_value(&document, policy, err);
    if (rc != 0)
        return rc;
    flags |= pretty ? (size_t)JSON_INDENT(2) : (size_t)JSON_COMPACT;
    if (short_enough(policy->limits.cpus) && short_enough(policy->limits.command_timeout_seconds))
        flags |= (size_t)JSON_REAL_PRECISION(15);
    text = json_dumps(document, flags);
    if (text == NULL)
        return rsbx_fail_memory(err);
    *out = text;
    return REPOSBX_OK;
}

const char *reposbx_policy_name(const reposbx_policy *policy)
{
    return policy->name;
}

const reposbx_limits *reposbx_policy_limits(const reposbx_policy *policy)
{
    return &policy->limits;
}
