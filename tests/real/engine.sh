# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# What the tests ask the engine itself, be $REPOSBX_TEST_ENGINE Docker's socket or an address of Podman's.
case $REPOSBX_TEST_ENGINE in
podman*)
    # podman[:/program][?root=/a&runroot=/b] becomes a program and --root=/a --runroot=/b
    engine_program=${REPOSBX_TEST_ENGINE%%\?*}
    engine_program=${engine_program#podman}
    engine_program=${engine_program#:}
    engine_flags=()
    case $REPOSBX_TEST_ENGINE in
    *\?*) mapfile -t engine_flags < <(printf '%s\n' "${REPOSBX_TEST_ENGINE#*\?}" | tr '&' '\n' | sed 's/^/--/') ;;
    esac
    ask_podman() { "${engine_program:-podman}" "${engine_flags[@]}" "$@"; }
    # containers TEXT / volumes TEXT: how many have it in their names.
    containers() { ask_podman ps --all --format '{{.Names}}' | grep -c -- "$1"; }
    volumes() { ask_podman volume ls --format '{{.Name}}' | grep -c -- "$1"; }
    kill_container() { ask_podman kill --signal KILL "$1" >/dev/null; }
    # lose NAME…: removes volumes behind the back of whoever needs them, with every container that holds one.
    lose() {
        local name
        for name in "$@"; do
            ask_podman ps --all --quiet --filter "volume=$name" | xargs -r "${engine_program:-podman}" \
                "${engine_flags[@]}" rm --force --time=0 >/dev/null
            ask_podman volume rm "$name" >/dev/null
        done
    }
    ;;
*)
    ask_docker() {
        curl -sS --noproxy '*' --unix-socket "${REPOSBX_TEST_ENGINE#unix://}" -X "$1" "http://engine/v1.41/$2" "${@:3}"
    }
    containers() {
        ask_docker GET 'containers/json?all=1' |
            jq --arg text "$1" '[.[].Names[] | select(contains($text))] | length'
    }
    volumes() {
        ask_docker GET volumes | jq --arg text "$1" '[.Volumes // [] | .[].Name | select(contains($text))] | length'
    }
    kill_container() { ask_docker POST "containers/$1/kill" >/dev/null; }
    lose() {
        local name container
        for name in "$@"; do
            ask_docker GET 'containers/json?all=1' |
                jq -r --arg name "$name" '.[] | select(any(.Mounts[]; .Name == $name)) | .Id' |
                while read -r container; do ask_docker DELETE "containers/$container?force=1"; done
            ask_docker DELETE "volumes/$name"
        done
    }
    ;;
esac
