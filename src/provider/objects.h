/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RSBX_PROVIDER_OBJECTS_H
#define RSBX_PROVIDER_OBJECTS_H

#include <stdbool.h>

#include "codec/json.h"
#include "policy/policy.h"

/*
 * What Docker and Podman have in common: how an object of ours is marked, and what they tell of an
 * image.
 */
#define RSBX_LABEL_SESSION "reposbx.session"

/* Options of an overlay's mount. userxattr works with and without root; redirect_dir and metacopy off
 * keep every change a plain file of the upper layer (a renamed baseline folder answers EXDEV); index
 * needs file handles, which not every host has. */
#define RSBX_OVERLAY_OPTIONS "userxattr,redirect_dir=nofollow,metacopy=off,index=off"

/* On a store that the engine had to make because a container named it: the one of that name was gone. */
#define RSBX_LABEL_LOST "reposbx.lost"

/* Whether labels (an object, or null) name the session; NULL: any session. */
bool rsbx_labels_ours(const json_t *labels, const char *session_id);
bool rsbx_labels_lost(const json_t *labels);
/* REPOSBX_EPOISONED: a store that the session was given is gone. */
int rsbx_store_gone(const char *name, reposbx_error *err);
/* REPOSBX_EPOLICY: an object of that name is somebody else's. */
int rsbx_not_ours(const char *what, const char *name, reposbx_error *err);

/* The folder of a store as one layer of an overlay; REPOSBX_EUNAVAILABLE when its name would end an
 * option of the mount. *out is the caller's. */
int rsbx_layer_folder(char **out, const json_t *volume, const char *name, reposbx_error *err);

/* An image document. `facts` is empty before and the caller's to dispose, also on failure. */
int rsbx_image_read(struct rsbx_image_facts *facts, const json_t *document, reposbx_error *err);

#endif
