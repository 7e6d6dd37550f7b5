/* SPDX-License-Identifier: Apache-2.0 */
#include "diff/incoming.h"

#include <stdlib.h>
#include <string.h>

#include "base/path.h"
#include "base/search.h"
#include "base/text.h"
#include "diff/internal.h"

#include "base/banned.h"

/*
 * Reads a patch from outside: which files it is about, and where the body of each begins and ends.
 * Everything that can be said without knowing the tree is said here, in the parent and before
 * anything is made: no library sees the bytes, and memory grows with the text alone.
 */

/* As many changes as a scan reports. */
#define MAX_SECTIONS 200000U
#define MIN_ID_DIGITS 4U

struct reading {
    struct rsbx_incoming *incoming;
    struct rsbx_diff_cursor cursor;
    const struct rsbx_incoming_rules *rules;
    size_t line; /* of the section's first line */
    const char *counted; /* up to here lines are counted */
};

void rsbx_incoming_free(struct rsbx_incoming *incoming)
{
    if (incoming == NULL)
        return;
    for (size_t i = 0; i < incoming->count; i++) {
        free(incoming->sections[i].old_path);
        free(incoming->sections[i].new_path);
    }
    free(incoming->sections);
    free(incoming->targets);
    free(incoming->wanted);
    free(incoming);
}

static size_t newlines(const char *from, const char *to)
{
    size_t count = 0;

    for (const char *at = from; at < to && (at = memchr(at, '\n', (size_t)(to - at))) != NULL; at++)
        count++;
    return count;
}

size_t rsbx_incoming_line(const struct rsbx_incoming *incoming, const char *at)
{
    return 1 + newlines(incoming->text, at);
}

static int refuse(const struct reading *reading, const char *why, reposbx_error *err)
{
    (void)rsbx_fail(err, REPOSBX_EMALFORMED, "line %zu of the patch: %s",
                    rsbx_incoming_line(reading->incoming, reading->cursor.at), why);
    rsbx_hint(err, "a patch is what `git diff --binary` prints, whole and without mail headers");
    return REPOSBX_EMALFORMED;
}

static int check_path(const struct reading *reading, const char *path, size_t length,
                      reposbx_error *err)
{
    size_t components = 0;

    if (length == 0 || length > RSBX_MAX_PATH_BYTES || memchr(path, '\0', length) != NULL)
        return refuse(reading, "a path of a length that no tree has", err);
    for (size_t start = 0, end; start <= length; start = end + 1) {
        const char *slash = memchr(path + start, '/', length - start);
        const char *problem;

        end = slash == NULL ? length : (size_t)(slash - path);
        problem = rsbx_name_problem(path + start, end - start);
        if (problem == NULL && ++components <= RSBX_MAX_PATH_COMPONENTS)
            continue;
        (void)rsbx_fail(err, REPOSBX_EMALFORMED,
                        "line %zu of the patch: %.*s cannot stand in a tree: %s",
                        rsbx_incoming_line(reading->incoming, reading->cursor.at),
                        (int)(length < 200 ? length : 200), path,
                        problem != NULL ? problem : "too many components");
        return REPOSBX_EMALFORMED;
    }
    return REPOSBX_OK;
}

/* ---- the head of a section ---- */

static int take_mode(uint32_t *mode, struct reading *reading, reposbx_error *err)
{
    if (rsbx_diff_take_mode(mode, &reading->cursor))
        return REPOSBX_OK;
    if (rsbx_diff_take(&reading->cursor, "160000\n"))
        return rsbx_fail(err, REPOSBX_EPOLICY, "line %zu of the patch: it changes a submodule",
                         rsbx_incoming_line(reading->incoming, reading->cursor.at) - 1);
    return refuse(reading, "the mode is none of 100644, 100755 and 120000", err);
}

/* The first digits of an id, at least four. */
static bool take_digits(char out[41], struct rsbx_diff_cursor *cursor)
{
    size_t length = 0;

    while (cursor->at < cursor->end && length < 40 &&
           ((*cursor->at >= '0' && *cursor->at <= '9') ||
            (*cursor->at >= 'a' && *cursor->at <= 'f')))
        out[length++] = *cursor->at++;
    out[length] = '\0';
    return length >= MIN_ID_DIGITS;
}

static bool is_zero(const char *digits)
{
    return digits[strspn(digits, "0")] == '\0';
}

