#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Installs CPython from the package that $REPOSBX_TEST_PYTHON_WASM names, for the tests that run it: once, since
# a module that is there and whole is not compiled again. Compiling it with care takes minutes more, and changes
# nothing but the speed. Where $REPOSBX_TEST_WASM_STATE names a state folder that has it, nothing is done.
# usage: install-python.sh REPOSBX STATE
set -eu
[ -z "${REPOSBX_TEST_WASM_STATE:-}" ] || exit 0
for need in wasm2c cc; do
    command -v $need > /dev/null || missing=$need
done
[ -n "${REPOSBX_TEST_PYTHON_WASM:-}" ] || missing='REPOSBX_TEST_PYTHON_WASM (scripts/python-wasm)'
if [ -n "${missing:-}" ]; then
    echo "skipped: $missing is missing" >&2
    [ "${REPOSBX_TEST_MUST_RUN:-}" = 1 ] && exit 1
    exit 77
fi
mkdir -p "$2"
chmod 700 "$2"
"$1" --state-dir "$2" wasm install --optimisation none --default "$REPOSBX_TEST_PYTHON_WASM"
