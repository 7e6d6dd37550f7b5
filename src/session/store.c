/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/limits.h"
#include "base/text.h"
#include "session/internal.h"

#include "base/banned.h"

#define ID_PREFIX "sbx-"
#define ID_DIGITS 32U

bool rsbx_session_id_valid(const char *id)
{
    size_t prefix = strlen(ID_PREFIX);

    return strncmp(id, ID_PREFIX, prefix) == 0 && strlen(id) == prefix + ID_DIGITS &&
           rsbx_is_hex(id + prefix, ID_DIGITS);
}

/* The documented default of the state folder. */
static int default_dir(char **out, reposbx_error *err)
{
    const char *own = getenv("REPOSBX_STATE_DIR");
    const char *state_home = getenv("XDG_STATE_HOME");
    const char *home = getenv("HOME");
    char *text = NULL;
    int length;

    if (own != NULL && own[0] != '\0')
        length = asprintf(&text, "%s", own);
    else if (state_home != NULL && state_home[0] == '/')
        length = asprintf(&text, "%s/reposbx", state_home);
    else if (geteuid() == 0)
        length = asprintf(&text, "/var/lib/reposbx");
    else if (home != NULL && home[0] == '/')
        length = asprintf(&text, "%s/.local/state/reposbx", home);
    else
        return rsbx_fail(err, REPOSBX_EINVALID, "no state folder: HOME is not set; use --state-dir");
    if (length < 0)
        return rsbx_fail_memory(err);
    *out = text;
    return REPOSBX_OK;
}

static int default_engine(char **out, reposbx_error *err)
{
    const char *own = getenv("REPOSBX_ENGINE");
    char *text = NULL;
    int length = own != NULL && own[0] != '\0'
                     ? asprintf(&text, "%s", own)
                     : asprintf(&text, "unix:///run/user/%ld/docker.sock", (long)geteuid());

    if (length < 0)
        return rsbx_fail_memory(err);
    *out = text;
    return REPOSBX_OK;
}

/* mkdir -p, each part 0700. */
static int make_folders(const char *path, reposbx_error *err)
{
    RSBX_AUTO(rsbx_text) char *copy = strdup(path);

    if (copy == NULL)
        return rsbx_fail_memory(err);
    for (char *p = copy + 1; *p != '\0'; p++) {
        if (*p != '/')
            continue;
        *p = '\0';
        if (mkdir(copy, 0700) != 0 && errno != EEXIST)
            return rsbx_fail_errno(err, REPOSBX_EIO, "cannot make %s", copy);
        *p = '/';
    }
    if (mkdir(copy, 0700) != 0 && errno != EEXIST)
        return rsbx_fail_errno(err, REPOSBX_EIO, "cannot make %s", copy);
    return REPOSBX_OK;
}

/* Only we may write to the state folder: whoever can, can forge every record in it. */
static int check_folder(int fd, const char *path, reposbx_error *err)
{
    struct stat facts;

    if (fstat(fd, &facts) != 0)
        return rsbx_fail_errno(err, REPOSBX_EIO, "cannot stat %s", path);
    if (facts.st_uid != geteuid()) {
        (void)rsbx_fail(err, REPOSBX_EPOLICY, "state folder %s belongs to user %ld", path,
                        (long)facts.st_uid);
        rsbx_hint(err, "give a folder of your own with --state-dir");
        return REPOSBX_EPOLICY;
    }
    if ((facts.st_mode & 022) != 0) {
        (void)rsbx_fail(err, REPOSBX_EPOLICY, "others can write to the state folder %s (mode %03o)",
                        path, (unsigned)(facts.st_mode & 0777));
        rsbx_hint(err, "chmod 700 %s, or give another folder with --state-dir", path);
        return REPOSBX_EPOLICY;
    }
    return REPOSBX_OK;
}

