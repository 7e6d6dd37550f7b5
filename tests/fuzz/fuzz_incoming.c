/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Patches from outside, read and applied to one small tree. A patch that applies is said again by our
 * own writer, and that must be taken and make the same tree.
 */
#include <git2.h>

#include "codec/git2.h"
#include "fuzz/incoming_base.h"

#define MAX_RESULT_BYTES (1U << 20)

int LLVMFuzzerInitialize(int *count, char ***arguments);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerInitialize(int *count, char ***arguments)
{
    (void)count;
    (void)arguments;
    if (rsbx_git2_load(NULL) != 0 || rsbx_git2.git_libgit2_init() < 0)
        abort();
    return 0;
}

struct applied {
    struct rsbx_incoming *incoming;
    struct rsbx_diff *diff;
    struct rsbx_diff_row *rows;
    struct rsbx_buf contents;
    uint8_t tree[RSBX_OID_BYTES];
};

static void applied_dispose(struct applied *applied)
{
    free(applied->rows);
    rsbx_buf_dispose(&applied->contents);
    rsbx_diff_free(applied->diff);
    rsbx_incoming_free(applied->incoming);
}

/* As the product does it, but in this process: the result of the read, or of the fit. */
static int apply(struct applied *out, const char *text, size_t length)
{
    const struct rsbx_incoming_rules rules = { .symlinks = true };
    int rc = rsbx_incoming_read(&out->incoming, text, length, &rules, NULL);

    if (rc != 0)
        return rc;
    out->diff = base_new();
    for (size_t i = 0; i < BASE_FILES; i++) {
        const struct base_file *file = &base_files[i];

        if (rsbx_incoming_wants(out->incoming, file->path, strlen(file->path)))
            base_change(out->diff, file->path, strlen(file->path), 0, NULL, 0);
    }
    rsbx_diff_sort_items(out->diff);
    out->rows = calloc(out->incoming->target_count + 1, sizeof *out->rows);
    if (out->rows == NULL)
        abort();
    return rsbx_incoming_fit(out->rows, &out->contents, out->tree, out->incoming, out->diff, NULL);
}

/* What the rows say of each target, in our own words. */
static void write_again(struct rsbx_buf *text, const struct applied *applied)
{
    struct rsbx_diff *diff = base_new();
    size_t at = 0;

    for (size_t i = 0; i < applied->incoming->target_count; i++) {
        const struct rsbx_incoming_target *target = &applied->incoming->targets[i];
        const struct rsbx_diff_row *row = &applied->rows[i];

        if (row->mode == 0 ? row->length != 0 : row->length > applied->contents.length - at)
            abort();
        base_change(diff, target->path, target->length, row->mode,
                    row->length > 0 ? applied->contents.data + at : "", row->length);
        at += row->length;
    }
    if (at != applied->contents.length)
        abort();
    rsbx_diff_sort_items(diff);
    for (size_t i = 0; i < diff->item_count; i++) {
        struct rsbx_diff_item *item = &diff->items[i];
        struct rsbx_diff_counts counts = { 0, 0, false };

        /* as the child has them before it writes */
        if (item->before.bytes == NULL)
            item->before.bytes = base_copy("", 0);
        if (item->after.bytes == NULL)
            item->after.bytes = base_copy("", 0);
        if ((item->before.mode != 0 &&
             rsbx_diff_blob_id(item->before.oid, item->before.bytes, item->before.length, NULL) != 0) ||
            (item->after.mode != 0 &&
             rsbx_diff_blob_id(item->after.oid, item->after.bytes, item->after.length, NULL) != 0))
            abort();
        if (item->before.mode == item->after.mode &&
            memcmp(item->before.oid, item->after.oid, RSBX_OID_BYTES) == 0)
            continue;
        if (rsbx_diff_patch_item(text, &counts, item, NULL) != 0)
            abort();
    }
    rsbx_diff_free(diff);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct applied first = { .contents = RSBX_BUF_INIT(MAX_RESULT_BYTES) };
    struct applied second = { .contents = RSBX_BUF_INIT(MAX_RESULT_BYTES) };
    struct rsbx_buf text = RSBX_BUF_INIT(64U << 20);
    char *patch = base_copy((const char *)data, size);

    if (apply(&first, patch, size) == 0) {
        write_again(&text, &first);
        if (text.length > 0 && (apply(&second, text.data, text.length) != 0 ||
                                memcmp(first.tree, second.tree, RSBX_OID_BYTES) != 0))
            abort();
    }
    rsbx_buf_dispose(&text);
    applied_dispose(&first);
    applied_dispose(&second);
    free(patch);
    return 0;
}
