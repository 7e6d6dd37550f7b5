/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "guest/beneath.h"
#include "guest/content.h"
#include "guest/guest.h"
#include "guest/io.h"
#include "guest/walk.h"

/* LIST, READ and WRITE: one path of the workspace each. */

/* A path of the request, opened as far as its folder. */
struct place {
    const char *path;
    size_t length;
    int root_fd;
    int folder_fd;
    const char *name;
};

/* What WRITE must not leave behind. */
static struct {
    int folder_fd;
    char name[48];
} unfinished;

static void remove_unfinished(void)
{
    if (unfinished.name[0] != '\0') {
        unlinkat(unfinished.folder_fd, unfinished.name, 0);
        unfinished.name[0] = '\0';
    }
}

static int open_workspace(struct rsbx_guest *guest)
{
    int fd = rsbx_open_root(RSBX_WORKSPACE_FOLDER);

    if (fd < 0) {
        rsbx_guest_fail(guest, -fd, "cannot open the workspace", NULL, 0);
    }
    return fd;
}

static struct place find_place(struct rsbx_guest *guest, bool make_parents)
{
    static struct rsbx_folder_cache cache;
    struct place place = {.path = guest->request.paths[0]};
    size_t folder_length;

    place.length = strlen(place.path);
    if (!rsbx_path_ok(place.path, place.length)) {
        rsbx_guest_fail(guest, EINVAL, "not a path of the workspace", place.path, place.length);
    }
    place.root_fd = open_workspace(guest);
    folder_length = rsbx_path_folder(place.path, place.length);
    place.name = place.path + folder_length + (folder_length > 0);
    if (make_parents) {
        rsbx_folder_cache_start(&cache, place.root_fd);
        place.folder_fd = rsbx_folder_cache_get(&cache, place.path, folder_length);
    } else {
        char folder[RSBX_GUEST_MAX_PATH + 1U];

        memcpy(folder, place.path, folder_length);
        folder[folder_length] = '\0';
        place.folder_fd = rsbx_open_beneath(place.root_fd, folder, O_PATH | O_DIRECTORY);
    }
    if (place.folder_fd < 0) {
        rsbx_guest_fail(guest, -place.folder_fd, "cannot open the folder of", place.path,
                        place.length);
    }
    return place;
}

/* False when it is gone since its name was read. */
static bool describe(struct rsbx_guest *guest, struct rsbx_entry *entry, int folder_fd,
                     const char *name, const char *path, size_t length)
{
    struct stat status;

    memset(entry, 0, sizeof(*entry));
    entry->path = path;
    entry->path_length = (uint32_t)length;
    if (fstatat(folder_fd, name, &status, AT_SYMLINK_NOFOLLOW) != 0) {
        if (errno == ENOENT) {
            return false;
        }
        if (errno != EACCES && errno != EPERM) {
            rsbx_guest_fail(guest, errno, "cannot examine", path, length);
        }
        entry->reason = RSBX_OMIT_UNREADABLE;
        return true;
    }
    entry->new_mode = rsbx_git_mode(&status);
    if (S_ISREG(status.st_mode) || S_ISLNK(status.st_mode)) {
        entry->new_size = (uint64_t)status.st_size;
    }
    entry->links = (uint32_t)status.st_nlink;
    entry->reason = rsbx_omit_reason(&status);
    return true;
}

static void send_described(struct rsbx_guest *guest, const struct rsbx_entry *entry)
{
    rsbx_guest_count_entry(guest);
    rsbx_send_entry(entry);
}

static void list_folder(struct rsbx_guest *guest, int root_fd, const char *folder)
{
    static struct rsbx_walk walk;
    struct rsbx_entry entry;
    struct rsbx_item item;
    int result = rsbx_walk_begin(&walk, root_fd, folder, RSBX_ORDER_NAME);

    if (result < 0) {
        rsbx_guest_fail(guest, -result, "cannot list", folder, strlen(folder));
    }
    while (rsbx_walk_next(&walk, &item) > 0) {
        int folder_fd = rsbx_walk_folder(&walk);

        if (folder_fd < 0) {
            rsbx_guest_fail(guest, -folder_fd, "cannot open the folder of", item.path, item.length);
        }
        rsbx_io_check();
        if (!describe(guest, &entry, folder_fd, item.name, item.path, item.length)) {
            continue;
        }
        if (rsbx_walk_too_deep(&item)) {
            entry.reason = RSBX_OMIT_TOO_DEEP;
        } else if (entry.new_mode == 040000U) {
            /* Told before what is in it, but whether it can be read shows only now. */
            result = rsbx_walk_enter(&walk, NULL);
            if (result == -EACCES || result == -EPERM) {
                entry.reason = RSBX_OMIT_UNREADABLE;
            } else if (result < 0) {
                rsbx_guest_fail(guest, -result, "cannot list", item.path, item.length);
            }
        }
        send_described(guest, &entry);
    }
}

