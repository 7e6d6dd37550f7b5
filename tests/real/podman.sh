#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Sessions on Podman by the command line: the main job without a daemon, what differs from Docker (limits
# that cannot be lowered, images with a folder in the workspace's place), objects of somebody else, an
# environment that tries to redirect calls, and controllers that are killed.
. "$(dirname "$0")/../cli/lib.sh"

[ -n "${REPOSBX_TEST_PODMAN:-}" ] || skip "REPOSBX_TEST_PODMAN is not set"
[ -n "${REPOSBX_TEST_IMAGE_ID:-}" ] || skip "REPOSBX_TEST_IMAGE_ID is not set"
command -v git >/dev/null || skip "git is missing"
root=$(cd "$(dirname "$0")/../.." && pwd)
. "$root/scripts/lib.sh"
pod() { podman_call "$REPOSBX_TEST_PODMAN" "$@"; }
export REPOSBX_STATE_DIR=$scratch/sessions
export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_SYSTEM=/dev/null
id='' fork='' extra_image=''
cleanup() {
    for session in $id $fork; do "$reposbx" -q session close "$session" >/dev/null 2>&1; done
    if [ -n "$extra_image" ]; then pod image rm --force "$extra_image" >/dev/null 2>&1; fi
    rm -rf "$scratch"
}
trap cleanup EXIT

repo=$scratch/repo
git -c init.defaultBranch=main init -q "$repo"
mkdir -p "$repo/src"
printf 'one\ntwo\n' >"$repo/src/text"
printf '#!/bin/sh\ngrep -q three src/text\n' >"$repo/check.sh"
chmod +x "$repo/check.sh"
git -C "$repo" add -A
git -C "$repo" -c user.name=t -c user.email=t@example.org commit -q -m one
head=$(git -C "$repo" rev-parse HEAD)
policy() {
    jq -n --arg image "${2:-$REPOSBX_TEST_IMAGE_ID}" "{version: 1, name: \"podman\", images: [\$image],
        require_rootless_runtime: false, limits: {memory_bytes: 134217728, pids: 64, cpus: 1.0}} + $1" \
        >"$scratch/policy.json"
}
# create CODE [ARGUMENT …]
create() {
    local wanted=$1
    shift
    id=''
    expect "$wanted" --engine "$REPOSBX_TEST_PODMAN" session create --repo "$repo" --revision "$head" \
        --policy "$scratch/policy.json" "$@"
    [ "$code" -ne 0 ] || id=$(cat "$scratch/out")
}
close() {
    expect 0 session close "$id"
    is 'objects left' "$({ pod ps --all --format '{{.Names}}'; pod volume ls --format '{{.Name}}'; } |
        grep -c "$id")" 0
    id=
}
small=(--image "$REPOSBX_TEST_IMAGE_ID")

# ---- the main job; the session remembers its engine ----
policy '{}'
create 0 "${small[@]}"
expect 0 session show "$id" --json
out_json '.provider == "podman" and .state == "ready" and .network == "none" and .image_id == .image'
expect 1 session exec "$id" -- ./check.sh
expect 0 session exec "$id" -- sh -c 'echo three >>src/text; id -u; touch /tmp/x /run/x && ./check.sh'
is 'the user' "$(cat "$scratch/out")" 65532
expect 0 session diff "$id"
cp "$scratch/out" "$scratch/patch"
git clone -q "$repo" "$scratch/fresh"
git -C "$scratch/fresh" apply --index "$scratch/patch"
expect 0 session diff "$id" --json
is 'the tree' "$(git -C "$scratch/fresh" write-tree)" "$(jq -r .result_tree "$scratch/out")"
expect 0 session artifacts "$id" -o "$scratch/bundle.zip" src/text
expect 0 artifact verify "$scratch/bundle.zip"

# ---- a waiting slot cannot be lowered: it goes on waiting, and another is made ----
journal=$REPOSBX_STATE_DIR/sessions/$id/journal
first=$(waiting exec)
expect 0 session exec "$id" --memory 67108864 --pids 16 --cpus 0.5 --json -- true
out_json '.observed_limits.memory_bytes == 67108864 and .observed_limits.pids == 16 and
          .observed_limits.cpus == 0.5'
is 'the same slot waits' "$(waiting exec)" "$first"
expect 0 session exec "$id" --json -- true
out_json '.observed_limits.pids == 64'
is 'and is used by the next' "$(grep -c "take slot $first" "$journal")" 1
# One that died while it waited.
dead=$(waiting exec)
pod kill "$dead" >/dev/null
expect 0 session exec "$id" -- echo alive
is 'a dead slot is replaced' "$(cat "$scratch/out")" alive

# ---- a fork shares the baseline and goes its own way ----
expect 0 session fork "$id"
fork=$(cat "$scratch/out")
expect 0 session exec "$fork" -- sh -c 'cat src/text; echo four >>src/text'
is 'the fork has the changes' "$(tail -n 1 "$scratch/out")" three
expect 0 session exec "$id" -- tail -n 1 src/text
is 'its own are its own' "$(cat "$scratch/out")" three
expect 0 session close "$fork"
is 'objects of the fork left' "$(engine_left "$REPOSBX_TEST_PODMAN" | grep -c "$fork")" 0

