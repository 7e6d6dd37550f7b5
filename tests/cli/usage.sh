#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Help, usage errors, options in every place, numbers: what needs no session and no engine.
. "$(dirname "$0")/lib.sh"

commands=('session create' 'session exec' 'session read' 'session write' 'session list-files'
    'session diff' 'session artifacts' 'session show' 'session list' 'session log' 'session fork'
    'session close' 'validate' 'run' 'pool serve' 'pool status' 'pool shutdown' 'reap' 'doctor'
    'audit verify' 'artifact verify' 'receipt' 'receipt verify' 'wasm install' 'wasm list'
    'wasm remove' 'policy check' 'policy show' 'version')
id=sbx-00000000000000000000000000000000

# Help.
for words in '' session pool audit artifact wasm policy "${commands[@]}"; do
    for option in --help -h; do
        expect 0 $words $option
        out_has '^Usage: reposbx'
        out_has '^Example:'
        out_has '^  reposbx '
        err_empty
    done
    expect 0 help $words
    expect 0 --help $words
    out_has '^Usage: reposbx'
    if [ "$(awk 'length($0) > 100' "$scratch/out" | grep -vc '^  reposbx\|^Usage')" -eq 0 ]; then
        pass
    else
        fail "long lines in the help of '$words'"
    fi
done
expect 0 --help
# However the lines break.
if tr -s ' \n' '  ' <"$scratch/out" | grep -q 'CONTAINER_HOST and Docker contexts are ignored'; then
    pass
else
    fail "the help does not say what is ignored"
fi
for words in "${commands[@]}"; do out_has "^  $words +"; done
expect 0 --version
out_has '^reposbx [0-9]'

# Usage.
expect 64
err_has '^reposbx: '
err_has '^hint: '
out_empty
for word in nonsense sesion fork docter rum valid Session; do
    expect 64 $word
    err_has "unknown command '$word'"
done
run sesion
err_has "did you mean 'reposbx session'\?"
for word in spork exce; do
    expect 64 session $word
    err_has "unknown command 'session $word'"
done
err_has "did you mean 'reposbx session exec'\?"
# A command without its group, or with a wrong one: where it is, in every group that has it.
for words in "${commands[@]}"; do
    case $words in
    *' '*) expect 64 ${words#* } ;;
    *) expect 64 pool $words ;;
    esac
    err_has "did you mean .*'reposbx $words'.*\?"
done
run list --json
out_json '.error.hint == "did you mean '"'reposbx session list' or 'reposbx wasm list'"'?"'
run verify
err_has "'reposbx audit verify' or 'reposbx artifact verify' or 'reposbx receipt verify'\?"
run session verify
err_has "'reposbx audit verify' or"
run craete --repo .
err_has "did you mean 'reposbx session create'\?"
run read x y # one letter from reap
err_has "did you mean 'reposbx session read'\?"
run nonsense
err_has "see 'reposbx --help'"
for group in session pool audit artifact wasm policy; do expect 64 $group; done
for words in "${commands[@]}"; do
    expect 64 $words --no-such-option
    err_has 'unknown option --no-such-option'
    err_has '^hint: '
    expect 64 $words -Z
    err_has 'unknown option -Z'
done
expect 64 --no-such-option version
expect 64 session exec "$id" ls -a
err_has "unknown option -a$"
err_has '^hint: put -- before the command'
expect 64 session exec "$id" make --jobs
err_has '^hint: put -- before the command'
expect 64 session exec "$id" -Z ls
err_has "^hint: see 'reposbx session exec --help'"
expect 64 session list -qZ
err_has "unknown option -Z in '-qZ'"
expect 64 version extra
err_has 'too many arguments'
expect 64 session list extra
expect 64 session read "$id"
err_has 'too few arguments'
err_has 'ID PATH'
expect 64 session read "$id" a b
expect 64 session artifacts "$id"
expect 64 session artifacts "$id" file
err_has '-o FILE.zip'
err_has '^hint: usage: reposbx session artifacts ID'
expect 64 session create
err_has 'missing: --repo --revision --image'
err_has '^hint: usage: reposbx session create --repo DIR'
expect 64 session create --repo .
err_has 'missing: --revision --image'
expect 64 session create --repo . --image x
err_has 'missing: --revision$'
expect 64 session create --repo . --image x --revision y --no-revision
expect 64 session create --repo . --image x --revision y --workspace best
err_has 'auto, overlay or copy'
expect 64 session create --repo
err_has 'needs a value'
expect 64 session create --repo= --image x --revision y
err_has 'must not be empty'
# What is a request's own is judged as such, also when it is empty.
expect 65 --state-dir "$scratch/empties" session create --repo . --image x --revision ''
err_has 'revision: not 40'
for words in '--task-id=' '--platform=' '--exclude-subtree='; do
    expect 77 --state-dir "$scratch/empties" session create --repo . --image x \
        --revision 0123456789012345678901234567890123456789 "$words"
