/* SPDX-License-Identifier: Apache-2.0 */
#include "artifact/bundle.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <zlib.h>

#include "artifact/internal.h"
#include "artifact/zip.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/text.h"
#include "codec/sha256.h"

#include "base/banned.h"

/* Without limits of the caller: what fits comfortably into memory, which the file is read into. */
#define DEFAULT_MAX_BYTES (1024ULL * 1024ULL * 1024ULL)
#define DEFAULT_MAX_MEMBERS 1000000ULL
#define CHUNK_BYTES 65536U

typedef zip_t *zip_handle_ptr;

RSBX_CLEANUP(zip_handle, zip_handle_ptr, rsbx_zip.zip_discard);
static int damaged(reposbx_error *err, const char *name, const char *why)
{
    return rsbx_fail(err, REPOSBX_EMALFORMED, "not an acceptable ZIP: member %s: %s", name, why);
}

/* Inflates one member and never more of it than announced. Its bytes are one stream and nothing else:
 * most readers would not see what stands behind its end. */
static int inflate_member(struct rsbx_sha256 *hash, uint32_t *sum, const uint8_t *bytes,
                          const struct rsbx_zip_row *row, reposbx_error *err)
{
    z_stream stream = { .next_in = (Bytef *)(uintptr_t)bytes, .avail_in = (uInt)row->packed };
    uint8_t chunk[CHUNK_BYTES];
    uint64_t size = 0;
    int status = inflateInit2(&stream, -MAX_WBITS) == Z_OK ? Z_OK : Z_MEM_ERROR;

    if (status != Z_OK)
        return rsbx_fail_memory(err);
    while (status == Z_OK && size <= row->size) {
        size_t got;

        stream.next_out = chunk;
        stream.avail_out = sizeof chunk;
        status = inflate(&stream, Z_NO_FLUSH);
        got = sizeof chunk - stream.avail_out;
        size += got;
        *sum = (uint32_t)crc32(*sum, chunk, (uInt)got);
        rsbx_sha256_update(hash, chunk, got);
    }
    (void)inflateEnd(&stream);
    if (size > row->size)
        return damaged(err, row->name, "it is larger than announced");
    if (status != Z_STREAM_END)
        return damaged(err, row->name, "its bytes are damaged");
    if (size < row->size)
        return damaged(err, row->name, "it is smaller than announced");
    if (stream.avail_in != 0)
        return damaged(err, row->name, "it has bytes behind its content");
    return REPOSBX_OK;
}

static int hash_member(struct rsbx_bundle_member *out, const uint8_t *file,
                       const struct rsbx_zip_row *row, reposbx_error *err)
{
    RSBX_AUTO(rsbx_sha256) struct rsbx_sha256 *hash = NULL;
    const uint8_t *bytes = file + row->at;
    uint8_t digest[RSBX_SHA256_BYTES];
    uint32_t sum = 0;
    int rc = rsbx_sha256_new(&hash, err);

    if (rc == REPOSBX_OK && row->deflated)
        rc = inflate_member(hash, &sum, bytes, row, err);
    if (rc == REPOSBX_OK && !row->deflated) {
        sum = (uint32_t)crc32_z(0, bytes, (size_t)row->size);
        rsbx_sha256_update(hash, bytes, (size_t)row->size);
    }
    if (rc == REPOSBX_OK && sum != row->sum)
        rc = damaged(err, row->name, "its bytes are damaged");
    if (rc != REPOSBX_OK)
        return rc;
    rsbx_sha256_finish(hash, digest);
    out->name = strdup(row->name);
    if (out->name == NULL)
        return rsbx_fail_memory(err);
    out->size = row->size;
    rsbx_hex(out->sha256, digest, sizeof digest);
    return REPOSBX_OK;
}

/* libzip has to see as many members; what they are was compared in directory.c (libzip would refuse a
 * streamed member whose size its writer knew), and their bytes are read here. */
static int hash_members(struct rsbx_bundle_result *result, const uint8_t *bytes, size_t length,
                        const struct rsbx_zip_rows *rows, reposbx_error *err)
{
    RSBX_AUTO(zip_handle) zip_t *zip = NULL;
    zip_source_t *source;
    zip_error_t error;
    int rc = REPOSBX_OK;

    rsbx_zip.zip_error_init(&error);
    source = rsbx_zip.zip_source_buffer_create(bytes, length, 0, &error);
    if (source == NULL)
        return rsbx_fail_memory(err);
    zip = rsbx_zip.zip_open_from_source(source, ZIP_RDONLY, &error);
    if (zip == NULL) {
        rsbx_zip.zip_source_free(source);
        rc = rsbx_fail(err, REPOSBX_EMALFORMED, "not an acceptable ZIP: %s",
                       rsbx_zip.zip_error_strerror(&error));
        rsbx_zip.zip_error_fini(&error);
        return rc;
    }
    if (rsbx_zip.zip_get_num_entries(zip, 0) != (zip_int64_t)rows->count)
        return rsbx_fail(err, REPOSBX_EMALFORMED,
                         "not an acceptable ZIP: its members can be counted in two ways");
    result->members = calloc(rows->count, sizeof *result->members);
    if (result->members == NULL)
        return rsbx_fail_memory(err);
    for (size_t i = 0; rc == REPOSBX_OK && i < rows->count; i++) {
        if (rows->rows[i].folder)
            continue;
        rc = hash_member(&result->members[result->member_count], bytes, &rows->rows[i], err);
        result->member_count += rc == REPOSBX_OK;
    }
    return rc;
}

