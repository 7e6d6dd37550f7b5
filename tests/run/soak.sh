#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Many mixed jobs while the pool's server is killed again and again: every job has its own right answer or a
# status that says that it is not known, and nothing is left. Not part of the test run: it takes minutes.
# usage: soak.sh REPOSBX [JOBS] [KILLS]
jobs_wanted=${2:-1000} kills=${3:-5}
case $jobs_wanted$kills in
*[!0-9]*) echo "usage: soak.sh REPOSBX [JOBS] [KILLS]" >&2 && exit 64 ;;
esac
. "$(dirname "$0")/lib.sh"

engine=$podman_address
server=
start_server() {
    "$reposbx" --engine "$engine" pool serve --size 3 --policy "$policy" > "$scratch/server" 2>&1 &
    server=$!
    local try
    for try in $(seq 300); do
        "$reposbx" pool status --json > "$scratch/status" 2> /dev/null &&
            [ "$(jq .ready "$scratch/status")" = 3 ] && return
        sleep 0.1
    done
    fail "the server does not come up: $(head -c 300 "$scratch/server")"
}
tell_status() { "$reposbx" pool status --json 2> /dev/null | jq -c 'del(.pid)'; }

# job NUMBER: one line "KIND VERDICT ENGINE WARM" to the results.
job() {
    local n=$1 kind=python language=python text="print($1 * 2)" wanted=$((n * 2)) extra='' out=$scratch/job.$1
    case $((n % 100)) in
    7 | 37 | 77) kind=timeout text='while True: pass' extra='--timeout 1' ;;
    3 | 23 | 43 | 63 | 83) kind=bash language=bash text="echo $((n * 2))" ;;
    13 | 53) kind=node language=node text="console.log($n * 2)" ;;
    esac
    # shellcheck disable=SC2086
    printf '%s\n' "$text" | timeout 100 "$reposbx" --engine "$engine" run --policy "$policy" --json \
        -l $language $extra > "$out" 2>&1
    local code=$?
    if [ $code -eq 75 ]; then
        echo "$kind busy - -"
    elif [ $code -ne 0 ]; then
        echo "$kind error-$code - -"
        head -c 300 "$out" >&2
    elif [ "$(jq -r .status "$out")" = unknown ]; then
        echo "$kind unknown $(jq -r '.engine + " " + (.warm | tostring)' "$out")"
    elif [ $kind = timeout ] && [ "$(jq -r .status "$out")" = timed_out ]; then
        echo "$kind right $(jq -r '.engine + " " + (.warm | tostring)' "$out")"
    elif [ $kind != timeout ] && [ "$(jq -r .stdout "$out")" = "$wanted" ]; then
        echo "$kind right $(jq -r '.engine + " " + (.warm | tostring)' "$out")"
    else
        echo "$kind wrong - -"
        head -c 300 "$out" >&2
    fi
    rm -f "$out"
}
# One of three lines of work.
work() {
    local n
    for n in $(seq "$1" 3 "$jobs_wanted"); do job "$n"; done
}

start_server
for lane in 1 2 3; do work $lane > "$scratch/lane.$lane" & lanes="${lanes:-} $!"; done
for kill in $(seq "$kills"); do
    until [ "$(cat "$scratch"/lane.* | wc -l)" -ge $((kill * jobs_wanted / (kills + 1))) ]; do sleep 0.5; done
    tell_status
    kill -KILL $server
    wait $server 2> /dev/null
    sleep 0.5
    start_server
done
# shellcheck disable=SC2086
wait $lanes
tell_status
expect 0 pool shutdown
wait $server 2> /dev/null
echo 'jobs  kind verdict engine warm'
cat "$scratch"/lane.* | sort | uniq -c
is 'jobs' "$(cat "$scratch"/lane.* | wc -l)" "$jobs_wanted"
is 'wrong answers' "$(cat "$scratch"/lane.* | grep -c 'wrong\|error')" 0
expect 0 reap
nothing_left 100
echo "containers left: $(left | wc -l), lists of the living: $(find "$REPOSBX_STATE_DIR/run/live" -type f | wc -l)"
finish
