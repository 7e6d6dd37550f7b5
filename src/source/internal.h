/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RSBX_SOURCE_INTERNAL_H
#define RSBX_SOURCE_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/limits.h"
#include "source/source.h"
#include "source/treeid.h"

/*
 * What the files of this room share. Child side, in the order of work: repo.c (the folder and its
 * .git by our own rules), gitconfig.c and gitrefs.c (bounded readers of config and refs), objects.c
 * (object bytes, hash-checked), tree.c or plain.c (what the snapshot holds) into listing.c,
 * attributes.c, links.c, then reader.c writes everything through wire.c. Parent side: stream.c
 * (with answer.c and entry.c) reads and checks again, treeid.c recomputes the tree id.
 */

#define RSBX_MODE_FOLDER 0040000U
#define RSBX_MODE_FILE 0100644U
#define RSBX_MODE_FILE_GROUP 0100664U /* written by old Git versions; read as 0100644 */
#define RSBX_MODE_EXECUTABLE 0100755U
#define RSBX_MODE_LINK 0120000U
#define RSBX_MODE_GITLINK 0160000U

#define RSBX_OID_HEX_BYTES (2U * RSBX_OID_BYTES + 1U)
/* A link target that a kernel takes. */
#define RSBX_MAX_TARGET_BYTES RSBX_MAX_PATH_BYTES
/* One tree object: the entry bound at 60 bytes an entry. */
#define RSBX_MAX_TREE_BYTES (32U * 1024U * 1024U)
/* A commit object: messages of some MiB exist (imported changelogs). */
#define RSBX_MAX_COMMIT_BYTES (16U * 1024U * 1024U)
/* .git/config, and one attributes file: far above what people or tools write. */
#define RSBX_MAX_CONFIG_BYTES (1024U * 1024U)
#define RSBX_MAX_ATTRIBUTES_BYTES (4U * 1024U * 1024U)

/* ---- repo.c ---- */

struct rsbx_repo {
    char path[RSBX_MAX_PATH_BYTES + 1]; /* absolute, without "." components */
    int top_fd;
    int git_fd;     /* -1 for a plain folder */
    int objects_fd; /* -1 for a plain folder */
};

#define RSBX_REPO_INIT { "", -1, -1, -1 }

/* Opens the folder component by component, never through a symlink, and checks its owner. */
int rsbx_repo_open_folder(struct rsbx_repo *repo, const char *path, enum rsbx_owner_rule owner,
                          reposbx_error *err);
/* Then its .git: everything that would lead Git elsewhere is refused. */
int rsbx_repo_open_git(struct rsbx_repo *repo, enum rsbx_owner_rule owner, reposbx_error *err);

/* ---- gitconfig.c, gitrefs.c ---- */

/* Refuses a repository format that we do not read: another hash, partial clone, core.worktree,
 * unknown extensions. Reads .git/config and .git/config.worktree only, never follows an include. */
int rsbx_gitconfig_check(int git_fd, reposbx_error *err);

/* The commit that HEAD names, as 40 hex digits; REPOSBX_EPOLICY when it names none. */
int rsbx_gitrefs_head(char out[RSBX_OID_HEX_BYTES], int git_fd, reposbx_error *err);

/* ---- packs.c ---- */

struct git_odb;
struct rsbx_packs;

/* Takes in the packs below `objects_fd`, which stays open for as long as the result lives. libgit2 must
 * have been started. REPOSBX_EPROTOCOL when an index or a pack is damaged. */
int rsbx_packs_open(struct rsbx_packs **out, int objects_fd, reposbx_error *err);
void rsbx_packs_free(struct rsbx_packs *packs);
/* A store of the one pack that holds the object, whose deltas were followed to their end. Borrowed.
 * REPOSBX_ENOTFOUND when no pack holds it. */
int rsbx_packs_find(struct git_odb **out, struct rsbx_packs *packs, const uint8_t *oid,
                    reposbx_error *err);

/* ---- objects.c ---- */

enum rsbx_object_type {
    RSBX_OBJECT_COMMIT = 1,
    RSBX_OBJECT_TREE = 2,
    RSBX_OBJECT_BLOB = 3,
    RSBX_OBJECT_TAG = 4
};

struct rsbx_objects;

int rsbx_objects_open(struct rsbx_objects **out, int objects_fd, reposbx_error *err);
void rsbx_objects_free(struct rsbx_objects *objects);
const char *rsbx_object_word(enum rsbx_object_type type);
/* Type and size without reading the content. REPOSBX_ENOTFOUND when there is no such object. */
int rsbx_object_header(enum rsbx_object_type *type, uint64_t *size, struct rsbx_objects *objects,
                       const uint8_t *oid, reposbx_error *err);
/* The whole content, of the wanted type and at most `limit` bytes (checked before reading), its
 * hash verified. Borrowed until the next call. */
int rsbx_object_read(const void **bytes, size_t *length, struct rsbx_objects *objects,
                     const uint8_t *oid, enum rsbx_object_type type, uint64_t limit,
                     reposbx_error *err);

