/* SPDX-License-Identifier: Apache-2.0 */
/* What can be judged without running anything: the state folder, the policy, the engine, and what
 * the engine says of its host. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/limits.h"
#include "codec/json.h"
#include "doctor/internal.h"
#include "podman/podman.h"
#include "wasm/wasm.h"

#include "base/banned.h"

/* As in README.md. */
#define PODMAN_MAJOR 4
#define PODMAN_MINOR 3

/* ---- state folder and policy ---- */

void rsbx_doctor_state(struct rsbx_doctor *doctor)
{
    const reposbx_provider_options options = { 1, doctor->options->engine,
                                               doctor->options->state_dir };
    reposbx_error err = REPOSBX_ERROR_INIT;
    struct stat status;
    const char *dir;
    int rc = reposbx_provider_open(&doctor->provider, &options, &err);

    if (rc != 0) {
        rsbx_doctor_judge(doctor, "state_dir", rc, &err, "");
        return;
    }
    dir = reposbx_provider_state_dir(doctor->provider);
    if (stat(dir, &status) != 0 || faccessat(AT_FDCWD, dir, W_OK | X_OK, AT_EACCESS) != 0)
        rsbx_doctor_fail(doctor, "state_dir", "give a folder that can be written to with --state-dir",
                         "%s cannot be written to", dir);
    else
        rsbx_doctor_pass(doctor, "state_dir", "%s, mode %03o, only this user writes to it", dir,
                         (unsigned int)status.st_mode & 0777U);
}

/* A seccomp profile is a file beside the policy's document. */
static void judge_profile(struct rsbx_doctor *doctor)
{
    RSBX_AUTO(rsbx_buf) struct rsbx_buf text = RSBX_BUF_INIT(RSBX_MAX_SECCOMP_BYTES);
    RSBX_AUTO(rsbx_json) rsbx_json_ptr profile = NULL;
    const char *file = doctor->policy->seccomp_profile;
    reposbx_error err = REPOSBX_ERROR_INIT;
    int rc;

    if (file == NULL)
        return;
    rc = rsbx_read_file_at(&text, AT_FDCWD, file, &err);
    if (rc == 0)
        rc = rsbx_json_parse(&profile, text.data != NULL ? text.data : "", text.length,
                             "seccomp_profile", &err);
    rsbx_doctor_judge(doctor, "seccomp_profile", rc, &err, file);
}

void rsbx_doctor_policy(struct rsbx_doctor *doctor)
{
    const char *name = doctor->options->policy;
    reposbx_error err = REPOSBX_ERROR_INIT;
    int rc = name != NULL ? reposbx_policy_load(&doctor->policy, name, &err)
                          : reposbx_policy_default(&doctor->policy, &err);

    if (rc != 0) {
        rsbx_doctor_judge(doctor, "policy", rc, &err, "");
        return;
    }
    rsbx_doctor_pass(doctor, "policy", "\"%s\": %zu image%s, %s engine, network %s",
                     doctor->policy->name, doctor->policy->image_count,
                     doctor->policy->image_count == 1 ? "" : "s",
                     doctor->policy->require_rootless_runtime ? "rootless" : "any",
                     doctor->policy->network == RSBX_NETWORK_NONE ? "none" : "bridge");
    judge_profile(doctor);
}

/* ---- the engine ---- */

static void judge_socket(struct rsbx_doctor *doctor, const char *address)
{
    const char *path = address + strlen("unix://");
    struct stat status;

    if (stat(path, &status) != 0)
        rsbx_doctor_fail(doctor, "engine_socket", "start the engine, or name its socket with "
                         "--engine unix:///…", "there is no %s that this user can reach", path);
    else if (!S_ISSOCK(status.st_mode))
        rsbx_doctor_fail(doctor, "engine_socket", "name the engine's socket", "%s is no socket", path);
    else if (status.st_uid != 0 && status.st_uid != geteuid())
        rsbx_doctor_fail(doctor, "engine_socket", "use an engine of your own or of root",
                         "%s belongs to user %lu", path, (unsigned long)status.st_uid);
    else if ((status.st_mode & S_IWOTH) != 0)
        rsbx_doctor_fail(doctor, "engine_socket", "chmod o-w the socket: who can write to it is as "
                         "mighty as the engine", "everybody on this host can use %s", path);
    else if (faccessat(AT_FDCWD, path, W_OK, AT_EACCESS) != 0)
        rsbx_doctor_fail(doctor, "engine_socket", "run a rootless engine of your own, or ask for "
                         "access to this one", "this user may not use %s", path);
    else
        rsbx_doctor_pass(doctor, "engine_socket", "%s, of user %lu, mode %03o", path,
                         (unsigned long)status.st_uid, (unsigned int)status.st_mode & 0777U);
}

