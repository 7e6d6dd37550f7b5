/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "guest/content.h"
#include "guest/guest.h"
#include "guest/io.h"
#include "guest/pair.h"

/*
 * Everything that makes the workspace (new) another than the baseline (old), for a second workspace
 * to become the same: unlike a scan also empty folders, permissions, times, fifos, and names and
 * folders that no patch carries. Sockets and devices stay behind and are named; hard links become
 * files of their own.
 */

struct pack {
    struct rsbx_pair pair;
    uint64_t bytes;
};

static void send_node(struct pack *pack, struct rsbx_node *node, const struct rsbx_item *item)
{
    uint8_t fixed[RSBX_NODE_FIXED_BYTES];

    node->path = item->path;
    node->path_length = (uint32_t)item->length;
    rsbx_guest_count_entry(pack->pair.guest);
    rsbx_wire_put_node(fixed, node);
    rsbx_io_send(RSBX_WIRE_NODE, fixed, sizeof(fixed), item->path, item->length);
}

static void omit(struct pack *pack, const struct rsbx_item *item, uint32_t reason)
{
    struct rsbx_node node = {.kind = RSBX_NODE_OMITTED, .reason = reason};

    send_node(pack, &node, item);
}

static struct rsbx_node describe(uint32_t kind, const struct stat *status)
{
    return (struct rsbx_node){.kind = kind,
                              .mode = (uint32_t)status->st_mode & 07777U,
                              .mtime_ns = (int64_t)status->st_mtim.tv_sec * 1000000000 +
                                          status->st_mtim.tv_nsec};
}

/* Of an item of either side; false when it may not be looked at. */
static bool examine(struct pack *pack, struct rsbx_side *side, struct stat *status, int *folder_fd)
{
    *folder_fd = rsbx_walk_folder(&side->walk);
    if (*folder_fd < 0) {
        rsbx_pair_fail(&pack->pair, -*folder_fd, "cannot open the folder of", &side->item);
    }
    if (fstatat(*folder_fd, side->item.name, status, AT_SYMLINK_NOFOLLOW) == 0) {
        return true;
    }
    if (!rsbx_unreadable(-errno)) {
        rsbx_pair_fail(&pack->pair, errno, "cannot examine", &side->item);
    }
    return false;
}

static void pack_file(struct pack *pack, int folder_fd, const struct rsbx_item *item)
{
    struct rsbx_node node;
    struct stat status;
    int fd = rsbx_open_regular(folder_fd, item->name, &status);

    if (rsbx_unreadable(fd)) {
        omit(pack, item, RSBX_OMIT_UNREADABLE);
        return;
    }
    if (fd < 0) {
        rsbx_pair_fail(&pack->pair, -fd, "changed while it was read", item);
    }
    node = describe(RSBX_NODE_FILE, &status);
    node.size = (uint64_t)status.st_size;
    rsbx_count_bytes(pack->pair.guest, &pack->bytes, node.size, item->path, item->length);
    send_node(pack, &node, item);
    rsbx_send_file(pack->pair.guest, fd, node.size, item->path, item->length);
}

static void pack_link(struct pack *pack, int folder_fd, const struct rsbx_item *item,
                      const struct stat *status)
{
    char target[RSBX_GUEST_LINK_ROOM];
    struct rsbx_node node = describe(RSBX_NODE_LINK, status);
    long length = rsbx_read_link(folder_fd, item->name, target);

    if (length < 0) {
        rsbx_pair_fail(&pack->pair, (int)-length, "changed while it was read", item);
    }
    node.mode = 0;
    node.size = (uint64_t)length;
    send_node(pack, &node, item);
    rsbx_send_bytes(pack->pair.guest, target, (size_t)length);
}

/* The new side's folder, and into it; false when what is in it stays behind. */
static bool pack_folder(struct pack *pack, const struct stat *status)
{
    struct rsbx_side *side = &pack->pair.new;
    struct rsbx_node node = describe(RSBX_NODE_FOLDER, status);
    int result;

    send_node(pack, &node, &side->item);
    result = rsbx_walk_enter(&side->walk, NULL);
    if (result == -ENAMETOOLONG) {
        omit(pack, &side->item, RSBX_OMIT_TOO_DEEP);
    } else if (rsbx_unreadable(result)) {
        omit(pack, &side->item, RSBX_OMIT_UNREADABLE);
    } else if (result < 0) {
        rsbx_pair_fail(&pack->pair, -result, "cannot read", &side->item);
    }
    return result == 0;
}

