/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/fault.h"
#include "base/limits.h"
#include "base/path.h"
#include "codec/sha256.h"
#include "session/internal.h"

#include "base/banned.h"

/* ---- read ---- */

static int collect_bytes(void *payload, const uint8_t *bytes, size_t length, reposbx_error *err)
{
    return bytes == NULL ? REPOSBX_OK : rsbx_buf_append(payload, bytes, length, err);
}

static int record_read(struct rsbx_session *session, const char *path,
                       const struct rsbx_buf *content, reposbx_error *err)
{
    char hash[65];

    rsbx_sha256_hex(hash, content->data != NULL ? content->data : "", content->length);
    return rsbx_session_record(session, "file_read",
                               json_pack("{s:o, s:I, s:s}", "path",
                                         rsbx_json_bytes(path, strlen(path)), "bytes",
                                         (json_int_t)content->length, "sha256", hash),
                               RSBX_AUDIT_ORDINARY, err);
}

static int read_file(struct rsbx_buf *content, struct rsbx_session *session, const char *path,
                     uint64_t max_bytes, reposbx_error *err)
{
    const char *paths[] = { path };
    struct rsbx_ask ask = { .want = rsbx_want_control(session, "control"),
                            .request = { .op = RSBX_OP_READ, .max_bytes = max_bytes },
                            .paths = paths,
                            .path_count = 1,
                            .data = collect_bytes,
                            .payload = content,
                            .deadline_ms = RSBX_ENGINE_CALL_MS };
    int rc = rsbx_session_ask(NULL, session, &ask, err);

    if (rc == REPOSBX_ELIMIT)
        rsbx_hint(err, "nothing is truncated: raise --max-bytes to read it whole");
    return rc;
}

int rsbx_session_read(char **bytes, size_t *length, struct rsbx_session *session, const char *path,
                      uint64_t max_bytes, reposbx_error *err)
{
    char normal[RSBX_MAX_PATH_BYTES + 1];
    RSBX_AUTO(rsbx_buf) struct rsbx_buf content = RSBX_BUF_INIT((size_t)max_bytes);
    reposbx_error own = REPOSBX_ERROR_INIT;
    size_t count;
    char *text;
    int rc = rsbx_session_usable(session, err != NULL ? err : (err = &own));

    if (rc != 0)
        return rc;
    if (max_bytes == 0)
        rc = rsbx_fail(err, REPOSBX_EPOLICY, "max_bytes: 0 allows nothing; give a positive number");
    else if (max_bytes > RSBX_MAX_BLOB_BYTES)
        rc = rsbx_fail(err, REPOSBX_EPOLICY, "max_bytes: more than %llu", RSBX_MAX_BLOB_BYTES);
    if (rc == 0)
        rc = rsbx_path_request(normal, path, false, "path", err);
    if (rc == 0)
        rc = read_file(&content, session, normal, max_bytes, err);
    if (rc != 0)
        return rsbx_session_refused(session, "read", rc, err);
    rc = record_read(session, normal, &content, err);
    if (rc != 0)
        return rc;
    count = content.length;
    text = rsbx_buf_steal(&content);
    if (text == NULL)
        return rsbx_fail_memory(err);
    *bytes = text;
    *length = count;
    return REPOSBX_OK;
}

/* ---- write ---- */

static int check_write(char *normal, const struct rsbx_session *session, const char *path,
                       size_t length, unsigned int flags, reposbx_error *err)
{
    if ((flags & ~(REPOSBX_WRITE_PARENTS | REPOSBX_WRITE_EXECUTABLE)) != 0)
        return rsbx_fail(err, REPOSBX_EINVALID, "flags: unknown bits");
    if (length > session->policy->limits.stdin_bytes) {
        (void)rsbx_fail(err, REPOSBX_EPOLICY, "content: more than %" PRIu64 " bytes",
                        session->policy->limits.stdin_bytes);
        rsbx_hint(err, "limits.stdin_bytes of the policy bounds what is written");
        return REPOSBX_EPOLICY;
    }
    return rsbx_path_request(normal, path, false, "path", err);
}

