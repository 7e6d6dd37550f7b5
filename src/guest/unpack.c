/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "guest/beneath.h"
#include "guest/content.h"
#include "guest/guest.h"
#include "guest/io.h"

/*
 * Makes the workspace, which is still what the baseline is, into another one by the nodes of a pack
 * (pack.c). They come in the order of a walk, a folder before what is in it. Folders stay writable
 * for us until everything is in them; their permissions and times are set last, the deepest first.
 */

struct folder {
    char *path;
    uint32_t mode;
    int64_t mtime_ns;
};

struct unpack {
    struct rsbx_guest *guest;
    struct rsbx_folder_cache cache;
    int root_fd;
    uint64_t bytes;
    struct folder *folders;
    size_t folder_count, folder_room;
};

/* The node that is being received; its path is copied, for its message is gone once content comes. */
struct incoming {
    struct rsbx_node node;
    char path[RSBX_GUEST_MAX_PATH + 1U];
    int folder_fd;
    const char *name;
};

static _Noreturn void fail_node(struct unpack *unpack, int error, const struct incoming *incoming)
{
    rsbx_guest_fail(unpack->guest, error, "cannot be made in the workspace", incoming->path,
                    incoming->node.path_length);
}

static void times_of(struct timespec times[2], int64_t mtime_ns)
{
    int64_t rest = mtime_ns % 1000000000;

    times[0].tv_sec = 0;
    times[0].tv_nsec = UTIME_NOW;
    times[1].tv_sec = (time_t)((mtime_ns - (rest < 0 ? rest + 1000000000 : rest)) / 1000000000);
    times[1].tv_nsec = (long)(rest < 0 ? rest + 1000000000 : rest);
}

/* Unlinks what is no folder in the folder at[0…length); the first folder that it meets is added to
 * the path. 1 when it met one, 0 when nothing is left, or a negative errno. */
static int empty_folder(int root_fd, char *at, size_t *length, size_t room)
{
    int fd = rsbx_open_beneath(root_fd, at, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
    DIR *folder = fd < 0 ? NULL : fdopendir(fd);
    struct dirent *entry;
    int result = 0;

    if (folder == NULL) {
        return fd < 0 ? fd : -ENOMEM;
    }
    rsbx_io_check();
    while (result == 0 && (entry = readdir(folder)) != NULL) {
        size_t part = strlen(entry->d_name);

        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0 ||
            unlinkat(fd, entry->d_name, 0) == 0) {
            continue;
        }
        if ((errno != EISDIR && errno != EPERM) || *length + part + 2U > room) {
            result = errno == EISDIR ? -ENAMETOOLONG : -errno;
        } else {
            at[*length] = '/';
            memcpy(at + *length + 1U, entry->d_name, part + 1U);
            *length += part + 1U;
            result = 1;
        }
    }
    closedir(folder);
    return result;
}

/* Removes a folder of the baseline with all that is in it, without recursion: down to the first
 * folder that has none, and up again. 0 or a negative errno. */
static int remove_folder(int root_fd, const char *path)
{
    char at[RSBX_GUEST_MAX_PATH + 258U];
    size_t start = strlen(path), length = start;

    memcpy(at, path, start + 1U);
    for (;;) {
        int result = empty_folder(root_fd, at, &length, sizeof(at));
        size_t parent = rsbx_path_folder(at, length);
        char name[256];
        int fd;

        if (result < 0) {
            return result;
        }
        if (result > 0) {
            continue;
        }
        memcpy(name, at + parent + (parent > 0), length - parent - (parent > 0) + 1U);
        at[parent] = '\0';
        fd = rsbx_open_beneath(root_fd, at, O_PATH | O_DIRECTORY | O_NOFOLLOW);
        if (fd < 0) {
            return fd;
        }
        result = unlinkat(fd, name, AT_REMOVEDIR) != 0 ? -errno : 0;
        close(fd);
        if (result < 0 || length == start) {
            return result;
        }
        length = parent;
    }
}

static void make_gone(struct unpack *unpack, const struct incoming *incoming)
{
    int result = 0;

    if (unlinkat(incoming->folder_fd, incoming->name, 0) != 0) {
        result = errno == EISDIR || errno == EPERM ? remove_folder(unpack->root_fd, incoming->path)
                                                   : -errno;
    }
    if (result < 0) {
        fail_node(unpack, -result, incoming);
    }
}

static void make_folder(struct unpack *unpack, const struct incoming *incoming)
{
    struct folder *folder;

    if (mkdirat(incoming->folder_fd, incoming->name, 0700) != 0 && errno != EEXIST) {
        fail_node(unpack, errno, incoming);
    }
    if (unpack->folder_count == unpack->folder_room) {
        size_t room = unpack->folder_room * 2U + 64U;
        struct folder *grown = realloc(unpack->folders, room * sizeof(*grown));

        if (grown == NULL) {
            fail_node(unpack, ENOMEM, incoming);
        }
        unpack->folders = grown;
        unpack->folder_room = room;
    }
    folder = &unpack->folders[unpack->folder_count++];
    folder->path = strdup(incoming->path);
    if (folder->path == NULL) {
        fail_node(unpack, ENOMEM, incoming);
    }
    folder->mode = incoming->node.mode;
    folder->mtime_ns = incoming->node.mtime_ns;
}

static void receive_end(void)
{
    struct rsbx_message message;

    rsbx_io_receive(&message);
    if (message.type != RSBX_WIRE_END || message.length != 0) {
        rsbx_guest_malformed();
    }
}

