/* SPDX-License-Identifier: Apache-2.0 */
#include "base/lazy.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <string.h>

#include "base/cleanup.h"

#include "base/banned.h"

/* The loader's own words, which name the library or the function. */
static int failed(const struct rsbx_lazy *lazy, reposbx_error *err)
{
    const char *reason = dlerror();
    /* The loader keeps no errno: whether we may open anything at all is asked anew. */
    RSBX_AUTO(rsbx_fd) int probe = open("/", O_PATH | O_CLOEXEC);
    int rc;

    if (probe < 0)
        return rsbx_fail_errno(err, REPOSBX_EIO, "cannot load %s", lazy->soname);
    rc = rsbx_fail(err, REPOSBX_EUNAVAILABLE, "cannot load %s: %s", lazy->soname,
                       reason != NULL ? reason : "no reason given");

    rsbx_hint(err, "install the package that it belongs to");
    return rc;
}

static int find_all(struct rsbx_lazy *lazy, void *library, reposbx_error *err)
{
    char *table = lazy->table;
    size_t count = 0;

    for (size_t i = 0; lazy->names[i] != NULL; i++, count++) {
        if (dlsym(library, lazy->names[i]) == NULL)
            return failed(lazy, err);
    }
    if (count * sizeof(void *) != lazy->table_bytes)
        return rsbx_fail(err, REPOSBX_EINTERNAL, "the table of %s has another size", lazy->soname);
    for (size_t i = 0; i < count; i++) {
        void *function = dlsym(library, lazy->names[i]);

        /* POSIX has both kinds of pointers alike (dlsym, "Application usage"). */
        memcpy(table + i * sizeof function, &function, sizeof function);
    }
    return REPOSBX_OK;
}

static int load(struct rsbx_lazy *lazy, reposbx_error *err)
{
    /* Not RTLD_NOW: it would bind every function of everything behind the library, which takes longer than
     * what most calls are for. Those that we call are looked up below. */
    void *library = dlopen(lazy->soname, RTLD_LAZY | RTLD_LOCAL);
    int rc;

    if (library == NULL)
        return failed(lazy, err);
    rc = find_all(lazy, library, err);
    if (rc != 0)
        (void)dlclose(library);
    return rc;
}

int rsbx_lazy_load(struct rsbx_lazy *lazy, reposbx_error *err)
{
    int rc = REPOSBX_OK;

    (void)pthread_mutex_lock(&lazy->lock);
    if (!lazy->loaded)
        rc = load(lazy, err);
    lazy->loaded = lazy->loaded || rc == 0;
    (void)pthread_mutex_unlock(&lazy->lock);
    return rc;
}