# ---- nothing of the environment redirects a call ----
printf '[containers]\nvolumes = ["/etc:/host-etc"]\nenv = ["LEAK=1"]\n' >"$scratch/containers.conf"
printf '[storage]\ndriver = "vfs"\ngraphroot = "%s/elsewhere"\n' "$scratch" >"$scratch/storage.conf"
waiting exec >/dev/null
(
    export CONTAINER_HOST=unix://$scratch/no.sock DOCKER_HOST=unix://$scratch/no.sock
    export CONTAINERS_CONF=$scratch/containers.conf CONTAINERS_STORAGE_CONF=$scratch/storage.conf
    export http_proxy=http://127.0.0.1:1 TMPDIR=$scratch/none XDG_CONFIG_HOME=$scratch
    "$reposbx" session exec "$id" --memory 67108864 -- sh -c 'ls -d /host-etc 2>&1; env'
) >"$scratch/out" 2>"$scratch/err"
is 'exit code' $? 0
is 'traces of the environment' "$(grep -c '^/host-etc\|LEAK\|proxy' "$scratch/out")" 0
is 'a storage elsewhere' "$(ls -d "$scratch/elsewhere" 2>/dev/null)" ''

# ---- an object of that name that is somebody else's ----
name=$(waiting exec)
pod rm --force --time 0 "$name" >/dev/null
pod create --name "$name" "$REPOSBX_TEST_IMAGE_ID" /bin/true >/dev/null
run session close "$id"
is 'close refuses' "$([ "$code" -ne 0 ] && echo yes)" yes
err_has 'does not belong to this session'
is 'it is still there' "$(pod ps --all --format '{{.Names}}' | grep -c "$name")" 1
pod rm "$name" >/dev/null
close

# ---- an image with a folder in the workspace's place ----
mkdir -p "$scratch/image/workspace"
pod image save --quiet -o "$scratch/small.tar" "$REPOSBX_TEST_IMAGE_ID"
container=$(pod create "$REPOSBX_TEST_IMAGE_ID" /bin/true)
echo planted >"$scratch/image/workspace/planted"
chmod 755 "$scratch/image/workspace"
pod cp --archive=false "$scratch/image/workspace" "$container:/"
extra_image=sha256:$(pod commit --quiet --format docker "$container")
pod rm "$container" >/dev/null
policy '{}' "$extra_image"
create 0 --image "$extra_image"
expect 0 session show "$id" --json
out_json '.workspace == "copy" and (.workspace_reason | test("could not write to the workspace"))'
expect 0 session exec "$id" -- sh -c 'echo x >new; ls'
is 'nothing of the image' "$(grep -c planted "$scratch/out")" 0
close
create 77 --image "$extra_image" --workspace overlay
err_has 'could not write to the workspace'

# ---- a seccomp profile of the policy's ----
cat >"$scratch/seccomp.json" <<'J'
{"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [
    {"names": ["mknod", "mknodat"], "action": "SCMP_ACT_ERRNO", "errnoRet": 1}]}
J
policy "{seccomp_profile: \"$scratch/seccomp.json\"}"
create 0 "${small[@]}"
expect 1 session exec "$id" -- mkfifo made
close
is 'files for podman' "$(ls -d /tmp/reposbx-podman-* 2>/dev/null)" ''

# ---- refusals, before anything is made ----
policy '{}'
run --engine podman:/no/such/podman session create --repo "$repo" --revision "$head" \
    --policy "$scratch/policy.json" "${small[@]}"
is 'no program' "$code" 69
err_has 'no podman program'
run --engine 'podman?root=relative' session create --repo "$repo" --revision "$head" \
    --policy "$scratch/policy.json" "${small[@]}"
is 'an address that is none' "$code" 64
missing=sha256:$(printf '%064d' 7)
policy '{}' "$missing"
create 69 --image "$missing"
err_has "not in Podman's storage"
# The shipped policies ask for a rootless engine.
if [ "$(id -u)" -eq 0 ]; then
    policy '{require_rootless_runtime: true}'
    create 77 "${small[@]}"
    err_has 'rootless'
fi

# ---- a controller that is killed while it creates ----
policy '{}'
seen=
for after in 0.4 0.9 1.6; do
    "$reposbx" --engine "$REPOSBX_TEST_PODMAN" session create --repo "$repo" --revision "$head" \
        --policy "$scratch/policy.json" "${small[@]}" >"$scratch/out" 2>"$scratch/err" &
    child=$!
    sleep "$after"
    kill -9 $child 2>/dev/null
    wait $child 2>/dev/null
    for session in "$REPOSBX_STATE_DIR"/sessions/sbx-*; do
        [ -d "$session" ] || continue
        seen="$seen\\|${session##*/}"
        "$reposbx" session close "${session##*/}" >/dev/null 2>&1
    done
    # A folder without documents is reaped only when it is old.
    touch -d '2 minutes ago' "$REPOSBX_STATE_DIR"/sessions/sbx-* 2>/dev/null
    run reap
    is "reap, killed after $after s" "$code" 0
    is "left, killed after $after s" "$(engine_left "$REPOSBX_TEST_PODMAN" | grep -c "none$seen")" 0
done
finish
