/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/limits.h"
#include "podman/internal.h"

#include "base/banned.h"

void rsbx_podman_answer_dispose(struct rsbx_podman_answer *answer)
{
    rsbx_buf_dispose(&answer->out);
    rsbx_buf_dispose(&answer->err);
}

void rsbx_podman_answer_autop(struct rsbx_podman_answer *answer)
{
    rsbx_podman_answer_dispose(answer);
}

/* Reads what is there; the end and errors of the stream close it. */
static int read_some(struct rsbx_podman_answer *answer, struct rsbx_podman_process *process,
                     reposbx_error *err)
{
    char piece[65536];
    ssize_t got = recv(process->stream_fd, piece, sizeof piece, 0);
    size_t room = answer->out.limit - answer->out.length;

    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return REPOSBX_OK;
    if (got <= 0) {
        rsbx_fd_autop(&process->stream_fd);
        return REPOSBX_OK;
    }
    if ((size_t)got > room)
        answer->truncated = true;
    return rsbx_buf_append(&answer->out, piece, (size_t)got < room ? (size_t)got : room, err);
}

/* Sends what fits; a process that does not read its stdin any more is not wrong. */
static void send_some(const struct rsbx_podman_call *call, size_t *sent,
                      const struct rsbx_podman_process *process)
{
    ssize_t put = send(process->stream_fd, (const char *)call->input + *sent,
                       call->input_length - *sent, MSG_NOSIGNAL);

    if (put >= 0)
        *sent += (size_t)put;
    else if (errno != EAGAIN && errno != EINTR)
        *sent = call->input_length;
    if (*sent == call->input_length)
        (void)shutdown(process->stream_fd, SHUT_WR);
}

/* Until the process has ended, or is not to be waited for any more, which the answer then says. A
 * process that is asked to be given up is given a while to end by itself: what it makes is half made
 * otherwise. */
static int converse(struct rsbx_podman_answer *answer, struct rsbx_podman_process *process,
                    const struct rsbx_podman_call *call, reposbx_error *err)
{
    struct rsbx_deadline until = call->deadline;
    size_t sent = 0;

    if (call->input_length == 0)
        (void)shutdown(process->stream_fd, SHUT_WR);
    for (;;) {
        bool sending = sent < call->input_length;
        struct pollfd ready[3] = {
            { .fd = process->pid_fd, .events = POLLIN },
            { .fd = process->stream_fd, .events = (short)(sending ? POLLIN | POLLOUT : POLLIN) },
            { .fd = rsbx_deadline_cancel_fd(until), .events = POLLIN },
        };
        int count = poll(ready, 3, rsbx_deadline_left_ms(until));
        int rc = REPOSBX_OK;

        if (count < 0 && errno != EINTR)
            return rsbx_fail_errno(err, REPOSBX_EINTERNAL, "poll");
        if (count > 0 && (ready[1].revents & POLLOUT) != 0)
            send_some(call, &sent, process);
        if (count > 0 && (ready[1].revents & (POLLIN | POLLHUP | POLLERR)) != 0)
            rc = read_some(answer, process, err);
        else if (count > 0 && ready[0].revents != 0)
            return REPOSBX_OK; /* it has ended and everything that it wrote is read */
        if (rc != 0)
            return rc;
        if (count > 0 && ready[2].revents != 0)
            until = rsbx_deadline_min(rsbx_deadline_or(until, NULL),
                                      rsbx_deadline_in_ms(RSBX_CANCEL_GRACE_MS));
        if (rsbx_deadline_passed(until)) {
            answer->cancelled = rsbx_deadline_cancelled(call->deadline);
            answer->timed_out = !answer->cancelled;
            return REPOSBX_OK;
        }
    }
}

