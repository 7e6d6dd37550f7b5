/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RSBX_SESSION_INTERNAL_H
#define RSBX_SESSION_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>

#include "audit/audit.h"
#include "base/cleanup.h"
#include "codec/json.h"
#include "policy/policy.h"
#include "provider/provider.h"
#include "provider/talk.h"
#include "session/session.h"

/*
 * What the files of the session room share.
 *
 * On disk, STATE/sessions/ID/:
 *     lock           flock()ed by whoever holds the session
 *     metadata.json  the public document; its "state" is creating, ready, closed or poisoned
 *     spec.json      what only we need: engine, boot id and monotonic time of birth, exclusions
 *     journal        one line before each engine object is made ("make slot NAME") and one after it
 *                    is gone ("gone slot NAME"); a line without newline was never acknowledged
 *     manifest       the base tree's entries
 *     audit/         events.jsonl and streams/
 */
struct rsbx_state {
    char *engine;
    char *dir;
    int dir_fd;
    int sessions_fd;
};

#define RSBX_NAME_BYTES 112

enum rsbx_journal_stage { RSBX_STAGE_MADE, RSBX_STAGE_READY, RSBX_STAGE_TAKEN };
struct rsbx_journal_item {
    enum rsbx_object_kind kind;
    enum rsbx_journal_stage stage; /* of a slot */
    char name[RSBX_NAME_BYTES];
};
struct rsbx_journal {
    struct rsbx_journal_item *left; /* made (or about to be) and not known to be gone, oldest first */
    size_t left_count;
    uint64_t slots_made, commands_made;
    char *fault; /* the first one, or NULL */
    off_t read;  /* bytes of the file that are in here */
};

struct rsbx_session {
    char id[REPOSBX_SESSION_ID_BYTES];
    char *engine;
    char *audit_dir;
    int state_fd; /* of the state folder, for what sessions share */
    int dir_fd, audit_fd, lock_fd, journal_fd;
    char guest_store[RSBX_NAME_BYTES], baseline_store[RSBX_NAME_BYTES];
    char baseline_owner[REPOSBX_SESSION_ID_BYTES];
    json_t *metadata;
    json_t *spec;
    reposbx_policy *policy;
    struct rsbx_provider *provider; /* opened on first use */
    struct rsbx_audit *audit;       /* opened on first use */
    char *seccomp_profile;          /* text of the policy's profile, or NULL */
    uint64_t slots_made, commands_made;
    struct rsbx_journal journal; /* as far as it was read, see rsbx_journal_follow */
    struct rsbx_hello observed; /* of the last container that this process spoke to */
    bool has_observed;
    int cancel_fd; /* readable: what is made or asked now is given up; -1: nobody cancels */
};

/* -- store.c: folders and documents -- */
/* For what makes or asks something: it hears the session's cancel. What clears up takes a plain one. */
struct rsbx_deadline rsbx_session_deadline(const struct rsbx_session *session, uint64_t milliseconds);
int rsbx_session_folder(struct rsbx_session **out, struct rsbx_state *state, const char *id,
                        bool make, reposbx_error *err);
int rsbx_session_take_lock(struct rsbx_session *session, reposbx_error *err);
/* A session keeps the engine that its documents name, whatever the caller's default is now. */
int rsbx_session_own_engine(struct rsbx_session *session, reposbx_error *err);
int rsbx_session_save(struct rsbx_session *session, const char *name, const json_t *document,
                      reposbx_error *err);
int rsbx_session_load(json_t **out, int dir_fd, const char *name, reposbx_error *err);
/* Removes STATE/sessions/ID with everything in it. */
int rsbx_session_forget(struct rsbx_state *state, const char *id, reposbx_error *err);
bool rsbx_session_id_valid(const char *id);

