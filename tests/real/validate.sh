#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Patches placed in real workspaces: what git makes of a patch is what a command finds, in both kinds of
# workspace; the verdict is the command's; and nothing is left but the log. On Podman, where a session costs
# some ten times as much, once, with a failing command and an interrupt.
. "$(dirname "$0")/../cli/session.sh"
needs REPOSBX_TEST_IMAGE_ID
. "$(dirname "$0")/engine.sh"
patch=$scratch/patch
mkdir -p "$repo/dir/deep" "$repo/gone/a/b"
printf 'one\ntwo\nthree\n' >"$repo/a.txt"
printf '#!/bin/sh\necho hello\n' >"$repo/run.sh"
for i in 1 2 3; do echo "moved $i" >>"$repo/dir/deep/moved"; done
echo x >"$repo/gone/a/b/c"
echo y >"$repo/gone/y"
echo flat >"$repo/flat"
mkdir "$repo/folder"
echo in >"$repo/folder/in"
head -c 3000 /dev/urandom >"$repo/bin"
echo "$scratch" >"$repo/unique"
commit
allow "$REPOSBX_TEST_IMAGE_ID" '{"source": {"symlinks": "keep"}, "limits": {"audit_log_bytes": 65536,
    "output_bytes": 65536}}'

validate() {
    local wanted=$1
    shift
    expect "$wanted" validate --repo "$repo" --revision "$head" --image "$REPOSBX_TEST_IMAGE_ID" \
        --policy "$scratch/policy.json" --patch "$patch" "$@"
}
# nothing_left: no session that is not closed, no shared store, and no volume of them in the engine.
nothing_left() {
    is 'shared stores' "$(ls "$REPOSBX_STATE_DIR/shared" | xargs)" ''
    is 'states' "$("$reposbx" session list --json | jq -r '[.[].state] | unique | join(" ")')" closed
    for id in $("$reposbx" session list --json | jq -r '.[].sandbox_id'); do
        is 'volumes' "$(volumes "$id")" 0
        is 'containers' "$(containers "$id")" 0
    done
}
# interrupt: SIGTERM while the command runs.
interrupt() {
    "$reposbx" validate --repo "$repo" --revision "$head" --image "$REPOSBX_TEST_IMAGE_ID" --policy \
        "$scratch/policy.json" --patch "$patch" -- sh -c 'echo ready; sleep 100' \
        >"$scratch/out" 2>"$scratch/err" </dev/null &
    pid=$!
    for try in $(seq 600); do
        grep -q ready "$scratch/out" && break
        sleep 0.1
    done
    kill -TERM $pid
    wait $pid
    is 'killed by a signal' $? 143
    err_has 'interrupted by signal 15'
    nothing_left
}

# Everything that a patch can say; the tree that git makes of it is checked out to compare with.
(
    cd "$repo" || exit 1
    sed -i s/two/2/ a.txt
    chmod +x run.sh
    git mv dir/deep/moved elsewhere
    cp elsewhere copied
    git rm -qr gone
    git rm -q flat && mkdir flat && echo below >flat/below
    git rm -qr folder && echo now >folder
    head -c 1500 bin >bin2 && cat bin bin2 >bin3 && mv bin3 bin && rm bin2
    ln -s a.txt link
    mkdir -p 'new/odd "name"' && echo é >'new/odd "name"/ü'
    : >empty
    git add -A
    git diff --cached --binary -M -C --find-copies-harder HEAD >"$patch"
    git write-tree >"$scratch/tree"
    find . -path ./.git -prune -o -type f -printf '%m %p\n' -exec md5sum {} + -o -type l -printf '%p %l\n' |
        sed 's/^664 /644 /; s/^775 /755 /' | sort >"$scratch/wanted"
    git reset -q --hard HEAD && git clean -qfd
)
# A busybox has no -printf.
look='find . -type f -exec stat -c "%a %n" {} + -exec md5sum {} + | sort; find . -type l -exec readlink {} +'
sed -n '/ -> /!p' "$scratch/wanted" | grep -v '^\./link ' >"$scratch/wanted.files"
modes='overlay copy'
case $REPOSBX_TEST_ENGINE in podman*) modes=overlay ;; esac
for mode in $modes; do
    validate 0 --workspace $mode --json -- sh -c "$look; find . -type d -empty"
    out_json ".ok and .patch.applies and .reason == null and .base_tree == \"$tree\" and
        .result_tree == \"$(cat "$scratch/tree")\" and .exec.exit_code == 0 and
        .diff == {compared: true, reason: null, command_changed: []} and
        (.patch.files | map(select(.from != null) | .path)) == [\"copied\", \"elsewhere\"]"
    jq -r .exec.stdout "$scratch/out" | sed '/^a.txt$/d; /^$/d' >"$scratch/found"
    is "$mode: what a command finds" "$(diff "$scratch/wanted.files" "$scratch/found" | head -n 5)" ''
    id=$(jq -r .sandbox_id "$scratch/out")
    expect 0 audit verify "$id"
    is "$mode: the log" "$("$reposbx" session log "$id" --json | jq -r .event | xargs)" \
        "sandbox_created patch_started diff_created patch_applied command_started command_finished \
diff_created sandbox_closed"
    is "$mode: the log names the patch" "$("$reposbx" session log "$id" --json |
        jq -r 'select(.event == "patch_applied") | .data | .sha256 + " " + .result_tree')" \
        "$(sha256sum "$patch" | cut -c1-64) $(cat "$scratch/tree")"
