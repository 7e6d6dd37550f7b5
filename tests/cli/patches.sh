#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Patches that are no good, and good ones, against a repository alone: without an image no engine is asked.
. "$(dirname "$0")/lib.sh"

command -v git >/dev/null || skip "git is missing"
export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_SYSTEM=/dev/null
export REPOSBX_ENGINE=unix:///nonexistent/docker.sock
repo=$scratch/repo
git -c init.defaultBranch=main init -q "$repo"
mkdir "$repo/dir"
printf 'one\ntwo\nthree\n' >"$repo/a.txt"
echo b >"$repo/dir/b"
printf '\000\001\002' >"$repo/bin"
ln -s dir "$repo/link"
git -C "$repo" add -A
git -C "$repo" -c user.name=t -c user.email=t@example.org commit -q -m one
head=$(git -C "$repo" rev-parse HEAD)
tree=$(git -C "$repo" rev-parse 'HEAD^{tree}')
echo '{"version": 1, "source": {"symlinks": "keep"}, "limits": {"stdin_bytes": 200000}}' \
    >"$scratch/policy.json"
patch=$scratch/patch

validate() {
    local wanted=$1
    shift
    expect "$wanted" validate --repo "$repo" --revision "$head" --patch "$patch" \
        --policy "$scratch/policy.json" "$@"
}
# refused CODE EXIT WORDS: what is in the file is refused, as an error document too.
refused() {
    validate "$2"
    err_has "$3"
    out_empty
    validate "$2" --json
    out_json ".error.code == \"$1\""
}
new() {
    printf 'diff --git a/%s b/%s\nnew file mode %s\n' "$1" "$1" "$2"
    printf -- '--- /dev/null\n+++ b/%s\n@@ -0,0 +1 @@\n+x\n' "$1"
}
new_link() {
    new "$1" 120000 | sed "s|^+x\$|+$2|"
    printf '\\ No newline at end of file\n'
}

# A good one with everything in it; git says what it makes.
(
    cd "$repo" || exit 1
    sed -i s/two/2/ a.txt
    git mv dir/b moved
    printf '\000\001\003\004' >bin
    echo '#!/bin/sh' >tool
    chmod +x tool
    mkdir -p new/deep
    echo é >'new/deep/ü "x"'
    git add -A
    git diff --cached --binary HEAD >"$patch"
    git write-tree >"$scratch/tree"
    git reset -q --hard HEAD
)
validate 0
is 'the patched tree' "$(cat "$scratch/out")" "$(cat "$scratch/tree")"
err_has '^reposbx: pass: 6 files changed$'
validate 0 --json
out_json ".ok and .patch.applies and .reason == null and .patch.reason == null and .exec == null and
    .diff == null and .sandbox_id == null and .base_tree == \"$tree\" and
    .result_tree == \"$(cat "$scratch/tree")\" and .patch.bytes == $(stat -c %s "$patch") and
    .patch.sha256 == \"$(sha256sum "$patch" | cut -c1-64)\""
out_json '[.patch.files[] | [.path, .status, .from, .old_mode, .new_mode]] == [
    ["a.txt", "modified", null, "100644", "100644"], ["bin", "modified", null, "100644", "100644"],
    ["dir/b", "deleted", null, "100644", null], ["moved", "added", "dir/b", null, "100644"],
    ["new/deep/ü \"x\"", "added", null, null, "100644"], ["tool", "added", null, null, "100755"]]'
run validate --repo "$repo" --revision "$head" --patch - --policy "$scratch/policy.json" <"$patch"
is 'stdin of this shell is not read' "$code" 65
"$reposbx" -q validate --repo "$repo" --revision "$head" --patch - --policy "$scratch/policy.json" \
    <"$patch" >"$scratch/out" 2>"$scratch/err"
is 'a patch on stdin' "$?:$(cat "$scratch/out" "$scratch/err")" "0:$(cat "$scratch/tree")"

mkfifo "$scratch/pipe"
(sleep 1; cat "$patch" >"$scratch/pipe") &
expect 0 validate --repo "$repo" --revision "$head" --patch "$scratch/pipe" --policy "$scratch/policy.json"
is 'a patch from a named pipe' "$(cat "$scratch/out")" "$(cat "$scratch/tree")"

# It does not apply: an answer.
sed 's/^-two$/-zwei/' "$patch" >"$patch.wrong"
mv "$patch" "$patch.good"
mv "$patch.wrong" "$patch"
validate 1
err_has '^reposbx: fail: the patch does not apply: a.txt \(line 1 of the patch\): '
out_empty
validate 1 --json
out_json ".ok == false and .patch.applies == false and (.patch.reason | test(\"a.txt\")) and
    .reason == .patch.reason and .patch.files == [] and .result_tree == null and .base_tree == \"$tree\""
# A hunk at another line than it says: git apply would find its place.
printf 'diff --git a/a.txt b/a.txt\n--- a/a.txt\n+++ b/a.txt\n@@ -2,3 +2,3 @@\n one\n-two\n+2\n three\n' >"$patch"
is 'git takes it' "$(git -C "$repo" apply --check "$patch" 2>&1)" ''
validate 1

# Names.
for name in ../out a/../../out /etc/passwd .git/hooks/post-checkout dir/.GIT/config 'git~1/x' dir//x; do
    new "$name" 100644 >"$patch"
    refused malformed 65 'cannot stand in a tree'
