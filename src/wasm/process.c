/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/text.h"
#include "wasi/page.h"
#include "wasm/internal.h"

#include "base/banned.h"

/*
 * The process of one program. What it has: stdin (a socket of which it holds the reading end, so that
 * one that is gone costs the caller no SIGPIPE), two pipes, the page of wasi/page.h until it runs, and
 * limits. The rest of its confinement it puts on itself before the module's code runs (wasi/host.c).
 */
struct rsbx_wasm_process {
    pid_t pid; /* 0: reaped */
    int in_fd, out_fd, err_fd;
    volatile struct rsbx_wasi_page *page;
};

#define MIB (1024ULL * 1024ULL)
#define PAGE_BYTES 65536U
#define DEFAULT_MEMORY_BYTES (256U * MIB)
#define MAX_MEMORY_BYTES (4096U * MIB)
#define MAX_CPU_SECONDS 120U
#define DEFAULT_TIMEOUT_MS 120000U
#define DEFAULT_OUTPUT_BYTES (64U * 1024U)
#define MAX_OUTPUT_BYTES (256U * MIB)
/* Deep recursion of an interpreter; its end is a trap. */
#define STACK_BYTES (64U * MIB)
/* Beside linear memory: the runtime's heap and the program's own writable data. */
#define DATA_BYTES (128U * MIB)
/* The host reserves 16 GiB of addresses for linear memory and its guards. */
#define ADDRESS_BYTES (18U * 1024U * MIB)
/* Between two looks at a process that is to wait. */
#define SETTLE_NS 2000000L
/* Who the process is when the caller is root: nobody. */
#define NOBODY 65534U

static int limit(int resource, uint64_t now, uint64_t most)
{
    struct rlimit both = { .rlim_cur = now, .rlim_max = most };

    return setrlimit((__rlimit_resource_t)resource, &both);
}

/* ---- the start ---- */

struct launch {
    int ends[4]; /* of the child: stdin, stdout, stderr, the page */
    int native_fd;
    char *const *argv;
    uint64_t memory_bytes, cpu_seconds;
    pid_t parent;
};

/* Descriptors 0 to 3 as they should be and the program at 4; nothing above. */
static int arrange(const struct launch *launch)
{
    int moved[5];

    for (int i = 0; i < 5; i++) {
        moved[i] = fcntl(i < 4 ? launch->ends[i] : launch->native_fd, F_DUPFD, 10);
        if (moved[i] < 0)
            return -1;
    }
    for (int i = 0; i < 5; i++) {
        if (dup2(moved[i], i) < 0)
            return -1;
    }
    if (fcntl(4, F_SETFD, FD_CLOEXEC) != 0)
        return -1;
    return (int)syscall(SYS_close_range, 5U, ~0U, 0U);
}

/* A root caller's process is nobody. Where that is not allowed (a container without the capability) it
 * stays what the caller is: nothing of its confinement depends on it. */
static void drop_root(void)
{
    if (geteuid() == 0 && setgroups(0, NULL) == 0 && setresgid(NOBODY, NOBODY, NOBODY) == 0)
        (void)!setresuid(NOBODY, NOBODY, NOBODY);
}

static int confine(const struct launch *launch)
{
    if (limit(RLIMIT_CORE, 0, 0) != 0 || limit(RLIMIT_FSIZE, 0, 0) != 0 ||
        limit(RLIMIT_STACK, STACK_BYTES, STACK_BYTES) != 0 ||
        limit(RLIMIT_AS, ADDRESS_BYTES, ADDRESS_BYTES) != 0 ||
        limit(RLIMIT_DATA, launch->memory_bytes + DATA_BYTES, launch->memory_bytes + DATA_BYTES) != 0 ||
        limit(RLIMIT_CPU, launch->cpu_seconds, launch->cpu_seconds + 1) != 0 ||
        limit(RLIMIT_NPROC, 0, 0) != 0 || limit(RLIMIT_NOFILE, 4, 4) != 0)
        return -1;
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
}

/* Between fork and exec: only calls that are safe there. */
static _Noreturn void become(const struct launch *launch)
{
    static char *const environment[] = { NULL };
    sigset_t none;

    drop_root();
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* after the change of user, which clears it */
    if (getppid() != launch->parent)
        _exit(98);
    for (int number = 1; number < 32; number++)
        (void)signal(number, SIG_DFL);
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    if (chdir("/") != 0 || arrange(launch) != 0 || confine(launch) != 0)
        _exit(97);
    (void)syscall(SYS_execveat, 4, "", launch->argv, environment, AT_EMPTY_PATH);
    _exit(96);
}

