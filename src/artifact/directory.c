/* SPDX-License-Identifier: Apache-2.0 */
#include "artifact/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/text.h"

#include "base/banned.h"

/*
 * The structure of a ZIP, read by ourselves (APPNOTE.TXT 6.3.3, sections 4.3 to 4.5), because
 * readers disagree about everything that this file refuses: a name with a NUL, a local header that
 * says something else than the directory, bytes that belong to no member, members that overlap.
 */

#define END_SIGNATURE 0x06054b50U
#define END_BYTES 22U
#define END64_SIGNATURE 0x06064b50U
#define END64_BYTES 56U
#define LOCATOR_SIGNATURE 0x07064b50U
#define LOCATOR_BYTES 20U
#define CENTRAL_SIGNATURE 0x02014b50U
#define CENTRAL_BYTES 46U
#define LOCAL_SIGNATURE 0x04034b50U
#define LOCAL_BYTES 30U
#define DESCRIPTOR_SIGNATURE 0x08074b50U
#define MAX_COMMENT_BYTES 65535U
/* deflate's level, data descriptor, UTF-8 name */
#define FLAGS_KNOWN (0x0002U | 0x0004U | 0x0008U | 0x0800U)
#define FLAG_ENCRYPTED 0x0001U
#define FLAG_DESCRIPTOR 0x0008U
#define FLAG_UTF8 0x0800U
#define UNICODE_PATH_FIELD 0x7075U
#define ZIP64_FIELD 0x0001U
#define ATTRIBUTE_FOLDER 0x10U

struct image {
    const uint8_t *bytes;
    uint64_t length;
    const struct rsbx_bundle_limits *limits;
    reposbx_error *err;
};

struct span {
    uint64_t start, end;
    const uint8_t *descriptor; /* the row whose sizes stand behind the member; NULL: nothing does */
};

static uint32_t get16(const uint8_t *bytes)
{
    return (uint32_t)bytes[0] | (uint32_t)bytes[1] << 8;
}

static uint32_t get32(const uint8_t *bytes)
{
    return get16(bytes) | get16(bytes + 2) << 16;
}

static uint64_t get64(const uint8_t *bytes)
{
    return (uint64_t)get32(bytes) | (uint64_t)get32(bytes + 4) << 32;
}

static int bad(const struct image *image, const char *what)
{
    return rsbx_fail(image->err, REPOSBX_EMALFORMED, "not an acceptable ZIP: %s", what);
}

void rsbx_zip_rows_autop(struct rsbx_zip_rows *rows)
{
    for (size_t i = 0; i < rows->count; i++)
        free(rows->rows[i].name);
    free(rows->rows);
    rows->rows = NULL;
    rows->count = 0;
}

struct end {
    uint64_t count, size, offset; /* of the central directory */
    uint64_t at;                  /* where the end records begin */
};

/* The zip64 record, when the plain one points to it by its marks. */
static int read_end64(struct end *end, const struct image *image)
{
    const uint8_t *locator, *record;
    uint64_t at;

    if (end->at < LOCATOR_BYTES + END64_BYTES)
        return bad(image, "its end record is cut short");
    locator = image->bytes + end->at - LOCATOR_BYTES;
    at = end->at - LOCATOR_BYTES - END64_BYTES;
    record = image->bytes + at;
    if (get32(locator) != LOCATOR_SIGNATURE || get32(locator + 4) != 0 ||
        get64(locator + 8) != at || get32(locator + 16) != 1 ||
        get32(record) != END64_SIGNATURE || get64(record + 4) != END64_BYTES - 12 ||
        get32(record + 16) != 0 || get32(record + 20) != 0 ||
        get64(record + 24) != get64(record + 32))
        return bad(image, "its zip64 end record is wrong");
    if ((end->count != 0xffffU && end->count != get64(record + 32)) ||
        (end->size != 0xffffffffU && end->size != get64(record + 40)) ||
        (end->offset != 0xffffffffU && end->offset != get64(record + 48)))
        return bad(image, "its two end records disagree");
    end->count = get64(record + 32);
    end->size = get64(record + 40);
    end->offset = get64(record + 48);
    end->at = at;
    return REPOSBX_OK;
}

