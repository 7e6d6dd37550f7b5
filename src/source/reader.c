/* SPDX-License-Identifier: Apache-2.0 */
#include "source/internal.h"

#include <string.h>

#include "base/cleanup.h"
#include "base/text.h"
#include "guest/fingerprint.h"

#include "base/banned.h"

/*
 * The child's main. Everything that can be refused is refused before the first entry goes out: the
 * folder, the repository's form, the commit, HEAD, every tree, every size, links and attributes.
 * Then the content, blob by blob, each read whole and checked before its head is written. Last,
 * HEAD again. The kernel frees what the child leaves.
 */
struct reader {
    const struct rsbx_source_options *options;
    struct rsbx_repo repo;
    struct rsbx_objects *objects;
    struct rsbx_listing listing;
    struct rsbx_wire wire;
    struct rsbx_buf content; /* plain folders */
};

static int check_head(const struct reader *reader, bool again, reposbx_error *err)
{
    char head[RSBX_OID_HEX_BYTES];
    int rc = rsbx_gitrefs_head(head, reader->repo.git_fd, err);

    if (rc != 0)
        return rc;
    if (strcmp(head, reader->options->revision) == 0)
        return REPOSBX_OK;
    if (again) {
        (void)rsbx_fail(err, REPOSBX_EPOLICY,
                        "HEAD moved from %s to %s while the repository was read",
                        reader->options->revision, head);
        rsbx_hint(err, "try again when nothing else works in the repository");
        return REPOSBX_EPOLICY;
    }
    (void)rsbx_fail(err, REPOSBX_EPOLICY, "HEAD of the checkout is at %s, not at %s", head,
                    reader->options->revision);
    rsbx_hint(err, "git checkout --detach %s, or ask for revision %s", reader->options->revision,
              head);
    return REPOSBX_EPOLICY;
}

static int check_commit(struct reader *reader, const uint8_t *oid, reposbx_error *err)
{
    enum rsbx_object_type type;
    char head[RSBX_OID_HEX_BYTES];
    uint64_t size;
    int rc = rsbx_object_header(&type, &size, reader->objects, oid, err);

    if (rc == REPOSBX_ENOTFOUND) {
        if (rsbx_gitrefs_head(head, reader->repo.git_fd, NULL) == 0 &&
            strcmp(head, reader->options->revision) == 0) {
            (void)rsbx_fail(err, REPOSBX_EPROTOCOL, "the repository is damaged: HEAD is at %s, which "
                            "is in no pack and no file of %s", head, reader->repo.path);
            rsbx_hint(err, "git fsck says what is wrong; a fresh clone helps");
            return REPOSBX_EPROTOCOL;
        }
        (void)rsbx_fail(err, REPOSBX_ENOTFOUND, "no commit %s in %s", reader->options->revision,
                        reader->repo.path);
        rsbx_hint(err, "nothing is fetched: git fetch it first, then git checkout it");
        return REPOSBX_ENOTFOUND;
    }
    if (rc != 0)
        return rc;
    if (type != RSBX_OBJECT_COMMIT) {
        (void)rsbx_fail(err, REPOSBX_EPOLICY, "%s is a %s, not a commit", reader->options->revision,
                        rsbx_object_word(type));
        rsbx_hint(err, "git rev-parse HEAD prints the commit of the checkout");
        return REPOSBX_EPOLICY;
    }
    return check_head(reader, false, err);
}

/* The commit's own bytes go into `commit`; its tree is listed. */
static int list_commit(struct rsbx_buf *commit, struct reader *reader, reposbx_error *err)
{
    uint8_t oid[RSBX_OID_BYTES];
    uint8_t tree[RSBX_OID_BYTES];
    char hex[RSBX_OID_HEX_BYTES];
    const void *bytes;
    size_t length;
    int rc = rsbx_objects_open(&reader->objects, reader->repo.objects_fd, err);

    if (rc != 0)
        return rc;
    (void)rsbx_unhex(oid, sizeof oid, reader->options->revision);
    rc = check_commit(reader, oid, err);
    if (rc == 0)
        rc = rsbx_object_read(&bytes, &length, reader->objects, oid, RSBX_OBJECT_COMMIT,
                              RSBX_MAX_COMMIT_BYTES, err);
    if (rc == 0)
        rc = rsbx_buf_append(commit, bytes, length, err);
    if (rc != 0)
        return rc;
    if (length < 46 || memcmp(commit->data, "tree ", 5) != 0 || commit->data[45] != '\n')
        return rsbx_fail(err, REPOSBX_EPROTOCOL, "commit %s has no tree line",
                         reader->options->revision);
    memcpy(hex, commit->data + 5, sizeof hex - 1);
    hex[sizeof hex - 1] = '\0';
    if (!rsbx_unhex(tree, sizeof tree, hex))
        return rsbx_fail(err, REPOSBX_EPROTOCOL, "commit %s names no tree",
                         reader->options->revision);
    rc = rsbx_listing_init(&reader->listing, reader->options, tree, err);
    if (rc == 0)
        rc = rsbx_tree_list(&reader->listing, reader->objects, err);
    if (rc == 0 && reader->options->attributes == RSBX_ATTRIBUTES_REFUSE)
        rc = rsbx_attributes_check(&reader->listing, reader->objects, reader->repo.git_fd, err);
    return rc;
}

