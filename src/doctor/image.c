/* SPDX-License-Identifier: Apache-2.0 */
/* Whether an image may be run, one row for each rule. */
#include <stdio.h>
#include <string.h>

#include "base/limits.h"
#include "doctor/internal.h"

#include "base/banned.h"

enum image_row { PIN, PLATFORM, VOLUMES, ENVIRONMENT };

static const char *const image_rows[] = { "image_pin", "image_platform", "image_volumes",
                                          "image_environment" };

static void skip_all(struct rsbx_doctor *doctor, const char *why)
{
    for (size_t i = 0; i < sizeof image_rows / sizeof image_rows[0]; i++)
        rsbx_doctor_skip(doctor, image_rows[i], "%s", why);
}

/* The rules with all but the row's own made good; what is listed is what is asked for. */
static int check(const struct rsbx_doctor *doctor, enum image_row row, reposbx_error *err)
{
    struct rsbx_image_facts facts = doctor->image; /* borrowed */
    struct reposbx_policy policy = *doctor->policy;
    const char *reference = row == PIN ? doctor->options->image : facts.id;
    char own_platform[128], listed_text[1024];
    char *listed = listed_text;
    const char *platform = doctor->host.platform;

    (void)snprintf(listed_text, sizeof listed_text, "%s", reference);
    (void)snprintf(own_platform, sizeof own_platform, "%s/%s%s%s", facts.os, facts.architecture,
                   facts.variant[0] != '\0' ? "/" : "", facts.variant);
    policy.images = &listed;
    policy.image_count = 1;
    if (row != PLATFORM)
        platform = own_platform;
    if (row != VOLUMES)
        facts.volume_count = 0;
    if (row != ENVIRONMENT)
        facts.env_count = 0;
    return rsbx_check_image(&policy, reference, platform, &facts, err);
}

static const char *describe(const struct rsbx_doctor *doctor, enum image_row row)
{
    switch (row) {
    case PIN:
        return strncmp(doctor->options->image, "sha256:", 7) == 0 ||
                       strchr(doctor->options->image, '@') != NULL
                   ? "it is what the reference pins"
                   : "not pinned, and the policy does not mind";
    case PLATFORM:
        return doctor->host.platform;
    case VOLUMES:
        return "it declares none";
    case ENVIRONMENT:
        break;
    }
    return "no name in it looks like a secret";
}

void rsbx_doctor_image(struct rsbx_doctor *doctor)
{
    const char *image = doctor->options->image;
    reposbx_error err = REPOSBX_ERROR_INIT;
    int listed, there;

    if (doctor->policy == NULL || !doctor->has_host) {
        const char *why = doctor->policy == NULL ? "the policy cannot be read"
                                                 : "the engine does not answer";

        rsbx_doctor_skip(doctor, "image_listed", "%s", why);
        rsbx_doctor_skip(doctor, "image_present", "%s", why);
        skip_all(doctor, why);
        return;
    }
    listed = rsbx_check_image_reference(doctor->policy, image, &err);
    rsbx_doctor_judge(doctor, "image_listed", listed, &err, image);
    there = doctor->engine->ops->image(&doctor->image, doctor->engine, image,
                                       rsbx_doctor_patience(doctor), &err);
    rsbx_doctor_judge(doctor, "image_present", there, &err, doctor->image.id);
    if (there != 0) {
        skip_all(doctor, "the image is not there");
        return;
    }
    doctor->has_image = listed == 0;
    for (size_t i = 0; i < sizeof image_rows / sizeof image_rows[0]; i++) {
        int rc = check(doctor, (enum image_row)i, &err);

        rsbx_doctor_judge(doctor, image_rows[i], rc, &err, describe(doctor, (enum image_row)i));
        doctor->has_image = doctor->has_image && rc == 0;
    }
}
