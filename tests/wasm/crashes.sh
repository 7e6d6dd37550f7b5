#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# An install of a module that is killed at any point leaves a store that holds the module whole or not at
# all, says so, and is finished by the next install, which clears what was left.
# usage: crashes.sh REPOSBX        $REPOSBX_TEST_FAULT_CLI is reposbx-fault
set -eu
reposbx=$1
skip() {
    echo "skipped: $*" >&2
    [ "${REPOSBX_TEST_MUST_RUN:-}" = 1 ] && exit 1
    exit 77
}
[ -n "${REPOSBX_TEST_FAULT_CLI:-}" ] || skip "REPOSBX_TEST_FAULT_CLI is not set"
for tool in wasm2c wat2wasm cc jq; do
    command -v $tool > /dev/null || skip "$tool is missing"
done

scratch=$(mktemp -d "${TMPDIR:-/tmp}/reposbx-wasm.XXXXXX")
trap 'rm -rf "$scratch"' EXIT
fail() {
    echo "FAIL: $*" >&2
    find "$scratch/state" >&2
    exit 1
}
state=$scratch/state
ours() { "$reposbx" --state-dir "$state" --engine "unix://$scratch/none" -q "$@"; }
killed_at() {
    point=$1
    shift
    code=0
    (REPOSBX_FAULT=$point exec "$REPOSBX_TEST_FAULT_CLI" --state-dir "$state" \
        --engine "unix://$scratch/none" -q "$@") > "$scratch/out" 2>&1 || code=$?
    [ $code -eq 137 ] || fail "$point was not passed: exit code $code, $(cat "$scratch/out")"
}
module() {
    printf '(module (memory (export "memory") 1) (func (export "_start")) (func (export "n%s")))\n' "$1" \
        > "$scratch/m.wat"
    wat2wasm "$scratch/m.wat" -o "$scratch/m.wasm"
}

number=0
for point in wasm.built wasm.before-publish wasm.after-publish; do
    number=$((number + 1))
    module $number
    digest=$(sha256sum "$scratch/m.wasm" | cut -d ' ' -f 1)
    killed_at $point wasm install --optimisation none "$scratch/m.wasm"
    ours --json wasm list > "$scratch/list"
    jq -e 'all(.[]; .ready)' "$scratch/list" > /dev/null || fail "$point: a module that is not whole"
    case $point in
    wasm.after-publish) expected=1 ;;
    *) expected=0 ;;
    esac
    [ "$(jq --arg d "$digest" 'map(select(.digest == $d)) | length' "$scratch/list")" -eq $expected ] ||
        fail "$point: the list is $(cat "$scratch/list")"
    [ "$(ours wasm install --optimisation none "$scratch/m.wasm")" = "$digest" ] || fail "$point: no digest"
    ours --json wasm list |
        jq -e --arg d "$digest" 'any(.[]; .digest == $d and .ready)' > /dev/null ||
        fail "$point: not installed after all"
    [ -z "$(find "$state/wasm" -name 'tmp-*')" ] || fail "$point: something was left"
done

# What is damaged is said, and never taken for whole; a second install mends it.
chmod u+w "$state/wasm/$digest/native"
printf 'x' | dd of="$state/wasm/$digest/native" bs=1 seek=4096 conv=notrunc 2> /dev/null
ours --json wasm list | jq -e --arg d "$digest" \
    'any(.[]; .digest == $d and (.ready | not) and (.problem | contains("native")))' > /dev/null ||
    fail "damage is not told"
killed_at wasm.before-publish wasm install --optimisation none "$scratch/m.wasm"
ours wasm install --optimisation none "$scratch/m.wasm" > /dev/null
ours --json wasm list | jq -e 'all(.[]; .ready) and length == 3' > /dev/null || fail "damage stays"
ours wasm remove "$digest"
ours --json wasm list | jq -e 'length == 2' > /dev/null || fail "it was not removed"
code=0
ours wasm remove "$digest" 2> "$scratch/out" || code=$?
[ $code -ne 0 ] || fail "removed twice"
printf '(module (import "env" "reach" (func)))\n' > "$scratch/m.wat"
wat2wasm "$scratch/m.wat" -o "$scratch/m.wasm"
code=0
ours wasm install "$scratch/m.wasm" 2> "$scratch/out" || code=$?
[ $code -ne 0 ] && grep -q 'env\.reach' "$scratch/out" || fail "an import that is not supplied"
echo "ok: 4 crashes"
