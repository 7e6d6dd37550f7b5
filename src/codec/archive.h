/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RSBX_CODEC_ARCHIVE_H
#define RSBX_CODEC_ARCHIVE_H

#include <archive.h>
#include <archive_entry.h>

#include "base/lazy.h"

/* The functions of libarchive that are called, as rsbx_archive.NAME once rsbx_archive_load() has succeeded. */
#define RSBX_ARCHIVE_FUNCTIONS(X)                                                                  \
    X(archive_entry_filetype) X(archive_entry_free) X(archive_entry_hardlink)                      \
    X(archive_entry_new) X(archive_entry_pathname) X(archive_entry_set_filetype)                   \
    X(archive_entry_set_gid) X(archive_entry_set_mtime) X(archive_entry_set_pathname)              \
    X(archive_entry_set_perm) X(archive_entry_set_size) X(archive_entry_set_uid)                   \
    X(archive_entry_size) X(archive_entry_size_is_set) X(archive_error_string) X(archive_free)     \
    X(archive_read_data) X(archive_read_free) X(archive_read_new) X(archive_read_next_header)      \
    X(archive_read_open_memory) X(archive_read_support_filter_gzip)                                \
    X(archive_read_support_format_tar) X(archive_version_number) X(archive_write_close)            \
    X(archive_write_data) X(archive_write_header) X(archive_write_new) X(archive_write_open)       \
    X(archive_write_set_bytes_in_last_block) X(archive_write_set_format_pax_restricted)

RSBX_LAZY_TABLE(archive, RSBX_ARCHIVE_FUNCTIONS);

#endif
