#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Hostile input E3, E8, C5 and C10 by command line: two controllers on one session, many on one engine, what
# becomes of environment values, an engine that is stopped or killed under a running command, sockets that
# are no engine.
# usage: test_e_controllers.sh REPOSBX ENGINE_SCRIPT IMAGE_SCRIPT
#        $REPOSBX_TEST_CONTROLLERS: how many at once (20)
reposbx=${1:?the path of reposbx is missing}
engine_script=${2:?the path of scripts/engine is missing}
image_script=${3:?the path of scripts/image is missing}
. "$(dirname "$0")/session_lib.sh"
controllers=${REPOSBX_TEST_CONTROLLERS:-20}

# hold ID ARGV…: a command that runs in the background until told otherwise; its controller is $holder.
hold() {
    local one=$1
    shift
    : > "$scratch/hold.out" # an earlier one's word is not this one's
    "$reposbx" session exec "$one" "$@" -- sh -c 'echo alive; while :; do echo x >> beat; sleep 0.1; done' \
        > "$scratch/hold.out" 2> "$scratch/hold.err" &
    holder=$!
    within 60 grep -q alive "$scratch/hold.out" || fail "the command does not run"
}

# ---- E3: one session, two controllers ----
new_session
one=$id
hold "$one"
for words in "exec $one -- true" "diff $one" "read $one unique" "close $one"; do
    # shellcheck disable=SC2086
    expect 75 session $words
done
run session exec "$one" --json -- true
is "the second controller's answer" "$(jq -r .error.code "$scratch/out")" busy
expect 0 session show "$one" --json
expect 0 reap --json
if grep -q "$one" "$scratch/out"; then fail "reap touches a session that is in use"; else pass; fi
kill -KILL $holder
wait $holder 2> /dev/null
quiet() {
    run session exec "$one" -- sh -c 'a=$(stat -c %s beat); sleep 1; test "$a" = "$(stat -c %s beat)"'
    [ "$code" -eq 0 ]
}
if within 3 quiet; then pass; else fail "the killed controller's command goes on: exit $code"; fi
expect 0 reap --json
expect 0 session close "$one"
is "left of the session whose holder was killed" "$(left "$one")" ''
is "its log" "$("$reposbx" audit verify "$one" --json | jq -r .verdict)" whole

# ---- E3: many controllers on one engine ----
controller() {
    local me=$1 mine
    mine=$("$reposbx" "${create[@]}" 2> "$scratch/many.$me.err") || return 10
    echo "$mine" > "$scratch/many.$me.id"
    "$reposbx" session exec "$mine" -e NUMBER="$me" -- sh -c 'echo "$NUMBER" > me; cat me' \
        > "$scratch/many.$me.out" 2>> "$scratch/many.$me.err" || return 11
    [ "$(cat "$scratch/many.$me.out")" = "$me" ] || return 12
    "$reposbx" session diff "$mine" -q -o "$scratch/many.$me.patch" 2>> "$scratch/many.$me.err" || return 13
    grep -qx "+$me" "$scratch/many.$me.patch" || return 14
    "$reposbx" session close "$mine" 2>> "$scratch/many.$me.err" || return 15
}
workers=()
for number in $(seq "$controllers"); do
    controller "$number" &
    workers+=($!)
done
number=0
for worker in "${workers[@]}"; do
    number=$((number + 1))
    wait "$worker"
    code=$?
    if [ $code -eq 0 ]; then
        pass
    else
        fail "controller $number of $controllers: step $code: $(head -c 300 "$scratch/many.$number.err")"
    fi
done
for file in "$scratch"/many.*.id; do
    is "left of $(cat "$file")" "$(left "$(cat "$file")")" ''
done

