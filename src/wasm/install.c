/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fault.h"
#include "base/fd.h"
#include "base/lister.h"
#include "base/text.h"
#include "codec/sha256.h"
#include "wasm/internal.h"

#include "base/banned.h"

/*
 * STATE/wasm/
 *   lock              held by whoever installs or removes
 *   default           the digest of the module that is taken when none is named
 *   DIGEST/native     the program, 0555
 *   DIGEST/manifest.json
 *   tmp-NUMBER/       work that is not finished, or is to be removed
 *
 * A module comes into being, and goes, by one rename; whatever is called tmp-… belongs to nobody and is
 * removed by the next one who holds the lock.
 */
#define STALE_PREFIX "tmp-"

static int lock_store(int *out, int store_fd, reposbx_error *err)
{
    RSBX_AUTO(rsbx_fd) int fd = openat(store_fd, "lock", O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);

    if (fd < 0)
        return rsbx_fail_errno(err, REPOSBX_EIO, "cannot open the lock of the store of modules");
    if (flock(fd, LOCK_EX | LOCK_NB) != 0)
        return errno == EWOULDBLOCK
                   ? rsbx_fail(err, REPOSBX_EBUSY, "another install of a module is at work here")
                   : rsbx_fail_errno(err, REPOSBX_EIO, "cannot lock the store of modules");
    *out = rsbx_fd_steal(&fd);
    return REPOSBX_OK;
}

/* Removes what a killed install left. */
static int remove_stale(int store_fd, reposbx_error *err)
{
    RSBX_AUTO(rsbx_lister) struct rsbx_lister lister = { NULL, NULL };
    const char *name;
    int rc = rsbx_lister_open(&lister, store_fd, "the store of modules", err);

    while (rc == 0 && (rc = rsbx_lister_next(&name, &lister, err)) > 0)
        rc = strncmp(name, STALE_PREFIX, strlen(STALE_PREFIX)) == 0
                 ? rsbx_remove_tree_at(store_fd, name, err) : 0;
    return rc;
}

static int open_locked(int *store_fd, int *lock_fd, const char *state_dir, reposbx_error *err)
{
    int rc = rsbx_wasm_store_open(store_fd, state_dir, true, err);

    if (rc == 0)
        rc = lock_store(lock_fd, *store_fd, err);
    return rc != 0 ? rc : remove_stale(*store_fd, err);
}

static int stale_name(char out[32], reposbx_error *err)
{
    uint8_t bytes[8];
    char hex[17];
    int rc = rsbx_random(bytes, sizeof bytes, err);

    if (rc != 0)
        return rc;
    rsbx_hex(hex, bytes, sizeof bytes);
    (void)snprintf(out, 32, STALE_PREFIX "%s", hex);
    return REPOSBX_OK;
}

/* ---- one installation ---- */

struct job {
    int store_fd;
    int work_fd;              /* tmp-… */
    char work[32];
    const struct rsbx_wasm_install_options *options;
    struct rsbx_wasm_module module;
    struct rsbx_wasm_parsed parsed;
};

static void job_autop(struct job *job)
{
    if (job->work_fd >= 0)
        (void)close(job->work_fd);
    if (job->work[0] != '\0')
        (void)rsbx_remove_tree_at(job->store_fd, job->work, NULL);
    free(job->module.name);
    free(job->module.translator);
    free(job->module.compiler);
    free(job->module.optimisation);
    free(job->module.installed_at);
    rsbx_wasm_parsed_dispose(&job->parsed);
}

