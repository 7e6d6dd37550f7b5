#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Two hosts' worth of variation: the time zone, the umask, the locale, the folder, the home with everything
# that git reads from it, the git variables of the environment, the way the repository is stored, overlay and
# copy. Patch, bundle, fingerprint and trees are the same bytes under all of them.
. "$(dirname "$0")/../cli/lib.sh"

[ -n "${REPOSBX_TEST_ENGINE:-}" ] || skip "REPOSBX_TEST_ENGINE is not set"
[ -n "${REPOSBX_TEST_IMAGE_ID:-}" ] || skip "REPOSBX_TEST_IMAGE_ID is not set"
command -v git >/dev/null || skip "git is missing"
command -v localedef >/dev/null || skip "localedef is missing"
export REPOSBX_STATE_DIR=$scratch/sessions REPOSBX_ENGINE=$REPOSBX_TEST_ENGINE
ids=()
cleanup() {
    for id in "${ids[@]}"; do "$reposbx" -q session close "$id" >/dev/null 2>&1; done
    rm -rf "$scratch"
}
trap cleanup EXIT

# ---- what a hostile home holds ----
# A locale with another decimal point, other letters and another case of i.
mkdir -p "$scratch/locales"
localedef -i tr_TR -f UTF-8 "$scratch/locales/tr_TR.UTF-8" 2>/dev/null ||
    skip "the Turkish locale cannot be made (package locales)"
is 'the locale' "$(LOCPATH=$scratch/locales LC_ALL=tr_TR.UTF-8 locale decimal_point)" ,

cat >"$scratch/config" <<'END'
[core]
    autocrlf = true
    eol = crlf
    safecrlf = false
    fileMode = false
    symlinks = false
    ignoreCase = true
    quotePath = false
    precomposeUnicode = true
    abbrev = 5
    attributesFile = ~/attributes
    excludesFile = ~/ignore
    whitespace = cr-at-eol
    compression = 0
[diff]
    noprefix = true
    mnemonicPrefix = true
    algorithm = histogram
    renames = copies
    context = 0
    interHunkContext = 50
    external = /bin/false
    orderFile = ~/ignore
    suppressBlankEmpty = true
    relative = true
    indentHeuristic = false
[diff "odd"]
    textconv = rev
    command = /bin/false
[filter "odd"]
    clean = rev
    smudge = rev
    required = true
[color]
    ui = always
[i18n]
    logOutputEncoding = UTF-16
END
hostile_home=$scratch/hostile
mkdir -p "$hostile_home/.config/git" "$scratch/clean" "$scratch/elsewhere"
cp "$scratch/config" "$hostile_home/.gitconfig"
cp "$scratch/config" "$hostile_home/.config/git/config"
printf '* diff=odd filter=odd text eol=crlf ident\n*.txt -diff\n' >"$hostile_home/attributes"
printf '*\n' >"$hostile_home/ignore"
cp "$hostile_home/attributes" "$hostile_home/.config/git/attributes"
cp "$hostile_home/ignore" "$hostile_home/.config/git/ignore"

# ---- hosts: HOST COMMAND… runs in a subshell as there ----
# By env, not export: the shell itself must not change its own locale.
plain() { (
    umask 022
    cd "$scratch" || exit 1
    env TZ=UTC LC_ALL=C HOME="$scratch/clean" "$@"
); }
east() { (
    umask 077
    cd / || exit 1
    env -u LANG -u XDG_CONFIG_HOME -u GIT_CONFIG_GLOBAL -u GIT_CONFIG_NOSYSTEM TZ='<+14>-14' \
        HOME="$hostile_home" LOCPATH="$scratch/locales" LC_ALL=tr_TR.UTF-8 "$@"
); }
west() { (
    umask 000
    cd "$scratch/elsewhere" || exit 1
    env -u GIT_CONFIG_GLOBAL TZ='<-12>12' LC_ALL=C.UTF-8 LANGUAGE=tr HOME="$scratch/clean" \
        XDG_CONFIG_HOME="$hostile_home/.config" GIT_CONFIG_COUNT=2 GIT_CONFIG_KEY_0=core.autocrlf \
        GIT_CONFIG_VALUE_0=true GIT_CONFIG_KEY_1=diff.noprefix GIT_CONFIG_VALUE_1=true \
        GIT_CONFIG_PARAMETERS="'diff.context=0'" GIT_DIFF_OPTS=-u0 GIT_EXTERNAL_DIFF=/bin/false \
        GIT_ATTR_NOSYSTEM=1 GIT_LITERAL_PATHSPECS=1 "$@"
); }
odd() { (
    umask 0777
    cd "$second" || exit 1
    env TZ=:/nonexistent LC_ALL=none_NONE LANG=tr_TR HOME=/nonexistent COLUMNS=7 SOURCE_DATE_EPOCH=1 \
        GIT_CONFIG_GLOBAL="$scratch/config" GIT_CONFIG_SYSTEM="$scratch/config" GIT_DIR=/nonexistent \
        GIT_WORK_TREE=/ GIT_INDEX_FILE=/nonexistent GIT_OBJECT_DIRECTORY=/nonexistent \
        GIT_ALTERNATE_OBJECT_DIRECTORIES="$scratch" GIT_REPLACE_REF_BASE=refs/odd GIT_NAMESPACE=odd \
        GIT_DEFAULT_HASH=sha256 ZIPOPT=-0 POSIXLY_CORRECT=1 "$@"
); }

