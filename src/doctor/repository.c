/* SPDX-License-Identifier: Apache-2.0 */
/* A repository of one commit with one file, for the probe. It is made in a child, like everything
 * that libgit2 does here: nothing of it stays in the caller's process. */
#include <stdio.h>
#include <string.h>

#include "base/child.h"
#include "base/fd.h"
#include "codec/git2.h"
#include "doctor/internal.h"

#include "base/banned.h"

#define WALL_MS 60000U
#define FILE_BYTES (1024U * 1024U)

static int start_library(void)
{
    static const git_config_level_t levels[] = { GIT_CONFIG_LEVEL_PROGRAMDATA,
                                                 GIT_CONFIG_LEVEL_SYSTEM, GIT_CONFIG_LEVEL_XDG,
                                                 GIT_CONFIG_LEVEL_GLOBAL };
    int rc = rsbx_child_library(rsbx_git2.git_libgit2_init);

    for (size_t i = 0; rc >= 0 && i < sizeof levels / sizeof levels[0]; i++)
        rc = rsbx_git2.git_libgit2_opts(GIT_OPT_SET_SEARCH_PATH, (int)levels[i], "");
    return rc;
}

/* Writes the commit's id, 40 digits. */
static int make(int pipe_fd, void *payload)
{
    static const char text[] = "a file of the probe\n";
    git_repository_init_options init = { .version = GIT_REPOSITORY_INIT_OPTIONS_VERSION,
                                         .flags = GIT_REPOSITORY_INIT_NO_REINIT,
                                         .initial_head = "main" };
    git_repository *repository = NULL;
    git_treebuilder *builder = NULL;
    git_tree *tree = NULL;
    git_signature *author = NULL;
    git_oid id;
    char hex[41];

    if (start_library() < 0 || rsbx_git2.git_repository_init_ext(&repository, payload, &init) != 0 ||
        rsbx_git2.git_blob_create_from_buffer(&id, repository, text, sizeof text - 1) != 0 ||
        rsbx_git2.git_treebuilder_new(&builder, repository, NULL) != 0 ||
        rsbx_git2.git_treebuilder_insert(NULL, builder, "file", &id, GIT_FILEMODE_BLOB) != 0 ||
        rsbx_git2.git_treebuilder_write(&id, builder) != 0 ||
        rsbx_git2.git_tree_lookup(&tree, repository, &id) != 0 ||
        rsbx_git2.git_signature_new(&author, "reposbx doctor", "doctor@localhost", 1, 0) != 0 ||
        rsbx_git2.git_commit_create(&id, repository, "HEAD", author, author, NULL, "probe", tree, 0,
                          NULL) != 0)
        return 1; /* the process ends: nothing is released */
    rsbx_git2.git_oid_tostr(hex, sizeof hex, &id);
    return rsbx_write_all(pipe_fd, hex, 40) == 0 ? 0 : 1;
}

int rsbx_doctor_repository(char commit[41], const char *folder, reposbx_error *err)
{
    const struct rsbx_child_limits limits = { .memory_bytes = UINT64_MAX, .cpu_seconds = 30,
                                              .file_bytes = FILE_BYTES, .keep_fd = -1 };
    RSBX_AUTO(rsbx_text) char *copy = strdup(folder);
    struct rsbx_child child;
    ssize_t got;
    int rc = copy != NULL ? rsbx_git2_load(err) : rsbx_fail_memory(err);

    if (rc == 0)
        rc = rsbx_child_start(&child, &limits, make, copy, err);
    if (rc != 0)
        return rc;
    got = rsbx_read_full(child.pipe_fd, commit, 40);
    commit[40] = '\0';
    rc = rsbx_child_finish(&child, rsbx_deadline_in_ms(WALL_MS), NULL, err);
    if (rc == 0 && got != 40)
        rc = rsbx_fail(err, REPOSBX_EINTERNAL, "the answer is cut short");
    if (rc != 0)
        rsbx_context(err, "making a repository in %s", folder);
    return rc;
}