int rsbx_podman_run(struct rsbx_podman_answer *out, const struct rsbx_podman *podman,
                    const struct rsbx_podman_call *call, reposbx_error *err)
{
    RSBX_AUTO(rsbx_podman_answer) struct rsbx_podman_answer answer = {
        .out = RSBX_BUF_INIT(call->output_bytes),
        .err = RSBX_BUF_INIT(RSBX_PODMAN_STDERR_BYTES),
        .exit_code = -1,
    };
    RSBX_AUTO(rsbx_podman_process) struct rsbx_podman_process process = RSBX_PODMAN_PROCESS_INIT;
    int status;
    int rc = rsbx_check_cancelled(call->deadline.cancel_fd, err);

    if (rc == 0)
        rc = rsbx_podman_start(&process, podman, call->argv, call->tmpdir, err);
    if (rc == 0)
        rc = converse(&answer, &process, call, err);
    if (rc != 0)
        return rc;
    if (answer.timed_out || answer.cancelled)
        rsbx_podman_kill(&process);
    status = rsbx_podman_reap(&process);
    if (status != -1 && WIFEXITED(status))
        answer.exit_code = WEXITSTATUS(status);
    else if (status != -1 && WIFSIGNALED(status))
        answer.signal = WTERMSIG(status);
    else
        return rsbx_fail(err, REPOSBX_EINTERNAL, "how podman ended cannot be observed");
    rc = rsbx_podman_stderr(&answer.err, &process, err);
    if (rc != 0)
        return rc;
    *out = answer;
    memset(&answer, 0, sizeof answer);
    return REPOSBX_OK;
}

/* The line that says what is wrong: podman marks it, and may add advice. Cuts the text there. */
static const char *reason_of(char *text)
{
    static const char mark[] = "Error: ";
    char *found = NULL;

    for (char *at = strstr(text, mark); at != NULL; at = strstr(at + 1, mark)) {
        if (at == text || at[-1] == '\n')
            found = at;
    }
    if (found == NULL) {
        size_t length = strlen(text);

        while (length > 0 && text[length - 1] == '\n')
            text[--length] = '\0';
        found = strrchr(text, '\n');
        found = found != NULL ? found + 1 : text;
    }
    found[strcspn(found, "\n")] = '\0';
    return found[0] != '\0' ? found : "it gave no reason";
}

int rsbx_podman_check(const struct rsbx_podman_answer *answer, const char *what,
                      reposbx_error *err)
{
    char reason[REPOSBX_MESSAGE_BYTES] = "";

    if (answer->cancelled)
        return rsbx_fail(err, REPOSBX_ECANCELLED, "%s: cancelled by the caller", what);
    if (answer->timed_out)
        return rsbx_fail(err, REPOSBX_EUNAVAILABLE, "%s: podman did not answer in time", what);
    if (answer->signal != 0)
        return rsbx_fail(err, REPOSBX_EUNAVAILABLE, "%s: podman was ended by signal %d", what,
                         answer->signal);
    if (answer->truncated)
        return rsbx_fail(err, REPOSBX_EPROTOCOL, "%s: podman's answer is too long", what);
    if (answer->exit_code == 0)
        return REPOSBX_OK;
    if (answer->err.length > 0) {
        size_t cut = answer->err.length < sizeof reason ? answer->err.length : sizeof reason - 1;

        memcpy(reason, answer->err.data + answer->err.length - cut, cut);
        reason[cut] = '\0';
    }
    return rsbx_fail(err, REPOSBX_EUNAVAILABLE, "%s: %s", what, reason_of(reason));
}

int rsbx_podman_text(struct rsbx_buf *out, const struct rsbx_podman *podman,
                     const struct rsbx_podman_call *call, const char *what, reposbx_error *err)
{
    RSBX_AUTO(rsbx_podman_answer) struct rsbx_podman_answer answer = { 0 };
    int rc = rsbx_podman_run(&answer, podman, call, err);

    if (rc == 0)
        rc = rsbx_podman_check(&answer, what, err);
    if (rc == 0)
        rc = rsbx_buf_append(out, answer.out.data, answer.out.length, err);
    return rc;
}
