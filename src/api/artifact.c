/* SPDX-License-Identifier: Apache-2.0 */
#include <reposbx/artifact.h>

#include "base/error.h"
#include "session/session.h"

#include "base/banned.h"

void reposbx_artifact_bundle_dispose(reposbx_artifact_bundle *bundle)
{
    rsbx_artifact_bundle_dispose(bundle);
}

int reposbx_artifact_verify(reposbx_artifact_bundle *out, const char *path, reposbx_error *err)
{
    if (out == NULL || path == NULL)
        return rsbx_fail(err, REPOSBX_EINVALID, "%s: missing", out == NULL ? "out" : "path");
    return rsbx_artifact_verify(out, path, err);
}
