/* SPDX-License-Identifier: Apache-2.0 */
#include "diff/internal.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "base/path.h"
#include "base/text.h"

#include "base/banned.h"

/*
 * The self-proof: reads the finished text of a patch as a stranger would, applies it to the base
 * and computes the tree id. It takes from the diff the base entries and the old contents (whose ids
 * were compared with the base entries), and nothing of the new side. libgit2's own reader and
 * git_apply_to_tree are not used: of the patches of the test corpus, all of which git applies, 1.5.1
 * refuses every one with an empty file, a mode-only change or a change of type, most binary ones
 * and most with unusual names.
 */

struct section {
    char path[RSBX_MAX_PATH_BYTES + 1];
    size_t length;
    uint32_t old_mode, new_mode; /* 0: absent */
    bool has_ids;
    uint8_t old_id[RSBX_OID_BYTES], new_id[RSBX_OID_BYTES];
};

struct proof {
    const struct rsbx_diff *diff;
    struct rsbx_diff_cursor cursor;
    struct rsbx_diff_entry *outcome; /* in the order of the patch; mode 0: removed */
    size_t count, capacity;
};

static int refuse(reposbx_error *err, const char *why)
{
    return rsbx_fail(err, REPOSBX_EINTERNAL, "the patch does not prove itself: %s", why);
}

static bool take_id(uint8_t out[RSBX_OID_BYTES], struct rsbx_diff_cursor *cursor)
{
    char hex[2 * RSBX_OID_BYTES + 1];

    if ((size_t)(cursor->end - cursor->at) < sizeof hex - 1)
        return false;
    memcpy(hex, cursor->at, sizeof hex - 1);
    hex[sizeof hex - 1] = '\0';
    cursor->at += sizeof hex - 1;
    return rsbx_unhex(out, RSBX_OID_BYTES, hex);
}

static const struct rsbx_diff_entry *present(const struct proof *proof,
                                             const struct section *section)
{
    const struct rsbx_diff_entry *last =
        proof->count == 0 ? NULL : &proof->outcome[proof->count - 1];

    if (last != NULL &&
        rsbx_bytes_compare(last->path, last->length, section->path, section->length) == 0)
        return last->mode == 0 ? NULL : last;
    return rsbx_diff_find_entry(proof->diff, section->path, section->length);
}

static int read_head(struct section *section, struct proof *proof, reposbx_error *err)
{
    struct rsbx_diff_cursor *cursor = &proof->cursor;
    const struct rsbx_diff_entry *entry;
    bool good = true;

    memset(section, 0, sizeof *section);
    if (!rsbx_diff_take(cursor, "diff --git ") ||
        !rsbx_diff_take_names(section->path, &section->length, cursor))
        return refuse(err, "the head of a section does not parse");
    entry = present(proof, section);
    section->old_mode = section->new_mode = entry == NULL ? 0 : entry->mode;
    if (rsbx_diff_take(cursor, "new file mode ")) {
        good = entry == NULL && rsbx_diff_take_mode(&section->new_mode, cursor);
    } else if (rsbx_diff_take(cursor, "deleted file mode ")) {
        section->new_mode = 0;
        good = entry != NULL && rsbx_diff_take_mode(&section->old_mode, cursor) &&
               section->old_mode == entry->mode;
    } else if (rsbx_diff_take(cursor, "old mode ")) {
        good = entry != NULL && rsbx_diff_take_mode(&section->old_mode, cursor) &&
               section->old_mode == entry->mode && rsbx_diff_take(cursor, "new mode ") &&
               rsbx_diff_take_mode(&section->new_mode, cursor) && section->new_mode != section->old_mode;
    } else {
        good = entry != NULL;
    }
    if (!good)
        return refuse(err, "the modes of a section do not fit the base");
    if (!rsbx_diff_take(cursor, "index "))
        return REPOSBX_OK;
    section->has_ids = true;
    good = take_id(section->old_id, cursor) && rsbx_diff_take(cursor, "..") &&
           take_id(section->new_id, cursor);
    if (good && rsbx_diff_take(cursor, " ")) {
        uint32_t mode = 0;

        good = rsbx_diff_take_mode(&mode, cursor) && mode == section->old_mode && mode == section->new_mode;
    } else {
        good = good && rsbx_diff_take(cursor, "\n") && section->old_mode != section->new_mode;
    }
    return good ? REPOSBX_OK : refuse(err, "an index line does not parse");
}

static bool take_label(const struct section *section, const char *prefix, uint32_t mode,
                       struct rsbx_diff_cursor *cursor)
{
    return rsbx_diff_take_label(cursor, prefix, section->path, section->length, mode != 0);
}

