#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# An overlay and a copy are the same workspace to everybody but the kernel: the same commands give the
# same patch and the same omissions, which git applies. And slots: the next one waits, one that died is
# replaced, lowered limits are seen inside, nothing of a command is there for the next.
. "$(dirname "$0")/../cli/session.sh"
needs REPOSBX_TEST_IMAGE_ID
. "$(dirname "$0")/engine.sh"

for folder in 1 2 3 4 5 6; do
    mkdir -p "$repo/d$folder/s/t"
    for file in 1 2 3 4 5; do
        echo "$folder $file" >"$repo/d$folder/f$file"
        echo "deep $folder $file" >"$repo/d$folder/s/t/g$file"
    done
done
commit
allow "$REPOSBX_TEST_IMAGE_ID"

# Opaque folders, moved folders, types that change both ways, equal content put back, modes, what no
# patch can carry, and folders that nobody may read.
changes='
rm -rf d1; mkdir d1; echo "1 1" >d1/f1; echo new >d1/new
mv d2 d2moved; rm -rf d3/s; echo x >d3/s; rm d4/f1; mkdir d4/f1; echo q >d4/f1/q
ln -s f2 d4/link; rm d4/f3; ln -s f2 d4/f3
chmod +x d5/f1; touch d5/f2; chmod 600 d5/f3; cp d5/f4 d5/f4x; mv d5/f4x d5/f4
rm d5/f5; echo "5 5" >d5/f5
mkfifo d6/p; mkdir d6/empty; mkdir -p d6/.git/x; echo z >d6/.git/x/y
chmod 000 d6/s; chmod 000 d6'
for mode in overlay copy; do
    create --workspace "$mode"
    expect 0 session show "$id" --json
    out_json ".workspace == \"$mode\" and (.workspace_reason | length > 0)"
    expect 0 session diff "$id"
    out_empty
    expect 0 session exec "$id" -- sh -c "$changes"
    expect 0 session diff "$id"
    cp "$scratch/out" "$scratch/patch.$mode"
    cp "$scratch/err" "$scratch/omitted.$mode"
    expect 0 session diff "$id" --json
    jq -r .result_tree "$scratch/out" >"$scratch/tree.$mode"
    expect 0 session close "$id"
done
is 'both patches' "$(cmp "$scratch/patch.overlay" "$scratch/patch.copy" && echo same)" same
is 'both omissions' "$(cmp "$scratch/omitted.overlay" "$scratch/omitted.copy" && echo same)" same
is 'omissions' "$(grep -c 'left out' "$scratch/omitted.overlay")" 3
git clone -q "$repo" "$scratch/fresh"
git -C "$scratch/fresh" apply --index "$scratch/patch.overlay"
is 'the tree' "$(git -C "$scratch/fresh" write-tree)" "$(cat "$scratch/tree.overlay")"
# d1: 9 gone, 1 new; d2: 20; d3: 6; d4: 2 gone and made anew, 1 link; d5: 1 mode
is 'changed files' "$(git -C "$scratch/fresh" diff --cached --name-only --no-renames | wc -l)" 41

# ---- slots ----
create --workspace auto
journal=$REPOSBX_STATE_DIR/sessions/$id/journal
first=$(waiting exec)
is 'a slot waits after create' "${first:+yes}" yes
is 'a control slot waits' "$([ -n "$(waiting control)" ] && echo yes)" yes
expect 0 session exec "$id" -- sh -c 'echo secret >/tmp/left; echo secret >/run/left; echo $$'
is 'the waiting slot was used' "$(grep -c "take slot $first" "$journal")" 1
expect 0 session exec "$id" -- sh -c 'cat /tmp/left /run/left 2>/dev/null; ls /tmp/home; ps -o pid,args'
is 'nothing is left for the next' "$(grep -c secret "$scratch/out")" 0
is 'processes of the next' "$(grep -c 'sleep\|left' "$scratch/out")" 1
# One that died while it waited.
dead=$(waiting exec)
kill_container "$dead"
expect 0 session exec "$id" -- echo alive
is 'a dead slot is replaced' "$(cat "$scratch/out")" alive
is 'and removed' "$(grep -c "gone slot $dead" "$journal")" 1
# Limits of a waiting slot are lowered, and seen.
waiting exec >/dev/null
expect 0 session exec "$id" --memory 67108864 --pids 16 --cpus 0.5 --json -- true
out_json '.observed_limits.memory_bytes == 67108864 and .observed_limits.pids == 16 and
          .observed_limits.cpus == 0.5'
# A limit that somebody changed on a waiting slot: the hello shows it, and the slot is not used. Podman has no
# command that changes this one.
odd=$(waiting exec)
if [ "${REPOSBX_TEST_ENGINE#unix://}" != "$REPOSBX_TEST_ENGINE" ]; then
    ask_docker POST "containers/$odd/update" -H 'Content-Type: application/json' -d '{"PidsLimit": 63}' >/dev/null
    expect 0 session exec "$id" --json -- true
    out_json '.observed_limits.pids == 64'
    is 'a slot with another limit is removed' "$(grep -c "gone slot $odd" "$journal")" 1
fi
expect 0 session close "$id"
is 'containers left' "$(containers "$id")" 0
finish
