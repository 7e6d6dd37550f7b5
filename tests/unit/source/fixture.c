/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/source/fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <openssl/evp.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/text.h"

#include "base/banned.h"

int fx_setup(void **state)
{
    struct fx *fx = calloc(1, sizeof *fx);

    assert_non_null(fx);
    (void)snprintf(fx->top, sizeof fx->top, "/tmp/rsbx-source-XXXXXX");
    assert_non_null(mkdtemp(fx->top));
    (void)snprintf(fx->repo, sizeof fx->repo, "%s/repo", fx->top);
    assert_int_equal(mkdir(fx->repo, 0755), 0);
    FX_GIT(NULL, fx, "init", "-q", "-b", "main", ".");
    *state = fx;
    return 0;
}

int fx_teardown(void **state)
{
    struct fx *fx = *state;

    (void)rsbx_remove_tree_at(AT_FDCWD, fx->top, NULL);
    free(fx);
    return 0;
}

const char *fx_path(const struct fx *fx, const char *relative)
{
    static char paths[4][8192];
    static size_t next;
    char *path = paths[next++ % 4];

    (void)snprintf(path, sizeof paths[0], "%s/%s", fx->repo, relative);
    return path;
}

static void make_parents(const char *path)
{
    char folder[8192];

    (void)snprintf(folder, sizeof folder, "%s", path);
    for (char *p = folder + 1; *p != '\0'; p++) {
        if (*p != '/')
            continue;
        *p = '\0';
        if (mkdir(folder, 0755) != 0)
            assert_int_equal(errno, EEXIST);
        *p = '/';
    }
}

void fx_write(const struct fx *fx, const char *relative, const void *bytes, size_t length)
{
    const char *path = fx_path(fx, relative);
    int fd;

    make_parents(path);
    (void)unlink(path);
    fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    assert_true(fd >= 0);
    assert_int_equal(rsbx_write_all(fd, bytes, length), 0);
    (void)close(fd);
}

void fx_text(const struct fx *fx, const char *relative, const char *text)
{
    fx_write(fx, relative, text, strlen(text));
}

void fx_symlink(const struct fx *fx, const char *target, const char *relative)
{
    const char *path = fx_path(fx, relative);

    make_parents(path);
    assert_int_equal(symlink(target, path), 0);
}

static _Noreturn void exec_git(const struct fx *fx, const char *const *argv, int in_fd, int out_fd)
{
    char *const environment[] = { (char[]){ "PATH=/usr/local/bin:/usr/bin:/bin" },
                                  (char[]){ "HOME=/nonexistent" },
                                  (char[]){ "GIT_CONFIG_GLOBAL=/dev/null" },
                                  (char[]){ "GIT_CONFIG_SYSTEM=/dev/null" },
                                  (char[]){ "GIT_AUTHOR_NAME=a" },
                                  (char[]){ "GIT_AUTHOR_EMAIL=a@example.org" },
                                  (char[]){ "GIT_COMMITTER_NAME=a" },
                                  (char[]){ "GIT_COMMITTER_EMAIL=a@example.org" },
                                  (char[]){ "GIT_AUTHOR_DATE=1700000000 +0000" },
                                  (char[]){ "GIT_COMMITTER_DATE=1700000000 +0000" },
                                  NULL };
    char *copies[32];
    size_t count = 0;

    for (; argv[count] != NULL && count < 31; count++)
        copies[count] = strdup(argv[count]);
    copies[count] = NULL;
    if (chdir(fx->repo) == 0 && dup2(in_fd, 0) >= 0 && dup2(out_fd, 1) >= 0)
        (void)execvpe("git", copies, environment);
    _exit(127);
}

