#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A machine without wasm2c, without its runtime, without a C compiler: each is told by its name and by the package
# that has it, before anything is compiled, and the store is as it was. What is missing is hidden in a mount
# namespace of the command's own.
# usage: tools.sh REPOSBX
set -eu
reposbx=$1
skip() {
    echo "skipped: $*" >&2
    [ "${REPOSBX_TEST_MUST_RUN:-}" = 1 ] && exit 1
    exit 77
}
for tool in wasm2c wat2wasm cc jq unshare; do
    command -v $tool > /dev/null || skip "$tool is missing"
done
own='unshare --mount'
[ "$(id -u)" -eq 0 ] || own='unshare --user --map-root-user --mount'
$own true 2> /dev/null || skip "no mount namespace can be had here"

scratch=$(mktemp -d "${TMPDIR:-/tmp}/reposbx-wasm.XXXXXX")
trap 'rm -rf "$scratch"' EXIT
fail() {
    echo "FAIL: $*" >&2
    head -c 1000 "$scratch/out" >&2
    exit 1
}
: > "$scratch/no-program"
mkdir "$scratch/no-folder"
printf '(module (memory (export "memory") 1) (func (export "_start")))\n' > "$scratch/m.wat"
wat2wasm "$scratch/m.wat" -o "$scratch/m.wasm"

# without PATH BY WORDS PACKAGE: what stands at PATH is covered by BY.
without() {
    for state in fresh used; do
        rm -rf "$scratch/state"
        cp -a "$scratch/$state" "$scratch/state"
        find "$scratch/state" ! -name lock -type f -exec sha256sum {} + > "$scratch/before"
        code=0
        # shellcheck disable=SC2016
        $own sh -c 'mount --bind "$1" "$2" && shift 2 && exec "$@"' sh "$2" "$1" "$reposbx" --json \
            --state-dir "$scratch/state" wasm install "$scratch/m.wasm" > "$scratch/out" 2>&1 || code=$?
        [ $code -eq 69 ] || fail "without $1: exit code $code"
        grep '^{' "$scratch/out" > /dev/null || fail "without $1: no document"
        sed -n '/^{/,$p' "$scratch/out" | jq -e --arg words "$3" --arg package "$4" '.error |
            .code == "unavailable" and (.message | contains($words)) and
            .hint == "on Debian: apt-get install " + $package' > /dev/null || fail "without $1: another error"
        find "$scratch/state" ! -name lock -type f -exec sha256sum {} + > "$scratch/after"
        cmp "$scratch/before" "$scratch/after" || fail "without $1: the store was changed"
        [ -z "$(find "$scratch/state" -name 'tmp-*')" ] || fail "without $1: something was left"
    done
    rm -rf "$scratch/state"
}
mkdir -m 700 "$scratch/fresh" "$scratch/used"
printf '(module (memory (export "memory") 1) (func (export "_start") nop))\n' > "$scratch/other.wat"
wat2wasm "$scratch/other.wat" -o "$scratch/other.wasm"
"$reposbx" --state-dir "$scratch/used" -q wasm install --optimisation none "$scratch/other.wasm" > "$scratch/out"
without /usr/bin/wasm2c "$scratch/no-program" 'wasm2c' wabt
without /usr/share/wabt/wasm2c "$scratch/no-folder" 'wasm2c' wabt
without "$(readlink -f /usr/bin/cc)" "$scratch/no-program" 'a C compiler (cc)' 'gcc libc6-dev'
# And with all of them there it is installed.
mkdir -m 700 "$scratch/state"
"$reposbx" --state-dir "$scratch/state" -q wasm install --optimisation none "$scratch/m.wasm" > "$scratch/out"
[ "$(cat "$scratch/out")" = "$(sha256sum "$scratch/m.wasm" | cut -d ' ' -f 1)" ] || fail "not installed after all"
echo "ok: 3 tools"
