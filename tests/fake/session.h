/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RSBX_TESTS_FAKE_SESSION_H
#define RSBX_TESTS_FAKE_SESSION_H

#include "real/place.h"
#include "support/fake_docker.h"

/* A repository and a state folder (real/place.h) on a fake engine that keeps books. One for each
 * test: *state of its setup and teardown. */
struct fake_place {
    struct fake_docker *fake;
    struct place place;
};

int fake_place_setup(void **state);
int fake_place_teardown(void **state);

/* A create on the repository with `image` on the policy's list, and `changes` (JSON or NULL) merged
 * into policies/issue-bot.json. The policy allows a rootful engine unless the changes say
 * otherwise. */
int fake_place_create(reposbx_session **out, struct fake_place *here, const char *image,
                      const char *changes, reposbx_error *err);

/* The same on an engine that is honest for the time of the create; fails the test without a
 * session. */
reposbx_session *fake_place_session(struct fake_place *here, const char *changes);

/* Runs `true`. */
int fake_place_exec(reposbx_exec_result *out, reposbx_session *session, reposbx_error *err);

/* How many folders there are in `under` of the state folder, those on their way out included. */
size_t fake_place_folders(const struct fake_place *here, const char *under);

/* How many records of this event the session's audit has. */
size_t fake_place_records(const reposbx_session *session, const char *event);

#endif
