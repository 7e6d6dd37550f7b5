/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Folders of the base that go by their id: for every kind of the corpus the same trees and the same patch
 * as with all entries, and nothing that could hide a change in them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/text.h"
#include "corpus.h"
#include "diff/diff.h"
#include "diff/internal.h"

#include "base/banned.h"

static const struct rsbx_diff_options plenty = { .max_bytes = 1U << 26 };

static struct rsbx_diff *new_diff(void)
{
    struct rsbx_diff *diff = NULL;

    assert_int_equal(rsbx_diff_new(&diff, NULL), 0);
    return diff;
}

static void add_change(struct rsbx_diff *diff, const struct corpus_file *before,
                       const struct corpus_file *after)
{
    const struct corpus_file *sides[] = { before, after };
    const struct corpus_file *any = before == NULL ? after : before;
    struct rsbx_diff_content contents[2] = { { NULL, 0 }, { NULL, 0 } };
    struct rsbx_diff_change change = { .path = any->path, .path_length = any->path_length };

    for (size_t i = 0; i < 2; i++) {
        if (sides[i] == NULL)
            continue;
        contents[i] = (struct rsbx_diff_content){ malloc(sides[i]->length + 1), sides[i]->length };
        assert_non_null(contents[i].bytes);
        memcpy(contents[i].bytes, sides[i]->bytes, sides[i]->length);
    }
    change.old_mode = before == NULL ? 0 : before->mode;
    change.new_mode = after == NULL ? 0 : after->mode;
    change.old_content = contents[0];
    change.new_content = contents[1];
    assert_int_equal(rsbx_diff_change(diff, &change, NULL), 0);
}

/* Only what is not the same on both sides. */
static void add_changes(struct rsbx_diff *diff, const struct corpus_case *one)
{
    for (size_t i = 0; i < one->base.count; i++) {
        const struct corpus_file *file = &one->base.files[i];
        const struct corpus_file *after = corpus_find(&one->result, file->path, file->path_length);

        if (after == NULL || after->mode != file->mode || after->length != file->length ||
            memcmp(after->bytes, file->bytes, file->length) != 0)
            add_change(diff, file, after);
    }
    for (size_t i = 0; i < one->result.count; i++) {
        const struct corpus_file *file = &one->result.files[i];

        if (corpus_find(&one->base, file->path, file->path_length) == NULL)
            add_change(diff, NULL, file);
    }
}

static void add_file(struct rsbx_diff *diff, const struct corpus_file *file, size_t skip)
{
    uint8_t oid[RSBX_OID_BYTES];

    assert_int_equal(rsbx_diff_blob_id(oid, file->bytes, file->length, NULL), 0);
    assert_int_equal(rsbx_diff_base(diff, file->path + skip, file->path_length - skip, file->mode,
                                    oid, NULL),
                     0);
}

static bool below(const struct corpus_file *file, const char *folder, size_t length)
{
    return file->path_length > length && memcmp(file->path, folder, length) == 0;
}

/* The id of a folder (its path with the slash): that of a tree of what is below it. */
static void folder_id(uint8_t oid[RSBX_OID_BYTES], const struct corpus_tree *tree,
                      const char *folder, size_t length)
{
    struct rsbx_diff *alone = new_diff();
    char hex[41];

    for (size_t i = 0; i < tree->count; i++) {
        if (below(&tree->files[i], folder, length))
            add_file(alone, &tree->files[i], length);
    }
    assert_int_equal(rsbx_diff_base_tree(hex, alone, NULL), 0);
    assert_true(rsbx_unhex(oid, RSBX_OID_BYTES, hex));
    rsbx_diff_free(alone);
}

/* Whether the folder of files[index] is told by this very file: the first one that is below it. */
static bool first_below(const struct corpus_tree *tree, size_t index, size_t length)
{
    for (size_t i = 0; i < index; i++) {
        if (below(&tree->files[i], tree->files[index].path, length))
            return false;
    }
    return true;
}

