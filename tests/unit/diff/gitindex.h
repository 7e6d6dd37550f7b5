/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RSBX_TEST_GITINDEX_H
#define RSBX_TEST_GITINDEX_H

#include <git2.h>

/*
 * Index files for git, made and read by libgit2 within this process: nothing of that is under test, and it is
 * wanted for every case. What fails, fails the test.
 */

/* Makes an index that holds the tree. */
void gitindex_write(const char *path, git_repository *repository, const char *tree_id);
/* That an index holds the tree; its objects are in the repository then. */
void gitindex_assert(const char *path, git_repository *repository, const char *tree_id);

#endif
