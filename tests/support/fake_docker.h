/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RSBX_TESTS_FAKE_DOCKER_H
#define RSBX_TESTS_FAKE_DOCKER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "support/fake_guest.h"

/*
 * An engine that keeps books: volumes and containers by name, archives, and a guest behind every
 * attach (support/fake_guest.h). It behaves like a rootless Docker 20.10 unless its habits say
 * otherwise, and remembers every request.
 *
 *     struct fake_docker *fake = fake_docker_start();
 *     struct fake_habits habits = { .create_warning = "no swap limit" };
 *     fake_docker_behave(fake, &habits);
 *     … reposbx_session_create on fake_docker_address(fake) …
 *     assert_int_equal(fake_docker_count(fake, "POST /containers/create"), 1);
 *     fake_docker_stop(fake);
 */
struct fake_docker;

/* What becomes of a call that changes something. */
enum fake_answer {
    FAKE_ANSWERED = 0,
    FAKE_DONE_IN_SILENCE, /* done, and the connection closed without an answer */
    FAKE_LOST,            /* neither done nor answered: closed */
    FAKE_DONE_AND_HANGS,  /* done, and nothing comes until the caller goes away */
    FAKE_HANGS            /* not even done */
};

/* All zero: an honest engine. Texts must live as long as the fake does. */
struct fake_habits {
    const char *version; /* the body of GET /version; NULL: FAKE_VERSION */
    const char *info;    /* of GET /info; NULL: FAKE_INFO */
    const char *image;   /* of GET /images/…/json; NULL: FAKE_IMAGE; "": there is none */
    const char *create_warning; /* in the answer to the create of a container */
    const char *foreign_volume; /* volumes whose name ends so are said to be somebody else's */
    enum fake_answer volume_create, container_create, container_start;
    bool vanishing; /* a container is gone as soon as its conversation is over */
    int linger_ms; /* how long what was removed (and answered with 204) is still there */
    enum fake_guest_habit guest;
    const char *guest_of;   /* `guest` and `hello` count for containers whose name ends so; NULL: all */
    /* Changes what an honest guest would say of its container. NULL: nothing. */
    void (*hello)(struct rsbx_hello *hello);
};

#define FAKE_IMAGE_ID "sha256:1111111111111111111111111111111111111111111111111111111111111111"
#define FAKE_IMAGE_DIGEST                                                                          \
    "example.org/tools@sha256:2222222222222222222222222222222222222222222222222222222222222222"
#define FAKE_VERSION_OF(component)                                                                 \
    "{\"Version\":\"20.10.24\",\"ApiVersion\":\"1.41\",\"MinAPIVersion\":\"1.12\",\"Os\":"         \
    "\"linux\",\"Arch\":\"amd64\",\"Components\":[{\"Name\":\"" component "\"}]}"
#define FAKE_VERSION FAKE_VERSION_OF("Engine")
#define FAKE_INFO_OF(security, cgroup, driver)                                                     \
    "{\"SecurityOptions\":[" security "],\"CgroupVersion\":\"" cgroup "\",\"CgroupDriver\":"       \
    "\"" driver "\",\"MemoryLimit\":true,\"SwapLimit\":true,\"CpuCfsQuota\":true,"                 \
    "\"PidsLimit\":true,\"Driver\":\"overlay2\"}"
#define FAKE_SECCOMP "\"name=seccomp,profile=default\""
#define FAKE_INFO FAKE_INFO_OF(FAKE_SECCOMP ",\"name=rootless\"", "2", "systemd")
#define FAKE_IMAGE_OF(id, digest, architecture, config)                                            \
    "{\"Id\":\"" id "\",\"RepoDigests\":[\"" digest "\"],\"Os\":\"linux\",\"Architecture\":"       \
    "\"" architecture "\",\"Config\":{" config "}}"
#define FAKE_IMAGE                                                                                 \
    FAKE_IMAGE_OF(FAKE_IMAGE_ID, FAKE_IMAGE_DIGEST, "amd64", "\"Env\":[\"PATH=/bin\"]")

/* Ends the program when it cannot be made. */
struct fake_docker *fake_docker_start(void);
void fake_docker_stop(struct fake_docker *fake);

const char *fake_docker_address(const struct fake_docker *fake); /* unix:///… */

/* Takes these habits from the next request on. */
void fake_docker_behave(struct fake_docker *fake, const struct fake_habits *habits);

/* How many requests began with "METHOD /path" (without the API version); forgotten by
 * fake_docker_forget, objects stay. */
size_t fake_docker_count(struct fake_docker *fake, const char *start);
void fake_docker_forget(struct fake_docker *fake);

/* How many REQUEST messages all guests got together: of one operation (enum rsbx_wire_op), or of
 * any with 0. */
size_t fake_docker_asked(struct fake_docker *fake, uint32_t op);

/* Volumes and containers that exist, also those on their way out. */
size_t fake_docker_left(struct fake_docker *fake);

#endif
