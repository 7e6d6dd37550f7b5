/* SPDX-License-Identifier: Apache-2.0 */
/* The outcome of a validation as a document; the call itself is in session.c. */
#include <string.h>

#include <reposbx/validate.h>

#include "api/documents.h"
#include "base/error.h"
#include "session/session.h"

#include "base/banned.h"

void reposbx_validate_result_dispose(reposbx_validate_result *result)
{
    rsbx_validate_result_dispose(result);
}

static json_t *or_null(const char *text)
{
    return text != NULL && text[0] != '\0' ? rsbx_text_value(text) : json_null();
}

static json_t *files_value(const reposbx_validate_result *result)
{
    json_t *array = json_array();

    for (size_t i = 0; i < result->file_count; i++) {
        const reposbx_validate_file *file = &result->files[i];

        (void)json_array_append_new(
            array, json_pack("{s:o, s:s, s:o, s:o, s:o, s:o, s:o}", "path",
                             rsbx_text_value(file->path), "status", file->status, "from",
                             or_null(file->from), "old_mode", rsbx_mode_value(file->old_mode),
                             "new_mode", rsbx_mode_value(file->new_mode), "old_oid",
                             rsbx_oid_value(file->old_oid, file->old_mode), "new_oid",
                             rsbx_oid_value(file->new_oid, file->new_mode)));
    }
    return array;
}

static json_t *diff_value(const reposbx_validate_result *result)
{
    json_t *changed = json_array();

    if (!result->ran)
        return json_decref(changed), json_null();
    for (size_t i = 0; i < result->changed_count; i++)
        (void)json_array_append_new(changed, rsbx_text_value(result->changed[i]));
    return json_pack("{s:b, s:o, s:o}", "compared", result->compared, "reason",
                     or_null(result->compare_reason), "command_changed", changed);
}

int reposbx_validate_result_json(char **out, const reposbx_validate_result *result,
                                 reposbx_error *err)
{
    json_t *value = json_pack(
        "{s:b, s:o, s:{s:s, s:I, s:b, s:o, s:o}, s:o, s:o, s:o, s:o, s:o}", "ok", result->ok,
        "reason", or_null(result->reason), "patch", "sha256", result->patch_sha256, "bytes",
        (json_int_t)result->patch_bytes, "applies", result->applies, "reason",
        result->applies ? json_null() : or_null(result->reason), "files", files_value(result),
        "base_tree", or_null(result->base_tree), "result_tree", or_null(result->result_tree),
        "exec", result->ran ? rsbx_exec_result_value(&result->exec) : json_null(), "diff",
        diff_value(result), "sandbox_id", or_null(result->sandbox_id));

    return rsbx_document_text(out, value, err);
}
