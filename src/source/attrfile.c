/* SPDX-License-Identifier: Apache-2.0 */
#include "source/internal.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

#include "base/banned.h"

/*
 * The lines of an attributes file, by gitattributes(5). A line that Git ignores (a negative
 * pattern, an attribute name with other characters, a macro where none is allowed) is ignored here.
 */
#define BLANK " \t\r\n"
/* Honest repositories use some ten names. */
#define MAX_NAMES 512U
#define MAX_SETTINGS 1024U

static bool name_valid(const char *name, size_t length)
{
    if (length == 0 || name[0] == '-')
        return false;
    for (size_t i = 0; i < length; i++) {
        char c = name[i];

        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
              c == '-' || c == '.' || c == '_'))
            return false;
    }
    return true;
}

static int intern(uint32_t *out, struct rsbx_attr_names *names, const char *name, size_t length,
                  reposbx_error *err)
{
    for (size_t i = 0; i < names->count; i++) {
        if (strlen(names->names[i]) == length && memcmp(names->names[i], name, length) == 0) {
            *out = (uint32_t)i;
            return REPOSBX_OK;
        }
    }
    if (names->count == MAX_NAMES)
        return rsbx_fail(err, REPOSBX_EPOLICY,
                         "more than %u attribute names in the attributes files", MAX_NAMES);
    if (names->count == names->room) {
        size_t room = names->room > 0 ? 2 * names->room : 16;
        char **bigger = realloc(names->names, room * sizeof *bigger);

        if (bigger == NULL)
            return rsbx_fail_memory(err);
        names->names = bigger;
        names->room = room;
    }
    names->names[names->count] = strndup(name, length);
    if (names->names[names->count] == NULL)
        return rsbx_fail_memory(err);
    *out = (uint32_t)names->count++;
    return REPOSBX_OK;
}

int rsbx_attr_names_init(struct rsbx_attr_names *names, reposbx_error *err)
{
    uint32_t ignored;
    int rc;

    memset(names, 0, sizeof *names);
    rc = intern(&ignored, names, "export-ignore", 13, err);
    if (rc == 0)
        rc = intern(&ignored, names, "export-subst", 12, err);
    return rc;
}

void rsbx_attr_names_dispose(struct rsbx_attr_names *names)
{
    for (size_t i = 0; i < names->count; i++)
        free(names->names[i]);
    free(names->names);
    memset(names, 0, sizeof *names);
}

static void line_dispose(struct rsbx_attr_line *line)
{
    rsbx_pattern_free(line->pattern);
    free(line->settings);
    memset(line, 0, sizeof *line);
}

void rsbx_attr_file_dispose(struct rsbx_attr_file *file)
{
    for (size_t i = 0; i < file->line_count; i++)
        line_dispose(&file->lines[i]);
    free(file->lines);
    memset(file, 0, sizeof *file);
}

/* One escape of a C-quoted pattern; the bytes used behind the backslash, or 0. */
static size_t unquote_one(char *out, const char *text, size_t length)
{
    static const char from[] = "abtnvfr\"\\";
    static const char to[] = "\a\b\t\n\v\f\r\"\\";
    const char *found;

    if (length == 0)
        return 0;
    found = memchr(from, text[0], sizeof from - 1);
    if (found != NULL) {
        *out = to[found - from];
        return 1;
    }
    if (length < 3 || text[0] < '0' || text[0] > '3' || text[1] < '0' || text[1] > '7' ||
        text[2] < '0' || text[2] > '7')
        return 0;
    *out = (char)((text[0] - '0') << 6 | (text[1] - '0') << 3 | (text[2] - '0'));
    return 3;
}

/* Undoes C quoting; returns what was used of `text` with both quotes, or 0 when it is not
 * quoted. */
static size_t unquote(char *out, size_t *out_length, const char *text, size_t length)
{
    size_t used = 0;

    for (size_t i = 1; i < length; i++) {
        if (text[i] == '"') {
            *out_length = used;
            return i + 1;
        }
        if (text[i] == '\\') {
            size_t more = unquote_one(&out[used], text + i + 1, length - i - 1);

            if (more == 0)
                return 0;
            i += more;
        } else {
            out[used] = text[i];
        }
        used++;
    }
    return 0;
}

static size_t span(const char *text, const char *end, bool blanks)
{
    size_t length = 0;

    while (text + length < end && (strchr(BLANK, text[length]) != NULL) == blanks)
        length++;
    return length;
}

/* Reads one token into *setting. 0 also when the line must be ignored: then *valid is false. */
static int read_setting(struct rsbx_attr_setting *setting, bool *valid,
                        struct rsbx_attr_names *names, const char *token, size_t length,
                        reposbx_error *err)
{
    const char *equals = memchr(token, '=', length);
    size_t width = equals != NULL ? (size_t)(equals - token) : length;

    setting->value = equals != NULL ? RSBX_ATTR_TEXT : RSBX_ATTR_TRUE;
    if (width > 0 && (token[0] == '-' || token[0] == '!')) {
        setting->value = token[0] == '-' ? RSBX_ATTR_FALSE : RSBX_ATTR_UNSET;
        token++;
        width--;
    }
    *valid = name_valid(token, width);
    return *valid ? intern(&setting->attribute, names, token, width, err) : REPOSBX_OK;
}

