/* SPDX-License-Identifier: Apache-2.0 */
#include "artifact/bundle.h"

#include <stdlib.h>
#include <string.h>

#include "artifact/internal.h"
#include "artifact/zip.h"
#include "base/cleanup.h"
#include "base/fault.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/path.h"
#include "base/search.h"
#include "base/text.h"
#include "codec/sha256.h"

#include "base/banned.h"

/*
 * The archive is made in memory by libzip and written by us. Everything that could differ between
 * two hosts is fixed: order, time, attributes, level. The rule for the method: members of less than
 * STORE_BELOW_BYTES and those that deflate does not make smaller are stored, all others deflated.
 * (What deflate makes of given bytes is zlib's: two releases of it may differ.)
 */

#define DEFLATE_LEVEL 6U
/* Deflate's state costs a quarter of a megabyte a member and gains a few bytes here at best. */
#define STORE_BELOW_BYTES 32U
#define DOS_TIME 0U      /* 00:00:00 */
#define DOS_DATE 0x0021U /* 1980-01-01 */
#define REGULAR 0100000U

struct member {
    char *name;
    uint32_t mode;
    char *bytes;
    size_t size;
    char sha256[RSBX_SHA256_HEX_BYTES];
    bool stored;
};

struct rsbx_bundle {
    struct rsbx_bundle_limits limits;
    struct member *members;
    size_t count, capacity;
    uint64_t bytes;
};

RSBX_CLEANUP(zip_source, zip_source_t *, rsbx_zip.zip_source_free);

/* zip_source_t * needs a one-word name for the macro above; so does the handle. */
typedef zip_t *zip_handle_ptr;
RSBX_CLEANUP(zip_handle, zip_handle_ptr, rsbx_zip.zip_discard);

void rsbx_bundle_result_dispose(struct rsbx_bundle_result *result)
{
    for (size_t i = 0; i < result->member_count; i++)
        free(result->members[i].name);
    free(result->members);
    memset(result, 0, sizeof *result);
}

int rsbx_bundle_new(struct rsbx_bundle **out, const struct rsbx_bundle_limits *limits,
                    reposbx_error *err)
{
    struct rsbx_bundle *bundle;
    int rc = rsbx_zip_load(err);

    if (rc != REPOSBX_OK)
        return rc;
    bundle = calloc(1, sizeof *bundle);
    if (bundle == NULL)
        return rsbx_fail_memory(err);
    bundle->limits = *limits;
    *out = bundle;
    return REPOSBX_OK;
}

void rsbx_bundle_free(struct rsbx_bundle *bundle)
{
    if (bundle == NULL)
        return;
    for (size_t i = 0; i < bundle->count; i++) {
        free(bundle->members[i].name);
        free(bundle->members[i].bytes);
    }
    free(bundle->members);
    free(bundle);
}

int rsbx_bundle_check_name(const char *name, size_t length, reposbx_error *err)
{
    char copy[RSBX_MAX_PATH_BYTES + 1], normal[RSBX_MAX_PATH_BYTES + 1];
    int rc;

    if (length == 0 || length > RSBX_MAX_PATH_BYTES || memchr(name, '\0', length) != NULL)
        return rsbx_fail(err, REPOSBX_EPOLICY,
                         "a member's name is empty, has a NUL or is longer than %u bytes",
                         RSBX_MAX_PATH_BYTES);
    if (!rsbx_utf8_valid(name, length))
        return rsbx_fail(err, REPOSBX_EPOLICY, "a member's name is not UTF-8: %.*s", (int)length,
                         name);
    memcpy(copy, name, length);
    copy[length] = '\0';
    /* "C:/x" is absolute to those who unpack on Windows. */
    if (length > 2 && (copy[0] | 0x20) >= 'a' && (copy[0] | 0x20) <= 'z' && copy[1] == ':' &&
        copy[2] == '/')
        return rsbx_fail(err, REPOSBX_EPOLICY, "a member's name begins with a drive: %s", copy);
    rc = rsbx_path_request(normal, copy, false, "member", err);
    if (rc == REPOSBX_OK && strcmp(copy, normal) != 0)
        return rsbx_fail(err, REPOSBX_EPOLICY, "a member's name is not in normal form: %s", copy);
    return rc;
}

