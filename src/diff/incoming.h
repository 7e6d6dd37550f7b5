/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RSBX_DIFF_INCOMING_H
#define RSBX_DIFF_INCOMING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "diff/diff.h"

/*
 * A patch from outside: what `git diff` prints with binary blocks, modes, renames and copies, read
 * strictly and applied to exactly the tree that it is for. Nothing is searched for, skipped or
 * guessed: hunks stand at their lines, an index line names what is there, names have their a/ and
 * b/, and nothing stands around the sections.
 *
 *     rsbx_incoming_read(&incoming, bytes, length, &rules, err);     pure: no library, no I/O
 *     rsbx_diff_base(diff, …)                                        every entry of the tree
 *     rsbx_diff_change(diff, …)   old content (new side absent) of each path that
 *                                 rsbx_incoming_wants
 *     rsbx_incoming_apply(&outcome, incoming, diff, &options, err);  in a confined child
 */
struct rsbx_incoming;
typedef struct rsbx_incoming *rsbx_incoming_ptr;

struct rsbx_incoming_rules {
    bool symlinks; /* false: a patch that makes one is refused */
};

/* The bytes stay the caller's and must outlive the patch. REPOSBX_EMALFORMED with the line: it is no
 * such patch, or names a path that no tree may have. REPOSBX_EPOLICY: what the rules refuse, and
 * submodules. */
int rsbx_incoming_read(struct rsbx_incoming **out, const void *bytes, size_t length,
                       const struct rsbx_incoming_rules *rules, reposbx_error *err);
void rsbx_incoming_free(struct rsbx_incoming *incoming);
RSBX_CLEANUP(rsbx_incoming, rsbx_incoming_ptr, rsbx_incoming_free);

/* Whether the old content of this path is needed. */
bool rsbx_incoming_wants(const struct rsbx_incoming *incoming, const char *path, size_t length);

/* What makes the result out of the base, in an order in which it can be done: first what goes, then
 * folders before what is in them. */
enum rsbx_incoming_what {
    RSBX_INCOMING_GONE,   /* of a folder, with all that is in it */
    RSBX_INCOMING_FOLDER,
    RSBX_INCOMING_FILE    /* mode 0100644, 0100755, or 0120000 with the target as content */
};
struct rsbx_incoming_step {
    enum rsbx_incoming_what what;
    char *path;
    size_t path_length;
    uint32_t mode;
    const char *bytes; /* in `contents` */
    size_t length;
};

/* A path that the patch changes; `from` is where a renamed or copied file comes from, or NULL. */
struct rsbx_incoming_file {
    struct rsbx_diff_file file; /* insertions and deletions are not counted */
    char *from;
    uint64_t old_bytes, new_bytes; /* of its content; 0 on a side where it is not */
};

struct rsbx_incoming_outcome {
    bool applies;
    char reason[REPOSBX_MESSAGE_BYTES]; /* why not; then the rest is empty but base_tree */
    char base_tree[41], result_tree[41];
    struct rsbx_incoming_file *files;   /* byte order of path */
    size_t file_count;
    struct rsbx_incoming_step *steps;
    size_t step_count;
    char *contents;
};
void rsbx_incoming_outcome_dispose(struct rsbx_incoming_outcome *outcome);
void rsbx_incoming_outcome_autop(struct rsbx_incoming_outcome *outcome);

/* That it does not apply is an answer. REPOSBX_EMALFORMED: what only shows when it is applied (a
 * binary block that does not inflate, an index line that names another outcome); REPOSBX_EPOLICY: a
 * path behind a symlink of the tree, a new symlink that leads out of it; REPOSBX_ELIMIT: more than
 * max_bytes of new content, or too much time. Of the options only max_bytes counts. */
int rsbx_incoming_apply(struct rsbx_incoming_outcome *out, const struct rsbx_incoming *incoming,
                        struct rsbx_diff *diff, const struct rsbx_diff_options *options,
                        reposbx_error *err);

#endif