int rsbx_session_write(struct rsbx_session *session, const char *path, const void *bytes,
                       size_t length, unsigned int flags, reposbx_error *err)
{
    char normal[RSBX_MAX_PATH_BYTES + 1];
    const char *paths[] = { normal };
    char hash[65];
    reposbx_error own = REPOSBX_ERROR_INIT;
    struct rsbx_ask ask = { .request = { .op = RSBX_OP_WRITE },
                            .paths = paths,
                            .path_count = 1,
                            .content = bytes,
                            .content_length = length,
                            .send_content = true,
                            .deadline_ms = RSBX_ENGINE_CALL_MS };
    json_t *data;
    int rc = rsbx_session_usable(session, err != NULL ? err : (err = &own));

    if (rc != 0)
        return rc;
    rc = check_write(normal, session, path, length, flags, err);
    if (rc != 0)
        return rsbx_session_refused(session, "write", rc, err);
    rsbx_sha256_hex(hash, length > 0 ? bytes : "", length);
    data = json_pack("{s:o, s:I, s:s, s:b}", "path", rsbx_json_bytes(normal, strlen(normal)),
                     "bytes", (json_int_t)length, "sha256", hash, "executable",
                     (flags & REPOSBX_WRITE_EXECUTABLE) != 0);
    rc = rsbx_session_record(session, "write_started", json_incref(data), RSBX_AUDIT_ORDINARY, err);
    ask.want = rsbx_want_command(session);
    ask.request.max_bytes = session->policy->limits.stdin_bytes;
    if ((flags & REPOSBX_WRITE_PARENTS) != 0)
        ask.request.flags |= RSBX_REQUEST_PARENTS;
    if ((flags & REPOSBX_WRITE_EXECUTABLE) != 0)
        ask.request.flags |= RSBX_REQUEST_EXECUTABLE;
    RSBX_FAULT("write.started");
    if (rc == 0) {
        rc = rsbx_session_ask(NULL, session, &ask, err);
        if (rc != 0)
            (void)rsbx_session_refused(session, "write", rc, err);
    }
    if (rc == 0)
        rc = rsbx_session_record(session, "file_written", json_incref(data), RSBX_AUDIT_ORDINARY,
                                 err);
    json_decref(data);
    return rc;
}

/* ---- list ---- */

struct listing {
    reposbx_file *files;
    size_t count, capacity;
};

void rsbx_file_list_dispose(reposbx_file_list *list)
{
    if (list == NULL)
        return;
    for (size_t i = 0; i < list->count; i++)
        free(list->files[i].path);
    free(list->files);
    list->files = NULL;
    list->count = 0;
}

static char type_letter(uint32_t mode)
{
    switch (mode) {
    case 0100644:
        return 'f';
    case 0100755:
        return 'x';
    case 0120000:
        return 'l';
    case 040000:
        return 'd';
    default:
        return 'o';
    }
}

static int add_file(void *payload, const struct rsbx_entry *entry, reposbx_error *err)
{
    struct listing *listing = payload;
    reposbx_file *file;

    if (listing->count >= RSBX_MAX_LIST_ENTRIES)
        return rsbx_fail(err, REPOSBX_ELIMIT, "more than %u entries", RSBX_MAX_LIST_ENTRIES);
    if (listing->count == listing->capacity) {
        size_t capacity = listing->capacity == 0 ? 256 : 2 * listing->capacity;
        reposbx_file *grown = realloc(listing->files, capacity * sizeof *grown);

        if (grown == NULL)
            return rsbx_fail_memory(err);
        listing->files = grown;
        listing->capacity = capacity;
    }
    file = &listing->files[listing->count];
    file->path = strndup(entry->path, entry->path_length);
    if (file->path == NULL)
        return rsbx_fail_memory(err);
    file->type = type_letter(entry->new_mode);
    file->size = entry->new_size;
    listing->count++;
    return REPOSBX_OK;
}

static int compare_files(const void *a, const void *b)
{
    return strcmp(((const reposbx_file *)a)->path, ((const reposbx_file *)b)->path);
}

int rsbx_session_list_files(reposbx_file_list *out, struct rsbx_session *session, const char *path,
                            reposbx_error *err)
{
    char normal[RSBX_MAX_PATH_BYTES + 1];
    const char *paths[] = { normal };
    struct listing listing = { .files = NULL };
    reposbx_file_list list;
    reposbx_error own = REPOSBX_ERROR_INIT;
    struct rsbx_ask ask = { .request = { .op = RSBX_OP_LIST,
                                         .max_entries = RSBX_MAX_LIST_ENTRIES },
                            .paths = paths,
                            .path_count = 1,
                            .entry = add_file,
                            .payload = &listing,
                            .deadline_ms = RSBX_ENGINE_CALL_MS };
    int rc = rsbx_session_usable(session, err != NULL ? err : (err = &own));

    if (rc != 0)
        return rc;
    rc = rsbx_path_request(normal, path != NULL ? path : ".", true, "path", err);
    if (rc == 0) {
        ask.want = rsbx_want_control(session, "control");
        rc = rsbx_session_ask(NULL, session, &ask, err);
    }
    list = (reposbx_file_list){ .files = listing.files, .count = listing.count };
    if (rc != 0) {
        rsbx_file_list_dispose(&list);
        return rsbx_session_refused(session, "list-files", rc, err);
    }
    if (list.count > 0)
        qsort(list.files, list.count, sizeof *list.files, compare_files);
    *out = list;
    return REPOSBX_OK;
}
