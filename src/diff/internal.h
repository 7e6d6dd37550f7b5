/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RSBX_DIFF_INTERNAL_H
#define RSBX_DIFF_INTERNAL_H

#include "base/limits.h"
#include "diff/diff.h"
#include "diff/incoming.h"

/*
 * What the files of this room share. The parent collects entries and changes (diff.c), forks and
 * reads the answer (run.c). Everything else runs in the child: work.c leads; tree.c computes tree
 * ids; patch.c and binary.c write the text; proof.c and apply.c read that text again and apply it.
 * A patch from outside is read by the parent (incoming.c), which calls no library for it, and applied
 * by the child (fit.c); lex.c has the words that both readers know.
 * libgit2 contributes object ids, the alignment of lines and binary deltas; it gets buffers only,
 * never a repository, so neither configuration nor attributes exist for it.
 */
#define RSBX_OID_BYTES 20U

struct rsbx_diff_entry {
    char *path; /* a folder's with a '/' behind, so that byte order is git's */
    size_t length;
    uint32_t mode;
    uint8_t oid[RSBX_OID_BYTES];
};

/* One file on one side of a change; mode 0 and the zero oid when absent. */
struct rsbx_diff_side {
    uint32_t mode;
    uint8_t oid[RSBX_OID_BYTES];
    char *bytes; /* never NULL inside the child */
    size_t length;
};

struct rsbx_diff_item {
    char *path;
    size_t length;
    struct rsbx_diff_side before, after;
};

struct rsbx_diff {
    struct rsbx_diff_entry *entries;
    size_t entry_count, entry_capacity;
    struct rsbx_diff_item *items;
    size_t item_count, item_capacity;
    uint64_t content_bytes;
    bool entries_sorted, items_sorted;
};

/* Counts of one path, as they go to the result. */
struct rsbx_diff_counts {
    uint64_t insertions, deletions;
    bool binary;
};

/* The answer of the child: a head, then head.rows rows in the order of the items, then the patch;
 * of a patch from outside, rows in the order of its targets, then what each of them holds now. Or,
 * with a code, the message in place of both. Both ends are one program: native layout. */
struct rsbx_diff_head {
    int32_t code;
    uint32_t message_length;
    uint8_t base_tree[RSBX_OID_BYTES], result_tree[RSBX_OID_BYTES];
    uint64_t rows, patch_length;
};
#define RSBX_DIFF_SAME 255U /* in place of a status: nothing differs */
struct rsbx_diff_row {
    uint64_t insertions, deletions;
    uint8_t old_oid[RSBX_OID_BYTES], new_oid[RSBX_OID_BYTES];
    uint64_t length; /* of a target's content */
    uint32_t mode;   /* of a target; 0: it is gone */
    uint8_t status, binary;
    uint8_t unused[2];
};

struct rsbx_diff_job {
    struct rsbx_diff *diff;
    uint64_t max_bytes;
    bool check_base;
    uint8_t base_tree[RSBX_OID_BYTES];
    bool base_only;
    const struct rsbx_incoming *incoming; /* applied to the base instead; NULL: none */
};
struct rsbx_diff_reply {
    struct rsbx_diff_head head;
    struct rsbx_diff_row *rows;
    char *patch;
};
void rsbx_diff_reply_autop(struct rsbx_diff_reply *reply);
#define RSBX_DIFF_WALL_MS 120000U
/* Forks the child and reads its answer. */
int rsbx_diff_ask(struct rsbx_diff_reply *reply, struct rsbx_diff_job *job, uint64_t wall_ms,
                  reposbx_error *err);
void rsbx_diff_sort_items(struct rsbx_diff *diff);
/* The child's main (rsbx_child_work); payload is a struct rsbx_diff_job with a sorted diff. */
int rsbx_diff_work(int pipe_fd, void *payload);

/* Child only from here on. */

/* Git's id of a blob or tree. */
int rsbx_diff_blob_id(uint8_t out[RSBX_OID_BYTES], const void *bytes, size_t length,
                      reposbx_error *err);
int rsbx_diff_library_failed(reposbx_error *err, const char *what);

/* Tree id of entries in byte order of their paths. A path twice, or both as file and as folder, is
 * REPOSBX_EINVALID. */
int rsbx_diff_tree_id(uint8_t out[RSBX_OID_BYTES], const struct rsbx_diff_entry *const *entries,
                      size_t count, reposbx_error *err);

/* The sections of one item. */
int rsbx_diff_patch_item(struct rsbx_buf *out, struct rsbx_diff_counts *counts,
                         const struct rsbx_diff_item *item, reposbx_error *err);

/* Git's rule: a NUL within the first 8000 bytes. */
bool rsbx_diff_is_binary(const char *bytes, size_t length);

/* The two blocks of a binary section, new content first. */
int rsbx_diff_binary_write(struct rsbx_buf *out, const struct rsbx_diff_side *before,
                           const struct rsbx_diff_side *after, reposbx_error *err);

/* Reading position in the text of a patch. */
struct rsbx_diff_cursor {
    const char *at, *end;
};
struct rsbx_diff_range {
    uint64_t start, count;
};
/* Consumes `text` when it stands at the cursor. */
bool rsbx_diff_take(struct rsbx_diff_cursor *cursor, const char *text);
/* Consumes one line; its bytes without the newline. False at the end or without a newline. */
bool rsbx_diff_take_line(const char **line, size_t *length, struct rsbx_diff_cursor *cursor);
/* Consumes decimal digits (no sign, no leading zero but "0"). */
bool rsbx_diff_take_number(uint64_t *out, struct rsbx_diff_cursor *cursor);