/* -- journal.c -- */
int rsbx_journal_read(struct rsbx_journal *out, int dir_fd, reposbx_error *err);
/* Reads on in session->journal from where the last call ended. */
int rsbx_journal_follow(struct rsbx_session *session, reposbx_error *err);
/* Of a journal that has grown long, leaves only what still counts. For the session's holder. */
int rsbx_journal_shorten(struct rsbx_session *session, reposbx_error *err);
/* A descriptor that becomes readable when somebody writes to the journal, or -1. */
int rsbx_journal_watch(const struct rsbx_session *session);
void rsbx_journal_dispose(struct rsbx_journal *journal);
/* Durable when it returns. */
int rsbx_journal_make(struct rsbx_session *session, enum rsbx_object_kind kind, const char *name,
                      reposbx_error *err);
/* The same line, not yet durable: whoever makes the object calls rsbx_journal_sync before. */
int rsbx_journal_plan(struct rsbx_session *session, enum rsbx_object_kind kind, const char *name,
                      reposbx_error *err);
int rsbx_journal_sync(struct rsbx_session *session, reposbx_error *err);
/* These are not synced: a line that is lost only makes a later clean-up look once more. */
int rsbx_journal_stage(struct rsbx_session *session, const char *name,
                       enum rsbx_journal_stage stage, reposbx_error *err);
int rsbx_journal_gone(struct rsbx_session *session, enum rsbx_object_kind kind, const char *name,
                      reposbx_error *err);
int rsbx_journal_command(struct rsbx_session *session, reposbx_error *err);
int rsbx_journal_fault(struct rsbx_session *session, const char *text, reposbx_error *err);

/*
 * -- keeper.c --
 * A keeper is a short-lived process of ours that works behind a request: it makes the slot that the
 * next request will take, waits until the present one is over, and removes the used container.
 * Every keeper holds "keepers" (a lock file) shared; close and reap hold it exclusively, so they
 * wait for all of them.
 */
struct rsbx_keeper {
    int done_fd; /* closed when the present request is over; -1: there is no keeper */
    pid_t fork;  /* ends at once, and is reaped at the end */
};
/* Makes each planned slot in the background, and removes `used` (NULL: none) once done_fd is
 * closed. */
struct rsbx_keeper_plan {
    const struct rsbx_slot_want *wants;
    size_t want_count;
    const char *used;
};
int rsbx_keeper_start(struct rsbx_keeper *out, struct rsbx_session *session,
                      const struct rsbx_keeper_plan *plan, reposbx_error *err);
void rsbx_keeper_done(struct rsbx_keeper *keeper);
/* Lets a keeper that holds the lock keepers_fd do the last work of a session; what it cannot do is
 * a fault of the journal. */
int rsbx_keeper_finish(struct rsbx_session *session, int keepers_fd,
                       int (*finish)(struct rsbx_session *session, reposbx_error *err),
                       reposbx_error *err);
/* Makes the keepers' lock. Later there may be no room for it, and what clears up needs it. */
int rsbx_keepers_make(const struct rsbx_session *session, reposbx_error *err);
/* Whether any keeper of the session is alive. */
bool rsbx_keepers_alive(const struct rsbx_session *session);
/* Waits for all of them, and keeps new ones away until the descriptor is closed. */
int rsbx_keepers_wait(int *out_fd, const struct rsbx_session *session, uint64_t wait_ms,
                      reposbx_error *err);

/* -- metadata.c -- */
const char *rsbx_session_state(const struct rsbx_session *session);
/* Whether this version knows what a state means. */
bool rsbx_session_state_known(const char *state);
int rsbx_session_set_state(struct rsbx_session *session, const char *state, const char *reason,
                           reposbx_error *err);
/* Marks the session as fit for close and reap only; keeps the first reason. Never fails: what
 * cannot be written is still true in memory. */
void rsbx_session_poison(struct rsbx_session *session, const char *reason);
/* Whether the lease of a session, given by its documents, is over. */
int rsbx_session_expired(bool *out, const json_t *metadata, const json_t *spec, reposbx_error *err);
/* 0 when commands may run; REPOSBX_ECLOSED or REPOSBX_EPOISONED in words otherwise. */
int rsbx_session_usable(struct rsbx_session *session, reposbx_error *err);

