/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Podman as a provider: no daemon, every operation is one or more runs of the program. Rules:
 *  1. A run that fails or is not waited for says nothing: what counts is what a look by name shows
 *     afterwards, and an object without our session's label is never ours.
 *  2. Gone means that a look shows nothing of that name, and that no podman process is left that was
 *     told to make it: a controller that was killed leaves such a process behind, and what that
 *     makes a moment later nobody would look for any more.
 *  3. A look asks for a list, which is empty when there is nothing: the text of an error message
 *     decides nothing.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/text.h"
#include "codec/json.h"
#include "codec/tar.h"
#include "guest/protocol.h"
#include "podman/podman.h"
#include "provider/objects.h"
#include "provider/podman_ask.h"
#include "provider/podman_spec.h"
#include "provider/provider.h"

#include "base/banned.h"

/* Between two looks at something that is on its way out. */
#define POLL_NS 20000000L
/* `podman attach` is a program that starts: a tenth of a second, and some twenty under full emulation
 * on a busy machine. */
#define CONNECT_MS 30000U
/* A look, the removal, and another look. */
#define REMOVAL_RUNS 3U
#define MAX_SEED_BYTES (64U * 1024U * 1024U)
#define FILTER_BYTES 192
#define FILE_BYTES 64
#define WORDS(...) ((const char *const[]){ __VA_ARGS__, NULL })

struct podman {
    struct rsbx_provider base;
    struct rsbx_podman *program;
    uint64_t processes; /* the highest RLIMIT_NPROC */
    bool asked;         /* for the host's facts, which do not change */
    struct rsbx_host_facts facts;
};

static struct podman *self(struct rsbx_provider *provider)
{
    return (struct podman *)provider;
}

static void podman_free(struct rsbx_provider *provider)
{
    struct podman *podman = self(provider);

    rsbx_podman_free(podman->program);
    free(podman);
}

/* ---- one run of the program ---- */

/* Runs it to a success; `out`, when not NULL, gets what it printed. */
static int run(struct rsbx_buf *out, struct podman *podman, const char *const *words,
               const struct rsbx_buf *input, const char *what, struct rsbx_deadline deadline,
               reposbx_error *err)
{
    RSBX_AUTO(rsbx_buf) struct rsbx_buf unused = RSBX_BUF_INIT(RSBX_MAX_REPLY_BYTES);
    struct rsbx_buf *into = out != NULL ? out : &unused;
    struct rsbx_podman_call call = { .argv = words,
                                     .input = input != NULL ? input->data : NULL,
                                     .input_length = input != NULL ? input->length : 0,
                                     .output_bytes = into->limit,
                                     .deadline = deadline };

    return rsbx_podman_text(into, podman->program, &call, what, err);
}

/* Runs it and reads the JSON that it prints. */
static int ask(json_t **out, struct podman *podman, const char *const *words, const char *what,
               struct rsbx_deadline deadline, reposbx_error *err)
{
    return rsbx_podman_ask(out, podman->program, words, what, deadline, err);
}

/* ---- host and image ---- */

/* 0: cannot be told. */
static uint64_t read_pid_max(void)
{
    char text[32];

    return rsbx_read_small(text, sizeof text, "/proc/sys/kernel/pid_max", NULL) == 0
               ? strtoull(text, NULL, 10)
               : 0;
}

static uint64_t process_limit(void)
{
    uint64_t pid_max = read_pid_max();
    struct rlimit own = { .rlim_max = RLIM_INFINITY };

    (void)getrlimit(RLIMIT_NPROC, &own);
    return rsbx_podman_process_limit(own.rlim_max == RLIM_INFINITY ? UINT64_MAX : own.rlim_max,
                                     pid_max > 0 ? pid_max : 32768);
}

static int podman_open(struct rsbx_provider **out, const char *address, unsigned int known,
                       struct rsbx_deadline deadline, reposbx_error *err)
{
    struct podman *podman = calloc(1, sizeof *podman);
    int rc;

    if (podman == NULL)
        return rsbx_fail_memory(err);
    podman->base = (struct rsbx_provider){ .ops = &rsbx_podman_provider, .known = known };
    podman->processes = process_limit();
    rc = rsbx_podman_open(&podman->program, address, NULL, err);
    if (rc == 0 && known == 0) {
        rc = rsbx_podman_host(&podman->facts, &podman->base.known, podman->program, deadline, err);
        podman->asked = true;
    }
    if (rc != 0) {
        podman_free(&podman->base);
        return rc;
    }
    *out = &podman->base;
    return REPOSBX_OK;
}

