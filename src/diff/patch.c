/* SPDX-License-Identifier: Apache-2.0 */
#include "diff/internal.h"

#include <string.h>

#include "base/cleanup.h"
#include "base/text.h"
#include "codec/git2.h"

#include "base/banned.h"

/*
 * The text of a patch. libgit2 says only which lines are kept, removed and added; every byte of the
 * patch is written here from the contents themselves, by git's rules, because libgit2's printer
 * and git's disagree about empty files, mode-only changes and names with spaces.
 */

#define BINARY_LOOK_BYTES 8000U   /* how far git looks for a NUL */
#define FUNCTION_LINE_BYTES 80U   /* how much of a line git shows behind "@@" */
#define CONTEXT_LINES 3U

bool rsbx_diff_is_binary(const char *bytes, size_t length)
{
    return memchr(bytes, '\0', length < BINARY_LOOK_BYTES ? length : BINARY_LOOK_BYTES) != NULL;
}

static bool needs_quotes(const char *path, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        unsigned char byte = (unsigned char)path[i];

        if (byte < 0x20 || byte >= 0x7f || byte == '"' || byte == '\\')
            return true;
    }
    return false;
}

static int append_escaped(struct rsbx_buf *out, unsigned char byte, reposbx_error *err)
{
    static const char letters[] = "abtnvfr"; /* 7 to 13 */

    if (byte >= 7 && byte <= 13)
        return rsbx_buf_format(out, err, "\\%c", letters[byte - 7]);
    if (byte == '"' || byte == '\\')
        return rsbx_buf_format(out, err, "\\%c", byte);
    if (byte < 0x20 || byte >= 0x7f)
        return rsbx_buf_format(out, err, "\\%03o", byte);
    return rsbx_buf_append(out, &byte, 1, err);
}

/* prefix and path, in C quotes where git puts them (core.quotePath at its default). */
static int append_name(struct rsbx_buf *out, const char *prefix, const struct rsbx_diff_item *item,
                       reposbx_error *err)
{
    bool quotes = needs_quotes(item->path, item->length);
    int rc = rsbx_buf_format(out, err, "%s%s", quotes ? "\"" : "", prefix);

    if (rc == REPOSBX_OK && !quotes)
        return rsbx_buf_append(out, item->path, item->length, err);
    for (size_t i = 0; rc == REPOSBX_OK && i < item->length; i++)
        rc = append_escaped(out, (unsigned char)item->path[i], err);
    return rc == REPOSBX_OK ? rsbx_buf_text(out, "\"", err) : rc;
}

/* "--- a/name": a TAB ends a name with a space, so that no reader takes the rest for a time. */
static int append_label(struct rsbx_buf *out, const char *mark, const char *prefix, bool present,
                        const struct rsbx_diff_item *item, reposbx_error *err)
{
    int rc = rsbx_buf_text(out, mark, err);

    if (rc == REPOSBX_OK && !present)
        return rsbx_buf_text(out, "/dev/null\n", err);
    if (rc == REPOSBX_OK)
        rc = append_name(out, prefix, item, err);
    if (rc == REPOSBX_OK)
        rc = rsbx_buf_text(out, memchr(item->path, ' ', item->length) != NULL ? "\t\n" : "\n", err);
    return rc;
}

