/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/text.h"
#include "corpus.h"
#include "diff/diff.h"
#include "gitrun.h"

#include "base/banned.h"

/*
 * Hundreds of pairs of trees, or as many as REPOSBX_CORPUS_CASES says, made from seeds. For each: the
 * trees' ids are git's; git applies our patch to the base, in an index alone and in a checkout, and
 * gets the result tree; and the patch is byte for byte what `git diff` prints, but for the kinds in
 * the table below.
 */

/* Kinds of which some patches may differ from git's bytes. In every one the difference must lie in
 * the body of "GIT binary patch" blocks. Reason: libgit2 gives a delta only when it is smaller than
 * the content at zlib's level 6; git compares at level 1 and so prints a delta more often where the
 * content itself packs well. Both forms carry the same bytes. */
static const char *const binary_kinds[] = { "encodings" };

/* How many cases are wanted at least, over all kinds: REPOSBX_CORPUS_CASES in the environment. */
#define DEFAULT_CASES 300U
#define MOST_CASES 100000U

static size_t wanted_cases(void)
{
    const char *text = getenv("REPOSBX_CORPUS_CASES");
    unsigned long wanted = text == NULL ? DEFAULT_CASES : strtoul(text, NULL, 10);

    assert_true(wanted >= 1 && wanted <= MOST_CASES);
    return (size_t)wanted;
}

/* Kinds grow alike with what is wanted; the one with megabytes of text in each case stays small. */
#define SLOW_REPEATS 4U
#define MOST_SLOW 20U

static size_t repeats(size_t kind)
{
    size_t wanted = wanted_cases(), all = 0, own = corpus_kind_repeats(kind), scaled;

    for (size_t i = 0; i < corpus_kind_count(); i++)
        all += corpus_kind_repeats(i) > SLOW_REPEATS ? corpus_kind_repeats(i) : 0;
    scaled = (own * wanted + all - 1) / all;
    if (own <= SLOW_REPEATS && scaled > MOST_SLOW)
        scaled = MOST_SLOW;
    return scaled > own ? scaled : own;
}

static char folder[] = "/tmp/rsbx-corpus-XXXXXX";
static char git_dir[64], index_path[64], patch_path[64], work_tree[64], home[64];

static void quoted(struct rsbx_buf *out, const char *path, size_t length)
{
    assert_int_equal(rsbx_buf_text(out, "\"", NULL), 0);
    for (size_t i = 0; i < length; i++)
        assert_int_equal(rsbx_buf_format(out, NULL, "\\%03o", (unsigned char)path[i]), 0);
    assert_int_equal(rsbx_buf_text(out, "\"", NULL), 0);
}

static void export_tree(struct rsbx_buf *out, const struct corpus_tree *tree, const char *branch,
                        size_t kind, size_t seed)
{
    assert_int_equal(rsbx_buf_format(out, NULL,
                                     "commit refs/heads/%s-%zu-%zu\n"
                                     "committer t <t@example.org> 1 +0000\ndata 0\n",
                                     branch, kind, seed),
                     0);
    for (size_t i = 0; i < tree->count; i++) {
        const struct corpus_file *file = &tree->files[i];

        assert_int_equal(rsbx_buf_format(out, NULL, "M %06o inline ", file->mode), 0);
        quoted(out, file->path, file->path_length);
        assert_int_equal(rsbx_buf_format(out, NULL, "\ndata %zu\n", file->length), 0);
        assert_int_equal(rsbx_buf_append(out, file->bytes, file->length, NULL), 0);
        assert_int_equal(rsbx_buf_text(out, "\n", NULL), 0);
    }
}

