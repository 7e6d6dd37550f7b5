/* SPDX-License-Identifier: Apache-2.0 */
#include "source/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/path.h"
#include "base/text.h"

#include "base/banned.h"

/*
 * HEAD by our own bounded reading of .git/HEAD, loose refs and packed-refs. Opening a libgit2
 * repository for it would bring its configuration, its work tree rules and its owner check along;
 * three small text files need none of that. The other ref store of Git (reftable) is an extension
 * and refused before.
 */
#define MAX_REF_BYTES 4096U
#define MAX_REF_LEVELS 5U
/* A hundred bytes a ref: some 600,000 refs. */
#define MAX_PACKED_BYTES (64U * 1024U * 1024U)

static bool ref_name_ok(const char *name)
{
    const char *rest = name;

    if (strncmp(name, "refs/", 5) != 0 || strlen(name) >= MAX_REF_BYTES)
        return false;
    while (*rest != '\0') {
        size_t part = strcspn(rest, "/");

        if (part == 0 || part > RSBX_MAX_NAME_BYTES || rest[0] == '.')
            return false;
        for (size_t i = 0; i < part; i++) {
            if ((unsigned char)rest[i] < 0x20 || rest[i] == 0x7F || strchr(" ~^:?*[\\", rest[i]))
                return false;
        }
        rest += part;
        if (*rest == '/' && *++rest == '\0')
            return false;
    }
    return true;
}

/* Reads .git/<name> without following a symlink anywhere. REPOSBX_ENOTFOUND when it is
 * not a file. */
static int read_loose(struct rsbx_buf *out, int git_fd, const char *name, reposbx_error *err)
{
    RSBX_AUTO(rsbx_fd) int fd = -1;
    int at_fd = git_fd;

    for (;;) {
        size_t part = strcspn(name, "/");
        char leaf[RSBX_MAX_NAME_BYTES + 1];
        int next_fd;

        memcpy(leaf, name, part);
        leaf[part] = '\0';
        if (name[part] == '\0')
            return rsbx_read_file_at(out, at_fd, leaf, err);
        next_fd = openat(at_fd, leaf, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (next_fd < 0)
            return rsbx_fail_errno(err,
                                   errno == ENOENT ? REPOSBX_ENOTFOUND : REPOSBX_EIO,
                                   "cannot open %s of a ref", leaf);
        if (fd >= 0)
            (void)close(fd);
        fd = next_fd;
        at_fd = fd;
        name += part + 1;
    }
}

static int find_packed(char out[RSBX_OID_HEX_BYTES], int git_fd, const char *name,
                       reposbx_error *err)
{
    RSBX_AUTO(rsbx_buf) struct rsbx_buf text = RSBX_BUF_INIT(MAX_PACKED_BYTES);
    size_t length = strlen(name);
    const char *line;
    int rc = rsbx_read_file_at(&text, git_fd, "packed-refs", err);

    if (rc != 0 && rc != REPOSBX_ENOTFOUND)
        return rc;
    line = text.length > 0 ? text.data : "";
    while (*line != '\0') {
        size_t width = strcspn(line, "\n");

        if (width == RSBX_OID_HEX_BYTES + length && line[RSBX_OID_HEX_BYTES - 1] == ' ' &&
            memcmp(line + RSBX_OID_HEX_BYTES, name, length) == 0) {
            char hex[RSBX_OID_HEX_BYTES];

            memcpy(hex, line, sizeof hex - 1);
            hex[sizeof hex - 1] = '\0';
            if (!rsbx_is_hex(hex, sizeof hex - 1))
                return rsbx_fail(err, REPOSBX_EPROTOCOL, ".git/packed-refs: no object id for %s",
                                 name);
            memcpy(out, hex, sizeof hex);
            return REPOSBX_OK;
        }
        line += width + (line[width] == '\n' ? 1 : 0);
    }
    return rsbx_fail(err, REPOSBX_EPOLICY, "HEAD names %s, which does not exist (no commit yet?)",
                     name);
}

/* A branch that was deleted and packed may leave an empty folder of its name. */
static bool is_folder(int git_fd, const char *name)
{
    RSBX_AUTO(rsbx_fd) int fd =
        openat(git_fd, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    return fd >= 0;
}

int rsbx_gitrefs_head(char out[RSBX_OID_HEX_BYTES], int git_fd, reposbx_error *err)
{
    char name[MAX_REF_BYTES] = "HEAD";

    for (unsigned level = 0; level < MAX_REF_LEVELS; level++) {
        RSBX_AUTO(rsbx_buf) struct rsbx_buf text = RSBX_BUF_INIT(MAX_REF_BYTES);
        size_t skip = 4;
        int rc = read_loose(&text, git_fd, name, err);

        if (level > 0 && (rc == REPOSBX_ENOTFOUND || (rc != 0 && is_folder(git_fd, name))))
            return find_packed(out, git_fd, name, err);
        if (rc != 0)
            return rsbx_fail(err, REPOSBX_EPOLICY,
                             ".git/%s is not a small file that can be read without a symlink", name);
        while (text.length > 0 && strchr(" \t\r\n", text.data[text.length - 1]) != NULL)
            text.data[--text.length] = '\0';
        if (text.length == RSBX_OID_HEX_BYTES - 1 && rsbx_is_hex(text.data, text.length)) {
            memcpy(out, text.data, RSBX_OID_HEX_BYTES);
            return REPOSBX_OK;
        }
        if (text.length < 5 || strncmp(text.data, "ref:", 4) != 0 ||
            strlen(text.data) != text.length)
            return rsbx_fail(err, REPOSBX_EPROTOCOL, ".git/%s holds neither a commit nor a ref",
                             name);
        while (text.data[skip] == ' ' || text.data[skip] == '\t')
            skip++;
        if (!ref_name_ok(text.data + skip))
            return rsbx_fail(err, REPOSBX_EPOLICY,
                             ".git/%s names the ref \"%s\", which is no valid name", name,
                             text.data + skip);
        memcpy(name, text.data + skip, text.length - skip + 1);
    }
    return rsbx_fail(err, REPOSBX_EPOLICY, "HEAD: more than %u refs that name each other",
                     MAX_REF_LEVELS);
}
