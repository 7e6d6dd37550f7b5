/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A static program that runs inside sandboxes and misbehaves: helper VERB [ARGUMENT]. It stands alone (no
 * header of ours). Where the sandbox must refuse something it prints one line for each thing that was NOT
 * refused, so that silence is the good answer.
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/bpf.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/swap.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void nap(long ms)
{
    struct timespec pause = { ms / 1000, ms % 1000 * 1000000L };

    (void)nanosleep(&pause, NULL);
}

/* ---- bombs ---- */

/* Every process forks until nobody can; the first one says how often it could. */
static int fork_bomb(void)
{
    long made = 0, refused = 0;

    while (refused < 200) {
        pid_t pid = fork();

        if (pid == 0)
            for (;;)
                if (fork() < 0)
                    nap(1);
        if (pid > 0)
            made++;
        else
            refused++;
    }
    printf("%s\n", made > 0 ? "bounded" : "none");
    return 0;
}

static int memory_bomb(void)
{
    for (int i = 0; i < 8; i++)
        if (fork() == 0)
            break;
    for (;;) {
        char *bytes = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

        if (bytes != MAP_FAILED)
            memset(bytes, 7, 1 << 20);
    }
    return 0;
}

static int many_files(long count)
{
    char name[64];

    if (mkdir("many", 0755) != 0)
        return 3;
    for (long i = 0; i < count; i++) {
        int fd;

        snprintf(name, sizeof name, "many/%ld", i / 1000);
        if (i % 1000 == 0 && mkdir(name, 0755) != 0 && errno != EEXIST)
            return 1;
        snprintf(name, sizeof name, "many/%ld/%ld", i / 1000, i);
        fd = open(name, O_WRONLY | O_CREAT, 0644);
        if (fd < 0)
            return 2;
        close(fd);
    }
    return 0;
}

/* ---- output ---- */

/* Bytes of a stream: three-byte characters, bytes that are no text, NULs, no newline. */
static unsigned char byte_at(unsigned int stream, size_t at)
{
    static const unsigned char text[] = { 0xe2, 0x82, 0xac, 0x00, 0xff, 0xc3, 0xa9, 'a', 0xed };

    return (unsigned char)(text[at % sizeof text] + (stream == 2 && at % 5 == 0 ? 1 : 0));
}

/* Both streams in turns, in pieces of odd sizes. */
static int both_streams(size_t total)
{
    size_t at[3] = { 0, 0, 0 };

    for (unsigned int turn = 0; at[1] < total || at[2] < total; turn++) {
        unsigned int stream = 1 + turn % 2;
        unsigned char piece[4099];
        size_t want = 1 + turn * 37 % sizeof piece, count = 0;

        while (count < want && at[stream] < total)
            piece[count++] = byte_at(stream, at[stream]++);
        for (size_t done = 0; done < count;) {
            ssize_t written = write((int)stream, piece + done, count - done);

            if (written < 0)
                return 1;
            done += (size_t)written;
        }
    }
    return 0;
}

/* ---- survivors ---- */

static void haunt(void)
{
    for (;;) {
        int fd = open("/workspace/trace", O_WRONLY | O_CREAT | O_APPEND, 0644);

        if (fd >= 0) {
            if (write(fd, "x", 1) != 1)
                nap(1);
            close(fd);
        }
        nap(5);
    }
}

static void ignore_everything(void)
{
    for (int number = 1; number < 65; number++)
        signal(number, SIG_IGN);
}

/* Leaves daemons behind that ignore everything, in sessions of their own, some stopped, some holding the
 * pipes open, and ends. */
static int daemons(int keep_pipes)
{
    for (int i = 0; i < 6; i++) {
        pid_t pid = fork();

        if (pid != 0)
            continue;
        setsid();
        if (fork() != 0)
            _exit(0);
        ignore_everything();
        prctl(PR_SET_NAME, "[kworker/0:0]");
        prctl(PR_SET_PDEATHSIG, 0);
        if (!keep_pipes)
            for (int fd = 0; fd < 64; fd++)
                close(fd);
        if (i == 5)
            raise(SIGSTOP);
        haunt();
    }
    nap(100);
    printf("left\n");
    return 0;
}

