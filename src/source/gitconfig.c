/* SPDX-License-Identifier: Apache-2.0 */
#include "source/internal.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "base/fd.h"

#include "base/banned.h"

/*
 * A strict reader of Git's configuration syntax (git-config(1), "CONFIGURATION FILE"), for the few
 * keys that change where or how objects are stored. What Git itself would not parse is refused.
 */
struct parser {
    const char *name; /* of the file, for errors */
    const char *at;
    const char *end;
    unsigned line;
    char section[256]; /* lower case, up to the subsection */
    char key[256];
    char value[1024];  /* cut: no key that we look at needs more */
};

static int bad(const struct parser *p, reposbx_error *err)
{
    return rsbx_fail(err, REPOSBX_EPOLICY, ".git/%s: line %u is not Git configuration", p->name,
                     p->line);
}

static bool key_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-';
}

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static int read_section(struct parser *p, reposbx_error *err)
{
    size_t used = 0;

    p->at++; /* '[' */
    while (p->at < p->end && (key_char(*p->at) || *p->at == '.')) {
        if (used + 1 >= sizeof p->section)
            return bad(p, err);
        p->section[used++] = lower(*p->at++);
    }
    p->section[used] = '\0';
    /* [section.subsection] is the old spelling: only the section matters to us. */
    p->section[strcspn(p->section, ".")] = '\0';
    while (p->at < p->end && (*p->at == ' ' || *p->at == '\t'))
        p->at++;
    if (p->at < p->end && *p->at == '"') {
        p->at++;
        while (p->at < p->end && *p->at != '"' && *p->at != '\n')
            p->at += *p->at == '\\' && p->at + 1 < p->end && p->at[1] != '\n' ? 2 : 1;
        if (p->at >= p->end || *p->at != '"')
            return bad(p, err);
        p->at++;
    }
    if (p->at >= p->end || *p->at != ']')
        return bad(p, err);
    p->at++;
    return REPOSBX_OK;
}

/* One character of a value behind a backslash; '\0' for a continued line. */
static int escaped(char *out, struct parser *p, reposbx_error *err)
{
    static const char from[] = "\\\"ntb";
    static const char to[] = "\\\"\n\t\b";
    const char *found;

    if (p->at < p->end && *p->at == '\r' && p->at + 1 < p->end && p->at[1] == '\n')
        p->at++;
    if (p->at >= p->end)
        return bad(p, err);
    if (*p->at == '\n') {
        p->line++;
        p->at++;
        *out = '\0';
        return REPOSBX_OK;
    }
    found = memchr(from, *p->at, sizeof from - 1);
    if (found == NULL)
        return bad(p, err);
    *out = to[found - from];
    p->at++;
    return REPOSBX_OK;
}

static int read_value(struct parser *p, reposbx_error *err)
{
    bool quoted = false;
    size_t used = 0;
    size_t kept = 0; /* without trailing blanks */

    while (p->at < p->end && *p->at != '\n') {
        char c = *p->at++;
        bool solid = quoted;

        if (c == '\\') {
            int rc = escaped(&c, p, err);

            if (rc != 0)
                return rc;
            if (c == '\0')
                continue;
            solid = true;
        } else if (c == '"') {
            quoted = !quoted;
            continue;
        } else if (!quoted && (c == '#' || c == ';')) {
            while (p->at < p->end && *p->at != '\n')
                p->at++;
            break;
        } else if (!quoted && (c == ' ' || c == '\t' || c == '\r') && used == 0) {
            continue;
        }
        if (used + 1 < sizeof p->value) {
            p->value[used++] = c;
            if (solid || (c != ' ' && c != '\t' && c != '\r'))
                kept = used;
        }
    }
    if (quoted)
        return bad(p, err);
    p->value[kept] = '\0';
    return REPOSBX_OK;
}

static int read_key(struct parser *p, reposbx_error *err)
{
    size_t used = 0;

    while (p->at < p->end && key_char(*p->at)) {
        if (used + 1 >= sizeof p->key)
            return bad(p, err);
        p->key[used++] = lower(*p->at++);
    }
    p->key[used] = '\0';
    while (p->at < p->end && (*p->at == ' ' || *p->at == '\t' || *p->at == '\r'))
        p->at++;
    if (used == 0)
        return bad(p, err);
    if (p->at < p->end && *p->at == '=') {
        p->at++;
        return read_value(p, err);
    }
    if (p->at < p->end && *p->at != '\n' && *p->at != '#' && *p->at != ';')
        return bad(p, err);
    (void)snprintf(p->value, sizeof p->value, "true");
    return REPOSBX_OK;
}

