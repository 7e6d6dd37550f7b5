/* SPDX-License-Identifier: Apache-2.0 */
#include "diff/diff.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/child.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/path.h"
#include "base/text.h"
#include "diff/internal.h"

#include "base/banned.h"

/* The parent's half: forks the child, which inherits entries and contents, and reads its answer
 * within the deadline. Nothing of it is believed beyond what the parent can bound. */

/* Beyond what the parent already holds: the line tables of two texts of some million lines, the
 * patch, and one content at a time in the proof. */
#define CHILD_MEMORY_BYTES (2048ULL * 1024ULL * 1024ULL)

static int compare_entries(const void *a, const void *b)
{
    const struct rsbx_diff_entry *left = a, *right = b;

    return rsbx_bytes_compare(left->path, left->length, right->path, right->length);
}

static int compare_items(const void *a, const void *b)
{
    const struct rsbx_diff_item *left = a, *right = b;

    return rsbx_bytes_compare(left->path, left->length, right->path, right->length);
}

static void sort_entries(struct rsbx_diff *diff)
{
    if (!diff->entries_sorted && diff->entry_count > 1)
        qsort(diff->entries, diff->entry_count, sizeof *diff->entries, compare_entries);
    diff->entries_sorted = true;
}

void rsbx_diff_sort_items(struct rsbx_diff *diff)
{
    if (!diff->items_sorted && diff->item_count > 1)
        qsort(diff->items, diff->item_count, sizeof *diff->items, compare_items);
    diff->items_sorted = true;
}

/* RLIMIT_AS counts what the child inherits, too. */
static int memory_limit(uint64_t *out, const struct rsbx_diff *diff, reposbx_error *err)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    (void)diff;
    (void)err;
    *out = UINT64_MAX; /* shadow memory is reserved by the terabyte */
    return REPOSBX_OK;
#else
    char text[128];
    unsigned long long pages;
    char *end;
    int rc = rsbx_read_small(text, sizeof text, "/proc/self/statm", err);

    if (rc != REPOSBX_OK)
        return rc;
    errno = 0;
    pages = strtoull(text, &end, 10);
    if (end == text || errno != 0)
        return rsbx_fail(err, REPOSBX_EINTERNAL, "cannot read the size of this process");
    *out = pages * (unsigned long long)sysconf(_SC_PAGESIZE) + CHILD_MEMORY_BYTES +
           3 * diff->content_bytes;
    return REPOSBX_OK;
#endif
}

static int read_part(void *out, size_t length, int fd, struct rsbx_deadline deadline,
                     reposbx_error *err)
{
    char *place = out;

    while (length > 0) {
        int ready = rsbx_wait_fd(fd, POLLIN, deadline);
        ssize_t got;

        if (ready == 0)
            return rsbx_fail(err, REPOSBX_ELIMIT, "took too long and was stopped");
        got = ready < 0 ? -1 : read(fd, place, length);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return rsbx_fail_errno(err, REPOSBX_EIO, "cannot read from the child");
        if (got == 0)
            return rsbx_fail(err, REPOSBX_EPROTOCOL, "ended without an answer");
        place += got;
        length -= (size_t)got;
    }
    return REPOSBX_OK;
}

void rsbx_diff_reply_autop(struct rsbx_diff_reply *reply)
{
    free(reply->rows);
    free(reply->patch);
}

static int read_failure(const struct rsbx_diff_head *head, int fd, struct rsbx_deadline deadline,
                        reposbx_error *err)
{
    char message[REPOSBX_MESSAGE_BYTES];
    int rc;

    if (head->code > 0 || head->code < REPOSBX_ECANCELLED ||
        head->message_length >= sizeof message)
        return rsbx_fail(err, REPOSBX_EPROTOCOL, "gave an answer out of bounds");
    rc = read_part(message, head->message_length, fd, deadline, err);
    if (rc != REPOSBX_OK)
        return rc;
    message[head->message_length] = '\0';
    return rsbx_fail(err, head->code, "%s", message);
}

static int read_reply(struct rsbx_diff_reply *reply, const struct rsbx_diff_job *job, int fd,
                      struct rsbx_deadline deadline, reposbx_error *err)
{
    uint64_t rows = job->base_only          ? 0
                    : job->incoming != NULL ? job->incoming->target_count
                                            : job->diff->item_count;
    int rc = read_part(&reply->head, sizeof reply->head, fd, deadline, err);

    if (rc != REPOSBX_OK)
        return rc;
    if (reply->head.code != 0)
        return read_failure(&reply->head, fd, deadline, err);
    if (reply->head.rows != rows || reply->head.patch_length > job->max_bytes)
        return rsbx_fail(err, REPOSBX_EPROTOCOL, "gave an answer out of bounds");
    reply->rows = calloc((size_t)reply->head.rows + 1, sizeof *reply->rows);
    reply->patch = malloc((size_t)reply->head.patch_length + 1);
    if (reply->rows == NULL || reply->patch == NULL)
        return rsbx_fail_memory(err);
    rc = read_part(reply->rows, (size_t)reply->head.rows * sizeof *reply->rows, fd, deadline, err);
    if (rc == REPOSBX_OK)
        rc = read_part(reply->patch, (size_t)reply->head.patch_length, fd, deadline, err);
    reply->patch[reply->head.patch_length] = '\0';
    return rc;
}

