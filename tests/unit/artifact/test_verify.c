/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "artifact/bundle.h"
#include "base/fd.h"
#include "fixture.h"
#include "zipmake.h"

#include "base/banned.h"

static void write_file(const void *bytes, size_t length)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    assert_true(fd >= 0);
    assert_int_equal(rsbx_write_all(fd, bytes, length), 0);
    assert_int_equal(close(fd), 0);
}

/* The answer for a file of these bytes; the message in *err. */
static int verify(const void *bytes, size_t length, const struct rsbx_bundle_limits *limits,
                  reposbx_error *err)
{
    struct rsbx_bundle_result found;
    int rc;

    write_file(bytes, length);
    rc = rsbx_bundle_verify(&found, path, limits, err);
    if (rc == 0)
        rsbx_bundle_result_dispose(&found);
    return rc;
}

static void assert_bad(const struct zipmake_member *members, size_t count, const char *word)
{
    struct rsbx_buf zip = RSBX_BUF_INIT(1U << 24);
    reposbx_error err = REPOSBX_ERROR_INIT;
    int rc;

    zipmake(&zip, members, count);
    rc = verify(zip.data, zip.length, NULL, &err);
    if (rc != REPOSBX_EMALFORMED || strstr(err.message, word) == NULL)
        fail_msg("%s: answer %d: %s", word, rc, err.message);
    rsbx_buf_dispose(&zip);
}

#define PLAIN(n) { .name = (n), .bytes = "x", .length = 1, .crc = zipmake_crc("x", 1) }

static void honest_ones_are_read(void **state)
{
    const struct zipmake_member members[] = { PLAIN("b"), PLAIN("a/c"), PLAIN("sp ace") };
    struct rsbx_buf zip = RSBX_BUF_INIT(1U << 20);
    struct rsbx_bundle_result found;

    (void)state;
    zipmake(&zip, members, 3);
    write_file(zip.data, zip.length);
    assert_int_equal(rsbx_bundle_verify(&found, path, NULL, NULL), 0);
    assert_int_equal(found.member_count, 3);
    assert_string_equal(found.members[0].name, "b"); /* the file's order */
    assert_string_equal(found.members[1].name, "a/c");
    assert_int_equal(found.members[2].size, 1);
    assert_string_equal(found.members[2].sha256,
                        "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881");
    rsbx_bundle_result_dispose(&found);
    rsbx_buf_dispose(&zip);
}

#define FOLDER(n) { .name = (n), .attributes = 0040755U << 16 | 0x10U }

/* What other writers add: rows for folders, sizes in zip64 fields that need none. */
static void forms_of_others_are_read(void **state)
{
    struct zipmake_member members[] = { FOLDER("a/"), PLAIN("a/c"), FOLDER("a/d/"), PLAIN("b"),
                                        FOLDER("a-b/") };
    struct rsbx_buf zip = RSBX_BUF_INIT(1U << 20);
    struct rsbx_bundle_result found;
    reposbx_error err = REPOSBX_ERROR_INIT;

    (void)state;
    members[3].local64 = 1;
    zipmake(&zip, members, 5);
    write_file(zip.data, zip.length);
    if (rsbx_bundle_verify(&found, path, NULL, &err) != 0)
        fail_msg("%s", err.message);
    assert_int_equal(found.member_count, 2);
    assert_string_equal(found.members[0].name, "a/c");
    assert_string_equal(found.members[1].name, "b");
    rsbx_bundle_result_dispose(&found);
    rsbx_buf_dispose(&zip);
}

