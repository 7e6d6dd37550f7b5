/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The .gitignore files of the base tree: the manifest says where they are, a control guest reads
 * them from the baseline. Those of the workspace have no say: a command could have written them.
 */
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/limits.h"
#include "diff/ignore.h"
#include "session/internal.h"

#include "base/banned.h"

#define IGNORE_FILE ".gitignore"
/* The largest trees have some hundred of them, of some KiB. */
#define MAX_IGNORE_FILES 10000U
#define MAX_IGNORE_BYTES (16U * 1024U * 1024U)

struct reading {
    struct rsbx_ignore *ignore;
    char **paths;
    uint64_t *sizes;
    size_t count, capacity;
    size_t got; /* files that came */
    bool in_file;
    struct rsbx_buf content;
};

static void reading_dispose(struct reading *reading)
{
    for (size_t i = 0; i < reading->count; i++)
        free(reading->paths[i]);
    free(reading->paths);
    free(reading->sizes);
    rsbx_buf_dispose(&reading->content);
}

static int make_room(struct reading *reading, reposbx_error *err)
{
    size_t capacity = reading->capacity == 0 ? 16 : 2 * reading->capacity;
    char **paths;
    uint64_t *sizes;

    if (reading->count < reading->capacity)
        return REPOSBX_OK;
    if (reading->count >= MAX_IGNORE_FILES)
        return rsbx_fail(err, REPOSBX_ELIMIT, "more than %u .gitignore files", MAX_IGNORE_FILES);
    paths = realloc(reading->paths, capacity * sizeof *paths);
    if (paths != NULL)
        reading->paths = paths;
    sizes = realloc(reading->sizes, capacity * sizeof *sizes);
    if (sizes != NULL)
        reading->sizes = sizes;
    if (paths == NULL || sizes == NULL)
        return rsbx_fail_memory(err);
    reading->capacity = capacity;
    return REPOSBX_OK;
}

/* Git follows no .gitignore that is a symlink, so neither do we. */
static int on_manifest(void *payload, const char *path, size_t length, uint32_t mode,
                       const uint8_t oid[20], uint64_t size, reposbx_error *err)
{
    const size_t name = sizeof IGNORE_FILE - 1;
    struct reading *reading = payload;
    int rc;

    (void)oid;
    if (length < name || memcmp(path + length - name, IGNORE_FILE, name) != 0 ||
        (length > name && path[length - name - 1] != '/') || mode == 0120000)
        return REPOSBX_OK;
    rc = make_room(reading, err);
    if (rc != 0)
        return rc;
    reading->paths[reading->count] = strndup(path, length);
    if (reading->paths[reading->count] == NULL)
        return rsbx_fail_memory(err);
    reading->sizes[reading->count++] = size;
    return REPOSBX_OK;
}

/* Files come in the order in which they were asked for. */
static int on_entry(void *payload, const struct rsbx_entry *entry, reposbx_error *err)
{
    struct reading *reading = payload;

    if (reading->in_file || reading->got >= reading->count ||
        strlen(reading->paths[reading->got]) != entry->path_length ||
        memcmp(reading->paths[reading->got], entry->path, entry->path_length) != 0)
        return rsbx_fail(err, REPOSBX_EPROTOCOL, "the guest's files are not those asked for");
    reading->in_file = true;
    rsbx_buf_clear(&reading->content);
    return REPOSBX_OK;
}

static int on_data(void *payload, const uint8_t *bytes, size_t length, reposbx_error *err)
{
    struct reading *reading = payload;
    const char *path;
    size_t folder;

    if (!reading->in_file)
        return rsbx_fail(err, REPOSBX_EPROTOCOL, "the guest's files are out of order");
    if (bytes != NULL)
        return rsbx_buf_append(&reading->content, bytes, length, err);
    path = reading->paths[reading->got];
    folder = strlen(path) - (sizeof IGNORE_FILE - 1);
    reading->in_file = false;
    if (reading->content.length != reading->sizes[reading->got++])
        return rsbx_fail(err, REPOSBX_EPROTOCOL, "%s of the baseline is not what it was", path);
    return rsbx_ignore_add(reading->ignore, path, folder > 0 ? folder - 1 : 0,
                           reading->content.data != NULL ? reading->content.data : "",
                           reading->content.length, err);
}

static int read_files(struct reading *reading, struct rsbx_session *session, reposbx_error *err)
{
    const struct rsbx_ask ask = { .want = rsbx_want_control(session, "control"),
                                  .request = { .op = RSBX_OP_COLLECT,
                                               .flags = RSBX_REQUEST_BASELINE,
                                               .max_bytes = MAX_IGNORE_BYTES,
                                               .max_entries = reading->count },
                                  .paths = (const char *const *)reading->paths,
                                  .path_count = reading->count,
                                  .entry = on_entry,
                                  .data = on_data,
                                  .payload = reading,
                                  .deadline_ms = RSBX_ENGINE_CALL_MS };
    int rc = rsbx_session_ask(NULL, session, &ask, err);

    if (rc == 0 && (reading->in_file || reading->got != reading->count))
        rc = rsbx_fail(err, REPOSBX_EPROTOCOL, "the guest's files end in the middle");
    return rc;
}

int rsbx_session_ignore(struct rsbx_ignore **out, struct rsbx_session *session, reposbx_error *err)
{
    RSBX_AUTO(rsbx_ignore) rsbx_ignore_ptr ignore = NULL;
    struct reading reading = { .content = RSBX_BUF_INIT(MAX_IGNORE_BYTES) };
    const struct rsbx_manifest_view view = { .entry = on_manifest, .payload = &reading };
    int rc = rsbx_ignore_new(&ignore, err);

    reading.ignore = ignore;
    if (rc == 0)
        rc = rsbx_manifest_read(session, &view, err);
    if (rc == 0 && reading.count > 0)
        rc = read_files(&reading, session, err);
    reading_dispose(&reading);
    if (rc == 0)
        *out = rsbx_ignore_steal(&ignore);
    return rc;
}
