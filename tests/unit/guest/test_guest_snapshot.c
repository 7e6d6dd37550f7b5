/* SPDX-License-Identifier: Apache-2.0 */
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

struct file {
    const char *path, *content;
    uint32_t mode; /* 0: 0100644 */
};

#define SELECTION(excludes)                                                                        \
    "{\"exclude_subtrees\":[" excludes "],\"repository_filter_policy\":4,"                         \
    "\"schema\":\"codenib.repository-source-selection.v1\"}"

static void send_entry(const char *path, uint32_t mode, uint64_t size)
{
    struct rsbx_entry entry = {.new_mode = mode, .new_size = size,
                               .path_length = (uint32_t)strlen(path)};
    uint8_t bytes[RSBX_ENTRY_FIXED_BYTES + 8192U];

    rsbx_wire_put_entry(bytes, &entry);
    memcpy(bytes + RSBX_ENTRY_FIXED_BYTES, path, entry.path_length);
    box_send(&box, RSBX_WIRE_ENTRY, bytes, RSBX_ENTRY_FIXED_BYTES + entry.path_length);
}

static void begin_fill(uint64_t max_entries)
{
    struct rsbx_request request = {.op = RSBX_OP_FILL, .max_entries = max_entries};
    struct rsbx_hello hello;

    box_start(&box);
    box_greet(&box, &hello);
    box_request(&box, &request);
    box_go(&box);
}

static void fill(const struct file *files, size_t count)
{
    begin_fill(1000);
    for (size_t i = 0; i < count; i++) {
        size_t size = strlen(files[i].content);

        send_entry(files[i].path, files[i].mode == 0 ? 0100644U : files[i].mode, size);
        if (size > 0) {
            box_send(&box, RSBX_WIRE_DATA, files[i].content, size);
        }
    }
    box_send(&box, RSBX_WIRE_END, NULL, 0);
    box_reply(&box, &reply);
}

static void seal(uint32_t flags, const char *selection, const char *exclude)
{
    struct rsbx_request request = {.op = RSBX_OP_SEAL, .flags = flags};
    struct rsbx_hello hello;

    reply_free(&reply);
    box_start(&box);
    box_greet(&box, &hello);
    box_request(&box, &request);
    box_text(&box, RSBX_TEXT_SELECTION, selection);
    if (exclude != NULL) {
        box_text(&box, RSBX_TEXT_EXCLUDE, exclude);
    }
    box_go(&box);
    box_reply(&box, &reply);
}

static void check_fingerprint(uint64_t entries, const char *expected)
{
    char hex[65];

    assert_int_equal(reply.fail_error, 0);
    for (size_t i = 0; i < 32; i++) {
        snprintf(hex + 2U * i, 3, "%02x", reply.trailer.stdout_sha256[i]);
    }
    assert_int_equal(reply.trailer.fingerprint_entries, entries);
    assert_string_equal(hex, expected);
}

static void test_vector_one(void **state)
{
    static const struct file files[] = {{"hello.txt", "before\n", 0}};

    (void)state;
    fill(files, 1);
    assert_int_equal(reply.trailer.entries, 1);
    assert_int_equal(reply.trailer.bytes, 7);
    seal(0, SELECTION(""), NULL);
    check_fingerprint(1, "94da878170fb163782bdce9fe094b49473942e29f0313f064f870c3ef1210f46");
    assert_int_equal(reply.trailer.entries, 1);
    assert_int_equal(reply.trailer.bytes, 7);
}

static void test_vector_two_and_copy(void **state)
{
    static const struct file files[] = {{"b.txt", "b", 0100755U},
                                        {"a/z.txt", "z", 0},
                                        {"a.txt", "a", 0},
                                        {"a/b/c.txt", "", 0},
                                        {"A.txt", "A", 0}};
    char *text;

    (void)state;
    fill(files, 5);
    seal(RSBX_REQUEST_COPY, SELECTION(""), NULL);
    check_fingerprint(5, "b235864ac28a9340b90fdf2061ac7ccae099a874bb0b678b5e58a63d686037b4");
    assert_int_equal(tree_mode(box.workspace, "b.txt"), S_IFREG | 0755);
    assert_int_equal(tree_mode(box.workspace, "a.txt"), S_IFREG | 0644);
    assert_int_equal(tree_mode(box.workspace, "a/b"), S_IFDIR | 0755);
    text = tree_read(box.workspace, "a/z.txt");
    assert_string_equal(text, "z");
    free(text);
    text = tree_read(box.workspace, "a/b/c.txt");
    assert_string_equal(text, "");
    free(text);
}

static void test_vector_three(void **state)
{
    static const struct file files[] = {{"src/x.c", "int x;\n", 0},
                                        {"docs/a.md", "# a\n", 0},
                                        {"docs/api/b.md", "b", 0},
                                        {"docsx/c.md", "c", 0}};

    (void)state;
    fill(files, 4);
    seal(0, SELECTION("\"docs\""), "docs");
    check_fingerprint(2, "7341c894f1da3e82842d7df60e20f4da3a978e9085314b32dc5d37376fc05dff");
    assert_int_equal(reply.trailer.entries, 4);
    assert_int_equal(reply.trailer.bytes, 13);
}

