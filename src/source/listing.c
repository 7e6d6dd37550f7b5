/* SPDX-License-Identifier: Apache-2.0 */
#include "source/internal.h"

#include <stdlib.h>
#include <string.h>

#include "base/path.h"
#include "base/text.h"
#include "guest/fingerprint.h"

#include "base/banned.h"

/* The id of the tree without entries. */
static const uint8_t empty_tree[RSBX_OID_BYTES] = { 0x4b, 0x82, 0x5d, 0xc6, 0x42, 0xcb, 0x6e,
                                                    0xb9, 0xa0, 0x60, 0xe5, 0x4b, 0xf8, 0xd6,
                                                    0x92, 0x88, 0xfb, 0xee, 0x49, 0x04 };

/* The array with room for `more` elements of `size` bytes behind its `count`; NULL when out of
 * memory (the old one stays valid). */
static void *grown(void *array, size_t *room, size_t count, size_t more, size_t size)
{
    size_t wanted = *room > 0 ? *room : 64;
    void *bigger;

    if (array != NULL && count + more <= *room)
        return array;
    while (wanted < count + more)
        wanted *= 2;
    bigger = realloc(array, wanted * size);
    if (bigger != NULL)
        *room = wanted;
    return bigger;
}

static int make_room(struct rsbx_listing *l, size_t items, size_t name_bytes, reposbx_error *err)
{
    void *bigger =
        grown(l->folders, &l->folder_room, l->folder_count, items, sizeof *l->folders);

    if (bigger == NULL)
        return rsbx_fail_memory(err);
    l->folders = bigger;
    bigger = grown(l->leaves, &l->leaf_room, l->leaf_count, items, sizeof *l->leaves);
    if (bigger == NULL)
        return rsbx_fail_memory(err);
    l->leaves = bigger;
    bigger = grown(l->pending, &l->pending_room, l->pending_count, items, sizeof *l->pending);
    if (bigger == NULL)
        return rsbx_fail_memory(err);
    l->pending = bigger;
    bigger = grown(l->names, &l->names_room, l->names_used, name_bytes, 1);
    if (bigger == NULL)
        return rsbx_fail_memory(err);
    l->names = bigger;
    return REPOSBX_OK;
}

int rsbx_listing_init(struct rsbx_listing *listing, const struct rsbx_source_options *options,
                      const uint8_t *root_oid, reposbx_error *err)
{
    int rc;

    memset(listing, 0, sizeof *listing);
    listing->options = options;
    rc = make_room(listing, 1, 1, err);
    if (rc != 0)
        return rc;
    memset(&listing->folders[0], 0, sizeof listing->folders[0]);
    if (root_oid != NULL)
        memcpy(listing->folders[0].oid, root_oid, RSBX_OID_BYTES);
    listing->folder_count = 1;
    listing->pending[listing->pending_count++] = 0;
    return REPOSBX_OK;
}

void rsbx_listing_dispose(struct rsbx_listing *listing)
{
    free(listing->folders);
    free(listing->leaves);
    free(listing->names);
    free(listing->pending);
    memset(listing, 0, sizeof *listing);
}

int64_t rsbx_listing_next_folder(struct rsbx_listing *listing)
{
    if (listing->pending_count == 0)
        return -1;
    return listing->pending[--listing->pending_count];
}

bool rsbx_leaf_left_out(const struct rsbx_leaf *leaf)
{
    return leaf->mode == RSBX_MODE_GITLINK || leaf->mode == RSBX_MODE_FOLDER;
}

void rsbx_listing_mark_streamed(struct rsbx_listing *listing)
{
    for (size_t i = 0; i < listing->leaf_count; i++) {
        uint32_t folder = listing->leaves[i].folder;

        if (rsbx_leaf_left_out(&listing->leaves[i]))
            continue;
        while (!listing->folders[folder].streamed) {
            listing->folders[folder].streamed = true;
            folder = listing->folders[folder].parent;
        }
    }
}

static size_t put_name(char *out, size_t end, const char *name, size_t length, bool last)
{
    if (!last)
        out[--end] = '/';
    memcpy(out + end - length, name, length);
    return end - length;
}

size_t rsbx_folder_path(char out[RSBX_MAX_PATH_BYTES + 1], const struct rsbx_listing *listing,
                        uint32_t folder)
{
    size_t length = listing->folders[folder].path_length;
    size_t end = length;

    out[length] = '\0';
    while (folder != 0) {
        const struct rsbx_folder *f = &listing->folders[folder];

        end = put_name(out, end, listing->names + f->name, f->name_length, end == length);
        folder = f->parent;
    }
    return length;
}

