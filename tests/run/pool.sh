#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The pool: warm results, its size as the cap, ends that are not good, a server that is killed, and a
# socket that is somebody else's.
. "$(dirname "$0")/lib.sh"

engine=$podman_address
# Nobody serves: an ephemeral container.
run pool status
is 'no server' "$code" 66
ends 0 'print(1)' --json
out_json '(.warm | not) and .stdout == "1\n"'

serve 2
run pool serve --policy "$policy"
is 'a second server' "$code" 75
is 'the socket' "$(stat -c '%a %F' "$REPOSBX_STATE_DIR/run/pool.sock")" '600 socket'
ends 0 'print(1)' --json
out_json '.warm and .engine == "podman" and .stdout == "1\n"'
# Each container is used once: nothing of the job before is there.
ends 0 'open("/tmp/trace", "w").write("x"); import subprocess; subprocess.Popen(["sleep", "1000"])'
for again in 1 2 3; do
    ends 0 'import os; print(os.path.exists("/tmp/trace"), len([p for p in os.listdir("/proc") if p.isdigit()]))' --json
    out_json '.stdout == "False 2\n"'
done
ends 124 'import time; time.sleep(100)' --timeout 1
ends 137 'x = bytearray(10**9); print(len(x))' --timeout 100
ends 66 'print(1)' --input "a=$scratch/not-there"
echo data > "$scratch/input"
until_ready 2
ends 0 'print(open("/tmp/input/a").read(), end="")' --input "a=$scratch/input" --json
out_json '.warm and .stdout == "data\n"'
until_ready 2

# Other limits, another language, another policy: elsewhere.
ends 0 'print(1)' --memory 64m --json
out_json '.warm | not'
ends 0 'echo 1' -l bash --json
out_json '.warm | not'
sed 's/"run-test"/"other"/' "$policy" > "$scratch/other.json"
policy=$scratch/other.json ends 0 'print(1)' --json
out_json '.warm | not'
is 'counts' "$(status '[.size, .resets, .discards, .busy, .failures]')" '[2,6,2,0,0]'
is 'jobs' "$(status '.hits + .misses')" 8

# One more than its size is refused at once.
for job in 1 2; do
    printf 'import time; time.sleep(12)' | "$reposbx" --engine "$engine" run --policy "$policy" &
    jobs_running="${jobs_running:-} $!"
done
tries=0
until [ "$(status .running)" = 2 ] || [ $tries -gt 100 ]; do sleep 0.1; tries=$((tries + 1)); done
before=$(date +%s%N)
ends 75 'print(1)'
err_has 'in use'
took=$((($(date +%s%N) - before) / 1000000))
[ $took -lt 9000 ] && pass || fail "it took $took ms to say that it is busy"
# shellcheck disable=SC2086
wait $jobs_running
is 'busy' "$(status .busy)" 1

# A client that goes away takes its job with it.
printf 'import time; time.sleep(60)' > "$scratch/code"
"$reposbx" --engine "$engine" run --policy "$policy" --timeout 60 < "$scratch/code" &
client=$!
tries=0
until [ "$(status .running)" = 1 ] || [ $tries -gt 100 ]; do sleep 0.1; tries=$((tries + 1)); done
kill -9 $client
tries=0
until [ "$(status .running)" = 0 ] || [ $tries -gt 100 ]; do sleep 0.1; tries=$((tries + 1)); done
is 'jobs of clients that are gone' "$(status .running)" 0

# A container that dies while it waits is not given out.
until_ready 2
# shellcheck disable=SC2046
call_podman kill --signal KILL $(left) > /dev/null
sleep 3 # until podman has noticed
ends 0 'print(1)' --json
out_json '.stdout == "1\n" and .status == "exited"'

# SIGKILL: the next start clears up, and serves.
until_ready 2
kill -9 "$server"
wait "$server" 2> /dev/null
ends 0 'print(1)' --json
out_json '.warm | not'
serve 1
until_ready 1
ends 0 'print(1)' --json
out_json '.warm'
until_ready 1
is 'containers of the dead server' "$(left | wc -l)" 1
run pool shutdown
is 'shutdown' "$code" 0
wait "$server"
is 'the exit code of the server' "$?" 0
server=''
nothing_left 1
is 'files of the living' "$(ls "$REPOSBX_STATE_DIR/run/live")" ''
is 'a socket that is left' "$(ls "$REPOSBX_STATE_DIR/run" | grep -c sock)" 0

# One that has no descriptor left for who waits does not ask for it all the time, and goes on later.
serve 1
until_ready 1
prlimit --pid "$server" --nofile=3:
timeout 3 "$reposbx" pool status > /dev/null 2>&1 &
client=$!
sleep 0.5
ticks() { awk '{ print $14 + $15 }' "/proc/$server/stat"; }
before=$(ticks)
sleep 2
is 'a server that cannot take anybody rests' "$(($(ticks) - before < 100))" 1
wait $client
prlimit --pid "$server" --nofile=1024:
until_status .size 1
# One that is stopped takes no connection when its queue is full; nobody waits for it for ever.
kill -STOP "$server"
perl -MSocket -e '$| = 1; for (1 .. 100) { socket(my $s, PF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
    push @s, $s; connect($s, sockaddr_un($ARGV[0])) or last; } sleep 100' \
    "$REPOSBX_STATE_DIR/run/pool.sock" &
queue=$!
sleep 1
run pool status
is 'status of a server that is stopped' "$code" 69
err_has 'takes no connection'
kill $queue
kill -CONT "$server"
kill -TERM "$server"
wait "$server"
server=''
nothing_left 1

# SIGTERM ends it alike.
serve 1
kill -TERM "$server"
wait "$server"
is 'the exit code after SIGTERM' "$?" 0
server=''
nothing_left 1

# A socket that is somebody else's is refused by name.
if [ "$(id -u)" -eq 0 ]; then
    touch "$REPOSBX_STATE_DIR/run/pool.sock"
    ends 77 'print(1)'
    err_has 'pool.sock is no socket'
    rm "$REPOSBX_STATE_DIR/run/pool.sock"
    perl -MSocket -e 'socket(S, PF_UNIX, SOCK_STREAM, 0); bind(S, sockaddr_un($ARGV[0])) or die' \
        "$REPOSBX_STATE_DIR/run/pool.sock"
    chown 65534 "$REPOSBX_STATE_DIR/run/pool.sock"
    ends 77 'print(1)'
    err_has 'not ours: it belongs to user 65534'
    run pool status
    is 'status at a foreign socket' "$code" 77
    run --engine "$engine" pool serve --policy "$policy"
    is 'a server at a foreign socket' "$code" 77
    nothing_left 1
fi
finish
