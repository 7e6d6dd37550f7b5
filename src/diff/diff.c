/* SPDX-License-Identifier: Apache-2.0 */
#include "diff/diff.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "base/path.h"
#include "base/search.h"
#include "codec/git2.h"
#include "diff/internal.h"

#include "base/banned.h"

int rsbx_diff_new(struct rsbx_diff **out, reposbx_error *err)
{
    struct rsbx_diff *diff;
    int rc = rsbx_git2_load(err);

    if (rc != REPOSBX_OK)
        return rc;
    diff = calloc(1, sizeof *diff);
    if (diff == NULL)
        return rsbx_fail_memory(err);
    *out = diff;
    return REPOSBX_OK;
}

void rsbx_diff_free(struct rsbx_diff *diff)
{
    if (diff == NULL)
        return;
    for (size_t i = 0; i < diff->entry_count; i++)
        free(diff->entries[i].path);
    for (size_t i = 0; i < diff->item_count; i++) {
        free(diff->items[i].path);
        free(diff->items[i].before.bytes);
        free(diff->items[i].after.bytes);
    }
    free(diff->entries);
    free(diff->items);
    free(diff);
}

void rsbx_diff_result_dispose(struct rsbx_diff_result *result)
{
    for (size_t i = 0; i < result->file_count; i++)
        free(result->files[i].path);
    free(result->files);
    free(result->patch);
    memset(result, 0, sizeof *result);
}

const char *rsbx_diff_status_word(enum rsbx_diff_status status)
{
    static const char *const words[] = { "added", "deleted", "modified", "type_changed",
                                         "mode_changed" };

    return words[status];
}

static bool mode_known(uint32_t mode)
{
    return mode == 0100644U || mode == 0100755U || mode == 0120000U;
}

/* The rules that source and scan hold too: a patch that names another path would be refused by
 * every tool that applies it. */
static int check_path(const char *path, size_t length, reposbx_error *err)
{
    size_t start = 0, components = 0;

    if (length == 0 || length > RSBX_MAX_PATH_BYTES)
        return rsbx_fail(err, REPOSBX_EINVALID, "a path of %zu bytes cannot stand in a tree", length);
    while (start <= length) {
        const char *slash = memchr(path + start, '/', length - start);
        size_t end = slash == NULL ? length : (size_t)(slash - path);
        const char *problem = rsbx_name_problem(path + start, end - start);

        if (problem != NULL || ++components > RSBX_MAX_PATH_COMPONENTS)
            return rsbx_fail(err, REPOSBX_EINVALID, "a path cannot stand in a tree: %s",
                             problem != NULL ? problem : "too many components");
        start = end + 1;
    }
    return REPOSBX_OK;
}

static char *copy_path(const char *path, size_t length, const char *end)
{
    char *copy = malloc(length + strlen(end) + 1);

    if (copy != NULL) {
        memcpy(copy, path, length);
        memcpy(copy + length, end, strlen(end) + 1);
    }
    return copy;
}

/* Room for one more element, doubling. */
static void *grow(void *array, size_t count, size_t *capacity, size_t size)
{
    void *larger;
    size_t wanted = *capacity == 0 ? 64 : *capacity * 2;

    if (count < *capacity)
        return array;
    larger = realloc(array, wanted * size);
    if (larger != NULL)
        *capacity = wanted;
    return larger;
}

int rsbx_diff_base(struct rsbx_diff *diff, const char *path, size_t path_length, uint32_t mode,
                   const uint8_t oid[RSBX_OID_BYTES], reposbx_error *err)
{
    struct rsbx_diff_entry *larger, *entry;
    const bool folder = mode == RSBX_DIFF_FOLDER;
    int rc = check_path(path, path_length, err);

    if (rc != REPOSBX_OK)
        return rc;
    if (!folder && !mode_known(mode))
        return rsbx_fail(err, REPOSBX_EINVALID, "mode %o cannot stand in a tree", mode);
    if (diff->entry_count >= RSBX_MAX_ENTRIES)
        return rsbx_fail(err, REPOSBX_ELIMIT, "more than %u entries in the base tree",
                         RSBX_MAX_ENTRIES);
    larger = grow(diff->entries, diff->entry_count, &diff->entry_capacity, sizeof *larger);
    if (larger == NULL)
        return rsbx_fail_memory(err);
    diff->entries = larger;
    entry = &larger[diff->entry_count];
    entry->path = copy_path(path, path_length, folder ? "/" : "");
    if (entry->path == NULL)
        return rsbx_fail_memory(err);
    entry->length = path_length + (folder ? 1 : 0);
    entry->mode = mode;
    memcpy(entry->oid, oid, RSBX_OID_BYTES);
    diff->entry_count++;
    diff->entries_sorted = false;
    return REPOSBX_OK;
}

