/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/source/fixture.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/text.h"

#include "base/banned.h"

/*
 * Hostile repositories, A11: indexes and packs that lie about themselves, and deltas without an end.
 * Each must be told as damage, by name and at once: never as "no such commit", never by a crash of the
 * reader. The whole program ends by alarm when anything hangs.
 */
#define ALARM_SECONDS 300U
#define COUNT(a) (sizeof(a) / sizeof *(a))
#define FAN (8U + 4U * 255U) /* of version 2: where the count of all objects stands */

static struct fx_result result;

static size_t slurp(uint8_t *out, size_t size, const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got;

    assert_true(fd >= 0);
    got = rsbx_read_full(fd, out, size);
    assert_true(got > 0 && (size_t)got < size);
    (void)close(fd);
    return (size_t)got;
}

/* The only pack, without its ending. */
static void pack_name(char out[128], const struct fx *fx)
{
    char line[128];

    FX_GIT(line, fx, "-c", "alias.l=!cd .git/objects/pack && ls", "l");
    line[strcspn(line, ".")] = '\0';
    (void)snprintf(out, 128, ".git/objects/pack/%.60s", line);
}

struct lie {
    const char *ending;
    size_t at;
    const char *bytes;
    size_t length;
    size_t cut; /* so many bytes are left; 0: all */
    const char *words;
};

static const struct lie lies[] = {
    { ".idx", FAN, "\x7f\xff\xff\xff", 4, 0, "another size than its counts" },
    { ".idx", FAN, "\0\0\0\0", 4, 0, "out of order" },
    { ".idx", 8, "\xff\xff\xff\xff", 4, 0, "out of order" },
    { ".idx", 7, "\x03", 1, 0, "unknown version" },
    { ".idx", 0, "", 0, 1, "its index is cut" },
    { ".idx", 0, "", 0, 1063, "its index is cut" },
    { ".idx", 0, "", 0, 1100, "another size than its counts" },
    { ".pack", 0, "KCAP", 4, 0, "no head" },
    { ".pack", 7, "\x09", 1, 0, "unknown version" },
    { ".pack", 11, "\0", 1, 0, "do not belong together" },
    { ".pack", 8, "\xff", 1, 0, "do not belong together" },
    { ".pack", 0, "", 0, 20, "the pack is cut" },
    { ".pack", 0, "", 0, 60, "do not belong together" },
};

static void a11_indexes_that_lie(void **state)
{
    struct fx *fx = *state;
    static uint8_t whole[65536], changed[65536];
    char commit[41], base[128], name[160], away[160];
    struct rsbx_source_options options;

    fx_text(fx, "f", "content");
    fx_text(fx, "d/g", "other content, somewhat longer than the first");
    fx_commit_all(commit, fx);
    FX_GIT(NULL, fx, "repack", "-q", "-a", "-d");
    options = fx_options(fx, commit);
    fx_expect(&result, &options, 0, NULL);
    pack_name(base, fx);
    for (size_t i = 0; i < COUNT(lies); i++) {
        const struct lie *row = &lies[i];
        size_t length;

        (void)snprintf(name, sizeof name, "%s%s", base, row->ending);
        length = slurp(whole, sizeof whole, fx_path(fx, name));
        memcpy(changed, whole, length);
        memcpy(changed + row->at, row->bytes, row->length);
        fx_write(fx, name, changed, row->cut > 0 ? row->cut : length);
        fx_expect(&result, &options, REPOSBX_EPROTOCOL, row->words);
        assert_non_null(strstr(result.err.message, "damaged"));
        fx_write(fx, name, whole, length);
        fx_expect(&result, &options, 0, NULL);
    }
    /* Without one of the two: the commit that HEAD names is not there, and that is damage too. */
    for (int half = 0; half < 2; half++) {
        (void)snprintf(name, sizeof name, "%s%s", base, half == 0 ? ".idx" : ".pack");
        (void)snprintf(away, sizeof away, "%s/away", fx->top);
        assert_int_equal(rename(fx_path(fx, name), away), 0);
        fx_expect(&result, &options, REPOSBX_EPROTOCOL, commit);
        assert_int_equal(rename(away, fx_path(fx, name)), 0);
        fx_expect(&result, &options, 0, NULL);
    }
    /* An index of version 1, and a multi-pack-index that nobody asks. */
    (void)snprintf(name, sizeof name, "%s.idx", base);
    assert_int_equal(unlink(fx_path(fx, name)), 0);
    (void)snprintf(away, sizeof away, "%s.pack", base);
    FX_GIT(NULL, fx, "index-pack", "--index-version=1", away);
    fx_text(fx, ".git/objects/pack/multi-pack-index", "MIDX and nonsense");
    fx_expect(&result, &options, 0, NULL);
}

