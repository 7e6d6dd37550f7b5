/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What has to be true before anything runs, looked at once and put on record:
 *
 *     checks/KEY   engine, policy and reference were found to be allowed since this boot, and what
 *                  the reference means ("base_id"). Only for references that pin their content.
 *     images/KEY   which image was made of that base and this guest ("image_id")
 *
 * Images are run by their id, which is the hash of what they are, so a record cannot make anything
 * else run: at worst an image is not there any more, the launch fails, and everything is looked at
 * again.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/limits.h"
#include "base/text.h"
#include "codec/sha256.h"
#include "guest/embedded.h"
#include "run/internal.h"

#include "base/banned.h"

#define KEY_BYTES 65
#define BASE_TEXT_BYTES 8192U
/* Another's bake: a handful of calls, each with the deadline of one. */
#define BAKE_MS (6U * RSBX_ENGINE_CALL_MS)

/* One name for a list of texts. */
static int make_key(char out[KEY_BYTES], const char *const *parts, size_t count, reposbx_error *err)
{
    RSBX_AUTO(rsbx_buf) struct rsbx_buf text = RSBX_BUF_INIT(BASE_TEXT_BYTES);

    for (size_t i = 0; i < count; i++) {
        int rc = rsbx_buf_append(&text, parts[i], strlen(parts[i]) + 1, err);

        if (rc != 0)
            return rc;
    }
    rsbx_sha256_hex(out, text.data, text.length);
    return REPOSBX_OK;
}

/* A text member of a record; ENOTFOUND when there is no such record, or it does not parse. */
static int recall(char *out, size_t size, int folder_fd, const char *key, const char *member,
                  const char *boot_id)
{
    RSBX_AUTO(rsbx_buf) struct rsbx_buf text = RSBX_BUF_INIT(BASE_TEXT_BYTES);
    RSBX_AUTO(rsbx_json) rsbx_json_ptr record = NULL;
    const char *value;
    const char *boot;

    if (rsbx_read_file_at(&text, folder_fd, key, NULL) != 0 ||
        rsbx_json_parse(&record, text.data != NULL ? text.data : "", text.length, "record", NULL) != 0)
        return REPOSBX_ENOTFOUND;
    value = json_string_value(json_object_get(record, member));
    boot = json_string_value(json_object_get(record, "boot_id"));
    if (value == NULL || strlen(value) >= size ||
        (boot_id != NULL && (boot == NULL || strcmp(boot, boot_id) != 0)))
        return REPOSBX_ENOTFOUND;
    (void)snprintf(out, size, "%s", value);
    return REPOSBX_OK;
}

static int remember(int folder_fd, const char *key, json_t *value, reposbx_error *err)
{
    RSBX_AUTO(rsbx_json) rsbx_json_ptr record = value;
    RSBX_AUTO(rsbx_text) char *text = NULL;
    int rc = record != NULL ? rsbx_json_text(&text, record, err) : rsbx_fail_memory(err);

    return rc == 0 ? rsbx_replace_file_at(folder_fd, key, text, strlen(text), err) : rc;
}

static bool pinned(const char *reference)
{
    return strncmp(reference, "sha256:", 7) == 0 || strstr(reference, "@sha256:") != NULL;
}

/* Asks the engine, and holds what it says against the policy. */
static int check_engine(char base_id[80], struct rsbx_run_engine *engine,
                        const reposbx_policy *policy, const char *reference, const int *cancel_fd,
                        reposbx_error *err)
{
    struct rsbx_host_facts host;
    struct rsbx_image_facts image = { .id = "" };
    int rc = engine->ops->host(&host, engine, rsbx_run_until(cancel_fd), err);

    if (rc == 0)
        rc = rsbx_check_host(policy, &host, err);
    if (rc == 0)
        rc = engine->ops->image(&image, engine, reference, rsbx_run_until(cancel_fd), err);
    if (rc == 0)
        rc = rsbx_check_image(policy, reference, host.platform, &image, err);
    if (rc == 0)
        (void)snprintf(base_id, 80, "%s", image.id);
    rsbx_image_facts_dispose(&image);
    return rc;
}

static int find_base(char base_id[80], const struct rsbx_run_place *place,
                     struct rsbx_run_engine *engine, const reposbx_policy *policy,
                     const char *reference, bool again, const int *cancel_fd, reposbx_error *err)
{
    RSBX_AUTO(rsbx_fd) int folder_fd = -1;
    char digest[65];
    char boot_id[RSBX_BOOT_ID_BYTES];
    char key[KEY_BYTES];
    const char *const parts[] = { engine->address, engine->runtime != NULL ? engine->runtime : "",
                                  digest, reference };
    int rc = rsbx_run_folder(&folder_fd, place, "checks", err);

    if (rc == 0)
        rc = rsbx_policy_digest(digest, policy, err);
    if (rc == 0)
        rc = rsbx_boot_id(boot_id, err);
    if (rc == 0)
        rc = make_key(key, parts, sizeof parts / sizeof parts[0], err);
    if (rc != 0)
        return rc;
    if (!again && pinned(reference) &&
        recall(base_id, 80, folder_fd, key, "base_id", boot_id) == REPOSBX_OK)
        return REPOSBX_OK;
    rc = check_engine(base_id, engine, policy, reference, cancel_fd, err);
    if (rc == 0)
        rc = remember(folder_fd, key,
                      json_pack("{s:s, s:s, s:s, s:s}", "engine", engine->address, "reference",
                                reference, "base_id", base_id, "boot_id", boot_id),
                      err);
    return rc;
}

