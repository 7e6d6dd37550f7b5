/* SPDX-License-Identifier: Apache-2.0 */
/* Live output of a command, to our own stdout and stderr. */
#include <errno.h>
#include <poll.h>
#include <unistd.h>

#include "cli.h"
#include "output.h"

/* POLLOUT on a pipe promises room for so much (PIPE_BUF on Linux): a write of it does not block. */
#define PIECE_BYTES 4096U

/* Waits for room; a signal ends the wait, so that a reader who stands still cannot hold us. */
static int wait_for_room(const struct rsbx_cli_stream *stream, int fd)
{
    struct pollfd fds[2] = { { fd, POLLOUT, 0 }, { stream->cancel_fd, POLLIN, 0 } };

    for (;;) {
        int rc = poll(fds, 2, -1);

        if (rc < 0 && errno != EINTR)
            return -1;
        if (rc > 0 && fds[1].revents != 0)
            return 1;
        if (rc > 0)
            return 0;
    }
}

int rsbx_cli_forward(void *payload, int number, const void *bytes, size_t length)
{
    struct rsbx_cli_stream *stream = payload;
    const char *at = bytes;
    int fd = number == 2 ? STDERR_FILENO : STDOUT_FILENO;

    while (length > 0) {
        size_t piece = length < PIECE_BYTES ? length : PIECE_BYTES;
        int rc = wait_for_room(stream, fd);
        ssize_t put;

        if (rc > 0)
            return 1;
        put = rc < 0 ? -1 : write(fd, at, piece);
        if (put < 0 && (errno == EINTR || errno == EAGAIN))
            continue;
        if (put < 0) {
            stream->broken = errno == EPIPE;
            stream->write_errno = errno;
            return 1;
        }
        at += put;
        length -= (size_t)put;
    }
    return 0;
}

void rsbx_cli_fill(reposbx_exec_request *request, const struct rsbx_cli_call *call,
                   const struct rsbx_cli_wishes *wishes, struct rsbx_cli_stream *stream)
{
    request->argv = call->argv;
    request->argc = call->argc;
    request->cwd = wishes->cwd;
    request->env = wishes->env.items;
    request->env_count = wishes->env.count;
    request->timeout_seconds = wishes->timeout;
    request->memory_bytes = wishes->memory;
    request->cpus = wishes->cpus;
    request->pids = wishes->pids;
    request->cancel_fd = stream->cancel_fd;
    if (!call->cli->json) {
        request->output = rsbx_cli_forward;
        request->output_payload = stream;
    }
}

int rsbx_cli_stopped(const struct rsbx_cli *cli, const struct rsbx_cli_stream *stream,
                     const char *then, reposbx_error *err)
{
    int number = rsbx_cli_caught_signal();

    if (stream->broken)
        return RSBX_CLI_PIPE_CLOSED;
    if (stream->write_errno != 0) {
        errno = stream->write_errno;
        (void)rsbx_cli_set_errno(err, REPOSBX_EIO, "cannot pass the output on");
    } else if (number != 0) {
        reposbx_error why = *err;

        /* A hint says that something could not be removed. */
        (void)rsbx_cli_set(err, REPOSBX_ECANCELLED, "interrupted by signal %d: %s", number,
                           why.hint[0] != '\0' ? why.message : then);
        if (why.hint[0] != '\0')
            rsbx_cli_hint(err, "%s", why.hint);
        (void)rsbx_cli_fail(cli, err);
        return RSBX_CLI_SIGNAL_BASE + number;
    }
    return rsbx_cli_fail(cli, err);
}