size_t rsbx_leaf_path(char out[RSBX_MAX_PATH_BYTES + 1], const struct rsbx_listing *listing,
                      const struct rsbx_leaf *leaf)
{
    size_t length = rsbx_folder_path(out, listing, leaf->folder);

    if (length > 0)
        out[length++] = '/';
    memcpy(out + length, listing->names + leaf->name, leaf->name_length);
    length += leaf->name_length;
    out[length] = '\0';
    return length;
}

/* Subfolders that hold something; a tree without entries is left out like a gitlink. */
static bool descends(const struct rsbx_item *item)
{
    return item->mode == RSBX_MODE_FOLDER && memcmp(item->oid, empty_tree, RSBX_OID_BYTES) != 0;
}

static int by_name(const void *a, const void *b)
{
    const struct rsbx_item *x = a, *y = b;

    return rsbx_bytes_compare(x->name, x->length, y->name, y->length);
}

static int by_walk(const void *a, const void *b)
{
    const struct rsbx_item *x = a, *y = b;

    if (descends(x) != descends(y))
        return descends(x) ? 1 : -1;
    return rsbx_fp_compare(x->name, x->length, y->name, y->length);
}

static int check_kind(const struct rsbx_listing *listing, const struct rsbx_item *item,
                      const char *name, const char *where, reposbx_error *err)
{
    if (item->mode == RSBX_MODE_LINK) {
        if (rsbx_name_is_never_link(item->name, item->length))
            return rsbx_fail(err, REPOSBX_EPOLICY, "%s: \"%s\" is a symlink", where, name);
        if (listing->options->symlinks == RSBX_SYMLINKS_REFUSE) {
            (void)rsbx_fail(err, REPOSBX_EPOLICY, "%s: \"%s\" is a symlink, refused by policy",
                            where, name);
            rsbx_hint(err, "a policy with source.symlinks=keep keeps symlinks as they are");
            return REPOSBX_EPOLICY;
        }
    }
    if (item->mode == RSBX_MODE_GITLINK &&
        listing->options->submodules == RSBX_SUBMODULES_REFUSE) {
        (void)rsbx_fail(err, REPOSBX_EPOLICY, "%s: \"%s\" is a submodule, refused by policy", where,
                        name);
        rsbx_hint(err, "a policy with source.submodules=empty leaves submodules out");
        return REPOSBX_EPOLICY;
    }
    return REPOSBX_OK;
}

static int check_item(const struct rsbx_listing *listing, const struct rsbx_folder *folder,
                      const struct rsbx_item *item, const char *where, reposbx_error *err)
{
    const char *problem = rsbx_name_problem(item->name, item->length);
    char name[4 * RSBX_MAX_NAME_BYTES + 1];

    rsbx_text_printable(name, sizeof name, item->name,
                        item->length < RSBX_MAX_NAME_BYTES ? item->length : RSBX_MAX_NAME_BYTES);
    if (problem != NULL)
        return rsbx_fail(err, REPOSBX_EPOLICY, "%s: %s: \"%s\"", where, problem, name);
    if (folder->path_length + (folder->path_length > 0 ? 1U : 0U) + item->length >
        RSBX_MAX_PATH_BYTES)
        return rsbx_fail(err, REPOSBX_EPOLICY, "%s: path over %u bytes at \"%s\"", where,
                         RSBX_MAX_PATH_BYTES, name);
    if (item->mode == RSBX_MODE_FOLDER &&
        (folder->depth + 1U > listing->options->max_depth ||
         folder->depth + 2U > RSBX_MAX_PATH_COMPONENTS))
        return rsbx_fail(err, REPOSBX_EPOLICY, "%s: folders nested deeper than %u at \"%s\"", where,
                         listing->options->max_depth < RSBX_MAX_PATH_COMPONENTS
                             ? listing->options->max_depth : RSBX_MAX_PATH_COMPONENTS - 1, name);
    return check_kind(listing, item, name, where, err);
}

static int check_items(struct rsbx_listing *listing, const struct rsbx_folder *folder,
                       struct rsbx_item *items, size_t count, const char *where, reposbx_error *err)
{
    if (count > 1)
        qsort(items, count, sizeof *items, by_name);
    for (size_t i = 0; i < count; i++) {
        int rc = check_item(listing, folder, &items[i], where, err);

        if (rc != 0)
            return rc;
        if (i > 0 && by_name(&items[i - 1], &items[i]) == 0) {
            char name[4 * RSBX_MAX_NAME_BYTES + 1];

            rsbx_text_printable(name, sizeof name, items[i].name, items[i].length);
            return rsbx_fail(err, REPOSBX_EPOLICY, "%s: the name \"%s\" stands there twice", where,
                             name);
        }
    }
    if (count > 1)
        qsort(items, count, sizeof *items, by_walk);
    return REPOSBX_OK;
}

