/* SPDX-License-Identifier: Apache-2.0 */
/* What comes to an UNPACK is checked like everything that comes: it may have gone through a disk. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include <cmocka.h>

#include "unit/guest/group.h"
#include "unit/guest/tree.h"

#include "base/banned.h"

#define SECOND_NS 1000000000LL

static void begin(uint64_t max_entries, uint64_t max_bytes)
{
    struct rsbx_request request = {.op = RSBX_OP_UNPACK, .max_entries = max_entries,
                                   .max_bytes = max_bytes};
    struct rsbx_hello hello;

    reply_free(&reply);
    box_start(&box);
    box_greet(&box, &hello);
    box_request(&box, &request);
    box_go(&box);
}

static void send_node(uint32_t kind, uint32_t mode, const char *path, const char *content)
{
    struct rsbx_node node = {.kind = kind, .mode = mode, .mtime_ns = 86400 * SECOND_NS + 5,
                             .size = content != NULL ? strlen(content) : 0,
                             .path_length = (uint32_t)strlen(path)};
    uint8_t bytes[RSBX_NODE_FIXED_BYTES + 8192U];

    if (kind == RSBX_NODE_OMITTED) {
        node.reason = RSBX_OMIT_SOCKET;
    }
    rsbx_wire_put_node(bytes, &node);
    memcpy(bytes + RSBX_NODE_FIXED_BYTES, path, node.path_length);
    box_send(&box, RSBX_WIRE_NODE, bytes, RSBX_NODE_FIXED_BYTES + node.path_length);
    if (content != NULL && content[0] != '\0') {
        box_send(&box, RSBX_WIRE_DATA, content, strlen(content));
    }
    if (content != NULL) {
        box_send(&box, RSBX_WIRE_END, NULL, 0);
    }
}

static void finish(void)
{
    box_send(&box, RSBX_WIRE_END, NULL, 0);
    box_reply(&box, &reply);
}

static void test_every_kind(void **state)
{
    struct stat status;
    char path[160];
    char *text;

    (void)state;
    tree_file(box.workspace, "old/deep/er/file", "x", 0644);
    tree_file(box.workspace, "kept", "same", 0644);
    tree_file(box.workspace, "replaced", "before", 0644);
    tree_link(box.workspace, "link", "replaced");
    box.root = true; /* as the files here belong to us */
    begin(100, 100);
    send_node(RSBX_NODE_TIMES, 0, "kept", NULL);
    send_node(RSBX_NODE_FILE, 0640, "link", "now a file");
    send_node(RSBX_NODE_FOLDER, 0500, "new", NULL);
    send_node(RSBX_NODE_FOLDER, 0, "new/closed", NULL);
    send_node(RSBX_NODE_FILE, 0755, "new/closed/in", "");
    send_node(RSBX_NODE_FIFO, 0600, "new/pipe", NULL);
    send_node(RSBX_NODE_GONE, 0, "old", NULL);
    send_node(RSBX_NODE_LINK, 0, "replaced", "nowhere");
    finish();
    assert_int_equal(reply.fail_error, 0);
    assert_int_equal(reply.trailer.entries, 8);
    assert_int_equal(reply.trailer.bytes, 17);
    assert_int_equal(tree_mode(box.workspace, "old"), 0);
    assert_int_equal(tree_mode(box.workspace, "link"), S_IFREG | 0640);
    text = tree_read(box.workspace, "link");
    assert_string_equal(text, "now a file");
    free(text);
    assert_int_equal(tree_mode(box.workspace, "replaced") & S_IFMT, S_IFLNK);
    assert_int_equal(tree_mode(box.workspace, "new"), S_IFDIR | 0500);
    assert_int_equal(tree_mode(box.workspace, "new/closed"), S_IFDIR);
    assert_int_equal(tree_mode(box.workspace, "new/pipe"), S_IFIFO | 0600);
    assert_int_equal(tree_mode(box.workspace, "new/closed/in"), S_IFREG | 0755);
    (void)snprintf(path, sizeof path, "%s/kept", box.workspace);
    assert_int_equal(lstat(path, &status), 0);
    assert_int_equal(status.st_mtim.tv_sec, 86400);
    assert_int_equal(status.st_mtim.tv_nsec, 5);
    (void)snprintf(path, sizeof path, "%s/new", box.workspace);
    assert_int_equal(lstat(path, &status), 0);
    assert_int_equal(status.st_mtim.tv_sec, 86400);
    (void)chmod(path, 0700);
    (void)snprintf(path, sizeof path, "%s/new/closed", box.workspace);
    (void)chmod(path, 0700);
}

static void test_paths_stay_inside(void **state)
{
    static const char *const bad[] = {"..", "../x", "/x", "a/../b", "a//b", ".", "a/", "link/x"};

    (void)state;
    tree_link(box.workspace, "link", "/tmp");
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        begin(100, 100);
        send_node(RSBX_NODE_FIFO, 0644, bad[i], NULL);
        box_reply(&box, &reply);
        assert_int_equal(reply.fail_error, strcmp(bad[i], "link/x") == 0 ? ELOOP : EINVAL);
    }
}

static void test_bounds(void **state)
{
    struct rsbx_node node = {.kind = RSBX_NODE_FILE, .size = 5, .path_length = 1};
    uint8_t bytes[RSBX_NODE_FIXED_BYTES + 1U];

    (void)state;
    begin(1, 100);
    send_node(RSBX_NODE_FIFO, 0600, "a", NULL);
    send_node(RSBX_NODE_FIFO, 0600, "b", NULL);
    box_reply(&box, &reply);
    assert_int_equal(reply.fail_error, EOVERFLOW);
    begin(10, 4); /* a file of 5 bytes, refused before they come */
    rsbx_wire_put_node(bytes, &node);
    bytes[RSBX_NODE_FIXED_BYTES] = 'c';
    box_send(&box, RSBX_WIRE_NODE, bytes, sizeof(bytes));
    box_reply(&box, &reply);
    assert_int_equal(reply.fail_error, EFBIG);
    begin(10, 4);
    send_node(RSBX_NODE_GONE, 0, "never there", NULL);
    box_reply(&box, &reply);
    assert_int_equal(reply.fail_error, ENOENT);
}

/* What no pack sends ends the guest at once. */
static void test_nonsense(void **state)
{
    struct rsbx_node node = {.kind = RSBX_NODE_FILE, .size = 2, .path_length = 1};
    uint8_t bytes[RSBX_NODE_FIXED_BYTES + 1U];

    (void)state;
    begin(10, 10);
    send_node(RSBX_NODE_OMITTED, 0, "socket", NULL);
    assert_int_equal(box_end(&box), 70);
    begin(10, 10);
    box_send(&box, RSBX_WIRE_DATA, "x", 1);
    assert_int_equal(box_end(&box), 70);
    begin(10, 10); /* longer than it said */
    rsbx_wire_put_node(bytes, &node);
    bytes[RSBX_NODE_FIXED_BYTES] = 'f';
    box_send(&box, RSBX_WIRE_NODE, bytes, sizeof(bytes));
    box_send(&box, RSBX_WIRE_DATA, "xyz", 3);
    assert_int_equal(box_end(&box), 70);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        guest_test(test_every_kind),
        guest_test(test_paths_stay_inside),
        guest_test(test_bounds),
        guest_test(test_nonsense),
    };

    return guest_tests(tests, false);
}
