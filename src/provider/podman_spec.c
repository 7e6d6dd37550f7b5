/* SPDX-License-Identifier: Apache-2.0 */
#include "provider/podman_spec.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "guest/protocol.h"
#include "provider/objects.h"

#include "base/banned.h"

#define MAX_WORDS 96U
/* The period that quotas are counted in, in microseconds: the kernel's default. */
#define CPU_PERIOD_US 100000
/* As much shared memory as Docker gives. */
#define SHM_BYTES (64U * 1024U * 1024U)
/* The first version with `rm --filter`, `volume import` from stdin and all flags below. */
#define OLDEST_VERSION 403U

void rsbx_words_free(char **words)
{
    for (size_t i = 0; words != NULL && words[i] != NULL; i++)
        free(words[i]);
    free(words);
}

struct words {
    char **list; /* MAX_WORDS and a NULL */
    size_t count;
    bool full;
};

static int begin(struct words *words, reposbx_error *err)
{
    *words = (struct words){ .list = calloc(MAX_WORDS + 1, sizeof(char *)) };
    return words->list != NULL ? REPOSBX_OK : rsbx_fail_memory(err);
}

__attribute__((format(printf, 2, 3))) static void add(struct words *words, const char *format, ...)
{
    va_list values;

    if (words->full || words->count == MAX_WORDS) {
        words->full = true;
        return;
    }
    va_start(values, format);
    if (vasprintf(&words->list[words->count], format, values) < 0) {
        words->list[words->count] = NULL;
        words->full = true;
    } else {
        words->count++;
    }
    va_end(values);
}

/* Hands the list out; a word that is missing is missing memory. */
static int finish(char ***out, struct words *words, reposbx_error *err)
{
    if (words->full) {
        rsbx_words_free(words->list);
        return rsbx_fail_memory(err);
    }
    *out = words->list;
    return REPOSBX_OK;
}

/* ---- slots ---- */

static void add_identity(struct words *words, const struct rsbx_slot_spec *spec)
{
    add(words, "--name=%s", spec->name);
    add(words, "--label=" RSBX_LABEL_SESSION "=%s", spec->session_id);
    add(words, "--user=%" PRIu32 ":%" PRIu32, spec->uid, spec->gid);
    add(words, "--cap-drop=all");
    if (spec->read_everything)
        add(words, "--cap-add=DAC_READ_SEARCH");
    add(words, "--privileged=false");
    add(words, "--security-opt=no-new-privileges");
}

/* Each namespace is named, so that no configuration file chooses. */
static void add_namespaces(struct words *words, const struct rsbx_slot_spec *spec)
{
    /* "private" is the bridge with root and the user-mode network without. */
    add(words, "--network=%s", spec->network ? "private" : "none");
    add(words, "--ipc=private");
    add(words, "--pid=private");
    add(words, "--uts=private");
    add(words, "--cgroupns=private");
    add(words, "--userns=host"); /* Podman's own: the user's when it runs without root */
    add(words, "--hostname=sandbox");
    add(words, "--no-hosts");
}

static void add_limits(struct words *words, const struct rsbx_slot_spec *spec,
                       const struct rsbx_podman_place *place)
{
    add(words, "--memory=%" PRIu64 "b", spec->limits.memory_bytes);
    add(words, "--memory-swap=%" PRIu64 "b", spec->limits.memory_bytes);
    add(words, "--cpu-period=%d", CPU_PERIOD_US);
    add(words, "--cpu-quota=%lld", llround(spec->limits.cpus * CPU_PERIOD_US));
    add(words, "--pids-limit=%" PRIu64, spec->limits.pids);
    add(words, "--ulimit=nofile=%" PRIu64 ":%" PRIu64, spec->nofile, spec->nofile);
    add(words, "--ulimit=nproc=%" PRIu64 ":%" PRIu64, place->processes, place->processes);
    add(words, "--ulimit=core=0:0");
    add(words, "--shm-size=%ub", SHM_BYTES);
}

/* The runtime gives a tmpfs the mode of the folder that the image has in its place, whatever `mode`
 * says; U makes the slot's user its owner. Nothing of the image may appear in a tmpfs or a store. */
