/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RSBX_DIFF_DIFF_H
#define RSBX_DIFF_DIFF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"

/*
 * The canonical patch. From the base tree (its list of entries) and the changes that a scan found,
 * builds the result tree in a private in-memory object store, writes the patch tree to tree with one
 * fixed option table (no configuration, attributes, filters, textconv or renames; full index,
 * binary, 3 context lines, a/ b/ prefixes), applies it to the base tree in memory and requires the
 * same tree id. Runs in a confined child: hostile content (3 MB lines, 200,000 changed lines) is
 * bounded in time and memory.
 *
 *     RSBX_AUTO(rsbx_diff) rsbx_diff_ptr diff = NULL;
 *     rsbx_diff_new(&diff, err);
 *     rsbx_diff_base(diff, path, length, mode, oid, err)         for every base entry, or the folder
 *                                                                that it is below, any order
 *     rsbx_diff_change(diff, &change, err)                       for every change
 *     rsbx_diff_run(&result, diff, &options, err)
 */
struct rsbx_diff;
typedef struct rsbx_diff *rsbx_diff_ptr;

int rsbx_diff_new(struct rsbx_diff **out, reposbx_error *err);
void rsbx_diff_free(struct rsbx_diff *diff);

/* One entry of the base tree. Modes 0100644, 0100755, 0120000; oid is the Git blob id. Or
 * RSBX_DIFF_FOLDER and a tree id: everything below that folder, in which nothing changes. It is believed no
 * more than the entries are: the id of the base tree follows from both. Copied. */
#define RSBX_DIFF_FOLDER 0040000U
int rsbx_diff_base(struct rsbx_diff *diff, const char *path, size_t path_length, uint32_t mode,
                   const uint8_t oid[20], reposbx_error *err);

/* One change. A path that is changed from file to folder is a deletion of the path and additions below. Old
 * content is hashed and must be the base entry's oid (else REPOSBX_EPROTOCOL: the baseline is not what it
 * was). Content is taken over (freed by the diff) on success only. */
struct rsbx_diff_content {
    char *bytes;     /* malloc'ed; NULL when length is 0 */
    size_t length;
};
struct rsbx_diff_change {
    const char *path;
    size_t path_length;
    uint32_t old_mode, new_mode;   /* 0: absent on that side */
    struct rsbx_diff_content old_content, new_content;
};
int rsbx_diff_change(struct rsbx_diff *diff, struct rsbx_diff_change *change, reposbx_error *err);
/* Whether any of the changes so far is below this folder. */
bool rsbx_diff_changes_below(struct rsbx_diff *diff, const char *path, size_t path_length);

struct rsbx_diff_options {
    uint64_t max_bytes;      /* of the patch; over it: REPOSBX_ELIMIT */
    const char *base_tree;   /* 40 hex: the tree that the base entries must give, else REPOSBX_EPROTOCOL;
                                NULL: not checked */
    uint64_t wall_ms;        /* 0: two minutes */
};

enum rsbx_diff_status {
    RSBX_DIFF_ADDED, RSBX_DIFF_DELETED, RSBX_DIFF_MODIFIED, RSBX_DIFF_TYPE_CHANGED,
    RSBX_DIFF_MODE_CHANGED
};

/* "added", "deleted", "modified", "type_changed", "mode_changed". */
const char *rsbx_diff_status_word(enum rsbx_diff_status status);

struct rsbx_diff_file {
    char *path;              /* bytes, NUL-terminated */
    size_t path_length;
    enum rsbx_diff_status status;
    uint32_t old_mode, new_mode;     /* 0 when absent */
    char old_oid[41], new_oid[41];   /* 40 zeros when absent */
    uint64_t insertions, deletions;  /* 0 for binary */
    bool binary;
};

struct rsbx_diff_result {
    char *patch;             /* NUL behind; ends with a newline unless empty */
    size_t patch_length;
    char base_tree[41], result_tree[41];
    struct rsbx_diff_file *files;    /* byte order of path */
    size_t file_count;
};
void rsbx_diff_result_dispose(struct rsbx_diff_result *result);

int rsbx_diff_run(struct rsbx_diff_result *out, struct rsbx_diff *diff,
                  const struct rsbx_diff_options *options, reposbx_error *err);

/* Git's tree id of a list of entries (as rsbx_diff_base takes them), without any content. */
int rsbx_diff_base_tree(char out[41], struct rsbx_diff *diff, reposbx_error *err);

#endif
