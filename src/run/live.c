/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which containers live, one file for each process that has any:
 *
 *     engine ADDRESS
 *     runtime NAME          only where there is one
 *     make NAME             durable before the container is made
 *     gone NAME             after it was seen to be gone
 *
 * The file is locked by its process for as long as that lives. Who finds it unlocked removes what is
 * made and not gone, and then the file.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/lister.h"
#include "base/text.h"
#include "run/internal.h"

#include "base/banned.h"

static int put(const struct rsbx_live *live, const char *verb, const char *text, reposbx_error *err)
{
    RSBX_AUTO(rsbx_text) char *line = NULL;
    int length = asprintf(&line, "%s %s\n", verb, text);

    if (length < 0) {
        line = NULL;
        return rsbx_fail_memory(err);
    }
    /* One write: whole, or torn by a crash and then without its newline. */
    if (write(live->fd, line, (size_t)length) != length)
        return rsbx_fail_errno(err, REPOSBX_EIO, "cannot write the list of containers");
    return REPOSBX_OK;
}

static int make_file(struct rsbx_live *live, const struct rsbx_run_place *place, reposbx_error *err)
{
    unsigned char salt[8];
    char suffix[2 * sizeof salt + 1];
    int rc = rsbx_run_folder(&live->folder_fd, place, "live", err);

    if (rc == 0)
        rc = rsbx_random(salt, sizeof salt, err);
    if (rc != 0)
        return rc;
    rsbx_hex(suffix, salt, sizeof salt);
    (void)snprintf(live->file, sizeof live->file, "%ld-%s", (long)getpid(), suffix);
    live->fd = openat(live->folder_fd, live->file,
                      O_WRONLY | O_APPEND | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    /* A sweep that comes between the two calls finds an empty file and removes it: then there is
     * nothing to lose yet, and the link count below shows it. */
    if (live->fd < 0 || flock(live->fd, LOCK_EX) != 0)
        return rsbx_fail_errno(err, REPOSBX_EIO, "cannot make the list of containers");
    return REPOSBX_OK;
}

static bool still_linked(const struct rsbx_live *live)
{
    struct stat facts;

    return fstat(live->fd, &facts) == 0 && facts.st_nlink > 0;
}

static void dispose(struct rsbx_live *live)
{
    rsbx_fd_autop(&live->fd);
    rsbx_fd_autop(&live->folder_fd);
    (void)pthread_mutex_destroy(&live->mutex);
    free(live);
}

int rsbx_live_open(struct rsbx_live **out, const struct rsbx_run_place *place, const char *address,
                   const char *runtime, reposbx_error *err)
{
    struct rsbx_live *live = calloc(1, sizeof *live);
    int rc = REPOSBX_OK;

    if (live == NULL)
        return rsbx_fail_memory(err);
    live->fd = -1;
    live->folder_fd = -1;
    (void)pthread_mutex_init(&live->mutex, NULL);
    do {
        rsbx_fd_autop(&live->fd);
        rsbx_fd_autop(&live->folder_fd);
        rc = make_file(live, place, err);
    } while (rc == 0 && !still_linked(live));
    if (rc == 0)
        rc = put(live, "engine", address, err);
    if (rc == 0 && runtime != NULL)
        rc = put(live, "runtime", runtime, err);
    if (rc == 0)
        rc = rsbx_sync_fd(live->folder_fd, "the list of containers", err);
    if (rc != 0) {
        dispose(live);
        return rc;
    }
    *out = live;
    return REPOSBX_OK;
}

int rsbx_live_make(struct rsbx_live *live, const char *name, reposbx_error *err)
{
    int rc;

    (void)pthread_mutex_lock(&live->mutex);
    rc = put(live, "make", name, err);
    if (rc == 0)
        live->left++;
    (void)pthread_mutex_unlock(&live->mutex);
    if (rc == 0 && fdatasync(live->fd) != 0)
        rc = rsbx_fail_errno(err, REPOSBX_EIO, "cannot sync the list of containers");
    RSBX_FAULT("live.made");
    return rc;
}

void rsbx_live_gone(struct rsbx_live *live, const char *name)
{
    (void)pthread_mutex_lock(&live->mutex);
    /* Lost, it makes a sweep look once more for something that is not there. */
    if (put(live, "gone", name, NULL) == 0)
        live->left--;
    (void)pthread_mutex_unlock(&live->mutex);
}

void rsbx_live_close(struct rsbx_live *live)
{
    if (live == NULL)
        return;
    if (live->left == 0)
        (void)unlinkat(live->folder_fd, live->file, 0);
    dispose(live);
}

/* ---- what the dead left ---- */

struct left {
    char *engine, *runtime;
    char (*names)[RSBX_RUN_NAME_BYTES];
    size_t count;
};

static void dispose_left(struct left *left)
{
    free(left->engine);
    free(left->runtime);
    free(left->names);
}

static int note_name(struct left *left, const char *name, reposbx_error *err)
{
    void *grown = realloc(left->names, (left->count + 1) * sizeof *left->names);

    if (grown == NULL)
        return rsbx_fail_memory(err);
    left->names = grown;
    (void)snprintf(left->names[left->count++], sizeof *left->names, "%s", name);
    return REPOSBX_OK;
}

static void forget_name(struct left *left, const char *name)
{
    for (size_t i = 0; i < left->count; i++) {
        if (strcmp(left->names[i], name) == 0) {
            memmove(left->names[i], left->names[left->count - 1], sizeof *left->names);
            left->count--;
            return;
        }
    }
}

static int keep_text(char **place, const char *text, reposbx_error *err)
{
    free(*place);
    *place = strdup(text);
    return *place != NULL ? REPOSBX_OK : rsbx_fail_memory(err);
}

static int read_line(struct left *left, const char *line, reposbx_error *err)
{
    if (strncmp(line, "engine ", 7) == 0)
        return keep_text(&left->engine, line + 7, err);
    if (strncmp(line, "runtime ", 8) == 0)
        return keep_text(&left->runtime, line + 8, err);
    if (strncmp(line, "make ", 5) == 0)
        return note_name(left, line + 5, err);
    if (strncmp(line, "gone ", 5) == 0)
        forget_name(left, line + 5);
    return REPOSBX_OK;
}

static int read_left(struct left *left, int folder_fd, const char *file, reposbx_error *err)
{
    RSBX_AUTO(rsbx_buf) struct rsbx_buf text = RSBX_BUF_INIT(RSBX_MAX_STATE_BYTES);
    int rc = rsbx_read_file_at(&text, folder_fd, file, err);
    char *line = text.data;

    while (rc == 0 && line != NULL) {
        char *end = strchr(line, '\n');

        if (end == NULL)
            break; /* torn: nothing was made on its word */
        *end = '\0';
        rc = read_line(left, line, err);
        line = end + 1;
    }
    return rc;
}

struct sweep {
    bool dry_run;
    void (*removed)(void *payload, const char *name);
    void *payload;
};

static int remove_left(const struct left *left, const struct sweep *sweep, reposbx_error *err)
{
    RSBX_AUTO(rsbx_run_engine) rsbx_run_engine_ptr engine = NULL;
    int rc = REPOSBX_OK;

    if (left->count > 0 && left->engine != NULL && !sweep->dry_run)
        rc = rsbx_run_engine_open(&engine, left->engine, left->runtime, err);
    for (size_t i = 0; rc == 0 && i < left->count; i++) {
        if (engine != NULL)
            rc = engine->ops->destroy(engine, left->names[i], NULL, err);
        if (rc == 0 && sweep->removed != NULL)
            sweep->removed(sweep->payload, left->names[i]);
    }
    return rc;
}

static int sweep_file(int folder_fd, const char *file, const struct sweep *sweep,
                      reposbx_error *err)
{
    RSBX_AUTO(rsbx_fd) int fd = openat(folder_fd, file, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    struct left left = { 0 };
    int rc;

    if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) != 0)
        return REPOSBX_OK; /* its process lives, or somebody else sweeps it */
    rc = read_left(&left, folder_fd, file, err);
    if (rc == 0)
        rc = remove_left(&left, sweep, err);
    if (rc == 0 && !sweep->dry_run)
        (void)unlinkat(folder_fd, file, 0);
    dispose_left(&left);
    return rc == REPOSBX_ENOTFOUND ? REPOSBX_OK : rc;
}

int rsbx_live_sweep(const struct rsbx_run_place *place, bool dry_run,
                    void (*removed)(void *payload, const char *name), void *payload,
                    reposbx_error *err)
{
    const struct sweep sweep = { dry_run, removed, payload };
    RSBX_AUTO(rsbx_fd) int folder_fd = -1;
    RSBX_AUTO(rsbx_lister) struct rsbx_lister lister = { NULL, NULL };
    const char *name;
    int first = REPOSBX_OK;
    int rc = rsbx_run_folder(&folder_fd, place, "live", err);

    if (rc == 0)
        rc = rsbx_lister_open(&lister, folder_fd, "the containers", err);
    while (rc == 0 && (rc = rsbx_lister_next(&name, &lister, first == 0 ? err : NULL)) > 0) {
        rc = 0;
        if (name[0] == '.')
            continue;
        /* The first failure is told; the others are still tried. */
        if (first == 0)
            first = sweep_file(folder_fd, name, &sweep, err);
        else
            (void)sweep_file(folder_fd, name, &sweep, NULL);
    }
    return first != 0 ? first : rc;
}
