/* SPDX-License-Identifier: Apache-2.0 */
#include "diff/internal.h"

#include <stdlib.h>
#include <string.h>

#include "base/child.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/path.h"
#include "base/text.h"
#include "codec/git2.h"

#include "base/banned.h"

struct answer {
    struct rsbx_diff_head head;
    struct rsbx_diff_row *rows;
    struct rsbx_buf patch;
};

/* Nothing here opens a repository; the search paths are emptied all the same, so that no file of
 * the host could matter if the library looked for one. */
static int start_library(reposbx_error *err)
{
    static const git_config_level_t levels[] = { GIT_CONFIG_LEVEL_PROGRAMDATA,
                                                 GIT_CONFIG_LEVEL_SYSTEM, GIT_CONFIG_LEVEL_XDG,
                                                 GIT_CONFIG_LEVEL_GLOBAL };

    if (rsbx_child_library(rsbx_git2.git_libgit2_init) < 0)
        return rsbx_diff_library_failed(err, "starting libgit2");
    for (size_t i = 0; i < sizeof levels / sizeof levels[0]; i++) {
        if (rsbx_git2.git_libgit2_opts(GIT_OPT_SET_SEARCH_PATH, (int)levels[i], "") != 0)
            return rsbx_diff_library_failed(err, "setting up libgit2");
    }
    if (rsbx_git2.git_libgit2_opts(GIT_OPT_SET_TEMPLATE_PATH, "") != 0)
        return rsbx_diff_library_failed(err, "setting up libgit2");
    return REPOSBX_OK;
}

/* Fills in the ids of both sides and holds the old one against the base. */
static int identify(struct rsbx_diff_item *item, const struct rsbx_diff *diff, reposbx_error *err)
{
    static char nothing[1] = "";
    const struct rsbx_diff_entry *entry = rsbx_diff_find_entry(diff, item->path, item->length);
    int rc = REPOSBX_OK;

    if (item->before.bytes == NULL)
        item->before.bytes = nothing;
    if (item->after.bytes == NULL)
        item->after.bytes = nothing;
    if (item->before.mode != (entry == NULL ? 0 : entry->mode))
        return rsbx_fail(err, REPOSBX_EPROTOCOL, "%s has another mode than in the base tree",
                         item->path);
    if (entry != NULL) {
        rc = rsbx_diff_blob_id(item->before.oid, item->before.bytes, item->before.length, err);
        if (rc == REPOSBX_OK && memcmp(entry->oid, item->before.oid, RSBX_OID_BYTES) != 0)
            return rsbx_fail(err, REPOSBX_EPROTOCOL,
                             "%s has another old content than in the base tree", item->path);
    }
    if (rc == REPOSBX_OK && item->after.mode != 0)
        rc = rsbx_diff_blob_id(item->after.oid, item->after.bytes, item->after.length, err);
    return rc;
}

static bool same(const struct rsbx_diff_item *item)
{
    return item->before.mode == item->after.mode &&
           memcmp(item->before.oid, item->after.oid, RSBX_OID_BYTES) == 0;
}

static enum rsbx_diff_status status_of(const struct rsbx_diff_item *item)
{
    if (item->before.mode == 0)
        return RSBX_DIFF_ADDED;
    if (item->after.mode == 0)
        return RSBX_DIFF_DELETED;
    if ((item->before.mode == 0120000U) != (item->after.mode == 0120000U))
        return RSBX_DIFF_TYPE_CHANGED;
    return memcmp(item->before.oid, item->after.oid, RSBX_OID_BYTES) == 0 ? RSBX_DIFF_MODE_CHANGED
                                                                          : RSBX_DIFF_MODIFIED;
}

/* The tree that base and changes make, without the patch. */
static int result_tree(uint8_t out[RSBX_OID_BYTES], const struct rsbx_diff *diff,
                       reposbx_error *err)
{
    RSBX_AUTO(rsbx_memory) void *memory =
        calloc(diff->item_count + 1, sizeof(struct rsbx_diff_entry));
    struct rsbx_diff_entry *changes = memory;

    if (memory == NULL)
        return rsbx_fail_memory(err);
    for (size_t i = 0; i < diff->item_count; i++) {
        changes[i].path = diff->items[i].path;
        changes[i].length = diff->items[i].length;
        changes[i].mode = diff->items[i].after.mode;
        memcpy(changes[i].oid, diff->items[i].after.oid, RSBX_OID_BYTES);
    }
    return rsbx_diff_merged_tree(out, diff, changes, diff->item_count, err);
}

