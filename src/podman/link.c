/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "podman/internal.h"

#include "base/banned.h"

struct podman_link {
    struct rsbx_link base;
    struct rsbx_podman_process process;
};

static struct rsbx_podman_process *process_of(struct rsbx_link *link)
{
    return &((struct podman_link *)link)->process;
}

static int link_fd(const struct rsbx_link *link)
{
    return ((const struct podman_link *)link)->process.stream_fd;
}

static int link_send(size_t *sent, struct rsbx_link *link, const void *bytes, size_t length,
                     reposbx_error *err)
{
    ssize_t put = send(process_of(link)->stream_fd, bytes, length, MSG_NOSIGNAL);

    if (put < 0 && errno != EAGAIN && errno != EINTR)
        return rsbx_fail_errno(err, REPOSBX_EPROTOCOL, "podman does not read any more");
    *sent = put > 0 ? (size_t)put : 0;
    return REPOSBX_OK;
}

static int link_shutdown(struct rsbx_link *link, reposbx_error *err)
{
    if (shutdown(process_of(link)->stream_fd, SHUT_WR) != 0)
        return rsbx_fail_errno(err, REPOSBX_EPROTOCOL, "podman does not read any more");
    return REPOSBX_OK;
}

static int deliver_complaint(struct rsbx_link *link, rsbx_link_piece piece, void *payload,
                             reposbx_error *err)
{
    RSBX_AUTO(rsbx_buf) struct rsbx_buf text = RSBX_BUF_INIT(RSBX_PODMAN_STDERR_BYTES);
    int rc = rsbx_podman_stderr(&text, process_of(link), err);

    return rc == 0 && text.length > 0 ? piece(payload, 2, text.data, text.length, err) : rc;
}

static int link_receive(bool *ended, struct rsbx_link *link, rsbx_link_piece piece, void *payload,
                        reposbx_error *err)
{
    char bytes[65536];
    ssize_t got = recv(process_of(link)->stream_fd, bytes, sizeof bytes, 0);
    int rc;

    if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
        *ended = false;
        return REPOSBX_OK;
    }
    rc = got > 0 ? piece(payload, 1, bytes, (size_t)got, err)
                 : deliver_complaint(link, piece, payload, err);
    if (rc == 0)
        *ended = got <= 0;
    return rc;
}

static void link_free(struct rsbx_link *link)
{
    rsbx_podman_process_autop(process_of(link));
    free(link);
}

static const struct rsbx_link_ops podman_link_ops = {
    .fd = link_fd,
    .send = link_send,
    .shutdown_send = link_shutdown,
    .receive = link_receive,
    .free = link_free,
};

int rsbx_podman_link(struct rsbx_link **out, const struct rsbx_podman *podman,
                     const char *const *argv, reposbx_error *err)
{
    struct podman_link *link = calloc(1, sizeof *link);
    int rc;

    if (link == NULL)
        return rsbx_fail_memory(err);
    link->base.ops = &podman_link_ops;
    rc = rsbx_podman_start(&link->process, podman, argv, NULL, err);
    if (rc != 0) {
        free(link);
        return rc;
    }
    *out = &link->base;
    return REPOSBX_OK;
}

int rsbx_podman_link_finish(int *exit_code, struct rsbx_link *link, struct rsbx_deadline deadline,
                            reposbx_error *err)
{
    struct rsbx_podman_process *process = process_of(link);
    int status;

    (void)shutdown(process->stream_fd, SHUT_WR);
    for (;;) {
        struct pollfd ready[2] = { { .fd = process->pid_fd, .events = POLLIN },
                                   { .fd = process->stream_fd, .events = POLLIN } };
        char drop[4096];
        int count = poll(ready, 2, rsbx_deadline_left_ms(deadline));

        if (count < 0 && errno != EINTR)
            return rsbx_fail_errno(err, REPOSBX_EINTERNAL, "poll");
        if (count > 0 && ready[0].revents != 0)
            break;
        /* Nobody wants what still comes, but it must not hold the process up. */
        if (count > 0 && ready[1].revents != 0 &&
            recv(process->stream_fd, drop, sizeof drop, 0) == 0)
            rsbx_fd_autop(&process->stream_fd);
        if (rsbx_deadline_passed(deadline))
            return rsbx_fail(err, REPOSBX_EUNAVAILABLE, "podman did not end in time");
    }
    status = rsbx_podman_reap(process);
    *exit_code = status != -1 && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    return REPOSBX_OK;
}

int rsbx_podman_link_complaint(struct rsbx_buf *out, struct rsbx_link *link, reposbx_error *err)
{
    return rsbx_podman_stderr(out, process_of(link), err);
}