#define IDS "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define BASE "\xaa\xaa\xaa\xaa\xaa\xaa\xaa\xaa\xaa\xaa\xaa\xaa\xaa\xaa\xaa\xaa\xaa\xaa\xaa\xaa"
#define OTHER "\xbb\xbb\xbb\xbb\xbb\xbb\xbb\xbb\xbb\xbb\xbb\xbb\xbb\xbb\xbb\xbb\xbb\xbb\xbb\xbb"
#define NOBODY "\xcc\xcc\xcc\xcc\xcc\xcc\xcc\xcc\xcc\xcc\xcc\xcc\xcc\xcc\xcc\xcc\xcc\xcc\xcc\xcc"

/* A pack with an index of version 2: `count` entries of one length, ids aa…, bb…, … in their order. */
static void put_pack(const struct fx *fx, const uint8_t *entries, size_t each, size_t count)
{
    static uint8_t pack[1024 * 1024], index[1024 * 1024];
    size_t used = 12, at = 8 + 1024;

    assert_true(count * (each + 28) + 2048 < sizeof pack);
    memcpy(pack, "PACK\0\0\0\2\0\0", 10);
    pack[10] = (uint8_t)(count >> 8);
    pack[11] = (uint8_t)count;
    memcpy(pack + used, entries, each * count);
    used += each * count;
    memset(pack + used, 0x11, 20);
    memcpy(index, "\377tOc\0\0\0\2", 8);
    for (size_t i = 0; i < 256; i++) {
        /* Two ids under aa and bb; of more, all under 00. */
        size_t below = count > 2 ? count : (i >= 0xaa) + (count == 2 && i >= 0xbb ? 1U : 0U);

        memset(index + 8 + 4 * i, 0, 2);
        index[8 + 4 * i + 2] = (uint8_t)(below >> 8);
        index[8 + 4 * i + 3] = (uint8_t)below;
    }
    for (size_t i = 0; i < count; i++, at += 20) {
        memset(index + at, count > 2 ? 0 : i == 0 ? 0xaa : 0xbb, 20);
        if (count > 2) {
            index[at + 18] = (uint8_t)((i + 1) >> 8);
            index[at + 19] = (uint8_t)(i + 1);
        }
    }
    memset(index + at, 0, 4 * count);
    at += 4 * count;
    for (size_t i = 0; i < count; i++, at += 4) {
        size_t offset = 12 + i * each;

        index[at] = 0;
        index[at + 1] = (uint8_t)(offset >> 16);
        index[at + 2] = (uint8_t)(offset >> 8);
        index[at + 3] = (uint8_t)offset;
    }
    memset(index + at, 0x11, 20);
    memset(index + at + 20, 0x22, 20);
    fx_write(fx, ".git/objects/pack/pack-1.pack", pack, used + 20);
    fx_write(fx, ".git/objects/pack/pack-1.idx", index, at + 40);
}

static void refuse_blob(const struct fx *fx, const char *id, const char *words)
{
    static struct fx_tree tree;
    char tree_id[41], commit[41];
    struct rsbx_source_options options;

    tree.length = 0;
    fx_entry(&tree, "100644", "f", 1, id);
    fx_tree_object(tree_id, fx, &tree);
    fx_commit_tree(commit, fx, tree_id);
    options = fx_options(fx, commit);
    fx_expect(&result, &options, REPOSBX_EPROTOCOL, words);
    assert_non_null(strstr(result.err.message, "damaged"));
}

static void a11_deltas_without_an_end(void **state)
{
    static const struct {
        const char *bytes;
        size_t each, count;
        const char *words;
    } packs[] = {
        /* Seven: a delta by the id of its base. Six: by the distance. */
        { "\x73" BASE, 21, 1, "no end" },
        { "\x73" OTHER "\x73" BASE, 21, 2, "no end" },
        { "\x73" NOBODY, 21, 1, "base of a delta is not in the pack" },
        { "\x63\x00", 2, 1, "outside of the pack" },
        { "\x63\x7f", 2, 1, "outside of the pack" },
        { "\x63\x05", 2, 1, "outside of the pack" },
        { "\x63\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 14, 1, "no valid base" },
        { "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 14, 1, "no valid size" },
    };
    struct fx *fx = *state;
    static uint8_t chain[2 * 5000];
    char last[41];

    for (size_t i = 0; i < COUNT(packs); i++) {
        put_pack(fx, (const uint8_t *)packs[i].bytes, packs[i].each, packs[i].count);
        refuse_blob(fx, IDS, packs[i].words);
    }
    /* Each on the one before it: an end, but far beyond what Git itself would make. */
    for (size_t i = 0; i < sizeof chain / 2; i++) {
        chain[2 * i] = i == 0 ? 0x33 : 0x63;
        chain[2 * i + 1] = 2;
    }
    put_pack(fx, chain, 2, sizeof chain / 2);
    (void)snprintf(last, sizeof last, "%036d%04x", 0, (unsigned)(sizeof chain / 2));
    refuse_blob(fx, last, "no end");
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, fx_setup, fx_teardown)
    const struct CMUnitTest tests[] = {
        T(a11_indexes_that_lie),
        T(a11_deltas_without_an_end),
    };

    (void)alarm(ALARM_SECONDS);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