# ---- E8: a value of the environment is nowhere but in the command ----
new_session
one=$id
value=v$(od -An -N12 -tx1 /dev/urandom | tr -d ' \n')
hold "$one" -e "PLAIN_VALUE=$value"
# Command lines with the value. The controller has it on its own, as the caller wrote it there, and so do its
# children while they live.
seen() {
    local process line
    for process in /proc/[0-9]*; do
        line=$(tr '\0' ' ' 2> /dev/null < "$process/cmdline") 2> /dev/null
        case $line in
        "$reposbx session exec "*"$value"*) [ "${1:-}" = all ] && echo "$line" ;;
        *"$value"*) echo "$line" ;;
        esac
    done
}
is "command lines that show the value" "$(seen)" ''
engine_names "$ENGINE" | grep -F "${one#sbx-}" | while read -r name; do
    curl --noproxy '*' -q -sS --unix-socket "${ENGINE#unix://}" "http://engine/v1.41/containers/$name/json"
    curl --noproxy '*' -q -sS --unix-socket "${ENGINE#unix://}" "http://engine/v1.41/volumes/$name"
done > "$scratch/inspected"
if grep -q '"Config"' "$scratch/inspected"; then pass; else fail "no container was inspected"; fi
is "inspections that show the value" "$(grep -cF "$value" "$scratch/inspected")" 0
kill -TERM $holder
wait $holder
unseen() { [ -z "$(seen all)" ]; }
if within 10 unseen; then pass; else fail "a process keeps the value: $(seen all)"; fi
run session exec "$one" -e "PLAIN_VALUE=$value" --json -- sh -c 'test ${#PLAIN_VALUE} -eq 25'
is "the command has it" "$(jq -r .exit_code "$scratch/out")" 0
is "the result shows it" "$(grep -cF "$value" "$scratch/out" "$scratch/err" | grep -cv ':0$')" 0
for words in "-e MY_SECRET=$value" "-e 1BAD=$value" "-e PLAIN=$value -w nowhere" \
    "-e PLAIN=$value --memory 999999999999"; do
    # shellcheck disable=SC2086
    run session exec "$one" $words --json -- true
    if [ "$code" -ne 0 ]; then pass; else fail "taken: ${words%%=*}"; fi
    is "a refusal shows it" "$(grep -cF "$value" "$scratch/out" "$scratch/err" | grep -cv ':0$')" 0
done
run session log "$one" --json
is "the log shows it" "$(grep -cF "$value" "$scratch/out")" 0
is "files that show it" "$(grep -rlF "$value" "$REPOSBX_STATE_DIR")" ''
expect 0 session close "$one"

# ---- C10: sockets that are no engine ----
# unavailable ENGINE WHAT: exit code 69 and a hint.
unavailable() {
    run --engine "$1" "${create[@]}"
    is "$2: exit code" "$code" 69
    run --engine "$1" --json "${create[@]}"
    is "$2: in words" "$(jq -r '.error.code, (.error.hint | length > 0)' "$scratch/out" | xargs)" \
        'unavailable true'
}
unavailable "unix://$scratch/no.sock" "a missing socket"
printf x > "$scratch/file.sock"
unavailable "unix://$scratch/file.sock" "a regular file"
mkdir "$scratch/folder.sock"
unavailable "unix://$scratch/folder.sock" "a folder"
ln -s "$scratch/no.sock" "$scratch/dangling.sock"
unavailable "unix://$scratch/dangling.sock" "a dangling link"
if command -v perl > /dev/null; then
    perl -MSocket -e 'socket(my $s, PF_UNIX, SOCK_STREAM, 0); bind($s, pack_sockaddr_un($ARGV[0])) or die' \
        "$scratch/stale.sock"
    unavailable "unix://$scratch/stale.sock" "a socket that nobody serves"
fi
# Somebody without rights on the socket. The program must be where he can run it.
if [ "$(id -u)" -eq 0 ] && command -v setpriv > /dev/null &&
    setpriv --reuid 54321 --regid 54321 --clear-groups "$reposbx" version > /dev/null 2>&1; then
    mkdir "$scratch/other"
    cp "$policy" "$scratch/other/policy.json"
    git -c safe.directory='*' clone -q "$repo" "$scratch/other/repo"
    chown -R 54321:54321 "$scratch/other"
    chmod 711 "$scratch"
    setpriv --reuid 54321 --regid 54321 --clear-groups env REPOSBX_STATE_DIR="$scratch/other/state" \
        "$reposbx" --json session create --repo "$scratch/other/repo" --revision "$head" \
        --image "$IMAGE" --policy "$scratch/other/policy.json" > "$scratch/out" 2> "$scratch/err"
    is "no permission: exit code" $? 69
    is "no permission: in words" "$(jq -r '.error.code, (.error.hint | length > 0)' "$scratch/out" | xargs)" \
        'unavailable true'
