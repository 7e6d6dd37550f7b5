/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/source/fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/text.h"

#include "base/banned.h"

/*
 * Hostile repositories, one test for each kind; every case is several variants of it. The whole program
 * ends by alarm when anything hangs.
 */
#define ALARM_SECONDS 880U
#define EMPTY_TREE "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
#define COUNT(a) (sizeof(a) / sizeof *(a))

static struct fx_result result;

static void expect(const struct rsbx_source_options *options, int code, const char *words)
{
    uint64_t from = rsbx_now_ns();

    fx_read(&result, options);
    if (result.rc != code)
        fail_msg("expected %d (%s), got %d: %s", code, words != NULL ? words : "-", result.rc,
                 result.err.message);
    if (words != NULL && strstr(result.err.message, words) == NULL)
        fail_msg("\"%s\" lacks \"%s\"", result.err.message, words);
    assert_true(rsbx_now_ns() - from < 40000000000ULL);
}

static void expect_ok(const struct rsbx_source_options *options)
{
    expect(options, 0, NULL);
}

/* A commit of a tree with this one entry must be refused, and the words name the tree. */
static void refuse_entry(struct fx *fx, const char *mode, const void *name, size_t length,
                         const char *hex)
{
    static struct fx_tree tree;
    char id[41], commit[41];
    struct rsbx_source_options options;

    tree.length = 0;
    fx_entry(&tree, mode, name, length, hex);
    fx_tree_object(id, fx, &tree);
    fx_commit_tree(commit, fx, id);
    options = fx_options(fx, commit);
    options.symlinks = RSBX_SYMLINKS_KEEP;
    options.submodules = RSBX_SUBMODULES_EMPTY;
    expect(&options, REPOSBX_EPOLICY, id);
}

static void refuse_name(struct fx *fx, const char *name)
{
    char blob[41], inner[41];
    static struct fx_tree tree;

    fx_blob(blob, fx, "x");
    refuse_entry(fx, "100644", name, strlen(name), blob);
    refuse_entry(fx, "100755", name, strlen(name), blob);
    tree.length = 0;
    fx_entry(&tree, "100644", "f", 1, blob);
    fx_tree_object(inner, fx, &tree);
    refuse_entry(fx, "40000", name, strlen(name), inner);
}

static void a01_escaping_names(void **state)
{
    static const char *const names[] = { "..", ".", "a/b", "../../x", "/etc/x", "/", "a/", "..\\x",
                                         "a\\..\\b" };

    for (size_t i = 0; i < COUNT(names); i++)
        refuse_name(*state, names[i]);
}

static void a02_dot_git(void **state)
{
    static const char *const names[] = {
        ".git", ".GIT", ".Git", "git~1", "GIT~1", "git~2", ".git ", ".git.", ".git . .",
        ".git::$INDEX_ALLOCATION", ".git:x", ".git\\x", "x\\.git", ".g\u200cit", ".git\u200d",
        "\u202e.git", ".gi\ufefft",
    };

    for (size_t i = 0; i < COUNT(names); i++)
        refuse_name(*state, names[i]);
}

static void a03_dot_files_as_links(void **state)
{
    struct fx *fx = *state;
    static const char *const names[] = { ".gitmodules", ".gitattributes", ".GITMODULES",
                                         ".gitattributes ", "gitmod~1", "gitatt~1", "GITMOD~2",
                                         ".gitmodules::$DATA", ".gitattri\u200cbutes" };
    char target[41];

    fx_blob(target, fx, "elsewhere");
    for (size_t i = 0; i < COUNT(names); i++)
        refuse_entry(fx, "120000", names[i], strlen(names[i]), target);
}

/* `levels` folders, one in the other, around one file. */
static void nest(char out[41], struct fx *fx, unsigned levels, const char *name)
{
    static struct fx_tree tree;
    char blob[41];

    fx_blob(blob, fx, "deep");
    tree.length = 0;
    fx_entry(&tree, "100644", "f", 1, blob);
    fx_tree_object(out, fx, &tree);
    for (unsigned i = 0; i < levels; i++) {
        tree.length = 0;
        fx_entry(&tree, "40000", name, strlen(name), out);
        fx_tree_object(out, fx, &tree);
    }
}

static void a04_lengths_and_depth(void **state)
{
    struct fx *fx = *state;
    static char name[4096];
    char tree[41], commit[41], blob[41];
    struct rsbx_source_options options;

    fx_blob(blob, fx, "x");
    memset(name, 'n', sizeof name);
    refuse_entry(fx, "100644", "", 0, blob);
    refuse_entry(fx, "100644", name, 256, blob);
    refuse_entry(fx, "100644", name, 4096, blob);
    refuse_entry(fx, "40000", name, 4096, EMPTY_TREE);
    /* A NUL ends a name: what follows cannot be an entry. */
    refuse_entry(fx, "100644", "a\0b", 3, blob);
    /* A path over the limit by names that are not. */
    name[200] = '\0';
    nest(tree, fx, 21, name);
    fx_commit_tree(commit, fx, tree);
    options = fx_options(fx, commit);
    expect(&options, REPOSBX_EPOLICY, "path over");
    nest(tree, fx, 20, name);
    fx_commit_tree(commit, fx, tree);
    options = fx_options(fx, commit);
    expect_ok(&options);
    /* One level too many, and exactly enough. */
    options.max_depth = 19;
    expect(&options, REPOSBX_EPOLICY, "deeper than 19");
    options.max_depth = 20;
    expect_ok(&options);
}

static void a04_sixty_thousand_folders(void **state)
{
    struct fx *fx = *state;
    char tree[41], commit[41];
    struct rsbx_source_options options;

    nest(tree, fx, 60000, "d");
    fx_commit_tree(commit, fx, tree);
    options = fx_options(fx, commit);
    expect(&options, REPOSBX_EPOLICY, "deeper than 128");
    options.max_depth = UINT32_MAX;
    expect(&options, REPOSBX_EPOLICY, "deeper than 255");
}

