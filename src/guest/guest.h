/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RSBX_GUEST_GUEST_H
#define RSBX_GUEST_GUEST_H

#include <stddef.h>
#include <stdint.h>

#include "guest/protocol.h"

/* Exit codes of the guest: done or abandoned by the controller, nonsense on stdin, not PID 1. */
#define RSBX_GUEST_EXIT_DONE 0
#define RSBX_GUEST_EXIT_MALFORMED 70
#define RSBX_GUEST_EXIT_NOT_INIT 71

/* The one request with its texts, each NUL-terminated; argv and envp end with NULL. */
struct rsbx_guest_request {
    struct rsbx_request head;
    char **argv, **envp;
    char **paths, **excludes;
    size_t path_count, exclude_count;
    char *cwd;       /* NULL when none came */
    char *selection; /* NULL when none came */
    size_t argc, envc;
    size_t text_bytes;
};

struct rsbx_guest {
    struct rsbx_guest_request request;
    struct rsbx_trailer trailer;
    uint64_t start_ns;        /* CLOCK_MONOTONIC when GO came */
    uint64_t oom_kills_before;
};

/* Reads REQUEST, TEXT… and GO; ends the guest on anything else. */
void rsbx_request_receive(struct rsbx_guest_request *out);

/* What a message of this operation that has no place here means: exit 70. */
_Noreturn void rsbx_guest_malformed(void);
/* FAIL with "what: path" (path may be NULL), the trailer, and the end of the guest. */
_Noreturn void rsbx_guest_fail(struct rsbx_guest *guest, int error, const char *what,
                               const char *path, size_t path_length);
/* Counts one entry against max_entries; EOVERFLOW beyond it. */
void rsbx_guest_count_entry(struct rsbx_guest *guest);

uint64_t rsbx_guest_now_ns(void);

/* The operations. Each returns when its work is done; main sends the trailer. */
void rsbx_guest_exec(struct rsbx_guest *guest);
void rsbx_guest_fill(struct rsbx_guest *guest);
void rsbx_guest_seal(struct rsbx_guest *guest);
void rsbx_guest_list(struct rsbx_guest *guest);
void rsbx_guest_read(struct rsbx_guest *guest);
void rsbx_guest_write(struct rsbx_guest *guest);
void rsbx_guest_scan(struct rsbx_guest *guest);
void rsbx_guest_collect(struct rsbx_guest *guest);
void rsbx_guest_pack(struct rsbx_guest *guest);
void rsbx_guest_unpack(struct rsbx_guest *guest);

#endif
