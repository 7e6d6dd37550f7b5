/* SPDX-License-Identifier: Apache-2.0 */
/* Where the program is, which global flags it gets, and the environment that it sees. */
#include <ctype.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "podman/internal.h"

#include "base/banned.h"

#define SCHEME "podman"
#define MAX_FLAGS 8U
#define MAX_ENVIRONMENT 8U
/* conmon, runtimes and network helpers of distributions and of local builds. */
#define FIXED_PATH "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

static const char *const places[] = { "/usr/bin/podman", "/usr/local/bin/podman", "/bin/podman" };

static const struct {
    const char *key;
    bool path;
} keys[] = {
    { "root", true },    { "runroot", true },         { "tmpdir", true },
    { "runtime", true }, { "storage-driver", false }, { "cgroup-manager", false },
};
#define KEY_COUNT (sizeof keys / sizeof keys[0])

bool rsbx_podman_is_address(const char *address)
{
    size_t length = strlen(SCHEME);

    return strncmp(address, SCHEME, length) == 0 &&
           (address[length] == '\0' || address[length] == ':' || address[length] == '?');
}

static void free_list(char **list)
{
    for (size_t i = 0; list != NULL && list[i] != NULL; i++)
        free(list[i]);
    free(list);
}

void rsbx_podman_free(struct rsbx_podman *podman)
{
    if (podman == NULL)
        return;
    free(podman->program);
    free_list(podman->flags);
    free_list(podman->environment);
    free(podman);
}

const char *rsbx_podman_program(const struct rsbx_podman *podman)
{
    return podman->program;
}

const char *const *rsbx_podman_flags(const struct rsbx_podman *podman)
{
    return (const char *const *)podman->flags;
}

/* Puts "before" + text behind the list, which has room. */
static int put(char **list, const char *before, const char *text, reposbx_error *err)
{
    size_t count = 0;

    while (list[count] != NULL)
        count++;
    if (asprintf(&list[count], "%s%s", before, text) < 0) {
        list[count] = NULL;
        return rsbx_fail_memory(err);
    }
    return REPOSBX_OK;
}

static int bad_address(const char *address, const char *why, reposbx_error *err)
{
    (void)rsbx_fail(err, REPOSBX_EINVALID, "engine address %s: %s", address, why);
    rsbx_hint(err, "write podman, podman:/absolute/program, or podman?root=/folder&runroot=/folder");
    return REPOSBX_EINVALID;
}

static bool is_word(const char *text)
{
    for (const char *p = text; *p != '\0'; p++) {
        if (!isalnum((unsigned char)*p) && *p != '-' && *p != '_')
            return false;
    }
    return text[0] != '\0';
}

/* One "key=value" of the address. */
static int put_flag(struct rsbx_podman *podman, const char *address, const char *pair,
                    bool seen[KEY_COUNT], reposbx_error *err)
{
    const char *equals = strchr(pair, '=');
    char flag[32];

    for (size_t i = 0; equals != NULL && i < KEY_COUNT; i++) {
        size_t length = strlen(keys[i].key);

        if ((size_t)(equals - pair) != length || strncmp(pair, keys[i].key, length) != 0)
            continue;
        if (seen[i])
            return bad_address(address, "a key is there twice", err);
        seen[i] = true;
        if (keys[i].path ? equals[1] != '/' : !is_word(equals + 1))
            return bad_address(address, "a value is neither a word nor an absolute path", err);
        (void)snprintf(flag, sizeof flag, "--%s=", keys[i].key);
        return put(podman->flags, flag, equals + 1, err);
    }
    return bad_address(address, "an unknown key", err);
}

static int find_program(struct rsbx_podman *podman, const char *given, reposbx_error *err)
{
    const char *found = given[0] != '\0' ? given : NULL;

    for (size_t i = 0; found == NULL && i < sizeof places / sizeof places[0]; i++) {
        if (access(places[i], X_OK) == 0)
            found = places[i];
    }
    if (found == NULL || access(found, X_OK) != 0) {
        (void)rsbx_fail(err, REPOSBX_EUNAVAILABLE, "there is no podman program%s%s",
                        given[0] != '\0' ? " at " : "", given);
        rsbx_hint(err, "install the package podman, or say where it is: podman:/absolute/program");
        return REPOSBX_EUNAVAILABLE;
    }
    podman->program = strdup(found);
    return podman->program != NULL ? REPOSBX_OK : rsbx_fail_memory(err);
}

