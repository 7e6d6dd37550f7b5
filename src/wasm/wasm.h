/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RSBX_WASM_WASM_H
#define RSBX_WASM_WASM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/error.h"

/*
 * WebAssembly modules as native programs: compiled once, kept in the state folder by the hash of the
 * module, run each time in a process of their own that has three pipes and nothing else.
 *
 *     rc = rsbx_wasm_find(&module, state_dir, NULL, err);               every load checks hashes
 *     rc = rsbx_wasm_start(&process, module, &program, err);            warm: may wait for hours
 *     rc = rsbx_wasm_finish(&outcome, process, &job, err);              one job, then it is used up
 *     rsbx_wasm_process_free(process);
 *     rsbx_wasm_outcome_dispose(&outcome);
 *
 * How a program ended is an outcome and never an error; errors speak of the sandbox itself.
 */

#define RSBX_WASM_DIGEST_BYTES 65 /* 64 hex digits and NUL */

/* ---- the store ---- */

struct rsbx_wasm_module {
    char digest[RSBX_WASM_DIGEST_BYTES];        /* sha256 of the module */
    char native_digest[RSBX_WASM_DIGEST_BYTES]; /* sha256 of what runs */
    char *name;          /* the module's file name when it was installed, printable */
    char *translator;    /* version of wasm2c */
    char *compiler;      /* first line of the compiler's version */
    char *optimisation;  /* as in the options */
    char host_digest[RSBX_WASM_DIGEST_BYTES];   /* of the WASI host's sources that are in it */
    char *installed_at;  /* UTC, as in 2026-01-02T03:04:05.678Z */
    uint64_t module_bytes, native_bytes;
    int native_fd;       /* the checked program, open read-only, or -1 in a list; what runs is this */
};

void rsbx_wasm_module_free(struct rsbx_wasm_module *module);

struct rsbx_wasm_install_options {
    const char *member;        /* of a tarball: which .wasm; NULL: it has exactly one */
    const char *optimisation;  /* "fast" (default, NULL), "none" or "full" */
    unsigned jobs;             /* compilers at a time; 0: one for each processor */
    bool make_default;         /* rsbx_wasm_find without a digest gives this one; the first module of a
                                * store is that anyway */
    /* Called before each step and after each piece, with counted pieces; may be NULL. Not 0 stops
     * the work with REPOSBX_ECANCELLED. */
    int (*progress)(void *payload, const char *step, unsigned done, unsigned total);
    void *payload;
};

#define RSBX_WASM_INSTALL_OPTIONS_INIT { NULL, NULL, 0, false, NULL, NULL }

/* Compiles a .wasm file, or one taken from an npm tarball, into the store below `state_dir`; nothing is
 * done when the very module is there and whole. REPOSBX_EUNAVAILABLE (with a hint) when wasm2c or a
 * C compiler is missing, REPOSBX_EPOLICY when the module imports what we do not supply (by name),
 * REPOSBX_EMALFORMED when it is no module, REPOSBX_EBUSY when another install is at work. After a
 * crash at any point the store holds what it held before, and the next install removes the rest. */
int rsbx_wasm_install(char digest[RSBX_WASM_DIGEST_BYTES], const char *state_dir, const char *path,
                      const struct rsbx_wasm_install_options *options, reposbx_error *err);

/* Opens and checks an installed module; `digest` NULL: the default one. Not installed:
 * REPOSBX_ENOTFOUND. Anything of it missing, changed, or owned or writable by somebody else:
 * REPOSBX_EPROTOCOL that names the file; it is then never run. */
int rsbx_wasm_find(struct rsbx_wasm_module **out, const char *state_dir, const char *digest,
                   reposbx_error *err);

/* The first of the programs that an install needs and that is not there; NULL: all are. */
const char *rsbx_wasm_tool_missing(void);

/* What the store holds, damaged modules included. */
struct rsbx_wasm_item {
    char digest[RSBX_WASM_DIGEST_BYTES];
    char name[256];
    char installed_at[32];
    uint64_t module_bytes, native_bytes;
    reposbx_error error; /* why it cannot be used; code 0: it can */
};

struct rsbx_wasm_list {
    struct rsbx_wasm_item *items; /* by digest */
    size_t count;
    char preferred[RSBX_WASM_DIGEST_BYTES]; /* the default, "": none */
};

/* An empty list when nothing was ever installed. Every module is hashed. */
int rsbx_wasm_list(struct rsbx_wasm_list *out, const char *state_dir, reposbx_error *err);
void rsbx_wasm_list_dispose(struct rsbx_wasm_list *list);