static void add_mounts(struct words *words, const struct rsbx_slot_spec *spec)
{
    static const char options[] = "rw,nosuid,nodev,noexec,mode=1777,notmpcopyup,U";

    add(words, "--read-only=%s", spec->read_only_root ? "true" : "false");
    add(words, "--read-only-tmpfs=false");
    add(words, "--image-volume=ignore");
    add(words, "--tmpfs=/tmp:%s,size=%" PRIu64, options, spec->tmpfs_bytes);
    add(words, "--tmpfs=/run:%s,size=%" PRIu64, options, spec->run_bytes);
    for (size_t i = 0; i < spec->mount_count; i++)
        add(words, "--volume=%s:%s:%s,nocopy", spec->mounts[i].store, spec->mounts[i].at,
            spec->mounts[i].writable ? "rw" : "ro");
}

static void add_program(struct words *words, const struct rsbx_slot_spec *spec)
{
    static const char *const fixed[] = {
        "--interactive",     "--log-driver=none", "--restart=no",     "--rm=false",
        "--stop-timeout=0",  "--no-healthcheck",  "--systemd=false",  "--sdnotify=ignore",
        "--init=false",      "--env-host=false",  "--unsetenv-all",   "--http-proxy=false",
        "--umask=0022",      "--workdir=/",       "--pull=never",
    };

    for (size_t i = 0; i < sizeof fixed / sizeof fixed[0]; i++)
        add(words, "%s", fixed[i]);
    add(words, "--entrypoint=" RSBX_GUEST_PATH);
    add(words, "%s", spec->image_id);
}

int rsbx_podman_slot_words(char ***out, const struct rsbx_slot_spec *spec,
                           const struct rsbx_podman_place *place, reposbx_error *err)
{
    struct words words;
    int rc = begin(&words, err);

    if (rc != 0)
        return rc;
    if (spec->runtime != NULL)
        add(&words, "--runtime=%s", spec->runtime);
    add(&words, "run");
    add(&words, "--detach");
    add_identity(&words, spec);
    if (place->seccomp_file != NULL)
        add(&words, "--security-opt=seccomp=%s", place->seccomp_file);
    add_namespaces(&words, spec);
    add_limits(&words, spec, place);
    add_mounts(&words, spec);
    add_program(&words, spec);
    return finish(out, &words, err);
}

uint64_t rsbx_podman_process_limit(uint64_t hard, uint64_t pid_max)
{
    return hard < pid_max ? hard : pid_max;
}

/* ---- stores ---- */

/* A plain store's folder belongs to the commands' user from its birth: Podman would otherwise give it
 * the owner and mode of the folder that the image has in its place. An overlay takes no such
 * options; its root is the upper layer's. Why these options of the mount: see Docker's. */
int rsbx_podman_store_words(char ***out, const struct rsbx_store_spec *spec, const char *lower,
                            const char *upper, reposbx_error *err)
{
    struct words words;
    int rc = begin(&words, err);

    if (rc != 0)
        return rc;
    add(&words, "volume");
    add(&words, "create");
    add(&words, "--driver=local");
    add(&words, "--label=" RSBX_LABEL_SESSION "=%s", spec->session_id);
    if (lower == NULL) {
        add(&words, "--opt=o=uid=%u,gid=%u", RSBX_GUEST_UID, RSBX_GUEST_GID);
    } else {
        add(&words, "--opt=type=overlay");
        add(&words, "--opt=device=overlay");
        add(&words, "--opt=o=lowerdir=%s,upperdir=%s/upper,workdir=%s/work," RSBX_OVERLAY_OPTIONS,
            lower, upper, upper);
    }
    add(&words, "%s", spec->name);
    return finish(out, &words, err);
}

/* ---- answers ---- */

static bool has_controller(const json_t *controllers, const char *name)
{
    for (size_t i = 0; i < json_array_size(controllers); i++) {
        const char *text = json_string_value(json_array_get(controllers, i));

        if (text != NULL && strcmp(text, name) == 0)
            return true;
    }
    return false;
}

