#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What is refused or answered without an engine: state folder, policy, revision, repository, files.
. "$(dirname "$0")/lib.sh"

id=sbx-00000000000000000000000000000000
image=sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef
engine=unix://$scratch/no-engine.sock
command -v git >/dev/null || skip "git is missing"

# Version.
expect 0 version
out_has '^reposbx [0-9]+\.[0-9]+\.[0-9]+$'
expect 0 version --json
out_keys version libraries engine_api guest_sha256
out_json '.libraries | has("libgit2") and has("libcurl") and has("jansson")'
expect 0 --json version
out_keys version
expect 0 -v version
out_has 'libgit2'
err_has 'took'

# The state folder: made private; refused where others can write.
expect 0 session list --json
out_json '. == []'
is 'mode of the state folder' "$(stat -c %a "$XDG_STATE_HOME/reposbx" 2>/dev/null ||
    stat -c %a /var/lib/reposbx)" 700
expect 0 --state-dir "$scratch/s1" session list --json
is 'mode of a given state folder' "$(stat -c %a "$scratch/s1")" 700
expect 0 session list --state-dir "$scratch/s2" --json
is 'made behind the verb' "$(stat -c %a "$scratch/s2")" 700
expect 0 session --state-dir="$scratch/s3" list
is 'made between the words' "$(stat -c %a "$scratch/s3")" 700
REPOSBX_STATE_DIR=$scratch/s4 expect 0 session list -q
is 'made from the environment' "$(stat -c %a "$scratch/s4")" 700
err_empty
# Whoever clears up makes nothing.
expect 0 --state-dir "$scratch/s4" reap
is 'what reap left in a new state folder' "$(ls "$scratch/s4")" sessions
mkdir -m 777 "$scratch/open"
chmod 777 "$scratch/open"
for words in 'session list' "session show $id" "session close $id" "reap"; do
    expect 77 $words --state-dir "$scratch/open"
    expect 77 $words --state-dir "$scratch/open" --json
    out_json '.error.code == "policy"'
done
state=(--state-dir "$scratch/s1" --engine "$engine")

# No such session.
for words in "session show $id" "session log $id" "session close $id" "session diff $id" \
    "session read $id f" "session list-files $id" "audit verify $id" \
    "session artifacts $id -o $scratch/a.zip f" "session write $id f" "session exec $id -- true"; do
    run "${state[@]}" $words
    is "exit code of $words" "$code" 66
    err_has '^reposbx: '
    run "${state[@]}" --json $words
    is "exit code of --json $words" "$code" 66
    out_json '.error.code == "not_found" and (.error | has("message") and has("hint"))'
    err_empty
done

# Policies.
for name in issue-bot ci-validator code-run trusted-dev; do
    expect 0 policy show $name
    out_json '.version == 1 and (.limits.memory_bytes > 0) and has("images") and has("session")'
    out_json ".name == \"$name\""
    cp "$scratch/out" "$scratch/$name.json"
    expect 0 policy check "$scratch/$name.json"
    is "check of $name" "$(cat "$scratch/out")" ok
    expect 0 policy show $name --json
    is "lines of $name" "$(wc -l <"$scratch/out")" 1
done
expect 66 policy show no-such-policy
err_has 'hint: .*issue-bot'
expect 66 policy check "$scratch/missing.json"
expect 66 policy check "$scratch/missing.json" --json
out_json '.error.code == "not_found"'
printf '{\n  "version": 1,\n  "imagess": [],\n  "limits": { "cpus": true }\n}\n' >"$scratch/bad.json"
expect 1 policy check "$scratch/bad.json"
out_has "^$scratch/bad.json:3:[0-9]+: "
out_has "^$scratch/bad.json:4:[0-9]+: "
is 'problems' "$(wc -l <"$scratch/out")" 2
expect 1 policy check "$scratch/bad.json" --json
out_json '.ok == false and (.problems | length == 2) and .problems[0].line == 3'
# Five mistakes, each with its place and its key; not only the first.
cat >"$scratch/five.json" <<'END'
{
  "version": 1,
  "network": "host",
  "limits": { "cpus": 0,
              "pids": 1.5, "memory_bytes": true },
    "source": { "max_file": 3 }
}
END
expect 1 policy check "$scratch/five.json"
is 'lines of five mistakes' "$(wc -l <"$scratch/out")" 5
out_has "^$scratch/five.json:3:3: .*network"
out_has "^$scratch/five.json:4:15: .*limits.cpus"
out_has "^$scratch/five.json:5:15: .*limits.pids"
out_has "^$scratch/five.json:5:28: .*limits.memory_bytes"
out_has "^$scratch/five.json:6:17: .*\"max_files\""
expect 1 policy check "$scratch/five.json" --json
out_json '.ok == false and [.problems[] | [.line, .column]] == [[3, 3], [4, 15], [5, 15], [5, 28], [6, 17]]'
expect 65 policy show "$scratch/bad.json"
printf '{ "version": 1' >"$scratch/cut.json"
expect 1 policy check "$scratch/cut.json"
expect 65 policy show "$scratch/cut.json"

