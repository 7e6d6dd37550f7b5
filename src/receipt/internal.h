/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RSBX_RECEIPT_INTERNAL_H
#define RSBX_RECEIPT_INTERNAL_H

#include <stddef.h>
#include <stdint.h>

#include <reposbx/receipt.h>

#include "base/buf.h"
#include "codec/json.h"

/*
 * What the files of this room share. A predicate is worked out from a log alone (gather.c), so the
 * same code makes it and, at verification, says what it must have been. make.c puts it into a
 * statement; dsse.c signs and opens envelopes; verify.c compares.
 */
#define RSBX_STATEMENT_TYPE "https://in-toto.io/Statement/v1"
#define RSBX_PAYLOAD_TYPE "application/vnd.in-toto+json"
/* Receipt and envelope: a session of a thousand commands has some MiB. */
#define RSBX_MAX_RECEIPT_BYTES (64U * 1024U * 1024U)

/* -- gather.c -- */
/* The predicate but for "tool", from the first `records` records of the log in `folder`, whose last
 * one must have the hash `head`. The chain is followed once more: what is read is what was verified.
 * *metadata (NULL: not wanted) is the document that the session was made with. Both are new. */
int rsbx_receipt_gather(json_t **predicate, json_t **metadata, const char *folder,
                        uint64_t records, const char *head, reposbx_error *err);
/* The subjects that belong to a predicate. */
int rsbx_receipt_subjects(json_t **out, const json_t *predicate, reposbx_error *err);
/* SHA-256 of the canonical form of a policy document. */
int rsbx_receipt_policy_digest(char out[65], const json_t *document, reposbx_error *err);

/* -- dsse.c -- */
/* Envelope text around `payload`, signed with a private key. */
int rsbx_dsse_sign(char **out, const char *payload, size_t length, const char *pem,
                   size_t pem_length, reposbx_error *err);
/* The payload of an envelope of our type, not yet trusted. REPOSBX_EMALFORMED: it is none. */
int rsbx_dsse_payload(struct rsbx_buf *out, const json_t *envelope, reposbx_error *err);
/* Whether one of the envelope's signatures is the key's. *good is set on success. */
int rsbx_dsse_check(bool *good, const json_t *envelope, const struct rsbx_buf *payload,
                    const char *pem, size_t pem_length, reposbx_error *err);
/* REPOSBX_EMALFORMED when the text holds no Ed25519 public key. */
int rsbx_dsse_public_key(const char *pem, size_t pem_length, reposbx_error *err);

#endif
