/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RSBX_PROVIDER_PODMAN_SPEC_H
#define RSBX_PROVIDER_PODMAN_SPEC_H

#include "codec/json.h"
#include "provider/provider.h"

/*
 * What Podman is asked for, as pure functions: the words that follow `podman` and its global flags,
 * and what its answers mean. The lists end with NULL; rsbx_words_free() releases them.
 */
typedef char **rsbx_words_ptr;
void rsbx_words_free(char **words);
RSBX_CLEANUP(rsbx_words, rsbx_words_ptr, rsbx_words_free);

/* What a slot needs to know of the host. */
struct rsbx_podman_place {
    const char *seccomp_file; /* path of the profile; NULL: Podman's own */
    uint64_t processes;       /* RLIMIT_NPROC of the container; see rsbx_podman_process_limit() */
};

/* `run --detach …` for a slot: makes the container and starts it. */
int rsbx_podman_slot_words(char ***out, const struct rsbx_slot_spec *spec,
                           const struct rsbx_podman_place *place, reposbx_error *err);

/* `volume create …`. `lower` and `upper` are the folders of the stores that the spec names, NULL
 * for a plain store. */
int rsbx_podman_store_words(char ***out, const struct rsbx_store_spec *spec, const char *lower,
                            const char *upper, reposbx_error *err);

/*
 * The highest RLIMIT_NPROC that Podman can give. Podman sets its own to /proc/sys/kernel/pid_max when
 * it may, and never gets it back above that; without a word of ours it would ask the runtime for more,
 * which fails where nobody may raise limits. `hard` is the caller's hard limit (UINT64_MAX: none).
 */
uint64_t rsbx_podman_process_limit(uint64_t hard, uint64_t pid_max);

/* `podman info --format json`, and the version as major * 100 + minor. Too old a version, or a
 * remote service behind the program: REPOSBX_EUNAVAILABLE. */
int rsbx_podman_read_host(struct rsbx_host_facts *out, unsigned int *version, const json_t *info,
                          reposbx_error *err);

/* Whether what Podman said while it made a container tells of a limit that the host cannot hold. */
bool rsbx_podman_drops_a_limit(const char *said);

/* `podman image inspect`: facts are the caller's to dispose, also on failure. */
int rsbx_podman_read_image(struct rsbx_image_facts *facts, const json_t *list, reposbx_error *err);

#endif
