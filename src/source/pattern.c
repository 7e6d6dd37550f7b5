/* SPDX-License-Identifier: Apache-2.0 */
#include "source/internal.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/banned.h"

/*
 * Patterns of gitattributes(5), which are those of gitignore(5) without negation: a pattern without
 * '/' is compared with the last component, one with '/' with the whole path below the folder of its
 * file; a trailing '/' asks for a folder; '*' and '?' and sets do not match '/', "**" between
 * slashes does.
 *
 * A pattern comes from the repository, so a backtracking matcher would be an attack on our time.
 * Here all positions that the pattern can be at move forward together, one byte of text at a time.
 */
enum token_kind {
    TOKEN_BYTE,
    TOKEN_ANY,       /* ? */
    TOKEN_SET,
    TOKEN_STAR,      /* any bytes but '/' */
    TOKEN_DEEP_STAR, /* any bytes */
    TOKEN_DIRS,      /* "**" and '/': nothing, or … */
    TOKEN_DIRS_LOOP  /* … any bytes that end in '/'; always behind TOKEN_DIRS */
};

struct token {
    uint8_t kind;
    uint8_t byte;
    uint16_t set;
};

struct set {
    uint32_t bits[8];
};

struct rsbx_pattern {
    bool folder_only;
    bool whole_path;
    size_t count;
    size_t set_count;
    struct token *tokens;
    struct set *sets;
};

static void set_add(struct set *set, unsigned first, unsigned last)
{
    for (unsigned c = first; c <= last && c < 256; c++)
        set->bits[c / 32] |= 1U << (c % 32);
}

static bool set_has(const struct set *set, unsigned char c)
{
    return (set->bits[c / 32] >> (c % 32) & 1U) != 0;
}

/* ASCII only, whatever the locale: bytes from 0x80 up belong to no class. */
static bool in_class(const char *name, size_t length, unsigned c, bool *known)
{
    static const struct {
        const char *name;
        int (*test)(int);
    } classes[] = {
        { "alnum", isalnum }, { "alpha", isalpha }, { "cntrl", iscntrl }, { "digit", isdigit },
        { "graph", isgraph }, { "lower", islower }, { "print", isprint }, { "punct", ispunct },
        { "space", isspace }, { "upper", isupper }, { "xdigit", isxdigit }, { "blank", isblank },
    };

    *known = false;
    for (size_t i = 0; i < sizeof classes / sizeof classes[0]; i++) {
        if (strlen(classes[i].name) == length && memcmp(classes[i].name, name, length) == 0) {
            *known = true;
            return c < 128 && classes[i].test((int)c) != 0;
        }
    }
    return false;
}

/* "[:name:]" at `at`: 1 and moved to the final ']', 0 when it is no class, -1 when it is bad. */
static int add_class(struct set *set, const char **at, const char *end)
{
    const char *name = *at + 2;
    const char *close;
    bool known = false;

    if (name > end)
        return -1;
    close = memchr(name, ']', (size_t)(end - name));
    if (close == NULL)
        return -1;
    if (close == name || close[-1] != ':')
        return 0;
    for (unsigned c = 0; c < 256; c++) {
        if (in_class(name, (size_t)(close - name) - 1, c, &known))
            set_add(set, c, c);
    }
    *at = close;
    return known ? 1 : -1;
}

/* A set from behind its '['; on return *at stands behind the ']'. False when it never closes. */
static bool read_set(struct set *set, const char **at, const char *end)
{
    const char *p = *at;
    unsigned previous = 0;
    bool negated = false;
    bool first = true;

    memset(set, 0, sizeof *set);
    if (p < end && (*p == '!' || *p == '^')) {
        negated = true;
        p++;
    }
    for (; p < end && (first || *p != ']'); p++, first = false) {
        unsigned c = (unsigned char)*p;
        int known;

        if (c == '-' && previous != 0 && p + 1 < end && p[1] != ']') {
            p++;
            if (*p == '\\' && ++p >= end)
                return false;
            set_add(set, previous, (unsigned char)*p);
            previous = 0;
            continue;
        }
        if (c == '[' && p + 1 < end && p[1] == ':') {
            known = add_class(set, &p, end);
            if (known < 0)
                return false;
            if (known > 0) {
                previous = 0;
                continue;
            }
        }
        if (c == '\\') {
            if (++p >= end)
                return false;
            c = (unsigned char)*p;
        }
        set_add(set, c, c);
        previous = c;
    }
    if (p >= end)
        return false;
    if (negated) {
        for (size_t i = 0; i < 8; i++)
            set->bits[i] = ~set->bits[i];
    }
    *at = p + 1;
    return true;
}

static void add_stars(struct rsbx_pattern *pattern, const char *start, const char **at,
                      const char *end)
{
    const char *p = *at; /* behind the first '*' */
    const char *before = p - 2;
    bool bounded;

    if (p >= end || *p != '*') {
        pattern->tokens[pattern->count++].kind =
            pattern->whole_path ? TOKEN_STAR : TOKEN_DEEP_STAR;
        return;
    }
    while (p < end && *p == '*')
        p++;
    bounded = (before < start || *before == '/') &&
              (p == end || *p == '/' || (*p == '\\' && p + 1 < end && p[1] == '/'));
    if (bounded && p < end && *p == '/') {
        pattern->tokens[pattern->count++].kind = TOKEN_DIRS;
        pattern->tokens[pattern->count++].kind = TOKEN_DIRS_LOOP;
        p++;
    } else {
        pattern->tokens[pattern->count++].kind =
            bounded || !pattern->whole_path ? TOKEN_DEEP_STAR : TOKEN_STAR;
    }
    *at = p;
}

