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
#include "guest/walk.h"

/*
 * The baseline (old) and the workspace (new) are walked at the same time, both in the order of
 * their names with a folder before what is in it. That is one order for both trees, so the two
 * walks merge like two sorted lists: the smaller path exists on its side alone. Nothing but names,
 * types, the owner's x bit, sizes and bytes is compared; times are the command's to set.
 *
 * Where the workspace is an overlay over the baseline, whatever was changed has an entry in the
 * upper layer, and so has every folder above it. What stands in both trees and has none there is
 * the baseline's own, and is neither entered nor read.
 */

struct side {
    struct rsbx_walk walk;
    struct rsbx_item item;
    bool there; /* an item is held */
};

/* One file or link, ready to be sent. */
struct object {
    uint32_t mode; /* 0: nothing that can be sent */
    uint64_t size;
    uint32_t links;
    int fd;        /* of a file, else -1 */
    char target[RSBX_GUEST_LINK_ROOM];
};

struct scan {
    struct rsbx_guest *guest;
    struct side old, new;
    int upper_fd; /* of the upper layer; -1: compare everything */
    uint64_t new_bytes;
    struct object old_object, new_object;
};

static _Noreturn void fail_item(struct scan *scan, int error, const char *what,
                                const struct rsbx_item *item)
{
    rsbx_guest_fail(scan->guest, error, what, item->path, item->length);
}

static void advance(struct side *side)
{
    side->there = rsbx_walk_next(&side->walk, &side->item) > 0;
}

static bool unreadable(int result)
{
    return result == -EACCES || result == -EPERM;
}

/* Order of two paths in a walk: '/' is the lowest byte, and the end is lower still. */
static int compare_paths(const struct rsbx_item *left, const struct rsbx_item *right)
{
    const unsigned char *a = (const unsigned char *)left->path;
    const unsigned char *b = (const unsigned char *)right->path;

    while (*a == *b && *a != '\0') {
        a++;
        b++;
    }
    if (*a == *b) {
        return 0;
    }
    if (*a == '\0' || *b == '\0') {
        return *a == '\0' ? -1 : 1;
    }
    if (*a == '/' || *b == '/') {
        return *a == '/' ? -1 : 1;
    }
    return *a < *b ? -1 : 1;
}

