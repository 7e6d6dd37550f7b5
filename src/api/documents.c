/* SPDX-License-Identifier: Apache-2.0 */
/* Results as the JSON documents that programs in other languages read. */
#include <stdlib.h>
#include <string.h>

#include <reposbx/session.h>

#include "api/documents.h"
#include "base/error.h"
#include "base/text.h"
#include "codec/json.h"

#include "base/banned.h"

int rsbx_document_text(char **out, json_t *value, reposbx_error *err)
{
    RSBX_AUTO(rsbx_json) rsbx_json_ptr owned = value;

    if (owned == NULL)
        return rsbx_fail_memory(err);
    return rsbx_json_text(out, owned, err);
}

json_t *rsbx_text_value(const char *text)
{
    return rsbx_json_bytes(text, strlen(text));
}

static json_t *argv_value(const reposbx_exec_result *result)
{
    json_t *array = json_array();

    for (size_t i = 0; i < result->argc; i++)
        (void)json_array_append_new(array, rsbx_text_value(result->argv[i]));
    return array;
}

json_t *rsbx_exec_result_value(const reposbx_exec_result *result)
{
    json_t *ended = json_pack(
        "{s:s, s:o, s:s, s:o, s:o, s:o, s:o}", "command_id", result->command_id, "argv",
        argv_value(result), "status", reposbx_exec_status_word(result->status), "exit_code",
        result->status == REPOSBX_EXITED ? json_integer(result->exit_code) : json_null(), "signal",
        result->signal != 0 ? json_integer(result->signal) : json_null(), "stdout",
        rsbx_json_bytes(result->stdout_preview, result->stdout_preview_length), "stderr",
        rsbx_json_bytes(result->stderr_preview, result->stderr_preview_length));
    json_t *measured = json_pack(
        "{s:I, s:b, s:b, s:b, s:b, s:b, s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:i, s:{s:I, s:I, s:f}}",
        "duration_ms", (json_int_t)result->duration_ms, "timed_out", result->timed_out,
        "output_limited", result->output_limited, "oom_killed", result->oom_killed,
        "stdout_truncated", result->stdout_truncated, "stderr_truncated", result->stderr_truncated,
        "stdout_sha256", result->stdout_sha256, "stderr_sha256", result->stderr_sha256,
        "stdout_bytes", (json_int_t)result->stdout_bytes, "stderr_bytes",
        (json_int_t)result->stderr_bytes, "cpu_user_ms", (json_int_t)result->cpu_user_ms,
        "cpu_system_ms", (json_int_t)result->cpu_system_ms, "peak_memory_bytes",
        (json_int_t)result->peak_memory_bytes, "exec_errno", result->exec_errno, "observed_limits",
        "memory_bytes", (json_int_t)result->observed_memory_bytes, "pids",
        (json_int_t)result->observed_pids, "cpus", result->observed_cpus);

    if (ended == NULL || measured == NULL || json_object_update(ended, measured) != 0) {
        json_decref(ended);
        ended = NULL;
    }
    json_decref(measured);
    return ended;
}

int reposbx_exec_result_json(char **out, const reposbx_exec_result *result, reposbx_error *err)
{
    return rsbx_document_text(out, rsbx_exec_result_value(result), err);
}

json_t *rsbx_mode_value(uint32_t mode)
{
    return mode == 0 ? json_null() : json_sprintf("%06o", mode);
}

json_t *rsbx_oid_value(const char *oid, uint32_t mode)
{
    return mode == 0 ? json_null() : json_string(oid);
}

static json_t *files_value(const reposbx_diff_result *result)
{
    json_t *array = json_array();

    for (size_t i = 0; i < result->file_count; i++) {
        const reposbx_diff_file *file = &result->files[i];

        (void)json_array_append_new(
            array,
            json_pack("{s:o, s:s, s:o, s:o, s:o, s:o, s:I, s:I, s:b}", "path",
                      rsbx_text_value(file->path), "status", file->status, "old_mode",
                      rsbx_mode_value(file->old_mode), "new_mode", rsbx_mode_value(file->new_mode), "old_oid",
                      rsbx_oid_value(file->old_oid, file->old_mode), "new_oid",
                      rsbx_oid_value(file->new_oid, file->new_mode), "insertions",
                      (json_int_t)file->insertions, "deletions", (json_int_t)file->deletions,
                      "binary", file->binary));
    }
    return array;
}

static json_t *omitted_value(const reposbx_diff_result *result)
{
    json_t *array = json_array();

    for (size_t i = 0; i < result->omitted_count; i++) {
        (void)json_array_append_new(array, json_pack("{s:o, s:s}", "path",
                                                     rsbx_text_value(result->omitted[i].path), "reason",
                                                     result->omitted[i].reason));
    }
    return array;
}

int reposbx_diff_result_json(char **out, const reposbx_diff_result *result, const char *patch_file,
                             reposbx_error *err)
{
    json_t *value = json_pack("{s:s, s:I, s:s, s:s, s:o, s:o}", "sha256", result->sha256, "bytes",
                              (json_int_t)result->patch_length, "base_tree", result->base_tree,
                              "result_tree", result->result_tree, "files", files_value(result),
                              "omitted", omitted_value(result));
    int failed = value == NULL;

    if (!failed && patch_file != NULL)
        failed = json_object_set_new(value, "patch_file", rsbx_text_value(patch_file)) != 0;
    else if (!failed && rsbx_utf8_valid(result->patch, result->patch_length) &&
             memchr(result->patch, '\0', result->patch_length) == NULL)
        failed = json_object_set_new(value, "patch",
                                     json_stringn(result->patch, result->patch_length)) != 0;
    if (failed) {
        json_decref(value);
        value = NULL;
    }
    return rsbx_document_text(out, value, err);
}

int reposbx_artifact_bundle_json(char **out, const reposbx_artifact_bundle *bundle,
                                 reposbx_error *err)
{
    json_t *members = json_array();

    for (size_t i = 0; i < bundle->member_count; i++) {
        const reposbx_artifact_member *member = &bundle->members[i];

        (void)json_array_append_new(
            members, json_pack("{s:o, s:I, s:s}", "path", rsbx_text_value(member->name), "size",
                               (json_int_t)member->size, "sha256", member->sha256));
    }
    return rsbx_document_text(out,
                  json_pack("{s:o, s:I, s:s, s:o}", "path", rsbx_text_value(bundle->path), "size",
                            (json_int_t)bundle->size, "sha256", bundle->sha256, "members",
                            members),
                  err);
}

int reposbx_reap_report_json(char **out, const reposbx_reap_report *report, reposbx_error *err)
{
    json_t *items = json_array();

    for (size_t i = 0; i < report->count; i++) {
        const reposbx_reap_item *item = &report->items[i];

        (void)json_array_append_new(
            items, json_pack("{s:s?, s:s, s:s, s:o}", "sandbox_id", item->session_id, "object",
                             item->object, "action", item->action, "detail",
                             rsbx_text_value(item->detail)));
    }
    return rsbx_document_text(out,
                  json_pack("{s:o, s:I}", "items", items, "failed", (json_int_t)report->failed),
                  err);
}
