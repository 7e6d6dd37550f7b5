/* SPDX-License-Identifier: Apache-2.0 */
#include "diff/internal.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/path.h"
#include "base/text.h"

#include "base/banned.h"

/*
 * Applies a patch from outside to the base, in the child. Every section reads the base alone, so
 * their order means nothing; what the base lacks or has otherwise is no fit, and nothing is
 * searched for.
 */

/* Linux takes no longer target. */
#define MAX_TARGET_BYTES 4095U

struct fitting {
    const struct rsbx_incoming *incoming;
    const struct rsbx_diff *diff;
    struct rsbx_buf *contents;
};

static int no_fit(const char *path, const char *why, reposbx_error *err)
{
    return rsbx_fail(err, RSBX_DIFF_NO_FIT, "%s: %s", path, why);
}

static const struct rsbx_diff_entry *old_entry(const struct fitting *fitting,
                                               const struct rsbx_incoming_section *section)
{
    return rsbx_diff_find_entry(fitting->diff, section->old_path, section->old_length);
}

static bool starts_with(const uint8_t id[RSBX_OID_BYTES], const char *digits)
{
    char hex[2 * RSBX_OID_BYTES + 1];

    rsbx_hex(hex, id, RSBX_OID_BYTES);
    return strncmp(hex, digits, strlen(digits)) == 0;
}

/* The old side is there, as the section says. */
static int check_old(const struct fitting *fitting, const struct rsbx_incoming_section *section,
                     reposbx_error *err)
{
    const struct rsbx_diff_entry *entry;

    if (section->kind == RSBX_INCOMING_CREATE)
        return REPOSBX_OK;
    entry = old_entry(fitting, section);
    if (entry == NULL)
        return no_fit(section->old_path, "there is no such file", err);
    if (section->old_mode != 0 && section->old_mode != entry->mode)
        return no_fit(section->old_path, "it has another mode than the patch says", err);
    if (section->old_id[0] != '\0' && !starts_with(entry->oid, section->old_id))
        return no_fit(section->old_path, "the patch is for another content of it", err);
    return REPOSBX_OK;
}

/* Nothing is in the way of a new file: neither at its path nor above it. */
static int check_new(const struct fitting *fitting, const struct rsbx_incoming_target *target,
                     reposbx_error *err)
{
    if (target->removed_by == RSBX_NO_SECTION &&
        rsbx_diff_find_entry(fitting->diff, target->path, target->length) != NULL)
        return no_fit(target->path, "it is there already", err);
    for (size_t k = 1; k < target->length; k++) {
        const struct rsbx_incoming_target *change;
        const struct rsbx_diff_entry *above;

        if (target->path[k] != '/')
            continue;
        above = rsbx_diff_find_entry(fitting->diff, target->path, k);
        if (above == NULL)
            continue;
        if (above->mode == 0120000U)
            return rsbx_fail(err, REPOSBX_EPOLICY, "%s lies behind the symlink %s", target->path,
                             above->path);
        change = rsbx_incoming_find(fitting->incoming, target->path, k);
        if (change == NULL || change->removed_by == RSBX_NO_SECTION)
            return no_fit(target->path, "a file stands where it needs a folder", err);
    }
    return REPOSBX_OK;
}

/* A symlink may lead to what lies in the tree, counted by its text alone; what Git reads may be none. */
static int check_link(const struct rsbx_incoming_target *target, const char *text, size_t length,
                      reposbx_error *err)
{
    size_t depth = 0, name = 0;

    for (size_t i = 0; i < target->length; i++) {
        depth += target->path[i] == '/';
        name = target->path[i] == '/' ? i + 1 : name;
    }
    if (rsbx_name_is_never_link(target->path + name, target->length - name))
        return rsbx_fail(err, REPOSBX_EPOLICY, "%s must not be a symlink", target->path);
    if (length == 0 || length > MAX_TARGET_BYTES || memchr(text, '\0', length) != NULL)
        return rsbx_fail(err, REPOSBX_EMALFORMED, "%s: no symlink can have this target",
                         target->path);
    for (size_t start = 0, end; start < length; start = end + 1) {
        const char *slash = memchr(text + start, '/', length - start);
        bool up;

        end = slash == NULL ? length : (size_t)(slash - text);
        up = end - start == 2 && memcmp(text + start, "..", 2) == 0;
        if ((up && depth == 0) || (end == 0 && start == 0))
            return rsbx_fail(err, REPOSBX_EPOLICY, "the symlink %s leads out of the tree",
                             target->path);
        if (up)
            depth--;
        else if (end > start && !(end - start == 1 && text[start] == '.'))
            depth++;
    }
    return REPOSBX_OK;
}