/* ---- listing.c ---- */

/* A folder of the snapshot. Its leaves and its subfolders are contiguous and in walk order. */
struct rsbx_folder {
    uint32_t parent;
    uint32_t name; /* offset in names */
    uint32_t first_leaf;
    uint32_t leaf_count;
    uint32_t first_child;
    uint32_t child_count;
    uint16_t name_length;
    uint16_t path_length;
    uint16_t depth; /* 0: the root */
    bool empty;     /* plain folders only: nothing at all in it */
    bool streamed;  /* holds a file or link at some depth: it exists in the snapshot */
    uint8_t oid[RSBX_OID_BYTES];
};

/* A file or link; or what is left out: a gitlink or an empty tree. */
struct rsbx_leaf {
    uint64_t size;
    uint32_t folder;
    uint32_t name;
    uint32_t mode; /* as found */
    uint16_t name_length;
    uint8_t oid[RSBX_OID_BYTES];
};

struct rsbx_listing {
    const struct rsbx_source_options *options;
    struct rsbx_folder *folders; /* [0] is the root */
    struct rsbx_leaf *leaves;
    char *names;
    uint32_t *pending; /* folders still to visit, next one last */
    size_t folder_count, folder_room;
    size_t leaf_count, leaf_room;
    size_t names_used, names_room;
    size_t pending_count, pending_room;
    uint64_t files; /* files and links */
    uint64_t bytes;
};

/* One name of a folder, before it is checked. */
struct rsbx_item {
    const char *name;
    size_t length;
    uint64_t size;
    uint32_t mode;
    uint8_t oid[RSBX_OID_BYTES];
};

int rsbx_listing_init(struct rsbx_listing *listing, const struct rsbx_source_options *options,
                      const uint8_t *root_oid, reposbx_error *err);
void rsbx_listing_dispose(struct rsbx_listing *listing);
/* The next folder to visit, or -1. */
int64_t rsbx_listing_next_folder(struct rsbx_listing *listing);
/* Checks every item by the rules and the policy, sorts them and takes them over; subfolders become
 * pending. `where` names the folder in errors. */
int rsbx_listing_add(struct rsbx_listing *listing, uint32_t folder, struct rsbx_item *items,
                     size_t count, const char *where, reposbx_error *err);
/* Sets a leaf's size, within the bounds on bytes. */
int rsbx_listing_size(struct rsbx_listing *listing, struct rsbx_leaf *leaf, uint64_t size,
                      reposbx_error *err);
/* When everything is listed: finds out which folders the snapshot has. */
void rsbx_listing_mark_streamed(struct rsbx_listing *listing);
bool rsbx_leaf_left_out(const struct rsbx_leaf *leaf);
/* Path of a folder ("" for the root) or leaf, NUL-terminated; returns its length. */
size_t rsbx_folder_path(char out[RSBX_MAX_PATH_BYTES + 1], const struct rsbx_listing *listing,
                        uint32_t folder);
size_t rsbx_leaf_path(char out[RSBX_MAX_PATH_BYTES + 1], const struct rsbx_listing *listing,
                      const struct rsbx_leaf *leaf);

/* ---- tree.c, plain.c ---- */

int rsbx_tree_list(struct rsbx_listing *listing, struct rsbx_objects *objects, reposbx_error *err);
int rsbx_plain_list(struct rsbx_listing *listing, int top_fd, reposbx_error *err);
/* Reads one listed leaf of a plain folder into buf (cleared first) and sets its oid. */
int rsbx_plain_read(struct rsbx_buf *buf, struct rsbx_listing *listing, int top_fd,
                    struct rsbx_leaf *leaf, reposbx_error *err);
void rsbx_blob_oid(uint8_t oid[RSBX_OID_BYTES], const void *bytes, size_t length);

/* ---- links.c ---- */

/* Where the link at `leaf` with this target leads inside the snapshot; *file is the leaf when the
 * state is RSBX_TARGET_REGULAR. `target_of` reads the target of another link on the way. */
typedef int (*rsbx_target_reader)(char out[RSBX_MAX_TARGET_BYTES + 1], void *payload,
                                  struct rsbx_leaf *leaf, reposbx_error *err);
int rsbx_target_resolve(enum rsbx_target_state *state, struct rsbx_leaf **file,
                      struct rsbx_listing *listing, const struct rsbx_leaf *leaf,
                      const char *target, rsbx_target_reader target_of, void *payload,
                      reposbx_error *err);

/* ---- fingerprint.c ---- */

/* The refusal of a link that leads outside; the code. */
int rsbx_fail_outside(const char *path, reposbx_error *err);

/* ---- pattern.c ---- */

/* A path pattern of an attributes file, compiled. Matching is linear in pattern times text. */
struct rsbx_pattern;

/* NULL in *out, with success, when the pattern can match nothing (Git ignores it too). */
int rsbx_pattern_new(struct rsbx_pattern **out, const char *text, size_t length,
                     reposbx_error *err);
