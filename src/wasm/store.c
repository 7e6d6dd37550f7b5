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
#include "base/fd.h"
#include "base/lister.h"
#include "base/text.h"
#include "codec/sha256.h"
#include "wasi/embedded.h"
#include "wasm/internal.h"

#include "base/banned.h"

void rsbx_wasm_module_free(struct rsbx_wasm_module *module)
{
    if (module == NULL)
        return;
    if (module->native_fd >= 0)
        (void)close(module->native_fd);
    free(module->name);
    free(module->translator);
    free(module->compiler);
    free(module->optimisation);
    free(module->installed_at);
    free(module);
}

RSBX_CLEANUP(module, struct rsbx_wasm_module *, rsbx_wasm_module_free);

/* ---- the folder ---- */

/* Whoever can write to it can put a program of his own there. */
static int check_ours(int fd, const char *what, mode_t kind, reposbx_error *err)
{
    struct stat facts;

    if (fstat(fd, &facts) != 0)
        return rsbx_fail_errno(err, REPOSBX_EIO, "cannot stat %s", what);
    if ((facts.st_mode & S_IFMT) != kind)
        return rsbx_fail(err, REPOSBX_EPROTOCOL, "%s is of another kind than it should be", what);
    if (facts.st_uid != geteuid())
        return rsbx_fail(err, REPOSBX_EPROTOCOL, "%s belongs to user %ld", what, (long)facts.st_uid);
    if ((facts.st_mode & 022) != 0)
        return rsbx_fail(err, REPOSBX_EPROTOCOL, "others can write to %s (mode %03o)", what,
                         (unsigned)(facts.st_mode & 0777));
    return REPOSBX_OK;
}

