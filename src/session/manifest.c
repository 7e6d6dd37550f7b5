/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The base tree's entries, as they were streamed: "RSBXMAN2"; for each entry mode (4 bytes), path length
 * (4), size (8), all big endian, blob id (20), path; then the table of folders; then where it begins (8),
 * the number of its rows (4) and "RSBXMANE". Everything below a folder stands together, so a row of the
 * table says where that begins (8) and ends (8), with path length (4), tree id (20) and path: who knows a
 * folder by its id may leave it out. Written to "manifest.new" and renamed when whole. A reader checks
 * what it got by computing the tree id of the root.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/limits.h"
#include "guest/protocol.h"
#include "session/internal.h"
#include "source/treeid.h"

#include "base/banned.h"

#define MAGIC "RSBXMAN2"
#define END_MAGIC "RSBXMANE"
#define MAGIC_BYTES 8U
#define FIXED_BYTES 36U
#define ROW_BYTES 40U
#define FOOT_BYTES 20U
#define MAX_TABLE_BYTES (1U << 30)

struct rsbx_manifest_writer {
    int dir_fd; /* borrowed */
    FILE *file;
    struct rsbx_treeid *treeid;
    struct rsbx_buf table;
    uint32_t rows;
    uint64_t at;                                    /* bytes written */
    uint64_t begins[RSBX_MAX_PATH_COMPONENTS + 1]; /* of the open folder of each depth */
};

static void put_u64(uint8_t out[8], uint64_t value)
{
    rsbx_wire_put_u32(out, (uint32_t)(value >> 32));
    rsbx_wire_put_u32(out + 4, (uint32_t)value);
}

static uint64_t get_u64(const uint8_t bytes[8])
{
    return (uint64_t)rsbx_wire_get_u32(bytes) << 32 | rsbx_wire_get_u32(bytes + 4);
}

static void folder_opened(void *payload, size_t depth)
{
    struct rsbx_manifest_writer *writer = payload;

    writer->begins[depth] = writer->at;
}

static int folder_closed(void *payload, size_t depth, const char *path, size_t length,
                         const uint8_t oid[20], reposbx_error *err)
{
    struct rsbx_manifest_writer *writer = payload;
    uint8_t row[ROW_BYTES];
    int rc;

    put_u64(row, writer->begins[depth]);
    put_u64(row + 8, writer->at);
    rsbx_wire_put_u32(row + 16, (uint32_t)length);
    memcpy(row + 20, oid, 20);
    rc = rsbx_buf_append(&writer->table, row, sizeof row, err);
    writer->rows++;
    return rc == 0 ? rsbx_buf_append(&writer->table, path, length, err) : rc;
}

static int put(struct rsbx_manifest_writer *writer, const void *bytes, size_t length,
               reposbx_error *err)
{
    if (fwrite(bytes, 1, length, writer->file) != length)
        return rsbx_fail_errno(err, REPOSBX_EIO, "cannot write the manifest");
    writer->at += length;
    return REPOSBX_OK;
}

static int open_file(struct rsbx_manifest_writer *writer, reposbx_error *err)
{
    int fd = openat(writer->dir_fd, "manifest.new",
                    O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);

    writer->file = fd >= 0 ? fdopen(fd, "w") : NULL;
    if (writer->file == NULL) {
        int rc = rsbx_fail_errno(err, REPOSBX_EIO, "cannot write the manifest");

        if (fd >= 0)
            (void)close(fd);
        return rc;
    }
    return put(writer, MAGIC, MAGIC_BYTES, err);
}

int rsbx_manifest_begin(struct rsbx_manifest_writer **out, struct rsbx_session *session,
                        reposbx_error *err)
{
    struct rsbx_manifest_writer *writer = calloc(1, sizeof *writer);
    const struct rsbx_treeid_watch watch = { folder_opened, folder_closed, writer };
    int rc;

    if (writer == NULL)
        return rsbx_fail_memory(err);
    writer->dir_fd = session->dir_fd;
    writer->table.limit = MAX_TABLE_BYTES;
    rc = rsbx_treeid_new(&writer->treeid, &watch, err);
    if (rc == 0)
        rc = open_file(writer, err);
    if (rc != 0) {
        rsbx_manifest_free(writer);
        return rc;
    }
    *out = writer;
    return REPOSBX_OK;
}