static void folders_that_lie_are_refused(void **state)
{
    static const char *const names[] = { "../", "/", "a//", "./", "a/../", "\\/", "//" };
    struct zipmake_member file_too[] = { PLAIN("a"), FOLDER("a/") };
    struct zipmake_member below[] = { PLAIN("a"), PLAIN("a-b"), FOLDER("a/b/") };
    struct zipmake_member twice[] = { FOLDER("a/"), PLAIN("b"), FOLDER("a/") };
    struct zipmake_member alone[] = { FOLDER("a/"), FOLDER("a/b/") };
    struct zipmake_member odd[] = { PLAIN("x"), FOLDER("a/") };
    struct zipmake_member sizes = PLAIN("x");

    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct zipmake_member both[] = { PLAIN("x"), FOLDER(names[i]) };

        assert_bad(both, 2, "member");
    }
    assert_bad(file_too, 2, "twice");
    assert_bad(below, 3, "below");
    assert_bad(twice, 3, "twice");
    assert_bad(alone, 2, "no member");
    odd[1].bytes = "x";
    odd[1].length = 1;
    odd[1].crc = zipmake_crc("x", 1);
    assert_bad(odd, 2, "content");
    odd[1] = (struct zipmake_member)FOLDER("a/");
    odd[1].attributes = 0120777U << 16;
    assert_bad(odd, 2, "symlink");
    odd[1].attributes = 0100644U << 16;
    assert_bad(odd, 2, "regular");
    sizes.local64 = 7;
    assert_bad(&sizes, 1, "disagree");
}

static void names_that_leave_are_refused(void **state)
{
    static const char *const names[] = { "../x", "/etc/passwd", "a/../../x", "..", ".", "a//b",
                                         "C:\\x", "C:/x", "..\\x", "a/", "./x" };

    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const struct zipmake_member member = PLAIN(names[i]);

        assert_bad(&member, 1, "member");
    }
}

static void odd_members_are_refused(void **state)
{
    struct zipmake_member twice[] = { PLAIN("a"), PLAIN("b"), PLAIN("a") };
    struct zipmake_member below[] = { PLAIN("a"), PLAIN("a-b"), PLAIN("a/b") };
    struct zipmake_member nul = PLAIN("a\0../x");
    struct zipmake_member one = PLAIN("a");

    (void)state;
    assert_bad(twice, 3, "twice");
    assert_bad(below, 3, "twice, or below");
    nul.name_length = 6;
    assert_bad(&nul, 1, "NUL");
    one.flags = 1;
    assert_bad(&one, 1, "encrypted");
    one.flags = 0x40;
    assert_bad(&one, 1, "flags");
    one = (struct zipmake_member)PLAIN("a");
    one.attributes = 0120777U << 16;
    assert_bad(&one, 1, "symlink");
    one.attributes = 0104755U << 16;
    assert_bad(&one, 1, "setuid");
    one.attributes = 0102755U << 16;
    assert_bad(&one, 1, "setuid");
    one.attributes = 0040755U << 16;
    assert_bad(&one, 1, "folder");
    one.attributes = 0010644U << 16;
    assert_bad(&one, 1, "regular");
    one.attributes = 0x10;
    assert_bad(&one, 1, "folder");
    one = (struct zipmake_member)PLAIN("a");
    one.method = 12;
    assert_bad(&one, 1, "stored nor deflated");
    one = (struct zipmake_member)PLAIN("a");
    one.local_name = "b";
    assert_bad(&one, 1, "disagree");
    one = (struct zipmake_member)PLAIN("\xff");
    assert_bad(&one, 1, "UTF-8");
    one = (struct zipmake_member)PLAIN("caf\xc3\xa9");
    assert_bad(&one, 1, "not marked");
    one = (struct zipmake_member)PLAIN("a");
    one.extra = "\x75\x70\x06\x00\x01....b";
    one.extra_length = 10;
    assert_bad(&one, 1, "second name");
    one = (struct zipmake_member)PLAIN("a");
    one.crc ^= 1;
    assert_bad(&one, 1, "damaged");
    one = (struct zipmake_member)PLAIN("a");
    one.size = 2;
    assert_bad(&one, 1, "two sizes");
}

