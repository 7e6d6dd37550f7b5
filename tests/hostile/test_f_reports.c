/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "real/one_session.h"

#include "base/banned.h"

/*
 * Hostile input F: what was reported in public about tools of this kind, with inputs of our own, on a real
 * engine. One session: its workspace is changed once, its patch taken once and applied by git once; each
 * case then looks at its own files, byte by byte, and at what the patch says of them.
 */

struct change {
    const char *group;
    const char *path;
    const char *before; /* NULL: not there */
    size_t before_length;
    int before_mode;
    const char *after;
    size_t after_length;
    int after_mode;
};

#define LONG(text) (text), sizeof(text) - 1
#define NONE NULL, 0, 0

static const struct change changes[] = {
    { "line ends", "crlf", LONG("a\r\nb\r\nc\r\n"), 0644, LONG("a\r\nB\r\nc\r\n"), 0644 },
    { "line ends", "to-crlf", LONG("a\nb\n"), 0644, LONG("a\r\nb\r\n"), 0644 },
    { "line ends", "from-crlf", LONG("a\r\nb\r\n"), 0644, LONG("a\nb\n"), 0644 },
    { "line ends", "mixed", LONG("a\r\nb\nc\r\n"), 0644, LONG("a\nb\r\nc\r\nd\n"), 0644 },
    { "line ends", "lone-cr", LONG("a\rb\rc\nend\n"), 0644, LONG("a\rB\rc\nend\n"), 0644 },
    { "line ends", "only-cr", LONG("a\rb\rc"), 0644, LONG("a\rb\rC"), 0644 },
    { "line ends", "cr-at-end", LONG("a\nb\r"), 0644, LONG("A\nb\r"), 0644 },
    { "line ends", "cr-added", LONG("a\nb"), 0644, LONG("a\nb\r"), 0644 },
    { "line ends", "cr-cr-lf", LONG("a\r\r\nb\n"), 0644, LONG("a\r\r\nc\r\r\n"), 0644 },
    { "line ends", "form-feed", LONG("a\f\nb\n\f\nc\n"), 0644, LONG("a\f\nB\f\n\f\nc\n"), 0644 },
    { "line ends", "separators", LONG("a\vb\x1c\x1d\x1e\n\xc2\x85\xe2\x80\xa8x\n"), 0644,
      LONG("a\vB\x1c\x1d\x1e\n\xc2\x85\xe2\x80\xa9x\n"), 0644 },
    { "line ends", "crlf-new", NONE, LONG("a\r\nb\rc\f\r\n"), 0644 },
    { "line ends", "crlf-gone", LONG("a\r\nb\rc\f\r\n"), 0644, NONE },
    { "spaces", "a binary.bin", LONG("\0\1\2"), 0644, LONG("\0\1\3\4"), 0644 },
    { "spaces", "a new binary", NONE, LONG("\0x"), 0644 },
    { "spaces", "an old binary", LONG("x\0"), 0644, NONE },
    { "spaces", "mode only.sh", LONG("#!/bin/sh\n"), 0644, LONG("#!/bin/sh\n"), 0755 },
    { "spaces", "mode only b/mode only", LONG("x"), 0755, LONG("x"), 0644 },
    { "spaces", "binary and mode", LONG("\0\1"), 0644, LONG("\0\2"), 0755 },
    { "spaces", "mode of binary", LONG("\0\1"), 0755, LONG("\0\1"), 0644 },
    { "spaces", "new empty", NONE, LONG(""), 0644 },
    { "spaces", "new empty program", NONE, LONG(""), 0755 },
    { "spaces", "old empty", LONG(""), 0644, NONE },
    { "spaces", "mode of empty", LONG(""), 0644, LONG(""), 0755 },
    { "spaces", "filled empty", LONG(""), 0644, LONG("now\n"), 0644 },
    { "spaces", "emptied text", LONG("then\n"), 0644, LONG(""), 0644 },
    { "spaces", " lead", LONG("x\n"), 0644, LONG("y\n"), 0644 },
    { "spaces", "trail ", LONG("x\n"), 0644, LONG("y\n"), 0644 },
    { "spaces", "two  b/two  b", NONE, LONG(""), 0644 },
    { "binaries", "one.bin", LONG("\0one\n"), 0644, LONG("\0ONE\n"), 0644 },
    { "binaries", "two.bin", LONG("\0two"), 0644, LONG("\0TWO\nmore\0"), 0644 },
    { "binaries", "three.bin", NONE, LONG("\xff\xd8\xff\xe0\0\x10JFIF"), 0644 },
    { "binaries", "four.bin", LONG("\x7f" "ELF\0\0"), 0755, NONE },
    { "binaries", "between.txt", LONG("text\n"), 0644, LONG("Text\n"), 0644 },
    { "no newline", "both", LONG("a\nb"), 0644, LONG("a\nc"), 0644 },
    { "no newline", "lost", LONG("a\nb\n"), 0644, LONG("a\nb"), 0644 },
    { "no newline", "found", LONG("a\nb"), 0644, LONG("a\nb\n"), 0644 },
    { "no newline", "far", LONG("1\n2\n3\n4\n5\n6\n7\n8\nend"), 0644,
      LONG("I\n2\n3\n4\n5\n6\n7\n8\nend"), 0644 },
    { "no newline", "near", LONG("1\n2\n3\nend"), 0644, LONG("I\n2\n3\nend"), 0644 },
    { "no newline", "one-byte", LONG("x"), 0644, LONG("y"), 0644 },
    { "no newline", "new", NONE, LONG("a"), 0644 },
    { "no newline", "gone", LONG("a"), 0644, NONE },
    { "no newline", "says so", LONG("\\ No newline at end of file"), 0644,
      LONG("\\ No newline at end of file\n"), 0644 },
    { "blank context", "trailing", LONG("a\nb\n\n\n\n"), 0644, LONG("A\nb\n\n\n\n"), 0644 },
    { "blank context", "leading", LONG("\n\n\na\n"), 0644, LONG("\n\n\nb\n"), 0644 },
    { "blank context", "spaces", LONG("a\n \n\t\n  \n"), 0644, LONG("b\n \n\t\n  \n"), 0644 },
    { "blank context", "one more", LONG("a\n\n\n"), 0644, LONG("a\n\n\n\n"), 0644 },
    { "blank context", "one less", LONG("a\n\n\n"), 0644, LONG("a\n\n"), 0644 },
    { "blank context", "all blank", LONG("\n\n"), 0644, LONG("\n\n\n\n"), 0644 },
    { "blank context", "blank end", LONG("a\nb\nc\n "), 0644, LONG("a\nB\nc\n "), 0644 },
};
#define CHANGES (sizeof changes / sizeof changes[0])

