/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz/seed.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/fd.h"

void seed_write(const char *folder, const char *name, const void *bytes, size_t length)
{
    RSBX_AUTO(rsbx_fd) int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    reposbx_error err = REPOSBX_ERROR_INIT;

    if (rsbx_replace_file_at(fd, name, bytes, length, &err) != 0) {
        (void)fprintf(stderr, "%s: %s\n", folder, err.message);
        exit(1);
    }
}

void seed_must(bool holds)
{
    if (!holds)
        abort();
}