static void overlaps_and_hidden_bytes_are_refused(void **state)
{
    struct zipmake_member members[] = { PLAIN("a"), PLAIN("a") };
    struct zipmake_member one = PLAIN("a");
    struct rsbx_buf zip = RSBX_BUF_INIT(1U << 20);
    reposbx_error err = REPOSBX_ERROR_INIT;

    (void)state;
    members[1].overlap = 32; /* the same local header twice */
    assert_bad(members, 2, "overlap");
    zipmake(&zip, &one, 1);
    assert_int_equal(rsbx_buf_text(&zip, "behind", NULL), 0);
    assert_int_equal(verify(zip.data, zip.length, NULL, &err), REPOSBX_EMALFORMED);
    rsbx_buf_clear(&zip);
    assert_int_equal(rsbx_buf_text(&zip, "before", NULL), 0);
    zipmake(&zip, &one, 1); /* offsets are right, the first bytes are nobody's */
    assert_int_equal(verify(zip.data, zip.length, NULL, &err), REPOSBX_EMALFORMED);
    assert_non_null(strstr(err.message, "before the first member"));
    rsbx_buf_dispose(&zip);
}

/* "x", deflated: three bytes. */
#define DEFLATED(n) { .name = (n), .bytes = "\xab\0\0behind", .length = 3, .size = 1, .method = 8, \
                      .crc = zipmake_crc("x", 1) }

static void bytes_behind_a_stream_are_refused(void **state)
{
    struct zipmake_member one = DEFLATED("a"), stored = PLAIN("a");
    struct rsbx_buf zip = RSBX_BUF_INIT(1U << 20);
    reposbx_error err = REPOSBX_ERROR_INIT;

    (void)state;
    zipmake(&zip, &one, 1);
    if (verify(zip.data, zip.length, NULL, &err) != 0)
        fail_msg("%s", err.message);
    rsbx_buf_dispose(&zip);
    for (one.length = 4; one.length <= 9; one.length++)
        assert_bad(&one, 1, "behind its content");
    one.length = 2; /* and half a stream */
    assert_bad(&one, 1, "damaged");
    one = (struct zipmake_member)DEFLATED("a");
    one.bytes = "\xab\0\0\xab\0\0"; /* two streams */
    one.length = 6;
    assert_bad(&one, 1, "behind its content");
    one.size = 2;
    assert_bad(&one, 1, "smaller");
    one.bytes = "\x03\0"; /* nothing, and says one byte */
    one.length = 2;
    one.size = 1;
    one.crc = 0;
    assert_bad(&one, 1, "smaller");
    stored.bytes = "xy";
    stored.length = 2;
    stored.size = 1;
    assert_bad(&stored, 1, "two sizes");
}

/* A reader from the front takes the sizes behind a member for true, one from the back the directory's. */
static void descriptors_repeat_the_directory(void **state)
{
    static const char good[] = "PK\7\10\203\026\334\214\3\0\0\0\1\0\0\0";
    static const char large[] = "PK\7\10\203\026\334\214\3\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0";
    struct zipmake_member one = DEFLATED("a");

    (void)state;
    one.flags = 8;
    for (size_t at = 0; at <= 16; at++) {
        struct rsbx_buf zip = RSBX_BUF_INIT(1U << 20);
        reposbx_error err = REPOSBX_ERROR_INIT;
        char other[16];
        int rc;

        memcpy(other, good, sizeof other);
        if (at < 16)
            other[at]++;
        one.descriptor = other;
        one.descriptor_length = sizeof other;
        zipmake(&zip, &one, 1);
        rc = verify(zip.data, zip.length, NULL, &err);
        if (rc != (at < 16 ? REPOSBX_EMALFORMED : 0))
            fail_msg("byte %zu: %d: %s", at, rc, err.message);
        rsbx_buf_dispose(&zip);
    }
    one.descriptor = good;
    one.descriptor_length = 16;
    for (one.local_size = 0; one.local_size < 3; one.local_size++) { /* some know it beforehand */
        struct rsbx_buf zip = RSBX_BUF_INIT(1U << 20);

        zipmake(&zip, &one, 1);
        assert_int_equal(verify(zip.data, zip.length, NULL, NULL),
                         one.local_size < 2 ? 0 : REPOSBX_EMALFORMED);
        rsbx_buf_dispose(&zip);
    }
    one.local_size = 0;
    one.descriptor = good + 1;
    for (one.descriptor_length = 1; one.descriptor_length < 12; one.descriptor_length++)
        assert_bad(&one, 1, "descriptor");
    for (size_t start = 0; start <= 4; start += 4) { /* with its signature and without */
        struct rsbx_buf zip = RSBX_BUF_INIT(1U << 20);

        one.descriptor = large + start;
        one.descriptor_length = 24 - start;
        zipmake(&zip, &one, 1);
        assert_int_equal(verify(zip.data, zip.length, NULL, NULL), 0);
        rsbx_buf_dispose(&zip);
    }
}

