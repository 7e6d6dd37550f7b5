/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/walk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "guest/fingerprint.h"
#include "guest/io.h"

/* Folders this near to the root stay open; two walks at a time leave plenty of descriptors. */
#define OPEN_FRAMES 24U
/* Names of one folder: four million short ones. */
#define MAX_NAME_BYTES (64U * 1024U * 1024U)

/* The kernel's record of getdents64. */
struct record {
    uint64_t inode;
    int64_t offset;
    unsigned short length;
    unsigned char kind;
    char name[];
};

/* qsort has no argument for it, and the guest has one thread. */
static const char *sorted_bytes;

static int compare_bytes(const char *a, size_t a_length, const char *b, size_t b_length)
{
    int result = memcmp(a, b, a_length < b_length ? a_length : b_length);

    return result != 0 ? result : (a_length > b_length) - (a_length < b_length);
}

static int by_name(const void *left, const void *right)
{
    const struct rsbx_name *a = left, *b = right;

    return compare_bytes(sorted_bytes + a->offset, a->length, sorted_bytes + b->offset, b->length);
}

static int by_path(const void *left, const void *right)
{
    const struct rsbx_name *a = left, *b = right;
    const char *a_name = sorted_bytes + a->offset, *b_name = sorted_bytes + b->offset;
    size_t common = a->length < b->length ? a->length : b->length;
    int result = memcmp(a_name, b_name, common);
    unsigned char a_end, b_end;

    if (result != 0) {
        return result;
    }
    /* Names of one folder differ, so one is longer; '/' stands where a folder's name ends. */
    a_end = a->length > common ? (unsigned char)a_name[common] : a->kind == DT_DIR ? '/' : 0;
    b_end = b->length > common ? (unsigned char)b_name[common] : b->kind == DT_DIR ? '/' : 0;
    return a_end - b_end;
}

static int by_fingerprint(const void *left, const void *right)
{
    const struct rsbx_name *a = left, *b = right;

    if ((a->kind == DT_DIR) != (b->kind == DT_DIR)) {
        return a->kind == DT_DIR ? 1 : -1;
    }
    return rsbx_fp_compare(sorted_bytes + a->offset, a->length, sorted_bytes + b->offset,
                           b->length);
}

static void free_names(struct rsbx_names *names)
{
    free(names->bytes);
    free(names->items);
    memset(names, 0, sizeof(*names));
}

/* Room for one more name; both arrays double. */
static int reserve(struct rsbx_names *names, size_t length)
{
    if (names->byte_count + length + 1U > names->byte_room) {
        size_t room = names->byte_room == 0 ? 1024U : names->byte_room * 2U;
        char *grown;

        if (room > MAX_NAME_BYTES) {
            return -EOVERFLOW;
        }
        grown = realloc(names->bytes, room);
        if (grown == NULL) {
            return -ENOMEM;
        }
        names->bytes = grown;
        names->byte_room = room;
    }
    if (names->count == names->item_room) {
        size_t room = names->item_room == 0 ? 64U : names->item_room * 2U;
        struct rsbx_name *grown = realloc(names->items, room * sizeof(*grown));

        if (grown == NULL) {
            return -ENOMEM;
        }
        names->items = grown;
        names->item_room = room;
    }
    return 0;
}

static uint8_t kind_of(int folder_fd, const char *name)
{
    struct stat status;

    if (fstatat(folder_fd, name, &status, AT_SYMLINK_NOFOLLOW) != 0) {
        return DT_UNKNOWN;
    }
    return (uint8_t)((status.st_mode & S_IFMT) >> 12U);
}

static int add_name(struct rsbx_names *names, int folder_fd, const struct record *record)
{
    size_t length = strlen(record->name);
    struct rsbx_name *item;
    int result;

    if ((length == 1 && record->name[0] == '.') ||
        (length == 2 && record->name[0] == '.' && record->name[1] == '.')) {
        return 0;
    }
    result = reserve(names, length);
    if (result < 0) {
        return result;
    }
    item = &names->items[names->count++];
    item->offset = (uint32_t)names->byte_count;
    item->length = (uint16_t)length;
    item->kind = record->kind != DT_UNKNOWN ? record->kind : kind_of(folder_fd, record->name);
    memcpy(names->bytes + names->byte_count, record->name, length + 1U);
    names->byte_count += length + 1U;
    return 0;
}

static int read_names(struct rsbx_names *names, int folder_fd)
{
    static _Alignas(struct record) char buffer[64U * 1024U];

    for (;;) {
        long got = syscall(SYS_getdents64, folder_fd, buffer, sizeof(buffer));
        long at = 0;

        if (got <= 0) {
            return got < 0 ? -errno : 0;
        }
        while (at < got) {
            const struct record *record = (const struct record *)(const void *)(buffer + at);
            int result = add_name(names, folder_fd, record);

            if (result < 0) {
                return result;
            }
            at += record->length;
        }
        rsbx_io_check();
    }
}