static int open_folder(int *out, int at_fd, const char *name, bool make, reposbx_error *err)
{
    RSBX_AUTO(rsbx_fd) int fd = -1;
    int rc;

    if (make && mkdirat(at_fd, name, 0700) != 0 && errno != EEXIST)
        return rsbx_fail_errno(err, REPOSBX_EIO, "cannot make %s", name);
    fd = openat(at_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return rsbx_fail_errno(err, errno == ENOENT ? REPOSBX_ENOTFOUND : REPOSBX_EIO,
                               "cannot open %s", name);
    rc = check_folder(fd, name, err);
    if (rc == 0)
        *out = rsbx_fd_steal(&fd);
    return rc;
}

int rsbx_state_open(struct rsbx_state **out, const char *engine, const char *dir,
                    reposbx_error *err)
{
    RSBX_AUTO(rsbx_text) char *own_dir = NULL;
    RSBX_AUTO(rsbx_text) char *own_engine = NULL;
    RSBX_AUTO(rsbx_fd) int dir_fd = -1;
    struct rsbx_state *state;
    int sessions_fd = -1;
    int rc = REPOSBX_OK;

    if (dir != NULL && (own_dir = strdup(dir)) == NULL)
        return rsbx_fail_memory(err);
    if (engine != NULL && (own_engine = strdup(engine)) == NULL)
        return rsbx_fail_memory(err);
    if (dir == NULL)
        rc = default_dir(&own_dir, err);
    if (rc == 0 && engine == NULL)
        rc = default_engine(&own_engine, err);
    if (rc != 0)
        return rc;
    if (own_dir[0] == '\0')
        return rsbx_fail(err, REPOSBX_EINVALID, "the state folder's name is empty");
    rc = make_folders(own_dir, err);
    if (rc != 0)
        return rc;
    dir_fd = open(own_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir_fd < 0)
        return rsbx_fail_errno(err, REPOSBX_EIO, "cannot open the state folder %s", own_dir);
    rc = check_folder(dir_fd, own_dir, err);
    if (rc == 0)
        rc = open_folder(&sessions_fd, dir_fd, "sessions", true, err);
    if (rc != 0)
        return rc;
    state = calloc(1, sizeof *state);
    if (state == NULL) {
        (void)close(sessions_fd);
        return rsbx_fail_memory(err);
    }
    state->sessions_fd = sessions_fd;
    state->dir_fd = rsbx_fd_steal(&dir_fd);
    state->dir = realpath(own_dir, NULL);
    if (state->dir == NULL)
        state->dir = rsbx_text_steal(&own_dir);
    state->engine = rsbx_text_steal(&own_engine);
    *out = state;
    return REPOSBX_OK;
}

void rsbx_state_free(struct rsbx_state *state)
{
    if (state == NULL)
        return;
    (void)close(state->sessions_fd);
    (void)close(state->dir_fd);
    free(state->dir);
    free(state->engine);
    free(state);
}

const char *rsbx_state_dir(const struct rsbx_state *state)
{
    return state->dir;
}

const char *rsbx_state_engine(const struct rsbx_state *state)
{
    return state->engine;
}

static int no_session(const char *id, reposbx_error *err)
{
    (void)rsbx_fail(err, REPOSBX_ENOTFOUND, "no session %s", id);
    rsbx_hint(err, "reposbx session list shows the sessions of this state folder");
    return REPOSBX_ENOTFOUND;
}

int rsbx_session_folder(struct rsbx_session **out, struct rsbx_state *state, const char *id,
                        bool make, reposbx_error *err)
{
    RSBX_AUTO(rsbx_session) struct rsbx_session *session = NULL;
    int rc;

    if (!rsbx_session_id_valid(id))
        return no_session(id, err);
    if (make && mkdirat(state->sessions_fd, id, 0700) != 0)
        return rsbx_fail_errno(err, REPOSBX_EIO, "cannot make the folder of session %s", id);
    session = calloc(1, sizeof *session);
    if (session == NULL)
        return rsbx_fail_memory(err);
    session->dir_fd = session->audit_fd = session->lock_fd = session->journal_fd = -1;
    session->cancel_fd = -1;
    (void)snprintf(session->id, sizeof session->id, "%s", id);
    session->state_fd = fcntl(state->dir_fd, F_DUPFD_CLOEXEC, 3);
    if (session->state_fd < 0)
        return rsbx_fail_errno(err, REPOSBX_EINTERNAL, "cannot keep the state folder open");
    rc = open_folder(&session->dir_fd, state->sessions_fd, id, false, err);
    if (rc == REPOSBX_ENOTFOUND)
        return no_session(id, err);
    if (rc != 0)
        return rc;
    session->engine = strdup(state->engine);
    if (session->engine == NULL ||
        asprintf(&session->audit_dir, "%s/sessions/%s/audit", state->dir, id) < 0) {
        session->audit_dir = NULL;
        return rsbx_fail_memory(err);
    }
    *out = rsbx_session_steal(&session);
    return REPOSBX_OK;
}

int rsbx_session_take_lock(struct rsbx_session *session, reposbx_error *err)
{
    session->lock_fd =
        openat(session->dir_fd, "lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (session->lock_fd < 0)
        return rsbx_fail_errno(err, REPOSBX_EIO, "cannot open the lock of %s", session->id);
    if (flock(session->lock_fd, LOCK_EX | LOCK_NB) != 0) {
        if (errno != EWOULDBLOCK)
            return rsbx_fail_errno(err, REPOSBX_EIO, "cannot lock %s", session->id);
        (void)rsbx_fail(err, REPOSBX_EBUSY, "session %s is in use by another process", session->id);
        rsbx_hint(err, "a session runs one thing at a time; try again when it has ended");
        return REPOSBX_EBUSY;
    }
    return REPOSBX_OK;
}

int rsbx_session_save(struct rsbx_session *session, const char *name, const json_t *document,
                      reposbx_error *err)
{
    RSBX_AUTO(rsbx_text) char *text = NULL;
    int rc = rsbx_json_text(&text, document, err);

    if (rc == 0)
        rc = rsbx_replace_file_at(session->dir_fd, name, text, strlen(text), err);
    return rc;
}

int rsbx_session_load(json_t **out, int dir_fd, const char *name, reposbx_error *err)
{
    RSBX_AUTO(rsbx_buf) struct rsbx_buf text = RSBX_BUF_INIT(RSBX_MAX_STATE_BYTES);
    int rc = rsbx_read_file_at(&text, dir_fd, name, err);

    if (rc == 0)
        rc = rsbx_json_parse(out, text.data != NULL ? text.data : "", text.length, name, err);
    return rc;
}

int rsbx_session_forget(struct rsbx_state *state, const char *id, reposbx_error *err)
{
    int rc = rsbx_remove_tree_at(state->sessions_fd, id, err);

    if (rc == 0)
        rc = rsbx_sync_fd(state->sessions_fd, "the state folder", err);
    return rc;
}

struct rsbx_deadline rsbx_session_deadline(const struct rsbx_session *session, uint64_t milliseconds)
{
    return rsbx_deadline_or(rsbx_deadline_in_ms(milliseconds), &session->cancel_fd);
}

void rsbx_session_free(struct rsbx_session *session)
{
    if (session == NULL)
        return;
    rsbx_audit_free(session->audit);
    rsbx_provider_free(session->provider);
    json_decref(session->metadata);
    json_decref(session->spec);
    reposbx_policy_free(session->policy);
    free(session->seccomp_profile);
    free(session->engine);
    free(session->audit_dir);
    rsbx_journal_dispose(&session->journal);
    if (session->journal_fd >= 0)
        (void)close(session->journal_fd);
    if (session->audit_fd >= 0)
        (void)close(session->audit_fd);
    if (session->lock_fd >= 0)
        (void)close(session->lock_fd);
    if (session->dir_fd >= 0)
        (void)close(session->dir_fd);
    if (session->state_fd >= 0)
        (void)close(session->state_fd);
    free(session);
}

const char *rsbx_session_id(const struct rsbx_session *session)
{
    return session->id;
}

const char *rsbx_session_audit_dir(const struct rsbx_session *session)
{
    return session->audit_dir;
}

void rsbx_store_name(char out[RSBX_NAME_BYTES], const char *id, const char *role)
{
    (void)snprintf(out, RSBX_NAME_BYTES, "%s-%s", id, role);
}
