/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RSBX_PROVIDER_PROVIDER_H
#define RSBX_PROVIDER_PROVIDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/error.h"
#include "policy/policy.h"

/*
 * What a session needs of whatever runs its containers, in no engine's words: stores (volumes) that
 * keep files, and slots (containers) in which the guest waits for one request. One constant table
 * of operations for each provider; provider.c lists the providers.
 *
 * Every object carries the id of its session. An object of the same name that does not is never
 * used and never removed: REPOSBX_EPOLICY.
 *
 * A provider object serves one thread at a time.
 */

struct rsbx_mount {
    const char *store;  /* name */
    const char *at;     /* absolute path inside */
    bool writable;
};

/* A store that a session was given. Engines make one anew, empty, where a container names one that is gone. */
struct rsbx_kept_store {
    const char *name;
    const char *owner; /* the session whose label it has; NULL: of any */
};

struct rsbx_seed_file {
    const char *path;   /* inside the container, without the leading '/'; a folder ends with '/' */
    uint32_t mode, uid, gid;
    const void *bytes;
    size_t length;
};

/* What may still change while a slot waits. */
struct rsbx_slot_limits {
    double cpus;
    uint64_t memory_bytes, pids;
};

struct rsbx_slot_spec {
    const char *name;
    const char *session_id;
    const char *image_id;
    const struct rsbx_mount *mounts;
    size_t mount_count;
    const struct rsbx_kept_store *kept;
    size_t kept_count;
    uint32_t uid, gid;
    bool read_everything;         /* the one capability to read and search whatever the modes say */
    bool network;                 /* full egress; false: no interface but lo */
    bool read_only_root;
    struct rsbx_slot_limits limits;
    uint64_t tmpfs_bytes, run_bytes;
    uint64_t nofile;
    const char *seccomp_profile;  /* JSON text; NULL: the engine's own */
    const char *runtime;          /* NULL: the engine's own */
};

/* A store: plain, or (lower not NULL) an overlay over the store `lower` whose changes go into the
 * folders upper and work of the store `upper`. The lower one may belong to another session. */
struct rsbx_store_spec {
    const char *name;
    const char *session_id;
    const char *lower, *upper;
    const char *lower_owner; /* NULL: session_id */
    bool must_exist;         /* make nothing: only look that it is there (REPOSBX_ENOTFOUND) and whose */
};

enum rsbx_object_kind { RSBX_OBJECT_SLOT, RSBX_OBJECT_STORE };

struct rsbx_slot_state {
    bool exists, running;
    int exit_code;
    bool oom_killed;              /* the kernel killed a process of it for memory */
};

/* The byte stream to the guest of one slot. */
struct rsbx_link;
typedef struct rsbx_link *rsbx_link_ptr;
typedef int (*rsbx_link_piece)(void *payload, int channel, const void *bytes, size_t length,
                               reposbx_error *err);
struct rsbx_link_ops {
    int (*fd)(const struct rsbx_link *link); /* for poll() */
    int (*send)(size_t *sent, struct rsbx_link *link, const void *bytes, size_t length,
                reposbx_error *err);
    int (*shutdown_send)(struct rsbx_link *link, reposbx_error *err);
    int (*receive)(bool *ended, struct rsbx_link *link, rsbx_link_piece piece, void *payload,
                   reposbx_error *err);
    void (*free)(struct rsbx_link *link);
};
struct rsbx_link {
    const struct rsbx_link_ops *ops;
};
void rsbx_link_free(struct rsbx_link *link);
RSBX_CLEANUP(rsbx_link, rsbx_link_ptr, rsbx_link_free);

struct rsbx_provider;
typedef struct rsbx_provider *rsbx_provider_ptr;

struct rsbx_provider_ops {
    const char *name;
    bool fixed_limits;   /* a slot keeps the limits that it was made with: connect gets no `lower` */
    uint64_t connect_ms; /* what is behind a link may take this long to be there, at the worst */
    /* `address` says where it is. Contacts it, unless `known` (0: nothing) is what it was
     * found to be before. */
    int (*open)(struct rsbx_provider **out, const char *address, unsigned int known,
                struct rsbx_deadline deadline, reposbx_error *err);
    void (*free)(struct rsbx_provider *provider);

    int (*host)(struct rsbx_host_facts *out, struct rsbx_provider *provider,
                struct rsbx_deadline deadline, reposbx_error *err);
    /* Not there: REPOSBX_EUNAVAILABLE; never fetched. */
    int (*image)(struct rsbx_image_facts *out, struct rsbx_provider *provider,
                 const char *reference, struct rsbx_deadline deadline, reposbx_error *err);
    /* Makes a store that belongs to the session. Whether an overlay works shows at its first
     * use. */
    int (*make_store)(struct rsbx_provider *provider, const struct rsbx_store_spec *spec,
                      struct rsbx_deadline deadline, reposbx_error *err);
    /* Makes the slot without running anything, puts the files into it (so into its mounted stores),
     * reads regular files back and compares, and removes it again. */
    int (*seed)(struct rsbx_provider *provider, const struct rsbx_slot_spec *spec,
                const struct rsbx_seed_file *files, size_t count, struct rsbx_deadline deadline,
                reposbx_error *err);
    /* Makes and starts: the guest waits for its greeting. A limit that the provider says it will
     * ignore is REPOSBX_EPOLICY, one of spec->kept that is not there any more REPOSBX_EPOISONED. */
    int (*launch)(struct rsbx_provider *provider, const struct rsbx_slot_spec *spec,
                  struct rsbx_deadline deadline, reposbx_error *err);
    /* `lower`, when not NULL, gives the waiting slot other limits before it is connected to. */
    int (*connect)(struct rsbx_link **out, struct rsbx_provider *provider, const char *slot,
                   const struct rsbx_slot_limits *lower, struct rsbx_deadline deadline,
                   reposbx_error *err);
    /* Kills and removes; returns 0 only when the object is verified to be gone (also when it never
     * was). */
    int (*destroy)(struct rsbx_provider *provider, enum rsbx_object_kind kind, const char *name,
                   const char *session_id, struct rsbx_deadline deadline, reposbx_error *err);
    int (*inspect)(struct rsbx_slot_state *out, struct rsbx_provider *provider, const char *slot,
                   const char *session_id, struct rsbx_deadline deadline, reposbx_error *err);
};

struct rsbx_provider {
    const struct rsbx_provider_ops *ops;
    unsigned int known; /* for a later open of the same */
};

/* Opens the provider for an address: unix:///path is Docker's; podman, or podman with what
 * podman/podman.h describes, is Podman's. REPOSBX_EINVALID for anything else. */
int rsbx_provider_open(struct rsbx_provider **out, const char *address, unsigned int known,
                       struct rsbx_deadline deadline, reposbx_error *err);
void rsbx_provider_free(struct rsbx_provider *provider);
RSBX_CLEANUP(rsbx_provider, rsbx_provider_ptr, rsbx_provider_free);

extern const struct rsbx_provider_ops rsbx_docker_provider;
extern const struct rsbx_provider_ops rsbx_podman_provider;

#endif
