/* SPDX-License-Identifier: Apache-2.0 */
#include "source/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/fd.h"

#include "base/banned.h"

/*
 * Are export-ignore or export-subst in effect on any path? By gitattributes(5):
 * .git/info/attributes goes before the files of the tree, a deeper file before a higher one, in a
 * file a later line before an earlier one; the first that says anything about an attribute decides.
 * A macro that is set brings its own settings, at its own place in that order. Files of the user or
 * the system have no say. The matcher is our own: libgit2's would need an opened repository, and
 * reads attributes from the work tree and the user's configuration.
 */
#define MAX_TOTAL_BYTES (16U * 1024U * 1024U)
/* Some seconds of matching: 20,000 paths against 1,000 lines of 50 bytes. */
#define MAX_STEPS 20000000000ULL
#define NO_FILE UINT32_MAX

struct check {
    struct rsbx_listing *listing;
    struct rsbx_attr_names names;
    struct rsbx_attr_file *files; /* [0]: info/attributes */
    size_t file_count;
    uint32_t *of_folder; /* index in files, or NO_FILE */
    const struct rsbx_attr_line **macros; /* by attribute, NULL: not a macro */
    uint8_t *values;     /* by attribute */
    uint64_t steps;
    const struct rsbx_attr_line *decided[2]; /* the line that decided */
    size_t decided_file[2];
};

static void check_dispose(struct check *check)
{
    for (size_t i = 0; i < check->file_count; i++)
        rsbx_attr_file_dispose(&check->files[i]);
    free(check->files);
    free(check->of_folder);
    free((void *)check->macros);
    free(check->values);
    rsbx_attr_names_dispose(&check->names);
}

static void check_autop(struct check *check)
{
    check_dispose(check);
}

static bool mentions_export(const char *text, size_t length)
{
    return length > 0 && memmem(text, length, "export-", 7) != NULL;
}

static int read_info(struct rsbx_buf *out, int git_fd, reposbx_error *err)
{
    RSBX_AUTO(rsbx_fd) int info_fd = openat(git_fd, "info", O_PATH | O_DIRECTORY | O_NOFOLLOW |
                                            O_CLOEXEC);
    int rc;

    if (info_fd < 0) {
        if (errno == ENOENT)
            return REPOSBX_OK;
        return rsbx_fail_errno(err, REPOSBX_EPOLICY, ".git/info is not a real folder");
    }
    rc = rsbx_read_file_at(out, info_fd, "attributes", err);
    if (rc == REPOSBX_ENOTFOUND)
        return REPOSBX_OK;
    if (rc != 0)
        return rsbx_fail(err, REPOSBX_EPOLICY,
                         ".git/info/attributes is not a readable regular file of at most %u bytes",
                         RSBX_MAX_ATTRIBUTES_BYTES);
    return REPOSBX_OK;
}

static bool is_attributes(const struct rsbx_listing *listing, const struct rsbx_leaf *leaf)
{
    return leaf->name_length == 14 &&
           memcmp(listing->names + leaf->name, ".gitattributes", 14) == 0 &&
           !rsbx_leaf_left_out(leaf) && leaf->mode != RSBX_MODE_LINK;
}

static int read_blob(const void **bytes, size_t *length, struct check *check,
                     struct rsbx_objects *objects, const struct rsbx_leaf *leaf, uint64_t *total,
                     reposbx_error *err)
{
    char path[RSBX_MAX_PATH_BYTES + 1];
    int rc;

    *total += leaf->size;
    (void)rsbx_leaf_path(path, check->listing, leaf);
    if (leaf->size > RSBX_MAX_ATTRIBUTES_BYTES || *total > MAX_TOTAL_BYTES)
        return rsbx_fail(err, REPOSBX_EPOLICY, "%s: attributes files too large (%u bytes each, %u "
                         "together)", path, RSBX_MAX_ATTRIBUTES_BYTES, MAX_TOTAL_BYTES);
    rc = rsbx_object_read(bytes, length, objects, leaf->oid, RSBX_OBJECT_BLOB,
                          RSBX_MAX_ATTRIBUTES_BYTES, err);
    if (rc != 0)
        rsbx_context(err, "%s", path);
    return rc;
}