static int read_end(struct end *out, const struct image *image)
{
    struct end end = { 0, 0, 0, 0 };
    const uint8_t *record = NULL;
    int rc = REPOSBX_OK;

    for (uint64_t comment = 0; comment <= MAX_COMMENT_BYTES; comment++) {
        if (image->length < END_BYTES + comment)
            break;
        end.at = image->length - END_BYTES - comment;
        record = image->bytes + end.at;
        if (get32(record) == END_SIGNATURE && get16(record + 20) == comment)
            break;
        record = NULL;
    }
    if (record == NULL)
        return bad(image, "it has no end record");
    /* Readers look for it from the end, and not all of them ask whether the comment fits. */
    if (memmem(record + 4, END_BYTES - 4 + get16(record + 20), "PK\5\6", 4) != NULL)
        return bad(image, "it has a second end record in its comment");
    if (get16(record + 4) != 0 || get16(record + 6) != 0 ||
        get16(record + 8) != get16(record + 10))
        return bad(image, "it is one of several parts");
    end.count = get16(record + 10);
    end.size = get32(record + 12);
    end.offset = get32(record + 16);
    /* Some writers give the zip64 record where none is needed; then both say the same. */
    if (end.count == 0xffffU || end.size == 0xffffffffU || end.offset == 0xffffffffU ||
        (end.at >= LOCATOR_BYTES &&
         get32(image->bytes + end.at - LOCATOR_BYTES) == LOCATOR_SIGNATURE))
        rc = read_end64(&end, image);
    if (rc != REPOSBX_OK)
        return rc;
    if (end.offset > end.at || end.size != end.at - end.offset ||
        end.count > end.size / CENTRAL_BYTES)
        return bad(image, "its directory does not end where the end record begins");
    if (end.count == 0)
        return bad(image, "it has no member");
    if (end.count > image->limits->max_members)
        return bad(image, "it has more members than allowed");
    *out = end;
    return REPOSBX_OK;
}

/* Extra fields must parse, and none may give the member another name. */
static int check_extra(const struct image *image, const uint8_t *extra, size_t length)
{
    size_t at = 0;

    while (at < length) {
        size_t size;

        if (length - at < 4)
            return bad(image, "an extra field is cut short");
        size = get16(extra + at + 2);
        if (size > length - at - 4)
            return bad(image, "an extra field is cut short");
        if (get16(extra + at) == UNICODE_PATH_FIELD)
            return bad(image, "a member has a second name");
        at += 4 + size;
    }
    return REPOSBX_OK;
}

static int check_kind(const struct image *image, const uint8_t *row, bool folder)
{
    uint32_t flags = get16(row + 8), method = get16(row + 10), attributes = get32(row + 38);
    uint32_t type = attributes >> 16 & 0170000U;

    if ((flags & FLAG_ENCRYPTED) != 0)
        return bad(image, "a member is encrypted");
    if ((flags & ~FLAGS_KNOWN) != 0)
        return bad(image, "a member has unknown flags");
    if (method != 0 && method != 8)
        return bad(image, "a member is neither stored nor deflated");
    if (folder && (method != 0 || get32(row + 20) != 0 || get32(row + 24) != 0))
        return bad(image, "a member that is a folder has content");
    if (type != 0 && type != (folder ? 0040000U : 0100000U))
        return bad(image, type == 0120000U   ? "a member is a symlink"
                          : type == 0040000U ? "a member is a folder"
                                             : "a member is no regular file");
    if (!folder && (attributes & ATTRIBUTE_FOLDER) != 0)
        return bad(image, "a member is a folder");
    if (!folder && (attributes >> 16 & 06000U) != 0)
        return bad(image, "a member would run as another user (setuid or setgid)");
    if (get16(row + 34) != 0)
        return bad(image, "it is one of several parts");
    return REPOSBX_OK;
}

/* Whether the sizes of a local header stand in its zip64 field, as writers do that do not know them
 * beforehand, and are those of the row (or, where a descriptor follows, 0). */
static bool zip64_sizes(const uint8_t *local, const uint8_t *row, bool descriptor)
{
    const uint8_t *extra = local + LOCAL_BYTES + get16(local + 26);
    size_t length = get16(local + 28);

    if (get32(local + 18) != 0xffffffffU || get32(local + 22) != 0xffffffffU)
        return false;
    while (length >= 4 && length - 4 >= get16(extra + 2)) {
        size_t size = get16(extra + 2);

        if (get16(extra) == ZIP64_FIELD)
            return size == 16 &&
                   ((get64(extra + 4) == get32(row + 24) && get64(extra + 12) == get32(row + 20)) ||
                    (descriptor && get64(extra + 4) == 0 && get64(extra + 12) == 0));
        extra += 4 + size;
        length -= 4 + size;
    }
    return false;
}