static int read_address(struct rsbx_podman *podman, const char *address, const char *runtime,
                        reposbx_error *err)
{
    RSBX_AUTO(rsbx_text) char *text = strdup(address + strlen(SCHEME));
    bool seen[KEY_COUNT] = { false };
    char *query;
    char *program;
    int rc;

    if (text == NULL)
        return rsbx_fail_memory(err);
    query = strchr(text, '?');
    if (query != NULL)
        *query++ = '\0';
    program = text[0] == ':' ? text + 1 : text;
    if (text[0] == ':' && program[0] != '/')
        return bad_address(address, "the program is not an absolute path", err);
    rc = find_program(podman, program, err);
    /* The call must not go to a service, whatever a configuration file says. */
    if (rc == 0)
        rc = put(podman->flags, "--remote=false", "", err);
    /* Nor may every container get folders of the host (subscriptions, say) that such a file lists. */
    if (rc == 0)
        rc = put(podman->flags, "--default-mounts-file=/dev/null", "", err);
    if (rc == 0 && runtime != NULL) {
        rc = put(podman->flags, "--runtime=", runtime, err);
    }
    while (rc == 0 && query != NULL) {
        char *next = strchr(query, '&');

        if (next != NULL)
            *next++ = '\0';
        if (runtime == NULL || strncmp(query, "runtime=", 8) != 0)
            rc = put_flag(podman, address, query, seen, err);
        query = next;
    }
    return rc;
}

/* A folder of the user's own that nobody else can enter. */
static bool own_folder(const char *path)
{
    struct stat facts;

    return path != NULL && path[0] == '/' && lstat(path, &facts) == 0 && S_ISDIR(facts.st_mode) &&
           facts.st_uid == geteuid() && (facts.st_mode & 077) == 0;
}

static int put_home(struct rsbx_podman *podman, reposbx_error *err)
{
    char space[16384];
    struct passwd entry;
    struct passwd *found = NULL;

    if (getpwuid_r(geteuid(), &entry, space, sizeof space, &found) != 0 || found == NULL ||
        found->pw_dir == NULL || found->pw_dir[0] != '/')
        return rsbx_fail(err, REPOSBX_EUNAVAILABLE, "the user has no home folder, which podman needs");
    return put(podman->environment, "HOME=", found->pw_dir, err);
}

static int make_environment(struct rsbx_podman *podman, reposbx_error *err)
{
    const char *runtime_folder = getenv("XDG_RUNTIME_DIR");
    const char *bus = getenv("DBUS_SESSION_BUS_ADDRESS");
    char usual[48];
    int rc = put(podman->environment, FIXED_PATH, "", err);

    if (rc == 0)
        rc = put(podman->environment, "LC_ALL=C", "", err);
    /* Instead of every containers.conf: one could put volumes, devices and more into each container. */
    if (rc == 0)
        rc = put(podman->environment, "CONTAINERS_CONF=/dev/null", "", err);
    if (rc == 0)
        rc = put_home(podman, err);
    (void)snprintf(usual, sizeof usual, "/run/user/%lu", (unsigned long)geteuid());
    if (!own_folder(runtime_folder))
        runtime_folder = own_folder(usual) ? usual : NULL;
    if (rc == 0 && runtime_folder != NULL)
        rc = put(podman->environment, "XDG_RUNTIME_DIR=", runtime_folder, err);
    /* Only the user's own bus, for cgroups of systemd; an address may name a program to start. */
    if (rc == 0 && bus != NULL && strncmp(bus, "unix:path=/", 11) == 0 &&
        strpbrk(bus, ";") == NULL)
        rc = put(podman->environment, "DBUS_SESSION_BUS_ADDRESS=", bus, err);
    return rc;
}

int rsbx_podman_open(struct rsbx_podman **out, const char *address, const char *runtime,
                     reposbx_error *err)
{
    RSBX_AUTO(rsbx_podman) rsbx_podman_ptr podman = NULL;
    int rc;

    if (!rsbx_podman_is_address(address))
        return bad_address(address, "not one of podman's", err);
    podman = calloc(1, sizeof *podman);
    if (podman == NULL)
        return rsbx_fail_memory(err);
    podman->flags = calloc(MAX_FLAGS + 1, sizeof *podman->flags);
    podman->environment = calloc(MAX_ENVIRONMENT + 1, sizeof *podman->environment);
    if (podman->flags == NULL || podman->environment == NULL)
        return rsbx_fail_memory(err);
    rc = read_address(podman, address, runtime, err);
    if (rc == 0)
        rc = make_environment(podman, err);
    if (rc == 0)
        *out = rsbx_podman_steal(&podman);
    return rc;
}