int rsbx_manifest_add(struct rsbx_manifest_writer *writer, const char *path, size_t length,
                      uint32_t mode, const uint8_t oid[20], uint64_t size, reposbx_error *err)
{
    uint8_t fixed[FIXED_BYTES];
    /* Folders that end before this entry get their row first. */
    int rc = rsbx_treeid_add(writer->treeid, path, length, mode, mode, oid, err);

    rsbx_wire_put_u32(fixed, mode);
    rsbx_wire_put_u32(fixed + 4, (uint32_t)length);
    put_u64(fixed + 8, size);
    memcpy(fixed + 16, oid, 20);
    if (rc == 0)
        rc = put(writer, fixed, sizeof fixed, err);
    return rc == 0 ? put(writer, path, length, err) : rc;
}

int rsbx_manifest_commit(struct rsbx_manifest_writer *writer, reposbx_error *err)
{
    uint8_t full[20], streamed[20], foot[FOOT_BYTES];
    int rc = rsbx_treeid_finish(full, streamed, writer->treeid, err);

    put_u64(foot, writer->at);
    rsbx_wire_put_u32(foot + 8, writer->rows);
    memcpy(foot + 12, END_MAGIC, MAGIC_BYTES);
    if (rc == 0)
        rc = put(writer, writer->table.data != NULL ? writer->table.data : "",
                 writer->table.length, err);
    if (rc == 0)
        rc = put(writer, foot, sizeof foot, err);
    if (rc != 0)
        return rc;
    if (fflush(writer->file) != 0 || fsync(fileno(writer->file)) != 0 ||
        renameat(writer->dir_fd, "manifest.new", writer->dir_fd, "manifest") != 0)
        return rsbx_fail_errno(err, REPOSBX_EIO, "cannot finish the manifest");
    return rsbx_sync_fd(writer->dir_fd, "the session folder", err);
}

void rsbx_manifest_free(struct rsbx_manifest_writer *writer)
{
    if (writer == NULL)
        return;
    if (writer->file != NULL)
        (void)fclose(writer->file);
    rsbx_treeid_free(writer->treeid);
    rsbx_buf_dispose(&writer->table);
    free(writer);
}

/* ---- reading ---- */

struct folder {
    uint64_t begin, end;
    const char *path; /* into reader.table */
    uint32_t length;
    uint8_t oid[20];
};

struct reader {
    FILE *file;
    const struct rsbx_manifest_view *view;
    uint64_t at, entries_end;
    char *table;
    struct folder *folders;
    size_t count, next;
};

static void reader_autop(struct reader *reader)
{
    if (reader->file != NULL)
        (void)fclose(reader->file);
    free(reader->table);
    free(reader->folders);
}

static int damaged(reposbx_error *err)
{
    return rsbx_fail(err, REPOSBX_EIO, "the session's manifest is damaged");
}

static int outermost_first(const void *a, const void *b)
{
    const struct folder *x = a, *y = b;

    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    return x->length < y->length ? -1 : x->length > y->length;
}

static int parse_table(struct reader *reader, size_t length, reposbx_error *err)
{
    size_t at = 0;

    for (size_t i = 0; i < reader->count; i++) {
        const uint8_t *row = (const uint8_t *)reader->table + at;
        struct folder *folder = &reader->folders[i];

        if (length - at < ROW_BYTES)
            return damaged(err);
        folder->begin = get_u64(row);
        folder->end = get_u64(row + 8);
        folder->length = rsbx_wire_get_u32(row + 16);
        folder->path = reader->table + at + ROW_BYTES;
        memcpy(folder->oid, row + 20, 20);
        at += ROW_BYTES;
        if (folder->length == 0 || folder->length > length - at || folder->begin < MAGIC_BYTES ||
            folder->end <= folder->begin || folder->end > reader->entries_end)
            return damaged(err);
        at += folder->length;
    }
    if (at != length)
        return damaged(err);
    if (reader->count > 1)
        qsort(reader->folders, reader->count, sizeof *reader->folders, outermost_first);
    return REPOSBX_OK;
}