static int bake(char image_id[80], struct rsbx_run_engine *engine, struct rsbx_live *live,
                const reposbx_policy *policy, const char *base_id, const int *cancel_fd,
                reposbx_error *err)
{
    RSBX_AUTO(rsbx_text) char *made = NULL;
    char name[RSBX_RUN_NAME_BYTES] = ""; /* made below; the box borrows it */
    struct rsbx_run_box box = rsbx_run_box(policy, &policy->limits, name, base_id, "bake");
    int rc = rsbx_run_new_name(name, err);

    if (rc == 0)
        rc = rsbx_live_make(live, name, err);
    if (rc != 0)
        return rc;
    box.cancel_fd = cancel_fd;
    rc = engine->ops->bake(&made, engine, &box, err);
    if (rc == 0)
        rsbx_live_gone(live, name);
    else
        rsbx_context(err, "cannot put the guest into an image");
    if (rc == 0)
        (void)snprintf(image_id, 80, "%s", made);
    return rc;
}

/* One maker at a time; who waited may find it made. */
static int lock_images(int *out, int folder_fd, const int *cancel_fd, reposbx_error *err)
{
    RSBX_AUTO(rsbx_fd) int fd =
        openat(folder_fd, "lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    int locked = -1;

    if (fd >= 0)
        locked = rsbx_wait_lock(fd, LOCK_EX,
                                rsbx_deadline_or(rsbx_deadline_in_ms(BAKE_MS), cancel_fd));
    if (locked < 0)
        return rsbx_fail_errno(err, REPOSBX_EIO, "cannot lock the images");
    if (locked == 0 && rsbx_check_cancelled(cancel_fd, err) != 0)
        return REPOSBX_ECANCELLED;
    if (locked == 0)
        return rsbx_fail(err, REPOSBX_EBUSY, "another run puts the guest into an image and does not end");
    *out = rsbx_fd_steal(&fd);
    return REPOSBX_OK;
}

static int find_image(char image_id[80], const struct rsbx_run_place *place,
                      struct rsbx_run_engine *engine, struct rsbx_live *live,
                      const reposbx_policy *policy, const char *base_id, bool again,
                      const int *cancel_fd, reposbx_error *err)
{
    RSBX_AUTO(rsbx_fd) int folder_fd = -1;
    RSBX_AUTO(rsbx_fd) int lock_fd = -1;
    char guest[65];
    char key[KEY_BYTES];
    const char *const parts[] = { engine->address, base_id, guest };
    struct rsbx_image_facts facts = { .id = "" };
    bool there;
    int rc = rsbx_run_folder(&folder_fd, place, "images", err);

    rsbx_sha256_hex(guest, rsbx_guest_binary, rsbx_guest_binary_size);
    if (rc == 0)
        rc = make_key(key, parts, sizeof parts / sizeof parts[0], err);
    if (rc != 0)
        return rc;
    if (!again && recall(image_id, 80, folder_fd, key, "image_id", NULL) == REPOSBX_OK)
        return REPOSBX_OK;
    rc = lock_images(&lock_fd, folder_fd, cancel_fd, err);
    if (rc != 0)
        return rc;
    there = recall(image_id, 80, folder_fd, key, "image_id", NULL) == REPOSBX_OK &&
            engine->ops->image(&facts, engine, image_id, rsbx_run_until(cancel_fd), NULL) == REPOSBX_OK;
    rsbx_image_facts_dispose(&facts);
    if (there)
        return REPOSBX_OK;
    rc = bake(image_id, engine, live, policy, base_id, cancel_fd, err);
    if (rc == 0)
        rc = remember(folder_fd, key,
                      json_pack("{s:s, s:s, s:s, s:s}", "engine", engine->address, "base_id", base_id,
                                "guest_sha256", guest, "image_id", image_id),
                      err);
    return rc;
}

int rsbx_run_prepare(struct rsbx_run_image *out, const struct rsbx_run_place *place,
                     struct rsbx_run_engine *engine, struct rsbx_live *live,
                     const reposbx_policy *policy, const char *reference, bool again,
                     const int *cancel_fd, reposbx_error *err)
{
    struct rsbx_run_image image;
    int rc = find_base(image.base_id, place, engine, policy, reference, again, cancel_fd, err);

    if (rc == 0)
        rc = find_image(image.id, place, engine, live, policy, image.base_id, again, cancel_fd, err);
    if (rc == 0)
        *out = image;
    return rc;
}
