/* SPDX-License-Identifier: Apache-2.0 */
#include "diff/ignore.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "base/path.h"
#include "base/search.h"
#include "diff/internal.h"

#include "base/banned.h"

/* Steps of the matcher, over all questions: a second or two of processor time. An honest tree with
 * a hundred thousand new files and a thousand patterns stays below. */
#define MAX_WORK (1ULL << 29)
/* Tokens of one pattern that can still match: each but a star takes a byte of the path. */
#define MAX_TOKENS (2U * RSBX_MAX_PATH_BYTES + 2U)

enum token_kind { TOKEN_BYTE, TOKEN_ANY, TOKEN_SET, TOKEN_STAR, TOKEN_DEEP_STAR };

struct token {
    uint8_t kind;
    uint8_t byte;
    bool may_skip_slash; /* of a DEEP_STAR: it and the slash behind it may stand for nothing */
    uint32_t set[8];     /* of a SET: one bit a byte */
};

struct rule {
    struct token *tokens;
    size_t count;
    size_t head, tail; /* plain bytes at the start and the end */
    bool negative, folder_only, by_name;
};

struct ignore_file {
    char *folder;
    size_t length;
    struct rule *rules;
    size_t count;
};

struct rsbx_ignore {
    struct ignore_file *files;
    size_t count;
    bool sorted;
    uint64_t work;
    /* The last path, and how much of it is a folder known to count: paths come in walk order. */
    char last[RSBX_MAX_PATH_BYTES];
    size_t last_length, last_clear;
    uint8_t states[2][MAX_TOKENS + 3];
};

int rsbx_ignore_new(struct rsbx_ignore **out, reposbx_error *err)
{
    struct rsbx_ignore *ignore = calloc(1, sizeof *ignore);

    if (ignore == NULL)
        return rsbx_fail_memory(err);
    *out = ignore;
    return REPOSBX_OK;
}

void rsbx_ignore_free(struct rsbx_ignore *ignore)
{
    if (ignore == NULL)
        return;
    for (size_t i = 0; i < ignore->count; i++) {
        for (size_t j = 0; j < ignore->files[i].count; j++)
            free(ignore->files[i].rules[j].tokens);
        free(ignore->files[i].rules);
        free(ignore->files[i].folder);
    }
    free(ignore->files);
    free(ignore);
}

/* ---- from text to tokens ---- */

/* The text of one pattern; at() is 0 behind its end, and no pattern holds a NUL. */
struct pattern {
    const char *text;
    size_t length;
};

static uint8_t at(const struct pattern *pattern, size_t place)
{
    return place < pattern->length ? (uint8_t)pattern->text[place] : 0;
}

static void set_range(uint32_t set[8], unsigned int first, unsigned int last)
{
    for (unsigned int c = first; c <= last; c++)
        set[c / 32] |= 1U << c % 32;
}

/* ASCII only, whatever the locale; white space is what Git takes for it. */
static bool set_class(uint32_t set[8], const char *name, size_t length)
{
    static const struct {
        const char *name;
        const char *ranges; /* pairs: first, last */
    } classes[] = {
        { "alnum", "09AZaz" }, { "alpha", "AZaz" },       { "blank", "  \t\t" },
        { "cntrl", "\x01\x1f\x7f\x7f" }, { "digit", "09" }, { "graph", "!~" },
        { "lower", "az" },     { "print", " ~" },         { "punct", "!/:@[`{~" },
        { "space", "  \t\n\r\r" }, { "upper", "AZ" },     { "xdigit", "09AFaf" },
    };

    for (size_t i = 0; i < sizeof classes / sizeof classes[0]; i++) {
        if (strlen(classes[i].name) != length || memcmp(classes[i].name, name, length) != 0)
            continue;
        for (const char *range = classes[i].ranges; *range != '\0'; range += 2)
            set_range(set, (unsigned char)range[0], (unsigned char)range[1]);
        return true;
    }
    return false;
}

/* "[:name:]" at *place, which is moved to its last byte: 1 it is one, 0 it is none (a plain
 * bracket), -1 nothing can match. */
static int take_class(uint32_t set[8], const struct pattern *pattern, size_t *place)
{
    size_t start = *place + 2, end = start;

    while (at(pattern, end) != 0 && at(pattern, end) != ']')
        end++;
    if (at(pattern, end) == 0)
        return -1;
    if (end == start || at(pattern, end - 1) != ':')
        return 0;
    *place = end;
    return set_class(set, pattern->text + start, end - 1 - start) ? 1 : -1;
}

