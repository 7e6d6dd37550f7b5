/* SPDX-License-Identifier: Apache-2.0 */
#include "source/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/evp.h>

#include "base/path.h"
#include "base/text.h"
#include "guest/fingerprint.h"

#include "base/banned.h"

/*
 * The tree id from leaves that come in walk order: two of them, of everything and of what is
 * streamed (without gitlinks and empty trees, with modes normalised). The folders from the root to
 * the present one are open; a folder is closed, sorted and hashed when the walk leaves it. Also
 * finds a name that is file and folder at once, which the order of the walk does not show.
 */
struct node {
    uint32_t name; /* offset in the level's names */
    uint16_t length;
    uint32_t mode;          /* as in the commit */
    uint32_t streamed_mode; /* 0: left out */
    uint8_t oid[RSBX_OID_BYTES];
    uint8_t streamed_oid[RSBX_OID_BYTES];
    const char *text; /* set when the level is closed */
};

struct level {
    struct node *nodes;
    size_t count, room;
    char *names;
    size_t used, names_room;
    uint16_t name_length; /* of this folder in the level above */
    char name[RSBX_MAX_NAME_BYTES];
};

struct rsbx_treeid {
    struct level levels[RSBX_MAX_PATH_COMPONENTS + 1];
    size_t depth; /* open levels above [0], the root */
    EVP_MD *sha1;
    EVP_MD_CTX *context;
    uint8_t *bytes; /* of one tree object */
    size_t bytes_room;
    struct rsbx_treeid_watch watch;
};

int rsbx_treeid_new(struct rsbx_treeid **out, const struct rsbx_treeid_watch *watch,
                    reposbx_error *err)
{
    struct rsbx_treeid *treeid = calloc(1, sizeof *treeid);

    if (treeid == NULL)
        return rsbx_fail_memory(err);
    if (watch != NULL)
        treeid->watch = *watch;
    treeid->sha1 = EVP_MD_fetch(NULL, "SHA1", NULL);
    treeid->context = EVP_MD_CTX_new();
    if (treeid->sha1 == NULL || treeid->context == NULL) {
        rsbx_treeid_free(treeid);
        return rsbx_fail(err, REPOSBX_EINTERNAL, "libcrypto has no SHA-1");
    }
    *out = treeid;
    return REPOSBX_OK;
}

void rsbx_treeid_free(struct rsbx_treeid *treeid)
{
    if (treeid == NULL)
        return;
    for (size_t i = 0; i <= RSBX_MAX_PATH_COMPONENTS; i++) {
        free(treeid->levels[i].nodes);
        free(treeid->levels[i].names);
    }
    EVP_MD_free(treeid->sha1);
    EVP_MD_CTX_free(treeid->context);
    free(treeid->bytes);
    free(treeid);
}

static int add_node(struct node **out, struct level *level, const char *name, size_t length,
                    reposbx_error *err)
{
    struct node *node;

    if (level->count == level->room) {
        size_t room = level->room > 0 ? 2 * level->room : 16;
        void *bigger = realloc(level->nodes, room * sizeof *level->nodes);

        if (bigger == NULL)
            return rsbx_fail_memory(err);
        level->nodes = bigger;
        level->room = room;
    }
    if (level->used + length > level->names_room) {
        size_t room = 2 * (level->used + length) + 256;
        char *bigger = realloc(level->names, room);

        if (bigger == NULL)
            return rsbx_fail_memory(err);
        level->names = bigger;
        level->names_room = room;
    }
    node = &level->nodes[level->count++];
    memset(node, 0, sizeof *node);
    node->name = (uint32_t)level->used;
    node->length = (uint16_t)length;
    memcpy(level->names + level->used, name, length);
    level->used += length;
    *out = node;
    return REPOSBX_OK;
}

static int by_name(const void *a, const void *b)
{
    const struct node *x = a, *y = b;

    return rsbx_bytes_compare(x->text, x->length, y->text, y->length);
}

/* Git's order: a folder as if its name ended in '/'. */
static int by_git(const void *a, const void *b)
{
    const struct node *x = a, *y = b;
    size_t shared = x->length < y->length ? x->length : y->length;
    int order = memcmp(x->text, y->text, shared);
    int next_x, next_y;

    if (order != 0)
        return order;
    next_x = x->length > shared ? (unsigned char)x->text[shared]
                                : (x->mode == RSBX_MODE_FOLDER ? '/' : 0);
    next_y = y->length > shared ? (unsigned char)y->text[shared]
                                : (y->mode == RSBX_MODE_FOLDER ? '/' : 0);
    return next_x - next_y;
}

