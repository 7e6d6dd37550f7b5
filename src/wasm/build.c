/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "wasi/embedded.h"
#include "wasm/internal.h"

#include "base/banned.h"

/*
 * From a module to a program: wasm2c, the splitter, one compiler for each processor, the linker. All of
 * it happens in one folder that nobody else can enter.
 */

#define RUNTIME_FOLDER "/usr/share/wabt/wasm2c"
#define MAX_JOBS 64U

struct tools {
    char wasm2c[64], cc[64];
};

static int missing(const char *what, const char *package, reposbx_error *err)
{
    (void)rsbx_fail(err, REPOSBX_EUNAVAILABLE, "%s is not installed", what);
    rsbx_hint(err, "on Debian: apt-get install %s", package);
    return REPOSBX_EUNAVAILABLE;
}

const char *rsbx_wasm_tool_missing(void)
{
    char place[64];

    if (rsbx_wasm_tool_find(place, sizeof place, "wasm2c") == NULL ||
        access(RUNTIME_FOLDER "/wasm-rt-impl.h", R_OK) != 0)
        return "wasm2c";
    return rsbx_wasm_tool_find(place, sizeof place, "cc") == NULL ? "cc" : NULL;
}

static int find_tools(struct tools *tools, struct rsbx_wasm_build *build, reposbx_error *err)
{
    int rc;

    if (rsbx_wasm_tool_find(tools->wasm2c, sizeof tools->wasm2c, "wasm2c") == NULL ||
        access(RUNTIME_FOLDER "/wasm-rt-impl.h", R_OK) != 0)
        return missing("wasm2c, which turns WebAssembly into C,", "wabt", err);
    if (rsbx_wasm_tool_find(tools->cc, sizeof tools->cc, "cc") == NULL)
        return missing("a C compiler (cc)", "gcc libc6-dev", err);
    rc = rsbx_wasm_tool_line(&build->translator, build->dir_fd,
                             (const char *const[]){ tools->wasm2c, "--version", NULL }, "wasm2c", err);
    if (rc == 0)
        rc = rsbx_wasm_tool_line(&build->compiler, build->dir_fd,
                                 (const char *const[]){ tools->cc, "--version", NULL }, "cc", err);
    if (rc == 0 && strcmp(build->translator, RSBX_WASM_TRANSLATOR) != 0)
        return rsbx_fail(err, REPOSBX_EUNAVAILABLE, "wasm2c has version %s; this release works with "
                         "%s", build->translator, RSBX_WASM_TRANSLATOR);
    return rc;
}

