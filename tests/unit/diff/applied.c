/* SPDX-License-Identifier: Apache-2.0 */
#include "applied.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "diff/incoming.h"
#include "diff/internal.h"

#include "base/banned.h"

struct rsbx_diff *base_with_contents(const struct corpus_tree *base,
                                     const struct rsbx_incoming *incoming)
{
    struct rsbx_diff *diff = NULL;

    assert_int_equal(rsbx_diff_new(&diff, NULL), 0);
    for (size_t i = 0; i < base->count; i++) {
        const struct corpus_file *file = &base->files[i];
        struct rsbx_diff_change change = { .path = file->path, .path_length = file->path_length,
                                           .old_mode = file->mode };
        uint8_t oid[RSBX_OID_BYTES];

        assert_int_equal(rsbx_diff_blob_id(oid, file->bytes, file->length, NULL), 0);
        assert_int_equal(
            rsbx_diff_base(diff, file->path, file->path_length, file->mode, oid, NULL), 0);
        if (incoming == NULL || !rsbx_incoming_wants(incoming, file->path, file->path_length))
            continue;
        change.old_content.length = file->length;
        change.old_content.bytes = malloc(file->length + 1);
        assert_non_null(change.old_content.bytes);
        memcpy(change.old_content.bytes, file->bytes, file->length);
        assert_int_equal(rsbx_diff_change(diff, &change, NULL), 0);
    }
    return diff;
}

/* What a file system would hold: paths to folders ("" as mode 0) and files. */
struct places {
    struct corpus_file *list;
    size_t count;
};

static bool at_or_below(const struct corpus_file *file, const struct rsbx_incoming_step *step)
{
    return file->path_length >= step->path_length &&
           memcmp(file->path, step->path, step->path_length) == 0 &&
           (file->path_length == step->path_length || file->path[step->path_length] == '/');
}

static void follow(struct places *places, const struct rsbx_incoming_step *step)
{
    size_t kept = 0, before = places->count;

    if (step->what != RSBX_INCOMING_FOLDER) {
        for (size_t i = 0; i < places->count; i++) {
            bool hit = at_or_below(&places->list[i], step);

            /* A file never makes a folder with something in it go. */
            assert_true(step->what == RSBX_INCOMING_GONE || !hit ||
                        places->list[i].path_length == step->path_length);
            if (!hit)
                places->list[kept++] = places->list[i];
        }
        places->count = kept;
        assert_true(step->what == RSBX_INCOMING_FILE || kept < before);
    }
    if (step->what == RSBX_INCOMING_FILE)
        places->list[places->count++] = (struct corpus_file){
            .path = step->path, .path_length = step->path_length, .mode = step->mode,
            .bytes = (char *)(uintptr_t)step->bytes, .length = step->length
        };
}

static void assert_steps(const struct corpus_tree *base,
                         const struct rsbx_incoming_outcome *outcome, const char *result_tree)
{
    struct places places = { calloc(base->count + outcome->step_count + 1,
                                    sizeof(struct corpus_file)),
                             base->count };
    struct corpus_tree result;
    struct rsbx_diff *diff;
    char tree[41];

    assert_non_null(places.list);
    if (base->count > 0)
        memcpy(places.list, base->files, base->count * sizeof *places.list);
    for (size_t i = 0; i < outcome->step_count; i++)
        follow(&places, &outcome->steps[i]);
    result = (struct corpus_tree){ .files = places.list, .count = places.count };
    diff = base_with_contents(&result, NULL);
    assert_int_equal(rsbx_diff_base_tree(tree, diff, NULL), 0);
    assert_string_equal(tree, result_tree);
    rsbx_diff_free(diff);
    free(places.list);
}

void assert_applies(const struct corpus_tree *base, const char *patch, size_t length,
                    const char *result_tree, const char *what)
{
    const struct rsbx_incoming_rules rules = { .symlinks = true };
    const struct rsbx_diff_options options = { .max_bytes = 1U << 28 };
    struct rsbx_incoming *incoming = NULL;
    struct rsbx_incoming_outcome outcome = { .applies = false };
    struct rsbx_diff *diff;
    reposbx_error err = REPOSBX_ERROR_INIT;

    if (rsbx_incoming_read(&incoming, patch, length, &rules, &err) != 0)
        fail_msg("%s: not read: %s", what, err.message);
    diff = base_with_contents(base, incoming);
    if (rsbx_incoming_apply(&outcome, incoming, diff, &options, &err) != 0) {
        /* Links of the corpus may lead anywhere; ours may not. */
        if (err.code != REPOSBX_EPOLICY)
            fail_msg("%s: not applied: %s", what, err.message);
    } else {
        if (!outcome.applies)
            fail_msg("%s: does not apply: %s", what, outcome.reason);
        assert_string_equal(outcome.result_tree, result_tree);
        assert_steps(base, &outcome, result_tree);
    }
    rsbx_incoming_outcome_dispose(&outcome);
    rsbx_diff_free(diff);
    rsbx_incoming_free(incoming);
}
