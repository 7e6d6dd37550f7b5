/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/text.h"
#include "wasm/imports.h"
#include "wasm/internal.h"

#include "base/banned.h"

/*
 * A reader of the binary format, for what we rely on: types, imports, the memory, tables, exports, and
 * data. Everything else passes as it is; wasm2c validates the whole. (The format: WebAssembly core
 * specification 2.0, chapter 5.)
 */

#define MAX_TYPES 100000U
#define MAX_NAME_BYTES 255U
#define PAGE_BYTES 65536ULL

enum section {
    CUSTOM = 0,
    TYPE = 1,
    IMPORT = 2,
    FUNCTION = 3,
    TABLE = 4,
    MEMORY = 5,
    EXPORT = 7,
    START = 8,
    DATA = 11,
    DATA_COUNT = 12,
    SECTIONS = 13
};

struct cursor {
    const uint8_t *at, *end;
    bool bad; /* something did not parse; every later read gives 0 */
};

struct name {
    const char *bytes;
    size_t length;
};

struct module {
    struct cursor sections[SECTIONS];
    bool present[SECTIONS];
    const uint8_t **types; /* where each type's parameters start */
    uint32_t type_count;
    uint32_t imported;     /* functions */
    uint32_t memory_pages;
    const uint8_t *end;
};

static void module_autop(struct module *module)
{
    free(module->types);
}

static uint8_t byte(struct cursor *in)
{
    if (in->bad || in->at == in->end) {
        in->bad = true;
        return 0;
    }
    return *in->at++;
}

/* An unsigned LEB128 of at most 32 bits. */
static uint32_t number(struct cursor *in)
{
    uint64_t value = 0;

    for (unsigned shift = 0; shift < 35; shift += 7) {
        uint8_t next = byte(in);

        value |= (uint64_t)(next & 0x7fU) << shift;
        if ((next & 0x80U) == 0) {
            if (value > UINT32_MAX)
                in->bad = true;
            return in->bad ? 0 : (uint32_t)value;
        }
    }
    in->bad = true;
    return 0;
}

/* A signed LEB128 of at most 32 bits, as the address that it means. */
static uint32_t address(struct cursor *in)
{
    uint64_t value = 0;

    for (unsigned shift = 0; shift < 35; shift += 7) {
        uint8_t next = byte(in);

        value |= (uint64_t)(next & 0x7fU) << shift;
        if ((next & 0x80U) == 0) {
            if ((next & 0x40U) != 0 && shift + 7 < 32)
                value |= UINT64_MAX << (shift + 7);
            return (uint32_t)value;
        }
    }
    in->bad = true;
    return 0;
}

static const uint8_t *bytes(struct cursor *in, uint32_t length)
{
    const uint8_t *place = in->at;

    if (in->bad || length > (size_t)(in->end - in->at)) {
        in->bad = true;
        return NULL;
    }
    in->at += length;
    return place;
}

static struct name name_of(struct cursor *in)
{
    struct name name = { "", 0 };
    uint32_t length = number(in);
    const uint8_t *place = bytes(in, length);

    if (place != NULL)
        name = (struct name){ (const char *)place, length };
    return name;
}

static int malformed(const char *what, reposbx_error *err)
{
    return rsbx_fail(err, REPOSBX_EMALFORMED, "not a WebAssembly module: %s", what);
}

static int split_sections(struct module *out, const uint8_t *all, size_t length, reposbx_error *err)
{
    static const uint8_t head[8] = { 0, 'a', 's', 'm', 1, 0, 0, 0 };
    struct cursor in = { all, all + length, false };

    if (length < sizeof head || memcmp(all, head, sizeof head) != 0)
        return malformed("it does not start as one of version 1", err);
    in.at += sizeof head;
    while (in.at < in.end) {
        uint8_t id = byte(&in);
        uint32_t size = number(&in);
        const uint8_t *place = bytes(&in, size);

        if (place == NULL)
            return malformed("a section ends after the file", err);
        if (id == CUSTOM)
            continue;
        if (id >= SECTIONS || out->present[id])
            return malformed("an unknown or a second section", err);
        out->present[id] = true;
        out->sections[id] = (struct cursor){ place, place + size, false };
    }
    return REPOSBX_OK;
}