# Creating: every refusal has its own code, and nothing is left.
git -c init.defaultBranch=main init -q "$scratch/repo"
git -C "$scratch/repo" -c user.name=t -c user.email=t@example.org commit -q --allow-empty -m one
head=$(git -C "$scratch/repo" rev-parse HEAD)
printf '{ "version": 1, "name": "t", "images": ["%s"], "require_rootless_runtime": false }\n' \
    "$image" >"$scratch/policy.json"
create=("${state[@]}" session create --policy "$scratch/policy.json")
for revision in HEAD main "${head:0:39}" "${head}0" "${head^^}" "$head"$'\n' g"${head:1}"; do
    [ "$revision" = "${head,,}" ] && continue
    run "${create[@]}" --repo "$scratch/repo" --image $image --revision "$revision"
    is "exit code of revision '$revision'" "$code" 65
done
# One that could never be allowed as it stands, whatever the list says.
expect 77 "${create[@]}" --repo "$scratch/repo" --image busybox:latest --revision "$head"
err_has 'named by id .sha256:'
expect 77 "${create[@]}" --repo "$scratch/repo" --image "sha256:$(printf '%064d' 9)" --revision "$head"
err_has 'put it into "images"'
expect 65 "${create[@]}" --repo "$scratch/repo" --image $image --revision HEAD --json
out_json '.error.code == "malformed"'
expect 66 "${create[@]}" --repo "$scratch/none" --image $image --revision "$head"
expect 66 "${create[@]}" --repo "$scratch/repo" --image $image --revision "$head" \
    --policy "$scratch/missing.json"
expect 65 "${create[@]}" --repo "$scratch/repo" --image $image --revision "$head" \
    --policy "$scratch/bad.json"
err_has 'bad.json: line 3 column 3: '
expect 77 "${create[@]}" --repo "$scratch/repo" --image ${image/0123/4567} --revision "$head"
expect 77 "${create[@]}" --repo "$scratch/repo" --image 'bad image' --revision "$head"
expect 77 "${create[@]}" --repo "$scratch/repo" --image $image --no-revision
expect 77 "${create[@]}" --repo "$scratch/repo" --image $image --revision "$head" --task-id '../x'
expect 77 "${create[@]}" --repo "$scratch/repo" --image $image --revision "$head" --platform linux
expect 77 "${state[@]}" session create --repo "$scratch/repo" --image $image --revision "$head"
expect 69 "${create[@]}" --repo "$scratch/repo" --image $image --revision "$head"
err_has '^reposbx: '
expect 69 "${create[@]}" --repo "$scratch/repo" --image $image --revision "$head" --json
out_json '.error.code == "unavailable" and (.error.hint | length > 0)'
DOCKER_HOST=unix:///var/run/other.sock expect 69 "${create[@]}" --repo "$scratch/repo" \
    --image $image --revision "$head"
expect 0 "${state[@]}" session list --json
out_json 'all(.[]; .state != "ready")'

# Limits of the caller's shell are told as what they are: no bug of ours, no damage of the repository.
limited() {
    (ulimit "$@" && exec "$reposbx" "${create[@]}" --repo "$scratch/repo" --image $image \
        --revision "$head" --json) >"$scratch/out" 2>"$scratch/err" </dev/null
    code=$?
}
for files in 4 5 6 7 8 9 10 12 14 100; do
    limited -n $files
    case $code in
    127) continue ;; # the loader's own, before anything of ours runs
    69 | 74) pass ;; # a library that could not be loaded is what is not available
    *) fail "exit $code with $files descriptors" ;;
    esac
    out_json '.error.message | test("open files")'