static int append_head(struct rsbx_buf *out, const struct rsbx_diff_item *item,
                       const struct rsbx_diff_side *before, const struct rsbx_diff_side *after,
                       reposbx_error *err)
{
    char old_hex[2 * RSBX_OID_BYTES + 1], new_hex[2 * RSBX_OID_BYTES + 1];
    int rc = rsbx_buf_text(out, "diff --git ", err);

    if (rc == REPOSBX_OK)
        rc = append_name(out, "a/", item, err);
    if (rc == REPOSBX_OK)
        rc = rsbx_buf_text(out, " ", err);
    if (rc == REPOSBX_OK)
        rc = append_name(out, "b/", item, err);
    if (rc != REPOSBX_OK)
        return rc;
    if (before->mode == 0)
        rc = rsbx_buf_format(out, err, "\nnew file mode %06o\n", after->mode);
    else if (after->mode == 0)
        rc = rsbx_buf_format(out, err, "\ndeleted file mode %06o\n", before->mode);
    else if (before->mode != after->mode)
        rc = rsbx_buf_format(out, err, "\nold mode %06o\nnew mode %06o\n", before->mode,
                             after->mode);
    else
        rc = rsbx_buf_text(out, "\n", err);
    if (rc != REPOSBX_OK || memcmp(before->oid, after->oid, RSBX_OID_BYTES) == 0)
        return rc;
    rsbx_hex(old_hex, before->oid, RSBX_OID_BYTES);
    rsbx_hex(new_hex, after->oid, RSBX_OID_BYTES);
    rc = rsbx_buf_format(out, err, "index %s..%s", old_hex, new_hex);
    if (rc == REPOSBX_OK && before->mode == after->mode)
        rc = rsbx_buf_format(out, err, " %06o", before->mode);
    return rc == REPOSBX_OK ? rsbx_buf_text(out, "\n", err) : rc;
}

/* A position in a text that only moves forward, line by line. */
struct text {
    const char *bytes;
    size_t length, offset;
    uint64_t line; /* lines before offset */
};

static size_t line_length(const struct text *text)
{
    const char *start = text->bytes + text->offset;
    const char *newline = memchr(start, '\n', text->length - text->offset);

    return newline == NULL ? text->length - text->offset : (size_t)(newline - start) + 1;
}

struct hunks {
    struct rsbx_buf *out;
    struct rsbx_diff_counts *counts;
    struct text before, after;
    const char *function; /* the last line before the hunk that looks like a function's head */
    size_t function_length;
    reposbx_error *err;
    int rc;
};

/* git shows such a line up to its first byte that is not UTF-8; U+FFFE and U+FFFF count as not. */
static size_t decodable(const char *line, size_t length)
{
    size_t at = 0;

    while (at < length) {
        uint32_t code = 0;
        size_t step = rsbx_utf8_next(&code, line + at, length - at);

        if (step == 0 || code == 0xfffeU || code == 0xffffU)
            break;
        at += step;
    }
    return at;
}

static void look_at_function(struct hunks *hunks, const char *line, size_t length)
{
    char first = line[0];

    if (!((first >= 'a' && first <= 'z') || (first >= 'A' && first <= 'Z') || first == '_' ||
          first == '$'))
        return;
    if (length > FUNCTION_LINE_BYTES)
        length = FUNCTION_LINE_BYTES;
    while (length > 0 && memchr(" \t\r\n", line[length - 1], 4) != NULL)
        length--;
    hunks->function = line;
    hunks->function_length = decodable(line, length);
}

static int append_range(struct rsbx_buf *out, char mark, int start, int count, reposbx_error *err)
{
    if (count == 1)
        return rsbx_buf_format(out, err, " %c%d", mark, start);
    return rsbx_buf_format(out, err, " %c%d,%d", mark, start, count);
}

