/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/guest/box.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "unit/guest/tree.h"

#include "base/banned.h"

#define BUSYBOX "/bin/busybox"

static const char *const applets[] = {"sh", "cat", "sleep", "true", "false", "echo", "printf",
                                      "setsid", "head", "yes", "kill", "env", "id", "dd", "pwd",
                                      "seq", "ls"};

int box_unavailable(bool need_busybox)
{
    const char *must = getenv("REPOSBX_TEST_MUST_RUN");

    if (geteuid() == 0 && (!need_busybox || access(BUSYBOX, X_OK) == 0)) {
        return 0;
    }
    fprintf(stderr, "needs root%s\n", need_busybox ? " and a static " BUSYBOX : "");
    return must != NULL && strcmp(must, "1") == 0 ? 1 : 77;
}

static void need(bool ok, const char *what)
{
    if (!ok) {
        fprintf(stderr, "box: %s: %s\n", what, strerror(errno));
        _exit(99);
    }
}

static void bind(const char *from, const char *to, unsigned long flags)
{
    need(mkdir(to, 0755) == 0 || errno == EEXIST, to);
    need(mount(from, to, NULL, MS_BIND, NULL) == 0, to);
    if (flags != 0) {
        need(mount(NULL, to, NULL, MS_BIND | MS_REMOUNT | flags, NULL) == 0, to);
    }
}

static void make_root(const struct box *box)
{
    char root[96];
    int fd;

    snprintf(root, sizeof(root), "%s/root", box->folder);
    need(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0, "private");
    need(mkdir(root, 0755) == 0 || errno == EEXIST, root);
    need(mount("root", root, "tmpfs", 0, "mode=755,size=8m") == 0, root);
    need(chdir(root) == 0, root);
    need(mkdir("reposbx", 0755) == 0 && mkdir("bin", 0755) == 0 && mkdir("dev", 0755) == 0, "dirs");
    bind(TEST_GUEST_FOLDER, "reposbx/guest", MS_RDONLY);
    bind(box->baseline, "reposbx/baseline", 0);
    bind(box->workspace, "workspace", 0);
    if (access(BUSYBOX, X_OK) == 0) {
        fd = open("bin/busybox", O_CREAT | O_WRONLY, 0755);
        need(fd >= 0 && close(fd) == 0, "busybox");
        need(mount(BUSYBOX, "bin/busybox", NULL, MS_BIND, NULL) == 0, "busybox");
        for (size_t i = 0; i < sizeof(applets) / sizeof(applets[0]); i++) {
            char name[32];

            snprintf(name, sizeof(name), "bin/%s", applets[i]);
            need(symlink("busybox", name) == 0, name);
        }
    }
    need(mknod("dev/null", S_IFCHR | 0666, makedev(1, 3)) == 0 && chmod("dev/null", 0666) == 0,
         "null");
    need(mkdir("proc", 0755) == 0 && mkdir("tmp", 0755) == 0 && mkdir("run", 0755) == 0, "dirs");
    need(mount("proc", "proc", "proc", 0, NULL) == 0, "proc");
    need(mount("tmp", "tmp", "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, "mode=1777,size=4m") == 0,
         "tmp");
    need(mount("run", "run", "tmpfs", MS_NOSUID | MS_NODEV, "mode=1777,size=1m") == 0, "run");
    need(mount(NULL, ".", NULL, MS_REMOUNT | MS_RDONLY, "mode=755,size=8m") == 0, "read-only");
    need(mount(".", "/", NULL, MS_MOVE, NULL) == 0 && chroot(".") == 0 && chdir("/") == 0, "root");
}

static void run_guest(const struct box *box, int in_fd, int out_fd)
{
    char *const argv[] = {(char *)(uintptr_t) "reposbx-guest", NULL};
    char *const envp[] = {NULL};

    make_root(box);
    need(dup2(in_fd, 0) == 0 && dup2(out_fd, 1) == 1, "dup2");
    for (int fd = 3; fd < 256; fd++) {
        close(fd);
    }
    if (!box->root) {
        need(setgroups(0, NULL) == 0, "groups");
        need(setresgid(RSBX_GUEST_GID, RSBX_GUEST_GID, RSBX_GUEST_GID) == 0, "gid");
        need(setresuid(RSBX_GUEST_UID, RSBX_GUEST_UID, RSBX_GUEST_UID) == 0, "uid");
        need(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0, "no_new_privs");
    }
    need(prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) == 0, "parent death");
    execve(RSBX_GUEST_PATH, argv, envp);
    need(false, "execve");
}

