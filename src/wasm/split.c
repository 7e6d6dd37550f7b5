/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "wasm/internal.h"

#include "base/banned.h"

/*
 * One C file of a hundred megabytes takes a compiler a quarter of an hour and gigabytes. What wasm2c
 * writes is regular: helpers, then declarations and definitions whose first line starts in the first
 * column, and which end in a line of their own. So it can be taken apart by its lines:
 *
 *   common.h    the helpers, a declaration of every function, of the table of types and of every array
 *   main.c      arrays, start-up and exports, as they are
 *   pieceNNN.c  function bodies, some megabytes of text each
 *
 * "static" goes from functions and arrays, since they are now used from other files. A text that is not
 * as we know it ends in a compiler's error, not in a wrong program: nothing is rewritten but that word.
 */

/* Text of one piece; small enough that pieces keep every processor busy to the end. */
#define PIECE_BYTES (1536U * 1024U)
#define MAX_PIECES 10000U

/* Everything of ours in the text is named so by wasm2c. */
#define FUNCTION_PREFIX "w2c_"
#define HELPERS_END "static bool s_module_initialized = false;"

struct output {
    int fd;
    struct rsbx_buf text; /* what is not yet written */
};

struct splitter {
    int dir_fd;
    struct output common, main, piece;
    unsigned pieces;
    size_t piece_bytes;
};

#define OUTPUT_BYTES (256U * 1024U)

static void output_close(struct output *output)
{
    if (output->fd >= 0)
        (void)close(output->fd);
    output->fd = -1;
    rsbx_buf_dispose(&output->text);
}

static void splitter_autop(struct splitter *splitter)
{
    output_close(&splitter->common);
    output_close(&splitter->main);
    output_close(&splitter->piece);
}

static int output_flush(struct output *output, reposbx_error *err)
{
    if (output->text.length > 0 &&
        rsbx_write_all(output->fd, output->text.data, output->text.length) != 0)
        return rsbx_fail_errno(err, REPOSBX_EIO, "cannot write a piece of C");
    rsbx_buf_clear(&output->text);
    return REPOSBX_OK;
}

static int put(struct output *output, const char *text, size_t length, reposbx_error *err)
{
    if (length > OUTPUT_BYTES / 2) {
        int rc = output_flush(output, err);

        if (rc == 0 && rsbx_write_all(output->fd, text, length) != 0)
            rc = rsbx_fail_errno(err, REPOSBX_EIO, "cannot write a piece of C");
        return rc;
    }
    if (output->text.length + length > OUTPUT_BYTES) {
        int rc = output_flush(output, err);

        if (rc != 0)
            return rc;
    }
    return rsbx_buf_append(&output->text, text, length, err);
}

static int put_text(struct output *output, const char *text, reposbx_error *err)
{
    return put(output, text, strlen(text), err);
}