static int read_settings(struct rsbx_attr_line *line, bool *valid, struct rsbx_attr_names *names,
                         const char *at, const char *end, reposbx_error *err)
{
    size_t room = 0;

    *valid = true;
    for (at += span(at, end, true); at < end; at += span(at, end, true)) {
        size_t length = span(at, end, false);
        int rc;

        if (line->setting_count == MAX_SETTINGS)
            return rsbx_fail(err, REPOSBX_EPOLICY, "more than %u attributes in one line of an "
                             "attributes file", MAX_SETTINGS);
        if (line->setting_count == room) {
            void *bigger;

            room = room > 0 ? 2 * room : 4;
            bigger = realloc(line->settings, room * sizeof *line->settings);
            if (bigger == NULL)
                return rsbx_fail_memory(err);
            line->settings = bigger;
        }
        rc = read_setting(&line->settings[line->setting_count], valid, names, at, length, err);
        if (rc != 0 || !*valid)
            return rc;
        line->setting_count++;
        at += length;
    }
    return REPOSBX_OK;
}

/* The macro or pattern that a line begins with. *valid is false when the line is to be ignored. */
static int read_subject(struct rsbx_attr_line *line, bool *valid, const char **rest,
                        struct rsbx_attr_names *names, const char *at, const char *end,
                        bool macros_allowed, reposbx_error *err)
{
    RSBX_AUTO(rsbx_text) char *plain = NULL;
    const char *name = at;
    size_t length = span(at, end, false);
    size_t plain_length = 0;
    size_t quoted = 0;

    if (*at == '"') {
        plain = malloc((size_t)(end - at) + 1);
        if (plain == NULL)
            return rsbx_fail_memory(err);
        quoted = unquote(plain, &plain_length, at, (size_t)(end - at));
    }
    *rest = at + (quoted > 0 ? quoted : length);
    if (quoted > 0) {
        name = plain;
        length = plain_length;
    } else if (length > 6 && memcmp(name, "[attr]", 6) == 0) {
        *valid = macros_allowed && name_valid(name + 6, length - 6);
        return *valid ? intern(&line->macro, names, name + 6, length - 6, err) : REPOSBX_OK;
    }
    *valid = true;
    return rsbx_pattern_new(&line->pattern, name, length, err);
}

static int read_line(struct rsbx_attr_line *line, bool *keep, struct rsbx_attr_names *names,
                     const char *at, const char *end, bool macros_allowed, reposbx_error *err)
{
    const char *rest = at;
    bool macro;
    int rc;

    *keep = false;
    at += span(at, end, true);
    if (at >= end || *at == '#')
        return REPOSBX_OK;
    rc = read_subject(line, keep, &rest, names, at, end, macros_allowed, err);
    if (rc != 0 || !*keep)
        return rc;
    macro = line->pattern == NULL && *at == '[' && (size_t)(end - at) > 6 &&
            memcmp(at, "[attr]", 6) == 0 && span(at, end, false) > 6;
    if (line->pattern == NULL && !macro) {
        *keep = false;
        return REPOSBX_OK;
    }
    rc = read_settings(line, keep, names, rest, end, err);
    if (rc == 0 && line->setting_count == 0)
        *keep = false;
    return rc;
}

int rsbx_attr_file_parse(struct rsbx_attr_file *out, struct rsbx_attr_names *names,
                         const char *text, size_t length, bool macros_allowed, reposbx_error *err)
{
    const char *end = memchr(text, '\0', length);
    const char *at = text;
    size_t room = 0;
    uint32_t number = 0;

    memset(out, 0, sizeof *out);
    if (end == NULL)
        end = text + length;
    if (end - at >= 3 && memcmp(at, "\xEF\xBB\xBF", 3) == 0)
        at += 3;
    while (at < end) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        struct rsbx_attr_line line = { .number = ++number };
        bool keep = false;
        int rc = read_line(&line, &keep, names, at, stop != NULL ? stop : end, macros_allowed, err);

        if (rc == 0 && keep && out->line_count == room) {
            struct rsbx_attr_line *bigger;

            room = room > 0 ? 2 * room : 16;
            bigger = realloc(out->lines, room * sizeof *bigger);
            if (bigger != NULL)
                out->lines = bigger;
            else
                rc = rsbx_fail_memory(err);
        }
        if (rc == 0 && keep) {
            out->lines[out->line_count++] = line;
        } else {
            line_dispose(&line);
            if (rc != 0) {
                rsbx_attr_file_dispose(out);
                return rc;
            }
        }
        at = stop != NULL ? stop + 1 : end;
    }
    return REPOSBX_OK;
}