static void two_entries(struct fx *fx, const char *mode_a, const char *a, const char *hex_a,
                        const char *mode_b, const char *b, const char *hex_b)
{
    static struct fx_tree tree;
    char id[41], commit[41];
    struct rsbx_source_options options;

    tree.length = 0;
    fx_entry(&tree, mode_a, a, strlen(a), hex_a);
    fx_entry(&tree, mode_b, b, strlen(b), hex_b);
    fx_tree_object(id, fx, &tree);
    fx_commit_tree(commit, fx, id);
    options = fx_options(fx, commit);
    options.submodules = RSBX_SUBMODULES_EMPTY;
    expect(&options, REPOSBX_EPOLICY, id);
}

static void a05_duplicates(void **state)
{
    struct fx *fx = *state;
    static struct fx_tree tree;
    char blob[41], other[41], folder[41], id[41], commit[41];
    struct rsbx_source_options options;

    fx_blob(blob, fx, "x");
    fx_blob(other, fx, "y");
    tree.length = 0;
    fx_entry(&tree, "100644", "f", 1, blob);
    fx_tree_object(folder, fx, &tree);
    two_entries(fx, "100644", "x", blob, "100644", "x", other);
    two_entries(fx, "100644", "x", blob, "100755", "x", blob);
    two_entries(fx, "100644", "x", blob, "40000", "x", folder);
    two_entries(fx, "40000", "x", folder, "40000", "x", folder);
    two_entries(fx, "160000", "x", blob, "40000", "x", folder);
    two_entries(fx, "40000", "x", EMPTY_TREE, "100644", "x", blob);
    /* Out of order is one more disguise. */
    two_entries(fx, "100644", "b", blob, "100644", "a", blob);
    two_entries(fx, "40000", "a", folder, "100644", "a.c", blob);
    /* Between file x and folder x other names may stand: still the same name twice. */
    tree.length = 0;
    fx_entry(&tree, "100644", "x", 1, blob);
    fx_entry(&tree, "100644", "x-y", 3, blob);
    fx_entry(&tree, "40000", "x", 1, folder);
    fx_tree_object(id, fx, &tree);
    fx_commit_tree(commit, fx, id);
    options = fx_options(fx, commit);
    expect(&options, REPOSBX_EPOLICY, "twice");
}

static void a06_modes(void **state)
{
    struct fx *fx = *state;
    static const char *const modes[] = { "0", "020666", "104755", "100777", "100600", "100645",
                                         "060644", "010644", "140755", "0100644", "040000",
                                         "40755", "120777", "160755", "1006440", "00000100644",
                                         "10064x", "", "-1", "170000" };
    static struct fx_tree tree;
    char blob[41], id[41], commit[41];
    struct rsbx_source_options options;

    fx_blob(blob, fx, "x");
    for (size_t i = 0; i < COUNT(modes); i++)
        refuse_entry(fx, modes[i], "f", 1, blob);
    tree.length = 0;
    fx_entry(&tree, "100664", "f", 1, blob);
    fx_tree_object(id, fx, &tree);
    fx_commit_tree(commit, fx, id);
    options = fx_options(fx, commit);
    expect_ok(&options);
    assert_string_equal(result.paths, "100644 f\n");
    assert_int_equal(result.notes, 1);
    assert_non_null(strstr(result.note, "100664"));
    assert_string_not_equal(result.facts.tree, id);
}

static void a07_gitlinks(void **state)
{
    struct fx *fx = *state;
    static struct fx_tree tree;
    char blob[41], id[41], commit[41], without[41], modules[41];
    struct rsbx_source_options options;

    fx_blob(blob, fx, "x");
    fx_blob(modules, fx, "[submodule \"s\"]\n\tpath = s\n\turl = https://example.org/\n");
    tree.length = 0;
    fx_entry(&tree, "100644", "f", 1, blob);
    fx_tree_object(without, fx, &tree);
    for (int with_modules = 0; with_modules < 2; with_modules++) {
        tree.length = 0;
        if (with_modules)
            fx_entry(&tree, "100644", ".gitmodules", 11, modules);
        fx_entry(&tree, "100644", "f", 1, blob);
        fx_entry(&tree, "160000", "s", 1, "1111111111111111111111111111111111111111");
        fx_tree_object(id, fx, &tree);
        fx_commit_tree(commit, fx, id);
        options = fx_options(fx, commit);
        expect(&options, REPOSBX_EPOLICY, "submodule");
        options.submodules = RSBX_SUBMODULES_EMPTY;
        expect_ok(&options);
        assert_int_equal(result.files, 1 + with_modules);
        assert_int_equal(result.notes, 1);
        assert_non_null(strstr(result.note, "1111111111111111111111111111111111111111"));
        if (!with_modules)
            assert_string_equal(result.facts.tree, without);
    }
}

static void a07_symlinks(void **state)
{
    struct fx *fx = *state;
    static const char *const targets[] = { "/etc/passwd", "f", "nothing", "../../..", "l" };
    char commit[41];
    struct rsbx_source_options options;
    struct rsbx_source *source = NULL;
    struct rsbx_source_event event;

    for (size_t i = 0; i < COUNT(targets); i++) {
        (void)unlink(fx_path(fx, "l"));
        fx_text(fx, "f", "f");
        fx_symlink(fx, targets[i], "l");
        fx_commit_all(commit, fx);
        options = fx_options(fx, commit);
        expect(&options, REPOSBX_EPOLICY, "symlink");
        /* Kept as it is, whatever it names; only the fingerprint has no form for some. */
        options.symlinks = RSBX_SYMLINKS_KEEP;
        assert_int_equal(rsbx_source_open(&source, &options, NULL), 0);
        do
            assert_int_equal(rsbx_source_next(&event, source, NULL), 0);
        while (event.kind != RSBX_SOURCE_ENTRY || event.mode != 0120000);
        assert_int_equal(event.size, strlen(targets[i]));
        assert_int_equal(rsbx_source_next(&event, source, NULL), 0);
        assert_memory_equal(event.bytes, targets[i], strlen(targets[i]));
        rsbx_source_free(source);
    }
    {
        static struct fx_tree tree;
        char blob[41], id[41];

        fx_object(blob, fx, "blob", "a\0b", 3);
        tree.length = 0;
        fx_entry(&tree, "120000", "l", 1, blob);
        fx_tree_object(id, fx, &tree);
        fx_commit_tree(commit, fx, id);
        options = fx_options(fx, commit);
        options.symlinks = RSBX_SYMLINKS_KEEP;
        expect(&options, REPOSBX_EPOLICY, "no path");
        refuse_entry(fx, "120000", "..", 2, blob);
    }
}

