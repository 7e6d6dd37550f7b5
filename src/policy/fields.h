/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RSBX_POLICY_FIELDS_H
#define RSBX_POLICY_FIELDS_H

#include <stddef.h>
#include <stdint.h>

#include "policy/policy.h"

/*
 * The policy document as one table: parser, defaults' printer and checks read the same rows, in the
 * order of the documentation. Private to this room.
 */
enum rsbx_field_kind {
    RSBX_FIELD_NAME,      /* char *: [A-Za-z0-9][A-Za-z0-9_.-]{0,127} */
    RSBX_FIELD_IMAGES,    /* images and image_count */
    RSBX_FIELD_FLAG,      /* bool, true or false */
    RSBX_FIELD_SWITCH,    /* bool, as the first (false) or second (true) word */
    RSBX_FIELD_CHOICE,    /* enum, as one of the words */
    RSBX_FIELD_PATH,      /* char *: absolute path, or null */
    RSBX_FIELD_RUNTIME,   /* char *: name of a runtime, or null */
    RSBX_FIELD_IMAGE,     /* char *: an image reference, or null */
    RSBX_FIELD_COUNT,     /* uint64_t */
    RSBX_FIELD_COUNT32,   /* uint32_t */
    RSBX_FIELD_COUNT_NULL, /* uint64_t, 0 for null */
    RSBX_FIELD_NUMBER     /* double */
};

struct rsbx_field {
    const char *section;  /* "" at the top level */
    const char *key;
    enum rsbx_field_kind kind;
    size_t offset;        /* in reposbx_policy */
    double least, most;   /* of the numeric kinds; exact up to 2^53 */
    const char *words[4]; /* NULL-terminated */
};

#define RSBX_FIELD_COUNT_ALL 37U
extern const struct rsbx_field rsbx_policy_fields[RSBX_FIELD_COUNT_ALL];
/* "source", "workspace", "session", "run", "limits". */
#define RSBX_SECTION_COUNT 5U
extern const char *const rsbx_policy_sections[RSBX_SECTION_COUNT];

/* A policy with every default in it. NULL without memory. */
reposbx_policy *rsbx_policy_new(void);

/* Bounds that requests share with the document. */
#define RSBX_LEAST_MEMORY_BYTES (6ULL * 1024ULL * 1024ULL)
#define RSBX_LEAST_CPUS 0.01
#define RSBX_LEAST_PIDS 2U
#define RSBX_LEAST_TIMEOUT_SECONDS 0.001
#define RSBX_MAX_POLICY_IMAGES 1000U
#define RSBX_MAX_IMAGE_BYTES 512U

/* [A-Za-z0-9][A-Za-z0-9_.-]{0,most-1} */
bool rsbx_plain_name(const char *text, size_t most);

/* Why the text is no image reference, or NULL when it is one. */
const char *rsbx_image_problem(const char *image);

/* The mistakes of one document. */
#define RSBX_MAX_PROBLEMS 100U
struct rsbx_problems {
    const char *text; /* borrowed while it is read */
    size_t length;
    reposbx_policy_problem list[RSBX_MAX_PROBLEMS + 1];
    size_t count;
    size_t dropped; /* found after the list was full */
};

/* Keeps a mistake at the place of `path` (rsbx_json_locate's; what is not found is put at the start
 * of the document; NULL: no place). Texts of the document may be given with %s. */
void rsbx_policy_note(struct rsbx_problems *problems, const char *path, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void rsbx_policy_note_syntax(struct rsbx_problems *problems, const json_error_t *fault);
/* In the order of their place, and one line more about those that the list could not hold. */
void rsbx_policy_sort_problems(struct rsbx_problems *problems);

/* Reads a document: either *out is a policy and there is no problem, or there is at least one. The
 * return value tells of failures of our own (no memory) alone. */
int rsbx_policy_read(reposbx_policy **out, struct rsbx_problems *problems, const char *text,
                     size_t length, reposbx_error *err);

/* A policy that the library carries. */
struct rsbx_shipped_policy {
    const char *name;
    const unsigned char *text;
    size_t length;
};
extern const struct rsbx_shipped_policy rsbx_shipped_policies[];
extern const size_t rsbx_shipped_policy_count;

#endif
