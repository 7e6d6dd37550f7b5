/* SPDX-License-Identifier: Apache-2.0 */
#include "source/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/lister.h"

#include "base/banned.h"

/*
 * A plain folder, without Git. Everything is opened below the top by openat, one component at a
 * time, never through a symlink, never blocking; what is no file, folder or symlink is refused.
 */

/* Opens a listed folder below the top. */
static int open_folder(int *out, const struct rsbx_listing *listing, int top_fd, uint32_t folder,
                       reposbx_error *err)
{
    RSBX_AUTO(rsbx_fd) int fd = openat(top_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    char path[RSBX_MAX_PATH_BYTES + 1];
    char *rest = path;

    (void)rsbx_folder_path(path, listing, folder);
    while (fd >= 0 && *rest != '\0') {
        size_t part = strcspn(rest, "/");
        char after = rest[part];
        int next_fd;

        rest[part] = '\0';
        next_fd = openat(fd, rest, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        (void)close(fd);
        fd = next_fd;
        rest[part] = after;
        rest += part + (after == '/' ? 1 : 0);
    }
    if (fd < 0)
        return rsbx_fail_errno(err, REPOSBX_EIO, "cannot open the folder \"%s\"", path);
    *out = rsbx_fd_steal(&fd);
    return REPOSBX_OK;
}

static int kind_of(struct rsbx_item *item, int fd, const char *where, reposbx_error *err)
{
    struct stat facts;
    const char *what = "a device";

    if (fstatat(fd, item->name, &facts, AT_SYMLINK_NOFOLLOW) != 0)
        return rsbx_fail_errno(err, REPOSBX_EIO, "%s: cannot stat \"%s\"", where, item->name);
    item->size = S_ISDIR(facts.st_mode) ? 0 : (uint64_t)facts.st_size;
    if (S_ISDIR(facts.st_mode))
        item->mode = RSBX_MODE_FOLDER;
    else if (S_ISREG(facts.st_mode))
        item->mode = (facts.st_mode & S_IXUSR) != 0 ? RSBX_MODE_EXECUTABLE : RSBX_MODE_FILE;
    else if (S_ISLNK(facts.st_mode))
        item->mode = RSBX_MODE_LINK;
    else if (S_ISFIFO(facts.st_mode))
        what = "a fifo";
    else if (S_ISSOCK(facts.st_mode))
        what = "a socket";
    if (item->mode == 0)
        return rsbx_fail(err, REPOSBX_EPOLICY, "%s: \"%s\" is %s", where, item->name, what);
    return REPOSBX_OK;
}

struct names {
    struct rsbx_item *items;
    char *text; /* all names, each with its NUL; items point here once it no longer moves */
    size_t count, room;
    size_t used, text_room;
};

static void names_autop(struct names *names)
{
    free(names->items);
    free(names->text);
}

static int add_name(struct names *names, const char *name, reposbx_error *err)
{
    size_t length = strlen(name);

    if (names->count == names->room) {
        size_t room = names->room > 0 ? 2 * names->room : 64;
        void *bigger = realloc(names->items, room * sizeof *names->items);

        if (bigger == NULL)
            return rsbx_fail_memory(err);
        names->items = bigger;
        names->room = room;
    }
    if (names->used + length + 1 > names->text_room) {
        size_t room = 2 * (names->text_room + length + 1);
        char *bigger = realloc(names->text, room);

        if (bigger == NULL)
            return rsbx_fail_memory(err);
        names->text = bigger;
        names->text_room = room;
    }
    memset(&names->items[names->count], 0, sizeof names->items[0]);
    names->items[names->count++].length = length;
    memcpy(names->text + names->used, name, length + 1);
    names->used += length + 1;
    return REPOSBX_OK;
}

static int read_names(struct names *names, int fd, const char *where, reposbx_error *err)
{
    RSBX_AUTO(rsbx_lister) struct rsbx_lister lister = { NULL, NULL };
    const char *name;
    int rc = rsbx_lister_open(&lister, fd, where, err);

    while (rc == 0 && (rc = rsbx_lister_next(&name, &lister, err)) > 0) {
        if (names->count == RSBX_MAX_ENTRIES)
            rc = rsbx_fail(err, REPOSBX_EPOLICY, "%s: more than %u names", where, RSBX_MAX_ENTRIES);
        else
            rc = add_name(names, name, err);
    }
    return rc;
}

static int list_folder(struct rsbx_listing *listing, int top_fd, uint32_t folder,
                       reposbx_error *err)
{
    RSBX_AUTO(names) struct names names = { 0 };
    RSBX_AUTO(rsbx_fd) int fd = -1;
    char path[RSBX_MAX_PATH_BYTES + 1];
    char where[RSBX_MAX_PATH_BYTES + 16];
    size_t at = 0;
    int rc = open_folder(&fd, listing, top_fd, folder, err);

    if (rc != 0)
        return rc;
    (void)rsbx_folder_path(path, listing, folder);
    (void)snprintf(where, sizeof where, "folder \"%s\"", path);
    rc = read_names(&names, fd, where, err);
    for (size_t i = 0; i < names.count && rc == 0; i++) {
        struct rsbx_item *item = &names.items[i];

        item->name = names.text + at;
        at += item->length + 1;
        rc = kind_of(item, fd, where, err);
        /* No id is known yet, and none may look like that of the empty tree. */
    }
    if (rc == 0)
        rc = rsbx_listing_add(listing, folder, names.items, names.count, where, err);
    if (rc == 0)
        listing->folders[folder].empty = names.count == 0 && folder != 0;
    return rc;
}

int rsbx_plain_list(struct rsbx_listing *listing, int top_fd, reposbx_error *err)
{
    int64_t folder;

    while ((folder = rsbx_listing_next_folder(listing)) >= 0) {
        int rc = list_folder(listing, top_fd, (uint32_t)folder, err);

        if (rc != 0)
            return rc;
    }
    for (size_t i = 0; i < listing->leaf_count; i++) {
        int rc = rsbx_listing_size(listing, &listing->leaves[i], listing->leaves[i].size, err);

        if (rc != 0)
            return rc;
    }
    return REPOSBX_OK;
}

static int changed(const char *path, reposbx_error *err)
{
    (void)rsbx_fail(err, REPOSBX_EIO, "%s changed while it was read", path);
    rsbx_hint(err, "try again when nothing writes to the folder");
    return REPOSBX_EIO;
}

static int read_link(struct rsbx_buf *buf, int fd, const char *name, const char *path,
                     uint64_t size, reposbx_error *err)
{
    char target[RSBX_MAX_TARGET_BYTES + 2];
    ssize_t got = readlinkat(fd, name, target, sizeof target);

    if (got < 0 || (uint64_t)got != size)
        return changed(path, err);
    return rsbx_buf_append(buf, target, (size_t)got, err);
}

static int read_file(struct rsbx_buf *buf, int fd, const char *name, const char *path,
                     const struct rsbx_leaf *leaf, reposbx_error *err)
{
    RSBX_AUTO(rsbx_fd) int file_fd =
        openat(fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    struct stat facts;
    char *place;
    ssize_t got;

    if (file_fd < 0 && errno != ELOOP && errno != ENOENT)
        return rsbx_fail_errno(err, REPOSBX_EIO, "cannot open %s", path);
    if (file_fd < 0 || fstat(file_fd, &facts) != 0 || !S_ISREG(facts.st_mode) ||
        (uint64_t)facts.st_size != leaf->size)
        return changed(path, err);
    /* One byte more: growth shows. */
    place = rsbx_buf_reserve(buf, (size_t)leaf->size + 1, err);
    if (place == NULL)
        return REPOSBX_EINTERNAL;
    got = rsbx_read_full(file_fd, place, (size_t)leaf->size + 1);
    if (got < 0)
        return rsbx_fail_errno(err, REPOSBX_EIO, "cannot read %s", path);
    if ((uint64_t)got != leaf->size)
        return changed(path, err);
    buf->length += (size_t)got;
    return REPOSBX_OK;
}

int rsbx_plain_read(struct rsbx_buf *buf, struct rsbx_listing *listing, int top_fd,
                    struct rsbx_leaf *leaf, reposbx_error *err)
{
    RSBX_AUTO(rsbx_fd) int fd = -1;
    char path[RSBX_MAX_PATH_BYTES + 1];
    char name[RSBX_MAX_NAME_BYTES + 1];
    int rc = open_folder(&fd, listing, top_fd, leaf->folder, err);

    if (rc != 0)
        return rc;
    (void)rsbx_leaf_path(path, listing, leaf);
    memcpy(name, listing->names + leaf->name, leaf->name_length);
    name[leaf->name_length] = '\0';
    rsbx_buf_clear(buf);
    rc = leaf->mode == RSBX_MODE_LINK ? read_link(buf, fd, name, path, leaf->size, err)
                                      : read_file(buf, fd, name, path, leaf, err);
    if (rc == 0)
        rsbx_blob_oid(leaf->oid, buf->data, buf->length);
    return rc;
}
