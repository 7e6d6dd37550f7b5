# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh disable=SC2154
# The main job, from the first command to the last, narrated. Sourced after lib.sh; needs only sh,
# git and the command itself, so that it also runs where nothing else is installed.
#
# one_session PROJECT IMAGE POLICY WORK, with $reposbx the command and $REPOSBX_ENGINE the engine.
# PROJECT is a clone of this project; WORK an empty folder. Everything is checked: the first thing
# that is not as it should be ends the program with exit 1.

# Git with nobody's settings, so that what it writes depends on the repository alone.
plain_git() {
    HOME=$work GIT_CONFIG_NOSYSTEM=1 GIT_CONFIG_GLOBAL=$work/gitconfig git "$@"
}

# expect STATUS COMMAND …: shown, and ended with that status.
expect() {
    expected=$1
    shift
    expect_status=0
    shown "$@" || expect_status=$?
    [ "$expect_status" -eq "$expected" ] ||
        die "this ended with $expect_status, and $expected was expected"
}

# A string of a JSON document by its key; keys of our documents are unique in them.
string_of() { tr -d '\n' < "$2" | sed -n "s/.*\"$1\": *\"\\([^\"]*\\)\".*/\\1/p"; }

# Called by whoever sourced this, when it ends early.
close_open_session() {
    for open_one in ${fork:-} ${session:-}; do
        "$reposbx" session close --wait "$open_one" > /dev/null 2>&1 || true
    done
    session='' fork=''
}

take_repository() {
    step "A real repository: this project, cloned at its newest commit"
    printf '[safe]\n\tdirectory = *\n[advice]\n\tdetachedHead = false\n' > "$work/gitconfig"
    plain_git clone -q "$project" repo || die "the project is no Git repository: $project"
    revision=''
    expect 0 plain_git -C repo rev-parse HEAD
    revision=$(cat "$shown_output")
    note "   \$head from here on; $(plain_git -C repo ls-files | wc -l) files, in $work/repo"
}

create_session() {
    step "A session: that revision, copied into private volumes"
    status=0 shown_name=id
    shown "$reposbx" session create --repo repo --revision "$revision" --image "$image" \
        --policy "$policy" || status=$?
    shown_name=''
    session=$(grep -o 'sbx-[0-9a-f]\{32\}' "$shown_output" | head -n 1) || true
    if [ "$status" -ne 0 ] || [ -z "$session" ]; then
        die "no session was created"
    fi
    shown_rows='^source_[tf]\|^workspace \|^network\|^capabilities'
    expect 0 "$reposbx" session show "$session"
    shown_rows=''
}

run_commands() {
    step "A command: no network, no privileges, no way out"
    expect 0 "$reposbx" session exec "$session" -- id
    grep -q 'uid=65532' "$shown_output" || die "the command did not run as user 65532"
    expect 0 "$reposbx" session exec "$session" -- ls /sys/class/net
    [ "$(cat "$shown_output")" = lo ] || die "the command had a network"
    expect 0 "$reposbx" session exec "$session" -- \
        grep -e CapEff -e NoNewPrivs -e Seccomp: /proc/self/status
    grep -q '^CapEff:[[:space:]]*0*$' "$shown_output" || die "the command had capabilities"
    grep -q '^NoNewPrivs:[[:space:]]*1$' "$shown_output" || die "the command could gain privileges"
    grep -q '^Seccomp:[[:space:]]*2$' "$shown_output" || die "the command had no seccomp filter"
    expect 1 "$reposbx" session exec "$session" -- touch /etc/new
    expect 0 "$reposbx" session exec "$session" -- wc -l README.md
    note "   The exit code of the command is that of reposbx:"
    expect 7 "$reposbx" session exec "$session" -- sh -c 'exit 7'
    say "     [exit code 7]"

    step "A command that does not end: stopped, with everything it started"
    started=$(now_ms)
    expect 124 "$reposbx" session exec "$session" --timeout 1 -- sh -c \
        'echo working; setsid sleep 1000 & sleep 1000'
    took=$(($(now_ms) - started))
    grep -q working "$shown_output" || die "what it had written was lost"
    note "   It was allowed 1 s; the whole call took $took ms. 124 says that the time was up."
}