fi
expect 64 --engine tcp://127.0.0.1:1 "${create[@]}"

as_root() { if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo -n "$@"; fi; }

# ---- E5: a disk on which no file can be made any more; what a creation made goes all the same ----
full=$scratch/full
mkdir "$full"
if as_root mount -t tmpfs -o "size=1m,mode=700,uid=$(id -u)" reposbx-full "$full" 2> /dev/null; then
    for files in 12 14 16 18; do
        as_root mount -o "remount,size=1m,nr_inodes=$files" "$full"
        run --state-dir "$full/$files" "${create[@]}"
        is "a create with $files files" "$code" 74
        is "sessions left with $files files" "$(ls "$full/$files/sessions")" ''
        rm -rf "${full:?}/$files"
    done
    as_root umount "$full"
fi

# ---- C5: the engine goes away under a command ----
if [ "$(id -u)" -ne 0 ] && ! sudo -n true 2> /dev/null; then
    skip "an engine of its own needs root"
fi
own=$scratch/engine
stop_own() {
    "$engine_script" stop --purge "$own" > /dev/null 2>&1
    sweep
}
trap stop_own EXIT
start_own() { "$engine_script" start "$own" > "$scratch/own" 2> "$scratch/err" || fail "no engine starts"; }
start_own
REPOSBX_ENGINE=$(sed 's/^REPOSBX_ENGINE=//' "$scratch/own")
REPOSBX_STATE_DIR=$scratch/own-state
export REPOSBX_ENGINE REPOSBX_STATE_DIR
"$image_script" "$REPOSBX_ENGINE" > "$scratch/image" || fail "no image"
is "the image has the same id everywhere" "$(cat "$scratch/image")" "$IMAGE"

# lost HOW COMMAND…: the engine ends like this while a command runs that would end with 0.
lost() {
    local how=$1 status
    shift
    new_session
    "$reposbx" session exec "$id" --json -- sh -c 'touch runs; sleep 20; exit 0' > "$scratch/lost" \
        2> "$scratch/lost.err" &
    holder=$!
    within 60 workspace_has runs || fail "$how: the command does not run"
    "$@"
    within 60 ended $holder || fail "$how: the controller hangs"
    wait $holder
    code=$?
    status=$(jq -r '.status // ("error " + .error.code)' "$scratch/lost" 2> /dev/null)
    # The sandbox itself did not work, so the exit code says so although the result is a document.
    case $code:$status in
    69:* | 74:* | 76:unknown | 76:error*) pass ;;
    *) fail "$how: exit $code, '$status': $(head -c 300 "$scratch/lost.err")" ;;
    esac
    if [ "$(jq -r '.exit_code // "none"' "$scratch/lost" 2> /dev/null)" = none ]; then
        pass
    else
        fail "$how: an exit code is told: $(cat "$scratch/lost")"
    fi
    echo "$how: exit $code, $status"
    start_own
    run session close "$id"
    [ "$code" -eq 0 ] || echo "$how: close: exit $code: $(head -n 1 "$scratch/err")"
    expect 0 reap --json
    is "$how: left on the engine" "$(engine_names "$REPOSBX_ENGINE")" ''
    case $("$reposbx" audit verify "$id" --json | jq -r .verdict) in
    whole | open | torn) pass ;;
    *) fail "$how: the log looks tampered with" ;;
    esac
}
# The session is locked by the command, so its volume is looked at from outside.
workspace_has() { as_root find "$own/data" -name "$1" -path '*sbx-*' | grep -q .; }
ended() { ! kill -0 "$1" 2> /dev/null; }
kill_engine() { as_root kill -KILL "$(as_root cat "$own/pid")"; }
lost "killed" kill_engine
lost "stopped" "$engine_script" stop "$own"
finish
