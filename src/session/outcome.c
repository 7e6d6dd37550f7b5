/* SPDX-License-Identifier: Apache-2.0 */
/* How a command ended, as the result says it. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "session/internal.h"

#include "base/banned.h"

const char *reposbx_exec_status_word(int status)
{
    static const char *const words[] = { "exited",         "signaled",   "timed_out",
                                         "output_limited", "oom_killed", "unknown" };

    return status >= 0 && (size_t)status < sizeof words / sizeof words[0] ? words[status]
                                                                         : "unknown";
}

void rsbx_exec_result_dispose(reposbx_exec_result *result)
{
    if (result == NULL)
        return;
    free(result->command_id);
    for (size_t i = 0; i < result->argc; i++)
        free(result->argv[i]);
    free(result->argv);
    free(result->stdout_preview);
    free(result->stderr_preview);
    memset(result, 0, sizeof *result);
}

void rsbx_outcome_from_trailer(reposbx_exec_result *result, const struct rsbx_trailer *trailer)
{
    result->timed_out = (trailer->flags & RSBX_TRAILER_TIMED_OUT) != 0;
    result->output_limited = (trailer->flags & RSBX_TRAILER_OUTPUT_LIMITED) != 0;
    result->oom_killed = trailer->oom_kills > 0 && trailer->oom_kills != RSBX_UNKNOWN;
    result->cpu_user_ms = trailer->user_us / 1000;
    result->cpu_system_ms = trailer->system_us / 1000;
    result->peak_memory_bytes =
        trailer->peak_memory_bytes == RSBX_UNKNOWN ? 0 : trailer->peak_memory_bytes;
    result->duration_ms = trailer->duration_ns / 1000000;
    result->status = rsbx_trailer_status(trailer);
    if (result->status == REPOSBX_OOM_KILLED || result->status == REPOSBX_SIGNALED) {
        result->signal = (int)trailer->signal;
    } else if (result->status == REPOSBX_EXITED && trailer->end == RSBX_END_NOT_STARTED) {
        /* As shells say it: 127 not found, 126 found and not runnable. */
        result->exec_errno = (int)trailer->exec_errno;
        result->exit_code =
            trailer->exec_errno == ENOENT || trailer->exec_errno == ENOTDIR ? 127 : 126;
    } else if (result->status == REPOSBX_EXITED) {
        result->exit_code = (int)trailer->exit_code;
    }
}
