/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RSBX_TEST_GUEST_BOX_H
#define RSBX_TEST_GUEST_BOX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "guest/protocol.h"

/*
 * The built guest as PID 1 of a new PID, mount and network namespace, with a small root of its own
 * (busybox, /proc, /tmp, /run, /dev/null, /workspace, /reposbx) and the controller's end of its
 * stdin and stdout. Baseline and workspace are folders of the host, so tests look at them directly.
 * A failure of the harness itself is a failed assertion; every wait is bounded.
 */

#define BOX_WAIT_MS 20000

struct box {
    char folder[64];                       /* scratch, removed by box_close */
    char baseline[96], workspace[96];
    pid_t pid;                             /* outside parent of the guest; 0: not running */
    int in_fd, out_fd;
    uint32_t sent, received;               /* sequences */
    bool root;                             /* run as uid 0; else RSBX_GUEST_UID, no_new_privs */
};

struct bytes {
    uint8_t *data;
    size_t length, room;
};

/* What came of one request. */
struct reply {
    struct bytes out, err;
    struct bytes entries; /* one line an entry: "change reason old new old_size new_size path" */
    struct bytes data;    /* DATA and END: content, then '|' */
    struct rsbx_trailer trailer;
    uint32_t fail_error;
    char fail_text[512];
};

/* 77, or 1 where REPOSBX_TEST_MUST_RUN=1, when these tests cannot run here; 0 when they can. */
int box_unavailable(bool need_busybox);

void box_open(struct box *box);  /* makes the folders */
void box_start(struct box *box); /* starts the guest; again after box_end */
/* GREETING and HELLO. */
void box_greet(struct box *box, struct rsbx_hello *hello);
void box_send(struct box *box, uint16_t type, const void *bytes, size_t length);
void box_text(struct box *box, uint32_t kind, const char *text);
void box_request(struct box *box, const struct rsbx_request *request);
void box_go(struct box *box);
/* One message; the payload is valid until the next. */
void box_receive(struct box *box, uint16_t *type, const uint8_t **payload, size_t *length);
/* All up to the trailer, and that the guest ends with 0 after it. */
void box_reply(struct box *box, struct reply *reply);
/* Waits for the end: its exit code, 128 + signal. */
int box_end(struct box *box);
void box_close(struct box *box);

/* A whole request without content: start, greet, request, one text (may be NULL), go, reply. */
void box_simple(struct box *box, struct reply *reply, struct rsbx_request request, uint32_t kind,
                const char *text);
/* EXEC of /bin/sh -c script. */
void box_shell(struct box *box, struct reply *reply, const char *script, uint64_t timeout_ms,
               uint64_t max_bytes);
void box_begin_exec(struct box *box, const char *const *argv, uint32_t flags, uint64_t timeout_ms,
                    uint64_t max_bytes);

void reply_free(struct reply *reply);
void bytes_add(struct bytes *bytes, const void *data, size_t length);
const char *bytes_text(struct bytes *bytes); /* NUL-terminated */

#endif