/* Stops everything that it can reach, PID 1 too if that were possible. */
static int stop_all(void)
{
    if (fork() == 0)
        haunt();
    nap(50);
    kill(1, SIGSTOP);
    kill(1, SIGTSTP);
    kill(-1, SIGSTOP);
    printf("stopped\n");
    fflush(stdout);
    raise(SIGSTOP);
    for (;;)
        pause();
    return 0;
}

/* Asks PID 1, its parent, to trace it, and so do siblings that are stopped and let go without end. */
static int trace_all(void)
{
    (void)ptrace(PTRACE_TRACEME, 0, NULL, NULL);
    (void)raise(SIGCHLD);
    for (int i = 0; i < 40; i++)
        if (syscall(SYS_clone, CLONE_PARENT | SIGCHLD, 0, 0, 0, 0) == 0)
            for (;;) {
                (void)ptrace(PTRACE_TRACEME, 0, NULL, NULL);
                (void)raise(SIGCHLD);
            }
    for (;;)
        (void)pause();
    return 0;
}

/* ---- PID 1 and its descriptors ---- */

static int reach_pid_1(void)
{
    static const char *const files[] = { "/proc/1/mem", "/proc/1/maps", "/proc/1/environ",
                                         "/proc/1/fd/0", "/proc/1/fd/1", "/proc/1/fd/2",
                                         "/proc/1/exe",  "/proc/1/root/etc/passwd",
                                         "/proc/1/cwd/x", "/proc/1/auxv", "/proc/1/syscall",
                                         "/proc/1/stack", "/proc/1/task/1/mem", "/proc/1/io" };
    char byte;
    struct iovec here = { &byte, 1 }, there = { (void *)(uintptr_t)0x400000, 1 };

    if (ptrace(PTRACE_ATTACH, 1, 0, 0) == 0 || ptrace(PTRACE_SEIZE, 1, 0, 0) == 0)
        printf("ptrace of 1\n");
    if (process_vm_readv(1, &here, 1, &there, 1, 0) >= 0)
        printf("read of 1\n");
    if (process_vm_writev(1, &here, 1, &there, 1, 0) >= 0)
        printf("write of 1\n");
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        int fd = open(files[i], O_RDONLY | O_NONBLOCK);

        if (fd >= 0 && read(fd, &byte, 1) >= 0)
            printf("read of %s\n", files[i]);
        fd = open(files[i], O_WRONLY | O_NONBLOCK);
        if (fd >= 0)
            printf("open for writing of %s\n", files[i]);
    }
    if (syscall(SYS_pidfd_open, 1, 0) >= 0) {
        int pidfd = (int)syscall(SYS_pidfd_open, 1, 0);

        for (int fd = 0; fd < 32; fd++)
            if (syscall(SYS_pidfd_getfd, pidfd, fd, 0) >= 0)
                printf("descriptor %d of 1\n", fd);
    }
    if (setpriority(PRIO_PROCESS, 0, -5) == 0)
        printf("priority\n");
    return 0;
}

static int signal_pid_1(void)
{
    for (int number = 1; number < 65; number++)
        kill(1, number);
    nap(200);
    printf("alive\n");
    return 9;
}

/* A message of the guest's wire. */
static size_t message(unsigned char *out, unsigned int type, unsigned int sequence, const void *bytes,
                      unsigned int length)
{
    const unsigned char head[16] = { 'R', 'S', 'B', 'X', 0, 1, 0, (unsigned char)type,
                                     (unsigned char)(sequence >> 24),
                                     (unsigned char)(sequence >> 16),
                                     (unsigned char)(sequence >> 8), (unsigned char)sequence,
                                     (unsigned char)(length >> 24), (unsigned char)(length >> 16),
                                     (unsigned char)(length >> 8), (unsigned char)length };

    memcpy(out, head, sizeof head);
    memcpy(out + sizeof head, bytes, length);
    return sizeof head + length;
}

