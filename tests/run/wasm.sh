#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Where python goes when a WebAssembly module is there: by the policy's word, told in the result, and never
# in silence to something else. The module here only repeats its stdin, so what comes back is the code.
. "$(dirname "$0")/lib.sh"

command -v wat2wasm > /dev/null || skip "wat2wasm is missing"
cat > "$scratch/echo.wat" << 'W'
(module
  (import "wasi_snapshot_preview1" "fd_read" (func $read (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (func (export "_start")
    (block $end
      (loop $more
        (i32.store (i32.const 0) (i32.const 64))
        (i32.store (i32.const 4) (i32.const 4096))
        (br_if $end (call $read (i32.const 0) (i32.const 0) (i32.const 1) (i32.const 8)))
        (br_if $end (i32.eqz (i32.load (i32.const 8))))
        (i32.store (i32.const 4) (i32.load (i32.const 8)))
        (drop (call $write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 12)))
        (br $more)))))
W
wat2wasm -o "$scratch/echo.wasm" "$scratch/echo.wat" || fail "wat2wasm"
events() { cat "$REPOSBX_STATE_DIR"/run/audit/events.jsonl | jq -c "$1"; }

# Not installed: demanded is refused, preferred goes to a container.
engine=wasm
policy_says prefer
ends 69 'print(1)'
err_has 'not ready'
policy_says require
ends 69 'print(1)'
policy_says never
ends 77 'print(1)'

policy_says prefer
expect 0 wasm install --optimisation none "$scratch/echo.wasm"
ends 0 'print(1)' --json
out_json '.engine == "wasm" and .language == "python" and .ok and .stdout == "print(1)" and .stderr == ""'
out_json '.exit_code == 0 and .image_id == "" and (.warm | not)'
ends 0 'print(1)'
is 'its output' "$(cat "$scratch/out")" 'print(1)'
is 'the record' "$(events 'select(.event == "run_started") | .data.engine' | sort -u)" '"wasm"'
is 'and its end' "$(events 'select(.event == "run_finished") | .data.status' | sort -u)" '"exited"'
# What it cannot have is refused by name.
ends 77 'echo' -l bash
err_has 'WebAssembly'
printf x > "$scratch/input"
ends 77 'print(1)' --input "a=$scratch/input"
ends 77 'print(1)' --env A=b
policy_says never
ends 77 'print(1)'
policy_says require
ends 0 'print(1)'

# An image that is on no list keeps nobody from a module, and auto tells what it chose.
engine=auto
policy_says prefer
ends 0 'print(1)' --json
out_json '.engine == "wasm"'
jq '.images = []' "$policy" > "$policy.list" && mv "$policy.list" "$policy"
ends 0 'print(1)' --json
out_json '.engine == "wasm"'
ends 77 'echo' -l bash

# Damaged: never run. Demanded, it is refused; preferred, the job goes on to a container, which this policy
# has no image for, and the record would say why.
native=$(find "$REPOSBX_STATE_DIR/wasm" -type f -size +8k | head -n 1)
[ -n "$native" ] || fail "no program in the store"
chmod u+w "$native"
printf 'x' | dd of="$native" bs=1 seek=5000 conv=notrunc status=none
engine=wasm
ends 69 'print(1)'
err_has 'not ready'
engine=auto
ends 77 'print(1)'
policy_says require
ends 69 'print(1)'
nothing_left
finish