static reposbx_diff_result diff;
static char clone[96], program[96];

/* ---- the one session ---- */

static void name_of(char out[256], const struct change *change)
{
    (void)snprintf(out, 256, "%s/%s", change->group, change->path);
}

static int commit_base(void)
{
    char path[256], *text = NULL;
    int bad = 0;

    for (size_t i = 0; i < CHANGES; i++) {
        name_of(path, &changes[i]);
        if (changes[i].before != NULL)
            bad |= place_write(place.repo, path, changes[i].before, changes[i].before_length,
                               changes[i].before_mode);
    }
    bad |= place_write(place.repo, "shut/away/file", "kept\n", 5, 0644);
    bad |= place_write(place.repo, "shut/file", "kept\n", 5, 0644);
    /* A program that somebody compiled: our own. */
    bad |= RUN(NULL, NULL, "cp", "/proc/self/exe", program);
    (void)snprintf(path, sizeof path, "%s/program", place.repo);
    bad |= RUN(NULL, NULL, "cp", program, path);
    bad |= GIT(NULL, place.repo, "-c", "core.autocrlf=false", "add", "-A");
    bad |= GIT(NULL, place.repo, "-c", "user.name=t", "-c", "user.email=t@example.org", "commit", "-q",
               "-m", "reports");
    bad |= GIT(&text, place.repo, "rev-parse", "HEAD", "HEAD^{tree}");
    (void)snprintf(place.revision, sizeof place.revision, "%.40s", text);
    (void)snprintf(place.tree, sizeof place.tree, "%.40s", text + 41);
    free(text);
    return bad;
}