done
expect 77 --state-dir "$scratch/empties" session create --repo . --image '' \
    --revision 0123456789012345678901234567890123456789
expect 64 session create --no-revision=1
err_has 'takes no value'
expect 64 session create --revison x
err_has 'did you mean --revision\?'
expect 64 session create --rev x
err_has 'did you mean --revision\?'
expect 64 session exec "$id"
expect 64 session exec "$id" --
expect 64 session exec -- true
expect 64 session exec "$id" ls
err_has 'put -- before the command'
expect 64 session exec "$id" --env NAME -- true
err_has 'NAME=VALUE'
expect 64 session exec "$id" --json --status-fd 2 -- true
for fd in abc '' -1 0 1x 99 99999999999999999999; do
    expect 64 session exec "$id" --status-fd "$fd" -- true
done
expect 64 session write "$id" x --mode 777
err_has '644 or 755'
expect 64 session write "$id" x --mode 0644
expect 64 session diff "$id" --stat --name-only
expect 64 session close "$id" --keep-audit --drop-audit
expect 66 session exec "$id" --stdin "$scratch/missing" -- cat

# A secret given by mistake is not repeated.
expect 64 session exec "$id" --env s3cr3tvalue -- true
if grep -q s3cr3tvalue "$scratch/err" "$scratch/out"; then fail "the value is echoed"; else pass; fi

# Text from outside does not reach the terminal raw.
run session exec "$id" --timeout $'\e[31mred\n\xff' -- true
is 'exit code' "$code" 64
if LC_ALL=C grep -q $'\e' "$scratch/err"; then fail "an escape reaches the terminal"; else pass; fi
err_has '\\x1b\[31mred\\n\\xff'
is 'lines of the message' "$(grep -c red "$scratch/err")" 1

# Numbers: text is 64, a number that no rule allows is 77; both name the field.
for field in timeout cpus memory pids; do
    for text in abc '' ' 1' '1 ' 1x 0x10 +1 1. . - -- 1e 1,5 1_000 '१' nanx infinite; do
        expect 64 session exec "$id" "--$field=$text" -- true
        err_has "--$field"
    done
    for text in 0 -1 nan inf -inf NaN Infinity 0.0 -0 1e999 -1e3; do
        expect 77 session exec "$id" "--$field=$text" -- true
        err_has "--$field"
    done
done
for field in memory pids; do
    for text in 1.5 1e3 18446744073709551616 99999999999999999999999; do
        expect 77 session exec "$id" "--$field" "$text" -- true
        err_has "--$field"
    done
done
for words in 'session read ID f' 'session diff ID' 'session artifacts ID -o z f'; do
    expect 77 ${words/ID/$id} --max-bytes 0
    err_has '--max-bytes'
    expect 77 ${words/ID/$id} --max-bytes=-1
    expect 64 ${words/ID/$id} --max-bytes 1k
done

# Errors as JSON, wherever --json stands.
for words in '--json nonsense' 'nonsense --json' '--json session' 'session --json spork' \
    'session create --json' '--json session create' 'session --json create' \
    'session exec --bad --json' '--bad --json version' 'session read --max-bytes x --json'; do
    expect 64 $words
    out_json '.error.code == "invalid_argument"'
    out_json '.error.message | length > 0'
    out_json '.error.hint | type == "string"'
    err_empty
done
expect 77 session exec "$id" --timeout 0 --json -- true
out_json '.error.code == "policy" and (.error.message | contains("--timeout"))'
# Behind "--" it belongs to the command that is to run.
expect 64 session exec -- true --json
out_empty

# Writing to a full or closed stdout.
if [ -c /dev/full ]; then
    "$reposbx" --help >/dev/full 2>"$scratch/err"
    is 'exit code with a full device' $? 74
fi
"$reposbx" version >&- 2>"$scratch/err"
is 'exit code with a closed stdout' $? 74
err_has 'cannot write to stdout: '
"$reposbx" version --json >"$scratch/out" <&- 2>&-
is 'exit code with stdin and stderr closed' $? 0

# A umask that would keep ourselves out of what we make.
(
    umask 0777
    "$reposbx" --state-dir "$scratch/masked" session show "$id" >/dev/null 2>&1
)
is 'exit code with a umask of 0777' $? 66
is 'mode of a state folder behind it' "$(stat -c %a "$scratch/masked")" 700
is 'mode of a folder below' "$(stat -c %a "$scratch/masked/sessions")" 700
(
    umask 0027
    "$reposbx" --state-dir "$scratch/masked2" session show "$id" >/dev/null 2>&1
)
is 'mode behind a umask of 0027' "$(stat -c %a "$scratch/masked2")" 700
finish
