/* SPDX-License-Identifier: Apache-2.0 */
#include "base/fault.h"

#ifdef RSBX_FAULT_POINTS

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/banned.h"

static void log_name(const char *name)
{
    const char *path = getenv("REPOSBX_FAULT_LOG");
    int fd;

    if (path == NULL)
        return;
    fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    if (fd >= 0) {
        (void)dprintf(fd, "%s\n", name);
        (void)close(fd);
    }
}

void rsbx_fault_point(const char *name)
{
    static long passed;
    const char *wanted = getenv("REPOSBX_FAULT");
    size_t length = strlen(name);
    long nth = 1;

    log_name(name);
    if (wanted == NULL || strncmp(wanted, name, length) != 0)
        return;
    if (wanted[length] == ':')
        nth = strtol(wanted + length + 1, NULL, 10);
    else if (wanted[length] != '\0')
        return;
    if (++passed == nth)
        (void)kill(getpid(), SIGKILL);
}

#else
typedef int rsbx_fault_points_are_off;
#endif