/* All trees in one repository, by one import. */
static int make_repository(void **state)
{
    RSBX_AUTO(rsbx_buf) struct rsbx_buf stream = RSBX_BUF_INIT(1U << 30);
    struct gitrun how = { .git_dir = git_dir, .input = patch_path };
    static const char *const init[] = { "git", "init", "-q", "--bare", NULL };
    static const char *const import[] = { "git", "fast-import", "--quiet", NULL };
    static const char config[] =
        "[core]\n\tautocrlf = true\n\tquotepath = false\n\tattributesFile = ~/attributes\n"
        "[diff]\n\tnoprefix = true\n\talgorithm = patience\n\trenames = copies\n\tcontext = 1\n";
    char path[128];

    (void)state;
    if (mkdtemp(folder) == NULL)
        return -1;
    (void)snprintf(git_dir, sizeof git_dir, "%s/git", folder);
    (void)snprintf(index_path, sizeof index_path, "%s/index", folder);
    (void)snprintf(patch_path, sizeof patch_path, "%s/patch", folder);
    (void)snprintf(work_tree, sizeof work_tree, "%s/tree", folder);
    (void)snprintf(home, sizeof home, "%s/home", folder);
    if (gitrun(NULL, &(struct gitrun){ .git_dir = git_dir }, false, init) != 0)
        return -1;
    for (size_t kind = 0; kind < corpus_kind_count(); kind++) {
        for (size_t seed = 0; seed < repeats(kind); seed++) {
            struct corpus_case one;

            corpus_make(&one, kind, seed);
            export_tree(&stream, &one.base, "base", kind, seed);
            export_tree(&stream, &one.result, "result", kind, seed);
            corpus_dispose(&one);
        }
    }
    if (!gitrun_write_file(patch_path, stream.data, stream.length) ||
        gitrun(NULL, &how, false, import) != 0 || mkdir(home, 0700) != 0)
        return -1;
    (void)snprintf(path, sizeof path, "%s/.gitconfig", home);
    if (!gitrun_write_file(path, config, sizeof config - 1))
        return -1;
    (void)snprintf(path, sizeof path, "%s/attributes", home);
    return gitrun_write_file(path, "* -diff\n", 8) ? 0 : -1;
}

static int remove_repository(void **state)
{
    reposbx_error err = REPOSBX_ERROR_INIT;

    (void)state;
    return rsbx_remove_tree_at(AT_FDCWD, folder, &err);
}

static char *copy(const struct corpus_file *file)
{
    char *bytes = file == NULL ? NULL : malloc(file->length + 1);

    if (file != NULL) {
        assert_non_null(bytes);
        memcpy(bytes, file->bytes, file->length);
    }
    return bytes;
}

static void add_change(struct rsbx_diff *diff, const struct corpus_file *before,
                       const struct corpus_file *after)
{
    const struct corpus_file *any = before == NULL ? after : before;
    reposbx_error err = REPOSBX_ERROR_INIT;
    struct rsbx_diff_change change = {
        .path = any->path,
        .path_length = any->path_length,
        .old_mode = before == NULL ? 0 : before->mode,
        .new_mode = after == NULL ? 0 : after->mode,
        .old_content = { copy(before), before == NULL ? 0 : before->length },
        .new_content = { copy(after), after == NULL ? 0 : after->length },
    };

    assert_int_equal(rsbx_diff_change(diff, &change, &err), 0);
}

/* The ids of the base entries as git lists them. */
static void add_base(struct rsbx_diff *diff, const char *branch)
{
    RSBX_AUTO(rsbx_buf) struct rsbx_buf list = RSBX_BUF_INIT(1U << 24);
    struct gitrun how = { .git_dir = git_dir };
    const char *const argv[] = { "git", "ls-tree", "-r", "-z", branch, NULL };
    reposbx_error err = REPOSBX_ERROR_INIT;

    assert_int_equal(gitrun(&list, &how, false, argv), 0);
    for (size_t at = 0; at < list.length;) {
        const char *row = list.data + at; /* "100644 blob 40hex\tpath\0" */
        const char *tab = strchr(row, '\t');
        char hex[41];
        uint8_t oid[20];

        assert_non_null(tab);
        memcpy(hex, tab - 40, 40);
        hex[40] = '\0';
        assert_true(rsbx_unhex(oid, 20, hex));
        assert_int_equal(rsbx_diff_base(diff, tab + 1, strlen(tab + 1),
                                        (uint32_t)strtoul(row, NULL, 8), oid, &err),
                         0);
        at += strlen(row) + 1;
    }
}

static void run_diff(struct rsbx_diff_result *out, const struct corpus_case *one,
                     const char *branch)
{
    struct rsbx_diff *diff = NULL;
    struct rsbx_diff_options options = { .max_bytes = 1U << 26 };
    reposbx_error err = REPOSBX_ERROR_INIT;
    int rc;

    assert_int_equal(rsbx_diff_new(&diff, &err), 0);
    add_base(diff, branch);
    for (size_t i = 0; i < one->base.count; i++) {
        const struct corpus_file *file = &one->base.files[i];

        add_change(diff, file, corpus_find(&one->result, file->path, file->path_length));
    }
    for (size_t i = 0; i < one->result.count; i++) {
        const struct corpus_file *file = &one->result.files[i];

        if (corpus_find(&one->base, file->path, file->path_length) == NULL)
            add_change(diff, NULL, file);
    }
    rc = rsbx_diff_run(out, diff, &options, &err);
    if (rc != 0)
        print_error("%s: %s\n", branch, err.message);
    assert_int_equal(rc, 0);
    rsbx_diff_free(diff);
}

