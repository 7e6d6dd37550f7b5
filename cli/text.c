/* SPDX-License-Identifier: Apache-2.0 */
#include "output.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Well-formed byte sequences: Unicode 15, table 3-7. */
size_t rsbx_cli_utf8(uint32_t *code, const char *text, size_t length)
{
    const unsigned char *bytes = (const unsigned char *)text;
    unsigned char low = 0x80, high = 0xBF;
    size_t more;
    uint32_t value;

    if (length == 0)
        return 0;
    if (bytes[0] < 0x80) {
        more = 0;
        value = bytes[0];
    } else if (bytes[0] >= 0xC2 && bytes[0] <= 0xDF) {
        more = 1;
        value = bytes[0] & 0x1FU;
    } else if (bytes[0] >= 0xE0 && bytes[0] <= 0xEF) {
        more = 2;
        value = bytes[0] & 0x0FU;
        low = bytes[0] == 0xE0 ? 0xA0 : 0x80;
        high = bytes[0] == 0xED ? 0x9F : 0xBF;
    } else if (bytes[0] >= 0xF0 && bytes[0] <= 0xF4) {
        more = 3;
        value = bytes[0] & 0x07U;
        low = bytes[0] == 0xF0 ? 0x90 : 0x80;
        high = bytes[0] == 0xF4 ? 0x8F : 0xBF;
    } else {
        return 0;
    }
    if (more >= length)
        return 0;
    for (size_t i = 1; i <= more; i++) {
        if (bytes[i] < low || bytes[i] > high)
            return 0;
        value = value << 6 | (bytes[i] & 0x3FU);
        low = 0x80;
        high = 0xBF;
    }
    if (code != NULL)
        *code = value;
    return more + 1;
}

/* What a terminal or a reader could be fooled with: controls, line separators, direction marks,
 * characters of no width, private use at the ends of the planes. */
static int is_plain(uint32_t code)
{
    if (code < 0x20 || (code >= 0x7F && code <= 0x9F))
        return 0;
    if (code == 0xAD || code == 0x061C || code == 0x180E || code == 0xFEFF)
        return 0;
    if ((code >= 0x200B && code <= 0x200F) || (code >= 0x2028 && code <= 0x202E) ||
        (code >= 0x2060 && code <= 0x206F))
        return 0;
    return code < 0xE0000;
}

char *rsbx_cli_printable(const char *bytes, size_t length)
{
    /* "\u{10ffff}" is the longest escape of one character and "\xNN" of one byte. */
    char *out = rsbx_cli_need(malloc(length * 10 + 1));
    size_t used = 0, at = 0;

    while (at < length) {
        uint32_t code = 0;
        size_t step = rsbx_cli_utf8(&code, bytes + at, length - at);

        if (step == 0) {
            used += (size_t)snprintf(out + used, 11, "\\x%02x", (unsigned char)bytes[at]);
            step = 1;
        } else if (is_plain(code)) {
            memcpy(out + used, bytes + at, step);
            used += step;
        } else if (code < 0x80) {
            const char *named = code == '\n' ? "\\n" : code == '\t' ? "\\t"
                                : code == '\r' ? "\\r" : NULL;

            used += named != NULL ? (size_t)snprintf(out + used, 11, "%s", named)
                                  : (size_t)snprintf(out + used, 11, "\\x%02x", (unsigned int)code);
        } else {
            used += (size_t)snprintf(out + used, 11, "\\u{%x}", (unsigned int)code);
        }
        at += step;
    }
    out[used] = '\0';
    return out;
}

/* The letter of Git's C escape of a byte, or 0. */
static char escape_letter(unsigned char byte)
{
    switch (byte) {
    case '\a':
        return 'a';
    case '\b':
        return 'b';
    case '\t':
        return 't';
    case '\n':
        return 'n';
    case '\v':
        return 'v';
    case '\f':
        return 'f';
    case '\r':
        return 'r';
    case '"':
        return '"';
    case '\\':
        return '\\';
    default:
        return 0;
    }
}

char *rsbx_cli_quoted(const char *path, int ascii)
{
    size_t length = strlen(path), used = 1, at = 0;
    char *out = rsbx_cli_need(malloc(length * 4 + 3));
    int quoted = 0;

    out[0] = '"';
    while (at < length) {
        uint32_t code = 0;
        size_t step = rsbx_cli_utf8(&code, path + at, length - at);
        unsigned char byte = (unsigned char)path[at];
        char letter = escape_letter(byte);

        if (letter != 0) {
            out[used++] = '\\';
            out[used++] = letter;
            quoted = 1;
            at++;
        } else if (step > 0 && is_plain(code) && (code < 0x80 || !ascii)) {
            memcpy(out + used, path + at, step);
            used += step;
            at += step;
        } else {
            used += (size_t)snprintf(out + used, 5, "\\%03o", byte);
            quoted = 1;
            at++;
        }
    }
    if (quoted) {
        out[used++] = '"';
        out[used] = '\0';
        return out;
    }
    memmove(out, out + 1, used - 1);
    out[used - 1] = '\0';
    return out;
}

json_t *rsbx_cli_json_bytes(const char *bytes, size_t length)
{
    char *out = rsbx_cli_need(malloc(length * 3 + 1));
    size_t used = 0, at = 0;
    json_t *value;

    while (at < length) {
        size_t step = rsbx_cli_utf8(NULL, bytes + at, length - at);

        if (step == 0) {
            memcpy(out + used, "\xEF\xBF\xBD", 3);
            used += 3;
            at++;
        } else {
            memcpy(out + used, bytes + at, step);
            used += step;
            at += step;
        }
    }
    value = rsbx_cli_need(json_stringn(out, used));
    free(out);
    return value;
}

size_t rsbx_cli_width(const char *text)
{
    size_t width = 0;

    for (; *text != '\0'; text++) {
        if (((unsigned char)*text & 0xC0U) != 0x80U)
            width++;
    }
    return width;
}
