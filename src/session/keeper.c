/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keepers. A container takes the engine some hundred milliseconds to make and some ten to remove; a
 * command that finds one waiting costs a few. So the work goes behind the command, into a process
 * that is forked twice (nobody has to reap it), has a session of its own (a terminal's Ctrl-C does
 * not reach it), no descriptor but the session's, and ends by itself.
 *
 * Invariants:
 *  1. What a keeper will make stands in the journal before it is forked, and durably so before it
 *     is made.
 *  2. The shared lock is taken before the fork and held until the keeper ends, so whoever holds it
 *     exclusively knows that no keeper is left that could still make something.
 *  3. A used container is removed only after done_fd was closed: by the request's end or by the
 *     death of its process.
 *  4. What a keeper could not remove is in the journal as a fault, and poisons the session at its
 *     next use.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/fd.h"
#include "base/limits.h"
#include "session/internal.h"

#include "base/banned.h"

/* Every engine call has its own deadline; a keeper that is stuck all the same (a lock that another
 * thread held at the fork) ends by the alarm, and its lock with it. What it left is in the
 * journal. */
#define STUCK_SECONDS 240U

struct work {
    struct rsbx_session *session;
    const struct rsbx_slot_want *wants;
    char names[RSBX_MAX_WAITING_SLOTS][RSBX_NAME_BYTES];
    size_t count;
    const char *used;
    int done_fd;
    int (*finish)(struct rsbx_session *session, reposbx_error *err); /* instead of the rest */
};

static int open_lock(const struct rsbx_session *session)
{
    return openat(session->dir_fd, "keepers", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
}

int rsbx_keepers_make(const struct rsbx_session *session, reposbx_error *err)
{
    RSBX_AUTO(rsbx_fd) int fd = open_lock(session);

    return fd >= 0 ? REPOSBX_OK : rsbx_fail_errno(err, REPOSBX_EIO, "cannot make the keepers' lock");
}

bool rsbx_keepers_alive(const struct rsbx_session *session)
{
    RSBX_AUTO(rsbx_fd) int fd = open_lock(session);

    return fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) != 0;
}

int rsbx_keepers_wait(int *out_fd, const struct rsbx_session *session, uint64_t wait_ms,
                      reposbx_error *err)
{
    RSBX_AUTO(rsbx_fd) int fd = open_lock(session);
    int locked;

    if (fd < 0)
        return rsbx_fail_errno(err, REPOSBX_EIO, "cannot open the keepers' lock");
    locked = rsbx_wait_lock(fd, LOCK_EX, rsbx_deadline_in_ms(wait_ms));
    if (locked < 0)
        return rsbx_fail_errno(err, REPOSBX_EIO, "cannot lock out the keepers");
    if (locked == 0)
        return rsbx_fail(err, REPOSBX_EBUSY, "work behind the last request goes on");
    *out_fd = rsbx_fd_steal(&fd);
    return REPOSBX_OK;
}

/* ---- inside the keeper ---- */

/* Keeps the session's folder, journal and lock, and what the work needs; everything else goes. */
static void keep_only(const int *keep, size_t count)
{
    int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    unsigned int from = 3;

    if (null_fd < 0 || dup2(null_fd, 0) < 0 || dup2(null_fd, 1) < 0 || dup2(null_fd, 2) < 0)
        _exit(1);
    for (;;) {
        unsigned int next = ~0U;

        for (size_t i = 0; i < count; i++) {
            if (keep[i] >= (int)from && (unsigned int)keep[i] < next)
                next = (unsigned int)keep[i];
        }
        if (from < next)
            (void)syscall(SYS_close_range, from, next == ~0U ? ~0U : next - 1, 0U);
        if (next == ~0U)
            return;
        from = next + 1;
    }
}

static void report_fault(struct rsbx_session *session, const reposbx_error *why)
{
    (void)rsbx_journal_fault(session, why->message, NULL);
}

/* Removes a container; what cannot be removed is a fault. */
static void remove_slot(struct rsbx_session *session, const char *name)
{
    reposbx_error why = REPOSBX_ERROR_INIT;
    int rc = session->provider->ops->destroy(session->provider, RSBX_OBJECT_SLOT, name,
                                             session->id,
                                             rsbx_deadline_in_ms(RSBX_ENGINE_CALL_MS), &why);

    if (rc == 0)
        rc = rsbx_journal_gone(session, RSBX_OBJECT_SLOT, name, &why);
    if (rc != 0)
        report_fault(session, &why);
}

/* A slot that cannot be made is not a fault: the next request makes its own, and tells why it
 * cannot. That a store is gone is one, since that request may be for a slot that mounts another. */