static int read_version(unsigned int *version, struct rsbx_host_facts *facts, const json_t *info,
                        reposbx_error *err)
{
    json_t *about = NULL;
    const char *text = NULL;
    char *end = NULL;
    unsigned long major;
    unsigned long minor = 0;
    int rc = rsbx_json_get_node(&about, info, "version", JSON_OBJECT, "podman info", err);

    if (rc == 0)
        rc = rsbx_json_get_text(&text, about, "Version", "podman info", err);
    if (rc != 0)
        return rc;
    major = strtoul(text, &end, 10);
    if (end != text && *end == '.')
        minor = strtoul(end + 1, NULL, 10);
    if (major < 100 && minor < 100)
        *version = (unsigned int)(major * 100 + minor);
    if (major >= 100 || minor >= 100 || *version < OLDEST_VERSION) {
        (void)rsbx_fail(err, REPOSBX_EUNAVAILABLE, "podman is version %.32s", text);
        rsbx_hint(err, "version %u.%u or a newer one is needed", OLDEST_VERSION / 100,
                  OLDEST_VERSION % 100);
        return REPOSBX_EUNAVAILABLE;
    }
    (void)snprintf(facts->version, sizeof facts->version, "%s", text);
    return REPOSBX_OK;
}

int rsbx_podman_read_host(struct rsbx_host_facts *out, unsigned int *version, const json_t *info,
                          reposbx_error *err)
{
    struct rsbx_host_facts facts = { .provider = "podman" };
    unsigned int found = 0;
    json_t *host = NULL, *security = NULL, *controllers = NULL;
    const char *os, *architecture, *cgroups, *manager;
    bool remote = false;
    int rc = read_version(&found, &facts, info, err);

    if (rc == 0)
        rc = rsbx_json_get_node(&host, info, "host", JSON_OBJECT, "podman info", err);
    if (rc == 0)
        rc = rsbx_json_get_node(&security, host, "security", JSON_OBJECT, "podman info", err);
    if (rc == 0)
        rc = rsbx_json_get_node(&controllers, host, "cgroupControllers", JSON_ARRAY, "podman info",
                                err);
    if (rc == 0)
        rc = rsbx_json_get_text(&os, host, "os", "podman info", err);
    if (rc == 0)
        rc = rsbx_json_get_text(&architecture, host, "arch", "podman info", err);
    if (rc == 0)
        rc = rsbx_json_get_text(&cgroups, host, "cgroupVersion", "podman info", err);
    if (rc == 0)
        rc = rsbx_json_get_text(&manager, host, "cgroupManager", "podman info", err);
    if (rc == 0)
        rc = rsbx_json_get_bool(&facts.rootless, security, "rootless", "podman info", err);
    if (rc == 0)
        rc = rsbx_json_get_bool(&facts.seccomp, security, "seccompEnabled", "podman info", err);
    if (rc == 0)
        rc = rsbx_json_get_bool_or(&remote, host, "serviceIsRemote", false, "podman info", err);
    if (rc == 0 && remote)
        rc = rsbx_fail(err, REPOSBX_EUNAVAILABLE, "podman talks to a service on another machine");
    if (rc != 0)
        return rc;
    (void)snprintf(facts.platform, sizeof facts.platform, "%s/%s", os, architecture);
    facts.cgroup_version = strcmp(cgroups, "v2") == 0 ? 2 : strcmp(cgroups, "v1") == 0 ? 1 : 0;
    facts.systemd_cgroups = strcmp(manager, "systemd") == 0;
    facts.memory_limit = has_controller(controllers, "memory");
    facts.swap_limit = facts.memory_limit; /* not told by Podman; the hello shows it */
    facts.cpu_limit = has_controller(controllers, "cpu");
    facts.pids_limit = has_controller(controllers, "pids");
    *out = facts;
    *version = found;
    return REPOSBX_OK;
}

bool rsbx_podman_drops_a_limit(const char *said)
{
    static const char *const signs[] = { "kernel does not support", "not supported and ignored",
                                         " discarded" };

    for (size_t i = 0; i < sizeof signs / sizeof signs[0]; i++) {
        if (strstr(said, signs[i]) != NULL)
            return true;
    }
    return false;
}

int rsbx_podman_read_image(struct rsbx_image_facts *facts, const json_t *list, reposbx_error *err)
{
    const json_t *document = json_array_get(list, 0);
    const char *id;
    int rc;

    if (json_array_size(list) != 1)
        return rsbx_fail(err, REPOSBX_EPROTOCOL, "podman named %zu images where one was asked for",
                         json_array_size(list));
    rc = rsbx_image_read(facts, document, err);
    if (rc != 0 || strncmp(facts->id, "sha256:", 7) == 0)
        return rc;
    /* The id without its algorithm: there is only one. */
    rc = rsbx_json_get_text(&id, document, "Id", "image", err);
    if (rc == 0)
        (void)snprintf(facts->id, sizeof facts->id, "sha256:%.64s", id);
    return rc;
}