void rsbx_pattern_free(struct rsbx_pattern *pattern);
/* `path` is relative to the folder of the attributes file, without a trailing slash. Adds the work
 * done to *steps. */
bool rsbx_pattern_match(const struct rsbx_pattern *pattern, const char *path, size_t length,
                        bool folder, uint64_t *steps);

/* ---- attrfile.c, attributes.c ---- */

enum rsbx_attr_value { RSBX_ATTR_UNKNOWN, RSBX_ATTR_TRUE, RSBX_ATTR_FALSE, RSBX_ATTR_UNSET,
                       RSBX_ATTR_TEXT };

struct rsbx_attr_setting {
    uint32_t attribute;
    enum rsbx_attr_value value;
};

struct rsbx_attr_line {
    struct rsbx_pattern *pattern; /* NULL: a macro */
    struct rsbx_attr_setting *settings;
    size_t setting_count;
    uint32_t macro;
    uint32_t number; /* in its file, from 1 */
};

struct rsbx_attr_file {
    struct rsbx_attr_line *lines;
    size_t line_count;
};

/* Attribute names, interned: 0 and 1 are the two that matter. */
enum { RSBX_ATTR_EXPORT_IGNORE, RSBX_ATTR_EXPORT_SUBST };

struct rsbx_attr_names {
    char **names;
    size_t count;
    size_t room;
};

int rsbx_attr_names_init(struct rsbx_attr_names *names, reposbx_error *err);
void rsbx_attr_names_dispose(struct rsbx_attr_names *names);
int rsbx_attr_file_parse(struct rsbx_attr_file *out, struct rsbx_attr_names *names,
                         const char *text, size_t length, bool macros_allowed, reposbx_error *err);
void rsbx_attr_file_dispose(struct rsbx_attr_file *file);

/* REPOSBX_EPOLICY when export-ignore or export-subst is in effect on any path of the listing. */
int rsbx_attributes_check(struct rsbx_listing *listing, struct rsbx_objects *objects, int git_fd,
                          reposbx_error *err);

/* ---- wire.c: the pipe, child side. Format described in wire.c ---- */

enum rsbx_wire_kind {
    RSBX_WIRE_ERROR = 'X',
    RSBX_WIRE_FACTS = 'F',
    RSBX_WIRE_ENTRY = 'E',
    RSBX_WIRE_OMITTED = 'O',
    RSBX_WIRE_DONE = 'Z'
};

#define RSBX_WIRE_ERROR_BYTES 9U  /* kind, code, length of message, length of hint */
#define RSBX_WIRE_FACTS_BYTES 21U /* kind, files, bytes, length of the commit */
#define RSBX_WIRE_ENTRY_BYTES 44U /* kind, mode, oid, size, link state, linked size, path length */

struct rsbx_wire {
    int fd;
    size_t used;
    uint8_t *buffer;
};

#define RSBX_WIRE_BUFFER_BYTES (256U * 1024U)

int rsbx_wire_init(struct rsbx_wire *wire, int fd, reposbx_error *err);
int rsbx_wire_error(struct rsbx_wire *wire, const reposbx_error *fault);
int rsbx_wire_facts(struct rsbx_wire *wire, uint64_t files, uint64_t bytes, const void *commit,
                    size_t length, reposbx_error *err);
struct rsbx_wire_entry {
    const struct rsbx_leaf *leaf;
    const char *path;
    size_t path_length;
    const void *bytes;
    enum rsbx_target_state link_state;
    const void *linked; /* bytes of the file that a link leads to */
    size_t linked_length;
};
int rsbx_wire_entry(struct rsbx_wire *wire, enum rsbx_wire_kind kind,
                    const struct rsbx_wire_entry *entry, reposbx_error *err);
int rsbx_wire_done(struct rsbx_wire *wire, reposbx_error *err);

/* The child's main, for rsbx_child_start; payload is a const struct rsbx_source_options. */
int rsbx_reader_main(int pipe_fd, void *payload);

/* ---- parent side ---- */

/* Order of two leaf paths in the walk: <0, 0, >0. */
int rsbx_walk_compare(const char *a, size_t a_length, const char *b, size_t b_length);

/* Writes and reads big-endian numbers. */
static inline void rsbx_put32(uint8_t *out, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        out[i] = (uint8_t)(value >> (24 - 8 * i));
}

static inline void rsbx_put64(uint8_t *out, uint64_t value)
{
    rsbx_put32(out, (uint32_t)(value >> 32));
    rsbx_put32(out + 4, (uint32_t)value);
}

static inline uint32_t rsbx_get32(const uint8_t *in)
{
    return (uint32_t)in[0] << 24 | (uint32_t)in[1] << 16 | (uint32_t)in[2] << 8 | in[3];
}

static inline uint64_t rsbx_get64(const uint8_t *in)
{
    return (uint64_t)rsbx_get32(in) << 32 | rsbx_get32(in + 4);
}

#endif