int rsbx_bundle_add(struct rsbx_bundle *bundle, const char *name, size_t name_length, uint32_t mode,
                    const void *bytes, size_t length, reposbx_error *err)
{
    struct member *member;
    int rc = rsbx_bundle_check_name(name, name_length, err);

    if (rc != REPOSBX_OK)
        return rc;
    if (mode != 0644U && mode != 0755U)
        return rsbx_fail(err, REPOSBX_EINVALID, "a member's mode is 0644 or 0755, not %o", mode);
    if (bundle->count >= bundle->limits.max_members)
        return rsbx_fail(err, REPOSBX_ELIMIT, "more than %llu members",
                         (unsigned long long)bundle->limits.max_members);
    if (length > bundle->limits.max_bytes || bundle->bytes > bundle->limits.max_bytes - length)
        return rsbx_fail(err, REPOSBX_ELIMIT, "more than %llu bytes in all members",
                         (unsigned long long)bundle->limits.max_bytes);
    if (bundle->count == bundle->capacity) {
        size_t wanted = bundle->capacity == 0 ? 64 : bundle->capacity * 2;
        struct member *larger = realloc(bundle->members, wanted * sizeof *larger);

        if (larger == NULL)
            return rsbx_fail_memory(err);
        bundle->members = larger;
        bundle->capacity = wanted;
    }
    member = &bundle->members[bundle->count];
    memset(member, 0, sizeof *member);
    member->name = strndup(name, name_length);
    member->bytes = malloc(length + 1);
    if (member->name == NULL || member->bytes == NULL) {
        free(member->name);
        free(member->bytes);
        return rsbx_fail_memory(err);
    }
    if (length > 0)
        memcpy(member->bytes, bytes, length);
    member->size = length;
    member->mode = mode;
    member->stored = length < STORE_BELOW_BYTES;
    rsbx_sha256_hex(member->sha256, member->bytes, length);
    bundle->bytes += length;
    bundle->count++;
    return REPOSBX_OK;
}

static int by_name(const void *a, const void *b)
{
    const struct member *left = a, *right = b;

    return strcmp(left->name, right->name); /* strcmp compares as unsigned bytes, in any locale */
}

static int order_name(const void *element, const void *key)
{
    return strcmp(*(const char *const *)element, key);
}

const char *rsbx_bundle_conflict(const char *const *sorted, size_t count)
{
    for (size_t i = 1; i < count; i++) {
        if (strcmp(sorted[i - 1], sorted[i]) == 0)
            return sorted[i];
    }
    for (size_t i = 0; i < count; i++) {
        char prefix[RSBX_MAX_PATH_BYTES + 1];

        /* Other names may stand between "a" and "a/b"; so each folder part is looked up. */
        for (const char *slash = strchr(sorted[i], '/'); slash != NULL;
             slash = strchr(slash + 1, '/')) {
            size_t length = (size_t)(slash - sorted[i]);

            memcpy(prefix, sorted[i], length);
            prefix[length] = '\0';
            if (rsbx_search(sorted, i, sizeof *sorted, order_name, prefix) != NULL)
                return sorted[i];
        }
    }
    return NULL;
}

static int sort_members(struct rsbx_bundle *bundle, reposbx_error *err)
{
    RSBX_AUTO(rsbx_memory) void *memory = calloc(bundle->count + 1, sizeof(char *));
    const char **names = memory;
    const char *conflict;

    if (bundle->count == 0)
        return rsbx_fail(err, REPOSBX_EINVALID, "a bundle without members");
    if (names == NULL)
        return rsbx_fail_memory(err);
    qsort(bundle->members, bundle->count, sizeof *bundle->members, by_name);
    for (size_t i = 0; i < bundle->count; i++)
        names[i] = bundle->members[i].name;
    conflict = rsbx_bundle_conflict(names, bundle->count);
    if (conflict != NULL)
        return rsbx_fail(err, REPOSBX_EINVALID, "%s is a member twice, or below another member",
                         conflict);
    return REPOSBX_OK;
}

static int library_failed(reposbx_error *err, const char *what, zip_error_t *error)
{
    int rc = rsbx_fail(err, REPOSBX_EINTERNAL, "%s: %s", what, rsbx_zip.zip_error_strerror(error));

    rsbx_zip.zip_error_fini(error);
    return rc;
}

