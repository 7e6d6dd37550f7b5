/* SPDX-License-Identifier: Apache-2.0 */
#include "base/path.h"

#include <stdint.h>
#include <string.h>

#include "base/limits.h"
#include "base/text.h"

#include "base/banned.h"

/* Code points that a system or a reader may not see in a name: those that HFS+ ignores (Apple's TN1150,
 * the list that git uses for core.protectHFS) and the rest of Unicode's Default_Ignorable_Code_Point. */
static bool ignorable(uint32_t code)
{
    static const struct {
        uint32_t first, last;
    } ranges[] = {
        { 0xAD, 0xAD },     { 0x34F, 0x34F },   { 0x61C, 0x61C },     { 0x115F, 0x1160 },
        { 0x17B4, 0x17B5 }, { 0x180B, 0x180F }, { 0x200B, 0x200F },   { 0x202A, 0x202E },
        { 0x2060, 0x206F }, { 0x3164, 0x3164 }, { 0xFE00, 0xFE0F },   { 0xFEFF, 0xFEFF },
        { 0xFFA0, 0xFFA0 }, { 0xFFF0, 0xFFF8 }, { 0x1BCA0, 0x1BCA3 }, { 0x1D173, 0x1D17A },
        { 0xE0000, 0xE0FFF },
    };

    for (size_t i = 0; i < sizeof ranges / sizeof ranges[0]; i++) {
        if (code >= ranges[i].first && code <= ranges[i].last)
            return true;
    }
    return false;
}

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static bool equals_folded(const char *name, size_t length, const char *want)
{
    if (strlen(want) != length)
        return false;
    for (size_t i = 0; i < length; i++) {
        if (lower(name[i]) != want[i])
            return false;
    }
    return true;
}

/* The name without ignorable code points; returns its length (never longer). */
static size_t strip_ignorable(char *out, const char *name, size_t length)
{
    size_t used = 0;

    while (length > 0) {
        uint32_t code = 0;
        size_t step = rsbx_utf8_next(&code, name, length);

        if (step == 0 || !ignorable(code)) {
            step = step == 0 ? 1 : step;
            memcpy(out + used, name, step);
            used += step;
        }
        name += step;
        length -= step;
    }
    return used;
}

/* The length that NTFS would see: up to the first ':' or '\', without trailing dots and spaces. */
static size_t ntfs_length(const char *name, size_t length)
{
    size_t end = 0;

    while (end < length && name[end] != ':' && name[end] != '\\')
        end++;
    while (end > 0 && (name[end - 1] == '.' || name[end - 1] == ' '))
        end--;
    return end;
}

/* '~' and a number as NTFS and FAT count them; the name has eight letters at most. */
static bool short_number(const char *tail, size_t length)
{
    if (length < 2 || tail[0] != '~' || tail[1] < '1' || tail[1] > '9')
        return false;
    for (size_t i = 2; i < length; i++) {
        if (tail[i] < '0' || tail[i] > '9')
            return false;
    }
    return true;
}

/* NTFS short name: up to six letters of the plain name, '~' and a number, which takes letters away when
 * it gets longer; or the hashed form of four letters, which we match loosely (two letters, four hex
 * digits, '~', number; Git's own check allows for none of the six). */
