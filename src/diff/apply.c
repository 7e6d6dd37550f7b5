/* SPDX-License-Identifier: Apache-2.0 */
#include "diff/internal.h"

#include <stdlib.h>
#include <string.h>

#include <zlib.h>

#include "base/cleanup.h"
#include "base/limits.h"

#include "base/banned.h"

/*
 * Applying one section of a patch, from its text. Written against the format as git documents it
 * (git-diff(1), and the pack format for deltas) and not against the writer: the two meet in the
 * proof. Anything unexpected is an error, nothing is searched for, skipped or repaired.
 */

/* No matter what it is applied to. */
static int refuse(reposbx_error *err, const char *why)
{
    return rsbx_fail(err, REPOSBX_EMALFORMED, "%s", why);
}

/* Fine, but not for this old content. */
static int no_fit(reposbx_error *err, const char *why)
{
    return rsbx_fail(err, RSBX_DIFF_NO_FIT, "%s", why);
}

struct side {
    struct rsbx_diff_cursor old; /* what is not yet consumed of the old text */
    uint64_t old_line, new_line; /* lines consumed and produced */
    bool old_ended, new_ended;   /* a line without newline has passed: it must be the last */
    bool after_context;          /* the last line of a hunk was one of context */
};

/* Copies whole lines until `line` lines have passed. */
static int copy_until(struct rsbx_buf *after, struct side *side, uint64_t line, reposbx_error *err)
{
    const char *start = side->old.at;
    const char *text;
    size_t length;

    while (side->old_line < line) {
        if (!rsbx_diff_take_line(&text, &length, &side->old))
            return no_fit(err, "a hunk starts behind the end of the old text");
        side->old_line++;
        side->new_line++;
    }
    return rsbx_buf_append(after, start, (size_t)(side->old.at - start), err);
}

/* One line of a hunk: its mark, its bytes with the newline unless the patch says there is none. */
static int apply_line(struct rsbx_buf *after, struct side *side, struct rsbx_diff_cursor *cursor,
                      reposbx_error *err)
{
    const char *line;
    size_t length;
    bool ends;
    char mark;

    if (!rsbx_diff_take_line(&line, &length, cursor) || length == 0)
        return refuse(err, "a hunk is shorter than its header says");
    mark = *line++;
    side->after_context = mark == ' ';
    ends = rsbx_diff_take(cursor, "\\ No newline at end of file\n");
    length -= ends ? 1 : 0; /* without the mark, with the newline */
    if (mark != ' ' && mark != '-' && mark != '+')
        return refuse(err, "a line of a hunk has an unknown mark");
    if (mark != '+') {
        if (side->old_ended || (size_t)(side->old.end - side->old.at) < length ||
            memcmp(side->old.at, line, length) != 0)
            return no_fit(err, "a line of a hunk is not the old text's");
        side->old.at += length;
        side->old_line++;
        side->old_ended = ends;
    }
    if (mark == '-')
        return REPOSBX_OK;
    if (side->new_ended)
        return refuse(err, "a line follows one without a newline");
    side->new_ended = ends;
    side->new_line++;
    return rsbx_buf_append(after, line, length, err);
}

/* Without context behind its changes a hunk says that the old text ends there, and one that adds behind the
 * first line or before it that there is none. git-apply(1) holds all but --unidiff-zero to that. */
static int check_place(const struct side *side, const struct rsbx_diff_range *old, reposbx_error *err)
{
    bool at_end = side->old.at == side->old.end;

    /* What ended without a newline has to be the end, which is seen to when all hunks are done. */
    if (side->after_context || side->old_ended || (at_end && (old->count > 0 || old->start != 1)))
        return REPOSBX_OK;
    return no_fit(err, "a hunk has no context behind its changes, which do not end the old text (was it made "
                       "with --unified=0?)");
}

