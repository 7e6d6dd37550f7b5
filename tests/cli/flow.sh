#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# One whole session on a real engine, every verb at least once, checked against the documented keys and
# exit codes. Needs REPOSBX_TEST_ENGINE (unix:///…) and REPOSBX_TEST_IMAGE_ID (sha256:… of an image with
# a POSIX shell, cat, dd, yes, sleep, mkfifo).
. "$(dirname "$0")/session.sh"
needs REPOSBX_TEST_IMAGE_ID

# ---- a repository and a policy ----
mkdir -p "$repo/src/deep"
printf 'one\ntwo\nthree\n' >"$repo/src/text.txt"
printf 'gone\n' >"$repo/src/deep/gone.txt"
printf 'same\n' >"$repo/same.txt"
printf '#!/bin/sh\necho run\n' >"$repo/tool.sh"
printf 'a\0b\377' >"$repo/binary"
printf 'no newline' >"$repo/no-newline"
commit
allow "$REPOSBX_TEST_IMAGE_ID" '{"allow_unpinned_image": true, "limits": {"command_timeout_seconds": 60,
    "output_bytes": 65536, "audit_log_bytes": 1048576}}'
expect 0 policy check "$scratch/policy.json"

metadata=(sandbox_id task_id provider isolation image image_id platform source_revision source_tree
    source_fingerprint source_file_count source_bytes workspace network rootless_runtime policy
    capabilities created_at state)
result=(command_id argv status exit_code signal stdout stderr duration_ms timed_out output_limited
    oom_killed stdout_truncated stderr_truncated stdout_sha256 stderr_sha256 stdout_bytes
    stderr_bytes cpu_user_ms cpu_system_ms peak_memory_bytes observed_limits)

# ---- create, show, list ----
create --task-id flow-1
is 'the id alone' "$(grep -Ec '^sbx-[0-9a-f]{32}$' "$scratch/out")" 1
is 'one line' "$(wc -l <"$scratch/out")" 1
if [ "$code" -ne 0 ]; then finish; fi
expect 0 session show "$id" --json
out_keys "${metadata[@]}"
out_json ".sandbox_id == \"$id\" and .task_id == \"flow-1\" and .state == \"ready\""
out_json ".source_revision == \"$head\" and .source_tree == \"$tree\" and .source_file_count == 6"
out_json '.network == "none" and (.workspace == "overlay" or .workspace == "copy")'
for key in provider isolation non_root_user network_isolation read_only_rootfs resource_limits \
    process_tree_cleanup disk_quota rootless_runtime; do
    out_json ".capabilities | has(\"$key\")"
done
expect 0 session show "$id"
out_has "^sandbox_id +$id\$"
expect 0 session list --json
out_json "map(.sandbox_id) == [\"$id\"]"
expect 0 session list
out_has "^$id  ready"

# ---- exec: how it ends ----
sh_code() { expect "$1" session exec "$id" "${@:3}" -- sh -c "$2"; }
sh_code 0 'echo out; echo err >&2'
is 'stdout' "$(cat "$scratch/out")" out
is 'stderr' "$(cat "$scratch/err")" err
sh_code 3 'exit 3'
err_empty
sh_code 255 'exit 255'
sh_code 143 'kill -TERM $$'
err_has 'signal 15'
expect 127 session exec "$id" -- /no/such/program
err_has 'cannot start'
expect 127 session exec "$id" -- 'ls -a'
err_has 'cannot start ls -a: .*one word here'
expect 126 session exec "$id" -- ./same.txt
start=$SECONDS
expect 124 session exec "$id" --timeout 1 -- sleep 60
err_has 'timed out after'
if [ $((SECONDS - start)) -lt 20 ]; then pass; else fail "the timeout took too long"; fi
expect 122 session exec "$id" -- yes
err_has 'output limit'
expect 122 session exec "$id" -q -- yes
err_empty
expect 137 session exec "$id" --memory 33554432 -- dd if=/dev/zero of=/dev/null bs=128M count=1
err_has 'memory'
"$reposbx" session exec "$id" -- yes 2>"$scratch/err" | head -1 >"$scratch/out"
is 'exit code with a closed stdout' "${PIPESTATUS[0]}" 141