/* The whole of what the workspace becomes, as a script: every byte in octal. */
static char *script_of(void)
{
    char *script = NULL, path[256];
    size_t size = 0;
    FILE *out = open_memstream(&script, &size);

    assert_non_null(out);
    for (size_t i = 0; i < CHANGES; i++) {
        name_of(path, &changes[i]);
        if (changes[i].after == NULL) {
            (void)fprintf(out, "rm '%s'\n", path);
            continue;
        }
        (void)fprintf(out, "mkdir -p \"$(dirname '%s')\"; printf '", path);
        for (size_t k = 0; k < changes[i].after_length; k++)
            (void)fprintf(out, "\\%03o", (unsigned char)changes[i].after[k]);
        (void)fprintf(out, "' > '%s'; chmod %o '%s'\n", path, (unsigned)changes[i].after_mode, path);
    }
    (void)fputs("printf XYZ | dd of=program bs=1 seek=2000 conv=notrunc 2>/dev/null\n"
                "cat program program > 'program twice'; chmod 755 'program twice'\n"
                /* Repositories within: made, with a .git file, hidden, below a new and an old folder. */
                "mkdir -p nested/.git/refs nested/src deep/er/.git sub module bare.git/objects; "
                "echo 'ref: refs/heads/x' | tee nested/.git/HEAD > bare.git/HEAD; echo n > nested/src/n; "
                "echo x > deep/er/.git/config; echo 'gitdir: ../../.git/modules/sub' > sub/.git; "
                "echo s > sub/file; ln -s /etc module/.git; echo m > module/file; mkdir .git; "
                "echo '[core]' > .git/config\n"
                "echo changed > shut/file; echo changed > shut/away/file; echo new > shut/new; "
                "chmod 000 shut/new shut/away/file shut/away shut\n",
                out);
    (void)fclose(out);
    return script;
}

static int setup(void **state)
{
    const char *argv[] = { "sh" };
    reposbx_exec_request request = REPOSBX_EXEC_REQUEST_INIT;
    reposbx_diff_options options = REPOSBX_DIFF_OPTIONS_INIT;
    reposbx_exec_result result;
    char *script;

    if (group_setup(state) != 0)
        return -1;
    (void)snprintf(clone, sizeof clone, "%s/clone", place.root);
    (void)snprintf(program, sizeof program, "%s/program", place.root);
    if (commit_base() != 0)
        return -1;
    session = place_session(&place, "{\"limits\":{\"memory_bytes\":134217728,\"pids\":64,\"cpus\":1.0}}",
                            NULL);
    script = script_of();
    request.argv = argv;
    request.argc = 1;
    request.stdin_bytes = script;
    request.stdin_length = strlen(script);
    place_exec(&result, session, &request);
    if (result.exit_code != 0 || result.stderr_bytes != 0)
        (void)fprintf(stderr, "exit %d: %s\n", result.exit_code, result.stderr_preview);
    assert_int_equal(result.exit_code, 0);
    reposbx_exec_result_dispose(&result);
    free(script);
    if (reposbx_session_diff(&diff, session, &options, NULL) != 0 ||
        place_write(place.root, "a.patch", diff.patch, diff.patch_length, 0644) != 0)
        return -1;
    return GIT(NULL, NULL, "clone", "-q", place.repo, clone) |
           GIT(NULL, clone, "apply", "--index", "--whitespace=nowarn", "../a.patch");
}

static int teardown(void **state)
{
    reposbx_diff_result_dispose(&diff);
    return group_teardown(state);
}

/* ---- looking ---- */

static const reposbx_diff_file *file_of(const char *path)
{
    for (size_t i = 0; i < diff.file_count; i++)
        if (strcmp(diff.files[i].path, path) == 0)
            return &diff.files[i];
    fail_msg("%s is not in the patch", path);
    return NULL;
}

/* What the patch made of the path in git's index: its mode and bytes; NULL: it is not there. */
static char *applied(const char *path, int *mode, size_t *length)
{
    const char *const show[] = { "git", "cat-file", "blob", NULL, NULL };
    const char *words[5];
    char name[300], *row = NULL, *bytes = NULL;

    assert_int_equal(GIT(&row, clone, "ls-files", "-s", "--", path), 0);
    if (row[0] == '\0') {
        free(row);
        return NULL;
    }
    *mode = (int)strtol(row, NULL, 8) & 0777;
    free(row);
    (void)snprintf(name, sizeof name, ":%s", path);
    memcpy(words, show, sizeof words);
    words[3] = name;
    assert_int_equal(place_run(&bytes, length, clone, words), 0);
    return bytes;
}

