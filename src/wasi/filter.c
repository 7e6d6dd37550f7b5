/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "wasi/host.h"

/*
 * The filter, written by hand so that the program needs no library: one architecture, a list of calls,
 * and conditions on the arguments of four of them. Anything else kills the process.
 */
#if defined(__x86_64__)
#define OUR_ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define OUR_ARCH AUDIT_ARCH_AARCH64
#else
#error "the filter of system calls knows x86-64 and AArch64"
#endif

#define LOW(n) (offsetof(struct seccomp_data, args) + 8U * (n))
#define HIGH(n) (LOW(n) + 4U)

#define MOST 128U

struct program {
    struct sock_filter code[MOST];
    unsigned count;
};

static void put(struct program *program, uint16_t code, uint32_t k, uint8_t yes, uint8_t no)
{
    if (program->count < MOST)
        program->code[program->count] = (struct sock_filter){ code, yes, no, k };
    program->count++;
}

static void load(struct program *program, size_t offset)
{
    put(program, BPF_LD | BPF_W | BPF_ABS, (uint32_t)offset, 0, 0);
}

static void answer(struct program *program, uint32_t action)
{
    put(program, BPF_RET | BPF_K, action, 0, 0);
}

/* The next `length` instructions are for this call alone; the number is in the accumulator. */
static void only_for(struct program *program, long call, uint8_t length)
{
    put(program, BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)call, 0, length);
}

static void allow(struct program *program, long call)
{
    only_for(program, call, 1);
    answer(program, SECCOMP_RET_ALLOW);
}

/* The call with its first argument, a descriptor, from `first` to `last`. */
static void allow_fd(struct program *program, long call, uint32_t first, uint32_t last)
{
    only_for(program, call, 5);
    load(program, LOW(0));
    put(program, BPF_JMP | BPF_JGE | BPF_K, first, 0, 2);
    put(program, BPF_JMP | BPF_JGT | BPF_K, last, 1, 0);
    answer(program, SECCOMP_RET_ALLOW);
    answer(program, SECCOMP_RET_KILL_PROCESS);
}

/* mprotect(), to exactly read and write, with its address inside the linear memory's 8 GiB. These
 * start at a multiple of 4 GiB, so the upper halves of addresses say it all; 4 GiB of guard lie behind
 * them, so a length below that cannot reach anything else. */
static void allow_mprotect(struct program *program, uint64_t base, uint64_t reserved)
{
    uint32_t first = (uint32_t)(base >> 32);
    uint32_t last = (uint32_t)((base + reserved - 1) >> 32);

    only_for(program, SYS_mprotect, 11);
    load(program, HIGH(0));
    put(program, BPF_JMP | BPF_JGE | BPF_K, first, 0, 7);
    put(program, BPF_JMP | BPF_JGT | BPF_K, last, 6, 0);
    load(program, HIGH(1));
    put(program, BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 4); /* less than 4 GiB: cannot reach past the guard */
    load(program, LOW(2));
    put(program, BPF_JMP | BPF_JEQ | BPF_K, PROT_READ | PROT_WRITE, 0, 2);
    load(program, HIGH(2));
    put(program, BPF_JMP | BPF_JEQ | BPF_K, 0, 1, 0);
    answer(program, SECCOMP_RET_KILL_PROCESS);
    answer(program, SECCOMP_RET_ALLOW);
}

static void write_filter(struct program *program, const void *memory, uint64_t reserved)
{
    load(program, offsetof(struct seccomp_data, arch));
    put(program, BPF_JMP | BPF_JEQ | BPF_K, OUR_ARCH, 1, 0);
    answer(program, SECCOMP_RET_KILL_PROCESS);
    load(program, offsetof(struct seccomp_data, nr)); /* calls of the x32 kind have other numbers */
    allow_fd(program, SYS_read, 0, 0);
    allow_fd(program, SYS_write, 1, 2);
    allow(program, SYS_clock_gettime);
    allow(program, SYS_clock_getres);
    allow(program, SYS_getrandom);
    allow(program, SYS_ppoll);
    allow(program, SYS_sched_yield);
    allow(program, SYS_rt_sigprocmask);
    allow(program, SYS_rt_sigreturn);
    allow(program, SYS_restart_syscall);
    allow(program, SYS_exit_group);
    allow_mprotect(program, (uint64_t)(uintptr_t)memory, reserved);
    /* What the allocator asks for when a table grows: there is no more. */
    only_for(program, SYS_brk, 1);
    answer(program, SECCOMP_RET_ERRNO | ENOMEM);
    only_for(program, SYS_mmap, 1);
    answer(program, SECCOMP_RET_ERRNO | ENOMEM);
    answer(program, SECCOMP_RET_KILL_PROCESS);
}

int rsbx_wasi_confine(const void *memory, uint64_t reserved)
{
    struct program program = { .count = 0 };
    struct sock_fprog filter;

    write_filter(&program, memory, reserved);
    if (program.count > MOST) {
        errno = E2BIG;
        return -1;
    }
    filter.len = (unsigned short)program.count;
    filter.filter = program.code;
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
        return -1;
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter, 0, 0);
}
