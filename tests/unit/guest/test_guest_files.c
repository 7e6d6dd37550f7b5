/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "unit/guest/group.h"
#include "unit/guest/tree.h"

#include "base/banned.h"

static void make_fifo(const char *path)
{
    char full[256];

    snprintf(full, sizeof(full), "%s/%s", box.workspace, path);
    assert_int_equal(mkfifo(full, 0644), 0);
}

static void list(const char *path, uint64_t max_entries)
{
    struct rsbx_request request = {.op = RSBX_OP_LIST, .max_entries = max_entries};

    reply_free(&reply);
    box_simple(&box, &reply, request, RSBX_TEXT_PATH, path);
}

static void test_list(void **state)
{
    static const char all[] = "0 0 0 100644 0 1 a\n"
                              "0 0 0 40000 0 0 dir\n"
                              "0 0 0 100755 0 2 dir/b\n"
                              "0 1 0 0 0 0 dir/fifo\n"
                              "0 0 0 120000 0 4 dir/link\n"
                              "0 0 0 40000 0 0 void\n";

    (void)state;
    tree_file(box.workspace, "a", "a", 0644);
    tree_file(box.workspace, "dir/b", "bb", 0755);
    tree_link(box.workspace, "dir/link", "/etc");
    tree_folder(box.workspace, "void");
    make_fifo("dir/fifo");
    list("", 100);
    assert_string_equal(bytes_text(&reply.entries), all);
    assert_int_equal(reply.trailer.entries, 6);
    list("", 6);
    assert_int_equal(reply.fail_error, 0);
    list("", 5);
    assert_int_equal(reply.fail_error, EOVERFLOW);
    list("dir", 100);
    assert_string_equal(bytes_text(&reply.entries), "0 0 0 40000 0 0 dir\n"
                                                    "0 0 0 100755 0 2 dir/b\n"
                                                    "0 1 0 0 0 0 dir/fifo\n"
                                                    "0 0 0 120000 0 4 dir/link\n");
    list("dir/b", 100);
    assert_string_equal(bytes_text(&reply.entries), "0 0 0 100755 0 2 dir/b\n");
    list("dir/link", 100);
    assert_string_equal(bytes_text(&reply.entries), "0 0 0 120000 0 4 dir/link\n");
    list("dir/link/passwd", 100);
    assert_int_equal(reply.fail_error, ELOOP);
    list("missing", 100);
    assert_int_equal(reply.fail_error, ENOENT);
    list("../etc", 100);
    assert_int_equal(reply.fail_error, EINVAL);
}

static void read_file(const char *path, uint64_t max_bytes)
{
    struct rsbx_request request = {.op = RSBX_OP_READ, .max_bytes = max_bytes};

    reply_free(&reply);
    box_simple(&box, &reply, request, RSBX_TEXT_PATH, path);
}

static void test_read(void **state)
{
    static uint8_t large[200001];

    (void)state;
    memset(large, 'L', sizeof(large));
    tree_bytes(box.workspace, "dir/large", large, sizeof(large), 0644);
    tree_file(box.workspace, "empty", "", 0644);
    tree_link(box.workspace, "link", "empty");
    tree_link(box.workspace, "folder-link", "dir");
    make_fifo("fifo");
    read_file("dir/large", sizeof(large));
    assert_int_equal(reply.data.length, sizeof(large) + 1U);
    assert_memory_equal(reply.data.data, large, sizeof(large));
    assert_int_equal(reply.trailer.bytes, sizeof(large));
    read_file("dir/large", sizeof(large) - 1U);
    assert_int_equal(reply.fail_error, EFBIG);
    assert_int_equal(reply.data.length, 0);
    read_file("empty", 0);
    assert_string_equal(bytes_text(&reply.data), "|");
    read_file("link", 100);
    assert_int_equal(reply.fail_error, ELOOP);
    read_file("folder-link/large", 1000000);
    assert_int_equal(reply.fail_error, ELOOP);
    read_file("fifo", 100);
    assert_int_equal(reply.fail_error, EINVAL);
    read_file("dir", 100);
    assert_int_equal(reply.fail_error, EISDIR);
    read_file("missing", 100);
    assert_int_equal(reply.fail_error, ENOENT);
    read_file("/etc/passwd", 100);
    assert_int_equal(reply.fail_error, EINVAL);
    read_file("dir/../empty", 100);
    assert_int_equal(reply.fail_error, EINVAL);
}