static void omit(struct scan *scan, const char *path, size_t length, uint32_t reason)
{
    struct rsbx_entry entry = {.change = RSBX_CHANGE_OMITTED, .reason = reason, .path = path,
                               .path_length = (uint32_t)length};

    rsbx_guest_count_entry(scan->guest);
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
static uint32_t load(struct scan *scan, struct side *side, struct object *object)
{
    const struct rsbx_item *item = &side->item;
    int folder_fd = rsbx_walk_folder(&side->walk);
    struct stat status;
    long length;

    object->fd = -1;
    object->mode = 0;
    if (folder_fd < 0) {
        fail_item(scan, -folder_fd, "cannot open the folder of", item);
    }
    if (fstatat(folder_fd, item->name, &status, AT_SYMLINK_NOFOLLOW) != 0) {
        if (!unreadable(-errno)) {
            fail_item(scan, errno, "cannot examine", item);
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
    if (unreadable((int)length)) {
        return RSBX_OMIT_UNREADABLE;
    }
    if (length < 0) {
        fail_item(scan, (int)-length, "changed while it was read", item);
    }
    object->mode = rsbx_git_mode(&status);
    object->links = (uint32_t)status.st_nlink;
    return RSBX_OMIT_NONE;
}

static void send_object(struct scan *scan, struct object *object, const struct rsbx_item *item)
{
    if (object->mode == 0120000U) {
        rsbx_send_bytes(scan->guest, object->target, object->size);
    } else if (object->mode != 0) {
        rsbx_send_file(scan->guest, object->fd, object->size, item->path, item->length);
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
        rsbx_count_bytes(scan->guest, &scan->new_bytes, new->size, item->path, item->length);
    }
    rsbx_guest_count_entry(scan->guest);
    rsbx_send_entry(&entry);
    send_object(scan, old, item);
    send_object(scan, new, item);
}

/* Takes the old side's item: a deletion, or a folder of deletions. */
static void take_deleted(struct scan *scan)
{
    struct side *side = &scan->old;
    int result;

    rsbx_io_check();
    if (side->item.kind == DT_DIR) {
        result = rsbx_walk_enter(&side->walk, NULL);
        if (result < 0) {
            fail_item(scan, -result, "cannot read the baseline", &side->item);
        }
    } else {
        uint32_t reason = load(scan, side, &scan->old_object);

        if (reason != RSBX_OMIT_NONE) {
            fail_item(scan, EIO, "cannot read the baseline", &side->item);
        }
        scan->new_object.mode = 0;
        emit(scan, RSBX_CHANGE_DELETED, &side->item);
    }
    advance(side);
}

/* Into a folder of the workspace; false when it cannot be read. `known_empty`: the baseline has it
 * just as empty. */
static bool enter_new(struct scan *scan, bool known_empty)
{
    struct side *side = &scan->new;
    size_t count = 0;
    int result = rsbx_walk_enter(&side->walk, &count);

    if (result == -ENAMETOOLONG) {
        omit(scan, side->item.path, side->item.length, RSBX_OMIT_TOO_DEEP);
    } else if (unreadable(result)) {
        omit(scan, side->item.path, side->item.length, RSBX_OMIT_UNREADABLE);
    } else if (result < 0) {
        fail_item(scan, -result, "cannot read", &side->item);
    } else if (count == 0 && !known_empty) {
        omit(scan, side->item.path, side->item.length, RSBX_OMIT_EMPTY_FOLDER);
    }
    return result == 0;
}

/* Whether the new side's item is left out by its name alone. */
static bool omit_by_name(struct scan *scan)
{
    const struct rsbx_item *item = &scan->new.item;

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
    struct side *side = &scan->new;

    rsbx_io_check();
    if (omit_by_name(scan)) {
        advance(side);
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
    advance(side);
}

static bool same_content(struct scan *scan)
{
    static uint8_t old_piece[64U * 1024U], new_piece[64U * 1024U];
    struct object *old = &scan->old_object, *new = &scan->new_object;
    const struct rsbx_item *item = &scan->new.item;

    if (old->mode == 0120000U) {
        return memcmp(old->target, new->target, old->size) == 0;
    }
    for (;;) {
        long had = rsbx_read_piece(old->fd, old_piece, sizeof(old_piece));
        long has = rsbx_read_piece(new->fd, new_piece, sizeof(new_piece));

        if (had < 0 || has < 0) {
            fail_item(scan, (int)(had < 0 ? -had : -has), "cannot read", item);
        }
        if (had != has || memcmp(old_piece, new_piece, (size_t)had) != 0) {
            return false;
        }
        if (had == 0) {
            return true;
        }
        rsbx_io_check();
    }
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
        fail_item(scan, errno, "cannot read", &scan->new.item);
    }
    emit(scan, RSBX_CHANGE_MODIFIED, &scan->new.item);
}

/* Both sides have something that is no folder at the same path. */
static void take_both_objects(struct scan *scan)
{
    uint32_t reason = load(scan, &scan->new, &scan->new_object);

    if (reason == RSBX_OMIT_NONE) {
        if (load(scan, &scan->old, &scan->old_object) != RSBX_OMIT_NONE) {
            fail_item(scan, EIO, "cannot read the baseline", &scan->old.item);
        }
        compare_objects(scan);
        advance(&scan->old);
    } else if (reason == RSBX_OMIT_UNREADABLE) {
        omit(scan, scan->new.item.path, scan->new.item.length, reason);
        advance(&scan->old);
    } else {
        omit(scan, scan->new.item.path, scan->new.item.length, reason);
        take_deleted(scan);
    }
    advance(&scan->new);
}

static void take_both_folders(struct scan *scan)
{
    size_t count = 0;
    /* The old folder is entered only when the new one could be: of a folder that cannot be read
     * nothing counts as deleted. What is asked first is whether the old one is empty too. */
    struct rsbx_walk *walk = &scan->old.walk;
    int result = rsbx_walk_enter(walk, &count);

    if (result < 0) {
        fail_item(scan, -result, "cannot read the baseline", &scan->old.item);
    }
    if (!enter_new(scan, count == 0)) {
        rsbx_walk_leave(walk);
    }
    advance(&scan->old);
    advance(&scan->new);
}

static bool below(const struct rsbx_item *item, const char *folder, size_t length)
{
    return item->length > length && memcmp(item->path, folder, length) == 0 &&
           item->path[length] == '/';
}

/* Whether the same path of both sides is the same file or folder by the overlay's own doing. */
static bool untouched(const struct scan *scan, const struct rsbx_item *item)
{
    int fd;

    if (scan->upper_fd < 0) {
        return false;
    }
    fd = rsbx_open_beneath(scan->upper_fd, item->path, O_PATH | O_NOFOLLOW);
    if (fd >= 0) {
        close(fd);
    }
    return fd == -ENOENT;
}

/* The same path on both sides. */
static void take_both(struct scan *scan)
{
    bool old_folder = scan->old.item.kind == DT_DIR, new_folder = scan->new.item.kind == DT_DIR;
    struct side *old = &scan->old;

    rsbx_io_check();
    if (untouched(scan, &scan->new.item)) {
        advance(&scan->old);
        advance(&scan->new);
        return;
    }
    if (omit_by_name(scan)) {
        advance(&scan->new);
        return; /* what the baseline has there goes as deleted */
    }
    if (old_folder && new_folder) {
        take_both_folders(scan);
    } else if (!old_folder && !new_folder) {
        take_both_objects(scan);
    } else {
        /* All that was goes before what is: the new item is kept until the old is through. */
        const struct rsbx_item *kept = &scan->new.item;

        take_deleted(scan);
        while (old->there && below(&old->item, kept->path, kept->length)) {
            take_deleted(scan);
        }
        take_added(scan);
    }
}

static void begin(struct scan *scan, struct side *side, const char *folder)
{
    int fd = rsbx_open_root(folder);
    int result = fd < 0 ? fd : rsbx_walk_begin(&side->walk, fd, "", RSBX_ORDER_NAME);

    if (result < 0) {
        rsbx_guest_fail(scan->guest, -result, "cannot read", folder, strlen(folder));
    }
    advance(side);
}

void rsbx_guest_scan(struct rsbx_guest *guest)
{
    static struct scan scan;

    scan.guest = guest;
    scan.upper_fd = -1;
    if ((guest->request.head.flags & RSBX_REQUEST_UPPER) != 0) {
        scan.upper_fd = rsbx_open_root(RSBX_UPPER_FOLDER "/upper");
        if (scan.upper_fd < 0) {
            rsbx_guest_fail(guest, -scan.upper_fd, "cannot open the upper layer", NULL, 0);
        }
    }
    scan.old_object.fd = -1;
    scan.new_object.fd = -1;
    begin(&scan, &scan.old, RSBX_BASELINE_FOLDER);
    begin(&scan, &scan.new, RSBX_WORKSPACE_FOLDER);
    while (scan.old.there || scan.new.there) {
        int order = !scan.old.there   ? 1
                    : !scan.new.there ? -1
                                      : compare_paths(&scan.old.item, &scan.new.item);

        if (order < 0) {
            take_deleted(&scan);
        } else if (order > 0) {
            take_added(&scan);
        } else {
            take_both(&scan);
        }
    }
}
