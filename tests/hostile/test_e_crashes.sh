#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Hostile input E1 and E2: the controller is killed (SIGKILL) at every point of every command that changes
# something, at the first, the second and the last passing of each point. After `reap` nothing may be left
# of what is not a ready session, what is ready must work and close, no file may stand in the state folder
# that has no business there, no log may look tampered with, and somebody else's session must not notice.
# usage: test_e_crashes.sh [COMMAND…]   $REPOSBX_TEST_FAULT_CLI is reposbx-fault (tests/fault);
#                                       $REPOSBX_TEST_CRASHES=all tries every passing (slow)
if [ -z "${REPOSBX_TEST_FAULT_CLI:-}" ]; then
    echo "skipped: REPOSBX_TEST_FAULT_CLI is not set" >&2
    [ "${REPOSBX_TEST_MUST_RUN:-}" = 1 ] && exit 1
    exit 77
fi
reposbx=$REPOSBX_TEST_FAULT_CLI
. "$(dirname "$0")/session_lib.sh"

# left_by ID: what the last look at the engine showed of it.
left_by() { grep -F -- "${1#sbx-}" "$scratch/names"; }

out=$scratch/output
mkdir "$out"
printf 'written\n' > "$scratch/input"
sed -i 's/two/zwei/' "$repo/src/text.txt"
git -C "$repo" diff > "$scratch/patch"
git -C "$repo" checkout -q -- src
table=$scratch/table
: > "$table"

# The commands under test; $id is the session.
act() {
    input=/dev/null
    case $1 in
    create | create-known) run "${create[@]}" ;;
    exec) run session exec "$id" -- sh -c 'echo out; echo err >&2; echo x >> grown' ;;
    write)
        input=$scratch/input
        run session write "$id" some/new/file --parents
        ;;
    read) run session read "$id" src/text.txt ;;
    diff) run session diff "$id" -o "$out/a.patch" ;;
    artifacts) run session artifacts "$id" -o "$out/a.zip" src unique ;;
    close) run session close "$id" ;;
    fork) run session fork "$id" ;;
    validate) run validate "${create[@]:2}" --patch "$scratch/patch" -- grep -q zwei src/text.txt ;;
    reap) run reap ;;
    esac
    input=/dev/null
}

# before COMMAND: a session as the command wants it. Most go on with the one of the last round.
before() {
    case $1 in
    create | validate) id= ;;
    reap)
        # Something to reap: a create that died in the middle.
        REPOSBX_FAULT=create.filled run "${create[@]}"
        id=
        ;;
    *) [ -n "$id" ] || new_session ;;
    esac
    rm -f "$out"/*
}

# shared_left: what is there of stores that the sessions so far have made and shared, and their folders.
shared_left() {
    local one
    engine_owners "$ENGINE" > "$scratch/owners"
    for one in "${!finished[@]}"; do grep -F -- " $one" "$scratch/owners"; done
    ls "$REPOSBX_STATE_DIR/shared"
}

# points COMMAND: "name count" of every point that it passes.
points() {
    before "$1"
    rm -f "$scratch/log" "$scratch/points"
    REPOSBX_FAULT=all REPOSBX_FAULT_LOG=$scratch/log act "$1"
    if [ "$code" -ne 0 ]; then fail "$1 does not work undisturbed: exit $code"; fi
    case $1 in
    create | create-known | fork)
        expect 0 session close "$(cat "$scratch/out")"
        ;;
    close) id= ;;
    esac
    # What a validation passes on its way to the workspace and from there, other commands pass as well.
    if [ "$1" = validate ]; then sed -i '/^place\./!d' "$scratch/log"; fi
    [ -s "$scratch/log" ] && LC_ALL=C sort "$scratch/log" | uniq -c | while read -r count name; do
        echo "$name $count"
    done > "$scratch/points"
}

# Names in the state folder that have no business there.
allowed='^\./(sessions|shared)$'
allowed+='|^\./shared/(guest1|base2)-[0-9a-f]+-[0-9a-f]+(/(lock|record\.json|manifest|sbx-[0-9a-f]{32}))?$'
allowed+='|^\./sessions/sbx-[0-9a-f]{32}(/(audit|journal|keepers|lock|manifest|metadata\.json|spec\.json'
allowed+='|audit/(events\.jsonl|head\.json|streams|streams/cmd-[0-9]+\.(stdout|stderr))))?$'
strangers() {
    (cd "$REPOSBX_STATE_DIR" && find . -mindepth 1 | grep -Ev "$allowed")
    find "$out" -mindepth 1 ! -name a.zip ! -name a.patch
}

# whole WHAT: the state of things after a crash and a reap.
whole() {
    local what=$1 folder one state verdict
    run reap --json
    if [ "$code" -ne 0 ]; then fail "$what: reap: exit $code: $(head -c 400 "$scratch/out")"; fi
    is "$what: what reap could not remove" "$(jq -r .failed "$scratch/out" 2>&1)" 0
    is "$what: strange files" "$(strangers)" ''
    for folder in "$REPOSBX_STATE_DIR"/sessions/sbx-*; do
        one=${folder##*/}
        if [ -z "${finished[$one]:-}" ]; then known[$one]=1; fi
    done
    engine_names "$ENGINE" > "$scratch/names"
    for one in "${!known[@]}"; do
        state=gone
        if [ -d "$REPOSBX_STATE_DIR/sessions/$one" ]; then
            read -r verdict state < <({
                "$reposbx" audit verify "$one" --json
                "$reposbx" session show "$one" --json
            } 2> /dev/null | jq -rj '.verdict // empty, " ", (.state // empty)')
            case $verdict in
            whole | open | torn) pass ;;
            *) fail "$what: the log of $one: '$verdict'" ;;
            esac
        fi
        if [ "$state" = ready ] && [ "$one" = "$id" ]; then
            continue
        elif [ "$state" = ready ]; then
            # Made in full, but its id was never told: it works and closes.
            expect 0 session exec "$one" -- grep -q one src/text.txt
            expect 0 session close "$one"
            engine_names "$ENGINE" > "$scratch/names"
        fi
        is "$what: left of $one, which was ${state:-without metadata}" "$(left_by "$one")" ''
        unset "known[$one]"
        finished[$one]=1
    done
    # What the sessions shared is gone with the last of them.
    if [ ${#known[@]} -eq 0 ]; then
        is "$what: shared stores" "$(shared_left)" ''
    fi
}
declare -A known finished

# usable WHAT: the session that survived a crash works, or is closed without a rest.
usable() {
    local what=$1
    [ -n "$id" ] || return
    run session exec "$id" -- grep -q one src/text.txt
    case $code in
    0) pass ;;
    78)
        poisoned=$((poisoned + 1))
        expect 0 session close "$id"
        is "$what: left of the poisoned" "$(left "$id")" ''
        id=
        ;;
    *)
        fail "$what: the session neither works nor says that it is poisoned: exit $code"
        run session close "$id"
        id=
        ;;
    esac
}

