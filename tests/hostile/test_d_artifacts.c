/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "artifact/bundle.h"
#include "base/clock.h"
#include "unit/artifact/fixture.h"

#include "base/banned.h"

/*
 * Hostile input D, as far as it meets the bundle alone: names (1), one member per name (2), counts
 * and sizes (3), the destination (4), the surroundings (5).
 */

static const struct rsbx_bundle_limits large = { 100000, 1U << 28 };

/* A bundle of about three megabytes that deflate cannot shrink. */
static struct rsbx_bundle *large_bundle(uint32_t seed)
{
    struct rsbx_bundle *bundle = new_bundle(&large);
    size_t size = 1U << 20;
    unsigned char *bytes = malloc(size);
    uint32_t noise = seed;

    if (bytes == NULL)
        abort();
    for (int i = 0; i < 3; i++) {
        char name[16];

        for (size_t k = 0; k < size; k++) {
            noise = noise * 1664525U + 1013904223U;
            bytes[k] = (unsigned char)(noise >> 24);
        }
        (void)snprintf(name, sizeof name, "part-%d", i);
        if (rsbx_bundle_add(bundle, name, strlen(name), 0644, bytes, size, NULL) != 0)
            abort();
    }
    free(bytes);
    return bundle;
}

/* For use in children too: the code alone. */
static int finish(struct rsbx_bundle *bundle, const char *where)
{
    struct rsbx_bundle_result made;
    int rc = rsbx_bundle_finish(&made, bundle, where, NULL);

    if (rc == 0)
        rsbx_bundle_result_dispose(&made);
    rsbx_bundle_free(bundle);
    return rc;
}

static int wait_for(pid_t pid)
{
    int status = 0;

    assert_true(pid > 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

/* D1: every byte that no name may have, at the start, inside and at the end. */
static void d1_names(void **state)
{
    static const char *const bad[] = { "..", "/", "./", "//", "\\", "\xff", "\xc3", "\xf8\x88\x80" };
    static const char *const around[] = { "%s", "%s/x", "x/%s", "x/%s/y" };
    struct rsbx_bundle *bundle = new_bundle(&large);
    static char name[65538];
    reposbx_error err = REPOSBX_ERROR_INIT;

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        for (size_t k = 0; k < sizeof around / sizeof around[0]; k++) {
            const char *mark = strstr(around[k], "%s");
            int length = snprintf(name, sizeof name, "%.*s%s%s", (int)(mark - around[k]),
                                  around[k], bad[i], mark + 2);

            assert_int_equal(rsbx_bundle_add(bundle, name, (size_t)length, 0644, "", 0, &err),
                             REPOSBX_EPOLICY);
        }
    }
    for (size_t length = 0; length < sizeof name; length++)
        name[length] = length % 200 == 199 ? '/' : 'x';
    for (size_t length = 4096; length < sizeof name; length += 1 + length / 3)
        assert_int_equal(rsbx_bundle_add(bundle, name, length, 0644, "", 0, &err),
                         REPOSBX_EPOLICY);
    assert_int_equal(rsbx_bundle_add(bundle, name, 65535, 0644, "", 0, &err), REPOSBX_EPOLICY);
    assert_int_equal(rsbx_bundle_add(bundle, name, 65536, 0644, "", 0, &err), REPOSBX_EPOLICY);
    assert_int_equal(rsbx_bundle_add(bundle, name, 65537, 0644, "", 0, &err), REPOSBX_EPOLICY);
    assert_int_equal(rsbx_bundle_add(bundle, name, 4095, 0644, "", 0, &err), 0);
    assert_int_equal(rsbx_bundle_add(bundle, "a\0b", 3, 0644, "", 0, &err), REPOSBX_EPOLICY);
    assert_int_equal(finish(bundle, path), 0); /* the longest name is stored whole */
}

/* D2: one member per name, and none below another. */
static void d2_one_member_per_name(void **state)
{
    static const char *const pairs[][2] = { { "dir/x", "dir/x" }, { "dir", "dir/x" },
                                            { "dir/x/y/z", "dir/x" } };

    (void)state;
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        struct rsbx_bundle *bundle = new_bundle(&large);

        assert_int_equal(rsbx_bundle_add(bundle, pairs[i][0], strlen(pairs[i][0]), 0644, "1", 1,
                                         NULL),
                         0);
        assert_int_equal(rsbx_bundle_add(bundle, "dir-other", 9, 0644, "", 0, NULL), 0);
        assert_int_equal(rsbx_bundle_add(bundle, pairs[i][1], strlen(pairs[i][1]), 0644, "2", 1,
                                         NULL),
                         0);
        assert_int_equal(finish(bundle, path), REPOSBX_EINVALID);
        assert_int_equal(files_in(folder), 0);
    }
}

