/* SPDX-License-Identifier: Apache-2.0 */
/* What commands that run something have in common: signals stop it, and values are nobody's. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli.h"
#include "output.h"

/* The handler may only touch these. */
static volatile sig_atomic_t caught_signal;
static int cancel_write_fd = -1;

static void on_signal(int number)
{
    static struct timespec first; /* no handler interrupts another */
    int saved_errno = errno;
    struct timespec now;

    /* Whoever asks again after a while is not kept waiting by an engine: what is left over is in the
     * journal. timeout(1) sends everything twice at once, which is one wish. */
    if (clock_gettime(CLOCK_MONOTONIC, &now) == 0) {
        if (caught_signal == 0) {
            first = now;
        } else if (now.tv_sec - first.tv_sec > 1) {
            (void)signal(number, SIG_DFL);
            (void)raise(number);
        }
    }
    caught_signal = number;
    /* A full pipe is readable already. */
    if (write(cancel_write_fd, "", 1) < 0)
        errno = saved_errno;
    errno = saved_errno;
}

int rsbx_cli_catch_signals(int *cancel_fd, reposbx_error *err)
{
    static const int numbers[] = { SIGINT, SIGTERM, SIGHUP };
    struct sigaction action, old;
    int fds[2];

    if (pipe2(fds, O_CLOEXEC | O_NONBLOCK) < 0)
        return rsbx_cli_set_errno(err, REPOSBX_EIO, "cannot make a pipe");
    *cancel_fd = fds[0];
    cancel_write_fd = fds[1];
    memset(&action, 0, sizeof action);
    action.sa_handler = on_signal;
    (void)sigfillset(&action.sa_mask);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        /* What the caller ignores (nohup) stays ignored. */
        if (sigaction(numbers[i], NULL, &old) == 0 && old.sa_handler != SIG_IGN)
            (void)sigaction(numbers[i], &action, NULL);
    }
    return 0;
}

int rsbx_cli_caught_signal(void)
{
    return (int)caught_signal;
}

int rsbx_cli_hide_values(char **block, const struct rsbx_cli_list *env, reposbx_error *err)
{
    size_t total = 1;
    char *at;

    for (size_t i = 0; i < env->count; i++) {
        /* The value may be a secret by mistake: it is never echoed. */
        if (strchr(env->items[i], '=') == NULL)
            return rsbx_cli_set(err, REPOSBX_EINVALID, "--env: NAME=VALUE is needed");
        total += strlen(env->items[i]) + 1;
    }
    at = *block = malloc(total);
    if (at == NULL)
        return rsbx_cli_set(err, REPOSBX_EINTERNAL, "out of memory");
    for (size_t i = 0; i < env->count; i++) {
        size_t size = strlen(env->items[i]) + 1;
        size_t name = strcspn(env->items[i], "=") + 1;
        /* The items are our own argv, which is ours to write to. */
        char *argument = (char *)(uintptr_t)env->items[i];

        memcpy(at, argument, size);
        memset(argument + name, 'x', size - 1 - name);
        env->items[i] = at;
        at += size;
    }
    return 0;
}

int rsbx_cli_status_code(int status, int exit_code, int signal)
{
    switch ((enum reposbx_exec_status)status) {
    case REPOSBX_EXITED:
        return exit_code & 0xFF;
    case REPOSBX_SIGNALED:
        return RSBX_CLI_SIGNAL_BASE + signal;
    case REPOSBX_TIMED_OUT:
        return RSBX_CLI_TIMED_OUT;
    case REPOSBX_OUTPUT_LIMITED:
        return RSBX_CLI_OUTPUT_LIMITED;
    case REPOSBX_OOM_KILLED:
        return RSBX_CLI_OOM_KILLED;
    case REPOSBX_STATUS_UNKNOWN:
        break;
    }
    return rsbx_cli_exit_code(REPOSBX_EPROTOCOL);
}
