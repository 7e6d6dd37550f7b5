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