static int make_work(struct job *job, int *build_fd, reposbx_error *err)
{
    int rc = stale_name(job->work, err);

    if (rc != 0)
        return rc;
    if (mkdirat(job->store_fd, job->work, 0700) != 0)
        return rsbx_fail_errno(err, REPOSBX_EIO, "cannot make a folder in the store of modules");
    job->work_fd = openat(job->store_fd, job->work, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (job->work_fd < 0 || mkdirat(job->work_fd, "build", 0700) != 0)
        return rsbx_fail_errno(err, REPOSBX_EIO, "cannot make a folder in the store of modules");
    *build_fd = openat(job->work_fd, "build", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return *build_fd >= 0 ? REPOSBX_OK : rsbx_fail_errno(err, REPOSBX_EIO, "cannot open a folder");
}

static int set_text(char **place, const char *text, reposbx_error *err)
{
    *place = strdup(text);
    return *place != NULL ? REPOSBX_OK : rsbx_fail_memory(err);
}

/* The program leaves the build's folder, which goes. */
static int take_native(struct job *job, reposbx_error *err)
{
    RSBX_AUTO(rsbx_fd) int fd = -1;
    int rc;

    if (renameat(job->work_fd, "build/native", job->work_fd, "native") != 0)
        return rsbx_fail_errno(err, REPOSBX_EIO, "the linker made no program");
    rc = rsbx_remove_tree_at(job->work_fd, "build", err);
    if (rc != 0)
        return rc;
    fd = openat(job->work_fd, "native", O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    /* Everybody may execute it, since the process may run as nobody; the folder is ours alone. */
    if (fd < 0 || fchmod(fd, 0555) != 0)
        return rsbx_fail_errno(err, REPOSBX_EIO, "cannot open the program");
    rc = rsbx_sync_fd(fd, "the program", err);
    return rc != 0 ? rc
                   : rsbx_wasm_hash_fd(job->module.native_digest, &job->module.native_bytes, fd,
                                       "the program", err);
}

static int write_manifest(struct job *job, reposbx_error *err)
{
    RSBX_AUTO(rsbx_text) char *text = NULL;
    char time[RSBX_TIME_BYTES];
    int rc;

    rsbx_time_text(time, rsbx_wall_ns());
    rc = set_text(&job->module.installed_at, time, err);
    if (rc == 0)
        rc = set_text(&job->module.optimisation,
                      job->options->optimisation != NULL ? job->options->optimisation : "fast", err);
    if (rc == 0)
        rc = rsbx_wasm_host_digest(job->module.host_digest, err);
    if (rc == 0)
        rc = rsbx_wasm_manifest_text(&text, &job->module, err);
    return rc != 0 ? rc
                   : rsbx_replace_file_at(job->work_fd, "manifest.json", text, strlen(text), err);
}

/* In place by one rename; a damaged or old one of the same name changes places with it. */
static int publish(struct job *job, reposbx_error *err)
{
    const char *digest = job->module.digest;
    int rc = rsbx_sync_fd(job->work_fd, "the module's folder", err);

    if (rc != 0)
        return rc;
    RSBX_FAULT("wasm.before-publish");
    if (renameat2(job->store_fd, job->work, job->store_fd, digest, RENAME_NOREPLACE) == 0)
        job->work[0] = '\0';
    else if (errno != EEXIST ||
             renameat2(job->store_fd, job->work, job->store_fd, digest, RENAME_EXCHANGE) != 0)
        return rsbx_fail_errno(err, REPOSBX_EIO, "cannot put the module in place");
    RSBX_FAULT("wasm.after-publish");
    return rsbx_sync_fd(job->store_fd, "the store of modules", err);
}

static int build_and_publish(struct job *job, reposbx_error *err)
{
    RSBX_AUTO(rsbx_fd) int build_fd = -1;
    struct rsbx_wasm_build build = { .options = job->options };
    int rc = make_work(job, &build_fd, err);

    if (rc != 0)
        return rc;
    build.dir_fd = build_fd;
    rc = rsbx_wasm_build(&build, &job->parsed, err);
    job->module.translator = build.translator;
    job->module.compiler = build.compiler;
    RSBX_FAULT("wasm.built");
    if (rc == 0)
        rc = take_native(job, err);
    if (rc == 0)
        rc = write_manifest(job, err);
    return rc != 0 ? rc : publish(job, err);
}

static int make_default(int store_fd, const char *digest, reposbx_error *err)
{
    char line[RSBX_WASM_DIGEST_BYTES + 1];
    int length = snprintf(line, sizeof line, "%s\n", digest);

    return rsbx_replace_file_at(store_fd, RSBX_WASM_DEFAULT, line, (size_t)length, err);
}

/* The default is what was asked for, or the first module; a default that names nothing is replaced. */
static int settle_default(int store_fd, const char *digest, bool wanted, reposbx_error *err)
{
    char now[RSBX_WASM_DIGEST_BYTES];

    if (!wanted && rsbx_wasm_default(now, store_fd, NULL) == 0 &&
        faccessat(store_fd, now, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
        return REPOSBX_OK;
    return make_default(store_fd, digest, err);
}

static int read_module(struct job *job, const char *path, reposbx_error *err)
{
    RSBX_AUTO(rsbx_buf) struct rsbx_buf bytes = RSBX_BUF_INIT(RSBX_WASM_MAX_MODULE_BYTES);
    int rc = rsbx_wasm_read(&bytes, &job->module.name, path, job->options->member, err);

    if (rc != 0)
        return rc;
    rsbx_sha256_hex(job->module.digest, bytes.data, bytes.length);
    job->module.module_bytes = bytes.length;
    return rsbx_wasm_parse(&job->parsed, bytes.data, bytes.length, err);
}

int rsbx_wasm_install(char digest[RSBX_WASM_DIGEST_BYTES], const char *state_dir, const char *path,
                      const struct rsbx_wasm_install_options *options, reposbx_error *err)
{
    static const struct rsbx_wasm_install_options usual = RSBX_WASM_INSTALL_OPTIONS_INIT;
    RSBX_AUTO(rsbx_fd) int store_fd = -1;
    RSBX_AUTO(rsbx_fd) int lock_fd = -1;
    RSBX_AUTO(job) struct job job = { .store_fd = -1, .work_fd = -1 };
    struct rsbx_wasm_module *there = NULL;
    int rc;

    job.options = options != NULL ? options : &usual;
    rc = read_module(&job, path, err);
    if (rc == 0)
        rc = open_locked(&store_fd, &lock_fd, state_dir, err);
    if (rc != 0)
        return rc;
    job.store_fd = store_fd;
    if (rsbx_wasm_load(&there, store_fd, job.module.digest, NULL) == 0)
        rsbx_wasm_module_free(there);
    else
        rc = build_and_publish(&job, err);
    if (rc == 0)
        rc = settle_default(store_fd, job.module.digest, job.options->make_default, err);
    if (rc == 0)
        memcpy(digest, job.module.digest, RSBX_WASM_DIGEST_BYTES);
    return rc;
}

/* ---- removing ---- */

/* The default goes with its module; another one does not take its place by itself. */
static int drop_default(int store_fd, const char *digest, reposbx_error *err)
{
    char now[RSBX_WASM_DIGEST_BYTES];

    if (rsbx_wasm_default(now, store_fd, NULL) != 0 || strcmp(now, digest) != 0)
        return REPOSBX_OK;
    if (unlinkat(store_fd, RSBX_WASM_DEFAULT, 0) != 0 && errno != ENOENT)
        return rsbx_fail_errno(err, REPOSBX_EIO, "cannot remove the default");
    return REPOSBX_OK;
}

int rsbx_wasm_remove(const char *state_dir, const char *digest, reposbx_error *err)
{
    RSBX_AUTO(rsbx_fd) int store_fd = -1;
    RSBX_AUTO(rsbx_fd) int lock_fd = -1;
    char away[32];
    int rc;

    if (!rsbx_is_hex(digest, RSBX_WASM_DIGEST_BYTES - 1))
        return rsbx_fail(err, REPOSBX_EINVALID, "a module is named by 64 hex digits");
    rc = open_locked(&store_fd, &lock_fd, state_dir, err);
    if (rc == 0)
        rc = stale_name(away, err);
    if (rc == 0 && renameat(store_fd, digest, store_fd, away) != 0)
        rc = errno == ENOENT
                 ? rsbx_fail(err, REPOSBX_ENOTFOUND, "no WebAssembly module %s is installed", digest)
                 : rsbx_fail_errno(err, REPOSBX_EIO, "cannot remove the module");
    if (rc == 0)
        rc = drop_default(store_fd, digest, err);
    if (rc == 0)
        rc = rsbx_sync_fd(store_fd, "the store of modules", err);
    return rc != 0 ? rc : rsbx_remove_tree_at(store_fd, away, err);
}
