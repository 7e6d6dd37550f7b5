/* SPDX-License-Identifier: Apache-2.0 */
#include "source/stream_internal.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/cleanup.h"
#include "base/text.h"
#include "codec/git2.h"

#include "base/banned.h"

/*
 * The parent's end of the pipe (format: wire.c). The child has handled hostile bytes, so nothing
 * that it says is taken on trust: sizes, counts, modes, names and order are checked against the
 * options, every blob is hashed again, the commit's bytes are hashed and must be the revision, and
 * the tree id that follows from the entries must be the one in that commit. What remains to a child
 * that was taken over is to fail, and to lie about the content behind a symlink, which goes into
 * the fingerprint alone (the guest computes that again from the sealed snapshot).
 */
#define PIECE_BYTES 65536U
#define PIPE_BYTES (1024 * 1024)

static int hash_start(struct rsbx_source *source, const char *type, uint64_t size,
                      reposbx_error *err)
{
    char head[48];
    int length = snprintf(head, sizeof head, "%s %llu", type, (unsigned long long)size) + 1;

    if (EVP_DigestInit_ex2(source->context, source->sha1, NULL) != 1 ||
        EVP_DigestUpdate(source->context, head, (size_t)length) != 1)
        return rsbx_fail(err, REPOSBX_EINTERNAL, "libcrypto: SHA-1 failed");
    return REPOSBX_OK;
}

static int hash_add(struct rsbx_source *source, const void *bytes, size_t length,
                    reposbx_error *err)
{
    if (EVP_DigestUpdate(source->context, bytes, length) != 1)
        return rsbx_fail(err, REPOSBX_EINTERNAL, "libcrypto: SHA-1 failed");
    return REPOSBX_OK;
}

static int hash_end(uint8_t out[RSBX_OID_BYTES], struct rsbx_source *source, reposbx_error *err)
{
    if (EVP_DigestFinal_ex(source->context, out, NULL) != 1)
        return rsbx_fail(err, REPOSBX_EINTERNAL, "libcrypto: SHA-1 failed");
    return REPOSBX_OK;
}

/* The commit's own bytes: they must hash to the revision, and say which tree is to come. */
static int take_commit(struct rsbx_source *source, size_t length, reposbx_error *err)
{
    RSBX_AUTO(rsbx_memory) void *memory = NULL;
    uint8_t oid[RSBX_OID_BYTES];
    char hex[RSBX_OID_HEX_BYTES];
    const char *text;
    int rc;

    if (source->revision[0] == '\0')
        return length == 0 ? REPOSBX_OK : rsbx_source_nonsense("a commit for a plain folder", err);
    if (length < 46 || length > RSBX_MAX_COMMIT_BYTES)
        return rsbx_source_nonsense("a commit of impossible size", err);
    memory = malloc(length);
    if (memory == NULL)
        return rsbx_fail_memory(err);
    rc = rsbx_source_take(memory, source, length, err);
    if (rc == 0)
        rc = hash_start(source, "commit", length, err);
    if (rc == 0)
        rc = hash_add(source, memory, length, err);
    if (rc == 0)
        rc = hash_end(oid, source, err);
    if (rc != 0)
        return rc;
    rsbx_hex(hex, oid, sizeof oid);
    text = memory;
    if (strcmp(hex, source->revision) != 0)
        return rsbx_source_nonsense("another commit", err);
    memcpy(hex, text + 5, sizeof hex - 1);
    hex[sizeof hex - 1] = '\0';
    if (memcmp(text, "tree ", 5) != 0 || text[45] != '\n' || !rsbx_is_hex(hex, sizeof hex - 1))
        return rsbx_source_nonsense("a commit without a tree", err);
    memcpy(source->facts.commit, source->revision, sizeof source->facts.commit);
    memcpy(source->facts.tree, hex, sizeof source->facts.tree);
    return REPOSBX_OK;
}