static int make_page(int *fd, volatile struct rsbx_wasi_page **page, uint64_t memory_bytes,
                     reposbx_error *err)
{
    RSBX_AUTO(rsbx_fd) int own = memfd_create("reposbx-wasm", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    struct rsbx_wasi_page *mapped;

    if (own < 0 || ftruncate(own, RSBX_WASI_PAGE_BYTES) != 0 ||
        fcntl(own, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
        return rsbx_fail_errno(err, REPOSBX_EINTERNAL, "cannot make a page of memory");
    mapped = mmap(NULL, RSBX_WASI_PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, own, 0);
    if (mapped == MAP_FAILED)
        return rsbx_fail_errno(err, REPOSBX_EINTERNAL, "cannot map a page of memory");
    mapped->magic = RSBX_WASI_PAGE_MAGIC;
    mapped->limit_pages = (uint32_t)(memory_bytes / PAGE_BYTES);
    *page = mapped;
    *fd = rsbx_fd_steal(&own);
    return REPOSBX_OK;
}

/* Ours are the other ends of what stands in `launch`. */
static int make_ends(struct rsbx_wasm_process *process, struct launch *launch, uint64_t memory_bytes,
                     reposbx_error *err)
{
    int in[2], out[2], errors[2];

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, in) != 0)
        return rsbx_fail_errno(err, REPOSBX_EINTERNAL, "cannot make a socket pair");
    launch->ends[0] = in[0];
    process->in_fd = in[1];
    if (shutdown(in[0], SHUT_WR) != 0 || fcntl(in[1], F_SETFL, O_NONBLOCK) != 0 ||
        pipe2(out, O_CLOEXEC) != 0)
        return rsbx_fail_errno(err, REPOSBX_EINTERNAL, "cannot make a pipe");
    launch->ends[1] = out[1];
    process->out_fd = out[0];
    if (pipe2(errors, O_CLOEXEC) != 0)
        return rsbx_fail_errno(err, REPOSBX_EINTERNAL, "cannot make a pipe");
    launch->ends[2] = errors[1];
    process->err_fd = errors[0];
    return make_page(&launch->ends[3], &process->page, memory_bytes, err);
}

static void launch_autop(struct launch *launch)
{
    for (int i = 0; i < 4; i++) {
        if (launch->ends[i] >= 0)
            (void)close(launch->ends[i]);
    }
}

RSBX_CLEANUP(process, struct rsbx_wasm_process *, rsbx_wasm_process_free);

static int check_program(const struct rsbx_wasm_program *program, reposbx_error *err)
{
    size_t total = 0;

    if (program->memory_bytes > MAX_MEMORY_BYTES)
        return rsbx_fail(err, REPOSBX_EINVALID, "memory_bytes is over %llu", MAX_MEMORY_BYTES);
    if (program->cpu_seconds > MAX_CPU_SECONDS)
        return rsbx_fail(err, REPOSBX_EINVALID, "cpu_seconds is over %u", MAX_CPU_SECONDS);
    if (program->argv != NULL && (program->argc == 0 || program->argc > RSBX_MAX_ARGV_COUNT))
        return rsbx_fail(err, REPOSBX_EINVALID, "argv has no or too many elements");
    for (size_t i = 0; program->argv != NULL && i < program->argc; i++)
        total += strlen(program->argv[i]) + 1;
    return total <= RSBX_MAX_ARG_BYTES
               ? REPOSBX_OK
               : rsbx_fail(err, REPOSBX_EINVALID, "argv has over %u bytes", RSBX_MAX_ARG_BYTES);
}

/* A copy of the pointers, NULL-terminated. */
static int copy_argv(void **out, const struct rsbx_wasm_program *program, reposbx_error *err)
{
    static const char *const usual[] = { "python3", "-" };
    const char *const *argv = program->argv != NULL ? program->argv : usual;
    size_t argc = program->argv != NULL ? program->argc : sizeof usual / sizeof usual[0];
    const char **copy = calloc(argc + 1, sizeof *copy);

    if (copy == NULL)
        return rsbx_fail_memory(err);
    memcpy(copy, argv, argc * sizeof *copy);
    *out = copy;
    return REPOSBX_OK;
}

int rsbx_wasm_start(struct rsbx_wasm_process **out, const struct rsbx_wasm_module *module,
                    const struct rsbx_wasm_program *program, reposbx_error *err)
{
    static const struct rsbx_wasm_program usual = { NULL, 0, 0, 0 };
    RSBX_AUTO(process) struct rsbx_wasm_process *process = NULL;
    RSBX_AUTO(launch) struct launch launch = { .ends = { -1, -1, -1, -1 } };
    RSBX_AUTO(rsbx_memory) void *argv = NULL;
    int rc;

    program = program != NULL ? program : &usual;
    rc = check_program(program, err);
    if (rc == 0)
        rc = copy_argv(&argv, program, err);
    if (rc != 0)
        return rc;
    process = calloc(1, sizeof *process);
    if (process == NULL)
        return rsbx_fail_memory(err);
    process->in_fd = process->out_fd = process->err_fd = -1;
    launch.native_fd = module->native_fd;
    launch.argv = argv;
    launch.memory_bytes = program->memory_bytes != 0 ? program->memory_bytes : DEFAULT_MEMORY_BYTES;
    launch.cpu_seconds = program->cpu_seconds != 0 ? program->cpu_seconds : MAX_CPU_SECONDS;
    launch.parent = getpid();
    rc = make_ends(process, &launch, launch.memory_bytes, err);
    if (rc != 0)
        return rc;
    process->pid = fork();
    if (process->pid < 0) {
        process->pid = 0;
        return rsbx_fail_errno(err, REPOSBX_EINTERNAL, "cannot fork");
    }
    if (process->pid == 0)
        become(&launch);
    *out = process_steal(&process);
    return REPOSBX_OK;
}

bool rsbx_wasm_process_alive(const struct rsbx_wasm_process *process)
{
    siginfo_t facts = { .si_pid = 0 };

    return process->pid > 0 &&
           waitid(P_PID, (id_t)process->pid, &facts, WEXITED | WNOHANG | WNOWAIT) == 0 &&
           facts.si_pid == 0;
}

pid_t rsbx_wasm_process_pid(const struct rsbx_wasm_process *process)
{
    return process->pid;
}

bool rsbx_wasm_process_waits(const struct rsbx_wasm_process *process)
{
    return process->page->phase == RSBX_WASI_WAITS && rsbx_wasm_process_alive(process);
}

int rsbx_wasm_process_settle(const struct rsbx_wasm_process *process, struct rsbx_deadline deadline,
                             reposbx_error *err)
{
    const struct timespec pause = { .tv_sec = 0, .tv_nsec = SETTLE_NS };

    while (!rsbx_wasm_process_waits(process)) {
        if (!rsbx_wasm_process_alive(process))
            return rsbx_fail(err, REPOSBX_EUNAVAILABLE, "the program ended before it read its stdin");
        if (rsbx_deadline_passed(deadline))
            return rsbx_fail(err, REPOSBX_EUNAVAILABLE, "the program did not get to its stdin in time");
        (void)nanosleep(&pause, NULL);
    }
    return REPOSBX_OK;
}

void rsbx_wasm_process_free(struct rsbx_wasm_process *process)
{
    if (process == NULL)
        return;
    if (process->pid > 0) {
        (void)kill(process->pid, SIGKILL);
        while (waitpid(process->pid, NULL, 0) < 0 && errno == EINTR)
            continue;
    }
    if (process->in_fd >= 0)
        (void)close(process->in_fd);
    if (process->out_fd >= 0)
        (void)close(process->out_fd);
    if (process->err_fd >= 0)
        (void)close(process->err_fd);
    if (process->page != NULL)
        (void)munmap((void *)(uintptr_t)process->page, RSBX_WASI_PAGE_BYTES);
    free(process);
}

/* ---- the job ---- */

struct talk {
    struct rsbx_wasm_process *process;
    const struct rsbx_wasm_job *job;
    struct rsbx_wasm_outcome *out;
    struct rsbx_deadline deadline;
    size_t sent;
    uint64_t seen; /* bytes of both outputs */
    bool cancelled;
};

/* Fewer bytes or seconds than it was started with. */
static int lower_limits(const struct rsbx_wasm_process *process, const struct rsbx_wasm_job *job,
                        reposbx_error *err)
{
    struct rlimit cpu;
    struct timespec used = { 0, 0 };
    clockid_t clock;

    if (job->memory_bytes != 0 && job->memory_bytes / PAGE_BYTES < process->page->limit_pages)
        process->page->limit_pages = (uint32_t)(job->memory_bytes / PAGE_BYTES);
    if (job->cpu_seconds == 0)
        return REPOSBX_OK;
    if (clock_getcpuclockid(process->pid, &clock) == 0)
        (void)clock_gettime(clock, &used);
    if (prlimit(process->pid, RLIMIT_CPU, NULL, &cpu) != 0)
        return rsbx_fail_errno(err, REPOSBX_EINTERNAL, "cannot read the process's limits");
    if ((uint64_t)used.tv_sec + job->cpu_seconds >= cpu.rlim_cur)
        return REPOSBX_OK;
    cpu.rlim_cur = (rlim_t)used.tv_sec + job->cpu_seconds;
    if (prlimit(process->pid, RLIMIT_CPU, &cpu, NULL) != 0)
        return rsbx_fail_errno(err, REPOSBX_EINTERNAL, "cannot lower the process's limits");
    return REPOSBX_OK;
}

static void close_input(struct rsbx_wasm_process *process)
{
    (void)close(process->in_fd);
    process->in_fd = -1;
}

static void send_input(struct talk *talk)
{
    const struct rsbx_wasm_job *job = talk->job;
    const char *bytes = job->input;

    while (talk->sent < job->input_length) {
        ssize_t done = send(talk->process->in_fd, bytes + talk->sent, job->input_length - talk->sent,
                            MSG_NOSIGNAL);

        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0 && errno == EAGAIN)
            return;
        if (done < 0)
            break; /* it reads no more, which is its own affair */
        talk->sent += (size_t)done;
    }
    close_input(talk->process);
}