static int podman_host(struct rsbx_host_facts *out, struct rsbx_provider *provider,
                       struct rsbx_deadline deadline, reposbx_error *err)
{
    struct podman *podman = self(provider);
    unsigned int version;

    if (!podman->asked) {
        int rc = rsbx_podman_host(&podman->facts, &version, podman->program, deadline, err);

        if (rc != 0)
            return rc;
        podman->asked = true;
    }
    *out = podman->facts;
    return REPOSBX_OK;
}

static int podman_image(struct rsbx_image_facts *out, struct rsbx_provider *provider,
                        const char *reference, struct rsbx_deadline deadline, reposbx_error *err)
{
    return rsbx_podman_image(out, self(provider)->program, reference, deadline, err);
}

/* ---- looks by name ---- */

static bool has_name(const json_t *item, const char *name)
{
    const json_t *names = json_object_get(item, "Names");
    const char *only = json_string_value(json_object_get(item, "Name"));

    if (only != NULL)
        return strcmp(only, name) == 0;
    for (size_t i = 0; i < json_array_size(names); i++) {
        const char *text = json_string_value(json_array_get(names, i));

        if (text != NULL && strcmp(text, name) == 0)
            return true;
    }
    return false;
}

/* The one object of the name in a list that podman gave: 0 with *out borrowed when it is ours;
 * ENOTFOUND; EPOLICY. */
static int find_ours(const json_t **out, const json_t *list, const char *what, const char *name,
                     const char *session_id, reposbx_error *err)
{
    if (!json_is_array(list))
        return rsbx_fail(err, REPOSBX_EPROTOCOL, "podman gave no list for %s %s", what, name);
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *item = json_array_get(list, i);

        if (!has_name(item, name))
            continue;
        if (!rsbx_labels_ours(json_object_get(item, "Labels"), session_id))
            return rsbx_not_ours(what, name, err);
        *out = item;
        return REPOSBX_OK;
    }
    return rsbx_fail(err, REPOSBX_ENOTFOUND, "there is no %s %s", what, name);
}

/* Our names are letters, digits and '-': none of them means anything in a filter's pattern. */
static void name_filter(char out[FILTER_BYTES], const char *name)
{
    (void)snprintf(out, FILTER_BYTES, "--filter=name=^%s$", name);
}

static int look_at_slot(struct rsbx_slot_state *out, struct podman *podman, const char *name,
                        const char *session_id, struct rsbx_deadline deadline, reposbx_error *err)
{
    RSBX_AUTO(rsbx_json) rsbx_json_ptr list = NULL;
    const json_t *item;
    const json_t *code;
    const char *state;
    char filter[FILTER_BYTES];
    int rc;

    name_filter(filter, name);
    rc = ask(&list, podman, WORDS("ps", "--all", "--no-trunc", "--format=json", filter), "container",
             deadline, err);
    if (rc == 0)
        rc = find_ours(&item, list, "container", name, session_id, err);
    if (rc == 0)
        rc = rsbx_json_get_text(&state, item, "State", "container", err);
    if (rc != 0)
        return rc;
    code = json_object_get(item, "ExitCode");
    *out = (struct rsbx_slot_state){ .exists = true,
                                     .running = strcmp(state, "running") == 0,
                                     .exit_code = (int)json_integer_value(code) };
    return REPOSBX_OK;
}

static int look_at_store(struct podman *podman, const char *name, const char *session_id,
                         struct rsbx_deadline deadline, reposbx_error *err)
{
    RSBX_AUTO(rsbx_json) rsbx_json_ptr list = NULL;
    const json_t *item;
    char filter[FILTER_BYTES];
    int rc;

    name_filter(filter, name);
    rc = ask(&list, podman, WORDS("volume", "ls", "--format=json", filter), "volume", deadline, err);
    return rc == 0 ? find_ours(&item, list, "volume", name, session_id, err) : rc;
}

/* Podman makes what is missing without a label to know it by, so this is asked before it is given the chance. */
static int check_kept(struct podman *podman, const struct rsbx_slot_spec *spec,
                      struct rsbx_deadline deadline, reposbx_error *err)
{
    RSBX_AUTO(rsbx_buf) struct rsbx_buf filter = RSBX_BUF_INIT(FILTER_BYTES * 8U);
    RSBX_AUTO(rsbx_json) rsbx_json_ptr list = NULL;
    const json_t *item;
    int rc = rsbx_buf_text(&filter, "--filter=name=^(none", err);

