/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPOSBX_REPOSBX_H
#define REPOSBX_REPOSBX_H

/* The whole public API of libreposbx. Linking the library contacts no engine. */
#include <reposbx/artifact.h>
#include <reposbx/audit.h>
#include <reposbx/doctor.h>
#include <reposbx/error.h>
#include <reposbx/policy.h>
#include <reposbx/receipt.h>
#include <reposbx/run.h>
#include <reposbx/session.h>
#include <reposbx/validate.h>
#include <reposbx/version.h>
#include <reposbx/wasm.h>

#endif