struct attribute_case {
    const char *file; /* "info": .git/info/attributes */
    const char *text;
    const char *effective; /* the attribute, or NULL */
};

static const struct attribute_case attribute_cases[] = {
    { ".gitattributes", "*.c export-ignore\n", "export-ignore" },
    { ".gitattributes", "*.x export-ignore\n", NULL },
    { ".gitattributes", "d export-ignore\n", "export-ignore" },
    { ".gitattributes", "d/ export-ignore", "export-ignore" },
    { ".gitattributes", "/f.c/ export-ignore", NULL },
    { ".gitattributes", "d/** export-subst\n", "export-subst" },
    { ".gitattributes", "* export-subst\n*.c -export-subst\n*.h !export-subst\n"
                        ".gitattributes -export-subst\n", NULL },
    { ".gitattributes", "*.c -export-ignore\n*.c export-ignore\n", "export-ignore" },
    { ".gitattributes", "*.c export-ignore\n*.c !export-ignore\n", NULL },
    { ".gitattributes", "*.c export-ignore=yes\n", NULL },
    { ".gitattributes", "# *.c export-ignore\n", NULL },
    { ".gitattributes", "!*.c export-ignore\n", NULL },
    { ".gitattributes", "\"*.\\143\" export-ignore\n", "export-ignore" },
    { ".gitattributes", "  \t*.c \t text\texport-ignore\r\n", "export-ignore" },
    { ".gitattributes", "\xEF\xBB\xBF*.c export-ignore\n", "export-ignore" },
    { ".gitattributes", "*.c export-ignore -bad=x --bad\n", NULL },
    { ".gitattributes", "[attr]hide export-ignore\n*.c hide\n", "export-ignore" },
    { ".gitattributes", "*.c hide\n[attr]hide export-ignore\n", "export-ignore" },
    { ".gitattributes", "[attr]hide export-ignore\n*.c -hide\n", NULL },
    { ".gitattributes", "[attr]a b\n[attr]b export-subst\n*.c a\n", "export-subst" },
    { ".gitattributes", "[attr]a a b\n[attr]b b a\n*.c a\n* -export-ignore\n", NULL },
    { ".gitattributes", "[attr]hide export-ignore\n*.c hide -export-ignore\n", NULL },
    { ".gitattributes", "[attr]hide export-ignore\n*.c -export-ignore hide\n", "export-ignore" },
    { "d/.gitattributes", "g.h export-ignore\n", "export-ignore" },
    { "d/.gitattributes", "/g.h export-ignore\n", "export-ignore" },
    { "d/.gitattributes", "f.c export-ignore\n", NULL },
    { "d/.gitattributes", "d export-ignore\n", NULL },
    { "d/.gitattributes", "[attr]hide export-ignore\ng.h hide\n", NULL },
    { "info", "*.c export-ignore\n", "export-ignore" },
    { "info", "*.zip export-ignore\n", NULL },
    { "info", "[attr]hide export-subst\ng.h hide\n", "export-subst" },
};

/* Git itself says the same: what its archive leaves out or expands. */
static bool git_says(const struct fx *fx, const char *attribute)
{
    static const char *const paths[] = { "f.c", "d/", "d/g.h", ".gitattributes",
                                         "d/.gitattributes" };
    char want[64];

    (void)snprintf(want, sizeof want, "%s: set", attribute);
    for (size_t i = 0; i < COUNT(paths); i++) {
        char line[128];
        bool folder = paths[i][strlen(paths[i]) - 1] == '/';

        if (!folder && access(fx_path(fx, paths[i]), F_OK) != 0)
            continue;
        if (folder && strcmp(attribute, "export-subst") == 0)
            continue;
        FX_GIT(line, fx, "check-attr", attribute, "--", paths[i]);
        if (strstr(line, want) != NULL)
            return true;
    }
    return false;
}

static void a07_attributes(void **state)
{
    struct fx *fx = *state;

    for (size_t i = 0; i < COUNT(attribute_cases); i++) {
        const struct attribute_case *row = &attribute_cases[i];
        bool info = strcmp(row->file, "info") == 0;
        char commit[41];
        struct rsbx_source_options options;

        (void)unlink(fx_path(fx, ".gitattributes"));
        (void)unlink(fx_path(fx, "d/.gitattributes"));
        fx_text(fx, ".git/info/attributes", info ? row->text : "");
        fx_text(fx, "f.c", "$Format:%H$");
        fx_text(fx, "d/g.h", "h");
        if (!info)
            fx_text(fx, row->file, row->text);
        fx_commit_all(commit, fx);
        options = fx_options(fx, commit);
        if (git_says(fx, "export-ignore") || git_says(fx, "export-subst")) {
            if (row->effective == NULL)
                fail_msg("git finds an attribute by: %s", row->text);
        } else if (row->effective != NULL) {
            fail_msg("git finds no attribute by: %s", row->text);
        }
        fx_read(&result, &options);
        if ((result.rc != 0) != (row->effective != NULL))
            fail_msg("%s: %s: %d %s", row->file, row->text, result.rc, result.err.message);
        if (row->effective != NULL)
            assert_non_null(strstr(result.err.message, row->effective));
        /* Raw: everything, byte for byte, nothing expanded. */
        options.attributes = RSBX_ATTRIBUTES_RAW;
        expect_ok(&options);
        assert_int_equal(result.files, info ? 2 : 3);
        assert_non_null(strstr(result.content, "$Format:%H$"));
    }
}