/* Content of a leaf, borrowed until the next call. */
static int read_leaf(const void **bytes, size_t *length, struct reader *reader,
                     struct rsbx_leaf *leaf, reposbx_error *err)
{
    int rc;

    if (reader->objects != NULL) {
        rc = rsbx_object_read(bytes, length, reader->objects, leaf->oid, RSBX_OBJECT_BLOB,
                              leaf->size, err);
        if (rc == 0 && *length != leaf->size)
            return rsbx_fail(err, REPOSBX_EPROTOCOL, "a blob changed its size while it was read");
        return rc;
    }
    rc = rsbx_plain_read(&reader->content, &reader->listing, reader->repo.top_fd, leaf, err);
    if (rc == 0) {
        *bytes = reader->content.data;
        *length = reader->content.length;
    }
    return rc;
}

static int read_target(char out[RSBX_MAX_TARGET_BYTES + 1], void *payload, struct rsbx_leaf *leaf,
                       reposbx_error *err)
{
    struct reader *reader = payload;
    const void *bytes;
    size_t length;
    int rc = read_leaf(&bytes, &length, reader, leaf, err);

    if (rc != 0)
        return rc;
    if (length > RSBX_MAX_TARGET_BYTES || memchr(bytes, '\0', length) != NULL) {
        char path[RSBX_MAX_PATH_BYTES + 1];

        (void)rsbx_leaf_path(path, &reader->listing, leaf);
        return rsbx_fail(err, REPOSBX_EPOLICY, "symlink %s: its target is no path", path);
    }
    memcpy(out, bytes, length);
    out[length] = '\0';
    return REPOSBX_OK;
}

/* What a kept link leads to must be bounded, and must not be outside: the fingerprint has no form for
 * that. *linked_bytes counts what links lead to: the same file behind many is many times its bytes. */
static int check_link(uint64_t *linked_bytes, struct reader *reader, struct rsbx_leaf *leaf,
                      reposbx_error *err)
{
    const struct rsbx_source_options *options = reader->options;
    char target[RSBX_MAX_TARGET_BYTES + 1];
    char path[RSBX_MAX_PATH_BYTES + 1];
    enum rsbx_target_state state = RSBX_TARGET_NONE;
    struct rsbx_leaf *file = NULL;
    size_t length;
    int rc = read_target(target, reader, leaf, err);

    if (rc == 0)
        rc = rsbx_target_resolve(&state, &file, &reader->listing, leaf, target, read_target, reader,
                                 err);
    if (rc != 0)
        return rc;
    length = rsbx_leaf_path(path, &reader->listing, leaf);
    if (state == RSBX_TARGET_OUTSIDE &&
        !rsbx_fp_skipped(path, length, options->excludes, options->exclude_count))
        return rsbx_fail_outside(path, err);
    *linked_bytes += file != NULL ? file->size : 0;
    if (*linked_bytes > options->max_bytes)
        return rsbx_fail(err, REPOSBX_EPOLICY, "symlinks lead to more than %llu bytes together",
                         (unsigned long long)options->max_bytes);
    return REPOSBX_OK;
}

static int check_links(struct reader *reader, reposbx_error *err)
{
    uint64_t linked_bytes = 0;

    for (size_t i = 0; i < reader->listing.leaf_count; i++) {
        struct rsbx_leaf *leaf = &reader->listing.leaves[i];
        int rc = leaf->mode == RSBX_MODE_LINK ? check_link(&linked_bytes, reader, leaf, err) : 0;

        if (rc != 0)
            return rc;
    }
    return REPOSBX_OK;
}

static int send_link(struct reader *reader, struct rsbx_wire_entry *entry, struct rsbx_leaf *leaf,
                     reposbx_error *err)
{
    char target[RSBX_MAX_TARGET_BYTES + 1];
    struct rsbx_leaf *file = NULL;
    int rc = read_target(target, reader, leaf, err);

    if (rc == 0)
        rc = rsbx_target_resolve(&entry->link_state, &file, &reader->listing, leaf, target,
                               read_target, reader, err);
    if (rc == 0 && file != NULL)
        rc = read_leaf(&entry->linked, &entry->linked_length, reader, file, err);
    if (rc != 0)
        return rc;
    entry->bytes = target;
    return rsbx_wire_entry(&reader->wire, RSBX_WIRE_ENTRY, entry, err);
}

