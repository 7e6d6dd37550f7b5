/* SPDX-License-Identifier: Apache-2.0 */
#include "gitindex.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/banned.h"

void gitindex_write(const char *path, git_repository *repository, const char *tree_id)
{
    git_index *index = NULL;
    git_tree *tree = NULL;
    git_oid oid;

    assert_int_equal(git_oid_fromstr(&oid, tree_id), 0);
    assert_int_equal(git_tree_lookup(&tree, repository, &oid), 0);
    assert_int_equal(git_index_open(&index, path), 0);
    assert_int_equal(git_index_read_tree(index, tree), 0);
    assert_int_equal(git_index_write(index), 0);
    git_index_free(index);
    git_tree_free(tree);
}

void gitindex_assert(const char *path, git_repository *repository, const char *tree_id)
{
    git_index *index = NULL;
    git_oid oid;
    char hex[41];

    assert_int_equal(git_index_open(&index, path), 0);
    assert_int_equal(git_index_write_tree_to(&oid, index, repository), 0);
    git_index_free(index);
    git_oid_tostr(hex, sizeof hex, &oid);
    assert_string_equal(hex, tree_id);
}
