/* SPDX-License-Identifier: Apache-2.0 */
#include "source/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/text.h"

#include "base/banned.h"

/*
 * Tree objects from their raw bytes. An entry is: mode in octal digits, a space, the name, NUL, 20
 * bytes of id. libgit2's own parser is not used: it hands out names and modes that no checkout may
 * have. The walk is iterative; its bounds are those of the listing.
 */
struct spelling {
    const char *digits;
    uint32_t mode;
};

static const struct spelling spellings[] = {
    { "40000", RSBX_MODE_FOLDER },       { "100644", RSBX_MODE_FILE },
    { "100664", RSBX_MODE_FILE_GROUP },  { "100755", RSBX_MODE_EXECUTABLE },
    { "120000", RSBX_MODE_LINK },        { "160000", RSBX_MODE_GITLINK },
};

static int read_mode(uint32_t *out, const char *digits, size_t length, const char *where,
                     reposbx_error *err)
{
    char shown[64];

    for (size_t i = 0; i < sizeof spellings / sizeof spellings[0]; i++) {
        if (strlen(spellings[i].digits) == length &&
            memcmp(spellings[i].digits, digits, length) == 0) {
            *out = spellings[i].mode;
            return REPOSBX_OK;
        }
    }
    rsbx_text_printable(shown, sizeof shown, digits, length < 16 ? length : 16);
    return rsbx_fail(err, REPOSBX_EPOLICY, "%s: mode \"%s\" of an entry is not allowed", where,
                     shown);
}

/* Git's order: a folder sorts as if its name ended in '/'. */
static int git_order(const struct rsbx_item *a, const struct rsbx_item *b)
{
    size_t shared = a->length < b->length ? a->length : b->length;
    int order = shared > 0 ? memcmp(a->name, b->name, shared) : 0;
    unsigned char x, y;

    if (order != 0)
        return order;
    x = a->length > shared ? (unsigned char)a->name[shared]
                           : (a->mode == RSBX_MODE_FOLDER ? '/' : 0);
    y = b->length > shared ? (unsigned char)b->name[shared]
                           : (b->mode == RSBX_MODE_FOLDER ? '/' : 0);
    return x < y ? -1 : x > y;
}

/* Items borrow their names from `bytes`. */
static int parse(struct rsbx_item *items, size_t *count, const char *bytes, size_t length,
                 size_t max_count, const char *where, reposbx_error *err)
{
    size_t used = 0;

    while (length > 0) {
        struct rsbx_item *item = &items[used];
        const char *space = memchr(bytes, ' ', length < 16 ? length : 16);
        const char *nul;
        int rc;

        if (space == NULL)
            return rsbx_fail(err, REPOSBX_EPOLICY, "%s: an entry without a mode", where);
        nul = memchr(space, '\0', length - (size_t)(space - bytes));
        if (nul == NULL || length - (size_t)(nul - bytes) < 1 + RSBX_OID_BYTES)
            return rsbx_fail(err, REPOSBX_EPOLICY, "%s: cut in the middle of an entry", where);
        if (used == max_count)
            return rsbx_fail(err, REPOSBX_EPOLICY, "%s: more than %zu entries", where, max_count);
        memset(item, 0, sizeof *item);
        item->name = space + 1;
        item->length = (size_t)(nul - space) - 1;
        rc = read_mode(&item->mode, bytes, (size_t)(space - bytes), where, err);
        if (rc != 0)
            return rc;
        memcpy(item->oid, nul + 1, RSBX_OID_BYTES);
        length -= (size_t)(nul - bytes) + 1 + RSBX_OID_BYTES;
        bytes = nul + 1 + RSBX_OID_BYTES;
        used++;
    }
    *count = used;
    return REPOSBX_OK;
}