static void check_change(const struct change *change)
{
    char path[256], *bytes;
    size_t length = 0;
    int mode = 0;

    name_of(path, change);
    (void)file_of(path);
    bytes = applied(path, &mode, &length);
    if ((bytes == NULL) != (change->after == NULL))
        fail_msg("%s: is it there?", path);
    if (bytes == NULL)
        return;
    if (length != change->after_length || mode != change->after_mode ||
        memcmp(bytes, change->after, length) != 0)
        fail_msg("%s: mode %o, %zu bytes: %s", path, (unsigned)mode, length, bytes);
    free(bytes);
}

static void check_group(const char *group)
{
    size_t count = 0;

    for (size_t i = 0; i < CHANGES; i++) {
        if (strcmp(changes[i].group, group) != 0)
            continue;
        check_change(&changes[i]);
        count++;
    }
    assert_true(count > 0);
}

static void patch_has(const char *text, size_t length)
{
    if (memmem(diff.patch, diff.patch_length, text, length) == NULL)
        fail_msg("the patch lacks %s", text);
}

/* ---- patches ---- */

static void f_whole_patch(void **state)
{
    char *tree = NULL;

    (void)state;
    assert_int_equal(GIT(&tree, clone, "write-tree"), 0);
    assert_memory_equal(tree, diff.result_tree, 40);
    free(tree);
    assert_int_equal(diff.patch[diff.patch_length - 1], '\n');
}

static void f_line_ends_of_changed_lines(void **state)
{
    (void)state;
    check_group("line ends");
    patch_has(LONG("\n-b\r\n+B\r\n"));
    patch_has(LONG("\n-a\rb\rc\n+a\rB\rc\n"));
    patch_has(LONG("\n+B\f\n"));
}

static void f_names_with_a_space(void **state)
{
    (void)state;
    check_group("spaces");
    assert_true(file_of("spaces/a binary.bin")->binary);
    assert_string_equal(file_of("spaces/mode only.sh")->status, "mode_changed");
    assert_string_equal(file_of("spaces/new empty")->status, "added");
    assert_string_equal(file_of("spaces/old empty")->status, "deleted");
}

static void f_several_binaries(void **state)
{
    (void)state;
    check_group("binaries");
    assert_true(file_of("binaries/one.bin")->binary && file_of("binaries/two.bin")->binary);
    assert_false(file_of("binaries/between.txt")->binary);
}

static void f_no_newline_at_either_end(void **state)
{
    (void)state;
    check_group("no newline");
    patch_has(LONG("-b\n\\ No newline at end of file\n+c\n\\ No newline at end of file\n"));
}

static void f_trailing_blank_context(void **state)
{
    (void)state;
    check_group("blank context");
    /* The blank lines of the context are there, with the space that makes them context. */
    patch_has(LONG("-a\n+A\n b\n \n \n"));
}

static void f_nested_repositories(void **state)
{
    static const char *const gone[] = { ".git", "nested/.git", "deep/er/.git", "sub/.git", "module/.git" };
    static const char *const kept[] = { "nested/src/n", "sub/file", "module/file", "bare.git/HEAD" };

    (void)state;
    for (size_t i = 0; i < sizeof gone / sizeof gone[0]; i++) {
        size_t found = 0;

        for (size_t k = 0; k < diff.omitted_count; k++)
            found += strcmp(diff.omitted[k].path, gone[i]) == 0 &&
                     strcmp(diff.omitted[k].reason, "dotgit") == 0;
        if (found != 1)
            fail_msg("%s is named %zu times", gone[i], found);
    }
    for (size_t i = 0; i < sizeof kept / sizeof kept[0]; i++)
        assert_string_equal(file_of(kept[i])->status, "added");
    for (size_t i = 0; i < diff.file_count; i++)
        assert_null(strstr(diff.files[i].path, "/.git/"));
}

