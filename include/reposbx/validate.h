/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPOSBX_VALIDATE_H
#define REPOSBX_VALIDATE_H

#include <stddef.h>
#include <stdint.h>

#include <reposbx/error.h>
#include <reposbx/session.h>

/*
 * Validation: what a patch from somebody else does to an exact revision, and whether a command is
 * content with the outcome.
 *
 * The patch is what `git diff --binary` prints: modes, renames, copies and binary blocks, names with
 * a/ and b/, nothing around it. It is applied as `git apply` would, but strictly: hunks stand at the
 * lines that they name, ids in index lines are compared, nothing is searched for or skipped. First to
 * the tree of the repository, without an engine; then it is placed in the workspace of a new session,
 * whose diff must give exactly the tree that was worked out. The session is closed on every path.
 */

#ifdef __cplusplus
extern "C" {
#endif

typedef struct reposbx_validate_request {
    unsigned int version;        /* 1 */
    const reposbx_spec *spec;    /* the session to make; without an image none is made, and only the
                                    repository is asked whether the patch applies */
    const void *patch;           /* at most limits.stdin_bytes of the policy (REPOSBX_EPOLICY) */
    size_t patch_length;
    const reposbx_exec_request *command; /* to run on the patched workspace; NULL: none. Its
                                            cancel_fd is taken from below */
    int close_flags;             /* REPOSBX_KEEP_AUDIT or REPOSBX_DROP_AUDIT */
    int cancel_fd;               /* readable: kill the command, close, REPOSBX_ECANCELLED; -1: none */
} reposbx_validate_request;
#define REPOSBX_VALIDATE_REQUEST_INIT { 1, NULL, NULL, 0, NULL, 0, -1 }

/* A path that the patch changes. Of a rename the old path is "deleted" and the new one "added". */
typedef struct reposbx_validate_file {
    char *path;
    const char *status;          /* as in reposbx_diff_file */
    char *from;                  /* where a renamed or copied file comes from; NULL: not moved */
    uint32_t old_mode, new_mode; /* Git's; 0 when absent */
    char old_oid[41], new_oid[41];
} reposbx_validate_file;

typedef struct reposbx_validate_result {
    int ok;                      /* the patch applies, and the command (if any) ended with 0 */
    char patch_sha256[65];
    uint64_t patch_bytes;
    int applies;
    char reason[REPOSBX_MESSAGE_BYTES]; /* why it does not, or the command failed; "" when ok */
    reposbx_validate_file *files;       /* sorted by path; none when it does not apply */
    size_t file_count;
    char base_tree[41];          /* of the revision */
    char result_tree[41];        /* of the patched workspace; "" when it does not apply */
    char *sandbox_id;            /* the session, closed by now; NULL: none was made */
    int ran;                     /* `exec` is the command's result */
    reposbx_exec_result exec;
    /* Whether the workspace is still the patched tree after the command. */
    int compared;                /* 0: no command, or too much was changed to compare */
    char compare_reason[REPOSBX_MESSAGE_BYTES]; /* why it was not compared, or "" */
    char **changed;              /* paths that differ, sorted; of what no patch carries, too */
    size_t changed_count;
} reposbx_validate_result;
void reposbx_validate_result_dispose(reposbx_validate_result *result);

/* {"ok","reason","patch":{"sha256","bytes","applies","reason","files":[{"path","status","from",
 * "old_mode","new_mode","old_oid","new_oid"}]},"base_tree","result_tree","exec","diff":{"compared",
 * "reason","command_changed":[path]},"sandbox_id"} (free()); null where there is none. */
int reposbx_validate_result_json(char **out, const reposbx_validate_result *result,
                                 reposbx_error *err);

/* A patch that does not apply and a command that fails are answers. REPOSBX_EMALFORMED: it is no
 * patch, or names a path that no tree may have (a `..`, an absolute one, `.git`, one below a file that
 * it makes). REPOSBX_EPOLICY: too large, changes a submodule, makes a symlink where source.symlinks is
 * "refuse" or one that leads out of the tree, or has a path behind a symlink of the tree; and
 * everything that reposbx_session_create refuses. REPOSBX_EPROTOCOL: the workspace is not what was
 * worked out. */
int reposbx_validate(reposbx_validate_result *out, reposbx_provider *provider,
                     const reposbx_validate_request *request, reposbx_error *err);

#ifdef __cplusplus
}
#endif
#endif
