#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The same programs on podman and on docker: results, ends, limits, refusals, and nothing left behind.
. "$(dirname "$0")/lib.sh"

# Everything of a result that does not depend on who ran it and how fast.
same() { jq -S 'del(.engine, .duration_s)' "$scratch/out"; }

echo data > "$scratch/input"
for engine in "$podman_address" "$docker_address"; do
    case $engine in podman*) name=podman ;; *) name=docker ;; esac

    # One document for each language, in one shape.
    ends 0 'import sys; print("out"); print("err", file=sys.stderr)' --json
    out_json ".engine == \"$name\" and .language == \"python\" and .ok and .exit_code == 0"
    out_json '.stdout == "out\n" and .stderr == "err\n" and (.truncated or .timed_out | not)'
    same > "$scratch/python.$name"
    ends 0 'echo "$0 $((6 * 7))"; echo err >&2' --json -l bash
    same > "$scratch/bash.$name"
    ends 0 'console.log([1, 2].map(x => x * 2)); console.error("err")' --json -l node
    same > "$scratch/node.$name"

    # How it can end.
    ends 3 'raise SystemExit(3)'
    ends 139 'import os; os.kill(os.getpid(), 11)'
    ends 124 'import time; time.sleep(100)' --timeout 1
    err_has 'timed out'
    ends 137 'x = bytearray(10**9); print(len(x))' --timeout 100
    err_has 'memory'
    ends 122 'while True: print("x" * 1000)'
    is 'bytes of a flood' "$(wc -c < "$scratch/out")" 65536
    ends 0 'print("x" * 100000)'
    is 'bytes of a long output' "$(wc -c < "$scratch/out")" 65536
    err_has 'cut'
    ends 0 'while True: pass' --timeout 1 --json
    out_json '.status == "timed_out" and .timed_out and (.ok | not) and .exit_code == null'

    # Line numbers are the user's, with and without inputs; inputs arrive.
    ends 1 $'def f():\n    raise ValueError("no")\n\nf()'
    err_has 'File "<stdin>", line 4, in <module>'
    ends 1 $'from __future__ import annotations\nprint(open("/tmp/input/a.txt").read(), end="")\nraise KeyError(3)' \
        --input "a.txt=$scratch/input"
    is 'an input' "$(cat "$scratch/out")" data
    err_has 'File "<stdin>", line 3, in <module>'
    is 'frames that are not the user'"'"'s' "$(grep -c ', in _reposbx\|line 1[0-9]' "$scratch/err")" 0
    ends 0 'print(__name__, sorted(n for n in globals() if "reposbx" in n))' --input "a=$scratch/input"
    is 'the namespace' "$(cat "$scratch/out")" '__main__ []'

    # What it cannot reach.
    ends 1 'import socket; socket.create_connection(("1.1.1.1", 80), 2)'
    err_has 'Network is unreachable'
    ends 1 'open("/etc/x", "w")'
    err_has 'Read-only file system'
    ends 0 'import os; print(os.getuid(), os.getgid(), os.environ.get("HOME"), os.getenv("A"), sorted(os.environ))' \
        --env A=b
    out_has "^65534 65534 /tmp/home b \['A', 'CI', 'HOME', 'LANG', 'PATH', 'TMPDIR'\]$"
    ends 0 'import os; [os.fork() or os._exit(0) for i in range(3)]; print(open("/proc/self/limits").read())'
    out_has 'Max open files +1024 +1024'
    nothing_left
done
for language in python bash node; do
    is "the result of $language on both engines" "$(cat "$scratch/$language.docker")" \
        "$(cat "$scratch/$language.podman")"
done

# Refused by name, nothing started: the list of what was made stays empty.
engine=$podman_address
rm -rf "$REPOSBX_STATE_DIR"
head -c 17825792 /dev/zero > "$scratch/big"
ends 77 x -l perl
err_has 'language: "perl"'
ends 77 x -l bash --input "a=$scratch/input"
err_has 'inputs: only python'
ends 77 x --input "a/b=$scratch/input"
err_has 'inputs: "a/b"'
ends 77 x --input "a=$scratch/big"
err_has 'inputs: more than 16777216'
ends 77 x --timeout 121
err_has 'timeout_seconds: 121'
ends 77 x --memory 1g
err_has 'memory_bytes'
ends 77 x --env API_TOKEN=secret-value
err_has 'API_TOKEN'
is 'a value in the message' "$(grep -c secret-value "$scratch/err")" 0
ends 66 x --input "a=$scratch/nowhere"
ends 64 x --memory lots
ends 64 x --input nonsense
policy=code-run ends 77 x
err_has 'python:3.12-slim is not on the list'
engine=nonsense ends 64 x
engine=podman:/nowhere/podman ends 69 x
engine=unix:///nowhere.sock ends 69 x
is 'images that were made' "$(find "$REPOSBX_STATE_DIR/run" -path '*/images/*' 2> /dev/null | wc -l)" 0
is 'records of refusals' "$(grep -c '"event":"run_failed"' "$REPOSBX_STATE_DIR/run/audit/events.jsonl")" 10
is 'secrets in the log' "$(grep -c secret-value "$REPOSBX_STATE_DIR/run/audit/events.jsonl")" 0

