# SPDX-License-Identifier: Apache-2.0
# Helpers of the command line's tests. A test sources this file with the program as $1, makes checks
# and ends with `finish`. A check counts once; a test without a single check fails.

set -u
reposbx=${1:?the path of reposbx is missing}
checks=0
failures=0
scratch=$(mktemp -d "${TMPDIR:-/tmp}/reposbx-cli.XXXXXX") || exit 1
trap 'rm -rf "$scratch"' EXIT
export XDG_STATE_HOME=$scratch/state HOME=$scratch/home LC_ALL=C.UTF-8
unset REPOSBX_STATE_DIR REPOSBX_ENGINE
mkdir -p "$HOME"

# Ends the test as not run; where tests must run that is a failure.
skip() {
    echo "skipped: $*" >&2
    [ "${REPOSBX_TEST_MUST_RUN:-}" = 1 ] && exit 1
    exit 77
}

command -v jq >/dev/null || skip "jq is missing"

pass() { checks=$((checks + 1)); }
fail() {
    checks=$((checks + 1))
    failures=$((failures + 1))
    echo "FAIL: $*" >&2
    if [ -f "$scratch/err" ]; then
        head -c 600 "$scratch/out" | sed 's/^/    stdout: /' >&2
        head -c 600 "$scratch/err" | sed 's/^/    stderr: /' >&2
    fi
}

# run ARGV…: the program with stdin from /dev/null; its streams go to $scratch/out and $scratch/err,
# its exit code to $code.
run() {
    "$reposbx" "$@" >"$scratch/out" 2>"$scratch/err" </dev/null
    code=$?
    # What is ours to print has no line that ends in blanks; a command's output and a patch are not ours.
    case " $* " in
    *' diff '*' --stat '* | *' diff '*' --name-only '*) ;;
    *' exec '* | *' read '* | *' diff '* | *' run '* | *' validate '*) return ;;
    esac
    if grep -q '[[:blank:]]$' "$scratch/out" "$scratch/err"; then fail "a line ends in blanks: reposbx $*"; fi
}

# expect CODE ARGV…
expect() {
    local wanted=$1
    shift
    run "$@"
    if [ "$code" -eq "$wanted" ]; then pass; else fail "exit $code, wanted $wanted: reposbx $*"; fi
}

# is TITLE GOT WANTED
is() { if [ "$2" = "$3" ]; then pass; else fail "$1: '$2', wanted '$3'"; fi; }
# out_has REGEX / err_has REGEX: in what the last run printed.
out_has() { if grep -Eq -- "$1" "$scratch/out"; then pass; else fail "stdout lacks /$1/"; fi; }
err_has() { if grep -Eq -- "$1" "$scratch/err"; then pass; else fail "stderr lacks /$1/"; fi; }
out_empty() { if [ ! -s "$scratch/out" ]; then pass; else fail "stdout is not empty"; fi; }
err_empty() { if [ ! -s "$scratch/err" ]; then pass; else fail "stderr is not empty"; fi; }
# out_json FILTER: stdout is one JSON document and the filter answers true.
out_json() {
    if [ "$(jq -s "length == 1 and (.[0] | $1)" "$scratch/out" 2>/dev/null)" = true ]; then
        pass
    else
        fail "stdout does not satisfy: $1"
    fi
}
# out_keys KEY…: the document is an object that has them all.
out_keys() {
    local key
    for key in "$@"; do out_json "has(\"$key\")"; done
}

# waiting PURPOSE: the name of a slot that waits, by the session's $journal; within thirty seconds.
waiting() {
    local name try
    for try in $(seq 300); do
        name=$(awk -v p="-$1\$" '$2 == "slot" && $3 ~ p { state[$3] = $1 }
            END { for (n in state) if (state[n] == "ready") print n }' "$journal" | sort | head -n 1)
        [ -n "$name" ] && break
        sleep 0.1
    done
    echo "$name"
}

finish() {
    echo "$checks checks, $failures failures"
    [ "$checks" -gt 0 ] && [ "$failures" -eq 0 ]
    exit
}