static int take_index(struct rsbx_incoming_section *section, struct reading *reading,
                      reposbx_error *err)
{
    struct rsbx_diff_cursor *cursor = &reading->cursor;
    uint32_t mode = 0;

    if (!rsbx_diff_take(cursor, "index "))
        return REPOSBX_OK;
    if (!take_digits(section->old_id, cursor) || !rsbx_diff_take(cursor, "..") ||
        !take_digits(section->new_id, cursor))
        return refuse(reading, "an index line does not parse", err);
    if (is_zero(section->old_id) != (section->kind == RSBX_INCOMING_CREATE) ||
        is_zero(section->new_id) != (section->kind == RSBX_INCOMING_DELETE))
        return refuse(reading, "the index line says another kind of change", err);
    if (!rsbx_diff_take(cursor, " "))
        return rsbx_diff_take(cursor, "\n") ? REPOSBX_OK
                                            : refuse(reading, "an index line does not parse", err);
    if (section->old_mode != 0 || section->new_mode != 0)
        return refuse(reading, "the index line has a mode again", err);
    if (take_mode(&mode, reading, err) != REPOSBX_OK)
        return err != NULL ? err->code : REPOSBX_EMALFORMED;
    section->old_mode = section->new_mode = mode;
    return REPOSBX_OK;
}

/* A whole line behind a word such as "rename from ". */
static int take_path_line(char **out, size_t *length, struct reading *reading, reposbx_error *err)
{
    char quoted[RSBX_MAX_PATH_BYTES + 2];
    const char *path = quoted;
    bool good;

    if (rsbx_diff_take(&reading->cursor, "\""))
        good = rsbx_diff_take_quoted(quoted, length, sizeof quoted, &reading->cursor) &&
               rsbx_diff_take(&reading->cursor, "\n");
    else
        good = rsbx_diff_take_line(&path, length, &reading->cursor);
    if (!good)
        return refuse(reading, "a name does not parse", err);
    if (check_path(reading, path, *length, err) != REPOSBX_OK)
        return REPOSBX_EMALFORMED;
    *out = strndup(path, *length);
    return *out != NULL ? REPOSBX_OK : rsbx_fail_memory(err);
}

static bool take_percent(struct rsbx_diff_cursor *cursor)
{
    uint64_t number = 0;

    return rsbx_diff_take_number(&number, cursor) && number <= 100 && rsbx_diff_take(cursor, "%\n");
}

/* "rename from", "rename to", or the same of a copy; then the first line can be understood, too. */
static int take_move(struct rsbx_incoming_section *section, struct reading *reading,
                     struct rsbx_diff_cursor first, reposbx_error *err)
{
    struct rsbx_diff_cursor *cursor = &reading->cursor;
    bool copies = rsbx_diff_take(cursor, "copy from ");
    int rc;

    if (!copies && !rsbx_diff_take(cursor, "rename from "))
        return refuse(reading, "a similarity without names", err);
    section->kind = copies ? RSBX_INCOMING_COPY : RSBX_INCOMING_RENAME;
    rc = take_path_line(&section->old_path, &section->old_length, reading, err);
    if (rc == REPOSBX_OK && !rsbx_diff_take(cursor, copies ? "copy to " : "rename to "))
        rc = refuse(reading, "a name has no second one", err);
    if (rc == REPOSBX_OK)
        rc = take_path_line(&section->new_path, &section->new_length, reading, err);
    if (rc != REPOSBX_OK)
        return rc;
    if (!rsbx_diff_take_name(&first, "a/", section->old_path, section->old_length) ||
        !rsbx_diff_take(&first, " ") ||
        !rsbx_diff_take_name(&first, "b/", section->new_path, section->new_length) ||
        !rsbx_diff_take(&first, "\n"))
        return refuse(reading, "the names of a section are not those of its first line", err);
    return REPOSBX_OK;
}

/* Both names, from the first line alone. */
static int take_one_name(struct rsbx_incoming_section *section, struct reading *reading,
                         struct rsbx_diff_cursor first, reposbx_error *err)
{
    char path[RSBX_MAX_PATH_BYTES + 1];
    size_t length = 0;

    if (!rsbx_diff_take_names(path, &length, &first))
        return refuse(reading, "the first line of a section does not name one file twice", err);
    if (check_path(reading, path, length, err) != REPOSBX_OK)
        return REPOSBX_EMALFORMED;
    section->old_path = strndup(path, length);
    section->new_path = strndup(path, length);
    section->old_length = section->new_length = length;
    return section->old_path != NULL && section->new_path != NULL ? REPOSBX_OK
                                                                  : rsbx_fail_memory(err);
}