static int write_file(int dir_fd, const char *name, const void *bytes, size_t length,
                      reposbx_error *err)
{
    RSBX_AUTO(rsbx_fd) int fd = openat(dir_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

    if (fd < 0 || rsbx_write_all(fd, bytes, length) != 0)
        return rsbx_fail_errno(err, REPOSBX_EIO, "cannot write %s", name);
    return REPOSBX_OK;
}

/* The host's sources below wasi/, and the image of the module's data. */
static int write_sources(const struct rsbx_wasm_build *build, const struct rsbx_wasm_parsed *parsed,
                         reposbx_error *err)
{
    char generated[128], image[512];
    int head = snprintf(generated, sizeof generated,
                        "#include \"../module.h\"\n#define RSBX_WASI_IMPORTED %d\n", parsed->imports);
    int length = snprintf(image, sizeof image,
                          "#include <stdint.h>\n"
                          "__asm__(\".section .rodata\\n.balign 4096\\n.global rsbx_image\\n\"\n"
                          "        \"rsbx_image: .incbin \\\"image.bin\\\"\\n.byte 0\\n.previous\\n\");\n"
                          "const uint32_t rsbx_image_offset = %uU;\n"
                          "const uint32_t rsbx_image_bytes = %zuU;\n",
                          parsed->image_offset, parsed->image.length);
    int rc = REPOSBX_OK;

    if (mkdirat(build->dir_fd, "wasi", 0700) != 0)
        return rsbx_fail_errno(err, REPOSBX_EIO, "cannot make a folder");
    for (const struct rsbx_wasi_file *file = rsbx_wasi_files; file->name != NULL && rc == 0; file++) {
        char name[64];

        (void)snprintf(name, sizeof name, "wasi/%s", file->name);
        rc = write_file(build->dir_fd, name, file->bytes, file->size, err);
    }
    if (rc == 0)
        rc = write_file(build->dir_fd, "wasi/module.h", generated, (size_t)head, err);
    if (rc == 0)
        rc = write_file(build->dir_fd, "image.c", image, (size_t)length, err);
    if (rc == 0)
        rc = write_file(build->dir_fd, "image.bin", parsed->image.data, parsed->image.length, err);
    if (rc == 0)
        rc = write_file(build->dir_fd, "module.wasm", parsed->bare.data, parsed->bare.length, err);
    return rc;
}

static int report(const struct rsbx_wasm_build *build, const char *step, unsigned done, unsigned total,
                  reposbx_error *err)
{
    if (build->options->progress != NULL &&
        build->options->progress(build->options->payload, step, done, total) != 0)
        return rsbx_fail(err, REPOSBX_ECANCELLED, "cancelled");
    return REPOSBX_OK;
}

static int split_file(unsigned *pieces, const struct rsbx_wasm_build *build, reposbx_error *err)
{
    RSBX_AUTO(rsbx_fd) int fd = openat(build->dir_fd, "module.c", O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    struct stat facts;
    void *text;
    int rc;

    if (fd < 0 || fstat(fd, &facts) != 0)
        return rsbx_fail_errno(err, REPOSBX_EIO, "cannot open what wasm2c wrote");
    if (facts.st_size <= 0 || facts.st_size > (off_t)RSBX_WASM_MAX_C_BYTES)
        return rsbx_fail(err, REPOSBX_ELIMIT, "wasm2c wrote %lld bytes", (long long)facts.st_size);
    text = mmap(NULL, (size_t)facts.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (text == MAP_FAILED)
        return rsbx_fail_errno(err, REPOSBX_EINTERNAL, "cannot map what wasm2c wrote");
    rc = rsbx_wasm_split(pieces, build->dir_fd, text, (size_t)facts.st_size, err);
    (void)munmap(text, (size_t)facts.st_size);
    (void)unlinkat(build->dir_fd, "module.c", 0);
    return rc;
}

/* ---- compiling ---- */

static const char *const host_units[] = { "main", "image", "wasi/host", "wasi/filter", "wasi/wasi",
                                          "wasi/absent" };
#define FIXED_UNITS ((unsigned)(sizeof host_units / sizeof host_units[0]))

/* Unit `index`: the fixed ones first, the pieces after them; its source and object are NAME.c and
 * NAME.o. */
static void unit_name(char out[32], unsigned index)
{
    if (index < FIXED_UNITS)
        (void)snprintf(out, 32, "%s", host_units[index]);
    else
        (void)snprintf(out, 32, "piece%03u", index - FIXED_UNITS);
}

static const char *optimisation_flag(const char *word)
{
    if (word == NULL || strcmp(word, "fast") == 0)
        return "-O1";
    if (strcmp(word, "none") == 0)
        return "-O0";
    return strcmp(word, "full") == 0 ? "-O2" : NULL;
}

/* Ours are compiled as any hardened program. Generated code gets what its semantics need (no other
 * rounding, frames that cannot step over the guard page, no tail calls), and nothing that costs time
 * and guards what the module cannot reach. */
static int start_unit(struct rsbx_wasm_tool *out, const struct rsbx_wasm_build *build,
                      const struct tools *tools, unsigned index, const char *log, reposbx_error *err)
{
    static const char *const ours[] = { "-O2", "-Wall", "-fstack-protector-strong",
                                        "-D_FORTIFY_SOURCE=2", NULL };
    static const char *const theirs[] = { "-w", "-frounding-math", "-fno-optimize-sibling-calls",
                                          "-fno-strict-aliasing", "-fno-stack-protector", NULL };
    bool own = index >= 1 && index < FIXED_UNITS;
    const char *const *more = own ? ours : theirs;
    const char *argv[24];
    char name[32], source[40], object[40];
    size_t count = 0;

    unit_name(name, index);
    (void)snprintf(source, sizeof source, "%s.c", name);
    (void)snprintf(object, sizeof object, "%s.o", name);
    argv[count++] = tools->cc;
    argv[count++] = "-std=gnu17";
    argv[count++] = "-c";
    argv[count++] = "-fPIE";
    argv[count++] = "-fstack-clash-protection";
    argv[count++] = "-fno-asynchronous-unwind-tables";
    argv[count++] = "-I.";
    argv[count++] = "-I" RUNTIME_FOLDER;
    if (own)
        argv[count++] = "-D_GNU_SOURCE";
    else
        argv[count++] = optimisation_flag(build->options->optimisation);
    for (size_t i = 0; more[i] != NULL; i++)
        argv[count++] = more[i];
    argv[count++] = "-o";
    argv[count++] = object;
    argv[count++] = source;
    argv[count] = NULL;
    return rsbx_wasm_tool_start(out, build->dir_fd, argv, log, err);
}

struct pool {
    struct rsbx_wasm_tool tools[MAX_JOBS];
    unsigned units[MAX_JOBS];
    unsigned jobs, running;
};

static void pool_autop(struct pool *pool)
{
    for (unsigned i = 0; i < pool->jobs; i++)
        rsbx_wasm_tool_stop(&pool->tools[i]);
}

static void log_name(char out[32], unsigned job)
{
    (void)snprintf(out, 32, "cc-%u.log", job);
}

/* Looks at every job once; counts what ended. */
static int collect(struct pool *pool, const struct rsbx_wasm_build *build, unsigned *done,
                   reposbx_error *err)
{
    for (unsigned i = 0; i < pool->jobs; i++) {
        char log[32], name[32], what[64];
        int rc;

        if (pool->tools[i].pid <= 0)
            continue;
        log_name(log, i);
        unit_name(name, pool->units[i]);
        (void)snprintf(what, sizeof what, "the compiler (%s.c)", name);
        rc = rsbx_wasm_tool_poll(&pool->tools[i], build->dir_fd, log, what, err);
        if (rc == 1)
            continue;
        pool->running--;
        if (rc != 0)
            return rc;
        (*done)++;
    }
    return REPOSBX_OK;
}

static int fill(struct pool *pool, const struct rsbx_wasm_build *build, const struct tools *tools,
                unsigned *next, unsigned total, reposbx_error *err)
{
    for (unsigned i = 0; i < pool->jobs && *next < total; i++) {
        char log[32];
        int rc;

        if (pool->tools[i].pid > 0)
            continue;
        log_name(log, i);
        rc = start_unit(&pool->tools[i], build, tools, *next, log, err);
        if (rc != 0)
            return rc;
        pool->units[i] = (*next)++;
        pool->running++;
    }
    return REPOSBX_OK;
}

static unsigned jobs_of(const struct rsbx_wasm_install_options *options)
{
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    unsigned jobs = options->jobs != 0 ? options->jobs : processors > 0 ? (unsigned)processors : 1;

    return jobs > MAX_JOBS ? MAX_JOBS : jobs;
}

static int compile(const struct rsbx_wasm_build *build, const struct tools *tools, unsigned total,
                   reposbx_error *err)
{
    RSBX_AUTO(pool) struct pool pool = { .jobs = jobs_of(build->options) };
    unsigned next = 0, done = 0, told = 0;
    int rc = report(build, "compile", 0, total, err);

    while (rc == 0 && done < total) {
        struct timespec pause = { .tv_sec = 0, .tv_nsec = 3000000 };

        rc = fill(&pool, build, tools, &next, total, err);
        if (rc == 0)
            rc = collect(&pool, build, &done, err);
        if (rc == 0 && done != told) {
            told = done;
            rc = report(build, "compile", done, total, err);
        } else if (rc == 0) {
            (void)nanosleep(&pause, NULL);
        }
    }
    return rc;
}

/* The objects stand in a file of arguments: they may be thousands. */
static int link_all(const struct rsbx_wasm_build *build, const struct tools *tools, unsigned total,
                    reposbx_error *err)
{
    RSBX_AUTO(rsbx_buf) struct rsbx_buf list = RSBX_BUF_INIT(1024U * 1024U);
    const char *const argv[] = {
        tools->cc, "-static-pie", "-s", "-o", "native", "@objects",
        "-Wl,--wrap=wasm_rt_allocate_memory,--wrap=wasm_rt_grow_memory",
        "-Wl,-z,relro,-z,now,-z,noexecstack", "-lwasm-rt-impl", "-lm", NULL
    };
    int rc = REPOSBX_OK;

    for (unsigned i = 0; i < total && rc == 0; i++) {
        char name[32];

        unit_name(name, i);
        rc = rsbx_buf_format(&list, err, "%s.o\n", name);
    }
    if (rc == 0)
        rc = write_file(build->dir_fd, "objects", list.data, list.length, err);
    return rc != 0 ? rc : rsbx_wasm_tool_run(build->dir_fd, argv, "link.log", "the linker", err);
}

int rsbx_wasm_build(struct rsbx_wasm_build *build, const struct rsbx_wasm_parsed *parsed,
                    reposbx_error *err)
{
    struct tools tools;
    unsigned pieces = 0;
    int rc;

    if (optimisation_flag(build->options->optimisation) == NULL)
        return rsbx_fail(err, REPOSBX_EINVALID, "optimisation is \"none\", \"fast\" or \"full\"");
    rc = find_tools(&tools, build, err);
    if (rc == 0)
        rc = write_sources(build, parsed, err);
    if (rc == 0)
        rc = report(build, "translate", 0, 0, err);
    if (rc == 0) {
        const char *const argv[] = { tools.wasm2c, "--no-debug-names", "-n", "rsbx", "module.wasm",
                                     "-o", "module.c", NULL };

        rc = rsbx_wasm_tool_run(build->dir_fd, argv, "wasm2c.log", "wasm2c", err);
        if (rc == REPOSBX_EPROTOCOL) /* what it refuses is no valid module */
            rc = REPOSBX_EMALFORMED;
        if (rc != 0 && err != NULL)
            err->code = rc;
    }
    if (rc == 0)
        rc = split_file(&pieces, build, err);
    if (rc == 0)
        rc = compile(build, &tools, FIXED_UNITS + pieces, err);
    if (rc == 0)
        rc = report(build, "link", 0, 0, err);
    return rc != 0 ? rc : link_all(build, &tools, FIXED_UNITS + pieces, err);
}