static void make_slot(struct rsbx_session *session, const struct rsbx_slot_want *want,
                      const char *name)
{
    reposbx_error why = REPOSBX_ERROR_INIT;
    int rc = rsbx_slot_launch(session, want, name, &why);

    RSBX_FAULT("keeper.launched");
    if (rc == REPOSBX_EPOISONED)
        report_fault(session, &why);
    if (rc == 0)
        rc = rsbx_journal_stage(session, name, RSBX_STAGE_READY, NULL);
    if (rc != 0)
        remove_slot(session, name);
}

static _Noreturn void keep(struct work *work)
{
    struct rsbx_session *session = work->session;
    reposbx_error why = REPOSBX_ERROR_INIT;
    char byte;

    (void)alarm(STUCK_SECONDS);
    session->provider = NULL; /* the parent's connection is the parent's, and so is its cancel */
    session->cancel_fd = -1;
    if (rsbx_session_provider(session, &why) != 0 || rsbx_journal_sync(session, &why) != 0) {
        report_fault(session, &why);
        _exit(1);
    }
    if (work->finish != NULL) {
        int rc = work->finish(session, &why);

        RSBX_FAULT("keeper.finished");
        if (rc != 0)
            report_fault(session, &why);
        _exit(rc != 0);
    }
    for (size_t i = 0; i < work->count; i++)
        make_slot(session, &work->wants[i], work->names[i]);
    RSBX_FAULT("keeper.made");
    if (work->used != NULL) {
        (void)alarm(0); /* a command may run for hours */
        while (read(work->done_fd, &byte, 1) < 0 && errno == EINTR)
            continue;
        (void)alarm(STUCK_SECONDS);
        remove_slot(session, work->used);
    }
    _exit(0);
}

static _Noreturn void detach(struct work *work, int lock_fd)
{
    const int kept[] = { work->session->state_fd, work->session->dir_fd,
                         work->session->journal_fd, lock_fd, work->done_fd };

    if (fork() != 0)
        _exit(0);
    (void)setsid();
    (void)signal(SIGPIPE, SIG_IGN);
    (void)signal(SIGXFSZ, SIG_IGN);
    (void)signal(SIGINT, SIG_IGN);
    (void)signal(SIGTERM, SIG_DFL);
    (void)signal(SIGALRM, SIG_DFL);
    (void)signal(SIGHUP, SIG_IGN);
    keep_only(kept, sizeof kept / sizeof kept[0]);
    keep(work);
}

/* ---- outside ---- */

int rsbx_keeper_start(struct rsbx_keeper *out, struct rsbx_session *session,
                      const struct rsbx_keeper_plan *plan, reposbx_error *err)
{
    RSBX_AUTO(rsbx_fd) int lock_fd = open_lock(session);
    RSBX_AUTO(rsbx_fd) int read_fd = -1;
    RSBX_AUTO(rsbx_fd) int write_fd = -1;
    struct work work = { .session = session, .wants = plan->wants, .used = plan->used };
    int both[2];
    pid_t child;

    if (lock_fd < 0 || flock(lock_fd, LOCK_SH | LOCK_NB) != 0)
        return rsbx_fail_errno(err, REPOSBX_EIO, "cannot take the keepers' lock");
    if (plan->want_count > RSBX_MAX_WAITING_SLOTS)
        return rsbx_fail(err, REPOSBX_EINTERNAL, "too many slots for one keeper");
    for (; work.count < plan->want_count; work.count++) {
        int rc = rsbx_slot_plan(work.names[work.count], session, &plan->wants[work.count], err);

        if (rc != 0)
            return rc;
    }
    if (pipe2(both, O_CLOEXEC) != 0)
        return rsbx_fail_errno(err, REPOSBX_EINTERNAL, "cannot make a pipe");
    read_fd = both[0];
    write_fd = both[1];
    work.done_fd = read_fd;
    child = fork();
    if (child == 0) {
        (void)close(write_fd);
        detach(&work, lock_fd);
    }
    if (child < 0)
        return rsbx_fail_errno(err, REPOSBX_EINTERNAL, "cannot fork");
    out->fork = child;
    out->done_fd = rsbx_fd_steal(&write_fd);
    return REPOSBX_OK;
}

void rsbx_keeper_done(struct rsbx_keeper *keeper)
{
    if (keeper->done_fd < 0)
        return;
    (void)close(keeper->done_fd);
    keeper->done_fd = -1;
    while (waitpid(keeper->fork, NULL, 0) < 0 && errno == EINTR)
        continue;
}

int rsbx_keeper_finish(struct rsbx_session *session, int keepers_fd,
                       int (*finish)(struct rsbx_session *session, reposbx_error *err),
                       reposbx_error *err)
{
    struct work work = { .session = session, .done_fd = -1, .finish = finish };
    pid_t child = fork();

    if (child == 0)
        detach(&work, keepers_fd);
    if (child < 0)
        return rsbx_fail_errno(err, REPOSBX_EINTERNAL, "cannot fork");
    while (waitpid(child, NULL, 0) < 0 && errno == EINTR)
        continue;
    return REPOSBX_OK;
}