static void a08_odd_names(void **state)
{
    struct fx *fx = *state;
    static const char *const names[] = { "\x01", "\t", "\n", "\x1b[31m", " ", "\"q\"", "'", "a\nb",
                                         "back\\slash", "\x7f", "\xE2\x80\xA8", "\xFF\xFE",
                                         "\xED\xA0\x80", "caf\xE9" };
    char commit[41];
    struct rsbx_source_options options;

    for (size_t i = 0; i < COUNT(names); i++)
        fx_text(fx, names[i], "x");
    fx_commit_all(commit, fx);
    options = fx_options(fx, commit);
    expect_ok(&options);
    assert_int_equal(result.files, COUNT(names));
    for (size_t i = 0; i < COUNT(names); i++) {
        char line[64];

        (void)snprintf(line, sizeof line, "100644 %s\n", names[i]);
        assert_non_null(strstr(result.paths, line));
    }
}

static void a09_bombs(void **state)
{
    struct fx *fx = *state;
    static struct fx_tree tree;
    static uint8_t zeros[64 * 1024 * 1024];
    char blob[41], id[41], commit[41], text[128];
    struct rsbx_source_options options;

    fx_blob(blob, fx, "x");
    memcpy(id, blob, sizeof id);
    for (int level = 0; level < 10; level++) {
        tree.length = 0;
        for (int i = 0; i < 10; i++) {
            char name[2] = { (char)('0' + i), '\0' };

            fx_entry(&tree, level == 0 ? "100644" : "40000", name, 1, id);
        }
        fx_tree_object(id, fx, &tree);
    }
    fx_commit_tree(commit, fx, id);
    options = fx_options(fx, commit);
    expect(&options, REPOSBX_EPOLICY, "more than 200000 files");
    /* The same of nothing but submodules and folders: no file to count. */
    memcpy(id, EMPTY_TREE, sizeof id);
    for (int level = 0; level < 12; level++) {
        tree.length = 0;
        for (int i = 0; i < 10; i++) {
            char name[2] = { (char)('0' + i), '\0' };

            fx_entry(&tree, "40000", name, 1, id);
        }
        fx_tree_object(id, fx, &tree);
    }
    fx_commit_tree(commit, fx, id);
    options = fx_options(fx, commit);
    expect(&options, REPOSBX_EPOLICY, "more than");
    /* Large by content: the header says so before anything is inflated. */
    fx_write(fx, "../zeros", zeros, sizeof zeros);
    FX_GIT(text, fx, "hash-object", "-w", "../zeros");
    memcpy(blob, text, sizeof blob);
    tree.length = 0;
    fx_entry(&tree, "100644", "zeros", 5, blob);
    fx_tree_object(id, fx, &tree);
    fx_commit_tree(commit, fx, id);
    options = fx_options(fx, commit);
    options.max_bytes = sizeof zeros - 1;
    expect(&options, REPOSBX_EPOLICY, "bytes in the snapshot");
    options.max_bytes = sizeof zeros;
    expect_ok(&options);
    assert_int_equal(result.bytes, sizeof zeros);
    FX_GIT(NULL, fx, "repack", "-q", "-a", "-d");
    options.max_bytes = sizeof zeros - 1;
    expect(&options, REPOSBX_EPOLICY, "bytes in the snapshot");
    /* Exactly as many files as allowed, and one less. */
    fx_text(fx, "a", "a");
    fx_text(fx, "b", "b");
    fx_commit_all(commit, fx);
    options = fx_options(fx, commit);
    options.max_files = 2;
    expect_ok(&options);
    options.max_files = 1;
    expect(&options, REPOSBX_EPOLICY, "more than 1 files");
}

static size_t slurp(uint8_t *out, size_t size, const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got;

    assert_true(fd >= 0);
    got = rsbx_read_full(fd, out, size);
    assert_true(got > 0);
    (void)close(fd);
    return (size_t)got;
}

/* Each of commit, tree and blob, cut at every length. */
static void a10_cut_objects(void **state)
{
    struct fx *fx = *state;
    char ids[3][41], text[128], name[64];
    static uint8_t bytes[4096];
    struct rsbx_source_options options;

    fx_text(fx, "f", "some bytes in a file that deflate to more than a few");
    fx_commit_all(ids[0], fx);
    FX_GIT(text, fx, "rev-parse", "HEAD^{tree}");
    memcpy(ids[1], text, 41);
    FX_GIT(text, fx, "rev-parse", "HEAD:f");
    memcpy(ids[2], text, 41);
    options = fx_options(fx, ids[0]);
    for (size_t i = 0; i < 3; i++) {
        size_t length;

        fx_loose_name(name, ids[i]);
        length = slurp(bytes, sizeof bytes, fx_path(fx, name));
        for (size_t cut = 0; cut < length; cut++) {
            fx_write(fx, name, bytes, cut);
            expect(&options, REPOSBX_EPROTOCOL, ids[i]);
        }
        fx_write(fx, name, bytes, length);
        expect_ok(&options);
        /* Bytes behind it, in the file. */
        bytes[length] = 'x';
        fx_write(fx, name, bytes, length + 1);
        expect(&options, REPOSBX_EPROTOCOL, ids[i]);
        fx_write(fx, name, bytes, length);
    }
}