static int take_facts(struct rsbx_source *source, reposbx_error *err)
{
    uint8_t head[RSBX_WIRE_FACTS_BYTES];
    int rc = rsbx_source_need(source, 1, err);

    if (rc != 0)
        return rc;
    if (source->buffer[source->at] == RSBX_WIRE_ERROR)
        return rsbx_source_take_error(source, err);
    rc = rsbx_source_take(head, source, sizeof head, err);
    if (rc != 0)
        return rc;
    if (head[0] != RSBX_WIRE_FACTS)
        return rsbx_source_nonsense("something before the facts", err);
    source->facts.expected_files = rsbx_get64(head + 1);
    source->facts.expected_bytes = rsbx_get64(head + 9);
    if (source->facts.expected_files > source->options.max_files ||
        source->facts.expected_bytes > source->options.max_bytes)
        return rsbx_source_nonsense("counts over the limits", err);
    return take_commit(source, rsbx_get32(head + 17), err);
}

static int check_options(const struct rsbx_source_options *options, reposbx_error *err)
{
    if (options->repo == NULL || options->repo[0] == '\0')
        return rsbx_fail(err, REPOSBX_EINVALID, "no repository given");
    if (options->revision != NULL && !rsbx_is_hex(options->revision, RSBX_OID_HEX_BYTES - 1)) {
        (void)rsbx_fail(err, REPOSBX_EMALFORMED,
                        "revision \"%s\" is not 40 lower-case hexadecimal digits",
                        options->revision);
        rsbx_hint(err, "git rev-parse HEAD prints the commit of the checkout");
        return REPOSBX_EMALFORMED;
    }
    return REPOSBX_OK;
}

static struct rsbx_child_limits limits(void)
{
    struct rsbx_child_limits limits = { .memory_bytes = RSBX_READER_MEMORY_BYTES,
                                        .cpu_seconds = RSBX_READER_CPU_SECONDS,
                                        .file_bytes = 0,
                                        .keep_fd = -1 };
#ifdef __SANITIZE_ADDRESS__
    /* Its shadow memory takes terabytes of addresses. */
    struct rlimit now;

    limits.keep_stderr = true;
    limits.memory_bytes = getrlimit(RLIMIT_AS, &now) == 0 ? now.rlim_max : RLIM_INFINITY;
#endif
    return limits;
}

static int start(struct rsbx_source *source, const struct rsbx_source_options *options,
                 reposbx_error *err)
{
    struct rsbx_child_limits bounds = limits();
    uint64_t wall_ms = options->wall_ms > 0 ? options->wall_ms : RSBX_READER_MS;
    int rc;

    source->options = *options;
    if (source->options.max_files > RSBX_MAX_ENTRIES)
        source->options.max_files = RSBX_MAX_ENTRIES;
    if (options->revision != NULL)
        (void)snprintf(source->revision, sizeof source->revision, "%s", options->revision);
    source->deadline = rsbx_deadline_or(rsbx_deadline_in_ms(wall_ms), options->cancel_fd);
    source->sha1 = EVP_MD_fetch(NULL, "SHA1", NULL);
    source->context = EVP_MD_CTX_new();
    source->buffer = malloc(RSBX_STREAM_BYTES);
    if (source->buffer == NULL)
        return rsbx_fail_memory(err);
    if (source->sha1 == NULL || source->context == NULL)
        return rsbx_fail(err, REPOSBX_EINTERNAL, "libcrypto has no SHA-1");
    rc = rsbx_treeid_new(&source->treeid, NULL, err);
    if (rc == 0)
        rc = rsbx_child_start(&source->child, &bounds, rsbx_reader_main, &source->options, err);
    if (rc != 0)
        return rc;
    /* Fewer switches between the two; a smaller pipe works as well. */
    (void)fcntl(source->child.pipe_fd, F_SETPIPE_SZ, PIPE_BYTES);
    return REPOSBX_OK;
}

