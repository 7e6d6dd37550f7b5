/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "guest/beneath.h"
#include "guest/content.h"
#include "guest/fingerprint.h"
#include "guest/guest.h"
#include "guest/io.h"
#include "guest/link.h"
#include "guest/sha256.h"
#include "guest/walk.h"

struct seal {
    struct rsbx_guest *guest;
    int root_fd;
    bool copy;
    struct rsbx_folder_cache workspace;
    struct rsbx_guest_sha256 fingerprint_state, rest_state;
    struct rsbx_fp_hash fingerprint, rest;
};

static _Noreturn void fail_item(struct seal *seal, int error, const char *what,
                                const struct rsbx_item *item)
{
    rsbx_guest_fail(seal->guest, error, what, item->path, item->length);
}

static bool skipped(const struct seal *seal, const struct rsbx_item *item)
{
    const struct rsbx_guest_request *request = &seal->guest->request;

    return rsbx_fp_skipped(item->path, item->length, (const char *const *)request->excludes,
                           request->exclude_count);
}

/* The folder of the workspace that an entry is copied to. */
static int copy_folder(struct seal *seal, const struct rsbx_item *item)
{
    int fd = rsbx_folder_cache_get(&seal->workspace, item->path,
                                   rsbx_path_folder(item->path, item->length));

    if (fd < 0) {
        fail_item(seal, -fd, "cannot copy to the workspace", item);
    }
    return fd;
}

/* Feeds exactly `size` bytes of a file to a hash (may be NULL) and a copy (may be -1). */
static void feed_file(struct seal *seal, const struct rsbx_item *item, int fd, uint64_t size,
                      const struct rsbx_fp_hash *hash, int copy_fd)
{
    static uint8_t piece[128U * 1024U];
    uint64_t left = size;

    while (left > 0) {
        size_t want = left < sizeof(piece) ? (size_t)left : sizeof(piece);
        long got = rsbx_read_piece(fd, piece, want);
        int result;

        if (got < 0 || (size_t)got != want) {
            fail_item(seal, got < 0 ? (int)-got : EIO, "cannot read", item);
        }
        hash->update(hash->state, piece, want);
        result = copy_fd < 0 ? 0 : rsbx_write_all(copy_fd, piece, want);
        if (result < 0) {
            fail_item(seal, -result, "cannot copy to the workspace", item);
        }
        left -= want;
        rsbx_io_check();
    }
    if (rsbx_read_piece(fd, piece, 1) != 0) {
        fail_item(seal, EIO, "file became longer while it was read", item);
    }
}

static void seal_file(struct seal *seal, const struct rsbx_item *item, int folder_fd)
{
    const struct rsbx_fp_hash *content = &seal->fingerprint;
    struct stat status = {0};
    int fd = rsbx_open_regular(folder_fd, item->name, &status);
    uint64_t size = (uint64_t)status.st_size;
    uint32_t mode = rsbx_git_mode(&status);
    int copy_fd = -1;

    if (fd < 0) {
        fail_item(seal, -fd, "not a file of a snapshot", item);
    }
    if (seal->copy) {
        copy_fd = openat(copy_folder(seal, item), item->name,
                         O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                         (mode_t)(mode & 0777U));
        if (copy_fd < 0) {
            fail_item(seal, errno, "cannot copy to the workspace", item);
        }
    }
    rsbx_fp_rest(&seal->rest, mode, item->path, item->length, size);
    if (skipped(seal, item)) {
        content = &seal->rest;
    } else {
        rsbx_fp_file(&seal->fingerprint, item->path, item->length, size);
        seal->guest->trailer.fingerprint_entries++;
    }
    feed_file(seal, item, fd, size, content, copy_fd);
    close(fd);
    if (copy_fd >= 0 && close(copy_fd) != 0) {
        fail_item(seal, errno, "cannot copy to the workspace", item);
    }
    seal->guest->trailer.bytes += size;
}

/* A link that the fingerprint does not skip by its path; false when it skips it for its target. */
static bool fingerprint_link(struct seal *seal, const struct rsbx_item *item, const char *target,
                             size_t length)
{
    struct stat status;
    int fd = -1;
    enum rsbx_link_state state =
        rsbx_link_resolve(&fd, seal->root_fd, item->path, item->length, target);

    if (state == RSBX_LINK_OUTSIDE) {
        fail_item(seal, EXDEV, "symlink that leads out of the tree", item);
    }
    if (state == RSBX_LINK_FOLDER) {
        return false;
    }
    if (state == RSBX_LINK_REGULAR && fstat(fd, &status) != 0) {
        fail_item(seal, errno, "cannot examine the target of", item);
    }
    rsbx_fp_link(&seal->fingerprint, item->path, item->length, target, length,
                 state == RSBX_LINK_REGULAR,
                 state == RSBX_LINK_REGULAR ? (uint64_t)status.st_size : 0);
    if (state == RSBX_LINK_REGULAR) {
        feed_file(seal, item, fd, (uint64_t)status.st_size, &seal->fingerprint, -1);
        close(fd);
    }
    seal->guest->trailer.fingerprint_entries++;
    return true;
}

