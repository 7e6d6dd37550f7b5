/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "guest/beneath.h"
#include "guest/content.h"
#include "guest/guest.h"
#include "guest/io.h"

/* The entry that is being received; its path is copied, for the message that held it is gone once
 * its content comes. */
struct incoming {
    char path[RSBX_GUEST_MAX_PATH + 1U];
    size_t length;
    uint32_t mode;
    uint64_t size;
    int folder_fd;
    const char *name;
};

static _Noreturn void fail_entry(struct rsbx_guest *guest, int error, const struct incoming *entry)
{
    rsbx_guest_fail(guest, error, "cannot be made in the baseline", entry->path, entry->length);
}

static void fill_file(struct rsbx_guest *guest, const struct incoming *entry)
{
    int fd = openat(entry->folder_fd, entry->name,
                    O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                    (mode_t)(entry->mode & 0777U));
    int result;

    if (fd < 0) {
        fail_entry(guest, errno, entry);
    }
    result = rsbx_receive_file(fd, entry->size);
    if (result < 0) {
        fail_entry(guest, -result, entry);
    }
    if (close(fd) != 0) {
        fail_entry(guest, errno, entry);
    }
}

static void fill_link(struct rsbx_guest *guest, const struct incoming *entry)
{
    char target[RSBX_GUEST_LINK_ROOM];
    int result = rsbx_receive_target(target, entry->size);

    if (result < 0) {
        fail_entry(guest, -result, entry);
    }
    if (symlinkat(target, entry->folder_fd, entry->name) != 0) {
        fail_entry(guest, errno, entry);
    }
}

static void fill_entry(struct rsbx_guest *guest, struct rsbx_folder_cache *cache,
                       const struct rsbx_message *message)
{
    struct incoming incoming;
    struct rsbx_entry entry;
    size_t folder_length;

    if (!rsbx_wire_get_entry(&entry, message->payload, message->length) ||
        entry.change != RSBX_CHANGE_NONE || entry.old_mode != 0 || entry.new_mode == 0 ||
        entry.new_mode == 040000U) {
        rsbx_guest_malformed();
    }
    if (!rsbx_path_ok(entry.path, entry.path_length)) {
        rsbx_guest_fail(guest, EINVAL, "not a path of a snapshot", entry.path, entry.path_length);
    }
    rsbx_guest_count_entry(guest);
    memcpy(incoming.path, entry.path, entry.path_length);
    incoming.path[entry.path_length] = '\0';
    incoming.length = entry.path_length;
    incoming.mode = entry.new_mode;
    incoming.size = entry.new_size;
    folder_length = rsbx_path_folder(incoming.path, incoming.length);
    incoming.folder_fd = rsbx_folder_cache_get(cache, incoming.path, folder_length);
    if (incoming.folder_fd < 0) {
        fail_entry(guest, -incoming.folder_fd, &incoming);
    }
    incoming.name = incoming.path + folder_length + (folder_length > 0);
    if (incoming.mode == 0120000U) {
        fill_link(guest, &incoming);
    } else {
        fill_file(guest, &incoming);
    }
    guest->trailer.bytes += incoming.size;
}

void rsbx_guest_fill(struct rsbx_guest *guest)
{
    static struct rsbx_folder_cache cache;
    struct rsbx_message message;
    int root_fd = rsbx_open_root(RSBX_BASELINE_FOLDER);

    if (root_fd < 0) {
        rsbx_guest_fail(guest, -root_fd, "cannot open the baseline", NULL, 0);
    }
    rsbx_folder_cache_start(&cache, root_fd);
    for (;;) {
        rsbx_io_receive(&message);
        if (message.type == RSBX_WIRE_END && message.length == 0) {
            return;
        }
        if (message.type != RSBX_WIRE_ENTRY) {
            rsbx_guest_malformed();
        }
        fill_entry(guest, &cache, &message);
    }
}