static int write_patch(struct answer *answer, const struct rsbx_diff *diff, reposbx_error *err)
{
    int rc = REPOSBX_OK;

    for (size_t i = 0; rc == REPOSBX_OK && i < diff->item_count; i++) {
        const struct rsbx_diff_item *item = &diff->items[i];
        struct rsbx_diff_row *row = &answer->rows[i];
        struct rsbx_diff_counts counts = { 0, 0, false };

        row->status = RSBX_DIFF_SAME;
        if (same(item))
            continue;
        rc = rsbx_diff_patch_item(&answer->patch, &counts, item, err);
        row->status = (uint8_t)status_of(item);
        row->binary = counts.binary;
        row->insertions = counts.binary ? 0 : counts.insertions;
        row->deletions = counts.binary ? 0 : counts.deletions;
        memcpy(row->old_oid, item->before.oid, RSBX_OID_BYTES);
        memcpy(row->new_oid, item->after.oid, RSBX_OID_BYTES);
    }
    return rc;
}

static int check_unique(const struct rsbx_diff *diff, reposbx_error *err)
{
    for (size_t i = 1; i < diff->item_count; i++) {
        const struct rsbx_diff_item *a = &diff->items[i - 1], *b = &diff->items[i];

        if (rsbx_bytes_compare(a->path, a->length, b->path, b->length) == 0)
            return rsbx_fail(err, REPOSBX_EINVALID, "%s changes twice", a->path);
    }
    return REPOSBX_OK;
}

static size_t row_count(const struct rsbx_diff_job *job)
{
    return job->incoming != NULL ? job->incoming->target_count : job->diff->item_count;
}

/* The other task: a patch from outside is applied. */
static int fit(struct answer *answer, const struct rsbx_diff_job *job, reposbx_error *err)
{
    answer->patch.limit = (size_t)job->max_bytes;
    answer->head.rows = row_count(job);
    return rsbx_incoming_fit(answer->rows, &answer->patch, answer->head.result_tree, job->incoming,
                             job->diff, err);
}

static int make_answer(struct answer *answer, const struct rsbx_diff_job *job, reposbx_error *err)
{
    struct rsbx_diff *diff = job->diff;
    char have[2 * RSBX_OID_BYTES + 1], want[2 * RSBX_OID_BYTES + 1];
    int rc = start_library(err);

    if (rc == REPOSBX_OK)
        rc = rsbx_diff_merged_tree(answer->head.base_tree, diff, NULL, 0, err);
    if (rc != REPOSBX_OK || job->base_only)
        return rc;
    if (job->check_base &&
        memcmp(answer->head.base_tree, job->base_tree, RSBX_OID_BYTES) != 0) {
        rsbx_hex(have, answer->head.base_tree, RSBX_OID_BYTES);
        rsbx_hex(want, job->base_tree, RSBX_OID_BYTES);
        return rsbx_fail(err, REPOSBX_EPROTOCOL, "the base entries make the tree %s, not %s", have,
                         want);
    }
    answer->rows = calloc(row_count(job) + 1, sizeof *answer->rows);
    if (answer->rows == NULL)
        return rsbx_fail_memory(err);
    rc = check_unique(diff, err);
    for (size_t i = 0; rc == REPOSBX_OK && i < diff->item_count; i++)
        rc = identify(&diff->items[i], diff, err);
    if (rc != REPOSBX_OK || job->incoming != NULL)
        return rc == REPOSBX_OK ? fit(answer, job, err) : rc;
    if (rc == REPOSBX_OK)
        rc = result_tree(answer->head.result_tree, diff, err);
    answer->patch.limit = job->max_bytes > SIZE_MAX / 4 ? SIZE_MAX / 4 : (size_t)job->max_bytes;
    if (rc == REPOSBX_OK)
        rc = write_patch(answer, diff, err);
    if (rc == REPOSBX_OK)
        rc = rsbx_diff_prove(diff, answer->patch.data == NULL ? "" : answer->patch.data,
                             answer->patch.length, answer->head.result_tree, err);
    answer->head.rows = diff->item_count;
    return rc;
}

int rsbx_diff_work(int pipe_fd, void *payload)
{
    static struct answer answer; /* the process ends with this call: nothing is released */
    reposbx_error err = REPOSBX_ERROR_INIT;
    int rc = make_answer(&answer, payload, &err);

    answer.head.patch_length = answer.patch.length;
    if (rc != REPOSBX_OK) {
        memset(&answer.head, 0, sizeof answer.head);
        answer.head.code = rc;
        answer.head.message_length = (uint32_t)strlen(err.message);
        if (rsbx_write_all(pipe_fd, &answer.head, sizeof answer.head) != 0 ||
            rsbx_write_all(pipe_fd, err.message, answer.head.message_length) != 0)
            return 1;
        return 0;
    }
    if (rsbx_write_all(pipe_fd, &answer.head, sizeof answer.head) != 0 ||
        rsbx_write_all(pipe_fd, answer.rows, answer.head.rows * sizeof *answer.rows) != 0 ||
        rsbx_write_all(pipe_fd, answer.patch.data, answer.patch.length) != 0)
        return 1;
    return 0;
}
