/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/fd.h"
#include "base/limits.h"
#include "session/internal.h"

#include "base/banned.h"

static const char *kind_word(enum rsbx_object_kind kind)
{
    return kind == RSBX_OBJECT_SLOT ? "slot" : "store";
}

void rsbx_journal_dispose(struct rsbx_journal *journal)
{
    free(journal->left);
    journal->left = NULL;
    journal->left_count = 0;
}

static int note_made(struct rsbx_journal *journal, enum rsbx_object_kind kind, const char *name,
                     reposbx_error *err)
{
    struct rsbx_journal_item *grown =
        realloc(journal->left, (journal->left_count + 1) * sizeof *journal->left);

    if (grown == NULL)
        return rsbx_fail_memory(err);
    journal->left = grown;
    grown[journal->left_count].kind = kind;
    (void)snprintf(grown[journal->left_count].name, RSBX_NAME_BYTES, "%s", name);
    journal->left_count++;
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

static int read_line(struct rsbx_journal *journal, const char *line, reposbx_error *err)
{
    char verb[8];
    char kind[8];
    char name[RSBX_NAME_BYTES];
    enum rsbx_object_kind object;

    if (strcmp(line, "command") == 0) {
        journal->commands_made++;
        return REPOSBX_OK;
    }
    if (sscanf(line, "%7s %7s %95s", verb, kind, name) != 3)
        return rsbx_fail(err, REPOSBX_EIO, "the journal holds a line that does not parse");
    object = strcmp(kind, "slot") == 0 ? RSBX_OBJECT_SLOT : RSBX_OBJECT_STORE;
    if (strcmp(verb, "make") == 0)
        return note_made(journal, object, name, err);
    note_gone(journal, name);
    return REPOSBX_OK;
}

int rsbx_journal_read(struct rsbx_journal *out, int dir_fd, reposbx_error *err)
{
    RSBX_AUTO(rsbx_buf) struct rsbx_buf text = RSBX_BUF_INIT(RSBX_MAX_STATE_BYTES);
    struct rsbx_journal journal = { 0 };
    char *line;
    int rc = rsbx_read_file_at(&text, dir_fd, "journal", err);

    if (rc == REPOSBX_ENOTFOUND) {
        *out = journal; /* nothing was made yet */
        return REPOSBX_OK;
    }
    if (rc != 0)
        return rc;
    line = text.data;
    while (rc == 0 && line != NULL) {
        char *end = strchr(line, '\n');

        if (end == NULL)
            break; /* torn: never acknowledged, so nothing was made on its word */
        *end = '\0';
        rc = read_line(&journal, line, err);
        line = end + 1;
    }
    if (rc != 0) {
        rsbx_journal_dispose(&journal);
        return rc;
    }
    *out = journal;
    return REPOSBX_OK;
}

/* Opens for appending; a torn last line is cut off first, so that nothing is ever glued to it. */
static int open_journal(struct rsbx_session *session, reposbx_error *err)
{
    RSBX_AUTO(rsbx_buf) struct rsbx_buf text = RSBX_BUF_INIT(RSBX_MAX_STATE_BYTES);
    RSBX_AUTO(rsbx_fd) int fd = -1;
    const char *last;
    off_t whole;
    int rc;

    if (session->journal_fd >= 0)
        return REPOSBX_OK;
    fd = openat(session->dir_fd, "journal", O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW,
                0600);
    if (fd < 0)
        return rsbx_fail_errno(err, REPOSBX_EIO, "cannot open the journal");
    rc = rsbx_read_file_at(&text, session->dir_fd, "journal", err);
    if (rc != 0)
        return rc;
    last = text.length > 0 ? memrchr(text.data, '\n', text.length) : NULL;
    whole = last != NULL ? (off_t)(last - text.data) + 1 : 0;
    if ((size_t)whole < text.length && ftruncate(fd, whole) != 0)
        return rsbx_fail_errno(err, REPOSBX_EIO, "cannot mend the journal");
    rc = rsbx_sync_fd(session->dir_fd, "the session folder", err);
    if (rc == 0)
        session->journal_fd = rsbx_fd_steal(&fd);
    return rc;
}

static int append(struct rsbx_session *session, const char *text, reposbx_error *err)
{
    int rc = open_journal(session, err);

    if (rc == 0 && rsbx_write_all(session->journal_fd, text, strlen(text)) != 0)
        rc = rsbx_fail_errno(err, REPOSBX_EIO, "cannot write the journal");
    return rc;
}

int rsbx_journal_make(struct rsbx_session *session, enum rsbx_object_kind kind, const char *name,
                      bool command, reposbx_error *err)
{
    char line[RSBX_NAME_BYTES + 32];
    int rc;

    (void)snprintf(line, sizeof line, "%smake %s %s\n", command ? "command\n" : "",
                   kind_word(kind), name);
    rc = append(session, line, err);
    if (rc == 0 && fdatasync(session->journal_fd) != 0)
        rc = rsbx_fail_errno(err, REPOSBX_EIO, "cannot sync the journal");
    if (rc != 0)
        return rc;
    if (kind == RSBX_OBJECT_SLOT)
        session->slots_made++;
    if (command)
        session->commands_made++;
    RSBX_FAULT("journal.made");
    return REPOSBX_OK;
}

int rsbx_journal_gone(struct rsbx_session *session, enum rsbx_object_kind kind, const char *name,
                      reposbx_error *err)
{
    char line[RSBX_NAME_BYTES + 32];

    RSBX_FAULT("journal.gone");
    (void)snprintf(line, sizeof line, "gone %s %s\n", kind_word(kind), name);
    return append(session, line, err);
}