/* Frames of the engine and messages of the guest, trailers above all, to everything that can be opened or
 * is open; then ends with 7. Only descriptor 1 is left out when `quiet`. */
static int forge(int quiet)
{
    static const char *const files[] = { "/dev/console", "/dev/tty", "/dev/ptmx", "/proc/1/fd/1",
                                         "/proc/1/fd/0", "/dev/kmsg", "/dev/pts/0" };
    static unsigned char bytes[65536];
    unsigned char zeros[512] = { 0 };
    size_t length = 0;

    memcpy(bytes, "\1\0\0\0\0\0\0\20", 8);
    length = 8;
    for (unsigned int sequence = 0; sequence < 8; sequence++) {
        length += message(bytes + length, 20, sequence, zeros, 256);
        length += message(bytes + length, 19, sequence, zeros, 64);
        length += message(bytes + length, 16, sequence, zeros, 320);
    }
    for (int fd = quiet ? 2 : 0; fd < 1024; fd++)
        if (write(fd, bytes, length) < 0 && fd > 2 && errno != EBADF)
            printf("descriptor %d is there\n", fd);
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        int fd = open(files[i], O_RDWR | O_NONBLOCK | O_NOCTTY);

        if (fd >= 0 && write(fd, bytes, length) < 0)
            close(fd);
    }
    return 7;
}

/* ---- rights ---- */

#define TRY(call)                                                                                  \
    do {                                                                                           \
        errno = 0;                                                                                 \
        if ((call) >= 0)                                                                           \
            printf("%s\n", #call);                                                                 \
    } while (0)

static int mounts_and_spaces(void)
{
    TRY(mount("none", "/tmp", "tmpfs", 0, NULL));
    TRY(mount("none", "/workspace", "tmpfs", 0, NULL));
    TRY(mount(NULL, "/", NULL, MS_REMOUNT, NULL));
    TRY(mount("/", "/tmp", NULL, MS_BIND, NULL));
    TRY(umount2("/proc/sys", MNT_DETACH));
    TRY(umount2("/reposbx/guest", MNT_DETACH));
    TRY(syscall(SYS_pivot_root, "/", "/tmp"));
    TRY(chroot("/tmp"));
    TRY(unshare(CLONE_NEWUSER));
    TRY(unshare(CLONE_NEWNS));
    TRY(unshare(CLONE_NEWNET));
    TRY(unshare(CLONE_NEWPID));
    TRY(unshare(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWNET));
    TRY(syscall(SYS_setns, open("/proc/1/ns/mnt", O_RDONLY), 0));
    TRY(syscall(SYS_fsopen, "tmpfs", 0));
    TRY(syscall(SYS_open_tree, -100, "/", 1));
    TRY(syscall(SYS_move_mount, -100, "/tmp", -100, "/run", 0));
    return 0;
}

#if defined(__x86_64__)
/* A call by its number of 32-bit programs, in a process of its own: where the kernel has none of that, it dies. */
static int call_as_32_bit(long number, long first, long second)
{
    int status = 0;
    pid_t pid = fork();

    if (pid == 0) {
        long result = number;

        __asm__ volatile("int $0x80"
                         : "+a"(result)
                         : "b"(first), "c"(second), "d"(0L)
                         : "memory", "r8", "r9", "r10", "r11");
        _exit((int)result >= 0 ? 1 : 0);
    }
    return waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 1 ? 0 : -1;
}

/* What socketcall(SYS_SOCKET) reads, where 32 bits can name it. */
static void *vsock_arguments(void)
{
    int *place = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);

    if (place != MAP_FAILED) {
        place[0] = AF_VSOCK;
        place[1] = SOCK_STREAM;
        place[2] = 0;
    }
    return place;
}
#endif