static int open_ours(int *out, int at_fd, const char *name, mode_t kind, reposbx_error *err)
{
    RSBX_AUTO(rsbx_fd) int fd = openat(at_fd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    int rc;

    if (fd < 0)
        return rsbx_fail_errno(err, errno == ENOENT ? REPOSBX_ENOTFOUND : REPOSBX_EPROTOCOL,
                               "cannot open %s", name);
    rc = check_ours(fd, name, kind, err);
    if (rc == 0)
        *out = rsbx_fd_steal(&fd);
    return rc;
}

int rsbx_wasm_store_open(int *out, const char *state_dir, bool make, reposbx_error *err)
{
    RSBX_AUTO(rsbx_fd) int state_fd = open(state_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (state_fd < 0)
        return rsbx_fail_errno(err, errno == ENOENT ? REPOSBX_ENOTFOUND : REPOSBX_EIO,
                               "cannot open the state folder %s", state_dir);
    if (make && mkdirat(state_fd, "wasm", 0700) != 0 && errno != EEXIST)
        return rsbx_fail_errno(err, REPOSBX_EIO, "cannot make %s/wasm", state_dir);
    return open_ours(out, state_fd, "wasm", S_IFDIR, err);
}

/* ---- hashes ---- */

int rsbx_wasm_hash_fd(char out[RSBX_WASM_DIGEST_BYTES], uint64_t *bytes, int fd, const char *what,
                      reposbx_error *err)
{
    int rc = rsbx_sha256_file(out, bytes, fd, RSBX_WASM_MAX_NATIVE_BYTES, what, err);

    if (rc == 0 && *bytes > RSBX_WASM_MAX_NATIVE_BYTES)
        return rsbx_fail(err, REPOSBX_ELIMIT, "%s is too large", what);
    return rc;
}

int rsbx_wasm_host_digest(char out[RSBX_WASM_DIGEST_BYTES], reposbx_error *err)
{
    struct rsbx_sha256 *hash;
    uint8_t digest[RSBX_SHA256_BYTES];
    int rc = rsbx_sha256_new(&hash, err);

    if (rc != 0)
        return rc;
    for (const struct rsbx_wasi_file *file = rsbx_wasi_files; file->name != NULL; file++) {
        rsbx_sha256_update(hash, file->name, strlen(file->name) + 1);
        rsbx_sha256_update(hash, &file->size, sizeof file->size);
        rsbx_sha256_update(hash, file->bytes, file->size);
    }
    rsbx_sha256_finish(hash, digest);
    rsbx_sha256_free(hash);
    rsbx_hex(out, digest, sizeof digest);
    return REPOSBX_OK;
}

/* ---- loading ---- */

static int reinstall(int code, const char *digest, reposbx_error *err)
{
    if (err != NULL) {
        err->code = code;
        rsbx_context(err, "WebAssembly module %.12s", digest);
        rsbx_hint(err, "reposbx wasm install puts it in place again");
    }
    return code;
}

static int read_manifest(struct rsbx_wasm_module *out, int dir_fd, const char *digest,
                         reposbx_error *err)
{
    RSBX_AUTO(rsbx_buf) struct rsbx_buf text = RSBX_BUF_INIT(RSBX_WASM_MAX_MANIFEST_BYTES);
    RSBX_AUTO(rsbx_fd) int fd = -1;
    int rc = open_ours(&fd, dir_fd, "manifest.json", S_IFREG, err);

    if (rc == 0)
        rc = rsbx_read_file_at(&text, dir_fd, "manifest.json", err);
    if (rc == 0)
        rc = rsbx_wasm_manifest_parse(out, text.data, text.length, err);
    if (rc != 0)
        return rc;
    return strcmp(out->digest, digest) == 0
               ? REPOSBX_OK
               : rsbx_fail(err, REPOSBX_EPROTOCOL, "manifest.json is of another module");
}

static int check_native(struct rsbx_wasm_module *module, int dir_fd, reposbx_error *err)
{
    char digest[RSBX_WASM_DIGEST_BYTES];
    uint64_t bytes;
    int rc = open_ours(&module->native_fd, dir_fd, "native", S_IFREG, err);

    if (rc == 0)
        rc = rsbx_wasm_hash_fd(digest, &bytes, module->native_fd, "native", err);
    if (rc != 0)
        return rc;
    if (bytes != module->native_bytes || strcmp(digest, module->native_digest) != 0)
        return rsbx_fail(err, REPOSBX_EPROTOCOL, "the file native is not what the manifest says");
    return REPOSBX_OK;
}

static int load(struct rsbx_wasm_module *module, int dir_fd, const char *digest, reposbx_error *err)
{
    int rc = read_manifest(module, dir_fd, digest, err);

    return rc != 0 ? rc : check_native(module, dir_fd, err);
}

int rsbx_wasm_load(struct rsbx_wasm_module **out, int store_fd, const char *digest,
                   reposbx_error *err)
{
    RSBX_AUTO(module) struct rsbx_wasm_module *module = NULL;
    RSBX_AUTO(rsbx_fd) int dir_fd = -1;
    char host[RSBX_WASM_DIGEST_BYTES];
    int rc = rsbx_is_hex(digest, RSBX_WASM_DIGEST_BYTES - 1)
                 ? open_ours(&dir_fd, store_fd, digest, S_IFDIR, err)
                 : rsbx_fail(err, REPOSBX_EINVALID, "a module is named by 64 hex digits");

    if (rc == REPOSBX_ENOTFOUND) {
        (void)rsbx_fail(err, rc, "no WebAssembly module %s is installed", digest);
        rsbx_hint(err, "reposbx wasm install FILE installs one");
    }
    if (rc != 0)
        return rc == REPOSBX_EPROTOCOL ? reinstall(rc, digest, err) : rc;
    module = calloc(1, sizeof *module);
    if (module == NULL)
        return rsbx_fail_memory(err);
    module->native_fd = -1;
    rc = load(module, dir_fd, digest, err);
    if (rc != 0) /* whatever is wrong with a part of it, the module is damaged */
        return reinstall(rc == REPOSBX_EINTERNAL ? rc : REPOSBX_EPROTOCOL, digest, err);
    rc = rsbx_wasm_host_digest(host, err);
    if (rc != 0)
        return rc;
    if (strcmp(host, module->host_digest) != 0) {
        (void)rsbx_fail(err, REPOSBX_EUNAVAILABLE, "it was compiled by another release of reposbx");
        return reinstall(REPOSBX_EUNAVAILABLE, digest, err);
    }
    *out = module_steal(&module);
    return REPOSBX_OK;
}

int rsbx_wasm_default(char out[RSBX_WASM_DIGEST_BYTES], int store_fd, reposbx_error *err)
{
    RSBX_AUTO(rsbx_buf) struct rsbx_buf text = RSBX_BUF_INIT(RSBX_WASM_DIGEST_BYTES);
    RSBX_AUTO(rsbx_fd) int fd = -1;
    int rc = open_ours(&fd, store_fd, RSBX_WASM_DEFAULT, S_IFREG, err);

    if (rc == REPOSBX_ENOTFOUND) {
        (void)rsbx_fail(err, rc, "no WebAssembly module is installed");
        rsbx_hint(err, "reposbx wasm install FILE installs one");
    }
    if (rc == 0)
        rc = rsbx_read_file_at(&text, store_fd, RSBX_WASM_DEFAULT, err);
    if (rc != 0)
        return rc;
    if (text.length == RSBX_WASM_DIGEST_BYTES && text.data[text.length - 1] == '\n')
        text.data[--text.length] = '\0';
    if (text.length != RSBX_WASM_DIGEST_BYTES - 1 || !rsbx_is_hex(text.data, text.length))
        return rsbx_fail(err, REPOSBX_EPROTOCOL, "the file %s of the store of modules is damaged",
                         RSBX_WASM_DEFAULT);
    memcpy(out, text.data, RSBX_WASM_DIGEST_BYTES);
    return REPOSBX_OK;
}

static int not_installed(reposbx_error *err)
{
    (void)rsbx_fail(err, REPOSBX_ENOTFOUND, "no WebAssembly module is installed");
    rsbx_hint(err, "reposbx wasm install FILE installs one");
    return REPOSBX_ENOTFOUND;
}

int rsbx_wasm_find(struct rsbx_wasm_module **out, const char *state_dir, const char *digest,
                   reposbx_error *err)
{
    RSBX_AUTO(rsbx_fd) int store_fd = -1;
    char own[RSBX_WASM_DIGEST_BYTES];
    int rc = rsbx_wasm_store_open(&store_fd, state_dir, false, err);

    if (rc == REPOSBX_ENOTFOUND)
        return not_installed(err);
    if (rc == 0 && digest == NULL) {
        rc = rsbx_wasm_default(own, store_fd, err);
        digest = own;
    }
    return rc != 0 ? rc : rsbx_wasm_load(out, store_fd, digest, err);
}

/* ---- list and remove ---- */

void rsbx_wasm_list_dispose(struct rsbx_wasm_list *list)
{
    free(list->items);
    *list = (struct rsbx_wasm_list){ NULL, 0, "" };
}

static int add_item(struct rsbx_wasm_list *list, int store_fd, const char *digest, reposbx_error *err)
{
    struct rsbx_wasm_item *items = realloc(list->items, (list->count + 1) * sizeof *items);
    struct rsbx_wasm_module *module = NULL;
    struct rsbx_wasm_item *item;

    if (items == NULL)
        return rsbx_fail_memory(err);
    list->items = items;
    item = &items[list->count++];
    memset(item, 0, sizeof *item);
    memcpy(item->digest, digest, RSBX_WASM_DIGEST_BYTES);
    item->error = (reposbx_error)REPOSBX_ERROR_INIT;
    if (rsbx_wasm_load(&module, store_fd, digest, &item->error) != 0)
        return REPOSBX_OK;
    (void)snprintf(item->name, sizeof item->name, "%s", module->name);
    (void)snprintf(item->installed_at, sizeof item->installed_at, "%s", module->installed_at);
    item->module_bytes = module->module_bytes;
    item->native_bytes = module->native_bytes;
    rsbx_wasm_module_free(module);
    return REPOSBX_OK;
}

static int compare_items(const void *a, const void *b)
{
    const struct rsbx_wasm_item *first = a, *second = b;

    return strcmp(first->digest, second->digest);
}

static int read_items(struct rsbx_wasm_list *list, int store_fd, reposbx_error *err)
{
    RSBX_AUTO(rsbx_lister) struct rsbx_lister lister = { NULL, NULL };
    const char *name;
    int rc = rsbx_lister_open(&lister, store_fd, "the store of modules", err);

    while (rc == 0 && (rc = rsbx_lister_next(&name, &lister, err)) > 0)
        rc = rsbx_is_hex(name, RSBX_WASM_DIGEST_BYTES - 1) ? add_item(list, store_fd, name, err) : 0;
    return rc;
}

int rsbx_wasm_list(struct rsbx_wasm_list *out, const char *state_dir, reposbx_error *err)
{
    RSBX_AUTO(rsbx_fd) int store_fd = -1;
    struct rsbx_wasm_list list = { NULL, 0, "" };
    int rc = rsbx_wasm_store_open(&store_fd, state_dir, false, err);

    if (rc == REPOSBX_ENOTFOUND) {
        *out = list;
        return REPOSBX_OK;
    }
    if (rc == 0)
        rc = read_items(&list, store_fd, err);
    if (rc != 0) {
        rsbx_wasm_list_dispose(&list);
        return rc;
    }
    if (list.count > 1)
        qsort(list.items, list.count, sizeof *list.items, compare_items);
    if (rsbx_wasm_default(list.preferred, store_fd, NULL) != 0)
        list.preferred[0] = '\0';
    *out = list;
    return REPOSBX_OK;
}