static int take_modes(struct rsbx_incoming_section *section, struct reading *reading,
                      reposbx_error *err)
{
    struct rsbx_diff_cursor *cursor = &reading->cursor;
    int rc = REPOSBX_OK;

    if (rsbx_diff_take(cursor, "new file mode ")) {
        section->kind = RSBX_INCOMING_CREATE;
        rc = take_mode(&section->new_mode, reading, err);
    } else if (rsbx_diff_take(cursor, "deleted file mode ")) {
        section->kind = RSBX_INCOMING_DELETE;
        rc = take_mode(&section->old_mode, reading, err);
    } else if (rsbx_diff_take(cursor, "old mode ")) {
        rc = take_mode(&section->old_mode, reading, err);
        if (rc == REPOSBX_OK && !rsbx_diff_take(cursor, "new mode "))
            rc = refuse(reading, "an old mode without a new one", err);
        if (rc == REPOSBX_OK)
            rc = take_mode(&section->new_mode, reading, err);
        if (rc == REPOSBX_OK && (section->new_mode == section->old_mode ||
                                 section->new_mode == 0120000U || section->old_mode == 0120000U))
            rc = refuse(reading, "this change of mode cannot be", err);
    }
    return rc;
}

static int take_head(struct rsbx_incoming_section *section, struct reading *reading,
                     reposbx_error *err)
{
    struct rsbx_diff_cursor *cursor = &reading->cursor;
    struct rsbx_diff_cursor first;
    const char *line;
    size_t length;
    int rc;

    if (!rsbx_diff_take(cursor, "diff --git "))
        return refuse(reading, "there is no \"diff --git\"", err);
    first = *cursor;
    if (!rsbx_diff_take_line(&line, &length, cursor))
        return refuse(reading, "it ends in the middle of a line", err);
    rc = take_modes(section, reading, err);
    if (rc != REPOSBX_OK)
        return rc;
    if (rsbx_diff_take(cursor, "dissimilarity index ") && !take_percent(cursor))
        return refuse(reading, "a dissimilarity does not parse", err);
    if (section->kind == RSBX_INCOMING_CHANGE && rsbx_diff_take(cursor, "similarity index ")) {
        if (!take_percent(cursor))
            return refuse(reading, "a similarity does not parse", err);
        rc = take_move(section, reading, first, err);
    } else {
        rc = take_one_name(section, reading, first, err);
    }
    if (rc == REPOSBX_OK)
        rc = take_index(section, reading, err);
    if (rc == REPOSBX_OK && section->new_mode == 0120000U && !reading->rules->symlinks) {
        rc = rsbx_fail(err, REPOSBX_EPOLICY, "source.symlinks: the patch makes the symlink %s",
                       section->new_path);
        rsbx_hint(err, "a policy with source.symlinks \"keep\" allows symlinks");
    }
    return rc;
}

/* ---- bodies: where they end ---- */

static int skip_hunk(struct reading *reading, reposbx_error *err)
{
    struct rsbx_diff_cursor *cursor = &reading->cursor;
    struct rsbx_diff_range before, after;
    const char *line;
    size_t length;

    if (!rsbx_diff_take_hunk_head(&before, &after, cursor))
        return refuse(reading, "the head of a hunk does not parse", err);
    if (before.count == 0 && after.count == 0)
        return refuse(reading, "a hunk is about nothing", err);
    while (before.count > 0 || after.count > 0) {
        char mark;

        if (cursor->at == cursor->end)
            return refuse(reading, "a hunk is cut short", err);
        mark = *cursor->at;
        if ((mark != ' ' && mark != '-' && mark != '+') ||
            (mark != '+' && before.count == 0) || (mark != '-' && after.count == 0))
            return refuse(reading, "a hunk is not as long as its head says", err);
        if (!rsbx_diff_take_line(&line, &length, cursor))
            return refuse(reading, "it ends in the middle of a line", err);
        before.count -= mark != '+';
        after.count -= mark != '-';
        (void)rsbx_diff_take(cursor, "\\ No newline at end of file\n");
    }
    return REPOSBX_OK;
}

static int skip_block(struct reading *reading, reposbx_error *err)
{
    struct rsbx_diff_cursor *cursor = &reading->cursor;
    const char *line;
    size_t length = 1;
    uint64_t size = 0;

    if ((!rsbx_diff_take(cursor, "literal ") && !rsbx_diff_take(cursor, "delta ")) ||
        !rsbx_diff_take_number(&size, cursor) || !rsbx_diff_take(cursor, "\n"))
        return refuse(reading, "the head of a binary block does not parse", err);
    while (length > 0) {
        if (!rsbx_diff_take_line(&line, &length, cursor))
            return refuse(reading, "a binary block is cut short", err);
    }
    return REPOSBX_OK;
}