/* The new content from the old one and the body of the section. */
static int apply_body(struct rsbx_buf *after, const struct section *section, struct proof *proof,
                      const char *before, size_t length, reposbx_error *err)
{
    struct rsbx_diff_cursor *cursor = &proof->cursor;
    RSBX_AUTO(rsbx_buf) struct rsbx_buf back = RSBX_BUF_INIT(RSBX_MAX_BLOB_BYTES);
    int rc;

    if (rsbx_diff_take(cursor, "GIT binary patch\n")) {
        rc = rsbx_diff_apply_binary(after, before, length, cursor, err);
        if (rc == REPOSBX_OK) /* and the way back */
            rc = rsbx_diff_apply_binary(&back, after->data == NULL ? "" : after->data,
                                        after->length, cursor, err);
        if (rc == REPOSBX_OK &&
            rsbx_bytes_compare(back.data, back.length, before, length) != 0)
            return refuse(err, "the reverse of a binary section is wrong");
        return rc;
    }
    if (!rsbx_diff_take(cursor, "--- "))
        return length == 0 ? REPOSBX_OK : refuse(err, "a section has no body");
    if (!take_label(section, "a/", section->old_mode, cursor) ||
        !rsbx_diff_take(cursor, "+++ ") ||
        !take_label(section, "b/", section->new_mode, cursor))
        return refuse(err, "the names of a section do not parse");
    return rsbx_diff_apply_text(after, before, length, cursor, err);
}

/* What a patch of somebody else's may be, ours may not. */
static int apply_own_body(struct rsbx_buf *after, const struct section *section,
                          struct proof *proof, const char *before, size_t length,
                          reposbx_error *err)
{
    int rc = apply_body(after, section, proof, before, length, err);

    if (rc != REPOSBX_EMALFORMED && rc != RSBX_DIFF_NO_FIT)
        return rc;
    rsbx_context(err, "the patch does not prove itself");
    if (err != NULL)
        err->code = REPOSBX_EINTERNAL;
    return REPOSBX_EINTERNAL;
}

/* Appends or, for the second half of a change of type, replaces the outcome of a path. */
static int record(struct proof *proof, const struct section *section,
                  const uint8_t id[RSBX_OID_BYTES], reposbx_error *err)
{
    struct rsbx_diff_entry *entry = proof->count == 0 ? NULL : &proof->outcome[proof->count - 1];
    int order = entry == NULL ? -1
                              : rsbx_bytes_compare(entry->path, entry->length, section->path,
                                                   section->length);

    if (order > 0 || (order == 0 && (entry->mode != 0 || section->old_mode != 0)))
        return refuse(err, "sections are out of order");
    if (order < 0) {
        if (proof->count == proof->capacity)
            return refuse(err, "it has more sections than changes");
        entry = &proof->outcome[proof->count];
        entry->path = strndup(section->path, section->length);
        if (entry->path == NULL)
            return rsbx_fail_memory(err);
        entry->length = section->length;
        proof->count++;
    }
    entry->mode = section->new_mode;
    memcpy(entry->oid, id, RSBX_OID_BYTES);
    return REPOSBX_OK;
}

static int apply_section(struct proof *proof, reposbx_error *err)
{
    static const uint8_t zero[RSBX_OID_BYTES];
    RSBX_AUTO(rsbx_buf) struct rsbx_buf after = RSBX_BUF_INIT(RSBX_MAX_BLOB_BYTES);
    struct section section;
    const struct rsbx_diff_item *item;
    const struct rsbx_diff_entry *entry;
    uint8_t id[RSBX_OID_BYTES] = { 0 };
    int rc = read_head(&section, proof, err);

    if (rc != REPOSBX_OK)
        return rc;
    item = rsbx_diff_find_item(proof->diff, section.path, section.length);
    entry = present(proof, &section);
    if (item == NULL)
        return refuse(err, "it names a path that did not change");
    if (!section.has_ids)
        return entry == NULL ? refuse(err, "a section has no index line")
                             : record(proof, &section, entry->oid, err);
    if (memcmp(section.old_id, entry == NULL ? zero : entry->oid, RSBX_OID_BYTES) != 0)
        return refuse(err, "an index line names another old content");
    rc = apply_own_body(&after, &section, proof, entry == NULL ? "" : item->before.bytes,
                        entry == NULL ? 0 : item->before.length, err);
    if (rc != REPOSBX_OK)
        return rc;
    if (section.new_mode != 0)
        rc = rsbx_diff_blob_id(id, after.data, after.length, err);
    else if (after.length != 0)
        return refuse(err, "a deletion leaves content");
    if (rc == REPOSBX_OK && memcmp(id, section.new_id, RSBX_OID_BYTES) != 0)
        return refuse(err, "a section makes another content than its index line says");
    return rc == REPOSBX_OK ? record(proof, &section, id, err) : rc;
}

int rsbx_diff_prove(const struct rsbx_diff *diff, const char *patch, size_t patch_length,
                    const uint8_t expected[RSBX_OID_BYTES], reposbx_error *err)
{
    struct proof proof = { .diff = diff, .cursor = { patch, patch + patch_length },
                           .capacity = diff->item_count };
    RSBX_AUTO(rsbx_memory) void *memory =
        calloc(diff->item_count + 1, sizeof(struct rsbx_diff_entry));
    uint8_t id[RSBX_OID_BYTES];
    int rc = REPOSBX_OK;

    proof.outcome = memory;
    if (memory == NULL)
        return rsbx_fail_memory(err);
    while (rc == REPOSBX_OK && proof.cursor.at < proof.cursor.end)
        rc = apply_section(&proof, err);
    if (rc == REPOSBX_OK)
        rc = rsbx_diff_merged_tree(id, diff, proof.outcome, proof.count, err);
    for (size_t i = 0; i < proof.count; i++)
        free(proof.outcome[i].path);
    if (rc == REPOSBX_OK && memcmp(id, expected, RSBX_OID_BYTES) != 0)
        return refuse(err, "it makes another tree");
    return rc;
}