static void judge_engine(struct rsbx_doctor *doctor, const char *address)
{
    reposbx_error err = REPOSBX_ERROR_INIT;
    int rc = rsbx_provider_open(&doctor->engine, address, 0, rsbx_doctor_patience(doctor), &err);
    bool imitation = rc == REPOSBX_EPOLICY;

    if (rc == 0 && doctor->engine->known > 0 && strncmp(address, "unix:", 5) == 0)
        rsbx_doctor_pass(doctor, "engine_answers", "API %u.%u", doctor->engine->known / 100,
                         doctor->engine->known % 100);
    else if (rc == 0 || imitation)
        rsbx_doctor_pass(doctor, "engine_answers", "it does");
    else
        rsbx_doctor_judge(doctor, "engine_answers", rc, &err, "");
    if (rc == 0 || imitation)
        rsbx_doctor_judge(doctor, "engine_genuine", rc, &err, rc == 0 ? doctor->engine->ops->name
                                                                      : "");
    else
        rsbx_doctor_skip(doctor, "engine_genuine", "the engine does not answer");
    if (rc != 0)
        return;
    rc = doctor->engine->ops->host(&doctor->host, doctor->engine, rsbx_doctor_patience(doctor), &err);
    doctor->has_host = rc == 0;
    if (rc != 0)
        rsbx_doctor_judge(doctor, "engine_facts", rc, &err, "");
    else
        rsbx_doctor_pass(doctor, "engine_facts", "%s %s on %s", doctor->host.provider,
                         doctor->host.version, doctor->host.platform);
}

void rsbx_doctor_engine(struct rsbx_doctor *doctor)
{
    const char *address = doctor->provider != NULL ? reposbx_provider_engine(doctor->provider)
                                                   : doctor->options->engine;

    if (address == NULL) {
        rsbx_doctor_skip(doctor, "engine_answers", "none is named, and the state folder is no good");
        return;
    }
    if (strncmp(address, "unix:///", 8) == 0)
        judge_socket(doctor, address);
    else
        rsbx_doctor_skip(doctor, "engine_socket", "%.200s is no socket's address", address);
    judge_engine(doctor, address);
}

/* ---- the host ---- */

enum host_row { ROOTLESS, CGROUPS, MANAGER, SECCOMP, MEMORY, SWAP, PROCESSORS, PROCESSES };

static const char *const host_rows[] = { "rootless",     "cgroup_version", "cgroup_manager",
                                         "seccomp",      "memory_limit",   "swap_limit",
                                         "cpu_limit",    "process_limit" };

/* The host's facts with all but those of one row made good. */
static struct rsbx_host_facts only(const struct rsbx_host_facts *facts, enum host_row row)
{
    struct rsbx_host_facts good = { .rootless = facts->rootless, .seccomp = true,
                                    .cgroup_version = 2, .systemd_cgroups = true,
                                    .memory_limit = true, .swap_limit = true, .cpu_limit = true,
                                    .pids_limit = true };

    if (row == CGROUPS)
        good.cgroup_version = facts->cgroup_version;
    if (row == MANAGER)
        good.systemd_cgroups = facts->systemd_cgroups;
    if (row == SECCOMP)
        good.seccomp = facts->seccomp;
    if (row == MEMORY)
        good.memory_limit = facts->memory_limit;
    if (row == SWAP)
        good.swap_limit = facts->swap_limit;
    if (row == PROCESSORS)
        good.cpu_limit = facts->cpu_limit;
    if (row == PROCESSES)
        good.pids_limit = facts->pids_limit;
    return good;
}

static void describe(char out[128], const struct rsbx_doctor *doctor, enum host_row row)
{
    const struct rsbx_host_facts *facts = &doctor->host;

    switch (row) {
    case ROOTLESS:
        (void)snprintf(out, 128, "%s", facts->rootless
                                           ? "the engine does not run as root"
                                           : "it runs as root, and the policy does not mind");
        break;
    case CGROUPS:
        (void)snprintf(out, 128, "version %u", facts->cgroup_version);
        break;
    case MANAGER:
        (void)snprintf(out, 128, "%s", facts->systemd_cgroups ? "systemd" : "not systemd, and not "
                                                                            "needed");
        break;
    case SECCOMP:
    case MEMORY:
    case SWAP:
    case PROCESSORS:
    case PROCESSES:
        (void)snprintf(out, 128, "the engine has it");
        break;
    }
}

void rsbx_doctor_host(struct rsbx_doctor *doctor)
{
    for (size_t i = 0; i < sizeof host_rows / sizeof host_rows[0]; i++) {
        enum host_row row = (enum host_row)i;
        struct rsbx_host_facts facts;
        struct reposbx_policy policy;
        reposbx_error err = REPOSBX_ERROR_INIT;
        char detail[128];
        int rc;

        if (!doctor->has_host || doctor->policy == NULL) {
            rsbx_doctor_skip(doctor, host_rows[i], doctor->has_host ? "the policy cannot be read"
                                                                    : "the engine does not say");
            continue;
        }
        facts = only(&doctor->host, row);
        policy = *doctor->policy; /* borrowed, for one word */
        if (row != ROOTLESS)
            policy.require_rootless_runtime = false;
        rc = rsbx_check_host(&policy, &facts, &err);
        describe(detail, doctor, row);
        rsbx_doctor_judge(doctor, host_rows[i], rc, &err, detail);
    }
}