/* Each file, or the outermost folder above it in which nothing changes. Counts the folders. */
static size_t add_base(struct rsbx_diff *diff, const struct corpus_tree *tree)
{
    size_t folders = 0;

    for (size_t i = 0; i < tree->count; i++) {
        const struct corpus_file *file = &tree->files[i];
        const char *slash = memchr(file->path, '/', file->path_length);
        uint8_t oid[RSBX_OID_BYTES];
        size_t length = 0;

        while (slash != NULL) {
            length = (size_t)(slash - file->path);
            if (!rsbx_diff_changes_below(diff, file->path, length))
                break;
            slash = memchr(slash + 1, '/', file->path_length - length - 1);
        }
        if (slash == NULL) {
            add_file(diff, file, 0);
        } else if (first_below(tree, i, length + 1)) {
            folder_id(oid, tree, file->path, length + 1);
            assert_int_equal(rsbx_diff_base(diff, file->path, length, RSBX_DIFF_FOLDER, oid, NULL),
                             0);
            folders++;
        }
    }
    return folders;
}

static void add_to_tree(struct corpus_tree *tree, const char *path, const char *bytes)
{
    void *larger = realloc(tree->files, (tree->count + 1) * sizeof *tree->files);
    struct corpus_file *file;

    assert_non_null(larger);
    tree->files = larger;
    tree->capacity = tree->count + 1;
    file = &tree->files[tree->count++];
    *file = (struct corpus_file){ strdup(path), strlen(path), 0100644, strdup(bytes), strlen(bytes) };
    assert_true(file->path != NULL && file->bytes != NULL);
}

/* A folder without changes, and one with a change beside such folders. */
static void add_folders(struct corpus_case *one)
{
    static const char *const same[] = { "still/a",      "still/deep/b", "half/still/x/y",
                                        "half/still.x", "half/still0",  "half/z/z" };

    for (size_t i = 0; i < sizeof same / sizeof same[0]; i++) {
        add_to_tree(&one->base, same[i], same[i]);
        add_to_tree(&one->result, same[i], same[i]);
    }
    add_to_tree(&one->base, "half/changed", "before");
    add_to_tree(&one->result, "half/changed", "after");
}

static void every_kind_gives_the_same_patch(void **state)
{
    size_t folders = 0, cases = 0;

    (void)state;
    for (size_t kind = 0; kind < corpus_kind_count(); kind++) {
        const size_t seeds = corpus_kind_repeats(kind) < 4 ? 1 : 4;

        for (size_t seed = 0; seed < seeds; seed++) {
            struct rsbx_diff *whole = new_diff(), *sparse = new_diff();
            struct rsbx_diff_result expected, result;
            struct corpus_case one;

            corpus_make(&one, kind, seed);
            add_folders(&one);
            for (size_t i = 0; i < one.base.count; i++)
                add_file(whole, &one.base.files[i], 0);
            add_changes(whole, &one);
            add_changes(sparse, &one);
            folders += add_base(sparse, &one.base);
            assert_int_equal(rsbx_diff_run(&expected, whole, &plenty, NULL), 0);
            assert_int_equal(rsbx_diff_run(&result, sparse, &plenty, NULL), 0);
            assert_string_equal(result.base_tree, expected.base_tree);
            assert_string_equal(result.result_tree, expected.result_tree);
            assert_int_equal(result.patch_length, expected.patch_length);
            assert_memory_equal(result.patch, expected.patch, expected.patch_length + 1);
            rsbx_diff_result_dispose(&expected);
            rsbx_diff_result_dispose(&result);
            rsbx_diff_free(whole);
            rsbx_diff_free(sparse);
            corpus_dispose(&one);
            cases++;
        }
    }
    assert_int_equal(folders, 3 * cases); /* still, half/still, half/z */
}