    if (spec->kept_count == 0)
        return REPOSBX_OK;
    for (size_t i = 0; rc == 0 && i < spec->kept_count; i++) {
        rc = rsbx_buf_text(&filter, "|", err);
        if (rc == 0)
            rc = rsbx_buf_text(&filter, spec->kept[i].name, err);
    }
    if (rc == 0)
        rc = rsbx_buf_append(&filter, ")$", sizeof ")$", err);
    if (rc == 0)
        rc = ask(&list, podman, WORDS("volume", "ls", "--format=json", filter.data), "volume", deadline,
                 err);
    for (size_t i = 0; rc == 0 && i < spec->kept_count; i++) {
        rc = find_ours(&item, list, "volume", spec->kept[i].name, spec->kept[i].owner, err);
        if (rc == REPOSBX_ENOTFOUND)
            rc = rsbx_store_gone(spec->kept[i].name, err);
    }
    return rc;
}

static int podman_inspect(struct rsbx_slot_state *out, struct rsbx_provider *provider,
                          const char *slot, const char *session_id, struct rsbx_deadline deadline,
                          reposbx_error *err)
{
    RSBX_AUTO(rsbx_json) rsbx_json_ptr list = NULL;
    struct rsbx_slot_state state = { 0 };
    int rc = look_at_slot(&state, self(provider), slot, session_id, deadline, err);

    if (rc != 0 && rc != REPOSBX_ENOTFOUND)
        return rc;
    /* What killed it stands only in the long form, which may be too late by now. */
    if (state.exists && !state.running &&
        ask(&list, self(provider), WORDS("container", "inspect", slot), "container", deadline,
            NULL) == 0)
        state.oom_killed = json_is_true(json_object_get(
            json_object_get(json_array_get(list, 0), "State"), "OOMKilled"));
    *out = state;
    return REPOSBX_OK;
}

/* ---- stores ---- */

static int layer_folder(char **out, struct podman *podman, const char *name, const char *session_id,
                        struct rsbx_deadline deadline, reposbx_error *err)
{
    RSBX_AUTO(rsbx_json) rsbx_json_ptr list = NULL;
    const json_t *item;
    int rc = ask(&list, podman, WORDS("volume", "inspect", name), "volume", deadline, err);

    if (rc == 0)
        rc = find_ours(&item, list, "volume", name, session_id, err);
    return rc == 0 ? rsbx_layer_folder(out, item, name, err) : rc;
}

static int podman_make_store(struct rsbx_provider *provider, const struct rsbx_store_spec *spec,
                             struct rsbx_deadline deadline, reposbx_error *err)
{
    RSBX_AUTO(rsbx_text) char *lower = NULL;
    RSBX_AUTO(rsbx_text) char *upper = NULL;
    RSBX_AUTO(rsbx_words) rsbx_words_ptr words = NULL;
    struct podman *podman = self(provider);
    reposbx_error first = REPOSBX_ERROR_INIT;
    int rc = REPOSBX_OK;

    if (spec->must_exist)
        return look_at_store(podman, spec->name, spec->session_id, deadline, err);
    if (spec->lower != NULL)
        rc = layer_folder(&lower, podman, spec->lower,
                          spec->lower_owner != NULL ? spec->lower_owner : spec->session_id, deadline,
                          err);
    if (rc == 0 && spec->lower != NULL)
        rc = layer_folder(&upper, podman, spec->upper, spec->session_id, deadline, err);
    if (rc == 0)
        rc = rsbx_podman_store_words(&words, spec, lower, upper, err);
    if (rc != 0)
        return rc;
    rc = run(NULL, podman, (const char *const *)words, NULL, "volume create", deadline, &first);
    if (rc == 0)
        return REPOSBX_OK; /* which it refuses when there is one of that name */
    if (look_at_store(podman, spec->name, spec->session_id, deadline, err) == REPOSBX_EPOLICY)
        return REPOSBX_EPOLICY;
    if (err != NULL)
        *err = first;
    return rc;
}

/* Some things pass Podman as a file alone, not on its stdin or stdout (which is a socket). The file is
 * empty and only the caller's; whoever made it unlinks it. */
