/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RSBX_GUEST_PROTOCOL_H
#define RSBX_GUEST_PROTOCOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * The wire between the controller and the guest (PID 1 of every container), version 1.
 *
 * Controller to guest on the container's stdin, guest to controller on its stdout. Both directions
 * carry messages: a header of 16 bytes and a payload of `length` bytes, at most
 * RSBX_WIRE_MAX_PAYLOAD. All integers are big endian and of fixed width.
 *
 *     offset  size  field
 *          0     4  magic     0x52534258, "RSBX"
 *          4     2  version   1
 *          6     2  type      RSBX_WIRE_…
 *          8     4  sequence  0, 1, 2 … in each direction
 *         12     4  length    bytes of payload that follow
 *
 * Conversation:
 *
 *     controller                                 guest
 *     GREETING nonce[32]              ──►
 *                                     ◄──        HELLO (fixed struct; echoes the nonce)
 *     REQUEST (fixed struct)          ──►
 *     TEXT kind + bytes, each once    ──►        (argv, environment, cwd, paths, exclusions)
 *     GO                              ──►
 *     DATA… END / ENTRY DATA…         ──►        (stdin of EXEC, content of WRITE, entries of FILL)
 *                                     ◄──        STDOUT, STDERR | ENTRY, DATA, END | FAIL
 *                                     ◄──        TRAILER, always the last message
 *
 * Nobody attached means nothing is read: what a container writes before the attach is lost, so the
 * controller speaks first. End of file on the guest's stdin at any moment means that the controller
 * is gone: the guest kills everything and ends.
 *
 * A sample, GREETING with a nonce of 32 bytes 0x11:
 *
 *     52 53 42 58  00 01  00 01  00 00 00 00  00 00 00 20  11 11 … (32 times)
 */
#define RSBX_WIRE_MAGIC 0x52534258U
#define RSBX_WIRE_VERSION 1U
#define RSBX_WIRE_HEADER_BYTES 16U
/* The longest argument of a command (128 KiB) with its kind fits, and file data goes in pieces. */
#define RSBX_WIRE_MAX_PAYLOAD (128U * 1024U + 64U)
/* Pieces of DATA, STDOUT and STDERR are at most this long. */
#define RSBX_WIRE_PIECE_BYTES 65536U

enum rsbx_wire_type {
    RSBX_WIRE_GREETING = 1,
    RSBX_WIRE_REQUEST = 2,
    RSBX_WIRE_TEXT = 3,
    RSBX_WIRE_GO = 4,
    RSBX_WIRE_DATA = 5,
    RSBX_WIRE_END = 6,
    RSBX_WIRE_ENTRY = 7,
    RSBX_WIRE_NODE = 8,
    RSBX_WIRE_HELLO = 16,
    RSBX_WIRE_STDOUT = 17,
    RSBX_WIRE_STDERR = 18,
    RSBX_WIRE_FAIL = 19,
    RSBX_WIRE_TRAILER = 20
};

enum rsbx_wire_op {
    RSBX_OP_EXEC = 1,  /* run argv, frames, trailer */
    RSBX_OP_FILL = 2,  /* ENTRY (mode, size, path) + DATA… for each, then END: into the baseline */
    RSBX_OP_SEAL = 3,  /* read the whole baseline: fingerprint, rest digest, counts; with
                          RSBX_REQUEST_COPY also copy it into the workspace */
    RSBX_OP_LIST = 4,  /* ENTRY for everything at and below PATH in the workspace, by name order */
    RSBX_OP_READ = 5,  /* DATA… END of the regular file PATH of the workspace */
    RSBX_OP_WRITE = 6, /* DATA… END in, atomically to PATH of the workspace */
    RSBX_OP_SCAN = 7,  /* ENTRY + DATA… END (old) + DATA… END (new) for every difference */
    RSBX_OP_COLLECT = 8, /* ENTRY + DATA… END for each regular file at and below each PATH */
    RSBX_OP_PACK = 9,   /* NODE (and DATA… END of files and links) for everything that makes the
                           workspace another than the baseline, a folder before what is in it */
    RSBX_OP_UNPACK = 10 /* the same in, then END: into a workspace that is still the baseline's */
};

