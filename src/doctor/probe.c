/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A session like any other, of a repository of our own, in which commands try to get over each limit.
 * It lives in a state folder of its own, STATE/doctor/state, so that it is no session of the user's;
 * what a doctor that was killed left there is reaped by the next one.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/limits.h"
#include "codec/json.h"
#include "doctor/internal.h"
#include "session/session.h"

#include "base/banned.h"

#define FOLDER "doctor"
/* What any host must manage. */
#define LONG_MS 60000U

struct probe {
    struct rsbx_doctor *doctor;
    struct rsbx_state *state;
    struct rsbx_session *session;
    char place[RSBX_MAX_PATH_BYTES + 1]; /* STATE/doctor, and what is in it */
    char repo[RSBX_MAX_PATH_BYTES + 16], state_dir[RSBX_MAX_PATH_BYTES + 16];
};

/* ---- commands that try ---- */

struct trial {
    const char *name, *script;
    double timeout_seconds;      /* these three are lowered to the policy's */
    uint64_t memory_bytes, pids; /* 0: the policy's */
    /* Why the result is not what it must be; NULL: it is. */
    const char *(*wrong)(const reposbx_exec_result *result, const reposbx_limits *limits);
    const char *good;
};

static const char *no_code(const reposbx_exec_result *result, const reposbx_limits *limits)
{
    (void)limits;
    return result->status == REPOSBX_EXITED && result->exit_code == 7 ? NULL
                                                                      : "exit 7 came back as another end";
}

static const char *no_timeout(const reposbx_exec_result *result, const reposbx_limits *limits)
{
    (void)limits;
    if (result->status != REPOSBX_TIMED_OUT)
        return "a loop that ignores SIGTERM was not ended by its timeout";
    return result->duration_ms < LONG_MS ? NULL : "the timeout came far too late";
}

static const char *no_output_limit(const reposbx_exec_result *result, const reposbx_limits *limits)
{
    if (result->status != REPOSBX_OUTPUT_LIMITED)
        return "endless output was not ended by its limit";
    return result->stdout_bytes + result->stderr_bytes <= limits->audit_log_bytes
               ? NULL
               : "more output was kept than the limit allows";
}

static const char *no_memory_limit(const reposbx_exec_result *result, const reposbx_limits *limits)
{
    (void)limits;
    return result->oom_killed ? NULL : "a program that takes all memory was not killed for it";
}

static const char *no_process_limit(const reposbx_exec_result *result, const reposbx_limits *limits)
{
    (void)limits;
    return result->stdout_bytes == 0 ? NULL : "a hundred processes were started";
}

static const char *survives(const reposbx_exec_result *result, const reposbx_limits *limits)
{
    (void)limits;
    if (result->status != REPOSBX_EXITED || result->exit_code != 0 || result->stdout_bytes != 8)
        return "a command that leaves a process behind did not end by itself";
    return result->duration_ms < LONG_MS ? NULL : "a process that was left behind held the command up";
}

#define SPIN "( while :; do :; done ) & "
#define LONGER "s=$s$s$s$s$s$s$s$s; "

static const struct trial trials[] = {
    { "exit_code", "exit 7", 30, 0, 0, no_code, "a command's own code comes back" },
    { "timeout", "trap '' TERM; while :; do :; done", 1, 0, 0, no_timeout,
      "a loop that ignores SIGTERM is killed" },
    { "output_limit", "s=0123456789abcdef; " LONGER LONGER LONGER "while :; do echo $s; done", 120,
      0, 0, no_output_limit, "endless output is cut off" },
    { "memory_kill", "s=0123456789abcdef; while :; do s=$s$s; done", 60, 67108864, 0,
      no_memory_limit, "what takes too much memory is killed, and said to be" },
    { "fork_limit", "i=0; while [ $i -lt 100 ]; do " SPIN "i=$((i+1)); done; echo all", 30, 0, 24,
      no_process_limit, "a hundred processes cannot be started" },
    { "survivors", SPIN "echo started", 60, 0, 0, survives,
      "a process that is left behind ends with its command" },
};
#define TRIAL_COUNT (sizeof trials / sizeof trials[0])