static int check_order(const struct rsbx_item *items, size_t count, const char *where,
                       reposbx_error *err)
{
    for (size_t i = 1; i < count; i++) {
        int order = git_order(&items[i - 1], &items[i]);
        char name[4 * RSBX_MAX_NAME_BYTES + 1];

        if (order < 0)
            continue;
        rsbx_text_printable(name, sizeof name, items[i].name,
                            items[i].length < RSBX_MAX_NAME_BYTES ? items[i].length
                                                                  : RSBX_MAX_NAME_BYTES);
        return rsbx_fail(err, REPOSBX_EPOLICY,
                         order == 0 ? "%s: the name \"%s\" stands there twice"
                                    : "%s: entries out of order at \"%s\"", where, name);
    }
    return REPOSBX_OK;
}

static int list_folder(struct rsbx_listing *listing, struct rsbx_objects *objects, uint32_t folder,
                       reposbx_error *err)
{
    RSBX_AUTO(rsbx_memory) void *memory = NULL;
    struct rsbx_item *items;
    uint8_t oid[RSBX_OID_BYTES];
    char hex[RSBX_OID_HEX_BYTES];
    char where[sizeof "tree " + RSBX_OID_HEX_BYTES];
    const void *bytes;
    size_t length, room;
    size_t count = 0;
    int rc;

    memcpy(oid, listing->folders[folder].oid, sizeof oid);
    rsbx_hex(hex, oid, sizeof oid);
    (void)snprintf(where, sizeof where, "tree %s", hex);
    rc = rsbx_object_read(&bytes, &length, objects, oid, RSBX_OBJECT_TREE, RSBX_MAX_TREE_BYTES,
                          err);
    if (rc == REPOSBX_ENOTFOUND)
        return rsbx_fail(err, REPOSBX_EPROTOCOL, "the repository is damaged: %s is missing", where);
    if (rc != 0)
        return rc;
    /* The shortest entry: a mode of at least one digit, the space, no name, NUL and the id. */
    room = length / (3 + RSBX_OID_BYTES) + 1;
    if (room > RSBX_MAX_ENTRIES)
        room = RSBX_MAX_ENTRIES;
    memory = malloc(room * sizeof *items);
    if (memory == NULL)
        return rsbx_fail_memory(err);
    items = memory;
    rc = parse(items, &count, bytes, length, room, where, err);
    if (rc == 0)
        rc = check_order(items, count, where, err);
    if (rc == 0)
        rc = rsbx_listing_add(listing, folder, items, count, where, err);
    return rc;
}

int rsbx_tree_list(struct rsbx_listing *listing, struct rsbx_objects *objects, reposbx_error *err)
{
    int64_t folder;

    while ((folder = rsbx_listing_next_folder(listing)) >= 0) {
        int rc = list_folder(listing, objects, (uint32_t)folder, err);

        if (rc != 0)
            return rc;
    }
    for (size_t i = 0; i < listing->leaf_count; i++) {
        struct rsbx_leaf *leaf = &listing->leaves[i];
        enum rsbx_object_type type;
        char path[RSBX_MAX_PATH_BYTES + 1];
        uint64_t size;
        int rc;

        if (rsbx_leaf_left_out(leaf))
            continue;
        rc = rsbx_object_header(&type, &size, objects, leaf->oid, err);
        if (rc == 0 && type == RSBX_OBJECT_BLOB) {
            rc = rsbx_listing_size(listing, leaf, size, err);
            if (rc != 0)
                return rc;
            continue;
        }
        (void)rsbx_leaf_path(path, listing, leaf);
        if (rc == 0)
            return rsbx_fail(err, REPOSBX_EPROTOCOL, "the repository is damaged: %s is a %s, not "
                             "a blob", path, rsbx_object_word(type));
        if (rc == REPOSBX_ENOTFOUND) {
            char hex[RSBX_OID_HEX_BYTES];

            rsbx_hex(hex, leaf->oid, RSBX_OID_BYTES);
            return rsbx_fail(err, REPOSBX_EPROTOCOL, "the repository is damaged: blob %s of %s is "
                             "missing", hex, path);
        }
        rsbx_context(err, "%s", path);
        return rc;
    }
    return REPOSBX_OK;
}
