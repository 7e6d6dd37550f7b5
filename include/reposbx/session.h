/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPOSBX_SESSION_H
#define REPOSBX_SESSION_H

#include <stddef.h>
#include <stdint.h>

#include <reposbx/artifact.h>
#include <reposbx/error.h>
#include <reposbx/policy.h>

/*
 * Sessions: a repository at an exact revision in two volumes, a baseline that nothing changes (shared
 * by sessions on the same revision) and a workspace of the session's own, and commands that run on it
 * one by one, each in a fresh container.
 *
 *     reposbx_provider_options options = REPOSBX_PROVIDER_OPTIONS_INIT;
 *     reposbx_provider *provider = NULL;
 *     reposbx_spec spec = REPOSBX_SPEC_INIT;
 *     reposbx_session *session = NULL;
 *
 *     reposbx_provider_open(&provider, &options, &err);       contacts nothing yet
 *     spec.repo = "/src/project"; spec.revision = "…40 hex…"; spec.image = "sha256:…";
 *     spec.policy = policy;
 *     reposbx_session_create(&session, provider, &spec, &err);
 *     reposbx_session_exec(&result, session, &request, &err);
 *     reposbx_session_diff(&diff, session, &diff_options, &err);
 *     reposbx_session_close(session, REPOSBX_KEEP_AUDIT, &err);
 *     reposbx_session_free(session);
 *     reposbx_provider_free(provider);
 *
 * A session lives on disk and in the engine, not in the process: reposbx_session_open continues it
 * from another process. A session object holds the session's lock from create or open until free; a
 * second holder gets REPOSBX_EBUSY. An object may be used from several threads; its calls are then
 * served one after the other. A provider may be shared between threads.
 *
 * Option and request structs start with `version`; use their INIT macros. Result structs are filled
 * for the caller and released by their dispose function, which zeroes the struct and is also safe after
 * a failure when the struct was zeroed before. Strings in them are NUL-terminated.
 *
 * What every call that works in a session may answer, beside its own: REPOSBX_ECLOSED (closed, or its
 * lease is over), REPOSBX_EPOISONED (its state is not known for sure: close it, or reap), REPOSBX_EPOLICY
 * (the request is refused, and its field named), REPOSBX_EUNAVAILABLE (the engine does not answer),
 * REPOSBX_EPROTOCOL (the engine or the guest answered nonsense), REPOSBX_EIO (a document or the log
 * cannot be written: nothing is run then), REPOSBX_ELIMIT (a bound of the session's own, the log's say),
 * REPOSBX_ECANCELLED.
 */

