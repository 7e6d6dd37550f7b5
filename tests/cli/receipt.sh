#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What a session hands over proves itself, on a real engine: the choice of new files, the check against
# a checkout, and receipts, signed ones also verified by a script that knows nothing of reposbx. Needs
# REPOSBX_TEST_ENGINE and REPOSBX_TEST_IMAGE_ID as flow.sh does.
. "$(dirname "$0")/session.sh"
needs REPOSBX_TEST_IMAGE_ID
command -v openssl >/dev/null || skip "openssl is missing"
independent=$(dirname "$0")/verify-receipt.sh

# ---- a session ----
mkdir -p "$repo/sub/deep"
printf '*.log\n/build/\n!keep.log\nsub/deep/*\n' >"$repo/.gitignore"
printf 'local\n!*.log\n' >"$repo/sub/.gitignore"
printf 'tracked though ignored\n' >"$repo/tracked.log"
printf 'one\n' >"$repo/text.txt"
printf 'x\n' >"$repo/sub/deep/x"
commit
allow "$REPOSBX_TEST_IMAGE_ID" '{"allow_unpinned_image": true, "limits": {"command_timeout_seconds": 60,
    "cpus": 1.5}}'
create
if [ "$code" -ne 0 ]; then finish; fi
audit=$REPOSBX_STATE_DIR/sessions/$id/audit

# ---- new files ----
expect 0 session exec "$id" -- sh -c 'echo two >>text.txt; echo t >>tracked.log; echo n >new.txt
    echo l >a.log; echo k >keep.log; mkdir -p build/o sub/deep/y; echo o >build/o/1; echo o >build/2
    echo s >sub/s.log; echo l >sub/local; echo y >sub/deep/y/z; echo "*" >.gitignore; echo out'
expect 3 session exec "$id" -- sh -c 'exit 3' $'bytes \377\376'
expect 0 session diff "$id" --json
out_json '.files | map(.path) | index("a.log") != null and index("build/o/1") != null'
expect 0 session diff "$id" --untracked=unignored --json
out_json '.files | map(.path) == [".gitignore", "keep.log", "new.txt", "sub/s.log", "text.txt",
    "tracked.log"]'
out_json '.omitted | sort_by(.path) == [{path: "a.log", reason: "ignored"},
    {path: "build", reason: "ignored"}, {path: "sub/deep/y", reason: "ignored"},
    {path: "sub/local", reason: "ignored"}]'
result=$(jq -r .result_tree "$scratch/out")
expect 0 session diff "$id" --untracked unignored -o "$scratch/fix.patch"
err_has 'left out: build \(ignored\)'
expect 64 session diff "$id" --untracked=some

# git, asked to leave out the same, has the same tree.
git clone -q "$repo" "$scratch/fresh" 2>/dev/null
git -C "$scratch/fresh" checkout -q --detach "$head"
git -C "$scratch/fresh" apply --index "$scratch/fix.patch"
is 'the tree of a fresh checkout' "$(git -C "$scratch/fresh" write-tree)" "$result"

# ---- diff --check ----
expect 0 session diff "$id" --check --repo "$repo"
out_has "^ok: applied to tree $tree it gives [0-9a-f]{40}\$"
expect 0 session diff "$id" --untracked=unignored --check --repo "$repo" --json
out_json ".ok and .tree == \"$tree\" and .base_tree == \"$tree\" and .result_tree == \"$result\""
git -C "$scratch/fresh" -c user.name=t -c user.email=t@example.org commit -q -m two
expect 77 session diff "$id" --check --repo "$scratch/fresh"
expect 66 session diff "$id" --check --repo "$scratch/none"
expect 64 session diff "$id" --check
expect 64 session diff "$id" --check --stat --repo "$repo"
expect 0 session diff "$id" --untracked=unignored --name-only

# ---- a receipt ----
expect 0 session artifacts "$id" -o "$scratch/out.zip" keep.log text.txt
openssl genpkey -algorithm ed25519 -out "$scratch/key.pem" 2>/dev/null
openssl pkey -in "$scratch/key.pem" -pubout -out "$scratch/key.pub"
expect 0 receipt "$id"
cp "$scratch/out" "$scratch/plain.json"
out_json '._type == "https://in-toto.io/Statement/v1" and (.subject | length) == 3'
out_json ".predicate.source.revision == \"$head\" and .predicate.source.tree == \"$tree\""
out_json '.predicate.commands | length == 2 and .[1].exit_code == 3 and .[1].status == "exited"'
out_json '.predicate.commands[1].argv_hex | last == "627974657320fffe"'
out_json '.predicate.commands[0].observed.pids == 64 and .predicate.audit.verdict == "open"'
out_json '.predicate.diff.untracked == "unignored"'
expect 0 receipt "$id" -o "$scratch/receipt.json" --key "$scratch/key.pem" --json
out_json '.signed and .bytes > 0'
expect 73 receipt "$id" -o "$scratch/receipt.json"
expect 66 receipt sbx-00000000000000000000000000000000
expect 65 receipt "$id" --key "$scratch/policy.json"
given=(--patch "$scratch/fix.patch" --bundle "$scratch/out.zip" --audit "$audit" --repo "$repo"
    --public-key "$scratch/key.pub")
