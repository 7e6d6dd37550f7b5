/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RSBX_PROVIDER_PODMAN_ASK_H
#define RSBX_PROVIDER_PODMAN_ASK_H

#include "codec/json.h"
#include "podman/podman.h"
#include "provider/provider.h"

/*
 * Questions to the podman program that change nothing: for sessions and for pieces of code alike.
 */

/* Runs it and reads the JSON that it prints; what is none is REPOSBX_EPROTOCOL. */
int rsbx_podman_ask(json_t **out, const struct rsbx_podman *program, const char *const *words,
                    const char *what, struct rsbx_deadline deadline, reposbx_error *err);

/* Whether `podman KIND exists NAME` says so. */
int rsbx_podman_exists(bool *out, const struct rsbx_podman *program, const char *kind, const char *name,
                       struct rsbx_deadline deadline, reposbx_error *err);

/* The host, and the version as rsbx_podman_read_host() tells it. */
int rsbx_podman_host(struct rsbx_host_facts *out, unsigned int *version, const struct rsbx_podman *program,
                     struct rsbx_deadline deadline, reposbx_error *err);

/* An image of the storage; not there: REPOSBX_EUNAVAILABLE. Nothing is fetched. */
int rsbx_podman_image(struct rsbx_image_facts *out, const struct rsbx_podman *program,
                      const char *reference, struct rsbx_deadline deadline, reposbx_error *err);

#endif
