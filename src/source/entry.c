/* SPDX-License-Identifier: Apache-2.0 */
#include "source/stream_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/path.h"
#include "base/text.h"

#include "base/banned.h"

/* One entry of the child's: its head, its path, and what it may be. */

static int check_path(const struct rsbx_source *source, reposbx_error *err)
{
    const char *at = source->path;
    const char *end = at + source->path_length;
    size_t depth = 0;

    for (;; depth++) {
        const char *slash = memchr(at, '/', (size_t)(end - at));
        const char *stop = slash != NULL ? slash : end;
        bool last = slash == NULL;

        if (rsbx_name_problem(at, (size_t)(stop - at)) != NULL)
            return rsbx_source_nonsense("a name that is not allowed", err);
        if (last) {
            if (source->mode == RSBX_MODE_LINK &&
                rsbx_name_is_never_link(at, (size_t)(stop - at)))
                return rsbx_source_nonsense("a dot file as a symlink", err);
            break;
        }
        at = stop + 1;
    }
    if (depth > source->options.max_depth || depth >= RSBX_MAX_PATH_COMPONENTS)
        return rsbx_source_nonsense("a path that is too deep", err);
    return REPOSBX_OK;
}

static int check_mode(const struct rsbx_source *source, bool omitted, reposbx_error *err)
{
    uint32_t mode = source->mode;
    bool fits;

    if (omitted)
        fits = mode == RSBX_MODE_FOLDER ||
               (mode == RSBX_MODE_GITLINK && source->options.submodules == RSBX_SUBMODULES_EMPTY);
    else
        fits = mode == RSBX_MODE_FILE || mode == RSBX_MODE_FILE_GROUP ||
               mode == RSBX_MODE_EXECUTABLE ||
               (mode == RSBX_MODE_LINK && source->options.symlinks == RSBX_SYMLINKS_KEEP);
    return fits ? REPOSBX_OK : rsbx_source_nonsense("a mode that is not allowed", err);
}

/* Counts the entry and checks its place in the walk. */
static int check_place(struct rsbx_source *source, uint64_t size, bool omitted, reposbx_error *err)
{
    if (source->any && rsbx_walk_compare(source->previous, source->previous_length, source->path,
                                         source->path_length) >= 0)
        return rsbx_source_nonsense("entries out of order", err);
    memcpy(source->previous, source->path, source->path_length + 1);
    source->previous_length = source->path_length;
    source->any = true;
    if (++source->leaves > source->options.max_files)
        return rsbx_source_nonsense("more entries than allowed", err);
    if (omitted)
        return size == 0 ? REPOSBX_OK : rsbx_source_nonsense("content of what is left out", err);
    if (++source->files > source->facts.expected_files ||
        size > source->facts.expected_bytes - source->bytes)
        return rsbx_source_nonsense("more than it announced", err);
    if (size > RSBX_MAX_BLOB_BYTES ||
        (source->mode == RSBX_MODE_LINK && (size == 0 || size > RSBX_MAX_TARGET_BYTES)))
        return rsbx_source_nonsense("an entry of impossible size", err);
    source->bytes += size;
    return REPOSBX_OK;
}

static int take_linked(struct rsbx_source *source, uint64_t length, reposbx_error *err)
{
    free(source->linked);
    source->linked = NULL;
    if ((source->mode != RSBX_MODE_LINK) != (source->entry.link_state == RSBX_TARGET_NONE) ||
        source->entry.link_state > RSBX_TARGET_OUTSIDE ||
        (length > 0 && source->entry.link_state != RSBX_TARGET_REGULAR))
        return rsbx_source_nonsense("a link that is none", err);
    if (length > RSBX_MAX_BLOB_BYTES || length > source->options.max_bytes - source->linked_bytes)
        return rsbx_source_nonsense("too much behind a link", err);
    source->linked_bytes += length;
    source->entry.linked_length = (size_t)length;
    if (length == 0)
        return REPOSBX_OK;
    source->linked = malloc((size_t)length);
    if (source->linked == NULL)
        return rsbx_fail_memory(err);
    source->entry.linked = source->linked;
    return rsbx_source_take(source->linked, source, (size_t)length, err);
}

int rsbx_source_take_entry(struct rsbx_source *source, bool omitted, reposbx_error *err)
{
    uint8_t head[RSBX_WIRE_ENTRY_BYTES];
    struct rsbx_source_event *entry = &source->entry;
    bool plain_folder;
    int rc = rsbx_source_take(head, source, sizeof head, err);

    if (rc != 0)
        return rc;
    memset(entry, 0, sizeof *entry);
    entry->kind = RSBX_SOURCE_ENTRY;
    source->mode = rsbx_get32(head + 1);
    memcpy(entry->oid, head + 5, RSBX_OID_BYTES);
    entry->size = rsbx_get64(head + 25);
    entry->link_state = (enum rsbx_target_state)head[33];
    source->path_length = (size_t)head[42] << 8 | head[43];
    if (source->path_length > RSBX_MAX_PATH_BYTES)
        return rsbx_source_nonsense("a path that is too long", err);
    rc = rsbx_source_take(source->path, source, source->path_length, err);
    source->path[source->path_length] = '\0';
    if (rc == 0)
        rc = check_path(source, err);
    if (rc == 0)
        rc = check_mode(source, omitted, err);
    /* The empty folders of a plain folder come first, and belong to no tree. */
    plain_folder = omitted && source->revision[0] == '\0';
    if (rc == 0 && !plain_folder)
        rc = check_place(source, entry->size, omitted, err);
    if (rc == 0)
        rc = take_linked(source, rsbx_get64(head + 34), err);
    if (rc != 0)
        return rc;
    entry->path = source->path;
    entry->path_length = source->path_length;
    entry->mode = source->mode == RSBX_MODE_FILE_GROUP ? RSBX_MODE_FILE : source->mode;
    if (plain_folder)
        return REPOSBX_OK;
    return rsbx_treeid_add(source->treeid, source->path, source->path_length, source->mode,
                           omitted ? 0 : entry->mode, entry->oid, err);
}

void rsbx_source_give_note(struct rsbx_source_event *out, struct rsbx_source *source)
{
    char hex[RSBX_OID_HEX_BYTES];
    char shown[RSBX_MAX_PATH_BYTES + 1];

    rsbx_hex(hex, source->entry.oid, RSBX_OID_BYTES);
    rsbx_text_printable(shown, sizeof shown, source->path, source->path_length);
    if (source->mode == RSBX_MODE_GITLINK)
        (void)snprintf(source->note, sizeof source->note, "submodule %s (commit %s) left out",
                       shown, hex);
    else if (source->mode == RSBX_MODE_FOLDER)
        (void)snprintf(source->note, sizeof source->note, "empty folder %s left out", shown);
    else
        (void)snprintf(source->note, sizeof source->note, "mode 100664 of %s read as 100644",
                       shown);
    memset(out, 0, sizeof *out);
    out->kind = RSBX_SOURCE_NOTE;
    out->text = source->note;
}
