/* SPDX-License-Identifier: Apache-2.0 */
#include "source/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/lister.h"
#include "base/search.h"
#include "base/text.h"
#include "codec/git2.h"

#include "base/banned.h"

/*
 * Which pack holds an object, and whether the deltas that make it come to an end. libgit2 1.5.1
 * believes the counts of an index (and reads behind its end), answers "no such object" where a pack
 * is damaged, and follows deltas that name each other until its memory is used up. So the indexes are
 * held against their own sizes and their packs here, and every chain is followed once by its headers
 * before libgit2 gets to see the object, in a backend of that one pack: neither a multi-pack-index nor
 * another pack takes part.
 */

/* What Git itself allows at most (pack.depth). */
#define MAX_CHAIN 4096U
#define FAN_BYTES 1024U
#define TRAILER_BYTES 40U
#define MAX_OPEN_PACKS 64U
#define MAX_PACK_NAME 128U

/* An entry whose chain is known to end, and how many deltas it has. */
struct known {
    uint64_t offset; /* 0: a free place */
    uint32_t depth;
};

struct pack {
    char name[MAX_PACK_NAME]; /* without ".idx" */
    int fd;                   /* of the pack; -1: not open now */
    uint64_t size;
    const uint8_t *index;
    size_t index_size;
    const uint8_t *fan, *ids, *offsets, *wide; /* `ids` of version 1: 4 bytes behind `fan` */
    size_t stride;
    uint32_t count;
    uint32_t wide_count;
    git_odb *odb;
    struct known *known;
    size_t known_room, known_count;
};

struct rsbx_packs {
    int objects_fd;
    struct pack *packs;
    size_t count, room;
    size_t last; /* where the last object was */
    size_t opened[MAX_OPEN_PACKS];
    size_t opened_next;
    uint64_t chain[MAX_CHAIN];
};

