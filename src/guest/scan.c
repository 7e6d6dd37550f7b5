/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "guest/beneath.h"
#include "guest/content.h"
#include "guest/guest.h"
#include "guest/io.h"
#include "guest/pair.h"

/*
 * The differences of baseline and workspace (guest/pair.h) as a patch needs them. Nothing but names,
 * types, the owner's x bit, sizes and bytes is compared; times are the command's to set.
 */

/* One file or link, ready to be sent. */
struct object {
    uint32_t mode; /* 0: nothing that can be sent */
    uint64_t size;
    uint32_t links;
    int fd;        /* of a file, else -1 */
    char target[RSBX_GUEST_LINK_ROOM];
};

struct scan {
    struct rsbx_pair pair;
    uint64_t new_bytes;
    struct object old_object, new_object;
};

static void omit(struct scan *scan, const char *path, size_t length, uint32_t reason)
{
    struct rsbx_entry entry = {.change = RSBX_CHANGE_OMITTED, .reason = reason, .path = path,
                               .path_length = (uint32_t)length};

    rsbx_guest_count_entry(scan->pair.guest);
    rsbx_send_entry(&entry);
}

static bool is_dotgit(const struct rsbx_item *item)
{
    const char *name = item->name;

    return name[0] == '.' && (name[1] | 0x20) == 'g' && (name[2] | 0x20) == 'i' &&
           (name[3] | 0x20) == 't' && name[4] == '\0';
}

static void drop(struct object *object)
{
    if (object->fd >= 0) {
        close(object->fd);
        object->fd = -1;
    }
}

/* Examines and opens a file or link. Returns RSBX_OMIT_NONE, or why it cannot be carried. */
static uint32_t load(struct scan *scan, struct rsbx_side *side, struct object *object)
{
    const struct rsbx_item *item = &side->item;
    int folder_fd = rsbx_walk_folder(&side->walk);
    struct stat status;
    long length;

    object->fd = -1;
    object->mode = 0;
    if (folder_fd < 0) {
        rsbx_pair_fail(&scan->pair, -folder_fd, "cannot open the folder of", item);
    }
    if (fstatat(folder_fd, item->name, &status, AT_SYMLINK_NOFOLLOW) != 0) {
        if (!rsbx_unreadable(-errno)) {
            rsbx_pair_fail(&scan->pair, errno, "cannot examine", item);
        }
        return RSBX_OMIT_UNREADABLE;
    }
    if (rsbx_omit_reason(&status) != RSBX_OMIT_NONE) {
        return rsbx_omit_reason(&status);
    }
    if (S_ISLNK(status.st_mode)) {
        length = rsbx_read_link(folder_fd, item->name, object->target);
        object->size = (uint64_t)length;
    } else {
        length = object->fd = rsbx_open_regular(folder_fd, item->name, &status);
        object->size = (uint64_t)status.st_size;
    }
    if (rsbx_unreadable(length)) {
        return RSBX_OMIT_UNREADABLE;
    }
    if (length < 0) {
        rsbx_pair_fail(&scan->pair, (int)-length, "changed while it was read", item);
    }
    object->mode = rsbx_git_mode(&status);
    object->links = (uint32_t)status.st_nlink;
    return RSBX_OMIT_NONE;
}

static void send_object(struct scan *scan, struct object *object, const struct rsbx_item *item)
{
    if (object->mode == 0120000U) {
        rsbx_send_bytes(scan->pair.guest, object->target, object->size);
    } else if (object->mode != 0) {
        rsbx_send_file(scan->pair.guest, object->fd, object->size, item->path, item->length);
        object->fd = -1;
    }
}

