/* SPDX-License-Identifier: Apache-2.0 */
#include "codec/tar.h"

#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "codec/archive.h"

#include "base/banned.h"

#define BLOCK_BYTES 512U
#define END_BYTES (2U * BLOCK_BYTES) /* two blocks of zeros end every archive */

typedef struct archive *archive_ptr;
typedef struct archive_entry *entry_ptr;

static void archive_release(struct archive *archive)
{
    (void)rsbx_archive.archive_free(archive);
}

RSBX_CLEANUP(archive, archive_ptr, archive_release);
RSBX_CLEANUP(entry, entry_ptr, rsbx_archive.archive_entry_free);

static la_ssize_t collect(struct archive *archive, void *payload, const void *bytes, size_t length)
{
    (void)archive;
    return rsbx_buf_append(payload, bytes, length, NULL) == 0 ? (la_ssize_t)length : -1;
}

static int write_member(struct archive *archive, const struct rsbx_tar_member *member,
                        reposbx_error *err)
{
    RSBX_AUTO(entry) struct archive_entry *entry = rsbx_archive.archive_entry_new();
    size_t path_length = strlen(member->path);
    bool folder = path_length > 0 && member->path[path_length - 1] == '/';

    if (entry == NULL)
        return rsbx_fail_memory(err);
    if (path_length == 0 || folder != (member->bytes == NULL))
        return rsbx_fail(err, REPOSBX_EINVALID, "tar member \"%s\" is neither file nor folder",
                         member->path);
    rsbx_archive.archive_entry_set_pathname(entry, member->path);
    rsbx_archive.archive_entry_set_filetype(entry, folder ? S_IFDIR : S_IFREG);
    rsbx_archive.archive_entry_set_perm(entry, (mode_t)(member->mode & 07777U));
    rsbx_archive.archive_entry_set_uid(entry, (la_int64_t)member->uid);
    rsbx_archive.archive_entry_set_gid(entry, (la_int64_t)member->gid);
    rsbx_archive.archive_entry_set_mtime(entry, 0, 0);
    rsbx_archive.archive_entry_set_size(entry, folder ? 0 : (la_int64_t)member->length);
    if (rsbx_archive.archive_write_header(archive, entry) != ARCHIVE_OK)
        return rsbx_fail(err, REPOSBX_EINVALID, "tar member \"%s\": %s", member->path,
                         rsbx_archive.archive_error_string(archive));
    if (!folder && member->length > 0 &&
        rsbx_archive.archive_write_data(archive, member->bytes, member->length) !=
            (la_ssize_t)member->length)
        return rsbx_fail(err, REPOSBX_ELIMIT, "tar member \"%s\" does not fit", member->path);
    return REPOSBX_OK;
}

static int write_all(struct rsbx_buf *out, const struct rsbx_tar_member *members, size_t count,
                     reposbx_error *err)
{
    RSBX_AUTO(archive) struct archive *archive = rsbx_archive.archive_write_new();

    if (archive == NULL)
        return rsbx_fail_memory(err);
    /* "Restricted" writes plain ustar wherever that can carry the member. The last record is not
     * padded beyond the end mark. */
    if (rsbx_archive.archive_write_set_format_pax_restricted(archive) != ARCHIVE_OK ||
        rsbx_archive.archive_write_set_bytes_in_last_block(archive, 1) != ARCHIVE_OK ||
        rsbx_archive.archive_write_open(archive, out, NULL, collect, NULL) != ARCHIVE_OK)
        return rsbx_fail(err, REPOSBX_EINTERNAL, "cannot start a tar archive");
    for (size_t i = 0; i < count; i++) {
        int rc = write_member(archive, &members[i], err);

        if (rc != 0)
            return rc;
    }
    if (rsbx_archive.archive_write_close(archive) != ARCHIVE_OK)
        return rsbx_fail(err, REPOSBX_ELIMIT, "a tar archive of more than %zu bytes", out->limit);
    return REPOSBX_OK;
}

int rsbx_tar_write(struct rsbx_buf *out, const struct rsbx_tar_member *members, size_t count,
                   reposbx_error *err)
{
    /* libarchive writes its end even after a fault, so nothing goes to `out` before all is well. */
    RSBX_AUTO(rsbx_buf) struct rsbx_buf whole = RSBX_BUF_INIT(out->limit);
    int rc = rsbx_archive_load(err);

    if (rc == 0)
        rc = write_all(&whole, members, count, err);
    if (rc != 0)
        return rc;
    return rsbx_buf_append(out, whole.data, whole.length, err);
}

