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
 * Hostile repositories, A1 to A9: what a tree holds. One test for each kind, every one with several
 * variants. The whole program ends by alarm when anything hangs.
 */
#define ALARM_SECONDS 880U
#define EMPTY_TREE "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
#define COUNT(a) (sizeof(a) / sizeof *(a))

static struct fx_result result;

static void expect(const struct rsbx_source_options *options, int code, const char *words)
{
    fx_expect(&result, options, code, words);
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
        "\u202e.git", ".gi\ufefft", ".git   ", ".git... ", "git~10", "git~1:x", ".gi\u00adt",
        ".g\u200bit", ".git\ufe0f", "\u2060.git", ".gi\U000e0020t",
    };

    for (size_t i = 0; i < COUNT(names); i++)
        refuse_name(*state, names[i]);
}

static void a03_dot_files_as_links(void **state)
{
    struct fx *fx = *state;
    static const char *const names[] = { ".gitmodules", ".gitattributes", ".GITMODULES",
                                         ".gitattributes ", "gitmod~1", "gitatt~1", "GITMOD~2",
                                         ".gitmodules::$DATA", ".gitattri\u200cbutes",
                                         "gi7eba~1", "GI7D29~9", "gi7e~123", "gitmo~10",
                                         ".gitmodules. .:x", "\u00ad.gitmodules" };
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
    static const char *const excludes[] = { "l" };
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
        options.symlinks = RSBX_SYMLINKS_KEEP;
        /* The fingerprint has no form for these, unless it leaves them out. */
        if (targets[i][0] == '/' || targets[i][0] == '.') {
            expect(&options, REPOSBX_EPOLICY, "outside");
            options.excludes = excludes;
            options.exclude_count = 1;
        }
        /* Kept as it is, whatever it names. */
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

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, fx_setup, fx_teardown)
    const struct CMUnitTest tests[] = {
        T(a01_escaping_names),
        T(a02_dot_git),
        T(a03_dot_files_as_links),
        T(a04_lengths_and_depth),
        T(a04_sixty_thousand_folders),
        T(a05_duplicates),
        T(a06_modes),
        T(a07_gitlinks),
        T(a07_symlinks),
        T(a07_attributes),
        T(a08_odd_names),
        T(a09_bombs),
    };

    (void)alarm(ALARM_SECONDS);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
