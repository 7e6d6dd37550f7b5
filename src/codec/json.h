/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RSBX_CODEC_JSON_H
#define RSBX_CODEC_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/error.h"

/*
 * Strict JSON over jansson: exactly one document, nothing but white space after it, no duplicate
 * keys, no NUL in strings, UTF-8 only, nesting bounded by jansson.
 *
 *     RSBX_AUTO(rsbx_json) rsbx_json_ptr document = NULL;
 *     rc = rsbx_json_parse(&document, bytes, length, "engine reply", err);
 */
typedef json_t *rsbx_json_ptr;
RSBX_CLEANUP(rsbx_json, rsbx_json_ptr, json_decref);

/* REPOSBX_EMALFORMED with "what: line L column C: reason". Any JSON value is accepted at the
 * top. */
int rsbx_json_parse(json_t **out, const void *bytes, size_t length, const char *what,
                    reposbx_error *err);

/* Compact ASCII text (non-ASCII as \u escapes), keys in insertion order. */
int rsbx_json_text(char **out, const json_t *value, reposbx_error *err);
/* The same for numbers that were measured: 15 digits, with which 0.124 stays 0.124. */
int rsbx_json_measured(char **out, const json_t *value, reposbx_error *err);
/* The same as rsbx_json_text with keys sorted: one value, one text. */
int rsbx_json_canonical(char **out, const json_t *value, reposbx_error *err);

/* A string of any bytes: what is not well-formed UTF-8 becomes U+FFFD, one for each bad byte. NULL
 * only without memory. NUL is well formed and stays, but rsbx_json_parse would refuse a document
 * that holds it. */
json_t *rsbx_json_bytes(const void *bytes, size_t length);

/* Whether a value is of this type, or missing, or null. */
bool rsbx_json_is_or_absent(const json_t *value, json_type type);

/* Typed members of an object. A missing or mistyped one is REPOSBX_EPROTOCOL naming `what` and the
 * key. Strings are borrowed from the object. The optional forms (…_or) give the default when the
 * key is missing or null, and still fail on another type. */
int rsbx_json_get_text(const char **out, const json_t *object, const char *key, const char *what,
                       reposbx_error *err);
int rsbx_json_get_text_or(const char **out, const json_t *object, const char *key,
                          const char *fallback, const char *what, reposbx_error *err);
int rsbx_json_get_u64(uint64_t *out, const json_t *object, const char *key, const char *what,
                      reposbx_error *err);
int rsbx_json_get_bool(bool *out, const json_t *object, const char *key, const char *what,
                       reposbx_error *err);
int rsbx_json_get_bool_or(bool *out, const json_t *object, const char *key, bool fallback,
                          const char *what, reposbx_error *err);
/* Borrowed object or array; `type` is JSON_OBJECT or JSON_ARRAY. */
int rsbx_json_get_node(json_t **out, const json_t *object, const char *key, json_type type,
                       const char *what, reposbx_error *err);

/* Where a member stands in the text that a document was parsed from: `path` names members and array
 * elements, as in "limits.cpus" or "images[2]"; a key's position is that of its opening quote, an
 * element's that of its first character. Line and column start at 1, columns count bytes. False
 * when there is no such place. The text must have been accepted by rsbx_json_parse. */
bool rsbx_json_locate(size_t *line, size_t *column, const char *text, size_t length,
                      const char *path);

#endif