/* A set whose '[' stands at *place, which is moved behind its ']'. False: nothing can match. */
static bool take_set(uint32_t set[8], const struct pattern *pattern, size_t *place)
{
    size_t p = *place + 1;
    bool negated = at(pattern, p) == '!' || at(pattern, p) == '^';
    uint8_t before = 0; /* what a range may start with */

    p += negated ? 1 : 0;
    for (bool first = true; first || at(pattern, p) != ']'; first = false, p++) {
        uint8_t c = at(pattern, p);
        int class = 0;

        if (c == '-' && before != 0 && at(pattern, p + 1) != 0 && at(pattern, p + 1) != ']') {
            c = at(pattern, ++p);
            if (c == '\\')
                c = at(pattern, ++p);
            if (c == 0)
                return false;
            set_range(set, before, c);
            before = 0;
            continue;
        }
        if (c == '\\')
            c = at(pattern, ++p);
        else if (c == '[' && at(pattern, p + 1) == ':')
            class = take_class(set, pattern, &p);
        if (c == 0 || class < 0)
            return false;
        if (class == 0)
            set_range(set, c, c);
        before = class == 0 ? c : 0;
    }
    for (size_t i = 0; negated && i < 8; i++)
        set[i] = ~set[i];
    set['/' / 32] &= ~(1U << '/' % 32);
    *place = p + 1;
    return true;
}

/* A run of stars at *place. Two or more cross folders only where they are a whole component; Git
 * looks at what is left of a pattern behind its plain start (`plain` bytes), so that counts as the
 * edge of a component too. */
static void take_stars(struct token *token, const struct pattern *pattern, size_t *place,
                       size_t plain)
{
    size_t start = *place, end = start;
    bool edge = start == plain || at(pattern, start - 1) == '/';

    while (at(pattern, end) == '*')
        end++;
    token->kind = TOKEN_STAR;
    if (end - start > 1 && edge &&
        (end == pattern->length || at(pattern, end) == '/' ||
         (at(pattern, end) == '\\' && at(pattern, end + 1) == '/'))) {
        token->kind = TOKEN_DEEP_STAR;
        token->may_skip_slash = at(pattern, end) == '/';
    }
    *place = end;
}

/* Compiles into tokens[pattern->length]; false when the pattern can match nothing. */
static bool compile(struct token *tokens, size_t *count, const struct pattern *pattern)
{
    size_t plain = 0, p = 0;

    *count = 0;
    while (plain < pattern->length && strchr("*?[\\", pattern->text[plain]) == NULL)
        plain++;
    while (p < pattern->length) {
        struct token *token = &tokens[(*count)++];

        *token = (struct token){ .kind = TOKEN_BYTE, .byte = at(pattern, p) };
        if (token->byte == '*') {
            take_stars(token, pattern, &p, plain);
            continue;
        }
        if (token->byte == '[') {
            token->kind = TOKEN_SET;
            if (!take_set(token->set, pattern, &p))
                return false;
            continue;
        }
        if (token->byte == '?')
            token->kind = TOKEN_ANY;
        else if (token->byte == '\\')
            token->byte = at(pattern, ++p);
        if (p >= pattern->length)
            return false; /* a backslash at the end */
        p++;
    }
    return *count > 0 && *count <= MAX_TOKENS;
}

/* Without the blanks at the end that no backslash keeps. */
static size_t trimmed(const char *line, size_t length)
{
    size_t kept = 0;

    for (size_t i = 0; i < length; i++) {
        if (line[i] == '\\' && i + 1 < length)
            kept = ++i + 1;
        else if (line[i] != ' ')
            kept = i + 1;
    }
    return kept;
}

static int keep_rule(struct ignore_file *file, struct rule *rule, const struct pattern *pattern,
                     reposbx_error *err)
{
    struct token *tokens = calloc(pattern->length + 1, sizeof *tokens);
    struct rule *grown;

    if (tokens == NULL)
        return rsbx_fail_memory(err);
    if (!compile(tokens, &rule->count, pattern)) {
        free(tokens);
        return REPOSBX_OK;
    }
    rule->tokens = tokens;
    while (rule->head < rule->count && tokens[rule->head].kind == TOKEN_BYTE)
        rule->head++;
    while (rule->tail < rule->count - rule->head &&
           tokens[rule->count - 1 - rule->tail].kind == TOKEN_BYTE)
        rule->tail++;
    /* The slash of a star that stands for nothing need not be there. */
    if (rule->tail > 0 && rule->tail < rule->count &&
        tokens[rule->count - 1 - rule->tail].may_skip_slash)
        rule->tail--;
    grown = realloc(file->rules, (file->count + 1) * sizeof *grown);
    if (grown == NULL) {
        free(tokens);
        return rsbx_fail_memory(err);
    }
    file->rules = grown;
    grown[file->count++] = *rule;
    return REPOSBX_OK;
}

