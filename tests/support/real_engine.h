/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RSBX_TESTS_REAL_ENGINE_H
#define RSBX_TESTS_REAL_ENGINE_H

#include "engine/engine.h"

/*
 * The engine that tests of the tier "real" talk to: $REPOSBX_TEST_ENGINE (unix:///path). A test
 * program begins with
 *
 *     int gate = real_engine_gate();
 *     if (gate != 0)
 *         return gate;
 *
 * and has an engine after that, or has ended: with 77 (skipped) where the variable is unset or the
 * engine does not answer, with 1 where REPOSBX_TEST_MUST_RUN=1 demands it.
 */
int real_engine_gate(void);

/* The address that the gate found, "unix:///…". */
const char *real_engine_address(void);

/* A new handle; the caller frees it. Ends the test program when there is none. */
struct rsbx_engine *real_engine_open(void);

/* A deadline for one call of a test. */
struct rsbx_deadline real_engine_soon(void);

/*
 * A small image with busybox and nothing else: /bin/busybox with links for its applets sh, cat, ls,
 * sleep, echo, id, true, false, mkdir, rm, ln, chmod, dd, head, wc, env, mount, touch, find, ps,
 * kill and mkfifo, and the folders /tmp, /run, /proc, /sys, /dev and /etc. Linux, amd64, no
 * command, no entry point, no volumes. Made on the engine when it is not there; it stays for the
 * next run.
 */
#define REAL_ENGINE_IMAGE "reposbx-test/busybox:1"

/* Makes the image where it is missing and gives its id ("sha256:…", 72 bytes with the NUL) in
 * out[80]. 0, or -1 with the reason on stderr. */
int real_engine_image(char *out);

/* A name that no other test has: "rsbx-test-PREFIX-PID-N" in out[64]. */
void real_engine_name(char *out, const char *prefix);

#endif
