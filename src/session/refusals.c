/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A creation that is refused leaves no session that could hold its record, so the state folder has
 * a log of its own for these: STATE/audit, chained like every other. It is bounded: a full one
 * becomes STATE/audit.old (the one before is removed) and a new one begins. A refusal stands
 * whether or not it can be recorded.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/limits.h"
#include "session/internal.h"

#include "base/banned.h"

static json_t *text_or_null(const char *text)
{
    return text != NULL ? rsbx_json_bytes(text, strlen(text)) : json_null();
}

static int open_log(int *out, const struct rsbx_state *state, reposbx_error *err)
{
    int fd;

    if (mkdirat(state->dir_fd, "audit", 0700) != 0 && errno != EEXIST)
        return rsbx_fail_errno(err, REPOSBX_EIO, "cannot make the log of refusals");
    fd = openat(state->dir_fd, "audit", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return rsbx_fail_errno(err, REPOSBX_EIO, "cannot open the log of refusals");
    *out = fd;
    return REPOSBX_OK;
}

static int append(const struct rsbx_state *state, const json_t *data, reposbx_error *err)
{
    RSBX_AUTO(rsbx_fd) int folder_fd = -1;
    RSBX_AUTO(rsbx_audit) rsbx_audit_ptr audit = NULL;
    int rc = open_log(&folder_fd, state, err);

    if (rc == 0)
        rc = rsbx_audit_open(&audit, folder_fd, RSBX_MAX_REFUSALS_BYTES, err);
    if (rc == 0)
        rc = rsbx_audit_append(audit, "session_refused", data, RSBX_AUDIT_ORDINARY, err);
    return rc;
}

void rsbx_state_refused(const struct rsbx_state *state, const reposbx_spec *spec, int code,
                        const reposbx_error *why)
{
    RSBX_AUTO(rsbx_json) rsbx_json_ptr data = json_pack(
        "{s:s, s:s, s:o, s:o, s:o, s:o}", "code", reposbx_code_word(code), "message", why->message,
        "repo", text_or_null(spec->repo), "revision", text_or_null(spec->revision), "image",
        text_or_null(spec->image), "task_id", text_or_null(spec->task_id));
    RSBX_AUTO(rsbx_fd) int lock_fd =
        openat(state->dir_fd, "audit.lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);

    if (data == NULL || lock_fd < 0 || flock(lock_fd, LOCK_EX) != 0)
        return;
    if (append(state, data, NULL) != REPOSBX_ELIMIT)
        return;
    if (rsbx_remove_tree_at(state->dir_fd, "audit.old", NULL) == 0 &&
        renameat(state->dir_fd, "audit", state->dir_fd, "audit.old") == 0)
        (void)append(state, data, NULL);
}