static int put_member(zip_t *zip, const struct member *member, reposbx_error *err)
{
    zip_source_t *source = rsbx_zip.zip_source_buffer(zip, member->bytes, member->size, 0);
    zip_int64_t place;

    if (source == NULL)
        return rsbx_fail_memory(err);
    place = rsbx_zip.zip_file_add(zip, member->name, source, ZIP_FL_ENC_UTF_8);
    if (place < 0) {
        rsbx_zip.zip_source_free(source);
        return rsbx_fail(err, REPOSBX_EINTERNAL, "adding %s: %s", member->name,
                         rsbx_zip.zip_strerror(zip));
    }
    if (rsbx_zip.zip_set_file_compression(zip, (zip_uint64_t)place,
                                 member->stored ? ZIP_CM_STORE : ZIP_CM_DEFLATE,
                                 member->stored ? 0 : DEFLATE_LEVEL) != 0 ||
        rsbx_zip.zip_file_set_dostime(zip, (zip_uint64_t)place, DOS_TIME, DOS_DATE, 0) != 0 ||
        rsbx_zip.zip_file_set_external_attributes(zip, (zip_uint64_t)place, 0, ZIP_OPSYS_UNIX,
                                         (zip_uint32_t)(REGULAR | member->mode) << 16) != 0)
        return rsbx_fail(err, REPOSBX_EINTERNAL, "setting up %s: %s", member->name,
                         rsbx_zip.zip_strerror(zip));
    return REPOSBX_OK;
}

static int build(zip_source_t **out, const struct rsbx_bundle *bundle, reposbx_error *err)
{
    zip_error_t error;
    RSBX_AUTO(zip_source) zip_source_t *source = NULL;
    RSBX_AUTO(zip_handle) zip_t *zip = NULL;
    int rc = REPOSBX_OK;

    rsbx_zip.zip_error_init(&error);
    source = rsbx_zip.zip_source_buffer_create(NULL, 0, 0, &error);
    if (source == NULL)
        return library_failed(err, "starting a bundle", &error);
    zip = rsbx_zip.zip_open_from_source(source, ZIP_CREATE | ZIP_TRUNCATE, &error);
    if (zip == NULL)
        return library_failed(err, "starting a bundle", &error);
    rsbx_zip.zip_source_keep(source); /* the archive holds the other reference */
    for (size_t i = 0; rc == REPOSBX_OK && i < bundle->count; i++)
        rc = put_member(zip, &bundle->members[i], err);
    if (rc != REPOSBX_OK)
        return rc;
    if (rsbx_zip.zip_close(zip) != 0)
        return rsbx_fail(err, REPOSBX_EINTERNAL, "making a bundle: %s", rsbx_zip.zip_strerror(zip));
    (void)zip_handle_steal(&zip);
    *out = zip_source_steal(&source);
    return REPOSBX_OK;
}

/* Marks the members that deflate did not make smaller; whether there are any. */
static int find_stored(bool *any, struct rsbx_bundle *bundle, zip_source_t *source,
                       reposbx_error *err)
{
    zip_error_t error;
    RSBX_AUTO(zip_handle) zip_t *zip = NULL;

    rsbx_zip.zip_error_init(&error);
    zip = rsbx_zip.zip_open_from_source(source, ZIP_RDONLY, &error);
    if (zip == NULL)
        return library_failed(err, "reading a bundle", &error);
    rsbx_zip.zip_source_keep(source);
    *any = false;
    for (size_t i = 0; i < bundle->count; i++) {
        zip_stat_t found;

        if (rsbx_zip.zip_stat_index(zip, i, 0, &found) != 0 ||
            (found.valid & ZIP_STAT_COMP_SIZE) == 0)
            return rsbx_fail(err, REPOSBX_EINTERNAL, "reading a bundle: %s",
                             rsbx_zip.zip_strerror(zip));
        if (!bundle->members[i].stored && found.comp_size >= bundle->members[i].size)
            *any = bundle->members[i].stored = true;
    }
    return REPOSBX_OK;
}

