/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "guest/beneath.h"
#include "guest/content.h"
#include "guest/guest.h"
#include "guest/io.h"
#include "guest/walk.h"

/* One path, for finding those that are at or below another. */
struct wanted {
    const char *path;
    size_t index; /* in the request */
};

/* Order in which everything below a folder follows the folder at once: '/' is the lowest byte. */
static int by_tree(const void *left, const void *right)
{
    const struct wanted *first = left, *second = right;
    const unsigned char *a = (const unsigned char *)first->path;
    const unsigned char *b = (const unsigned char *)second->path;

    while (*a == *b && *a != '\0') {
        a++;
        b++;
    }
    if (*a == *b) {
        return (first->index > second->index) - (first->index < second->index);
    }
    if (*a == '\0' || *b == '\0') {
        return *a == '\0' ? -1 : 1;
    }
    if (*a == '/' || *b == '/') {
        return *a == '/' ? -1 : 1;
    }
    return *a < *b ? -1 : 1;
}

/* Takes out of the request every path that another one covers, so that no file comes twice. */
static void drop_covered(struct rsbx_guest *guest)
{
    struct rsbx_guest_request *request = &guest->request;
    struct wanted *wanted = calloc(request->path_count, sizeof(*wanted));
    const char *kept = NULL;

    if (wanted == NULL) {
        rsbx_guest_fail(guest, ENOMEM, "too many paths", NULL, 0);
    }
    for (size_t i = 0; i < request->path_count; i++) {
        wanted[i].path = request->paths[i];
        wanted[i].index = i;
    }
    qsort(wanted, request->path_count, sizeof(*wanted), by_tree);
    for (size_t i = 0; i < request->path_count; i++) {
        size_t length = kept == NULL ? 0 : strlen(kept);

        if (kept != NULL && strncmp(wanted[i].path, kept, length) == 0 &&
            (wanted[i].path[length] == '\0' || wanted[i].path[length] == '/')) {
            request->paths[wanted[i].index] = NULL;
        } else {
            kept = wanted[i].path;
        }
    }
    free(wanted);
}

static void collect_member(struct rsbx_guest *guest, uint64_t *total, int folder_fd,
                           const char *name, const char *path, size_t length)
{
    struct rsbx_entry entry = {.path = path, .path_length = (uint32_t)length};
    struct stat status = {0};
    int fd = rsbx_open_regular(folder_fd, name, &status);

    rsbx_io_check();
    if (fd < 0) {
        rsbx_guest_fail(guest, -fd, "not a regular file that can be read", path, length);
    }
    if (status.st_nlink > 1) {
        rsbx_guest_fail(guest, EMLINK, "file with more than one link", path, length);
    }
    rsbx_guest_count_entry(guest);
    rsbx_count_bytes(guest, total, (uint64_t)status.st_size, path, length);
    entry.new_mode = rsbx_git_mode(&status);
    entry.new_size = (uint64_t)status.st_size;
    entry.links = (uint32_t)status.st_nlink;
    rsbx_send_entry(&entry);
    rsbx_send_file(guest, fd, entry.new_size, path, length);
}

static void collect_folder(struct rsbx_guest *guest, uint64_t *total, int root_fd,
                           const char *folder)
{
    static struct rsbx_walk walk;
    struct rsbx_item item;
    int result = rsbx_walk_begin(&walk, root_fd, folder, RSBX_ORDER_PATH);

    if (result < 0) {
        rsbx_guest_fail(guest, -result, "cannot open", folder, strlen(folder));
    }
    while (rsbx_walk_next(&walk, &item) > 0) {
        int folder_fd = rsbx_walk_folder(&walk);

        if (folder_fd < 0) {
            rsbx_guest_fail(guest, -folder_fd, "cannot open the folder of", item.path, item.length);
        }
        if (rsbx_walk_too_deep(&item)) {
            rsbx_guest_fail(guest, ENAMETOOLONG, "too deep", item.path, item.length);
        }
        if (item.kind != DT_DIR) {
            collect_member(guest, total, folder_fd, item.name, item.path, item.length);
            continue;
        }
        result = rsbx_walk_enter(&walk, NULL);
        if (result < 0) {
            rsbx_guest_fail(guest, -result, "cannot open", item.path, item.length);
        }
    }
}

static void collect_path(struct rsbx_guest *guest, uint64_t *total, int root_fd, const char *path)
{
    size_t length = strlen(path), folder_length;
    char folder[RSBX_GUEST_MAX_PATH + 1U];
    const char *name;
    struct stat status;
    int folder_fd;

    folder_length = rsbx_path_folder(path, length);
    memcpy(folder, path, folder_length);
    folder[folder_length] = '\0';
    name = path + folder_length + (folder_length > 0);
    folder_fd = rsbx_open_beneath(root_fd, folder, O_PATH | O_DIRECTORY);
    if (folder_fd < 0) {
        rsbx_guest_fail(guest, -folder_fd, "cannot open the folder of", path, length);
    }
    if (fstatat(folder_fd, name, &status, AT_SYMLINK_NOFOLLOW) != 0) {
        rsbx_guest_fail(guest, errno, "cannot open", path, length);
    }
    if (S_ISDIR(status.st_mode)) {
        collect_folder(guest, total, root_fd, path);
    } else {
        collect_member(guest, total, folder_fd, name, path, length);
    }
    close(folder_fd);
}

void rsbx_guest_collect(struct rsbx_guest *guest)
{
    struct rsbx_guest_request *request = &guest->request;
    bool baseline = (request->head.flags & RSBX_REQUEST_BASELINE) != 0;
    const char *root = baseline ? RSBX_BASELINE_FOLDER : RSBX_WORKSPACE_FOLDER;
    int root_fd = rsbx_open_root(root);
    uint64_t total = 0;

    if (root_fd < 0) {
        rsbx_guest_fail(guest, -root_fd, "cannot open", root, strlen(root));
    }
    for (size_t i = 0; i < request->path_count; i++) {
        const char *path = request->paths[i];

        if (!rsbx_path_ok(path, strlen(path))) {
            rsbx_guest_fail(guest, EINVAL, "not a path of the workspace", path, strlen(path));
        }
    }
    drop_covered(guest);
    for (size_t i = 0; i < request->path_count; i++) {
        if (request->paths[i] != NULL) {
            collect_path(guest, &total, root_fd, request->paths[i]);
        }
    }
}
