#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# An engine that takes a call and never answers: a signal is heard while it is waited for, by every command
# that asks one. Without that it is told, a minute later, that the engine did not answer in time.
. "$(dirname "$0")/session.sh"
command -v python3 >/dev/null || skip "python3 is missing"
asked=$scratch/asked

cat >"$scratch/server.py" <<'F'
import socket, sys
listener = socket.socket(socket.AF_UNIX)
listener.bind(sys.argv[1])
listener.listen(64)
held = []
while True:
    held.append(listener.accept()[0])
    open(sys.argv[2], "w").close()
F
python3 "$scratch/server.py" "$scratch/socket" "$asked" &
server=$!
trap 'kill $server 2>/dev/null; close_sessions' EXIT
printf '#!/bin/sh\n: >"%s"\nexec sleep 3600\n' "$asked" >"$scratch/podman"
chmod 755 "$scratch/podman"
while [ ! -S "$scratch/socket" ]; do sleep 0.02; done

echo one >"$repo/a"
commit
image=sha256:$(printf '%064d' 7)
allow "$image"
run_policy=$scratch/run.json
"$reposbx" policy show code-run |
    jq --arg image "$image" '.images = [$image] | .run.python = $image | .run.wasm = "never"' >"$run_policy"
expect 0 policy check "$run_policy"
echo 'print(1)' >"$scratch/a.py"
printf 'diff --git a/new b/new\nnew file mode 100644\n--- /dev/null\n+++ b/new\n@@ -0,0 +1 @@\n+new\n' \
    >"$scratch/new.patch"
source=(--repo "$repo" --revision "$head" --image "$image" --policy "$policy")

# interrupted ENGINE ARGV…: SIGTERM once the engine was asked.
interrupted() {
    local engine=$1 pid
    shift
    rm -f "$asked"
    "$reposbx" --engine "$engine" "$@" >"$scratch/out" 2>"$scratch/err" </dev/null &
    pid=$!
    until [ -e "$asked" ] || ! kill -0 $pid 2>/dev/null; do sleep 0.02; done
    kill -TERM $pid 2>/dev/null
    wait $pid
    is "code of $1 on $engine" $? 143
}

for engine in "unix://$scratch/socket" "podman:$scratch/podman"; do
    for words in "run $scratch/a.py --policy $run_policy" "pool serve --policy $run_policy" \
        "session create ${source[*]}" "validate ${source[*]} --patch $scratch/new.patch"; do
        interrupted "$engine" $words --json
        out_json '.error.code == "cancelled" and .error.hint == ""'
    done
    interrupted "$engine" doctor
    out_has '^fail +engine_answers +.*cancelled'
done
is 'sessions left' "$(ls "$REPOSBX_STATE_DIR/sessions" | grep -c '^sbx-')" 0
finish