static uint32_t be32(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static int damaged(const struct pack *pack, const char *why, reposbx_error *err)
{
    (void)rsbx_fail(err, REPOSBX_EPROTOCOL, "the repository is damaged: %s: %s", pack->name, why);
    rsbx_hint(err, "git fsck says what is wrong; a fresh clone helps");
    return REPOSBX_EPROTOCOL;
}

static int open_regular(int *out, uint64_t *size, int folder_fd, const char *name)
{
    struct stat facts;
    int fd = openat(folder_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

    if (fd < 0)
        return -1;
    if (fstat(fd, &facts) != 0 || !S_ISREG(facts.st_mode)) {
        (void)close(fd);
        errno = EINVAL;
        return -1;
    }
    *out = fd;
    *size = (uint64_t)facts.st_size;
    return 0;
}

static bool read_at(uint8_t *out, size_t length, int fd, uint64_t offset)
{
    ssize_t got;

    do {
        got = pread(fd, out, length, (off_t)offset);
    } while (got < 0 && errno == EINTR);
    return got == (ssize_t)length;
}

/* Where the parts of the index are; its counts must fit its size. */
static int lay_out(struct pack *pack, reposbx_error *err)
{
    static const uint8_t magic[8] = { 0xff, 't', 'O', 'c', 0, 0, 0, 2 };
    const uint8_t *at = pack->index;
    size_t size = pack->index_size;
    bool second = size >= sizeof magic && memcmp(at, magic, sizeof magic) == 0;
    size_t head = (second ? sizeof magic : 0) + FAN_BYTES;
    uint64_t fixed;
    uint32_t before = 0;

    if (size < head + TRAILER_BYTES || (!second && memcmp(at, magic, 4) == 0))
        return damaged(pack, "its index is cut or of an unknown version", err);
    pack->fan = at + head - FAN_BYTES;
    for (size_t i = 0; i < 256; i++) {
        uint32_t now = be32(pack->fan + 4 * i);

        if (now < before)
            return damaged(pack, "the counts of its index are out of order", err);
        before = now;
    }
    pack->count = before;
    pack->stride = second ? RSBX_OID_BYTES : RSBX_OID_BYTES + 4;
    fixed = head + TRAILER_BYTES + (uint64_t)pack->count * (second ? 28 : 24);
    if (size < fixed || (size - fixed) % 8 != 0 || (!second && size != fixed))
        return damaged(pack, "its index has another size than its counts say", err);
    pack->wide_count = (uint32_t)((size - fixed) / 8);
    if (pack->wide_count > pack->count)
        return damaged(pack, "its index has another size than its counts say", err);
    pack->ids = at + head + (second ? 0 : 4);
    pack->offsets = second ? at + head + (size_t)pack->count * 24 : at + head;
    pack->wide = pack->offsets + (size_t)pack->count * 4;
    return REPOSBX_OK;
}

static int map_index(struct pack *pack, int fd, uint64_t size, reposbx_error *err)
{
    void *bytes;

    if (size < FAN_BYTES + TRAILER_BYTES || size > SIZE_MAX / 2)
        return damaged(pack, "its index is cut", err);
    bytes = mmap(NULL, (size_t)size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (bytes == MAP_FAILED)
        return rsbx_fail_memory(err);
    pack->index = bytes;
    pack->index_size = (size_t)size;
    return lay_out(pack, err);
}

/* The pack's head, count and closing hash are those that the index was made for. */
static int check_pack(const struct pack *pack, reposbx_error *err)
{
    uint8_t head[12], hash[RSBX_OID_BYTES];

    if (pack->size < sizeof head + sizeof hash || !read_at(head, sizeof head, pack->fd, 0) ||
        !read_at(hash, sizeof hash, pack->fd, pack->size - sizeof hash))
        return damaged(pack, "the pack is cut", err);
    if (memcmp(head, "PACK", 4) != 0 || be32(head + 4) != 2)
        return damaged(pack, "the pack has no head, or one of an unknown version", err);
    if (be32(head + 8) != pack->count ||
        memcmp(hash, pack->index + pack->index_size - TRAILER_BYTES, sizeof hash) != 0)
        return damaged(pack, "pack and index do not belong together", err);
    return REPOSBX_OK;
}

/* A bounded number stays open, so that no number of packs uses up the descriptors. */
static int open_pack(struct rsbx_packs *packs, struct pack *pack, int folder_fd)
{
    char name[MAX_PACK_NAME + 8];
    size_t turn = packs->opened_next;
    struct pack *oldest =
        packs->opened[turn] < packs->count ? &packs->packs[packs->opened[turn]] : NULL;

    if (oldest != NULL && oldest != pack && oldest->fd >= 0) {
        (void)close(oldest->fd);
        oldest->fd = -1;
    }
    (void)snprintf(name, sizeof name, "%s.pack", pack->name);
    if (open_regular(&pack->fd, &pack->size, folder_fd, name) != 0)
        return -1;
    packs->opened[turn] = (size_t)(pack - packs->packs);
    packs->opened_next = (turn + 1) % MAX_OPEN_PACKS;
    return 0;
}

static int folder_of_packs(const struct rsbx_packs *packs)
{
    return openat(packs->objects_fd, "pack", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

static int add_pack(struct rsbx_packs *packs, int folder_fd, const char *file, size_t length,
                    reposbx_error *err)
{
    RSBX_AUTO(rsbx_fd) int fd = -1;
    struct pack *pack;
    uint64_t size = 0;
    int rc;

    for (size_t i = 0; i < packs->count; i++) {
        if (strlen(packs->packs[i].name) == length &&
            memcmp(packs->packs[i].name, file, length) == 0)
            return REPOSBX_OK;
    }
    if (packs->count == packs->room) {
        size_t room = packs->room > 0 ? 2 * packs->room : 16;

        pack = reallocarray(packs->packs, room, sizeof *pack);
        if (pack == NULL)
            return rsbx_fail_memory(err);
        packs->packs = pack;
        packs->room = room;
    }
    pack = &packs->packs[packs->count];
    memset(pack, 0, sizeof *pack);
    memcpy(pack->name, file, length);
    pack->fd = -1;
    packs->count++;
    /* One half of a pair alone is what a repack that goes on looks like; Git passes it over too. */
    rc = open_pack(packs, pack, folder_fd) == 0 && open_regular(&fd, &size, folder_fd, file) == 0
             ? map_index(pack, fd, size, err) : REPOSBX_ENOTFOUND;
    if (rc == 0)
        rc = check_pack(pack, err);
    if (rc == REPOSBX_ENOTFOUND && errno == ENOENT) {
        if (pack->fd >= 0)
            (void)close(pack->fd);
        packs->count--;
        return REPOSBX_OK;
    }
    return rc == REPOSBX_ENOTFOUND ? damaged(pack, "it cannot be opened", err) : rc;
}

/* Takes in every pack that is not known yet. */
static int scan(struct rsbx_packs *packs, reposbx_error *err)
{
    RSBX_AUTO(rsbx_fd) int folder_fd = folder_of_packs(packs);
    RSBX_AUTO(rsbx_lister) struct rsbx_lister lister = { NULL, NULL };
    const char *name;
    int rc;

    if (folder_fd < 0)
        return errno == ENOENT ? REPOSBX_OK
                               : rsbx_fail_errno(err, REPOSBX_EIO, "cannot open .git/objects/pack");
    rc = rsbx_lister_open(&lister, folder_fd, ".git/objects/pack", err);
    while (rc == 0 && (rc = rsbx_lister_next(&name, &lister, err)) > 0) {
        size_t length = strlen(name);

        rc = length < MAX_PACK_NAME && length > 4 && strcmp(name + length - 4, ".idx") == 0
                 ? add_pack(packs, folder_fd, name, length - 4, err) : 0;
    }
    return rc;
}

int rsbx_packs_open(struct rsbx_packs **out, int objects_fd, reposbx_error *err)
{
    struct rsbx_packs *packs = calloc(1, sizeof *packs);
    int rc;

    if (packs == NULL)
        return rsbx_fail_memory(err);
    packs->objects_fd = objects_fd;
    for (size_t i = 0; i < MAX_OPEN_PACKS; i++)
        packs->opened[i] = SIZE_MAX;
    rc = scan(packs, err);
    if (rc != 0) {
        rsbx_packs_free(packs);
        return rc;
    }
    *out = packs;
    return REPOSBX_OK;
}

void rsbx_packs_free(struct rsbx_packs *packs)
{
    if (packs == NULL)
        return;
    for (size_t i = 0; i < packs->count; i++) {
        struct pack *pack = &packs->packs[i];

        rsbx_git2.git_odb_free(pack->odb);
        if (pack->index != NULL)
            (void)munmap((void *)(uintptr_t)pack->index, pack->index_size);
        if (pack->fd >= 0)
            (void)close(pack->fd);
        free(pack->known);
    }
    free(packs->packs);
    free(packs);
}

static int stands_at(const void *element, const void *oid)
{
    return memcmp(element, oid, RSBX_OID_BYTES);
}

/* The entry of an object, or 0: no entry stands there, the pack's head does. */
static uint64_t offset_in(const struct pack *pack, const uint8_t *oid)
{
    size_t low = oid[0] > 0 ? be32(pack->fan + 4 * (size_t)(oid[0] - 1)) : 0;
    size_t high = be32(pack->fan + 4 * (size_t)oid[0]);
    const uint8_t *found = rsbx_search(pack->ids + low * pack->stride, high - low, pack->stride,
                                       stands_at, oid);
    bool first = pack->stride != RSBX_OID_BYTES;
    const uint8_t *wide;
    uint32_t offset;

    if (found == NULL)
        return 0;
    offset = be32(pack->offsets + (size_t)(found - pack->ids) / pack->stride * (first ? pack->stride : 4));
    if (first || (offset & 0x80000000U) == 0)
        return offset;
    offset &= 0x7fffffffU;
    if (offset >= pack->wide_count)
        return UINT64_MAX;
    wide = pack->wide + (size_t)offset * 8;
    return (uint64_t)be32(wide) << 32 | be32(wide + 4);
}

static struct known *place_of(const struct pack *pack, uint64_t offset)
{
    size_t at = (size_t)((offset * 0x9e3779b97f4a7c15ULL) >> 20) & (pack->known_room - 1);

    while (pack->known[at].offset != 0 && pack->known[at].offset != offset)
        at = (at + 1) & (pack->known_room - 1);
    return &pack->known[at];
}

static int remember(struct pack *pack, uint64_t offset, uint32_t depth, reposbx_error *err)
{
    struct known *place;

    if (2 * (pack->known_count + 1) > pack->known_room) {
        struct known *old = pack->known;
        size_t old_room = pack->known_room;

        pack->known_room = old_room > 0 ? 2 * old_room : 256;
        pack->known = calloc(pack->known_room, sizeof *pack->known);
        if (pack->known == NULL) {
            pack->known = old;
            pack->known_room = old_room;
            return rsbx_fail_memory(err);
        }
        for (size_t i = 0; i < old_room; i++) {
            if (old[i].offset != 0)
                *place_of(pack, old[i].offset) = old[i];
        }
        free(old);
    }
    place = place_of(pack, offset);
    if (place->offset == 0)
        pack->known_count++;
    *place = (struct known){ .offset = offset, .depth = depth };
    return REPOSBX_OK;
}

/* The entry's base, or 0 when it is no delta. Only the head of the entry is read. */
static int base_of(uint64_t *out, const struct pack *pack, uint64_t offset, reposbx_error *err)
{
    uint8_t head[64] = { 0 };
    uint64_t end = pack->size - RSBX_OID_BYTES;
    size_t at = 0, length;
    uint64_t back;
    unsigned type;

    if (offset < 12 || offset >= end)
        return damaged(pack, "an entry is said to be outside of the pack", err);
    length = end - offset < sizeof head ? (size_t)(end - offset) : sizeof head;
    if (!read_at(head, length, pack->fd, offset))
        return damaged(pack, "the pack cannot be read", err);
    type = (head[0] >> 4) & 7U;
    /* What is cut runs into the zeros behind it, and ends there. */
    while ((head[at++] & 0x80U) != 0) {
        if (at > 10)
            return damaged(pack, "an entry has no valid size", err);
    }
    *out = 0;
    if (type == 7) {
        *out = offset_in(pack, head + at);
        return *out != 0 ? REPOSBX_OK : damaged(pack, "the base of a delta is not in the pack", err);
    }
    if (type != 6)
        return REPOSBX_OK;
    back = head[at] & 0x7fU;
    while ((head[at++] & 0x80U) != 0) {
        if (at > 20 || back > UINT64_MAX >> 8)
            return damaged(pack, "a delta has no valid base", err);
        back = (back + 1) << 7 | (head[at] & 0x7fU);
    }
    if (back == 0 || back >= offset)
        return damaged(pack, "the base of a delta is outside of the pack", err);
    *out = offset - back;
    return REPOSBX_OK;
}

static int follow(struct rsbx_packs *packs, struct pack *pack, uint64_t offset, reposbx_error *err)
{
    uint32_t depth = 0;
    size_t steps = 0;

    while (offset != 0) {
        const struct known *known = pack->known_room > 0 ? place_of(pack, offset) : NULL;
        int rc;

        if (known != NULL && known->offset == offset) {
            depth = known->depth + 1;
            break;
        }
        if (steps == MAX_CHAIN)
            return damaged(pack, "a chain of deltas has no end", err);
        packs->chain[steps++] = offset;
        rc = base_of(&offset, pack, offset, err);
        if (rc != 0)
            return rc;
    }
    if (depth + steps > MAX_CHAIN)
        return damaged(pack, "a chain of deltas has no end", err);
    while (steps > 0) {
        int rc = remember(pack, packs->chain[--steps], depth++, err);

        if (rc != 0)
            return rc;
    }
    return REPOSBX_OK;
}

static int backend_of(struct git_odb **out, const struct rsbx_packs *packs, struct pack *pack,
                      reposbx_error *err)
{
    char path[MAX_PACK_NAME + 64];
    git_odb_backend *backend = NULL;

    if (pack->odb == NULL) {
        /* Through the descriptor: what was checked is what is read. */
        (void)snprintf(path, sizeof path, "/proc/self/fd/%d/pack/%s.idx", packs->objects_fd,
                       pack->name);
        if (rsbx_git2.git_odb_new(&pack->odb) != 0)
            return rsbx_fail_memory(err);
        if (rsbx_git2.git_odb_backend_one_pack(&backend, path) != 0)
            return damaged(pack, "it cannot be opened", err);
        if (rsbx_git2.git_odb_add_backend(pack->odb, backend, 1) != 0) {
            backend->free(backend);
            return rsbx_fail_memory(err);
        }
    }
    *out = pack->odb;
    return REPOSBX_OK;
}

static int look_up(struct git_odb **out, struct rsbx_packs *packs, const uint8_t *oid, reposbx_error *err)
{
    for (size_t i = 0; i < packs->count; i++) {
        size_t at = (packs->last + i) % packs->count;
        struct pack *pack = &packs->packs[at];
        uint64_t offset = offset_in(pack, oid);
        int rc = REPOSBX_OK;

        if (offset == 0)
            continue;
        packs->last = at;
        if (pack->fd < 0) {
            RSBX_AUTO(rsbx_fd) int folder_fd = folder_of_packs(packs);

            if (folder_fd < 0 || open_pack(packs, pack, folder_fd) != 0)
                return damaged(pack, "it vanished while it was read", err);
            rc = check_pack(pack, err);
        }
        if (rc == 0)
            rc = follow(packs, pack, offset, err);
        return rc == 0 ? backend_of(out, packs, pack, err) : rc;
    }
    return REPOSBX_ENOTFOUND;
}

int rsbx_packs_find(struct git_odb **out, struct rsbx_packs *packs, const uint8_t *oid, reposbx_error *err)
{
    char hex[RSBX_OID_HEX_BYTES];
    int rc = look_up(out, packs, oid, err);

    if (rc != REPOSBX_ENOTFOUND)
        return rc;
    /* A repack may have put it elsewhere in the meantime. */
    rc = scan(packs, err);
    if (rc == 0)
        rc = look_up(out, packs, oid, err);
    if (rc != REPOSBX_ENOTFOUND)
        return rc;
    rsbx_hex(hex, oid, RSBX_OID_BYTES);
    return rsbx_fail(err, REPOSBX_ENOTFOUND, "object %s is not in the repository", hex);
}
