/* SPDX-License-Identifier: Apache-2.0 */
#include "codec/json.h"

#include <string.h>

#include "base/text.h"

#include "base/banned.h"

int rsbx_json_parse(json_t **out, const void *bytes, size_t length, const char *what,
                    reposbx_error *err)
{
    json_error_t fault;
    json_t *document;

    /* The end-of-file check and the refusal of NUL are jansson's defaults. */
    document = json_loadb(length > 0 ? bytes : "", length, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY,
                          &fault);
    if (document != NULL) {
        *out = document;
        return REPOSBX_OK;
    }
    if (json_error_code(&fault) == json_error_out_of_memory)
        return rsbx_fail_memory(err);
    return rsbx_fail(err, REPOSBX_EMALFORMED, "%s: line %d column %d: %s", what,
                     fault.line > 0 ? fault.line : 1, fault.column > 0 ? fault.column : 1,
                     fault.text);
}

static int dump(char **out, const json_t *value, size_t flags, reposbx_error *err)
{
    char *text = json_dumps(value, flags | JSON_COMPACT | JSON_ENSURE_ASCII | JSON_ENCODE_ANY);

    /* Values that we build or parse hold no cycles and no bad text, so only memory is left. */
    if (text == NULL)
        return rsbx_fail_memory(err);
    *out = text;
    return REPOSBX_OK;
}

int rsbx_json_text(char **out, const json_t *value, reposbx_error *err)
{
    return dump(out, value, 0, err);
}

int rsbx_json_measured(char **out, const json_t *value, reposbx_error *err)
{
    return dump(out, value, JSON_REAL_PRECISION(15), err);
}

int rsbx_json_canonical(char **out, const json_t *value, reposbx_error *err)
{
    return dump(out, value, JSON_SORT_KEYS, err);
}

json_t *rsbx_json_bytes(const void *bytes, size_t length)
{
    static const char replacement[] = "\xEF\xBF\xBD"; /* U+FFFD */
    RSBX_AUTO(rsbx_text) char *text = NULL;
    const char *next = bytes;
    size_t filled = 0;

    if (length > ((size_t)-1 - 1) / 3)
        return NULL;
    text = malloc(3 * length + 1); /* one bad byte grows to three */
    if (text == NULL)
        return NULL;
    while (length > 0) {
        size_t width = rsbx_utf8_next(NULL, next, length);

        if (width == 0) {
            memcpy(text + filled, replacement, 3);
            filled += 3;
            width = 1;
        } else {
            memcpy(text + filled, next, width);
            filled += width;
        }
        next += width;
        length -= width;
    }
    return json_stringn_nocheck(text, filled);
}

static const char *type_name(json_type type)
{
    switch (type) {
    case JSON_OBJECT:
        return "an object";
    case JSON_ARRAY:
        return "an array";
    case JSON_STRING:
        return "text";
    case JSON_INTEGER:
        return "a whole number";
    case JSON_REAL:
        return "a number";
    case JSON_TRUE:
    case JSON_FALSE:
        return "true or false";
    case JSON_NULL:
    default:
        return "null";
    }
}

/* The member, or NULL with err set. `wanted` only serves the message. */
static json_t *member(const json_t *object, const char *key, const char *wanted, const char *what,
                      reposbx_error *err)
{
    json_t *value;

    if (!json_is_object(object)) {
        (void)rsbx_fail(err, REPOSBX_EPROTOCOL, "%s: not an object that could hold \"%s\"", what,
                        key);
        return NULL;
    }
    value = json_object_get(object, key);
    if (value == NULL)
        (void)rsbx_fail(err, REPOSBX_EPROTOCOL, "%s: \"%s\" is missing (%s)", what, key, wanted);
    return value;
}

static int mistyped(const json_t *value, const char *key, const char *wanted, const char *what,
                    reposbx_error *err)
{
    return rsbx_fail(err, REPOSBX_EPROTOCOL, "%s: \"%s\" is %s, not %s", what, key,
                     type_name(json_typeof(value)), wanted);
}

/* Whether an optional member of an object is absent; a non-object is left to the strict forms. */
static bool absent(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);

    return json_is_object(object) && (value == NULL || json_is_null(value));
}

int rsbx_json_get_text(const char **out, const json_t *object, const char *key, const char *what,
                       reposbx_error *err)
{
    const json_t *value = member(object, key, "text", what, err);

    if (value == NULL)
        return REPOSBX_EPROTOCOL;
    if (!json_is_string(value))
        return mistyped(value, key, "text", what, err);
    *out = json_string_value(value);
    return REPOSBX_OK;
}

bool rsbx_json_is_or_absent(const json_t *value, json_type type)
{
    return value == NULL || json_is_null(value) || json_typeof(value) == type;
}

int rsbx_json_get_text_or(const char **out, const json_t *object, const char *key,
                          const char *fallback, const char *what, reposbx_error *err)
{
    if (absent(object, key)) {
        *out = fallback;
        return REPOSBX_OK;
    }
    return rsbx_json_get_text(out, object, key, what, err);
}

int rsbx_json_get_u64(uint64_t *out, const json_t *object, const char *key, const char *what,
                      reposbx_error *err)
{
    static const char wanted[] = "a whole number that is not negative";
    const json_t *value = member(object, key, wanted, what, err);

    if (value == NULL)
        return REPOSBX_EPROTOCOL;
    if (!json_is_integer(value))
        return mistyped(value, key, wanted, what, err);
    if (json_integer_value(value) < 0)
        return rsbx_fail(err, REPOSBX_EPROTOCOL, "%s: \"%s\" is negative", what, key);
    *out = (uint64_t)json_integer_value(value);
    return REPOSBX_OK;
}

int rsbx_json_get_bool(bool *out, const json_t *object, const char *key, const char *what,
                       reposbx_error *err)
{
    const json_t *value = member(object, key, "true or false", what, err);

    if (value == NULL)
        return REPOSBX_EPROTOCOL;
    if (!json_is_boolean(value))
        return mistyped(value, key, "true or false", what, err);
    *out = json_is_true(value);
    return REPOSBX_OK;
}

int rsbx_json_get_bool_or(bool *out, const json_t *object, const char *key, bool fallback,
                          const char *what, reposbx_error *err)
{
    if (absent(object, key)) {
        *out = fallback;
        return REPOSBX_OK;
    }
    return rsbx_json_get_bool(out, object, key, what, err);
}

int rsbx_json_get_node(json_t **out, const json_t *object, const char *key, json_type type,
                       const char *what, reposbx_error *err)
{
    json_t *value = member(object, key, type_name(type), what, err);

    if (value == NULL)
        return REPOSBX_EPROTOCOL;
    if (json_typeof(value) != type)
        return mistyped(value, key, type_name(type), what, err);
    *out = value;
    return REPOSBX_OK;
}
