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
#include <git2.h>

#include "applied.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "corpus.h"
#include "diff/diff.h"
#include "diff/internal.h"
#include "gitindex.h"
#include "gitrun.h"

#include "base/banned.h"

/*
 * Many pairs of trees made from seeds, as many as REPOSBX_CORPUS_CASES says. For each: the trees' ids are
 * git's; git applies our patch to the base in an index and gets the result tree; and the patch is byte for
 * byte what git prints, but for the kinds in the table below. Of every kind a share is tried in a checkout
 * and under a hostile configuration as well.
 *
 * Starting git is what takes the time here. So cases go through in batches: one import for all trees of a
 * batch, one process for their ids, one for git's own patches of them; what is left for each case is
 * apply. Each batch has a repository of its own, which bounds memory and disk.
 */
#define BATCH 100U
/* The kind with megabytes in each case. */
#define SLOW_BATCH 5U

/* Kinds of which some patches may differ from git's bytes. In every one the difference must lie in
 * the body of "GIT binary patch" blocks. Reason: libgit2 gives a delta only when it is smaller than
 * the content at zlib's level 6; git compares at level 1 and so prints a delta more often where the
 * content itself packs well. Both forms carry the same bytes. */
static const char *const binary_kinds[] = { "encodings", "binary" };

/* How many cases are wanted at least, over all kinds: REPOSBX_CORPUS_CASES in the environment. */
#define DEFAULT_CASES 1500U
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
static char git_dir[64], input_path[64], index_path[64], patch_path[64], work_tree[64], home[64];

static void quoted(struct rsbx_buf *out, const char *path, size_t length)
{
    assert_int_equal(rsbx_buf_text(out, "\"", NULL), 0);
    for (size_t i = 0; i < length; i++)
        assert_int_equal(rsbx_buf_format(out, NULL, "\\%03o", (unsigned char)path[i]), 0);
    assert_int_equal(rsbx_buf_text(out, "\"", NULL), 0);
}

