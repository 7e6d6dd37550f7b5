#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Volumes that somebody else removes (a prune, say). Engines make one that is missing anew, empty, as soon as a
# container names it: what a command or a diff would show then is a repository of which everything was deleted.
. "$(dirname "$0")/../cli/session.sh"
needs REPOSBX_TEST_IMAGE_ID
. "$(dirname "$0")/engine.sh"

for i in 1 2 3; do echo "file $i" >"$repo/f$i"; done
echo "$scratch" >"$repo/unique"
commit
allow "$REPOSBX_TEST_IMAGE_ID"

# stores ID WORD…: the names of the session's volumes of these kinds.
stores() {
    local id=$1 word
    shift
    for word in "$@"; do
        case $word in
        baseline | guest) jq -r ".${word}_store" "$REPOSBX_STATE_DIR/sessions/$id/spec.json" ;;
        *) echo "$id-$word" ;;
        esac
    done
}

# settled: until the keeper has prepared what comes next, so that it is taken away, too.
settled() {
    journal=$REPOSBX_STATE_DIR/sessions/$id/journal
    [ -n "$(waiting exec)" ] && [ -n "$(waiting control)" ] && pass || fail "nothing waits"
}

# gone MODE LOST ARGV…: with these volumes removed the request is refused, everything else too, and closing
# removes what is left, also what the engine may have made.
gone() {
    local mode=$1 lost=$2 names
    shift 2
    create --workspace "$mode"
    expect 0 session exec "$id" -- sh -c 'echo new >new'
    settled
    mapfile -t names < <(stores "$id" $lost)
    lose "${names[@]}"
    expect 78 session "$1" "$id" "${@:2}"
    err_has 'was removed, by something else'
    out_empty
    for request in "exec $id -- ls" "read $id f1" "diff $id" "fork $id" "artifacts $id -o $scratch/lost.zip f1"; do
        expect 78 session $request
        out_empty
    done
    expect 0 session show "$id" --json
    out_json '.state == "poisoned" and (.state_reason | contains("was removed"))'
    mapfile -t names < <(stores "$id" guest baseline)
    expect 0 session close "$id" --wait
    is "containers, $mode without $lost" "$(containers "${id#sbx-}")" 0
    is "volumes, $mode without $lost" "$(volumes "${id#sbx-}")" 0
    for name in "${names[@]}"; do is "volume $name" "$(volumes "$name")" 0; done
}

gone overlay workspace exec -- ls
gone overlay baseline diff
gone copy 'baseline workspace' exec -- ls
gone copy workspace diff

# What sessions share is filled anew for the next one.
create
first=$id
settled
mapfile -t names < <(stores "$first" guest baseline)
lose "${names[@]}"
expect 78 session exec "$first" -- ls
create
expect 0 session exec "$id" -- cat f1
is 'the content' "$(cat "$scratch/out")" 'file 1'
expect 0 session diff "$id" --stat
for one in "$first" "$id"; do expect 0 session close "$one" --wait; done
for name in "${names[@]}" "$first" "$id"; do is "volumes of $name" "$(volumes "$name")" 0; done
finish
