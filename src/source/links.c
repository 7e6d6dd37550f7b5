/* SPDX-License-Identifier: Apache-2.0 */
#include "source/internal.h"

#include <string.h>

#include "base/search.h"
#include "guest/fingerprint.h"

#include "base/banned.h"

/* As many links in a row as Linux follows. */
#define MAX_LINKS 40U

struct walk {
    struct rsbx_listing *listing;
    uint32_t folder;
    uint32_t beyond; /* components below the last folder that exists */
    bool broken;     /* something on the way does not exist */
    unsigned links;
    size_t at;       /* where the rest of the way begins */
    /* What is left of each link on the way comes in front of the rest before. */
    char rest[(RSBX_MAX_TARGET_BYTES + 1) * 2];
};

/* A name of a folder or a leaf that is looked for. */
struct wanted {
    const struct rsbx_listing *listing;
    const char *name;
    size_t length;
};

static int order_folder(const void *element, const void *key)
{
    const struct rsbx_folder *folder = element;
    const struct wanted *wanted = key;

    return rsbx_fp_compare(wanted->listing->names + folder->name, folder->name_length, wanted->name,
                           wanted->length);
}

static int order_leaf(const void *element, const void *key)
{
    const struct rsbx_leaf *leaf = element;
    const struct wanted *wanted = key;

    return rsbx_fp_compare(wanted->listing->names + leaf->name, leaf->name_length, wanted->name,
                           wanted->length);
}

static int64_t find_folder(const struct rsbx_listing *listing, uint32_t parent, const char *name,
                           size_t length)
{
    const struct rsbx_folder *above = &listing->folders[parent];
    const struct wanted wanted = { listing, name, length };
    const struct rsbx_folder *found = rsbx_search(&listing->folders[above->first_child], above->child_count,
                                                  sizeof *found, order_folder, &wanted);

    /* One with nothing but submodules in it is not made. */
    return found != NULL && found->streamed ? found - listing->folders : -1;
}

static struct rsbx_leaf *find_leaf(struct rsbx_listing *listing, uint32_t parent, const char *name,
                                   size_t length)
{
    const struct rsbx_folder *above = &listing->folders[parent];
    const struct wanted wanted = { listing, name, length };
    const struct rsbx_leaf *found = rsbx_search(&listing->leaves[above->first_leaf], above->leaf_count,
                                                sizeof *found, order_leaf, &wanted);

    return found != NULL ? &listing->leaves[found - listing->leaves] : NULL;
}

/* Puts the target in front of what is left. False when that is longer than any path. */
static bool go_on_with(struct walk *walk, const char *target)
{
    size_t length = strlen(target);
    size_t left = strlen(walk->rest + walk->at);

    if (length + 1 + left + 1 > sizeof walk->rest)
        return false;
    memmove(walk->rest + length + (left > 0), walk->rest + walk->at, left + 1);
    memcpy(walk->rest, target, length);
    if (left > 0)
        walk->rest[length] = '/';
    walk->at = 0;
    return true;
}

static void lose(struct walk *walk)
{
    walk->broken = true;
    walk->beyond++;
}

/* One named component. *file is set when it is a file and nothing is left behind it. *outside is
 * set for a link that is absolute. */
static int enter(struct rsbx_leaf **file, bool *outside, struct walk *walk, const char *name,
                 size_t length, rsbx_target_reader target_of, void *payload, reposbx_error *err)
{
    char target[RSBX_MAX_TARGET_BYTES + 1];
    int64_t folder = walk->beyond > 0 ? -1 : find_folder(walk->listing, walk->folder, name, length);
    struct rsbx_leaf *leaf;
    int rc;

    if (folder >= 0) {
        walk->folder = (uint32_t)folder;
        return REPOSBX_OK;
    }
    leaf = walk->beyond > 0 ? NULL : find_leaf(walk->listing, walk->folder, name, length);
    if (leaf == NULL || rsbx_leaf_left_out(leaf)) {
        lose(walk);
        return REPOSBX_OK;
    }
    if (leaf->mode != RSBX_MODE_LINK) {
        if (walk->rest[walk->at] == '\0' && !walk->broken)
            *file = leaf;
        else
            lose(walk);
        return REPOSBX_OK;
    }
    if (walk->links++ == MAX_LINKS) {
        lose(walk);
        walk->rest[walk->at] = '\0';
        return REPOSBX_OK;
    }
    rc = target_of(target, payload, leaf, err);
    if (rc != 0)
        return rc;
    *outside = target[0] == '/';
    if (!*outside && !go_on_with(walk, target)) {
        lose(walk);
        walk->rest[walk->at] = '\0';
    }
    return REPOSBX_OK;
}

int rsbx_target_resolve(enum rsbx_target_state *state, struct rsbx_leaf **file,
                      struct rsbx_listing *listing, const struct rsbx_leaf *leaf,
                      const char *target, rsbx_target_reader target_of, void *payload,
                      reposbx_error *err)
{
    struct walk walk = { .listing = listing, .folder = leaf->folder, .links = 1 };
    struct rsbx_leaf *found = NULL;
    bool outside = target[0] == '/';

    if (!outside)
        (void)go_on_with(&walk, target);
    while (!outside && found == NULL && walk.rest[walk.at] != '\0') {
        char name[RSBX_MAX_TARGET_BYTES + 1];
        size_t length = strcspn(walk.rest + walk.at, "/");
        int rc;

        /* A component longer than a target cannot stand there: each came out of one. */
        memcpy(name, walk.rest + walk.at, length);
        walk.at += length;
        if (walk.rest[walk.at] == '/' )
            walk.at++;
        if (length == 0 || (length == 1 && name[0] == '.'))
            continue;
        if (length == 2 && name[0] == '.' && name[1] == '.') {
            outside = walk.beyond == 0 && walk.folder == 0;
            if (walk.beyond > 0)
                walk.beyond--;
            else if (!outside)
                walk.folder = listing->folders[walk.folder].parent;
            continue;
        }
        rc = enter(&found, &outside, &walk, name, length, target_of, payload, err);
        if (rc != 0)
            return rc;
    }
    *file = found;
    if (outside)
        *state = RSBX_TARGET_OUTSIDE;
    else if (found != NULL)
        *state = RSBX_TARGET_REGULAR;
    else
        *state = walk.broken ? RSBX_TARGET_UNRESOLVED : RSBX_TARGET_FOLDER;
    return REPOSBX_OK;
}
