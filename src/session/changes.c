/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The diff of a session: a control guest lists what differs between baseline and workspace and
 * sends both contents; the diff room makes the patch of it and proves it. Nothing that a patch
 * cannot carry is dropped in silence: it ends in `omitted`.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/fault.h"
#include "base/limits.h"
#include "base/path.h"
#include "codec/sha256.h"
#include "diff/diff.h"
#include "diff/ignore.h"
#include "session/internal.h"

#include "base/banned.h"

/* Content of all changed files, both sides: it is held in memory while the patch is made. */
#define MAX_CONTENT_BYTES (256ULL * 1024ULL * 1024ULL)
/* Entries of a scan: more changes than this are no patch that anyone reads. */
#define MAX_CHANGES 200000ULL
#define SCAN_MS 300000U

RSBX_CLEANUP(rsbx_diff, rsbx_diff_ptr, rsbx_diff_free);

enum awaiting { AWAIT_ENTRY, AWAIT_OLD, AWAIT_NEW };

struct scan {
    struct rsbx_diff *diff;
    struct rsbx_ignore *ignore; /* NULL: every new file counts */
    size_t last_ignored;        /* its place in the result's omitted, from 1 */
    reposbx_diff_result *result;
    enum awaiting awaiting;
    char path[RSBX_MAX_PATH_BYTES + 1];
    size_t path_length;
    uint32_t old_mode, new_mode;
    struct rsbx_buf old_content, new_content;
    uint64_t content_bytes;
};

void rsbx_diff_outcome_dispose(reposbx_diff_result *result)
{
    if (result == NULL)
        return;
    free(result->patch);
    for (size_t i = 0; i < result->file_count; i++)
        free(result->files[i].path);
    free(result->files);
    for (size_t i = 0; i < result->omitted_count; i++)
        free(result->omitted[i].path);
    free(result->omitted);
    memset(result, 0, sizeof *result);
}

static const char *reason_word(uint32_t reason)
{
    static const char *const words[] = { "unknown", "fifo",   "socket", "device",    "empty_folder",
                                         "dotgit",  "name",   "unreadable", "too_deep" };

    return reason < sizeof words / sizeof words[0] ? words[reason] : words[0];
}

/* One omission; a second one of the same path (a folder named once for all that is below) is
 * dropped. */
static int add_omitted(reposbx_diff_result *result, const char *path, size_t length,
                       const char *reason, reposbx_error *err)
{
    reposbx_diff_omitted *grown;

    if (result->omitted_count > 0) {
        const reposbx_diff_omitted *last = &result->omitted[result->omitted_count - 1];

        if (strlen(last->path) == length && memcmp(last->path, path, length) == 0)
            return REPOSBX_OK;
    }
    grown = realloc(result->omitted, (result->omitted_count + 1) * sizeof *grown);
    if (grown == NULL)
        return rsbx_fail_memory(err);
    result->omitted = grown;
    grown[result->omitted_count].path = strndup(path, length);
    grown[result->omitted_count].reason = reason;
    if (grown[result->omitted_count].path == NULL)
        return rsbx_fail_memory(err);
    result->omitted_count++;
    return REPOSBX_OK;
}

/* The length of the path up to and with the first component that Git forbids; 0 when there is
 * none. */
static size_t forbidden_prefix(const char *path, size_t length, bool *dotgit)
{
    size_t start = 0;

    for (size_t i = 0; i <= length; i++) {
        if (i < length && path[i] != '/')
            continue;
        if (rsbx_name_problem(path + start, i - start) != NULL) {
            *dotgit = rsbx_name_is_dotgit(path + start, i - start);
            return i;
        }
        start = i + 1;
    }
    return 0;
}

static bool has_content(uint32_t mode)
{
    return mode == 0100644 || mode == 0100755 || mode == 0120000;
}

/* Left out: `length` bytes of the path say what it was. */
static int omit(struct scan *scan, size_t length, const char *reason, reposbx_error *err)
{
    rsbx_buf_clear(&scan->old_content);
    rsbx_buf_clear(&scan->new_content);
    return add_omitted(scan->result, scan->path, length, reason, err);
}

