/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RSBX_BASE_TEXT_H
#define RSBX_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Length in bytes (1–4) of the well-formed UTF-8 character at the start of `bytes`, or 0 when there
 * is none (bad lead, overlong form, surrogate, above U+10FFFF, cut short). `code` may be NULL.
 * Rule: Unicode 15 table 3-7. */
size_t rsbx_utf8_next(uint32_t *code, const void *bytes, size_t length);

/* Whether all bytes are well-formed UTF-8. */
bool rsbx_utf8_valid(const void *bytes, size_t length);

/* The length without a character that the end of `bytes` cuts; all of it where the end cuts none, or is no
 * UTF-8 anyway. */
size_t rsbx_utf8_edge(const void *bytes, size_t length);

/* How many of `length` bytes have a place in `*room` bytes of text, in which each that is not UTF-8 takes
 * three (U+FFFD); ends with a whole character. *room is what is left. */
size_t rsbx_utf8_fit(size_t *room, const void *bytes, size_t length);

/* Writes a NUL-terminated printable form of `length` bytes into out[size], cut at a character's
 * edge where it does not fit: control characters become \xNN or \n \r \t, bytes that are not UTF-8
 * become \xNN, U+2028 and U+2029 and the bidirectional controls become \uNNNN. */
void rsbx_text_printable(char *out, size_t size, const void *bytes, size_t length);

/* Lower-case hex of `length` bytes into out, which holds 2 * length + 1 chars. */
void rsbx_hex(char *out, const void *bytes, size_t length);

/* Reads exactly 2 * length lower-case hex digits; false when there is anything else. */
bool rsbx_unhex(void *out, size_t length, const char *hex);

/* Whether the string is exactly `digits` lower-case hex digits. */
bool rsbx_is_hex(const char *text, size_t digits);

#endif
