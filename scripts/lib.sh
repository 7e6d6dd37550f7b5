# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh
# Functions that the scripts of this folder share. POSIX sh; sourced with $root set to the top
# folder of the project and `set -eu` in force.

if [ -t 1 ] && [ -z "${NO_COLOR:-}" ]; then
    bold=$(printf '\033[1m') dim=$(printf '\033[2m') green=$(printf '\033[32m')
    red=$(printf '\033[31m') blue=$(printf '\033[34m') plain=$(printf '\033[0m')
else
    bold='' dim='' green='' red='' blue='' plain=''
fi
program=${0##*/}

say() { printf '%s\n' "$*"; }
note() { printf '%s%s%s\n' "$dim" "$*" "$plain"; }
warn() { printf '%s: %s\n' "$program" "$*" >&2; }
die() {
    printf '%s%s: %s%s\n' "$red" "$program" "$*" "$plain" >&2
    exit 1
}

# What a script says of itself at its head, and the part of it that is its usage.
head_comment() { sed -n '/^#!/d; /^# SPDX/d; /^#/!q; s/^# \{0,1\}//p' "$0"; }
usage() {
    head_comment | sed -n '/^usage:/,$p' >&2
    exit 64
}
# answer_help ARGUMENT …: when one of them asks for help, that is all that is done.
answer_help() {
    for answer_help_word in "$@"; do
        case $answer_help_word in
        --) return 0 ;;
        -h | --help)
            head_comment
            exit 0
            ;;
        esac
    done
}

# A numbered headline.
step_number=0
step() {
    step_number=$((step_number + 1))
    printf '\n%s%s%2d. %s%s\n' "$bold" "$blue" "$step_number" "$*" "$plain"
}

# Runs a command as root: directly, or through sudo.
as_root() {
    if [ "$(id -u)" -eq 0 ]; then
        "$@"
    elif command -v sudo > /dev/null 2>&1; then
        sudo -- "$@"
    else
        die "this needs root or sudo: $*"
    fi
}

# Milliseconds since some moment in the past; for durations only.
now_ms() { awk '{ printf "%d\n", $1 * 1000 }' /proc/uptime; }

# The path of a unix socket, from unix:///path or /path.
socket_path() {
    case $1 in
    unix:///*) printf '%s\n' "${1#unix://}" ;;
    /*) printf '%s\n' "$1" ;;
    *) die "an engine is unix:///absolute/path, not '$1'" ;;
    esac
}

# engine_call SOCKET METHOD PATH [CURL OPTION …]: the body on stdout; fails on an HTTP error.
engine_call() {
    engine_call_socket=$1 engine_call_method=$2 engine_call_path=$3
    shift 3
    curl --noproxy '*' -q -sS --fail-with-body --max-time "${ENGINE_TIMEOUT:-60}" \
        --unix-socket "$engine_call_socket" -X "$engine_call_method" "$@" \
        "http://engine$engine_call_path"
}

engine_answers() {
    [ -S "$1" ] && [ "$(engine_call "$1" GET /_ping --max-time 5 2> /dev/null)" = OK ]
}

is_podman() {
    case $1 in
    podman | podman[:?]*) return 0 ;;
    *) return 1 ;;
    esac
}

# Whether an engine address, of either kind, answers.
address_answers() {
    if is_podman "$1"; then
        podman_call "$1" version > /dev/null 2>&1
    else
        engine_answers "$(socket_path "$1")"
    fi
}

# "true" or "false": whether the engine of an address runs without root.
engine_rootless() {
    if is_podman "$1"; then
        podman_call "$1" info --format '{{.Host.Security.Rootless}}'
    else
        engine_call "$(socket_path "$1")" GET /info |
            jq '[.SecurityOptions[] | split(",")[] | select(. == "name=rootless")] | length > 0'
    fi
}

# podman_call ADDRESS ARGUMENT …: runs the program with the flags that the address stands for.
podman_call() {
    podman_call_program=${1#podman} podman_call_flags=''
    shift
    case $podman_call_program in
    *\?*)
        podman_call_flags=$(printf '%s' "${podman_call_program#*\?}" | tr '&' '\n' | sed 's/^/--/')
        podman_call_program=${podman_call_program%%\?*}
        ;;
    esac
    podman_call_program=${podman_call_program#:}
    # shellcheck disable=SC2086
    "${podman_call_program:-podman}" $podman_call_flags "$@"
}

# Names of all containers and volumes of a socket or a Podman address, one a line; nothing when the
# engine is empty.
engine_left() {
    if is_podman "$1"; then
        podman_call "$1" ps --all --format 'container {{.Names}} ({{.State}})'
        podman_call "$1" volume ls --format 'volume {{.Name}}'
        return
    fi
    engine_call "$1" GET '/containers/json?all=1' |
        jq -r '.[] | "container \(.Names[0] // .Id | ltrimstr("/")) (\(.State))"'
    engine_call "$1" GET /volumes | jq -r '.Volumes // [] | .[] | "volume \(.Name)"'
}

# configure_and_build FOLDER TARGET [CMAKE OPTION …]; the log is shown only when it fails. A folder that
# another generator configured keeps it. $REPOSBX_CMAKE_OPTIONS: options for every folder.
configure_and_build() {
    build_folder=$1 build_target=$2
    shift 2
    [ -e "$build_folder/CMakeCache.txt" ] || set -- -G Ninja "$@"
    mkdir -p "$build_folder"
    # shellcheck disable=SC2086
    cmake -S "$root" -B "$build_folder" ${REPOSBX_CMAKE_OPTIONS:-} "$@" > "$build_folder/configure.log" 2>&1 || {
        tail -n 40 "$build_folder/configure.log" >&2
        die "cmake could not configure $build_folder"
    }
    cmake --build "$build_folder" --target "$build_target" --parallel "$(nproc 2> /dev/null || echo 2)" \
        > "$build_folder/build.log" 2>&1 || {
        tail -n 60 "$build_folder/build.log" >&2
        die "$build_folder does not build"
    }
}

# The words of a command as a person would type them, with its output below, indented. The exit code
# is the command's. $shown_output is the file that gets the output as it is; $shown_input, where it is
# set, is the file that goes in; $shown_rows, a pattern, which lines of the output to print. Long words
# that were named before ($session, $revision, $image) appear as the shell variable.
shown() {
    shown_words=''
    for shown_word in "$@"; do
        case $shown_word in
        "${reposbx:-/}") shown_word=reposbx ;;
        "${session:-/}") shown_word=\$id ;;
        "${revision:-/}") shown_word=\$head ;;
        "${image:-/}") shown_word=\$image ;;
        plain_git) shown_word=git ;;
        '' | *[!A-Za-z0-9_.,:/=@%+-]*)
            shown_word="'$(printf '%s' "$shown_word" | sed "s/'/'\\\\''/g")'"
            ;;
        esac
        shown_words="$shown_words$shown_word "
    done
    shown_words=${shown_words% }
    [ -z "${shown_input:-}" ] || shown_words="$shown_words < $shown_input"
    [ -z "${shown_name:-}" ] || shown_words="$shown_name=\$($shown_words)"
    printf '   %s$%s %s\n' "$green" "$plain" "$shown_words"
    shown_status=0
    "$@" > "$shown_output" 2>&1 < "${shown_input:-/dev/null}" || shown_status=$?
    grep -e "${shown_rows:-}" "$shown_output" | sed "s/^/     /" || true
    return $shown_status
}
