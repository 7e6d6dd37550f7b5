#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs a test program with Podman as its engine: on-podman.sh PROGRAM. Skips without $REPOSBX_TEST_PODMAN
# (scripts/storage makes one).
if [ -z "${REPOSBX_TEST_PODMAN:-}" ]; then
    echo "REPOSBX_TEST_PODMAN is not set" >&2
    [ "${REPOSBX_TEST_MUST_RUN:-}" != 1 ] || exit 1
    exit 77
fi
REPOSBX_TEST_ENGINE=$REPOSBX_TEST_PODMAN
export REPOSBX_TEST_ENGINE
exec "$@"