/* The new side's item, whatever it is. */
static void pack_new(struct pack *pack)
{
    struct rsbx_side *side = &pack->pair.new;
    struct stat status;
    int folder_fd;

    rsbx_io_check();
    if (rsbx_walk_too_deep(&side->item)) {
        omit(pack, &side->item, RSBX_OMIT_TOO_DEEP);
    } else if (!examine(pack, side, &status, &folder_fd)) {
        omit(pack, &side->item, RSBX_OMIT_UNREADABLE);
    } else if (S_ISDIR(status.st_mode)) {
        (void)pack_folder(pack, &status);
    } else if (S_ISREG(status.st_mode)) {
        pack_file(pack, folder_fd, &side->item);
    } else if (S_ISLNK(status.st_mode)) {
        pack_link(pack, folder_fd, &side->item, &status);
    } else if (S_ISFIFO(status.st_mode)) {
        struct rsbx_node node = describe(RSBX_NODE_FIFO, &status);

        send_node(pack, &node, &side->item);
    } else {
        omit(pack, &side->item, rsbx_omit_reason(&status));
    }
    rsbx_side_advance(side);
}

/* The old side's item is not there any more; what is in a folder goes with it. */
static void pack_gone(struct pack *pack)
{
    struct rsbx_node node = {.kind = RSBX_NODE_GONE};

    rsbx_io_check();
    send_node(pack, &node, &pack->pair.old.item);
    rsbx_side_advance(&pack->pair.old);
}

/* Both are regular files with the same bytes and permissions, or links with the same target: of a
 * copied workspace nearly all. */
static bool same(struct pack *pack, int old_folder, const struct stat *old, int new_folder,
                 const struct stat *new)
{
    const char *old_name = pack->pair.old.item.name, *new_name = pack->pair.new.item.name;
    char old_target[RSBX_GUEST_LINK_ROOM], new_target[RSBX_GUEST_LINK_ROOM];
    struct stat status;
    int old_fd, new_fd, result;

    if (old->st_mode != new->st_mode || old->st_size != new->st_size) {
        return false;
    }
    if (S_ISLNK(new->st_mode)) {
        long length = rsbx_read_link(old_folder, old_name, old_target);

        return length >= 0 && rsbx_read_link(new_folder, new_name, new_target) == length &&
               memcmp(old_target, new_target, (size_t)length) == 0;
    }
    if (!S_ISREG(new->st_mode)) {
        return false;
    }
    old_fd = rsbx_open_regular(old_folder, old_name, &status);
    new_fd = rsbx_open_regular(new_folder, new_name, &status);
    result = old_fd < 0 || new_fd < 0 ? 0 : rsbx_same_content(old_fd, new_fd);
    if (old_fd >= 0) {
        close(old_fd);
    }
    if (new_fd >= 0) {
        close(new_fd);
    }
    return result > 0;
}

static void pack_both(struct pack *pack)
{
    struct rsbx_side *old = &pack->pair.old, *new = &pack->pair.new;
    struct stat was, is;
    int old_folder, new_folder;
    struct rsbx_node node;

    rsbx_io_check();
    if (rsbx_pair_untouched(&pack->pair)) {
        rsbx_side_advance(old);
        rsbx_side_advance(new);
        return;
    }
    if (!examine(pack, old, &was, &old_folder) || !examine(pack, new, &is, &new_folder)) {
        omit(pack, &new->item, RSBX_OMIT_UNREADABLE);
        rsbx_side_advance(old);
        rsbx_side_advance(new);
        return;
    }
    if (S_ISDIR(was.st_mode) && S_ISDIR(is.st_mode)) {
        int result = rsbx_walk_enter(&old->walk, NULL);

        if (result < 0) {
            rsbx_pair_fail(&pack->pair, -result, "cannot read the baseline", &old->item);
        }
        if (!pack_folder(pack, &is)) {
            rsbx_walk_leave(&old->walk);
        }
        rsbx_side_advance(old);
        rsbx_side_advance(new);
    } else if (S_ISDIR(was.st_mode) || S_ISDIR(is.st_mode)) {
        pack_gone(pack);
        pack_new(pack);
    } else if (same(pack, old_folder, &was, new_folder, &is)) {
        node = describe(RSBX_NODE_TIMES, &is);
        node.mode = 0;
        send_node(pack, &node, &new->item);
        rsbx_side_advance(old);
        rsbx_side_advance(new);
    } else {
        rsbx_side_advance(old);
        pack_new(pack);
    }
}

void rsbx_guest_pack(struct rsbx_guest *guest)
{
    static struct pack pack;
    struct rsbx_pair *pair = &pack.pair;

    rsbx_pair_begin(pair, guest);
    while (pair->old.there || pair->new.there) {
        int order = rsbx_pair_order(pair);

        if (order < 0) {
            pack_gone(&pack);
        } else if (order > 0) {
            pack_new(&pack);
        } else {
            pack_both(&pack);
        }
    }
}
