/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/observe.h"

#include <fcntl.h>
#include <net/if.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "guest/guest.h"

#define CGROUP "/sys/fs/cgroup/"
#define CGROUP2_MAGIC 0x63677270
#define TMPFS_MAGIC_NUMBER 0x01021994
/* A v1 memory limit of "none" is the largest multiple of a page; no machine has 2^62 bytes. */
#define V1_NO_LIMIT (1ULL << 62U)
/* Files of /proc and cgroups; mountinfo of a container has some tens of lines. */
#define MAX_FILE_BYTES (256U * 1024U)

static char content[MAX_FILE_BYTES];

static char *read_from(int fd)
{
    size_t length = 0;

    while (length < sizeof(content) - 1U) {
        ssize_t got = pread(fd, content + length, sizeof(content) - 1U - length, (off_t)length);

        if (got < 0) {
            return NULL;
        }
        if (got == 0) {
            break;
        }
        length += (size_t)got;
    }
    content[length] = '\0';
    return content;
}

/* The file's text in a static buffer that the next call overwrites, or NULL. */
static char *read_text(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    char *found = fd < 0 ? NULL : read_from(fd);

    if (fd >= 0) {
        close(fd);
    }
    return found;
}

/* The same through a descriptor that stays: what is asked again when the command has ended. It may have
 * lowered our limit of descriptors by then. */
static char *read_again(int *fd, const char *path)
{
    if (*fd < 0) {
        *fd = open(path, O_RDONLY | O_CLOEXEC);
    }
    return *fd < 0 ? NULL : read_from(*fd);
}

/* A number, or "max"; `after` gets what follows. */
static uint64_t parse(const char *text, unsigned base, const char **after)
{
    char *end = NULL;
    uint64_t value;

    if (strncmp(text, "max", 3) == 0) {
        *after = text + 3;
        return RSBX_UNLIMITED;
    }
    value = strtoull(text, &end, (int)base);
    *after = end;
    return end == text ? RSBX_UNKNOWN : value;
}

static uint64_t read_number(const char *path)
{
    const char *after;
    const char *text = read_text(path);

    return text == NULL ? RSBX_UNKNOWN : parse(text, 10, &after);
}

static uint64_t read_v1_limit(const char *path)
{
    uint64_t value = read_number(path);

    return value != RSBX_UNKNOWN && value >= V1_NO_LIMIT ? RSBX_UNLIMITED : value;
}

/* The number behind `key` at the start of a line of `text`. */
static uint64_t find_number(const char *text, const char *key, unsigned base)
{
    size_t length = strlen(key);

    while (text != NULL && *text != '\0') {
        if (strncmp(text, key, length) == 0) {
            const char *after;

            text += length;
            text += strspn(text, " \t");
            return parse(text, base, &after);
        }
        text = strchr(text, '\n');
        text = text == NULL ? NULL : text + 1;
    }
    return RSBX_UNKNOWN;
}

static uint64_t cgroup_version(void)
{
    struct statfs fs;

    if (statfs("/sys/fs/cgroup", &fs) == 0 && (uint64_t)fs.f_type == CGROUP2_MAGIC) {
        return 2;
    }
    return access(CGROUP "memory/memory.limit_in_bytes", F_OK) == 0 ||
                   access(CGROUP "pids", F_OK) == 0
               ? 1
               : RSBX_UNKNOWN;
}

uint64_t rsbx_observe_oom_kills(void)
{
    const char *path = cgroup_version() == 2 ? CGROUP "memory.events"
                                             : CGROUP "memory/memory.oom_control";

    static int fd = -1;

    return find_number(read_again(&fd, path), "oom_kill ", 10);
}

uint64_t rsbx_observe_peak_memory(void)
{
    static int fd = -1;
    const char *after;
    const char *text = read_again(&fd, cgroup_version() == 2 ? CGROUP "memory.peak"
                                                             : CGROUP "memory/memory.max_usage_in_bytes");

    return text == NULL ? RSBX_UNKNOWN : parse(text, 10, &after);
}

static void observe_cgroup2(struct rsbx_hello *hello)
{
    uint64_t swap = read_number(CGROUP "memory.swap.max");
    const char *cpu, *after;

    hello->memory_bytes = read_number(CGROUP "memory.max");
    hello->pids = read_number(CGROUP "pids.max");
    if (swap == RSBX_UNKNOWN || hello->memory_bytes == RSBX_UNKNOWN) {
        hello->memory_swap_bytes = RSBX_UNKNOWN;
    } else if (swap == RSBX_UNLIMITED || hello->memory_bytes == RSBX_UNLIMITED) {
        hello->memory_swap_bytes = RSBX_UNLIMITED;
    } else {
        hello->memory_swap_bytes = hello->memory_bytes + swap;
    }
    cpu = read_text(CGROUP "cpu.max");
    if (cpu != NULL) {
        hello->cpu_quota_us = parse(cpu, 10, &after);
        after += strspn(after, " ");
        hello->cpu_period_us = parse(after, 10, &after);
    }
}