/* D3: the bytes are taken when they are added; what the caller does to them afterwards is nothing. */
static void d3_bytes_are_taken_at_once(void **state)
{
    struct rsbx_bundle *bundle = new_bundle(&large);
    struct rsbx_bundle_result made;
    char bytes[] = "before";

    (void)state;
    assert_int_equal(rsbx_bundle_add(bundle, "a", 1, 0644, bytes, 6, NULL), 0);
    memset(bytes, 'X', 6);
    assert_int_equal(rsbx_bundle_finish(&made, bundle, path, NULL), 0);
    assert_int_equal(made.members[0].size, 6);
    assert_string_equal(made.members[0].sha256, /* of "before" */
                        "6db7d803e74f1ffa7d8f5adc0bf95b3e15bf4c8373fffadf546227cc6c6742cb");
    rsbx_bundle_result_dispose(&made);
    rsbx_bundle_free(bundle);
}

/* D3: more members than the old format's 16-bit count. */
static void d3_seventy_thousand_members(void **state)
{
    struct rsbx_bundle *bundle = new_bundle(&large);
    const struct rsbx_bundle_limits few = { 69999, 1U << 28 };
    struct rsbx_bundle_result made, found;
    reposbx_error err = REPOSBX_ERROR_INIT;

    (void)state;
    for (int i = 70000; i-- > 0;) {
        char name[32];
        int length = snprintf(name, sizeof name, "d%02d/member-%05d", i % 100, i);

        assert_int_equal(rsbx_bundle_add(bundle, name, (size_t)length, 0644, name, (size_t)length,
                                         NULL),
                         0);
    }
    if (rsbx_bundle_finish(&made, bundle, path, &err) != 0)
        fail_msg("%s", err.message);
    assert_int_equal(made.member_count, 70000);
    assert_string_equal(made.members[0].name, "d00/member-00000");
    assert_string_equal(made.members[69999].name, "d99/member-69999");
    assert_int_equal(rsbx_bundle_verify(&found, path, NULL, &err), 0);
    assert_int_equal(found.member_count, 70000);
    assert_string_equal(found.sha256, made.sha256);
    rsbx_bundle_result_dispose(&found);
    assert_int_equal(rsbx_bundle_verify(&found, path, &few, &err), REPOSBX_EMALFORMED);
    rsbx_bundle_result_dispose(&made);
    rsbx_bundle_free(bundle);
}

/* D4: eight writers to one name: one wins, nobody replaces, nothing is left beside it. */
static void d4_writers_race(void **state)
{
    struct rsbx_bundle_result found;
    pid_t pids[8];
    int won = 0;

    (void)state;
    for (unsigned int i = 0; i < 8; i++) {
        struct rsbx_bundle *bundle = large_bundle(i + 1);

        pids[i] = fork();
        if (pids[i] == 0) {
            int rc = finish(bundle, path);

            _exit(rc == 0 ? 0 : rc == REPOSBX_EEXISTS ? 1 : 2);
        }
        rsbx_bundle_free(bundle);
    }
    for (int i = 0; i < 8; i++) {
        int status = wait_for(pids[i]);

        assert_true(status < 2);
        won += status == 0;
    }
    assert_int_equal(won, 1);
    assert_int_equal(files_in(folder), 1);
    assert_int_equal(rsbx_bundle_verify(&found, path, NULL, NULL), 0);
    assert_int_equal(found.member_count, 3);
    rsbx_bundle_result_dispose(&found);
}

