/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RSBX_WASM_INTERNAL_H
#define RSBX_WASM_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/error.h"
#include "wasm/wasm.h"

/* A module: CPython with its library has 26 MiB. */
#define RSBX_WASM_MAX_MODULE_BYTES (128U * 1024U * 1024U)
/* A tarball, packed; and all of its members unpacked. */
#define RSBX_WASM_MAX_TARBALL_BYTES (256U * 1024U * 1024U)
#define RSBX_WASM_MAX_UNPACKED_BYTES (1024ULL * 1024ULL * 1024ULL)
#define RSBX_WASM_MAX_MEMBERS 20000U
/* A name that is kept. */
#define RSBX_WASM_NAME_BYTES 256U
/* What wasm2c makes of it: some seven times the code. */
#define RSBX_WASM_MAX_C_BYTES (1024U * 1024U * 1024U)
/* The image of the module's data, laid out in advance when it is not larger than this. */
#define RSBX_WASM_MAX_IMAGE_BYTES (64U * 1024U * 1024U)
/* Elements of all tables at the start. The runtime does not look whether it got the memory for them:
 * 24 bytes each must fit the host's heap of 64 MiB. */
#define RSBX_WASM_MAX_TABLE_ELEMENTS 1000000U
#define RSBX_WASM_MAX_MANIFEST_BYTES (64U * 1024U)
/* A compiled program. */
#define RSBX_WASM_MAX_NATIVE_BYTES (1024U * 1024U * 1024U)
/* One compiler: wall clock, processor time, address space. The largest function that we have seen
 * took 12 s and 360 MB. */
#define RSBX_WASM_TOOL_MS (20U * 60U * 1000U)
#define RSBX_WASM_TOOL_CPU_SECONDS (20U * 60U)
#define RSBX_WASM_TOOL_MEMORY_BYTES (8ULL * 1024ULL * 1024ULL * 1024ULL)

/* The version whose output the splitter and the host know. */
#define RSBX_WASM_TRANSLATOR "1.0.32"

/* ---- module.c ---- */

/* A checked module, ready for wasm2c. */
struct rsbx_wasm_parsed {
    struct rsbx_buf bare;  /* without custom sections, and without data when it is in the image */
    struct rsbx_buf image; /* linear memory from image_offset on, as it is before _start; may be empty */
    uint32_t image_offset;
    bool imports;          /* it imports anything */
};

void rsbx_wasm_parsed_dispose(struct rsbx_wasm_parsed *parsed);
/* Checks what we rely on, and that we supply every import; wasm2c validates the code. Names that the
 * C text would hold are plain, so that nothing in it is the module's own words. */
int rsbx_wasm_parse(struct rsbx_wasm_parsed *out, const void *bytes, size_t length,
                    reposbx_error *err);

/* ---- tarball.c ---- */

/* The module in a file: the file's own bytes, or a member of a gzipped tar. `out` has its limit. */
int rsbx_wasm_read(struct rsbx_buf *out, char **name, const char *path, const char *member,
                   reposbx_error *err);

/* ---- split.c ---- */

/* Writes generated C as common.h, main.c and piece000.c … into a folder. */
int rsbx_wasm_split(unsigned *pieces, int dir_fd, const char *text, size_t length,
                    reposbx_error *err);

/* ---- tool.c ---- */

/* One run of a program: absolute path, no shell, fixed environment, limits, in a process group of its
 * own; what it prints goes to `log`, a file in the folder. */
struct rsbx_wasm_tool {
    pid_t pid; /* 0: not running */
    struct rsbx_deadline deadline;
};

/* Finds a program in the system's folders; NULL when it is in none. */
const char *rsbx_wasm_tool_find(char *out, size_t size, const char *name);
int rsbx_wasm_tool_start(struct rsbx_wasm_tool *out, int dir_fd, const char *const *argv,
                         const char *log, reposbx_error *err);
/* 0: ended well; 1: still runs; an error with the first words of its log. Kills it past its deadline. */
int rsbx_wasm_tool_poll(struct rsbx_wasm_tool *tool, int dir_fd, const char *log,
                        const char *what, reposbx_error *err);
void rsbx_wasm_tool_stop(struct rsbx_wasm_tool *tool);
int rsbx_wasm_tool_run(int dir_fd, const char *const *argv, const char *log, const char *what,
                       reposbx_error *err);
/* The first line that it prints. */
int rsbx_wasm_tool_line(char **out, int dir_fd, const char *const *argv, const char *what,
                        reposbx_error *err);

/* ---- build.c ---- */

struct rsbx_wasm_build {
    int dir_fd;                 /* an empty folder of our own */
    const struct rsbx_wasm_install_options *options;
    char *translator, *compiler; /* versions, out */
};

/* Makes `native` in the folder. */
int rsbx_wasm_build(struct rsbx_wasm_build *build, const struct rsbx_wasm_parsed *parsed,
                    reposbx_error *err);

/* ---- manifest.c ---- */

/* The manifest as text (free()), and back, with its own sum checked. */
int rsbx_wasm_manifest_text(char **out, const struct rsbx_wasm_module *module, reposbx_error *err);
int rsbx_wasm_manifest_parse(struct rsbx_wasm_module *out, const void *bytes, size_t length,
                             reposbx_error *err);

/* ---- store.c ---- */

/* STATE/wasm, made when it is missing and `make`; only we may write to it. */
int rsbx_wasm_store_open(int *out, const char *state_dir, bool make, reposbx_error *err);
/* sha256 over the WASI host's sources in this library: a module that holds another host is old. */
int rsbx_wasm_host_digest(char out[RSBX_WASM_DIGEST_BYTES], reposbx_error *err);
/* The module of a store, hashes checked. `digest` is not NULL. */
int rsbx_wasm_load(struct rsbx_wasm_module **out, int store_fd, const char *digest,
                   reposbx_error *err);
/* sha256 of an open file, and its size. */
int rsbx_wasm_hash_fd(char out[RSBX_WASM_DIGEST_BYTES], uint64_t *bytes, int fd, const char *what,
                      reposbx_error *err);
#define RSBX_WASM_DEFAULT "default"
/* What stands in that file, or REPOSBX_ENOTFOUND. */
int rsbx_wasm_default(char out[RSBX_WASM_DIGEST_BYTES], int store_fd, reposbx_error *err);

#endif
