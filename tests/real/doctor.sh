#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The doctor on a real engine: all is well with the small image, no trial has its way in an image whose
# shell lies, and nothing stays in the engine, also when the doctor is killed. Of Podman the first is asked.
. "$(dirname "$0")/../cli/lib.sh"

[ -n "${REPOSBX_TEST_ENGINE:-}" ] || skip "REPOSBX_TEST_ENGINE is not set"
[ -n "${REPOSBX_TEST_IMAGE_ID:-}" ] || skip "REPOSBX_TEST_IMAGE_ID is not set"
export REPOSBX_STATE_DIR=$scratch/sessions REPOSBX_ENGINE=$REPOSBX_TEST_ENGINE
socket=${REPOSBX_TEST_ENGINE#unix://}
image=
api() {
    local method=$1 path=$2
    shift 2
    curl -s --unix-socket "$socket" -X "$method" "http://engine/v1.41$path" "$@"
}
cleanup() {
    [ -z "$image" ] || api DELETE "/images/$image?force=1" >/dev/null
    "$reposbx" -q --state-dir "$REPOSBX_STATE_DIR/doctor/state" reap >/dev/null 2>&1
    rm -rf "$scratch"
}
trap cleanup EXIT
policy() {
    jq -n --arg image "$1" --argjson rootless "$2" '{version: 1, name: "doctor", images: [$image],
        require_rootless_runtime: $rootless, limits: {memory_bytes: 134217728, pids: 64, cpus: 1.0}}' \
        >"$scratch/policy.json"
}
statuses() { jq -r ".checks[] | select(.status == \"$1\") | .name" "$scratch/out" | xargs; }
# left: containers and volumes of the sessions that the doctor's own state folder has.
left() {
    for id in $(ls "$REPOSBX_STATE_DIR/doctor/state/sessions" 2>/dev/null); do
        api GET "/containers/json?all=1" | jq -r --arg id "$id" '.[].Names[] | select(contains($id))'
        api GET /volumes | jq -r --arg id "$id" '.Volumes // [] | .[].Name | select(contains($id))'
    done
}

policy "$REPOSBX_TEST_IMAGE_ID" false
expect 0 doctor --image "$REPOSBX_TEST_IMAGE_ID" --policy "$scratch/policy.json" --json
is 'failures' "$(statuses fail)" ''
out_json '.ok and (.checks | length) > 40'
for name in session exit_code inside_memory inside_processes inside_processors inside_user inside_network \
    timeout output_limit memory_kill fork_limit survivors workspace nothing_left; do
    out_json "any(.checks[]; .name == \"$name\" and .status == \"pass\")"
done
out_json 'any(.checks[]; .name == "inside_memory" and (.detail | test("^134217728 bytes")))'
is 'no folder is left' "$(ls "$REPOSBX_STATE_DIR" | xargs)" 'sessions'
case $REPOSBX_TEST_ENGINE in
podman*)
    out_json 'any(.checks[]; .name == "podman" and .status == "pass")'
    out_json 'any(.checks[]; .name == "engine_facts" and (.detail | startswith("podman ")))'
    finish
    ;;
esac

# A policy that this engine cannot meet, and an image that is not on the list.
rootless=$(api GET /info | jq '[.SecurityOptions[] | select(. == "name=rootless")] | length > 0')
if [ "$rootless" = false ]; then
    policy "$REPOSBX_TEST_IMAGE_ID" true
    expect 1 doctor --policy "$scratch/policy.json"
    out_has '^fail  rootless  +host: the policy demands a rootless engine'
    out_has '^      hint: point --engine at a rootless'
fi
policy sha256:$(printf '%064d' 0) false
expect 1 doctor --image "$REPOSBX_TEST_IMAGE_ID" --policy "$scratch/policy.json" --json
is 'not listed' "$(statuses fail)" image_listed

# An image whose shell says what it was asked and ends with 0.
mkdir -p "$scratch/image/bin"
printf '#!/bin/busybox echo\n' >"$scratch/image/bin/sh"
chmod 755 "$scratch/image/bin/sh"
container=$(api POST /containers/create -H 'Content-Type: application/json' \
    -d "{\"Image\": \"$REPOSBX_TEST_IMAGE_ID\", \"Cmd\": [\"none\"]}" | jq -r .Id)
tar -C "$scratch/image" --owner 0 --group 0 -c bin/sh |
    api PUT "/containers/$container/archive?path=/" -H 'Content-Type: application/x-tar' --data-binary @-
image=$(api POST "/commit?container=$container" -H 'Content-Type: application/json' -d '{}' | jq -r .Id)
api DELETE "/containers/$container?force=1" >/dev/null
policy "$image" false
expect 1 doctor --image "$image" --policy "$scratch/policy.json" --json
is 'no trial had its way' "$(statuses fail)" \
    'exit_code timeout output_limit memory_kill fork_limit survivors'

# A doctor in the background, in the middle of its trials; $pid.
start_probing() {
    "$reposbx" doctor --image "$REPOSBX_TEST_IMAGE_ID" --policy "$scratch/policy.json" \
        >"$scratch/out" 2>"$scratch/err" </dev/null &
    pid=$!
    for try in $(seq 600); do
        grep -q '^pass  exit_code' "$scratch/out" && break
        sleep 0.1
    done
}

# Killed in the middle: the next one clears up behind it.
policy "$REPOSBX_TEST_IMAGE_ID" false
start_probing
kill -KILL $pid
wait $pid 2>/dev/null
if [ -n "$(left)" ]; then pass; else fail 'the killed one left nothing'; fi
names=$(left)
# An interrupt ends it in order.
start_probing
kill -TERM $pid
wait $pid
is 'interrupted' $? 143
is 'no folder is left then' "$(ls "$REPOSBX_STATE_DIR" | xargs)" 'sessions'
for name in $names; do
    is "$name" "$(api GET /volumes | jq -r --arg n "$name" '.Volumes // [] | .[].Name | select(. == $n)'
        api GET '/containers/json?all=1' | jq -r --arg n "$name" '.[].Names[] | select(. == $n)')" ''
done
finish
