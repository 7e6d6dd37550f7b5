/* SPDX-License-Identifier: Apache-2.0 */
/* What may be installed, how it is kept, and that nothing that was changed is ever loaded. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "wasm/fixture.h"

#include "base/banned.h"

#define MEMORY "(memory (export \"memory\") 1)"
#define START "(func (export \"_start\"))"

static struct place place;

/* Two modules that differ in nothing but what they are. */
static char first[128], second[128];

static int setup(void **state)
{
    (void)state;
    place_make(&place);
    assemble(first, &place, "first", "(module " MEMORY START ")");
    /* Passive data, a start function and a second table: what is not laid out in advance. */
    assemble(second, &place, "second",
             "(module (import \"wasi_snapshot_preview1\" \"proc_exit\" (func $exit (param i32)))" MEMORY
             "(global $seen (mut i32) (i32.const 0)) (table 1 funcref) (table 1 10 externref)"
             "(data $passive \"\\05\\06\") (data (i32.const 9) \"\\07\")"
             "(start $first) (func $first (global.set $seen (i32.load8_u (i32.const 9))))"
             "(func (export \"_start\")"
             " (memory.init $passive (i32.const 0) (i32.const 0) (i32.const 2)) (data.drop $passive)"
             " (call $exit (i32.add (global.get $seen) (i32.load8_u (i32.const 1))))))");
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    place_remove(&place);
    return 0;
}

