#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The doctor where there is no engine: rows, documents, exit codes; each fault of the caller's own side is
# found. That faults of engines and images are: tests/fake/test_doctor.c.
. "$(dirname "$0")/lib.sh"

engine=unix://$scratch/none.sock
state=$scratch/state
# row NAME STATUS WORDS: in the last document.
row() {
    out_json "any(.checks[]; .name == \"$1\" and .status == \"$2\" and (.detail | test(\"$3\")))"
}
doctor() {
    local wanted=$1
    shift
    expect "$wanted" --state-dir "$state" --engine "$engine" doctor "$@"
}

# No engine: a row that fails, and nothing that rests on it is judged.
doctor 1 --json
out_keys ok checks
out_json '.ok == false and ([.checks[] | select(.status == "fail") | .name] ==
    ["engine_socket", "engine_answers"]) and
    all(.checks[]; (.status == "fail") == (.hint != null) and (.detail | length) > 0)'
row engine_socket fail none.sock
row engine_genuine skip 'does not answer'
row rootless skip 'does not say'
row state_dir pass 'mode 700'
row libraries pass jansson
row policy pass 'default'
row leftovers pass nothing
is 'made by a look' "$(stat -c %a "$state")" 700
# The same for people: one line a row, a hint below a failure, the sum on stderr.
doctor 1
out_has '^pass  state_dir  +'
out_has '^fail  engine_socket  +there is no '
is 'hints' "$(grep -A1 '^fail' "$scratch/out" | grep -c '^      hint: ')" 2
err_has '^reposbx: 2 of [0-9]+ checks failed$'
doctor 1 -q
err_empty
# With an image: the rest is skipped and says why.
doctor 1 --json --image sha256:$(printf '%064d' 0)
row image_listed skip 'engine does not answer'
row session skip 'nothing may be run'
row inside_memory skip 'no session'
row fork_limit skip 'no session'

# The state folder.
chmod 770 "$state"
doctor 1 --json
row state_dir fail 'others can write'
row engine_answers fail 'none.sock'
chmod 700 "$state"
touch "$scratch/file"
expect 1 --state-dir "$scratch/file" --engine "$engine" doctor --json
row state_dir fail ''

# The policy.
doctor 1 --json --policy "$scratch/nothing.json"
row policy fail nothing
row seccomp skip 'does not say'
printf '{"version": 1,\n "memory": 3}' >"$scratch/bad.json"
doctor 1 --json --policy "$scratch/bad.json"
row policy fail 'line 2'
printf '{"version": 1, "seccomp_profile": "%s"}' "$scratch/none.json" >"$scratch/profile.json"
doctor 1 --json --policy "$scratch/profile.json"
row seccomp_profile fail 'none.json'
echo '{"defaultAction": "SCMP_ACT_ERRNO"' >"$scratch/none.json"
doctor 1 --json --policy "$scratch/profile.json"
row seccomp_profile fail 'seccomp_profile: line'
echo '}' >>"$scratch/none.json"
doctor 1 --json --policy "$scratch/profile.json"
row seccomp_profile pass 'none.json'

# The engine's address, and what is there.
expect 1 --state-dir "$state" --engine tcp://127.0.0.1:2375 doctor --json
row engine_socket skip 'no socket'
row engine_answers fail 'not unix:///'
expect 1 --state-dir "$state" --engine "unix://$scratch/file" doctor --json
row engine_socket fail 'is no socket'

# A module that was changed, and a policy that needs one.
digest=$(printf '%064d' 7)
mkdir -p "$state/wasm/$digest"
echo '{}' >"$state/wasm/$digest/manifest.json"
doctor 1 --json
row wasm_modules fail ''
rm -r "$state/wasm"
echo '{"version": 1, "run": {"wasm": "require"}}' >"$scratch/wasm.json"
doctor 1 --json --policy "$scratch/wasm.json"
row wasm_modules fail 'none is installed'

# A compiler that is not there, where one can be hidden from a program.
if unshare -m mount --bind /dev/null /usr/bin/cc 2>/dev/null; then
    for tool in wasm2c cc; do
        unshare -m sh -c 'for file in /usr/bin/$0 /usr/local/bin/$0 /bin/$0; do
            [ ! -e "$file" ] || mount --bind /dev/null "$file" || exit 99; done; exec "$@"' $tool \
            "$reposbx" --state-dir "$state" --engine "$engine" doctor --json --policy "$scratch/wasm.json" \
            >"$scratch/out" 2>"$scratch/err"
        is "code without $tool" $? 1
        row wasm_toolchain fail "($tool|wasm2c) is missing"
    done
fi

# A podman that is too old, one that says nothing, and a good one, at an address of Podman's.
program=$scratch/podman
engine=podman:$program
for version in 4.2.9 3.4.4 unknown; do
    printf '#!/bin/sh\necho "podman version %s"\n' $version >"$program"
    chmod 755 "$program"
    doctor 1 --json
    row podman fail 'is older than 4.3'
done
printf '#!/bin/sh\nexit 3\n' >"$program"
doctor 1 --json
row podman fail 'podman --version'
printf '#!/bin/sh\necho "podman version 4.3.1"\n' >"$program"
doctor 1 --json
row podman pass 'version 4.3'
engine=unix://$scratch/none.sock

expect 64 doctor nonsense
expect 64 doctor --repo x
is 'nothing is left' "$(ls "$state" | xargs)" 'sessions'
finish