static void f_unreadable_folder_is_no_empty_patch(void **state)
{
    static const char *const paths[] = { "shut/file", "shut/away/file", "shut/new" };
    static const char *const words[] = { "changed\n", "changed\n", "new\n" };

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        size_t length = 0;
        int mode = 0;
        char *bytes = applied(paths[i], &mode, &length);

        assert_string_equal(file_of(paths[i])->status, i < 2 ? "modified" : "added");
        assert_non_null(bytes);
        assert_string_equal(bytes, words[i]);
        free(bytes);
    }
    for (size_t i = 0; i < diff.omitted_count; i++)
        assert_int_not_equal(strncmp(diff.omitted[i].path, "shut", 4), 0);
}

static void f_compiled_binary(void **state)
{
    char wanted[65], got[65];
    size_t length = 0, whole = 0;
    int mode = 0;
    FILE *file = fopen(program, "rb");
    char *own = malloc(64U << 20), *bytes;

    (void)state;
    assert_true(file != NULL && own != NULL);
    whole = fread(own, 1, 64U << 20, file);
    (void)fclose(file);
    assert_true(whole > 4000);
    memcpy(own + 2000, "XYZ", 3);
    place_sha256(wanted, own, whole);
    free(own);
    bytes = applied("program", &mode, &length);
    assert_non_null(bytes);
    assert_int_equal(length, whole);
    assert_int_equal(mode, 0755);
    place_sha256(got, bytes, length);
    assert_string_equal(got, wanted);
    free(bytes);
    assert_true(file_of("program")->binary && file_of("program twice")->binary);
    bytes = applied("program twice", &mode, &length);
    assert_int_equal(length, 2 * whole);
    free(bytes);
}

/* ---- output and endings ---- */

static void f_wide_characters_over_frames(void **state)
{
    static const struct {
        const char *script, *word;
        size_t size;
    } rows[] = { { "yes \xc3\xa9 | head -n 100000 | tr -d '\\n'", "\xc3\xa9", 2 },
                 { "yes \xe2\x82\xac | head -n 100000 | tr -d '\\n'", "\xe2\x82\xac", 3 },
                 { "yes \xf0\x9f\x98\x80 | head -n 100000 | tr -d '\\n' >&2", "\xf0\x9f\x98\x80", 4 },
                 { "printf x; yes \xe2\x82\xac | head -n 100000 | tr -d '\\n'", "\xe2\x82\xac", 3 } };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const size_t odd = i == 3, length = odd + 100000 * rows[i].size;
        char *all = malloc(length + 1), *json = NULL, hash[65];
        reposbx_exec_result result;

        assert_non_null(all);
        all[0] = 'x';
        for (size_t at = odd; at < length; at += rows[i].size)
            memcpy(all + at, rows[i].word, rows[i].size);
        place_sh(&result, session, rows[i].script);
        place_sha256(hash, all, length);
        assert_string_equal(i == 2 ? result.stderr_sha256 : result.stdout_sha256, hash);
        assert_int_equal(i == 2 ? result.stderr_bytes : result.stdout_bytes, length);
        /* The preview is cut between two characters, so no reader sees a broken one. */
        assert_in_range(result.stdout_preview_length + result.stderr_preview_length, 65533, 65536);
        assert_int_equal((result.stdout_preview_length - odd) % rows[i].size, 0);
        assert_int_equal(result.stderr_preview_length % rows[i].size, 0);
        assert_int_equal(reposbx_exec_result_json(&json, &result, NULL), 0);
        assert_null(strstr(json, "\xef\xbf\xbd"));
        assert_null(strstr(json, "\\ufffd"));
        assert_null(strstr(json, "\\uFFFD"));
        free(json);
        free(all);
        reposbx_exec_result_dispose(&result);
    }
}

