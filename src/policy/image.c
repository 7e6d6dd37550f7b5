/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/policy.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "policy/fields.h"

#include "base/banned.h"

#define DIGEST_START "sha256:"
#define DIGEST_BYTES (7U + 64U)

static bool is_digest(const char *text)
{
    return strncmp(text, DIGEST_START, 7) == 0 && strnlen(text, DIGEST_BYTES + 1) == DIGEST_BYTES &&
           rsbx_is_hex(text + 7, 64);
}

const char *rsbx_image_problem(const char *image)
{
    static const char letters[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._/:@-";
    const char *at;

    if (image[0] == '\0')
        return "it is empty";
    if (strnlen(image, RSBX_MAX_IMAGE_BYTES + 1) > RSBX_MAX_IMAGE_BYTES)
        return "it is longer than 512 bytes";
    if (image[strspn(image, letters)] != '\0')
        return "only letters, digits and . _ / : @ - may stand in it";
    if (strchr("._/:@-", image[0]) != NULL)
        return "it must start with a letter or digit";
    at = strchr(image, '@');
    if (at != NULL && !is_digest(at + 1))
        return "behind '@' must stand sha256: and 64 lower-case hex digits";
    if (at == NULL && strncmp(image, DIGEST_START, 7) == 0 && !is_digest(image))
        return "behind sha256: must stand 64 lower-case hex digits";
    return NULL;
}

static bool is_pinned(const char *image)
{
    const char *at = strchr(image, '@');

    return is_digest(at != NULL ? at + 1 : image);
}

/* An empty list is what a shipped policy has: the hint names the very one, or the default written out. */
static void hint_list(const reposbx_policy *policy, const char *image, reposbx_error *err)
{
    const char *shipped = "issue-bot";

    for (size_t i = 0; i < rsbx_shipped_policy_count; i++) {
        if (strcmp(rsbx_shipped_policies[i].name, policy->name) == 0)
            shipped = rsbx_shipped_policies[i].name;
    }
    if (!policy->allow_unpinned_image && !is_pinned(image))
        rsbx_hint(err, "images are named by id (sha256:...) or by digest (name@sha256:...), here and in "
                       "\"images\" of the policy");
    else if (policy->image_count == 0)
        rsbx_hint(err,
                  "the list is empty; put the image into \"images\" of a copy of a shipped policy "
                  "('reposbx policy show %s' prints one) and give it with --policy",
                  shipped);
    else
        rsbx_hint(err, "put it into \"images\" of the policy, exactly as it is requested");
}

int rsbx_check_image_reference(const reposbx_policy *policy, const char *image, reposbx_error *err)
{
    const char *problem = image != NULL ? rsbx_image_problem(image) : "it is missing";
    bool listed = false;

    if (problem != NULL)
        return rsbx_fail(err, REPOSBX_EPOLICY, "image: no image reference: %s", problem);
    for (size_t i = 0; i < policy->image_count && !listed; i++)
        listed = strcmp(policy->images[i], image) == 0;
    if (!listed) {
        (void)rsbx_fail(err, REPOSBX_EPOLICY, "image: %s is not on the list of policy \"%s\"",
                        image, policy->name);
        hint_list(policy, image, err);
        return REPOSBX_EPOLICY;
    }
    if (!policy->allow_unpinned_image && !is_pinned(image)) {
        (void)rsbx_fail(err, REPOSBX_EPOLICY, "image: %s is not pinned", image);
        rsbx_hint(err, "name it by digest (name@sha256:...) or by image id (sha256:...)");
        return REPOSBX_EPOLICY;
    }
    return REPOSBX_OK;
}

void rsbx_image_facts_dispose(struct rsbx_image_facts *facts)
{
    for (size_t i = 0; i < facts->repo_digest_count; i++)
        free(facts->repo_digests[i]);
    for (size_t i = 0; i < facts->env_count; i++)
        free(facts->env[i]);
    free(facts->repo_digests);
    free(facts->env);
    *facts = (struct rsbx_image_facts){ .repo_digests = NULL };
}

/* ---- pins ---- */

/* The repository of a reference in its long form: "busybox:1@…" is docker.io/library/busybox. The
 * first part names a registry when it has a dot or a colon or is "localhost"
 * (source: the distribution reference grammar). False when it does not fit. */
static bool repository(char *out, size_t size, const char *reference)
{
    size_t length = strcspn(reference, "@");
    const char *slash = memchr(reference, '/', length);
    const char *host = "docker.io/", *folder = "";
    const char *rest = reference;
    int written;

    for (size_t i = length; i > 0 && reference[i - 1] != '/'; i--) {
        if (reference[i - 1] == ':') { /* a tag */
            length = i - 1;
            break;
        }
    }
    if (slash != NULL) {
        size_t first = (size_t)(slash - reference);

        if ((first == 9 && strncmp(reference, "docker.io", first) == 0) ||
            (first == 15 && strncmp(reference, "index.docker.io", first) == 0))
            rest = slash + 1;
        else if (memchr(reference, '.', first) != NULL || memchr(reference, ':', first) != NULL ||
                 (first == 9 && strncmp(reference, "localhost", first) == 0))
            host = "";
    }
    length -= (size_t)(rest - reference);
    if (host[0] != '\0' && memchr(rest, '/', length) == NULL)
        folder = "library/";
    written = snprintf(out, size, "%s%s%.*s", host, folder, (int)length, rest);
    return written > 0 && (size_t)written < size;
}

static bool same_pin(const char *reference, const char *repo_digest)
{
    char wanted[RSBX_MAX_IMAGE_BYTES + 32], found[RSBX_MAX_IMAGE_BYTES + 32];
    const char *wanted_at = strchr(reference, '@'), *found_at = strchr(repo_digest, '@');

    return wanted_at != NULL && found_at != NULL && strcmp(wanted_at, found_at) == 0 &&
           repository(wanted, sizeof wanted, reference) &&
           repository(found, sizeof found, repo_digest) && strcmp(wanted, found) == 0;
}

static int check_pin(const char *reference, const struct rsbx_image_facts *facts,
                     reposbx_error *err)
{
    if (is_digest(reference)) {
        if (strcmp(reference, facts->id) == 0)
            return REPOSBX_OK;
        return rsbx_fail(err, REPOSBX_EPOLICY, "image: the engine gave %s for %s", facts->id,
                         reference);
    }
    for (size_t i = 0; i < facts->repo_digest_count; i++) {
        if (same_pin(reference, facts->repo_digests[i]))
            return REPOSBX_OK;
    }
    return rsbx_fail(err, REPOSBX_EPOLICY, "image: %s does not have this digest", reference);
}

/* ---- platform ---- */

static bool word_equals(const char *word, size_t length, const char *text)
{
    return strlen(text) == length && memcmp(word, text, length) == 0;
}

/* arm64 without a variant is v8: there is no other. */
static bool variant_fits(const char *wanted, const char *found, const char *architecture)
{
    bool arm64 = strcmp(architecture, "arm64") == 0;

    if (strcmp(wanted, found) == 0)
        return true;
    return arm64 && (wanted[0] == '\0' || strcmp(wanted, "v8") == 0) &&
           (found[0] == '\0' || strcmp(found, "v8") == 0);
}

static bool platform_fits(const char *platform, const struct rsbx_image_facts *facts)
{
    size_t os = strcspn(platform, "/");
    const char *architecture = platform[os] == '/' ? platform + os + 1 : "";
    size_t width = strcspn(architecture, "/");
    const char *variant = architecture[width] == '/' ? architecture + width + 1 : "";

    return word_equals(platform, os, facts->os) &&
           word_equals(architecture, width, facts->architecture) &&
           variant_fits(variant, facts->variant, facts->architecture);
}

static int check_image_env(const struct rsbx_image_facts *facts, reposbx_error *err)
{
    for (size_t i = 0; i < facts->env_count; i++) {
        size_t length = strcspn(facts->env[i], "=");

        if (!rsbx_image_env_refused(facts->env[i], length))
            continue;
        (void)rsbx_fail(err, REPOSBX_EPOLICY, "image: it sets the environment variable %.*s",
                        length < 256 ? (int)length : 256, facts->env[i]);
        rsbx_hint(err, "an image must carry no secrets; build it without this ENV");
        return REPOSBX_EPOLICY;
    }
    return REPOSBX_OK;
}

int rsbx_check_image(const reposbx_policy *policy, const char *reference, const char *platform,
                     const struct rsbx_image_facts *facts, reposbx_error *err)
{
    int rc = rsbx_check_image_reference(policy, reference, err);

    if (rc == 0 && is_pinned(reference))
        rc = check_pin(reference, facts, err);
    if (rc != 0)
        return rc;
    if (!platform_fits(platform, facts))
        return rsbx_fail(err, REPOSBX_EPOLICY, "platform: the image is for %s/%s%s%s, not %s",
                         facts->os, facts->architecture, facts->variant[0] != '\0' ? "/" : "",
                         facts->variant, platform);
    if (facts->volume_count > 0) {
        (void)rsbx_fail(err, REPOSBX_EPOLICY, "image: it declares %zu VOLUME entries",
                        facts->volume_count);
        rsbx_hint(err, "they would be writable beside the workspace; build it without VOLUME");
        return REPOSBX_EPOLICY;
    }
    return check_image_env(facts, err);
}