static int run(reposbx_exec_result *result, const struct probe *probe, const struct trial *trial,
               reposbx_error *err)
{
    const reposbx_limits *limits = &probe->doctor->policy->limits;
    const char *const argv[] = { "/bin/sh", "-c", trial->script };
    reposbx_exec_request request = REPOSBX_EXEC_REQUEST_INIT;

    request.argv = argv;
    request.argc = 3;
    request.cancel_fd = probe->doctor->options->cancel_fd;
    request.timeout_seconds = trial->timeout_seconds < limits->command_timeout_seconds
                                  ? trial->timeout_seconds
                                  : limits->command_timeout_seconds;
    if (trial->memory_bytes < limits->memory_bytes)
        request.memory_bytes = trial->memory_bytes;
    if (trial->pids < limits->pids)
        request.pids = trial->pids;
    return rsbx_session_exec(result, probe->session, &request, err);
}

/* Runs one; false when there is no shell for it and the rest. */
static bool attempt(struct probe *probe, const struct trial *trial)
{
    struct rsbx_doctor *doctor = probe->doctor;
    reposbx_exec_result result = { .command_id = NULL };
    reposbx_error err = REPOSBX_ERROR_INIT;
    int rc = run(&result, probe, trial, &err);
    bool shell = rc != 0 || result.exec_errno == 0;
    const char *wrong = rc == 0 && shell ? trial->wrong(&result, &doctor->policy->limits) : NULL;

    if (rc == REPOSBX_EPOLICY || rc == REPOSBX_ELIMIT || rc == REPOSBX_ECANCELLED)
        rsbx_doctor_skip(doctor, trial->name, "it could not be tried: %s", err.message);
    else if (rc != 0)
        rsbx_doctor_judge(doctor, trial->name, rc, &err, "");
    else if (!shell)
        rsbx_doctor_skip(doctor, trial->name, "the image has no /bin/sh to try it with");
    else if (wrong != NULL)
        rsbx_doctor_fail(doctor, trial->name, "run nothing on this engine that you do not trust",
                         "%s (it ended as \"%s\", code %d)", wrong,
                         reposbx_exec_status_word(result.status), result.exit_code);
    else
        rsbx_doctor_pass(doctor, trial->name, "%s", trial->good);
    rsbx_exec_result_dispose(&result);
    return shell;
}

static void skip_trials(struct rsbx_doctor *doctor, size_t from, const char *why)
{
    for (size_t i = from; i < TRIAL_COUNT; i++)
        rsbx_doctor_skip(doctor, trials[i].name, "%s", why);
}

static void try_all(struct probe *probe)
{
    struct rsbx_doctor *doctor = probe->doctor;
    struct rsbx_hello hello;
    struct rsbx_hello_want want;
    bool shell = true;

    for (size_t i = 0; i < TRIAL_COUNT; i++) {
        if (rsbx_doctor_cancelled(doctor)) {
            skip_trials(doctor, i, "it was interrupted");
            return;
        }
        if (shell)
            shell = attempt(probe, &trials[i]);
        else
            rsbx_doctor_skip(doctor, trials[i].name, "the image has no /bin/sh to try it with");
        if (i > 0)
            continue;
        /* The first one ran under the policy's own limits. */
        if (rsbx_session_observed(&hello, &want, probe->session))
            rsbx_doctor_inside(doctor, &hello, &want);
        else
            rsbx_doctor_inside_skip(doctor, "no container said what it sees");
    }
}

/* ---- the workspace ---- */

static int write_and_look(struct probe *probe, reposbx_error *err)
{
    const reposbx_diff_options options = REPOSBX_DIFF_OPTIONS_INIT;
    reposbx_diff_result diff = { .patch = NULL };
    int rc = rsbx_session_write(probe->session, "probe/new", "new\n", 4, REPOSBX_WRITE_PARENTS, err);

    if (rc == 0)
        rc = rsbx_session_diff(&diff, probe->session, &options, err);
    if (rc == 0 && (diff.file_count != 1 || diff.omitted_count != 0 ||
                    strcmp(diff.files[0].path, "probe/new") != 0))
        rc = rsbx_fail(err, REPOSBX_EPROTOCOL, "one file was written, and the diff says otherwise");
    rsbx_diff_outcome_dispose(&diff);
    return rc;
}