/* The new content of a section from the old one. */
static int apply_body(struct rsbx_buf *after, const struct rsbx_incoming_section *section,
                      const char *before, size_t length, reposbx_error *err)
{
    RSBX_AUTO(rsbx_buf) struct rsbx_buf back = RSBX_BUF_INIT(RSBX_MAX_BLOB_BYTES);
    struct rsbx_diff_cursor cursor = section->content;
    int rc = REPOSBX_OK;

    switch (section->body) {
    case RSBX_INCOMING_TEXT:
        return rsbx_diff_apply_text(after, before, length, &cursor, err);
    case RSBX_INCOMING_BINARY:
        rc = rsbx_diff_apply_binary(after, before, length, &cursor, err);
        if (rc != REPOSBX_OK || cursor.at == cursor.end)
            return rc;
        rc = rsbx_diff_apply_binary(&back, after->data == NULL ? "" : after->data, after->length,
                                    &cursor, err);
        if (rc == REPOSBX_OK && rsbx_bytes_compare(back.data, back.length, before, length) != 0)
            return rsbx_fail(err, REPOSBX_EMALFORMED, "the way back of a binary change is wrong");
        return rc;
    case RSBX_INCOMING_NOTHING:
        break;
    }
    /* What is moved, or changes its mode, keeps its content; of the rest only the empty file has
     * nothing to say. */
    if (section->kind == RSBX_INCOMING_CREATE)
        return REPOSBX_OK;
    if (section->kind == RSBX_INCOMING_DELETE && length != 0)
        return rsbx_fail(err, RSBX_DIFF_NO_FIT, "a file that is not empty goes without its content");
    return section->kind == RSBX_INCOMING_DELETE ? REPOSBX_OK
                                                 : rsbx_buf_append(after, before, length, err);
}

/* Applies one section; `after` and its id. */
static int apply(struct rsbx_buf *after, uint8_t id[RSBX_OID_BYTES], const struct fitting *fitting,
                 const struct rsbx_incoming_section *section, reposbx_error *err)
{
    bool old = section->kind != RSBX_INCOMING_CREATE, new = section->kind != RSBX_INCOMING_DELETE;
    const struct rsbx_diff_item *item =
        old ? rsbx_diff_find_item(fitting->diff, section->old_path, section->old_length) : NULL;
    int rc;

    if (old && item == NULL)
        return rsbx_fail(err, REPOSBX_EINTERNAL, "%s was not read", section->old_path);
    rc = apply_body(after, section, old ? item->before.bytes : "", old ? item->before.length : 0,
                    err);
    if (rc == REPOSBX_OK && !new && after->length != 0)
        rc = rsbx_fail(err, RSBX_DIFF_NO_FIT, "it is deleted, and something is left of it");
    if (rc == REPOSBX_OK && new)
        rc = rsbx_diff_blob_id(id, after->data, after->length, err);
    if (rc == REPOSBX_OK && new && section->new_id[0] != '\0' && !starts_with(id, section->new_id))
        rc = rsbx_fail(err, REPOSBX_EMALFORMED, "it makes another content than its index line says");
    if (rc == REPOSBX_EMALFORMED || rc == RSBX_DIFF_NO_FIT)
        rsbx_context(err, "%s (line %zu of the patch)", new ? section->new_path : section->old_path,
                     section->line);
    return rc;
}