static int apply_hunk(struct rsbx_buf *after, struct side *side, struct rsbx_diff_cursor *cursor,
                      reposbx_error *err)
{
    struct rsbx_diff_range old_range, new_range;
    uint64_t old_first, new_first;
    int rc;

    if (!rsbx_diff_take_hunk_head(&old_range, &new_range, cursor))
        return refuse(err, "a hunk header does not parse");
    old_first = old_range.start - (old_range.count != 0);
    new_first = new_range.start - (new_range.count != 0);
    if (old_first < side->old_line)
        return refuse(err, "hunks overlap");
    rc = copy_until(after, side, old_first, err);
    if (rc != REPOSBX_OK)
        return rc;
    if (side->new_line != new_first)
        return refuse(err, "a hunk header names another line");
    while (rc == REPOSBX_OK && (side->old_line < old_first + old_range.count ||
                                side->new_line < new_first + new_range.count))
        rc = apply_line(after, side, cursor, err);
    if (rc == REPOSBX_OK && (side->old_line != old_first + old_range.count ||
                             side->new_line != new_first + new_range.count))
        return refuse(err, "the counts of a hunk are wrong");
    return rc == REPOSBX_OK ? check_place(side, &old_range, err) : rc;
}

int rsbx_diff_apply_text(struct rsbx_buf *after, const char *before, size_t length,
                         struct rsbx_diff_cursor *cursor, reposbx_error *err)
{
    struct side side = { .old = { before, before + length } };
    bool any = false;
    int rc = REPOSBX_OK;

    while (rc == REPOSBX_OK && rsbx_diff_take(cursor, "@@ -")) {
        rc = apply_hunk(after, &side, cursor, err);
        any = true;
    }
    if (rc != REPOSBX_OK)
        return rc;
    if (!any)
        return refuse(err, "a text section has no hunk");
    if (side.old_ended ? side.old.at != side.old.end
                       : side.new_ended && side.old.at != side.old.end)
        return no_fit(err, "text follows a line without a newline");
    return rsbx_buf_append(after, side.old.at, (size_t)(side.old.end - side.old.at), err);
}

static int digit_of(char letter)
{
    static const char alphabet[] =
        "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~";
    const char *place = letter == '\0' ? NULL : strchr(alphabet, letter);

    return place == NULL ? -1 : (int)(place - alphabet);
}

/* One line of base 85 without its newline. */
static int decode_line(struct rsbx_buf *out, const char *line, size_t length, reposbx_error *err)
{
    size_t bytes = 0;

    if (length > 0 && line[0] >= 'A' && line[0] <= 'Z')
        bytes = (size_t)(line[0] - 'A') + 1;
    else if (length > 0 && line[0] >= 'a' && line[0] <= 'z')
        bytes = (size_t)(line[0] - 'a') + 27;
    if (bytes == 0 || length != 1 + (bytes + 3) / 4 * 5)
        return refuse(err, "a line of a binary block has a wrong length");
    for (size_t at = 1; at < length; at += 5) {
        uint64_t word = 0;
        uint8_t four[4];
        size_t use = bytes < 4 ? bytes : 4;
        int rc;

        for (size_t k = 0; k < 5; k++) {
            int digit = digit_of(line[at + k]);

            if (digit < 0)
                return refuse(err, "a binary block has a wrong character");
            word = word * 85 + (uint64_t)digit;
        }
        if (word > UINT32_MAX)
            return refuse(err, "a binary block is out of range");
        for (size_t k = 0; k < 4; k++)
            four[k] = (uint8_t)(word >> (24 - 8 * k));
        rc = rsbx_buf_append(out, four, use, err);
        if (rc != REPOSBX_OK)
            return rc;
        bytes -= use;
    }
    return REPOSBX_OK;
}

static bool delta_size(uint64_t *out, struct rsbx_diff_cursor *cursor)
{
    uint64_t value = 0;

    for (unsigned int shift = 0; shift < 63; shift += 7) {
        uint8_t byte;

        if (cursor->at == cursor->end)
            return false;
        byte = (uint8_t)*cursor->at++;
        value |= (uint64_t)(byte & 0x7fU) << shift;
        if ((byte & 0x80U) == 0) {
            *out = value;
            return true;
        }
    }
    return false;
}