int rsbx_source_start(struct rsbx_source **out, const struct rsbx_source_options *options,
                      reposbx_error *err)
{
    struct rsbx_source *source;
    int rc = check_options(options, err);

    rc = rc == 0 ? rsbx_git2_load(err) : rc; /* before the fork */
    if (rc != 0)
        return rc;
    source = calloc(1, sizeof *source);
    if (source == NULL)
        return rsbx_fail_memory(err);
    rc = start(source, options, err);
    if (rc == 0)
        *out = source;
    else
        rsbx_source_free(source);
    return rc;
}

int rsbx_source_recheck(const struct rsbx_source_options *options, reposbx_error *err)
{
    struct rsbx_source_options head = *options;
    struct rsbx_source *source = NULL;
    int rc;

    if (options->revision == NULL)
        return REPOSBX_OK;
    head.head_only = true;
    rc = rsbx_source_start(&source, &head, err);
    if (rc == 0)
        rc = rsbx_source_need(source, 1, err);
    if (rc == 0 && source->buffer[source->at] == RSBX_WIRE_ERROR)
        rc = rsbx_source_take_error(source, err);
    else if (rc == 0 && source->buffer[source->at] != RSBX_WIRE_DONE)
        rc = rsbx_source_nonsense("something before the end", err);
    rsbx_source_free(source);
    return rc;
}

int rsbx_source_open(struct rsbx_source **out, const struct rsbx_source_options *options,
                     reposbx_error *err)
{
    struct rsbx_source *source = NULL;
    int rc = rsbx_source_start(&source, options, err);

    if (rc == 0)
        rc = rsbx_source_await(source, err);
    if (rc == 0)
        *out = source;
    else
        rsbx_source_free(source);
    return rc;
}

int rsbx_source_await(struct rsbx_source *source, reposbx_error *err)
{
    int rc = take_facts(source, err);

    source->options.repo = source->options.revision = NULL;
    source->options.excludes = NULL;
    return rc;
}

const struct rsbx_source_facts *rsbx_source_facts(const struct rsbx_source *source)
{
    return &source->facts;
}

void rsbx_source_free(struct rsbx_source *source)
{
    if (source == NULL)
        return;
    (void)rsbx_child_finish(&source->child, rsbx_deadline_in_ms(0), NULL, NULL);
    rsbx_treeid_free(source->treeid);
    EVP_MD_free(source->sha1);
    EVP_MD_CTX_free(source->context);
    free(source->linked);
    free(source->buffer);
    free(source);
}

static int give_entry(struct rsbx_source_event *out, struct rsbx_source *source, reposbx_error *err)
{
    int rc = hash_start(source, "blob", source->entry.size, err);

    if (rc != 0)
        return rc;
    source->left = source->entry.size;
    source->in_blob = true;
    *out = source->entry;
    return REPOSBX_OK;
}

static int check_blob(struct rsbx_source *source, reposbx_error *err)
{
    uint8_t oid[RSBX_OID_BYTES];
    int rc = hash_end(oid, source, err);

    if (rc != 0)
        return rc;
    source->in_blob = false;
    if (memcmp(oid, source->entry.oid, RSBX_OID_BYTES) != 0)
        return rsbx_fail(err, REPOSBX_EPROTOCOL,
                         "the repository is damaged: the bytes of %s do not match their id",
                         source->path);
    return REPOSBX_OK;
}

static int give_data(struct rsbx_source_event *out, struct rsbx_source *source, reposbx_error *err)
{
    bool link = source->mode == RSBX_MODE_LINK;
    int rc = rsbx_source_need(source, link ? (size_t)source->left : 1, err);
    const uint8_t *bytes;
    size_t part;

    if (rc != 0)
        return rc;
    bytes = source->buffer + source->at;
    part = source->used - source->at;
    part = part < PIECE_BYTES ? part : PIECE_BYTES;
    part = part < source->left ? part : (size_t)source->left;
    rc = hash_add(source, bytes, part, err);
    if (rc != 0)
        return rc;
    source->at += part;
    source->left -= part;
    /* Before the last piece goes out, so that no blob is ever handed on whole and wrong. */
    if (source->left == 0 && (rc = check_blob(source, err)) != 0)
        return rc;
    memset(out, 0, sizeof *out);
    out->kind = RSBX_SOURCE_DATA;
    out->path = source->path;
    out->path_length = source->path_length;
    out->bytes = bytes;
    out->length = part;
    out->link_state = source->entry.link_state;
    out->linked = source->entry.linked;
    out->linked_length = source->entry.linked_length;
    return REPOSBX_OK;
}