static int send_leaf(struct reader *reader, struct rsbx_leaf *leaf, reposbx_error *err)
{
    char path[RSBX_MAX_PATH_BYTES + 1];
    struct rsbx_wire_entry entry = { .leaf = leaf, .path = path };
    size_t length;
    int rc;

    entry.path_length = rsbx_leaf_path(path, &reader->listing, leaf);
    if (rsbx_leaf_left_out(leaf))
        return rsbx_wire_entry(&reader->wire, RSBX_WIRE_OMITTED, &entry, err);
    if (leaf->mode == RSBX_MODE_LINK)
        return send_link(reader, &entry, leaf, err);
    rc = read_leaf(&entry.bytes, &length, reader, leaf, err);
    if (rc != 0) {
        if (rc == REPOSBX_ENOTFOUND)
            return rsbx_fail(err, REPOSBX_EPROTOCOL, "the blob of %s vanished while the repository "
                             "was read", path);
        return rc;
    }
    return rsbx_wire_entry(&reader->wire, RSBX_WIRE_ENTRY, &entry, err);
}

/* Folders of a plain tree with nothing in them: no tree can hold them. */
static int send_empty_folders(struct reader *reader, reposbx_error *err)
{
    for (uint32_t i = 1; i < reader->listing.folder_count; i++) {
        char path[RSBX_MAX_PATH_BYTES + 1];
        struct rsbx_leaf leaf = { .mode = RSBX_MODE_FOLDER };
        struct rsbx_wire_entry entry = { .leaf = &leaf, .path = path };
        int rc;

        if (!reader->listing.folders[i].empty)
            continue;
        entry.path_length = rsbx_folder_path(path, &reader->listing, i);
        rc = rsbx_wire_entry(&reader->wire, RSBX_WIRE_OMITTED, &entry, err);
        if (rc != 0)
            return rc;
    }
    return REPOSBX_OK;
}

static int stream(struct reader *reader, const struct rsbx_buf *commit, reposbx_error *err)
{
    int rc;

    rsbx_listing_mark_streamed(&reader->listing);
    rc = check_links(reader, err);
    if (rc == 0)
        rc = rsbx_wire_facts(&reader->wire, reader->listing.files, reader->listing.bytes,
                             commit->data, commit->length, err);
    if (rc == 0)
        rc = send_empty_folders(reader, err);
    for (size_t i = 0; i < reader->listing.leaf_count && rc == 0; i++)
        rc = send_leaf(reader, &reader->listing.leaves[i], err);
    if (rc == 0 && reader->objects != NULL)
        rc = check_head(reader, true, err);
    if (rc == 0)
        rc = rsbx_wire_done(&reader->wire, err);
    return rc;
}

static int work(struct reader *reader, reposbx_error *err)
{
    RSBX_AUTO(rsbx_buf) struct rsbx_buf commit = RSBX_BUF_INIT(RSBX_MAX_COMMIT_BYTES);
    const struct rsbx_source_options *options = reader->options;
    int rc = rsbx_repo_open_folder(&reader->repo, options->repo, options->owner, err);

    if (rc != 0)
        return rc;
    if (options->revision != NULL) {
        rc = rsbx_repo_open_git(&reader->repo, options->owner, err);
        if (rc == 0 && options->head_only) {
            rc = check_head(reader, true, err);
            return rc == 0 ? rsbx_wire_done(&reader->wire, err) : rc;
        }
        if (rc == 0)
            rc = list_commit(&commit, reader, err);
    } else {
        rc = rsbx_listing_init(&reader->listing, options, NULL, err);
        if (rc == 0)
            rc = rsbx_plain_list(&reader->listing, reader->repo.top_fd, err);
    }
    return rc == 0 ? stream(reader, &commit, err) : rc;
}

int rsbx_reader_main(int pipe_fd, void *payload)
{
    struct reader reader = { .options = payload, .repo = RSBX_REPO_INIT,
                             .content = RSBX_BUF_INIT(RSBX_MAX_BLOB_BYTES + 1) };
    reposbx_error err = REPOSBX_ERROR_INIT;

    if (rsbx_wire_init(&reader.wire, pipe_fd, &err) != 0)
        return 1;
    if (work(&reader, &err) != 0 && rsbx_wire_error(&reader.wire, &err) != 0)
        return 2;
    return 0;
}