static bool stands(const struct rsbx_diff_cursor *cursor, const char *text)
{
    struct rsbx_diff_cursor copy = *cursor;

    return rsbx_diff_take(&copy, text);
}

static int take_body(struct rsbx_incoming_section *section, struct reading *reading,
                     reposbx_error *err)
{
    struct rsbx_diff_cursor *cursor = &reading->cursor;
    int rc = REPOSBX_OK;

    if (rsbx_diff_take(cursor, "GIT binary patch\n")) {
        section->body = RSBX_INCOMING_BINARY;
        section->content.at = cursor->at;
        if (strlen(section->old_id) != 40 || strlen(section->new_id) != 40)
            return refuse(reading, "a binary change needs whole ids in its index line", err);
        rc = skip_block(reading, err);
        if (rc == REPOSBX_OK && (stands(cursor, "literal ") || stands(cursor, "delta ")))
            rc = skip_block(reading, err); /* the way back */
    } else if (rsbx_diff_take(cursor, "--- ")) {
        section->body = RSBX_INCOMING_TEXT;
        if (!rsbx_diff_take_label(cursor, "a/", section->old_path, section->old_length,
                                  section->kind != RSBX_INCOMING_CREATE) ||
            !rsbx_diff_take(cursor, "+++ ") ||
            !rsbx_diff_take_label(cursor, "b/", section->new_path, section->new_length,
                                  section->kind != RSBX_INCOMING_DELETE))
            return refuse(reading, "the names of a section are not those of its first line", err);
        section->content.at = cursor->at;
        if (cursor->at == cursor->end || *cursor->at != '@')
            return refuse(reading, "a section has no hunk", err);
        while (rc == REPOSBX_OK && rsbx_diff_take(cursor, "@@ -"))
            rc = skip_hunk(reading, err);
    } else if (rsbx_diff_take(cursor, "Binary files ")) {
        return refuse(reading, "a binary change without its content: use git diff --binary", err);
    } else if (section->kind == RSBX_INCOMING_CHANGE && section->old_mode == section->new_mode) {
        return refuse(reading, "a section changes nothing", err);
    }
    section->content.end = cursor->at;
    return rc;
}

/* ---- what becomes of each path ---- */

static int compare_targets(const void *a, const void *b)
{
    const struct rsbx_incoming_target *left = a, *right = b;

    return rsbx_bytes_compare(left->path, left->length, right->path, right->length);
}