# ---- exec: what goes in ----
printf 'from a file' >"$scratch/input"
expect 0 session exec "$id" --stdin "$scratch/input" -- cat
is 'stdin from a file' "$(cat "$scratch/out")" 'from a file'
is 'stdin from a pipe' "$(printf 'piped' | "$reposbx" session exec "$id" --stdin - -- cat)" piped
head -c 100000 /dev/urandom >"$scratch/input"
run session exec "$id" --stdin "$scratch/input" -- cat
if cmp -s "$scratch/input" "$scratch/out"; then pass; else fail "stdin to stdout is not exact"; fi
expect 0 session exec "$id" -w src/deep -e GREETING=hi -- sh -c 'echo "$GREETING"; cat gone.txt'
is 'cwd and environment' "$(xargs <"$scratch/out")" 'hi gone'
for name in MY_TOKEN=x LD_PRELOAD=x HTTP_PROXY=x DOCKER_HOST=x; do
    expect 77 session exec "$id" -e $name -- true
    err_has "${name%=*}"
done
expect 77 session exec "$id" --memory 999999999999 -- true
err_has 'memory'
expect 77 session exec "$id" --timeout 100000 -- true
err_has 'timeout'
expect 77 session exec "$id" -w ../.. -- true

# ---- exec: documents ----
expect 0 session exec "$id" --json -- sh -c 'echo out; echo err >&2; exit 3'
out_keys "${result[@]}"
out_json '.status == "exited" and .exit_code == 3 and .stdout == "out\n" and .stderr == "err\n"'
out_json '.argv[0] == "sh" and (.observed_limits | has("memory_bytes") and has("pids") and has("cpus"))'
out_json ".stdout_sha256 == \"$(echo out | sha256sum | cut -d' ' -f1)\" and .stdout_bytes == 4"
expect 3 session exec "$id" --json --passthrough -- sh -c 'exit 3'
out_json '.exit_code == 3'
expect 0 session exec "$id" --json --timeout 1 -- sleep 60
out_json '.status == "timed_out" and .timed_out and .exit_code == null'
expect 0 session exec "$id" --json --memory 33554432 -- \
    dd if=/dev/zero of=/dev/null bs=128M count=1
out_json '.status == "oom_killed" and .oom_killed and .exit_code == null'
expect 0 session exec "$id" --json -- yes
out_json '.status == "output_limited" and .output_limited and .stdout_truncated'
out_json '.stdout_bytes <= 1048576 and (.stdout | length) <= 65536'
"$reposbx" session exec "$id" --status-fd 5 -- sh -c 'echo streamed; exit 4' \
    5>"$scratch/status" >"$scratch/out" 2>"$scratch/err"
is 'exit code with --status-fd' $? 4
is 'streamed output' "$(cat "$scratch/out")" streamed
is 'the document' "$(jq -r '.status, .exit_code' "$scratch/status" | xargs)" 'exited 4'

# ---- interrupts kill the command and keep the session ----
interrupt() {
    local pid
    : >"$scratch/out" # what an earlier one left is not this one's start
    env --default-signal=INT "$reposbx" session exec "$id" -- sh -c 'echo started; sleep 60' \
        >"$scratch/out" 2>"$scratch/err" &
    pid=$!
    for _ in $(seq 100); do
        grep -q started "$scratch/out" && break
        sleep 0.1
    done
    kill -"$1" $pid
    wait $pid
    is "exit code after SIG$1" $? "$2"
    err_has 'session is kept'
}
interrupt INT 130
interrupt TERM 143
sh_code 0 true
# Also while no container waits and a keeper is said to make one: the log of the session says so, and
# somebody holds the keepers' lock.
folder=$REPOSBX_STATE_DIR/sessions/$id
journal=$folder/journal
printf 'take slot %s\nmake slot %s-000999-exec\n' "$(waiting exec)" "$id" >>"$journal"
exec 7<"$folder/keepers"
flock -s 7
env --default-signal=INT "$reposbx" session exec "$id" -- true >"$scratch/out" 2>"$scratch/err" 7<&- &
pid=$!
sleep 1
is 'it waits' "$(kill -0 $pid && echo yes)" yes
kill -INT $pid
began=$SECONDS
wait $pid
is 'exit code of one that waits' $? 130
is 'told at once' "$((SECONDS - began < 15))" 1
exec 7<&-
expect 0 reap
sh_code 0 true

