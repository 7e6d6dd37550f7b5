/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A creation that is refused leaves no session that could hold its record, so the state folder has
 * a log of its own for these: STATE/audit, chained like every other. It is bounded: a full one
 * becomes STATE/audit.old (the one before is removed) and a new one begins. A refusal stands
 * whether or not it can be recorded. So has what is asked of a repository alone, and there an answer
 * that cannot be recorded is none.
 */
#include <string.h>

#include "base/limits.h"
#include "session/internal.h"

#include "base/banned.h"

static json_t *text_or_null(const char *text)
{
    return text != NULL ? rsbx_json_bytes(text, strlen(text)) : json_null();
}

void rsbx_state_refused(const struct rsbx_state *state, const reposbx_spec *spec, int code,
                        const reposbx_error *why)
{
    RSBX_AUTO(rsbx_json) rsbx_json_ptr data = json_pack(
        "{s:s, s:s, s:o, s:o, s:o, s:o}", "code", reposbx_code_word(code), "message", why->message,
        "repo", text_or_null(spec->repo), "revision", text_or_null(spec->revision), "image",
        text_or_null(spec->image), "task_id", text_or_null(spec->task_id));

    if (data != NULL)
        (void)rsbx_audit_roll(state->dir_fd, RSBX_MAX_REFUSALS_BYTES, "session_refused", data, NULL);
}

int rsbx_state_patch(const struct rsbx_state *state, const reposbx_spec *spec,
                     const reposbx_validate_result *result, reposbx_error *err)
{
    RSBX_AUTO(rsbx_json) rsbx_json_ptr data = json_pack(
        "{s:s, s:I, s:b, s:s, s:s, s:s, s:o, s:o, s:o}", "sha256", result->patch_sha256, "bytes",
        (json_int_t)result->patch_bytes, "applies", result->applies, "reason", result->reason,
        "base_tree", result->base_tree, "result_tree", result->result_tree, "repo",
        text_or_null(spec->repo), "revision", text_or_null(spec->revision), "task_id",
        text_or_null(spec->task_id));

    return data != NULL ? rsbx_audit_roll(state->dir_fd, RSBX_MAX_REFUSALS_BYTES, "patch_checked", data,
                                          err)
                        : rsbx_fail_memory(err);
}
