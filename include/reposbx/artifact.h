/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPOSBX_ARTIFACT_H
#define REPOSBX_ARTIFACT_H

#include <stddef.h>
#include <stdint.h>

#include <reposbx/error.h>

#ifdef __cplusplus
extern "C" {
#endif

/* One member of a bundle (ArtifactMember). `name` is a relative POSIX path. */
typedef struct reposbx_artifact_member {
    char *name;
    uint64_t size;
    char sha256[65];
} reposbx_artifact_member;

/* A ZIP of chosen files (ArtifactBundle). `path` is the file as the caller named it. */
typedef struct reposbx_artifact_bundle {
    char *path;
    uint64_t size;
    char sha256[65];
    reposbx_artifact_member *members;
    size_t member_count;
} reposbx_artifact_bundle;

void reposbx_artifact_bundle_dispose(reposbx_artifact_bundle *bundle);

/* {"path","size","sha256","members":[{"path","size","sha256"}]} (free()). */
int reposbx_artifact_bundle_json(char **out, const reposbx_artifact_bundle *bundle,
                                 reposbx_error *err);

/* Re-reads any ZIP: names, duplicates, links, encryption, sizes, CRC, bombs; gives its members with
 * their hashes. The answer "no" is REPOSBX_EMALFORMED with the first problem. */
int reposbx_artifact_verify(reposbx_artifact_bundle *out, const char *path, reposbx_error *err);

#ifdef __cplusplus
}
#endif
#endif