/* D4: a file that may not grow. */
static void d4_file_size_limit(void **state)
{
    static const rlim_t sizes[] = { 0, 1, 4096, 1000000, 3000000 };

    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        struct rsbx_bundle *bundle = large_bundle(5);
        pid_t pid = fork();

        if (pid == 0) {
            const struct rlimit limit = { sizes[i], sizes[i] };

            (void)signal(SIGXFSZ, SIG_IGN);
            if (setrlimit(RLIMIT_FSIZE, &limit) != 0)
                _exit(3);
            _exit(finish(bundle, path) == REPOSBX_EIO ? 0 : 1);
        }
        rsbx_bundle_free(bundle);
        assert_int_equal(wait_for(pid), 0);
        assert_int_equal(files_in(folder), 0);
    }
}

/* In a mount namespace of its own: 0 as it should be, 2 not allowed to mount, else wrong. */
static int on_full_disk(struct rsbx_bundle *bundle)
{
    int rc;

    if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("tmpfs", folder, "tmpfs", 0, "size=1m") != 0)
        return 2;
    rc = finish(bundle, path);
    return rc == REPOSBX_EIO && files_in(folder) == 0 ? 0 : 1;
}

/* D4: a full file system, where this test may mount one. */
static void d4_disk_full(void **state)
{
    struct rsbx_bundle *bundle = large_bundle(6);
    pid_t pid = fork();
    int status;

    (void)state;
    if (pid == 0)
        _exit(on_full_disk(bundle));
    rsbx_bundle_free(bundle);
    status = wait_for(pid);
    if (status == 2)
        print_message("mounting is not allowed here: only the file size limit was tried\n");
    else
        assert_int_equal(status, 0);
}

/* D4: killed at any moment, the writer leaves a whole bundle or nothing. */
static void d4_killed_writer(void **state)
{
    int whole = 0, none = 0;
    uint64_t took = rsbx_now_ns();

    (void)state;
    assert_int_equal(finish(large_bundle(7), path), 0);
    took = rsbx_now_ns() - took;
    assert_int_equal(unlink(path), 0);
    for (unsigned int i = 0; i < 24; i++) {
        struct rsbx_bundle *bundle = large_bundle(7);
        struct rsbx_bundle_result found;
        const uint64_t wait_ns = took * i / 18; /* up to a third longer than it needs */
        const struct timespec pause = { (time_t)(wait_ns / 1000000000U),
                                        (long)(wait_ns % 1000000000U) };
        int status;
        pid_t pid = fork();

        if (pid == 0)
            _exit(finish(bundle, path) == 0 ? 0 : 1);
        rsbx_bundle_free(bundle);
        assert_true(pid > 0);
        (void)nanosleep(&pause, NULL);
        (void)kill(pid, SIGKILL);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        if (files_in(folder) == 0) {
            none++;
            continue;
        }
        assert_int_equal(files_in(folder), 1);
        assert_int_equal(rsbx_bundle_verify(&found, path, NULL, NULL), 0);
        rsbx_bundle_result_dispose(&found);
        assert_int_equal(unlink(path), 0);
        whole++;
    }
    print_message("killed 24 times: %d whole bundles, %d nothing\n", whole, none);
    assert_true(none > 0);
}

/* D4: what stands at the destination stays as it is. */
static void d4_destination_stays(void **state)
{
    char target[128];
    struct stat found;

    (void)state;
    (void)snprintf(target, sizeof target, "%s/target", folder);
    assert_int_equal(symlink("target", path), 0); /* dangling */
    assert_int_equal(finish(large_bundle(8), path), REPOSBX_EEXISTS);
    assert_int_equal(lstat(target, &found), -1);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(finish(large_bundle(8), path), REPOSBX_EEXISTS);
    assert_int_equal(rmdir(path), 0);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(finish(large_bundle(8), path), REPOSBX_EEXISTS);
    assert_int_equal(files_in(folder), 1);
    (void)snprintf(target, sizeof target, "%s/no/such/folder.zip", folder);
    assert_int_equal(finish(large_bundle(8), target), REPOSBX_EEXISTS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        in_folder(d1_names),
        in_folder(d2_one_member_per_name),
        in_folder(d3_bytes_are_taken_at_once),
        in_folder(d3_seventy_thousand_members),
        in_folder(d4_writers_race),
        in_folder(d4_file_size_limit),
        in_folder(d4_disk_full),
        in_folder(d4_killed_writer),
        in_folder(d4_destination_stays),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