static int sort(struct level *level, reposbx_error *err)
{
    for (size_t i = 0; i < level->count; i++)
        level->nodes[i].text = level->names + level->nodes[i].name;
    if (level->count < 2)
        return REPOSBX_OK;
    qsort(level->nodes, level->count, sizeof *level->nodes, by_name);
    for (size_t i = 1; i < level->count; i++) {
        if (by_name(&level->nodes[i - 1], &level->nodes[i]) == 0)
            return rsbx_fail(err, REPOSBX_EPROTOCOL, "a name stands twice in one folder: %.*s",
                             (int)level->nodes[i].length, level->nodes[i].text);
    }
    qsort(level->nodes, level->count, sizeof *level->nodes, by_git);
    return REPOSBX_OK;
}

/* Writes the tree object into treeid->bytes; its length, or -1. */
static int64_t write_tree(struct rsbx_treeid *treeid, const struct level *level, bool streamed)
{
    size_t most = level->used + level->count * (8 + RSBX_OID_BYTES) + 1;
    char *at;

    if (most > treeid->bytes_room) {
        free(treeid->bytes);
        treeid->bytes_room = 0;
        treeid->bytes = malloc(2 * most);
        if (treeid->bytes == NULL)
            return -1;
        treeid->bytes_room = 2 * most;
    }
    at = (char *)treeid->bytes;
    for (size_t i = 0; i < level->count; i++) {
        const struct node *node = &level->nodes[i];
        uint32_t mode = streamed ? node->streamed_mode : node->mode;

        if (mode == 0)
            continue;
        at += snprintf(at, 8, "%o", mode);
        *at++ = ' ';
        memcpy(at, node->text, node->length);
        at += node->length;
        *at++ = '\0';
        memcpy(at, streamed ? node->streamed_oid : node->oid, RSBX_OID_BYTES);
        at += RSBX_OID_BYTES;
    }
    return at - (char *)treeid->bytes;
}

static int hash_level(uint8_t out[RSBX_OID_BYTES], size_t *length, struct rsbx_treeid *treeid,
                      const struct level *level, bool streamed, reposbx_error *err)
{
    int64_t size = write_tree(treeid, level, streamed);
    char head[32];
    int head_length;

    if (size < 0)
        return rsbx_fail_memory(err);
    head_length = snprintf(head, sizeof head, "tree %lld", (long long)size) + 1;
    if (EVP_DigestInit_ex2(treeid->context, treeid->sha1, NULL) != 1 ||
        EVP_DigestUpdate(treeid->context, head, (size_t)head_length) != 1 ||
        EVP_DigestUpdate(treeid->context, treeid->bytes, (size_t)size) != 1 ||
        EVP_DigestFinal_ex(treeid->context, out, NULL) != 1)
        return rsbx_fail(err, REPOSBX_EINTERNAL, "libcrypto: SHA-1 failed");
    *length = (size_t)size;
    return REPOSBX_OK;
}

static int hash_both(uint8_t full[RSBX_OID_BYTES], uint8_t streamed[RSBX_OID_BYTES],
                     bool *streamed_empty, struct rsbx_treeid *treeid, struct level *level,
                     reposbx_error *err)
{
    size_t length = 0;
    int rc = sort(level, err);

    if (rc == 0)
        rc = hash_level(full, &length, treeid, level, false, err);
    if (rc == 0)
        rc = hash_level(streamed, &length, treeid, level, true, err);
    *streamed_empty = length == 0;
    return rc;
}

static int tell_closed(const struct rsbx_treeid *treeid, const uint8_t oid[RSBX_OID_BYTES],
                       reposbx_error *err)
{
    char path[RSBX_MAX_PATH_BYTES + 1];
    size_t length = 0;

    for (size_t i = 1; i <= treeid->depth; i++) {
        const struct level *level = &treeid->levels[i];

        if (length + level->name_length + 1 > sizeof path)
            return rsbx_fail(err, REPOSBX_EPROTOCOL, "a path that is too deep or too long");
        if (i > 1)
            path[length++] = '/';
        memcpy(path + length, level->name, level->name_length);
        length += level->name_length;
    }
    return treeid->watch.closed(treeid->watch.payload, treeid->depth, path, length, oid, err);
}

