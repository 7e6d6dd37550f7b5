/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "policy/policy.h"
#include "session/session.h"
#include "session/snapshot.h"

#include "base/banned.h"

typedef struct rsbx_source *rsbx_source_ptr;
RSBX_CLEANUP(rsbx_source, rsbx_source_ptr, rsbx_source_free);

struct rsbx_source_options rsbx_source_options_of(const reposbx_policy *policy, const char *repo,
                                                  const char *revision)
{
    return (struct rsbx_source_options){
        .repo = repo,
        .revision = revision,
        .symlinks = policy->keep_symlinks ? RSBX_SYMLINKS_KEEP : RSBX_SYMLINKS_REFUSE,
        .submodules = policy->empty_submodules ? RSBX_SUBMODULES_EMPTY : RSBX_SUBMODULES_REFUSE,
        .attributes = policy->raw_attributes ? RSBX_ATTRIBUTES_RAW : RSBX_ATTRIBUTES_REFUSE,
        .owner = policy->any_owner ? RSBX_OWNER_ANY : RSBX_OWNER_CALLER,
        .max_files = policy->max_files,
        .max_bytes = policy->max_bytes,
        .max_depth = policy->max_depth,
    };
}

/* To the end: only then is every blob read and HEAD looked at again, and the tree's id final. */
static int read_all(struct rsbx_source *source, reposbx_error *err)
{
    struct rsbx_source_event event = { .kind = RSBX_SOURCE_NOTE };
    int rc = REPOSBX_OK;

    while (rc == 0 && event.kind != RSBX_SOURCE_DONE)
        rc = rsbx_source_next(&event, source, err);
    return rc;
}

int rsbx_repository_tree(char tree[41], const char *repo, const char *revision,
                         const reposbx_policy *policy, reposbx_error *err)
{
    RSBX_AUTO(rsbx_policy) reposbx_policy *own = NULL;
    RSBX_AUTO(rsbx_source) rsbx_source_ptr source = NULL;
    struct rsbx_source_options options;
    int rc = rsbx_check_revision(revision, err);

    if (rc == 0 && policy == NULL) {
        rc = reposbx_policy_default(&own, err);
        policy = own;
    }
    if (rc != 0)
        return rc;
    options = rsbx_source_options_of(policy, repo, revision);
    rc = rsbx_source_open(&source, &options, err);
    if (rc == 0)
        rc = read_all(source, err);
    if (rc == 0)
        memcpy(tree, rsbx_source_facts(source)->tree, 41);
    return rc;
}