static void assert_tree(const struct gitrun *how, const char *const *argv, const char *expected)
{
    RSBX_AUTO(rsbx_buf) struct rsbx_buf out = RSBX_BUF_INIT(4096);

    assert_int_equal(gitrun(&out, how, false, argv), 0);
    assert_int_equal(out.length, 41);
    out.data[40] = '\0';
    assert_string_equal(out.data, expected);
}

static const char *const write_tree[] = { "git", "write-tree", NULL };

/* In an index alone; with `hostile`, under a global configuration that changes what it can. */
static void apply_cached(const char *branch, const char *expected, bool hostile)
{
    struct gitrun how = { .git_dir = git_dir, .index = index_path,
                          .home = hostile ? home : NULL };
    const char *const read[] = { "git", "read-tree", branch, NULL };
    const char *const apply[] = { "git", "apply", "--cached", "--whitespace=nowarn", patch_path,
                                  NULL };

    assert_int_equal(gitrun(NULL, &how, false, read), 0);
    assert_int_equal(gitrun(NULL, &how, false, apply), 0);
    assert_tree(&how, write_tree, expected);
    assert_int_equal(unlink(index_path), 0);
}

/* In a fresh checkout, where .gitattributes of the tree take part. False: git refused. */
static bool apply_checkout(const char *branch, const char *expected)
{
    struct gitrun how = { .git_dir = git_dir, .index = index_path, .work_tree = work_tree };
    const char *const read[] = { "git", "read-tree", branch, NULL };
    const char *const out[] = { "git", "checkout-index", "-q", "-a", "-u", NULL };
    const char *const apply[] = { "git", "apply", "--index", "--whitespace=nowarn", patch_path,
                                  NULL };
    reposbx_error err = REPOSBX_ERROR_INIT;
    bool good;

    assert_int_equal(mkdir(work_tree, 0700), 0);
    assert_int_equal(gitrun(NULL, &how, false, read), 0);
    assert_int_equal(gitrun(NULL, &how, false, out), 0);
    good = gitrun(NULL, &how, true, apply) == 0;
    if (good)
        assert_tree(&how, write_tree, expected);
    assert_int_equal(rsbx_remove_tree_at(AT_FDCWD, work_tree, &err), 0);
    assert_int_equal(unlink(index_path), 0);
    return good;
}

struct tally {
    size_t cases, equal, binary, refused;
};

/* The patch without the bodies of its binary blocks. */
static void without_binary(struct rsbx_buf *out, const char *patch, size_t length)
{
    size_t at = 0;
    bool skip = false;

    while (at < length) {
        const char *line = patch + at;
        const char *newline = memchr(line, '\n', length - at);
        size_t size = newline == NULL ? length - at : (size_t)(newline - line) + 1;

        if (size > 11 && memcmp(line, "diff --git ", 11) == 0)
            skip = false;
        if (!skip)
            assert_int_equal(rsbx_buf_append(out, line, size, NULL), 0);
        if (size == 17 && memcmp(line, "GIT binary patch\n", 17) == 0)
            skip = true;
        at += size;
    }
}

static void keep_difference(const char *branch, const struct rsbx_buf *theirs,
                            const struct rsbx_diff_result *ours)
{
    const char *place = getenv("RSBX_KEEP_DIFFERENCE");
    char path[256];

    if (place == NULL)
        return;
    (void)snprintf(path, sizeof path, "%s/%s.git", place, branch);
    (void)gitrun_write_file(path, theirs->data, theirs->length);
    (void)snprintf(path, sizeof path, "%s/%s.our", place, branch);
    (void)gitrun_write_file(path, ours->patch, ours->patch_length);
}

static void assert_excused(const char *kind, const char *branch, const struct rsbx_buf *theirs,
                           const struct rsbx_diff_result *ours)
{
    RSBX_AUTO(rsbx_buf) struct rsbx_buf a = RSBX_BUF_INIT(1U << 26);
    RSBX_AUTO(rsbx_buf) struct rsbx_buf b = RSBX_BUF_INIT(1U << 26);

    keep_difference(branch, theirs, ours);
    without_binary(&a, theirs->data, theirs->length);
    without_binary(&b, ours->patch, ours->patch_length);
    for (size_t i = 0; i < sizeof binary_kinds / sizeof binary_kinds[0]; i++) {
        if (strcmp(binary_kinds[i], kind) == 0 && a.length == b.length &&
            memcmp(a.data, b.data, a.length) == 0)
            return;
    }
    print_error("%s (%s) is not what git prints, and no reason is known\n", branch, kind);
    fail();
}

