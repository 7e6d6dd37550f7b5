/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The base tree's entries, as they were streamed: "RSBXMAN1", then for each entry mode (4 bytes),
 * path length (4), size (8), all big endian, blob id (20), path. Written to "manifest.new" and
 * renamed when whole. A reader checks it by rebuilding the tree id.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/limits.h"
#include "guest/protocol.h"
#include "session/internal.h"

#include "base/banned.h"

#define MAGIC "RSBXMAN1"
#define MAGIC_BYTES 8U
#define FIXED_BYTES 36U

struct rsbx_manifest_writer {
    int dir_fd; /* borrowed */
    FILE *file;
};

int rsbx_manifest_begin(struct rsbx_manifest_writer **out, struct rsbx_session *session,
                        reposbx_error *err)
{
    struct rsbx_manifest_writer *writer = calloc(1, sizeof *writer);
    int fd;

    if (writer == NULL)
        return rsbx_fail_memory(err);
    writer->dir_fd = session->dir_fd;
    fd = openat(session->dir_fd, "manifest.new",
                O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    writer->file = fd >= 0 ? fdopen(fd, "w") : NULL;
    if (writer->file == NULL) {
        int rc = rsbx_fail_errno(err, REPOSBX_EIO, "cannot write the manifest");

        if (fd >= 0)
            (void)close(fd);
        free(writer);
        return rc;
    }
    if (fwrite(MAGIC, 1, MAGIC_BYTES, writer->file) != MAGIC_BYTES) {
        rsbx_manifest_free(writer);
        return rsbx_fail_errno(err, REPOSBX_EIO, "cannot write the manifest");
    }
    *out = writer;
    return REPOSBX_OK;
}

int rsbx_manifest_add(struct rsbx_manifest_writer *writer, const char *path, size_t length,
                      uint32_t mode, const uint8_t oid[20], uint64_t size, reposbx_error *err)
{
    uint8_t fixed[FIXED_BYTES];

    rsbx_wire_put_u32(fixed, mode);
    rsbx_wire_put_u32(fixed + 4, (uint32_t)length);
    rsbx_wire_put_u32(fixed + 8, (uint32_t)(size >> 32));
    rsbx_wire_put_u32(fixed + 12, (uint32_t)size);
    memcpy(fixed + 16, oid, 20);
    if (fwrite(fixed, 1, sizeof fixed, writer->file) != sizeof fixed ||
        fwrite(path, 1, length, writer->file) != length)
        return rsbx_fail_errno(err, REPOSBX_EIO, "cannot write the manifest");
    return REPOSBX_OK;
}

int rsbx_manifest_commit(struct rsbx_manifest_writer *writer, reposbx_error *err)
{
    if (fflush(writer->file) != 0 || fsync(fileno(writer->file)) != 0 ||
        renameat(writer->dir_fd, "manifest.new", writer->dir_fd, "manifest") != 0)
        return rsbx_fail_errno(err, REPOSBX_EIO, "cannot finish the manifest");
    return rsbx_sync_fd(writer->dir_fd, "the session folder", err);
}

void rsbx_manifest_free(struct rsbx_manifest_writer *writer)
{
    if (writer == NULL)
        return;
    (void)fclose(writer->file);
    free(writer);
}

static int read_entries(FILE *file, rsbx_manifest_entry entry, void *payload, reposbx_error *err)
{
    char path[RSBX_MAX_PATH_BYTES + 1];
    uint8_t fixed[FIXED_BYTES];
    char magic[MAGIC_BYTES];
    size_t got;

    if (fread(magic, 1, sizeof magic, file) != sizeof magic ||
        memcmp(magic, MAGIC, sizeof magic) != 0)
        return rsbx_fail(err, REPOSBX_EIO, "the session's manifest is damaged");
    while ((got = fread(fixed, 1, sizeof fixed, file)) == sizeof fixed) {
        uint32_t length = rsbx_wire_get_u32(fixed + 4);
        uint64_t size =
            (uint64_t)rsbx_wire_get_u32(fixed + 8) << 32 | rsbx_wire_get_u32(fixed + 12);
        int rc;

        if (length == 0 || length > RSBX_MAX_PATH_BYTES ||
            fread(path, 1, length, file) != length)
            return rsbx_fail(err, REPOSBX_EIO, "the session's manifest is damaged");
        path[length] = '\0';
        rc = entry(payload, path, length, rsbx_wire_get_u32(fixed), fixed + 16, size, err);
        if (rc != 0)
            return rc;
    }
    if (got != 0 || ferror(file) != 0)
        return rsbx_fail(err, REPOSBX_EIO, "the session's manifest is cut short");
    return REPOSBX_OK;
}

int rsbx_manifest_read(struct rsbx_session *session, rsbx_manifest_entry entry, void *payload,
                       reposbx_error *err)
{
    int fd = openat(session->dir_fd, "manifest", O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    FILE *file = fd >= 0 ? fdopen(fd, "r") : NULL;
    int rc;

    if (file == NULL) {
        rc = rsbx_fail_errno(err, REPOSBX_EIO, "cannot open the session's manifest");
        if (fd >= 0)
            (void)close(fd);
        return rc;
    }
    rc = read_entries(file, entry, payload, err);
    (void)fclose(file);
    return rc;
}