/* Most repositories have no such word anywhere: then nothing need be parsed. */
static int scan(bool *mentioned, struct check *check, struct rsbx_objects *objects,
                const struct rsbx_buf *info, reposbx_error *err)
{
    uint64_t total = 0;

    *mentioned = mentions_export(info->data, info->length);
    for (size_t i = 0; i < check->listing->leaf_count && !*mentioned; i++) {
        const struct rsbx_leaf *leaf = &check->listing->leaves[i];
        const void *bytes;
        size_t length;
        int rc;

        if (!is_attributes(check->listing, leaf))
            continue;
        rc = read_blob(&bytes, &length, check, objects, leaf, &total, err);
        if (rc != 0)
            return rc;
        *mentioned = mentions_export(bytes, length);
    }
    return REPOSBX_OK;
}

static int parse_all(struct check *check, struct rsbx_objects *objects, const struct rsbx_buf *info,
                     reposbx_error *err)
{
    struct rsbx_listing *listing = check->listing;
    size_t count = 1;
    uint64_t total = 0;
    int rc;

    for (size_t i = 0; i < listing->leaf_count; i++)
        count += is_attributes(listing, &listing->leaves[i]);
    check->files = calloc(count, sizeof *check->files);
    check->of_folder = malloc(listing->folder_count * sizeof *check->of_folder);
    if (check->files == NULL || check->of_folder == NULL)
        return rsbx_fail_memory(err);
    for (size_t i = 0; i < listing->folder_count; i++)
        check->of_folder[i] = NO_FILE;
    rc = rsbx_attr_file_parse(&check->files[check->file_count++], &check->names,
                              info->data != NULL ? info->data : "", info->length, true, err);
    for (size_t i = 0; i < listing->leaf_count && rc == 0; i++) {
        const struct rsbx_leaf *leaf = &listing->leaves[i];
        const void *bytes;
        size_t length;

        if (!is_attributes(listing, leaf))
            continue;
        rc = read_blob(&bytes, &length, check, objects, leaf, &total, err);
        if (rc != 0)
            return rc;
        check->of_folder[leaf->folder] = (uint32_t)check->file_count;
        rc = rsbx_attr_file_parse(&check->files[check->file_count++], &check->names, bytes, length,
                                  leaf->folder == 0, err);
    }
    return rc;
}

/* Macros: info/attributes before the root's file, a later line before an earlier one. */
static void take_macros(struct check *check, const struct rsbx_attr_file *file)
{
    for (size_t i = file->line_count; i > 0; i--) {
        const struct rsbx_attr_line *line = &file->lines[i - 1];

        if (line->pattern == NULL && check->macros[line->macro] == NULL)
            check->macros[line->macro] = line;
    }
}

/* Lines that can have no say in the two attributes lose their settings, and with them their
 * cost. */
static void drop_irrelevant(struct check *check)
{
    for (size_t f = 0; f < check->file_count; f++) {
        for (size_t i = 0; i < check->files[f].line_count; i++) {
            struct rsbx_attr_line *line = &check->files[f].lines[i];
            bool relevant = false;

            for (size_t s = 0; s < line->setting_count && !relevant; s++) {
                uint32_t attribute = line->settings[s].attribute;

                relevant = attribute <= RSBX_ATTR_EXPORT_SUBST || check->macros[attribute] != NULL;
            }
            if (!relevant)
                line->setting_count = 0;
        }
    }
}

static int prepare(struct check *check, reposbx_error *err)
{
    check->macros = calloc(check->names.count, sizeof *check->macros);
    check->values = calloc(check->names.count, 1);
    if (check->macros == NULL || check->values == NULL)
        return rsbx_fail_memory(err);
    take_macros(check, &check->files[0]);
    if (check->of_folder[0] != NO_FILE)
        take_macros(check, &check->files[check->of_folder[0]]);
    drop_irrelevant(check);
    return REPOSBX_OK;
}

/* Takes over what a line or macro says about attributes that nothing decided yet. The depth is
 * bounded by the number of names: each is decided once. */
static void settle(struct check *check, const struct rsbx_attr_line *from,
                   const struct rsbx_attr_line *line, size_t file)
{
    for (size_t i = from->setting_count; i > 0; i--) {
        const struct rsbx_attr_setting *setting = &from->settings[i - 1];

        if (check->values[setting->attribute] != RSBX_ATTR_UNKNOWN)
            continue;
        check->values[setting->attribute] = (uint8_t)setting->value;
        if (setting->attribute <= RSBX_ATTR_EXPORT_SUBST) {
            check->decided[setting->attribute] = line;
            check->decided_file[setting->attribute] = file;
        }
        if (setting->value == RSBX_ATTR_TRUE && check->macros[setting->attribute] != NULL)
            settle(check, check->macros[setting->attribute], line, file);
    }
}