/* The foot, and the table where somebody wants to leave folders out. */
static int read_end(struct reader *reader, reposbx_error *err)
{
    uint8_t foot[FOOT_BYTES];
    struct stat info;
    uint64_t size, length;

    if (fstat(fileno(reader->file), &info) != 0)
        return rsbx_fail_errno(err, REPOSBX_EIO, "cannot read the session's manifest");
    size = (uint64_t)info.st_size;
    if (size < MAGIC_BYTES + FOOT_BYTES ||
        fseeko(reader->file, (off_t)(size - FOOT_BYTES), SEEK_SET) != 0 ||
        fread(foot, 1, sizeof foot, reader->file) != sizeof foot ||
        memcmp(foot + 12, END_MAGIC, MAGIC_BYTES) != 0)
        return damaged(err);
    reader->entries_end = get_u64(foot);
    reader->count = rsbx_wire_get_u32(foot + 8);
    if (reader->entries_end < MAGIC_BYTES || reader->entries_end > size - FOOT_BYTES)
        return damaged(err);
    length = size - FOOT_BYTES - reader->entries_end;
    if (length > MAX_TABLE_BYTES || reader->count > length / ROW_BYTES)
        return damaged(err);
    if (reader->view->wanted == NULL) {
        reader->count = 0;
        return REPOSBX_OK;
    }
    reader->table = malloc((size_t)length + 1);
    reader->folders = calloc(reader->count + 1, sizeof *reader->folders);
    if (reader->table == NULL || reader->folders == NULL)
        return rsbx_fail_memory(err);
    if (fseeko(reader->file, (off_t)reader->entries_end, SEEK_SET) != 0 ||
        fread(reader->table, 1, (size_t)length, reader->file) != length)
        return damaged(err);
    return parse_table(reader, (size_t)length, err);
}

static int read_entry(struct reader *reader, reposbx_error *err)
{
    char path[RSBX_MAX_PATH_BYTES + 1];
    uint8_t fixed[FIXED_BYTES];
    uint32_t length;

    if (reader->entries_end - reader->at < FIXED_BYTES ||
        fread(fixed, 1, sizeof fixed, reader->file) != sizeof fixed)
        return damaged(err);
    length = rsbx_wire_get_u32(fixed + 4);
    reader->at += FIXED_BYTES;
    if (length == 0 || length > RSBX_MAX_PATH_BYTES || length > reader->entries_end - reader->at ||
        fread(path, 1, length, reader->file) != length)
        return damaged(err);
    reader->at += length;
    path[length] = '\0';
    return reader->view->entry(reader->view->payload, path, length, rsbx_wire_get_u32(fixed),
                               fixed + 16, get_u64(fixed + 8), err);
}

/* 1: a folder that begins here was left out, and what stands behind it is next. */
static int leave_out(struct reader *reader, reposbx_error *err)
{
    while (reader->next < reader->count && reader->folders[reader->next].begin <= reader->at) {
        const struct folder *folder = &reader->folders[reader->next++];
        int rc;

        if (folder->begin < reader->at || /* inside of one that was left out */
            reader->view->wanted(reader->view->payload, folder->path, folder->length))
            continue;
        rc = reader->view->folder(reader->view->payload, folder->path, folder->length, folder->oid,
                                  err);
        if (rc != 0)
            return rc;
        if (fseeko(reader->file, (off_t)folder->end, SEEK_SET) != 0)
            return rsbx_fail_errno(err, REPOSBX_EIO, "cannot read the session's manifest");
        reader->at = folder->end;
        return 1;
    }
    return 0;
}

int rsbx_manifest_read(struct rsbx_session *session, const struct rsbx_manifest_view *view,
                       reposbx_error *err)
{
    __attribute__((cleanup(reader_autop))) struct reader reader = { .view = view };
    int fd = openat(session->dir_fd, "manifest", O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    char magic[MAGIC_BYTES];
    int rc;

    reader.file = fd >= 0 ? fdopen(fd, "r") : NULL;
    if (reader.file == NULL) {
        rc = rsbx_fail_errno(err, REPOSBX_EIO, "cannot open the session's manifest");
        if (fd >= 0)
            (void)close(fd);
        return rc;
    }
    rc = read_end(&reader, err);
    if (rc != 0)
        return rc;
    if (fseeko(reader.file, 0, SEEK_SET) != 0 ||
        fread(magic, 1, sizeof magic, reader.file) != sizeof magic ||
        memcmp(magic, MAGIC, sizeof magic) != 0)
        return damaged(err);
    reader.at = MAGIC_BYTES;
    while (rc >= 0 && reader.at < reader.entries_end) {
        rc = leave_out(&reader, err);
        if (rc == 0)
            rc = read_entry(&reader, err);
    }
    return rc < 0 ? rc : REPOSBX_OK;
}