/* What is no folder and stands in the way. */
static void clear_way(struct unpack *unpack, const struct incoming *incoming)
{
    if (unlinkat(incoming->folder_fd, incoming->name, 0) != 0 && errno != ENOENT) {
        fail_node(unpack, errno, incoming);
    }
}

static void make_file(struct unpack *unpack, const struct incoming *incoming)
{
    struct timespec times[2];
    int fd, result;

    clear_way(unpack, incoming);
    fd = openat(incoming->folder_fd, incoming->name,
                O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0) {
        fail_node(unpack, errno, incoming);
    }
    result = rsbx_receive_file(fd, incoming->node.size);
    if (result < 0) {
        fail_node(unpack, -result, incoming);
    }
    receive_end();
    times_of(times, incoming->node.mtime_ns);
    if (fchmod(fd, (mode_t)incoming->node.mode) != 0 || futimens(fd, times) != 0 ||
        close(fd) != 0) {
        fail_node(unpack, errno, incoming);
    }
}

static void set_times(struct unpack *unpack, const struct incoming *incoming)
{
    struct timespec times[2];

    times_of(times, incoming->node.mtime_ns);
    if (utimensat(incoming->folder_fd, incoming->name, times, AT_SYMLINK_NOFOLLOW) != 0) {
        fail_node(unpack, errno, incoming);
    }
}

static void make_link(struct unpack *unpack, const struct incoming *incoming)
{
    char target[RSBX_GUEST_LINK_ROOM];
    int result = rsbx_receive_target(target, incoming->node.size);

    if (result < 0) {
        fail_node(unpack, -result, incoming);
    }
    receive_end();
    clear_way(unpack, incoming);
    if (symlinkat(target, incoming->folder_fd, incoming->name) != 0) {
        fail_node(unpack, errno, incoming);
    }
    set_times(unpack, incoming);
}

static void make_fifo(struct unpack *unpack, const struct incoming *incoming)
{
    clear_way(unpack, incoming);
    if (mkfifoat(incoming->folder_fd, incoming->name, (mode_t)incoming->node.mode) != 0) {
        fail_node(unpack, errno, incoming);
    }
    set_times(unpack, incoming);
}

static void receive_node(struct unpack *unpack, const struct rsbx_message *message)
{
    static struct incoming incoming;
    size_t folder_length;

    if (!rsbx_wire_get_node(&incoming.node, message->payload, message->length)) {
        rsbx_guest_malformed();
    }
    if (!rsbx_path_ok(incoming.node.path, incoming.node.path_length)) {
        rsbx_guest_fail(unpack->guest, EINVAL, "not a path of a workspace", incoming.node.path,
                        incoming.node.path_length);
    }
    rsbx_guest_count_entry(unpack->guest);
    memcpy(incoming.path, incoming.node.path, incoming.node.path_length);
    incoming.path[incoming.node.path_length] = '\0';
    rsbx_count_bytes(unpack->guest, &unpack->bytes, incoming.node.size, incoming.path,
                     incoming.node.path_length);
    folder_length = rsbx_path_folder(incoming.path, incoming.node.path_length);
    incoming.folder_fd = rsbx_folder_cache_get(&unpack->cache, incoming.path, folder_length);
    if (incoming.folder_fd < 0) {
        fail_node(unpack, -incoming.folder_fd, &incoming);
    }
    incoming.name = incoming.path + folder_length + (folder_length > 0);
    switch (incoming.node.kind) {
    case RSBX_NODE_GONE:
        make_gone(unpack, &incoming);
        break;
    case RSBX_NODE_FOLDER:
        make_folder(unpack, &incoming);
        break;
    case RSBX_NODE_FILE:
        make_file(unpack, &incoming);
        break;
    case RSBX_NODE_LINK:
        make_link(unpack, &incoming);
        break;
    case RSBX_NODE_FIFO:
        make_fifo(unpack, &incoming);
        break;
    case RSBX_NODE_TIMES:
        set_times(unpack, &incoming);
        break;
    default:
        rsbx_guest_malformed();
    }
}

static void finish_folders(struct unpack *unpack)
{
    for (size_t i = unpack->folder_count; i > 0; i--) {
        const struct folder *folder = &unpack->folders[i - 1U];
        struct timespec times[2];
        int fd = rsbx_open_beneath(unpack->root_fd, folder->path, O_RDONLY | O_DIRECTORY);

        times_of(times, folder->mtime_ns);
        if (fd < 0 || futimens(fd, times) != 0 || fchmod(fd, (mode_t)folder->mode) != 0) {
            rsbx_guest_fail(unpack->guest, fd < 0 ? -fd : errno, "cannot finish the folder",
                            folder->path, strlen(folder->path));
        }
        close(fd);
    }
}

void rsbx_guest_unpack(struct rsbx_guest *guest)
{
    static struct unpack unpack;
    struct rsbx_message message;

    unpack.guest = guest;
    unpack.root_fd = rsbx_open_root(RSBX_WORKSPACE_FOLDER);
    if (unpack.root_fd < 0) {
        rsbx_guest_fail(guest, -unpack.root_fd, "cannot open the workspace", NULL, 0);
    }
    rsbx_folder_cache_start(&unpack.cache, unpack.root_fd);
    for (;;) {
        rsbx_io_receive(&message);
        if (message.type == RSBX_WIRE_END && message.length == 0) {
            break;
        }
        if (message.type != RSBX_WIRE_NODE) {
            rsbx_guest_malformed();
        }
        receive_node(&unpack, &message);
    }
    finish_folders(&unpack);
    guest->trailer.bytes = unpack.bytes;
}