static void apply_file(struct check *check, size_t index, const char *path, size_t length,
                       bool folder)
{
    const struct rsbx_attr_file *file = &check->files[index];

    for (size_t i = file->line_count; i > 0; i--) {
        const struct rsbx_attr_line *line = &file->lines[i - 1];

        if (line->pattern != NULL && line->setting_count > 0 &&
            rsbx_pattern_match(line->pattern, path, length, folder, &check->steps))
            settle(check, line, line, index);
    }
}

static int refuse(const struct check *check, uint32_t attribute, const char *path,
                  reposbx_error *err)
{
    char folder[RSBX_MAX_PATH_BYTES + 1] = "";
    size_t file = check->decided_file[attribute];

    for (uint32_t i = 0; i < check->listing->folder_count && file != 0; i++) {
        if (check->of_folder[i] == file)
            (void)rsbx_folder_path(folder, check->listing, i);
    }
    (void)rsbx_fail(err, REPOSBX_EPOLICY,
                    "%s is in effect on %s (%s%s%s, line %u), refused by policy",
                    check->names.names[attribute], path, folder, folder[0] != '\0' ? "/" : "",
                    file == 0 ? ".git/info/attributes" : ".gitattributes",
                    check->decided[attribute]->number);
    rsbx_hint(err, "a policy with source.export_attributes=raw takes files as they are");
    return REPOSBX_EPOLICY;
}

/* `above`: the folder that holds the path. */
static int check_path(struct check *check, const char *path, size_t length, uint32_t above,
                      bool folder, bool regular, reposbx_error *err)
{
    memset(check->values, RSBX_ATTR_UNKNOWN, check->names.count);
    apply_file(check, 0, path, length, folder);
    for (;;) {
        size_t prefix = check->listing->folders[above].path_length;

        if (check->of_folder[above] != NO_FILE)
            apply_file(check, check->of_folder[above], path + prefix + (prefix > 0),
                       length - prefix - (prefix > 0), folder);
        if (above == 0)
            break;
        above = check->listing->folders[above].parent;
    }
    if (check->steps > MAX_STEPS)
        return rsbx_fail(err, REPOSBX_EPOLICY, "attributes files too complex to evaluate");
    if (check->values[RSBX_ATTR_EXPORT_IGNORE] == RSBX_ATTR_TRUE)
        return refuse(check, RSBX_ATTR_EXPORT_IGNORE, path, err);
    if (regular && check->values[RSBX_ATTR_EXPORT_SUBST] == RSBX_ATTR_TRUE)
        return refuse(check, RSBX_ATTR_EXPORT_SUBST, path, err);
    return REPOSBX_OK;
}

static int check_all(struct check *check, reposbx_error *err)
{
    struct rsbx_listing *listing = check->listing;
    char path[RSBX_MAX_PATH_BYTES + 1];

    for (uint32_t i = 1; i < listing->folder_count; i++) {
        size_t length = rsbx_folder_path(path, listing, i);
        int rc = check_path(check, path, length, listing->folders[i].parent, true, false, err);

        if (rc != 0)
            return rc;
    }
    for (size_t i = 0; i < listing->leaf_count; i++) {
        const struct rsbx_leaf *leaf = &listing->leaves[i];
        size_t length = rsbx_leaf_path(path, listing, leaf);
        bool folder = rsbx_leaf_left_out(leaf);
        int rc = check_path(check, path, length, leaf->folder, folder,
                            !folder && leaf->mode != RSBX_MODE_LINK, err);

        if (rc != 0)
            return rc;
    }
    return REPOSBX_OK;
}

int rsbx_attributes_check(struct rsbx_listing *listing, struct rsbx_objects *objects, int git_fd,
                          reposbx_error *err)
{
    RSBX_AUTO(rsbx_buf) struct rsbx_buf info = RSBX_BUF_INIT(RSBX_MAX_ATTRIBUTES_BYTES);
    RSBX_AUTO(check) struct check check = { .listing = listing };
    bool mentioned = false;
    int rc = read_info(&info, git_fd, err);

    if (rc == 0)
        rc = scan(&mentioned, &check, objects, &info, err);
    if (rc != 0 || !mentioned)
        return rc;
    rc = rsbx_attr_names_init(&check.names, err);
    if (rc == 0)
        rc = parse_all(&check, objects, &info, err);
    if (rc == 0)
        rc = prepare(&check, err);
    if (rc == 0)
        rc = check_all(&check, err);
    return rc;
}
