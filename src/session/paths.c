/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "base/path.h"
#include "session/internal.h"

#include "base/banned.h"

static int compare_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

void rsbx_paths_dispose(struct rsbx_paths *paths)
{
    for (size_t i = 0; i < paths->count; i++)
        free(paths->list[i]);
    free(paths->list);
    paths->list = NULL;
    paths->count = 0;
}

/* Drops what an earlier one covers; the list is sorted, so that comes first. */
static void drop_covered(struct rsbx_paths *paths)
{
    size_t kept = 0;

    for (size_t i = 0; i < paths->count; i++) {
        bool covered = false;

        for (size_t j = 0; j < kept && !covered; j++)
            covered = rsbx_path_below(paths->list[i], strlen(paths->list[i]), paths->list[j]);
        if (covered)
            free(paths->list[i]);
        else
            paths->list[kept++] = paths->list[i];
    }
    paths->count = kept;
}

int rsbx_paths_prepare(struct rsbx_paths *out, const char *const *paths, size_t count,
                       const char *field, reposbx_error *err)
{
    struct rsbx_paths made = { .list = NULL };
    int rc = REPOSBX_OK;

    if (count > RSBX_MAX_REQUEST_PATHS)
        return rsbx_fail(err, REPOSBX_EPOLICY, "%s: more than %u", field, RSBX_MAX_REQUEST_PATHS);
    made.list = calloc(count + 1, sizeof *made.list);
    if (made.list == NULL)
        return rsbx_fail_memory(err);
    for (size_t i = 0; rc == 0 && i < count; i++) {
        char normal[RSBX_MAX_PATH_BYTES + 1];

        rc = rsbx_path_request(normal, paths[i], false, field, err);
        if (rc == 0 && (made.list[i] = strdup(normal)) == NULL)
            rc = rsbx_fail_memory(err);
        if (rc == 0)
            made.count = i + 1;
    }
    if (rc != 0) {
        rsbx_paths_dispose(&made);
        return rc;
    }
    if (made.count > 1)
        qsort(made.list, made.count, sizeof *made.list, compare_text);
    drop_covered(&made);
    *out = made;
    return REPOSBX_OK;
}
