/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RSBX_CODEC_GIT2_H
#define RSBX_CODEC_GIT2_H

#include <git2.h>
#include <git2/sys/odb_backend.h>

#include "base/lazy.h"

/* The functions of libgit2 that are called, as rsbx_git2.NAME once rsbx_git2_load() has succeeded. */
#define RSBX_GIT2_FUNCTIONS(X)                                                                     \
    X(git_blob_create_from_buffer) X(git_commit_create) X(git_diff_buffers)                        \
    X(git_diff_options_init) X(git_error_last) X(git_libgit2_init) X(git_libgit2_opts)             \
    X(git_libgit2_version) X(git_odb_add_backend) X(git_odb_backend_one_pack) X(git_odb_free)      \
    X(git_odb_hash) X(git_odb_new) X(git_odb_object_data) X(git_odb_object_free)                   \
    X(git_odb_object_size) X(git_odb_object_type) X(git_odb_read) X(git_odb_read_header)           \
    X(git_oid_tostr) X(git_repository_init_ext) X(git_signature_new) X(git_tree_lookup)            \
    X(git_treebuilder_insert) X(git_treebuilder_new) X(git_treebuilder_write)

RSBX_LAZY_TABLE(git2, RSBX_GIT2_FUNCTIONS);

#endif