#ifdef __cplusplus
extern "C" {
#endif

/* ---- provider (SandboxProvider): an engine and a state folder ---- */

typedef struct reposbx_provider reposbx_provider;

typedef struct reposbx_provider_options {
    unsigned int version;    /* 1 */
    const char *engine;      /* unix:///absolute/path (Docker), or podman[:/absolute/program][?KEY=VALUE&…]
                                with the keys root, runroot, tmpdir, runtime, storage-driver,
                                cgroup-manager; NULL: $REPOSBX_ENGINE, else the user's own
                                unix:///run/user/UID/docker.sock */
    const char *state_dir;   /* NULL: $REPOSBX_STATE_DIR, else $XDG_STATE_HOME/reposbx, else
                                ~/.local/state/reposbx (root: /var/lib/reposbx) */
} reposbx_provider_options;
#define REPOSBX_PROVIDER_OPTIONS_INIT { 1, NULL, NULL }

/* Makes the state folder (0700) when it is missing and refuses one that others can write to
 * (REPOSBX_EPOLICY). Does not contact the engine. `options` NULL: the defaults. */
int reposbx_provider_open(reposbx_provider **out, const reposbx_provider_options *options,
                          reposbx_error *err);
void reposbx_provider_free(reposbx_provider *provider);
const char *reposbx_provider_state_dir(const reposbx_provider *provider);
const char *reposbx_provider_engine(const reposbx_provider *provider);

/* ---- create, open, show, list ---- */

typedef struct reposbx_progress {
    const char *step;        /* "check", "copy", "verify" */
    uint64_t done, total;    /* bytes; total 0 when it is not known */
} reposbx_progress;

/* What to make (SandboxSpec). */
typedef struct reposbx_spec {
    unsigned int version;              /* 1 */
    const char *repo;                  /* the repository's top folder */
    const char *revision;              /* 40 lower-case hex; NULL: take the plain folder, where the
                                          policy allows it */
    const char *image;                 /* as on the policy's list */
    const char *platform;              /* os/arch[/variant]; NULL: the engine's own */
    const char *task_id;               /* NULL: none */
    const char *workspace;             /* "auto", "overlay", "copy"; NULL: the policy's */
    const char *const *exclude_subtrees;  /* left out of the fingerprint (not of the copy) */
    size_t exclude_count;
    const reposbx_policy *policy;      /* NULL: the default policy (which allows no image) */
    void (*progress)(void *payload, const reposbx_progress *progress); /* NULL: none */
    void *progress_payload;
} reposbx_spec;
#define REPOSBX_SPEC_INIT { 1, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 0, NULL, NULL, NULL }

typedef struct reposbx_session reposbx_session;

#define REPOSBX_SESSION_ID_BYTES 37 /* "sbx-", 32 hex digits, NUL */

/* Everything that can be refused is refused before anything is made; a failure later removes what
 * was made (what could not be removed is named in the error and left to reposbx_reap). */
int reposbx_session_create(reposbx_session **out, reposbx_provider *provider,
                           const reposbx_spec *spec, reposbx_error *err);
/* The same, which a readable cancel_fd (-1: none) ends: what was made is removed (REPOSBX_ECANCELLED). */
int reposbx_session_create_until(reposbx_session **out, reposbx_provider *provider,
                                 const reposbx_spec *spec, int cancel_fd, reposbx_error *err);

/* Continues a session by its id. REPOSBX_ENOTFOUND, REPOSBX_EBUSY (someone else holds it). Closed
 * and poisoned sessions open too: their metadata and audit can be read, and close works. */
int reposbx_session_open(reposbx_session **out, reposbx_provider *provider, const char *id,
                         reposbx_error *err);

/* Releases the lock and memory; the session itself goes on living. */
void reposbx_session_free(reposbx_session *session);

const char *reposbx_session_id(const reposbx_session *session);
/* The session's audit folder. */
const char *reposbx_session_audit_dir(const reposbx_session *session);

/* Whether commands have a network (NetworkMode). */
enum reposbx_network_mode {
    REPOSBX_NETWORK_NONE = 0,   /* no interface but lo; the default */
    REPOSBX_NETWORK_BRIDGE = 1  /* full egress, for trusted work: only by the policy's own words */
};

/* What the sandbox guarantees on this engine under this policy (SandboxCapabilities). Flags are 0
 * or 1. Strings belong to the struct. */
typedef struct reposbx_capabilities {
    char *provider;            /* who runs the containers: "docker" or "podman" */
    char *isolation;           /* what separates commands from the host: "container" */
    int non_root_user;         /* commands run as 65532:65532, without capabilities */
    int network_isolation;     /* commands have no network (0 with network "bridge") */
    int read_only_rootfs;      /* the image's root cannot be written to */
    int resource_limits;       /* memory, processes and processors are limited, and seen to be */
    int process_tree_cleanup;  /* nothing that a command started outlives it */
    int disk_quota;            /* the workspace's size is bounded; 0 with ordinary volumes */
    int rootless_runtime;      /* the engine itself does not run as the host's root */
} reposbx_capabilities;

/* What a session is (SandboxMetadata). Strings and the policy belong to the struct. */
typedef struct reposbx_metadata {
    char *sandbox_id;          /* "sbx-" and 32 hex digits */
    char *task_id;             /* as given at create; NULL: none */
    char *provider;            /* as in capabilities */
    char *isolation;           /* as in capabilities */
    char *image;               /* the reference as it was asked for */
    char *image_id;            /* "sha256:" and 64 hex digits: what the containers really use */
    char *platform;            /* "linux/amd64", os/arch[/variant] */
    char *source_revision;     /* commit, 40 hex digits; NULL: a plain folder */
    char *source_tree;         /* Git tree id of the snapshot, 40 hex digits; NULL while creating */
    char *source_fingerprint;  /* "sha256-v2:" and 64 hex digits; NULL while creating */
    uint64_t source_file_count; /* files and symlinks of the snapshot; 0 while creating */
    uint64_t source_bytes;     /* their content together, in bytes; 0 while creating */
    char *workspace;           /* "overlay" or "copy" */
    char *workspace_reason;    /* for people: why this one; NULL: not recorded */
    int network;               /* enum reposbx_network_mode */
    int rootless_runtime;      /* 0 or 1, as in capabilities */
    reposbx_policy *policy;    /* as it was at create; borrow it, dispose releases it */
    reposbx_capabilities capabilities;
    char *created_at;          /* UTC, "2026-01-31T12:00:00.000Z" */
    char *state;               /* "creating", "ready", "closed", "poisoned", "expired" */
    char *state_reason;        /* for people: why it is poisoned; NULL: no reason is needed */
} reposbx_metadata;

/* Releases what the struct holds and zeroes it. NULL and a zeroed struct are fine. */
void reposbx_metadata_dispose(reposbx_metadata *metadata);

/* The metadata of a session, read from disk without taking the session's lock. REPOSBX_ENOTFOUND;
 * REPOSBX_EIO when its documents are damaged. */
int reposbx_session_metadata(reposbx_metadata *out, reposbx_provider *provider, const char *id,
                             reposbx_error *err);

/* The metadata document of a session as JSON (free()), read from disk without taking the session's
 * lock. Keys: sandbox_id, task_id, provider, isolation, image, image_id, platform, source_revision,
 * source_tree, source_fingerprint, source_file_count, source_bytes, workspace ("overlay" or
 * "copy"), workspace_reason, network, rootless_runtime, policy (the whole document), capabilities,
 * created_at, and state ("creating", "ready", "closed", "poisoned", "expired"); where there is something
 * to say also state_reason, source_notes (what the snapshot left out or changed) and, of a fork,
 * forked_from (the id of its origin) and left_behind ([{path, reason}]). */
int reposbx_session_metadata_json(char **out, reposbx_provider *provider, const char *id,
                                  reposbx_error *err);
/* All sessions of the state folder: a JSON array of metadata objects, newest first (free()). */
int reposbx_session_list_json(char **out, reposbx_provider *provider, reposbx_error *err);
/* The audit folder of a session by id, without its lock (free()). */
int reposbx_session_audit_path(char **out, reposbx_provider *provider, const char *id,
                               reposbx_error *err);

/* ---- exec ---- */

enum reposbx_exec_status {
    REPOSBX_EXITED = 0,         /* by itself, with exit_code */
    REPOSBX_SIGNALED = 1,       /* by `signal` */
    REPOSBX_TIMED_OUT = 2,
    REPOSBX_OUTPUT_LIMITED = 3,
    REPOSBX_OOM_KILLED = 4,     /* the command itself was killed for memory */
    REPOSBX_STATUS_UNKNOWN = 5  /* the engine or the guest went away in the middle */
};

/* "exited", "signaled", "timed_out", "output_limited", "oom_killed", "unknown". */
const char *reposbx_exec_status_word(int status);

/* One command (ExecRequest). Limits may only be lower than the policy's. In this struct 0 is a limit that
 * was not given, so the policy's own holds: a limit that is worked out must be checked for 0 before it is
 * put here. (Documents and the command line tell "not given" and 0 apart and refuse 0, and so does the byte
 * limit of reposbx_session_read, which is an argument and always given.) */
typedef struct reposbx_exec_request {
    unsigned int version;             /* 1 */
    const char *const *argv;          /* argc strings of any bytes; the first not empty */
    size_t argc;
    const char *cwd;                  /* below the workspace; NULL or ".": its root */
    const char *const *env;           /* env_count strings "NAME=value" */
    size_t env_count;
    const void *stdin_bytes;          /* NULL: /dev/null */
    size_t stdin_length;
    double timeout_seconds;
    uint64_t memory_bytes;
    double cpus;
    uint64_t pids;
    /* Live output: stream 1 stdout, 2 stderr; called from the thread that runs exec. A result other
     * than 0 stops the command (REPOSBX_ECANCELLED). What the command wrote before its end is handed
     * on however long that takes: a slow callback makes exec return late, not the command live
     * longer. NULL: none. */
    int (*output)(void *payload, int stream, const void *bytes, size_t length);
    void *output_payload;
    int cancel_fd;                    /* readable: kill the command, keep the session; -1: none */
} reposbx_exec_request;
#define REPOSBX_EXEC_REQUEST_INIT                                                                  \
    { 1, NULL, 0, NULL, NULL, 0, NULL, 0, 0.0, 0, 0.0, 0, NULL, NULL, -1 }

/* What became of it (ExecResult). */
typedef struct reposbx_exec_result {
    char *command_id;                 /* "cmd-000001" … within the session */
    char **argv;
    size_t argc;
    int status;                       /* enum reposbx_exec_status */
    int exit_code;                    /* -1 unless EXITED */
    int signal;                       /* 0 unless SIGNALED or OOM_KILLED */
    int exec_errno;                   /* not 0: the program could not be started (exit_code 126 or 127) */
    /* Raw bytes, both together at most output_bytes; where cut, not within a UTF-8 character. */
    char *stdout_preview, *stderr_preview;
    size_t stdout_preview_length, stderr_preview_length;
    int stdout_truncated, stderr_truncated; /* the preview is shorter than what was captured */
    uint64_t stdout_bytes, stderr_bytes;    /* captured */
    char stdout_sha256[65], stderr_sha256[65];
    int timed_out, output_limited;
    int oom_killed;                   /* any process of the command was killed for memory */
    uint64_t duration_ms, cpu_user_ms, cpu_system_ms;
    uint64_t peak_memory_bytes;       /* 0 when the kernel does not say */
    uint64_t observed_memory_bytes, observed_pids; /* from inside the container */
    double observed_cpus;
} reposbx_exec_result;

void reposbx_exec_result_dispose(reposbx_exec_result *result);
/* The result as a JSON document (free()). stdout and stderr are the previews with U+FFFD for bytes
 * that are not UTF-8; exit_code is null unless the command exited, signal is null unless one ended
 * it. */
int reposbx_exec_result_json(char **out, const reposbx_exec_result *result, reposbx_error *err);

/* Runs one command in a fresh container. A command that fails, times out or is killed is a result,
 * not an error; so is a program that is not there (exec_errno). REPOSBX_ECANCELLED: cancel_fd or the
 * output callback ended it; the session goes on. */
int reposbx_session_exec(reposbx_exec_result *out, reposbx_session *session,
                         const reposbx_exec_request *request, reposbx_error *err);

/* ---- files ---- */

/* The bytes of a regular file (*bytes: free(); NUL behind them). Larger than max_bytes:
 * REPOSBX_ELIMIT, never truncated. max_bytes 0 is refused. No symlink is followed. */
int reposbx_session_read(char **bytes, size_t *length, reposbx_session *session, const char *path,
                         uint64_t max_bytes, reposbx_error *err);
#define REPOSBX_READ_BYTES_DEFAULT (8U * 1024U * 1024U)

#define REPOSBX_WRITE_PARENTS 1U     /* make missing folders */
#define REPOSBX_WRITE_EXECUTABLE 2U  /* mode 755 instead of 644 */
/* Replaces or makes a file atomically; at most limits.stdin_bytes (REPOSBX_EPOLICY). A folder on the way
 * that is missing is REPOSBX_ENOTFOUND unless REPOSBX_WRITE_PARENTS is given; a symlink on the way or in
 * the file's place REPOSBX_EPOLICY. */
int reposbx_session_write(reposbx_session *session, const char *path, const void *bytes,
                          size_t length, unsigned int flags, reposbx_error *err);

typedef struct reposbx_file {
    char *path;              /* bytes */
    char type;               /* 'f' file, 'x' executable file, 'l' symlink, 'd' folder, 'o' other */
    uint64_t size;
} reposbx_file;
typedef struct reposbx_file_list {
    reposbx_file *files;     /* sorted by path */
    size_t count;
} reposbx_file_list;
void reposbx_file_list_dispose(reposbx_file_list *list);
/* Everything at and below `path` (NULL: the root). Over 200,000 entries: REPOSBX_ELIMIT. */
int reposbx_session_list_files(reposbx_file_list *out, reposbx_session *session, const char *path,
                               reposbx_error *err);

/* ---- diff ---- */

typedef struct reposbx_diff_options {
    unsigned int version;    /* 1 */
    uint64_t max_bytes;      /* of the patch; 0: 16 MiB; over it: REPOSBX_ELIMIT */
    int untracked;           /* enum reposbx_untracked: what becomes of new files */
} reposbx_diff_options;
#define REPOSBX_DIFF_OPTIONS_INIT { 1, 0, 0 }

enum reposbx_untracked {
    REPOSBX_UNTRACKED_ALL = 0,       /* every new file is in the patch */
    REPOSBX_UNTRACKED_UNIGNORED = 1  /* not those that the .gitignore files of the base tree name: they
                                        end in `omitted`, a folder that is ignored as a whole once */
};

typedef struct reposbx_diff_file {
    char *path;
    const char *status;      /* "added", "deleted", "modified", "type_changed", "mode_changed" */
    uint32_t old_mode, new_mode;  /* Git's; 0 when absent */
    char old_oid[41], new_oid[41];
    uint64_t insertions, deletions;
    int binary;
} reposbx_diff_file;

typedef struct reposbx_diff_omitted {
    char *path;
    const char *reason;      /* "fifo", "socket", "device", "empty_folder", "dotgit", "name",
                                "unreadable", "too_deep", "ignored" */
} reposbx_diff_omitted;

/* DiffResult. The patch proved itself: applied to base_tree it gives result_tree. */
typedef struct reposbx_diff_result {
    char *patch;             /* NUL behind; empty when nothing changed */
    size_t patch_length;
    char sha256[65];
    char base_tree[41], result_tree[41];
    reposbx_diff_file *files;
    size_t file_count;
    reposbx_diff_omitted *omitted;
    size_t omitted_count;
} reposbx_diff_result;
void reposbx_diff_result_dispose(reposbx_diff_result *result);
/* The result as a JSON document (free()). With patch_file it names that file; without, "patch" is
 * in it where the patch is UTF-8. */
int reposbx_diff_result_json(char **out, const reposbx_diff_result *result, const char *patch_file,
                             reposbx_error *err);

/* The tree that a repository has at a revision (40 lower-case hex), which must be its HEAD: read as
 * for a session, by a confined process under the policy's rules for sources (NULL: the default
 * policy), with every file's content checked. Refusals as in reposbx_session_create. */
int reposbx_repository_tree(char tree[41], const char *repo, const char *revision,
                            const reposbx_policy *policy, reposbx_error *err);

/* What the workspace differs from the baseline in, as a Git patch that was applied to base_tree and gave
 * result_tree before it is handed out. `options` NULL: the defaults. Never truncated: REPOSBX_ELIMIT over
 * max_bytes. A patch that does not prove itself is REPOSBX_EINTERNAL, and nothing is handed out. */
int reposbx_session_diff(reposbx_diff_result *out, reposbx_session *session,
                         const reposbx_diff_options *options, reposbx_error *err);

/* ---- artifacts ---- */

typedef struct reposbx_artifact_options {
    unsigned int version;    /* 1 */
    const char *const *paths;  /* files and folders below the workspace; at least one */
    size_t path_count;
    const char *output;      /* the ZIP to make; must not exist */
    uint64_t max_bytes;      /* of all members; 0: the policy's artifact_bytes, which it may only lower */
} reposbx_artifact_options;
#define REPOSBX_ARTIFACT_OPTIONS_INIT { 1, NULL, 0, NULL, 0 }

/* Regular files of the workspace as a deterministic ZIP, which is read back and compared before it gets its
 * name. REPOSBX_EEXISTS: `output` is there already or cannot be made. REPOSBX_ENOTFOUND: a path is not
 * there. REPOSBX_EPOLICY: a path that leads outside, a symlink on the way, something that is no regular
 * file, one with several links, or more bytes or members than the policy's artifact_bytes and
 * artifact_members. Nothing is left of a bundle that was not finished. */
int reposbx_session_artifacts(reposbx_artifact_bundle *out, reposbx_session *session,
                              const reposbx_artifact_options *options, reposbx_error *err);

/* ---- fork ---- */

/* A new session from the present state of this one's workspace: same image, policy, source and kind
 * of workspace, a lease and a log of its own. The baseline is shared, so the cost is that of what
 * was changed. Carried over are files, folders, symlinks and fifos with their permissions and
 * modification times; hard links become files of their own; sockets and devices stay behind and are
 * named in "left_behind" of reposbx_session_metadata_json. The two sessions know nothing of each other afterwards. */
int reposbx_session_fork(reposbx_session **out, reposbx_session *session,
                         reposbx_provider *provider, reposbx_error *err);
/* The same, which a readable cancel_fd (-1: none) ends: what was made is removed, the first session is
 * as before (REPOSBX_ECANCELLED). */
int reposbx_session_fork_until(reposbx_session **out, reposbx_session *session,
                               reposbx_provider *provider, int cancel_fd, reposbx_error *err);

/* ---- close, reap ---- */

#define REPOSBX_KEEP_AUDIT 0
#define REPOSBX_DROP_AUDIT 1
/* Large volumes (over 1,000 files or 16 MiB) may be removed by a process of ours behind the
 * caller's back: it is journaled, and reposbx_reap or another close waits for it or ends it. */
#define REPOSBX_CLOSE_BEHIND 2
/* Removes every container and volume of the session and verifies that they are gone. `flags` are
 * the words above. Idempotent. What could not be removed is named in the error (REPOSBX_EPOISONED)
 * and stays for reposbx_reap. A baseline that other sessions share stays with them. */
int reposbx_session_close(reposbx_session *session, int flags, reposbx_error *err);

typedef struct reposbx_reap_item {
    char *session_id;        /* NULL: of one-shot code, which has no session */
    char *object;            /* "container NAME", "volume NAME", "session", … */
    const char *action;      /* "removed", "would_remove", "failed"; "left_alone": of this name, but not
                              * ours, so it is neither touched nor looked at again */
    char *detail;            /* why it failed or was left alone, else "" */
} reposbx_reap_item;
typedef struct reposbx_reap_report {
    reposbx_reap_item *items;
    size_t count;
    size_t failed;
} reposbx_reap_report;
void reposbx_reap_report_dispose(reposbx_reap_report *report);
int reposbx_reap_report_json(char **out, const reposbx_reap_report *report, reposbx_error *err);
/* Removes what dead, half-made, poisoned or expired sessions of this state folder left in the
 * engine and on disk, and nothing else. Sessions that someone holds are not touched, and neither
 * are ready ones within their lease. Containers of one-shot code whose process is dead go too. */
int reposbx_reap(reposbx_reap_report *out, reposbx_provider *provider, int dry_run,
                 reposbx_error *err);

#ifdef __cplusplus
}
#endif
#endif