/* ---- types and imports ---- */

static int read_types(struct module *module, reposbx_error *err)
{
    struct cursor in = module->sections[TYPE];
    uint32_t count = module->present[TYPE] ? number(&in) : 0;

    if (count > MAX_TYPES)
        return malformed("too many types", err);
    module->types = calloc((size_t)count + 1, sizeof *module->types);
    if (module->types == NULL)
        return rsbx_fail_memory(err);
    for (uint32_t i = 0; i < count && !in.bad; i++) {
        if (byte(&in) != 0x60)
            in.bad = true;
        module->types[i] = in.at;
        (void)bytes(&in, number(&in));
        (void)bytes(&in, number(&in));
    }
    if (in.bad)
        return malformed("the types", err);
    module->type_count = count;
    module->end = module->sections[TYPE].end;
    return REPOSBX_OK;
}

static bool next_is(struct cursor *in, char letter)
{
    uint8_t type = byte(in);

    return !in->bad && ((letter == 'i' && type == 0x7f) || (letter == 'l' && type == 0x7e));
}

/* Whether type number `index` is what `text` says. */
static bool type_is(const struct module *module, uint32_t index, const char *text)
{
    const char *colon = strchr(text, ':');
    struct cursor in;

    if (index >= module->type_count || colon == NULL)
        return false;
    in = (struct cursor){ module->types[index], module->end, false };
    if (number(&in) != (uint32_t)(colon - text))
        return false;
    for (const char *p = text; p < colon; p++) {
        if (!next_is(&in, *p))
            return false;
    }
    if (number(&in) != strlen(colon + 1))
        return false;
    return colon[1] == '\0' || next_is(&in, colon[1]);
}

static int refuse_import(const struct name *module, const struct name *name, const char *why,
                         reposbx_error *err)
{
    char first[256], second[256];

    rsbx_text_printable(first, sizeof first, module->bytes, module->length);
    rsbx_text_printable(second, sizeof second, name->bytes, name->length);
    (void)rsbx_fail(err, REPOSBX_EPOLICY, "the module imports %s.%s, %s", first, second, why);
    rsbx_hint(err, "what is supplied are the functions of %s", RSBX_WASM_IMPORT_MODULE);
    return REPOSBX_EPOLICY;
}

static int check_import(struct module *module, struct cursor *in, reposbx_error *err)
{
    struct name from = name_of(in);
    struct name name = name_of(in);
    uint8_t kind = byte(in);
    const struct rsbx_wasm_import *import;

    if (in->bad)
        return malformed("the imports", err);
    if (kind != 0)
        return refuse_import(&from, &name, "which is no function", err);
    import = rsbx_wasm_import_find(name.bytes, name.length);
    if (import == NULL || from.length != strlen(RSBX_WASM_IMPORT_MODULE) ||
        memcmp(from.bytes, RSBX_WASM_IMPORT_MODULE, from.length) != 0)
        return refuse_import(&from, &name, "which is not supplied", err);
    if (!type_is(module, number(in), import->type))
        return refuse_import(&from, &name, "with another type than it has", err);
    module->imported++;
    return REPOSBX_OK;
}

static int read_imports(struct module *module, reposbx_error *err)
{
    struct cursor in = module->sections[IMPORT];
    uint32_t count = module->present[IMPORT] ? number(&in) : 0;
    int rc = REPOSBX_OK;

    for (uint32_t i = 0; i < count && rc == 0; i++)
        rc = check_import(module, &in, err);
    return rc;
}

/* ---- tables, the memory, exports ---- */

/* The first number of limits; `most` tells nothing here. */
static uint32_t limits(struct cursor *in)
{
    uint8_t flags = byte(in);
    uint32_t least = number(in);

    if (flags > 1)
        in->bad = true; /* shared, or of 64 bits */
    if (flags == 1)
        (void)number(in);
    return least;
}