/* An absent side has no content; a symlink's target is neither empty nor has a NUL. */
static int check_side(uint32_t mode, const struct rsbx_diff_content *content, reposbx_error *err)
{
    if (mode != 0 && !mode_known(mode))
        return rsbx_fail(err, REPOSBX_EINVALID, "mode %o cannot stand in a tree", mode);
    if ((mode == 0 && content->length != 0) || (content->length != 0 && content->bytes == NULL))
        return rsbx_fail(err, REPOSBX_EINVALID, "content and mode of a change do not agree");
    if (content->length > RSBX_MAX_BLOB_BYTES)
        return rsbx_fail(err, REPOSBX_ELIMIT, "a changed file has %zu bytes; the limit is %llu",
                         content->length, (unsigned long long)RSBX_MAX_BLOB_BYTES);
    return REPOSBX_OK;
}

static void take_side(struct rsbx_diff_side *side, uint32_t mode, struct rsbx_diff_content *content)
{
    memset(side, 0, sizeof *side);
    side->mode = mode;
    side->length = content->length;
    side->bytes = content->bytes;
    content->bytes = NULL;
    content->length = 0;
}

int rsbx_diff_change(struct rsbx_diff *diff, struct rsbx_diff_change *change, reposbx_error *err)
{
    struct rsbx_diff_item *larger, *item;
    int rc = check_path(change->path, change->path_length, err);

    if (rc == REPOSBX_OK)
        rc = check_side(change->old_mode, &change->old_content, err);
    if (rc == REPOSBX_OK)
        rc = check_side(change->new_mode, &change->new_content, err);
    if (rc != REPOSBX_OK)
        return rc;
    if (change->old_mode == 0 && change->new_mode == 0)
        return rsbx_fail(err, REPOSBX_EINVALID, "a change is absent on both sides");
    if (diff->item_count >= RSBX_MAX_ENTRIES)
        return rsbx_fail(err, REPOSBX_ELIMIT, "more than %u changes", RSBX_MAX_ENTRIES);
    larger = grow(diff->items, diff->item_count, &diff->item_capacity, sizeof *larger);
    if (larger == NULL)
        return rsbx_fail_memory(err);
    diff->items = larger;
    item = &larger[diff->item_count];
    item->path = copy_path(change->path, change->path_length, "");
    if (item->path == NULL)
        return rsbx_fail_memory(err);
    item->length = change->path_length;
    diff->content_bytes += change->old_content.length + change->new_content.length;
    take_side(&item->before, change->old_mode, &change->old_content);
    take_side(&item->after, change->new_mode, &change->new_content);
    diff->item_count++;
    diff->items_sorted = false;
    return REPOSBX_OK;
}

int rsbx_diff_order(const char *path, size_t length, const struct rsbx_diff_key *key)
{
    return rsbx_bytes_compare(path, length, key->path, key->length);
}

int rsbx_diff_order_below(const char *path, size_t length, const struct rsbx_diff_key *folder)
{
    int order = memcmp(path, folder->path, length < folder->length ? length : folder->length);

    if (order != 0)
        return order;
    return length > folder->length ? (unsigned char)path[folder->length] - '/' : -1;
}

bool rsbx_diff_is_below(const char *path, size_t length, const char *folder, size_t folder_length)
{
    return length > folder_length && path[folder_length] == '/' &&
           memcmp(path, folder, folder_length) == 0;
}

static int order_entry(const void *element, const void *key)
{
    const struct rsbx_diff_entry *entry = element;

    return rsbx_diff_order(entry->path, entry->length, key);
}

static int order_item(const void *element, const void *key)
{
    const struct rsbx_diff_item *item = element;

    return rsbx_diff_order(item->path, item->length, key);
}

static int order_item_below(const void *element, const void *key)
{
    const struct rsbx_diff_item *item = element;

    return rsbx_diff_order_below(item->path, item->length, key);
}

bool rsbx_diff_changes_below(struct rsbx_diff *diff, const char *path, size_t path_length)
{
    const struct rsbx_diff_key key = { path, path_length };
    size_t first;

    rsbx_diff_sort_items(diff);
    first = rsbx_search_first(diff->items, diff->item_count, sizeof *diff->items, order_item_below, &key);
    return first < diff->item_count &&
           rsbx_diff_is_below(diff->items[first].path, diff->items[first].length, path, path_length);
}

const struct rsbx_diff_entry *rsbx_diff_find_entry(const struct rsbx_diff *diff, const char *path,
                                                   size_t length)
{
    const struct rsbx_diff_key key = { path, length };

    return rsbx_search(diff->entries, diff->entry_count, sizeof *diff->entries, order_entry, &key);
}

const struct rsbx_diff_item *rsbx_diff_find_item(const struct rsbx_diff *diff, const char *path,
                                                 size_t length)
{
    const struct rsbx_diff_key key = { path, length };

    return rsbx_search(diff->items, diff->item_count, sizeof *diff->items, order_item, &key);
}
