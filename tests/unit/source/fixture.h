/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RSBX_TESTS_SOURCE_FIXTURE_H
#define RSBX_TESTS_SOURCE_FIXTURE_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>

#include <cmocka.h>

#include "source/source.h"

/*
 * Repositories for tests, made by the git command without anyone's configuration, and by objects
 * that are written as bytes. Every helper asserts that it worked.
 */
struct fx {
    char top[64];  /* a fresh folder */
    char repo[96]; /* top/repo */
};

/* cmocka setup and teardown: *state is a struct fx with an empty repository. */
int fx_setup(void **state);
int fx_teardown(void **state);

/* A path below the repository, in a static buffer that the next four calls leave alone. */
const char *fx_path(const struct fx *fx, const char *relative);
void fx_write(const struct fx *fx, const char *relative, const void *bytes, size_t length);
void fx_text(const struct fx *fx, const char *relative, const char *text);
void fx_symlink(const struct fx *fx, const char *target, const char *relative);

/* git in the repository: its first line of output (without newline) in out, which may be NULL. */
void fx_git(char out[128], const struct fx *fx, const char *const *argv);
#define FX_GIT(out, fx, ...) fx_git(out, fx, (const char *const[]){ "git", __VA_ARGS__, NULL })
/* git add everything, commit, and the commit's id. */
void fx_commit_all(char out[41], const struct fx *fx);

/* A file that holds these bytes as a zlib stream; and where a loose object lies. */
void fx_stored(const struct fx *fx, const char *relative, const void *bytes, size_t length);
void fx_loose_name(char out[64], const char *hex);
/* A loose object of any bytes, valid or not. */
void fx_object(char out[41], const struct fx *fx, const char *type, const void *bytes,
               size_t length);
void fx_blob(char out[41], const struct fx *fx, const char *text);

struct fx_tree {
    size_t length;
    uint8_t bytes[65536];
};
void fx_entry(struct fx_tree *tree, const char *mode, const void *name, size_t name_length,
              const char *hex);
void fx_tree_object(char out[41], const struct fx *fx, const struct fx_tree *tree);
/* A commit of that tree, with HEAD at it. */
void fx_commit_tree(char out[41], const struct fx *fx, const char *tree);

/* What a source gave. */
struct fx_result {
    int rc;
    reposbx_error err;
    struct rsbx_source_facts facts;
    uint64_t files;
    uint64_t bytes;
    uint64_t notes;
    uint64_t fingerprint_entries;
    char fingerprint[RSBX_FINGERPRINT_BYTES];
    char rest[65];
    char paths[16384];   /* "mode path\n" each, cut when full */
    char note[512];      /* the last one */
    char content[16384]; /* all bytes one after the other, cut when full */
    size_t content_length;
};

/* Options with the policy's defaults. */
struct rsbx_source_options fx_options(const struct fx *fx, const char *revision);
/* Opens, reads to the end, closes. */
void fx_read(struct fx_result *out, const struct rsbx_source_options *options);
/* Reads and demands this code and these words in the message (NULL: any), in this time. */
#define FX_LATE_MS 40000U
void fx_expect(struct fx_result *out, const struct rsbx_source_options *options, int code,
               const char *words);

#endif
