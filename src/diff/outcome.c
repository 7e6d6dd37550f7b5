/* SPDX-License-Identifier: Apache-2.0 */
#include "diff/incoming.h"

#include <stdlib.h>
#include <string.h>

#include "base/path.h"
#include "base/search.h"
#include "base/text.h"
#include "diff/internal.h"

#include "base/banned.h"

/* The parent's half of applying a patch from outside: lets the child do it, and works out of its
 * answer which steps make the result out of the base. */

struct planning {
    struct rsbx_incoming_outcome *outcome;
    const struct rsbx_incoming *incoming;
    const struct rsbx_diff *diff;
    const struct rsbx_diff_row *rows;
    size_t capacity;
};

void rsbx_incoming_outcome_dispose(struct rsbx_incoming_outcome *outcome)
{
    for (size_t i = 0; i < outcome->file_count; i++) {
        free(outcome->files[i].file.path);
        free(outcome->files[i].from);
    }
    for (size_t i = 0; i < outcome->step_count; i++)
        free(outcome->steps[i].path);
    free(outcome->files);
    free(outcome->steps);
    free(outcome->contents);
    memset(outcome, 0, sizeof *outcome);
}

void rsbx_incoming_outcome_autop(struct rsbx_incoming_outcome *outcome)
{
    rsbx_incoming_outcome_dispose(outcome);
}

static int add_step(struct planning *planning, enum rsbx_incoming_what what, const char *path,
                    size_t length, reposbx_error *err)
{
    struct rsbx_incoming_outcome *outcome = planning->outcome;
    struct rsbx_incoming_step *step;

    if (outcome->step_count > 0) { /* a folder that several files need, or leave */
        step = &outcome->steps[outcome->step_count - 1];
        if (step->what == what && rsbx_bytes_compare(step->path, step->path_length, path, length) == 0)
            return REPOSBX_OK;
    }
    if (outcome->step_count == planning->capacity) {
        size_t capacity = planning->capacity == 0 ? 64 : 2 * planning->capacity;
        struct rsbx_incoming_step *grown = realloc(outcome->steps, capacity * sizeof *grown);

        if (grown == NULL)
            return rsbx_fail_memory(err);
        outcome->steps = grown;
        planning->capacity = capacity;
    }
    step = &outcome->steps[outcome->step_count];
    *step = (struct rsbx_incoming_step){ .what = what, .path_length = length,
                                         .path = strndup(path, length) };
    if (step->path == NULL)
        return rsbx_fail_memory(err);
    outcome->step_count++;
    return REPOSBX_OK;
}

static int order_entry_below(const void *element, const void *key)
{
    const struct rsbx_diff_entry *entry = element;

    return rsbx_diff_order_below(entry->path, entry->length, key);
}

static int order_target_below(const void *element, const void *key)
{
    const struct rsbx_incoming_target *target = element;

    return rsbx_diff_order_below(target->path, target->length, key);
}

/* The first entry of the base that lies below the folder, if any does. */
static size_t first_entry(const struct rsbx_diff *diff, const char *path, size_t length)
{
    const struct rsbx_diff_key folder = { path, length };

    return rsbx_search_first(diff->entries, diff->entry_count, sizeof *diff->entries, order_entry_below,
                             &folder);
}

/* The same of the patch. */
static size_t first_target(const struct rsbx_incoming *incoming, const char *path, size_t length)
{
    const struct rsbx_diff_key folder = { path, length };

    return rsbx_search_first(incoming->targets, incoming->target_count, sizeof *incoming->targets,
                             order_target_below, &folder);
}

/* Whether anything of the base stays below the folder, or the patch makes something there. */
static bool stays(const struct planning *planning, const char *path, size_t length)
{
    const struct rsbx_diff *diff = planning->diff;
    const struct rsbx_incoming *incoming = planning->incoming;

    for (size_t i = first_entry(diff, path, length);
         i < diff->entry_count &&
         rsbx_diff_is_below(diff->entries[i].path, diff->entries[i].length, path, length);
         i++) {
        const struct rsbx_incoming_target *target =
            rsbx_incoming_find(incoming, diff->entries[i].path, diff->entries[i].length);

        if (target == NULL || target->removed_by == RSBX_NO_SECTION)
            return true;
    }
    for (size_t i = first_target(incoming, path, length);
         i < incoming->target_count &&
         rsbx_diff_is_below(incoming->targets[i].path, incoming->targets[i].length, path, length);
         i++) {
        if (planning->rows[i].mode != 0)
            return true;
    }
    return false;
}