# ---- write, read, list-files ----
"$reposbx" session write "$id" nothing >"$scratch/out" 2>"$scratch/err" <&-
is 'a closed stdin is not an empty file' $? 74
expect 66 session read "$id" nothing
err_has 'nothing: No such file or directory'
expect 0 session exec "$id" -- /bin/sh -c 'mkdir shut && chmod 000 shut && ln -s /etc out'
expect 77 session exec "$id" -w shut -- /bin/true
err_has 'working folder: shut: Permission denied'
expect 77 session exec "$id" -w out -- /bin/true
err_has 'working folder: out: a symlink is in the way'
expect 77 session read "$id" out/passwd
expect 0 session exec "$id" -- /bin/sh -c 'rmdir shut && rm out'
printf 'written\n' | "$reposbx" session write "$id" new/deep/file.txt 2>"$scratch/err"
is 'a missing folder is refused' $? 66
err_has '^hint: --parents makes'
printf 'written\n' | "$reposbx" session write "$id" new/deep/file.txt --parents
is 'write' $? 0
printf '#!/bin/sh\necho tool\n' | "$reposbx" session write "$id" tool2.sh --mode 755 --json >"$scratch/out"
out_json '.path == "tool2.sh" and .mode == "755"'
expect 0 session exec "$id" -- ./tool2.sh
is 'the written tool' "$(cat "$scratch/out")" tool
expect 0 session read "$id" new/deep/file.txt
is 'read' "$(cat "$scratch/out")" written
expect 0 session read "$id" binary
if cmp -s "$repo/binary" "$scratch/out"; then pass; else fail "read is not exact"; fi
expect 0 session read "$id" binary --json
out_json '.encoding == "base64" and .size == 4'
expect 77 session read "$id" src/text.txt --max-bytes 13
expect 0 session read "$id" src/text.txt --max-bytes 14
expect 66 session read "$id" none
expect 77 session read "$id" ../etc/passwd
expect 0 session list-files "$id" --json
out_json 'map(keys) | all(. == ["path", "size", "type"])'
out_json 'map(select(.path == "tool2.sh")) == [{path: "tool2.sh", type: "executable", size: 20}]'
expect 0 session list-files "$id" new
out_has '^file +8  new/deep/file.txt$'

# ---- diff: the patch gives the same tree in a fresh checkout ----
sh_code 0 'printf "one\n2\nthree\n" >src/text.txt; rm -r src/deep; chmod 755 no-newline
    printf "x\0y" >binary; mkdir -p t; printf "q\n" >"t/a b"; printf "z\n" >"t/$(printf "\303\251\"\n")"
    mkfifo pipe'
expect 0 session diff "$id"
cp "$scratch/out" "$scratch/fix.patch"
err_has 'left out: pipe \(fifo\)'
expect 0 session diff "$id" --json
out_keys sha256 bytes base_tree result_tree files omitted patch
out_json ".base_tree == \"$tree\" and (.omitted | map(.reason) == [\"fifo\"])"
out_json ".sha256 == \"$(sha256sum <"$scratch/fix.patch" | cut -d' ' -f1)\""
out_json '.files | all(has("path") and has("status") and has("old_mode") and has("new_mode") and
    has("old_oid") and has("new_oid") and has("insertions") and has("deletions") and has("binary"))'
