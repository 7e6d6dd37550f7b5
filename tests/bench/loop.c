/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a program that links the library pays for one request: runs it COUNT times in one process and
 * prints the milliseconds of each, one a line.
 * usage: loop SESSION exec|read COUNT PAUSE_MS    engine and state folder as the command finds them
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <reposbx/reposbx.h>

static double now_ms(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1000.0 + (double)now.tv_nsec / 1e6;
}

static int exec_true(reposbx_session *session, reposbx_error *err)
{
    static const char *const argv[] = { "true" };
    reposbx_exec_request request = REPOSBX_EXEC_REQUEST_INIT;
    reposbx_exec_result result;
    int rc;

    request.argv = argv;
    request.argc = 1;
    rc = reposbx_session_exec(&result, session, &request, err);
    if (rc == 0)
        reposbx_exec_result_dispose(&result);
    return rc;
}

static int read_file(reposbx_session *session, reposbx_error *err)
{
    char *bytes = NULL;
    size_t length;
    int rc = reposbx_session_read(&bytes, &length, session, "d000/f00000", 1 << 20, err);

    free(bytes);
    return rc;
}

int main(int argc, char **argv)
{
    reposbx_provider *provider = NULL;
    reposbx_session *session = NULL;
    reposbx_error err = REPOSBX_ERROR_INIT;
    struct timespec pause;
    int reads, rc;
    long count, pause_ms;

    if (argc != 5) {
        (void)fputs("usage: loop SESSION exec|read COUNT PAUSE_MS\n", stderr);
        return 64;
    }
    reads = strcmp(argv[2], "read") == 0;
    count = strtol(argv[3], NULL, 10);
    pause_ms = strtol(argv[4], NULL, 10);
    pause.tv_sec = pause_ms / 1000;
    pause.tv_nsec = pause_ms % 1000 * 1000000L;
    rc = reposbx_provider_open(&provider, NULL, &err);
    if (rc == 0)
        rc = reposbx_session_open(&session, provider, argv[1], &err);
    for (long i = 0; rc == 0 && i < count; i++) {
        double start;

        (void)nanosleep(&pause, NULL); /* time for the next container to be made */
        start = now_ms();
        rc = reads ? read_file(session, &err) : exec_true(session, &err);
        (void)printf("%.3f\n", now_ms() - start);
    }
    reposbx_session_free(session);
    reposbx_provider_free(provider);
    if (rc != 0)
        (void)fprintf(stderr, "loop: %s\n", err.message);
    return rc == 0 ? 0 : 1;
}
