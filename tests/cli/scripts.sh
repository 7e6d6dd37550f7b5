#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What the scripts of the project say of themselves: asked for help they print it and do nothing else.
. "$(dirname "$0")/lib.sh"

root=$(cd "$(dirname "$0")/../.." && pwd)
seen=0
for script in "$root"/scripts/* "$root"/tests/lab/*; do
    # Those that a person starts: the jobs of the lab are started by its machine.
    [ -x "$script" ] && grep -q '^# usage: ' "$script" || continue
    seen=$((seen + 1))
    for words in --help -h 'x --help'; do
        timeout -k 5 20 "$script" $words >"$scratch/out" 2>"$scratch/err" </dev/null
        is "the exit code of ${script##*/} $words" $? 0
        out_has "^usage: ${script##*/}( |$)"
        err_empty
        is "code of ${script##*/} in its help" "$(grep -c 'set -eu\|^#' "$scratch/out")" 0
    done
done
for script in "$root"/scripts/*; do
    [ ! -x "$script" ] || grep -q '^# usage: ' "$script" || fail "$script has no usage"
done
is 'that there are any' "$((seen > 9))" 1

# What is no argument of theirs is told by the usage, without what the script is for. The words of scripts/test
# are for ctest, and nothing would be started by the rest before it is known.
for script in deps quickstart engine image storage python-wasm bench bench-growth; do
    timeout -k 5 20 "$root/scripts/$script" --no-such-option >"$scratch/out" 2>"$scratch/err" </dev/null
    is "the exit code of $script" $? 64
    err_has "^usage: $script( |$)"
    out_empty
done
finish
