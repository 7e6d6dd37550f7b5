/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RSBX_GUEST_WALK_H
#define RSBX_GUEST_WALK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "guest/beneath.h"

/*
 * A walk of one tree, folder by folder, without recursion. begin, then next until it returns 0;
 * after an item that is a folder, enter descends into it. Only folders near the root stay open, so
 * depth costs memory and no descriptors. Functions return 0 or a negative errno unless said
 * otherwise.
 */

enum rsbx_order {
    RSBX_ORDER_NAME,        /* bytes of the names: a folder comes before what is in it */
    RSBX_ORDER_PATH,        /* bytes of full paths: folders sort as if their name ended in '/' */
    RSBX_ORDER_FINGERPRINT  /* code points; everything else before the folders */
};

struct rsbx_name {
    uint32_t offset;
    uint16_t length;
    uint8_t kind; /* DT_… */
};

struct rsbx_names {
    char *bytes; /* NUL-terminated names */
    struct rsbx_name *items;
    size_t count, byte_count, item_room, byte_room;
};

struct rsbx_frame {
    int fd;             /* -1: closed to save descriptors */
    size_t path_length; /* of the folder */
    struct rsbx_names names;
    size_t next;
};

struct rsbx_walk {
    int root_fd;
    enum rsbx_order order;
    unsigned depth;            /* frames in use */
    unsigned start_components; /* of the folder that it started from */
    struct rsbx_frame *frames; /* RSBX_GUEST_MAX_COMPONENTS + 1 of them */
    char path[RSBX_GUEST_MAX_PATH + 258U];
};

struct rsbx_item {
    const char *path; /* from the root, NUL-terminated, valid until the next call */
    size_t length;
    const char *name; /* its last component */
    unsigned components;
    uint8_t kind;     /* DT_… */
};

int rsbx_walk_begin(struct rsbx_walk *walk, int root_fd, const char *folder,
                    enum rsbx_order order);
/* 1 and an item, 0 at the end. */
int rsbx_walk_next(struct rsbx_walk *walk, struct rsbx_item *item);
/* Into the folder that next gave last; `count` (may be NULL) gets how many names it has.
 * -ENAMETOOLONG when what is in it would be beyond the bounds of depth or length. */
int rsbx_walk_enter(struct rsbx_walk *walk, size_t *count);
/* Gives up a folder that has just been entered. */
void rsbx_walk_leave(struct rsbx_walk *walk);
/* The folder that holds the last item, or a negative errno. */
int rsbx_walk_folder(struct rsbx_walk *walk);
/* Whether an item is itself beyond the bounds. */
bool rsbx_walk_too_deep(const struct rsbx_item *item);

#endif
