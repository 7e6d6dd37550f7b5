/* SPDX-License-Identifier: Apache-2.0 */
#include "fixture.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/fd.h"

#include "base/banned.h"

char folder[64];
char path[128];

int enter(void **state)
{
    (void)state;
    (void)snprintf(folder, sizeof folder, "/tmp/rsbx-artifact-XXXXXX");
    if (mkdtemp(folder) == NULL)
        return -1;
    (void)snprintf(path, sizeof path, "%s/out.zip", folder);
    return 0;
}

int leave(void **state)
{
    (void)state;
    (void)umask(022); /* which some tests change */
    return rsbx_remove_tree_at(AT_FDCWD, folder, NULL);
}

size_t files_in(const char *place)
{
    DIR *stream = opendir(place);
    size_t count = 0;

    if (stream == NULL)
        return SIZE_MAX;
    for (struct dirent *entry = readdir(stream); entry != NULL; entry = readdir(stream))
        count += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
    (void)closedir(stream);
    return count;
}

struct rsbx_bundle *new_bundle(const struct rsbx_bundle_limits *limits)
{
    struct rsbx_bundle *bundle = NULL;

    if (rsbx_bundle_new(&bundle, limits, NULL) != 0)
        abort();
    return bundle;
}
