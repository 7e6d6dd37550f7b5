/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/content.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

uint32_t rsbx_git_mode(const struct stat *status)
{
    if (S_ISREG(status->st_mode)) {
        return (status->st_mode & S_IXUSR) != 0 ? 0100755U : 0100644U;
    }
    if (S_ISLNK(status->st_mode)) {
        return 0120000U;
    }
    return S_ISDIR(status->st_mode) ? 040000U : 0;
}

uint32_t rsbx_omit_reason(const struct stat *status)
{
    if (S_ISFIFO(status->st_mode)) {
        return RSBX_OMIT_FIFO;
    }
    if (S_ISSOCK(status->st_mode)) {
        return RSBX_OMIT_SOCKET;
    }
    return S_ISCHR(status->st_mode) || S_ISBLK(status->st_mode) ? RSBX_OMIT_DEVICE : RSBX_OMIT_NONE;
}

int rsbx_open_regular(int folder_fd, const char *name, struct stat *status)
{
    int fd = openat(folder_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);

    if (fd < 0) {
        return -errno;
    }
    if (fstat(fd, status) != 0 || !S_ISREG(status->st_mode)) {
        close(fd);
        return -EINVAL;
    }
    return fd;
}

long rsbx_read_link(int folder_fd, const char *name, char target[RSBX_GUEST_LINK_ROOM])
{
    ssize_t length = readlinkat(folder_fd, name, target, RSBX_GUEST_LINK_ROOM);

    if (length < 0) {
        return -errno;
    }
    return length < (ssize_t)RSBX_GUEST_LINK_ROOM ? (long)length : -ENAMETOOLONG;
}

long rsbx_read_piece(int fd, void *bytes, size_t length)
{
    size_t have = 0;

    while (have < length) {
        ssize_t got = read(fd, (uint8_t *)bytes + have, length - have);

        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0) {
            return -errno;
        }
        if (got == 0) {
            break;
        }
        have += (size_t)got;
    }
    return (long)have;
}

void rsbx_receive_piece(struct rsbx_message *message, uint64_t left)
{
    rsbx_io_receive(message);
    if (message->type != RSBX_WIRE_DATA || message->length == 0 || message->length > left) {
        rsbx_guest_malformed();
    }
}

int rsbx_receive_file(int fd, uint64_t size)
{
    struct rsbx_message message;

    while (size > 0) {
        int result;

        rsbx_receive_piece(&message, size);
        result = rsbx_write_all(fd, message.payload, message.length);
        if (result < 0) {
            return result;
        }
        size -= message.length;
    }
    return 0;
}

int rsbx_receive_target(char target[RSBX_GUEST_LINK_ROOM], uint64_t size)
{
    struct rsbx_message message;
    size_t have = 0;

    if (size == 0 || size >= RSBX_GUEST_LINK_ROOM) {
        return -ENAMETOOLONG;
    }
    while (have < size) {
        rsbx_receive_piece(&message, size - have);
        memcpy(target + have, message.payload, message.length);
        have += message.length;
    }
    target[have] = '\0';
    return strlen(target) == have ? 0 : -EINVAL;
}

int rsbx_same_content(int left_fd, int right_fd)
{
    static uint8_t left[RSBX_WIRE_PIECE_BYTES], right[RSBX_WIRE_PIECE_BYTES];

    for (;;) {
        long had = rsbx_read_piece(left_fd, left, sizeof(left));
        long has = rsbx_read_piece(right_fd, right, sizeof(right));

        if (had < 0 || has < 0) {
            return (int)(had < 0 ? had : has);
        }
        if (had != has || memcmp(left, right, (size_t)had) != 0) {
            return 0;
        }
        if (had == 0) {
            return 1;
        }
        rsbx_io_check();
    }
}

int rsbx_write_all(int fd, const void *bytes, size_t length)
{
    const uint8_t *next = bytes;

    while (length > 0) {
        ssize_t put = write(fd, next, length);

        if (put < 0 && errno == EINTR) {
            continue;
        }
        if (put <= 0) {
            return put < 0 ? -errno : -EIO;
        }
        next += put;
        length -= (size_t)put;
    }
    return 0;
}

void rsbx_send_file(struct rsbx_guest *guest, int fd, uint64_t size, const char *path,
                    size_t path_length)
{
    static uint8_t piece[RSBX_WIRE_PIECE_BYTES];
    uint64_t left = size;
    uint8_t more;

    while (left > 0) {
        size_t want = left < sizeof(piece) ? (size_t)left : sizeof(piece);
        long got = rsbx_read_piece(fd, piece, want);

        if (got < 0) {
            rsbx_guest_fail(guest, (int)-got, "cannot read", path, path_length);
        }
        if ((size_t)got != want) {
            rsbx_guest_fail(guest, EIO, "file became shorter while it was read", path,
                            path_length);
        }
        rsbx_io_send(RSBX_WIRE_DATA, piece, want, NULL, 0);
        rsbx_io_check();
        left -= want;
    }
    if (rsbx_read_piece(fd, &more, 1) != 0) {
        rsbx_guest_fail(guest, EIO, "file became longer while it was read", path, path_length);
    }
    close(fd);
    guest->trailer.bytes += size;
    rsbx_io_send(RSBX_WIRE_END, NULL, 0, NULL, 0);
}

void rsbx_send_bytes(struct rsbx_guest *guest, const void *bytes, size_t length)
{
    if (length > 0) {
        rsbx_io_send(RSBX_WIRE_DATA, bytes, length, NULL, 0);
    }
    guest->trailer.bytes += length;
    rsbx_io_send(RSBX_WIRE_END, NULL, 0, NULL, 0);
}

void rsbx_send_entry(const struct rsbx_entry *entry)
{
    uint8_t fixed[RSBX_ENTRY_FIXED_BYTES];

    rsbx_wire_put_entry(fixed, entry);
    rsbx_io_send(RSBX_WIRE_ENTRY, fixed, sizeof(fixed), entry->path, entry->path_length);
}

void rsbx_count_bytes(struct rsbx_guest *guest, uint64_t *total, uint64_t size, const char *path,
                      size_t path_length)
{
    uint64_t limit = guest->request.head.max_bytes;

    if (*total > limit || size > limit - *total) {
        rsbx_guest_fail(guest, EFBIG, "content over the limit", path, path_length);
    }
    *total += size;
}