/* From libzip's memory to the file, hashing on the way. */
static int write_out(struct rsbx_bundle_result *result, int fd, zip_source_t *source,
                     reposbx_error *err)
{
    RSBX_AUTO(rsbx_sha256) struct rsbx_sha256 *hash = NULL;
    RSBX_AUTO(rsbx_memory) void *chunk = malloc(65536);
    uint8_t digest[RSBX_SHA256_BYTES];
    int rc = rsbx_sha256_new(&hash, err);

    if (rc != REPOSBX_OK)
        return rc;
    if (chunk == NULL)
        return rsbx_fail_memory(err);
    if (rsbx_zip.zip_source_open(source) != 0)
        return rsbx_fail(err, REPOSBX_EINTERNAL, "reading a bundle back");
    for (;;) {
        zip_int64_t got = rsbx_zip.zip_source_read(source, chunk, 65536);

        if (got == 0)
            break;
        if (got < 0)
            rc = rsbx_fail(err, REPOSBX_EINTERNAL, "reading a bundle back");
        else if (rsbx_write_all(fd, chunk, (size_t)got) != 0)
            rc = rsbx_fail_errno(err, REPOSBX_EIO, "writing the bundle");
        if (rc != REPOSBX_OK)
            break;
        rsbx_sha256_update(hash, chunk, (size_t)got);
        result->size += (uint64_t)got;
    }
    (void)rsbx_zip.zip_source_close(source);
    if (rc != REPOSBX_OK)
        return rc;
    rsbx_sha256_finish(hash, digest);
    rsbx_hex(result->sha256, digest, sizeof digest);
    return rsbx_sync_fd(fd, "the bundle", err);
}

/* What the file holds must be what was added, and nothing else. */
static int compare(const struct rsbx_bundle *bundle, const struct rsbx_bundle_result *written,
                   const struct rsbx_bundle_result *found, reposbx_error *err)
{
    bool same = found->size == written->size && strcmp(found->sha256, written->sha256) == 0 &&
                found->member_count == bundle->count;

    for (size_t i = 0; same && i < bundle->count; i++)
        same = strcmp(found->members[i].name, bundle->members[i].name) == 0 &&
               found->members[i].size == bundle->members[i].size &&
               strcmp(found->members[i].sha256, bundle->members[i].sha256) == 0;
    return same ? REPOSBX_OK
                : rsbx_fail(err, REPOSBX_EIO, "the bundle on disk is not the one that was written");
}

static int make_source(zip_source_t **out, struct rsbx_bundle *bundle, reposbx_error *err)
{
    RSBX_AUTO(zip_source) zip_source_t *first = NULL;
    bool any = false;
    int rc = build(&first, bundle, err);

    if (rc == REPOSBX_OK)
        rc = find_stored(&any, bundle, first, err);
    if (rc != REPOSBX_OK)
        return rc;
    if (!any) {
        *out = zip_source_steal(&first);
        return REPOSBX_OK;
    }
    rsbx_zip.zip_source_free(zip_source_steal(&first)); /* one archive in memory at a time */
    return build(out, bundle, err);
}

int rsbx_bundle_finish(struct rsbx_bundle_result *out, struct rsbx_bundle *bundle, const char *path,
                       reposbx_error *err)
{
    __attribute__((cleanup(rsbx_pending_autop)))
    struct rsbx_pending pending = { .dir_fd = -1, .fd = -1 };
    RSBX_AUTO(zip_source) zip_source_t *source = NULL;
    struct rsbx_bundle_result written = { .size = 0 };
    struct rsbx_bundle_result found = { .size = 0 };
    int rc = sort_members(bundle, err);

    if (rc == REPOSBX_OK)
        rc = rsbx_pending_open(&pending, path, false, err);
    if (rc == REPOSBX_OK)
        rc = make_source(&source, bundle, err);
    if (rc == REPOSBX_OK)
        rc = write_out(&written, pending.fd, source, err);
    RSBX_FAULT("bundle_written");
    if (rc == REPOSBX_OK)
        rc = rsbx_bundle_verify_fd(&found, pending.fd, &bundle->limits, err);
    if (rc != REPOSBX_OK)
        return rc;
    rc = compare(bundle, &written, &found, err);
    if (rc == REPOSBX_OK)
        rc = rsbx_pending_publish(&pending, err);
    if (rc != REPOSBX_OK)
        rsbx_bundle_result_dispose(&found);
    else
        *out = found;
    return rc;
}
