# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# What tests of whole sessions share, on top of the helpers of the command line: the engine of
# $REPOSBX_TEST_ENGINE, a state folder, git without anybody's configuration, a repository in $repo, a policy.
# Every session that `opened` was told of is closed in the end, whatever happens.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# needs VARIABLE…: what the environment has to name.
needs() {
    local name
    for name in "$@"; do [ -n "${!name:-}" ] || skip "$name is not set"; done
}
needs REPOSBX_TEST_ENGINE
command -v git >/dev/null || skip "git is missing"
export REPOSBX_STATE_DIR=$scratch/sessions REPOSBX_ENGINE=$REPOSBX_TEST_ENGINE
export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_SYSTEM=/dev/null

id=
ids=()
# opened: the session whose id was printed last is $id, and is closed in the end.
opened() {
    id=$(cat "$scratch/out")
    ids+=("$id")
}
close_sessions() {
    local one
    for one in "${ids[@]}"; do
        [ -d "$REPOSBX_STATE_DIR/sessions/$one" ] && "$reposbx" -q session close "$one" >/dev/null 2>&1
    done
    rm -rf "$scratch"
}
trap close_sessions EXIT

repo=$scratch/repo
git -c init.defaultBranch=main init -q "$repo"
# commit: all that is in $repo becomes revision $head with tree $tree.
commit() {
    git -C "$repo" add -A -f
    git -C "$repo" -c user.name=t -c user.email=t@example.org commit -q -m one
    head=$(git -C "$repo" rev-parse HEAD)
    tree=$(git -C "$repo" rev-parse 'HEAD^{tree}')
}

policy=$scratch/policy.json
# allow IMAGE [OBJECT]: the policy has one image and small limits, and what the JSON object says.
allow() {
    jq -n --arg image "$1" --argjson more "${2:-{\}}" '{version: 1, name: "test", images: [$image],
        require_rootless_runtime: false, limits: {memory_bytes: 134217728, pids: 64, cpus: 1.0}} * $more' \
        >"$policy"
}

# create ARGV…: a session of $repo at $head; it succeeds.
create() {
    expect 0 session create --repo "$repo" --revision "$head" --image "$REPOSBX_TEST_IMAGE_ID" \
        --policy "$policy" "$@"
    opened
}