/* Bytes of a number of which only those stand there whose bit is set. */
static bool delta_number(size_t *out, struct rsbx_diff_cursor *cursor, unsigned int bits,
                         unsigned int count)
{
    size_t value = 0;

    for (unsigned int i = 0; i < count; i++) {
        if ((bits & (1U << i)) == 0)
            continue;
        if (cursor->at == cursor->end)
            return false;
        value |= (size_t)(uint8_t)*cursor->at++ << (8 * i);
    }
    *out = value;
    return true;
}

static int apply_delta(struct rsbx_buf *after, const char *before, size_t length,
                       struct rsbx_diff_cursor delta, reposbx_error *err)
{
    uint64_t old_size = 0, new_size = 0;
    int rc = REPOSBX_OK;

    if (!delta_size(&old_size, &delta) || !delta_size(&new_size, &delta) || old_size != length)
        return no_fit(err, "a delta is for another size");
    while (rc == REPOSBX_OK && delta.at < delta.end && after->length <= new_size) {
        unsigned int op = (uint8_t)*delta.at++;
        size_t offset = 0, size = op;

        if ((op & 0x80U) != 0) {
            if (!delta_number(&offset, &delta, op, 4) || !delta_number(&size, &delta, op >> 4, 3))
                return refuse(err, "a delta is cut short");
            size = size == 0 ? 0x10000U : size;
            if (offset > length || size > length - offset)
                return refuse(err, "a delta copies from outside");
            rc = rsbx_buf_append(after, before + offset, size, err);
        } else {
            if (op == 0 || size > (size_t)(delta.end - delta.at))
                return refuse(err, "a delta is cut short");
            rc = rsbx_buf_append(after, delta.at, size, err);
            delta.at += size;
        }
    }
    if (rc == REPOSBX_OK && after->length != new_size)
        return refuse(err, "a delta makes another size");
    return rc;
}

int rsbx_diff_apply_binary(struct rsbx_buf *after, const char *before, size_t length,
                           struct rsbx_diff_cursor *cursor, reposbx_error *err)
{
    RSBX_AUTO(rsbx_buf) struct rsbx_buf packed = RSBX_BUF_INIT((size_t)(cursor->end - cursor->at));
    RSBX_AUTO(rsbx_memory) void *inflated = NULL;
    bool delta = rsbx_diff_take(cursor, "delta ");
    const char *line;
    size_t line_length = 1;
    uint64_t size = 0;
    uLongf made;
    uLong used;
    int rc = REPOSBX_OK;

    if ((!delta && !rsbx_diff_take(cursor, "literal ")) || !rsbx_diff_take_number(&size, cursor) ||
        !rsbx_diff_take(cursor, "\n") || size > 2 * RSBX_MAX_BLOB_BYTES)
        return refuse(err, "the head of a binary block does not parse");
    while (rc == REPOSBX_OK) {
        if (!rsbx_diff_take_line(&line, &line_length, cursor))
            return refuse(err, "a binary block is cut short");
        if (line_length == 0)
            break;
        rc = decode_line(&packed, line, line_length, err);
    }
    if (rc != REPOSBX_OK)
        return rc;
    inflated = malloc((size_t)size + 1);
    if (inflated == NULL)
        return rsbx_fail_memory(err);
    /* One byte more than announced, so that a longer stream shows. */
    made = (uLongf)size + 1;
    used = (uLong)packed.length;
    if (packed.length == 0 ||
        uncompress2(inflated, &made, (const Bytef *)packed.data, &used) != Z_OK || made != size ||
        used != packed.length)
        return refuse(err, "a binary block does not inflate to its size");
    if (!delta)
        return rsbx_buf_append(after, inflated, (size_t)size, err);
    return apply_delta(after, before, length,
                       (struct rsbx_diff_cursor){ inflated, (const char *)inflated + size }, err);
}