void box_open(struct box *box)
{
    memset(box, 0, sizeof(*box));
    box->in_fd = -1;
    box->out_fd = -1;
    snprintf(box->folder, sizeof(box->folder), "/tmp/rsbx-guest-XXXXXX");
    assert_non_null(mkdtemp(box->folder));
    snprintf(box->baseline, sizeof(box->baseline), "%s/baseline", box->folder);
    snprintf(box->workspace, sizeof(box->workspace), "%s/workspace", box->folder);
    assert_int_equal(mkdir(box->baseline, 0755), 0);
    assert_int_equal(mkdir(box->workspace, 0755), 0);
    assert_int_equal(chown(box->baseline, RSBX_GUEST_UID, RSBX_GUEST_GID), 0);
    assert_int_equal(chown(box->workspace, RSBX_GUEST_UID, RSBX_GUEST_GID), 0);
}

void box_start(struct box *box)
{
    int in[2], out[2];

    assert_int_equal(box->pid, 0);
    assert_int_equal(pipe2(in, O_CLOEXEC), 0);
    assert_int_equal(pipe2(out, O_CLOEXEC), 0);
    box->sent = 0;
    box->received = 0;
    box->pid = fork();
    assert_true(box->pid >= 0);
    if (box->pid == 0) {
        int status = 0;
        pid_t guest;

        close(in[1]);
        close(out[0]);
        prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
        need(unshare(CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC) == 0, "unshare");
        guest = fork();
        need(guest >= 0, "fork");
        if (guest == 0) {
            run_guest(box, in[0], out[1]);
        }
        close(in[0]);
        close(out[1]);
        need(waitpid(guest, &status, 0) == guest, "waitpid");
        _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
    }
    close(in[0]);
    close(out[1]);
    box->in_fd = in[1];
    box->out_fd = out[0];
}

/* The guest may be gone by now, by design; who cares looks at its exit code. */
static void write_some(struct box *box, const void *bytes, size_t length)
{
    const uint8_t *next = bytes;

    while (length > 0) {
        ssize_t put = write(box->in_fd, next, length);

        if (put < 0) {
            assert_int_equal(errno, EPIPE);
            return;
        }
        next += put;
        length -= (size_t)put;
    }
}

void box_send(struct box *box, uint16_t type, const void *bytes, size_t length)
{
    struct rsbx_wire_header header = {.type = type, .sequence = box->sent++,
                                      .length = (uint32_t)length};
    uint8_t fixed[RSBX_WIRE_HEADER_BYTES];

    rsbx_wire_put_header(fixed, &header);
    write_some(box, fixed, sizeof(fixed));
    write_some(box, bytes, length);
}

static void read_exactly(struct box *box, uint8_t *out, size_t length)
{
    while (length > 0) {
        struct pollfd wait = {.fd = box->out_fd, .events = POLLIN};
        ssize_t got;

        if (poll(&wait, 1, BOX_WAIT_MS) != 1) {
            fail_msg("the guest says nothing");
        }
        got = read(box->out_fd, out, length);
        if (got <= 0) {
            fail_msg("the guest's output ended");
        }
        out += got;
        length -= (size_t)got;
    }
}

