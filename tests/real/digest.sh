#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# An image that is pinned by its manifest digest: $REPOSBX_TEST_IMAGE_DIGEST, name@sha256:…, which the
# engine got from a registry on loopback.
. "$(dirname "$0")/../cli/session.sh"
needs REPOSBX_TEST_IMAGE_DIGEST

echo one >"$repo/file"
commit
digest=$REPOSBX_TEST_IMAGE_DIGEST
other=${digest%@*}@sha256:$(printf '%064d' 0)
allow "$digest" "{\"images\": [\"$digest\", \"$other\"]}"
try() { run session create --repo "$repo" --revision "$head" --policy "$policy" --image "$1"; }

try "$digest"
is 'the digest is taken' "$code" 0
opened
expect 0 session show "$id" --json
out_json ".image == \"$digest\" and (.image_id | startswith(\"sha256:\"))"
expect 0 session exec "$id" -- cat file
is 'it runs' "$(cat "$scratch/out")" one
expect 0 session close "$id"
try "$other"
is 'a digest that the engine does not have' "$code" 69
try "${digest%@*}"
is 'a name without its digest' "$code" 77
expect 0 session list --json
out_json 'length == 1 and .[0].state == "closed"'
finish
