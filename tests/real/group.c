/* SPDX-License-Identifier: Apache-2.0 */
#include "real/group.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "real/one_session.h"

#include "base/banned.h"

struct place place;
reposbx_session *session;

int group_setup(void **state)
{
    (void)state;
    return place_make(&place);
}

int group_teardown(void **state)
{
    (void)state;
    place_free(session);
    session = NULL;
    return place_leave(&place);
}

void applies(const reposbx_diff_result *diff)
{
    char clone[128], *tree = NULL;

    (void)snprintf(clone, sizeof clone, "%s/clone", place.root);
    assert_int_equal(RUN(NULL, NULL, "rm", "-rf", "--", clone), 0);
    assert_int_equal(GIT(NULL, NULL, "clone", "-q", place.repo, clone), 0);
    assert_int_equal(place_write(place.root, "a.patch", diff->patch, diff->patch_length, 0644), 0);
    if (diff->patch_length > 0)
        assert_int_equal(GIT(NULL, clone, "apply", "--index", "--whitespace=nowarn", "../a.patch"), 0);
    assert_int_equal(GIT(&tree, clone, "write-tree"), 0);
    tree[40] = '\0';
    assert_string_equal(tree, diff->result_tree);
    free(tree);
}

int session_setup(const char *changes)
{
    if (place_make(&place) != 0)
        return -1;
    session = place_session(&place, changes, NULL);
    return 0;
}

reposbx_exec_request request_of(const char *const *argv, size_t argc)
{
    reposbx_exec_request request = REPOSBX_EXEC_REQUEST_INIT;

    request.argv = argv;
    request.argc = argc;
    return request;
}

void refused(const reposbx_exec_request *request, int code, const char *naming)
{
    reposbx_exec_result result;
    reposbx_error err = REPOSBX_ERROR_INIT;
    int rc;

    (void)memset(&result, 0, sizeof result);
    rc = reposbx_session_exec(&result, session, request, &err);
    if (rc != code)
        fail_msg("'%s' gave %s, not %s: %s", naming, reposbx_code_word(rc), reposbx_code_word(code),
                 err.message);
    assert_int_equal(err.code, code);
    assert_null(result.command_id);
    if (strstr(err.message, naming) == NULL)
        fail_msg("the message does not name '%s': %s", naming, err.message);
}

void still_works(void)
{
    char *text = place_text(session, "echo works");

    assert_string_equal(text, "works\n");
    free(text);
}