void box_receive(struct box *box, uint16_t *type, const uint8_t **payload, size_t *length)
{
    static uint8_t bytes[RSBX_WIRE_MAX_PAYLOAD];
    uint8_t fixed[RSBX_WIRE_HEADER_BYTES];
    struct rsbx_wire_header header;

    read_exactly(box, fixed, sizeof(fixed));
    assert_true(rsbx_wire_get_header(&header, fixed));
    assert_int_equal(header.sequence, box->received);
    box->received++;
    read_exactly(box, bytes, header.length);
    *type = header.type;
    *payload = bytes;
    *length = header.length;
}

void box_greet(struct box *box, struct rsbx_hello *hello)
{
    uint8_t nonce[RSBX_NONCE_BYTES];
    const uint8_t *payload;
    size_t length;
    uint16_t type;

    for (size_t i = 0; i < sizeof(nonce); i++) {
        nonce[i] = (uint8_t)(7U * i + (unsigned)box->pid % 251U);
    }
    box_send(box, RSBX_WIRE_GREETING, nonce, sizeof(nonce));
    box_receive(box, &type, &payload, &length);
    assert_int_equal(type, RSBX_WIRE_HELLO);
    assert_true(rsbx_wire_get_hello(hello, payload, length));
    assert_memory_equal(hello->nonce, nonce, sizeof(nonce));
}

void box_text(struct box *box, uint32_t kind, const char *text)
{
    static uint8_t payload[RSBX_WIRE_MAX_PAYLOAD];
    size_t length = strlen(text);

    assert_true(length + 4U <= sizeof(payload));
    rsbx_wire_put_u32(payload, kind);
    memcpy(payload + 4, text, length);
    box_send(box, RSBX_WIRE_TEXT, payload, length + 4U);
}

void box_request(struct box *box, const struct rsbx_request *request)
{
    uint8_t bytes[RSBX_REQUEST_BYTES];

    rsbx_wire_put_request(bytes, request);
    box_send(box, RSBX_WIRE_REQUEST, bytes, sizeof(bytes));
}

void box_go(struct box *box)
{
    box_send(box, RSBX_WIRE_GO, NULL, 0);
}

static void add_entry(struct reply *reply, const uint8_t *payload, size_t length)
{
    struct rsbx_entry entry;
    char line[160];
    int count;

    assert_true(rsbx_wire_get_entry(&entry, payload, length));
    count = snprintf(line, sizeof(line), "%u %u %o %o %llu %llu ", entry.change, entry.reason,
                     entry.old_mode, entry.new_mode, (unsigned long long)entry.old_size,
                     (unsigned long long)entry.new_size);
    bytes_add(&reply->entries, line, (size_t)count);
    bytes_add(&reply->entries, entry.path, entry.path_length);
    bytes_add(&reply->entries, "\n", 1);
}

void box_reply(struct box *box, struct reply *reply)
{
    uint16_t type = 0;

    memset(reply, 0, sizeof(*reply));
    while (type != RSBX_WIRE_TRAILER) {
        const uint8_t *payload;
        struct rsbx_fail fail;
        size_t length;

        box_receive(box, &type, &payload, &length);
        if (type == RSBX_WIRE_STDOUT) {
            bytes_add(&reply->out, payload, length);
        } else if (type == RSBX_WIRE_STDERR) {
            bytes_add(&reply->err, payload, length);
        } else if (type == RSBX_WIRE_ENTRY) {
            add_entry(reply, payload, length);
        } else if (type == RSBX_WIRE_DATA) {
            assert_true(length > 0 && length <= RSBX_WIRE_PIECE_BYTES);
            bytes_add(&reply->data, payload, length);
        } else if (type == RSBX_WIRE_END) {
            assert_int_equal(length, 0);
            bytes_add(&reply->data, "|", 1);
        } else if (type == RSBX_WIRE_FAIL) {
            assert_true(rsbx_wire_get_fail(&fail, payload, length));
            reply->fail_error = fail.error;
            snprintf(reply->fail_text, sizeof(reply->fail_text), "%.*s", (int)fail.text_length,
                     fail.text);
        } else {
            assert_int_equal(type, RSBX_WIRE_TRAILER);
            assert_true(rsbx_wire_get_trailer(&reply->trailer, payload, length));
        }
    }
    assert_int_equal((reply->trailer.flags & RSBX_TRAILER_FAILED) != 0, reply->fail_error != 0);
    assert_int_equal(box_end(box), 0);
}