/* False when the pattern can match nothing. */
static bool compile(struct rsbx_pattern *pattern, const char *text, size_t length)
{
    const char *at = text;
    const char *end = text + length;

    while (at < end) {
        char c = *at++;
        struct token *token = &pattern->tokens[pattern->count];

        if (c == '*') {
            add_stars(pattern, text, &at, end);
            continue;
        }
        if (c == '?') {
            token->kind = TOKEN_ANY;
        } else if (c == '[') {
            token->kind = TOKEN_SET;
            token->set = (uint16_t)pattern->set_count;
            if (pattern->set_count == UINT16_MAX ||
                !read_set(&pattern->sets[pattern->set_count++], &at, end))
                return false;
        } else {
            if (c == '\\') {
                if (at >= end)
                    return false;
                c = *at++;
            }
            token->kind = TOKEN_BYTE;
            token->byte = (uint8_t)c;
        }
        pattern->count++;
    }
    return true;
}

int rsbx_pattern_new(struct rsbx_pattern **out, const char *text, size_t length, reposbx_error *err)
{
    struct rsbx_pattern *pattern;
    size_t sets = 1;

    *out = NULL;
    if (length == 0 || text[0] == '!')
        return REPOSBX_OK;
    pattern = calloc(1, sizeof *pattern);
    if (pattern == NULL)
        return rsbx_fail_memory(err);
    if (text[length - 1] == '/') {
        pattern->folder_only = true;
        length--;
    }
    pattern->whole_path = memchr(text, '/', length) != NULL;
    if (length > 0 && text[0] == '/') {
        text++;
        length--;
    }
    for (size_t i = 0; i < length; i++)
        sets += text[i] == '[';
    pattern->tokens = calloc(length + 2, sizeof *pattern->tokens);
    pattern->sets = calloc(sets, sizeof *pattern->sets);
    if (pattern->tokens == NULL || pattern->sets == NULL) {
        rsbx_pattern_free(pattern);
        return rsbx_fail_memory(err);
    }
    if (compile(pattern, text, length))
        *out = pattern;
    else
        rsbx_pattern_free(pattern);
    return REPOSBX_OK;
}

void rsbx_pattern_free(struct rsbx_pattern *pattern)
{
    if (pattern == NULL)
        return;
    free(pattern->tokens);
    free(pattern->sets);
    free(pattern);
}

/* Marks position i and those that it reaches without a byte of text. */
static void mark(const struct rsbx_pattern *pattern, uint8_t *at, size_t i)
{
    while (!at[i]) {
        uint8_t kind;

        at[i] = 1;
        if (i == pattern->count)
            return;
        kind = pattern->tokens[i].kind;
        if (kind == TOKEN_DIRS)
            mark(pattern, at, i + 2); /* the loop's position is marked by the next round */
        if (kind != TOKEN_STAR && kind != TOKEN_DEEP_STAR && kind != TOKEN_DIRS)
            return;
        i++;
    }
}

static void advance(const struct rsbx_pattern *pattern, uint8_t *next, size_t i, unsigned char c)
{
    const struct token *token = &pattern->tokens[i];

    switch ((enum token_kind)token->kind) {
    case TOKEN_BYTE:
        if (token->byte == c)
            mark(pattern, next, i + 1);
        break;
    case TOKEN_ANY:
        if (c != '/' || !pattern->whole_path)
            mark(pattern, next, i + 1);
        break;
    case TOKEN_SET:
        if ((c != '/' || !pattern->whole_path) && set_has(&pattern->sets[token->set], c))
            mark(pattern, next, i + 1);
        break;
    case TOKEN_STAR:
        if (c != '/')
            mark(pattern, next, i);
        break;
    case TOKEN_DEEP_STAR:
        mark(pattern, next, i);
        break;
    case TOKEN_DIRS:
        break;
    case TOKEN_DIRS_LOOP:
        mark(pattern, next, i);
        if (c == '/')
            mark(pattern, next, i + 1);
        break;
    }
}

/* More positions than a pattern of 4 KiB has; longer ones are longer than any path. */
#define MAX_POSITIONS 4200U

bool rsbx_pattern_match(const struct rsbx_pattern *pattern, const char *path, size_t length,
                        bool folder, uint64_t *steps)
{
    uint8_t sets[2][MAX_POSITIONS];
    uint8_t *now = sets[0];
    uint8_t *next = sets[1];

    *steps += 1;
    if ((pattern->folder_only && !folder) || pattern->count + 1 > MAX_POSITIONS)
        return false;
    if (!pattern->whole_path) {
        const char *slash = memrchr(path, '/', length);

        if (slash != NULL) {
            length -= (size_t)(slash - path) + 1;
            path = slash + 1;
        }
    }
    memset(now, 0, pattern->count + 1);
    mark(pattern, now, 0);
    for (size_t t = 0; t < length; t++) {
        uint8_t *swap = now;
        bool alive = false;

        memset(next, 0, pattern->count + 1);
        for (size_t i = 0; i < pattern->count; i++) {
            if (now[i]) {
                advance(pattern, next, i, (unsigned char)path[t]);
                alive = true;
            }
        }
        *steps += pattern->count;
        if (!alive)
            return false;
        now = next;
        next = swap;
    }
    return now[pattern->count] != 0;
}
