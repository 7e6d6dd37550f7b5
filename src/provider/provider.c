/* SPDX-License-Identifier: Apache-2.0 */
#include "provider/provider.h"

#include <string.h>

#include "podman/podman.h"

#include "base/banned.h"

static bool is_docker(const char *address)
{
    return strncmp(address, "unix:///", strlen("unix:///")) == 0;
}

/* Every provider, and whether an address is one of its own. */
static const struct {
    bool (*is_address)(const char *address);
    const struct rsbx_provider_ops *ops;
} providers[] = {
    { is_docker, &rsbx_docker_provider },
    { rsbx_podman_is_address, &rsbx_podman_provider },
};

int rsbx_provider_open(struct rsbx_provider **out, const char *address, unsigned int known,
                       struct rsbx_deadline deadline, reposbx_error *err)
{
    for (size_t i = 0; i < sizeof providers / sizeof providers[0]; i++) {
        if (providers[i].is_address(address))
            return providers[i].ops->open(out, address, known, deadline, err);
    }
    (void)rsbx_fail(err, REPOSBX_EINVALID, "engine address %s is not unix:///absolute/path", address);
    rsbx_hint(err, "give the engine's socket with --engine unix:///run/user/UID/docker.sock, or "
                   "--engine podman");
    return REPOSBX_EINVALID;
}

void rsbx_provider_free(struct rsbx_provider *provider)
{
    if (provider != NULL)
        provider->ops->free(provider);
}

void rsbx_link_free(struct rsbx_link *link)
{
    if (link != NULL)
        link->ops->free(link);
}