/* What goes, with the highest folder that would be left empty: Git knows no empty folders. A folder
 * that two removals share is looked at once: had it gone with the first, the second one were done. */
static int plan_removals(struct planning *planning, reposbx_error *err)
{
    const struct rsbx_incoming_target *last = NULL;
    const char *gone = NULL; /* the folder that went last */
    size_t gone_length = 0;
    int rc = REPOSBX_OK;

    for (size_t i = 0; rc == REPOSBX_OK && i < planning->incoming->target_count; i++) {
        const struct rsbx_incoming_target *target = &planning->incoming->targets[i];
        size_t length = target->length;

        if (planning->rows[i].mode != 0 ||
            (gone != NULL && rsbx_diff_is_below(target->path, target->length, gone, gone_length)))
            continue;
        for (size_t k = 1; k < target->length; k++) {
            bool shared =
                last != NULL && rsbx_diff_is_below(last->path, last->length, target->path, k);

            if (target->path[k] == '/' && !shared && !stays(planning, target->path, k)) {
                length = k;
                gone = target->path;
                gone_length = k;
                break;
            }
        }
        rc = add_step(planning, RSBX_INCOMING_GONE, target->path, length, err);
        last = target;
    }
    return rc;
}

/* The folders above a new file that the base lacks. */
static int plan_folders(struct planning *planning, const struct rsbx_incoming_target *target,
                        const struct rsbx_incoming_target *before, reposbx_error *err)
{
    const struct rsbx_diff *diff = planning->diff;
    int rc = REPOSBX_OK;

    for (size_t k = 1; rc == REPOSBX_OK && k < target->length; k++) {
        size_t first;

        if (target->path[k] != '/' ||
            (before != NULL && rsbx_diff_is_below(before->path, before->length, target->path, k)))
            continue;
        first = first_entry(diff, target->path, k);
        if (first < diff->entry_count && rsbx_diff_is_below(diff->entries[first].path,
                                                  diff->entries[first].length, target->path, k))
            continue;
        rc = add_step(planning, RSBX_INCOMING_FOLDER, target->path, k, err);
    }
    return rc;
}

static int plan_files(struct planning *planning, reposbx_error *err)
{
    const struct rsbx_incoming_target *before = NULL; /* the last one that was made */
    const char *bytes = planning->outcome->contents;
    int rc = REPOSBX_OK;

    for (size_t i = 0; rc == REPOSBX_OK && i < planning->incoming->target_count; i++) {
        const struct rsbx_incoming_target *target = &planning->incoming->targets[i];
        const struct rsbx_diff_row *row = &planning->rows[i];
        struct rsbx_incoming_step *step;

        if (row->mode == 0)
            continue;
        rc = plan_folders(planning, target, before, err);
        if (rc == REPOSBX_OK)
            rc = add_step(planning, RSBX_INCOMING_FILE, target->path, target->length, err);
        if (rc != REPOSBX_OK)
            return rc;
        step = &planning->outcome->steps[planning->outcome->step_count - 1];
        step->mode = row->mode;
        step->bytes = bytes;
        step->length = (size_t)row->length;
        bytes += row->length;
        before = target;
    }
    return rc;
}