static void a10_headers(void **state)
{
    struct fx *fx = *state;
    static const struct {
        const char *bytes;
        size_t length;
    } forms[] = {
        { "blob 3\0more than three", 22 }, { "blob 99999999999\0x", 18 },
        { "blob 99999999999999999999999\0x", 30 }, { "blob 18446744073709551615\0x", 27 },
        { "blob -1\0x", 9 }, { "blob 01\0x", 9 }, { "blob \0x", 7 }, { "blob 1x\0x", 9 },
        { "blob 1", 6 }, { "blob", 4 }, { "\0", 1 }, { "tree 1\0x", 8 }, { "bolb 1\0x", 8 },
        { "blob 100\0x", 10 }, { "blob 0\0", 7 }, { "blob  1\0x", 9 }, { "commit 1\0x", 10 },
        { "blob 1 \0x", 9 }, { "blob 9223372036854775807\0x", 26 },
    };
    char commit[41], text[128], name[64];
    struct rsbx_source_options options;

    fx_text(fx, "f", "content");
    fx_commit_all(commit, fx);
    FX_GIT(text, fx, "rev-parse", "HEAD:f");
    fx_loose_name(name, text);
    options = fx_options(fx, commit);
    for (size_t i = 0; i < COUNT(forms); i++) {
        fx_stored(fx, name, forms[i].bytes, forms[i].length);
        fx_read(&result, &options);
        if (result.rc != REPOSBX_EPROTOCOL && result.rc != REPOSBX_EPOLICY)
            fail_msg("form %zu: %d %s", i, result.rc, result.err.message);
    }
    fx_stored(fx, name, "blob 7\0content", 14);
    expect_ok(&options);
    /* Neither a file nor readable without waiting. */
    assert_int_equal(unlink(fx_path(fx, name)), 0);
    assert_int_equal(mkfifo(fx_path(fx, name), 0644), 0);
    expect(&options, REPOSBX_EPROTOCOL, "regular");
    assert_int_equal(unlink(fx_path(fx, name)), 0);
    assert_int_equal(symlink("/dev/zero", fx_path(fx, name)), 0);
    expect(&options, REPOSBX_EPROTOCOL, "symlink");
    assert_int_equal(unlink(fx_path(fx, name)), 0);
    expect(&options, REPOSBX_EPROTOCOL, "missing");
}

/* The only file of objects/pack with that ending. */
static void pack_name(char out[128], const struct fx *fx, const char *ending)
{
    char line[128];

    FX_GIT(line, fx, "-c", "alias.l=!cd .git/objects/pack && ls", "l");
    line[strcspn(line, ".")] = '\0';
    (void)snprintf(out, 128, ".git/objects/pack/%.60s%.20s", line, ending);
}

static void a11_flipped_bits(void **state)
{
    struct fx *fx = *state;
    static uint8_t bytes[65536];
    static const char *const endings[] = { ".pack", ".idx" };
    char commit[41], text[128], name[128], right[RSBX_FINGERPRINT_BYTES];
    struct rsbx_source_options options;
    size_t harmless = 0, found = 0;

    fx_text(fx, "f", "content");
    fx_text(fx, "d/g", "other content, somewhat longer than the first");
    fx_commit_all(commit, fx);
    options = fx_options(fx, commit);
    options.wall_ms = 30000;
    expect_ok(&options);
    memcpy(right, result.fingerprint, sizeof right);
    FX_GIT(text, fx, "rev-parse", "HEAD:f");
    fx_loose_name(name, text);
    fx_stored(fx, name, "blob 7\0CONTENT", 14);
    expect(&options, REPOSBX_EPROTOCOL, "another hash");
    fx_stored(fx, name, "blob 7\0content", 14);
    FX_GIT(NULL, fx, "repack", "-q", "-a", "-d");
    for (size_t e = 0; e < COUNT(endings); e++) {
        size_t length;

        pack_name(name, fx, endings[e]);
        length = slurp(bytes, sizeof bytes, fx_path(fx, name));
        for (size_t i = 0; i < length; i += i < 64 ? 1 : e == 0 ? 3 : 13) {
            bytes[i] ^= (uint8_t)(1U << (i % 8));
            fx_write(fx, name, bytes, length);
            fx_read(&result, &options);
            bytes[i] ^= (uint8_t)(1U << (i % 8));
            /* A byte that nothing depends on may change; the snapshot may not. */
            if (result.rc == 0) {
                assert_string_equal(result.fingerprint, right);
                harmless++;
            } else {
                assert_true(result.rc == REPOSBX_EPROTOCOL || result.rc == REPOSBX_ENOTFOUND ||
                            result.rc == REPOSBX_EPOLICY);
                found++;
            }
        }
        fx_write(fx, name, bytes, length);
        expect_ok(&options);
    }
    assert_true(found > harmless / 4);
}

static void refuse_form(const struct fx *fx, const char *commit, const char *words)
{
    struct rsbx_source_options options = fx_options(fx, commit);

    expect(&options, REPOSBX_EPOLICY, words);
}