/* Where a descriptor follows, what a writer did not know yet is 0; some know the size already. */
static bool same_word(const uint8_t *local, const uint8_t *row, bool descriptor)
{
    return memcmp(local, row, 4) == 0 || (descriptor && get32(local) == 0);
}

/* The sizes and the sum of a local header, against the directory's row. */
static bool same_sizes(const uint8_t *local, const uint8_t *row, bool descriptor)
{
    return same_word(local + 14, row + 16, descriptor) &&
           (zip64_sizes(local, row, descriptor) || (same_word(local + 18, row + 20, descriptor) &&
                                                    same_word(local + 22, row + 24, descriptor)));
}

/* The local header must repeat the directory's row. */
static int check_local(struct rsbx_zip_row *out, struct span *span, const struct image *image,
                       const uint8_t *row, uint64_t directory_at)
{
    uint64_t at = get32(row + 42), packed = get32(row + 20), after;
    size_t name_length = get16(row + 28);
    const uint8_t *local = image->bytes + at;
    bool descriptor = (get16(row + 8) & FLAG_DESCRIPTOR) != 0;
    int rc;

    if (at > directory_at || directory_at - at < LOCAL_BYTES + name_length)
        return bad(image, "a member lies outside");
    /* version, flags, method, time and date stand in one piece in both */
    if (get32(local) != LOCAL_SIGNATURE || memcmp(local + 4, row + 6, 10) != 0 ||
        get16(local + 26) != name_length ||
        memcmp(local + LOCAL_BYTES, row + CENTRAL_BYTES, name_length) != 0)
        return bad(image, "a member's two headers disagree");
    after = at + LOCAL_BYTES + name_length + get16(local + 28);
    if (after > directory_at || packed > directory_at - after)
        return bad(image, "a member lies outside");
    if (!same_sizes(local, row, descriptor))
        return bad(image, "a member's two headers disagree");
    rc = check_extra(image, local + LOCAL_BYTES + name_length, get16(local + 28));
    out->at = after;
    out->packed = packed;
    out->sum = get32(row + 16);
    out->deflated = get16(row + 10) == 8;
    *span = (struct span){ at, after + packed, descriptor ? row : NULL };
    return rc;
}

static int read_row(struct rsbx_zip_row *out, struct span *span, const struct image *image,
                    const uint8_t *row, uint64_t left, uint64_t directory_at)
{
    size_t name_length = get16(row + 28), extra = get16(row + 30), comment = get16(row + 32);
    const char *name = (const char *)row + CENTRAL_BYTES;
    bool ascii = true;
    int rc;

    if (left - CENTRAL_BYTES < name_length + extra + comment)
        return bad(image, "its directory is cut short");
    out->folder = name_length > 1 && name[name_length - 1] == '/';
    if (out->folder)
        name_length--;
    rc = rsbx_bundle_check_name(name, name_length, image->err);
    if (rc == REPOSBX_EPOLICY) {
        rsbx_context(image->err, "not an acceptable ZIP");
        if (image->err != NULL)
            image->err->code = REPOSBX_EMALFORMED;
        return REPOSBX_EMALFORMED;
    }
    for (size_t i = 0; i < name_length; i++)
        ascii = ascii && (uint8_t)name[i] < 0x80;
    if (rc == REPOSBX_OK && !ascii && (get16(row + 8) & FLAG_UTF8) == 0)
        return bad(image, "a member's name is not marked as UTF-8");
    if (rc == REPOSBX_OK)
        rc = check_kind(image, row, out->folder);
    if (rc == REPOSBX_OK)
        rc = check_extra(image, row + CENTRAL_BYTES + get16(row + 28), extra);
    if (rc != REPOSBX_OK)
        return rc;
    out->size = get32(row + 24);
    if (out->size == 0xffffffffU || get32(row + 20) == 0xffffffffU ||
        get32(row + 42) == 0xffffffffU)
        return bad(image, "a member has 4 GiB or more");
    if (get16(row + 10) == 0 && out->size != get32(row + 20))
        return bad(image, "a stored member has two sizes");
    rc = check_local(out, span, image, row, directory_at);
    if (rc == REPOSBX_OK) {
        /* "folder//": below every file of that name, twice where it stands twice, above nothing. */
        rc = asprintf(&out->name, "%.*s%s", (int)name_length, name, out->folder ? "//" : "") < 0
                 ? rsbx_fail_memory(image->err)
                 : REPOSBX_OK;
    }
    return rc;
}

static int by_start(const void *a, const void *b)
{
    const struct span *left = a, *right = b;

    return (left->start > right->start) - (left->start < right->start);
}