# A published bundle is a whole one.
published() {
    if [ -e "$out/a.zip" ]; then expect 0 artifact verify "$out/a.zip"; fi
}

# passings COUNT: which ones are tried.
passings() {
    if [ "${REPOSBX_TEST_CRASHES:-}" = all ]; then
        seq "$1"
    else
        printf '%s\n' 1 2 "$1" | awk -v n="$1" '$1 <= n && !seen[$1]++'
    fi
}

crash() {
    local command=$1 name count nth tried=0 died=0
    poisoned=0
    points "$command"
    if [ ! -s "$scratch/points" ]; then
        fail "$command passes no point"
        return
    fi
    while read -r name count <&9; do
        for nth in $(passings "$count"); do
            before "$command"
            REPOSBX_FAULT=$name:$nth act "$command"
            tried=$((tried + 1))
            if [ "$code" -eq 137 ]; then died=$((died + 1)); fi
            # Where the point was passed in a child, the controller must see to it by itself.
            whole "$command at $name:$nth"
            if [ "$command" = close ]; then
                if [ -n "$id" ]; then expect 0 session close "$id"; fi
                is "close at $name:$nth: left" "$(left "$id")" ''
                id=
            else
                usable "$command at $name:$nth"
            fi
            published
        done
    done 9< "$scratch/points"
    printf '%-10s %6d %7d %5d %9d\n' "$command" "$(wc -l < "$scratch/points")" $tried $died \
        $poisoned >> "$table"
    if [ $died -eq 0 ]; then fail "$command was never killed"; fi
}

# ---- the bystander: a session with a running command ----
# In a state folder of its own: what it shares is not what the sessions under test share.
own_state=$REPOSBX_STATE_DIR
REPOSBX_STATE_DIR=$scratch/bystanders
new_session
bystander=$id
"$reposbx" session exec "$bystander" -- sh -c 'echo alive; while :; do sleep 1; done' \
    > "$scratch/bystander" 2> "$scratch/bystander.err" &
holder=$!
within 60 grep -q alive "$scratch/bystander" || fail "the bystander does not run"
REPOSBX_STATE_DIR=$own_state
id=

[ $# -gt 0 ] || set -- exec write read diff artifacts create-known fork close create validate reap
for command in "$@"; do
    crash "$command"
done

# It noticed nothing: it still runs, is interrupted as usual, and its session goes on.
if kill -TERM $holder; then pass; else fail "the bystander is gone"; fi
wait $holder
is "the bystander's end" $? 143
REPOSBX_STATE_DIR=$scratch/bystanders
expect 0 session exec "$bystander" -- grep -q one src/text.txt
expect 0 session close "$bystander"
is "left of the bystander" "$(left "$bystander")" ''

printf '%-10s %6s %7s %5s %9s\n' command points crashes died poisoned
cat "$table"
finish