/* What the fingerprint skips, and every mode, changes the rest digest alone. */
static void test_rest_digest(void **state)
{
    static const struct file files[] = {{"hello.txt", "before\n", 0}, {"build/out", "one", 0}};
    uint8_t first[32];

    (void)state;
    fill(files, 2);
    seal(0, SELECTION(""), NULL);
    check_fingerprint(1, "94da878170fb163782bdce9fe094b49473942e29f0313f064f870c3ef1210f46");
    memcpy(first, reply.trailer.stderr_sha256, 32);
    tree_file(box.baseline, "build/out", "two", 0644);
    seal(0, SELECTION(""), NULL);
    check_fingerprint(1, "94da878170fb163782bdce9fe094b49473942e29f0313f064f870c3ef1210f46");
    assert_memory_not_equal(first, reply.trailer.stderr_sha256, 32);
    tree_file(box.baseline, "build/out", "one", 0644);
    tree_file(box.baseline, "hello.txt", "before\n", 0755);
    seal(0, SELECTION(""), NULL);
    check_fingerprint(1, "94da878170fb163782bdce9fe094b49473942e29f0313f064f870c3ef1210f46");
    assert_memory_not_equal(first, reply.trailer.stderr_sha256, 32);
    tree_file(box.baseline, "hello.txt", "before\n", 0644);
    seal(0, SELECTION(""), NULL);
    assert_memory_equal(first, reply.trailer.stderr_sha256, 32);
}

static void test_links(void **state)
{
    static const struct file files[] = {{"real/file", "content", 0},
                                        {"to-file", "real/./../real/file", 0120000U},
                                        {"to-folder", "real", 0120000U},
                                        {"lost", "nowhere", 0120000U},
                                        {"real/up", "../to-file", 0120000U},
                                        {"loop", "loop", 0120000U}};
    char *text;

    (void)state;
    fill(files, 6);
    seal(RSBX_REQUEST_COPY, SELECTION(""), NULL);
    assert_int_equal(reply.fail_error, 0);
    assert_int_equal(reply.trailer.entries, 6);
    assert_int_equal(reply.trailer.fingerprint_entries, 5); /* all but the link to a folder */
    assert_true(S_ISLNK(tree_mode(box.workspace, "to-folder")));
    text = tree_read(box.workspace, "real/up");
    assert_string_equal(text, "content");
    free(text);
    tree_link(box.baseline, "out", "real/../../etc");
    seal(0, SELECTION(""), NULL);
    assert_int_equal(reply.fail_error, EXDEV);
    assert_non_null(strstr(reply.fail_text, ": out"));
}

static void check_refused(const char *path, uint32_t mode, int error)
{
    begin_fill(10);
    send_entry("dir/file", 0100644U, 0);
    send_entry("link", 0120000U, 3);
    box_send(&box, RSBX_WIRE_DATA, "dir", 3);
    send_entry(path, mode, 0);
    box_reply(&box, &reply);
    assert_int_equal(reply.fail_error, error);
    reply_free(&reply);
    tree_remove(box.baseline);
    assert_int_equal(mkdir(box.baseline, 0777), 0);
    assert_int_equal(chmod(box.baseline, 0777), 0);
}

static void test_fill_refusals(void **state)
{
    static const char *const bad[] = {"/etc/x", "..", "a/../b", "a//b", "a/.", "./a", "a/", "/"};

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        check_refused(bad[i], 0100644U, EINVAL);
    }
    check_refused("dir/file", 0100644U, EEXIST);
    check_refused("link", 0100644U, EEXIST);
    check_refused("link/x", 0100644U, ELOOP);
    check_refused("dir/file/x", 0100644U, ENOTDIR);
    begin_fill(1);
    send_entry("one", 0100644U, 0);
    send_entry("two", 0100644U, 0);
    box_reply(&box, &reply);
    assert_int_equal(reply.fail_error, EOVERFLOW);
    reply_free(&reply);
    begin_fill(10); /* more content than announced */
    send_entry("three", 0100644U, 2);
    box_send(&box, RSBX_WIRE_DATA, "abc", 3);
    assert_int_equal(box_end(&box), 70);
    begin_fill(10); /* less of it */
    send_entry("four", 0100644U, 2);
    box_send(&box, RSBX_WIRE_END, NULL, 0);
    assert_int_equal(box_end(&box), 70);
}

static void test_copy_refuses_what_exists(void **state)
{
    static const struct file files[] = {{"a", "a", 0}};

    (void)state;
    fill(files, 1);
    tree_link(box.workspace, "a", "/etc/passwd");
    seal(RSBX_REQUEST_COPY, SELECTION(""), NULL);
    assert_int_equal(reply.fail_error, EEXIST);
}

static double seconds(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* 20,000 files, 80 MB, in 2,000 folders; the time is printed, not judged. */
static void test_large_tree(void **state)
{
    enum { FILES = 20000, SIZE = 4000 };
    static uint8_t content[SIZE];
    double start = seconds(), filled;
    char path[64];

    (void)state;
    memset(content, 'c', sizeof(content));
    begin_fill(FILES);
    for (int i = 0; i < FILES; i++) {
        snprintf(path, sizeof(path), "part%d/group%d/file%d.txt", i / 1000, i / 10, i);
        memcpy(content, &i, sizeof(i));
        send_entry(path, 0100644U, SIZE);
        box_send(&box, RSBX_WIRE_DATA, content, SIZE);
    }
    box_send(&box, RSBX_WIRE_END, NULL, 0);
    box_reply(&box, &reply);
    assert_int_equal(reply.fail_error, 0);
    assert_int_equal(reply.trailer.entries, FILES);
    filled = seconds();
    seal(0, SELECTION(""), NULL);
    assert_int_equal(reply.trailer.fingerprint_entries, FILES);
    assert_int_equal(reply.trailer.bytes, (uint64_t)FILES * SIZE);
    printf("fill %.2f s, seal %.2f s\n", filled - start, seconds() - filled);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        guest_test(test_vector_one),
        guest_test(test_vector_two_and_copy),
        guest_test(test_vector_three),
        guest_test(test_rest_digest),
        guest_test(test_links),
        guest_test(test_fill_refusals),
        guest_test(test_copy_refuses_what_exists),
        guest_test(test_large_tree),
    };

    return guest_tests(tests, false);
}