int rsbx_diff_ask(struct rsbx_diff_reply *reply, struct rsbx_diff_job *job, uint64_t wall_ms,
                  reposbx_error *err)
{
    struct rsbx_child_limits limits = { .cpu_seconds = wall_ms / 1000 + 1, .keep_fd = -1 };
    struct rsbx_deadline deadline = rsbx_deadline_in_ms(wall_ms);
    struct rsbx_child child;
    reposbx_error ended = REPOSBX_ERROR_INIT;
    int rc, end;

    sort_entries(job->diff);
    rsbx_diff_sort_items(job->diff);
    rc = memory_limit(&limits.memory_bytes, job->diff, err);
    if (rc == REPOSBX_OK)
        rc = rsbx_child_start(&child, &limits, rsbx_diff_work, job, err);
    if (rc != REPOSBX_OK)
        return rc;
    rc = read_reply(reply, job, child.pipe_fd, deadline, err);
    /* After a failure nobody waits for it: the moment that has passed makes finish kill it. */
    end = rsbx_child_finish(&child, rc == REPOSBX_OK ? deadline : rsbx_deadline_in_ms(0), NULL,
                            &ended);
    if (rc == REPOSBX_OK && end != REPOSBX_OK)
        rc = rsbx_fail(err, end, "%s", ended.message);
    if (rc != REPOSBX_OK && job->base_only)
        rsbx_context(err, "the base tree");
    else if (rc != REPOSBX_OK && job->incoming == NULL)
        rsbx_context(err, "the diff");
    return rc;
}

static int fill_file(struct rsbx_diff_file *file, const struct rsbx_diff_item *item,
                     const struct rsbx_diff_row *row, reposbx_error *err)
{
    if (row->status > RSBX_DIFF_MODE_CHANGED)
        return rsbx_fail(err, REPOSBX_EPROTOCOL, "the diff gave an unknown status");
    file->path = malloc(item->length + 1);
    if (file->path == NULL)
        return rsbx_fail_memory(err);
    memcpy(file->path, item->path, item->length + 1);
    file->path_length = item->length;
    file->status = (enum rsbx_diff_status)row->status;
    file->old_mode = item->before.mode;
    file->new_mode = item->after.mode;
    rsbx_hex(file->old_oid, row->old_oid, RSBX_OID_BYTES);
    rsbx_hex(file->new_oid, row->new_oid, RSBX_OID_BYTES);
    file->insertions = row->insertions;
    file->deletions = row->deletions;
    file->binary = row->binary != 0;
    return REPOSBX_OK;
}

int rsbx_diff_run(struct rsbx_diff_result *out, struct rsbx_diff *diff,
                  const struct rsbx_diff_options *options, reposbx_error *err)
{
    RSBX_AUTO(rsbx_diff_reply) struct rsbx_diff_reply reply = { .rows = NULL, .patch = NULL };
    struct rsbx_diff_job job = { .diff = diff, .max_bytes = options->max_bytes };
    struct rsbx_diff_result result = { .patch = NULL };
    int rc;

    if (options->base_tree != NULL) {
        job.check_base = true;
        if (!rsbx_is_hex(options->base_tree, 2 * RSBX_OID_BYTES) ||
            !rsbx_unhex(job.base_tree, RSBX_OID_BYTES, options->base_tree))
            return rsbx_fail(err, REPOSBX_EINVALID, "the base tree is not 40 hex digits");
    }
    rc = rsbx_diff_ask(&reply, &job, options->wall_ms == 0 ? RSBX_DIFF_WALL_MS : options->wall_ms,
                       err);
    if (rc != REPOSBX_OK)
        return rc;
    result.files = calloc(diff->item_count + 1, sizeof *result.files);
    if (result.files == NULL)
        return rsbx_fail_memory(err);
    for (size_t i = 0; rc == REPOSBX_OK && i < diff->item_count; i++) {
        if (reply.rows[i].status == RSBX_DIFF_SAME)
            continue;
        rc = fill_file(&result.files[result.file_count], &diff->items[i], &reply.rows[i], err);
        result.file_count += rc == REPOSBX_OK;
    }
    if (rc != REPOSBX_OK) {
        rsbx_diff_result_dispose(&result);
        return rc;
    }
    result.patch_length = (size_t)reply.head.patch_length;
    result.patch = rsbx_text_steal(&reply.patch);
    rsbx_hex(result.base_tree, reply.head.base_tree, RSBX_OID_BYTES);
    rsbx_hex(result.result_tree, reply.head.result_tree, RSBX_OID_BYTES);
    *out = result;
    return REPOSBX_OK;
}

int rsbx_diff_base_tree(char out[41], struct rsbx_diff *diff, reposbx_error *err)
{
    RSBX_AUTO(rsbx_diff_reply) struct rsbx_diff_reply reply = { .rows = NULL, .patch = NULL };
    struct rsbx_diff_job job = { .diff = diff, .base_only = true };
    int rc = rsbx_diff_ask(&reply, &job, RSBX_DIFF_WALL_MS, err);

    if (rc == REPOSBX_OK)
        rsbx_hex(out, reply.head.base_tree, RSBX_OID_BYTES);
    return rc;
}