void rsbx_guest_list(struct rsbx_guest *guest)
{
    const char *path = guest->request.paths[0];
    struct rsbx_entry entry;
    struct place place;

    if (path[0] == '\0') {
        list_folder(guest, open_workspace(guest), "");
        return;
    }
    place = find_place(guest, false);
    if (!describe(guest, &entry, place.folder_fd, place.name, path, place.length)) {
        rsbx_guest_fail(guest, ENOENT, "cannot list", path, place.length);
    }
    send_described(guest, &entry);
    if (entry.new_mode == 040000U) {
        list_folder(guest, place.root_fd, path);
    }
}

void rsbx_guest_read(struct rsbx_guest *guest)
{
    struct place place = find_place(guest, false);
    struct stat status = {0};
    uint64_t total = 0;
    int fd = rsbx_open_regular(place.folder_fd, place.name, &status);

    if (fd == -EINVAL && S_ISDIR(status.st_mode)) {
        fd = -EISDIR;
    }
    if (fd < 0) {
        rsbx_guest_fail(guest, -fd, "cannot read as a file", place.path, place.length);
    }
    rsbx_count_bytes(guest, &total, (uint64_t)status.st_size, place.path, place.length);
    guest->trailer.entries = 1;
    rsbx_send_file(guest, fd, total, place.path, place.length);
}

/* What may be replaced: nothing, or a regular file. */
static void check_target(struct rsbx_guest *guest, const struct place *place)
{
    struct stat status;
    int error = 0;

    if (fstatat(place->folder_fd, place->name, &status, AT_SYMLINK_NOFOLLOW) != 0) {
        error = errno == ENOENT ? 0 : errno;
    } else if (S_ISLNK(status.st_mode)) {
        error = ELOOP;
    } else if (S_ISDIR(status.st_mode)) {
        error = EISDIR;
    } else if (!S_ISREG(status.st_mode)) {
        error = EINVAL;
    }
    if (error != 0) {
        rsbx_guest_fail(guest, error, "cannot be written", place->path, place->length);
    }
}

static int create_unfinished(struct rsbx_guest *guest, const struct place *place)
{
    uint64_t random = 0;
    int fd;

    if (getrandom(&random, sizeof(random), 0) != (ssize_t)sizeof(random)) {
        rsbx_guest_fail(guest, EIO, "no random bytes", NULL, 0);
    }
    snprintf(unfinished.name, sizeof(unfinished.name), ".reposbx-%016llx.tmp",
             (unsigned long long)random);
    unfinished.folder_fd = place->folder_fd;
    fd = openat(place->folder_fd, unfinished.name,
                O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0) {
        unfinished.name[0] = '\0';
        rsbx_guest_fail(guest, errno, "cannot be written", place->path, place->length);
    }
    rsbx_io_at_abandon(remove_unfinished);
    return fd;
}

static _Noreturn void fail_write(struct rsbx_guest *guest, int error, const char *what,
                                 const struct place *place)
{
    remove_unfinished();
    rsbx_guest_fail(guest, error, what, place->path, place->length);
}

void rsbx_guest_write(struct rsbx_guest *guest)
{
    const struct rsbx_request *request = &guest->request.head;
    struct place place = find_place(guest, (request->flags & RSBX_REQUEST_PARENTS) != 0);
    mode_t mode = (request->flags & RSBX_REQUEST_EXECUTABLE) != 0 ? 0755 : 0644;
    struct rsbx_message message;
    uint64_t total = 0;
    int fd, result;

    check_target(guest, &place);
    fd = create_unfinished(guest, &place);
    for (;;) {
        rsbx_io_receive(&message);
        if (message.type == RSBX_WIRE_END && message.length == 0) {
            break;
        }
        if (message.type != RSBX_WIRE_DATA || message.length > RSBX_WIRE_PIECE_BYTES) {
            rsbx_guest_malformed();
        }
        total += message.length;
        if (total > request->max_bytes) {
            fail_write(guest, EFBIG, "content over the limit", &place);
        }
        result = rsbx_write_all(fd, message.payload, message.length);
        if (result < 0) {
            fail_write(guest, -result, "cannot be written", &place);
        }
    }
    if (fchmod(fd, mode) != 0 || fsync(fd) != 0 || close(fd) != 0 ||
        renameat(place.folder_fd, unfinished.name, place.folder_fd, place.name) != 0) {
        fail_write(guest, errno, "cannot be written", &place);
    }
    unfinished.name[0] = '\0';
    guest->trailer.entries = 1;
    guest->trailer.bytes = total;
}
