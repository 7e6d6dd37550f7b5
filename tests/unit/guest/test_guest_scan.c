/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "unit/guest/group.h"
#include "unit/guest/tree.h"

#include "base/banned.h"

static void scan(uint64_t max_entries, uint64_t max_bytes)
{
    struct rsbx_request request = {.op = RSBX_OP_SCAN, .max_entries = max_entries,
                                   .max_bytes = max_bytes};

    reply_free(&reply);
    box_simple(&box, &reply, request, 0, NULL);
}

static void check(const char *entries, const char *data)
{
    scan(100, 1000);
    assert_int_equal(reply.fail_error, 0);
    assert_string_equal(bytes_text(&reply.entries), entries);
    assert_string_equal(bytes_text(&reply.data), data);
}

static void both(const char *path, const char *text, mode_t mode)
{
    tree_file(box.baseline, path, text, mode);
    tree_file(box.workspace, path, text, mode);
}

static void gone(const char *path)
{
    char full[512];

    snprintf(full, sizeof(full), "%s/%s", box.workspace, path);
    assert_int_equal(remove(full), 0);
}

static void test_equal(void **state)
{
    (void)state;
    both("a", "a", 0644);
    both("dir/b", "", 0755);
    tree_link(box.baseline, "dir/link", "../a");
    tree_link(box.workspace, "dir/link", "../a");
    tree_folder(box.baseline, "void");
    tree_folder(box.workspace, "void");
    /* Only the owner's x bit counts, never setuid and the like. */
    tree_file(box.workspace, "a", "a", 04666);
    check("", "");
    assert_int_equal(reply.trailer.entries, 0);
}

static void test_content_and_mode(void **state)
{
    (void)state;
    both("dir/file", "old", 0644);
    both("mode", "m", 0644);
    both("same-size", "abc", 0644);
    tree_file(box.workspace, "dir/file", "newer", 0644);
    tree_file(box.workspace, "mode", "m", 04744);
    tree_file(box.workspace, "same-size", "abd", 0644);
    check("3 0 100644 100644 3 5 dir/file\n"
          "3 0 100644 100755 1 1 mode\n"
          "3 0 100644 100644 3 3 same-size\n",
          "old|newer|m|m|abc|abd|");
}

static void test_same_time_put_back(void **state)
{
    struct timespec times[2] = {{.tv_sec = 1000000000}, {.tv_sec = 1000000000}};

    (void)state;
    both("f", "abc", 0644);
    tree_file(box.workspace, "f", "xyz", 0644);
    for (int i = 0; i < 2; i++) {
        char full[256];

        snprintf(full, sizeof(full), "%s/f", i == 0 ? box.baseline : box.workspace);
        assert_int_equal(utimensat(AT_FDCWD, full, times, 0), 0);
    }
    check("3 0 100644 100644 3 3 f\n", "abc|xyz|");
}

static void test_added_and_deleted(void **state)
{
    (void)state;
    both("keep", "k", 0644);
    tree_file(box.baseline, "old/deep/x", "x", 0644);
    tree_file(box.baseline, "old/y", "y", 0755);
    tree_file(box.workspace, "new/deep/z", "z", 0644);
    tree_file(box.workspace, "new\xff\n", "", 0755);
    tree_link(box.workspace, "link", "a target");
    check("1 0 0 120000 0 8 link\n"
          "1 0 0 100644 0 1 new/deep/z\n"
          "1 0 0 100755 0 0 new\xff\n\n"
          "2 0 100644 0 1 0 old/deep/x\n"
          "2 0 100755 0 1 0 old/y\n",
          "a target|z||x|y|");
}

static void test_type_changes(void **state)
{
    (void)state;
    tree_file(box.baseline, "file-folder", "f", 0644);
    tree_file(box.workspace, "file-folder/in", "i", 0644);
    tree_file(box.baseline, "folder-file/a", "a", 0644);
    tree_file(box.baseline, "folder-file/b/c", "c", 0644);
    tree_file(box.baseline, "folder-file-not", "n", 0644);
    tree_file(box.workspace, "folder-file-not", "n", 0644);
    tree_file(box.workspace, "folder-file", "now", 0644);
    tree_file(box.baseline, "to-link", "t", 0644);
    tree_link(box.workspace, "to-link", "t");
    tree_link(box.baseline, "un-link", "u");
    tree_file(box.workspace, "un-link", "u", 0644);
    check("2 0 100644 0 1 0 file-folder\n"
          "1 0 0 100644 0 1 file-folder/in\n"
          "2 0 100644 0 1 0 folder-file/a\n"
          "2 0 100644 0 1 0 folder-file/b/c\n"
          "1 0 0 100644 0 3 folder-file\n"
          "3 0 100644 120000 1 1 to-link\n"
          "3 0 120000 100644 1 1 un-link\n",
          "f|i|a|c|now|t|t|u|u|");
}