void fx_git(char out[128], const struct fx *fx, const char *const *argv)
{
    char text[128] = "";
    char scratch[128];
    int in_fd, status, both[2];
    ssize_t got;
    pid_t pid;

    in_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    assert_true(in_fd >= 0);
    assert_int_equal(pipe2(both, O_CLOEXEC), 0);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        exec_git(fx, argv, in_fd, both[1]);
    (void)close(both[1]);
    (void)close(in_fd);
    got = rsbx_read_full(both[0], text, sizeof text - 1);
    assert_true(got >= 0);
    while (rsbx_read_full(both[0], scratch, sizeof scratch) > 0)
        continue;
    (void)close(both[0]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        fail_msg("git %s failed", argv[1]);
    text[got] = '\0';
    text[strcspn(text, "\n")] = '\0';
    if (out != NULL)
        memcpy(out, text, sizeof text);
}

void fx_commit_all(char out[41], const struct fx *fx)
{
    char text[128];

    FX_GIT(NULL, fx, "add", "-A", ".");
    FX_GIT(NULL, fx, "commit", "-q", "--allow-empty", "-m", "m");
    FX_GIT(text, fx, "rev-parse", "HEAD");
    memcpy(out, text, 40);
    out[40] = '\0';
}

/* The bytes as a zlib stream of stored blocks: any content, and no compressor needed. */
void fx_stored(const struct fx *fx, const char *relative, const void *bytes, size_t length)
{
    const uint8_t *in = bytes;
    uint8_t *out = malloc(length + 5 * (length / 65535 + 1) + 6);
    size_t used = 2;
    size_t at = 0;
    uint32_t a = 1, b = 0;

    assert_non_null(out);
    out[0] = 0x78;
    out[1] = 0x01;
    do {
        size_t part = length - at < 65535 ? length - at : 65535;

        out[used++] = at + part == length;
        out[used++] = (uint8_t)part;
        out[used++] = (uint8_t)(part >> 8);
        out[used++] = (uint8_t)~part;
        out[used++] = (uint8_t)(~part >> 8);
        memcpy(out + used, in + at, part);
        used += part;
        at += part;
    } while (at < length);
    for (size_t i = 0; i < length; i++) {
        a = (a + in[i]) % 65521;
        b = (b + a) % 65521;
    }
    out[used++] = (uint8_t)(b >> 8);
    out[used++] = (uint8_t)b;
    out[used++] = (uint8_t)(a >> 8);
    out[used++] = (uint8_t)a;
    fx_write(fx, relative, out, used);
    free(out);
}

void fx_loose_name(char out[64], const char *hex)
{
    (void)snprintf(out, 64, ".git/objects/%.2s/%.38s", hex, hex + 2);
}

void fx_object(char out[41], const struct fx *fx, const char *type, const void *bytes,
               size_t length)
{
    char head[64];
    size_t head_length = (size_t)snprintf(head, sizeof head, "%s %zu", type, length) + 1;
    uint8_t *whole = malloc(head_length + length);
    uint8_t oid[20];
    char name[64];

    assert_non_null(whole);
    memcpy(whole, head, head_length);
    if (length > 0)
        memcpy(whole + head_length, bytes, length);
    assert_int_equal(EVP_Digest(whole, head_length + length, oid, NULL, EVP_sha1(), NULL), 1);
    rsbx_hex(out, oid, sizeof oid);
    fx_loose_name(name, out);
    fx_stored(fx, name, whole, head_length + length);
    free(whole);
}

void fx_blob(char out[41], const struct fx *fx, const char *text)
{
    fx_object(out, fx, "blob", text, strlen(text));
}

void fx_entry(struct fx_tree *tree, const char *mode, const void *name, size_t name_length,
              const char *hex)
{
    size_t mode_length = strlen(mode);

    assert_true(tree->length + mode_length + name_length + 22 <= sizeof tree->bytes);
    memcpy(tree->bytes + tree->length, mode, mode_length);
    tree->length += mode_length;
    tree->bytes[tree->length++] = ' ';
    if (name_length > 0)
        memcpy(tree->bytes + tree->length, name, name_length);
    tree->length += name_length;
    tree->bytes[tree->length++] = '\0';
    assert_true(rsbx_unhex(tree->bytes + tree->length, 20, hex));
    tree->length += 20;
}

void fx_tree_object(char out[41], const struct fx *fx, const struct fx_tree *tree)
{
    fx_object(out, fx, "tree", tree->bytes, tree->length);
}

void fx_commit_tree(char out[41], const struct fx *fx, const char *tree)
{
    char text[256];

    (void)snprintf(text, sizeof text,
                   "tree %s\nauthor a <a@example.org> 1700000000 +0000\n"
                   "committer a <a@example.org> 1700000000 +0000\n\nm\n", tree);
    fx_object(out, fx, "commit", text, strlen(text));
    (void)snprintf(text, sizeof text, "%s\n", out);
    fx_text(fx, ".git/HEAD", text);
}

struct rsbx_source_options fx_options(const struct fx *fx, const char *revision)
{
    struct rsbx_source_options options = { .repo = fx->repo,
                                           .revision = revision,
                                           .max_files = 200000,
                                           .max_bytes = 4294967296U,
                                           .max_depth = 128,
                                           .wall_ms = 60000 };
    return options;
}

static void take(struct fx_result *out, const struct rsbx_source_event *event)
{
    size_t used = strlen(out->paths);

    switch (event->kind) {
    case RSBX_SOURCE_ENTRY:
        out->files++;
        if (used + event->path_length + 16 < sizeof out->paths)
            (void)snprintf(out->paths + used, sizeof out->paths - used, "%o %s\n", event->mode,
                           event->path);
        break;
    case RSBX_SOURCE_DATA:
        assert_true(event->length > 0 && event->length <= 65536);
        out->bytes += event->length;
        if (out->content_length + event->length < sizeof out->content) {
            memcpy(out->content + out->content_length, event->bytes, event->length);
            out->content_length += event->length;
        }
        break;
    case RSBX_SOURCE_NOTE:
        out->notes++;
        (void)snprintf(out->note, sizeof out->note, "%s", event->text);
        break;
    case RSBX_SOURCE_DONE:
        break;
    }
}

void fx_read(struct fx_result *out, const struct rsbx_source_options *options)
{
    struct rsbx_source *source = NULL;
    struct rsbx_fingerprint *fingerprint = NULL;
    struct rsbx_source_event event;
    uint8_t raw[32], rest[32];

    memset(out, 0, sizeof *out);
    out->rc = rsbx_source_open(&source, options, &out->err);
    if (out->rc != 0) {
        assert_null(source);
        assert_int_equal(out->rc, out->err.code);
        assert_true(out->err.message[0] != '\0');
        return;
    }
    out->rc = rsbx_fingerprint_new(&fingerprint, options->excludes, options->exclude_count,
                                   &out->err);
    while (out->rc == 0) {
        out->rc = rsbx_source_next(&event, source, &out->err);
        if (out->rc != 0 || event.kind == RSBX_SOURCE_DONE)
            break;
        take(out, &event);
        out->rc = rsbx_fingerprint_feed(fingerprint, &event, &out->err);
    }
    if (out->rc == 0)
        out->rc = rsbx_fingerprint_finish(out->fingerprint, raw, rest, &out->fingerprint_entries,
                                          fingerprint, &out->err);
    if (out->rc == 0)
        rsbx_hex(out->rest, rest, sizeof rest);
    else
        assert_int_equal(out->rc, out->err.code);
    out->facts = *rsbx_source_facts(source);
    rsbx_fingerprint_free(fingerprint);
    rsbx_source_free(source);
}

void fx_expect(struct fx_result *out, const struct rsbx_source_options *options, int code,
               const char *words)
{
    struct rsbx_deadline late = rsbx_deadline_in_ms(FX_LATE_MS);

    fx_read(out, options);
    if (out->rc != code)
        fail_msg("expected %d (%s), got %d: %s", code, words != NULL ? words : "-", out->rc,
                 out->err.message);
    if (words != NULL && strstr(out->err.message, words) == NULL)
        fail_msg("\"%s\" lacks \"%s\"", out->err.message, words);
    assert_false(rsbx_deadline_passed(late));
}