/* Which of two end records counts depends on who looks. */
static void a_second_end_is_refused(void **state)
{
    struct zipmake_member one = PLAIN("a");
    struct rsbx_buf zip = RSBX_BUF_INIT(1U << 20);
    reposbx_error err = REPOSBX_ERROR_INIT;
    size_t end;

    (void)state;
    zipmake(&zip, &one, 1);
    end = zip.length;
    zip.data[end - 2] = 22;
    assert_int_equal(rsbx_buf_append(&zip, zip.data + end - 22, 22, NULL), 0);
    zip.data[zip.length - 2] = 1; /* of another length: by itself it is none */
    assert_int_equal(verify(zip.data, zip.length, NULL, &err), REPOSBX_EMALFORMED);
    assert_non_null(strstr(err.message, "second end record"));
    zip.data[end] = 'p';
    assert_int_equal(verify(zip.data, zip.length, NULL, &err), 0);
    rsbx_buf_dispose(&zip);
}

/* A member that unpacks to more than it announces, and one that announces more than is allowed. */
static void bombs_are_stopped(void **state)
{
    const struct rsbx_bundle_limits small = { 10, 100000 };
    struct rsbx_bundle *bundle = NULL;
    struct rsbx_bundle_result made;
    struct rsbx_buf zip = RSBX_BUF_INIT(1U << 24);
    static char zeros[4000000];
    const struct rsbx_bundle_limits large = { 10, sizeof zeros };
    reposbx_error err = REPOSBX_ERROR_INIT;
    size_t row;

    (void)state;
    assert_int_equal(rsbx_bundle_new(&bundle, &large, NULL), 0);
    assert_int_equal(rsbx_bundle_add(bundle, "z", 1, 0644, zeros, sizeof zeros, NULL), 0);
    assert_int_equal(rsbx_bundle_finish(&made, bundle, path, NULL), 0);
    assert_true(made.size < 10000);
    rsbx_bundle_result_dispose(&made);
    rsbx_bundle_free(bundle);
    assert_int_equal(rsbx_bundle_verify(&made, path, &small, &err), REPOSBX_EMALFORMED);
    assert_non_null(strstr(err.message, "more bytes than allowed"));
    assert_int_equal(rsbx_read_file_at(&zip, AT_FDCWD, path, NULL), 0);
    row = zip.length - 22 - 47;
    assert_memory_equal(zip.data + row, "PK\1\2", 4);
    memcpy(zip.data + row + 24, "\x10\0\0\0", 4); /* announces 16 bytes */
    memcpy(zip.data + 22, "\x10\0\0\0", 4);
    assert_int_equal(verify(zip.data, zip.length, &small, &err), REPOSBX_EMALFORMED);
    rsbx_buf_dispose(&zip);
}