static void a12_config_forms(void **state)
{
    struct fx *fx = *state;
    static const struct {
        const char *text;
        const char *words;
    } forms[] = {
        { "[extensions]\n\tobjectFormat = sha256\n", "sha256" },
        { "[extensions]\n\tpartialClone = origin\n", "partial clone" },
        { "[extensions]\n\trefStorage = reftable\n", "refstorage" },
        { "[extensions]\n\tfancyNewThing = true\n", "fancynewthing" },
        { "[Extensions] fancy", "fancy" },
        { "[extensions]\n\tfan\\\ncy = 1\n", "not Git configuration" },
        { "[core]\n\trepositoryformatversion = 2\n", "version 2" },
        { "[core]\n\tworktree = /etc\n", "core.worktree" },
        { "[CORE]\n WorkTree= \"/e\\\ntc\" # x\n", "core.worktree" },
        { "[core \"x\"]\n[core]\nbare=false\nworktree\n", "core.worktree" },
        { "[remote \"origin\"]\n\tpromisor = true\n", "partial clone" },
        { "[remote \"o]\\\"#\"]\n\tpartialclonefilter = blob:none\n", "partial clone" },
        { "[core\n", "not Git configuration" },
        { "key = value\n", "not Git configuration" },
    };
    char commit[41];
    static char text[2 * 1024 * 1024];

    fx_text(fx, "f", "x");
    fx_commit_all(commit, fx);
    for (size_t i = 0; i < COUNT(forms); i++) {
        fx_text(fx, ".git/config", forms[i].text);
        refuse_form(fx, commit, forms[i].words);
        fx_text(fx, ".git/config", "[core]\n\trepositoryformatversion = 1\n");
        fx_text(fx, ".git/config.worktree", forms[i].text);
        refuse_form(fx, commit, forms[i].words);
        assert_int_equal(unlink(fx_path(fx, ".git/config.worktree")), 0);
    }
    memset(text, '#', sizeof text);
    fx_write(fx, ".git/config", text, sizeof text);
    refuse_form(fx, commit, ".git/config");
    assert_int_equal(unlink(fx_path(fx, ".git/config")), 0);
    assert_int_equal(mkfifo(fx_path(fx, ".git/config"), 0644), 0);
    refuse_form(fx, commit, ".git/config");
    fx_text(fx, ".git/config", "[core]\n\trepositoryformatversion = 1\n\tbare = false\n"
                               "[extensions]\n\tobjectformat = SHA1\n\tnoop\n"
                               "[include]\n\tpath = /dev/zero\n");
    {
        struct rsbx_source_options options = fx_options(fx, commit);

        expect_ok(&options);
    }
}

/* Moves .git/<name> away and puts a symlink to it in its place, and back again. */
static void refuse_moved(const struct fx *fx, const char *commit, const char *name,
                         const char *words)
{
    char away[128];

    (void)snprintf(away, sizeof away, "%s/away", fx->top);
    assert_int_equal(rename(fx_path(fx, name), away), 0);
    assert_int_equal(symlink(away, fx_path(fx, name)), 0);
    refuse_form(fx, commit, words);
    assert_int_equal(unlink(fx_path(fx, name)), 0);
    assert_int_equal(rename(away, fx_path(fx, name)), 0);
}

static void a12_places(void **state)
{
    struct fx *fx = *state;
    char commit[41], pack[128];
    struct rsbx_source_options options;

    fx_text(fx, "f", "x");
    fx_commit_all(commit, fx);
    refuse_moved(fx, commit, ".git", ".git is a symlink");
    refuse_moved(fx, commit, ".git/objects", "objects is a symlink");
    refuse_moved(fx, commit, ".git/refs", "refs is a symlink");
    refuse_moved(fx, commit, ".git/info", ".git/info");
    refuse_moved(fx, commit, ".git/config", ".git/config");
    refuse_moved(fx, commit, ".git/HEAD", ".git/HEAD");
    refuse_moved(fx, commit, ".git/objects/pack", "pack is a symlink");
    refuse_moved(fx, commit, ".git/objects/info", "info is a symlink");
    {
        char fan[32];

        (void)snprintf(fan, sizeof fan, ".git/objects/%.2s", commit);
        refuse_moved(fx, commit, fan, "is a symlink");
    }
    FX_GIT(NULL, fx, "repack", "-q", "-a", "-d");
    pack_name(pack, fx, ".pack");
    refuse_moved(fx, commit, pack, "is a symlink");
    pack_name(pack, fx, ".promisor");
    fx_text(fx, pack, "");
    refuse_form(fx, commit, "partial clone");
    assert_int_equal(unlink(fx_path(fx, pack)), 0);
    fx_text(fx, ".git/objects/info/alternates", "/tmp/elsewhere\n");
    refuse_form(fx, commit, "alternates");
    assert_int_equal(unlink(fx_path(fx, ".git/objects/info/alternates")), 0);
    fx_text(fx, ".git/commondir", "../x\n");
    refuse_form(fx, commit, "worktree");
    assert_int_equal(unlink(fx_path(fx, ".git/commondir")), 0);
    options = fx_options(fx, commit);
    expect_ok(&options);
}

static void a12_worktree_and_clones(void **state)
{
    struct fx *fx = *state;
    char commit[41], other[128];
    struct rsbx_source_options options;

    fx_text(fx, "f", "x");
    fx_commit_all(commit, fx);
    (void)snprintf(other, sizeof other, "%s/linked", fx->top);
    FX_GIT(NULL, fx, "worktree", "add", "-q", "--detach", other);
    options = fx_options(fx, commit);
    options.repo = other;
    expect(&options, REPOSBX_EPOLICY, "worktree");
    (void)snprintf(other, sizeof other, "%s/shared", fx->top);
    FX_GIT(NULL, fx, "clone", "-q", "--shared", ".", other);
    expect(&options, REPOSBX_EPOLICY, "alternates");
    (void)snprintf(other, sizeof other, "%s/sha256", fx->top);
    FX_GIT(NULL, fx, "init", "-q", "--object-format=sha256", other);
    expect(&options, REPOSBX_EPOLICY, "sha256");
    FX_GIT(NULL, fx, "config", "uploadpack.allowFilter", "true");
    (void)snprintf(other, sizeof other, "%s/partial", fx->top);
    FX_GIT(NULL, fx, "-c", "protocol.file.allow=always", "clone", "-q", "--filter=blob:none",
           "--no-local", ".", other);
    expect(&options, REPOSBX_EPOLICY, "partial clone");
    /* A shallow clone has all of its one commit. */
    (void)snprintf(other, sizeof other, "%s/shallow", fx->top);
    FX_GIT(NULL, fx, "clone", "-q", "--depth=1", "--no-local", ".", other);
    expect_ok(&options);
    (void)snprintf(other, sizeof other, "%s/bare", fx->top);
    FX_GIT(NULL, fx, "clone", "-q", "--bare", ".", other);
    expect(&options, REPOSBX_EPOLICY, "bare");
}