static void sort_names(const struct rsbx_names *names, enum rsbx_order order)
{
    static int (*const orders[])(const void *, const void *) = {
        [RSBX_ORDER_NAME] = by_name,
        [RSBX_ORDER_PATH] = by_path,
        [RSBX_ORDER_FINGERPRINT] = by_fingerprint};

    if (names->count > 1) {
        sorted_bytes = names->bytes;
        qsort(names->items, names->count, sizeof(*names->items), orders[order]);
    }
}

/* Makes the folder `fd`, whose path is the first `path_length` bytes of walk->path, the top. */
static int push(struct rsbx_walk *walk, int fd, size_t path_length)
{
    struct rsbx_frame *frame = &walk->frames[walk->depth];
    int result;

    memset(frame, 0, sizeof(*frame));
    result = read_names(&frame->names, fd);
    if (result < 0) {
        free_names(&frame->names);
        close(fd);
        return result;
    }
    sort_names(&frame->names, walk->order);
    frame->fd = fd;
    frame->path_length = path_length;
    walk->depth++;
    return 0;
}

int rsbx_walk_begin(struct rsbx_walk *walk, int root_fd, const char *folder, enum rsbx_order order)
{
    size_t length = strlen(folder);
    int fd;

    if (length > RSBX_GUEST_MAX_PATH) {
        return -ENAMETOOLONG;
    }
    fd = rsbx_open_beneath(root_fd, folder, O_RDONLY | O_DIRECTORY);
    if (fd < 0) {
        return fd;
    }
    memset(walk, 0, sizeof(*walk));
    walk->root_fd = root_fd;
    walk->order = order;
    memcpy(walk->path, folder, length + 1U);
    for (size_t i = 0; i < length; i++) {
        walk->start_components += folder[i] == '/';
    }
    walk->start_components += length > 0;
    walk->frames = calloc(RSBX_GUEST_MAX_COMPONENTS + 1U, sizeof(*walk->frames));
    if (walk->frames == NULL) {
        close(fd);
        return -ENOMEM;
    }
    return push(walk, fd, length);
}

static void pop(struct rsbx_walk *walk)
{
    struct rsbx_frame *frame = &walk->frames[--walk->depth];

    if (frame->fd >= 0) {
        close(frame->fd);
    }
    free_names(&frame->names);
}

int rsbx_walk_next(struct rsbx_walk *walk, struct rsbx_item *item)
{
    while (walk->depth > 0) {
        struct rsbx_frame *frame = &walk->frames[walk->depth - 1U];
        const struct rsbx_name *name;
        size_t start;

        if (frame->next == frame->names.count) {
            pop(walk);
            continue;
        }
        name = &frame->names.items[frame->next++];
        start = frame->path_length;
        if (start > 0) {
            walk->path[start++] = '/';
        }
        memcpy(walk->path + start, frame->names.bytes + name->offset, name->length + 1U);
        item->path = walk->path;
        item->length = start + name->length;
        item->name = walk->path + start;
        item->components = walk->start_components + walk->depth;
        item->kind = name->kind;
        return 1;
    }
    free(walk->frames);
    walk->frames = NULL;
    return 0;
}

void rsbx_walk_leave(struct rsbx_walk *walk)
{
    pop(walk);
}

bool rsbx_walk_too_deep(const struct rsbx_item *item)
{
    return item->components > RSBX_GUEST_MAX_COMPONENTS || item->length > RSBX_GUEST_MAX_PATH;
}

int rsbx_walk_folder(struct rsbx_walk *walk)
{
    struct rsbx_frame *frame = &walk->frames[walk->depth - 1U];
    char kept;

    if (frame->fd >= 0) {
        return frame->fd;
    }
    /* The path of the item goes on behind that of its folder. */
    kept = walk->path[frame->path_length];
    walk->path[frame->path_length] = '\0';
    frame->fd = rsbx_open_beneath(walk->root_fd, walk->path, O_PATH | O_DIRECTORY);
    walk->path[frame->path_length] = kept;
    return frame->fd;
}

int rsbx_walk_enter(struct rsbx_walk *walk, size_t *count)
{
    struct rsbx_frame *parent = &walk->frames[walk->depth - 1U];
    size_t start = parent->path_length + (parent->path_length > 0);
    size_t length = strlen(walk->path);
    int folder = rsbx_walk_folder(walk);
    int fd, result;

    if (folder < 0) {
        return folder;
    }
    if (walk->depth > RSBX_GUEST_MAX_COMPONENTS || length > RSBX_GUEST_MAX_PATH) {
        return -ENAMETOOLONG;
    }
    fd = openat(folder, walk->path + start, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) {
        return -errno;
    }
    if (walk->depth > OPEN_FRAMES) {
        close(parent->fd);
        parent->fd = -1;
    }
    result = push(walk, fd, length);
    if (result == 0 && count != NULL) {
        *count = walk->frames[walk->depth - 1U].names.count;
    }
    return result;
}