static int compare_paths(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static int twice(const struct rsbx_incoming_target *target, reposbx_error *err)
{
    return rsbx_fail(err, REPOSBX_EMALFORMED, "the patch says twice what becomes of %s",
                     target->path);
}

/* Puts together what is said of the same path. */
static int join_targets(struct rsbx_incoming *incoming, size_t count, reposbx_error *err)
{
    size_t used = 0;

    qsort(incoming->targets, count, sizeof *incoming->targets, compare_targets);
    for (size_t i = 0; i < count; i++) {
        struct rsbx_incoming_target *one = &incoming->targets[i];
        struct rsbx_incoming_target *last = used > 0 ? &incoming->targets[used - 1] : NULL;

        if (last == NULL || compare_targets(last, one) != 0) {
            incoming->targets[used++] = *one;
            continue;
        }
        if ((last->removed_by != RSBX_NO_SECTION && one->removed_by != RSBX_NO_SECTION) ||
            (last->made_by != RSBX_NO_SECTION && one->made_by != RSBX_NO_SECTION))
            return twice(last, err);
        if (last->removed_by == RSBX_NO_SECTION)
            last->removed_by = one->removed_by;
        if (last->made_by == RSBX_NO_SECTION)
            last->made_by = one->made_by;
    }
    incoming->target_count = used;
    return REPOSBX_OK;
}

static int order_target(const void *element, const void *key)
{
    const struct rsbx_incoming_target *target = element;

    return rsbx_diff_order(target->path, target->length, key);
}

const struct rsbx_incoming_target *rsbx_incoming_find(const struct rsbx_incoming *incoming,
                                                      const char *path, size_t length)
{
    const struct rsbx_diff_key key = { path, length };

    return rsbx_search(incoming->targets, incoming->target_count, sizeof *incoming->targets, order_target,
                       &key);
}

/* No file of the patch lies below another one, such as behind a symlink that it makes. */
static int check_below(const struct rsbx_incoming *incoming, reposbx_error *err)
{
    for (size_t i = 0; i < incoming->target_count; i++) {
        const struct rsbx_incoming_target *target = &incoming->targets[i];

        for (size_t k = 1; target->made_by != RSBX_NO_SECTION && k < target->length; k++) {
            const struct rsbx_incoming_target *above =
                target->path[k] == '/' ? rsbx_incoming_find(incoming, target->path, k) : NULL;

            if (above != NULL && above->made_by != RSBX_NO_SECTION)
                return rsbx_fail(err, REPOSBX_EMALFORMED,
                                 "the patch makes %s, and %s below it, which is no folder",
                                 target->path, above->path);
        }
    }
    return REPOSBX_OK;
}

static int make_targets(struct rsbx_incoming *incoming, reposbx_error *err)
{
    size_t count = 0;
    int rc;

    incoming->targets = calloc(2 * incoming->count + 1, sizeof *incoming->targets);
    incoming->wanted = calloc(incoming->count + 1, sizeof *incoming->wanted);
    if (incoming->targets == NULL || incoming->wanted == NULL)
        return rsbx_fail_memory(err);
    for (size_t i = 0; i < incoming->count; i++) {
        const struct rsbx_incoming_section *section = &incoming->sections[i];
        bool old = section->kind != RSBX_INCOMING_CREATE;

        if (old)
            incoming->wanted[incoming->wanted_count++] = section->old_path;
        if (old && section->kind != RSBX_INCOMING_COPY)
            incoming->targets[count++] = (struct rsbx_incoming_target){
                section->old_path, section->old_length, i, RSBX_NO_SECTION
            };
        if (section->kind != RSBX_INCOMING_DELETE)
            incoming->targets[count++] = (struct rsbx_incoming_target){
                section->new_path, section->new_length, RSBX_NO_SECTION, i
            };
    }
    qsort(incoming->wanted, incoming->wanted_count, sizeof *incoming->wanted, compare_paths);
    rc = join_targets(incoming, count, err);
    return rc == REPOSBX_OK ? check_below(incoming, err) : rc;
}

static int take_section(struct reading *reading, reposbx_error *err)
{
    struct rsbx_incoming *incoming = reading->incoming;
    struct rsbx_incoming_section *section;
    int rc;

    if (incoming->count == MAX_SECTIONS)
        return rsbx_fail(err, REPOSBX_ELIMIT, "the patch changes more than %u files", MAX_SECTIONS);
    if (incoming->count == incoming->capacity) {
        size_t capacity = incoming->capacity == 0 ? 16 : 2 * incoming->capacity;
        struct rsbx_incoming_section *grown =
            realloc(incoming->sections, capacity * sizeof *grown);

        if (grown == NULL)
            return rsbx_fail_memory(err);
        incoming->sections = grown;
        incoming->capacity = capacity;
    }
    section = &incoming->sections[incoming->count++];
    reading->line += newlines(reading->counted, reading->cursor.at);
    reading->counted = reading->cursor.at;
    *section = (struct rsbx_incoming_section){ .line = reading->line };
    rc = take_head(section, reading, err);
    return rc == REPOSBX_OK ? take_body(section, reading, err) : rc;
}

int rsbx_incoming_read(struct rsbx_incoming **out, const void *bytes, size_t length,
                       const struct rsbx_incoming_rules *rules, reposbx_error *err)
{
    RSBX_AUTO(rsbx_incoming) rsbx_incoming_ptr incoming = calloc(1, sizeof *incoming);
    const char *text = bytes;
    struct reading reading = { .incoming = incoming, .rules = rules, .line = 1, .counted = text,
                               .cursor = { text, text + length } };
    int rc = REPOSBX_OK;

    if (incoming == NULL)
        return rsbx_fail_memory(err);
    incoming->text = text;
    incoming->length = length;
    if (length == 0)
        return rsbx_fail(err, REPOSBX_EMALFORMED, "the patch is empty");
    while (rc == REPOSBX_OK && reading.cursor.at < reading.cursor.end)
        rc = take_section(&reading, err);
    if (rc == REPOSBX_OK)
        rc = make_targets(incoming, err);
    if (rc == REPOSBX_OK)
        *out = rsbx_incoming_steal(&incoming);
    return rc;
}

static int order_wanted(const void *element, const void *key)
{
    const char *wanted = *(const char *const *)element;

    return rsbx_diff_order(wanted, strlen(wanted), key);
}

bool rsbx_incoming_wants(const struct rsbx_incoming *incoming, const char *path, size_t length)
{
    const struct rsbx_diff_key key = { path, length };

    return rsbx_search(incoming->wanted, incoming->wanted_count, sizeof *incoming->wanted, order_wanted,
                       &key) != NULL;
}