static bool is_false(const char *value)
{
    return value[0] == '\0' || strcasecmp(value, "false") == 0 || strcasecmp(value, "no") == 0 ||
           strcasecmp(value, "off") == 0 || strcmp(value, "0") == 0;
}

static int partial(const struct parser *p, reposbx_error *err)
{
    return rsbx_fail(err, REPOSBX_EPOLICY,
                     "a partial clone (%s.%s in .git/%s): objects may be missing, and nothing is "
                     "ever fetched", p->section, p->key, p->name);
}

static int check_extension(const struct parser *p, reposbx_error *err)
{
    if (strcmp(p->key, "noop") == 0 || strcmp(p->key, "preciousobjects") == 0 ||
        strcmp(p->key, "worktreeconfig") == 0)
        return REPOSBX_OK;
    if (strcmp(p->key, "objectformat") == 0) {
        if (strcasecmp(p->value, "sha1") == 0)
            return REPOSBX_OK;
        return rsbx_fail(err, REPOSBX_EPOLICY,
                         "a %s repository (extensions.objectformat): only sha1 is read", p->value);
    }
    if (strcmp(p->key, "refstorage") == 0 && strcasecmp(p->value, "files") == 0)
        return REPOSBX_OK;
    if (strcmp(p->key, "partialclone") == 0)
        return partial(p, err);
    return rsbx_fail(err, REPOSBX_EPOLICY, "unknown repository extension \"%s\" (= %s) in .git/%s",
                     p->key, p->value, p->name);
}

static int check_key(const struct parser *p, reposbx_error *err)
{
    if (strcmp(p->section, "extensions") == 0)
        return check_extension(p, err);
    if (strcmp(p->section, "core") == 0 && strcmp(p->key, "worktree") == 0)
        return rsbx_fail(err, REPOSBX_EPOLICY,
                         "core.worktree in .git/%s: the checkout is elsewhere (%s)", p->name,
                         p->value);
    if (strcmp(p->section, "core") == 0 && strcmp(p->key, "bare") == 0 && !is_false(p->value))
        return rsbx_fail(err, REPOSBX_EPOLICY,
                         "core.bare is \"%s\" in .git/%s: a repository without a checkout", p->value,
                         p->name);
    if (strcmp(p->section, "core") == 0 && strcmp(p->key, "repositoryformatversion") == 0 &&
        strcmp(p->value, "0") != 0 && strcmp(p->value, "1") != 0)
        return rsbx_fail(err, REPOSBX_EPOLICY, "unknown repository format version %s", p->value);
    if (strcmp(p->section, "remote") == 0 &&
        (strcmp(p->key, "partialclonefilter") == 0 ||
         (strcmp(p->key, "promisor") == 0 && !is_false(p->value))))
        return partial(p, err);
    return REPOSBX_OK;
}

static int check_text(const char *name, const char *text, size_t length, reposbx_error *err)
{
    struct parser p = { .name = name, .at = text, .end = text + length, .line = 1 };

    if (length >= 3 && memcmp(text, "\xEF\xBB\xBF", 3) == 0)
        p.at += 3;
    while (p.at < p.end) {
        int rc = 0;

        if (*p.at == '\n') {
            p.line++;
            p.at++;
        } else if (*p.at == ' ' || *p.at == '\t' || *p.at == '\r') {
            p.at++;
        } else if (*p.at == '#' || *p.at == ';') {
            while (p.at < p.end && *p.at != '\n')
                p.at++;
        } else if (*p.at == '[') {
            rc = read_section(&p, err);
        } else {
            rc = p.section[0] == '\0' ? bad(&p, err) : read_key(&p, err);
            if (rc == 0)
                rc = check_key(&p, err);
        }
        if (rc != 0)
            return rc;
    }
    return REPOSBX_OK;
}

int rsbx_gitconfig_check(int git_fd, reposbx_error *err)
{
    static const char *const files[] = { "config", "config.worktree" };

    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        RSBX_AUTO(rsbx_buf) struct rsbx_buf text = RSBX_BUF_INIT(RSBX_MAX_CONFIG_BYTES);
        int rc = rsbx_read_file_at(&text, git_fd, files[i], err);

        if (rc == REPOSBX_ENOTFOUND)
            continue;
        if (rc == 0)
            rc = check_text(files[i], text.data != NULL ? text.data : "", text.length, err);
        else
            rc = rsbx_fail(err, REPOSBX_EPOLICY,
                           ".git/%s is not a readable regular file of at most %u bytes", files[i],
                           RSBX_MAX_CONFIG_BYTES);
        if (rc != 0)
            return rc;
    }
    return REPOSBX_OK;
}
