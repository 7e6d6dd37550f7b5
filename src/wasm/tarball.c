/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/text.h"
#include "codec/archive.h"
#include "wasm/internal.h"

#include "base/banned.h"

/*
 * A package from npm is a gzipped tar with everything below "package/". Members are read in memory and
 * nothing is unpacked, so their paths reach no file system; one is only compared with what was asked
 * for. Sizes count before bytes are kept.
 */

typedef struct archive *archive_ptr;

static void release(archive_ptr archive)
{
    (void)rsbx_archive.archive_read_free(archive);
}

RSBX_CLEANUP(archive, archive_ptr, release);

static int damaged(struct archive *archive, reposbx_error *err)
{
    const char *text = rsbx_archive.archive_error_string(archive);

    return rsbx_fail(err, REPOSBX_EMALFORMED, "damaged tarball: %s", text != NULL ? text : "no reason");
}

static bool ends_in_wasm(const char *path)
{
    size_t length = strlen(path);

    return length > 5 && strcmp(path + length - 5, ".wasm") == 0;
}

/* "package/dist/x.wasm" is wanted as itself, as "dist/x.wasm" and as "x.wasm". */
static bool wanted(const char *path, const char *member)
{
    size_t length = strlen(path), asked;

    if (member == NULL)
        return ends_in_wasm(path);
    asked = strlen(member);
    return asked > 0 && asked <= length && strcmp(path + length - asked, member) == 0 &&
           (asked == length || path[length - asked - 1] == '/');
}

static int keep(struct rsbx_buf *out, struct archive *archive, struct archive_entry *entry,
                reposbx_error *err)
{
    la_int64_t size = rsbx_archive.archive_entry_size(entry);
    char *place;

    if (size < 0 || (uint64_t)size > out->limit)
        return rsbx_fail(err, REPOSBX_ELIMIT, "the module in the tarball has more than %zu bytes",
                         out->limit);
    place = rsbx_buf_reserve(out, (size_t)size, err);
    if (place == NULL)
        return REPOSBX_EINTERNAL;
    if (rsbx_archive.archive_read_data(archive, place, (size_t)size) != (la_ssize_t)size)
        return damaged(archive, err);
    out->length = (size_t)size;
    return REPOSBX_OK;
}

/* Counts what a member unpacks to; a bomb ends here. */
static int pass(uint64_t *total, unsigned *members, struct archive_entry *entry, reposbx_error *err)
{
    la_int64_t size = rsbx_archive.archive_entry_size_is_set(entry) != 0
                          ? rsbx_archive.archive_entry_size(entry)
                          : 0;

    if (size < 0 || (uint64_t)size > RSBX_WASM_MAX_UNPACKED_BYTES - *total ||
        ++*members > RSBX_WASM_MAX_MEMBERS)
        return rsbx_fail(err, REPOSBX_ELIMIT, "the tarball holds more than %llu bytes or %u members",
                         RSBX_WASM_MAX_UNPACKED_BYTES, RSBX_WASM_MAX_MEMBERS);
    *total += (uint64_t)size;
    return REPOSBX_OK;
}

static int second_one(const char *first, const char *second, reposbx_error *err)
{
    (void)rsbx_fail(err, REPOSBX_EINVALID, "the tarball holds more than one such module: %s and %s",
                    first, second);
    rsbx_hint(err, "name one with --member");
    return REPOSBX_EINVALID;
}

static int find_member(struct rsbx_buf *out, char **name, struct archive *archive,
                       const char *member, reposbx_error *err)
{
    RSBX_AUTO(rsbx_text) char *found = NULL;
    struct archive_entry *entry;
    uint64_t total = 0;
    unsigned members = 0;
    int rc;

    while ((rc = rsbx_archive.archive_read_next_header(archive, &entry)) == ARCHIVE_OK) {
        const char *path = rsbx_archive.archive_entry_pathname(entry);

        rc = pass(&total, &members, entry, err);
        if (rc != 0)
            return rc;
        if (path == NULL || rsbx_archive.archive_entry_filetype(entry) != AE_IFREG ||
            rsbx_archive.archive_entry_hardlink(entry) != NULL || !wanted(path, member))
            continue;
        if (found != NULL)
            return second_one(found, path, err);
        rc = keep(out, archive, entry, err);
        if (rc != 0)
            return rc;
        found = strdup(path);
        if (found == NULL)
            return rsbx_fail_memory(err);
    }
    if (rc != ARCHIVE_EOF)
        return damaged(archive, err);
    if (found == NULL)
        return rsbx_fail(err, REPOSBX_ENOTFOUND, "the tarball holds no file %s",
                         member != NULL ? member : "that ends in .wasm");
    *name = rsbx_text_steal(&found);
    return REPOSBX_OK;
}

static int read_tarball(struct rsbx_buf *out, char **name, const struct rsbx_buf *file,
                        const char *member, reposbx_error *err)
{
    RSBX_AUTO(archive) archive_ptr archive = rsbx_archive.archive_read_new();

    if (archive == NULL)
        return rsbx_fail_memory(err);
    if (rsbx_archive.archive_read_support_filter_gzip(archive) != ARCHIVE_OK ||
        rsbx_archive.archive_read_support_format_tar(archive) != ARCHIVE_OK ||
        rsbx_archive.archive_read_open_memory(archive, file->data, file->length) != ARCHIVE_OK)
        return damaged(archive, err);
    return find_member(out, name, archive, member, err);
}

/* The last part of a path, printable. */
static int base_name(char **out, const char *path, reposbx_error *err)
{
    char text[RSBX_WASM_NAME_BYTES];
    const char *slash = strrchr(path, '/');
    const char *base = slash != NULL ? slash + 1 : path;

    rsbx_text_printable(text, sizeof text, base, strlen(base));
    *out = strdup(text);
    return *out != NULL ? REPOSBX_OK : rsbx_fail_memory(err);
}

int rsbx_wasm_read(struct rsbx_buf *out, char **name, const char *path, const char *member,
                   reposbx_error *err)
{
    RSBX_AUTO(rsbx_buf) struct rsbx_buf file = RSBX_BUF_INIT(RSBX_WASM_MAX_TARBALL_BYTES);
    RSBX_AUTO(rsbx_text) char *found = NULL;
    int rc = rsbx_read_file_at(&file, AT_FDCWD, path, err);

    if (rc != 0)
        return rc;
    if (file.length > 2 && memcmp(file.data, "\x1f\x8b", 2) == 0) {
        rc = rsbx_archive_load(err);
        if (rc == 0)
            rc = read_tarball(out, &found, &file, member, err);
        return rc != 0 ? rc : base_name(name, found, err);
    }
    if (member != NULL)
        return rsbx_fail(err, REPOSBX_EINVALID, "a member was named, and %s is no tarball", path);
    rc = rsbx_buf_append(out, file.data, file.length, err);
    return rc != 0 ? rc : base_name(name, path, err);
}