static void make_small(struct rsbx_buf *out)
{
    const struct rsbx_bundle_limits limits = { 10, 10000 };
    struct rsbx_bundle *bundle = NULL;
    struct rsbx_bundle_result made;

    assert_int_equal(rsbx_bundle_new(&bundle, &limits, NULL), 0);
    assert_int_equal(rsbx_bundle_add(bundle, "a/b", 3, 0644, "stored", 6, NULL), 0);
    assert_int_equal(rsbx_bundle_add(bundle, "c\xc3\xa9", 3, 0755,
                                     "deflated deflated deflated deflated deflated", 44, NULL),
                     0);
    assert_int_equal(rsbx_bundle_finish(&made, bundle, path, NULL), 0);
    assert_int_equal(rsbx_read_file_at(out, AT_FDCWD, path, NULL), 0);
    rsbx_bundle_result_dispose(&made);
    rsbx_bundle_free(bundle);
}

/* Where in a row of the directory a changed bit says nothing about names or contents: who made it
 * (bytes 4 and 5), internal attributes (36, 37), permissions and DOS attributes (38 to 41). */
static bool harmless_in_row(size_t at)
{
    return at == 4 || at == 5 || (at >= 36 && at <= 41);
}

/* Deflate's data can say the same bytes in several ways (the unused bits at its end, the mark of the
 * last block, a match at another distance in a text that repeats itself): the CRC decides there. */
static void every_flipped_bit_shows_or_is_harmless(void **state)
{
    struct rsbx_buf zip = RSBX_BUF_INIT(1U << 20);
    struct rsbx_bundle_result whole, found;
    const size_t deflate_at = 2 * (30 + 3) + 6;
    size_t directory, rows[2], harmless = 0, detected = 0, same_content = 0;
    reposbx_error err = REPOSBX_ERROR_INIT;

    (void)state;
    make_small(&zip);
    assert_int_equal(rsbx_bundle_verify(&whole, path, NULL, &err), 0);
    directory = zip.length - 22 - 2 * (46 + 3);
    rows[0] = directory;
    rows[1] = directory + 49;
    for (size_t at = 0; at < zip.length; at++) {
        for (int bit = 0; bit < 8; bit++) {
            bool in_row = at >= directory && at < zip.length - 22;
            int rc;

            zip.data[at] = (char)(zip.data[at] ^ 1 << bit);
            write_file(zip.data, zip.length);
            rc = rsbx_bundle_verify(&found, path, NULL, &err);
            zip.data[at] = (char)(zip.data[at] ^ 1 << bit);
            if (rc == 0) {
                /* What is accepted has the same members with the same contents. */
                assert_int_equal(found.member_count, 2);
                for (size_t i = 0; i < 2; i++) {
                    assert_string_equal(found.members[i].name, whole.members[i].name);
                    assert_string_equal(found.members[i].sha256, whole.members[i].sha256);
                }
                assert_string_not_equal(found.sha256, whole.sha256);
                rsbx_bundle_result_dispose(&found);
                if (in_row && harmless_in_row(at - (at >= rows[1] ? rows[1] : rows[0])))
                    harmless++;
                else if (at >= deflate_at && at < directory)
                    same_content++;
                else
                    fail_msg("bit %d of byte %zu was not noticed", bit, at);
            } else {
                assert_int_equal(rc, REPOSBX_EMALFORMED);
                detected++;
            }
        }
    }
    print_message("%zu bits detected, %zu harmless in the directory, %zu in deflate's data\n",
                  detected, harmless, same_content);
    rsbx_bundle_result_dispose(&whole);
    rsbx_buf_dispose(&zip);
}

static void every_truncation_shows(void **state)
{
    struct rsbx_buf zip = RSBX_BUF_INIT(1U << 20);
    reposbx_error err = REPOSBX_ERROR_INIT;

    (void)state;
    make_small(&zip);
    for (size_t length = 0; length < zip.length; length++)
        assert_int_equal(verify(zip.data, length, NULL, &err), REPOSBX_EMALFORMED);
    assert_int_equal(verify(zip.data, zip.length, NULL, &err), 0);
    rsbx_buf_dispose(&zip);
}

