/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/limits.h"
#include "podman/podman.h"
#include "run/internal.h"

#include "base/banned.h"

void rsbx_run_docker_address(char *out, size_t size)
{
    (void)snprintf(out, size, "unix:///run/user/%ld/docker.sock", (long)geteuid());
}

int rsbx_run_engine_open(struct rsbx_run_engine **out, const char *address, const char *runtime,
                         reposbx_error *err)
{
    char own[64];

    if (rsbx_podman_is_address(address))
        return rsbx_run_podman_open(out, address, runtime, err);
    if (strcmp(address, "docker") == 0) {
        rsbx_run_docker_address(own, sizeof own);
        return rsbx_run_docker_open(out, own, runtime, err);
    }
    if (strncmp(address, "unix:///", 8) == 0)
        return rsbx_run_docker_open(out, address, runtime, err);
    (void)rsbx_fail(err, REPOSBX_EINVALID, "engine %s is not known", address);
    rsbx_hint(err, "name podman, docker, unix:///socket, wasm or auto");
    return REPOSBX_EINVALID;
}

struct rsbx_deadline rsbx_run_until(const int *cancel_fd)
{
    return rsbx_deadline_or(rsbx_deadline_in_ms(RSBX_ENGINE_CALL_MS), cancel_fd);
}

void rsbx_run_engine_free(struct rsbx_run_engine *engine)
{
    if (engine == NULL)
        return;
    free(engine->address);
    free(engine->runtime);
    engine->ops->free(engine);
}
