#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The controller is killed at every point that a run passes; the next run clears up behind it.
program=${REPOSBX_TEST_FAULT_CLI:-}
set -- "${program:-/nowhere}"
. "$(dirname "$0")/lib.sh"
[ -n "$program" ] || skip "REPOSBX_TEST_FAULT_CLI is not set"

for engine in "$podman_address" "$docker_address"; do
    ends 0 'print(1)'
    # live.made comes before the container is there, run.launched when it is.
    for point in live.made run.launched; do
        REPOSBX_FAULT=$point ends 137 'print(1)'
        is "lists of the living after $point" "$(ls "$REPOSBX_STATE_DIR/run/live" | wc -l)" 1
        ends 0 'print(1)'
        is "lists after the next run" "$(ls "$REPOSBX_STATE_DIR/run/live" | wc -l)" 0
        nothing_left
    done
    REPOSBX_FAULT=run.launched ends 137 'print(1)'
    run reap
    is 'reap' "$code" 0
    out_has 'reposbx-run-'
    is 'lists after reap' "$(ls "$REPOSBX_STATE_DIR/run/live" | wc -l)" 0
    nothing_left
done
finish
