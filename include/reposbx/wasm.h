/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPOSBX_WASM_H
#define REPOSBX_WASM_H

#include <stddef.h>

#include <reposbx/error.h>
#include <reposbx/session.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * WebAssembly modules of the state folder. A module is compiled once, where it is installed, by wasm2c
 * (Debian: wabt) and the system's C compiler, and kept by the SHA-256 of its bytes. Only modules that
 * import nothing but functions of WASI preview 1 are taken.
 */

#define REPOSBX_WASM_DIGEST_BYTES 65 /* 64 hex digits and NUL */

typedef struct reposbx_wasm_install_options {
    unsigned int version;
    const char *member;       /* which .wasm of a tarball; NULL: it has exactly one */
    const char *optimisation; /* "fast" (default, NULL), "none", "full": quickness of the compiled
                               * program against that of the compiling */
    unsigned int jobs;        /* compilers at a time; 0: one for each processor */
    int make_default;         /* jobs that name no module use this one; the first one installed is
                               * that anyway */
    /* NULL or: told what is done ("translate", "compile", "link") and how many of how many pieces are
     * compiled (0 of 0: not counted). Anything but 0 stops with REPOSBX_ECANCELLED. */
    int (*progress)(void *payload, const char *step, unsigned int done, unsigned int total);
    void *payload;
} reposbx_wasm_install_options;

#define REPOSBX_WASM_INSTALL_OPTIONS_INIT { 1, NULL, NULL, 0, 0, NULL, NULL }

/* Installs a .wasm file, or one out of a gzipped tar such as a package from npm. What is there and
 * whole is kept. `digest` gets the module's hash. REPOSBX_EUNAVAILABLE: a tool is missing (the hint
 * names the package); REPOSBX_EPOLICY: it imports what is not supplied, or is no command;
 * REPOSBX_EMALFORMED: it is no module; REPOSBX_EBUSY: another install is at work. */
int reposbx_wasm_install(char digest[REPOSBX_WASM_DIGEST_BYTES], const reposbx_provider *provider,
                         const char *path, const reposbx_wasm_install_options *options,
                         reposbx_error *err);

/* [{"digest","name","default","ready","module_bytes","native_bytes","installed_at","problem"}]
 * (free()), by digest. Every module is checked against its hashes; one that fails is not ready, and
 * `problem` says why (null otherwise). */
int reposbx_wasm_list_json(char **out, const reposbx_provider *provider, reposbx_error *err);

/* Removes a module; programs of it that run are not disturbed. */
int reposbx_wasm_remove(const reposbx_provider *provider, const char *digest, reposbx_error *err);

#ifdef __cplusplus
}
#endif
#endif