static int kernel_doors(void)
{
    union bpf_attr attributes = { .map_type = BPF_MAP_TYPE_ARRAY };
    char event[128] = { 0 };

    attributes.key_size = attributes.value_size = 4;
    attributes.max_entries = 1;
    TRY(syscall(SYS_bpf, BPF_MAP_CREATE, &attributes, sizeof attributes));
    TRY(syscall(SYS_keyctl, 0, -3, 1));
    TRY(syscall(SYS_add_key, "user", "x", "y", 1, -3));
    TRY(syscall(SYS_request_key, "user", "x", NULL, -3));
    TRY(syscall(SYS_perf_event_open, event, 0, -1, -1, 0));
    TRY(syscall(SYS_userfaultfd, 0));
    TRY(syscall(SYS_init_module, event, sizeof event, ""));
    TRY(syscall(SYS_finit_module, 0, "", 0));
    TRY(syscall(SYS_kexec_load, 0, 0, NULL, 0));
    TRY(syscall(SYS_reboot, 0xfee1dead, 672274793, 0, NULL));
    TRY(syscall(SYS_open_by_handle_at, 0, event, 0));
    TRY(syscall(SYS_iopl, 3));
    TRY(syscall(SYS_ioperm, 0, 8, 1));
    TRY(syscall(SYS_quotactl, 0, NULL, 0, NULL));
    TRY(syscall(SYS_acct, "/workspace/acct"));
    TRY(syscall(SYS_lookup_dcookie, 0, event, sizeof event));
    TRY(syscall(SYS_syslog, 3, event, (int)sizeof event));
    TRY(swapon("/workspace/text.txt", 0));
    TRY(sethostname("other", 5));
    TRY(setdomainname("other", 5));
    TRY(clock_settime(CLOCK_REALTIME, &(struct timespec){ 1, 0 }));
    TRY(socket(AF_VSOCK, SOCK_STREAM, 0));
    TRY(syscall(SYS_io_uring_setup, 1, calloc(1, 256)));
#if defined(__x86_64__)
    TRY(call_as_32_bit(359, AF_VSOCK, SOCK_STREAM));
    TRY(call_as_32_bit(102, 1, (long)vsock_arguments()));
#endif
    TRY(mknod("/workspace/device", S_IFBLK | 0666, 0x0801));
    TRY(mknod("/tmp/device", S_IFCHR | 0666, 0x0101));
    return 0;
}

static int rights(void)
{
    struct rlimit more = { 65536, 65536 };

    TRY(setuid(0));
    TRY(setgid(0));
    TRY(setresuid(0, 0, 0));
    TRY(setgroups(1, &(gid_t){ 0 }));
    TRY(setrlimit(RLIMIT_NOFILE, &more));
    TRY(setrlimit(RLIMIT_CORE, &more));
    TRY(prctl(PR_SET_NO_NEW_PRIVS, 0, 0, 0, 0));
    TRY(prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, 21, 0, 0));
    TRY(chown("/workspace/text.txt", 0, 0));
    TRY(socket(AF_PACKET, SOCK_RAW, 0));
    TRY(socket(AF_INET, SOCK_RAW, 1));
    TRY(socket(AF_INET6, SOCK_RAW, 58));
    return 0;
}

/* Files of the kernel that a command could change the machine with. */
static int kernel_files(void)
{
    static const char *const files[] = {
        "/proc/sysrq-trigger", "/proc/sys/kernel/core_pattern", "/proc/sys/kernel/hostname",
        "/proc/sys/kernel/modprobe", "/proc/sys/vm/overcommit_memory", "/proc/sys/fs/binfmt_misc/register",
        "/proc/sys/net/ipv4/ip_forward", "/proc/irq/0/smp_affinity", "/proc/bus/pci/00/00.0",
        "/proc/kcore", "/proc/kmem", "/dev/mem", "/dev/kmsg", "/dev/sda", "/dev/vda",
        "/sys/kernel/uevent_helper", "/sys/kernel/mm/ksm/run", "/sys/power/state",
        "/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory.max",
        "/sys/fs/cgroup/pids/pids.max", "/sys/fs/cgroup/pids.max",
        "/sys/fs/cgroup/memory/cgroup.procs", "/sys/fs/cgroup/cgroup.procs",
        "/sys/fs/cgroup/devices/devices.allow", "/sys/fs/cgroup/memory/release_agent",
        "/reposbx/guest/reposbx-guest", "/etc/passwd", "/etc/hostname", "/etc/hosts",
        "/etc/resolv.conf", "/proc/1/oom_score_adj", "/proc/1/comm"
    };

    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        int fd = open(files[i], O_WRONLY | O_NONBLOCK);

        if (fd >= 0)
            printf("%s\n", files[i]);
    }
    TRY(mkdir("/sys/fs/cgroup/memory/x", 0755));
    TRY(mkdir("/sys/fs/cgroup/x", 0755));
    TRY(mkdir("/reposbx/x", 0755));
    TRY(mkdir("/x", 0755));
    TRY(unlink("/reposbx/guest/reposbx-guest"));
    return 0;
}