/* Fixed places inside every container. */
#define RSBX_GUEST_FOLDER "/reposbx/guest"
#define RSBX_GUEST_PATH "/reposbx/guest/reposbx-guest"
#define RSBX_BASELINE_FOLDER "/reposbx/baseline"
#define RSBX_WORKSPACE_FOLDER "/workspace"
/* Of an overlay workspace: the store with the folders `upper` (what was changed) and `work`. */
#define RSBX_UPPER_FOLDER "/reposbx/upper"
/* User and group of every command and of every file of a snapshot. */
#define RSBX_GUEST_UID 65532U
#define RSBX_GUEST_GID 65532U

struct rsbx_wire_header {
    uint16_t type;
    uint32_t sequence;
    uint32_t length;
};

#define RSBX_NONCE_BYTES 32U

/* What the guest sees from inside. A value that it could not read is RSBX_UNKNOWN (all ones); "no
 * limit" of a cgroup file is RSBX_UNLIMITED. */
#define RSBX_UNKNOWN UINT64_MAX
#define RSBX_UNLIMITED (UINT64_MAX - 1U)

struct rsbx_hello {
    uint8_t nonce[RSBX_NONCE_BYTES];
    uint64_t pid;              /* own pid: 1 */
    uint64_t uid, gid;         /* real = effective = saved, else RSBX_UNKNOWN */
    uint64_t group_count;      /* supplementary groups other than gid */
    uint64_t cap_effective, cap_permitted, cap_bounding, cap_inheritable, cap_ambient;
    uint64_t no_new_privs;     /* 1 */
    uint64_t seccomp_mode;     /* 2 = filter */
    uint64_t cgroup_version;   /* 1 or 2 */
    uint64_t memory_bytes;     /* memory.max / memory.limit_in_bytes */
    uint64_t memory_swap_bytes;/* memory and swap together: v1 memsw.limit_in_bytes, v2 memory.max +
                                  memory.swap.max; RSBX_UNKNOWN without swap accounting */
    uint64_t pids;             /* pids.max */
    uint64_t cpu_quota_us, cpu_period_us; /* quota RSBX_UNLIMITED when there is none */
    uint64_t nofile_soft, nofile_hard, core_soft, core_hard;
    uint64_t root_read_only;   /* 1 when "/" is mounted read-only */
    uint64_t tmp_bytes, run_bytes; /* sizes of the tmpfs mounts, 0 when not a tmpfs */
    uint64_t tmp_flags, run_flags; /* bits: 1 nosuid, 2 nodev, 4 noexec */
    uint64_t interfaces;       /* network interfaces other than lo that are up, or down and real */
    uint64_t baseline;         /* 0 not mounted, 1 read-only, 2 writable */
    uint64_t workspace;        /* the same */
    uint64_t guest_read_only;  /* 1 when RSBX_GUEST_FOLDER is mounted read-only */
    uint64_t dumpable;         /* 0 */
    uint64_t monotonic_ns;     /* its CLOCK_MONOTONIC */
    uint64_t oom_kills;        /* of the cgroup so far */
    uint64_t upper;            /* RSBX_UPPER_FOLDER, as baseline */
};
/* The nonce, the 34 fields above in their order, and two more of 8 bytes that are reserved: sent
 * as zero and refused when they are not. */
#define RSBX_HELLO_BYTES (RSBX_NONCE_BYTES + 8U * 36U)

/* Flags of a request. */
#define RSBX_REQUEST_COPY 1U        /* SEAL: also copy into the workspace */
#define RSBX_REQUEST_PARENTS 2U     /* WRITE: make missing parent folders */
#define RSBX_REQUEST_EXECUTABLE 4U  /* WRITE: mode 755 instead of 644 */
#define RSBX_REQUEST_UPPER 32U      /* SCAN, PACK: what RSBX_UPPER_FOLDER/upper lacks is unchanged */
#define RSBX_REQUEST_STDIN 8U       /* EXEC: DATA… END follow; without it stdin is /dev/null */
#define RSBX_REQUEST_BASELINE 16U   /* COLLECT: the paths are those of the baseline */