static void seal_link(struct seal *seal, const struct rsbx_item *item, int folder_fd)
{
    char target[RSBX_GUEST_LINK_ROOM];
    long length = rsbx_read_link(folder_fd, item->name, target);

    if (length < 0) {
        fail_item(seal, (int)-length, "cannot read the symlink", item);
    }
    target[length] = '\0';
    rsbx_fp_rest(&seal->rest, 0120000U, item->path, item->length, (uint64_t)length);
    if (skipped(seal, item) || !fingerprint_link(seal, item, target, (size_t)length)) {
        seal->rest.update(seal->rest.state, target, (size_t)length);
    }
    if (seal->copy && symlinkat(target, copy_folder(seal, item), item->name) != 0) {
        fail_item(seal, errno, "cannot copy to the workspace", item);
    }
    seal->guest->trailer.bytes += (uint64_t)length;
}

static void seal_item(struct seal *seal, struct rsbx_walk *walk, const struct rsbx_item *item)
{
    int folder_fd = rsbx_walk_folder(walk);
    int result;

    if (folder_fd < 0) {
        fail_item(seal, -folder_fd, "cannot open the folder of", item);
    }
    if (rsbx_walk_too_deep(item)) {
        fail_item(seal, ENAMETOOLONG, "too deep", item);
    }
    if (item->kind == DT_DIR) {
        result = rsbx_walk_enter(walk, NULL);
        if (result < 0) {
            fail_item(seal, -result, "cannot open", item);
        }
        return;
    }
    seal->guest->trailer.entries++;
    if (item->kind == DT_LNK) {
        seal_link(seal, item, folder_fd);
    } else {
        seal_file(seal, item, folder_fd);
    }
}

static void begin(struct seal *seal)
{
    static const char digits[] = "0123456789abcdef";
    const char *selection = seal->guest->request.selection;
    struct rsbx_guest_sha256 hash;
    uint8_t digest[32];
    char hex[65];

    rsbx_guest_sha256_init(&hash);
    rsbx_guest_sha256_update(&hash, selection, strlen(selection));
    rsbx_guest_sha256_final(&hash, digest);
    for (unsigned i = 0; i < 32; i++) {
        hex[2 * i] = digits[digest[i] >> 4U];
        hex[2 * i + 1] = digits[digest[i] & 15U];
    }
    hex[64] = '\0';
    rsbx_guest_sha256_init(&seal->fingerprint_state);
    rsbx_guest_sha256_init(&seal->rest_state);
    seal->fingerprint.update = rsbx_guest_sha256_update;
    seal->fingerprint.state = &seal->fingerprint_state;
    seal->rest.update = rsbx_guest_sha256_update;
    seal->rest.state = &seal->rest_state;
    rsbx_fp_begin(&seal->fingerprint, hex);
}

void rsbx_guest_seal(struct rsbx_guest *guest)
{
    static struct rsbx_walk walk;
    static struct seal seal;
    struct rsbx_item item;
    int result;

    /* An engine may have given the folder the owner that it has in the image. */
    if (access(RSBX_WORKSPACE_FOLDER, W_OK | X_OK) != 0) {
        rsbx_guest_fail(guest, errno, "commands could not write to the workspace", NULL, 0);
    }
    seal.guest = guest;
    seal.copy = (guest->request.head.flags & RSBX_REQUEST_COPY) != 0;
    seal.root_fd = rsbx_open_root(RSBX_BASELINE_FOLDER);
    if (seal.root_fd < 0) {
        rsbx_guest_fail(guest, -seal.root_fd, "cannot open the baseline", NULL, 0);
    }
    if (seal.copy) {
        int workspace_fd = rsbx_open_root(RSBX_WORKSPACE_FOLDER);

        if (workspace_fd < 0) {
            rsbx_guest_fail(guest, -workspace_fd, "cannot open the workspace", NULL, 0);
        }
        rsbx_folder_cache_start(&seal.workspace, workspace_fd);
    }
    begin(&seal);
    result = rsbx_walk_begin(&walk, seal.root_fd, "", RSBX_ORDER_FINGERPRINT);
    if (result < 0) {
        rsbx_guest_fail(guest, -result, "cannot read the baseline", NULL, 0);
    }
    while (rsbx_walk_next(&walk, &item) > 0) {
        seal_item(&seal, &walk, &item);
    }
    rsbx_fp_end(&seal.fingerprint, guest->trailer.fingerprint_entries);
    rsbx_guest_sha256_final(&seal.fingerprint_state, guest->trailer.stdout_sha256);
    rsbx_guest_sha256_final(&seal.rest_state, guest->trailer.stderr_sha256);
}