# The log holds every execution, by name of what it had.
engine=$podman_address
ends 0 'print(1)' --env NAME=of-no-concern
run audit verify "$REPOSBX_STATE_DIR/run/audit"
is 'the log verifies' "$code" 0
log=$REPOSBX_STATE_DIR/run/audit/events.jsonl
is 'a run in the log' "$(jq -c 'select(.event == "run_started") | .data |
    [.language, .engine, .network, .timeout_seconds, .limits.memory_bytes, .observed.memory_bytes, .env]' "$log")" \
    '["python","podman","none",10,268435456,268435456,["NAME"]]'
is 'its end' "$(jq -c 'select(.event == "run_finished") | .data | [.status, .exit_code, .warm]' "$log")" \
    '["exited",0,false]'
is 'values in the log' "$(grep -c of-no-concern "$log")" 0

# An image that is gone is made anew.
made=$(jq -r .image_id "$REPOSBX_STATE_DIR"/run/images/????*)
call_podman rmi "$made" > /dev/null
ends 0 'print(1)'
is 'another image was made' "$(jq -r .image_id "$REPOSBX_STATE_DIR"/run/images/????* | grep -c "$made")" 0
nothing_left

# The language is what the file's suffix says, unless --language says it; python without either. That inputs
# are for python alone tells which one it was without a container.
printf 'console.log(6 * 7)\n' > "$scratch/code.js"
printf 'print(6 * 7)\n' | tee "$scratch/code.txt" > "$scratch/python.sh"
for asked in 'code.js node' 'code.txt python' 'python.sh python -l python'; do
    set -- $asked
    expect 0 --engine "$engine" run --policy "$policy" --json "$scratch/$1" "${@:3}"
    out_json ".language == \"$2\" and .stdout == \"42\n\""
done
for asked in 'sh bash' 'bash bash' 'js node' 'mjs node' 'cjs node'; do
    : > "$scratch/empty.${asked% *}"
    expect 77 --engine "$engine" run --policy "$policy" --input "a=$scratch/input" "$scratch/empty.${asked% *}"
    err_has "only python gets any, ${asked#* } does not"
done
expect 0 --engine "$engine" run --policy "$policy" --input "a=$scratch/input" "$scratch/python.sh" -l python
nothing_left

# An interpreter that is not found: where the caller said where to look, that is what is told, not the image.
ends 69 'print(1)' --env PATH=/nowhere
err_has 'python3 cannot be started with the environment that was given: No such file'
err_has '^hint: PATH says'
ends 0 'print(1)' --env PATH=/nowhere:/usr/bin
if [ -n "${REPOSBX_TEST_IMAGE_ID:-}" ]; then
    jq --arg i "$REPOSBX_TEST_IMAGE_ID" '.images = [$i] | .run.python = $i' "$policy" > "$scratch/none.json"
    engine=$docker_address policy=$scratch/none.json ends 69 'print(1)' --env A=b
    err_has 'the image cannot run python3: No such file'
fi
nothing_left

# A signal while a container does not come to be: nobody waits for the minute that it may take.
cat > "$scratch/slow" << 'P'
#!/bin/sh
for word; do [ "$word" != run ] || { echo asked >> "${0%/*}/asked"; exec sleep 1000; }; done
P
program=${podman_address%%\?*}
program=${program#podman}
printf 'exec "%s" "$@"\n' "$(command -v "${program#:}" podman | head -n 1)" >> "$scratch/slow"
chmod 755 "$scratch/slow"
echo 'print(1)' > "$scratch/code"
"$reposbx" --engine "podman:$scratch/slow${podman_address#"${podman_address%%\?*}"}" run --policy "$policy" \
    "$scratch/code" > "$scratch/out" 2> "$scratch/err" &
pid=$!
for try in $(seq 1200); do
    [ ! -e "$scratch/asked" ] || break
    sleep 0.1
done
asked=$SECONDS
kill -TERM $pid
wait $pid
is 'the code after a signal' $? 143
err_has 'cancelled'
if [ $((SECONDS - asked)) -lt 45 ]; then pass; else fail "it waited for $((SECONDS - asked)) s"; fi
nothing_left
finish