static int read_tables(const struct module *module, reposbx_error *err)
{
    struct cursor in = module->sections[TABLE];
    uint32_t count = module->present[TABLE] ? number(&in) : 0;
    uint64_t elements = 0;

    for (uint32_t i = 0; i < count && !in.bad; i++) {
        (void)byte(&in);
        elements += limits(&in);
    }
    if (in.bad)
        return malformed("the tables", err);
    if (elements > RSBX_WASM_MAX_TABLE_ELEMENTS)
        return rsbx_fail(err, REPOSBX_EPOLICY, "the module starts with tables of %llu elements; "
                         "%u are supported", (unsigned long long)elements,
                         RSBX_WASM_MAX_TABLE_ELEMENTS);
    return REPOSBX_OK;
}

static int read_memory(struct module *module, reposbx_error *err)
{
    struct cursor in = module->sections[MEMORY];

    if (!module->present[MEMORY] || number(&in) != 1)
        return rsbx_fail(err, REPOSBX_EPOLICY, "the module does not have exactly one memory");
    module->memory_pages = limits(&in);
    return in.bad ? malformed("the memory (a shared one, or one of 64 bits, is not supported)", err)
                  : REPOSBX_OK;
}

/* Names stand in the C text, in comments too: only what cannot mean anything there passes. */
static bool plain(const struct name *name)
{
    if (name->length == 0 || name->length > MAX_NAME_BYTES)
        return false;
    for (size_t i = 0; i < name->length; i++) {
        char c = name->bytes[i];
        bool word = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');

        if (!word && memchr("_.:$@#-", c, 7) == NULL)
            return false;
    }
    return true;
}

/* Whether function number `index`, one of the module's own, takes and gives nothing. */
static bool is_start(const struct module *module, uint32_t index)
{
    struct cursor in = module->sections[FUNCTION];
    uint32_t count = module->present[FUNCTION] ? number(&in) : 0;

    if (index < module->imported || index - module->imported >= count)
        return false;
    for (uint32_t i = module->imported; i < index; i++)
        (void)number(&in);
    return type_is(module, number(&in), ":") && !in.bad;
}

static bool named(const struct name *name, const char *text)
{
    return name->length == strlen(text) && memcmp(name->bytes, text, name->length) == 0;
}

static int read_exports(const struct module *module, reposbx_error *err)
{
    struct cursor in = module->sections[EXPORT];
    uint32_t count = module->present[EXPORT] ? number(&in) : 0;
    bool start = false, memory = false;

    for (uint32_t i = 0; i < count; i++) {
        struct name name = name_of(&in);
        uint8_t kind = byte(&in);
        uint32_t index = number(&in);

        if (in.bad)
            return malformed("the exports", err);
        if (!plain(&name)) {
            char text[256];

            rsbx_text_printable(text, sizeof text, name.bytes, name.length);
            return rsbx_fail(err, REPOSBX_EPOLICY, "the module exports a name that is not plain: %s",
                             text);
        }
        if (kind == 0 && named(&name, "_start"))
            start = is_start(module, index);
        if (kind == 2 && named(&name, "memory"))
            memory = true;
    }
    if (start && memory)
        return REPOSBX_OK;
    return rsbx_fail(err, REPOSBX_EPOLICY, "the module is no command: it does not export %s",
                     start ? "its memory as \"memory\"" : "a function \"_start\" without parameters");
}

/* ---- data ---- */

/* One active segment; false when it is of another kind. */
static bool next_segment(struct cursor *in, uint32_t *at, const uint8_t **from, uint32_t *length)
{
    uint32_t kind = number(in);

    if (kind == 2 && number(in) != 0)
        return false;
    if ((kind != 0 && kind != 2) || byte(in) != 0x41)
        return false;
    *at = address(in);
    if (byte(in) != 0x0b)
        return false;
    *length = number(in);
    *from = bytes(in, *length);
    return !in->bad;
}