static void test_omitted(void **state)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    char full[256];
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    (void)state;
    both("fifo", "was a file", 0644);
    gone("fifo");
    snprintf(full, sizeof(full), "%s/fifo", box.workspace);
    assert_int_equal(mkfifo(full, 0644), 0);
    snprintf(full, sizeof(full), "%s/device", box.workspace);
    assert_int_equal(mknod(full, S_IFCHR | 0666, 0x103), 0);
    snprintf(address.sun_path, sizeof(address.sun_path), "%s/socket", box.workspace);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    close(fd);
    tree_folder(box.workspace, "empty/inner");
    tree_file(box.workspace, ".GIT/config", "[core]", 0644);
    tree_file(box.workspace, "sub/.git", "gitdir: x", 0644);
    tree_file(box.workspace, "sub/.gitx", "kept", 0644);
    check("4 5 0 0 0 0 .GIT\n"
          "4 3 0 0 0 0 device\n"
          "4 4 0 0 0 0 empty/inner\n"
          "4 1 0 0 0 0 fifo\n"
          "2 0 100644 0 10 0 fifo\n"
          "4 2 0 0 0 0 socket\n"
          "4 5 0 0 0 0 sub/.git\n"
          "1 0 0 100644 0 4 sub/.gitx\n",
          "was a file|kept|");
}

/* As the user that owns nothing here and may read nothing: the folder is named, and nothing in it
 * counts as deleted. */
static void test_unreadable(void **state)
{
    char full[256];

    (void)state;
    box.root = false;
    both("closed/a", "a", 0644);
    both("closed/b/c", "c", 0644);
    both("file", "f", 0644);
    both("open/x", "x", 0644);
    tree_file(box.workspace, "file", "changed", 0000);
    snprintf(full, sizeof(full), "%s/closed", box.workspace);
    assert_int_equal(chmod(full, 0), 0);
    tree_file(box.workspace, "open/x", "y", 0644);
    check("4 7 0 0 0 0 closed\n"
          "4 7 0 0 0 0 file\n"
          "3 0 100644 100644 1 1 open/x\n",
          "x|y|");
    /* Names can be read but nothing behind them. */
    assert_int_equal(chmod(full, 0444), 0);
    check("4 7 0 0 0 0 closed/a\n"
          "4 7 0 0 0 0 closed/b\n"
          "4 7 0 0 0 0 file\n"
          "3 0 100644 100644 1 1 open/x\n",
          "x|y|");
}

static void test_root_without_mode(void **state)
{
    (void)state;
    both("a", "a", 0644);
    tree_file(box.workspace, "dir/b", "b", 0000);
    assert_int_equal(chmod(box.workspace, 0), 0);
    check("1 0 0 100644 0 1 dir/b\n", "b|");
}

static void test_everything_deleted(void **state)
{
    (void)state;
    tree_file(box.baseline, "a/b/c", "c", 0644);
    tree_file(box.baseline, "d", "d", 0644);
    check("2 0 100644 0 1 0 a/b/c\n2 0 100644 0 1 0 d\n", "c|d|");
}

static void test_limits(void **state)
{
    char full[256];

    (void)state;
    tree_file(box.workspace, "a", "12345", 0644);
    tree_file(box.workspace, "b", "12345", 0644);
    scan(2, 10);
    assert_int_equal(reply.fail_error, 0);
    scan(2, 9);
    assert_int_equal(reply.fail_error, EFBIG);
    assert_string_equal(bytes_text(&reply.data), "12345|");
    scan(1, 10);
    assert_int_equal(reply.fail_error, EOVERFLOW);
    /* 1 TB without a block: by its size alone, at once. */
    snprintf(full, sizeof(full), "%s/a", box.workspace);
    assert_int_equal(truncate(full, 1LL << 40), 0);
    scan(10, 1U << 30U);
    assert_int_equal(reply.fail_error, EFBIG);
    assert_int_equal(reply.data.length, 0);
}

/* A chain of folders deeper than a path may be, made by stepping into each. */
static void test_too_deep(void **state)
{
    int fd = open(box.workspace, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    (void)state;
    for (int i = 0; i < 300; i++) {
        int next;

        assert_int_equal(mkdirat(fd, "d", 0755), 0);
        next = openat(fd, "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        close(fd);
        fd = next;
    }
    close(fd);
    tree_file(box.workspace, "z", "z", 0644);
    scan(100, 1000);
    assert_int_equal(reply.fail_error, 0);
    assert_int_equal(reply.trailer.entries, 2);
    assert_int_equal(strncmp(bytes_text(&reply.entries), "4 8 0 0 0 0 d/d/", 16), 0);
    assert_string_equal(bytes_text(&reply.data), "z|");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        guest_root_test(test_equal),
        guest_root_test(test_content_and_mode),
        guest_root_test(test_same_time_put_back),
        guest_root_test(test_added_and_deleted),
        guest_root_test(test_type_changes),
        guest_root_test(test_omitted),
        guest_root_test(test_unreadable),
        guest_root_test(test_root_without_mode),
        guest_root_test(test_everything_deleted),
        guest_root_test(test_limits),
        guest_root_test(test_too_deep),
    };

    return guest_tests(tests, false);
}
