#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Runs the example program on a real engine and checks what it prints and makes.
# usage: tour.sh TOUR POLICIES CLI-TESTS
. "$3/lib.sh"
policies=$2
[ -n "${REPOSBX_TEST_ENGINE:-}" ] || skip "REPOSBX_TEST_ENGINE is not set"
[ -n "${REPOSBX_TEST_IMAGE_ID:-}" ] || skip "REPOSBX_TEST_IMAGE_ID is not set"
export REPOSBX_ENGINE=$REPOSBX_TEST_ENGINE REPOSBX_STATE_DIR=$scratch/sessions
export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1

repo=$scratch/repo
mkdir "$repo"
printf 'A small project.\n' >"$repo/README.md"
printf 'all:\n' >"$repo/Makefile"
git -C "$repo" init -q
git -C "$repo" add -A
git -C "$repo" -c user.name=t -c user.email=t@example.org commit -q -m one
revision=$(git -C "$repo" rev-parse HEAD)
jq --arg image "$REPOSBX_TEST_IMAGE_ID" '.images = [$image] | .require_rootless_runtime = false' \
    "$policies/issue-bot.json" >"$scratch/policy.json"

expect 0 "$scratch/policy.json" "$repo" "$revision" "$REPOSBX_TEST_IMAGE_ID" \
    "$scratch/tour.patch" "$scratch/tour.zip"
err_empty
out_has '^session sbx-[0-9a-f]{32}$'
out_has '^Makefile$'
if grep -qx '\.git' "$scratch/out"; then fail ".git is inside"; else pass; fi
out_has '^\[exited, exit code 0\]$'
out_has '^\[timed_out, exit code -1\]$'
out_has '^notes/hello.txt: 6 bytes$'
out_has '^modified README.md$'
out_has '^added    notes/hello.txt$'
out_has '^added    out/when$'
out_has '^5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03  notes/hello.txt$'
out_has '^closed; audit in '

# Git comes to the tree that the session proved; the members are what the program said.
git -C "$repo" apply --index "$scratch/tour.patch"
is "result tree" "$(sed -n 's/^result tree //p' "$scratch/out")" "$(git -C "$repo" write-tree)"
is "members" "$(grep -cE '^[0-9a-f]{64}  ' "$scratch/out")" 2
audit=$(sed -n 's/^closed; audit in //p' "$scratch/out")
is "last record" "$(tail -n 1 "$audit/events.jsonl" | jq -r .event)" sandbox_closed

# A second run does not replace its files, says so, and closes all the same.
expect 1 "$scratch/policy.json" "$repo" "$revision" "$REPOSBX_TEST_IMAGE_ID" \
    "$scratch/tour.patch" "$scratch/other.zip"
err_has 'cannot write .*tour.patch'
out_has '^closed; audit in '
expect 1 "$scratch/policy.json" "$repo" 0123456789012345678901234567890123456789 \
    "$REPOSBX_TEST_IMAGE_ID" "$scratch/third.patch" "$scratch/third.zip"
err_has '^tour: '
expect 64
finish
