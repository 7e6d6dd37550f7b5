/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The journal: what exists of a session in the engine. One line each:
 *
 *     make slot NAME | make store NAME    durable before the object is made
 *     ready slot NAME                     it waits for a request
 *     take slot NAME                      somebody uses it: it must go afterwards
 *     gone slot NAME | gone store NAME    verified to be gone
 *     command                             a command was counted
 *     fault TEXT                          clearing up in the background failed: poisons
 *     slots N | commands N                so many more, in lines that are no longer here
 *
 * Lines are appended whole by one write() each, by the holder of the session and by its keepers
 * (keeper.c). A session can serve requests without end, so its holder now and then replaces the file
 * by a short one that says the same (rsbx_journal_shorten).
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/fd.h"
#include "base/limits.h"
#include "session/internal.h"

#include "base/banned.h"

/* From this length on it is shortened as soon as no keeper is at work; from the second one on that is
 * waited for. A request takes some 240 bytes. */
#define LONG_BYTES (64 * 1024)
#define TOO_LONG_BYTES (1024 * 1024)

static const char *kind_word(enum rsbx_object_kind kind)
{
    return kind == RSBX_OBJECT_SLOT ? "slot" : "store";
}

void rsbx_journal_dispose(struct rsbx_journal *journal)
{
    free(journal->left);
    free(journal->fault);
    journal->left = NULL;
    journal->fault = NULL;
    journal->left_count = 0;
    journal->slots_made = journal->commands_made = 0;
    journal->read = 0;
}

static int note_made(struct rsbx_journal *journal, enum rsbx_object_kind kind, const char *name,
                     reposbx_error *err)
{
    struct rsbx_journal_item *grown =
        realloc(journal->left, (journal->left_count + 1) * sizeof *journal->left);
    struct rsbx_journal_item *item;

    if (grown == NULL)
        return rsbx_fail_memory(err);
    journal->left = grown;
    item = &grown[journal->left_count++];
    item->kind = kind;
    item->stage = RSBX_STAGE_MADE;
    (void)snprintf(item->name, sizeof item->name, "%s", name);
    if (kind == RSBX_OBJECT_SLOT)
        journal->slots_made++;
    return REPOSBX_OK;
}

static void note_gone(struct rsbx_journal *journal, const char *name)
{
    size_t kept = 0;

    for (size_t i = 0; i < journal->left_count; i++) {
        if (strcmp(journal->left[i].name, name) != 0)
            journal->left[kept++] = journal->left[i];
    }
    journal->left_count = kept;
}

static void note_stage(struct rsbx_journal *journal, const char *name,
                       enum rsbx_journal_stage stage)
{
    for (size_t i = 0; i < journal->left_count; i++) {
        if (strcmp(journal->left[i].name, name) == 0)
            journal->left[i].stage = stage;
    }
}

static int read_line(struct rsbx_journal *journal, const char *line, reposbx_error *err)
{
    char verb[8];
    char kind[8];
    char name[RSBX_NAME_BYTES];
    uint64_t count;

    if (strcmp(line, "command") == 0) {
        journal->commands_made++;
        return REPOSBX_OK;
    }
    if (strncmp(line, "fault ", 6) == 0) {
        if (journal->fault == NULL && (journal->fault = strdup(line + 6)) == NULL)
            return rsbx_fail_memory(err);
        return REPOSBX_OK;
    }
    if (sscanf(line, "slots %" SCNu64, &count) == 1) {
        journal->slots_made += count;
        return REPOSBX_OK;
    }
    if (sscanf(line, "commands %" SCNu64, &count) == 1) {
        journal->commands_made += count;
        return REPOSBX_OK;
    }
    if (sscanf(line, "%7s %7s %111s", verb, kind, name) != 3)
        return rsbx_fail(err, REPOSBX_EIO, "the journal holds a line that does not parse");
    if (strcmp(verb, "make") == 0)
        return note_made(journal,
                         strcmp(kind, "slot") == 0 ? RSBX_OBJECT_SLOT : RSBX_OBJECT_STORE, name,
                         err);
    if (strcmp(verb, "ready") == 0)
        note_stage(journal, name, RSBX_STAGE_READY);
    else if (strcmp(verb, "take") == 0)
        note_stage(journal, name, RSBX_STAGE_TAKEN);
    else
        note_gone(journal, name);
    return REPOSBX_OK;
}