/* -- open.c -- */
/* The text of the seccomp profile in dir_fd/name; *out is left alone when the policy has none. */
int rsbx_session_seccomp(char **out, const reposbx_policy *policy, int dir_fd, const char *name,
                         reposbx_error *err);

/* -- open things -- */
int rsbx_session_provider(struct rsbx_session *session, reposbx_error *err);
int rsbx_session_audit(struct rsbx_session *session, reposbx_error *err);
/* Writes one record; a failure poisons. `data` is stolen (also NULL: out of memory). */
int rsbx_session_record(struct rsbx_session *session, const char *event, json_t *data,
                        enum rsbx_audit_weight weight, reposbx_error *err);
/* At most what a text takes in a record: escaped, and once more in hex when it is not UTF-8. */
uint64_t rsbx_record_bytes(const char *text);
/* Records that a request was refused or failed (error already in err, which is kept) and returns
 * `code`. */
int rsbx_session_refused(struct rsbx_session *session, const char *operation, int code,
                         reposbx_error *err);

/* -- refusals.c -- */
/* Records a creation that was refused or failed in the state folder's own log, as well as it
 * can. */
void rsbx_state_refused(const struct rsbx_state *state, const reposbx_spec *spec, int code,
                        const reposbx_error *why);
/* Records there that a patch was checked without a session. */
int rsbx_state_patch(const struct rsbx_state *state, const reposbx_spec *spec,
                     const reposbx_validate_result *result, reposbx_error *err);

/* Whether the workspace is an overlay over the baseline. */
bool rsbx_session_overlay(const struct rsbx_session *session);

/* -- names -- */
void rsbx_store_name(char out[RSBX_NAME_BYTES], const char *id, const char *role);

/* -- hello.c: is it the container that was asked for? -- */
struct rsbx_slot_want {
    const char *purpose;       /* ends the slot's name; slots of one purpose serve for each other */
    bool pooled;               /* slots of this purpose are kept waiting */
    bool as_reader;            /* uid 0 with the one capability; false: 65532 with none */
    int baseline, workspace;   /* 0 not mounted, 1 read-only, 2 writable */
    bool seeds_guest;          /* of a slot that never runs: the guest's own store is writable */
    int upper;                 /* the same, of an overlay's upper layer */
    reposbx_limits limits;
    bool network, read_only_root;
};
int rsbx_hello_check(const struct rsbx_hello *hello, const struct rsbx_slot_want *want,
                     reposbx_error *err);
uint64_t rsbx_run_bytes(const reposbx_limits *limits);

/* -- slot.c -- */
struct rsbx_slot {
    char name[RSBX_NAME_BYTES];
    struct rsbx_talk *talk;
    struct rsbx_hello hello;
    struct rsbx_keeper keeper;
    bool beside; /* made beside those that wait, none of which it took */
};
/* A waiting slot of the kind, or a new one: connected, greeted, compared. On failure nothing is
 * left (or the session is poisoned). */
int rsbx_slot_take(struct rsbx_slot *out, struct rsbx_session *session,
                   const struct rsbx_slot_want *want, reposbx_error *err);
/* Once the request is on its way: lets a keeper prepare the next slot and remove this one later. */
void rsbx_slot_prepare_next(struct rsbx_slot *slot, struct rsbx_session *session,
                            const struct rsbx_slot_want *next, size_t count);
/* Ends the conversation. The container is removed by the keeper, or here and now when there is
 * none. A failure here poisons and is returned; a keeper's failure poisons the session at its next
 * use. */
int rsbx_slot_drop(struct rsbx_slot *slot, struct rsbx_session *session, reposbx_error *err);
/* Makes and starts the container of a slot that is in the journal. */
int rsbx_slot_launch(struct rsbx_session *session, const struct rsbx_slot_want *want,
                     const char *name, reposbx_error *err);
/* The next slot's name for a want; planned in the journal, not yet durable. */
int rsbx_slot_plan(char name[RSBX_NAME_BYTES], struct rsbx_session *session,
                   const struct rsbx_slot_want *want, reposbx_error *err);
