/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RSBX_ARTIFACT_ZIP_H
#define RSBX_ARTIFACT_ZIP_H

#include <zip.h>

#include "base/lazy.h"

/* The functions of libzip that are called, as rsbx_zip.NAME once rsbx_zip_load() has succeeded. */
#define RSBX_ZIP_FUNCTIONS(X)                                                                      \
    X(zip_close) X(zip_discard) X(zip_error_fini) X(zip_error_init) X(zip_error_strerror)          \
    X(zip_file_add) X(zip_file_set_dostime) X(zip_file_set_external_attributes)      \
    X(zip_get_num_entries) X(zip_libzip_version) X(zip_open_from_source)                           \
    X(zip_set_file_compression) X(zip_source_buffer) X(zip_source_buffer_create)                   \
    X(zip_source_close) X(zip_source_free) X(zip_source_keep) X(zip_source_open)                   \
    X(zip_source_read) X(zip_stat_index) X(zip_strerror)

RSBX_LAZY_TABLE(zip, RSBX_ZIP_FUNCTIONS);

#endif