done
# They go as far as the engine.
for words in '-S -n 100' '-t 20' '-v 1000000' '-f 100'; do
    limited $words
    is "exit code after ulimit $words" "$code" 69
done

# Bundles: a ZIP with one stored member, written out by hand.
base64 -d >"$scratch/one.zip" <<'ZIP'
UEsDBAoAAAAAAAAAIQAgMDo2BgAAAAYAAAAJAAAAaGVsbG8udHh0aGVsbG8KUEsBAh4DCgAAAAAA
AAAhACAwOjYGAAAABgAAAAkAAAAAAAAAAAAAAKSBAAAAAGhlbGxvLnR4dFBLBQYAAAAAAQABADcA
AAAtAAAAAAA=
ZIP
sum=$(printf 'hello\n' | sha256sum | cut -d' ' -f1)
expect 0 artifact verify "$scratch/one.zip"
out_has "6  $sum  hello.txt"
expect 0 artifact verify "$scratch/one.zip" --json
out_keys path size sha256 members ok
out_json ".members == [{path: \"hello.txt\", size: 6, sha256: \"$sum\"}]"
is 'hash of the bundle' "$(jq -r .sha256 "$scratch/out")" "$(sha256sum <"$scratch/one.zip" | cut -d' ' -f1)"
cp "$scratch/out" "$scratch/one.json"
expect 0 artifact verify "$scratch/one.zip" --members "$scratch/one.json"
jq .members "$scratch/one.json" >"$scratch/list.json"
expect 0 artifact verify "$scratch/one.zip" --members "$scratch/list.json"
for change in '.[0].size = 7' '.[0].sha256 = "00"' '.[0].path = "other"' '. + [.[0]]' '[]' \
    '.[0] |= del(.path)' '. + [{path: "x", size: 1, sha256: "y"}]'; do
    jq "$change" "$scratch/list.json" >"$scratch/changed.json"
    expect 1 artifact verify "$scratch/one.zip" --members "$scratch/changed.json"
    expect 1 artifact verify "$scratch/one.zip" --members "$scratch/changed.json" --json
    out_json '.ok == false and (.problem | length > 0)'
done
jq '.sha256 = "00"' "$scratch/one.json" >"$scratch/changed.json"
expect 1 artifact verify "$scratch/one.zip" --members "$scratch/changed.json"
expect 66 artifact verify "$scratch/one.zip" --members "$scratch/none.json"
echo '{' >"$scratch/changed.json"
expect 65 artifact verify "$scratch/one.zip" --members "$scratch/changed.json"
echo '{"a": 1}' >"$scratch/changed.json"
expect 65 artifact verify "$scratch/one.zip" --members "$scratch/changed.json"
expect 66 artifact verify "$scratch/none.zip"
head -c 50 "$scratch/one.zip" >"$scratch/cut.zip"
expect 1 artifact verify "$scratch/cut.zip"
sed 's/hello$/hallo/' "$scratch/one.zip" >"$scratch/flipped.zip"
expect 1 artifact verify "$scratch/flipped.zip" --json
out_json '.ok == false'

# Logs: a folder without one.
mkdir "$scratch/empty"
expect 66 audit verify "$scratch/none"
expect 66 audit verify "$scratch/empty" --json
out_json '.error.code == "not_found"'

# Outputs that exist are refused before a session is looked for.
touch "$scratch/taken"
expect 73 "${state[@]}" session diff $id -o "$scratch/taken"
for words in "artifacts $id -o $scratch/nowhere/a.zip f" "diff $id -o $scratch/nowhere/a.patch"; do
    expect 73 "${state[@]}" session $words
    err_has "cannot create $scratch/nowhere/.*: no folder $scratch/nowhere: No such file"
    err_has 'hint: make the folder first'
done
for words in "artifacts $id -o - f" "diff $id -o -"; do
    expect 64 "${state[@]}" session $words --json
    out_json '.error.code == "invalid_argument"'
done
expect 73 "${state[@]}" session artifacts $id -o "$scratch/taken" f --json
out_json '.error.code == "exists"'
is 'the file is as it was' "$(wc -c <"$scratch/taken")" 0
finish