# ---- the same commit stored in two ways ----
first=$scratch/first
second=$scratch/second
export GIT_CONFIG_NOSYSTEM=1 GIT_CONFIG_GLOBAL=/dev/null
git -c init.defaultBranch=main init -q "$first"
mkdir -p "$first/src/deep"
printf 'one\r\ntwo\rhalf\r\nthree\f\n' >"$first/src/crlf.txt"
printf 'no end' >"$first/src/no end.txt"
printf '\000\001\377' >"$first/src/bin"
: >"$first/empty"
seq 300 >"$first/src/deep/numbers.txt"
printf 'latin \351\n' >"$first/$(printf 'caf\351')"
printf '*.txt text eol=crlf\n*.c ident\n' >"$first/.gitattributes"
printf '*.log\n' >"$first/.gitignore"
# shellcheck disable=SC2016
printf '/* $Id$ */\n' >"$first/ident.c"
printf '#!/bin/sh\n' >"$first/tool"
chmod 755 "$first/tool"
git -C "$first" add -A 2>/dev/null
git -C "$first" -c user.name=t -c user.email=t@example.org commit -q -m one
head=$(git -C "$first" rev-parse HEAD)
git clone -q --no-local "$first" "$second" 2>/dev/null
git -C "$second" repack -q -a -d -f
git -C "$second" config core.autocrlf true
git -C "$second" config diff.noprefix true
git -C "$second" config core.fileMode false
is 'stored loose' "$(find "$first/.git/objects" -name '*.pack' | wc -l)" 0
is 'stored packed' "$(find "$second/.git/objects" -name '*.pack' | wc -l)" 1
jq -n --arg image "$REPOSBX_TEST_IMAGE_ID" '{version: 1, name: "hosts", images: [$image],
    require_rootless_runtime: false, limits: {memory_bytes: 134217728, pids: 64, cpus: 1.5}}' \
    >"$scratch/policy.json"

# shellcheck disable=SC2016
changes='
printf "ONE\r\ntwo\rHALF\r\nthree\f\nfour" >src/crlf.txt; printf "an end\n" >"src/no end.txt"
printf "\001\000\376" >src/bin; echo x >empty; sed -i "s/^1/I/; 150d" src/deep/numbers.txt
echo I >IiIi; printf x >"$(printf "\311t\351")"; chmod 644 tool; rm ident.c; mkdir -p d/e
echo "a name" >"d/e/a name"; ln -s ../tool d/link; echo ignored >run.log; mkfifo p
chmod 600 d/e/*; touch -t 198001010101 src/bin'

# what HOST ID: every byte that leaves the session, below $scratch/HOST-ID.
outputs() {
    local host=$1 id=$2 to=$scratch/$1-$2
    (umask 022 && mkdir -p "$to")
    "$host" "$reposbx" session diff "$id" >"$to/patch" 2>"$to/omitted" || return 1
    "$host" "$reposbx" session diff --untracked=unignored "$id" >"$to/unignored" 2>/dev/null || return 1
    "$host" "$reposbx" session diff --json "$id" | jq -S 'del(.sandbox_id)' >"$to/diff.json" || return 1
    "$host" "$reposbx" session artifacts "$id" -o "$to/bundle.zip" src d/e IiIi >/dev/null || return 1
    "$host" "$reposbx" artifact verify "$to/bundle.zip" | sed "s,$to/,," >"$to/members" || return 1
    "$host" "$reposbx" session show "$id" --json | jq -S '{source_fingerprint, source_tree, source_revision,
        policy, limits}' >"$to/facts.json" || return 1
}

reference=
sets=0
# round HOST WORKSPACE REPOSITORY WHERE-THE-OUTPUTS-ARE-MADE…
round() {
    local host=$1 workspace=$2 repo=$3 id other
    shift 3
    id=$("$host" "$reposbx" -q session create --workspace "$workspace" --repo "$repo" --revision "$head" \
        --image "$REPOSBX_TEST_IMAGE_ID" --policy "$scratch/policy.json" 2>"$scratch/err")
    case $id in
    sbx-*) ids+=("$id") ;;
    *)
        fail "create as $host with $workspace"
        return
        ;;
    esac
    "$host" "$reposbx" -q session exec "$id" -- sh -c "$changes" >/dev/null 2>"$scratch/err" ||
        fail "exec as $host"
    for other in "$@"; do
        outputs "$other" "$id" 2>"$scratch/err" || fail "outputs as $other of a session made as $host"
        : "${reference:=$scratch/$other-$id}"
        sets=$((sets + 1))
        if diff -r "$reference" "$scratch/$other-$id" >"$scratch/out"; then
            pass
        else
            fail "$workspace, made as $host, taken as $other: other bytes"
        fi
    done
    expect 0 session close "$id"
}
round plain overlay "$first" plain east west odd
round east copy "$second" east plain
round odd overlay "$second" odd
round west copy "$first" west

# They hold what they must.
is 'sets that were compared' "$sets" 8
is 'patches that say what changed' "$(grep -c '^diff --git ' "$reference/patch")" 12
is 'what a patch cannot carry' "$(grep -c 'left out' "$reference/omitted")" 1
is 'the fingerprint' "$(jq -r .source_fingerprint "$reference/facts.json" | grep -Ec '^sha256-v2:[0-9a-f]{64}$')" 1
is 'members' "$(unzip -Z1 "$reference/bundle.zip" | wc -l)" 6
GIT_DIR=$first/.git GIT_INDEX_FILE=$scratch/index git read-tree "$head"
GIT_DIR=$first/.git GIT_INDEX_FILE=$scratch/index git apply --cached --whitespace=nowarn "$reference/patch"
is 'git agrees' "$(GIT_DIR=$first/.git GIT_INDEX_FILE=$scratch/index git write-tree)" \
    "$(jq -r .result_tree "$reference/diff.json")"
finish