/* An archive without its end mark was cut, also where the cut lies between two members. */
static bool has_end(const void *bytes, size_t length)
{
    static const char zeros[END_BYTES];
    const char *start = bytes;

    return length >= END_BYTES && length % BLOCK_BYTES == 0 &&
           memcmp(start + length - END_BYTES, zeros, END_BYTES) == 0;
}

static int damaged(struct archive *archive, reposbx_error *err)
{
    const char *reason = rsbx_archive.archive_error_string(archive);

    return rsbx_fail(err, REPOSBX_EPROTOCOL, "damaged tar archive: %s",
                     reason != NULL ? reason : "no reason given");
}

/* Moves to the next regular file; 1 found, 0 end. */
static int next_file(struct archive_entry **entry, struct archive *archive, reposbx_error *err)
{
    int rc;

    while ((rc = rsbx_archive.archive_read_next_header(archive, entry)) == ARCHIVE_OK) {
        if (rsbx_archive.archive_entry_filetype(*entry) == S_IFREG &&
            rsbx_archive.archive_entry_hardlink(*entry) == NULL)
            return 1;
    }
    return rc == ARCHIVE_EOF ? 0 : damaged(archive, err);
}

static int read_member(struct rsbx_buf *out, struct archive *archive, struct archive_entry *entry,
                       const char *name, reposbx_error *err)
{
    const char *path = rsbx_archive.archive_entry_pathname(entry);
    const char *slash = path != NULL ? strrchr(path, '/') : NULL;
    la_int64_t size = rsbx_archive.archive_entry_size(entry);
    char *place;

    if (path == NULL || strcmp(slash != NULL ? slash + 1 : path, name) != 0)
        return rsbx_fail(err, REPOSBX_EPROTOCOL, "the tar archive holds \"%s\", not \"%s\"",
                         path != NULL ? path : "?", name);
    if (size < 0)
        return rsbx_fail(err, REPOSBX_EPROTOCOL, "damaged tar archive: a size below 0");
    if ((uint64_t)size > out->limit - out->length)
        return rsbx_fail(err, REPOSBX_ELIMIT, "\"%s\" has more than %zu bytes", name,
                         out->limit - out->length);
    place = rsbx_buf_reserve(out, (size_t)size, err);
    if (place == NULL)
        return REPOSBX_EINTERNAL;
    if (rsbx_archive.archive_read_data(archive, place, (size_t)size) != (la_ssize_t)size)
        return damaged(archive, err);
    out->length += (size_t)size;
    out->data[out->length] = '\0';
    return REPOSBX_OK;
}

static int read_whole(struct rsbx_buf *out, struct archive *archive, const char *name,
                      reposbx_error *err)
{
    struct archive_entry *entry;
    int rc = next_file(&entry, archive, err);

    if (rc < 0)
        return rc;
    if (rc == 0)
        return rsbx_fail(err, REPOSBX_EPROTOCOL, "no file \"%s\" in the tar archive", name);
    rc = read_member(out, archive, entry, name, err);
    if (rc != 0)
        return rc;
    do { /* what follows must be sound too */
        rc = next_file(&entry, archive, err);
    } while (rc == 1);
    return rc;
}

int rsbx_tar_read_file(struct rsbx_buf *out, const char *name, const void *bytes, size_t length,
                       reposbx_error *err)
{
    RSBX_AUTO(archive) struct archive *archive = NULL;
    size_t before = out->length;
    int rc = rsbx_archive_load(err);

    if (rc != 0)
        return rc;
    if (!has_end(bytes, length))
        return rsbx_fail(err, REPOSBX_EPROTOCOL, "damaged tar archive: it has no end");
    archive = rsbx_archive.archive_read_new();
    if (archive == NULL)
        return rsbx_fail_memory(err);
    if (rsbx_archive.archive_read_support_format_tar(archive) != ARCHIVE_OK ||
        rsbx_archive.archive_read_open_memory(archive, bytes, length) != ARCHIVE_OK)
        return damaged(archive, err);
    rc = read_whole(out, archive, name, err);
    if (rc != 0) {
        out->length = before;
        if (out->data != NULL)
            out->data[before] = '\0';
    }
    return rc;
}