/* Processes that run it are not disturbed. REPOSBX_ENOTFOUND, REPOSBX_EBUSY. */
int rsbx_wasm_remove(const char *state_dir, const char *digest, reposbx_error *err);

/* ---- running ---- */

/* What a process is started with. Zeroes: the defaults. */
struct rsbx_wasm_program {
    const char *const *argv; /* NULL: { "python3", "-" }, which reads its program from stdin */
    size_t argc;
    uint64_t memory_bytes;   /* default 256 MiB: linear memory, the host's own few MiB included */
    uint64_t cpu_seconds;    /* "fuel": processor time of the whole process, its start included;
                              * default 120, which is also the most it can be */
};

struct rsbx_wasm_process;

/* Starts the program; it runs until it wants to read its stdin, and waits there. It is killed when
 * the THREAD that started it ends, so a pool starts its processes from a thread that stays. */
int rsbx_wasm_start(struct rsbx_wasm_process **out, const struct rsbx_wasm_module *module,
                    const struct rsbx_wasm_program *program, reposbx_error *err);

/* Whether it has got as far as reading its stdin. False for one that has died. */
bool rsbx_wasm_process_waits(const struct rsbx_wasm_process *process);
/* Waits until it has. REPOSBX_EUNAVAILABLE: it ended before that, or is not there at the deadline. */
int rsbx_wasm_process_settle(const struct rsbx_wasm_process *process, struct rsbx_deadline deadline,
                             reposbx_error *err);
/* Whether it still runs (started and not ended by itself). Reaps nothing. */
bool rsbx_wasm_process_alive(const struct rsbx_wasm_process *process);

/* While it is not reaped. */
pid_t rsbx_wasm_process_pid(const struct rsbx_wasm_process *process);

struct rsbx_wasm_job {
    const void *input;       /* the whole of stdin; the end of file follows it */
    size_t input_length;
    uint64_t timeout_ms;     /* from this call on; 0: 120 s */
    uint64_t memory_bytes;   /* lower than at the start, or 0: as started */
    uint64_t cpu_seconds;    /* from now on, lower than what is left, or 0: as started */
    uint64_t output_bytes;   /* of both streams together, stdout first; what is over it is read and
                              * dropped; 0: 64 KiB */
    uint64_t most_bytes;     /* of both streams together: one that writes more is killed; 0: never */
    int cancel_fd;           /* readable: stop now, REPOSBX_ECANCELLED; -1: none */
};

#define RSBX_WASM_JOB_INIT { NULL, 0, 0, 0, 0, 0, 0, -1 }

struct rsbx_wasm_outcome {
    struct rsbx_buf out, err; /* what it wrote, together at most output_bytes */
    int exit_code;            /* of proc_exit; 134 after a trap; 128 + signal when killed */
    int signal;               /* that ended it, 0: none */
    bool timed_out;           /* by the wall clock */
    bool cpu_exhausted;       /* by the fuel */
    bool output_limited;      /* something was dropped */
    bool flooded;             /* killed for writing more than most_bytes */
    bool trapped;             /* the module did what WebAssembly forbids; the words are at the end of
                               * `err` as "wasm trap: …" */
    bool out_of_memory;       /* memory was asked for beyond the limit and denied; it may have gone
                               * on after that */
    uint64_t duration_ms;     /* from finish to the end */
    uint64_t peak_bytes;      /* resident, of the process */
    uint64_t memory_pages;    /* of linear memory at its largest, 64 KiB each */
    uint64_t cpu_us;          /* user and system, the start included */
};

#define RSBX_WASM_OUTCOME_INIT \
    { RSBX_BUF_INIT(0), RSBX_BUF_INIT(0), 0, 0, false, false, false, false, false, false, 0, 0, 0, 0 }

void rsbx_wasm_outcome_dispose(struct rsbx_wasm_outcome *outcome);

/* Gives the job to the process, reads what it writes, and ends with the process dead and reaped,
 * whatever is returned. `process` stays the caller's to free and serves no second job. */
int rsbx_wasm_finish(struct rsbx_wasm_outcome *out, struct rsbx_wasm_process *process,
                     const struct rsbx_wasm_job *job, reposbx_error *err);

/* start and finish: the cold form. */
int rsbx_wasm_run(struct rsbx_wasm_outcome *out, const struct rsbx_wasm_module *module,
                  const struct rsbx_wasm_program *program, const struct rsbx_wasm_job *job,
                  reposbx_error *err);

/* Kills and reaps it when it still runs. */
void rsbx_wasm_process_free(struct rsbx_wasm_process *process);

#endif
