/* SPDX-License-Identifier: Apache-2.0 */
#include <reposbx/version.h>

#include "base/error.h"
#include "codec/json.h"
#include "codec/sha256.h"
#include "engine/engine.h"
#include "guest/embedded.h"

#include "base/banned.h"

const char *reposbx_version(void)
{
    return REPOSBX_VERSION;
}

int reposbx_version_json(char **out, reposbx_error *err)
{
    RSBX_AUTO(rsbx_json) rsbx_json_ptr value = NULL;
    char guest[RSBX_SHA256_HEX_BYTES];

    if (out == NULL)
        return rsbx_fail(err, REPOSBX_EINVALID, "out: missing");
    rsbx_sha256_hex(guest, rsbx_guest_binary, rsbx_guest_binary_size);
    value = json_pack("{s:s, s:{s:s, s:s, s:s, s:s, s:s, s:s}, s:{s:o, s:o}, s:s, s:I}", "version",
                      REPOSBX_VERSION, "libraries", "libgit2", RSBX_BUILT_WITH_LIBGIT2, "libcurl",
                      RSBX_BUILT_WITH_LIBCURL, "libzip", RSBX_BUILT_WITH_LIBZIP, "jansson",
                      RSBX_BUILT_WITH_JANSSON, "openssl", RSBX_BUILT_WITH_OPENSSL, "libarchive",
                      RSBX_BUILT_WITH_LIBARCHIVE, "engine_api", "oldest",
                      json_sprintf("1.%d", RSBX_ENGINE_API_OLDEST % 100), "newest",
                      json_sprintf("1.%d", RSBX_ENGINE_API_NEWEST % 100), "guest_sha256", guest,
                      "guest_bytes", (json_int_t)rsbx_guest_binary_size);
    if (value == NULL)
        return rsbx_fail_memory(err);
    return rsbx_json_text(out, value, err);
}
