/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RSBX_AUDIT_AUDIT_H
#define RSBX_AUDIT_AUDIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <reposbx/audit.h>

#include "base/cleanup.h"
#include "codec/json.h"

/*
 * The append-only chained log of one session: FOLDER/events.jsonl, one ASCII line a record:
 *
 *     {"seq":0,"time":"2026-01-02T03:04:05.678Z","monotonic_ns":…,"boot_id":"…","event":"…",
 *      "data":{…},"prev":"64 hex","sum":"64 hex"}
 *
 * `prev` is the SHA-256 of the line before it without its newline; 64 zeros in the first. `sum` is
 * the SHA-256 of the line's own bytes before `,"sum"`: it shows a changed byte in the last record,
 * which no `prev` covers yet. Beside the log stands FOLDER/head.json (count, place and hash of the
 * last acknowledged record): it shows that records are missing at the end, and tells an
 * acknowledged record from one that a crash cut. It is made before the log: a log without one was
 * tampered with. rsbx_audit_append returns only after fsync: what
 * it acknowledged survives a crash. Room for the closing records is reserved from the start
 * (RSBX_AUDIT_RESERVE_BYTES): an ordinary record that would cut into it is not written
 * (REPOSBX_ELIMIT), and one "audit_full" record is written in its stead. Final records may use the
 * reserve.
 *
 *     rsbx_audit_open(&audit, dir_fd, limit_bytes, err)      creates or continues; a torn last line
 *                                                    is cut off and a "recovered" record says so
 *     rsbx_audit_append(audit, "command_started", data, RSBX_AUDIT_ORDINARY, err)
 *     rsbx_audit_free(audit)
 *
 * Nothing is written, and the log stays usable, on REPOSBX_ELIMIT (also a record over
 * RSBX_MAX_RECORD_BYTES), REPOSBX_EINVALID (no event name, no object, data that JSON cannot carry)
 * and REPOSBX_ECLOSED ("sandbox_closed" is the final record: nothing follows it; appending it again
 * is done already). Any other error of append means that the log's state is not known: the audit
 * refuses everything from then on (REPOSBX_EIO), and the caller poisons the session.
 */
struct rsbx_audit;
typedef struct rsbx_audit *rsbx_audit_ptr;

#define RSBX_AUDIT_RESERVE_BYTES 65536U
enum rsbx_audit_weight { RSBX_AUDIT_ORDINARY, RSBX_AUDIT_FINAL };

/* Continuing a log that lost acknowledged records, or whose last one was changed, is REPOSBX_EIO.
 * `dir_fd`: the audit folder (borrowed, must stay open). `limit_bytes` bounds events.jsonl and the
 * captured streams together; `used` by streams is told with rsbx_audit_charge. */
int rsbx_audit_open(struct rsbx_audit **out, int dir_fd, uint64_t limit_bytes, reposbx_error *err);
void rsbx_audit_free(struct rsbx_audit *audit);
RSBX_CLEANUP(rsbx_audit, rsbx_audit_ptr, rsbx_audit_free);

/* `data` is a JSON object (borrowed). */
int rsbx_audit_append(struct rsbx_audit *audit, const char *event, const json_t *data,
                      enum rsbx_audit_weight weight, reposbx_error *err);

/* Whether `bytes` more of captured streams fit; counts them when they do, else REPOSBX_ELIMIT. */
int rsbx_audit_charge(struct rsbx_audit *audit, uint64_t bytes, reposbx_error *err);
uint64_t rsbx_audit_left(const struct rsbx_audit *audit);

uint64_t rsbx_audit_count(const struct rsbx_audit *audit);
/* Hash of the last record, hex; 64 zeros when there is none. */
const char *rsbx_audit_head(const struct rsbx_audit *audit);

/* One record into the log AT/audit that several processes share (AT/audit.lock). A full log becomes
 * AT/audit.old, in the place of the one before, and a new one begins. */
int rsbx_audit_roll(int at_fd, uint64_t limit_bytes, const char *event, const json_t *data,
                    reposbx_error *err);

/*
 * A captured stream beside the log: FOLDER/streams/NAME, 0600, O_EXCL. Written in pieces; sealed
 * with fsync before its hash goes into a record ({"file":"streams/NAME","bytes":…,"sha256":"…"}
 * under "stdout" and "stderr" of a "command_finished" record is what verify compares; no "file", no
 * claim). NAME: letters, digits, '.', '_', '-', not starting with '.'. Room is taken with
 * rsbx_audit_charge by the caller. A failed write leaves the pieces before it: they can still be
 * sealed.
 */
struct rsbx_capture;
int rsbx_capture_open(struct rsbx_capture **out, struct rsbx_audit *audit, const char *name,
                      reposbx_error *err);
int rsbx_capture_write(struct rsbx_capture *capture, const void *bytes, size_t length,
                       reposbx_error *err);
/* Syncs; gives bytes and hash. Nothing can be written after; sealing again gives the same. */
int rsbx_capture_seal(uint64_t *bytes, char sha256[65], struct rsbx_capture *capture,
                      reposbx_error *err);
void rsbx_capture_free(struct rsbx_capture *capture);

#endif
