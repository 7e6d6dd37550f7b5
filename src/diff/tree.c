/* SPDX-License-Identifier: Apache-2.0 */
#include "diff/internal.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "base/path.h"
#include "base/search.h"
#include "codec/git2.h"

#include "base/banned.h"

/*
 * Tree ids from a sorted list of paths, some of them folders that go by their own id. Byte order of
 * whole paths is git's order of tree entries at every level (a folder sorts as if its name ended in
 * '/'), and the entries below one folder stand together; so one pass with one open buffer a level is
 * enough. Depth is bounded by the path rules.
 */

/* One tree object: RSBX_MAX_ENTRIES entries with names of average length stay far below. */
#define MAX_TREE_BYTES (256U * 1024U * 1024U)

struct level {
    struct rsbx_buf body;
    size_t prefix; /* bytes of the current path that name this folder, with the slash */
};

struct builder {
    struct level levels[RSBX_MAX_PATH_COMPONENTS + 1];
    size_t depth;
    const struct rsbx_diff_entry *last;
    const struct rsbx_diff_entry *const *entries;
    size_t count;
};
typedef struct builder *builder_ptr;

static void builder_free(struct builder *builder)
{
    for (size_t i = 0; i <= RSBX_MAX_PATH_COMPONENTS; i++)
        rsbx_buf_dispose(&builder->levels[i].body);
    free(builder);
}

RSBX_CLEANUP(builder, builder_ptr, builder_free);

int rsbx_diff_library_failed(reposbx_error *err, const char *what)
{
    const git_error *last = rsbx_git2.git_error_last();

    if (last != NULL && last->klass == GIT_ERROR_NOMEMORY)
        return rsbx_fail(err, REPOSBX_ELIMIT, "%s needs more memory than a diff may use", what);
    return rsbx_fail(err, REPOSBX_EINTERNAL, "%s failed: %s", what,
                     last != NULL && last->message != NULL ? last->message : "no reason given");
}

static int object_id(uint8_t out[RSBX_OID_BYTES], const void *bytes, size_t length,
                     git_object_t type, reposbx_error *err)
{
    git_oid oid;

    if (rsbx_git2.git_odb_hash(&oid, bytes == NULL ? "" : bytes, length, type) != 0)
        return rsbx_diff_library_failed(err, "hashing an object");
    memcpy(out, oid.id, RSBX_OID_BYTES);
    return REPOSBX_OK;
}

int rsbx_diff_blob_id(uint8_t out[RSBX_OID_BYTES], const void *bytes, size_t length,
                      reposbx_error *err)
{
    return object_id(out, bytes, length, GIT_OBJECT_BLOB, err);
}

static int append_entry(struct rsbx_buf *body, const char *mode, const char *name, size_t length,
                        const uint8_t oid[RSBX_OID_BYTES], reposbx_error *err)
{
    int rc = rsbx_buf_text(body, mode, err);

    if (rc == REPOSBX_OK)
        rc = rsbx_buf_append(body, name, length, err);
    if (rc == REPOSBX_OK)
        rc = rsbx_buf_append(body, "", 1, err);
    if (rc == REPOSBX_OK)
        rc = rsbx_buf_append(body, oid, RSBX_OID_BYTES, err);
    return rc;
}

static int close_level(struct builder *builder, reposbx_error *err)
{
    struct level *level = &builder->levels[builder->depth];
    struct level *above = &builder->levels[builder->depth - 1];
    uint8_t oid[RSBX_OID_BYTES];
    int rc = object_id(oid, level->body.data, level->body.length, GIT_OBJECT_TREE, err);

    if (rc != REPOSBX_OK)
        return rc;
    builder->depth--;
    return append_entry(&above->body, "40000 ", builder->last->path + above->prefix,
                        level->prefix - 1 - above->prefix, oid, err);
}

static int order_pointed(const void *element, const void *key)
{
    const struct rsbx_diff_entry *entry = *(const struct rsbx_diff_entry *const *)element;

    return rsbx_diff_order(entry->path, entry->length, key);
}

static bool has_file(const struct builder *builder, const char *path, size_t length)
{
    const struct rsbx_diff_key key = { path, length };

    return rsbx_search(builder->entries, builder->count, sizeof *builder->entries, order_pointed, &key) !=
           NULL;
}

/* Without the slash behind a folder. */
static size_t name_end(const struct rsbx_diff_entry *entry)
{
    return entry->mode == RSBX_DIFF_FOLDER ? entry->length - 1 : entry->length;
}

