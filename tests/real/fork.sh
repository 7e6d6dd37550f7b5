#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A fork is what its origin was when it was made, whatever a command may leave behind, in both kinds of
# workspace; then the two go their own ways. And what sessions share: a second one on the same revision
# copies nothing, and the last one takes everything with it.
. "$(dirname "$0")/../cli/session.sh"
needs REPOSBX_TEST_IMAGE_ID
. "$(dirname "$0")/engine.sh"

mkdir -p "$repo/folder/deep/er" "$repo/gone/a/b"
for i in 1 2 3 4 5 6 7 8; do echo "file $i" >"$repo/f$i"; done
echo deep >"$repo/folder/deep/er/file"
echo x >"$repo/gone/a/b/c"
echo y >"$repo/gone/y"
echo "$scratch" >"$repo/unique"
commit
allow "$REPOSBX_TEST_IMAGE_ID"

# Deleted, replaced by another type, moved, closed to everybody, empty, no patch's business, dated.
changes='
rm f1; rm -r gone; rm f2; mkdir f2; echo in >f2/in; rm -r folder/deep; echo flat >folder/deep
ln -s f3 link; rm f4; ln -s /nowhere f4; chmod 600 f5; printf changed >f6; touch -d @1000000000 f7 link
mkdir -p empty/er closed .git/objects "odd
name"; echo z >.git/objects/z; mkfifo pipe; printf "\000\001" >"odd
name/b"; echo secret >closed/s; ln f8 hard; chmod 4755 f8; chmod 000 closed/s closed'
# Everything there is to see: type, permissions, links, size, time, name, target. What a shared folder is
# called in a listing is left to each session: the workspace itself got its time from its own making.
look='chmod 700 closed; chmod 600 closed/s
find . ! -path . ! -path ./closed ! -path ./closed/s -exec stat -c "%f %s %Y %N" {} + | sort
find . -type f -exec md5sum {} + | sort; cat closed/s; stat -c %Y closed/s'

for mode in overlay copy; do
    create --workspace $mode
    origin=$id
    expect 0 session exec "$origin" -- sh -c "$changes"
    expect 0 session fork "$origin"
    fork=$(cat "$scratch/out")
    ids+=("$fork")
    if [ "$fork" != "$origin" ] && [ "${fork#sbx-}" != "$fork" ]; then pass; else fail "no new id"; fi
    expect 0 session show "$fork" --json
    out_json ".forked_from == \"$origin\" and .workspace == \"$mode\" and .state == \"ready\" and
        .source_revision == \"$head\" and .source_tree == \"$tree\" and .left_behind == []"
    for one in $origin $fork; do
        expect 0 session diff "$one"
        cp "$scratch/out" "$scratch/patch.$one"
    done
    is "$mode: patches" "$(cmp "$scratch/patch.$origin" "$scratch/patch.$fork" && echo same)" same
    for one in $origin $fork; do
        expect 0 session exec "$one" -- sh -c "$look"
        cp "$scratch/out" "$scratch/look.$one"
    done
    is "$mode: what is there" \
        "$(diff "$scratch/look.$origin" "$scratch/look.$fork" >"$scratch/differ" && echo same)" same
    [ ! -s "$scratch/differ" ] || head -n 5 "$scratch/differ" >&2
    if [ "$(wc -l <"$scratch/look.$origin")" -gt 25 ]; then pass; else fail "too little to see"; fi
    # Each goes its own way.
    expect 0 session exec "$fork" -- sh -c 'echo fork >f3; rm f6'
    expect 0 session exec "$origin" -- sh -c 'cat f3 f6'
    is "$mode: the origin's files" "$(cat "$scratch/out")" "file 3
changed"
    is "$mode: its audit tells" "$("$reposbx" session log "$origin" --json |
        jq -r --arg fork "$fork" 'select(.event == "session_forked") | .data.fork == $fork')" true
    is "$mode: its limits as seen" "$("$reposbx" session log "$fork" --json |
        jq -r 'select(.event == "sandbox_created") | .data.observed.pids')" 64
    expect 0 audit verify "$fork"
    # A fork of a fork, when the first one is gone.
    expect 0 session close "$origin"
    is "$mode: one baseline" "$(volumes "$tree")" 1
    expect 0 session fork "$fork"
    second=$(cat "$scratch/out")
    ids+=("$second")
    expect 1 session exec "$second" -- sh -c 'cat f3; ls f6'
    is "$mode: a fork of a fork" "$(cat "$scratch/out")" fork
    expect 0 session close "$fork"
    expect 0 session close "$second"
    is "$mode: no baseline" "$(volumes "$tree")" 0
done

# A socket cannot be carried over, and that is told.
create --workspace auto
expect 66 session fork sbx-00000000000000000000000000000000
expect 0 session exec "$id" -- sh -c 'nc -l -U sock -p 1 2>/dev/null & sleep 0.2; ls'
has_socket=$(grep -c '^sock$' "$scratch/out")
expect 0 session fork "$id" --json
fork=$(jq -r .sandbox_id "$scratch/out")
ids+=("$fork")
if [ "$has_socket" = 1 ]; then
    out_json '.left_behind == [{"path": "sock", "reason": "socket"}]'
fi
# What is shared: the second of the same revision gets the same volume.
is 'one baseline' "$(volumes "$tree")" 1
create --workspace auto
is 'still one baseline' "$(volumes "$tree")" 1
for one in "${ids[@]}"; do expect 0 session close "$one"; done
expect 78 session fork "$id"
is 'none in the end' "$(volumes "$tree")" 0
is 'shared folders' "$(ls "$REPOSBX_STATE_DIR/shared")" ''
finish