static int make_file(char path[FILE_BYTES], int *fd, reposbx_error *err)
{
    (void)snprintf(path, FILE_BYTES, "/tmp/reposbx-podman-XXXXXX");
    *fd = mkostemp(path, O_CLOEXEC);
    if (*fd >= 0)
        return REPOSBX_OK;
    path[0] = '\0';
    return rsbx_fail_errno(err, REPOSBX_EIO, "cannot make a file for podman");
}

/* Everything in a store, as a tar. */
static int export_store(struct rsbx_buf *out, struct podman *podman, const char *store,
                        struct rsbx_deadline deadline, reposbx_error *err)
{
    RSBX_AUTO(rsbx_fd) int fd = -1;
    char path[FILE_BYTES];
    int rc = make_file(path, &fd, err);

    if (rc != 0)
        return rc;
    rc = run(NULL, podman, WORDS("volume", "export", "--output", path, store), NULL, "volume export",
             deadline, err);
    if (rc == 0)
        rc = rsbx_read_file_at(out, AT_FDCWD, path, err);
    (void)unlink(path);
    return rc;
}

/* The path of a seed inside a mount, "" for the mount itself; NULL when it lies elsewhere. */
static const char *path_in(const struct rsbx_mount *mount, const char *path)
{
    size_t length = strlen(mount->at + 1); /* a seed's path has no leading '/' */

    if (strncmp(path, mount->at + 1, length) != 0 || path[length] != '/')
        return NULL;
    return path + length + 1;
}

static int check_seed(struct podman *podman, const struct rsbx_mount *mount, const char *path,
                      const struct rsbx_seed_file *file, struct rsbx_deadline deadline,
                      reposbx_error *err)
{
    RSBX_AUTO(rsbx_buf) struct rsbx_buf tar = RSBX_BUF_INIT(file->length + 1024U * 1024U);
    RSBX_AUTO(rsbx_buf) struct rsbx_buf bytes = RSBX_BUF_INIT(file->length);
    const char *slash = strrchr(path, '/');
    int rc = export_store(&tar, podman, mount->store, deadline, err);

    if (rc == 0)
        rc = rsbx_tar_read_file(&bytes, slash != NULL ? slash + 1 : path, tar.data, tar.length, err);
    if (rc == 0 &&
        (bytes.length != file->length || memcmp(bytes.data, file->bytes, file->length) != 0))
        rc = rsbx_fail(err, REPOSBX_EPROTOCOL, "podman stored other bytes as /%s", file->path);
    return rc;
}

/* What of the files lies in one store. Its own folder has the right owner from its birth. */
static int seed_store(struct podman *podman, const struct rsbx_mount *mount,
                      const struct rsbx_seed_file *files, size_t count,
                      struct rsbx_deadline deadline, reposbx_error *err)
{
    RSBX_AUTO(rsbx_buf) struct rsbx_buf tar = RSBX_BUF_INIT(MAX_SEED_BYTES);
    RSBX_AUTO(rsbx_memory) void *memory = calloc(count, sizeof(struct rsbx_tar_member));
    struct rsbx_tar_member *members = memory;
    size_t used = 0;
    int rc = REPOSBX_OK;

    if (members == NULL)
        return rsbx_fail_memory(err);
    for (size_t i = 0; i < count; i++) {
        const char *path = path_in(mount, files[i].path);

        if (path != NULL && path[0] != '\0')
            members[used++] = (struct rsbx_tar_member){ .path = path,
                                                        .mode = files[i].mode,
                                                        .uid = files[i].uid,
                                                        .gid = files[i].gid,
                                                        .bytes = files[i].bytes,
                                                        .length = files[i].length };
    }
    if (used > 0)
        rc = rsbx_tar_write(&tar, members, used, err);
    if (rc == 0 && used > 0)
        rc = run(NULL, podman, WORDS("volume", "import", mount->store, "-"), &tar, "volume import",
                 deadline, err);
    for (size_t i = 0; rc == 0 && i < count; i++) {
        const char *path = path_in(mount, files[i].path);

        if (path != NULL && files[i].bytes != NULL)
            rc = check_seed(podman, mount, path, &files[i], deadline, err);
    }
    return rc;
}

/* Stores are filled as such; no container is needed. */
static int podman_seed(struct rsbx_provider *provider, const struct rsbx_slot_spec *spec,
                       const struct rsbx_seed_file *files, size_t count,
                       struct rsbx_deadline deadline, reposbx_error *err)
{
    int rc = REPOSBX_OK;

    for (size_t i = 0; rc == 0 && i < spec->mount_count; i++) {
        if (spec->mounts[i].writable)
            rc = seed_store(self(provider), &spec->mounts[i], files, count, deadline, err);
    }
    return rc;
}

