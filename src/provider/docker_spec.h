/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RSBX_PROVIDER_DOCKER_SPEC_H
#define RSBX_PROVIDER_DOCKER_SPEC_H

#include "codec/json.h"
#include "provider/objects.h"
#include "provider/provider.h"

/* The body of POST /containers/create for a slot: pure, so that a test can read every flag. */
int rsbx_docker_slot_body(json_t **out, const struct rsbx_slot_spec *spec, reposbx_error *err);

/* The body of POST /containers/NAME/update. */
int rsbx_docker_limits_body(json_t **out, const struct rsbx_slot_limits *limits,
                            reposbx_error *err);

/* As seed, and then the slot's files become an image of their own: *image_id (caller frees). */
int rsbx_docker_bake(char **image_id, struct rsbx_provider *provider,
                     const struct rsbx_slot_spec *spec, const struct rsbx_seed_file *files,
                     size_t count, struct rsbx_deadline deadline, reposbx_error *err);

/* {"reposbx.session": session_id} */
int rsbx_docker_labels(json_t **out, const char *session_id, reposbx_error *err);

#endif