result_tree=$(jq -r .result_tree "$scratch/out")
git clone -q "$repo" "$scratch/fresh" 2>/dev/null
git -C "$scratch/fresh" checkout -q --detach "$head"
git -C "$scratch/fresh" apply --index "$scratch/fix.patch"
is 'git apply' $? 0
is 'the tree of a fresh checkout' "$(git -C "$scratch/fresh" write-tree)" "$result_tree"
expect 0 session diff "$id" --name-only -q
cp "$scratch/out" "$scratch/names"
is 'names as Git has them' "$(LC_ALL=C sort "$scratch/names")" \
    "$(git -C "$scratch/fresh" diff --cached --no-renames --name-only "$head" | LC_ALL=C sort)"
expect 0 session diff "$id" --stat
out_has '^src/text.txt +2  \+-$'
out_has 'files changed, [0-9]+ insertion'
expect 1 session diff "$id" --exit-code
expect 0 session diff "$id" -o "$scratch/given.patch" --json
out_keys patch_file
out_json 'has("patch") | not'
if cmp -s "$scratch/given.patch" "$scratch/fix.patch"; then pass; else fail "-o differs"; fi
is 'mode of the patch' "$(stat -c %a "$scratch/given.patch")" "$(printf '%o' $((0644 & ~$(umask))))"
expect 73 session diff "$id" -o "$scratch/given.patch"
expect 77 session diff "$id" --max-bytes 10 -o "$scratch/small.patch"
if [ -e "$scratch/small.patch" ]; then fail "a refused patch left a file"; else pass; fi

# ---- artifacts ----
expect 0 session artifacts "$id" -o "$scratch/out.zip" src tool2.sh --json
out_keys path size sha256 members
out_json '.members | map(.path) == ["src/text.txt", "tool2.sh"]'
cp "$scratch/out" "$scratch/bundle.json"
expect 0 artifact verify "$scratch/out.zip" --members "$scratch/bundle.json"
jq '.members[0].size += 1' "$scratch/bundle.json" >"$scratch/other.json"
expect 1 artifact verify "$scratch/out.zip" --members "$scratch/other.json"
expect 0 session artifacts "$id" -o "$scratch/again.zip" tool2.sh src
if cmp -s "$scratch/out.zip" "$scratch/again.zip"; then pass; else fail "bundles differ"; fi
expect 73 session artifacts "$id" -o "$scratch/out.zip" src
expect 77 session artifacts "$id" -o "$scratch/small.zip" --max-bytes 3 src
if [ -e "$scratch/small.zip" ]; then fail "a refused bundle left a file"; else pass; fi

# ---- log, audit, reap ----
# A value that is cut is cut between characters, whatever its length.
for more in '' x xx xxx; do
    expect 0 session exec "$id" -- /bin/echo "$more$(printf '\360\237\230\200%.0s' $(seq 60))"
done
expect 0 session log "$id"
if iconv -f UTF-8 -t UTF-8 "$scratch/out" >/dev/null; then pass; else fail 'the log is not UTF-8'; fi
is 'values that were cut' "$(grep -c '…' "$scratch/out")" 4
at='^[0-9-]{10}T[0-9:.]{12}Z  '
out_has "${at}sandbox_created      .*revision ${head:0:12}  image .*workspace (overlay|copy)  [0-9]+ files?  .*B\$"
out_has "${at}command_started      cmd-[0-9]{6}  /bin/echo '"
out_has "${at}command_finished     cmd-[0-9]{6}  exited with 0  [0-9.]+ m?s  stdout [0-9]+ B  stderr 0 B\$"
out_has "${at}file_written         [^ ]+  [0-9]+ B\$"
out_has "${at}diff_created         tree [0-9a-f]{12}  [0-9]+ files?  .*B\$"
out_has "${at}artifacts_collected  [0-9]+ files?  .*B\$"
out_has "${at}refused              [a-z]+  policy  "
is 'members that are for documents' "$(grep -v command_started "$scratch/out" |
    grep -cE '[a-z_]+=|[0-9a-f]{40}')" 0