static void stop(const struct talk *talk)
{
    (void)kill(talk->process->pid, SIGKILL);
}

/* One read; what is over the stream's limit is dropped. */
static int take(struct talk *talk, int *fd, struct rsbx_buf *to, reposbx_error *err)
{
    char bytes[65536];
    ssize_t length = read(*fd, bytes, sizeof bytes);
    size_t room = to->limit - to->length;
    size_t kept;

    if (length < 0 && errno == EINTR)
        return REPOSBX_OK;
    if (length <= 0) {
        (void)close(*fd);
        *fd = -1;
        return REPOSBX_OK;
    }
    kept = (size_t)length < room ? (size_t)length : room;
    if (kept < (size_t)length)
        talk->out->output_limited = true;
    talk->seen += (uint64_t)length;
    if (talk->job->most_bytes != 0 && talk->seen > talk->job->most_bytes && !talk->out->flooded) {
        talk->out->flooded = true;
        stop(talk);
    }
    return kept > 0 ? rsbx_buf_append(to, bytes, kept, err) : REPOSBX_OK;
}

/* stdout first, stderr in what is left. */
static void share_budget(struct rsbx_wasm_outcome *out)
{
    size_t left = out->out.limit - out->out.length;

    if (out->err.length > left) {
        out->err.length = left;
        out->err.data[left] = '\0';
        out->output_limited = true;
    }
}

