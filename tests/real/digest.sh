#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# An image that is pinned by its manifest digest: $REPOSBX_TEST_IMAGE_DIGEST, name@sha256:…, which the
# engine got from a registry on loopback.
. "$(dirname "$0")/../cli/lib.sh"

[ -n "${REPOSBX_TEST_ENGINE:-}" ] || skip "REPOSBX_TEST_ENGINE is not set"
[ -n "${REPOSBX_TEST_IMAGE_DIGEST:-}" ] || skip "REPOSBX_TEST_IMAGE_DIGEST is not set"
export REPOSBX_STATE_DIR=$scratch/sessions REPOSBX_ENGINE=$REPOSBX_TEST_ENGINE
export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_SYSTEM=/dev/null
id=
cleanup() {
    if [ -n "$id" ]; then "$reposbx" -q session close "$id" >/dev/null 2>&1; fi
    rm -rf "$scratch"
}
trap cleanup EXIT

repo=$scratch/repo
git -c init.defaultBranch=main init -q "$repo"
echo one >"$repo/file"
git -C "$repo" add -A
git -C "$repo" -c user.name=t -c user.email=t@example.org commit -q -m one
head=$(git -C "$repo" rev-parse HEAD)
digest=$REPOSBX_TEST_IMAGE_DIGEST
other=${digest%@*}@sha256:$(printf '%064d' 0)
jq -n --arg one "$digest" --arg two "$other" '{version: 1, images: [$one, $two],
    require_rootless_runtime: false}' >"$scratch/policy.json"
create() {
    run session create --repo "$repo" --revision "$head" --policy "$scratch/policy.json" --image "$1"
}

create "$digest"
is 'the digest is taken' "$code" 0
id=$(cat "$scratch/out")
expect 0 session show "$id" --json
out_json ".image == \"$digest\" and (.image_id | startswith(\"sha256:\"))"
expect 0 session exec "$id" -- cat file
is 'it runs' "$(cat "$scratch/out")" one
expect 0 session close "$id"
id=
create "$other"
is 'a digest that the engine does not have' "$code" 69
create "${digest%@*}"
is 'a name without its digest' "$code" 77
expect 0 session list --json
out_json 'length == 1 and .[0].state == "closed"'
finish