static void begin_write(const char *path, uint32_t flags, uint64_t max_bytes)
{
    struct rsbx_request request = {.op = RSBX_OP_WRITE, .flags = flags, .max_bytes = max_bytes};
    struct rsbx_hello hello;

    reply_free(&reply);
    box_start(&box);
    box_greet(&box, &hello);
    box_request(&box, &request);
    box_text(&box, RSBX_TEXT_PATH, path);
    box_go(&box);
}

static void write_file(const char *path, uint32_t flags, uint64_t max_bytes, const char *text)
{
    begin_write(path, flags, max_bytes);
    if (text[0] != '\0') {
        box_send(&box, RSBX_WIRE_DATA, text, strlen(text));
    }
    box_send(&box, RSBX_WIRE_END, NULL, 0);
    box_reply(&box, &reply);
}

static void check_file(const char *path, const char *text, mode_t mode)
{
    char *there = tree_read(box.workspace, path);

    assert_non_null(there);
    assert_string_equal(there, text);
    free(there);
    assert_int_equal(tree_mode(box.workspace, path), S_IFREG | mode);
}

static void test_write(void **state)
{
    (void)state;
    write_file("new", 0, 100, "hello");
    assert_int_equal(reply.fail_error, 0);
    assert_int_equal(reply.trailer.bytes, 5);
    check_file("new", "hello", 0644);
    write_file("new", RSBX_REQUEST_EXECUTABLE, 100, "");
    check_file("new", "", 0755);
    write_file("a/b/c", 0, 100, "x");
    assert_int_equal(reply.fail_error, ENOENT);
    write_file("a/b/c", RSBX_REQUEST_PARENTS, 100, "x");
    assert_int_equal(reply.fail_error, 0);
    check_file("a/b/c", "x", 0644);
    assert_int_equal(tree_mode(box.workspace, "a/b"), S_IFDIR | 0755);
    write_file("a", 0, 100, "x");
    assert_int_equal(reply.fail_error, EISDIR);
    tree_link(box.workspace, "link", "new");
    write_file("link", 0, 100, "x");
    assert_int_equal(reply.fail_error, ELOOP);
    tree_link(box.workspace, "up", "/tmp");
    write_file("up/x", RSBX_REQUEST_PARENTS, 100, "x");
    assert_int_equal(reply.fail_error, ELOOP);
    make_fifo("fifo");
    write_file("fifo", 0, 100, "x");
    assert_int_equal(reply.fail_error, EINVAL);
    write_file("../x", RSBX_REQUEST_PARENTS, 100, "x");
    assert_int_equal(reply.fail_error, EINVAL);
}

/* A write that fails or is given up leaves the old file and no other. */
static void test_write_leaves_nothing(void **state)
{
    (void)state;
    box.root = true; /* the folder is not the guest's own */
    tree_file(box.workspace, "dir/file", "old", 0644);
    write_file("dir/file", 0, 4, "12345");
    assert_int_equal(reply.fail_error, EFBIG);
    begin_write("dir/file", 0, 100);
    box_send(&box, RSBX_WIRE_DATA, "half", 4);
    close(box.in_fd);
    box.in_fd = -1;
    assert_int_equal(box_end(&box), 0);
    begin_write("dir/file", 0, 100);
    box_send(&box, RSBX_WIRE_GO, NULL, 0);
    assert_int_equal(box_end(&box), 70);
    check_file("dir/file", "old", 0644);
    list("dir", 10);
    assert_int_equal(reply.trailer.entries, 2);
}

