/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RSBX_SOURCE_SOURCE_H
#define RSBX_SOURCE_SOURCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/error.h"

/*
 * The reader: a confined child verifies the repository and the revision, validates every tree entry
 * by our own rules (base/path.h), re-hashes every blob, and streams the snapshot; the parent checks
 * again what crosses the pipe (names, order, sizes, counts, blob ids) and hands it on. The
 * repository is never opened in the caller's own address space.
 *
 *     rc = rsbx_source_open(&source, &options, err);      child starts, repository verified
 *     while ((rc = rsbx_source_next(&event, source, err)) == 0 && event.kind != RSBX_SOURCE_DONE)
 *         …
 *     rsbx_source_free(source);                           always; kills the child if it still runs
 *
 * Entries come in the walk order of the fingerprint: folder by folder, first the folder's files and
 * links in code point order, then its subfolders in the same order.
 */
enum rsbx_symlink_rule { RSBX_SYMLINKS_REFUSE, RSBX_SYMLINKS_KEEP };
enum rsbx_submodule_rule { RSBX_SUBMODULES_REFUSE, RSBX_SUBMODULES_EMPTY };
enum rsbx_attribute_rule { RSBX_ATTRIBUTES_REFUSE, RSBX_ATTRIBUTES_RAW };
enum rsbx_owner_rule { RSBX_OWNER_CALLER, RSBX_OWNER_ANY };

struct rsbx_source_options {
    const char *repo;         /* folder, as the user gave it */
    const char *revision;     /* 40 lower-case hex; NULL: a plain folder (no Git) */
    enum rsbx_symlink_rule symlinks;
    enum rsbx_submodule_rule submodules;
    enum rsbx_attribute_rule attributes;
    enum rsbx_owner_rule owner;
    uint64_t max_files;       /* entries of the snapshot */
    uint64_t max_bytes;       /* their content together */
    uint32_t max_depth;       /* folders below the root */
    const char *const *excludes; /* subtrees left out of the fingerprint: normal form, sorted, none below another */
    size_t exclude_count;
    uint64_t wall_ms;         /* the child's wall clock; 0: RSBX_READER_MS */
    bool head_only;           /* set by rsbx_source_recheck */
    const int *cancel_fd;     /* readable: REPOSBX_ECANCELLED; NULL, or -1 there: none. Outlives the source */
};

#define RSBX_OID_BYTES 20U
#define RSBX_FINGERPRINT_BYTES 80U /* "sha256-v2:" + 64 hex digits + NUL, rounded up */

/* Known after open. */
struct rsbx_source_facts {
    char commit[41];          /* "" for a plain folder */
    char tree[41];            /* tree id of the commit; of a plain folder (and where "empty" submodules or
                                 normalised modes change the tree): computed at DONE */
    uint64_t expected_files;  /* counted by the child before anything is streamed */
    uint64_t expected_bytes;
};

enum rsbx_source_kind {
    RSBX_SOURCE_ENTRY,  /* a file or link: path, mode, oid, size; its bytes follow as DATA */
    RSBX_SOURCE_DATA,   /* exactly `size` bytes in pieces of at most 64 KiB; none for size 0 */
    RSBX_SOURCE_NOTE,   /* something normalised or left out on purpose: text for the metadata */
    RSBX_SOURCE_DONE    /* HEAD was checked again; facts are final; fingerprint below */
};

/* Where a link leads, as the fingerprint needs to know it. Never followed on any file system: it is
 * resolved inside the snapshot alone. */
enum rsbx_target_state {
    RSBX_TARGET_NONE,       /* not a link */
    RSBX_TARGET_REGULAR,    /* to a file of the snapshot: its bytes are `linked` */
    RSBX_TARGET_FOLDER,     /* to a folder of the snapshot */
    RSBX_TARGET_UNRESOLVED, /* to nothing, or in a circle */
    RSBX_TARGET_OUTSIDE     /* absolute, or above the root */
};

struct rsbx_source_event {
    enum rsbx_source_kind kind;
    const char *path;         /* ENTRY; borrowed until the next call; NUL-terminated */
    size_t path_length;
    uint32_t mode;            /* 0100644, 0100755, 0120000 */
    uint8_t oid[RSBX_OID_BYTES]; /* Git blob id (SHA-1), verified against the bytes by both sides: the
                                 parent's check is complete when the last DATA was handed out */
    uint64_t size;
    const void *bytes;        /* DATA; a link's target always comes in one piece */
    size_t length;
    enum rsbx_target_state link_state; /* ENTRY and DATA of a link; for the fingerprint alone */
    const void *linked;       /* RSBX_TARGET_REGULAR: content of the file it leads to */
    size_t linked_length;
    const char *text;         /* NOTE */
};

struct rsbx_source;

/* Refusals are REPOSBX_EPOLICY (REPOSBX_ENOTFOUND when the folder or commit is missing,
 * REPOSBX_EMALFORMED for a revision that is not 40 lower-case hex, REPOSBX_EPROTOCOL for a damaged
 * repository), all in words that name the tree, path or rule. The whole tree is validated (names,
 * modes, duplicates, counts, sizes, attributes) before open returns; blob bytes are verified while
 * they are streamed. */
int rsbx_source_open(struct rsbx_source **out, const struct rsbx_source_options *options,
                     reposbx_error *err);
/* The same in two steps: the child validates while the caller does something else. Between them there
 * are no facts, and the texts of the options must live. */
int rsbx_source_start(struct rsbx_source **out, const struct rsbx_source_options *options,
                      reposbx_error *err);
int rsbx_source_await(struct rsbx_source *source, reposbx_error *err);
const struct rsbx_source_facts *rsbx_source_facts(const struct rsbx_source *source);
int rsbx_source_next(struct rsbx_source_event *out, struct rsbx_source *source, reposbx_error *err);
void rsbx_source_free(struct rsbx_source *source);
/* For who has no need of the blobs: looks again that the repository's HEAD is at the revision, as
 * the stream's end would have done. Nothing to check of a plain folder. */
int rsbx_source_recheck(const struct rsbx_source_options *options, reposbx_error *err);

/* The canonical selection JSON of FINGERPRINT for these exclusions (caller frees), and checks that
 * they are allowed: normal-form relative paths; sorts and drops duplicates in place is the caller's
 * work. */
int rsbx_selection_json(char **out, const char *const *excludes, size_t exclude_count,
                        reposbx_error *err);

/*
 * The fingerprint and the rest digest (guest/fingerprint.h) of a stream of entries in walk order:
 * feed every ENTRY and DATA event, then finish. Also counts.
 */
struct rsbx_fingerprint;
int rsbx_fingerprint_new(struct rsbx_fingerprint **out, const char *const *excludes,
                         size_t exclude_count, reposbx_error *err);
int rsbx_fingerprint_feed(struct rsbx_fingerprint *fingerprint,
                          const struct rsbx_source_event *event, reposbx_error *err);
int rsbx_fingerprint_finish(char text[RSBX_FINGERPRINT_BYTES], uint8_t fingerprint_raw[32],
                            uint8_t rest_digest[32], uint64_t *fingerprint_entries,
                            struct rsbx_fingerprint *fingerprint, reposbx_error *err);
void rsbx_fingerprint_free(struct rsbx_fingerprint *fingerprint);

#endif