/* After Z: nothing may follow, and all that was seen must add up. */
static int finish(struct rsbx_source *source, reposbx_error *err)
{
    uint8_t full[RSBX_OID_BYTES];
    uint8_t streamed[RSBX_OID_BYTES];
    char hex[RSBX_OID_HEX_BYTES];
    struct rsbx_deadline soon =
        rsbx_deadline_min(source->deadline, rsbx_deadline_in_ms(RSBX_STREAM_LAST_MS));
    int rc;

    if (source->at != source->used)
        return rsbx_source_nonsense("something after the end", err);
    rc = rsbx_child_finish(&source->child, soon, NULL, err);
    if (rc != 0) {
        rsbx_context(err, "the repository is damaged or too large to read");
        return rc;
    }
    if (source->files != source->facts.expected_files ||
        source->bytes != source->facts.expected_bytes)
        return rsbx_source_nonsense("less than it announced", err);
    rc = rsbx_treeid_finish(full, streamed, source->treeid, err);
    if (rc != 0)
        return rc;
    rsbx_hex(hex, full, sizeof full);
    if (source->revision[0] != '\0' && strcmp(hex, source->facts.tree) != 0)
        return rsbx_source_nonsense("entries of another tree", err);
    rsbx_hex(source->facts.tree, streamed, sizeof streamed);
    source->done = true;
    return REPOSBX_OK;
}

static int next(struct rsbx_source_event *out, struct rsbx_source *source, reposbx_error *err)
{
    bool omitted;
    int rc;

    if (source->in_blob && source->left > 0)
        return give_data(out, source, err);
    if (source->in_blob) {
        rc = check_blob(source, err); /* of size 0 */
        if (rc != 0)
            return rc;
    }
    if (source->entry_waits) {
        source->entry_waits = false;
        return give_entry(out, source, err);
    }
    rc = source->done ? 0 : rsbx_source_need(source, 1, err);
    if (rc != 0)
        return rc;
    if (!source->done && source->buffer[source->at] == RSBX_WIRE_ERROR)
        return rsbx_source_take_error(source, err);
    if (source->done || source->buffer[source->at] == RSBX_WIRE_DONE) {
        source->at += source->done ? 0 : 1;
        rc = source->done ? 0 : finish(source, err);
        if (rc == 0) {
            memset(out, 0, sizeof *out);
            out->kind = RSBX_SOURCE_DONE;
        }
        return rc;
    }
    omitted = source->buffer[source->at] == RSBX_WIRE_OMITTED;
    if (!omitted && source->buffer[source->at] != RSBX_WIRE_ENTRY)
        return rsbx_source_nonsense("an unknown message", err);
    rc = rsbx_source_take_entry(source, omitted, err);
    if (rc != 0)
        return rc;
    if (omitted || source->mode == RSBX_MODE_FILE_GROUP) {
        source->entry_waits = !omitted;
        rsbx_source_give_note(out, source);
        return REPOSBX_OK;
    }
    return give_entry(out, source, err);
}

int rsbx_source_next(struct rsbx_source_event *out, struct rsbx_source *source, reposbx_error *err)
{
    reposbx_error fault = REPOSBX_ERROR_INIT;
    struct rsbx_source_event event;
    int rc;

    /* What failed once stays failed, with the same words. */
    if (source->failed.code == 0) {
        rc = next(&event, source, &fault);
        if (rc == 0) {
            *out = event;
            return REPOSBX_OK;
        }
        source->failed = fault;
    }
    if (err != NULL)
        *err = source->failed;
    return source->failed.code;
}