/* What a session keeps waiting. */
struct rsbx_slot_want rsbx_want_command(const struct rsbx_session *session);
/* -- paths.c: the paths of a request, in normal form, byte order, and none below another -- */
struct rsbx_paths {
    char **list;
    size_t count;
};
int rsbx_paths_prepare(struct rsbx_paths *out, const char *const *paths, size_t count,
                       const char *field, reposbx_error *err);
void rsbx_paths_dispose(struct rsbx_paths *paths);

/* -- exec.c -- */
/* The limits of a hello as records tell them; NULL without memory. */
json_t *rsbx_observed_value(const struct rsbx_hello *hello);

/* -- outcome.c -- */
void rsbx_outcome_from_trailer(reposbx_exec_result *result, const struct rsbx_trailer *trailer);

/* -- stores.c -- */
struct rsbx_stores_order {
    bool new_guest, new_baseline; /* false: they are shared with sessions that have filled them */
};
int rsbx_session_make_stores(struct rsbx_session *session, const struct rsbx_stores_order *order,
                             reposbx_error *err);
/* An overlay that could not be mounted makes way for a plain store; the reason is in err. */
int rsbx_session_fall_back(struct rsbx_session *session, reposbx_error *err);

/* Puts files into the fresh stores through a container that never runs. */
int rsbx_session_seed(struct rsbx_session *session, const struct rsbx_slot_want *mounted,
                      const struct rsbx_seed_file *files, size_t count, reposbx_error *err);
/* The slots that the room itself uses. */
struct rsbx_slot_want rsbx_want_control(const struct rsbx_session *session, const char *purpose);
struct rsbx_slot_want rsbx_want_writer(const struct rsbx_session *session, const char *purpose);
/* What the session keeps waiting: how many of out[]. */
#define RSBX_MAX_WAITING_SLOTS 65U
size_t rsbx_want_waiting(struct rsbx_slot_want out[RSBX_MAX_WAITING_SLOTS],
                         const struct rsbx_session *session);
/* Has a keeper make these. A failure shows at their use. */
void rsbx_slots_prepare(struct rsbx_session *session);

/* What a FAIL of the guest means, as our own error. Negative only when the message is no FAIL. */
int rsbx_guest_failure(reposbx_error *failure, const struct rsbx_wire_message *message,
                       reposbx_error *err);

/*
 * One request of the control kind from take to drop: puts the request and texts, feeds, receives.
 * `entry` gets every ENTRY (NULL: unexpected), `data` DATA and END (END: bytes NULL). A FAIL of the
 * guest becomes a typed error.
 */
struct rsbx_ask {
    struct rsbx_slot_want want;
    struct rsbx_request request;
    const char *const *paths;   /* TEXT PATH each */
    size_t path_count;
    const void *content;        /* DATA… END after GO; NULL: none */
    size_t content_length;
    bool send_content;
    int (*refill)(void *payload, struct rsbx_talk *talk, reposbx_error *err);
    const char *const *excludes;
    size_t exclude_count;
    const char *selection;
    const struct rsbx_slot_want *next; /* slots to prepare behind it; NULL: one like `want`, if pooled */
    size_t next_count;
    char *name;                 /* RSBX_NAME_BYTES: gets the name of the container; or NULL */
    const char *after;          /* a container that must have ended before the request is sent, or NULL */
    int (*entry)(void *payload, const struct rsbx_entry *entry, reposbx_error *err);
    int (*data)(void *payload, const uint8_t *bytes, size_t length, reposbx_error *err);
    int (*node)(void *payload, const struct rsbx_node *node, reposbx_error *err); /* of a PACK */
    void *payload;
    uint64_t deadline_ms;
};
int rsbx_session_ask(struct rsbx_trailer *trailer, struct rsbx_session *session,
                     const struct rsbx_ask *ask, reposbx_error *err);

/* -- manifest.c -- */
struct rsbx_manifest_writer;
int rsbx_manifest_begin(struct rsbx_manifest_writer **out, struct rsbx_session *session,
                        reposbx_error *err);