int box_end(struct box *box)
{
    int status = 0;
    uint8_t more;

    for (int waited = 0; waitpid(box->pid, &status, WNOHANG) == 0; waited += 2) {
        struct timespec pause = {.tv_nsec = 2000000};

        if (waited > BOX_WAIT_MS) {
            kill(box->pid, SIGKILL);
            fail_msg("the guest does not end");
        }
        nanosleep(&pause, NULL);
    }
    box->pid = 0;
    /* Nothing follows the trailer, and nobody else holds the guest's output. */
    assert_int_equal(read(box->out_fd, &more, 1), 0);
    close(box->out_fd);
    if (box->in_fd >= 0) {
        close(box->in_fd);
    }
    box->in_fd = -1;
    box->out_fd = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

void box_close(struct box *box)
{
    if (box->pid > 0) {
        kill(box->pid, SIGKILL);
        waitpid(box->pid, NULL, 0);
    }
    if (box->in_fd >= 0) {
        close(box->in_fd);
    }
    if (box->out_fd >= 0) {
        close(box->out_fd);
    }
    if (box->folder[0] != '\0') {
        tree_remove(box->folder);
    }
}

void box_simple(struct box *box, struct reply *reply, struct rsbx_request request, uint32_t kind,
                const char *text)
{
    struct rsbx_hello hello;

    box_start(box);
    box_greet(box, &hello);
    box_request(box, &request);
    if (text != NULL) {
        box_text(box, kind, text);
    }
    box_go(box);
    box_reply(box, reply);
}

void box_begin_exec(struct box *box, const char *const *argv, uint32_t flags, uint64_t timeout_ms,
                    uint64_t max_bytes)
{
    struct rsbx_request request = {.op = RSBX_OP_EXEC, .flags = flags, .timeout_ms = timeout_ms,
                                   .max_bytes = max_bytes, .envc = 2};
    struct rsbx_hello hello;

    while (argv[request.argc] != NULL) {
        request.argc++;
    }
    box_start(box);
    box_greet(box, &hello);
    box_request(box, &request);
    for (uint32_t i = 0; i < request.argc; i++) {
        box_text(box, RSBX_TEXT_ARG, argv[i]);
    }
    box_text(box, RSBX_TEXT_ENV, "PATH=/nowhere:/bin");
    box_text(box, RSBX_TEXT_ENV, "HOME=/tmp/home");
    box_go(box);
}

void box_shell(struct box *box, struct reply *reply, const char *script, uint64_t timeout_ms,
               uint64_t max_bytes)
{
    const char *const argv[] = {"/bin/sh", "-c", script, NULL};

    box_begin_exec(box, argv, 0, timeout_ms, max_bytes);
    box_reply(box, reply);
}

void reply_free(struct reply *reply)
{
    free(reply->out.data);
    free(reply->err.data);
    free(reply->entries.data);
    free(reply->data.data);
    memset(reply, 0, sizeof(*reply));
}

void bytes_add(struct bytes *bytes, const void *data, size_t length)
{
    if (bytes->length + length + 1U > bytes->room) {
        size_t room = 2U * (bytes->length + length) + 64U;
        uint8_t *grown = realloc(bytes->data, room);

        assert_non_null(grown);
        bytes->data = grown;
        bytes->room = room;
    }
    if (length > 0) {
        memcpy(bytes->data + bytes->length, data, length);
    }
    bytes->length += length;
    bytes->data[bytes->length] = '\0';
}

const char *bytes_text(struct bytes *bytes)
{
    bytes_add(bytes, "", 0);
    return (const char *)bytes->data;
}
