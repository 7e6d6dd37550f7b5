/* SPDX-License-Identifier: Apache-2.0 */
#include "source/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include <zlib.h>

#include "base/child.h"
#include "base/cleanup.h"
#include "base/text.h"
#include "codec/git2.h"

#include "base/banned.h"

/*
 * Object bytes. Loose objects are read by our own code over zlib: libgit2 1.5.1 spins for ever on a
 * cut one and writes past its buffer on one whose header understates it. Packs are checked by
 * packs.c and then read by libgit2's pack backend alone, without a repository around it, so that no
 * alternates, no configuration and no refs come into play. Whatever the source, the bytes are hashed here (by
 * libgit2's SHA-1, which detects collision attacks) and compared with the id; the parent hashes
 * them again with libcrypto.
 *
 * One object may cost so much processor time inside libgit2 before the kernel ends the process.
 */
#define OBJECT_CPU_SECONDS 30
/* "commit " and twenty digits and NUL. */
#define MAX_HEADER_BYTES 32U
#define INPUT_BYTES 65536U

struct rsbx_objects {
    int objects_fd;
    int fan_fds[256]; /* -1 not tried, -2 missing */
    struct rsbx_packs *packs;
    git_odb_object *held;
    z_stream zip;
    bool zip_ready;
    uint8_t *body;
    size_t body_room;
    uint8_t input[INPUT_BYTES];
};

const char *rsbx_object_word(enum rsbx_object_type type)
{
    static const char *const words[] = { "object", "commit", "tree", "blob", "tag" };

    return words[type];
}

static int damaged(const uint8_t *oid, const char *why, reposbx_error *err)
{
    char hex[RSBX_OID_HEX_BYTES];

    rsbx_hex(hex, oid, RSBX_OID_BYTES);
    (void)rsbx_fail(err, REPOSBX_EPROTOCOL, "the repository is damaged: object %s: %s", hex, why);
    rsbx_hint(err, "git fsck says what is wrong; a fresh clone helps");
    return REPOSBX_EPROTOCOL;
}

static void guard_time(void)
{
    struct itimerval budget = { .it_value = { .tv_sec = OBJECT_CPU_SECONDS } };

    (void)setitimer(ITIMER_PROF, &budget, NULL);
}

static int open_packs(struct rsbx_objects *objects, reposbx_error *err)
{
    if (rsbx_child_library(rsbx_git2.git_libgit2_init) < 0)
        return rsbx_fail(err, REPOSBX_EINTERNAL, "libgit2 does not start");
    for (int level = GIT_CONFIG_LEVEL_PROGRAMDATA; level <= GIT_CONFIG_LEVEL_GLOBAL; level++)
        (void)rsbx_git2.git_libgit2_opts(GIT_OPT_SET_SEARCH_PATH, level, "");
    (void)rsbx_git2.git_libgit2_opts(GIT_OPT_ENABLE_CACHING, 0);
    (void)rsbx_git2.git_libgit2_opts(GIT_OPT_SET_MWINDOW_SIZE, (size_t)32 * 1024 * 1024);
    (void)rsbx_git2.git_libgit2_opts(GIT_OPT_SET_MWINDOW_MAPPED_LIMIT, (size_t)256 * 1024 * 1024);
    /* We hash everything ourselves, with the same function. */
    (void)rsbx_git2.git_libgit2_opts(GIT_OPT_ENABLE_STRICT_HASH_VERIFICATION, 0);
    return rsbx_packs_open(&objects->packs, objects->objects_fd, err);
}

int rsbx_objects_open(struct rsbx_objects **out, int objects_fd, reposbx_error *err)
{
    struct rsbx_objects *objects = calloc(1, sizeof *objects);
    int rc;

    if (objects == NULL)
        return rsbx_fail_memory(err);
    objects->objects_fd = objects_fd;
    for (size_t i = 0; i < 256; i++)
        objects->fan_fds[i] = -1;
    if (inflateInit(&objects->zip) != Z_OK) {
        rsbx_objects_free(objects);
        return rsbx_fail_memory(err);
    }
    objects->zip_ready = true;
    rc = open_packs(objects, err);
    if (rc != 0) {
        rsbx_objects_free(objects);
        return rc;
    }
    *out = objects;
    return REPOSBX_OK;
}