/* ---- slots ---- */

/* Podman makes a container without a limit that the host cannot hold, and says so on its stderr. */
static int check_warnings(const struct rsbx_buf *said, reposbx_error *err)
{
    char text[512];

    if (said->length == 0 || !rsbx_podman_drops_a_limit(said->data))
        return REPOSBX_OK;
    rsbx_text_printable(text, sizeof text, said->data, said->length);
    (void)rsbx_fail(err, REPOSBX_EPOLICY, "podman would not keep every limit: %s", text);
    rsbx_hint(err, "use a host whose cgroups can hold memory, swap, cpu and pids limits");
    return REPOSBX_EPOLICY;
}

static int start_slot(bool *unanswered, struct podman *podman, const struct rsbx_slot_spec *spec,
                      const char *seccomp_file, struct rsbx_deadline deadline, reposbx_error *err)
{
    const struct rsbx_podman_place place = { .seccomp_file = seccomp_file,
                                             .processes = podman->processes };
    RSBX_AUTO(rsbx_podman_answer) struct rsbx_podman_answer answer = { 0 };
    RSBX_AUTO(rsbx_words) rsbx_words_ptr words = NULL;
    struct rsbx_podman_call call = { .output_bytes = RSBX_MAX_REPLY_BYTES, .deadline = deadline };
    int rc = rsbx_podman_slot_words(&words, spec, &place, err);

    *unanswered = false;
    if (rc != 0)
        return rc;
    call.argv = (const char *const *)words;
    rc = rsbx_podman_run(&answer, podman->program, &call, err);
    if (rc == 0) {
        *unanswered = answer.exit_code < 0;
        rc = rsbx_podman_check(&answer, "podman run", err);
    }
    return rc == 0 ? check_warnings(&answer.err, err) : rc;
}

static int podman_launch(struct rsbx_provider *provider, const struct rsbx_slot_spec *spec,
                         struct rsbx_deadline deadline, reposbx_error *err)
{
    RSBX_AUTO(rsbx_fd) int fd = -1;
    char profile[FILE_BYTES] = "";
    struct podman *podman = self(provider);
    struct rsbx_slot_state state = { 0 };
    reposbx_error first = REPOSBX_ERROR_INIT;
    bool unanswered = false;
    int looked;
    int rc = check_kept(podman, spec, deadline, err);

    if (rc != 0)
        return rc;
    if (spec->seccomp_profile != NULL)
        rc = make_file(profile, &fd, &first);
    if (rc == 0 && fd >= 0 &&
        rsbx_write_all(fd, spec->seccomp_profile, strlen(spec->seccomp_profile)) != 0)
        rc = rsbx_fail_errno(&first, REPOSBX_EIO, "cannot write the seccomp profile");
    if (rc == 0)
        rc = start_slot(&unanswered, podman, spec, profile[0] != '\0' ? profile : NULL, deadline,
                        &first);
    if (profile[0] != '\0')
        (void)unlink(profile);
    if (rc == 0)
        return REPOSBX_OK;
    looked = look_at_slot(&state, podman, spec->name, spec->session_id, deadline, err);
    /* A name that is taken is never used again, whoever took it: its limits are not known. */
    if (looked == REPOSBX_EPOLICY || (looked == 0 && unanswered && state.running))
        return looked;
    if (err != NULL)
        *err = first;
    return rc;
}

static int podman_connect(struct rsbx_link **out, struct rsbx_provider *provider, const char *slot,
                          const struct rsbx_slot_limits *lower, struct rsbx_deadline deadline,
                          reposbx_error *err)
{
    (void)deadline; /* it is the greeting that is waited for */
    if (lower != NULL)
        return rsbx_fail(err, REPOSBX_EINTERNAL, "podman cannot lower the limits of a slot");
    return rsbx_podman_link(out, self(provider)->program,
                            WORDS("attach", "--sig-proxy=false", "--detach-keys=", slot), err);
}

/* ---- removal ---- */

/* Whether the process was started with all of these words. */
static bool has_words(const char *pid, const char *first, const char *second)
{
    RSBX_AUTO(rsbx_buf) struct rsbx_buf line = RSBX_BUF_INIT(64U * 1024U);
    char path[300];
    bool found_first = false;
    bool found_second = false;

    (void)snprintf(path, sizeof path, "/proc/%s/cmdline", pid);
    if (rsbx_read_file_at(&line, AT_FDCWD, path, NULL) != 0)
        return false;
    for (size_t at = 0; at < line.length; at += strlen(line.data + at) + 1) {
        found_first = found_first || strcmp(line.data + at, first) == 0;
        found_second = found_second || strcmp(line.data + at, second) == 0;
    }
    return found_first && found_second;
}