static void observe_cgroup1(struct rsbx_hello *hello)
{
    static const char *const quota_files[] = {
        CGROUP "cpu/cpu.cfs_quota_us", CGROUP "cpu,cpuacct/cpu.cfs_quota_us",
        CGROUP "cpuacct,cpu/cpu.cfs_quota_us"};
    static const char *const period_files[] = {
        CGROUP "cpu/cpu.cfs_period_us", CGROUP "cpu,cpuacct/cpu.cfs_period_us",
        CGROUP "cpuacct,cpu/cpu.cfs_period_us"};

    hello->memory_bytes = read_v1_limit(CGROUP "memory/memory.limit_in_bytes");
    hello->memory_swap_bytes = read_v1_limit(CGROUP "memory/memory.memsw.limit_in_bytes");
    hello->pids = read_number(CGROUP "pids/pids.max");
    for (size_t i = 0; i < 3 && hello->cpu_period_us == RSBX_UNKNOWN; i++) {
        const char *text = read_text(quota_files[i]);
        const char *after;

        if (text == NULL) {
            continue;
        }
        hello->cpu_quota_us = text[0] == '-' ? RSBX_UNLIMITED : parse(text, 10, &after);
        hello->cpu_period_us = read_number(period_files[i]);
    }
}

static void observe_identity(struct rsbx_hello *hello)
{
    gid_t groups[256];
    uid_t uid = 0, effective_uid = 1, saved_uid = 2;
    gid_t gid = 0, effective_gid = 1, saved_gid = 2;
    int count = getgroups((int)(sizeof(groups) / sizeof(groups[0])), groups);

    hello->pid = (uint64_t)getpid();
    if (getresuid(&uid, &effective_uid, &saved_uid) == 0 && uid == effective_uid &&
        uid == saved_uid) {
        hello->uid = uid;
    }
    if (getresgid(&gid, &effective_gid, &saved_gid) == 0 && gid == effective_gid &&
        gid == saved_gid) {
        hello->gid = gid;
    }
    if (count >= 0) {
        hello->group_count = 0;
        for (int i = 0; i < count; i++) {
            hello->group_count += groups[i] != gid;
        }
    }
}

static void observe_privileges(struct rsbx_hello *hello)
{
    const char *status = read_text("/proc/self/status");
    int value = prctl(PR_GET_DUMPABLE, 0, 0, 0, 0);

    if (value >= 0) {
        hello->dumpable = (uint64_t)value;
    }
    value = prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0);
    if (value >= 0) {
        hello->no_new_privs = (uint64_t)value;
    }
    hello->cap_effective = find_number(status, "CapEff:", 16);
    hello->cap_permitted = find_number(status, "CapPrm:", 16);
    hello->cap_bounding = find_number(status, "CapBnd:", 16);
    hello->cap_inheritable = find_number(status, "CapInh:", 16);
    hello->cap_ambient = find_number(status, "CapAmb:", 16);
    hello->seccomp_mode = find_number(status, "Seccomp:", 10);
}

static uint64_t limit_value(rlim_t value)
{
    return value == RLIM_INFINITY ? RSBX_UNLIMITED : (uint64_t)value;
}

static void observe_rlimits(struct rsbx_hello *hello)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        hello->nofile_soft = limit_value(limit.rlim_cur);
        hello->nofile_hard = limit_value(limit.rlim_max);
    }
    if (getrlimit(RLIMIT_CORE, &limit) == 0) {
        hello->core_soft = limit_value(limit.rlim_cur);
        hello->core_hard = limit_value(limit.rlim_max);
    }
}

/* 1: something is mounted exactly at `path`, 0: nothing, RSBX_UNKNOWN: cannot be told. The mount
 * point is the fifth field of a line of mountinfo. */
static uint64_t is_mount(const char *path)
{
    const char *line = read_text("/proc/self/mountinfo");
    size_t length = strlen(path);

    if (line == NULL) {
        return RSBX_UNKNOWN;
    }
    while (line != NULL && *line != '\0') {
        const char *field = line;

        for (unsigned i = 0; i < 4 && field != NULL; i++) {
            field = strchr(field, ' ');
            field = field == NULL ? NULL : field + 1;
        }
        if (field != NULL && strncmp(field, path, length) == 0 && field[length] == ' ') {
            return 1;
        }
        line = strchr(line, '\n');
        line = line == NULL ? NULL : line + 1;
    }
    return 0;
}