/* What stands behind a member repeats the directory's row, too: its signature (not always), its sum and
 * its two sizes, which have eight bytes each in zip64 form. */
static bool good_descriptor(const uint8_t *bytes, uint64_t length, const uint8_t *row)
{
    if (length == 16 || length == 24) {
        if (get32(bytes) != DESCRIPTOR_SIGNATURE)
            return false;
        bytes += 4;
        length -= 4;
    }
    if (length == 12)
        return memcmp(bytes, row + 16, 12) == 0;
    return length == 20 && get32(bytes) == get32(row + 16) && get64(bytes + 4) == get32(row + 20) &&
           get64(bytes + 12) == get32(row + 24);
}

/* Every byte before the directory belongs to exactly one member. */
static int check_cover(const struct image *image, struct span *spans, size_t count, uint64_t end)
{
    qsort(spans, count, sizeof *spans, by_start);
    if (spans[0].start != 0)
        return bad(image, "it has bytes before the first member");
    for (size_t i = 0; i < count; i++) {
        uint64_t next = i + 1 < count ? spans[i + 1].start : end;
        uint64_t gap;

        if (next < spans[i].end)
            return bad(image, "members overlap");
        gap = next - spans[i].end;
        if (spans[i].descriptor == NULL && gap != 0)
            return bad(image, "it has bytes between the members");
        if (spans[i].descriptor != NULL &&
            !good_descriptor(image->bytes + spans[i].end, gap, spans[i].descriptor))
            return bad(image, "what stands behind a member is not its descriptor");
    }
    return REPOSBX_OK;
}

static int by_text(const void *a, const void *b)
{
    const char *const *left = a, *const *right = b;

    return strcmp(*left, *right);
}

static int check_names(const struct image *image, const struct rsbx_zip_rows *rows)
{
    RSBX_AUTO(rsbx_memory) void *memory = calloc(rows->count + 1, sizeof(char *));
    const char **names = memory;

    if (names == NULL)
        return rsbx_fail_memory(image->err);
    for (size_t i = 0; i < rows->count; i++)
        names[i] = rows->rows[i].name;
    qsort(names, rows->count, sizeof *names, by_text);
    return rsbx_bundle_conflict(names, rows->count) == NULL
               ? REPOSBX_OK
               : bad(image, "a name stands twice, or below another member");
}

int rsbx_zip_directory(struct rsbx_zip_rows *out, const uint8_t *bytes, size_t length,
                       const struct rsbx_bundle_limits *limits, reposbx_error *err)
{
    struct image image = { bytes, length, limits, err };
    __attribute__((cleanup(rsbx_zip_rows_autop))) struct rsbx_zip_rows rows = { NULL, 0 };
    RSBX_AUTO(rsbx_memory) void *memory = NULL;
    struct end end = { 0, 0, 0, 0 };
    uint64_t at, total = 0, files = 0;
    int rc = read_end(&end, &image);

    if (rc != REPOSBX_OK)
        return rc;
    rows.rows = calloc((size_t)end.count, sizeof *rows.rows);
    memory = calloc((size_t)end.count, sizeof(struct span));
    if (rows.rows == NULL || memory == NULL)
        return rsbx_fail_memory(err);
    at = end.offset;
    for (uint64_t i = 0; i < end.count; i++) {
        const uint8_t *row = bytes + at;

        if (end.at - at < CENTRAL_BYTES || get32(row) != CENTRAL_SIGNATURE)
            return bad(&image, "its directory is cut short");
        rc = read_row(&rows.rows[i], (struct span *)memory + i, &image, row, end.at - at,
                      end.offset);
        if (rc != REPOSBX_OK)
            return rc;
        rows.count++;
        files += rows.rows[i].folder ? 0 : 1;
        total += rows.rows[i].size;
        if (total > limits->max_bytes)
            return bad(&image, "its members have more bytes than allowed");
        at += CENTRAL_BYTES + get16(row + 28) + get16(row + 30) + get16(row + 32);
    }
    if (at != end.at)
        return bad(&image, "its directory has another size than its rows");
    if (files == 0)
        return bad(&image, "it has no member");
    rc = check_cover(&image, memory, rows.count, end.offset);
    if (rc == REPOSBX_OK)
        rc = check_names(&image, &rows);
    if (rc != REPOSBX_OK)
        return rc;
    *out = rows;
    rows = (struct rsbx_zip_rows){ NULL, 0 };
    return REPOSBX_OK;
}
