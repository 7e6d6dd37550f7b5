#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Processes of a module that wait for a job: warm results, one process for one job, ends that are not good, what does
# not fit, a module that gets damaged, a server that is killed. No engine and no image takes part.
. "$(dirname "$0")/lib.sh"
have_python "${2:-}"
policy_says prefer
jq '.images = []' "$policy" > "$policy.new" && mv "$policy.new" "$policy"
engine=wasm
log=$REPOSBX_STATE_DIR/run/audit/events.jsonl
# The server's children: nothing else of it is a process.
waiting() {
    grep -lx "PPid:[[:space:]]*$server" /proc/[0-9]*/status 2> /dev/null | cut -d / -f 3 | sort
}
# alive PID…: those of them that still are something; one that nobody has waited for yet is not.
alive() {
    local pid
    for pid in "$@"; do awk '$1 == "State:" && $2 != "Z"' "/proc/$pid/status" 2> /dev/null; done
}

policy_says never
run --engine wasm pool serve --policy "$policy"
is 'a policy without WebAssembly' "$code" 77
policy_says prefer
run --engine wasm pool serve --policy "$policy" --language bash
is 'bash on WebAssembly' "$code" 77

serve 2
is 'what is told' "$(status '[.engine, .language, .size, .ready]')" '["wasm","python",2,2]'
is 'processes that wait' "$(waiting | wc -l)" 2
before=$(waiting)
ends 0 'print(1)' --json
out_json '.warm and .engine == "wasm" and .stdout == "1\n" and .ok and .image_id == ""'
is 'the record' "$(jq -c 'select(.event == "run_started") | .data | [.engine, .image, .observed]' "$log")" \
    "$(jq -cn --arg digest "$(cat "$REPOSBX_STATE_DIR/wasm/default")" '["wasm", $digest, null]')"
is 'its end' "$(jq -c 'select(.event == "run_finished") | .data | [.status, .warm]' "$log")" '["exited",true]'
until_ready 2
is 'processes that were there before' "$(comm -12 <(echo "$before") <(waiting) | wc -l)" 1

# Each has one job: nothing of the one before is there.
for again in 1 2 3; do
    ends 0 'import builtins; print(getattr(builtins, "seen", "new")); builtins.seen = "old"' --json
    out_json '.stdout == "new\n"'
done
ends 3 'raise SystemExit(3)'
ends 1 $'def f():\n    raise ValueError("no")\n\nf()'
err_has 'File "<stdin>", line 4, in <module>'
ends 124 'while True: pass' --timeout 1
ends 122 'while True: print("x" * 1000)'
is 'bytes of a flood' "$(wc -c < "$scratch/out")" 65536
ends 0 $'try:\n    x = bytearray(10**9)\nexcept MemoryError:\n    print("none left")'
out_has 'none left'
until_ready 2
is 'counts' "$(status '[.resets, .discards, .busy, .failures]')" '[7,2,0,0]'

# What does not fit runs elsewhere, or is refused as it is without a pool.
ends 0 'print(1)' --memory 64m --json
out_json '.engine == "wasm" and (.warm | not)'
ends 77 'print(1)' --env A=b
err_has 'WebAssembly'
engine=auto
ends 0 'print(1)' --json
out_json '.engine == "wasm" and .warm'
engine=$podman_address
ends 77 'print(1)'
err_has 'is not on the list'
engine=wasm

# All in use.
for job in 1 2; do
    printf 'import time; time.sleep(8)' | "$reposbx" --engine wasm run --policy "$policy" &
    jobs_running="${jobs_running:-} $!"
done
until_status .running 2
ends 75 'print(1)'
err_has 'in use'
# shellcheck disable=SC2086
wait $jobs_running
# A client that goes away takes its job with it.
printf 'import time; time.sleep(60)' > "$scratch/code"
"$reposbx" --engine wasm run --policy "$policy" --timeout 60 < "$scratch/code" &
client=$!
until_status .running 1
kill -9 $client
until_status .running 0
# One that died while it waited is not given out.
until_ready 2
# shellcheck disable=SC2046
kill -9 $(waiting)
ends 0 'print(1)' --json
out_json '.stdout == "1\n"'

# The module is looked at for each process: damaged, it makes no more of them, and that is told.
until_ready 2
native=$(find "$REPOSBX_STATE_DIR/wasm" -name native)
cp -p "$native" "$native.whole"
cp "$native.whole" "$native.other" # not the file that runs: it is in use
chmod 700 "$native.other"
printf x | dd of="$native.other" bs=1 seek=5000 conv=notrunc status=none
chmod 555 "$native.other"
mv "$native.other" "$native"
for last in 1 2; do ends 0 'print(1)'; done
ends 69 'print(1)'
err_has 'not ready'
mv "$native.whole" "$native"
until_ready 2
is 'failures are counted' "$(status '.failures > 0')" true
ends 0 'print(1)'

# SIGKILL: its processes go with it, and the next one serves.
until_ready 2
before=$(waiting)
# shellcheck disable=SC2086
is 'processes of the server' "$(alive $before | wc -l)" 2
kill -9 "$server"
wait "$server" 2> /dev/null
sleep 0.5
# shellcheck disable=SC2086
is 'processes of the dead server' "$(alive $before)" ''
ends 0 'print(1)' --json
out_json '.warm | not'
policy_says require
engine=auto
serve 1
is 'what is demanded is what waits' "$(status .engine)" '"wasm"'
ends 0 'print(1)' --json
out_json '.warm and .engine == "wasm"'
before=$(waiting)
run pool shutdown
is 'shutdown' "$code" 0
wait "$server"
is 'the exit code of the server' "$?" 0
server=''
# shellcheck disable=SC2086
is 'processes after the shutdown' "$(alive $before)" ''
run audit verify "$REPOSBX_STATE_DIR/run/audit"
is 'the log verifies' "$code" 0
nothing_left 1
finish