static void f_deadline_with_the_output_so_far(void **state)
{
    static const char *const scripts[] = { "echo before; sleep 5; echo after",
                                           "echo before; sleep 5 & wait; echo after",
                                           "trap '' TERM INT HUP; echo before; sleep 5; sleep 5" };

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        const char *argv[] = { "sh", "-c", scripts[i] };
        reposbx_exec_request request = REPOSBX_EXEC_REQUEST_INIT;
        reposbx_exec_result result;

        request.argv = argv;
        request.argc = 3;
        request.timeout_seconds = 2.0;
        place_exec(&result, session, &request);
        assert_int_equal(result.status, REPOSBX_TIMED_OUT);
        assert_string_equal(result.stdout_preview, "before\n");
        assert_int_equal(result.exit_code, -1);
        /* Not before its time, and not when the sleep would have ended. */
        assert_in_range(result.duration_ms, 1950, 4500);
        reposbx_exec_result_dispose(&result);
    }
}

/* Whether a process of the host has this word among its arguments. */
static bool process_with(const char *word)
{
    DIR *folder = opendir("/proc");
    struct dirent *entry;
    bool found = false;

    assert_non_null(folder);
    while (!found && (entry = readdir(folder)) != NULL) {
        char path[300], line[4096];
        ssize_t length;
        int fd;

        (void)snprintf(path, sizeof path, "/proc/%s/cmdline", entry->d_name);
        fd = open(path, O_RDONLY | O_CLOEXEC);
        length = fd >= 0 ? read(fd, line, sizeof line) : -1;
        if (fd >= 0)
            (void)close(fd);
        found = length > 0 && memmem(line, (size_t)length, word, strlen(word)) != NULL;
    }
    (void)closedir(folder);
    return found;
}

static bool gone_in_time(const char *word)
{
    for (int i = 0; i < 200; i++) {
        const struct timespec pause = { 0, 100000000L };

        if (!process_with(word))
            return true;
        (void)nanosleep(&pause, NULL);
    }
    return false;
}

/* The timeout kills the process itself, and so does the death of the client. */
static void f_no_process_outlives_its_client(void **state)
{
    char id[REPOSBX_SESSION_ID_BYTES], word[24], script[128];
    const char *argv[] = { "sh", "-c", script };
    reposbx_exec_request request = REPOSBX_EXEC_REQUEST_INIT;
    reposbx_exec_result result;
    pid_t pid;

    (void)state;
    (void)snprintf(word, sizeof word, "86%d77", (int)getpid());
    (void)snprintf(script, sizeof script, "sleep %s & sleep %s", word, word);
    request.argv = argv;
    request.argc = 3;
    request.timeout_seconds = 1.0;
    place_exec(&result, session, &request);
    assert_int_equal(result.status, REPOSBX_TIMED_OUT);
    reposbx_exec_result_dispose(&result);
    assert_true(gone_in_time(word));
    (void)snprintf(id, sizeof id, "%s", reposbx_session_id(session));
    place_free(session);
    session = NULL;
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        reposbx_session *own = NULL;

        request.timeout_seconds = 200.0;
        if (reposbx_session_open(&own, place.provider, id, NULL) == 0)
            (void)reposbx_session_exec(&result, own, &request, NULL);
        _exit(1);
    }
    for (int i = 0; i < 200 && !process_with(word); i++) {
        const struct timespec pause = { 0, 100000000L };

        (void)nanosleep(&pause, NULL);
    }
    assert_true(process_with(word));
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    assert_true(gone_in_time(word));
    session = place_open(&place, id);
}

/* Nothing waits for a container that removes itself: every exit code arrives. */
static void f_exit_codes_of_short_commands(void **state)
{
    (void)state;
    for (int code = 0; code < 24; code++) {
        char script[32];
        reposbx_exec_result result;

        (void)snprintf(script, sizeof script, "exit %d", code * 11);
        place_sh(&result, session, script);
        assert_int_equal(result.status, REPOSBX_EXITED);
        assert_int_equal(result.exit_code, code * 11);
        reposbx_exec_result_dispose(&result);
    }
}

#define FAILED_STARTS 4