static void collect_from(uint32_t flags, const char *const *paths, uint64_t max_entries,
                         uint64_t max_bytes)
{
    struct rsbx_request request = {.op = RSBX_OP_COLLECT, .flags = flags,
                                   .max_entries = max_entries, .max_bytes = max_bytes};
    struct rsbx_hello hello;

    reply_free(&reply);
    box_start(&box);
    box_greet(&box, &hello);
    box_request(&box, &request);
    for (; *paths != NULL; paths++) {
        box_text(&box, RSBX_TEXT_PATH, *paths);
    }
    box_go(&box);
    box_reply(&box, &reply);
}

static void collect(const char *const *paths, uint64_t max_entries, uint64_t max_bytes)
{
    collect_from(0, paths, max_entries, max_bytes);
}

#define PATHS(...) ((const char *const[]){__VA_ARGS__, NULL})

static void test_collect(void **state)
{
    (void)state;
    tree_file(box.workspace, "out/a/x", "1", 0644);
    tree_file(box.workspace, "out/a.txt", "22", 0755);
    tree_file(box.workspace, "out/b", "", 0644);
    tree_file(box.workspace, "out-side", "s", 0644);
    tree_file(box.workspace, "z", "z", 0644);
    /* The order of full paths, not of names: '.' sorts before '/'. */
    collect(PATHS("out"), 10, 10);
    assert_string_equal(bytes_text(&reply.entries), "0 0 0 100755 0 2 out/a.txt\n"
                                                    "0 0 0 100644 0 1 out/a/x\n"
                                                    "0 0 0 100644 0 0 out/b\n");
    assert_string_equal(bytes_text(&reply.data), "22|1||");
    /* A path that another one covers comes once. */
    collect(PATHS("z", "out/a/x", "out/a", "out-side", "z", "out/a"), 10, 10);
    assert_string_equal(bytes_text(&reply.entries), "0 0 0 100644 0 1 z\n"
                                                    "0 0 0 100644 0 1 out/a/x\n"
                                                    "0 0 0 100644 0 1 out-side\n");
    collect(PATHS("out"), 2, 10);
    assert_int_equal(reply.fail_error, EOVERFLOW);
    collect(PATHS("out"), 3, 2);
    assert_int_equal(reply.fail_error, EFBIG);
    assert_string_equal(bytes_text(&reply.data), "22|");
    collect(PATHS("z", "missing"), 10, 10);
    assert_int_equal(reply.fail_error, ENOENT);
    assert_non_null(strstr(reply.fail_text, ": missing"));
    collect(PATHS("../x"), 10, 10);
    assert_int_equal(reply.fail_error, EINVAL);
}

static void test_collect_baseline(void **state)
{
    (void)state;
    tree_file(box.baseline, "a", "base", 0644);
    tree_file(box.baseline, "b/only", "1", 0644);
    tree_file(box.workspace, "a", "work", 0644);
    tree_file(box.workspace, "new", "n", 0644);
    collect_from(RSBX_REQUEST_BASELINE, PATHS("b/only", "a"), 10, 10);
    assert_string_equal(bytes_text(&reply.entries), "0 0 0 100644 0 1 b/only\n"
                                                    "0 0 0 100644 0 4 a\n");
    assert_string_equal(bytes_text(&reply.data), "1|base|");
    collect_from(RSBX_REQUEST_BASELINE, PATHS("new"), 10, 10);
    assert_int_equal(reply.fail_error, ENOENT);
    collect(PATHS("a"), 10, 10);
    assert_string_equal(bytes_text(&reply.data), "work|");
}

