/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/fence.h"

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

/* The kernel's interface of seccomp and BPF, whose headers musl's compiler does not see. */
struct code {
    uint16_t what;
    uint8_t yes, no;
    uint32_t value;
};

struct program {
    unsigned short length;
    struct code *code;
};

#define LOAD 0x20U
#define AND 0x54U
#define EQUAL 0x15U
#define RETURN 0x06U
#define AT_CALL 0U
#define AT_KIND 4U
#define AT_ARGUMENT(n) (16U + 8U * (n)) /* its lower half; both kinds are little endian */
#define ALLOW 0x7fff0000U
#define REFUSE (0x00050000U | EPERM)
#define MODE_FILTER 2

/* The kinds of calls that a machine of ours takes: its own and the one of 32 bits. */
#define KINDS 2U
#define PLAIN 5U
#define OF_PRIORITY_USER 2U /* PRIO_USER and IOPRIO_WHO_USER */
#define OF_IO_USER 3U
#define THE_GUEST 1U        /* as a process */
#define VSOCK 40U           /* AF_VSOCK */
#define CALL_SOCKET 1U      /* SYS_SOCKET of socketcall, whose arguments a filter cannot see */
#define NO_CALL 0xbfffffffU

struct kind {
    uint32_t id;
    uint32_t plain[PLAIN]; /* the first argument is a process */
    uint32_t priority, io; /* the first one says what the second names */
    uint32_t socket, socketcall, uring;
};

#if defined(__x86_64__)
/* The calls of x32 are those of x86-64 with one bit more. */
#define CALL_BITS 0xbfffffffU
static const struct kind kinds[KINDS] = {
    {0xc000003eU,
     {SYS_prlimit64, SYS_sched_setscheduler, SYS_sched_setparam, SYS_sched_setattr, SYS_sched_setaffinity},
     SYS_setpriority, SYS_ioprio_set, SYS_socket, NO_CALL, 425},
    {0x40000003U, {340, 156, 154, 351, 241}, 97, 289, 359, 102, 425},
};
#elif defined(__aarch64__)
#define CALL_BITS 0xffffffffU
static const struct kind kinds[KINDS] = {
    {0xc00000b7U,
     {SYS_prlimit64, SYS_sched_setscheduler, SYS_sched_setparam, SYS_sched_setattr, SYS_sched_setaffinity},
     SYS_setpriority, SYS_ioprio_set, SYS_socket, NO_CALL, 425},
    {0x40000028U, {369, 156, 154, 380, 241}, 97, 314, 281, NO_CALL, 425},
};
#endif

#if defined(CALL_BITS)

#define BLOCK (2U + 5U * (PLAIN + 2U) + 2U * 7U + 2U + 1U)
#define LENGTH (1U + KINDS * (1U + BLOCK) + 1U)

static void add(struct program *program, uint32_t what, unsigned yes, unsigned no, uint32_t value)
{
    program->code[program->length++] =
        (struct code){(uint16_t)what, (uint8_t)yes, (uint8_t)no, value};
}

static void add_first(struct program *program, uint32_t call, uint32_t first)
{
    add(program, EQUAL, 0, 4, call);
    add(program, LOAD, 0, 0, AT_ARGUMENT(0));
    add(program, EQUAL, 0, 1, first);
    add(program, RETURN, 0, 0, REFUSE);
    add(program, RETURN, 0, 0, ALLOW);
}

static void add_who(struct program *program, uint32_t call, uint32_t user)
{
    add(program, EQUAL, 0, 6, call);
    add(program, LOAD, 0, 0, AT_ARGUMENT(0));
    add(program, EQUAL, 2, 0, user);
    add(program, LOAD, 0, 0, AT_ARGUMENT(1));
    add(program, EQUAL, 0, 1, THE_GUEST);
    add(program, RETURN, 0, 0, REFUSE);
    add(program, RETURN, 0, 0, ALLOW);
}

int rsbx_fence(void)
{
    struct code code[LENGTH];
    struct program program = {0, code};

    add(&program, LOAD, 0, 0, AT_KIND);
    for (size_t i = 0; i < KINDS; i++) {
        add(&program, EQUAL, 0, BLOCK, kinds[i].id);
        add(&program, LOAD, 0, 0, AT_CALL);
        add(&program, AND, 0, 0, CALL_BITS);
        for (size_t k = 0; k < PLAIN; k++) {
            add_first(&program, kinds[i].plain[k], THE_GUEST);
        }
        add_who(&program, kinds[i].priority, OF_PRIORITY_USER);
        add_who(&program, kinds[i].io, OF_IO_USER);
        add_first(&program, kinds[i].socket, VSOCK);
        add_first(&program, kinds[i].socketcall, CALL_SOCKET);
        add(&program, EQUAL, 0, 1, kinds[i].uring);
        add(&program, RETURN, 0, 0, REFUSE);
        add(&program, RETURN, 0, 0, ALLOW);
    }
    add(&program, RETURN, 0, 0, REFUSE);
    return prctl(PR_SET_SECCOMP, MODE_FILTER, &program, 0, 0) == 0 ? 0 : errno;
}

#else

int rsbx_fence(void)
{
    return ENOSYS;
}

#endif
