/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/pair.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "guest/beneath.h"

_Noreturn void rsbx_pair_fail(struct rsbx_pair *pair, int error, const char *what,
                              const struct rsbx_item *item)
{
    rsbx_guest_fail(pair->guest, error, what, item->path, item->length);
}

void rsbx_side_advance(struct rsbx_side *side)
{
    side->there = rsbx_walk_next(&side->walk, &side->item) > 0;
}

bool rsbx_unreadable(long result)
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

int rsbx_pair_order(const struct rsbx_pair *pair)
{
    if (!pair->old.there || !pair->new.there) {
        return pair->old.there ? -1 : 1;
    }
    return compare_paths(&pair->old.item, &pair->new.item);
}

bool rsbx_pair_untouched(const struct rsbx_pair *pair)
{
    int fd;

    if (pair->upper_fd < 0) {
        return false;
    }
    fd = rsbx_open_beneath(pair->upper_fd, pair->new.item.path, O_PATH | O_NOFOLLOW);
    if (fd >= 0) {
        close(fd);
    }
    return fd == -ENOENT;
}

static void begin(struct rsbx_pair *pair, struct rsbx_side *side, const char *folder)
{
    int fd = rsbx_open_root(folder);
    int result = fd < 0 ? fd : rsbx_walk_begin(&side->walk, fd, "", RSBX_ORDER_NAME);

    if (result < 0) {
        rsbx_guest_fail(pair->guest, -result, "cannot read", folder, strlen(folder));
    }
    rsbx_side_advance(side);
}

void rsbx_pair_begin(struct rsbx_pair *pair, struct rsbx_guest *guest)
{
    pair->guest = guest;
    pair->upper_fd = -1;
    if ((guest->request.head.flags & RSBX_REQUEST_UPPER) != 0) {
        pair->upper_fd = rsbx_open_root(RSBX_UPPER_FOLDER "/upper");
        if (pair->upper_fd < 0) {
            rsbx_guest_fail(guest, -pair->upper_fd, "cannot open the upper layer", NULL, 0);
        }
    }
    begin(pair, &pair->old, RSBX_BASELINE_FOLDER);
    begin(pair, &pair->new, RSBX_WORKSPACE_FOLDER);
}