/* One line without its newline. */
static int add_line(struct ignore_file *file, const char *line, size_t length, reposbx_error *err)
{
    struct rule rule = { .tokens = NULL };
    struct pattern pattern;

    length = strnlen(line, length);
    if (length == 0 || line[0] == '#')
        return REPOSBX_OK;
    pattern = (struct pattern){ line, trimmed(line, length) };
    if (at(&pattern, 0) == '!') {
        rule.negative = true;
        pattern.text++;
        pattern.length--;
    }
    if (pattern.length > 0 && pattern.text[pattern.length - 1] == '/') {
        rule.folder_only = true;
        pattern.length--;
    }
    rule.by_name = memchr(pattern.text, '/', pattern.length) == NULL;
    if (at(&pattern, 0) == '/') {
        pattern.text++;
        pattern.length--;
    }
    /* A pattern of this length has more tokens than a path has bytes. */
    if (pattern.length > 8U * MAX_TOKENS)
        return REPOSBX_OK;
    return keep_rule(file, &rule, &pattern, err);
}

static int add_lines(struct ignore_file *file, const char *text, size_t length, reposbx_error *err)
{
    size_t start = length >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;

    while (start < length) {
        const char *newline = memchr(text + start, '\n', length - start);
        size_t end = newline != NULL ? (size_t)(newline - text) : length;
        size_t stop = end > start && text[end - 1] == '\r' ? end - 1 : end;
        int rc = add_line(file, text + start, stop - start, err);

        if (rc != 0)
            return rc;
        start = end + 1;
    }
    return REPOSBX_OK;
}

int rsbx_ignore_add(struct rsbx_ignore *ignore, const char *folder, size_t folder_length,
                    const char *text, size_t length, reposbx_error *err)
{
    struct ignore_file *grown = realloc(ignore->files, (ignore->count + 1) * sizeof *grown);
    struct ignore_file *file;

    if (grown == NULL)
        return rsbx_fail_memory(err);
    ignore->files = grown;
    file = &grown[ignore->count];
    *file = (struct ignore_file){ .folder = strndup(folder, folder_length),
                                  .length = folder_length };
    if (file->folder == NULL)
        return rsbx_fail_memory(err);
    ignore->count++;
    ignore->sorted = false;
    ignore->last_clear = 0;
    return add_lines(file, text, length, err);
}

/* ---- matching ---- */

static bool takes(const struct token *token, uint8_t c)
{
    switch ((enum token_kind)token->kind) {
    case TOKEN_BYTE:
        return c == token->byte;
    case TOKEN_SET:
        return (token->set[c / 32] >> c % 32 & 1U) != 0;
    case TOKEN_DEEP_STAR:
        return true;
    case TOKEN_ANY:
    case TOKEN_STAR:
        break;
    }
    return c != '/';
}

/* What is known of a position: it was just reached, or a star there has taken something. */
#define STATE_REACHED 1U
#define STATE_TAKING 2U

/* A star stands for nothing too: whoever is at it is behind it as well; behind the slash that
 * follows only while it has taken nothing. All such steps lead forward, so one pass is enough. */
static void pass_stars(const struct rule *rule, uint8_t *states, size_t t)
{
    if (states[t] == 0 || rule->tokens[t].kind < TOKEN_STAR)
        return;
    states[t + 1] |= STATE_REACHED;
    if (rule->tokens[t].may_skip_slash && (states[t] & STATE_REACHED) != 0)
        states[t + 2] |= STATE_REACHED;
}

static bool edges_fit(const struct rule *rule, const char *text, size_t length)
{
    const struct token *tail = rule->tokens + rule->count - rule->tail;

    if (rule->head + rule->tail > length)
        return false;
    for (size_t i = 0; i < rule->head; i++) {
        if ((uint8_t)text[i] != rule->tokens[i].byte)
            return false;
    }
    for (size_t i = 0; i < rule->tail; i++) {
        if ((uint8_t)text[length - rule->tail + i] != tail[i].byte)
            return false;
    }
    return true;
}

