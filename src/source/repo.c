/* SPDX-License-Identifier: Apache-2.0 */
#include "source/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/lister.h"

#include "base/banned.h"

/* More files than any honest objects/pack holds; a bound on the look through it. */
#define MAX_PACK_FILES 100000U

static int absolute_path(char out[RSBX_MAX_PATH_BYTES + 1], const char *path, reposbx_error *err)
{
    char folder[RSBX_MAX_PATH_BYTES + 1] = "";
    const char *rest = path;
    size_t used = 0;

    if (strlen(path) > RSBX_MAX_PATH_BYTES)
        return rsbx_fail(err, REPOSBX_EPOLICY, "repository: path over %u bytes",
                         RSBX_MAX_PATH_BYTES);
    if (path[0] != '/') {
        if (getcwd(folder, sizeof folder) == NULL)
            return rsbx_fail_errno(err, REPOSBX_EIO, "repository: no current folder");
        used = strcmp(folder, "/") == 0 ? 0 : strlen(folder);
        memcpy(out, folder, used);
    }
    while (*rest != '\0') {
        size_t part = strcspn(rest, "/");

        if (part == 2 && rest[0] == '.' && rest[1] == '.') {
            (void)rsbx_fail(err, REPOSBX_EPOLICY, "repository: \"..\" in %s", path);
            rsbx_hint(err, "give the path without \"..\"");
            return REPOSBX_EPOLICY;
        }
        if (part > 0 && !(part == 1 && rest[0] == '.')) {
            if (used + 1 + part > RSBX_MAX_PATH_BYTES)
                return rsbx_fail(err, REPOSBX_EPOLICY, "repository: path over %u bytes",
                                 RSBX_MAX_PATH_BYTES);
            out[used++] = '/';
            memcpy(out + used, rest, part);
            used += part;
        }
        rest += part + (rest[part] == '/' ? 1 : 0);
    }
    if (used == 0)
        out[used++] = '/';
    out[used] = '\0';
    return REPOSBX_OK;
}

static int check_owner(int fd, const char *what, enum rsbx_owner_rule owner, reposbx_error *err)
{
    struct stat facts;

    if (fstat(fd, &facts) != 0)
        return rsbx_fail_errno(err, REPOSBX_EIO, "cannot stat %s", what);
    if (owner == RSBX_OWNER_ANY || facts.st_uid == geteuid())
        return REPOSBX_OK;
    (void)rsbx_fail(err, REPOSBX_EPOLICY, "%s belongs to user %lu, not to the caller (user %lu)",
                    what, (unsigned long)facts.st_uid, (unsigned long)geteuid());
    rsbx_hint(err, "a policy with \"source\": {\"owner\": \"any\"} (source.owner=any) allows it");
    return REPOSBX_EPOLICY;
}