expect 0 session log "$id" --json
is 'records' "$(jq -s 'all(has("seq") and has("event") and has("prev"))' "$scratch/out")" true
expect 0 audit verify "$id"
out_has '^open: '
expect 0 audit verify "$id" --json
out_keys verdict records bad_line head reason streams_checked
out_json '.verdict == "open" and .streams_checked > 0'
# A crash in the middle of a record leaves a part of a line.
cp -r "$REPOSBX_STATE_DIR/sessions/$id/audit" "$scratch/torn"
printf '{"seq":' >>"$scratch/torn/events.jsonl"
expect 1 audit verify "$scratch/torn"
out_has '^torn: '
expect 0 reap --dry-run --json
if grep -q "$id" "$scratch/out"; then fail "reap would take a ready session"; else pass; fi
# No crash takes the head away, and with it what says how long the log was: the head is made first.
cp -r "$REPOSBX_STATE_DIR/sessions/$id/audit" "$scratch/headless"
rm "$scratch/headless/head.json"
expect 1 audit verify "$scratch/headless" --json
out_json '.verdict == "tampered" and (.reason | test("head.json is missing"))'
# Something to reap, as a table and for good: a folder that never became a session.
half=$REPOSBX_STATE_DIR/sessions/sbx-$(printf 'f%.0s' $(seq 32))
mkdir -m 700 "$half"
touch -d '2 days ago' "$half"
expect 0 reap --dry-run
out_has "${half##*/}"
expect 0 reap
out_has "${half##*/}"
if [ -e "$half" ]; then fail "what was reaped is still there"; else pass; fi
expect 0 reap
out_empty
"$reposbx" session log "$id" --follow --json >"$scratch/followed" 2>"$scratch/err" &
follower=$!

# ---- close ----
expect 0 session close "$id"
out_empty
wait $follower
is 'log --follow ends with the session' $? 0
is 'its last record' "$(tail -1 "$scratch/followed" | jq -r .event)" sandbox_closed
expect 0 session close "$id"
expect 78 session exec "$id" -- true
expect 78 session exec "$id" --json -- true
out_json '.error.code == "closed"'
expect 78 session diff "$id"
expect 0 session show "$id" --json
out_json '.state == "closed"'
expect 0 audit verify "$id" --json
out_json '.verdict == "whole"'
audit=$REPOSBX_STATE_DIR/sessions/$id/audit
cp -r "$audit" "$scratch/audit"
expect 0 audit verify "$scratch/audit"
sed -i '3s/"seq":2/"seq":7/' "$scratch/audit/events.jsonl"
expect 1 audit verify "$scratch/audit" --json
out_json '.verdict == "tampered" and .bad_line > 0 and (.reason | length > 0)'
# A record that was acknowledged and is gone is no accident.
rm -r "$scratch/audit"
cp -r "$audit" "$scratch/audit"
truncate -s -5 "$scratch/audit/events.jsonl"
expect 1 audit verify "$scratch/audit"
out_has '^tampered: '
expect 0 session log "$id"
expect 0 session list
expect 0 reap
expect 0 session close "$id" --drop-audit
expect 0 session close "$id" --json
out_json '.audit == "dropped" and .state == "closed"'
if [ -e "$audit" ]; then fail "the audit folder is still there"; else pass; fi

# ---- nothing is left in the engine ----
if command -v curl >/dev/null; then
    socket=${REPOSBX_TEST_ENGINE#unix://}
    left=$(curl -s --unix-socket "$socket" 'http://engine/v1.41/containers/json?all=1' |
        grep -c "${id#sbx-}")
    is 'containers left' "$left" 0
    left=$(curl -s --unix-socket "$socket" 'http://engine/v1.41/volumes' | grep -c "${id#sbx-}")
    is 'volumes left' "$left" 0
fi
finish