static int on_hunk(const git_diff_delta *delta, const git_diff_hunk *hunk, void *payload)
{
    struct hunks *hunks = payload;
    struct text *before = &hunks->before, *after = &hunks->after;
    /* Of an empty range the header names the line before it. */
    uint64_t old_first = (uint64_t)hunk->old_start - (hunk->old_lines != 0);
    uint64_t new_first = (uint64_t)hunk->new_start - (hunk->new_lines != 0);

    (void)delta;
    while (before->line < old_first && before->offset < before->length) {
        size_t length = line_length(before);

        look_at_function(hunks, before->bytes + before->offset, length);
        before->offset += length;
        before->line++;
    }
    while (after->line < new_first && after->offset < after->length) {
        after->offset += line_length(after);
        after->line++;
    }
    if (before->line != old_first || after->line != new_first)
        hunks->rc = rsbx_fail(hunks->err, REPOSBX_EINTERNAL, "a hunk starts outside its text");
    if (hunks->rc == REPOSBX_OK)
        hunks->rc = rsbx_buf_text(hunks->out, "@@", hunks->err);
    if (hunks->rc == REPOSBX_OK)
        hunks->rc = append_range(hunks->out, '-', hunk->old_start, hunk->old_lines, hunks->err);
    if (hunks->rc == REPOSBX_OK)
        hunks->rc = append_range(hunks->out, '+', hunk->new_start, hunk->new_lines, hunks->err);
    if (hunks->rc == REPOSBX_OK)
        hunks->rc = rsbx_buf_text(hunks->out, hunks->function_length > 0 ? " @@ " : " @@",
                                  hunks->err);
    if (hunks->rc == REPOSBX_OK && hunks->function_length > 0)
        hunks->rc = rsbx_buf_append(hunks->out, hunks->function, hunks->function_length,
                                    hunks->err);
    if (hunks->rc == REPOSBX_OK)
        hunks->rc = rsbx_buf_text(hunks->out, "\n", hunks->err);
    return hunks->rc;
}

static void advance(struct hunks *hunks, struct text *text, size_t length, bool look)
{
    if (look)
        look_at_function(hunks, text->bytes + text->offset, length);
    text->offset += length;
    text->line++;
}

static int on_line(const git_diff_delta *delta, const git_diff_hunk *hunk,
                   const git_diff_line *line, void *payload)
{
    struct hunks *hunks = payload;
    bool added = line->origin == GIT_DIFF_LINE_ADDITION;
    bool removed = line->origin == GIT_DIFF_LINE_DELETION;
    struct text *text = added ? &hunks->after : &hunks->before;
    const char *start = text->bytes + text->offset;
    size_t length;

    (void)delta;
    (void)hunk;
    if (!added && !removed && line->origin != GIT_DIFF_LINE_CONTEXT)
        return 0; /* the marks for a missing newline: written from the text itself */
    length = line_length(text);
    if (length == 0) {
        hunks->rc = rsbx_fail(hunks->err, REPOSBX_EINTERNAL, "a hunk ends outside its text");
        return hunks->rc;
    }
    hunks->rc = rsbx_buf_append(hunks->out, added ? "+" : removed ? "-" : " ", 1, hunks->err);
    if (hunks->rc == REPOSBX_OK)
        hunks->rc = rsbx_buf_append(hunks->out, start, length, hunks->err);
    if (hunks->rc == REPOSBX_OK && start[length - 1] != '\n')
        hunks->rc = rsbx_buf_text(hunks->out, "\n\\ No newline at end of file\n", hunks->err);
    hunks->counts->insertions += added;
    hunks->counts->deletions += removed;
    if (added || (!added && !removed))
        advance(hunks, &hunks->after, added ? length : line_length(&hunks->after), false);
    if (!added)
        advance(hunks, &hunks->before, length, true);
    return hunks->rc;
}

/* libgit2 takes form feed and vertical tab for white space when it weighs where a change may begin,
 * git does not. Only the alignment of lines is taken from libgit2, so it may see them in disguise:
 * the replacement is one to one, so equal lines stay equal and others different. */
static bool needs_disguise(const struct rsbx_diff_side *side)
{
    return memchr(side->bytes, '\f', side->length) != NULL ||
           memchr(side->bytes, '\v', side->length) != NULL;
}

static int disguise(struct rsbx_buf *out, const struct rsbx_diff_side *side, reposbx_error *err)
{
    size_t start = 0;
    int rc = REPOSBX_OK;

    for (size_t i = 0; rc == REPOSBX_OK && i < side->length; i++) {
        char byte = side->bytes[i];

        if (byte != '\f' && byte != '\v' && byte != '\1')
            continue;
        rc = rsbx_buf_append(out, side->bytes + start, i - start, err);
        if (rc == REPOSBX_OK)
            rc = rsbx_buf_text(out, byte == '\f' ? "\1f" : byte == '\v' ? "\1v" : "\1\1", err);
        start = i + 1;
    }
    if (rc == REPOSBX_OK)
        rc = rsbx_buf_append(out, side->bytes + start, side->length - start, err);
    return rc;
}