all_ok='.ok and .failed == 0 and .not_checked == 0 and (.checks | map(.name) == ["format", "signature",
    "policy", "patch", "bundle", "audit", "repository"]) and (.checks | all(.result == "ok"))'
expect 0 receipt verify "$scratch/receipt.json" "${given[@]}" --json
out_json "$all_ok"
expect 0 receipt --json verify "$scratch/receipt.json" "${given[@]}"
out_json "$all_ok"
expect 0 receipt verify "$scratch/receipt.json"
out_has '^patch +not_checked'
out_has '^repository +not_checked'
expect 0 receipt verify "$scratch/plain.json" --audit "$audit"
expect 66 receipt verify "$scratch/none.json"
expect 66 receipt verify "$scratch/receipt.json" --patch "$scratch/none"
mkfifo "$scratch/pipe"
expect 74 receipt verify "$scratch/receipt.json" --patch "$scratch/pipe" # and does not wait for a writer
err_has 'not a regular file'
expect 65 receipt verify "$scratch/receipt.json" --public-key "$scratch/key.pem"
is 'the independent script' \
    "$(sh "$independent" "$scratch/receipt.json" "$scratch/key.pub" "$scratch/fix.patch" \
        "$scratch/out.zip" "$audit" 2>&1)" verified

# ---- what does not fit is seen, by both ----
# both_see CHECK: with $scratch/r and $scratch/p as receipt and patch.
both_see() {
    expect 1 receipt verify "$scratch/r" --patch "$scratch/p" --bundle "$scratch/out.zip" \
        --audit "$scratch/a" --public-key "$scratch/key.pub" --json
    out_json ".checks | map(select(.result == \"failed\") | .name) | index(\"$1\") != null"
    if sh "$independent" "$scratch/r" "$scratch/key.pub" "$scratch/p" "$scratch/out.zip" \
        "$scratch/a" >/dev/null 2>&1; then fail "the script does not see it: $1"; else pass; fi
}
fresh() {
    rm -rf "$scratch/a"
    cp "$scratch/receipt.json" "$scratch/r"
    cp "$scratch/fix.patch" "$scratch/p"
    cp -r "$audit" "$scratch/a"
}
fresh
echo >>"$scratch/p"
both_see patch
fresh
# Its first byte: the last one has few values, and any that is put there may be the right one.
jq -c '.signatures[0].sig |= ((if .[0:1] == "A" then "B" else "A" end) + .[1:])' "$scratch/receipt.json" \
    >"$scratch/r"
both_see signature
fresh
jq -c --arg p "$(jq -j .payload "$scratch/receipt.json" | openssl base64 -d -A |
    sed 's/"exit_code":3/"exit_code":0/' | openssl base64 -A)" '.payload = $p' \
    "$scratch/receipt.json" >"$scratch/r"
both_see audit
fresh
sed -i '2s/"seq":1/"seq":2/' "$scratch/a/events.jsonl"
both_see audit
fresh
echo more >>"$scratch/a/streams/cmd-000001.stdout"
both_see audit
expect 1 receipt verify "$scratch/receipt.json" --repo "$scratch/fresh"
out_has '^repository +failed'
# A log that was changed gives no receipt.
cp "$audit/events.jsonl" "$scratch/kept.jsonl"
sed -i '3s/"seq":2/"seq":7/' "$audit/events.jsonl"
expect 76 receipt "$id"
out_empty
cat "$scratch/kept.jsonl" >"$audit/events.jsonl"

# ---- closed: the old receipt still fits, a new one binds the end ----
expect 0 session close "$id"
expect 0 receipt verify "$scratch/receipt.json" "${given[@]}" --json
out_json "$all_ok"
expect 0 receipt "$id"
out_json '.predicate.audit.verdict == "whole"'
expect 0 session close "$id" --drop-audit
expect 66 receipt "$id"
finish
