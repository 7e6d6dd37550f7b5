/* SPDX-License-Identifier: Apache-2.0 */
#include "source/internal.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/text.h"
#include "codec/sha256.h"
#include "guest/fingerprint.h"

#include "base/banned.h"

/*
 * The format is guest/fingerprint.h's; this file feeds it from the events of a source. A link's
 * frames need the link's target first, so they are written with its DATA, which is one piece.
 */
struct rsbx_fingerprint {
    struct rsbx_sha256 *main;
    struct rsbx_sha256 *rest;
    struct rsbx_fp_hash main_hash;
    struct rsbx_fp_hash rest_hash;
    char **excludes;
    size_t exclude_count;
    uint64_t entries;
    uint64_t left; /* of the present entry */
    bool skipped;  /* the present entry's content goes to the rest */
    bool link;
    char path[RSBX_MAX_PATH_BYTES + 1];
    size_t path_length;
};

void rsbx_fingerprint_free(struct rsbx_fingerprint *fingerprint)
{
    if (fingerprint == NULL)
        return;
    rsbx_sha256_free(fingerprint->main);
    rsbx_sha256_free(fingerprint->rest);
    for (size_t i = 0; i < fingerprint->exclude_count; i++)
        free(fingerprint->excludes[i]);
    free(fingerprint->excludes);
    free(fingerprint);
}

RSBX_CLEANUP(fingerprint, struct rsbx_fingerprint *, rsbx_fingerprint_free);

static int copy_excludes(struct rsbx_fingerprint *fingerprint, const char *const *excludes,
                         size_t exclude_count, reposbx_error *err)
{
    fingerprint->excludes = calloc(exclude_count + 1, sizeof *fingerprint->excludes);
    if (fingerprint->excludes == NULL)
        return rsbx_fail_memory(err);
    for (size_t i = 0; i < exclude_count; i++) {
        fingerprint->excludes[i] = strdup(excludes[i]);
        if (fingerprint->excludes[i] == NULL)
            return rsbx_fail_memory(err);
        fingerprint->exclude_count++;
    }
    return REPOSBX_OK;
}

int rsbx_fingerprint_new(struct rsbx_fingerprint **out, const char *const *excludes,
                         size_t exclude_count, reposbx_error *err)
{
    RSBX_AUTO(fingerprint) struct rsbx_fingerprint *fingerprint = NULL;
    RSBX_AUTO(rsbx_text) char *selection = NULL;
    char digest[RSBX_SHA256_HEX_BYTES];
    int rc = rsbx_selection_json(&selection, excludes, exclude_count, err);

    if (rc != 0)
        return rc;
    fingerprint = calloc(1, sizeof *fingerprint);
    if (fingerprint == NULL)
        return rsbx_fail_memory(err);
    rc = copy_excludes(fingerprint, excludes, exclude_count, err);
    if (rc == 0)
        rc = rsbx_sha256_new(&fingerprint->main, err);
    if (rc == 0)
        rc = rsbx_sha256_new(&fingerprint->rest, err);
    if (rc != 0)
        return rc;
    fingerprint->main_hash = (struct rsbx_fp_hash){ rsbx_sha256_update, fingerprint->main };
    fingerprint->rest_hash = (struct rsbx_fp_hash){ rsbx_sha256_update, fingerprint->rest };
    rsbx_sha256_hex(digest, selection, strlen(selection));
    rsbx_fp_begin(&fingerprint->main_hash, digest);
    *out = fingerprint_steal(&fingerprint);
    return REPOSBX_OK;
}

int rsbx_fail_outside(const char *path, reposbx_error *err)
{
    return rsbx_fail(err, REPOSBX_EPOLICY,
                     "symlink %s leads outside the repository, which has no fingerprint then", path);
}

static int feed_entry(struct rsbx_fingerprint *fp, const struct rsbx_source_event *event,
                      reposbx_error *err)
{
    bool ignored = rsbx_fp_skipped(event->path, event->path_length,
                                   (const char *const *)fp->excludes, fp->exclude_count);

    if (fp->left > 0 || event->path_length > RSBX_MAX_PATH_BYTES)
        return rsbx_fail(err, REPOSBX_EINVALID, "an entry before the content of the one before");
    if (event->mode == RSBX_MODE_LINK && event->link_state == RSBX_TARGET_OUTSIDE && !ignored)
        return rsbx_fail_outside(event->path, err);
    fp->link = event->mode == RSBX_MODE_LINK;
    /* A link to a folder is left out of the fingerprint. */
    fp->skipped = ignored || (fp->link && event->link_state == RSBX_TARGET_FOLDER);
    fp->left = event->size;
    memcpy(fp->path, event->path, event->path_length);
    fp->path[event->path_length] = '\0';
    fp->path_length = event->path_length;
    rsbx_fp_rest(&fp->rest_hash, event->mode, event->path, event->path_length, event->size);
    if (fp->skipped)
        return REPOSBX_OK;
    fp->entries++;
    if (!fp->link)
        rsbx_fp_file(&fp->main_hash, event->path, event->path_length, event->size);
    return REPOSBX_OK;
}

static int feed_data(struct rsbx_fingerprint *fp, const struct rsbx_source_event *event,
                     reposbx_error *err)
{
    if (event->length > fp->left || (fp->link && event->length != fp->left))
        return rsbx_fail(err, REPOSBX_EINVALID, "content that does not fit its entry");
    fp->left -= event->length;
    if (fp->skipped) {
        fp->rest_hash.update(fp->rest_hash.state, event->bytes, event->length);
    } else if (fp->link) {
        bool resolved = event->link_state == RSBX_TARGET_REGULAR;

        rsbx_fp_link(&fp->main_hash, fp->path, fp->path_length, event->bytes, event->length,
                     resolved, event->linked_length);
        if (resolved && event->linked_length > 0)
            fp->main_hash.update(fp->main_hash.state, event->linked, event->linked_length);
    } else {
        fp->main_hash.update(fp->main_hash.state, event->bytes, event->length);
    }
    return REPOSBX_OK;
}

int rsbx_fingerprint_feed(struct rsbx_fingerprint *fingerprint,
                          const struct rsbx_source_event *event, reposbx_error *err)
{
    switch (event->kind) {
    case RSBX_SOURCE_ENTRY:
        return feed_entry(fingerprint, event, err);
    case RSBX_SOURCE_DATA:
        return feed_data(fingerprint, event, err);
    case RSBX_SOURCE_NOTE:
    case RSBX_SOURCE_DONE:
        break;
    }
    return REPOSBX_OK;
}

int rsbx_fingerprint_finish(char text[RSBX_FINGERPRINT_BYTES], uint8_t fingerprint_raw[32],
                            uint8_t rest_digest[32], uint64_t *fingerprint_entries,
                            struct rsbx_fingerprint *fingerprint, reposbx_error *err)
{
    static const char prefix[] = "sha256-v2:";

    if (fingerprint->left > 0)
        return rsbx_fail(err, REPOSBX_EINVALID, "the last entry's content is not complete");
    rsbx_fp_end(&fingerprint->main_hash, fingerprint->entries);
    rsbx_sha256_finish(fingerprint->main, fingerprint_raw);
    rsbx_sha256_finish(fingerprint->rest, rest_digest);
    memcpy(text, prefix, sizeof prefix - 1);
    rsbx_hex(text + sizeof prefix - 1, fingerprint_raw, 32);
    *fingerprint_entries = fingerprint->entries;
    return REPOSBX_OK;
}