static void judge_workspace(struct probe *probe)
{
    RSBX_AUTO(rsbx_text) char *text = NULL;
    RSBX_AUTO(rsbx_json) rsbx_json_ptr metadata = NULL;
    reposbx_error err = REPOSBX_ERROR_INIT;
    const char *kind = "", *reason = "";
    char detail[512];
    int rc = write_and_look(probe, &err);

    if (rc == 0)
        rc = rsbx_metadata_text(&text, probe->state, rsbx_session_id(probe->session), &err);
    if (rc == 0)
        rc = rsbx_json_parse(&metadata, text, strlen(text), "metadata", &err);
    if (rc == 0)
        rc = rsbx_json_get_text(&kind, metadata, "workspace", "metadata", &err);
    if (rc == 0)
        rc = rsbx_json_get_text_or(&reason, metadata, "workspace_reason", "", "metadata", &err);
    (void)snprintf(detail, sizeof detail, "%s (%s); a change shows in the diff", kind, reason);
    rsbx_doctor_judge(probe->doctor, "workspace", rc, &err, detail);
}

/* ---- its place ---- */

/* A session that was ready is nothing to reap before its lease is over. */
static int close_others(struct probe *probe, reposbx_error *err)
{
    RSBX_AUTO(rsbx_text) char *text = NULL;
    RSBX_AUTO(rsbx_json) rsbx_json_ptr list = NULL;
    int rc = rsbx_metadata_list(&text, probe->state, err);

    if (rc == 0)
        rc = rsbx_json_parse(&list, text, strlen(text), "sessions", err);
    for (size_t i = 0; rc == 0 && i < json_array_size(list); i++) {
        RSBX_AUTO(rsbx_session) struct rsbx_session *session = NULL;
        const json_t *one = json_array_get(list, i);
        const char *id = NULL;

        rc = rsbx_json_get_text(&id, one, "sandbox_id", "sessions", err);
        if (rc == 0)
            rc = rsbx_session_open(&session, probe->state, id, err);
        if (rc == 0)
            rc = rsbx_session_close(session, REPOSBX_DROP_AUDIT, err);
    }
    return rc;
}

/* What a doctor that was killed has left, also in the engine. */
static int clear_place(struct probe *probe, int place_fd, reposbx_error *err)
{
    reposbx_reap_report report = { .items = NULL };
    int rc = rsbx_reap(&report, probe->state, 0, err);

    if (rc == 0)
        rc = close_others(probe, err);

    if (rc == 0 && report.failed > 0) {
        rc = rsbx_fail(err, REPOSBX_EUNAVAILABLE, "%zu things of an earlier doctor cannot be removed",
                       report.failed);
        rsbx_hint(err, "reposbx --state-dir %s reap says why", probe->state_dir);
    }
    rsbx_reap_report_dispose(&report);
    return rc == 0 ? rsbx_remove_tree_at(place_fd, "repo", err) : rc;
}