/* One difference; an object with mode 0 is absent. */
static void emit(struct scan *scan, uint32_t change, const struct rsbx_item *item)
{
    struct object *old = &scan->old_object, *new = &scan->new_object;
    struct rsbx_entry entry = {.change = change, .path = item->path,
                               .path_length = (uint32_t)item->length};

    if (old->mode != 0) {
        entry.old_mode = old->mode;
        entry.old_size = old->size;
    }
    if (new->mode != 0) {
        entry.new_mode = new->mode;
        entry.new_size = new->size;
        entry.links = new->links;
        rsbx_count_bytes(scan->pair.guest, &scan->new_bytes, new->size, item->path, item->length);
    }
    rsbx_guest_count_entry(scan->pair.guest);
    rsbx_send_entry(&entry);
    send_object(scan, old, item);
    send_object(scan, new, item);
}

/* Takes the old side's item: a deletion, or a folder of deletions. */
static void take_deleted(struct scan *scan)
{
    struct rsbx_side *side = &scan->pair.old;
    int result;

    rsbx_io_check();
    if (side->item.kind == DT_DIR) {
        result = rsbx_walk_enter(&side->walk, NULL);
        if (result < 0) {
            rsbx_pair_fail(&scan->pair, -result, "cannot read the baseline", &side->item);
        }
    } else {
        uint32_t reason = load(scan, side, &scan->old_object);

        if (reason != RSBX_OMIT_NONE) {
            rsbx_pair_fail(&scan->pair, EIO, "cannot read the baseline", &side->item);
        }
        scan->new_object.mode = 0;
        emit(scan, RSBX_CHANGE_DELETED, &side->item);
    }
    rsbx_side_advance(side);
}

/* Into a folder of the workspace; false when it cannot be read. `known_empty`: the baseline has it
 * just as empty. */
static bool enter_new(struct scan *scan, bool known_empty)
{
    struct rsbx_side *side = &scan->pair.new;
    size_t count = 0;
    int result = rsbx_walk_enter(&side->walk, &count);

    if (result == -ENAMETOOLONG) {
        omit(scan, side->item.path, side->item.length, RSBX_OMIT_TOO_DEEP);
    } else if (rsbx_unreadable(result)) {
        omit(scan, side->item.path, side->item.length, RSBX_OMIT_UNREADABLE);
    } else if (result < 0) {
        rsbx_pair_fail(&scan->pair, -result, "cannot read", &side->item);
    } else if (count == 0 && !known_empty) {
        omit(scan, side->item.path, side->item.length, RSBX_OMIT_EMPTY_FOLDER);
    }
    return result == 0;
}

/* Whether the new side's item is left out by its name alone. */
static bool omit_by_name(struct scan *scan)
{
    const struct rsbx_item *item = &scan->pair.new.item;

    if (is_dotgit(item)) {
        omit(scan, item->path, item->length, RSBX_OMIT_DOTGIT);
        return true;
    }
    if (rsbx_walk_too_deep(item)) {
        omit(scan, item->path, item->length, RSBX_OMIT_TOO_DEEP);
        return true;
    }
    return false;
}

/* Takes the new side's item, of which the baseline has nothing, or nothing any more. */
static void take_added(struct scan *scan)
{
    struct rsbx_side *side = &scan->pair.new;

    rsbx_io_check();
    if (omit_by_name(scan)) {
        rsbx_side_advance(side);
        return;
    }
    if (side->item.kind == DT_DIR) {
        enter_new(scan, false);
    } else {
        uint32_t reason = load(scan, side, &scan->new_object);

        if (reason != RSBX_OMIT_NONE) {
            omit(scan, side->item.path, side->item.length, reason);
        } else {
            scan->old_object.mode = 0;
            emit(scan, RSBX_CHANGE_ADDED, &side->item);
        }
    }
    rsbx_side_advance(side);
}

static bool same_content(struct scan *scan)
{
    struct object *old = &scan->old_object, *new = &scan->new_object;
    const struct rsbx_item *item = &scan->pair.new.item;
    int result;

    if (old->mode == 0120000U) {
        return memcmp(old->target, new->target, old->size) == 0;
    }
    result = rsbx_same_content(old->fd, new->fd);
    if (result < 0) {
        rsbx_pair_fail(&scan->pair, -result, "cannot read", item);
    }
    return result > 0;
}