static void assert_refused(const char *path, const char *member, int code, const char *words)
{
    struct rsbx_wasm_install_options options = RSBX_WASM_INSTALL_OPTIONS_INIT;
    char digest[RSBX_WASM_DIGEST_BYTES] = "untouched";
    reposbx_error err = REPOSBX_ERROR_INIT;

    options.member = member;
    assert_int_equal(rsbx_wasm_install(digest, place.state, path, &options, &err), code);
    assert_int_equal(err.code, code);
    if (strstr(err.message, words) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", err.message, words);
    assert_string_equal(digest, "untouched");
}

static void assert_text_refused(const char *text, int code, const char *words)
{
    char path[128];

    assemble(path, &place, "refused", text);
    assert_refused(path, NULL, code, words);
}

static void modules_that_are_not_served_are_refused_by_name(void **state)
{
    (void)state;
    assert_text_refused("(module (import \"env\" \"launch\" (func))" MEMORY START ")", REPOSBX_EPOLICY,
                        "env.launch");
    assert_text_refused("(module (import \"wasi_snapshot_preview1\" \"fd_teleport\" (func))" MEMORY START
                        ")", REPOSBX_EPOLICY, "wasi_snapshot_preview1.fd_teleport");
    assert_text_refused("(module (import \"wasi_snapshot_preview1\" \"fd_close\" (func (param i64)))"
                        MEMORY START ")", REPOSBX_EPOLICY, "fd_close, with another type");
    assert_text_refused("(module (import \"env\" \"memory\" (memory 1))" START ")", REPOSBX_EPOLICY,
                        "env.memory, which is no function");
    assert_text_refused("(module (memory 1)" START ")", REPOSBX_EPOLICY, "its memory");
    assert_text_refused("(module " START ")", REPOSBX_EPOLICY, "exactly one memory");
    assert_text_refused("(module " MEMORY ")", REPOSBX_EPOLICY, "_start");
    assert_text_refused("(module " MEMORY "(func (export \"_start\") (param i32)))", REPOSBX_EPOLICY,
                        "_start");
    assert_text_refused("(module " MEMORY START "(table 4000000 funcref))", REPOSBX_EPOLICY, "4000000");
    assert_text_refused("(module (memory (export \"memory\") 1 2 shared)" START ")",
                        REPOSBX_EMALFORMED, "the memory");
}

/* Export names stand in comments of the C that is compiled. */
static void names_cannot_become_code(void **state)
{
    (void)state;
    assert_text_refused("(module " MEMORY START "(func (export \"*/ int x; /*\")))", REPOSBX_EPOLICY,
                        "not plain");
    assert_text_refused("(module " MEMORY START "(func (export \"a\\0a#include \\22/etc/passwd\\22\")))",
                        REPOSBX_EPOLICY, "not plain");
    assert_text_refused("(module " MEMORY START "(func (export \"\")))", REPOSBX_EPOLICY, "not plain");
}

static void what_is_no_module_is_malformed(void **state)
{
    static const char truncated[] = "\0asm\1\0\0\0\1\x7f";
    /* A body that leaves a value too many: only wasm2c finds that. */
    static const unsigned char invalid[] = {
        0, 'a', 's', 'm', 1, 0, 0, 0, 1, 4, 1, 0x60, 0, 0, 3, 2, 1, 0, 5, 3, 1, 0, 1, 7, 19, 2, 6,
        'm', 'e', 'm', 'o', 'r', 'y', 2, 0, 6, '_', 's', 't', 'a', 'r', 't', 0, 0, 10, 6, 1, 4, 0, 0x41,
        0, 0x0b
    };
    char path[128];

    (void)state;
    (void)snprintf(path, sizeof path, "%s/bad.wasm", place.dir);
    write_text(path, "#!/bin/sh\n", 10);
    assert_refused(path, NULL, REPOSBX_EMALFORMED, "not a WebAssembly module");
    write_text(path, truncated, sizeof truncated - 1);
    assert_refused(path, NULL, REPOSBX_EMALFORMED, "ends after the file");
    write_text(path, invalid, sizeof invalid);
    assert_refused(path, NULL, REPOSBX_EMALFORMED, "wasm2c failed");
    (void)snprintf(path, sizeof path, "%s/missing.wasm", place.dir);
    assert_refused(path, NULL, REPOSBX_ENOTFOUND, "missing.wasm");
}

static void a_tarball_gives_one_module(void **state)
{
    const char *const pack[] = { "tar", "czf", "two.tgz", "first.wasm", "second.wasm", NULL };
    const char *const none[] = { "tar", "czf", "none.tgz", "first.wat", NULL };
    const char *const link[] = { "sh", "-c", "ln -sf /etc/passwd l.wasm && tar czf link.tgz l.wasm", NULL };
    char path[128];

    (void)state;
    assert_int_equal(run_program(place.dir, pack), 0);
    assert_int_equal(run_program(place.dir, none), 0);
    assert_int_equal(run_program(place.dir, link), 0);
    (void)snprintf(path, sizeof path, "%s/two.tgz", place.dir);
    assert_refused(path, NULL, REPOSBX_EINVALID, "more than one");
    assert_refused(path, "third.wasm", REPOSBX_ENOTFOUND, "third.wasm");
    assert_refused(path, "irst.wasm", REPOSBX_ENOTFOUND, "irst.wasm");
    (void)snprintf(path, sizeof path, "%s/none.tgz", place.dir);
    assert_refused(path, NULL, REPOSBX_ENOTFOUND, "ends in .wasm");
    (void)snprintf(path, sizeof path, "%s/link.tgz", place.dir);
    assert_refused(path, NULL, REPOSBX_ENOTFOUND, "ends in .wasm");
    assert_int_equal(truncate(path, 60), 0);
    assert_refused(path, NULL, REPOSBX_EMALFORMED, "damaged tarball");
}

/* ---- the store ---- */

static void install(char digest[RSBX_WASM_DIGEST_BYTES], const char *path, const char *member,
                    bool make_default)
{
    struct rsbx_wasm_install_options options = RSBX_WASM_INSTALL_OPTIONS_INIT;
    reposbx_error err = REPOSBX_ERROR_INIT;

    options.member = member;
    options.optimisation = "none";
    options.make_default = make_default;
    if (rsbx_wasm_install(digest, place.state, path, &options, &err) != 0)
        fail_msg("%s", err.message);
}

static int find(const char *digest, reposbx_error *err)
{
    struct rsbx_wasm_module *module = NULL;
    int rc = rsbx_wasm_find(&module, place.state, digest, err);

    rsbx_wasm_module_free(module);
    return rc;
}

static void assert_damaged(const char *digest, const char *words)
{
    reposbx_error err = REPOSBX_ERROR_INIT;
    struct rsbx_wasm_list list;

    assert_int_equal(find(digest, &err), REPOSBX_EPROTOCOL);
    if (strstr(err.message, words) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", err.message, words);
    assert_int_equal(rsbx_wasm_list(&list, place.state, NULL), 0);
    for (size_t i = 0; i < list.count; i++)
        assert_int_equal(list.items[i].error.code,
                         strcmp(list.items[i].digest, digest) == 0 ? REPOSBX_EPROTOCOL : 0);
    rsbx_wasm_list_dispose(&list);
}

/* Flips one bit in the middle of a file of the module. */
static void flip(const char *digest, const char *name)
{
    char path[256];
    struct stat facts;
    char byte;
    int fd;

    (void)snprintf(path, sizeof path, "%s/wasm/%s/%s", place.state, digest, name);
    assert_int_equal(chmod(path, 0700), 0);
    fd = open(path, O_RDWR);
    assert_true(fd >= 0 && fstat(fd, &facts) == 0);
    assert_int_equal(pread(fd, &byte, 1, facts.st_size / 2), 1);
    byte ^= 1;
    assert_int_equal(pwrite(fd, &byte, 1, facts.st_size / 2), 1);
    (void)close(fd);
}

static int run_module(const char *digest)
{
    struct rsbx_wasm_module *module = NULL;
    struct rsbx_wasm_outcome outcome = RSBX_WASM_OUTCOME_INIT;
    struct rsbx_wasm_job job = RSBX_WASM_JOB_INIT;
    reposbx_error err = REPOSBX_ERROR_INIT;

    if (rsbx_wasm_find(&module, place.state, digest, &err) != 0 ||
        rsbx_wasm_run(&outcome, module, NULL, &job, &err) != 0)
        fail_msg("%s", err.message);
    rsbx_wasm_module_free(module);
    rsbx_wasm_outcome_dispose(&outcome);
    return outcome.exit_code;
}

static void modules_come_stay_and_go(void **state)
{
    char one[RSBX_WASM_DIGEST_BYTES], two[RSBX_WASM_DIGEST_BYTES], path[256];
    reposbx_error err = REPOSBX_ERROR_INIT;
    struct rsbx_wasm_list list;

    (void)state;
    assert_int_equal(find(NULL, &err), REPOSBX_ENOTFOUND);
    (void)snprintf(path, sizeof path, "%s/two.tgz", place.dir);
    install(one, path, "first.wasm", false);
    install(two, second, NULL, false);
    assert_int_equal(run_module(NULL), 0); /* the first one is the default */
    assert_int_equal(run_module(two), 7 + 6);
    install(two, second, NULL, true); /* which is there: only the default changes */
    assert_int_equal(run_module(NULL), 7 + 6);
    assert_int_equal(rsbx_wasm_list(&list, place.state, &err), 0);
    assert_int_equal(list.count, 2);
    assert_string_equal(list.preferred, two);
    rsbx_wasm_list_dispose(&list);
    assert_int_equal(find("0000", &err), REPOSBX_EINVALID);
    assert_int_equal(rsbx_wasm_remove(place.state, two, &err), 0);
    assert_int_equal(rsbx_wasm_remove(place.state, two, &err), REPOSBX_ENOTFOUND);
    assert_int_equal(find(two, &err), REPOSBX_ENOTFOUND);
    assert_int_equal(find(NULL, &err), REPOSBX_ENOTFOUND);
    assert_int_equal(find(one, &err), 0);
}

static void what_was_changed_is_never_loaded(void **state)
{
    char digest[RSBX_WASM_DIGEST_BYTES], path[256];

    (void)state;
    install(digest, first, NULL, true);
    assert_int_equal(find(NULL, NULL), 0);
    flip(digest, "native");
    assert_damaged(digest, "the file native");
    install(digest, first, NULL, true); /* puts it in place again */
    assert_int_equal(find(NULL, NULL), 0);
    (void)snprintf(path, sizeof path, "%s/wasm/%s/native", place.state, digest);
    assert_int_equal(chmod(path, 0577), 0);
    assert_damaged(digest, "others can write to native");
    assert_int_equal(chmod(path, 0555), 0);
    assert_int_equal(find(NULL, NULL), 0);
    flip(digest, "manifest.json");
    assert_damaged(digest, "manifest");
    assert_int_equal(unlink(path), 0);
    assert_damaged(digest, "manifest");
    (void)snprintf(path, sizeof path, "%s/wasm", place.state);
    assert_int_equal(chmod(path, 0777), 0);
    assert_int_equal(find(digest, NULL), REPOSBX_EPROTOCOL);
    assert_int_equal(chmod(path, 0700), 0);
}

static void one_install_at_a_time_and_it_clears_up(void **state)
{
    struct rsbx_wasm_install_options options = RSBX_WASM_INSTALL_OPTIONS_INIT;
    char digest[RSBX_WASM_DIGEST_BYTES], path[256];
    int fd;

    (void)state;
    install(digest, first, NULL, true);
    (void)snprintf(path, sizeof path, "%s/wasm/tmp-0123", place.state);
    assert_int_equal(mkdir(path, 0700), 0);
    install(digest, first, NULL, true);
    assert_int_equal(access(path, F_OK), -1);
    (void)snprintf(path, sizeof path, "%s/wasm/lock", place.state);
    fd = open(path, O_RDWR);
    assert_int_equal(flock(fd, LOCK_EX), 0);
    assert_int_equal(rsbx_wasm_install(digest, place.state, second, &options, NULL), REPOSBX_EBUSY);
    (void)close(fd);
}

static int stop_at_compile(void *payload, const char *step, unsigned done, unsigned total)
{
    (void)payload;
    (void)done;
    (void)total;
    return strcmp(step, "compile") == 0;
}

static void an_install_can_be_stopped(void **state)
{
    struct rsbx_wasm_install_options options = RSBX_WASM_INSTALL_OPTIONS_INIT;
    char digest[RSBX_WASM_DIGEST_BYTES];
    struct rsbx_wasm_list before, after;

    (void)state;
    options.progress = stop_at_compile;
    assert_int_equal(rsbx_wasm_list(&before, place.state, NULL), 0);
    assert_int_equal(rsbx_wasm_install(digest, place.state, second, &options, NULL),
                     REPOSBX_ECANCELLED);
    assert_int_equal(rsbx_wasm_list(&after, place.state, NULL), 0);
    assert_int_equal(after.count, before.count);
    rsbx_wasm_list_dispose(&before);
    rsbx_wasm_list_dispose(&after);
    options.progress = NULL;
    options.optimisation = "wonderful";
    assert_int_equal(rsbx_wasm_install(digest, place.state, second, &options, NULL), REPOSBX_EINVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(modules_that_are_not_served_are_refused_by_name),
        cmocka_unit_test(names_cannot_become_code),
        cmocka_unit_test(what_is_no_module_is_malformed),
        cmocka_unit_test(a_tarball_gives_one_module),
        cmocka_unit_test(modules_come_stay_and_go),
        cmocka_unit_test(what_was_changed_is_never_loaded),
        cmocka_unit_test(one_install_at_a_time_and_it_clears_up),
        cmocka_unit_test(an_install_can_be_stopped),
    };
    int missing = tools_missing();

    return missing != 0 ? missing : cmocka_run_group_tests(tests, setup, teardown);
}
