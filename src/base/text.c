/* SPDX-License-Identifier: Apache-2.0 */
#include "base/text.h"

#include <stdio.h>
#include <string.h>

#include "base/banned.h"

size_t rsbx_utf8_next(uint32_t *code, const void *bytes, size_t length)
{
    const unsigned char *p = bytes;
    uint32_t value;
    size_t need;
    uint32_t least;

    if (length == 0)
        return 0;
    if (p[0] < 0x80) {
        if (code != NULL)
            *code = p[0];
        return 1;
    }
    if (p[0] >= 0xC2 && p[0] <= 0xDF) {
        need = 2, least = 0x80, value = p[0] & 0x1FU;
    } else if ((p[0] & 0xF0) == 0xE0) {
        need = 3, least = 0x800, value = p[0] & 0x0FU;
    } else if (p[0] >= 0xF0 && p[0] <= 0xF4) {
        need = 4, least = 0x10000, value = p[0] & 0x07U;
    } else {
        return 0;
    }
    if (length < need)
        return 0;
    for (size_t i = 1; i < need; i++) {
        if ((p[i] & 0xC0) != 0x80)
            return 0;
        value = value << 6 | (p[i] & 0x3FU);
    }
    if (value < least || value > 0x10FFFF || (value >= 0xD800 && value <= 0xDFFF))
        return 0;
    if (code != NULL)
        *code = value;
    return need;
}

bool rsbx_utf8_valid(const void *bytes, size_t length)
{
    const char *p = bytes;

    while (length > 0) {
        size_t used = rsbx_utf8_next(NULL, p, length);

        if (used == 0)
            return false;
        p += used;
        length -= used;
    }
    return true;
}

size_t rsbx_utf8_edge(const void *bytes, size_t length)
{
    const unsigned char *p = bytes;
    size_t back = 1;

    while (back < 4 && back < length && (p[length - back] & 0xC0) == 0x80)
        back++;
    for (size_t more = 1; back <= length && back < 4 && more < 4; more++) {
        unsigned char whole[7];

        /* 0xA0 and 0x80 after one another complete every lead byte that can be completed. */
        memcpy(whole, p + length - back, back);
        for (size_t i = 0; i < more; i++)
            whole[back + i] = back + i == 1 && whole[0] != 0xED && whole[0] != 0xF4 ? 0xA0 : 0x80;
        if (rsbx_utf8_next(NULL, whole, back + more) == back + more)
            return length - back;
    }
    return length;
}

size_t rsbx_utf8_fit(size_t *room, const void *bytes, size_t length)
{
    const char *at = bytes;
    size_t used = 0;

    while (used < length) {
        size_t width = rsbx_utf8_next(NULL, at + used, length - used);
        size_t cost = width == 0 ? 3 : width;

        if (cost > *room)
            break;
        *room -= cost;
        used += width == 0 ? 1 : width;
    }
    return used;
}

/* Characters that a terminal or a reader of one-line logs would take for something else. */
static bool deceptive(uint32_t code)
{
    return code < 0x20 || (code >= 0x7F && code < 0xA0) || code == 0x2028 || code == 0x2029 ||
           (code >= 0x202A && code <= 0x202E) || (code >= 0x2066 && code <= 0x2069);
}

void rsbx_text_printable(char *out, size_t size, const void *bytes, size_t length)
{
    const char *p = bytes;
    size_t used = 0;

    if (size == 0)
        return;
    while (length > 0) {
        char piece[8];
        uint32_t code = 0;
        size_t step = rsbx_utf8_next(&code, p, length);
        size_t piece_length;

        if (step == 0) {
            step = 1;
            (void)snprintf(piece, sizeof piece, "\\x%02x", (unsigned char)*p);
        } else if (code == '\n' || code == '\r' || code == '\t') {
            (void)snprintf(piece, sizeof piece, "\\%c",
                           code == '\n' ? 'n' : code == '\r' ? 'r' : 't');
        } else if (deceptive(code)) {
            (void)snprintf(piece, sizeof piece, code < 0x100 ? "\\x%02x" : "\\u%04x", code);
        } else {
            memcpy(piece, p, step);
            piece[step] = '\0';
        }
        piece_length = strlen(piece);
        if (used + piece_length >= size)
            break;
        memcpy(out + used, piece, piece_length);
        used += piece_length;
        p += step;
        length -= step;
    }
    out[used] = '\0';
}

void rsbx_hex(char *out, const void *bytes, size_t length)
{
    static const char digits[] = "0123456789abcdef";
    const unsigned char *p = bytes;

    for (size_t i = 0; i < length; i++) {
        *out++ = digits[p[i] >> 4];
        *out++ = digits[p[i] & 15];
    }
    *out = '\0';
}

static int hex_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return -1;
}

bool rsbx_unhex(void *out, size_t length, const char *hex)
{
    unsigned char *p = out;

    if (!rsbx_is_hex(hex, 2 * length))
        return false;
    for (size_t i = 0; i < length; i++)
        p[i] = (unsigned char)(hex_value(hex[2 * i]) << 4 | hex_value(hex[2 * i + 1]));
    return true;
}

bool rsbx_is_hex(const char *text, size_t digits)
{
    for (size_t i = 0; i < digits; i++) {
        if (hex_value(text[i]) < 0)
            return false;
    }
    return text[digits] == '\0';
}