done
nothing_left
if [ "$modes" = overlay ]; then
    validate 1 -- sh -c 'exit 3'
    err_has 'fail: the command ended with 3'
    interrupt
    finish
fi
# A receipt binds it.
expect 0 receipt "$id"
out_json ".predicate.patches == [{seq: .predicate.patches[0].seq, sha256: \"$(sha256sum "$patch" |
    cut -c1-64)\", bytes: $(stat -c %s "$patch"), base_tree: \"$tree\",
    result_tree: \"$(cat "$scratch/tree")\", files: .predicate.patches[0].files}]"
cp "$scratch/out" "$scratch/receipt"
expect 0 receipt verify "$scratch/receipt" --audit "$REPOSBX_STATE_DIR/sessions/$id/audit"
jq '.predicate.patches[0].bytes = 1' "$scratch/receipt" >"$scratch/forged"
expect 1 receipt verify "$scratch/forged" --audit "$REPOSBX_STATE_DIR/sessions/$id/audit"
jq 'del(.predicate.patches)' "$scratch/receipt" >"$scratch/forged"
expect 1 receipt verify "$scratch/forged" --audit "$REPOSBX_STATE_DIR/sessions/$id/audit"

# The verdict is the command's, whatever ends it; what it does to the workspace is told.
validate 0 -- sh -c 'echo out; echo err >&2'
is 'its output is passed on' "$(cat "$scratch/out")" out
err_has '^err$'
err_has 'pass: .* files changed, and the command ended with 0'
validate 1 -- sh -c 'exit 3'
err_has 'fail: the command ended with 3'
validate 1 --json -- sh -c 'echo more >>a.txt; rm run.sh; mkdir void; kill -9 $$'
out_json '.ok == false and .patch.applies and .exec.status == "signaled" and .exec.signal == 9 and
    .diff.compared and .diff.command_changed == ["a.txt", "run.sh", "void"] and
    .reason == "the command was killed by signal 9"'
validate 1 --timeout 1 --json -- sleep 60
out_json '.ok == false and .exec.timed_out and .exec.status == "timed_out" and
    .reason == "the command timed out"'
validate 1 --json -- nowhere
out_json '.ok == false and .exec.exit_code == 127 and
    .reason == "the command cannot be started: No such file or directory"'
validate 1 --json -- sh -c 'while :; do echo 0123456789; done'
out_json '.ok == false and .exec.output_limited'
validate 0 --json -w flat -e NAME=value -- sh -c 'test "$NAME" = value && cat below'
out_json '.exec.stdout == "below\n"'
validate 77 -e SECRET_TOKEN=x -- true
validate 77 --memory 999999999999 -- true

# Without a command: placed and proved all the same.
validate 0 --json --drop-audit
out_json ".result_tree == \"$(cat "$scratch/tree")\""
out_json '.ok and .sandbox_id != null and .exec == null and .diff == null'
is 'no audit' "$(ls -d "$REPOSBX_STATE_DIR/sessions/$(jq -r .sandbox_id "$scratch/out")/audit" \
    2>/dev/null)" ''

# No fit, no session.
before=$("$reposbx" session list --json | jq length)
sed 's/^-two$/-zwei/' "$patch" >"$patch.wrong"
mv "$patch" "$patch.good"
mv "$patch.wrong" "$patch"
validate 1 --json -- true
out_json '.ok == false and .patch.applies == false and .sandbox_id == null and .exec == null'
is 'no new session' "$("$reposbx" session list --json | jq length)" "$before"
mv "$patch.good" "$patch"

# An interrupt kills the command and closes the session.
interrupt
finish
