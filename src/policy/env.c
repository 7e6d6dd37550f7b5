/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/policy.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/limits.h"

#include "base/banned.h"

/* Names that make a program inside reach for the engine, the caller's agents, or other code. */
static const char *const refused_names[] = {
    "DOCKER_HOST", "DOCKER_CONFIG", "DOCKER_CONTEXT",  "GIT_ASKPASS", "SSH_AUTH_SOCK",
    "LD_PRELOAD",  "HTTP_PROXY",    "LD_LIBRARY_PATH", "HTTPS_PROXY", "FTP_PROXY",
    "ALL_PROXY",   "NO_PROXY",
};

/* What a secret is usually called, anywhere in the name. */
static const char *const refused_parts[] = {
    "TOKEN",      "SECRET",      "PASSWORD", "PASSWD", "CREDENTIAL",
    "PRIVATE_KEY", "API_KEY", "AUTH",     "COOKIE",
};

/* In an image these say that the image carries somebody's access. */
static const char *const refused_image_prefixes[] = {
    "AWS_", "AZURE_", "GITHUB_", "OPENAI_", "ANTHROPIC_", "SSH_", "KUBE", "DOCKER_",
    "GOOGLE_APPLICATION_CREDENTIALS",
};

#define COUNT(list) (sizeof(list) / sizeof((list)[0]))

static bool starts_with(const char *name, size_t length, const char *start)
{
    size_t width = strlen(start);

    return length >= width && strncasecmp(name, start, width) == 0;
}

bool rsbx_env_name_refused(const char *name, size_t length)
{
    for (size_t i = 0; i < COUNT(refused_names); i++) {
        if (strlen(refused_names[i]) == length && starts_with(name, length, refused_names[i]))
            return true;
    }
    for (size_t i = 0; i < COUNT(refused_parts); i++) {
        for (size_t at = 0; at < length; at++) {
            if (starts_with(name + at, length - at, refused_parts[i]))
                return true;
        }
    }
    return false;
}

bool rsbx_image_env_refused(const char *name, size_t length)
{
    for (size_t i = 0; i < COUNT(refused_image_prefixes); i++) {
        if (starts_with(name, length, refused_image_prefixes[i]))
            return true;
    }
    return rsbx_env_name_refused(name, length);
}

static bool name_good(const char *name, size_t length)
{
    static const char letters[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789";

    return length > 0 && strspn(name, letters) >= length && strchr("0123456789", name[0]) == NULL;
}

/* One entry. A value may stand where a name was meant ("-e SECRET"), so a text is shown only once
 * it is known to be a well-formed name in front of a '='. */
static int check_entry(const char *entry, size_t number, reposbx_error *err)
{
    const char *equals = entry != NULL ? strchr(entry, '=') : NULL;
    size_t length;

    if (entry == NULL)
        return rsbx_fail(err, REPOSBX_EINVALID, "env: entry %zu is missing", number);
    if (equals == NULL)
        return rsbx_fail(err, REPOSBX_EPOLICY, "env: entry %zu is not NAME=value", number);
    length = (size_t)(equals - entry);
    if (!name_good(entry, length))
        return rsbx_fail(err, REPOSBX_EPOLICY,
                         "env: the name of entry %zu is not [A-Za-z_][A-Za-z0-9_]*", number);
    if (rsbx_env_name_refused(entry, length)) {
        int shown = length < RSBX_MAX_NAME_BYTES ? (int)length : (int)RSBX_MAX_NAME_BYTES;

        (void)rsbx_fail(err, REPOSBX_EPOLICY, "env: the name %.*s is refused", shown, entry);
        rsbx_hint(err, "secrets, proxies and loader variables never enter a sandbox");
        return REPOSBX_EPOLICY;
    }
    if (strlen(entry) > RSBX_MAX_ARG_BYTES)
        return rsbx_fail(err, REPOSBX_EPOLICY, "env: entry %zu is longer than %u bytes", number,
                         RSBX_MAX_ARG_BYTES);
    return REPOSBX_OK;
}

static bool same_name(const char *a, const char *b)
{
    size_t a_length = strcspn(a, "="), b_length = strcspn(b, "=");

    return a_length == b_length && memcmp(a, b, a_length) == 0;
}

int rsbx_check_env(const char *const *env, size_t count, reposbx_error *err)
{
    size_t total = 0;

    if (count > RSBX_MAX_ENV_COUNT)
        return rsbx_fail(err, REPOSBX_EPOLICY, "env: more than %u entries", RSBX_MAX_ENV_COUNT);
    for (size_t i = 0; i < count; i++) {
        int rc = check_entry(env[i], i + 1, err);

        if (rc != 0)
            return rc;
        total += strlen(env[i]) + 1;
        for (size_t j = 0; j < i; j++) {
            if (same_name(env[i], env[j]))
                return rsbx_fail(err, REPOSBX_EPOLICY, "env: %.*s is given twice",
                                 (int)strcspn(env[i], "="), env[i]);
        }
    }
    if (total > RSBX_MAX_ARGV_BYTES)
        return rsbx_fail(err, REPOSBX_EPOLICY, "env: more than %u bytes together",
                         RSBX_MAX_ARGV_BYTES);
    return REPOSBX_OK;
}

static bool overridden(const char *const *env, size_t count, const char *entry)
{
    size_t name = strcspn(entry, "=") + 1;

    for (size_t i = 0; i < count; i++) {
        if (strncmp(env[i], entry, name) == 0)
            return true;
    }
    return false;
}

size_t rsbx_default_env(const char *out[RSBX_DEFAULT_ENV_COUNT], const char *const *env,
                        size_t count)
{
    static const char *const ours[RSBX_DEFAULT_ENV_COUNT] = {
        "HOME=/tmp/home",
        "TMPDIR=/tmp",
        "CI=1",
        "LANG=C.UTF-8",
        "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    };
    size_t kept = 0;

    for (size_t i = 0; i < RSBX_DEFAULT_ENV_COUNT; i++) {
        if (!overridden(env, count, ours[i]))
            out[kept++] = ours[i];
    }
    return kept;
}
