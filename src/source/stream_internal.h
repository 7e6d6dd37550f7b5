/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RSBX_SOURCE_STREAM_INTERNAL_H
#define RSBX_SOURCE_STREAM_INTERNAL_H

#include <openssl/evp.h>

#include "base/child.h"
#include "base/clock.h"
#include "source/internal.h"

/*
 * The parent's end of the pipe: stream.c leads, answer.c reads what the child says, entry.c holds its
 * entries against the options.
 */
#define RSBX_STREAM_BYTES (1024U * 1024U)
/* What a child may take to end after its last word. */
#define RSBX_STREAM_LAST_MS 10000U

struct rsbx_source {
    struct rsbx_child child;
    struct rsbx_deadline deadline;
    struct rsbx_source_options options; /* its strings are not used here */
    struct rsbx_source_facts facts;
    char revision[RSBX_OID_HEX_BYTES];
    reposbx_error failed; /* code 0: not */
    bool done;
    uint8_t *buffer;
    size_t at, used;

    struct rsbx_treeid *treeid;
    EVP_MD *sha1;
    EVP_MD_CTX *context;

    /* The present entry. */
    bool entry_waits; /* its note was handed out first */
    bool in_blob;
    uint64_t left;
    uint32_t mode;
    struct rsbx_source_event entry;
    char path[RSBX_MAX_PATH_BYTES + 1];
    size_t path_length;
    char previous[RSBX_MAX_PATH_BYTES + 1];
    size_t previous_length;
    bool any;
    uint8_t *linked;
    uint64_t files, bytes, linked_bytes, leaves;
    char note[2 * RSBX_MAX_PATH_BYTES];
};

/* ---- answer.c ---- */

int rsbx_source_nonsense(const char *what, reposbx_error *err);
/* Reads until `length` bytes (at most the buffer) stand at buffer + at. */
int rsbx_source_need(struct rsbx_source *source, size_t length, reposbx_error *err);
/* The next `length` bytes, of any number, into out. */
int rsbx_source_take(void *out, struct rsbx_source *source, size_t length, reposbx_error *err);
/* An error message of the child becomes ours. */
int rsbx_source_take_error(struct rsbx_source *source, reposbx_error *err);

/* ---- entry.c ---- */

/* Reads head and path of an E or O message into the source, and checks them. */
int rsbx_source_take_entry(struct rsbx_source *source, bool omitted, reposbx_error *err);
/* What is to be said of the present entry, which is left out or read as another one. */
void rsbx_source_give_note(struct rsbx_source_event *out, struct rsbx_source *source);

#endif