static void check_case(struct tally *tally, size_t kind, size_t seed)
{
    RSBX_AUTO(rsbx_buf) struct rsbx_buf theirs = RSBX_BUF_INIT(1U << 26);
    struct gitrun how = { .git_dir = git_dir };
    struct corpus_case one;
    struct rsbx_diff_result ours;
    char base[64], result[64], base_tree[80], result_tree[80];
    const char *const show_base[] = { "git", "rev-parse", base_tree, NULL };
    const char *const show_result[] = { "git", "rev-parse", result_tree, NULL };
    const char *const diff[] = { "git", "diff", "--no-ext-diff", "--no-textconv", "--no-color",
                                 "--no-renames", "--full-index", "--binary", base, result, NULL };

    (void)snprintf(base, sizeof base, "base-%zu-%zu", kind, seed);
    (void)snprintf(result, sizeof result, "result-%zu-%zu", kind, seed);
    (void)snprintf(base_tree, sizeof base_tree, "%s^{tree}", base);
    (void)snprintf(result_tree, sizeof result_tree, "%s^{tree}", result);
    corpus_make(&one, kind, seed);
    run_diff(&ours, &one, base);
    assert_tree(&how, show_base, ours.base_tree);
    assert_tree(&how, show_result, ours.result_tree);
    assert_int_equal(gitrun(&theirs, &how, false, diff), 0);
    tally->cases++;
    if (theirs.length == ours.patch_length &&
        memcmp(theirs.data == NULL ? "" : theirs.data, ours.patch, theirs.length) == 0)
        tally->equal++;
    else
        assert_excused(corpus_kind_name(kind), base, &theirs, &ours);
    tally->binary = tally->cases - tally->equal;
    if (ours.patch_length > 0) {
        assert_true(gitrun_write_file(patch_path, ours.patch, ours.patch_length));
        apply_cached(base, ours.result_tree, false);
        if (seed % 4 == 0)
            apply_cached(base, ours.result_tree, true);
        if (!apply_checkout(base, ours.result_tree)) {
            /* Attributes can make a checkout that git itself finds changed: only where git's own
             * patch is the same bytes, and only in this kind. */
            tally->refused++;
            assert_string_equal(corpus_kind_name(kind), "attributes");
            assert_int_equal(theirs.length, ours.patch_length);
        }
    }
    rsbx_diff_result_dispose(&ours);
    corpus_dispose(&one);
}

static void report(const char *name, const struct tally *tally)
{
    print_message("%-16s %5zu cases, %5zu equal to git diff, %4zu differ in a binary block, "
                  "%zu checkouts that git refuses\n",
                  name, tally->cases, tally->equal, tally->binary, tally->refused);
}

static void every_patch_applies_and_is_gits(void **state)
{
    struct tally all = { 0, 0, 0, 0 };

    (void)state;
    for (size_t kind = 0; kind < corpus_kind_count(); kind++) {
        struct tally tally = { 0, 0, 0, 0 };

        for (size_t seed = 0; seed < repeats(kind); seed++)
            check_case(&tally, kind, seed);
        report(corpus_kind_name(kind), &tally);
        all.cases += tally.cases;
        all.equal += tally.equal;
        all.binary += tally.binary;
        all.refused += tally.refused;
    }
    report("together", &all);
    assert_true(all.cases >= wanted_cases());
}

/* The environment of the caller has no part in the bytes. */
static void configuration_changes_nothing(void **state)
{
    (void)state;
    for (size_t kind = 0; kind < corpus_kind_count(); kind++) {
        struct corpus_case one;
        struct rsbx_diff_result plain, hostile;
        char base[64];

        (void)snprintf(base, sizeof base, "base-%zu-0", kind);
        corpus_make(&one, kind, 0);
        run_diff(&plain, &one, base);
        assert_int_equal(setenv("HOME", home, 1), 0);
        assert_int_equal(setenv("XDG_CONFIG_HOME", home, 1), 0);
        assert_int_equal(setenv("GIT_DIR", "/nonexistent", 1), 0);
        assert_int_equal(setenv("LC_ALL", "tr_TR.UTF-8", 1), 0);
        run_diff(&hostile, &one, base);
        assert_int_equal(plain.patch_length, hostile.patch_length);
        assert_memory_equal(plain.patch, hostile.patch, plain.patch_length + 1);
        rsbx_diff_result_dispose(&plain);
        rsbx_diff_result_dispose(&hostile);
        corpus_dispose(&one);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_patch_applies_and_is_gits),
        cmocka_unit_test(configuration_changes_nothing),
    };
    static const char *const version[] = { "git", "version", NULL };

    if (gitrun(NULL, &(struct gitrun){ .home = NULL }, true, version) != 0) {
        (void)fprintf(stderr, "git is not there: nothing to compare with\n");
        return getenv("REPOSBX_TEST_MUST_RUN") != NULL ? 1 : 77;
    }
    return cmocka_run_group_tests(tests, make_repository, remove_repository);
}