/* A folder that is ignored as a whole is named once, whatever else was left out between its files. */
static int omit_ignored(struct scan *scan, size_t length, reposbx_error *err)
{
    const char *last =
        scan->last_ignored > 0 ? scan->result->omitted[scan->last_ignored - 1].path : "";
    int rc;

    if (strlen(last) == length && memcmp(last, scan->path, length) == 0) {
        rsbx_buf_clear(&scan->new_content);
        return REPOSBX_OK;
    }
    rc = omit(scan, length, "ignored", err);
    scan->last_ignored = scan->result->omitted_count;
    return rc;
}

/* Git takes no symlink of such a name: the patch has what was there before deleted. */
static int omit_link(struct scan *scan, reposbx_error *err)
{
    const char *name = memrchr(scan->path, '/', scan->path_length);

    name = name == NULL ? scan->path : name + 1;
    if (scan->new_mode != 0120000 ||
        !rsbx_name_is_never_link(name, (size_t)(scan->path + scan->path_length - name)))
        return REPOSBX_OK;
    scan->new_mode = 0;
    rsbx_buf_clear(&scan->new_content);
    return add_omitted(scan->result, scan->path, scan->path_length, "name", err);
}

static int commit_change(struct scan *scan, reposbx_error *err)
{
    struct rsbx_diff_change change = { .path = scan->path,
                                       .path_length = scan->path_length,
                                       .old_mode = scan->old_mode,
                                       .new_mode = scan->new_mode };
    bool dotgit = false;
    size_t forbidden = forbidden_prefix(scan->path, scan->path_length, &dotgit);
    size_t ignored = 0;
    int rc = REPOSBX_OK;

    scan->awaiting = AWAIT_ENTRY;
    if (forbidden > 0)
        return omit(scan, forbidden, dotgit ? "dotgit" : "name", err);
    rc = omit_link(scan, err);
    if (rc != 0 || scan->old_mode + scan->new_mode == 0)
        return rc;
    change.new_mode = scan->new_mode;
    if (scan->ignore != NULL && scan->old_mode == 0)
        rc = rsbx_ignore_find(&ignored, scan->ignore, scan->path, scan->path_length, err);
    if (rc != 0)
        return rc;
    if (ignored > 0)
        return omit_ignored(scan, ignored, err);
    change.old_content.length = scan->old_content.length;
    change.new_content.length = scan->new_content.length;
    change.old_content.bytes =
        scan->old_content.length > 0 ? rsbx_buf_steal(&scan->old_content) : NULL;
    change.new_content.bytes =
        scan->new_content.length > 0 ? rsbx_buf_steal(&scan->new_content) : NULL;
    rc = rsbx_diff_change(scan->diff, &change, err);
    if (rc != 0) {
        free(change.old_content.bytes);
        free(change.new_content.bytes);
    }
    return rc;
}

/* After one part is complete: the next part, or the change is whole. */
static int advance(struct scan *scan, enum awaiting done, reposbx_error *err)
{
    if (done == AWAIT_ENTRY && has_content(scan->old_mode)) {
        scan->awaiting = AWAIT_OLD;
        return REPOSBX_OK;
    }
    if (done != AWAIT_NEW && has_content(scan->new_mode)) {
        scan->awaiting = AWAIT_NEW;
        return REPOSBX_OK;
    }
    return commit_change(scan, err);
}

static int on_entry(void *payload, const struct rsbx_entry *entry, reposbx_error *err)
{
    struct scan *scan = payload;

    if (scan->awaiting != AWAIT_ENTRY || entry->path_length > RSBX_MAX_PATH_BYTES)
        return rsbx_fail(err, REPOSBX_EPROTOCOL, "the guest's scan is out of order");
    if (entry->change == RSBX_CHANGE_OMITTED)
        return add_omitted(scan->result, entry->path, entry->path_length,
                           reason_word(entry->reason), err);
    memcpy(scan->path, entry->path, entry->path_length);
    scan->path[entry->path_length] = '\0';
    scan->path_length = entry->path_length;
    scan->old_mode = has_content(entry->old_mode) ? entry->old_mode : 0;
    scan->new_mode = has_content(entry->new_mode) ? entry->new_mode : 0;
    return advance(scan, AWAIT_ENTRY, err);
}