/* The flags say what holds for both the mount and the file system on top of all others there. */
static uint64_t read_only(const char *path)
{
    struct statvfs fs;

    return statvfs(path, &fs) != 0 ? RSBX_UNKNOWN : (fs.f_flag & ST_RDONLY) != 0;
}

/* 0 not mounted, 1 read-only, 2 writable. */
static uint64_t mount_state(const char *path)
{
    uint64_t mounted = is_mount(path);
    uint64_t state;

    if (mounted != 1) {
        return mounted;
    }
    state = read_only(path);
    return state == RSBX_UNKNOWN ? state : 2U - state;
}

static void observe_tmpfs(const char *path, uint64_t *bytes, uint64_t *flags)
{
    struct statvfs options;
    struct statfs fs;
    uint64_t mounted = is_mount(path);

    if (mounted != 1) {
        *bytes = mounted;
        *flags = mounted;
        return;
    }
    if (statfs(path, &fs) != 0 || statvfs(path, &options) != 0) {
        return;
    }
    *bytes = (uint64_t)fs.f_type == TMPFS_MAGIC_NUMBER
                 ? (uint64_t)fs.f_blocks * (uint64_t)fs.f_bsize
                 : 0;
    *flags = ((options.f_flag & ST_NOSUID) != 0 ? 1U : 0U) |
             ((options.f_flag & ST_NODEV) != 0 ? 2U : 0U) |
             ((options.f_flag & ST_NOEXEC) != 0 ? 4U : 0U);
}

/* Devices that the kernel makes by itself in every new network namespace when a tunnel module is
 * loaded; down, they carry nothing. */
static bool fallback_device(const char *name)
{
    static const char *const names[] = {"tunl0", "sit0", "ip6tnl0", "gre0", "gretap0", "erspan0",
                                        "ip_vti0", "ip6_vti0", "ip6gre0"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (strcmp(name, names[i]) == 0) {
            return true;
        }
    }
    return false;
}

static bool counts(int fd, const char *name)
{
    struct ifreq request;

    if (strcmp(name, "lo") == 0) {
        return false;
    }
    if (!fallback_device(name)) {
        return true;
    }
    memset(&request, 0, sizeof(request));
    memcpy(request.ifr_name, name, strlen(name)); /* shorter than IFNAMSIZ: it is one of the list */
    return fd < 0 || ioctl(fd, SIOCGIFFLAGS, &request) != 0 || (request.ifr_flags & IFF_UP) != 0;
}

static uint64_t count_interfaces(void)
{
    char *line = read_text("/proc/net/dev");
    uint64_t count = 0;
    int fd;

    if (line == NULL) {
        return RSBX_UNKNOWN;
    }
    fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    while (line != NULL && *line != '\0') {
        char *next = strchr(line, '\n');
        char *colon;

        if (next != NULL) {
            *next++ = '\0';
        }
        line += strspn(line, " ");
        colon = strrchr(line, ':'); /* the two lines of the heading have none */
        if (colon != NULL) {
            *colon = '\0';
            count += counts(fd, line);
        }
        line = next;
    }
    if (fd >= 0) {
        close(fd);
    }
    return count;
}

void rsbx_observe_hello(struct rsbx_hello *hello)
{
    /* Unknown until shown: every field is all ones before it is read. */
    memset((uint8_t *)hello + RSBX_NONCE_BYTES, 0xff, sizeof(*hello) - RSBX_NONCE_BYTES);
    observe_identity(hello);
    observe_privileges(hello);
    observe_rlimits(hello);
    hello->cgroup_version = cgroup_version();
    if (hello->cgroup_version == 2) {
        observe_cgroup2(hello);
    } else {
        observe_cgroup1(hello);
    }
    hello->root_read_only = read_only("/");
    observe_tmpfs("/tmp", &hello->tmp_bytes, &hello->tmp_flags);
    observe_tmpfs("/run", &hello->run_bytes, &hello->run_flags);
    hello->interfaces = count_interfaces();
    hello->baseline = mount_state(RSBX_BASELINE_FOLDER);
    hello->workspace = mount_state(RSBX_WORKSPACE_FOLDER);
    hello->upper = mount_state(RSBX_UPPER_FOLDER);
    hello->guest_read_only = mount_state(RSBX_GUEST_FOLDER) == 1;
    hello->monotonic_ns = rsbx_guest_now_ns();
    hello->oom_kills = rsbx_observe_oom_kills();
}
