/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/beneath.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* struct open_how and its flags, of Linux 5.6; libcs do not have them. */
struct open_how_v0 {
    uint64_t flags, mode, resolve;
};
#define RESOLVE_NO_MAGICLINKS_FLAG 0x02U
#define RESOLVE_NO_SYMLINKS_FLAG 0x04U
#define RESOLVE_BENEATH_FLAG 0x08U

bool rsbx_path_ok(const char *path, size_t length)
{
    size_t start = 0, components = 0;

    if (length == 0 || length > RSBX_GUEST_MAX_PATH) {
        return false;
    }
    for (size_t i = 0; i <= length; i++) {
        size_t part = i - start;

        if (i < length && path[i] != '/') {
            continue;
        }
        if (part == 0 || (part == 1 && path[start] == '.') ||
            (part == 2 && path[start] == '.' && path[start + 1U] == '.')) {
            return false;
        }
        components++;
        start = i + 1U;
    }
    return components <= RSBX_GUEST_MAX_COMPONENTS && memchr(path, 0, length) == NULL;
}

size_t rsbx_path_folder(const char *path, size_t length)
{
    while (length > 0 && path[length - 1U] != '/') {
        length--;
    }
    return length > 0 ? length - 1U : 0;
}

int rsbx_open_root(const char *folder)
{
    int fd = open(folder, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    return fd < 0 ? -errno : fd;
}

/* What a refused open of a folder means: the kernel says "not a folder" of a symlink as well. */
static int refusal(int folder_fd, const char *name)
{
    struct stat status;
    int error = errno;

    if (error == ENOTDIR && fstatat(folder_fd, name, &status, AT_SYMLINK_NOFOLLOW) == 0 &&
        S_ISLNK(status.st_mode)) {
        return -ELOOP;
    }
    return -error;
}

/* The same by single steps, for kernels and filters without openat2. A symlink that is not last is
 * refused by O_DIRECTORY with O_NOFOLLOW, and ".." never gets here. */
static int open_stepwise(int root_fd, const char *path, int flags)
{
    int folder = root_fd;

    for (;;) {
        char name[256];
        size_t length = strcspn(path, "/");
        bool last = path[length] == '\0';
        int next;

        if (length >= sizeof(name)) {
            next = -ENAMETOOLONG;
        } else {
            memcpy(name, path, length);
            name[length] = '\0';
            next = openat(folder, name,
                          O_NOFOLLOW | O_CLOEXEC | (last ? flags : O_PATH | O_DIRECTORY), 0);
            next = next < 0 ? refusal(folder, name) : next;
        }
        if (folder != root_fd) {
            close(folder);
        }
        if (last || next < 0) {
            return next;
        }
        folder = next;
        path += length + 1U;
    }
}

int rsbx_open_beneath(int root_fd, const char *path, int flags)
{
    static bool no_openat2;
    struct open_how_v0 how = {
        .flags = (uint64_t)(unsigned)(flags | O_CLOEXEC),
        .resolve = RESOLVE_BENEATH_FLAG | RESOLVE_NO_SYMLINKS_FLAG | RESOLVE_NO_MAGICLINKS_FLAG};
    int fd;

    if (path[0] == '\0') {
        fd = openat(root_fd, ".", flags | O_CLOEXEC | O_NOFOLLOW);
        return fd < 0 ? -errno : fd;
    }
    if (!rsbx_path_ok(path, strlen(path))) {
        return -EINVAL;
    }
    if (!no_openat2) {
        fd = (int)syscall(SYS_openat2, root_fd, path, &how, sizeof(how));
        if (fd >= 0) {
            return fd;
        }
        /* Filters older than the call answer EPERM; then the single steps decide. */
        if (errno != ENOSYS && errno != EPERM) {
            return -errno;
        }
        no_openat2 = errno == ENOSYS;
    }
    return open_stepwise(root_fd, path, flags);
}

void rsbx_folder_cache_start(struct rsbx_folder_cache *cache, int root_fd)
{
    cache->root_fd = root_fd;
    cache->fd = -1;
    cache->length = 0;
}

int rsbx_folder_cache_get(struct rsbx_folder_cache *cache, const char *path, size_t length)
{
    int folder = cache->root_fd;
    size_t start = 0;

    if (cache->fd >= 0 && cache->length == length && memcmp(cache->path, path, length) == 0) {
        return cache->fd;
    }
    if (cache->fd >= 0 && cache->fd != cache->root_fd) {
        close(cache->fd);
    }
    cache->fd = -1;
    if (length > RSBX_GUEST_MAX_PATH) {
        return -ENAMETOOLONG;
    }
    memcpy(cache->path, path, length);
    cache->path[length] = '\0';
    cache->length = length;
    while (start < length) {
        char *name = cache->path + start;
        size_t part = strcspn(name, "/");
        char slash = name[part];
        int next;

        name[part] = '\0';
        next = openat(folder, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (next < 0 && errno == ENOENT && mkdirat(folder, name, 0755) == 0) {
            next = openat(folder, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        }
        next = next < 0 ? refusal(folder, name) : next;
        name[part] = slash;
        if (folder != cache->root_fd) {
            close(folder);
        }
        if (next < 0) {
            return next;
        }
        folder = next;
        start += part + 1U;
    }
    cache->fd = folder;
    return folder;
}
