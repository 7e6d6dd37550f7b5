#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Verifies a signed receipt without reposbx: openssl, jq and the shell alone. Says "verified", or what is
# wrong and exits with 1.
# usage: verify-receipt.sh RECEIPT PUBLIC_KEY PATCH BUNDLE AUDIT_DIR
set -eu
[ $# -eq 5 ] || { sed -n 5p "$0" >&2; exit 64; }
receipt=$1 key=$2 patch=$3 bundle=$4 audit=$5
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
no() {
    echo "not verified: $*" >&2
    exit 1
}
sha256() { openssl dgst -sha256 -r "$1" | cut -d' ' -f1; }
same() { [ "$2" = "$3" ] || no "$1: $2, the receipt says $3"; }

# ---- the envelope: DSSE, "DSSEv1 LEN(type) type LEN(payload) payload" is what is signed ----
type=application/vnd.in-toto+json
same payloadType "$type" "$(jq -r .payloadType "$receipt")"
jq -j .payload "$receipt" | openssl base64 -d -A >"$work/statement"
jq -j '.signatures[0].sig' "$receipt" | openssl base64 -d -A >"$work/signature"
{
    printf 'DSSEv1 %d %s %d ' ${#type} "$type" "$(wc -c <"$work/statement")"
    cat "$work/statement"
} >"$work/signed"
openssl pkeyutl -verify -pubin -inkey "$key" -rawin -in "$work/signed" \
    -sigfile "$work/signature" >/dev/null 2>&1 || no 'the signature'
openssl pkey -pubin -in "$key" -outform DER -out "$work/key.der"
same keyid "$(sha256 "$work/key.der")" "$(jq -r '.signatures[0].keyid' "$receipt")"

# ---- the statement ----
ask() { jq -r "$1" "$work/statement"; }
same _type https://in-toto.io/Statement/v1 "$(ask ._type)"
same predicateType https://reposbx.dev/receipt/v1 "$(ask .predicateType)"
subject() { ask ".subject[] | select(.name == \"$1\") | .digest.sha256"; }

# ---- patch and bundle ----
same patch "$(sha256 "$patch")" "$(subject patch)"
same patch "$(sha256 "$patch")" "$(ask .predicate.diff.sha256)"
same bundle "$(sha256 "$bundle")" "$(subject bundle-1)"
same bundle "$(sha256 "$bundle")" "$(ask '.predicate.bundles[0].sha256')"

# ---- the log: as many lines as the receipt knows, chained, each with its own sum ----
records=$(ask .predicate.audit.records)
head -n "$records" "$audit/events.jsonl" >"$work/log"
same records "$(wc -l <"$work/log" | tr -d ' ')" "$records"
same log "$(sha256 "$work/log")" "$(subject audit/events.jsonl)"
previous=0000000000000000000000000000000000000000000000000000000000000000
while IFS= read -r line; do
    same prev "$(printf %s "$line" | jq -r .prev)" "$previous"
    printf %s "${line%,\"sum\":*}" >"$work/summed"
    same sum "$(sha256 "$work/summed")" "$(printf %s "$line" | jq -r .sum)"
    printf %s "$line" >"$work/line"
    previous=$(sha256 "$work/line")
done <"$work/log"
same head "$previous" "$(ask .predicate.audit.head)"

# ---- what the log says of source, image, commands and their output ----
log() { jq -s -c "$1" "$work/log"; }
fact() {
    same "$1" "$(log ".[] | select(.event == \"sandbox_created\") | .data.metadata.$1")" \
        "$(jq -c ".predicate.$2" "$work/statement")"
}
fact source_revision source.revision
fact source_tree source.tree
fact source_fingerprint source.fingerprint
fact image_id image.id
same argv "$(log 'map(select(.event == "command_started") | [.data.argv, .data.argv_hex])')" \
    "$(jq -c '.predicate.commands | map([.argv, .argv_hex])' "$work/statement")"
same ends "$(log 'map(select(.event == "command_finished") | .data |
        [.status, .exit_code, .stdout.sha256, .stderr.sha256])')" \
    "$(jq -c '.predicate.commands | map([.status, .exit_code, .stdout.sha256, .stderr.sha256])' \
        "$work/statement")"
ask '.predicate.commands[] | (.stdout, .stderr) | .file + " " + .sha256' >"$work/streams"
while read -r file wanted; do
    same "$file" "$(sha256 "$audit/streams/$file")" "$wanted"
done <"$work/streams"
echo verified