struct rsbx_request {
    uint32_t op;
    uint32_t flags;
    uint64_t timeout_ms;     /* EXEC: from GO on; 0 = none (other operations) */
    uint64_t max_bytes;      /* EXEC: captured stdout + stderr; READ, SCAN, COLLECT, PACK, UNPACK:
                                content */
    uint64_t max_entries;    /* LIST, SCAN, COLLECT, FILL, PACK, UNPACK: entries */
    uint32_t argc, envc;     /* how many TEXT of these kinds follow */
};
#define RSBX_REQUEST_BYTES (4U * 2U + 8U * 3U + 4U * 2U)

/* TEXT payload: kind (4 bytes) and the bytes, without NUL. */
enum rsbx_text_kind {
    RSBX_TEXT_ARG = 1,
    RSBX_TEXT_ENV = 2,     /* NAME=value */
    RSBX_TEXT_CWD = 3,     /* below the workspace, "" allowed */
    RSBX_TEXT_PATH = 4,    /* below the workspace; several for COLLECT */
    RSBX_TEXT_EXCLUDE = 5, /* SEAL: subtree left out of the fingerprint */
    RSBX_TEXT_SELECTION = 6 /* SEAL: the canonical selection JSON of the fingerprint */
};

/* Why an entry of a scan cannot go into a patch, or a collected one not into a bundle. */
enum rsbx_omit_reason {
    RSBX_OMIT_NONE = 0,
    RSBX_OMIT_FIFO = 1,
    RSBX_OMIT_SOCKET = 2,
    RSBX_OMIT_DEVICE = 3,
    RSBX_OMIT_EMPTY_FOLDER = 4,
    RSBX_OMIT_DOTGIT = 5,
    RSBX_OMIT_NAME = 6,
    RSBX_OMIT_UNREADABLE = 7,
    RSBX_OMIT_TOO_DEEP = 8
};

enum rsbx_change {
    RSBX_CHANGE_NONE = 0,     /* FILL, LIST, COLLECT */
    RSBX_CHANGE_ADDED = 1,
    RSBX_CHANGE_DELETED = 2,
    RSBX_CHANGE_MODIFIED = 3, /* content, mode or type differ */
    RSBX_CHANGE_OMITTED = 4   /* `reason` says why; neither old nor new content follows */
};

/* ENTRY payload: 40 bytes and the path. Modes are Git's: 0100644, 0100755, 0120000 (symlink),
 * 040000 (folder), 0 (absent, or of no kind that Git knows). Of a SCAN, old content is sent when
 * old_mode is a file or link, new content when new_mode is; each followed by END. */
struct rsbx_entry {
    uint32_t change;
    uint32_t reason;
    uint32_t old_mode, new_mode;
    uint64_t old_size, new_size;
    uint32_t links;        /* st_nlink */
    const char *path;      /* from the root of the tree, no leading '/', not NUL-terminated */
    uint32_t path_length;
};
#define RSBX_ENTRY_FIXED_BYTES 40U

/* What a NODE is. */
enum rsbx_node_kind {
    RSBX_NODE_GONE = 1,   /* of the baseline; a folder with all that is in it */
    RSBX_NODE_FOLDER = 2,
    RSBX_NODE_FILE = 3,   /* its content follows */
    RSBX_NODE_LINK = 4,   /* its target follows */
    RSBX_NODE_FIFO = 5,
    RSBX_NODE_TIMES = 6,  /* the baseline's own but for its modification time */
    RSBX_NODE_OMITTED = 7 /* `reason` says why it stays behind */
};

/* NODE payload: 32 bytes and the path. Of what stands there already anything but a folder makes way
 * for a node that is none. */
struct rsbx_node {
    uint32_t kind;
    uint32_t reason;       /* enum rsbx_omit_reason; RSBX_OMIT_NONE but for OMITTED */
    uint32_t mode;         /* permission bits, 07777 at most */
    int64_t mtime_ns;      /* since 1970 */
    uint64_t size;         /* FILE, LINK */
    const char *path;      /* as in an entry */
    uint32_t path_length;
};
#define RSBX_NODE_FIXED_BYTES 32U