/* Containers that the engine made and could not start: none may stay, however often. */
static void f_failed_starts_leave_nothing(void **state)
{
    char profile[128], words[256], changed[16], hex[33];
    size_t failed = 0;

    (void)state;
    (void)snprintf(profile, sizeof profile, "%s/bad-seccomp.json", place.root);
    /* A profile that the engine takes and that lets no container start. */
    assert_int_equal(place_write(place.root, "bad-seccomp.json", LONG("{\"defaultAction\":\"SCMP_ACT_BOGUS\"}"),
                                 0600),
                     0);
    (void)snprintf(words, sizeof words, "{\"seccomp_profile\":\"%s\"}", profile);
    for (int i = 0; i < FAILED_STARTS; i++) {
        reposbx_policy *policy = place_policy(place_image(), words);
        reposbx_spec spec = REPOSBX_SPEC_INIT;
        reposbx_session *made = NULL;
        reposbx_error err = REPOSBX_ERROR_INIT;
        const char *name;
        char *revision = NULL;

        /* A tree of its own, so that nothing of another session can be used. */
        (void)snprintf(changed, sizeof changed, "%d\n", i);
        assert_int_equal(place_write(clone, "start", changed, strlen(changed), 0644), 0);
        assert_int_equal(GIT(NULL, clone, "add", "start"), 0);
        assert_int_equal(GIT(NULL, clone, "-c", "user.name=t", "-c", "user.email=t@example.org", "commit",
                             "-q", "-m", "start", "start"),
                         0);
        assert_int_equal(GIT(&revision, clone, "rev-parse", "HEAD"), 0);
        revision[40] = '\0';
        spec.repo = clone;
        spec.revision = revision;
        spec.image = place_image();
        spec.policy = policy;
        assert_int_not_equal(reposbx_session_create(&made, place.provider, &spec, &err), 0);
        reposbx_policy_free(policy);
        free(revision);
        assert_null(made);
        name = strstr(err.message, "sbx-");
        if (name == NULL)
            fail_msg("%s", err.message);
        (void)snprintf(hex, sizeof hex, "%.32s", name + strlen("sbx-"));
        assert_int_equal(place_left(hex), 0);
        failed++;
    }
    assert_int_equal(failed, FAILED_STARTS);
}

/* ---- bundles ---- */

static void f_times_of_a_zip(void **state)
{
    static const char *const zones[] = { "UTC", "<+14>-14", "<-12>12", "Asia/Kathmandu", ":/nonexistent" };
    static const char *const paths[] = { "spaces", "nested/src" };
    reposbx_artifact_options options = REPOSBX_ARTIFACT_OPTIONS_INIT;
    char first[65] = "";

    (void)state;
    options.paths = paths;
    options.path_count = 2;
    for (size_t i = 0; i < sizeof zones / sizeof zones[0]; i++) {
        reposbx_artifact_bundle bundle;
        reposbx_error err = REPOSBX_ERROR_INIT;
        char output[128];

        assert_int_equal(setenv("TZ", zones[i], 1), 0);
        tzset();
        free(place_text(session, "touch nested/src/n 'spaces/new empty'"));
        (void)snprintf(output, sizeof output, "%s/z%zu.zip", place.root, i);
        options.output = output;
        if (reposbx_session_artifacts(&bundle, session, &options, &err) != 0)
            fail_msg("%s", err.message);
        if (i == 0)
            (void)snprintf(first, sizeof first, "%s", bundle.sha256);
        assert_string_equal(bundle.sha256, first);
        reposbx_artifact_bundle_dispose(&bundle);
    }
    assert_int_equal(unsetenv("TZ"), 0);
    tzset();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(f_whole_patch),
        cmocka_unit_test(f_line_ends_of_changed_lines),
        cmocka_unit_test(f_names_with_a_space),
        cmocka_unit_test(f_several_binaries),
        cmocka_unit_test(f_no_newline_at_either_end),
        cmocka_unit_test(f_trailing_blank_context),
        cmocka_unit_test(f_nested_repositories),
        cmocka_unit_test(f_unreadable_folder_is_no_empty_patch),
        cmocka_unit_test(f_compiled_binary),
        cmocka_unit_test(f_wide_characters_over_frames),
        cmocka_unit_test(f_deadline_with_the_output_so_far),
        cmocka_unit_test(f_no_process_outlives_its_client),
        cmocka_unit_test(f_exit_codes_of_short_commands),
        cmocka_unit_test(f_failed_starts_leave_nothing),
        cmocka_unit_test(f_times_of_a_zip),
    };
    int gate = place_gate();

    if (gate != 0)
        return gate;
    return cmocka_run_group_tests_name("public reports", tests, setup, teardown);
}