static int output_open(struct output *out, int dir_fd, const char *name, const char *first,
                       reposbx_error *err)
{
    out->fd = openat(dir_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (out->fd < 0)
        return rsbx_fail_errno(err, REPOSBX_EIO, "cannot make %s", name);
    out->text = (struct rsbx_buf)RSBX_BUF_INIT(OUTPUT_BYTES);
    return put_text(out, first, err);
}

static int next_piece(struct splitter *splitter, reposbx_error *err)
{
    char name[32];
    int rc = REPOSBX_OK;

    if (splitter->piece.fd >= 0) {
        rc = output_flush(&splitter->piece, err);
        output_close(&splitter->piece);
    }
    if (rc == 0 && splitter->pieces >= MAX_PIECES)
        rc = rsbx_fail(err, REPOSBX_ELIMIT, "the module is too large to be compiled");
    if (rc != 0)
        return rc;
    (void)snprintf(name, sizeof name, "piece%03u.c", splitter->pieces++);
    splitter->piece_bytes = 0;
    return output_open(&splitter->piece, splitter->dir_fd, name, "#include \"common.h\"\n", err);
}

/* ---- lines ---- */

/* A declaration or definition: whole lines, from one that starts in the first column on. */
struct item {
    const char *text;
    size_t length;
    size_t head; /* length up to and without the first ';' or '{' of its head */
    char kind;   /* ';' declares, '{' defines, 0: anything else */
};

static size_t line_length(const char *text, const char *end)
{
    const char *newline = memchr(text, '\n', (size_t)(end - text));

    return newline != NULL ? (size_t)(newline + 1 - text) : (size_t)(end - text);
}

static bool starts(const char *text, const char *end, const char *prefix)
{
    size_t length = strlen(prefix);

    return (size_t)(end - text) >= length && memcmp(text, prefix, length) == 0;
}

/* Goes on to the line that is exactly "}" or "};". */
static const char *behind_body(const char *at, const char *end)
{
    while (at < end) {
        size_t length = line_length(at, end);
        bool last = at[0] == '}';

        at += length;
        if (last)
            break;
    }
    return at;
}

/* The head ends in the first line that ends in ';' or '{'; those of long parameter lists span lines. */
static struct item next_item(const char *text, const char *end)
{
    struct item item = { text, 0, 0, 0 };
    const char *at = text;

    while (at < end) {
        size_t length = line_length(at, end);
        size_t shown = length > 0 && at[length - 1] == '\n' ? length - 1 : length;
        char last = shown > 0 ? at[shown - 1] : '\0';

        at += length;
        if (last == ';' || last == '{') {
            item.kind = last;
            item.head = (size_t)(at - text) - (length - shown) - 1;
            if (last == '{')
                at = behind_body(at, end);
            break;
        }
        /* A comment, an empty line, a directive: one line. */
        if (!starts(text, end, "static "))
            break;
    }
    item.length = (size_t)(at - text);
    return item;
}

/* "static TYPE w2c_NAME(": a function of the module. */
static bool is_function(const struct item *item)
{
    const char *parenthesis = memchr(item->text, '(', item->head);
    const char *name;

    if (parenthesis == NULL || !starts(item->text, item->text + item->head, "static "))
        return false;
    name = parenthesis;
    while (name > item->text && name[-1] != ' ')
        name--;
    return starts(name, parenthesis, FUNCTION_PREFIX);
}

/* "static const TYPE NAME[…] = {": data or elements. */
static bool is_array(const struct item *item)
{
    return item->kind == '{' && starts(item->text, item->text + item->head, "static const ") &&
           memchr(item->text, '[', item->head) != NULL && memchr(item->text, '(', item->head) == NULL;
}

static bool is_types(const struct item *item)
{
    return item->kind == ';' && starts(item->text, item->text + item->head, "static u32 func_types[");
}

#define STATIC_LENGTH (sizeof "static " - 1)

static int put_function(struct splitter *splitter, const struct item *item, reposbx_error *err)
{
    const char *text = item->text + STATIC_LENGTH;
    size_t length = item->length - STATIC_LENGTH;
    int rc = REPOSBX_OK;

    if (item->kind == ';')
        return put(&splitter->common, text, length, err);
    if (splitter->piece.fd < 0 || splitter->piece_bytes + length > PIECE_BYTES)
        rc = next_piece(splitter, err);
    splitter->piece_bytes += length;
    return rc != 0 ? rc : put(&splitter->piece, text, length, err);
}

/* Declared in common.h, defined in main.c. */
static int put_shared(struct splitter *splitter, const struct item *item, reposbx_error *err)
{
    const char *text = item->text + STATIC_LENGTH;
    size_t head = item->head - STATIC_LENGTH;
    const char *equals = memchr(text, '=', head);
    int rc = put_text(&splitter->common, "extern ", err);

    if (rc == 0)
        rc = put(&splitter->common, text, equals != NULL ? (size_t)(equals - text) : head, err);
    if (rc == 0)
        rc = put_text(&splitter->common, ";\n", err);
    return rc != 0 ? rc : put(&splitter->main, text, item->length - STATIC_LENGTH, err);
}

static int put_item(struct splitter *splitter, const struct item *item, reposbx_error *err)
{
    if (item->kind != 0 && is_function(item))
        return put_function(splitter, item, err);
    if (is_array(item) || is_types(item))
        return put_shared(splitter, item, err);
    return put(&splitter->main, item->text, item->length, err);
}

int rsbx_wasm_split(unsigned *pieces, int dir_fd, const char *text, size_t length,
                    reposbx_error *err)
{
    RSBX_AUTO(splitter) struct splitter splitter = {
        .dir_fd = dir_fd, .common.fd = -1, .main.fd = -1, .piece.fd = -1
    };
    const char *end = text + length;
    const char *at = memmem(text, length, HELPERS_END, strlen(HELPERS_END));
    int rc;

    if (at == NULL)
        return rsbx_fail(err, REPOSBX_EPROTOCOL, "wasm2c wrote C of a form that is not known");
    rc = output_open(&splitter.common, dir_fd, "common.h", "", err);
    if (rc == 0)
        rc = output_open(&splitter.main, dir_fd, "main.c", "#include \"common.h\"\n", err);
    if (rc == 0)
        rc = put(&splitter.common, text, (size_t)(at - text), err);
    while (rc == 0 && at < end) {
        struct item item = next_item(at, end);

        rc = put_item(&splitter, &item, err);
        at += item.length;
    }
    if (rc == 0)
        rc = output_flush(&splitter.common, err);
    if (rc == 0)
        rc = output_flush(&splitter.main, err);
    if (rc == 0 && splitter.piece.fd >= 0)
        rc = output_flush(&splitter.piece, err);
    if (rc == 0)
        *pieces = splitter.pieces;
    return rc;
}
