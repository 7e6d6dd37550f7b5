#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# One signal in the middle of a creation: the command ends soon, says so, and everything that it had made
# is gone. A second one ends it at once, and reap removes what that left.
. "$(dirname "$0")/../cli/session.sh"
needs REPOSBX_TEST_IMAGE_ID
. "$(dirname "$0")/engine.sh"
# What a failed test may have left has no id that was printed.
trap 'mapfile -t ids < <(folders); "$reposbx" -q reap >/dev/null 2>&1; close_sessions' EXIT

echo "$scratch" >"$repo/unique"
for i in $(seq 300); do echo "$i" >"$repo/f$i"; done
commit
allow "$REPOSBX_TEST_IMAGE_ID"
order=(--repo "$repo" --revision "$head" --image "$REPOSBX_TEST_IMAGE_ID" --policy "$policy")

# folders: of sessions, one a line.
folders() { ls "$REPOSBX_STATE_DIR/sessions" 2>/dev/null | grep '^sbx-'; }

# interrupted WORD SIGNAL ARGV…: sends the signal when a new session's journal has the word. The exit code
# is in $code, the session in $id.
interrupted() {
    local word=$1 signal=$2 before try
    shift 2
    before=$(folders)
    # the shell has SIGINT ignored in what it puts into the background
    env --default-signal=INT "$reposbx" "$@" >"$scratch/out" 2>"$scratch/err" </dev/null &
    pid=$!
    for try in $(seq 6000); do
        id=$(folders | grep -vxF -e "${before:-none}")
        [ -n "$id" ] && grep -q -- "$word" "$REPOSBX_STATE_DIR/sessions/$id/journal" 2>/dev/null && break
        kill -0 $pid 2>/dev/null || break
        sleep 0.005
    done
    kill -s "$signal" $pid
    wait $pid 2>/dev/null
    code=$?
}

# nothing_of: the session has neither folder nor container nor volume.
nothing_of() {
    is "folder of $id" "$(folders | grep -c "$id")" 0
    is 'containers' "$(containers "${id#sbx-}")" 0
    is 'volumes' "$(volumes "${id#sbx-}")" 0
}

# While the engine makes its volumes, while the guest fills them, and while they are sealed.
for moment in INT:workspace TERM:-fill HUP:-seal; do
    interrupted "${moment#*:}" "${moment%%:*}" --json session create "${order[@]}"
    number=$(kill -l "${moment%%:*}")
    is "code at $moment" "$code" "$((128 + number))"
    out_json ".error.code == \"cancelled\" and
        (.error.message | contains(\"interrupted by signal $number: nothing is left\"))"
    nothing_of
done
is 'the shared stores' "$(ls "$REPOSBX_STATE_DIR/shared" | grep -c base)" 0

# A fork: the first session stays as it was.
create
origin=$id
expect 0 session exec "$origin" -- sh -c 'for i in $(seq 300); do echo $i >new$i; done'
interrupted workspace INT session fork "$origin"
is 'code of the fork' "$code" 130
err_has 'interrupted by signal 2: nothing is left of the new session'
nothing_of
expect 0 session exec "$origin" -- test -e new300
expect 0 session close "$origin"

# A validation that has not come to its command.
sed 's/^300$/three hundred/' "$repo/f300" >"$scratch/f300"
cp "$scratch/f300" "$repo/f300"
git -C "$repo" diff >"$scratch/patch"
git -C "$repo" checkout -q f300
interrupted -fill TERM validate "${order[@]}" --patch "$scratch/patch" -- true
is 'code of the validation' "$code" 143
err_has 'interrupted by signal 15'
nothing_of

# The engine is not asked any more after the second signal: what is left is for reap.
interrupted -fill KILL session create "${order[@]}"
is 'killed' "$code" 137
is 'its folder' "$(folders | grep -c "$id")" 1
expect 0 reap
nothing_of
finish
