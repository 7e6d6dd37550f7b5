/* SPDX-License-Identifier: Apache-2.0 */
#include "diff/internal.h"

#include <string.h>

#include "base/limits.h"
#include "base/text.h"

#include "base/banned.h"

/* The words of which a patch is made: what both readers share, that of a patch from outside
 * (incoming.c) and that of the self-proof (proof.c). */

bool rsbx_diff_take(struct rsbx_diff_cursor *cursor, const char *text)
{
    size_t length = strlen(text);

    if ((size_t)(cursor->end - cursor->at) < length || memcmp(cursor->at, text, length) != 0)
        return false;
    cursor->at += length;
    return true;
}

bool rsbx_diff_take_line(const char **line, size_t *length, struct rsbx_diff_cursor *cursor)
{
    const char *newline = memchr(cursor->at, '\n', (size_t)(cursor->end - cursor->at));

    if (newline == NULL)
        return false;
    *line = cursor->at;
    *length = (size_t)(newline - cursor->at);
    cursor->at = newline + 1;
    return true;
}

bool rsbx_diff_take_number(uint64_t *out, struct rsbx_diff_cursor *cursor)
{
    const char *start = cursor->at;
    uint64_t value = 0;

    while (cursor->at < cursor->end && *cursor->at >= '0' && *cursor->at <= '9') {
        if (cursor->at - start >= 12)
            return false;
        value = value * 10 + (uint64_t)(*cursor->at++ - '0');
    }
    if (cursor->at == start || (*start == '0' && cursor->at - start > 1))
        return false;
    *out = value;
    return true;
}

static bool take_range(struct rsbx_diff_range *out, struct rsbx_diff_cursor *cursor)
{
    out->count = 1;
    return rsbx_diff_take_number(&out->start, cursor) &&
           (!rsbx_diff_take(cursor, ",") || rsbx_diff_take_number(&out->count, cursor)) &&
           (out->start > 0 || out->count == 0);
}

bool rsbx_diff_take_hunk_head(struct rsbx_diff_range *old_range, struct rsbx_diff_range *new_range,
                              struct rsbx_diff_cursor *cursor)
{
    const char *rest;
    size_t length;

    return take_range(old_range, cursor) && rsbx_diff_take(cursor, " +") &&
           take_range(new_range, cursor) && rsbx_diff_take(cursor, " @@") &&
           rsbx_diff_take_line(&rest, &length, cursor);
}

bool rsbx_diff_take_quoted(char *out, size_t *length, size_t size, struct rsbx_diff_cursor *cursor)
{
    static const char letters[] = "abtnvfr\"\\";
    static const char values[] = "\a\b\t\n\v\f\r\"\\";
    size_t used = 0;

    while (cursor->at < cursor->end && *cursor->at != '"') {
        char byte = *cursor->at++;
        const char *known;

        if (used + 1 >= size || byte == '\n' || cursor->at == cursor->end)
            return false;
        if (byte == '\\') {
            byte = *cursor->at++;
            known = memchr(letters, byte, sizeof letters - 1);
            if (known != NULL) {
                byte = values[known - letters];
            } else {
                unsigned int value = 0;

                cursor->at--;
                for (int i = 0; i < 3; i++, cursor->at++) {
                    if (cursor->at == cursor->end || *cursor->at < '0' || *cursor->at > '7')
                        return false;
                    value = value * 8 + (unsigned int)(*cursor->at - '0');
                }
                if (value == 0 || value > 255)
                    return false;
                byte = (char)value;
            }
        }
        out[used++] = byte;
    }
    *length = used;
    return rsbx_diff_take(cursor, "\"");
}

bool rsbx_diff_take_names(char path[RSBX_MAX_PATH_BYTES + 1], size_t *path_length,
                          struct rsbx_diff_cursor *cursor)
{
    char first[RSBX_MAX_PATH_BYTES + 3], second[RSBX_MAX_PATH_BYTES + 3];
    size_t first_length = 0, second_length = 0;
    const char *line;
    size_t length;

    if (rsbx_diff_take(cursor, "\"")) {
        if (!rsbx_diff_take_quoted(first, &first_length, sizeof first, cursor) ||
            !rsbx_diff_take(cursor, " \"") ||
            !rsbx_diff_take_quoted(second, &second_length, sizeof second, cursor) ||
            !rsbx_diff_take(cursor, "\n"))
            return false;
    } else {
        if (!rsbx_diff_take_line(&line, &length, cursor) || length < 7 || length % 2 == 0 ||
            length / 2 > sizeof first || line[length / 2] != ' ')
            return false;
        first_length = second_length = length / 2;
        memcpy(first, line, first_length);
        memcpy(second, line + first_length + 1, second_length);
    }
    if (first_length != second_length || first_length < 3 ||
        first_length - 2 > RSBX_MAX_PATH_BYTES || memcmp(first, "a/", 2) != 0 ||
        memcmp(second, "b/", 2) != 0 || memcmp(first + 2, second + 2, first_length - 2) != 0)
        return false;
    *path_length = first_length - 2;
    memcpy(path, first + 2, *path_length);
    path[*path_length] = '\0';
    return true;
}

bool rsbx_diff_take_mode(uint32_t *out, struct rsbx_diff_cursor *cursor)
{
    static const char *const words[] = { "100644", "100755", "120000" };
    static const uint32_t modes[] = { 0100644U, 0100755U, 0120000U };

    for (size_t i = 0; i < 3; i++) {
        if (rsbx_diff_take(cursor, words[i])) {
            *out = modes[i];
            return rsbx_diff_take(cursor, "\n");
        }
    }
    return false;
}

bool rsbx_diff_take_name(struct rsbx_diff_cursor *cursor, const char *prefix, const char *path,
                         size_t length)
{
    char name[RSBX_MAX_PATH_BYTES + 3];
    size_t name_length = 0, prefix_length = strlen(prefix);

    if (rsbx_diff_take(cursor, "\""))
        return rsbx_diff_take_quoted(name, &name_length, sizeof name, cursor) &&
               name_length == length + prefix_length &&
               memcmp(name, prefix, prefix_length) == 0 &&
               memcmp(name + prefix_length, path, length) == 0;
    return rsbx_diff_take(cursor, prefix) && rsbx_diff_take(cursor, path);
}

bool rsbx_diff_take_label(struct rsbx_diff_cursor *cursor, const char *prefix, const char *path,
                          size_t length, bool exists)
{
    if (!exists)
        return rsbx_diff_take(cursor, "/dev/null\n");
    if (!rsbx_diff_take_name(cursor, prefix, path, length))
        return false;
    if (memchr(path, ' ', length) != NULL && !rsbx_diff_take(cursor, "\t"))
        return false;
    return rsbx_diff_take(cursor, "\n");
}