/* STATE/doctor, ours alone while the descriptor is open. */
static int take_place(int *place_fd, struct probe *probe, reposbx_error *err)
{
    const char *dir = reposbx_provider_state_dir(probe->doctor->provider);
    int length = snprintf(probe->place, sizeof probe->place, "%s/" FOLDER, dir);

    if (length < 0 || (size_t)length >= sizeof probe->place)
        return rsbx_fail(err, REPOSBX_EINVALID, "the state folder's path is too long");
    (void)snprintf(probe->repo, sizeof probe->repo, "%s/repo", probe->place);
    (void)snprintf(probe->state_dir, sizeof probe->state_dir, "%s/state", probe->place);
    if (mkdir(probe->place, 0700) != 0 && errno != EEXIST)
        return rsbx_fail_errno(err, REPOSBX_EIO, "cannot make %s", probe->place);
    *place_fd = open(probe->place, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (*place_fd < 0)
        return rsbx_fail_errno(err, REPOSBX_EIO, "cannot open %s", probe->place);
    if (flock(*place_fd, LOCK_EX | LOCK_NB) != 0) {
        (void)rsbx_fail(err, REPOSBX_EBUSY, "another doctor is at work on this state folder");
        rsbx_hint(err, "try again when it has ended");
        return REPOSBX_EBUSY;
    }
    return REPOSBX_OK;
}

static int begin(struct probe *probe, int place_fd, reposbx_error *err)
{
    const struct rsbx_doctor *doctor = probe->doctor;
    reposbx_spec spec = REPOSBX_SPEC_INIT;
    char commit[41];
    int rc = rsbx_state_open(&probe->state, reposbx_provider_engine(doctor->provider),
                             probe->state_dir, err);

    if (rc == 0)
        rc = clear_place(probe, place_fd, err);
    if (rc == 0 && mkdirat(place_fd, "repo", 0700) != 0)
        rc = rsbx_fail_errno(err, REPOSBX_EIO, "cannot make %s", probe->repo);
    if (rc == 0)
        rc = rsbx_doctor_repository(commit, probe->repo, err);
    if (rc != 0)
        return rc;
    spec.repo = probe->repo;
    spec.revision = commit;
    spec.image = doctor->options->image;
    spec.policy = doctor->policy;
    return rsbx_session_create(&probe->session, probe->state, &spec, doctor->options->cancel_fd,
                               err);
}

/* Closed, seen to be gone, and the folder with it. */
static int end(struct probe *probe, int place_fd, reposbx_error *err)
{
    reposbx_reap_report report = { .items = NULL };
    int rc = REPOSBX_OK;

    if (probe->session != NULL)
        rc = rsbx_session_close(probe->session, REPOSBX_DROP_AUDIT, err);
    rsbx_session_free(probe->session);
    probe->session = NULL;
    if (rc == 0)
        rc = rsbx_reap(&report, probe->state, 1, err);
    if (rc == 0 && report.count > 0)
        rc = rsbx_fail(err, REPOSBX_EUNAVAILABLE, "%s is left", report.items[0].object);
    rsbx_reap_report_dispose(&report);
    if (rc == 0)
        rc = rsbx_remove_tree_at(place_fd, "state", err);
    if (rc == 0)
        rc = rsbx_remove_tree_at(place_fd, "repo", err);
    if (rc != 0)
        rsbx_hint(err, "reposbx --state-dir %s reap removes it", probe->state_dir);
    return rc;
}

static void skip_probe(struct rsbx_doctor *doctor, const char *why)
{
    rsbx_doctor_skip(doctor, trials[0].name, "%s", why);
    rsbx_doctor_inside_skip(doctor, why);
    skip_trials(doctor, 1, why);
    rsbx_doctor_skip(doctor, "workspace", "%s", why);
}

void rsbx_doctor_probe(struct rsbx_doctor *doctor)
{
    struct probe probe = { .doctor = doctor };
    RSBX_AUTO(rsbx_fd) int place_fd = -1;
    reposbx_error err = REPOSBX_ERROR_INIT;
    int rc;

    if (!doctor->has_image || doctor->provider == NULL) {
        rsbx_doctor_skip(doctor, "session", "nothing may be run, by the rows above");
        skip_probe(doctor, "there is no session");
        return;
    }
    rc = take_place(&place_fd, &probe, &err);
    if (rc == 0)
        rc = begin(&probe, place_fd, &err);
    rsbx_doctor_judge(doctor, "session", rc, &err, "made, and its containers see the policy's limits");
    if (rc == 0) {
        try_all(&probe);
        judge_workspace(&probe);
    } else {
        skip_probe(doctor, "there is no session");
    }
    if (probe.state != NULL) {
        rc = end(&probe, place_fd, &err);
        rsbx_doctor_judge(doctor, "nothing_left", rc, &err, "all that was made is gone");
        if (rc == 0)
            (void)rmdir(probe.place);
    }
    rsbx_state_free(probe.state);
}