change_files() {
    step "Changes: one file edited, one added, one deleted, one made executable"
    expect 0 "$reposbx" session exec "$session" -- sh -c \
        'echo "One more line." >> README.md; rm .editorconfig; chmod +x LICENSE'
    printf 'Written from outside, without a command.\n' > note.txt
    note "   The new file comes from outside, on stdin:"
    shown_input=note.txt
    expect 0 "$reposbx" session write "$session" notes/hello.txt --parents
    shown_input=''
    expect 0 "$reposbx" session read "$session" notes/hello.txt
    cmp -s "$shown_output" note.txt || die "what was read is not what was written"
}

prove_diff() {
    step "What changed, as a Git patch"
    expect 0 "$reposbx" session diff "$session" --stat
    expect 0 "$reposbx" session diff "$session"
    "$reposbx" session diff "$session" --json -o change.patch > diff.json ||
        die "no patch"
    cmp -s "$shown_output" change.patch || die "two diffs of one state differ"
    result_tree=$(string_of result_tree diff.json)
    base_tree=$(string_of base_tree diff.json)
    for change in 'new file mode 100644' 'deleted file mode 100644' 'new mode 100755' \
        '+One more line.'; do
        grep -qxF -- "$change" change.patch || die "the patch lacks: $change"
    done

    step "The patch, applied by Git to a fresh checkout of the same revision"
    plain_git clone -q "$project" fresh
    plain_git -C fresh checkout -q --detach "$revision"
    expect 0 plain_git -C fresh apply --index ../change.patch
    expect 0 plain_git -C fresh write-tree
    tree=$(cat "$shown_output")
    [ "$base_tree" = "$(plain_git -C repo rev-parse "$revision^{tree}")" ] ||
        die "the session's base_tree is $base_tree"
    [ "$tree" = "$result_tree" ] || die "Git has $tree, the session's result_tree is $result_tree"
    note "   The same tree that the session calls its result_tree: $result_tree"
}

try_again() {
    step "Another try: a second session from this state, which shares the baseline"
    shown_name=other
    expect 0 "$reposbx" session fork "$session"
    shown_name=''
    fork=$(cat "$shown_output")
    "$reposbx" session diff "$fork" -o fork.patch > /dev/null 2>&1 || die "the fork has no patch"
    cmp -s fork.patch change.patch || die "the fork is not what its origin is"
    "$reposbx" session exec "$fork" -- rm -r notes || die "the fork runs nothing"
    "$reposbx" session diff "$session" -o again.patch > /dev/null 2>&1 || die "no patch"
    cmp -s again.patch change.patch || die "what the fork did shows in its origin"
    "$reposbx" session close --wait "$fork" || die "the fork does not close"
    fork=''
    note "   The same patch in both; what is changed in one is not there in the other."
}

take_artifacts() {
    step "Files to keep: a ZIP with a hash for each member"
    expect 0 "$reposbx" session artifacts "$session" -o files.zip README.md notes
    expect 0 "$reposbx" artifact verify files.zip
}

end_session() {
    step "The record: every step, each line chained to the one before"
    expect 0 "$reposbx" audit verify "$session"
    events=$("$reposbx" session log "$session" --json | tr '\n,' ' \n' | grep -c '"event"') || true
    [ "$events" -gt 10 ] || die "the log has only $events records"

    step "The end: containers and volumes removed, the audit folder kept"
    expect 0 "$reposbx" session close "$session"
    expect 78 "$reposbx" session exec "$session" -- true
    "$reposbx" audit verify "$session" > /dev/null || die "the kept audit log does not verify"
    session=''
}

one_session() {
    project=$1 image=$2 policy=$3 work=$(cd "$4" && pwd -P)
    session='' revision='' shown_output=$work/shown
    cp "$policy" "$work/policy.json"
    policy=policy.json
    cd "$work"
    take_repository
    create_session
    run_commands
    change_files
    prove_diff
    try_again
    take_artifacts
    end_session
}
