#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# How long until the result of print(1) is there: in a waiting container, in one that is made for it, and
# with a bare `podman run` with the same flags. Interleaved, so that all see the same machine; medians, and
# the fastest in brackets, in milliseconds. usage: measure.sh REPOSBX [ROUNDS]
rounds=${2:-15}
. "$(dirname "$0")/lib.sh"

engine=$podman_address
now() { date +%s%N; }
# first_line ROW COMMAND…: until its first line of output, and until its end.
first_line() {
    local row=$1 start first line
    shift
    start=$(now)
    {
        IFS= read -r line
        first=$(now)
        cat > /dev/null
    } < <("$@" < "$scratch/code")
    wait "$!"
    [ "$line" = 1 ] || fail "$row printed '$line'"
    printf '%s\n' $(((first - start) / 1000)) >> "$scratch/$row.result"
    printf '%s\n' $((($(now) - start) / 1000)) >> "$scratch/$row.end"
}
median() {
    sort -n "$1" | awk '{ v[NR] = $1 } END { printf "%.1f (%.1f)", v[int((NR + 1) / 2)] / 1000, v[1] / 1000 }'
}

printf 'print(1)\n' > "$scratch/code"
code 'print(1)' # makes the image
made=$(jq -r .image_id "$REPOSBX_STATE_DIR"/run/images/????*)
bare=(call_podman run --rm --interactive --pull=never --network=none --read-only --read-only-tmpfs=false
    --cap-drop=ALL --security-opt=no-new-privileges --user=65534:65534 --ipc=private --cgroupns=private
    --memory=268435456 --memory-swap=268435456 --cpus=1 --pids-limit=128 --ulimit=nofile=1024:1024
    --ulimit=nproc=1024:1024 --ulimit=core=0:0 --tmpfs=/tmp:rw,nosuid,nodev,noexec,size=67108864,notmpcopyup
    --tmpfs=/run:rw,nosuid,nodev,noexec,size=6710886,notmpcopyup --unsetenv-all --http-proxy=false
    --image-volume=ignore --hostname=sandbox --no-hosts --passwd=false --no-healthcheck --systemd=false
    --sdnotify=ignore --log-driver=none --restart=no --stop-timeout=0 --env=PATH=/usr/bin:/bin
    --workdir=/ --entrypoint=python3 "$made" -)
"$reposbx" --engine "$engine" pool serve --size 2 --policy "$policy" > "$scratch/server" 2>&1 &
server=$!
until grep -q serving "$scratch/server"; do sleep 0.2; done
for round in $(seq "$rounds"); do
    until [ "$("$reposbx" pool status --json | jq .ready)" = 2 ]; do sleep 0.2; done
    first_line warm "$reposbx" --engine "$engine" run --policy "$policy"
    until [ "$("$reposbx" pool status --json | jq .ready)" = 2 ]; do sleep 0.2; done
    first_line ephemeral "$reposbx" --engine "$engine" run --policy "$policy" --memory 255m
    first_line bare "${bare[@]}"
done
for row in warm ephemeral bare; do
    printf '%-10s result %16s ms   end %16s ms\n' "$row" "$(median "$scratch/$row.result")" \
        "$(median "$scratch/$row.end")"
done
"$reposbx" pool status --json
"$reposbx" pool shutdown
wait "$server"
nothing_left
finish