static int on_data(void *payload, const uint8_t *bytes, size_t length, reposbx_error *err)
{
    struct scan *scan = payload;

    if (scan->awaiting == AWAIT_ENTRY)
        return rsbx_fail(err, REPOSBX_EPROTOCOL, "the guest's scan is out of order");
    if (bytes == NULL)
        return advance(scan, scan->awaiting, err);
    scan->content_bytes += length;
    if (scan->content_bytes > 2 * MAX_CONTENT_BYTES)
        return rsbx_fail(err, REPOSBX_ELIMIT, "the changed files are larger than %llu bytes",
                         MAX_CONTENT_BYTES);
    return rsbx_buf_append(scan->awaiting == AWAIT_OLD ? &scan->old_content : &scan->new_content,
                           bytes, length, err);
}

static int on_base(void *payload, const char *path, size_t length, uint32_t mode,
                   const uint8_t oid[20], uint64_t size, reposbx_error *err)
{
    (void)size;
    return rsbx_diff_base(payload, path, length, mode, oid, err);
}

/* A folder without changes goes by its id: the tree ids above it bind that. */
static bool on_wanted(void *payload, const char *path, size_t length)
{
    return rsbx_diff_changes_below(payload, path, length);
}

static int on_folder(void *payload, const char *path, size_t length, const uint8_t oid[20],
                     reposbx_error *err)
{
    return rsbx_diff_base(payload, path, length, RSBX_DIFF_FOLDER, oid, err);
}

static int read_base(struct rsbx_diff *diff, struct rsbx_session *session, reposbx_error *err)
{
    const struct rsbx_manifest_view view = { on_base, on_wanted, on_folder, diff };

    return rsbx_manifest_read(session, &view, err);
}

static int run_scan(struct scan *scan, struct rsbx_session *session, reposbx_error *err)
{
    struct rsbx_ask ask = { .want = rsbx_want_control(session, "control"),
                            .request = { .op = RSBX_OP_SCAN,
                                         .flags = rsbx_session_overlay(session)
                                                      ? RSBX_REQUEST_UPPER
                                                      : 0,
                                         .max_bytes = MAX_CONTENT_BYTES,
                                         .max_entries = MAX_CHANGES },
                            .entry = on_entry,
                            .data = on_data,
                            .payload = scan,
                            .deadline_ms = SCAN_MS };
    int rc;

    scan->old_content.limit = scan->new_content.limit = (size_t)MAX_CONTENT_BYTES;
    rc = rsbx_session_ask(NULL, session, &ask, err);
    if (rc == 0 && scan->awaiting != AWAIT_ENTRY)
        rc = rsbx_fail(err, REPOSBX_EPROTOCOL, "the guest's scan ended in the middle of a file");
    rsbx_buf_dispose(&scan->old_content);
    rsbx_buf_dispose(&scan->new_content);
    return rc;
}

/* Moves the diff room's result into the public one. */
static int take_result(reposbx_diff_result *result, struct rsbx_diff_result *made,
                       reposbx_error *err)
{
    result->files = calloc(made->file_count + 1, sizeof *result->files);
    if (result->files == NULL)
        return rsbx_fail_memory(err);
    for (size_t i = 0; i < made->file_count; i++) {
        struct rsbx_diff_file *from = &made->files[i];
        reposbx_diff_file *to = &result->files[i];

        to->path = from->path;
        from->path = NULL;
        to->status = rsbx_diff_status_word(from->status);
        to->old_mode = from->old_mode;
        to->new_mode = from->new_mode;
        memcpy(to->old_oid, from->old_oid, sizeof to->old_oid);
        memcpy(to->new_oid, from->new_oid, sizeof to->new_oid);
        to->insertions = from->insertions;
        to->deletions = from->deletions;
        to->binary = from->binary;
        result->file_count = i + 1;
    }
    result->patch = made->patch;
    result->patch_length = made->patch_length;
    made->patch = NULL;
    memcpy(result->base_tree, made->base_tree, sizeof result->base_tree);
    memcpy(result->result_tree, made->result_tree, sizeof result->result_tree);
    rsbx_sha256_hex(result->sha256, result->patch != NULL ? result->patch : "",
                    result->patch_length);
    return REPOSBX_OK;
}