/* Takes in the whole lines that follow what was read. */
static int read_on(struct rsbx_journal *journal, int dir_fd, reposbx_error *err)
{
    RSBX_AUTO(rsbx_buf) struct rsbx_buf text = RSBX_BUF_INIT(RSBX_MAX_STATE_BYTES);
    char *line;
    int rc = rsbx_read_file_from(&text, dir_fd, "journal", journal->read, err);

    if (rc == REPOSBX_ENOTFOUND)
        return REPOSBX_OK; /* nothing was made yet */
    if (rc != 0)
        return rc;
    line = text.data;
    while (line != NULL) {
        char *end = strchr(line, '\n');

        if (end == NULL)
            break; /* torn: never acknowledged, so nothing was made on its word */
        *end = '\0';
        rc = read_line(journal, line, err);
        if (rc != 0)
            return rc;
        journal->read += end + 1 - line;
        line = end + 1;
    }
    return REPOSBX_OK;
}

int rsbx_journal_read(struct rsbx_journal *out, int dir_fd, reposbx_error *err)
{
    struct rsbx_journal journal = { 0 };
    int rc = read_on(&journal, dir_fd, err);

    if (rc != 0) {
        rsbx_journal_dispose(&journal);
        return rc;
    }
    *out = journal;
    return REPOSBX_OK;
}

int rsbx_journal_follow(struct rsbx_session *session, reposbx_error *err)
{
    int rc = read_on(&session->journal, session->dir_fd, err);

    session->slots_made = session->journal.slots_made;
    session->commands_made = session->journal.commands_made;
    return rc;
}

/* The lines that say what the journal says. */
static int short_lines(struct rsbx_buf *out, const struct rsbx_journal *journal, reposbx_error *err)
{
    uint64_t slots_left = 0;
    int rc;

    for (size_t i = 0; i < journal->left_count; i++)
        slots_left += journal->left[i].kind == RSBX_OBJECT_SLOT ? 1 : 0;
    rc = rsbx_buf_format(out, err, "slots %" PRIu64 "\ncommands %" PRIu64 "\n",
                         journal->slots_made - slots_left, journal->commands_made);
    for (size_t i = 0; rc == 0 && i < journal->left_count; i++) {
        const struct rsbx_journal_item *item = &journal->left[i];

        rc = rsbx_buf_format(out, err, "make %s %s\n", kind_word(item->kind), item->name);
        if (rc == 0 && item->stage != RSBX_STAGE_MADE)
            rc = rsbx_buf_format(out, err, "%s slot %s\n",
                                 item->stage == RSBX_STAGE_READY ? "ready" : "take", item->name);
    }
    if (rc == 0 && journal->fault != NULL)
        rc = rsbx_buf_format(out, err, "fault %s\n", journal->fault);
    return rc;
}

int rsbx_journal_shorten(struct rsbx_session *session, reposbx_error *err)
{
    RSBX_AUTO(rsbx_buf) struct rsbx_buf text = RSBX_BUF_INIT(RSBX_MAX_STATE_BYTES);
    RSBX_AUTO(rsbx_fd) int keepers_fd = -1;
    bool must = session->journal.read >= TOO_LONG_BYTES;
    int rc;

    if (session->journal.read < LONG_BYTES)
        return REPOSBX_OK;
    rc = rsbx_keepers_wait(&keepers_fd, session, must ? RSBX_KEEPERS_MS : 0, err);
    if (rc == REPOSBX_EBUSY && !must)
        return REPOSBX_OK; /* another time */
    if (rc == 0)
        rc = rsbx_journal_follow(session, err); /* what the last keepers wrote */
    if (rc == 0)
        rc = short_lines(&text, &session->journal, err);
    if (rc == 0)
        rc = rsbx_replace_file_at(session->dir_fd, "journal", text.data, text.length, err);
    if (rc != 0)
        return rc;
    if (session->journal_fd >= 0)
        (void)close(session->journal_fd);
    session->journal_fd = -1;
    rsbx_journal_dispose(&session->journal);
    return rsbx_journal_follow(session, err);
}

int rsbx_journal_watch(const struct rsbx_session *session)
{
    RSBX_AUTO(rsbx_fd) int fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    char path[64];

    (void)snprintf(path, sizeof path, "/proc/self/fd/%d/journal", session->dir_fd);
    if (fd < 0 || inotify_add_watch(fd, path, IN_MODIFY) < 0)
        return -1;
    return rsbx_fd_steal(&fd);
}