/* What a file with allowed content can have at most: an honest ZIP never exceeds it. */
static uint64_t file_bound(const struct rsbx_bundle_limits *limits)
{
    uint64_t members = limits->max_members > DEFAULT_MAX_MEMBERS ? DEFAULT_MAX_MEMBERS
                                                                 : limits->max_members;
    uint64_t content = limits->max_bytes > UINT64_MAX / 4 ? UINT64_MAX / 4 : limits->max_bytes;

    return content + content / 256 + RSBX_ZIP_FIXED_OVERHEAD +
           members * (RSBX_ZIP_MEMBER_OVERHEAD + 2ULL * RSBX_MAX_PATH_BYTES);
}

static int load(char **out, size_t *length, int fd, const struct rsbx_bundle_limits *limits,
                reposbx_error *err)
{
    RSBX_AUTO(rsbx_text) char *bytes = NULL;
    struct stat found;
    ssize_t got;

    if (fstat(fd, &found) != 0)
        return rsbx_fail_errno(err, REPOSBX_EIO, "cannot read the bundle");
    if (!S_ISREG(found.st_mode))
        return rsbx_fail(err, REPOSBX_EMALFORMED, "not an acceptable ZIP: not a regular file");
    if (lseek(fd, 0, SEEK_SET) != 0)
        return rsbx_fail_errno(err, REPOSBX_EIO, "cannot read the bundle");
    if ((uint64_t)found.st_size > file_bound(limits))
        return rsbx_fail(err, REPOSBX_EMALFORMED, "not an acceptable ZIP: larger than allowed");
    bytes = malloc((size_t)found.st_size + 1);
    if (bytes == NULL)
        return rsbx_fail_memory(err);
    got = rsbx_read_full(fd, bytes, (size_t)found.st_size);
    if (got < 0)
        return rsbx_fail_errno(err, REPOSBX_EIO, "cannot read the bundle");
    *length = (size_t)got;
    *out = rsbx_text_steal(&bytes);
    return REPOSBX_OK;
}

int rsbx_bundle_verify_fd(struct rsbx_bundle_result *out, int fd,
                          const struct rsbx_bundle_limits *limits, reposbx_error *err)
{
    RSBX_AUTO(rsbx_text) char *bytes = NULL;
    __attribute__((cleanup(rsbx_zip_rows_autop))) struct rsbx_zip_rows rows = { NULL, 0 };
    struct rsbx_bundle_result result = { .size = 0 };
    size_t length = 0;
    int rc = rsbx_zip_load(err);

    if (rc == REPOSBX_OK)
        rc = load(&bytes, &length, fd, limits, err);
    if (rc == REPOSBX_OK)
        rc = rsbx_zip_directory(&rows, (const uint8_t *)bytes, length, limits, err);
    if (rc == REPOSBX_OK)
        rc = hash_members(&result, (const uint8_t *)bytes, length, &rows, err);
    if (rc != REPOSBX_OK) {
        rsbx_bundle_result_dispose(&result);
        return rc;
    }
    result.size = length;
    rsbx_sha256_hex(result.sha256, bytes, length);
    *out = result;
    return REPOSBX_OK;
}

int rsbx_bundle_verify(struct rsbx_bundle_result *out, const char *path,
                       const struct rsbx_bundle_limits *limits, reposbx_error *err)
{
    static const struct rsbx_bundle_limits defaults = { DEFAULT_MAX_MEMBERS, DEFAULT_MAX_BYTES };
    /* Not blocking: a fifo must not stop us before it is seen to be one. */
    RSBX_AUTO(rsbx_fd) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);

    if (fd < 0 && (errno == ENOENT || errno == ENOTDIR))
        return rsbx_fail(err, REPOSBX_ENOTFOUND, "%s is not there", path);
    if (fd < 0)
        return rsbx_fail_errno(err, REPOSBX_EIO, "cannot open %s", path);
    return rsbx_bundle_verify_fd(out, fd, limits == NULL ? &defaults : limits, err);
}