/* ---- beside the engine ---- */

static void judge_leftovers(struct rsbx_doctor *doctor)
{
    reposbx_reap_report report = { .items = NULL };
    reposbx_error err = REPOSBX_ERROR_INIT;
    int rc;

    if (doctor->provider == NULL) {
        rsbx_doctor_skip(doctor, "leftovers", "the state folder is no good");
        return;
    }
    rc = reposbx_reap(&report, doctor->provider, 1, &err);
    if (rc != 0 || report.count == 0)
        rsbx_doctor_judge(doctor, "leftovers", rc, &err, "nothing is to be reaped");
    else
        rsbx_doctor_fail(doctor, "leftovers", "reposbx reap removes it",
                         "dead sessions left %zu thing%s, such as %s", report.count,
                         report.count == 1 ? "" : "s", report.items[0].object);
    reposbx_reap_report_dispose(&report);
}

static void judge_podman(struct rsbx_doctor *doctor)
{
    const char *engine =
        doctor->provider != NULL ? reposbx_provider_engine(doctor->provider) : "";
    RSBX_AUTO(rsbx_podman) rsbx_podman_ptr podman = NULL;
    RSBX_AUTO(rsbx_buf) struct rsbx_buf text = RSBX_BUF_INIT(4096);
    static const char *const argv[] = { "--version", NULL };
    const struct rsbx_podman_call call = { .argv = argv, .output_bytes = 4096,
                                           .deadline = rsbx_doctor_patience(doctor) };
    reposbx_error err = REPOSBX_ERROR_INIT;
    int major = 0, minor = 0, rc;

    /* The one that would be used. */
    if (rsbx_podman_open(&podman, rsbx_podman_is_address(engine) ? engine : "podman", NULL, &err) != 0) {
        rsbx_doctor_skip(doctor, "podman", "it is not installed, and not needed");
        return;
    }
    rc = rsbx_podman_text(&text, podman, &call, "podman --version", &err);
    if (rc != 0)
        rsbx_doctor_judge(doctor, "podman", rc, &err, "");
    else if (sscanf(text.data != NULL ? text.data : "", "podman version %d.%d", &major, &minor) !=
                 2 || major < PODMAN_MAJOR || (major == PODMAN_MAJOR && minor < PODMAN_MINOR))
        rsbx_doctor_fail(doctor, "podman", "install podman 4.3 or newer, or remove this one",
                         "%s is older than %d.%d", rsbx_podman_program(podman), PODMAN_MAJOR,
                         PODMAN_MINOR);
    else
        rsbx_doctor_pass(doctor, "podman", "%s, version %d.%d", rsbx_podman_program(podman), major,
                         minor);
}

void rsbx_doctor_toolchain(struct rsbx_doctor *doctor, const char *missing, bool installed)
{
    bool required = doctor->policy != NULL && doctor->policy->wasm == RSBX_WASM_REQUIRE;

    if (missing == NULL)
        rsbx_doctor_pass(doctor, "wasm_toolchain", "wasm2c and cc are there");
    else if (required && !installed)
        rsbx_doctor_fail(doctor, "wasm_toolchain", "apt-get install wabt gcc libc6-dev",
                         "%s is missing, and the policy's run.wasm is \"require\"", missing);
    else
        rsbx_doctor_skip(doctor, "wasm_toolchain", "%s is missing; only wasm install needs it",
                         missing);
}

static void judge_wasm(struct rsbx_doctor *doctor)
{
    struct rsbx_wasm_list list = { .items = NULL };
    reposbx_error err = REPOSBX_ERROR_INIT;
    bool required = doctor->policy != NULL && doctor->policy->wasm == RSBX_WASM_REQUIRE;
    int rc = doctor->provider == NULL
                 ? rsbx_fail(&err, REPOSBX_EIO, "the state folder is no good")
                 : rsbx_wasm_list(&list, reposbx_provider_state_dir(doctor->provider), &err);

    rsbx_doctor_toolchain(doctor, rsbx_wasm_tool_missing(), list.count > 0);
    for (size_t i = 0; rc == 0 && i < list.count; i++) {
        if (list.items[i].error.code != 0) {
            err = list.items[i].error;
            rc = err.code;
            rsbx_hint(&err, "reposbx wasm remove %s, and install it again", list.items[i].digest);
        }
    }
    if (rc == 0 && list.count == 0 && !required)
        rsbx_doctor_skip(doctor, "wasm_modules", "none is installed");
    else if (rc == 0 && list.count == 0)
        rsbx_doctor_fail(doctor, "wasm_modules", "reposbx wasm install FILE",
                         "none is installed, and the policy's run.wasm is \"require\"");
    else
        rsbx_doctor_judge(doctor, "wasm_modules", rc, &err, "every module is what was installed");
    rsbx_wasm_list_dispose(&list);
}

void rsbx_doctor_others(struct rsbx_doctor *doctor)
{
    judge_leftovers(doctor);
    judge_podman(doctor);
    judge_wasm(doctor);
}