static int fit_target(struct rsbx_diff_row *row, struct fitting *fitting,
                      const struct rsbx_incoming_target *target, reposbx_error *err)
{
    const struct rsbx_incoming_section *sections = fitting->incoming->sections, *section;
    const struct rsbx_diff_entry *entry =
        rsbx_diff_find_entry(fitting->diff, target->path, target->length);
    RSBX_AUTO(rsbx_buf) struct rsbx_buf after = RSBX_BUF_INIT(RSBX_MAX_BLOB_BYTES);
    int rc = REPOSBX_OK;

    if (entry != NULL)
        memcpy(row->old_oid, entry->oid, RSBX_OID_BYTES);
    row->status = RSBX_DIFF_DELETED;
    /* Of a change of type both sections are applied; a rename leaves its file by being one. */
    if (target->removed_by != RSBX_NO_SECTION &&
        sections[target->removed_by].kind == RSBX_INCOMING_DELETE)
        rc = apply(&after, row->new_oid, fitting, &sections[target->removed_by], err);
    if (rc != REPOSBX_OK || target->made_by == RSBX_NO_SECTION)
        return rc;
    section = &sections[target->made_by];
    rc = check_new(fitting, target, err);
    if (rc == REPOSBX_OK)
        rc = apply(&after, row->new_oid, fitting, section, err);
    if (rc != REPOSBX_OK)
        return rc;
    row->mode = section->new_mode != 0 ? section->new_mode : old_entry(fitting, section)->mode;
    row->length = after.length;
    if (entry != NULL && entry->mode == row->mode &&
        memcmp(row->old_oid, row->new_oid, RSBX_OID_BYTES) == 0)
        return rsbx_fail(err, REPOSBX_EMALFORMED, "line %zu of the patch: a section changes nothing",
                         section->line);
    row->status = entry == NULL ? RSBX_DIFF_ADDED
                  : (entry->mode == 0120000U) != (row->mode == 0120000U) ? RSBX_DIFF_TYPE_CHANGED
                  : memcmp(row->old_oid, row->new_oid, RSBX_OID_BYTES) == 0 ? RSBX_DIFF_MODE_CHANGED
                                                                            : RSBX_DIFF_MODIFIED;
    if (row->mode == 0120000U)
        rc = check_link(target, after.data == NULL ? "" : after.data, after.length, err);
    return rc == REPOSBX_OK ? rsbx_buf_append(fitting->contents, after.data, after.length, err)
                            : rc;
}

static int make_tree(uint8_t out[RSBX_OID_BYTES], const struct rsbx_diff_row *rows,
                     const struct fitting *fitting, reposbx_error *err)
{
    const struct rsbx_incoming *incoming = fitting->incoming;
    RSBX_AUTO(rsbx_memory) void *memory =
        calloc(incoming->target_count + 1, sizeof(struct rsbx_diff_entry));
    struct rsbx_diff_entry *changes = memory;
    int rc;

    if (memory == NULL)
        return rsbx_fail_memory(err);
    for (size_t i = 0; i < incoming->target_count; i++) {
        /* Not written to: an entry of a tree owns its path. */
        changes[i].path = (char *)(uintptr_t)incoming->targets[i].path;
        changes[i].length = incoming->targets[i].length;
        changes[i].mode = rows[i].mode;
        memcpy(changes[i].oid, rows[i].new_oid, RSBX_OID_BYTES);
    }
    rc = rsbx_diff_merged_tree(out, fitting->diff, changes, incoming->target_count, err);
    if (rc != REPOSBX_EINVALID)
        return rc;
    if (err != NULL) /* a path that would be both a file and a folder */
        err->code = RSBX_DIFF_NO_FIT;
    return RSBX_DIFF_NO_FIT;
}

int rsbx_incoming_fit(struct rsbx_diff_row *rows, struct rsbx_buf *contents,
                      uint8_t result_tree[RSBX_OID_BYTES], const struct rsbx_incoming *incoming,
                      const struct rsbx_diff *diff, reposbx_error *err)
{
    struct fitting fitting = { incoming, diff, contents };
    int rc = REPOSBX_OK;

    for (size_t i = 0; rc == REPOSBX_OK && i < incoming->count; i++)
        rc = check_old(&fitting, &incoming->sections[i], err);
    for (size_t i = 0; rc == REPOSBX_OK && i < incoming->target_count; i++)
        rc = fit_target(&rows[i], &fitting, &incoming->targets[i], err);
    if (rc == REPOSBX_OK)
        rc = make_tree(result_tree, rows, &fitting, err);
    return rc;
}