static void test_collect_refusals(void **state)
{
    char from[256], to[256];

    (void)state;
    tree_file(box.workspace, "links/one", "1", 0644);
    snprintf(from, sizeof(from), "%s/links/one", box.workspace);
    snprintf(to, sizeof(to), "%s/links/two", box.workspace);
    assert_int_equal(link(from, to), 0);
    tree_link(box.workspace, "soft/link", "../links/one");
    tree_folder(box.workspace, "pipes");
    make_fifo("pipes/fifo");
    tree_link(box.workspace, "parent", "links");
    collect(PATHS("links"), 10, 10);
    assert_int_equal(reply.fail_error, EMLINK);
    assert_non_null(strstr(reply.fail_text, ": links/one"));
    collect(PATHS("links/two"), 10, 10);
    assert_int_equal(reply.fail_error, EMLINK);
    collect(PATHS("soft"), 10, 10);
    assert_int_equal(reply.fail_error, ELOOP);
    assert_non_null(strstr(reply.fail_text, ": soft/link"));
    collect(PATHS("soft/link"), 10, 10);
    assert_int_equal(reply.fail_error, ELOOP);
    collect(PATHS("pipes"), 10, 10);
    assert_int_equal(reply.fail_error, EINVAL);
    assert_non_null(strstr(reply.fail_text, ": pipes/fifo"));
    collect(PATHS("parent/one"), 10, 10);
    assert_int_equal(reply.fail_error, ELOOP);
}

/* ---- a folder that changes while it is read: the guest waits behind a full pipe meanwhile ---- */

#define LARGE_BYTES (4U << 20)

static void make_large(char out[256], const char *name)
{
    snprintf(out, 256, "%s/%s", box.workspace, name);
    tree_file(box.workspace, name, "large", 0644);
    assert_int_equal(truncate(out, LARGE_BYTES), 0);
}

/* Asks for one path and takes the first message alone, which is the first file's entry. */
static void begin_collect(const char *path)
{
    struct rsbx_request request = {.op = RSBX_OP_COLLECT, .max_entries = 10,
                                   .max_bytes = 2 * LARGE_BYTES};
    struct rsbx_hello hello;
    const uint8_t *payload;
    size_t length;
    uint16_t type;

    reply_free(&reply);
    box_start(&box);
    box_greet(&box, &hello);
    box_request(&box, &request);
    box_text(&box, RSBX_TEXT_PATH, path);
    box_go(&box);
    box_receive(&box, &type, &payload, &length);
    assert_int_equal(type, RSBX_WIRE_ENTRY);
}

static void test_collect_what_shrinks_or_grows(void **state)
{
    static const off_t sizes[] = {0, 1, LARGE_BYTES / 2, LARGE_BYTES - 1, LARGE_BYTES + 1,
                                  2 * LARGE_BYTES};
    char path[256];

    (void)state;
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        make_large(path, "large");
        begin_collect("large");
        assert_int_equal(truncate(path, sizes[i]), 0);
        box_reply(&box, &reply);
        assert_int_equal(reply.fail_error, EIO);
        assert_non_null(strstr(reply.fail_text, sizes[i] < LARGE_BYTES ? "became shorter"
                                                                       : "became longer"));
    }
}

/* What was opened is what is read, wherever its names point by then. */
static void test_collect_what_is_swapped(void **state)
{
    char path[256], other[256];

    (void)state;
    tree_file(box.folder, "outside/large", "outside", 0644);
    tree_file(box.folder, "outside/small", "outside", 0644);
    make_large(path, "parent/large");
    tree_file(box.workspace, "parent/small", "inside", 0644);
    begin_collect("parent");
    snprintf(path, sizeof(path), "%s/parent", box.workspace);
    snprintf(other, sizeof(other), "%s/away", box.workspace);
    assert_int_equal(rename(path, other), 0);
    snprintf(other, sizeof(other), "%s/outside", box.folder);
    assert_int_equal(symlink(other, path), 0);
    box_reply(&box, &reply);
    assert_int_equal(reply.fail_error, 0);
    assert_int_equal(reply.data.length, LARGE_BYTES + 1 + strlen("inside") + 1);
    assert_memory_equal(reply.data.data, "large", 5);
    assert_memory_equal(reply.data.data + LARGE_BYTES, "|inside|", 8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        guest_test(test_list),
        guest_test(test_read),
        guest_test(test_write),
        guest_test(test_write_leaves_nothing),
        guest_test(test_collect),
        guest_test(test_collect_baseline),
        guest_test(test_collect_refusals),
        guest_test(test_collect_what_shrinks_or_grows),
        guest_test(test_collect_what_is_swapped),
    };

    return guest_tests(tests, false);
}
