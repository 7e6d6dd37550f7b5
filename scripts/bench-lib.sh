# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# What scripts/bench and scripts/bench-growth share: an engine, the two sides, samples, the table and the
# plot. Sourced by bash with $root set and lib.sh loaded.

folder=$(mktemp -d "${TMPDIR:-/tmp}/reposbx-bench.XXXXXX")
folder=$(cd "$folder" && pwd -P)
# ext4 without a journal holds back the inodes that were freed a moment ago, and looks at each of them again for
# every new file (recently_deleted() in the kernel's fs/ext4/ialloc.c): files behind a removal take many times
# as long, on both sides, and what is compared is the file system.
device=$(findmnt -T "$folder" -n -o SOURCE)
if [ "$(findmnt -T "$folder" -n -o FSTYPE)" = ext4 ] &&
    [ -z "$(find /proc/fs/jbd2 -name "${device##*/}-*" 2> /dev/null)" ]; then
    warn "$folder lies on ext4 without a journal, where creating files after removals is slow;" \
        "with TMPDIR on another file system the rows that create files say more"
fi
own_engine=no
open_sessions=()
finish() {
    status=$?
    trap '' INT TERM HUP
    local id
    for id in "${open_sessions[@]}"; do
        "$reposbx" session close "$id" > /dev/null 2>&1 || true
    done
    if [ $own_engine = yes ]; then
        "$root/scripts/engine" stop --purge "$folder/engine" || true
    else
        "${docker[@]}" volume rm -f bench-small bench-large bench-work > /dev/null 2>&1 || true
    fi
    as_root rm -rf "$folder"
    exit $status
}
docker=(false)
reposbx=$root/build-release/cli/reposbx
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

"$root/scripts/deps" --test >&2
configure_and_build "$root/build-release" reposbx -DCMAKE_BUILD_TYPE=Release -DBUILD_TESTING=ON >&2
configure_and_build "$root/build-release" bench_loop -DCMAKE_BUILD_TYPE=Release -DBUILD_TESTING=ON >&2
loop=$root/build-release/tests/bench/bench_loop

if [ -z "${REPOSBX_ENGINE:-}" ] || ! engine_answers "$(socket_path "$REPOSBX_ENGINE")"; then
    own_engine=yes
    REPOSBX_ENGINE=$("$root/scripts/engine" start "$folder/engine")
    REPOSBX_ENGINE=${REPOSBX_ENGINE#REPOSBX_ENGINE=}
fi
export REPOSBX_ENGINE REPOSBX_STATE_DIR="$folder/state"
# The Debian client, with nobody's configuration.
mkdir "$folder/docker"
docker=(env DOCKER_CONFIG="$folder/docker" /usr/bin/docker -H "$REPOSBX_ENGINE")
image=$("$root/scripts/image" "$REPOSBX_ENGINE")
jq --arg image "$image" '.images = [$image] | .require_rootless_runtime = false |
    .session.max_commands = 100000' "$root/policies/issue-bot.json" > "$folder/policy.json"

# The flags of the policy, as a careful person would give them.
# shellcheck disable=SC2054
run=("${docker[@]}" run --rm --pull never --network none --read-only --cap-drop ALL
    --security-opt no-new-privileges --memory 2147483648 --memory-swap 2147483648 --cpus 2
    --pids-limit 256 --ulimit nofile=1024:1024 --ulimit core=0 --ipc private --log-driver none
    --tmpfs /tmp:rw,nosuid,nodev,noexec,size=268435456
    --tmpfs /run:rw,nosuid,nodev,noexec,size=268435456)
as_user=(--user 65532:65532)
# Filling a new volume needs its owner, root; still without capabilities.
as_owner=(--user 0:0 --cap-add CHOWN)

# ---- repositories ----

export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1
commit_all() {
    git -C "$1" add -A
    git -C "$1" -c user.name=bench -c user.email=bench@localhost commit -q -m 'Bench data'
    git -C "$1" repack -adq
}
# make_repository DIR FOLDERS FILES BYTES: the same noise every time.
make_repository() {
    git init -q -b main "$1"
    head -c $(($2 * $3 * $4)) /dev/zero |
        openssl enc -aes-128-ctr -K 000102030405060708090a0b0c0d0e0f -iv 0 2> /dev/null |
        (cd "$1" && split -b "$4" -a 5 -d - f)
    local i
    for i in $(seq -f %03g 0 $(($2 - 1))); do
        mkdir "$1/d$i"
        mv "$1/f$i"?? "$1/d$i/"
    done
    commit_all "$1"
}

# ---- measuring ----

: > "$folder/samples"
# timed CASE SIDE COMMAND …
timed() {
    local case=$1 side=$2 start end
    shift 2
    start=${EPOCHREALTIME/[.,]/}
    "$@" > "$folder/out" 2> "$folder/err" || {
        cat "$folder/err" >&2
        die "$case ($side) failed: $*"
    }
    end=${EPOCHREALTIME/[.,]/}
    awk -v a="$start" -v b="$end" -v c="$case" -v s="$side" \
        'BEGIN { printf "%s\t%s\t%.3f\n", c, s, (b - a) / 1000 }' >> "$folder/samples"
}
# both ROUND CASE OURS THEIRS: two functions, the first one of which changes with the round.
both() {
    if [ $(($1 % 2)) -eq 0 ]; then
        timed "$2" reposbx "$3"
        timed "$2" docker "$4"
    else
        timed "$2" docker "$4"
        timed "$2" reposbx "$3"
    fi
}

our_create() {
    # In the background this must be the command, not a shell that waits for it.
    ${exec_or_not:-} "$reposbx" session create --repo "$repo" --revision "$revision" --image "$image" \
        --policy "$folder/policy.json"
}
their_create() {
    "${docker[@]}" volume create "$volume" > /dev/null
    git -C "$repo" archive "$revision" |
        "${run[@]}" "${as_owner[@]}" -i -v "$volume:/w" "$image" \
            sh -c 'tar -x -f - -C /w && chown -R 65532:65532 /w'
}
# What a create is held against where disks are compared: the files alone, without any engine.
plain_copy() {
    local place
    place=$(mktemp -d "$folder/plain.XXXXXX")
    git -C "$repo" archive "$revision" | tar -x -f - -C "$place"
}
our_close() { "$reposbx" session close "$session"; }
their_close() { "${docker[@]}" volume rm "$volume"; }
there() { "${run[@]}" "${as_user[@]}" -v "$volume:/workspace" -w /workspace "$image" "$@"; }

our_fork() { "$reposbx" session fork "$session"; }
our_close_wait() { "$reposbx" session close --wait "$session"; }
# Until a container of this purpose waits in $session, ten seconds at most.
slot_ready() {
    local try journal=$REPOSBX_STATE_DIR/sessions/$session/journal
    for try in $(seq 200); do
        if [ -n "$(awk -v p="-$1\$" '$2 == "slot" && $3 ~ p { state[$3] = $1 }
            END { for (n in state) if (state[n] == "ready") print n }' "$journal")" ]; then
            return
        fi
        sleep 0.05
    done
    die "no container of the kind $1 waits after $try looks"
}
# slot_cost: what a container that waits in $session takes, of the guest itself and of the engine's process
# beside it: resident KiB, private KiB, and clock ticks over five seconds.
slot_cost() {
    local name pid shim before after
    slot_ready exec
    name=$(awk '$2 == "slot" && $3 ~ /-exec$/ { state[$3] = $1 }
        END { for (n in state) if (state[n] == "ready") print n }' \
        "$REPOSBX_STATE_DIR/sessions/$session/journal" | head -n 1)
    pid=$(engine_call "$(socket_path "$REPOSBX_ENGINE")" GET "/containers/$name/json" | jq .State.Pid)
    shim=$(awk '/^PPid:/ { print $2 }' "/proc/$pid/status")
    before=$(awk '{ print $14 + $15 }' "/proc/$pid/stat")
    sleep 5
    after=$(awk '{ print $14 + $15 }' "/proc/$pid/stat")
    awk -v ticks=$((after - before)) -v own="$(as_root cat "/proc/$pid/smaps_rollup" |
        awk '/^Private/ { sum += $2 } END { print sum }')" '
        /^VmRSS:/ { printf "A container that waits: %d KiB resident (%d private), %d clock ticks in 5 s", $2, own,
            ticks }' "/proc/$pid/status"
    awk '/^VmRSS:/ { printf "; the engine'"'"'s process beside it: %d KiB\n", $2 }' "/proc/$shim/status"
}
# Four calls of the engine, in one process, for a container like a command's.
raw_number=0
raw_calls() {
    local socket name
    socket=$(socket_path "$REPOSBX_ENGINE")
    raw_number=$((raw_number + 1))
    name=bench-raw-$raw_number
    curl --noproxy '*' -q -sS --fail --unix-socket "$socket" -o /dev/null \
        -H 'Content-Type: application/json' -d "$raw_body" "http://engine/containers/create?name=$name" \
        --next --noproxy '*' -sS --fail --unix-socket "$socket" -o /dev/null -X POST \
        "http://engine/containers/$name/start" \
        --next --noproxy '*' -sS --fail --unix-socket "$socket" -o /dev/null -X POST \
        "http://engine/containers/$name/wait" \
        --next --noproxy '*' -sS --fail --unix-socket "$socket" -o /dev/null -X DELETE \
        "http://engine/containers/$name?force=1"
}
raw_body=$(jq -n --arg image "$image" '{Image: $image, Cmd: ["true"], User: "65532:65532",
    HostConfig: {NetworkMode: "none", ReadonlyRootfs: true, CapDrop: ["ALL"], Memory: 2147483648,
    MemorySwap: 2147483648, PidsLimit: 256, NanoCpus: 2000000000, LogConfig: {Type: "none"},
    SecurityOpt: ["no-new-privileges"], IpcMode: "private"}}')
# loop_samples CASE OP COUNT PAUSE_MS: a program that stays, many requests of one session.
loop_samples() {
    "$loop" "$session" "$2" "$3" "$4" | awk -v c="$1" '{ printf "%s\treposbx\t%s\n", c, $1 }' \
        >> "$folder/samples"
}

our_true() { "$reposbx" session exec "$session" -- true; }
their_true() { there true; }
our_read() { "$reposbx" session read "$session" d000/f00000; }
their_read() { there cat d000/f00000; }
our_diff() { "$reposbx" session diff "$session" -o "$scratch/ours.patch"; }
# The files come out by tar, and Git compares them with a checkout that is there already.
their_diff() {
    there tar -c -f - . | tar -x -f - --no-same-owner -C "$scratch/checkout"
    git -C "$scratch/checkout" add -A
    git -C "$scratch/checkout" diff --cached --binary --full-index > "$scratch/theirs.patch"
}
our_artifacts() { "$reposbx" session artifacts "$session" -o "$scratch/ours.zip" "${files[@]}"; }
their_artifacts() {
    there tar -c -f - "${files[@]}" | tar -x -f - --no-same-owner -C "$scratch/files"
    (cd "$scratch/files" && zip -q -X -r "$scratch/theirs.zip" .)
}

started_session() {
    session=$(tail -n 1 "$folder/out")
    case $session in
    sbx-*) open_sessions+=("$session") ;;
    *) die "no session id: $session" ;;
    esac
}
ended_session() {
    local kept=() id
    for id in "${open_sessions[@]}"; do
        [ "$id" = "$session" ] || kept+=("$id")
    done
    open_sessions=("${kept[@]}")
}

# ---- the table ----

print_table() {
    local engine_version
    engine_version=$(engine_call "$(socket_path "$REPOSBX_ENGINE")" GET /version | jq -r .Version)
    say "$(uname -m), $(nproc) processors, kernel $(uname -r), engine $engine_version," \
        "$("$reposbx" version | head -n 1)"
    say
    say '| step | n | reposbx p50 ms | p95 | p99 | plain way p50 ms | p95 | reposbx / plain |'
    say '| --- | --- | --- | --- | --- | --- | --- | --- |'
    sort -t "$(printf '\t')" -k3,3n "$folder/samples" > "$folder/sorted"
    # Rows in the order in which they were measured, samples of each in their size's.
    awk -F '\t' '
        function value(key, share,    n, at) {
            n = count[key]
            if (n == 0)
                return ""
            at = int(share * n)
            if (at < share * n)
                at++
            return list[key, at < 1 ? 1 : at]
        }
        function median(key,    n) {
            n = count[key]
            if (n == 0)
                return ""
            return n % 2 ? list[key, (n + 1) / 2] : (list[key, n / 2] + list[key, n / 2 + 1]) / 2
        }
        function cell(number) { return number == "" ? "" : sprintf("%.1f", number) }
        NR == FNR {
            if (!($1 in seen)) {
                seen[$1] = 1
                order[++rows] = $1
            }
            next
        }
        {
            key = $1 SUBSEP $2
            list[key, ++count[key]] = $3
        }
        END {
            for (i = 1; i <= rows; i++) {
                ours = order[i] SUBSEP "reposbx"
                theirs = order[i] SUBSEP "docker"
                a = median(ours)
                b = median(theirs)
                printf "| %s | %d | %s | %s | %s | %s | %s | %s |\n", order[i],
                    (count[ours] ? count[ours] : count[theirs]), cell(a),
                    cell(value(ours, 0.95)), cell(value(ours, 0.99)), cell(b),
                    cell(value(theirs, 0.95)), a == "" || b == "" ? "" : sprintf("%.2f", a / b)
            }
        }' "$folder/samples" "$folder/sorted"
}

# samples_json [JQ ARGUMENT …] EXTRA: all samples, and what EXTRA (a jq object) adds.
samples_json() {
    jq -R -n "${@:1:$#-1}" '
        [inputs | split("\t") | {step: .[0], side: .[1], ms: (.[2] | tonumber)}] |
        {samples: .} + ('"${*: -1}"')' < "$folder/samples"
}
