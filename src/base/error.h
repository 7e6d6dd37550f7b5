/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RSBX_BASE_ERROR_H
#define RSBX_BASE_ERROR_H

#include <reposbx/error.h>

/*
 * Filling a reposbx_error. Set it once, where the fault is seen; add context only at the edge of a
 * room. None of these allocates, so every error path may use them. Text that comes from outside
 * (names, engine messages) may be passed with %s: control characters and bad UTF-8 are replaced.
 *
 *     if (fd < 0)
 *         return rsbx_fail_errno(err, REPOSBX_EIO, "cannot open %s", path);
 */

/* Fills err (when not NULL) and returns code. Clears the hint. */
int rsbx_fail(reposbx_error *err, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The same, with ": " and the text of errno behind the message. Keeps errno. Where no descriptor was
 * left REPOSBX_EINTERNAL becomes REPOSBX_EIO, which is what it returns. */
int rsbx_fail_errno(reposbx_error *err, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Sets the hint of an error that is already set. */
void rsbx_hint(reposbx_error *err, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Puts "context: " in front of the message of an error that is already set. */
void rsbx_context(reposbx_error *err, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* "out of memory" as REPOSBX_EINTERNAL. */
int rsbx_fail_memory(reposbx_error *err);

#endif
