#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# One program, three engines, one document: what podman, docker and WebAssembly answer differs in who ran it, how
# long it took and of which image, and in nothing else. Python on WebAssembly is another release than the image's, so
# the programs are such as both know.
. "$(dirname "$0")/lib.sh"
have_python "${2:-}"
policy_says prefer

# on ENGINE CODE ARGV…: the document, without what may differ, to $scratch/ENGINE.
on() {
    local name=$1
    shift
    case $name in
    podman) engine=$podman_address ;;
    docker) engine=$docker_address ;;
    *) engine=$name ;;
    esac
    ends 0 "$@" --json
    out_json ".engine == \"$name\" and .language == \"python\" and .duration_s > 0 and (.warm | not)"
    jq -S 'del(.engine, .duration_s, .image_id)' "$scratch/out" > "$scratch/$name"
}
# same TITLE FILTER CODE ARGV…: the same on all three, and as the filter says.
same() {
    local title=$1 filter=$2 name
    shift 2
    for name in podman docker wasm; do
        on $name "$@"
        is "$title: $name" "$(jq "$filter" "$scratch/$name")" true
        cmp -s "$scratch/podman" "$scratch/$name" ||
            fail "$title: $name differs: $(diff "$scratch/podman" "$scratch/$name" | cut -c 1-300)"
    done
}

same 'both streams' '.stdout == "out\n" and .stderr == "err\n" and .exit_code == 0 and .ok' \
    'import sys; print("out"); print("err", file=sys.stderr)'
same 'nothing' '.stdout == "" and .stderr == "" and .ok' ''
# Bytes that are no text, the library, its arguments, the end of its stdin.
same 'what it finds' '.stdout == "h\u00e9 \ufffd\u0000[\"0.1\", 120, \"b\"] __main__ [-] EOFError\n"' \
    $'import json, math, re, sys\nsys.stdout.buffer.write("h\u00e9 ".encode() + b"\\xff\\0")
print(json.dumps([repr(0.1), math.factorial(5), re.findall("[b-z]", "ab")[0]]), __name__, end=" ")
try:\n    input()\nexcept EOFError as error:
    print(f"[{sys.argv[0]}]", type(error).__name__)\n'

same 'exit 3' '.exit_code == 3 and (.ok | not) and .status == "exited"' 'raise SystemExit(3)'
same 'exit with words' '.exit_code == 1 and .stderr == "words\n"' 'import sys; sys.exit("words")'
same 'exit without clean-up' '.exit_code == 7 and .stdout == ""' 'import os; print(1); os._exit(7)'
same 'traceback' '.exit_code == 1 and (.stderr | contains("File \"<stdin>\", line 3, in f\n") and
    contains("File \"<stdin>\", line 5, in <module>\n") and endswith("\nValueError: no\n"))' \
    $'from __future__ import annotations\ndef f():\n    raise ValueError("no")\n\nf()'
same 'syntax error' '.exit_code == 1 and (.stderr | contains("File \"<stdin>\", line 2\n"))' $'x = 1\nx = = 2\n'

same 'timeout' '.timed_out and .exit_code == null and (.ok | not) and .stdout == "before\n"' \
    $'import time\nprint("before", flush=True)\ntime.sleep(100)\n' --timeout 6 # the start of a busy machine is in it

# stdout first, stderr in what is left, whichever was written first; over the policy's bound it is killed.
same 'stdout over the cap' '.truncated and .ok and (.stdout | length) == 65536 and .stderr == ""' \
    'import sys; sys.stderr.write("e" * 30000); sys.stderr.flush(); sys.stdout.write("o" * 70000)'
same 'stderr over the cap' '.truncated and (.stdout | length) == 30000 and (.stderr | length) == 35536' \
    'import sys; sys.stderr.write("e" * 70000); sys.stderr.flush(); sys.stdout.write("o" * 30000)'
same 'bytes that are no text' '.truncated and (.stdout | length) == 21845 and .stderr == "e"' \
    'import sys; sys.stdout.buffer.write(b"\xff" * 65535); sys.stderr.write("e")'
same 'exactly the cap' '(.truncated | not) and (.stdout | length) == 65536' 'import sys; sys.stdout.write("o" * 65536)'
same 'a flood' '.status == "output_limited" and .truncated and .output_limited and .exit_code == null and
    (.timed_out | not) and (.stdout | length) == 65536' 'while True: print("x" * 1000)'

# A module has no files and no environment: refused by name, never dropped in silence; the other two agree.
echo data > "$scratch/input"
for name in podman docker; do
    on $name 'import os; print(open("/tmp/input/a").read() + os.environ["NAME"])' --input "a=$scratch/input" \
        --env NAME=value
    is "inputs and environment: $name" "$(jq .stdout "$scratch/$name")" '"data\nvalue\n"'
done
is 'inputs and environment' "$(cmp "$scratch/podman" "$scratch/docker")" ''
engine=wasm
ends 77 'print(1)' --input "a=$scratch/input"
err_has 'WebAssembly runs only python without network, inputs and environment'
ends 77 'print(1)' --env NAME=value
err_has 'WebAssembly runs only python without network, inputs and environment'
nothing_left
finish