static int open_levels(struct builder *builder, const struct rsbx_diff_entry *entry,
                       reposbx_error *err)
{
    for (;;) {
        size_t start = builder->levels[builder->depth].prefix;
        const char *slash = memchr(entry->path + start, '/', name_end(entry) - start);
        size_t end;

        if (slash == NULL)
            return REPOSBX_OK;
        end = (size_t)(slash - entry->path);
        if (has_file(builder, entry->path, end))
            return rsbx_fail(err, REPOSBX_EINVALID, "%.*s is both a file and a folder", (int)end,
                             entry->path);
        if (builder->depth == RSBX_MAX_PATH_COMPONENTS)
            return rsbx_fail(err, REPOSBX_EINVALID, "a path has too many components");
        builder->depth++;
        builder->levels[builder->depth].prefix = end + 1;
        rsbx_buf_clear(&builder->levels[builder->depth].body);
    }
}

static const char *mode_text(uint32_t mode)
{
    switch (mode) {
    case RSBX_DIFF_FOLDER:
        return "40000 ";
    case 0100755U:
        return "100755 ";
    case 0120000U:
        return "120000 ";
    default:
        return "100644 ";
    }
}

static int check_order(const struct builder *builder, const struct rsbx_diff_entry *entry,
                       reposbx_error *err)
{
    const struct rsbx_diff_entry *last = builder->last;

    if (last != NULL &&
        rsbx_bytes_compare(last->path, last->length, entry->path, entry->length) >= 0)
        return rsbx_fail(err, REPOSBX_EINVALID, "%s stands twice in a tree", entry->path);
    if (last != NULL && last->mode == RSBX_DIFF_FOLDER && entry->length > last->length &&
        memcmp(last->path, entry->path, last->length) == 0)
        return rsbx_fail(err, REPOSBX_EINVALID, "%s is below a folder that stands as a whole",
                         entry->path);
    if (entry->mode == RSBX_DIFF_FOLDER && has_file(builder, entry->path, name_end(entry)))
        return rsbx_fail(err, REPOSBX_EINVALID, "%.*s is both a file and a folder",
                         (int)name_end(entry), entry->path);
    return REPOSBX_OK;
}

static int add_entry(struct builder *builder, const struct rsbx_diff_entry *entry,
                     reposbx_error *err)
{
    const struct rsbx_diff_entry *last = builder->last;
    size_t prefix;
    int rc = check_order(builder, entry, err);

    while (rc == REPOSBX_OK && builder->depth > 0) {
        prefix = builder->levels[builder->depth].prefix;
        if (entry->length > prefix && memcmp(entry->path, last->path, prefix) == 0)
            break;
        rc = close_level(builder, err);
    }
    if (rc == REPOSBX_OK)
        rc = open_levels(builder, entry, err);
    if (rc != REPOSBX_OK)
        return rc;
    prefix = builder->levels[builder->depth].prefix;
    builder->last = entry;
    return append_entry(&builder->levels[builder->depth].body, mode_text(entry->mode),
                        entry->path + prefix, name_end(entry) - prefix, entry->oid, err);
}

int rsbx_diff_tree_id(uint8_t out[RSBX_OID_BYTES], const struct rsbx_diff_entry *const *entries,
                      size_t count, reposbx_error *err)
{
    RSBX_AUTO(builder) builder_ptr builder = calloc(1, sizeof *builder);
    int rc = REPOSBX_OK;

    if (builder == NULL)
        return rsbx_fail_memory(err);
    for (size_t i = 0; i <= RSBX_MAX_PATH_COMPONENTS; i++)
        builder->levels[i].body.limit = MAX_TREE_BYTES;
    builder->entries = entries;
    builder->count = count;
    for (size_t i = 0; rc == REPOSBX_OK && i < count; i++)
        rc = add_entry(builder, entries[i], err);
    while (rc == REPOSBX_OK && builder->depth > 0)
        rc = close_level(builder, err);
    if (rc != REPOSBX_OK)
        return rc;
    return object_id(out, builder->levels[0].body.data, builder->levels[0].body.length,
                     GIT_OBJECT_TREE, err);
}

int rsbx_diff_merged_tree(uint8_t out[RSBX_OID_BYTES], const struct rsbx_diff *diff,
                          const struct rsbx_diff_entry *changes, size_t count, reposbx_error *err)
{
    size_t total = diff->entry_count + count, used = 0, at = 0;
    RSBX_AUTO(rsbx_memory) void *memory = calloc(total + 1, sizeof(struct rsbx_diff_entry *));
    const struct rsbx_diff_entry **merged = memory;

    if (merged == NULL)
        return rsbx_fail_memory(err);
    for (size_t i = 0; i < count; i++) {
        const struct rsbx_diff_entry *change = &changes[i];
        int order = 1;

        while (at < diff->entry_count) {
            order = rsbx_bytes_compare(diff->entries[at].path, diff->entries[at].length,
                                       change->path, change->length);
            if (order >= 0)
                break;
            merged[used++] = &diff->entries[at++];
        }
        if (at < diff->entry_count && order == 0)
            at++;
        if (change->mode != 0)
            merged[used++] = change;
    }
    while (at < diff->entry_count)
        merged[used++] = &diff->entries[at++];
    return rsbx_diff_tree_id(out, merged, used, err);
}