int rsbx_manifest_add(struct rsbx_manifest_writer *writer, const char *path, size_t length,
                      uint32_t mode, const uint8_t oid[20], uint64_t size, reposbx_error *err);
int rsbx_manifest_commit(struct rsbx_manifest_writer *writer, reposbx_error *err);
void rsbx_manifest_free(struct rsbx_manifest_writer *writer);
typedef int (*rsbx_manifest_entry)(void *payload, const char *path, size_t length, uint32_t mode,
                                   const uint8_t oid[20], uint64_t size, reposbx_error *err);
struct rsbx_manifest_view {
    rsbx_manifest_entry entry;
    /* Whether what is below a folder is wanted; NULL: all is. Of a folder that is not, `folder` is told in
     * place of its entries. */
    bool (*wanted)(void *payload, const char *path, size_t length);
    int (*folder)(void *payload, const char *path, size_t length, const uint8_t oid[20],
                  reposbx_error *err);
    void *payload;
};
int rsbx_manifest_read(struct rsbx_session *session, const struct rsbx_manifest_view *view,
                       reposbx_error *err);

/* -- ignored.c -- */
/* The .gitignore files of the baseline, ready to be asked. */
struct rsbx_ignore;
int rsbx_session_ignore(struct rsbx_ignore **out, struct rsbx_session *session,
                        reposbx_error *err);

/* -- create.c: shared with fork -- */
/* The name of a session to be, its folder and its lock. *out is set as soon as the folder is there,
 * also on failure: from then on rsbx_session_undo clears up. */
int rsbx_session_begin(struct rsbx_session **out, struct rsbx_state *state, reposbx_error *err);
/* Writes spec.json: the engine, the moment of birth, `excludes` (borrowed), and `stores` (stolen). */
int rsbx_session_write_spec(struct rsbx_session *session, const json_t *excludes, json_t *stores,
                            reposbx_error *err);
/* The audit folder, metadata.json and the seccomp profile; durable with the folder itself. */
int rsbx_session_write_rest(struct rsbx_session *session, struct rsbx_state *state,
                            reposbx_error *err);
/* sandbox_created, with the limits that a container of the session was seen to have; where none has
 * started, with those `known` (borrowed) of another under the same confinement. */
int rsbx_session_record_created(struct rsbx_session *session, json_t *known, reposbx_error *err);
/* Undoes a creation and frees the session (NULL: nothing); what is left is named behind the
 * error. */
void rsbx_session_undo(struct rsbx_session *session, struct rsbx_state *state, reposbx_error *err);

/* -- fork.c: shared with validate -- */
/* What an UNPACK has made. */
struct rsbx_unpacked {
    uint64_t nodes, bytes;
};
/* Makes the workspace, which is still what the baseline is, into another one: `more` puts nodes and
 * their content, and the END. `prepare`: what the session keeps waiting is made meanwhile. */
int rsbx_session_unpack(struct rsbx_session *session,
                        int (*more)(void *payload, struct rsbx_talk *talk, reposbx_error *err),
                        void *payload, const struct rsbx_unpacked *expected, bool prepare,
                        reposbx_error *err);

/* -- place.c -- */
/* Places the outcome of a patch in a fresh workspace, proves by a diff that this gives its tree, and
 * records both; the diff is the caller's. `sha256` is the patch's. */
struct rsbx_incoming_outcome;
int rsbx_session_place(reposbx_diff_result *diff, struct rsbx_session *session,
                       const struct rsbx_incoming_outcome *outcome, const char *sha256,
                       uint64_t patch_bytes, reposbx_error *err);

/* -- close.c: shared by close, reap and a failed create -- */
/* Removes every object that the journal knows of; counts what is left. The first failure is in
 * err. */
int rsbx_session_clear(struct rsbx_session *session, reposbx_error *err);
/* The same, of containers alone. */
int rsbx_session_clear_slots(struct rsbx_session *session, reposbx_error *err);

#endif