void rsbx_objects_free(struct rsbx_objects *objects)
{
    if (objects == NULL)
        return;
    rsbx_git2.git_odb_object_free(objects->held);
    rsbx_packs_free(objects->packs);
    if (objects->zip_ready)
        (void)inflateEnd(&objects->zip);
    for (size_t i = 0; i < 256; i++) {
        if (objects->fan_fds[i] >= 0)
            (void)close(objects->fan_fds[i]);
    }
    free(objects->body);
    free(objects);
}

/* Opens the loose object; *out is -1 when there is none. */
static int open_loose(int *out, struct rsbx_objects *objects, const uint8_t *oid,
                      reposbx_error *err)
{
    char hex[RSBX_OID_HEX_BYTES];
    int *fan = &objects->fan_fds[oid[0]];
    struct stat facts;
    int fd;

    rsbx_hex(hex, oid, RSBX_OID_BYTES);
    *out = -1;
    if (*fan == -1) {
        char name[3] = { hex[0], hex[1], '\0' };

        *fan = openat(objects->objects_fd, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (*fan < 0) {
            *fan = -2;
            if (errno != ENOENT)
                return damaged(oid, "its folder cannot be opened", err);
        }
    }
    if (*fan == -2)
        return REPOSBX_OK;
    fd = openat(*fan, hex + 2, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0) {
        if (errno == ENOENT)
            return REPOSBX_OK;
        return damaged(oid, errno == ELOOP ? "its file is a symlink" : "its file cannot be opened",
                       err);
    }
    if (fstat(fd, &facts) != 0 || !S_ISREG(facts.st_mode)) {
        (void)close(fd);
        return damaged(oid, "its file is not a regular file", err);
    }
    *out = fd;
    return REPOSBX_OK;
}

/* Inflates until `out` is full, the stream ends (*ended) or the file does. The count, or -1. */
static int64_t inflate_some(struct rsbx_objects *objects, int fd, uint8_t *out, size_t length,
                            bool *ended)
{
    z_stream *zip = &objects->zip;
    size_t done = 0;

    while (done < length && !*ended) {
        size_t room = length - done < 1U << 30 ? length - done : 1U << 30;
        int status;

        if (zip->avail_in == 0) {
            ssize_t got;

            do {
                got = read(fd, objects->input, INPUT_BYTES);
            } while (got < 0 && errno == EINTR);
            if (got < 0)
                return -1;
            if (got == 0)
                break;
            zip->next_in = objects->input;
            zip->avail_in = (uInt)got;
        }
        zip->next_out = out + done;
        zip->avail_out = (uInt)room;
        status = inflate(zip, Z_NO_FLUSH);
        done += room - zip->avail_out;
        if (status == Z_STREAM_END)
            *ended = true;
        else if (status != Z_OK && status != Z_BUF_ERROR)
            return -1;
    }
    return (int64_t)done;
}

static bool parse_header(enum rsbx_object_type *type, uint64_t *size, const char *text,
                         size_t length)
{
    for (int t = RSBX_OBJECT_COMMIT; t <= RSBX_OBJECT_TAG; t++) {
        const char *word = rsbx_object_word((enum rsbx_object_type)t);
        size_t width = strlen(word);
        uint64_t value = 0;

        if (length < width + 2 || memcmp(text, word, width) != 0 || text[width] != ' ')
            continue;
        if (length > width + 20 || (text[width + 1] == '0' && length > width + 2))
            return false;
        for (size_t i = width + 1; i < length; i++) {
            if (text[i] < '0' || text[i] > '9')
                return false;
            if (value > (UINT64_MAX - 9) / 10)
                return false;
            value = value * 10 + (uint64_t)(text[i] - '0');
        }
        *type = (enum rsbx_object_type)t;
        *size = value;
        return true;
    }
    return false;
}

/* Reads the header; what came behind it in `first` starts at *body_at. */
static int loose_header(enum rsbx_object_type *type, uint64_t *size, uint8_t *first,
                        size_t *body_at, size_t *first_length, bool *ended,
                        struct rsbx_objects *objects, int fd, const uint8_t *oid,
                        reposbx_error *err)
{
    int64_t got;
    const uint8_t *nul;

    (void)inflateReset(&objects->zip);
    objects->zip.avail_in = 0;
    *ended = false;
    got = inflate_some(objects, fd, first, MAX_HEADER_BYTES, ended);
    if (got < 0)
        return damaged(oid, "its file is not a zlib stream", err);
    nul = memchr(first, '\0', (size_t)got);
    if (nul == NULL ||
        !parse_header(type, size, (const char *)first, (size_t)(nul - first)))
        return damaged(oid, got == 0 ? "its file is empty or cut" : "it has no valid header", err);
    *body_at = (size_t)(nul - first) + 1;
    *first_length = (size_t)got;
    return REPOSBX_OK;
}

static int pack_problem(int rc, const uint8_t *oid, reposbx_error *err)
{
    const git_error *last = rsbx_git2.git_error_last();

    if (rc == GIT_ENOTFOUND)
        return damaged(oid, "its pack cannot be read", err);
    return damaged(oid, last != NULL && last->message != NULL ? last->message : "cannot be read",
                   err);
}

int rsbx_object_header(enum rsbx_object_type *type, uint64_t *size, struct rsbx_objects *objects,
                       const uint8_t *oid, reposbx_error *err)
{
    RSBX_AUTO(rsbx_fd) int fd = -1;
    git_odb *pack;
    git_oid id;
    git_object_t kind;
    size_t length;
    int rc = open_loose(&fd, objects, oid, err);

    if (rc != 0)
        return rc;
    if (fd >= 0) {
        uint8_t first[MAX_HEADER_BYTES];
        size_t at, used;
        bool ended;

        return loose_header(type, size, first, &at, &used, &ended, objects, fd, oid, err);
    }
    memcpy(id.id, oid, RSBX_OID_BYTES);
    guard_time();
    rc = rsbx_packs_find(&pack, objects->packs, oid, err);
    if (rc != 0)
        return rc;
    rc = rsbx_git2.git_odb_read_header(&length, &kind, pack, &id);
    if (rc != 0)
        return pack_problem(rc, oid, err);
    if (kind < GIT_OBJECT_COMMIT || kind > GIT_OBJECT_TAG)
        return damaged(oid, "unknown type", err);
    *type = (enum rsbx_object_type)kind;
    *size = length;
    return REPOSBX_OK;
}

static int room_for(struct rsbx_objects *objects, size_t length, reposbx_error *err)
{
    uint8_t *body;

    if (length <= objects->body_room)
        return REPOSBX_OK;
    free(objects->body);
    objects->body = NULL;
    objects->body_room = 0;
    body = malloc(length);
    if (body == NULL)
        return rsbx_fail_memory(err);
    objects->body = body;
    objects->body_room = length;
    return REPOSBX_OK;
}

static int check_kind(enum rsbx_object_type have, enum rsbx_object_type want, uint64_t size,
                      uint64_t limit, const uint8_t *oid, reposbx_error *err)
{
    char hex[RSBX_OID_HEX_BYTES];

    rsbx_hex(hex, oid, RSBX_OID_BYTES);
    if (have != want)
        return rsbx_fail(err, REPOSBX_EPROTOCOL,
                         "the repository is damaged: object %s is a %s where a %s belongs", hex,
                         rsbx_object_word(have), rsbx_object_word(want));
    if (size > limit)
        return rsbx_fail(err, REPOSBX_EPOLICY, "%s %s has %llu bytes, over the limit of %llu",
                         rsbx_object_word(want), hex, (unsigned long long)size,
                         (unsigned long long)limit);
    return REPOSBX_OK;
}

static int read_loose(const void **bytes, size_t *length, struct rsbx_objects *objects, int fd,
                      const uint8_t *oid, enum rsbx_object_type type, uint64_t limit,
                      reposbx_error *err)
{
    uint8_t first[MAX_HEADER_BYTES];
    enum rsbx_object_type have;
    uint64_t size;
    size_t at, used, part;
    bool ended;
    int64_t got;
    int rc = loose_header(&have, &size, first, &at, &used, &ended, objects, fd, oid, err);

    if (rc == 0)
        rc = check_kind(have, type, size, limit, oid, err);
    /* One byte more than the header says: a body that is longer shows. */
    if (rc == 0)
        rc = room_for(objects, (size_t)size + 1, err);
    if (rc != 0)
        return rc;
    part = used - at;
    if (part > size)
        return damaged(oid, "it is longer than its header says", err);
    memcpy(objects->body, first + at, part);
    got = inflate_some(objects, fd, objects->body + part, (size_t)size + 1 - part, &ended);
    if (got < 0)
        return damaged(oid, "its file is not a whole zlib stream", err);
    if (part + (size_t)got > size)
        return damaged(oid, "it is longer than its header says", err);
    if (part + (size_t)got < size || !ended)
        return damaged(oid, "it is cut short", err);
    if (objects->zip.avail_in > 0)
        return damaged(oid, "there are bytes behind it", err);
    *bytes = objects->body;
    *length = (size_t)size;
    return REPOSBX_OK;
}

static int read_packed(const void **bytes, size_t *length, struct rsbx_objects *objects,
                       const uint8_t *oid, enum rsbx_object_type type, uint64_t limit,
                       reposbx_error *err)
{
    enum rsbx_object_type have;
    git_object_t kind;
    git_odb *pack;
    git_oid id;
    size_t size;
    int rc;

    memcpy(id.id, oid, RSBX_OID_BYTES);
    rsbx_git2.git_odb_object_free(objects->held);
    objects->held = NULL;
    guard_time();
    rc = rsbx_packs_find(&pack, objects->packs, oid, err);
    if (rc != 0)
        return rc;
    rc = rsbx_git2.git_odb_read_header(&size, &kind, pack, &id);
    if (rc != 0)
        return pack_problem(rc, oid, err);
    if (kind < GIT_OBJECT_COMMIT || kind > GIT_OBJECT_TAG)
        return damaged(oid, "unknown type", err);
    have = (enum rsbx_object_type)kind;
    rc = check_kind(have, type, size, limit, oid, err);
    if (rc != 0)
        return rc;
    rc = rsbx_git2.git_odb_read(&objects->held, pack, &id);
    if (rc != 0)
        return pack_problem(rc, oid, err);
    if (rsbx_git2.git_odb_object_size(objects->held) != size ||
        rsbx_git2.git_odb_object_type(objects->held) != kind)
        return damaged(oid, "its pack gives it two sizes", err);
    *bytes = rsbx_git2.git_odb_object_data(objects->held);
    *length = size;
    return REPOSBX_OK;
}

int rsbx_object_read(const void **bytes, size_t *length, struct rsbx_objects *objects,
                     const uint8_t *oid, enum rsbx_object_type type, uint64_t limit,
                     reposbx_error *err)
{
    RSBX_AUTO(rsbx_fd) int fd = -1;
    git_oid id;
    int rc = open_loose(&fd, objects, oid, err);

    if (rc != 0)
        return rc;
    rc = fd >= 0 ? read_loose(bytes, length, objects, fd, oid, type, limit, err)
                 : read_packed(bytes, length, objects, oid, type, limit, err);
    if (rc != 0)
        return rc;
    if (rsbx_git2.git_odb_hash(&id, *bytes, *length, (git_object_t)type) != 0)
        return damaged(oid, "its hash cannot be computed", err);
    if (memcmp(id.id, oid, RSBX_OID_BYTES) != 0)
        return damaged(oid, "its bytes have another hash", err);
    return REPOSBX_OK;
}

void rsbx_blob_oid(uint8_t oid[RSBX_OID_BYTES], const void *bytes, size_t length)
{
    git_oid id = { { 0 } };

    (void)rsbx_git2.git_libgit2_init();
    (void)rsbx_git2.git_odb_hash(&id, length > 0 ? bytes : "", length, GIT_OBJECT_BLOB);
    memcpy(oid, id.id, RSBX_OID_BYTES);
}
