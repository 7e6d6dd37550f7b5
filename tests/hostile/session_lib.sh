# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# What the hostile scripts share: a scratch folder with a repository, a policy and a state folder, counted
# checks, questions to the engine. Sourced with the program's path in $reposbx.

set -u
checks=0
failures=0
ENGINE=${REPOSBX_TEST_ENGINE:-}
IMAGE=${REPOSBX_TEST_IMAGE_ID:-}

# Ends the test as not run; where tests must run that is a failure.
skip() {
    echo "skipped: $*" >&2
    [ "${REPOSBX_TEST_MUST_RUN:-}" = 1 ] && exit 1
    exit 77
}

[ -n "$ENGINE" ] || skip "REPOSBX_TEST_ENGINE is not set"
[ -n "$IMAGE" ] || skip "REPOSBX_TEST_IMAGE_ID is not set"
for tool in jq git curl; do
    command -v $tool > /dev/null || skip "$tool is missing"
done

scratch=$(mktemp -d "${TMPDIR:-/tmp}/reposbx-hostile.XXXXXX") || exit 1
export XDG_STATE_HOME=$scratch/xdg HOME=$scratch/home LC_ALL=C.UTF-8
export REPOSBX_STATE_DIR=$scratch/state REPOSBX_ENGINE=$ENGINE
export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_SYSTEM=/dev/null
mkdir -p "$HOME"

pass() { checks=$((checks + 1)); }
fail() {
    checks=$((checks + 1))
    failures=$((failures + 1))
    echo "FAIL: $*" >&2
    if [ -s "$scratch/err" ]; then head -c 500 "$scratch/err" | sed 's/^/    /' >&2; fi
}
# is TITLE GOT WANTED
is() { if [ "$2" = "$3" ]; then pass; else fail "$1: '$2', wanted '$3'"; fi; }

# run ARGV…: streams to $scratch/out and $scratch/err, exit code to $code. Nothing may take minutes.
run() {
    {
        timeout -k 5 120 "$reposbx" "$@" > "$scratch/out" 2> "$scratch/err" < "${input:-/dev/null}"
        code=$?
    } 2> /dev/null
}
# expect CODE ARGV…
expect() {
    local wanted=$1
    shift
    run "$@"
    if [ "$code" -eq "$wanted" ]; then pass; else fail "exit $code, wanted $wanted: reposbx $*"; fi
}

# within SECONDS COMMAND…: polls until it answers 0.
within() {
    local tries=$(($1 * 10))
    shift
    until "$@"; do
        tries=$((tries - 1))
        [ $tries -gt 0 ] || return 1
        sleep 0.1
    done
}

# Names of all containers and volumes of an engine's socket, one a line.
engine_names() {
    curl --noproxy '*' -q -sS --max-time 30 --unix-socket "${1#unix://}" \
        'http://engine/v1.41/containers/json?all=1' http://engine/v1.41/volumes |
        jq -r 'if type == "array" then .[].Names[] | ltrimstr("/") else .Volumes // [] | .[].Name end'
}
# "NAME OWNER" of all volumes that belong to a session.
engine_owners() {
    curl --noproxy '*' -q -sS --max-time 30 --unix-socket "${1#unix://}" http://engine/v1.41/volumes |
        jq -r '.Volumes // [] | .[] | select(.Labels["reposbx.session"] != null)
            | .Name + " " + .Labels["reposbx.session"]'
}
# left ID…: what these sessions have on the engine.
left() {
    local id
    engine_names "$ENGINE" > "$scratch/names"
    for id in "$@"; do grep -F -- "${id#sbx-}" "$scratch/names"; done
}

# ---- a repository and a policy ----
repo=$scratch/repo
git -c init.defaultBranch=main init -q "$repo"
mkdir -p "$repo/src"
printf 'one\ntwo\n' > "$repo/src/text.txt"
printf '%s\n' "$scratch" > "$repo/unique"
git -C "$repo" add -A
git -C "$repo" -c user.name=t -c user.email=t@example.org commit -q -m one
head=$(git -C "$repo" rev-parse HEAD)
policy=$scratch/policy.json
jq -n --arg image "$IMAGE" '{version: 1, name: "hostile", images: [$image],
    require_rootless_runtime: false, limits: {memory_bytes: 134217728, pids: 64, cpus: 1.0,
    command_timeout_seconds: 7200, audit_log_bytes: 1048576}}' > "$policy"
create=(session create --repo "$repo" --revision "$head" --image "$IMAGE" --policy "$policy")

# new_session: its id in $id; ends the test when there is none.
new_session() {
    run "${create[@]}"
    id=$(cat "$scratch/out")
    if [ "$code" -ne 0 ]; then
        fail "create: exit $code"
        finish
    fi
    sessions+=("$id")
}
sessions=()

# Whatever happens, nothing stays on the engine.
sweep() {
    local folder
    trap '' INT TERM
    for job in $(jobs -p); do kill -KILL "$job" 2> /dev/null; done
    wait 2> /dev/null
    export REPOSBX_STATE_DIR=$scratch/state REPOSBX_ENGINE=$ENGINE
    for REPOSBX_STATE_DIR in "$scratch/state" "$scratch/bystanders"; do
        for folder in "$REPOSBX_STATE_DIR"/sessions/sbx-*; do
            [ -d "$folder" ] && timeout 60 "$reposbx" -q session close "${folder##*/}" > /dev/null 2>&1
        done
        [ -d "$REPOSBX_STATE_DIR" ] && timeout 60 "$reposbx" -q reap > /dev/null 2>&1
    done
    rm -rf "$scratch"
}
trap sweep EXIT
trap 'exit 130' INT TERM

finish() {
    echo "$checks checks, $failures failures"
    [ "$checks" -gt 0 ] && [ "$failures" -eq 0 ]
    exit
}