static int fill_file(struct planning *planning, size_t at, reposbx_error *err)
{
    const struct rsbx_incoming_target *target = &planning->incoming->targets[at];
    const struct rsbx_diff_row *row = &planning->rows[at];
    const struct rsbx_diff_entry *entry =
        rsbx_diff_find_entry(planning->diff, target->path, target->length);
    const struct rsbx_incoming_section *section =
        target->made_by != RSBX_NO_SECTION ? &planning->incoming->sections[target->made_by] : NULL;
    const struct rsbx_diff_item *item =
        rsbx_diff_find_item(planning->diff, target->path, target->length);
    struct rsbx_incoming_file *out = &planning->outcome->files[at];

    out->file.path = strndup(target->path, target->length);
    out->file.path_length = target->length;
    out->file.status = (enum rsbx_diff_status)row->status;
    out->file.old_mode = entry != NULL ? entry->mode : 0;
    out->file.new_mode = row->mode;
    out->old_bytes = item != NULL ? item->before.length : 0;
    out->new_bytes = row->length;
    rsbx_hex(out->file.old_oid, row->old_oid, RSBX_OID_BYTES);
    rsbx_hex(out->file.new_oid, row->new_oid, RSBX_OID_BYTES);
    out->file.binary = section != NULL && section->body == RSBX_INCOMING_BINARY;
    planning->outcome->file_count = at + 1;
    if (section != NULL && (section->kind == RSBX_INCOMING_RENAME ||
                            section->kind == RSBX_INCOMING_COPY)) {
        out->from = strdup(section->old_path);
        if (out->from == NULL)
            return rsbx_fail_memory(err);
    }
    return out->file.path != NULL ? REPOSBX_OK : rsbx_fail_memory(err);
}

/* What the child says of the lengths is what came. */
static int check_rows(const struct rsbx_diff_reply *reply, reposbx_error *err)
{
    uint64_t total = 0;

    for (size_t i = 0; i < reply->head.rows; i++) {
        const struct rsbx_diff_row *row = &reply->rows[i];

        if (row->status > RSBX_DIFF_MODE_CHANGED || row->length > reply->head.patch_length ||
            (row->mode == 0 && row->length != 0))
            return rsbx_fail(err, REPOSBX_EPROTOCOL, "gave an answer out of bounds");
        total += row->length;
    }
    return total == reply->head.patch_length
               ? REPOSBX_OK
               : rsbx_fail(err, REPOSBX_EPROTOCOL, "gave an answer out of bounds");
}

int rsbx_incoming_apply(struct rsbx_incoming_outcome *out, const struct rsbx_incoming *incoming,
                        struct rsbx_diff *diff, const struct rsbx_diff_options *options,
                        reposbx_error *err)
{
    RSBX_AUTO(rsbx_diff_reply) struct rsbx_diff_reply reply = { .rows = NULL, .patch = NULL };
    RSBX_AUTO(rsbx_incoming_outcome) struct rsbx_incoming_outcome outcome = { .applies = false };
    struct rsbx_diff_job job = { .diff = diff, .max_bytes = options->max_bytes,
                                 .incoming = incoming };
    struct planning planning = { &outcome, incoming, diff, NULL, 0 };
    reposbx_error own = REPOSBX_ERROR_INIT;
    int rc;

    if (err == NULL)
        err = &own;
    rc = rsbx_diff_ask(&reply, &job, RSBX_DIFF_WALL_MS, err);
    if (rc == RSBX_DIFF_NO_FIT) {
        memcpy(outcome.reason, err->message, sizeof outcome.reason);
        memset(err, 0, sizeof *err);
        *out = outcome;
        memset(&outcome, 0, sizeof outcome);
        return REPOSBX_OK;
    }
    if (rc == REPOSBX_OK)
        rc = check_rows(&reply, err);
    if (rc != REPOSBX_OK)
        return rc;
    planning.rows = reply.rows;
    outcome.applies = true;
    outcome.contents = rsbx_text_steal(&reply.patch);
    rsbx_hex(outcome.base_tree, reply.head.base_tree, RSBX_OID_BYTES);
    rsbx_hex(outcome.result_tree, reply.head.result_tree, RSBX_OID_BYTES);
    outcome.files = calloc(incoming->target_count + 1, sizeof *outcome.files);
    if (outcome.files == NULL)
        return rsbx_fail_memory(err);
    for (size_t i = 0; rc == REPOSBX_OK && i < incoming->target_count; i++)
        rc = fill_file(&planning, i, err);
    if (rc == REPOSBX_OK)
        rc = plan_removals(&planning, err);
    if (rc == REPOSBX_OK)
        rc = plan_files(&planning, err);
    if (rc == REPOSBX_OK) {
        *out = outcome;
        memset(&outcome, 0, sizeof outcome);
    }
    return rc;
}