static void export_tree(struct rsbx_buf *out, const struct corpus_tree *tree, const char *branch,
                        size_t seed)
{
    assert_int_equal(rsbx_buf_format(out, NULL,
                                     "commit refs/heads/%s-%zu\n"
                                     "committer t <t@example.org> 1 +0000\ndata 0\n",
                                     branch, seed),
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

/* ---- batches ---- */

struct batch {
    size_t kind, first, count;
    char (*trees)[2][41];   /* of each case: base and result, as git has them */
    struct rsbx_buf theirs; /* git's patches, one behind the other */
    size_t *ends;           /* of each patch */
    size_t *starts;
    git_repository *repository;
};

/* The trees of a batch, each as a commit of its own, in a new repository. */
static void import_batch(const struct batch *batch)
{
    RSBX_AUTO(rsbx_buf) struct rsbx_buf stream = RSBX_BUF_INIT(1U << 28);
    RSBX_AUTO(rsbx_fd) int fd = open(input_path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    struct gitrun how = { .git_dir = git_dir };
    static const char *const init[] = { "git", "init", "-q", "--bare", "--template=", NULL };
    static const char *const import[] = { "git", "-c", "fastimport.unpackLimit=1", "fast-import",
                                          "--quiet", NULL };
    reposbx_error err = REPOSBX_ERROR_INIT;

    assert_true(fd >= 0);
    for (size_t i = 0; i < batch->count; i++) {
        struct corpus_case one;

        corpus_make(&one, batch->kind, batch->first + i);
        rsbx_buf_clear(&stream);
        export_tree(&stream, &one.base, "base", batch->first + i);
        export_tree(&stream, &one.result, "result", batch->first + i);
        assert_int_equal(rsbx_write_all(fd, stream.data, stream.length), 0);
        corpus_dispose(&one);
    }
    if (access(git_dir, F_OK) == 0)
        assert_int_equal(rsbx_remove_tree_at(AT_FDCWD, git_dir, &err), 0);
    assert_int_equal(gitrun(NULL, &how, false, init), 0);
    how.input = input_path;
    assert_int_equal(gitrun(NULL, &how, false, import), 0);
}

/* git's ids of all trees. */
static void name_trees(const struct batch *batch)
{
    RSBX_AUTO(rsbx_buf) struct rsbx_buf names = RSBX_BUF_INIT(1U << 20);
    RSBX_AUTO(rsbx_buf) struct rsbx_buf ids = RSBX_BUF_INIT(1U << 20);
    struct gitrun how = { .git_dir = git_dir, .input = input_path };
    static const char *const check[] = { "git", "cat-file", "--batch-check=%(objectname)", NULL };

    for (size_t i = 0; i < batch->count; i++)
        assert_int_equal(rsbx_buf_format(&names, NULL, "base-%zu^{tree}\nresult-%zu^{tree}\n",
                                         batch->first + i, batch->first + i),
                         0);
    assert_true(gitrun_write_file(input_path, names.data, names.length));
    assert_int_equal(gitrun(&ids, &how, false, check), 0);
    assert_int_equal(ids.length, batch->count * 2 * 41);
    for (size_t i = 0; i < batch->count * 2; i++) {
        memcpy(batch->trees[i / 2][i % 2], ids.data + i * 41, 40);
        batch->trees[i / 2][i % 2][40] = '\0';
    }
}

/* Where the patch of the case begins and ends in what git printed: it repeats the two ids before each
 * patch, and every line that holds none. */
static void git_patches(struct batch *batch)
{
    RSBX_AUTO(rsbx_buf) struct rsbx_buf pairs = RSBX_BUF_INIT(1U << 20);
    struct gitrun how = { .git_dir = git_dir, .input = input_path };
    static const char *const diff[] = { "git", "diff-tree", "--stdin", "-r", "-p", "--no-ext-diff",
                                        "--no-textconv", "--no-color", "--no-renames",
                                        "--full-index", "--binary", NULL };
    size_t at = 0;

    for (size_t i = 0; i < batch->count; i++)
        assert_int_equal(rsbx_buf_format(&pairs, NULL, "%s %s\nend of case %zu\n",
                                         batch->trees[i][0], batch->trees[i][1], i),
                         0);
    assert_true(gitrun_write_file(input_path, pairs.data, pairs.length));
    rsbx_buf_clear(&batch->theirs);
    assert_int_equal(gitrun(&batch->theirs, &how, false, diff), 0);
    for (size_t i = 0; i < batch->count; i++) {
        char mark[64];
        int length = snprintf(mark, sizeof mark, "end of case %zu\n", i);
        const char *end;

        batch->starts[i] = at + 82; /* both ids, a space, a newline */
        assert_true(batch->theirs.length >= batch->starts[i]);
        assert_memory_equal(batch->theirs.data + at, batch->trees[i][0], 40);
        assert_memory_equal(batch->theirs.data + at + 41, batch->trees[i][1], 40);
        end = memmem(batch->theirs.data + batch->starts[i],
                     batch->theirs.length - batch->starts[i], mark, (size_t)length);
        assert_non_null(end);
        batch->ends[i] = (size_t)(end - batch->theirs.data);
        at = batch->ends[i] + (size_t)length;
    }
    assert_int_equal(at, batch->theirs.length);
}

static void batch_begin(struct batch *batch, size_t kind, size_t first, size_t count)
{
    *batch = (struct batch){ .kind = kind, .first = first, .count = count,
                             .theirs = RSBX_BUF_INIT(1U << 30) };
    batch->trees = calloc(count, sizeof *batch->trees);
    batch->starts = calloc(count, sizeof *batch->starts);
    batch->ends = calloc(count, sizeof *batch->ends);
    assert_true(batch->trees != NULL && batch->starts != NULL && batch->ends != NULL);
    import_batch(batch);
    name_trees(batch);
    git_patches(batch);
    assert_int_equal(git_repository_open_bare(&batch->repository, git_dir), 0);
}

static void batch_end(struct batch *batch)
{
    free(batch->trees);
    free(batch->starts);
    free(batch->ends);
    git_repository_free(batch->repository);
    rsbx_buf_dispose(&batch->theirs);
}

static int make_folder(void **state)
{
    static const char config[] =
        "[core]\n\tautocrlf = true\n\tquotepath = false\n\tattributesFile = ~/attributes\n"
        "[diff]\n\tnoprefix = true\n\talgorithm = patience\n\trenames = copies\n\tcontext = 1\n";
    char path[128];

    (void)state;
    if (git_libgit2_init() < 0 || mkdtemp(folder) == NULL)
        return -1;
    (void)snprintf(git_dir, sizeof git_dir, "%s/git", folder);
    (void)snprintf(input_path, sizeof input_path, "%s/input", folder);
    (void)snprintf(index_path, sizeof index_path, "%s/index", folder);
    (void)snprintf(patch_path, sizeof patch_path, "%s/patch", folder);
    (void)snprintf(work_tree, sizeof work_tree, "%s/tree", folder);
    (void)snprintf(home, sizeof home, "%s/home", folder);
    (void)snprintf(path, sizeof path, "%s/.gitconfig", home);
    if (mkdir(home, 0700) != 0 || !gitrun_write_file(path, config, sizeof config - 1))
        return -1;
    (void)snprintf(path, sizeof path, "%s/attributes", home);
    return gitrun_write_file(path, "* -diff\n", 8) ? 0 : -1;
}

static int remove_folder(void **state)
{
    reposbx_error err = REPOSBX_ERROR_INIT;

    (void)state;
    (void)git_libgit2_shutdown();
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

static void add_base(struct rsbx_diff *diff, const struct corpus_tree *tree)
{
    reposbx_error err = REPOSBX_ERROR_INIT;

    for (size_t i = 0; i < tree->count; i++) {
        const struct corpus_file *file = &tree->files[i];
        uint8_t oid[RSBX_OID_BYTES];

        assert_int_equal(rsbx_diff_blob_id(oid, file->bytes, file->length, &err), 0);
        assert_int_equal(rsbx_diff_base(diff, file->path, file->path_length, file->mode, oid, &err),
                         0);
    }
}

static void run_diff(struct rsbx_diff_result *out, const struct corpus_case *one,
                     const char *what)
{
    struct rsbx_diff *diff = NULL;
    struct rsbx_diff_options options = { .max_bytes = 1U << 26 };
    reposbx_error err = REPOSBX_ERROR_INIT;
    int rc;

    assert_int_equal(rsbx_diff_new(&diff, &err), 0);
    add_base(diff, &one->base);
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
        print_error("%s: %s\n", what, err.message);
    assert_int_equal(rc, 0);
    rsbx_diff_free(diff);
}

/* In an index alone; with `hostile`, under a global configuration that changes what it can. */
static void apply_cached(const struct batch *batch, const char *base, const char *expected, bool hostile)
{
    struct gitrun how = { .git_dir = git_dir, .index = index_path,
                          .home = hostile ? home : NULL };
    const char *const apply[] = { "git", "apply", "--cached", "--whitespace=nowarn", patch_path,
                                  NULL };

    gitindex_write(index_path, batch->repository, base);
    assert_int_equal(gitrun(NULL, &how, false, apply), 0);
    gitindex_assert(index_path, batch->repository, expected);
    assert_int_equal(unlink(index_path), 0);
}

/* In a fresh checkout, where .gitattributes of the tree take part. False: git refused. */
static bool apply_checkout(const struct batch *batch, const char *base, const char *expected)
{
    struct gitrun how = { .git_dir = git_dir, .index = index_path, .work_tree = work_tree };
    const char *const out[] = { "git", "checkout-index", "-q", "-a", "-u", NULL };
    const char *const apply[] = { "git", "apply", "--index", "--whitespace=nowarn", patch_path,
                                  NULL };
    reposbx_error err = REPOSBX_ERROR_INIT;
    bool good;

    assert_int_equal(mkdir(work_tree, 0700), 0);
    gitindex_write(index_path, batch->repository, base);
    assert_int_equal(gitrun(NULL, &how, false, out), 0);
    good = gitrun(NULL, &how, true, apply) == 0;
    if (good)
        gitindex_assert(index_path, batch->repository, expected);
    assert_int_equal(unlink(index_path), 0);
    assert_int_equal(rsbx_remove_tree_at(AT_FDCWD, work_tree, &err), 0);
    return good;
}

struct tally {
    size_t cases, equal, applied, checkouts, refused, second, second_refused;
};

/* A second implementation applies the patch to the base tree: libgit2, in memory. It refuses sections
 * that are valid (empty files, modes alone, names with a space that are quoted nowhere); what it
 * accepts must give the tree. libgit2 1.5.1 reads beyond a line that holds a NUL, so it gets no such
 * patch; and no sanitizer is needed for what is not ours. */
static void apply_libgit2(struct tally *tally, const struct batch *batch, const char *base,
                          const struct rsbx_diff_result *ours)
{
    git_diff *diff = NULL;
    git_tree *tree = NULL;
    git_index *index = NULL;
    git_oid oid;
    char hex[41];

#ifdef __SANITIZE_ADDRESS__
    if (ours->patch_length > 0)
        return;
#endif
    if (memchr(ours->patch, 0, ours->patch_length) != NULL) {
        tally->second_refused++;
        return;
    }
    assert_int_equal(git_oid_fromstr(&oid, base), 0);
    assert_int_equal(git_tree_lookup(&tree, batch->repository, &oid), 0);
    if (git_diff_from_buffer(&diff, ours->patch, ours->patch_length) == 0 &&
        git_apply_to_tree(&index, batch->repository, tree, diff, NULL) == 0 &&
        git_index_write_tree_to(&oid, index, batch->repository) == 0) {
        git_oid_tostr(hex, sizeof hex, &oid);
        assert_string_equal(hex, ours->result_tree);
        tally->second++;
    } else {
        tally->second_refused++;
    }
    git_index_free(index);
    git_diff_free(diff);
    git_tree_free(tree);
}

static void assert_delta(const git_diff_delta *theirs, const struct rsbx_diff_file *ours)
{
    const struct {
        const git_diff_file *file;
        uint32_t mode;
        const char *oid;
    } sides[] = { { &theirs->old_file, ours->old_mode, ours->old_oid },
                  { &theirs->new_file, ours->new_mode, ours->new_oid } };

    assert_string_equal(theirs->new_file.path, ours->path);
    for (size_t i = 0; i < 2; i++) {
        char hex[41];

        git_oid_tostr(hex, sizeof hex, &sides[i].file->id);
        assert_int_equal(sides[i].file->mode, sides[i].mode);
        assert_string_equal(hex, sides[i].oid);
    }
}

/* Whatever it thinks of the text: between the two trees libgit2 itself finds the same files, with the
 * same modes and contents. */
static void compare_libgit2(const struct batch *batch, const char *base, const char *result,
                            const struct rsbx_diff_result *ours)
{
    git_diff_options options;
    git_tree *trees[2] = { NULL, NULL };
    const char *const names[] = { base, result };
    git_diff *diff = NULL;

    assert_int_equal(git_diff_options_init(&options, GIT_DIFF_OPTIONS_VERSION), 0);
    options.flags = GIT_DIFF_INCLUDE_TYPECHANGE;
    for (size_t i = 0; i < 2; i++) {
        git_oid oid;

        assert_int_equal(git_oid_fromstr(&oid, names[i]), 0);
        assert_int_equal(git_tree_lookup(&trees[i], batch->repository, &oid), 0);
    }
    assert_int_equal(
        git_diff_tree_to_tree(&diff, batch->repository, trees[0], trees[1], &options), 0);
    assert_int_equal(git_diff_num_deltas(diff), ours->file_count);
    for (size_t i = 0; i < ours->file_count; i++)
        assert_delta(git_diff_get_delta(diff, i), &ours->files[i]);
    git_diff_free(diff);
    git_tree_free(trees[0]);
    git_tree_free(trees[1]);
}

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

struct text {
    const char *bytes;
    size_t length;
};

static void keep_difference(const char *kind, size_t seed, struct text theirs,
                            const struct rsbx_diff_result *ours)
{
    const char *place = getenv("RSBX_KEEP_DIFFERENCE");
    char path[256];

    if (place == NULL)
        return;
    (void)snprintf(path, sizeof path, "%s/%s-%zu.git", place, kind, seed);
    (void)gitrun_write_file(path, theirs.bytes, theirs.length);
    (void)snprintf(path, sizeof path, "%s/%s-%zu.our", place, kind, seed);
    (void)gitrun_write_file(path, ours->patch, ours->patch_length);
}

static void assert_excused(const char *kind, size_t seed, struct text theirs,
                           const struct rsbx_diff_result *ours)
{
    RSBX_AUTO(rsbx_buf) struct rsbx_buf a = RSBX_BUF_INIT(1U << 26);
    RSBX_AUTO(rsbx_buf) struct rsbx_buf b = RSBX_BUF_INIT(1U << 26);

    keep_difference(kind, seed, theirs, ours);
    without_binary(&a, theirs.bytes, theirs.length);
    without_binary(&b, ours->patch, ours->patch_length);
    for (size_t i = 0; i < sizeof binary_kinds / sizeof binary_kinds[0]; i++) {
        if (strcmp(binary_kinds[i], kind) == 0 && a.length == b.length &&
            memcmp(a.data, b.data, a.length) == 0)
            return;
    }
    print_error("%s, seed %zu: not what git prints, and no reason is known\n", kind, seed);
    fail();
}

/* `git diff` prints what diff-tree did. */
static void assert_porcelain(const char *base, const char *result, struct text theirs)
{
    RSBX_AUTO(rsbx_buf) struct rsbx_buf out = RSBX_BUF_INIT(1U << 26);
    struct gitrun how = { .git_dir = git_dir };
    const char *const diff[] = { "git", "diff", "--no-ext-diff", "--no-textconv", "--no-color",
                                 "--no-renames", "--full-index", "--binary", base, result, NULL };

    assert_int_equal(gitrun(&out, &how, false, diff), 0);
    assert_int_equal(out.length, theirs.length);
    if (out.length > 0)
        assert_memory_equal(out.data, theirs.bytes, theirs.length);
}

/* Git's patch with renames, copies and short ids, as people send them, read as one from outside. */
static void assert_moves(const struct corpus_tree *tree, const char *base, const char *result,
                         const char *kind)
{
    RSBX_AUTO(rsbx_buf) struct rsbx_buf out = RSBX_BUF_INIT(1U << 26);
    struct gitrun how = { .git_dir = git_dir };
    const char *const diff[] = { "git", "diff", "--no-ext-diff", "--no-color", "--binary", "-M", "-C",
                                 "--find-copies-harder", base, result, NULL };

    assert_int_equal(gitrun(&out, &how, false, diff), 0);
    if (out.length > 0)
        assert_applies(tree, out.data, out.length, result, kind);
}

/* The shares of a kind that are tried in these ways too. */
#define EACH_HOSTILE 8U
#define EACH_CHECKOUT 4U
#define EACH_PORCELAIN 16U
#define EACH_MOVES 8U
#define EACH_OUTSIDE 2U

static void apply_patch(struct tally *tally, const struct batch *batch, size_t seed, const char *base,
                        struct text theirs, const struct rsbx_diff_result *ours)
{
    assert_int_equal(ours->patch[ours->patch_length - 1], '\n');
    assert_true(gitrun_write_file(patch_path, ours->patch, ours->patch_length));
    apply_cached(batch, base, ours->result_tree, seed % EACH_HOSTILE == 0);
    tally->applied++;
    if (seed % EACH_CHECKOUT != 0)
        return;
    tally->checkouts++;
    if (!apply_checkout(batch, base, ours->result_tree)) {
        /* Attributes can make a checkout that git itself finds changed: only where git's own patch is
         * the same bytes, and only in this kind. */
        tally->refused++;
        assert_string_equal(corpus_kind_name(batch->kind), "attributes");
        assert_int_equal(theirs.length, ours->patch_length);
    }
}

static void check_case(struct tally *tally, const struct batch *batch, size_t index)
{
    const char *kind = corpus_kind_name(batch->kind);
    const char *base = batch->trees[index][0], *result = batch->trees[index][1];
    const size_t seed = batch->first + index;
    const struct text theirs = { batch->theirs.data + batch->starts[index],
                                 batch->ends[index] - batch->starts[index] };
    struct corpus_case one;
    struct rsbx_diff_result ours;

    corpus_make(&one, batch->kind, seed);
    run_diff(&ours, &one, kind);
    assert_string_equal(ours.base_tree, base);
    assert_string_equal(ours.result_tree, result);
    tally->cases++;
    if (theirs.length == ours.patch_length &&
        memcmp(theirs.bytes, ours.patch, theirs.length) == 0)
        tally->equal++;
    else
        assert_excused(kind, seed, theirs, &ours);
    compare_libgit2(batch, base, result, &ours);
    if (seed % EACH_PORCELAIN == 0)
        assert_porcelain(base, result, theirs);
    if (ours.patch_length > 0 && seed % EACH_OUTSIDE == 0)
        assert_applies(&one.base, theirs.bytes, theirs.length, result, kind);
    if (seed % EACH_MOVES == 0)
        assert_moves(&one.base, base, result, kind);
    if (ours.patch_length > 0) {
        apply_patch(tally, batch, seed, base, theirs, &ours);
        apply_libgit2(tally, batch, base, &ours);
    } else {
        assert_string_equal(base, result);
    }
    rsbx_diff_result_dispose(&ours);
    corpus_dispose(&one);
}

static void check_kind(struct tally *tally, size_t kind)
{
    const size_t all = repeats(kind);
    const size_t most = corpus_kind_repeats(kind) > SLOW_REPEATS ? BATCH : SLOW_BATCH;

    for (size_t first = 0; first < all; first += most) {
        struct batch batch;

        batch_begin(&batch, kind, first, all - first < most ? all - first : most);
        for (size_t i = 0; i < batch.count; i++)
            check_case(tally, &batch, i);
        batch_end(&batch);
    }
}

static void report(const char *name, const struct tally *tally)
{
    print_message("%-14s %5zu cases: %5zu applied, %4zu also in a checkout (git refuses %zu); "
                  "%5zu equal to git's bytes, %3zu differ in a binary block; libgit2 applied %5zu, "
                  "refused or was not asked %4zu\n",
                  name, tally->cases, tally->applied, tally->checkouts, tally->refused,
                  tally->equal, tally->cases - tally->equal, tally->second, tally->second_refused);
}

static void every_patch_applies_and_is_gits(void **state)
{
    const char *only = getenv("REPOSBX_CORPUS_KIND"); /* one kind alone */
    struct tally all = { .cases = 0 };

    (void)state;
    for (size_t kind = 0; kind < corpus_kind_count(); kind++) {
        struct tally tally = { .cases = 0 };

        if (only != NULL && strcmp(only, corpus_kind_name(kind)) != 0)
            continue;
        check_kind(&tally, kind);
        report(corpus_kind_name(kind), &tally);
        all.cases += tally.cases;
        all.equal += tally.equal;
        all.applied += tally.applied;
        all.checkouts += tally.checkouts;
        all.refused += tally.refused;
        all.second += tally.second;
        all.second_refused += tally.second_refused;
    }
    report("together", &all);
    assert_true(all.cases >= (only != NULL ? 1 : wanted_cases()));
}

/* The environment of the caller has no part in the bytes. */
static void configuration_changes_nothing(void **state)
{
    (void)state;
    for (size_t kind = 0; kind < corpus_kind_count(); kind++) {
        struct corpus_case one;
        struct rsbx_diff_result plain, hostile;

        corpus_make(&one, kind, 0);
        run_diff(&plain, &one, corpus_kind_name(kind));
        assert_int_equal(setenv("HOME", home, 1), 0);
        assert_int_equal(setenv("XDG_CONFIG_HOME", home, 1), 0);
        assert_int_equal(setenv("GIT_DIR", "/nonexistent", 1), 0);
        assert_int_equal(setenv("LC_ALL", "tr_TR.UTF-8", 1), 0);
        run_diff(&hostile, &one, corpus_kind_name(kind));
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
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