/* Whether some process is making the object (rule 2). */
static bool is_being_made(enum rsbx_object_kind kind, const char *name)
{
    char word[FILTER_BYTES];
    struct dirent *entry;
    bool found = false;
    DIR *processes = opendir("/proc");

    (void)snprintf(word, sizeof word, "%s%s", kind == RSBX_OBJECT_SLOT ? "--name=" : "", name);
    while (processes != NULL && !found && (entry = readdir(processes)) != NULL)
        found = entry->d_name[0] >= '1' && entry->d_name[0] <= '9' &&
                has_words(entry->d_name, kind == RSBX_OBJECT_SLOT ? "run" : "create", word);
    if (processes != NULL)
        (void)closedir(processes);
    return found;
}

static int look_at(enum rsbx_object_kind kind, struct podman *podman, const char *name,
                   const char *session_id, struct rsbx_deadline deadline, reposbx_error *err)
{
    struct rsbx_slot_state state;

    return kind == RSBX_OBJECT_SLOT
               ? look_at_slot(&state, podman, name, session_id, deadline, err)
               : look_at_store(podman, name, session_id, deadline, err);
}

/* The filters see to it that only a container of the session is removed. */
static int remove_slot(struct podman *podman, const char *name, const char *session_id,
                       struct rsbx_deadline deadline, reposbx_error *err)
{
    char filter[FILTER_BYTES];
    char label[FILTER_BYTES];

    name_filter(filter, name);
    (void)snprintf(label, sizeof label, "--filter=label=" RSBX_LABEL_SESSION "=%s", session_id);
    return run(NULL, podman, WORDS("rm", "--force", "--time=0", filter, label), NULL, "podman rm",
               deadline, err);
}

/* What one call of an engine may take, each of the runs that a removal is made of may take. */
static struct rsbx_deadline longer(struct rsbx_deadline deadline)
{
    /* without a cancel: what clears up is not cancelled */
    return rsbx_deadline_in_ms((uint64_t)rsbx_deadline_left_ms(deadline) * REMOVAL_RUNS);
}

static int podman_destroy(struct rsbx_provider *provider, enum rsbx_object_kind kind,
                          const char *name, const char *session_id, struct rsbx_deadline deadline,
                          reposbx_error *err)
{
    const char *what = kind == RSBX_OBJECT_SLOT ? "container" : "volume";
    struct podman *podman = self(provider);

    deadline = longer(deadline);
    for (;;) {
        struct timespec pause = { .tv_sec = 0, .tv_nsec = POLL_NS };
        reposbx_error why = REPOSBX_ERROR_INIT;
        bool making = is_being_made(kind, name);
        int rc = kind == RSBX_OBJECT_SLOT || making
                     ? REPOSBX_OK
                     : look_at(kind, podman, name, session_id, deadline, &why);

        if (rc == 0 && !making) {
            rc = kind == RSBX_OBJECT_SLOT
                     ? remove_slot(podman, name, session_id, deadline, &why)
                     : run(NULL, podman, WORDS("volume", "rm", name), NULL, "volume rm", deadline,
                           &why);
            rc = look_at(kind, podman, name, session_id, deadline, rc == 0 ? &why : NULL);
        }
        if (rc == REPOSBX_ENOTFOUND)
            return REPOSBX_OK;
        if (rc == REPOSBX_EPOLICY)
            return rsbx_not_ours(what, name, err);
        if (rsbx_deadline_passed(deadline))
            return rsbx_fail(err, REPOSBX_EUNAVAILABLE, "%s %s could not be removed: %.600s", what,
                             name, making ? "it is being made" : why.message);
        (void)nanosleep(&pause, NULL);
    }
}

const struct rsbx_provider_ops rsbx_podman_provider = {
    .name = "podman",
    .fixed_limits = true,
    .connect_ms = CONNECT_MS,
    .open = podman_open,
    .free = podman_free,
    .host = podman_host,
    .image = podman_image,
    .make_store = podman_make_store,
    .seed = podman_seed,
    .launch = podman_launch,
    .connect = podman_connect,
    .destroy = podman_destroy,
    .inspect = podman_inspect,
};
