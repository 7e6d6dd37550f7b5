/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RSBX_TESTS_PLACE_H
#define RSBX_TESTS_PLACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include <reposbx/reposbx.h>

/*
 * A place for tests of whole sessions on a real engine: a folder with a Git repository and a state
 * folder, and the engine of $REPOSBX_TEST_ENGINE with the image $REPOSBX_TEST_IMAGE_ID. Everything
 * here goes through the public API, the engine's own API, or git.
 *
 *     int gate = place_gate();          77 where there is no engine, 1 where one must be
 *     place_make(&place);               in a group's setup
 *     place_leave(&place);              in its teardown: closes what is left
 */
struct place {
    char root[64];       /* of everything, below /tmp */
    char repo[96];       /* the repository's top folder */
    char state[96];      /* the state folder */
    char revision[41];
    char tree[41];
    reposbx_provider *provider;
};

int place_gate(void);
const char *place_image(void);

/* 0 or -1 with the reason on stderr. */
int place_make(struct place *place);
int place_leave(struct place *place);

/* policies/issue-bot.json with this image and a rootful engine, and `changes` (JSON text or NULL)
 * merged into it. */
reposbx_policy *place_policy(const char *image, const char *changes);

/* A new session on the place's repository; fails the test when there is none. Free it with place_free or
 * place_close: what a failed test leaves is closed by place_leave. */
reposbx_session *place_session(struct place *place, const char *changes, const char *workspace);
reposbx_session *place_open(struct place *place, const char *id);
void place_free(reposbx_session *session);
/* Closes and frees, and fails the test when anything of the session is left on the engine. */
void place_close(reposbx_session *session, bool drop_audit);

/* Runs a program of the host: its exit code; its stdout in *out (free()) when out is not NULL. stderr goes
 * nowhere when quiet. `folder` NULL: here. */
int place_run(char **out, size_t *length, const char *folder, const char *const *argv);
#define RUN(out, folder, ...)                                                                      \
    place_run((out), NULL, (folder), (const char *const[]){ __VA_ARGS__, NULL })
/* Same, for git without any configuration of the user. */
#define GIT(out, folder, ...) RUN(out, folder, "git", __VA_ARGS__)

int place_write(const char *folder, const char *name, const void *bytes, size_t length, int mode);

void place_sha256(char *out, const void *bytes, size_t length); /* 65 bytes */

/* "docker" or "podman": which provider the engine's address is of. */
const char *place_provider_name(void);
/* Runs podman with the flags of the engine's address, which must be Podman's: its exit code, and its
 * stdout in *out (free()) when out is not NULL. */
int place_podman(char **out, const char *const *words);
/* An image made of the test's with these instructions (`ENV A=b`, …; ended by NULL): its id. */
#define PLACE_IMAGE_BYTES 80
void place_derive_image(char out[PLACE_IMAGE_BYTES], const char *const *changes);
void place_drop_image(const char *id);

/* Docker's own answer to a GET, POST or DELETE of a path with the API version; NULL unless it is a 2xx
 * (free()). `body` NULL: none. */
char *place_engine(const char *method, const char *path, const char *body);
/* How many containers and volumes of the engine have this text in their names. */
size_t place_left(const char *text);

/* Runs a command of any bytes; fails the test unless the sandbox itself worked. */
void place_exec(reposbx_exec_result *out, reposbx_session *session,
                const reposbx_exec_request *request);
/* The same for `sh -c script`, all limits the policy's. */
void place_sh(reposbx_exec_result *out, reposbx_session *session, const char *script);
/* `sh -c script` must end with 0; gives its stdout (free()). */
char *place_text(reposbx_session *session, const char *script);

#endif
