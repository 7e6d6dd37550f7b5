# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# What the tests of one-shot code share, on top of the command line's helpers: two engines, an image with
# python, bash and node in it, a policy that allows it. REPOSBX_TEST_PODMAN is podman's address,
# REPOSBX_TEST_LANGUAGES_ID the image's id on both engines.
. "$(dirname "$0")/../cli/lib.sh"

podman_address=${REPOSBX_TEST_PODMAN:-}
docker_address=${REPOSBX_TEST_ENGINE:-}
image=${REPOSBX_TEST_LANGUAGES_ID:-}
[ -n "$podman_address" ] || skip "REPOSBX_TEST_PODMAN is not set"
[ -n "$docker_address" ] || skip "REPOSBX_TEST_ENGINE is not set"
[ -n "$image" ] || skip "REPOSBX_TEST_LANGUAGES_ID is not set"
export REPOSBX_STATE_DIR=$scratch/state

# Rootful engines, and a runtime that knows this machine's cgroups.
policy=$scratch/policy.json
cat > "$policy" << P
{ "version": 1, "name": "run-test", "images": ["$image"],
  "require_rootless_runtime": false, "require_source_revision": false,
  "run": { "python": "$image", "bash": "$image", "node": "$image", "wasm": "never" },
  "limits": { "cpus": 1.0, "memory_bytes": 268435456, "pids": 128, "command_timeout_seconds": 120.0,
              "audit_log_bytes": 262144, "tmpfs_bytes": 67108864 } }
P

# policy_says WORD: what run.wasm is.
policy_says() {
    jq --arg word "$1" '.run.wasm = $word' "$policy" > "$policy.new" && mv "$policy.new" "$policy"
}
# have_python STATE: gives this test's state folder the CPython that a state folder has installed.
have_python() {
    local from=${REPOSBX_TEST_WASM_STATE:-$1}
    [ -d "$from/wasm" ] || skip "no CPython is installed in ${from:-the folder of REPOSBX_TEST_WASM_STATE}"
    mkdir -m 700 "$REPOSBX_STATE_DIR"
    cp -a "$from/wasm" "$REPOSBX_STATE_DIR/wasm"
}

# code CODE ARGV…: reposbx run with the code on stdin; streams and exit code as of `run`.
code() {
    local text=$1
    shift
    printf '%s' "$text" > "$scratch/code"
    timeout -k 5 120 "$reposbx" --engine "$engine" run --policy "$policy" "$@" \
        > "$scratch/out" 2> "$scratch/err" < "$scratch/code"
    code=$?
}
# ends CODE TEXT ARGV…
ends() {
    local wanted=$1
    shift
    code "$@"
    if [ "$code" -eq "$wanted" ]; then pass; else fail "exit $code, wanted $wanted: $1"; fi
}

podman_flags() {
    case $podman_address in
    *\?*) printf '%s' "${podman_address#*\?}" | tr '&' '\n' | sed 's/^/--/' ;;
    esac
}
call_podman() {
    local program=${podman_address#podman}
    program=${program%%\?*}
    program=${program#:}
    mapfile -t flags < <(podman_flags)
    "${program:-podman}" "${flags[@]}" "$@"
}

# left: names of our containers on either engine.
left() {
    call_podman ps -a --format '{{.Names}}' | grep '^reposbx-run-'
    curl -qsS --noproxy '*' --unix-socket "${docker_address#unix://}" 'http://engine/containers/json?all=1' |
        jq -r '.[].Names[0] | ltrimstr("/") | select(startswith("reposbx-run-"))'
}
# Nothing is left; what ends by itself is given a moment.
nothing_left() {
    local tries=0
    while [ -n "$(left)" ] && [ $tries -lt "${1:-50}" ]; do
        sleep 0.2
        tries=$((tries + 1))
    done
    is 'containers that are left' "$(left)" ''
}

# ---- a pool ----

server=''
stop_server() { [ -z "$server" ] || kill -9 "$server" 2> /dev/null; }
trap 'stop_server; rm -rf "$scratch"' EXIT

# serve SIZE: starts a server of $engine and waits until it serves.
serve() {
    : > "$scratch/server" # not the words of the one before
    "$reposbx" --engine "$engine" pool serve --size "$1" --policy "$policy" > "$scratch/server" 2>&1 &
    server=$!
    local tries=0
    until grep -q serving "$scratch/server"; do
        sleep 0.1
        tries=$((tries + 1))
        if [ $tries -gt 600 ] || ! kill -0 "$server" 2> /dev/null; then
            fail "the server does not start: $(cat "$scratch/server")"
            finish
        fi
    done
}
status() { "$reposbx" pool status --json | jq -c "$1"; }
# until_status FILTER WANTED: what the server says of itself, within thirty seconds.
until_status() {
    local tries=0
    until [ "$(status "$1")" = "$2" ] || [ $tries -gt 300 ]; do
        sleep 0.1
        tries=$((tries + 1))
    done
    is "the pool's $1" "$(status "$1")" "$2"
}
until_ready() { until_status .ready "$1"; }
