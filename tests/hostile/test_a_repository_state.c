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
 * Hostile repositories, A10 to A17: damaged objects, other forms of repository, revisions, places,
 * owners and history. The whole program ends by alarm when anything hangs.
 */
#define ALARM_SECONDS 880U
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
        { "[core]\n\tbare = true\n", "core.bare" },
        { "[core]\n\tbare\n", "core.bare" },
        { "[Core] BARE=On\n", "core.bare" },
        { "[core]\n\tbare = banana\n", "core.bare" },
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
    /* What is packed is not taken in place of a ref that cannot be read. */
    assert_int_equal(unlink(fx_path(fx, ".git/refs/heads/alias")), 0);
    FX_GIT(NULL, fx, "branch", "packed", "main");
    FX_GIT(NULL, fx, "pack-refs", "--all");
    fx_text(fx, ".git/HEAD", "ref: refs/heads/packed\n");
    expect_ok(&options);
    assert_int_equal(symlink("main", fx_path(fx, ".git/refs/heads/packed")), 0);
    expect(&options, REPOSBX_EPOLICY, "refs/heads/packed");
    assert_int_equal(unlink(fx_path(fx, ".git/refs/heads/packed")), 0);
    assert_int_equal(mkdir(fx_path(fx, ".git/refs/heads/packed"), 0755), 0);
    expect_ok(&options);
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
        T(a10_cut_objects),
        T(a10_headers),
        T(a11_flipped_bits),
        T(a12_config_forms),
        T(a12_places),
        T(a12_worktree_and_clones),
        T(a13_replace_and_grafts),
        T(a14_revisions),
        T(a14_heads),
        T(a15_paths),
        T(a15_owner),
        T(a16_head_moves),
        T(a17_no_other_history),
    };

    (void)alarm(ALARM_SECONDS);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
