/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RSBX_TESTS_ONE_SESSION_H
#define RSBX_TESTS_ONE_SESSION_H

#include "real/group.h"

/*
 * A group whose tests share one session as well, which group_teardown frees.
 */
extern reposbx_session *session;
/* The place and a session under a policy with `changes` (place_session). */
int session_setup(const char *changes);

reposbx_exec_request request_of(const char *const *argv, size_t argc);
/* That the request is refused with this code, and the message names what is wrong. */
void refused(const reposbx_exec_request *request, int code, const char *naming);
/* That the session runs a command. */
void still_works(void);

#endif