static bool ntfs_short(const char *name, size_t length, const char *plain)
{
    size_t plain_length = strlen(plain);
    size_t stem = 0;
    size_t hashed = 0;

    if (length > 8)
        return false;
    while (stem < 6 && stem < plain_length && stem < length && lower(name[stem]) == plain[stem])
        stem++;
    if ((stem == plain_length || (stem >= 3 && length == 8)) &&
        short_number(name + stem, length - stem))
        return true;
    if (plain_length <= 6 || length != 8)
        return false;
    while (hashed < 6 && name[hashed] != '~') {
        char c = lower(name[hashed]);

        if (hashed < 2 ? c != plain[hashed] : !((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f')))
            return false;
        hashed++;
    }
    return short_number(name + hashed, length - hashed);
}

bool rsbx_name_is_dotfile(const void *name, size_t length, const char *plain)
{
    char bare[RSBX_MAX_NAME_BYTES];
    size_t bare_length;
    size_t seen;
    char dotted[32] = ".";

    if (length == 0 || length > sizeof bare || strlen(plain) > sizeof dotted - 2)
        return false;
    memcpy(dotted + 1, plain, strlen(plain) + 1);
    bare_length = strip_ignorable(bare, name, length);
    seen = ntfs_length(bare, bare_length);
    if (equals_folded(bare, seen, dotted))
        return true;
    return ntfs_short(bare, seen, plain);
}

bool rsbx_name_is_never_link(const void *name, size_t length)
{
    return rsbx_name_is_dotfile(name, length, "gitmodules") ||
           rsbx_name_is_dotfile(name, length, "gitattributes");
}

bool rsbx_name_is_dotgit(const void *name, size_t length)
{
    return rsbx_name_is_dotfile(name, length, "git");
}

const char *rsbx_name_problem(const void *name, size_t length)
{
    const char *bytes = name;
    size_t start = 0;

    if (length == 0)
        return "empty name";
    if (length > RSBX_MAX_NAME_BYTES)
        return "name over 255 bytes";
    if (memchr(bytes, '\0', length) != NULL)
        return "NUL in a name";
    if (memchr(bytes, '/', length) != NULL)
        return "'/' in a name";
    if (length == 1 && bytes[0] == '.')
        return "name \".\"";
    if (length == 2 && bytes[0] == '.' && bytes[1] == '.')
        return "name \"..\"";
    /* Systems with '\' as a separator would see each part as a name of its own. */
    for (size_t i = 0; i <= length; i++) {
        if (i < length && bytes[i] != '\\')
            continue;
        if (rsbx_name_is_dotgit(bytes + start, i - start))
            return "a form of \".git\"";
        if (i - start == 2 && length > 2 && bytes[start] == '.' && bytes[start + 1] == '.')
            return "\"..\" behind a backslash";
        start = i + 1;
    }
    return NULL;
}

int rsbx_path_request(char *out, const char *path, bool root_allowed, const char *field,
                      reposbx_error *err)
{
    size_t length = strlen(path);
    size_t components = 0;
    const char *rest = path;
    const char *end;

    if (length == 0)
        return rsbx_fail(err, REPOSBX_EPOLICY, "%s: empty path", field);
    if (length > RSBX_MAX_PATH_BYTES)
        return rsbx_fail(err, REPOSBX_EPOLICY, "%s: path over %u bytes", field, RSBX_MAX_PATH_BYTES);
    if (path[0] == '/')
        return rsbx_fail(err, REPOSBX_EPOLICY, "%s: %s is absolute; paths are relative to the workspace",
                         field, path);
    if (memchr(path, '\\', length) != NULL)
        return rsbx_fail(err, REPOSBX_EPOLICY, "%s: backslash in %s", field, path);
    if (strcmp(path, ".") == 0 || strcmp(path, "./") == 0) {
        if (!root_allowed)
            return rsbx_fail(err, REPOSBX_EPOLICY, "%s: \".\" names no file", field);
        out[0] = '\0';
        return REPOSBX_OK;
    }
    if (length > 2 && path[0] == '.' && path[1] == '/')
        rest = path + 2;
    end = path + length;
    if (end > rest && end[-1] == '/')
        end--;
    for (const char *p = rest; p <= end; p++) {
        const char *slash = memchr(p, '/', (size_t)(end - p));
        size_t part = (size_t)((slash != NULL ? slash : end) - p);

        if (part == 0)
            return rsbx_fail(err, REPOSBX_EPOLICY, "%s: empty component in %s", field, path);
        if (part == 2 && p[0] == '.' && p[1] == '.')
            return rsbx_fail(err, REPOSBX_EPOLICY, "%s: \"..\" in %s", field, path);
        if (part == 1 && p[0] == '.')
            return rsbx_fail(err, REPOSBX_EPOLICY, "%s: \".\" component in %s", field, path);
        if (part > RSBX_MAX_NAME_BYTES)
            return rsbx_fail(err, REPOSBX_EPOLICY, "%s: name over %u bytes", field,
                             RSBX_MAX_NAME_BYTES);
        if (++components > RSBX_MAX_PATH_COMPONENTS)
            return rsbx_fail(err, REPOSBX_EPOLICY, "%s: more than %u components", field,
                             RSBX_MAX_PATH_COMPONENTS);
        p += part;
    }
    memcpy(out, rest, (size_t)(end - rest));
    out[end - rest] = '\0';
    return REPOSBX_OK;
}

bool rsbx_path_below(const char *path, size_t length, const char *ancestor)
{
    size_t ancestor_length = strlen(ancestor);

    if (ancestor_length == 0)
        return true;
    if (length < ancestor_length || memcmp(path, ancestor, ancestor_length) != 0)
        return false;
    return length == ancestor_length || path[ancestor_length] == '/';
}

int rsbx_bytes_compare(const void *a, size_t a_length, const void *b, size_t b_length)
{
    size_t shared = a_length < b_length ? a_length : b_length;
    int order = shared > 0 ? memcmp(a, b, shared) : 0;

    if (order != 0)
        return order < 0 ? -1 : 1;
    return a_length < b_length ? -1 : a_length > b_length;
}