/* Opens for appending; a torn last line is ended first, so that nothing is ever glued to it. */
static int open_journal(struct rsbx_session *session, reposbx_error *err)
{
    RSBX_AUTO(rsbx_buf) struct rsbx_buf text = RSBX_BUF_INIT(RSBX_MAX_STATE_BYTES);
    RSBX_AUTO(rsbx_fd) int fd = -1;
    off_t known = session->journal.read; /* whole lines */
    const char *last;
    size_t whole;
    int rc;

    if (session->journal_fd >= 0)
        return REPOSBX_OK;
    fd = openat(session->dir_fd, "journal", O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW,
                0600);
    if (fd < 0)
        return rsbx_fail_errno(err, REPOSBX_EIO, "cannot open the journal");
    rc = rsbx_read_file_from(&text, session->dir_fd, "journal", known, err);
    if (rc != 0)
        return rc;
    last = text.length > 0 ? memrchr(text.data, '\n', text.length) : NULL;
    whole = last != NULL ? (size_t)(last - text.data) + 1 : 0;
    /* A torn line is left by a crash, and after a crash nobody else writes. */
    if (whole < text.length && ftruncate(fd, known + (off_t)whole) != 0)
        return rsbx_fail_errno(err, REPOSBX_EIO, "cannot mend the journal");
    if (known == 0 && text.length == 0)
        rc = rsbx_sync_fd(session->dir_fd, "the session folder", err);
    if (rc == 0)
        session->journal_fd = rsbx_fd_steal(&fd);
    return rc;
}

static int append(struct rsbx_session *session, const char *text, reposbx_error *err)
{
    int rc = open_journal(session, err);
    ssize_t length = (ssize_t)strlen(text);

    if (rc == 0 && write(session->journal_fd, text, (size_t)length) != length)
        rc = rsbx_fail_errno(err, REPOSBX_EIO, "cannot write the journal");
    return rc;
}

int rsbx_journal_sync(struct rsbx_session *session, reposbx_error *err)
{
    if (session->journal_fd < 0 || fdatasync(session->journal_fd) != 0)
        return rsbx_fail_errno(err, REPOSBX_EIO, "cannot sync the journal");
    RSBX_FAULT("journal.synced");
    return REPOSBX_OK;
}

int rsbx_journal_plan(struct rsbx_session *session, enum rsbx_object_kind kind, const char *name,
                      reposbx_error *err)
{
    char line[RSBX_NAME_BYTES + 32];
    int rc;

    (void)snprintf(line, sizeof line, "make %s %s\n", kind_word(kind), name);
    rc = append(session, line, err);
    if (rc == 0 && kind == RSBX_OBJECT_SLOT)
        session->slots_made++;
    return rc;
}

int rsbx_journal_make(struct rsbx_session *session, enum rsbx_object_kind kind, const char *name,
                      reposbx_error *err)
{
    int rc = rsbx_journal_plan(session, kind, name, err);

    return rc == 0 ? rsbx_journal_sync(session, err) : rc;
}

int rsbx_journal_stage(struct rsbx_session *session, const char *name,
                       enum rsbx_journal_stage stage, reposbx_error *err)
{
    char line[RSBX_NAME_BYTES + 32];

    (void)snprintf(line, sizeof line, "%s slot %s\n", stage == RSBX_STAGE_READY ? "ready" : "take",
                   name);
    return append(session, line, err);
}

int rsbx_journal_command(struct rsbx_session *session, reposbx_error *err)
{
    int rc = append(session, "command\n", err);

    if (rc == 0)
        session->commands_made++;
    return rc;
}

int rsbx_journal_gone(struct rsbx_session *session, enum rsbx_object_kind kind, const char *name,
                      reposbx_error *err)
{
    char line[RSBX_NAME_BYTES + 32];

    RSBX_FAULT("journal.gone");
    (void)snprintf(line, sizeof line, "gone %s %s\n", kind_word(kind), name);
    return append(session, line, err);
}

int rsbx_journal_fault(struct rsbx_session *session, const char *text, reposbx_error *err)
{
    char line[REPOSBX_MESSAGE_BYTES + 32];

    /* An error's text has no newline: rsbx_fail made it printable. */
    (void)snprintf(line, sizeof line, "fault %s\n", text);
    return append(session, line, err);
}
