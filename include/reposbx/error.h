/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPOSBX_ERROR_H
#define REPOSBX_ERROR_H

/*
 * Errors of the sandbox itself. How a command inside the sandbox ended is never an error: it is in
 * its result (reposbx_exec_result in session.h, reposbx_run_result in run.h).
 *
 * Every function that can fail returns 0 or one of the negative codes below and takes, as its last
 * parameter, an error that the caller owns (NULL is allowed: then only the code is known). On
 * failure the error is filled once, where the fault was seen, and no output parameter is touched.
 * On success the error is left as it was.
 */

#ifdef __cplusplus
extern "C" {
#endif

enum reposbx_code {
    REPOSBX_OK = 0,
    REPOSBX_EINVALID = -1,      /* invalid_argument: the caller passed something impossible */
    REPOSBX_EMALFORMED = -2,    /* malformed: a document, patch or revision does not parse */
    REPOSBX_ENOTFOUND = -3,     /* not_found: no such session, repository, file */
    REPOSBX_EUNAVAILABLE = -4,  /* unavailable: engine or image not there */
    REPOSBX_EINTERNAL = -5,     /* internal: a bug of ours, or no memory */
    REPOSBX_EEXISTS = -6,       /* exists: the output exists or cannot be created */
    REPOSBX_EIO = -7,           /* io: read, write or fsync failed */
    REPOSBX_EBUSY = -8,         /* busy: locked by someone else; try again */
    REPOSBX_EPROTOCOL = -9,     /* protocol: engine, guest or repository answered nonsense */
    REPOSBX_EPOLICY = -10,      /* policy: refused */
    REPOSBX_ECLOSED = -11,      /* closed: the session is closed or expired */
    REPOSBX_EPOISONED = -12,    /* poisoned: only close and reap still work */
    REPOSBX_ELIMIT = -13,       /* limit: over a bound; nothing was truncated */
    REPOSBX_ECANCELLED = -14    /* cancelled: by the caller */
};

#define REPOSBX_MESSAGE_BYTES 1024 /* with the final NUL */
#define REPOSBX_HINT_BYTES 512     /* with the final NUL */

/* One fault. `message` and `hint` are NUL-terminated printable UTF-8 without control characters;
 * `hint` says what to do next and may be empty. */
typedef struct reposbx_error {
    int code;
    char message[REPOSBX_MESSAGE_BYTES];
    char hint[REPOSBX_HINT_BYTES];
} reposbx_error;

#define REPOSBX_ERROR_INIT { 0, "", "" }

/* The word of a code as in JSON and the manual ("policy", "not_found", …; "ok" for 0). Never NULL;
 * an unknown code gives "internal". */
const char *reposbx_code_word(int code);

#ifdef __cplusplus
}
#endif
#endif
