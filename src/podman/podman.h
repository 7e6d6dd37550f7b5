/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RSBX_PODMAN_PODMAN_H
#define RSBX_PODMAN_PODMAN_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/error.h"
#include "provider/provider.h"

/*
 * The podman program, run by an argv: no shell, no daemon, no socket. Every process of it
 *   - is a session of its own (so that a kill reaches its helpers, but not the containers' monitors,
 *     which leave it by themselves),
 *   - starts in "/" with no descriptor of ours but its stdin, stdout and stderr,
 *   - has an environment of our making: HOME (of the password database), PATH, LC_ALL, and
 *     XDG_RUNTIME_DIR and DBUS_SESSION_BUS_ADDRESS where they are the user's own. Nothing else of
 *     the caller's environment reaches it, so CONTAINER_HOST, CONTAINERS_CONF and the like cannot
 *     send a call elsewhere,
 *   - reads no containers.conf and no mounts.conf, of nobody: a container gets what the argv says.
 *
 *     rc = rsbx_podman_open(&podman, "podman", NULL, err);
 *     rc = rsbx_podman_run(&answer, podman, &call, err);
 *     rsbx_podman_answer_dispose(&answer);
 *     rsbx_podman_free(podman);
 *
 * An object is constant once it is open; any number of threads may use it.
 */
struct rsbx_podman;
typedef struct rsbx_podman *rsbx_podman_ptr;

/* Whether an engine address is one of podman's. */
bool rsbx_podman_is_address(const char *address);

/*
 * Finds the program. `address`:
 *
 *     podman[:/absolute/program][?KEY=VALUE[&KEY=VALUE]…]
 *
 * without a program the first that exists of /usr/bin/podman, /usr/local/bin/podman, /bin/podman.
 * Keys are global flags of podman, each at most once: root, runroot, tmpdir, runtime (absolute
 * paths), storage-driver, cgroup-manager (words). `runtime`, when not NULL, takes the place of the
 * address's. Nothing is run. REPOSBX_EINVALID: not such an address; REPOSBX_EUNAVAILABLE: no such
 * program.
 */
int rsbx_podman_open(struct rsbx_podman **out, const char *address, const char *runtime,
                     reposbx_error *err);
void rsbx_podman_free(struct rsbx_podman *podman);
RSBX_CLEANUP(rsbx_podman, rsbx_podman_ptr, rsbx_podman_free);

/* The program's path, and its global flags (ended by NULL), borrowed. */
const char *rsbx_podman_program(const struct rsbx_podman *podman);
const char *const *rsbx_podman_flags(const struct rsbx_podman *podman);

struct rsbx_podman_call {
    const char *const *argv; /* without "podman" and without the global flags; ended by NULL */
    const void *input;       /* its stdin; NULL: empty */
    size_t input_length;
    size_t output_bytes;     /* kept of its stdout; the rest is read and dropped */
    const char *tmpdir;      /* where it may leave files (`podman cp -` does); NULL: its own choice */
    struct rsbx_deadline deadline;
};

struct rsbx_podman_answer {
    struct rsbx_buf out, err; /* of stderr the first 16 KiB */
    int exit_code;            /* -1 when it was killed */
    int signal;               /* 0 when it was not */
    bool timed_out;           /* by us, at the deadline */
    bool cancelled;           /* by us, since the caller wanted it and it did not end soon after */
    bool truncated;           /* stdout was longer than output_bytes */
};
void rsbx_podman_answer_dispose(struct rsbx_podman_answer *answer);
void rsbx_podman_answer_autop(struct rsbx_podman_answer *answer);

/* Runs it to its end. 0 whatever its exit code says; an error only when it could not be run or
 * observed. */
int rsbx_podman_run(struct rsbx_podman_answer *out, const struct rsbx_podman *podman,
                    const struct rsbx_podman_call *call, reposbx_error *err);

/* What an answer that is no success means: fills err with `what` and the reason on its stderr;
 * REPOSBX_ECANCELLED when it was cancelled; REPOSBX_EUNAVAILABLE when it timed out, was killed, or exited
 * with anything but 0; REPOSBX_EPROTOCOL when its output was cut. 0 when it exited with 0 and nothing was
 * cut. */
int rsbx_podman_check(const struct rsbx_podman_answer *answer, const char *what,
                      reposbx_error *err);

/* Runs it and hands out what it printed, which is an error when it did not succeed. */
int rsbx_podman_text(struct rsbx_buf *out, const struct rsbx_podman *podman,
                     const struct rsbx_podman_call *call, const char *what, reposbx_error *err);

/* Starts `podman run --interactive …` or `podman start --attach --interactive …` (the argv says
 * which) and gives the byte stream to its stdin and stdout. What it writes to its stderr arrives as
 * channel 2 when the stream has ended. Freeing the link kills and reaps the process; the container
 * is not its child and has to be removed by name. */
int rsbx_podman_link(struct rsbx_link **out, const struct rsbx_podman *podman,
                     const char *const *argv, reposbx_error *err);

/* Closes the stdin of a link's process and waits until it has ended, without killing it: 0 with
 * its exit code (-1: by a signal), REPOSBX_EUNAVAILABLE when it still runs at the deadline. */
int rsbx_podman_link_finish(int *exit_code, struct rsbx_link *link, struct rsbx_deadline deadline,
                            reposbx_error *err);

/* Appends what a link's process has written to its stderr so far. */
int rsbx_podman_link_complaint(struct rsbx_buf *out, struct rsbx_link *link, reposbx_error *err);

#endif