static bool matches(struct rsbx_ignore *ignore, const struct rule *rule, const char *text,
                    size_t length)
{
    uint8_t *now = ignore->states[0], *next = ignore->states[1];

    ignore->work++;
    if (rule->head == rule->count)
        return length == rule->count && edges_fit(rule, text, length);
    if (!edges_fit(rule, text, length))
        return false;
    ignore->work += (uint64_t)rule->count * (length + 1);
    memset(now, 0, rule->count + 3);
    now[0] = STATE_REACHED;
    for (size_t i = 0; i < length; i++) {
        uint8_t *swap = now;

        memset(next, 0, rule->count + 3);
        for (size_t t = 0; t < rule->count; t++) {
            pass_stars(rule, now, t);
            if (now[t] == 0 || !takes(&rule->tokens[t], (uint8_t)text[i]))
                continue;
            if (rule->tokens[t].kind < TOKEN_STAR)
                next[t + 1] |= STATE_REACHED;
            else
                next[t] |= STATE_TAKING;
        }
        now = next;
        next = swap;
    }
    for (size_t t = 0; t < rule->count; t++)
        pass_stars(rule, now, t);
    return now[rule->count] != 0;
}

/* The last rule of one file that fits decides: 1 ignored, 0 not, -1 none fits. */
static int judge(struct rsbx_ignore *ignore, const struct ignore_file *file, const char *path,
                 size_t length, bool folder)
{
    size_t below = file->length > 0 ? file->length + 1 : 0;
    size_t name = length;

    while (name > 0 && path[name - 1] != '/')
        name--;
    for (size_t i = file->count; i-- > 0;) {
        const struct rule *rule = &file->rules[i];
        size_t from = rule->by_name ? name : below;

        if ((!rule->folder_only || folder) && matches(ignore, rule, path + from, length - from))
            return rule->negative ? 0 : 1;
    }
    return -1;
}

static int compare_files(const void *a, const void *b)
{
    const struct ignore_file *first = a, *second = b;

    return rsbx_bytes_compare(first->folder, first->length, second->folder, second->length);
}

static int order_file(const void *element, const void *key)
{
    const struct ignore_file *file = element;

    return rsbx_diff_order(file->folder, file->length, key);
}

/* Whether path[length] is ignored by itself: the nearest file that has an opinion wins. */
static bool ignored_here(struct rsbx_ignore *ignore, const char *path, size_t length, bool folder)
{
    size_t end = length;

    while (end > 0) {
        struct rsbx_diff_key key = { path, 0 };
        const struct ignore_file *file;
        int answer;

        do {
            end--;
        } while (end > 0 && path[end] != '/');
        key.length = end;
        file = rsbx_search(ignore->files, ignore->count, sizeof *file, order_file, &key);
        answer = file != NULL ? judge(ignore, file, path, length, folder) : -1;
        if (answer >= 0)
            return answer == 1;
    }
    return false;
}

/* How much of `path` is a folder that was found to count when the last path was asked for. */
static size_t known_clear(const struct rsbx_ignore *ignore, const char *path, size_t length)
{
    size_t clear = 0;

    for (size_t i = 0; i < length && i < ignore->last_length && path[i] == ignore->last[i]; i++) {
        size_t end = i + 1;

        if (end <= ignore->last_clear && end < length && path[end] == '/' &&
            end < ignore->last_length && ignore->last[end] == '/')
            clear = end;
    }
    return clear;
}

int rsbx_ignore_find(size_t *ignored, struct rsbx_ignore *ignore, const char *path, size_t length,
                     reposbx_error *err)
{
    size_t clear, found = 0;

    if (length == 0 || length > RSBX_MAX_PATH_BYTES)
        return rsbx_fail(err, REPOSBX_EINVALID, "a path of %zu bytes", length);
    if (ignore->count == 0) {
        *ignored = 0;
        return REPOSBX_OK;
    }
    if (!ignore->sorted)
        qsort(ignore->files, ignore->count, sizeof *ignore->files, compare_files);
    ignore->sorted = true;
    clear = known_clear(ignore, path, length);
    for (size_t end = clear + 1; found == 0 && end <= length; end++) {
        if (end < length && path[end] != '/')
            continue;
        if (ignored_here(ignore, path, end, end < length))
            found = end;
        else if (end < length)
            clear = end;
    }
    if (ignore->work > MAX_WORK) {
        (void)rsbx_fail(err, REPOSBX_ELIMIT, "the .gitignore files take too long to follow");
        rsbx_hint(err, "ask for the diff with every new file in it");
        return REPOSBX_ELIMIT;
    }
    memcpy(ignore->last, path, length);
    ignore->last_length = length;
    ignore->last_clear = clear;
    *ignored = found;
    return REPOSBX_OK;
}