static int make_patch(reposbx_diff_result *result, struct rsbx_diff *diff,
                      const struct rsbx_session *session, uint64_t max_bytes, reposbx_error *err)
{
    struct rsbx_diff_options options = {
        .max_bytes = max_bytes,
        .base_tree = json_string_value(json_object_get(session->metadata, "source_tree")),
    };
    struct rsbx_diff_result made = { .patch = NULL };
    int rc = rsbx_diff_run(&made, diff, &options, err);

    if (rc == 0)
        rc = take_result(result, &made, err);
    else if (rc == REPOSBX_ELIMIT)
        rsbx_hint(err, "a patch is never truncated: raise --max-bytes to get it whole");
    rsbx_diff_result_dispose(&made);
    return rc;
}

static int record_diff(struct rsbx_session *session, const reposbx_diff_result *result,
                       bool unignored, reposbx_error *err)
{
    return rsbx_session_record(
        session, "diff_created",
        json_pack("{s:s, s:I, s:s, s:s, s:I, s:I, s:s}", "sha256", result->sha256, "bytes",
                  (json_int_t)result->patch_length, "base_tree", result->base_tree, "result_tree",
                  result->result_tree, "files", (json_int_t)result->file_count, "omitted",
                  (json_int_t)result->omitted_count, "untracked",
                  unignored ? "unignored" : "all"),
        RSBX_AUDIT_ORDINARY, err);
}

int rsbx_session_diff(reposbx_diff_result *out, struct rsbx_session *session,
                      const reposbx_diff_options *options, reposbx_error *err)
{
    uint64_t max_bytes = options->max_bytes != 0 ? options->max_bytes : RSBX_DEFAULT_DIFF_BYTES;
    bool unignored = options->untracked == REPOSBX_UNTRACKED_UNIGNORED;
    RSBX_AUTO(rsbx_diff) rsbx_diff_ptr diff = NULL;
    RSBX_AUTO(rsbx_ignore) rsbx_ignore_ptr ignore = NULL;
    reposbx_diff_result result = { .patch = NULL };
    reposbx_error own = REPOSBX_ERROR_INIT;
    RSBX_AUTO(rsbx_memory) void *memory = NULL;
    struct scan *scan;
    int rc = rsbx_session_usable(session, err != NULL ? err : (err = &own));

    if (rc != 0)
        return rc;
    memory = scan = calloc(1, sizeof *scan);
    rc = scan != NULL ? rsbx_diff_new(&diff, err) : rsbx_fail_memory(err);
    if (rc == 0 && unignored)
        rc = rsbx_session_ignore(&ignore, session, err);
    if (rc == 0) {
        scan->diff = diff;
        scan->ignore = ignore;
        scan->result = &result;
        rc = run_scan(scan, session, err);
    }
    RSBX_FAULT("diff.scanned");
    if (rc == 0)
        rc = read_base(diff, session, err);
    if (rc == 0)
        rc = make_patch(&result, diff, session, max_bytes, err);
    if (rc != 0)
        (void)rsbx_session_refused(session, "diff", rc, err);
    if (rc == 0)
        rc = record_diff(session, &result, unignored, err);
    if (rc != 0) {
        rsbx_diff_outcome_dispose(&result);
        return rc;
    }
    *out = result;
    return REPOSBX_OK;
}