static void a13_replace_and_grafts(void **state)
{
    struct fx *fx = *state;
    char first[41], second[41], path[128];
    struct rsbx_source_options options;

    fx_text(fx, "f", "first");
    fx_commit_all(first, fx);
    fx_text(fx, "f", "second");
    fx_commit_all(second, fx);
    FX_GIT(NULL, fx, "replace", second, first);
    (void)snprintf(path, sizeof path, "%s\n", second);
    fx_text(fx, ".git/info/grafts", path);
    options = fx_options(fx, second);
    expect_ok(&options);
    assert_memory_equal(result.content, "second", 6);
    FX_GIT(NULL, fx, "pack-refs", "--all");
    expect_ok(&options);
    assert_memory_equal(result.content, "second", 6);
}

static void a14_revisions(void **state)
{
    struct fx *fx = *state;
    char commit[41], tree[128], blob[128], tag[128], upper[48];
    struct rsbx_source_options options;
    const char *forms[10];
    size_t count = 0;

    fx_text(fx, "f", "x");
    fx_commit_all(commit, fx);
    memcpy(upper, commit, 41);
    for (char *p = upper; *p != '\0'; p++)
        *p = *p >= 'a' && *p <= 'f' ? (char)(*p - 32) : *p;
    upper[0] = 'A';
    forms[count++] = upper;
    forms[count++] = commit + 1;
    forms[count++] = "HEAD";
    forms[count++] = "";
    forms[count++] = "main";
    forms[count++] = "0123456789abcdef0123456789abcdef012345678";
    forms[count++] = "0123456789abcdef0123456789abcdef0123456\n";
    forms[count++] = "0123456789abcdef0123456789abcdef01234567\n";
    forms[count++] = "--upload-pack=0123456789abcdef0123456789";
    for (size_t i = 0; i < count; i++) {
        options = fx_options(fx, forms[i]);
        expect(&options, REPOSBX_EMALFORMED, "40");
    }
    FX_GIT(tree, fx, "rev-parse", "HEAD^{tree}");
    FX_GIT(blob, fx, "rev-parse", "HEAD:f");
    FX_GIT(NULL, fx, "tag", "-a", "-m", "t", "v1");
    FX_GIT(tag, fx, "rev-parse", "v1");
    options = fx_options(fx, tree);
    expect(&options, REPOSBX_EPOLICY, "is a tree, not a commit");
    options = fx_options(fx, blob);
    expect(&options, REPOSBX_EPOLICY, "is a blob, not a commit");
    options = fx_options(fx, tag);
    expect(&options, REPOSBX_EPOLICY, "is a tag, not a commit");
    FX_GIT(NULL, fx, "repack", "-q", "-a", "-d");
    options = fx_options(fx, tag);
    expect(&options, REPOSBX_EPOLICY, "is a tag, not a commit");
    options = fx_options(fx, "1111111111111111111111111111111111111111");
    expect(&options, REPOSBX_ENOTFOUND, "no commit");
    /* A branch of that name, at another commit: the object wins. */
    (void)snprintf(tree, sizeof tree, "refs/heads/%s", commit);
    fx_text(fx, "f", "later");
    FX_GIT(NULL, fx, "add", "f");
    FX_GIT(NULL, fx, "commit", "-q", "-m", "later");
    FX_GIT(NULL, fx, "update-ref", tree, "HEAD");
    FX_GIT(NULL, fx, "checkout", "-q", "--detach", "HEAD~1");
    options = fx_options(fx, commit);
    expect_ok(&options);
    assert_memory_equal(result.content, "x", 1);
}

static void a14_heads(void **state)
{
    struct fx *fx = *state;
    char commit[41], later[41], text[64];
    static const char *const bad[] = { "", "ref: ", "ref: refs/heads/../../../etc/x", "ref: HEAD",
                                       "ref: refs/heads/none", "ref: /etc/passwd", "nonsense",
                                       "ref: refs/heads/a\nx", "ref: refs//x", "ref: refs/.x" };
    struct rsbx_source_options options;

    fx_text(fx, "f", "x");
    fx_commit_all(commit, fx);
    fx_text(fx, "f", "y");
    fx_commit_all(later, fx);
    options = fx_options(fx, commit);
    expect(&options, REPOSBX_EPOLICY, later);
    assert_non_null(strstr(result.err.hint, "git checkout"));
    options = fx_options(fx, later);
    FX_GIT(NULL, fx, "pack-refs", "--all");
    expect_ok(&options);
    FX_GIT(NULL, fx, "symbolic-ref", "refs/heads/alias", "refs/heads/main");
    FX_GIT(NULL, fx, "symbolic-ref", "HEAD", "refs/heads/alias");
    expect_ok(&options);
    fx_text(fx, ".git/refs/heads/alias", "ref: refs/heads/alias\n");
    expect(&options, REPOSBX_EPOLICY, "HEAD");
    for (size_t i = 0; i < COUNT(bad); i++) {
        fx_text(fx, ".git/HEAD", bad[i]);
        fx_read(&result, &options);
        assert_true(result.rc == REPOSBX_EPOLICY || result.rc == REPOSBX_EPROTOCOL);
    }
    (void)snprintf(text, sizeof text, "%s", later);
    fx_text(fx, ".git/HEAD", text);
    expect_ok(&options);
}