/* "1,2 +1,3 @@ …" and the newline: what follows the "@@ -" of a hunk. */
bool rsbx_diff_take_hunk_head(struct rsbx_diff_range *old_range, struct rsbx_diff_range *new_range,
                              struct rsbx_diff_cursor *cursor);
/* A name in C quotes; the cursor stands behind the opening quote. */
bool rsbx_diff_take_quoted(char *out, size_t *length, size_t size, struct rsbx_diff_cursor *cursor);
/* "a/X b/X" or the same in quotes, and the newline; both names must be equal. */
bool rsbx_diff_take_names(char path[RSBX_MAX_PATH_BYTES + 1], size_t *path_length,
                          struct rsbx_diff_cursor *cursor);
/* "100644", "100755" or "120000", and the newline. */
bool rsbx_diff_take_mode(uint32_t *out, struct rsbx_diff_cursor *cursor);
/* The prefix and the path, as they are or in quotes. */
bool rsbx_diff_take_name(struct rsbx_diff_cursor *cursor, const char *prefix, const char *path,
                         size_t length);
/* The same as it stands behind "--- " and "+++ ", or /dev/null; ends the line. */
bool rsbx_diff_take_label(struct rsbx_diff_cursor *cursor, const char *prefix, const char *path,
                          size_t length, bool exists);

/* In this room: a patch that is well formed, but not for what it is applied to. */
#define RSBX_DIFF_NO_FIT REPOSBX_ENOTFOUND

/* Applies the hunks, or one binary block, at the cursor to `before` and appends the outcome to
 * `after`: no fuzz, no offset, all of it or REPOSBX_EMALFORMED or RSBX_DIFF_NO_FIT. */
int rsbx_diff_apply_text(struct rsbx_buf *after, const char *before, size_t length,
                         struct rsbx_diff_cursor *cursor, reposbx_error *err);
int rsbx_diff_apply_binary(struct rsbx_buf *after, const char *before, size_t length,
                           struct rsbx_diff_cursor *cursor, reposbx_error *err);

/* The patch as text, applied to the base entries, must give `expected`. Knows of the changes only
 * the old contents. */
int rsbx_diff_prove(const struct rsbx_diff *diff, const char *patch, size_t patch_length,
                    const uint8_t expected[RSBX_OID_BYTES], reposbx_error *err);

/* ---- a patch from outside ---- */

enum rsbx_incoming_kind {
    RSBX_INCOMING_CHANGE, RSBX_INCOMING_CREATE, RSBX_INCOMING_DELETE, RSBX_INCOMING_RENAME,
    RSBX_INCOMING_COPY
};
enum rsbx_incoming_body { RSBX_INCOMING_NOTHING, RSBX_INCOMING_TEXT, RSBX_INCOMING_BINARY };

/* One "diff --git" of it. Of CREATE the new side alone counts, of DELETE the old one. */
struct rsbx_incoming_section {
    enum rsbx_incoming_kind kind;
    enum rsbx_incoming_body body;
    char *old_path, *new_path;
    size_t old_length, new_length;
    uint32_t old_mode, new_mode;     /* 0: the patch does not say */
    char old_id[41], new_id[41];     /* first digits of ids; "": the patch does not say */
    struct rsbx_diff_cursor content; /* hunks, or binary blocks */
    size_t line;                     /* of the patch, from 1 */
};

#define RSBX_NO_SECTION SIZE_MAX
/* A path and what becomes of it. */
struct rsbx_incoming_target {
    const char *path; /* the section's */
    size_t length;
    size_t removed_by, made_by; /* sections */
};

struct rsbx_incoming {
    const char *text; /* the caller's */
    size_t length;
    struct rsbx_incoming_section *sections;
    size_t count, capacity;
    struct rsbx_incoming_target *targets; /* byte order, each path once */
    size_t target_count;
    const char **wanted; /* paths whose old content is needed, in byte order */
    size_t wanted_count;
};

size_t rsbx_incoming_line(const struct rsbx_incoming *incoming, const char *at);
const struct rsbx_incoming_target *rsbx_incoming_find(const struct rsbx_incoming *incoming,
                                                      const char *path, size_t length);

/* Child only. Applies it to the base: rows, contents behind each other, and the tree's id. */
int rsbx_incoming_fit(struct rsbx_diff_row *rows, struct rsbx_buf *contents,
                      uint8_t result_tree[RSBX_OID_BYTES], const struct rsbx_incoming *incoming,
                      const struct rsbx_diff *diff, reposbx_error *err);

/* Merges the base with `count` replacements in byte order (mode 0 removes) and computes the tree
 * id. A path below a folder that stands as a whole is REPOSBX_EINVALID. */
int rsbx_diff_merged_tree(uint8_t out[RSBX_OID_BYTES], const struct rsbx_diff *diff,
                          const struct rsbx_diff_entry *changes, size_t count, reposbx_error *err);

/* ---- looking for paths, in both processes ---- */

struct rsbx_diff_key {
    const char *path;
    size_t length;
};
/* How a path stands to another one, or to what lies below a folder: before it, at it or in it (0), or
 * behind it. Byte order keeps all that lies below one folder together. */
int rsbx_diff_order(const char *path, size_t length, const struct rsbx_diff_key *key);
int rsbx_diff_order_below(const char *path, size_t length, const struct rsbx_diff_key *folder);
bool rsbx_diff_is_below(const char *path, size_t length, const char *folder, size_t folder_length);

/* The base entry or item of a path in a sorted diff, or NULL. */
const struct rsbx_diff_entry *rsbx_diff_find_entry(const struct rsbx_diff *diff, const char *path,
                                                   size_t length);
const struct rsbx_diff_item *rsbx_diff_find_item(const struct rsbx_diff *diff, const char *path,
                                                 size_t length);

#endif