/* One round: waits for anything to happen, and handles it. */
static int round_of(struct talk *talk, bool *stopped, reposbx_error *err)
{
    struct rsbx_wasm_process *process = talk->process;
    struct pollfd fds[4] = {
        { .fd = process->out_fd, .events = POLLIN },
        { .fd = process->err_fd, .events = POLLIN },
        { .fd = process->in_fd, .events = POLLOUT },
        { .fd = *stopped ? -1 : talk->job->cancel_fd, .events = POLLIN },
    };
    int ready = poll(fds, 4, *stopped ? -1 : rsbx_deadline_left_ms(talk->deadline));
    int rc = REPOSBX_OK;

    if (ready < 0 && errno != EINTR)
        return rsbx_fail_errno(err, REPOSBX_EINTERNAL, "cannot wait for the program");
    if (ready <= 0 && !*stopped && rsbx_deadline_passed(talk->deadline)) {
        talk->out->timed_out = *stopped = true;
        stop(talk);
    }
    if (ready <= 0)
        return REPOSBX_OK;
    if (fds[3].revents != 0) {
        talk->cancelled = *stopped = true;
        stop(talk);
    }
    if (fds[2].revents != 0)
        send_input(talk);
    if (fds[0].revents != 0)
        rc = take(talk, &process->out_fd, &talk->out->out, err);
    if (rc == 0 && fds[1].revents != 0)
        rc = take(talk, &process->err_fd, &talk->out->err, err);
    return rc;
}

