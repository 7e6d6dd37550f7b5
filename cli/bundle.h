/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RSBX_CLI_BUNDLE_H
#define RSBX_CLI_BUNDLE_H

#include "cli.h"

/* A bundle as a table: size, hash and name of every member, then the bundle itself
 * (session_artifacts.c). */
void rsbx_cli_print_bundle(const reposbx_artifact_bundle *bundle);

#endif
