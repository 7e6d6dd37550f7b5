/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/guest/tree.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/banned.h"

#define ROOM 4608U

static void join(char out[ROOM], const char *root, const char *path)
{
    assert_true(snprintf(out, ROOM, "%s/%s", root, path) < (int)ROOM);
}

static void make_parents(const char *root, const char *path)
{
    char full[ROOM];

    join(full, root, path);
    for (char *slash = full + strlen(root) + 1; (slash = strchr(slash, '/')) != NULL; slash++) {
        *slash = '\0';
        assert_true(mkdir(full, 0755) == 0 || errno == EEXIST);
        *slash = '/';
    }
}

void tree_bytes(const char *root, const char *path, const void *bytes, size_t length, mode_t mode)
{
    char full[ROOM];
    int fd;

    make_parents(root, path);
    join(full, root, path);
    fd = open(full, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes, length), (ssize_t)length);
    assert_int_equal(fchmod(fd, mode), 0);
    assert_int_equal(close(fd), 0);
}

void tree_file(const char *root, const char *path, const char *text, mode_t mode)
{
    tree_bytes(root, path, text, strlen(text), mode);
}

void tree_folder(const char *root, const char *path)
{
    char full[ROOM];

    make_parents(root, path);
    join(full, root, path);
    assert_int_equal(mkdir(full, 0755), 0);
}

void tree_link(const char *root, const char *path, const char *target)
{
    char full[ROOM];

    make_parents(root, path);
    join(full, root, path);
    assert_int_equal(symlink(target, full), 0);
}

char *tree_read(const char *root, const char *path)
{
    char full[ROOM];
    struct stat status;
    char *text;
    int fd;

    join(full, root, path);
    fd = open(full, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return NULL;
    }
    assert_int_equal(fstat(fd, &status), 0);
    text = calloc(1, (size_t)status.st_size + 1U);
    assert_non_null(text);
    assert_int_equal(read(fd, text, (size_t)status.st_size), status.st_size);
    close(fd);
    return text;
}

mode_t tree_mode(const char *root, const char *path)
{
    struct stat status;
    char full[ROOM];

    join(full, root, path);
    return lstat(full, &status) == 0 ? status.st_mode : 0;
}

static int remove_one(const char *path, const struct stat *status, int flag, struct FTW *place)
{
    (void)status;
    (void)flag;
    (void)place;
    return remove(path);
}

void tree_remove(const char *folder)
{
    nftw(folder, remove_one, 64, FTW_DEPTH | FTW_PHYS);
}
