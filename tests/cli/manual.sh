#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Manual pages and completions exist for every command and are well formed. $2: the cli folder of the
# build; $3: that of the sources.
. "$(dirname "$0")/lib.sh"
built=$2
sources=$3

expect 0 --help
mapfile -t commands < <(sed -n '/^Commands:/,/^$/s/^  \([a-z-]* \?[a-z-]*\)  .*/\1/p' \
    "$scratch/out" | sed 's/ *$//')
is 'commands in the help' "${#commands[@]}" 29

for words in '' "${commands[@]}"; do
    page=reposbx${words:+-${words// /-}}
    if [ ! -s "$built/man/$page.1" ]; then
        fail "$page.1 is missing"
        continue
    fi
    is "title of $page" "$(grep -c '^\.TH "REPOSBX' "$built/man/$page.1")" 1
    for section in NAME SYNOPSIS DESCRIPTION 'EXIT STATUS' EXAMPLE; do
        [ "$page" = reposbx ] || [ "$section" != x ] || continue
        is "$section of $page" "$(grep -c "^\.SH $section\$" "$built/man/$page.1")" 1
    done
    if command -v groff >/dev/null; then
        is "complaints about $page" \
            "$(groff -K utf8 -man -Tutf8 -ww "$built/man/$page.1" 2>&1 >/dev/null | head -3)" ''
    fi
    # Every option of the help is in the page.
    expect 0 $words --help
    while read -r option; do
        if grep -qF -- "\\-\\-${option//-/\\-}\\fR" "$built/man/$page.1"; then
            pass
        else
            fail "$page.1 lacks --$option"
        fi
    done < <(sed -n 's/^  \(-., \)\?--\([a-z-]*\).*/\2/p' "$scratch/out")
done
is 'pages' "$(ls "$built/man" | wc -l)" $((${#commands[@]} + 1))
expect 64 --man no-such-page
expect 64 --completion fish

# bash: the script loads, and completes words and options.
bash -n "$built/completions/reposbx.bash" && pass || fail "the bash completion does not parse"
complete_words() {
    bash -c '. "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _reposbx
        printf "%s " "${COMPREPLY[@]}"' bash "$built/completions/reposbx.bash" "$@"
}
is 'first words' "$(complete_words reposbx '' | xargs)" \
    'session validate run pool reap doctor audit artifact receipt wasm policy version'
is 'a group' "$(complete_words reposbx se | xargs)" session
is 'verbs' "$(complete_words reposbx session c | xargs)" 'create close'
is 'verbs behind an option' "$(complete_words reposbx --state-dir x session ex | xargs)" exec
is 'an option' "$(complete_words reposbx session create --rep | xargs)" --repo
is 'a global option' "$(complete_words reposbx session list --jso | xargs)" --json
is 'a command that is a group as well' "$(complete_words reposbx receipt v | xargs)" verify
is 'its verb' "$(complete_words reposbx receipt verify --publ | xargs)" --public-key
is 'its own options' "$(complete_words reposbx receipt sbx-x --k | xargs)" --key
is 'behind --' "$(complete_words reposbx session exec x -- --tim | xargs)" ''
if command -v zsh >/dev/null; then
    zsh -n "$built/completions/reposbx.zsh" && pass || fail "the zsh completion does not parse"
fi
is 'zsh header' "$(head -1 "$built/completions/reposbx.zsh")" '#compdef reposbx'

# The command line is a customer: public headers, jansson and libc only.
is 'foreign includes' "$(grep -hE '^#include' "$sources"/*.c "$sources"/*.h |
    grep -E '"[^"]*/|<(git2|zip|curl|openssl|archive)' | sort -u)" ''
finish
