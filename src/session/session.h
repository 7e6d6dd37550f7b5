/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RSBX_SESSION_SESSION_H
#define RSBX_SESSION_SESSION_H

#include <reposbx/session.h>
#include <reposbx/validate.h>

#include "base/cleanup.h"
#include "provider/hello.h"

/*
 * The session room's face to the api room. A state is the folder with all sessions and the address
 * of the engine; a session is one of them, held by this process through a kernel lock.
 */
struct rsbx_state;
struct rsbx_session;
typedef struct rsbx_state *rsbx_state_ptr;
typedef struct rsbx_session *rsbx_session_ptr;

/* NULL: the documented defaults. Makes the folder, checks who can write to it. */
int rsbx_state_open(struct rsbx_state **out, const char *engine, const char *dir,
                    reposbx_error *err);
void rsbx_state_free(struct rsbx_state *state);
const char *rsbx_state_dir(const struct rsbx_state *state);
const char *rsbx_state_engine(const struct rsbx_state *state);

/* cancel_fd, as everywhere, is -1 where nobody cancels. */
int rsbx_session_create(struct rsbx_session **out, struct rsbx_state *state,
                        const reposbx_spec *spec, int cancel_fd, reposbx_error *err);
int rsbx_session_open(struct rsbx_session **out, struct rsbx_state *state, const char *id,
                      reposbx_error *err);
void rsbx_session_free(struct rsbx_session *session);
RSBX_CLEANUP(rsbx_session, rsbx_session_ptr, rsbx_session_free);
const char *rsbx_session_id(const struct rsbx_session *session);
const char *rsbx_session_audit_dir(const struct rsbx_session *session);

int rsbx_session_exec(reposbx_exec_result *out, struct rsbx_session *session,
                      const reposbx_exec_request *request, reposbx_error *err);
/* What the last container that this process spoke to saw, and what that of a command with the policy's
 * own limits must see: they belong together after an exec. False: there was none yet. */
bool rsbx_session_observed(struct rsbx_hello *hello, struct rsbx_hello_want *want,
                           const struct rsbx_session *session);
void rsbx_exec_result_dispose(reposbx_exec_result *result);
int rsbx_session_read(char **bytes, size_t *length, struct rsbx_session *session, const char *path,
                      uint64_t max_bytes, reposbx_error *err);
int rsbx_session_write(struct rsbx_session *session, const char *path, const void *bytes,
                       size_t length, unsigned int flags, reposbx_error *err);
int rsbx_session_list_files(reposbx_file_list *out, struct rsbx_session *session, const char *path,
                            reposbx_error *err);
void rsbx_file_list_dispose(reposbx_file_list *list);
int rsbx_session_diff(reposbx_diff_result *out, struct rsbx_session *session,
                      const reposbx_diff_options *options, reposbx_error *err);
void rsbx_diff_outcome_dispose(reposbx_diff_result *result);
int rsbx_session_artifacts(reposbx_artifact_bundle *out, struct rsbx_session *session,
                           const reposbx_artifact_options *options, reposbx_error *err);
void rsbx_artifact_bundle_dispose(reposbx_artifact_bundle *bundle);
/* Any ZIP, without a session. */
int rsbx_artifact_verify(reposbx_artifact_bundle *out, const char *path, reposbx_error *err);
/* The tree of a repository at its HEAD, every blob read and checked. */
int rsbx_repository_tree(char tree[41], const char *repo, const char *revision,
                         const reposbx_policy *policy, reposbx_error *err);
int rsbx_session_fork(struct rsbx_session **out, struct rsbx_state *state,
                      struct rsbx_session *from, int cancel_fd, reposbx_error *err);
int rsbx_validate(reposbx_validate_result *out, struct rsbx_state *state,
                  const reposbx_validate_request *request, reposbx_error *err);
void rsbx_validate_result_dispose(reposbx_validate_result *result);
int rsbx_session_close(struct rsbx_session *session, int flags, reposbx_error *err);

int rsbx_reap(reposbx_reap_report *out, struct rsbx_state *state, int dry_run, reposbx_error *err);
void rsbx_reap_report_dispose(reposbx_reap_report *report);

/* Documents read without the lock (free()). */
int rsbx_metadata_text(char **out, struct rsbx_state *state, const char *id, reposbx_error *err);
int rsbx_metadata_list(char **out, struct rsbx_state *state, reposbx_error *err);
int rsbx_audit_path(char **out, struct rsbx_state *state, const char *id, reposbx_error *err);

#endif