done
long=$(head -c 65537 /dev/zero | tr '\0' n)
new "$long" 100644 >"$patch"
refused malformed 65 'first line of a section'
new "$(printf %s "$long" | head -c 300)" 100644 >"$patch"
refused malformed 65 'cannot stand in a tree'
# Symlinks.
{ new_link s dir; new s/x 100644; } >"$patch"
refused malformed 65 'which is no folder'
new link/x 100644 >"$patch"
refused policy 77 'behind the symlink'
new_link s /etc/passwd >"$patch"
refused policy 77 'leads out of the tree'
new_link dir/s ../../x >"$patch"
refused policy 77 'leads out of the tree'
new_link dir/s ../a.txt >"$patch"
validate 0
git -C "$repo" rm -q link
git -C "$repo" -c user.name=t -c user.email=t@example.org commit -q -m two
head=$(git -C "$repo" rev-parse HEAD)
expect 77 validate --repo "$repo" --revision "$head" --patch "$patch"
err_has 'source.symlinks'
# Modes, twice the same, nothing, too much, half of it, a submodule.
new n 100777 >"$patch"
refused malformed 65 'the mode is none of'
{ new n 100644; new n 100644; } >"$patch"
refused malformed 65 'twice'
: >"$patch"
refused malformed 65 'the patch is empty'
echo hello >"$patch"
refused malformed 65 'line 1 of the patch'
new n 160000 >"$patch"
refused policy 77 'submodule'
head -c 200001 /dev/zero >"$patch"
refused policy 77 'more than 200000 bytes'
grep -n -m1 -A3 'GIT binary patch' "$patch.good" >/dev/null || fail 'no binary block to cut'
sed '/^GIT binary patch/{n;n;q}' "$patch.good" >"$patch"
refused malformed 65 'cut short'
sed '/^literal/{n;s/./!/3}' "$patch.good" >"$patch"
if cmp -s "$patch" "$patch.good"; then fail 'nothing was damaged'; fi
refused malformed 65 ''
# The bounds of a source are those of the patched tree: exactly as much passes, one more is refused. Here are
# a.txt, bin and dir/b: 3 files and 14 + 3 + 2 bytes.
bounded() { jq ". + {source: {$1}}" "$scratch/policy.json" >"$scratch/bounded.json"; }
within() {
    bounded "$2"
    expect "$1" validate --repo "$repo" --revision "$head" --patch "$patch" --policy "$scratch/bounded.json"
}
new d/e/f/n 100644 >"$patch"
within 0 'max_depth: 3'
within 77 'max_depth: 2'
err_has '^reposbx: patch: folders nested deeper than 2 at d/e/f/n$'
err_has '^hint: source.max_depth'
within 0 'max_files: 4'
within 77 'max_files: 3'
err_has '^reposbx: patch: more than 3 files in the patched tree$'
within 0 'max_bytes: 21'
within 77 'max_bytes: 20'
err_has '^reposbx: patch: more than 20 bytes in the patched tree$'
expect 77 validate --repo "$repo" --revision "$head" --patch "$patch" --policy "$scratch/bounded.json" --json
out_json '.error.code == "policy"'
# By the outcome, not by what is added: a file that goes makes room, one that moves takes none.
git -C "$repo" rm -q --cached bin
{ git -C "$repo" diff --cached --binary HEAD; new n 100644; } >"$patch"
within 0 'max_files: 3'
within 0 'max_bytes: 19'
sed 's/^+x$/+longer/' "$patch" >"$patch.longer"
mv "$patch.longer" "$patch"
within 0 'max_bytes: 23'
within 77 'max_bytes: 22'
git -C "$repo" reset -q --hard
mkdir "$repo/x"
git -C "$repo" mv dir/b x/b
git -C "$repo" diff --cached -M HEAD >"$patch"
within 0 'max_files: 3, max_bytes: 19, max_depth: 1'
git -C "$repo" reset -q --hard
# The command line.
new n 100644 >"$patch"
validate 0
validate 64 --
validate 64 -- true
err_has 'missing: --image'
expect 64 validate --repo "$repo" --revision "$head"
expect 66 validate --repo "$repo" --revision "$head" --patch "$scratch/none"
expect 65 validate --repo "$repo" --revision "${head:0:39}" --patch "$patch"
expect 66 validate --repo "$repo/none" --revision "$head" --patch "$patch"
expect 77 validate --repo "$repo" --revision "$head" --patch "$patch" --image sha256:$(printf '%064d' 0) \
    -- true
# A bound on the size of files ends nothing by a signal; an answer that cannot be recorded is none.
is 'no file may grow' "$(ulimit -f 0
    "$reposbx" validate --repo "$repo" --revision "$head" --patch "$patch" 2>&1 | grep -c '^reposbx: pass'
    echo "${PIPESTATUS[0]}")" $'0\n74'
# With an image an engine is needed, but not to say that a patch is none.
jq ". + {images: [\"sha256:$(printf '%064d' 0)\"], require_rootless_runtime: false}" "$scratch/policy.json" \
    >"$scratch/image.json"
expect 69 validate --repo "$repo" --revision "$head" --patch "$patch" --policy "$scratch/image.json" \
    --image sha256:$(printf '%064d' 0) -- true
echo hello >"$patch"
expect 65 validate --repo "$repo" --revision "$head" --patch "$patch" --policy "$scratch/image.json" \
    --image sha256:$(printf '%064d' 0) -- true
# What was asked is in the log of the state folder.
expect 0 audit verify "$XDG_STATE_HOME/reposbx/audit"
is 'in the log' "$(jq -r .event "$XDG_STATE_HOME/reposbx/audit/events.jsonl" | sort | uniq -c |
    awk '{ print ($1 > 3), $2 }' | xargs)" '1 patch_checked 1 session_refused'
is 'sessions' "$(ls "$XDG_STATE_HOME/reposbx/sessions")" ''
finish