static void other_kinds_of_file(void **state)
{
    struct rsbx_bundle_result found;
    char other[160];

    (void)state;
    assert_int_equal(rsbx_bundle_verify(&found, path, NULL, NULL), REPOSBX_ENOTFOUND);
    assert_int_equal(rsbx_bundle_verify(&found, folder, NULL, NULL), REPOSBX_EMALFORMED);
    (void)snprintf(other, sizeof other, "%s/fifo", folder);
    assert_int_equal(mkfifo(other, 0600), 0);
    assert_int_equal(rsbx_bundle_verify(&found, other, NULL, NULL), REPOSBX_EMALFORMED);
}

/* The exit status of a program, or -1 when it is not there. */
static int run(const char *const *argv)
{
    int status = 0;
    pid_t pid = fork();

    if (pid == 0) {
        int null_fd = open("/dev/null", O_RDWR);

        if (null_fd < 0 || dup2(null_fd, 0) < 0 || dup2(null_fd, 1) < 0)
            _exit(126);
        execvp(argv[0], (char *const *)(uintptr_t)argv);
        _exit(127);
    }
    if (pid < 0 || waitpid(pid, &status, 0) != pid || !WIFEXITED(status))
        return -2;
    return WEXITSTATUS(status) == 127 ? -1 : WEXITSTATUS(status);
}

/* Other readers, where they are installed, agree about ours; and we accept theirs. */
static void other_programs_agree(void **state)
{
    const char *const unzip[] = { "unzip", "-tqq", path, NULL };
    const char *const python[] = { "python3", "-c",
        "import sys, zipfile\n"
        "z = zipfile.ZipFile(sys.argv[1])\n"
        "assert z.testzip() is None\n"
        "assert z.namelist() == ['a/b', 'c\\u00e9'], z.namelist()\n"
        "assert z.read('a/b') == b'stored'\n"
        "assert z.infolist()[1].date_time == (1980, 1, 1, 0, 0, 0)\n"
        "assert z.infolist()[1].external_attr >> 16 == 0o100755\n", path, NULL };
    const char *const python_writes[] = { "python3", "-c",
        "import sys, zipfile\n"
        "class Pipe:\n"
        "    def __init__(self, f): self.f = f\n"
        "    def write(self, b): return self.f.write(b)\n"
        "    def flush(self): pass\n"
        "for target in (open(sys.argv[1], 'wb'),):\n"
        "    z = zipfile.ZipFile(Pipe(target), 'w', zipfile.ZIP_DEFLATED)\n"
        "    z.writestr('d/one', b'1' * 1000)\n"
        "    z.writestr('z\\u00e9', b'')\n"
        "    z.close()\n"
        "    target.close()\n", path, NULL };
    struct rsbx_buf zip = RSBX_BUF_INIT(1U << 20);
    struct rsbx_bundle_result found;
    reposbx_error err = REPOSBX_ERROR_INIT;
    int rc;

    (void)state;
    make_small(&zip);
    rsbx_buf_dispose(&zip);
    rc = run(unzip);
    assert_true(rc == -1 || rc == 0);
    rc = run(python);
    assert_true(rc == -1 || rc == 0);
    if (rc == -1)
        return;
    assert_int_equal(run(python_writes), 0); /* with data descriptors */
    rc = rsbx_bundle_verify(&found, path, NULL, &err);
    if (rc != 0)
        fail_msg("%s", err.message);
    assert_int_equal(found.member_count, 2);
    rsbx_bundle_result_dispose(&found);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        in_folder(honest_ones_are_read),
        in_folder(forms_of_others_are_read),
        in_folder(folders_that_lie_are_refused),
        in_folder(names_that_leave_are_refused),
        in_folder(odd_members_are_refused),
        in_folder(overlaps_and_hidden_bytes_are_refused),
        in_folder(bytes_behind_a_stream_are_refused),
        in_folder(descriptors_repeat_the_directory),
        in_folder(a_second_end_is_refused),
        in_folder(bombs_are_stopped),
        in_folder(every_flipped_bit_shows_or_is_harmless),
        in_folder(every_truncation_shows),
        in_folder(other_kinds_of_file),
        in_folder(other_programs_agree),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