/* How it ended, in the outcome; an error when the host itself could not do its work. */
static int judge(struct talk *talk, int status, const struct rusage *usage, reposbx_error *err)
{
    const volatile struct rsbx_wasi_page *page = talk->process->page;
    struct rsbx_wasm_outcome *out = talk->out;
    uint32_t phase = page->phase;

    out->signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    out->exit_code = out->signal != 0 ? 128 + out->signal : WEXITSTATUS(status);
    out->cpu_exhausted = out->signal == SIGXCPU;
    out->trapped = phase == RSBX_WASI_TRAPPED && out->exit_code == RSBX_WASI_EXIT_TRAP;
    out->out_of_memory = page->denied != 0;
    out->memory_pages = page->peak_pages;
    out->peak_bytes = (uint64_t)usage->ru_maxrss * 1024U;
    out->cpu_us = (uint64_t)(usage->ru_utime.tv_sec + usage->ru_stime.tv_sec) * 1000000U +
                  (uint64_t)(usage->ru_utime.tv_usec + usage->ru_stime.tv_usec);
    if (talk->cancelled)
        return rsbx_fail(err, REPOSBX_ECANCELLED, "the program was stopped by the caller");
    if ((phase == RSBX_WASI_BROKEN || phase == RSBX_WASI_BORN) && !out->timed_out) {
        char words[256];

        rsbx_text_printable(words, sizeof words, out->err.data != NULL ? out->err.data : "",
                            out->err.length);
        return rsbx_fail(err, REPOSBX_EINTERNAL, "the program could not be started (status %d)%s%s",
                         out->exit_code, words[0] != '\0' ? ": " : "", words);
    }
    return REPOSBX_OK;
}

static int reap(struct talk *talk, reposbx_error *err)
{
    struct rsbx_wasm_process *process = talk->process;
    struct rusage usage;
    int status = 0;
    pid_t ended;

    do {
        ended = wait4(process->pid, &status, 0, &usage);
    } while (ended < 0 && errno == EINTR);
    if (ended < 0) {
        process->pid = 0;
        return rsbx_fail_errno(err, REPOSBX_EINTERNAL, "cannot wait for the program");
    }
    process->pid = 0;
    return judge(talk, status, &usage, err);
}

void rsbx_wasm_outcome_dispose(struct rsbx_wasm_outcome *outcome)
{
    rsbx_buf_dispose(&outcome->out);
    rsbx_buf_dispose(&outcome->err);
}

static int check_job(const struct rsbx_wasm_process *process, const struct rsbx_wasm_job *job,
                     reposbx_error *err)
{
    if (process->pid <= 0 || process->in_fd < 0)
        return rsbx_fail(err, REPOSBX_EINVALID, "the process has already served its job");
    if (job->output_bytes > MAX_OUTPUT_BYTES)
        return rsbx_fail(err, REPOSBX_EINVALID, "output_bytes is over %llu", MAX_OUTPUT_BYTES);
    return REPOSBX_OK;
}

int rsbx_wasm_finish(struct rsbx_wasm_outcome *out, struct rsbx_wasm_process *process,
                     const struct rsbx_wasm_job *job, reposbx_error *err)
{
    struct rsbx_wasm_outcome outcome = RSBX_WASM_OUTCOME_INIT;
    struct talk talk = { .process = process, .job = job, .out = &outcome };
    uint64_t start = rsbx_now_ns();
    bool stopped = false;
    int reaped, rc = check_job(process, job, err);

    if (rc != 0)
        return rc;
    outcome.out.limit = job->output_bytes != 0 ? (size_t)job->output_bytes : DEFAULT_OUTPUT_BYTES;
    outcome.err.limit = outcome.out.limit;
    talk.deadline = rsbx_deadline_in_ms(job->timeout_ms != 0 ? job->timeout_ms : DEFAULT_TIMEOUT_MS);
    rc = lower_limits(process, job, err);
    /* Only the process holds the other ends: when both outputs have ended, so has it. */
    while (rc == 0 && (process->out_fd >= 0 || process->err_fd >= 0))
        rc = round_of(&talk, &stopped, err);
    if (rc != 0)
        stop(&talk);
    share_budget(&outcome);
    reaped = reap(&talk, rc != 0 ? NULL : err);
    outcome.duration_ms = (rsbx_now_ns() - start) / 1000000U;
    if (rc == 0)
        rc = reaped;
    if (rc != 0)
        rsbx_wasm_outcome_dispose(&outcome);
    else
        *out = outcome;
    return rc;
}

int rsbx_wasm_run(struct rsbx_wasm_outcome *out, const struct rsbx_wasm_module *module,
                  const struct rsbx_wasm_program *program, const struct rsbx_wasm_job *job,
                  reposbx_error *err)
{
    RSBX_AUTO(process) struct rsbx_wasm_process *process = NULL;
    int rc = rsbx_wasm_start(&process, module, program, err);

    return rc != 0 ? rc : rsbx_wasm_finish(out, process, job, err);
}
