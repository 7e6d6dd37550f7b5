/* SPDX-License-Identifier: Apache-2.0 */
#include "wasi/host.h"

/*
 * What is not there. The module has no descriptor but its three streams, so whatever names another one
 * names nothing; and on the streams there is no such operation. No function here looks at an argument
 * beyond the descriptor, or makes a system call.
 */
enum { E_BADF = 8, E_NOTSUP = 58 };

#define ABSENT(name, ...)                                                                          \
    uint32_t Z_wasi_snapshot_preview1Z_##name(rsbx_wasi *wasi, uint32_t fd, ##__VA_ARGS__);        \
    uint32_t Z_wasi_snapshot_preview1Z_##name(rsbx_wasi *wasi, uint32_t fd, ##__VA_ARGS__)         \
    {                                                                                              \
        return fd <= 2 && !wasi->closed[fd] ? E_NOTSUP : E_BADF;                                   \
    }

#define I uint32_t
#define L uint64_t

ABSENT(fd_advise, L a, L b, I c)
ABSENT(fd_allocate, L a, L b)
ABSENT(fd_datasync)
ABSENT(fd_fdstat_set_flags, I a)
ABSENT(fd_fdstat_set_rights, L a, L b)
ABSENT(fd_filestat_set_size, L a)
ABSENT(fd_filestat_set_times, L a, L b, I c)
ABSENT(fd_pread, I a, I b, L c, I d)
ABSENT(fd_prestat_get, I a)
ABSENT(fd_prestat_dir_name, I a, I b)
ABSENT(fd_pwrite, I a, I b, L c, I d)
ABSENT(fd_readdir, I a, I b, L c, I d)
ABSENT(fd_renumber, I a)
ABSENT(fd_sync)
ABSENT(path_create_directory, I a, I b)
ABSENT(path_filestat_get, I a, I b, I c, I d)
ABSENT(path_filestat_set_times, I a, I b, I c, L d, L e, I f)
ABSENT(path_link, I a, I b, I c, I d, I e, I f)
ABSENT(path_open, I a, I b, I c, I d, L e, L f, I g, I h)
ABSENT(path_readlink, I a, I b, I c, I d, I e)
ABSENT(path_remove_directory, I a, I b)
ABSENT(path_rename, I a, I b, I c, I d, I e)
ABSENT(path_unlink_file, I a, I b)
ABSENT(sock_accept, I a, I b)
ABSENT(sock_recv, I a, I b, I c, I d, I e)
ABSENT(sock_send, I a, I b, I c, I d)
ABSENT(sock_shutdown, I a)

/* The one whose descriptor is not the first argument. */
uint32_t Z_wasi_snapshot_preview1Z_path_symlink(rsbx_wasi *wasi, I from, I length, I fd, I to, I bytes);
uint32_t Z_wasi_snapshot_preview1Z_path_symlink(rsbx_wasi *wasi, I from, I length, I fd, I to, I bytes)
{
    return fd <= 2 && !wasi->closed[fd] ? E_NOTSUP : E_BADF;
}

uint32_t Z_wasi_snapshot_preview1Z_proc_raise(rsbx_wasi *wasi, I number);
uint32_t Z_wasi_snapshot_preview1Z_proc_raise(rsbx_wasi *wasi, I number)
{
    return E_NOTSUP;
}
