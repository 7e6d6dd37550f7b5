/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPOSBX_RECEIPT_H
#define REPOSBX_RECEIPT_H

#include <stddef.h>
#include <stdint.h>

#include <reposbx/error.h>
#include <reposbx/session.h>

/*
 * Receipts: one small document that binds what a session was given (revision, tree, image, policy),
 * what ran in it (commands, their ends, hashes of their output, observed limits) and what came out
 * (patch, bundles), with the head of the log that shows it. It is an in-toto Statement, version 1:
 *
 *     {"_type":"https://in-toto.io/Statement/v1",
 *      "subject":[{"name":"patch","digest":{"sha256":"…"}},
 *                 {"name":"bundle-1","digest":{"sha256":"…"}},
 *                 {"name":"audit/events.jsonl","digest":{"sha256":"…"}}],
 *      "predicateType":"https://reposbx.dev/receipt/v1",
 *      "predicate":{"tool","session","source","image","policy","commands","writes","diff",
 *                   "bundles","audit"}}          and "patches", where a validation placed one
 *
 * With a key it is signed, in a DSSE envelope: {"payloadType":"application/vnd.in-toto+json",
 * "payload":base64,"signatures":[{"keyid","sig"}]}, Ed25519, keyid the SHA-256 of the public key's
 * DER form. Without one it shows that things belong together, not who says so.
 *
 * The log's subject is the log as it was then: its first predicate.audit.records lines.
 */

#ifdef __cplusplus
extern "C" {
#endif

#define REPOSBX_RECEIPT_TYPE "https://reposbx.dev/receipt/v1"

typedef struct reposbx_receipt_options {
    unsigned int version;        /* 1 */
    const char *private_key;     /* PEM text of an Ed25519 key without a pass phrase; NULL: none,
                                    the receipt is not signed */
    size_t private_key_length;
} reposbx_receipt_options;
#define REPOSBX_RECEIPT_OPTIONS_INIT { 1, NULL, 0 }

/* The receipt of a session as JSON (free()), from its metadata and its log, which is verified
 * first. The session may go on or be closed, as long as its audit is kept; its lock is not taken.
 * The patch is that of the last diff.
 * REPOSBX_EPROTOCOL: the log is tampered with or torn; REPOSBX_EMALFORMED: the key is none;
 * REPOSBX_ELIMIT: over 32 MiB. `options` may be NULL. */
int reposbx_receipt_make(char **out_json, reposbx_provider *provider, const char *id,
                         const reposbx_receipt_options *options, reposbx_error *err);

enum reposbx_receipt_result {
    REPOSBX_RECEIPT_OK = 0,
    REPOSBX_RECEIPT_FAILED = 1,
    REPOSBX_RECEIPT_NOT_CHECKED = 2  /* what it needs was not given */
};

/* "ok", "failed", "not_checked". */
const char *reposbx_receipt_result_word(int result);

/* One check: "format", "signature", "policy", "patch", "bundle" (one for each), "audit" or
 * "repository". */
typedef struct reposbx_receipt_check {
    const char *name;
    int result;                  /* enum reposbx_receipt_result */
    char detail[512];            /* printable */
} reposbx_receipt_check;

typedef struct reposbx_receipt_report {
    reposbx_receipt_check *checks;
    size_t count;
    size_t failed, not_checked;  /* how many of them */
} reposbx_receipt_report;
void reposbx_receipt_report_dispose(reposbx_receipt_report *report);
/* {"ok","failed","not_checked","checks":[{"name","result","detail"}]} (free()). */
int reposbx_receipt_report_json(char **out, const reposbx_receipt_report *report,
                                reposbx_error *err);

/* What to check the receipt against; NULL where there is none. */
typedef struct reposbx_receipt_verify_options {
    unsigned int version;        /* 1 */
    const char *patch;           /* file */
    const char *const *bundles;  /* files */
    size_t bundle_count;
    const char *audit_dir;       /* a session's audit folder, or a copy; it may have grown since */
    const char *repo;            /* a checkout at the receipt's revision */
    const char *public_key;      /* PEM text */
    size_t public_key_length;
} reposbx_receipt_verify_options;
#define REPOSBX_RECEIPT_VERIFY_OPTIONS_INIT { 1, NULL, NULL, 0, NULL, NULL, NULL, 0 }

/* Checks a receipt offline. A receipt that is not in order is an answer (a failed check), not an
 * error; fails only when something that was given cannot be read (REPOSBX_ENOTFOUND, REPOSBX_EIO) or the public
 * key is none (REPOSBX_EMALFORMED). The patch, bundles and log are compared with what the receipt
 * says of them; the log also says once more everything that the receipt says; the repository is
 * read by a confined process under the rules of the receipt's policy and must have the receipt's
 * tree at the receipt's revision. `options` may be NULL. */
int reposbx_receipt_verify(reposbx_receipt_report *out, const void *receipt, size_t length,
                           const reposbx_receipt_verify_options *options, reposbx_error *err);

#ifdef __cplusplus
}
#endif
#endif