/* ---- files ---- */

static int make_socket(const char *name)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);

    snprintf(address.sun_path, sizeof address.sun_path, "%s", name);
    return bind(fd, (struct sockaddr *)&address, sizeof address) == 0 ? 0 : 1;
}

/* `count` folders, one in the other, and a file in the last. */
static int deep_folder(long count)
{
    int fd;

    for (long i = 0; i < count; i++)
        if (mkdir("d", 0755) != 0 || chdir("d") != 0)
            return 1;
    fd = open("end", O_WRONLY | O_CREAT, 0644);
    return fd >= 0 && write(fd, "x", 1) == 1 ? 0 : 1;
}

/* Other bytes of the same size, through write or a mapping; then both times as before, to the nanosecond. */
static int restamp(const char *name, int mapped)
{
    struct stat before;
    struct timespec times[2];
    int fd = open(name, O_RDWR);

    if (fd < 0 || fstat(fd, &before) != 0)
        return 1;
    if (mapped) {
        char *bytes = mmap(NULL, (size_t)before.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

        if (bytes == MAP_FAILED)
            return 2;
        bytes[0] ^= 1;
        if (msync(bytes, (size_t)before.st_size, MS_SYNC) != 0)
            return 3;
    } else if (pwrite(fd, "X", 1, 0) != 1) {
        return 4;
    }
    times[0] = before.st_atim;
    times[1] = before.st_mtim;
    return futimens(fd, times) == 0 ? 0 : 5;
}

static int sparse(const char *name, long gigabytes)
{
    int fd = open(name, O_RDWR | O_CREAT, 0644);

    return fd >= 0 && ftruncate(fd, (off_t)gigabytes << 30) == 0 ? 0 : 1;
}

int main(int argc, char **argv)
{
    const char *verb = argc > 1 ? argv[1] : "";
    const char *word = argc > 2 ? argv[2] : "";
    long number = strtol(word, NULL, 10);
    static const struct {
        const char *verb;
        int (*plain)(void);
    } table[] = { { "fork-bomb", fork_bomb },       { "memory-bomb", memory_bomb },
                  { "stop-all", stop_all },         { "reach-1", reach_pid_1 },
                  { "signal-1", signal_pid_1 },     { "spaces", mounts_and_spaces },
                  { "doors", kernel_doors },        { "rights", rights },
                  { "kernel-files", kernel_files }, { "trace-all", trace_all } };

    setvbuf(stdout, NULL, _IOLBF, 0);
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        if (strcmp(verb, table[i].verb) == 0)
            return table[i].plain();
    if (strcmp(verb, "many-files") == 0)
        return many_files(number);
    if (strcmp(verb, "both") == 0)
        return both_streams((size_t)number);
    if (strcmp(verb, "daemons") == 0)
        return daemons(number != 0);
    if (strcmp(verb, "forge") == 0)
        return forge(number != 0);
    if (strcmp(verb, "socket") == 0)
        return make_socket(word);
    if (strcmp(verb, "deep") == 0)
        return deep_folder(number);
    if (strcmp(verb, "restamp") == 0)
        return restamp(word, 0);
    if (strcmp(verb, "restamp-mapped") == 0)
        return restamp(word, 1);
    if (strcmp(verb, "sparse") == 0)
        return sparse(word, argc > 3 ? strtol(argv[3], NULL, 10) : 1024);
    return 64;
}