/* A base of the folder "d" by its id and of a file beside it; one file is added. */
static int with_folder(const char *beside, const char *added, struct rsbx_diff_result *out,
                       const char *base_tree, reposbx_error *err)
{
    static const uint8_t oid[RSBX_OID_BYTES] = { 0x2a, 0x26, 0xdb, 0x49, 0xa6, 0x96, 0x27,
                                                 0x00, 0xda, 0x5b, 0xd4, 0x08, 0x4a, 0xe0,
                                                 0xe5, 0xa2, 0x2d, 0x65, 0x83, 0xee };
    const struct rsbx_diff_options options = { .max_bytes = 4096, .base_tree = base_tree };
    struct corpus_file file = { (char *)(uintptr_t)beside, strlen(beside), 0100644, NULL, 0 };
    struct corpus_file other = { (char *)(uintptr_t)added, strlen(added), 0100644, NULL, 0 };
    static char nothing[1];
    struct rsbx_diff *diff = new_diff();
    int rc;

    file.bytes = other.bytes = nothing;
    assert_int_equal(rsbx_diff_base(diff, "d", 1, RSBX_DIFF_FOLDER, oid, NULL), 0);
    add_file(diff, &file, 0);
    add_change(diff, NULL, &other);
    rc = rsbx_diff_run(out, diff, &options, err);
    rsbx_diff_free(diff);
    return rc;
}

static void refused(const char *beside, const char *added, const char *base_tree, int code,
                    const char *words)
{
    struct rsbx_diff_result result;
    reposbx_error err = REPOSBX_ERROR_INIT;

    assert_int_equal(with_folder(beside, added, &result, base_tree, &err), code);
    assert_non_null(strstr(err.message, words));
}

/* Ids by git: of a tree of the empty files d/d and e, and the same with the empty file d0. "d." and "d0"
 * stand before and behind "d/" in the order of bytes. */
static void a_folder_hides_nothing(void **state)
{
    static const char tree[] = "9246b55d2fc74b7b6b504a038f5b678356affd0b";
    struct rsbx_diff_result result;

    (void)state;
    assert_int_equal(with_folder("e", "d0", &result, tree, NULL), 0);
    assert_string_equal(result.result_tree, "1c1cb91c847aefe8648c0e0c2b6d21f20d8b5705");
    rsbx_diff_result_dispose(&result);
    assert_int_equal(with_folder("e", "d.", &result, tree, NULL), 0);
    rsbx_diff_result_dispose(&result);
    refused("e", "d/x", tree, REPOSBX_EINVALID, "below a folder");
    refused("e", "d", tree, REPOSBX_EINVALID, "both a file and a folder");
    refused("d", "f", tree, REPOSBX_EINVALID, "both a file and a folder");
    refused("d/y", "f", tree, REPOSBX_EINVALID, "below a folder");
    refused("e", "f", "4b825dc642cb6eb9a060e54bf8d69288fbee4904", REPOSBX_EPROTOCOL,
            "the base entries make the tree");
}

static void changes_are_found_below(void **state)
{
    static const char *const changed[] = { "a/b/c", "a.b/c", "a0", "d/e", "d" };
    static const struct {
        const char *folder;
        bool below;
    } cases[] = { { "a", true },    { "a/b", true },  { "a.b", true }, { "d", true }, { "a0", false },
                  { "a/", false },  { "a/c", false }, { "b", false },  { "", false }, { "a/b/c", false },
                  { "zz", false } };
    struct rsbx_diff *diff = new_diff();
    static char nothing[1];

    (void)state;
    assert_false(rsbx_diff_changes_below(diff, "a", 1));
    for (size_t i = 0; i < sizeof changed / sizeof changed[0]; i++) {
        struct corpus_file file = { (char *)(uintptr_t)changed[i], strlen(changed[i]), 0100644, nothing, 0 };

        add_change(diff, NULL, &file);
    }
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_int_equal(
            rsbx_diff_changes_below(diff, cases[i].folder, strlen(cases[i].folder)),
            cases[i].below);
    rsbx_diff_free(diff);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind_gives_the_same_patch),
        cmocka_unit_test(a_folder_hides_nothing),
        cmocka_unit_test(changes_are_found_below),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
