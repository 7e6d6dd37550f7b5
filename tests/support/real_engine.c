/* SPDX-License-Identifier: Apache-2.0 */
#include "support/real_engine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <archive.h>
#include <archive_entry.h>
#include <curl/curl.h>
#include <fcntl.h>

#include "base/fd.h"

#define BUSYBOX "/bin/busybox"
#define MAX_IMAGE_BYTES (16U * 1024U * 1024U)

static const char *const applets[] = { "sh",   "cat",   "ls",    "sleep", "echo",  "id",
                                       "true", "false", "mkdir", "rm",    "ln",    "chmod",
                                       "dd",   "head",  "wc",    "env",   "mount", "touch",
                                       "find", "ps",    "kill",  "mkfifo" };
static const char *const folders[] = { "bin", "tmp", "run", "proc", "sys", "dev", "etc" };

const char *real_engine_address(void)
{
    const char *address = getenv("REPOSBX_TEST_ENGINE");

    return address != NULL ? address : "";
}

struct rsbx_deadline real_engine_soon(void)
{
    return rsbx_deadline_in_ms(60000);
}

int real_engine_gate(void)
{
    const char *must = getenv("REPOSBX_TEST_MUST_RUN");
    int failure = must != NULL && strcmp(must, "1") == 0 ? 1 : 77;
    struct rsbx_engine *engine = NULL;
    reposbx_error err = REPOSBX_ERROR_INIT;

    if (real_engine_address()[0] == '\0') {
        (void)fprintf(stderr, "REPOSBX_TEST_ENGINE is not set\n");
        return failure;
    }
    if (rsbx_engine_open(&engine, real_engine_address(), real_engine_soon(), &err) != 0) {
        (void)fprintf(stderr, "%s\n", err.message);
        return failure;
    }
    rsbx_engine_free(engine);
    return 0;
}

struct rsbx_engine *real_engine_open(void)
{
    struct rsbx_engine *engine = NULL;
    reposbx_error err = REPOSBX_ERROR_INIT;

    if (rsbx_engine_open(&engine, real_engine_address(), real_engine_soon(), &err) != 0) {
        (void)fprintf(stderr, "%s\n", err.message);
        exit(1);
    }
    return engine;
}

void real_engine_name(char *out, const char *prefix)
{
    static unsigned int count;

    (void)snprintf(out, 64, "rsbx-test-%s-%ld-%u", prefix, (long)getpid(), ++count);
}

static int put(struct archive *archive, const char *path, mode_t type, mode_t mode,
               const char *link, const struct rsbx_buf *content)
{
    struct archive_entry *entry = archive_entry_new();
    int rc;

    if (entry == NULL)
        return -1;
    archive_entry_set_pathname(entry, path);
    archive_entry_set_filetype(entry, type);
    archive_entry_set_perm(entry, mode);
    archive_entry_set_size(entry, content != NULL ? (la_int64_t)content->length : 0);
    if (link != NULL)
        archive_entry_set_symlink(entry, link);
    rc = archive_write_header(archive, entry);
    archive_entry_free(entry);
    if (rc == ARCHIVE_OK && content != NULL &&
        archive_write_data(archive, content->data, content->length) != (la_ssize_t)content->length)
        rc = ARCHIVE_FATAL;
    return rc == ARCHIVE_OK ? 0 : -1;
}

/* The root file system as a tar; the size, or 0. */
static size_t make_root(void *space, size_t size)
{
    struct rsbx_buf busybox = RSBX_BUF_INIT(MAX_IMAGE_BYTES);
    struct archive *archive = archive_write_new();
    size_t used = 0;
    int rc;
    char path[64];

    rc = rsbx_read_file_at(&busybox, AT_FDCWD, BUSYBOX, NULL);
    if (rc == 0)
        rc = archive_write_set_format_ustar(archive);
    if (rc == 0)
        rc = archive_write_open_memory(archive, space, size, &used);
    for (size_t i = 0; rc == 0 && i < sizeof folders / sizeof folders[0]; i++)
        rc = put(archive, folders[i], AE_IFDIR, strcmp(folders[i], "tmp") == 0 ? 01777 : 0755, NULL,
                 NULL);
    if (rc == 0)
        rc = put(archive, "bin/busybox", AE_IFREG, 0755, NULL, &busybox);
    for (size_t i = 0; rc == 0 && i < sizeof applets / sizeof applets[0]; i++) {
        (void)snprintf(path, sizeof path, "bin/%s", applets[i]);
        rc = put(archive, path, AE_IFLNK, 0777, "busybox", NULL);
    }
    if (archive_write_close(archive) != ARCHIVE_OK)
        rc = -1;
    (void)archive_write_free(archive);
    rsbx_buf_dispose(&busybox);
    return rc == 0 ? used : 0;
}

static size_t drop(char *bytes, size_t size, size_t count, void *payload)
{
    (void)bytes;
    (void)payload;
    return size * count;
}

/* The product never makes images, so this is the tests' own call. */
static int import(const void *tar, size_t length)
{
    static const char url[] = "http://engine/v1.41/images/create?fromSrc=-&repo=reposbx-test/"
                              "busybox&tag=1&platform=linux/amd64";
    CURL *easy = curl_easy_init();
    struct curl_slist *head = curl_slist_append(NULL, "Content-Type: application/x-tar");
    long status = 0;

    (void)curl_easy_setopt(easy, CURLOPT_UNIX_SOCKET_PATH,
                           real_engine_address() + strlen("unix://"));
    (void)curl_easy_setopt(easy, CURLOPT_PROXY, "");
    (void)curl_easy_setopt(easy, CURLOPT_URL, url);
    (void)curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    (void)curl_easy_setopt(easy, CURLOPT_POSTFIELDS, tar);
    (void)curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)length);
    (void)curl_easy_setopt(easy, CURLOPT_HTTPHEADER, head);
    (void)curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, drop);
    (void)curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, 120000L);
    if (curl_easy_perform(easy) == CURLE_OK)
        (void)curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
    curl_easy_cleanup(easy);
    curl_slist_free_all(head);
    return status == 200 ? 0 : -1;
}

static int inspect(char *out, struct rsbx_engine *engine, reposbx_error *err)
{
    json_t *image = NULL;
    const char *id = NULL;
    int rc = rsbx_engine_image_inspect(&image, engine, REAL_ENGINE_IMAGE, real_engine_soon(), err);

    if (rc == 0)
        rc = rsbx_json_get_text(&id, image, "Id", "image", err);
    if (rc == 0)
        (void)snprintf(out, 80, "%s", id);
    json_decref(image);
    return rc;
}

int real_engine_image(char *out)
{
    struct rsbx_engine *engine = real_engine_open();
    reposbx_error err = REPOSBX_ERROR_INIT;
    int rc = inspect(out, engine, &err);

    if (rc == REPOSBX_ENOTFOUND) {
        void *tar = malloc(MAX_IMAGE_BYTES);
        size_t length = tar != NULL ? make_root(tar, MAX_IMAGE_BYTES) : 0;

        if (length == 0)
            (void)fprintf(stderr, "no image could be made of %s\n", BUSYBOX);
        else if (import(tar, length) != 0)
            (void)fprintf(stderr, "the engine took no image\n");
        free(tar);
        rc = inspect(out, engine, &err);
    }
    if (rc != 0)
        (void)fprintf(stderr, "%s: %s\n", REAL_ENGINE_IMAGE, err.message);
    rsbx_engine_free(engine);
    return rc == 0 ? 0 : -1;
}