static void a15_paths(void **state)
{
    struct fx *fx = *state;
    char commit[41], path[256];
    struct rsbx_source_options options;

    fx_text(fx, "d/e/f", "x");
    fx_commit_all(commit, fx);
    options = fx_options(fx, commit);
    options.repo = "/";
    expect(&options, REPOSBX_EPOLICY, "/ is not allowed");
    options.repo = "/./";
    expect(&options, REPOSBX_EPOLICY, "/ is not allowed");
    (void)snprintf(path, sizeof path, "%s/d/..", fx->repo);
    options.repo = path;
    expect(&options, REPOSBX_EPOLICY, "..");
    (void)snprintf(path, sizeof path, "%s/d/e", fx->repo);
    expect(&options, REPOSBX_EPOLICY, "subfolder");
    assert_non_null(strstr(result.err.hint, fx->repo));
    (void)snprintf(path, sizeof path, "%s/d/e/f", fx->repo);
    expect(&options, REPOSBX_EPOLICY, "not a folder");
    (void)snprintf(path, sizeof path, "%s/none", fx->top);
    expect(&options, REPOSBX_ENOTFOUND, "none");
    options.repo = fx->top;
    expect(&options, REPOSBX_EPOLICY, "not a Git repository");
    options.repo = path;
    (void)snprintf(path, sizeof path, "%s/link", fx->top);
    assert_int_equal(symlink(fx->repo, path), 0);
    expect(&options, REPOSBX_EPOLICY, "symlink");
    (void)snprintf(path, sizeof path, "%s/up", fx->top);
    assert_int_equal(symlink(".", path), 0);
    (void)snprintf(path, sizeof path, "%s/up/repo", fx->top);
    expect(&options, REPOSBX_EPOLICY, "symlink");
    (void)snprintf(path, sizeof path, "%s//./repo/", fx->top);
    expect_ok(&options);
    assert_int_equal(chdir(fx->top), 0);
    options.repo = "repo";
    expect_ok(&options);
    options.repo = "./repo/";
    expect_ok(&options);
    assert_int_equal(chdir(fx->repo), 0);
    options.repo = ".";
    expect_ok(&options);
    assert_int_equal(chdir("/"), 0);
    expect(&options, REPOSBX_EPOLICY, "/ is not allowed");
    options.repo = "";
    expect(&options, REPOSBX_EINVALID, NULL);
}

static void a15_owner(void **state)
{
    struct fx *fx = *state;
    static const char *const places[] = { ".", ".git", ".git/objects" };
    char commit[41];
    struct rsbx_source_options options;

    if (geteuid() != 0) {
        print_message("the owner's cases need root: only the right owner is tried\n");
        return;
    }
    fx_text(fx, "f", "x");
    fx_commit_all(commit, fx);
    for (size_t i = 0; i < COUNT(places); i++) {
        options = fx_options(fx, commit);
        assert_int_equal(chown(fx_path(fx, places[i]), 12345, 12345), 0);
        expect(&options, REPOSBX_EPOLICY, "12345");
        assert_non_null(strstr(result.err.hint, "source.owner=any"));
        options.owner = RSBX_OWNER_ANY;
        expect_ok(&options);
        assert_int_equal(chown(fx_path(fx, places[i]), 0, 0), 0);
    }
}

/* HEAD moves after open: the snapshot of the pinned commit, then a refusal instead of DONE. */
static void a16_head_moves(void **state)
{
    struct fx *fx = *state;
    static uint8_t big[4 * 1024 * 1024];
    char commit[41], later[41], text[64];
    struct rsbx_source_options options;
    struct rsbx_source *source = NULL;
    struct rsbx_source_event event = { .kind = RSBX_SOURCE_NOTE };
    reposbx_error err = REPOSBX_ERROR_INIT;
    uint64_t bytes = 0;
    int rc;

    fx_text(fx, "f", "x");
    fx_commit_all(later, fx);
    fx_write(fx, "big", big, sizeof big);
    fx_commit_all(commit, fx);
    options = fx_options(fx, commit);
    assert_int_equal(rsbx_source_open(&source, &options, NULL), 0);
    (void)snprintf(text, sizeof text, "%s\n", later);
    fx_text(fx, ".git/HEAD", text);
    while ((rc = rsbx_source_next(&event, source, &err)) == 0 && event.kind != RSBX_SOURCE_DONE)
        bytes += event.kind == RSBX_SOURCE_DATA ? event.length : 0;
    assert_int_equal(bytes, sizeof big + 1);
    assert_int_equal(rc, REPOSBX_EPOLICY);
    assert_non_null(strstr(err.message, "moved"));
    assert_non_null(strstr(err.message, later));
    /* And it stays so. */
    assert_int_equal(rsbx_source_next(&event, source, &err), REPOSBX_EPOLICY);
    rsbx_source_free(source);
}

/* Only the pinned commit's blobs come out: no .git, nothing of earlier or later commits. */
static void a17_no_other_history(void **state)
{
    struct fx *fx = *state;
    char commit[41], later[41];
    struct rsbx_source_options options;

    fx_text(fx, "f", "earlier-secret");
    fx_commit_all(commit, fx);
    fx_text(fx, "f", "pinned");
    fx_commit_all(commit, fx);
    fx_text(fx, "g", "later-secret");
    fx_commit_all(later, fx);
    FX_GIT(NULL, fx, "checkout", "-q", "--detach", commit);
    fx_text(fx, "untracked", "worktree-secret");
    fx_text(fx, "f", "changed-secret");
    options = fx_options(fx, commit);
    expect_ok(&options);
    assert_string_equal(result.paths, "100644 f\n");
    assert_int_equal(result.content_length, 6);
    assert_memory_equal(result.content, "pinned", 6);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, fx_setup, fx_teardown)
    const struct CMUnitTest tests[] = {
        T(a01_escaping_names),   T(a02_dot_git),
        T(a03_dot_files_as_links), T(a04_lengths_and_depth),
        T(a04_sixty_thousand_folders), T(a05_duplicates),
        T(a06_modes),            T(a07_gitlinks),
        T(a07_symlinks),         T(a07_attributes),
        T(a08_odd_names),        T(a09_bombs),
        T(a10_cut_objects),      T(a10_headers),
        T(a11_flipped_bits),     T(a12_config_forms),
        T(a12_places),           T(a12_worktree_and_clones),
        T(a13_replace_and_grafts), T(a14_revisions),
        T(a14_heads),            T(a15_paths),
        T(a15_owner),            T(a16_head_moves),
        T(a17_no_other_history),
    };

    (void)alarm(ALARM_SECONDS);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