static int check_counts(const struct rsbx_listing *listing, reposbx_error *err)
{
    uint64_t limit = listing->options->max_files;

    if (listing->leaf_count > limit) {
        (void)rsbx_fail(err, REPOSBX_EPOLICY, "more than %llu files in the snapshot",
                        (unsigned long long)limit);
        rsbx_hint(err, "source.max_files of the policy sets this limit");
        return REPOSBX_EPOLICY;
    }
    if (listing->folder_count > RSBX_MAX_ENTRIES)
        return rsbx_fail(err, REPOSBX_EPOLICY, "more than %u folders in the snapshot",
                         RSBX_MAX_ENTRIES);
    return REPOSBX_OK;
}

static void take_folder(struct rsbx_listing *listing, uint32_t parent, const struct rsbx_item *item,
                        uint32_t name)
{
    struct rsbx_folder *above = &listing->folders[parent];
    struct rsbx_folder *folder = &listing->folders[listing->folder_count++];

    memset(folder, 0, sizeof *folder);
    folder->parent = parent;
    folder->name = name;
    folder->name_length = (uint16_t)item->length;
    folder->path_length =
        (uint16_t)(above->path_length + (above->path_length > 0 ? 1U : 0U) + item->length);
    folder->depth = (uint16_t)(above->depth + 1);
    memcpy(folder->oid, item->oid, RSBX_OID_BYTES);
    above->child_count++;
}

static void take_leaf(struct rsbx_listing *listing, uint32_t parent, const struct rsbx_item *item,
                      uint32_t name)
{
    struct rsbx_leaf *leaf = &listing->leaves[listing->leaf_count++];

    leaf->size = item->size;
    leaf->folder = parent;
    leaf->name = name;
    leaf->name_length = (uint16_t)item->length;
    leaf->mode = item->mode;
    memcpy(leaf->oid, item->oid, RSBX_OID_BYTES);
    listing->folders[parent].leaf_count++;
    if (!rsbx_leaf_left_out(leaf))
        listing->files++;
}

int rsbx_listing_add(struct rsbx_listing *listing, uint32_t folder, struct rsbx_item *items,
                     size_t count, const char *where, reposbx_error *err)
{
    size_t name_bytes = 0;
    int rc = check_items(listing, &listing->folders[folder], items, count, where, err);

    if (rc != 0)
        return rc;
    for (size_t i = 0; i < count; i++)
        name_bytes += items[i].length;
    rc = make_room(listing, count, name_bytes, err);
    if (rc != 0)
        return rc;
    listing->folders[folder].first_leaf = (uint32_t)listing->leaf_count;
    listing->folders[folder].first_child = (uint32_t)listing->folder_count;
    for (size_t i = 0; i < count; i++) {
        uint32_t name = (uint32_t)listing->names_used;

        memcpy(listing->names + name, items[i].name, items[i].length);
        listing->names_used += items[i].length;
        if (descends(&items[i]))
            take_folder(listing, folder, &items[i], name);
        else
            take_leaf(listing, folder, &items[i], name);
    }
    /* Last first, so that the first is visited next. */
    for (uint32_t i = listing->folders[folder].child_count; i > 0; i--)
        listing->pending[listing->pending_count++] = listing->folders[folder].first_child + i - 1;
    return check_counts(listing, err);
}

int rsbx_listing_size(struct rsbx_listing *listing, struct rsbx_leaf *leaf, uint64_t size,
                      reposbx_error *err)
{
    uint64_t limit = listing->options->max_bytes;
    char path[RSBX_MAX_PATH_BYTES + 1];

    (void)rsbx_leaf_path(path, listing, leaf);
    if (leaf->mode == RSBX_MODE_LINK && (size == 0 || size > RSBX_MAX_TARGET_BYTES))
        return rsbx_fail(err, REPOSBX_EPOLICY, "symlink %s: a target of %llu bytes", path,
                         (unsigned long long)size);
    if (size > RSBX_MAX_BLOB_BYTES)
        return rsbx_fail(err, REPOSBX_EPOLICY, "%s has %llu bytes; one file may have %llu", path,
                         (unsigned long long)size, RSBX_MAX_BLOB_BYTES);
    if (size > limit || listing->bytes > limit - size) {
        (void)rsbx_fail(err, REPOSBX_EPOLICY, "more than %llu bytes in the snapshot (at %s)",
                        (unsigned long long)limit, path);
        rsbx_hint(err, "source.max_bytes of the policy sets this limit");
        return REPOSBX_EPOLICY;
    }
    leaf->size = size;
    listing->bytes += size;
    return REPOSBX_OK;
}
