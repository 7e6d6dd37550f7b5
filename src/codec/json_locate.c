/* SPDX-License-Identifier: Apache-2.0 */
#include "codec/json.h"

#include <string.h>

#include "base/banned.h"

/*
 * jansson gives no positions of values, so a second, lazy look at the text finds the one that a
 * message is about. Only texts that the parser accepted come here, but every step stays inside the
 * text all the same.
 *
 * Member names may hold '.' and '[' themselves. Each member whose decoded name is the start of the
 * rest of the path is therefore tried, so "a.b" finds both {"a":{"b":…}} and {"a.b":…}.
 */
struct finder {
    const char *text;
    size_t length;
};

static size_t skip_space(const struct finder *in, size_t at)
{
    while (at < in->length && strchr(" \t\r\n", in->text[at]) != NULL && in->text[at] != '\0')
        at++;
    return at;
}

/* Behind the string that opens at `at`. */
static size_t skip_string(const struct finder *in, size_t at)
{
    for (at++; at < in->length && in->text[at] != '"'; at++) {
        if (in->text[at] == '\\')
            at++;
    }
    return at < in->length ? at + 1 : in->length;
}

/* Behind the value that starts at `at`, by counting brackets: no recursion, any depth. */
static size_t skip_value(const struct finder *in, size_t at)
{
    size_t depth = 0;

    while (at < in->length) {
        char c = in->text[at];

        if (c == '"') {
            at = skip_string(in, at);
        } else if (c == '{' || c == '[') {
            depth++;
            at++;
        } else if (depth > 0) {
            if (c == '}' || c == ']')
                depth--;
            at++;
        } else {
            while (at < in->length && strchr(",]} \t\r\n", in->text[at]) == NULL)
                at++;
            return at;
        }
        if (depth == 0)
            return at;
    }
    return at;
}

static unsigned int hex_digits(const struct finder *in, size_t at)
{
    unsigned int value = 0;

    for (size_t i = at; i < at + 4 && i < in->length; i++) {
        char c = in->text[i];

        value *= 16;
        if (c >= '0' && c <= '9')
            value += (unsigned int)(c - '0');
        else
            value += (unsigned int)((c | 0x20) - 'a') + 10U;
    }
    return value;
}

/* UTF-8 of one code point in out[4]; the count. */
static size_t encode(char *out, unsigned int code)
{
    if (code < 0x80) {
        out[0] = (char)code;
        return 1;
    }
    if (code < 0x800) {
        out[0] = (char)(0xC0 | code >> 6);
        out[1] = (char)(0x80 | (code & 0x3F));
        return 2;
    }
    if (code < 0x10000) {
        out[0] = (char)(0xE0 | code >> 12);
        out[1] = (char)(0x80 | (code >> 6 & 0x3F));
        out[2] = (char)(0x80 | (code & 0x3F));
        return 3;
    }
    out[0] = (char)(0xF0 | (code >> 18 & 0x07));
    out[1] = (char)(0x80 | (code >> 12 & 0x3F));
    out[2] = (char)(0x80 | (code >> 6 & 0x3F));
    out[3] = (char)(0x80 | (code & 0x3F));
    return 4;
}

/* Decodes the escape whose backslash is at *at into out[4] and moves behind it; the count. */
static size_t decode_escape(char *out, const struct finder *in, size_t *at)
{
    static const char from[] = "bfnrt", to[] = "\b\f\n\r\t";
    char kind = *at + 1 < in->length ? in->text[*at + 1] : '\0';
    const char *plain;
    unsigned int code;

    *at += 2;
    if (kind != 'u') {
        plain = kind != '\0' ? strchr(from, kind) : NULL;
        out[0] = plain != NULL ? to[plain - from] : kind;
        return 1;
    }
    code = hex_digits(in, *at);
    *at += 4;
    if (code >= 0xD800 && code < 0xDC00) { /* the parser made sure that the second half follows */
        unsigned int low = hex_digits(in, *at + 2);

        *at += 6;
        code = 0x10000 + ((code - 0xD800) << 10) + ((low - 0xDC00) & 0x3FF);
    }
    return encode(out, code);
}

/* Whether the name that opens at `at` is the start of `path`; *rest is what follows there. */
static bool match_name(const char **rest, const struct finder *in, size_t at, const char *path)
{
    for (at++; at < in->length && in->text[at] != '"';) {
        char piece[4] = { in->text[at] };
        size_t count = 1;

        if (in->text[at] == '\\')
            count = decode_escape(piece, in, &at);
        else
            at++;
        if (strncmp(path, piece, count) != 0)
            return false;
        path += count;
    }
    *rest = path;
    return *path == '\0' || *path == '.' || *path == '[';
}

static bool find(size_t *offset, const struct finder *in, size_t at, const char *path);

/* Goes on below a name or an index: `path` is what is left behind it. */
static bool find_below(size_t *offset, const struct finder *in, size_t here, size_t value,
                       const char *path)
{
    if (*path == '\0') {
        *offset = here;
        return true;
    }
    if (*path == '.') /* a name must follow, so the value must be an object */
        return value < in->length && in->text[value] == '{' && find(offset, in, value, path + 1);
    return value < in->length && in->text[value] == '[' && find(offset, in, value, path);
}

static bool find_member(size_t *offset, const struct finder *in, size_t at, const char *path)
{
    const char *rest;

    for (at = skip_space(in, at + 1); at < in->length && in->text[at] == '"';) {
        size_t name = at;
        size_t value = skip_space(in, skip_string(in, at));

        value = skip_space(in, value + 1); /* the colon */
        if (match_name(&rest, in, name, path) && find_below(offset, in, name, value, rest))
            return true;
        at = skip_space(in, skip_value(in, value));
        if (at >= in->length || in->text[at] != ',')
            return false;
        at = skip_space(in, at + 1);
    }
    return false;
}

static bool find_element(size_t *offset, const struct finder *in, size_t at, const char *path)
{
    size_t wanted = 0;
    const char *digit = path + 1;

    if (*path != '[' || *digit < '0' || *digit > '9')
        return false;
    for (; *digit >= '0' && *digit <= '9'; digit++) {
        if (wanted > in->length) /* more elements than bytes */
            return false;
        wanted = wanted * 10 + (size_t)(*digit - '0');
    }
    if (*digit != ']')
        return false;
    at = skip_space(in, at + 1);
    while (at < in->length && in->text[at] != ']') {
        if (wanted == 0)
            return find_below(offset, in, at, at, digit + 1);
        wanted--;
        at = skip_space(in, skip_value(in, at));
        if (at >= in->length || in->text[at] != ',')
            return false;
        at = skip_space(in, at + 1);
    }
    return false;
}

/* Depth of recursion: one level for each name or index of the path, which our own code wrote. */
static bool find(size_t *offset, const struct finder *in, size_t at, const char *path)
{
    if (at >= in->length)
        return false;
    if (in->text[at] == '{')
        return find_member(offset, in, at, path);
    if (in->text[at] == '[')
        return find_element(offset, in, at, path);
    return false;
}

bool rsbx_json_locate(size_t *line, size_t *column, const char *text, size_t length,
                      const char *path)
{
    struct finder in = { text, length };
    size_t offset;

    if (!find(&offset, &in, skip_space(&in, 0), path))
        return false;
    *line = 1;
    *column = 1;
    for (size_t i = 0; i < offset; i++) {
        (*column)++;
        if (text[i] == '\n') {
            (*line)++;
            *column = 1;
        }
    }
    return true;
}