/* Both are files or links and both can be read. */
static void compare_objects(struct scan *scan)
{
    struct object *old = &scan->old_object, *new = &scan->new_object;

    if (old->mode == new->mode && old->size == new->size && same_content(scan)) {
        drop(old);
        drop(new);
        return;
    }
    if ((old->fd >= 0 && lseek(old->fd, 0, SEEK_SET) != 0) ||
        (new->fd >= 0 && lseek(new->fd, 0, SEEK_SET) != 0)) {
        rsbx_pair_fail(&scan->pair, errno, "cannot read", &scan->pair.new.item);
    }
    emit(scan, RSBX_CHANGE_MODIFIED, &scan->pair.new.item);
}

/* Both sides have something that is no folder at the same path. */
static void take_both_objects(struct scan *scan)
{
    uint32_t reason = load(scan, &scan->pair.new, &scan->new_object);

    if (reason == RSBX_OMIT_NONE) {
        if (load(scan, &scan->pair.old, &scan->old_object) != RSBX_OMIT_NONE) {
            rsbx_pair_fail(&scan->pair, EIO, "cannot read the baseline", &scan->pair.old.item);
        }
        compare_objects(scan);
        rsbx_side_advance(&scan->pair.old);
    } else if (reason == RSBX_OMIT_UNREADABLE) {
        omit(scan, scan->pair.new.item.path, scan->pair.new.item.length, reason);
        rsbx_side_advance(&scan->pair.old);
    } else {
        omit(scan, scan->pair.new.item.path, scan->pair.new.item.length, reason);
        take_deleted(scan);
    }
    rsbx_side_advance(&scan->pair.new);
}

static void take_both_folders(struct scan *scan)
{
    size_t count = 0;
    /* The old folder is entered only when the new one could be: of a folder that cannot be read
     * nothing counts as deleted. What is asked first is whether the old one is empty too. */
    struct rsbx_walk *walk = &scan->pair.old.walk;
    int result = rsbx_walk_enter(walk, &count);

    if (result < 0) {
        rsbx_pair_fail(&scan->pair, -result, "cannot read the baseline", &scan->pair.old.item);
    }
    if (!enter_new(scan, count == 0)) {
        rsbx_walk_leave(walk);
    }
    rsbx_side_advance(&scan->pair.old);
    rsbx_side_advance(&scan->pair.new);
}

static bool below(const struct rsbx_item *item, const char *folder, size_t length)
{
    return item->length > length && memcmp(item->path, folder, length) == 0 &&
           item->path[length] == '/';
}

/* The same path on both sides. */
static void take_both(struct scan *scan)
{
    bool old_folder = scan->pair.old.item.kind == DT_DIR, new_folder = scan->pair.new.item.kind == DT_DIR;
    struct rsbx_side *old = &scan->pair.old;

    rsbx_io_check();
    if (rsbx_pair_untouched(&scan->pair)) {
        rsbx_side_advance(&scan->pair.old);
        rsbx_side_advance(&scan->pair.new);
        return;
    }
    if (omit_by_name(scan)) {
        rsbx_side_advance(&scan->pair.new);
        return; /* what the baseline has there goes as deleted */
    }
    if (old_folder && new_folder) {
        take_both_folders(scan);
    } else if (!old_folder && !new_folder) {
        take_both_objects(scan);
    } else {
        /* All that was goes before what is: the new item is kept until the old is through. */
        const struct rsbx_item *kept = &scan->pair.new.item;

        take_deleted(scan);
        while (old->there && below(&old->item, kept->path, kept->length)) {
            take_deleted(scan);
        }
        take_added(scan);
    }
}

void rsbx_guest_scan(struct rsbx_guest *guest)
{
    static struct scan scan;
    struct rsbx_pair *pair = &scan.pair;

    scan.old_object.fd = -1;
    scan.new_object.fd = -1;
    rsbx_pair_begin(pair, guest);
    while (pair->old.there || pair->new.there) {
        int order = rsbx_pair_order(pair);

        if (order < 0) {
            take_deleted(&scan);
        } else if (order > 0) {
            take_added(&scan);
        } else {
            take_both(&scan);
        }
    }
}
