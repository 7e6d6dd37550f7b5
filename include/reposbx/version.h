/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPOSBX_VERSION_H
#define REPOSBX_VERSION_H

#include <reposbx/error.h>

#ifdef __cplusplus
extern "C" {
#endif

#define REPOSBX_VERSION "0.1.0"

/* The library's own version, which may be newer than the header's. */
const char *reposbx_version(void);

/* {"version","libraries":{"libgit2","libcurl","libzip","jansson","openssl","libarchive"},
 *  "engine_api":{"oldest","newest"},"guest_sha256","guest_bytes"} (free()). Contacts no engine. */
int reposbx_version_json(char **out, reposbx_error *err);

#ifdef __cplusplus
}
#endif
#endif