static int compare(struct hunks *hunks, const char *before, size_t before_length,
                   const char *after, size_t after_length)
{
    git_diff_options options;
    int rc;

    if (rsbx_git2.git_diff_options_init(&options, GIT_DIFF_OPTIONS_VERSION) != 0)
        return rsbx_diff_library_failed(hunks->err, "preparing a comparison");
    options.flags = GIT_DIFF_FORCE_TEXT | GIT_DIFF_INDENT_HEURISTIC;
    options.context_lines = CONTEXT_LINES;
    options.interhunk_lines = 0;
    options.max_size = INT64_MAX;
    rc = rsbx_git2.git_diff_buffers(before, before_length, NULL, after, after_length, NULL,
                                    &options, NULL, NULL, on_hunk, on_line, hunks);
    if (hunks->rc != REPOSBX_OK)
        return hunks->rc;
    return rc == 0 ? REPOSBX_OK : rsbx_diff_library_failed(hunks->err, "comparing two texts");
}

static int append_hunks(struct rsbx_buf *out, struct rsbx_diff_counts *counts,
                        const struct rsbx_diff_side *before, const struct rsbx_diff_side *after,
                        reposbx_error *err)
{
    RSBX_AUTO(rsbx_buf) struct rsbx_buf old_text = RSBX_BUF_INIT(2 * before->length);
    RSBX_AUTO(rsbx_buf) struct rsbx_buf new_text = RSBX_BUF_INIT(2 * after->length);
    struct hunks hunks = {
        .out = out, .counts = counts, .err = err, .rc = REPOSBX_OK,
        .before = { .bytes = before->bytes, .length = before->length },
        .after = { .bytes = after->bytes, .length = after->length },
    };
    int rc;

    if (!needs_disguise(before) && !needs_disguise(after))
        return compare(&hunks, before->bytes, before->length, after->bytes, after->length);
    rc = disguise(&old_text, before, err);
    if (rc == REPOSBX_OK)
        rc = disguise(&new_text, after, err);
    return rc == REPOSBX_OK ? compare(&hunks, old_text.data, old_text.length, new_text.data,
                                      new_text.length)
                            : rc;
}

static int append_section(struct rsbx_buf *out, struct rsbx_diff_counts *counts,
                          const struct rsbx_diff_item *item, const struct rsbx_diff_side *before,
                          const struct rsbx_diff_side *after, reposbx_error *err)
{
    int rc = append_head(out, item, before, after, err);

    if (rc != REPOSBX_OK || memcmp(before->oid, after->oid, RSBX_OID_BYTES) == 0 ||
        (before->length == 0 && after->length == 0))
        return rc;
    if (rsbx_diff_is_binary(before->bytes, before->length) ||
        rsbx_diff_is_binary(after->bytes, after->length)) {
        counts->binary = true;
        return rsbx_diff_binary_write(out, before, after, err);
    }
    rc = append_label(out, "--- ", "a/", before->mode != 0, item, err);
    if (rc == REPOSBX_OK)
        rc = append_label(out, "+++ ", "b/", after->mode != 0, item, err);
    return rc == REPOSBX_OK ? append_hunks(out, counts, before, after, err) : rc;
}

int rsbx_diff_patch_item(struct rsbx_buf *out, struct rsbx_diff_counts *counts,
                         const struct rsbx_diff_item *item, reposbx_error *err)
{
    static char nothing[1] = "";
    const struct rsbx_diff_side absent = { .bytes = nothing };
    int rc;

    /* Between file and symlink there is no difference to show: git deletes one, creates the other. */
    if (item->before.mode == 0 || item->after.mode == 0 ||
        (item->before.mode == 0120000U) == (item->after.mode == 0120000U))
        return append_section(out, counts, item, &item->before, &item->after, err);
    rc = append_section(out, counts, item, &item->before, &absent, err);
    return rc == REPOSBX_OK ? append_section(out, counts, item, &absent, &item->after, err) : rc;
}
