/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"

#include "base/banned.h"

static const struct {
    int code;
    const char *word;
} words[] = {
    { REPOSBX_OK, "ok" },
    { REPOSBX_EINVALID, "invalid_argument" },
    { REPOSBX_EMALFORMED, "malformed" },
    { REPOSBX_ENOTFOUND, "not_found" },
    { REPOSBX_EUNAVAILABLE, "unavailable" },
    { REPOSBX_EINTERNAL, "internal" },
    { REPOSBX_EEXISTS, "exists" },
    { REPOSBX_EIO, "io" },
    { REPOSBX_EBUSY, "busy" },
    { REPOSBX_EPROTOCOL, "protocol" },
    { REPOSBX_EPOLICY, "policy" },
    { REPOSBX_ECLOSED, "closed" },
    { REPOSBX_EPOISONED, "poisoned" },
    { REPOSBX_ELIMIT, "limit" },
    { REPOSBX_ECANCELLED, "cancelled" },
};

const char *reposbx_code_word(int code)
{
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (words[i].code == code)
            return words[i].word;
    }
    return "internal";
}

/* Formats into `out` (size bytes) and makes the text printable; cuts what does not fit. */
static void format_text(char *out, size_t size, const char *format, va_list args)
{
    char raw[REPOSBX_MESSAGE_BYTES];
    int length = vsnprintf(raw, sizeof raw, format, args);

    if (length < 0)
        raw[0] = '\0';
    rsbx_text_printable(out, size, raw, strlen(raw));
}

int rsbx_fail(reposbx_error *err, int code, const char *format, ...)
{
    va_list args;

    if (err == NULL)
        return code;
    va_start(args, format);
    format_text(err->message, sizeof err->message, format, args);
    va_end(args);
    err->code = code;
    err->hint[0] = '\0';
    return code;
}

/* A limit that the caller has set, or the machine's load, is no bug of ours. */
static bool lacks_descriptors(int number)
{
    return number == EMFILE || number == ENFILE;
}

int rsbx_fail_errno(reposbx_error *err, int code, const char *format, ...)
{
    int saved = errno;
    va_list args;
    size_t length;
    char reason[128];

    if (code == REPOSBX_EINTERNAL && lacks_descriptors(saved))
        code = REPOSBX_EIO;
    if (err == NULL)
        return code;
    va_start(args, format);
    format_text(err->message, sizeof err->message, format, args);
    va_end(args);
    length = strlen(err->message);
    (void)snprintf(err->message + length, sizeof err->message - length, ": %s",
                   strerror_r(saved, reason, sizeof reason));
    err->code = code;
    err->hint[0] = '\0';
    if (lacks_descriptors(saved))
        rsbx_hint(err, "raise the limit of open files: ulimit -n");
    errno = saved;
    return code;
}

void rsbx_hint(reposbx_error *err, const char *format, ...)
{
    va_list args;

    if (err == NULL)
        return;
    va_start(args, format);
    format_text(err->hint, sizeof err->hint, format, args);
    va_end(args);
}

void rsbx_context(reposbx_error *err, const char *format, ...)
{
    char old[REPOSBX_MESSAGE_BYTES];
    va_list args;
    size_t length;

    if (err == NULL)
        return;
    memcpy(old, err->message, sizeof old);
    va_start(args, format);
    format_text(err->message, sizeof err->message, format, args);
    va_end(args);
    length = strlen(err->message);
    (void)snprintf(err->message + length, sizeof err->message - length, ": %s", old);
}

int rsbx_fail_memory(reposbx_error *err)
{
    return rsbx_fail(err, REPOSBX_EINTERNAL, "out of memory");
}