/* Closes the deepest open folder and enters it in the one above. */
static int close_level(struct rsbx_treeid *treeid, reposbx_error *err)
{
    struct level *level = &treeid->levels[treeid->depth];
    struct node done = { .mode = RSBX_MODE_FOLDER, .streamed_mode = RSBX_MODE_FOLDER };
    struct node *node;
    bool empty;
    int rc = hash_both(done.oid, done.streamed_oid, &empty, treeid, level, err);

    if (rc == 0 && treeid->watch.closed != NULL)
        rc = tell_closed(treeid, done.streamed_oid, err);
    if (rc != 0)
        return rc;
    treeid->depth--;
    rc = add_node(&node, &treeid->levels[treeid->depth], level->name, level->name_length, err);
    if (rc != 0)
        return rc;
    done.name = node->name;
    done.length = node->length;
    if (empty)
        done.streamed_mode = 0;
    *node = done;
    level->count = 0;
    level->used = 0;
    return REPOSBX_OK;
}

/* Closes and opens folders until the deepest open one is that of the path; *name is its last
 * part. */
static int go_to(const char **name, struct rsbx_treeid *treeid, const char *path, size_t length,
                 reposbx_error *err)
{
    const char *end = path + length;
    const char *at = path;
    size_t shared = 0;

    for (;;) {
        const char *slash = memchr(at, '/', (size_t)(end - at));
        const struct level *next = &treeid->levels[shared + 1];

        if (slash == NULL || shared == treeid->depth ||
            (size_t)(slash - at) != next->name_length ||
            memcmp(next->name, at, next->name_length) != 0)
            break;
        shared++;
        at = slash + 1;
    }
    while (treeid->depth > shared) {
        int rc = close_level(treeid, err);

        if (rc != 0)
            return rc;
    }
    for (;;) {
        const char *slash = memchr(at, '/', (size_t)(end - at));
        struct level *level;

        if (slash == NULL)
            break;
        if (treeid->depth == RSBX_MAX_PATH_COMPONENTS ||
            (size_t)(slash - at) > RSBX_MAX_NAME_BYTES)
            return rsbx_fail(err, REPOSBX_EPROTOCOL, "a path that is too deep or too long");
        level = &treeid->levels[++treeid->depth];
        level->name_length = (uint16_t)(slash - at);
        memcpy(level->name, at, level->name_length);
        if (treeid->watch.opened != NULL)
            treeid->watch.opened(treeid->watch.payload, treeid->depth);
        at = slash + 1;
    }
    *name = at;
    return REPOSBX_OK;
}

int rsbx_treeid_add(struct rsbx_treeid *treeid, const char *path, size_t length, uint32_t mode,
                    uint32_t streamed_mode, const uint8_t *oid, reposbx_error *err)
{
    const char *name = path;
    struct node *node = NULL;
    int rc = go_to(&name, treeid, path, length, err);

    if (rc == 0)
        rc = add_node(&node, &treeid->levels[treeid->depth], name,
                      length - (size_t)(name - path), err);
    if (rc != 0)
        return rc;
    node->mode = mode;
    node->streamed_mode = streamed_mode;
    memcpy(node->oid, oid, RSBX_OID_BYTES);
    memcpy(node->streamed_oid, oid, RSBX_OID_BYTES);
    return REPOSBX_OK;
}

int rsbx_treeid_finish(uint8_t full[RSBX_OID_BYTES], uint8_t streamed[RSBX_OID_BYTES],
                       struct rsbx_treeid *treeid, reposbx_error *err)
{
    uint8_t both[2][RSBX_OID_BYTES];
    bool empty;
    int rc = 0;

    while (treeid->depth > 0 && rc == 0)
        rc = close_level(treeid, err);
    if (rc == 0)
        rc = hash_both(both[0], both[1], &empty, treeid, &treeid->levels[0], err);
    if (rc != 0)
        return rc;
    memcpy(full, both[0], RSBX_OID_BYTES);
    memcpy(streamed, both[1], RSBX_OID_BYTES);
    return REPOSBX_OK;
}

int rsbx_walk_compare(const char *a, size_t a_length, const char *b, size_t b_length)
{
    const char *a_end = a + a_length;
    const char *b_end = b + b_length;

    for (;;) {
        const char *a_slash = memchr(a, '/', (size_t)(a_end - a));
        const char *b_slash = memchr(b, '/', (size_t)(b_end - b));
        size_t a_part = (size_t)((a_slash != NULL ? a_slash : a_end) - a);
        size_t b_part = (size_t)((b_slash != NULL ? b_slash : b_end) - b);
        bool same = a_part == b_part && memcmp(a, b, a_part) == 0;

        /* Files before folders, also when they have one name (which is an error elsewhere). */
        if ((a_slash == NULL) != (b_slash == NULL))
            return a_slash == NULL ? -1 : 1;
        if (!same)
            return rsbx_fp_compare(a, a_part, b, b_part);
        if (a_slash == NULL)
            return 0;
        a = a_slash + 1;
        b = b_slash + 1;
    }
}