/* One step down, refusing symlinks. On success *fd is replaced. */
static int step(int *fd, const char *name, const char *so_far, reposbx_error *err)
{
    struct stat facts;
    int next_fd;

    if (fstatat(*fd, name, &facts, AT_SYMLINK_NOFOLLOW) != 0) {
        int missing = errno == ENOENT || errno == ENOTDIR;

        return rsbx_fail_errno(err, missing ? REPOSBX_ENOTFOUND : REPOSBX_EIO,
                               "repository: cannot reach %s", so_far);
    }
    if (S_ISLNK(facts.st_mode)) {
        (void)rsbx_fail(err, REPOSBX_EPOLICY, "repository: %s is a symlink", so_far);
        rsbx_hint(err, "give the real path of the repository");
        return REPOSBX_EPOLICY;
    }
    if (!S_ISDIR(facts.st_mode))
        return rsbx_fail(err, REPOSBX_EPOLICY, "repository: %s is not a folder", so_far);
    next_fd = openat(*fd, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (next_fd < 0)
        return rsbx_fail_errno(err, REPOSBX_EIO, "repository: cannot open %s", so_far);
    (void)close(*fd);
    *fd = next_fd;
    return REPOSBX_OK;
}

int rsbx_repo_open_folder(struct rsbx_repo *repo, const char *path, enum rsbx_owner_rule owner,
                          reposbx_error *err)
{
    RSBX_AUTO(rsbx_fd) int fd = -1;
    struct stat root, here;
    char so_far[RSBX_MAX_PATH_BYTES + 1];
    char *rest;
    int rc = absolute_path(repo->path, path, err);

    if (rc != 0)
        return rc;
    /* getcwd() gives a path without symlinks, so a relative path may be walked from the root
     * too. */
    fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return rsbx_fail_errno(err, REPOSBX_EIO, "cannot open /");
    (void)memcpy(so_far, repo->path, sizeof so_far);
    rest = so_far + 1;
    while (*rest != '\0') {
        size_t part = strcspn(rest, "/");
        char after = rest[part];

        rest[part] = '\0';
        rc = step(&fd, rest, so_far, err);
        if (rc != 0)
            return rc;
        rest[part] = after;
        rest += part + (after == '/' ? 1 : 0);
    }
    if (stat("/", &root) != 0 || fstat(fd, &here) != 0)
        return rsbx_fail_errno(err, REPOSBX_EIO, "repository: cannot stat %s", repo->path);
    if (root.st_dev == here.st_dev && root.st_ino == here.st_ino)
        return rsbx_fail(err, REPOSBX_EPOLICY, "repository: / is not allowed");
    rc = check_owner(fd, repo->path, owner, err);
    if (rc != 0)
        return rc;
    repo->top_fd = rsbx_fd_steal(&fd);
    return REPOSBX_OK;
}

static bool exists(int fd, const char *name)
{
    struct stat facts;

    return fstatat(fd, name, &facts, AT_SYMLINK_NOFOLLOW) == 0;
}

/* There is no .git: says what the folder is instead. */
static int explain_no_git(const struct rsbx_repo *repo, reposbx_error *err)
{
    char above[RSBX_MAX_PATH_BYTES + 8];
    char *slash;

    if (exists(repo->top_fd, "HEAD") && exists(repo->top_fd, "objects") &&
        exists(repo->top_fd, "refs")) {
        (void)rsbx_fail(err, REPOSBX_EPOLICY, "%s is a bare repository, not a checkout",
                        repo->path);
        rsbx_hint(err, "clone it and give the clone");
        return REPOSBX_EPOLICY;
    }
    (void)snprintf(above, sizeof above, "%s", repo->path);
    while ((slash = strrchr(above, '/')) != NULL && slash != above) {
        struct stat facts;

        memcpy(slash, "/.git", sizeof "/.git");
        if (lstat(above, &facts) == 0) {
            *slash = '\0';
            (void)rsbx_fail(err, REPOSBX_EPOLICY, "%s is a subfolder of the repository %s",
                            repo->path, above);
            rsbx_hint(err, "give the top level: %s", above);
            return REPOSBX_EPOLICY;
        }
        *slash = '\0';
    }
    (void)rsbx_fail(err, REPOSBX_EPOLICY, "%s is not a Git repository (it has no .git folder)",
                    repo->path);
    rsbx_hint(err, "give the folder of a checkout, where .git lies");
    return REPOSBX_EPOLICY;
}

/* Opens a folder inside .git that must be real. Missing is fine where `optional`: *out is -1. */
static int open_real(int *out, int dir_fd, const char *name, const char *shown, bool optional,
                     int flags, reposbx_error *err)
{
    struct stat facts;
    int fd;

    if (fstatat(dir_fd, name, &facts, AT_SYMLINK_NOFOLLOW) != 0) {
        if (errno == ENOENT && optional) {
            *out = -1;
            return REPOSBX_OK;
        }
        return rsbx_fail_errno(err, REPOSBX_EPOLICY, "no Git repository: cannot reach %s", shown);
    }
    if (S_ISLNK(facts.st_mode))
        return rsbx_fail(err, REPOSBX_EPOLICY, "%s is a symlink; it must be a real folder", shown);
    if (!S_ISDIR(facts.st_mode))
        return rsbx_fail(err, REPOSBX_EPOLICY, "%s is not a folder", shown);
    fd = openat(dir_fd, name, flags | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return rsbx_fail_errno(err, REPOSBX_EIO, "cannot open %s", shown);
    *out = fd;
    return REPOSBX_OK;
}

static bool ends_with(const char *name, const char *end)
{
    size_t length = strlen(name);
    size_t end_length = strlen(end);

    return length >= end_length && strcmp(name + length - end_length, end) == 0;
}

/* libgit2 opens what it finds in objects/pack by name: all of it must be plain files. */
static int check_packs(int objects_fd, reposbx_error *err)
{
    RSBX_AUTO(rsbx_fd) int pack_fd = -1;
    RSBX_AUTO(rsbx_lister) struct rsbx_lister lister = { NULL, NULL };
    size_t count = 0;
    const char *name;
    int rc = open_real(&pack_fd, objects_fd, "pack", ".git/objects/pack", true, O_RDONLY, err);

    if (rc != 0 || pack_fd < 0)
        return rc;
    rc = rsbx_lister_open(&lister, pack_fd, ".git/objects/pack", err);
    while (rc == 0 && (rc = rsbx_lister_next(&name, &lister, err)) > 0) {
        struct stat facts;

        rc = 0;
        if (++count > MAX_PACK_FILES)
            rc = rsbx_fail(err, REPOSBX_EPOLICY, "more than %u files in .git/objects/pack",
                           MAX_PACK_FILES);
        else if (fstatat(pack_fd, name, &facts, AT_SYMLINK_NOFOLLOW) != 0)
            rc = errno == ENOENT ? 0 : rsbx_fail_errno(err, REPOSBX_EIO,
                                                       "cannot stat .git/objects/pack/%s", name);
        else if (!S_ISREG(facts.st_mode))
            rc = rsbx_fail(err, REPOSBX_EPOLICY, ".git/objects/pack/%s is %s", name,
                           S_ISLNK(facts.st_mode) ? "a symlink" : "not a regular file");
        else if (ends_with(name, ".promisor"))
            rc = rsbx_fail(err, REPOSBX_EPOLICY,
                           "a partial clone (.git/objects/pack/%s): objects may be missing, and "
                           "nothing is ever fetched", name);
    }
    return rc;
}

static int check_objects(int objects_fd, reposbx_error *err)
{
    RSBX_AUTO(rsbx_fd) int info_fd = -1;
    int rc = open_real(&info_fd, objects_fd, "info", ".git/objects/info", true, O_PATH, err);

    if (rc != 0)
        return rc;
    if (info_fd >= 0 && exists(info_fd, "alternates")) {
        (void)rsbx_fail(err, REPOSBX_EPOLICY,
                        ".git/objects/info/alternates: the repository borrows another's objects");
        rsbx_hint(err, "make it complete: git repack -a -d, then remove that file");
        return REPOSBX_EPOLICY;
    }
    for (unsigned fan = 0; fan < 256; fan++) {
        struct stat facts;
        char name[3];

        (void)snprintf(name, sizeof name, "%02x", fan);
        if (fstatat(objects_fd, name, &facts, AT_SYMLINK_NOFOLLOW) == 0 && !S_ISDIR(facts.st_mode))
            return rsbx_fail(err, REPOSBX_EPOLICY, ".git/objects/%s is %s", name,
                             S_ISLNK(facts.st_mode) ? "a symlink" : "not a folder");
    }
    return check_packs(objects_fd, err);
}

static int open_git_folder(int *out, const struct rsbx_repo *repo, reposbx_error *err)
{
    struct stat facts;

    if (fstatat(repo->top_fd, ".git", &facts, AT_SYMLINK_NOFOLLOW) != 0) {
        if (errno == ENOENT)
            return explain_no_git(repo, err);
        return rsbx_fail_errno(err, REPOSBX_EIO, "cannot stat %s/.git", repo->path);
    }
    if (S_ISREG(facts.st_mode)) {
        (void)rsbx_fail(err, REPOSBX_EPOLICY,
                        "%s/.git is a file (a linked worktree or a submodule), not a folder",
                        repo->path);
        rsbx_hint(err, "give the main checkout, or a clone of this one");
        return REPOSBX_EPOLICY;
    }
    return open_real(out, repo->top_fd, ".git", ".git", false, O_PATH, err);
}

int rsbx_repo_open_git(struct rsbx_repo *repo, enum rsbx_owner_rule owner, reposbx_error *err)
{
    RSBX_AUTO(rsbx_fd) int git_fd = -1;
    RSBX_AUTO(rsbx_fd) int objects_fd = -1;
    RSBX_AUTO(rsbx_fd) int refs_fd = -1;
    static const char *const elsewhere[] = { "commondir", "gitdir" };
    int rc = open_git_folder(&git_fd, repo, err);

    if (rc == 0)
        rc = check_owner(git_fd, ".git", owner, err);
    if (rc != 0)
        return rc;
    for (size_t i = 0; i < sizeof elsewhere / sizeof elsewhere[0]; i++) {
        if (exists(git_fd, elsewhere[i]))
            return rsbx_fail(err, REPOSBX_EPOLICY,
                             ".git/%s: this is the Git folder of a linked worktree", elsewhere[i]);
    }
    rc = open_real(&objects_fd, git_fd, "objects", ".git/objects", false, O_PATH, err);
    if (rc == 0)
        rc = check_owner(objects_fd, ".git/objects", owner, err);
    if (rc == 0)
        rc = open_real(&refs_fd, git_fd, "refs", ".git/refs", false, O_PATH, err);
    if (rc == 0)
        rc = rsbx_gitconfig_check(git_fd, err);
    if (rc == 0)
        rc = check_objects(objects_fd, err);
    if (rc != 0)
        return rc;
    repo->git_fd = rsbx_fd_steal(&git_fd);
    repo->objects_fd = rsbx_fd_steal(&objects_fd);
    return REPOSBX_OK;
}