/* FAIL payload: code (an errno value), 4 bytes; then text for people (UTF-8 not promised). It is
 * followed by the TRAILER. */
struct rsbx_fail {
    uint32_t error;
    const char *text;
    uint32_t text_length;
};

/* How a command ended. */
enum rsbx_end {
    RSBX_END_NONE = 0,     /* not an EXEC, or nothing was run */
    RSBX_END_EXITED = 1,
    RSBX_END_SIGNALED = 2,
    RSBX_END_NOT_STARTED = 3 /* execve failed: exec_errno says why */
};

#define RSBX_TRAILER_TIMED_OUT 1U
#define RSBX_TRAILER_OUTPUT_LIMITED 2U
#define RSBX_TRAILER_FAILED 4U /* a FAIL message came before */

struct rsbx_trailer {
    uint32_t op;
    uint32_t flags;
    uint32_t end;          /* enum rsbx_end */
    uint32_t exit_code;
    uint32_t signal;
    uint32_t exec_errno;
    uint64_t user_us, system_us;   /* rusage of all children */
    uint64_t peak_memory_bytes;    /* of the cgroup; RSBX_UNKNOWN when it does not say */
    uint64_t oom_kills;            /* during this request */
    uint64_t survivors;            /* processes that had to be killed after the command's own end */
    uint64_t duration_ns;
    uint64_t stdout_bytes, stderr_bytes; /* captured */
    uint64_t entries, bytes;       /* of the operation (SEAL: all files, all content) */
    uint64_t fingerprint_entries;  /* SEAL */
    uint8_t stdout_sha256[32];     /* EXEC; SEAL: the fingerprint */
    uint8_t stderr_sha256[32];     /* EXEC; SEAL: the rest digest (see fingerprint.h) */
    uint64_t main_oom_killed;      /* 1: the command itself ended by SIGKILL and the cgroup counted
                                      an OOM kill, and neither time nor output limit was reached */
};
#define RSBX_TRAILER_BYTES (4U * 6U + 8U * 12U + 64U)

/* Pure encoders and decoders. Encoders write exactly the stated number of bytes. Decoders return
 * false on anything that is not exactly one well-formed value. Decoded pointers point into the
 * input. */
void rsbx_wire_put_header(uint8_t out[RSBX_WIRE_HEADER_BYTES], const struct rsbx_wire_header *in);
bool rsbx_wire_get_header(struct rsbx_wire_header *out, const uint8_t in[RSBX_WIRE_HEADER_BYTES]);
void rsbx_wire_put_hello(uint8_t out[RSBX_HELLO_BYTES], const struct rsbx_hello *in);
bool rsbx_wire_get_hello(struct rsbx_hello *out, const uint8_t *in, size_t length);
void rsbx_wire_put_request(uint8_t out[RSBX_REQUEST_BYTES], const struct rsbx_request *in);
bool rsbx_wire_get_request(struct rsbx_request *out, const uint8_t *in, size_t length);
void rsbx_wire_put_entry(uint8_t out[RSBX_ENTRY_FIXED_BYTES], const struct rsbx_entry *in);
bool rsbx_wire_get_entry(struct rsbx_entry *out, const uint8_t *in, size_t length);
void rsbx_wire_put_node(uint8_t out[RSBX_NODE_FIXED_BYTES], const struct rsbx_node *in);
bool rsbx_wire_get_node(struct rsbx_node *out, const uint8_t *in, size_t length);
bool rsbx_wire_get_fail(struct rsbx_fail *out, const uint8_t *in, size_t length);
void rsbx_wire_put_trailer(uint8_t out[RSBX_TRAILER_BYTES], const struct rsbx_trailer *in);
bool rsbx_wire_get_trailer(struct rsbx_trailer *out, const uint8_t *in, size_t length);
void rsbx_wire_put_u32(uint8_t out[4], uint32_t value);
uint32_t rsbx_wire_get_u32(const uint8_t in[4]);

#endif