/* Where the segments lie: [*first, *behind). False when they cannot be laid out in advance. */
static bool span_of_data(const struct module *module, uint64_t *first, uint64_t *behind)
{
    struct cursor in = module->sections[DATA];
    uint32_t count;

    if (!module->present[DATA] || module->present[START] || module->present[DATA_COUNT])
        return false;
    *first = UINT64_MAX;
    *behind = 0;
    count = number(&in);
    for (uint32_t i = 0; i < count; i++) {
        const uint8_t *from;
        uint32_t at, length;

        if (!next_segment(&in, &at, &from, &length))
            return false;
        if ((uint64_t)at + length > module->memory_pages * PAGE_BYTES)
            return false; /* traps at the start: left to the generated code */
        if (at < *first)
            *first = at;
        if ((uint64_t)at + length > *behind)
            *behind = (uint64_t)at + length;
    }
    return in.at == in.end && !in.bad && *behind > *first &&
           *behind - *first <= RSBX_WASM_MAX_IMAGE_BYTES;
}

static int lay_out(struct rsbx_wasm_parsed *out, const struct module *module, uint64_t first,
                   uint64_t behind, reposbx_error *err)
{
    struct cursor in = module->sections[DATA];
    uint32_t count = number(&in);
    size_t size = (size_t)(behind - first);
    uint8_t *image = rsbx_buf_reserve(&out->image, size, err);

    if (image == NULL)
        return REPOSBX_EINTERNAL;
    memset(image, 0, size);
    for (uint32_t i = 0; i < count; i++) {
        const uint8_t *from;
        uint32_t at, length;

        if (next_segment(&in, &at, &from, &length))
            memcpy(image + (at - first), from, length);
    }
    out->image.length = size;
    out->image_offset = (uint32_t)first;
    return REPOSBX_OK;
}

/* ---- the whole ---- */

/* The module again, less its custom sections, and its data when that is in the image. */
static int write_bare(struct rsbx_buf *out, const uint8_t *all, size_t length, bool with_data,
                      reposbx_error *err)
{
    struct cursor in = { all + 8, all + length, false };
    int rc = rsbx_buf_append(out, all, 8, err);

    while (rc == 0 && in.at < in.end) {
        const uint8_t *start = in.at;
        uint8_t id = byte(&in);

        (void)bytes(&in, number(&in));
        if (id != CUSTOM && (id != DATA || with_data))
            rc = rsbx_buf_append(out, start, (size_t)(in.at - start), err);
    }
    return rc;
}

void rsbx_wasm_parsed_dispose(struct rsbx_wasm_parsed *parsed)
{
    rsbx_buf_dispose(&parsed->bare);
    rsbx_buf_dispose(&parsed->image);
}

int rsbx_wasm_parse(struct rsbx_wasm_parsed *out, const void *all, size_t length, reposbx_error *err)
{
    RSBX_AUTO(module) struct module module = { .types = NULL };
    struct rsbx_wasm_parsed parsed = { RSBX_BUF_INIT(RSBX_WASM_MAX_MODULE_BYTES),
                                       RSBX_BUF_INIT(RSBX_WASM_MAX_IMAGE_BYTES), 0, false };
    uint64_t first, behind;
    bool image;
    int rc = split_sections(&module, all, length, err);

    if (rc == 0)
        rc = read_types(&module, err);
    if (rc == 0)
        rc = read_imports(&module, err);
    if (rc == 0)
        rc = read_tables(&module, err);
    if (rc == 0)
        rc = read_memory(&module, err);
    if (rc == 0)
        rc = read_exports(&module, err);
    if (rc != 0)
        return rc;
    parsed.imports = module.imported > 0;
    image = span_of_data(&module, &first, &behind);
    if (image)
        rc = lay_out(&parsed, &module, first, behind, err);
    if (rc == 0)
        rc = write_bare(&parsed.bare, all, length, !image, err);
    if (rc != 0)
        rsbx_wasm_parsed_dispose(&parsed);
    else
        *out = parsed;
    return rc;
}
